//! The parameters of a unit (a step, a render, a density rule) for its kernels: the records `Job` and `Rule`.
//!
//! Each record is declared once; its words and its WGSL structure are generated from the declaration. Planning kernels
//! bind it as a storage buffer and write its last fields; all other kernels bind the same bytes as a uniform.

use std::fmt::Write as _;

/// Workgroups in a row of a grid: below the 65,535 that one dimension may have.
pub(crate) const GRID_WIDTH: u32 = 32_768;
/// Values that a workgroup scans, or keys that it sorts.
pub(crate) const SCAN_BLOCK: u32 = 4096;
/// Clocks after which both bias corrections are 1 in f32: `0.999^20000 = 2e-9`.
pub(crate) const BIAS_CLOCKS: u32 = 20_000;
/// Words of the sums of a group of 256 splats: 15 of the pose, and updates that were skipped.
pub(crate) const SUMS_STRIDE: u32 = 16;
/// Floats of the sums of a tile: 12 of the colours, 27 of the sky.
pub(crate) const TILE_SUMS: u32 = 33;
/// Where a row is that is not there.
pub(crate) const NOWHERE: u32 = u32::MAX;

/// Indices of the indirect arguments.
pub(crate) mod argument {
    /// One workgroup per 256 splats.
    pub(crate) const SPLATS: u32 = 0;
    /// Per 256 visible splats.
    pub(crate) const VISIBLE: u32 = 1;
    /// Per 4096 visible splats.
    pub(crate) const VISIBLE_BLOCKS: u32 = 2;
    /// Per 4096 digit counts of the sort of visible splats.
    pub(crate) const VISIBLE_COUNTS: u32 = 3;
    /// Per 256 entries.
    pub(crate) const ENTRIES: u32 = 4;
    /// Per 4096 entries.
    pub(crate) const ENTRY_BLOCKS: u32 = 5;
    /// Per 4096 digit counts of the sort of entries.
    pub(crate) const ENTRY_COUNTS: u32 = 6;
    /// One workgroup.
    pub(crate) const ONE: u32 = 7;
    /// One workgroup per tile.
    pub(crate) const TILES: u32 = 8;
    /// One workgroup per tile of a band.
    pub(crate) const BAND: u32 = 9;
    /// A part of another dispatch.
    pub(crate) const WINDOW: u32 = 10;
    /// Per 256 queries or rays.
    pub(crate) const QUERIES: u32 = 11;
    /// Number of arguments.
    pub(crate) const COUNT: u32 = 12;
}

/// Words of the status of a unit.
pub(crate) mod status {
    /// Why the unit stopped: one of `super::halt`.
    pub(crate) const HALT: usize = 0;
    /// Visible splats.
    pub(crate) const VISIBLE: usize = 1;
    /// Entries; if there were too many, those of the band.
    pub(crate) const ENTRIES: usize = 2;
    /// Tiles whose list was cut.
    pub(crate) const CUT_TILES: usize = 3;
    /// Skipped updates.
    pub(crate) const SKIPPED: usize = 4;
    /// Dead splats.
    pub(crate) const DEAD: usize = 5;
    /// Bits of Σ |x - y|.
    pub(crate) const ABSOLUTE: usize = 6;
    /// Bits of Σ S.
    pub(crate) const SSIM: usize = 7;
    /// 1 at the end of a step.
    pub(crate) const DONE: usize = 8;
    /// Number of the unit that wrote this status.
    pub(crate) const NUMBER: usize = 9;
    /// Of a rule: number of splats afterwards, or needed if they do not fit.
    pub(crate) const SPLATS: usize = 1;
    /// Of a rule: the id of the next new splat.
    pub(crate) const NEXT_ID: usize = 2;
    /// Of a rule: splats cloned.
    pub(crate) const CLONED: usize = 3;
    /// Of a rule: splats split.
    pub(crate) const SPLIT: usize = 4;
    /// Of a rule: splats removed.
    pub(crate) const PRUNED: usize = 5;
    /// Of a rule: splats relocated.
    pub(crate) const RELOCATED: usize = 6;
    /// Of a rule: splats added.
    pub(crate) const ADDED: usize = 7;
    /// Of a rule: splats made transparent in free space.
    pub(crate) const CLEARED: usize = 10;
    /// Entries of the longest list that was blended.
    pub(crate) const LONGEST: usize = 11;
    /// Tile rows that were done before the unit stopped for too many entries.
    pub(crate) const DONE_ROWS: usize = 12;
    /// Number of words.
    pub(crate) const WORDS: usize = 16;
}

/// Why a unit stopped.
pub(crate) mod halt {
    /// It did not stop.
    pub(crate) const NOT: u32 = 0;
    /// More entries than fit.
    pub(crate) const CAPACITY: u32 = 1;
    /// A loss that is not finite.
    pub(crate) const LOSS: u32 = 2;
    /// More splats than fit.
    pub(crate) const SPLATS: u32 = 3;
    /// More visible splats than fit.
    pub(crate) const VISIBLE: u32 = 4;
}

/// Words of the census: the device's own counts of its splats, which may be ahead of the host's.
pub(crate) mod census {
    /// Number of splats.
    pub(crate) const SPLATS: u32 = 0;
    /// Id of the next new splat.
    pub(crate) const NEXT_ID: u32 = 1;
    /// Ranks of the corners of the bounding box of a rule's rows.
    pub(crate) const BOX: u32 = 2;
    /// Morton cells per unit, three words for each axis.
    pub(crate) const GRID: u32 = 8;
    /// Number of words.
    pub(crate) const WORDS: u32 = 20;
}

/// Bits of [`Rule::flags`].
pub(crate) mod rule_flag {
    /// The statistics of all splats are cleared.
    pub(crate) const CLEARS: u32 = 1;
    /// The set of splats does not change.
    pub(crate) const STAYS: u32 = 2;
    /// There is evidence of earlier free-space views.
    pub(crate) const LOOKED: u32 = 4;
}

/// Bits of [`Job::flags`].
pub(crate) mod flag {
    /// Antialiased mode.
    pub(crate) const ANTIALIASED: u32 = 1;
    /// Only splats with a gradient are updated.
    pub(crate) const SPARSE: u32 = 2;
    /// Statistics of summed gradients.
    pub(crate) const SIGNED: u32 = 4;
    /// Statistics of absolute gradients.
    pub(crate) const ABSOLUTE: u32 = 8;
    /// Noise on the means.
    pub(crate) const NOISE: u32 = 16;
    /// SSIM is part of the loss.
    pub(crate) const SSIM: u32 = 32;
    /// The image has a mask.
    pub(crate) const MASK: u32 = 64;
    /// The image has coverage.
    pub(crate) const COVERAGE: u32 = 128;
    /// The gradient of the pose is requested.
    pub(crate) const POSE: u32 = 256;
    /// The row of the pose moves a rig.
    pub(crate) const RIG: u32 = 512;
    /// The unit lifts a halt of an earlier unit.
    pub(crate) const LIFTS: u32 = 1024;
}

/// A field as words and in WGSL.
trait Field {
    const WGSL: &'static str;
    fn push(&self, words: &mut Vec<u32>);
}

impl Field for u32 {
    const WGSL: &'static str = "u32";
    fn push(&self, words: &mut Vec<u32>) {
        words.push(*self);
    }
}

impl Field for f32 {
    const WGSL: &'static str = "f32";
    fn push(&self, words: &mut Vec<u32>) {
        words.push(self.to_bits());
    }
}

impl Field for [f32; 4] {
    const WGSL: &'static str = "vec4<f32>";
    fn push(&self, words: &mut Vec<u32>) {
        words.extend(self.map(f32::to_bits));
    }
}

impl Field for [u32; 4] {
    const WGSL: &'static str = "vec4<u32>";
    fn push(&self, words: &mut Vec<u32>) {
        words.extend(self);
    }
}

/// A structure that is uploaded to the device.
pub(crate) trait Record {
    /// Size in bytes.
    const BYTES: u64;

    /// Its content as words.
    fn words(&self) -> Vec<u32>;
}

macro_rules! record {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq)]
        pub(crate) struct $name { $($(#[$doc])* pub(crate) $field: $type,)* }

        impl Record for $name {
            const BYTES: u64 = size_of::<Self>() as u64;

            fn words(&self) -> Vec<u32> {
                let mut words = Vec::new();
                $(self.$field.push(&mut words);)*
                words
            }
        }

        impl $name {
            /// Its structure in WGSL.
            pub(crate) fn wgsl() -> String {
                let mut text = format!("struct {} {{\n", stringify!($name));
                $(let _ = writeln!(text, "    {}: {},", stringify!($field), <$type as Field>::WGSL);)*
                text + "}\n"
            }
        }
    };
}

record! {
    /// The camera of a unit. Rows of `camera_from_world` with the translation as fourth value.
    View {
        rotation_0: [f32; 4],
        rotation_1: [f32; 4],
        rotation_2: [f32; 4],
        /// Camera centre in the world, near plane.
        origin: [f32; 4],
        /// Focal lengths and principal point, px.
        lens: [f32; 4],
        /// Ranges of x/z and y/z outside which the Jacobian clamps them.
        ratio: [f32; 4],
    }
}

record! {
    /// The parameters of a unit. Vectors come first, so that there are no gaps.
    Job {
        /// The view before its learned correction.
        base_0: [f32; 4],
        base_1: [f32; 4],
        base_2: [f32; 4],
        /// Camera centre, near plane.
        base_origin: [f32; 4],
        /// Focal lengths and principal point, px.
        lens: [f32; 4],
        /// As in `View`.
        ratio: [f32; 4],
        /// `camera_from_rig`, as the base.
        rig_0: [f32; 4],
        rig_1: [f32; 4],
        rig_2: [f32; 4],
        /// Colour behind the splats.
        background: [f32; 4],
        /// Offsets of a row: values, first moments, second moments, clock; the first is `NOWHERE` if there is none.
        gain_row: [u32; 4],
        vignetting_row: [u32; 4],
        pose_row: [u32; 4],
        sky_row: [u32; 4],
        /// Rate of the first half, rate of the second half, decay, 1 if the row is updated.
        gain_rates: [f32; 4],
        vignetting_rates: [f32; 4],
        pose_rates: [f32; 4],
        sky_rates: [f32; 4],
        /// Number of the unit.
        unit: u32,
        /// Number of splats of the page, which the device updates; then the capacity, which is the distance between
        /// planes.
        splats: u32,
        capacity: u32,
        /// Capacity for entries.
        entry_capacity: u32,
        /// Splats from this index on are not rendered.
        only_first: u32,
        /// Size of the image in px and tiles.
        width: u32,
        height: u32,
        tiles_x: u32,
        tiles: u32,
        /// SH degree in use.
        sh_degree: u32,
        /// Bits of `flag`.
        flags: u32,
        /// Maximum length of a tile's list.
        cap: u32,
        /// Number of splats, of 65,536, that dropout leaves out.
        dropout_limit: u32,
        seed_low: u32,
        seed_high: u32,
        step_low: u32,
        step_high: u32,
        /// Gradient of L1 and of SSIM: `(1 - w) / values`, `-w / values`.
        l1_factor: f32,
        ssim_factor: f32,
        /// One over the square of half the diagonal, 1/px².
        vignetting_scale: f32,
        /// The gain rows, whose mean is held at 0: first value, number of rows.
        gain_values: u32,
        gain_rows: u32,
        rate_means: f32,
        rate_log_scales: f32,
        rate_quats: f32,
        rate_opacities: f32,
        rate_sh_dc: f32,
        rate_sh_rest: f32,
        /// Bias corrections of dense updates.
        dense_first: f32,
        dense_second: f32,
        /// Regularisation weights; the device divides them by the number of splats.
        opacity_pull: f32,
        scale_pull: f32,
        noise_scale: f32,
        noise_fade: f32,
        /// One over the contraction radius; 0 = none.
        inverse_contraction: f32,
        /// Written on the device: number of visible splats, and of entries of all tiles.
        visible: u32,
        entries: u32,
        /// Number of queries, or of rays of a free-space view.
        queries: u32,
        /// Number of tile rows per band; then, written on the device, the first row of the band and one past the last.
        band_rows: u32,
        band_top: u32,
        band_bottom: u32,
        /// Written on the device: whether the lists are built a second time, for the backward pass.
        is_back: u32,
        /// Entries per chunk of a list; number of chunks; and, written on the device, the current chunk.
        chunk_entries: u32,
        chunks: u32,
        chunk: u32,
        /// Written on the device, for a dispatch in parts: first workgroup, parts done.
        first_group: u32,
        window: u32,
        /// Capacity for visible splats, which is the distance between planes of their records.
        drawn_capacity: u32,
        /// Written on the device: first splat of the page.
        first_splat: u32,
        /// Pixels of the whole image per pixel.
        downscale: f32,
        /// Written on the device: tile rows done before the unit was halted and submitted again.
        done_rows: u32,
        /// To whole vectors.
        unused_0: u32,
    }
}

record! {
    /// The parameters of the kernels of a density rule in addition to the job.
    Rule {
        seed_low: u32,
        seed_high: u32,
        step_low: u32,
        step_high: u32,
        /// Thresholds, as `gausset_density::decide::Thresholds`.
        gradient_threshold: f32,
        clone_log_scale: f32,
        log_shrink: f32,
        prune_logit: f32,
        prune_log_scale: f32,
        prune_radius: f32,
        max_splats: u32,
        /// Bits of `rule_flag`.
        flags: u32,
        /// Splats of at most this logit are dead.
        dead_logit: f32,
        /// Smallest opacity of a copy.
        min_opacity: f32,
        /// Growth as the bits of an f64.
        growth_low: u32,
        growth_high: u32,
        /// Fraction of the splats that are never halved, as the bits of an f64.
        whole_low: u32,
        whole_high: u32,
        /// Blocks of SH coefficients that are stored.
        sh_blocks: u32,
        /// Highest logit after a reset, or the logit of removed splats.
        reset_logit: f32,
        /// Written on the device: number of splats that may grow, rows of existing splats, rows of new ones.
        room: u32,
        kept: u32,
        added: u32,
        /// Id of the first new splat.
        first_id: u32,
        /// Sum of all weights.
        total_low: u32,
        total_high: u32,
        /// Rank of the size above which a splat is halved.
        size_limit: u32,
        /// Free space: empty fraction of a ray; integer for a weight of 1; smallest sum and smallest number that remove
        /// a splat.
        reach: f32,
        weight_unit: f32,
        least_weight: u32,
        least_points: u32,
        /// Number of bubbles; number of cameras after them; distance of a confirming camera as a multiple of the
        /// distance from the bubble's centre.
        bubbles: u32,
        cameras: u32,
        near: f32,
        /// Padding.
        unused_0: u32,
        unused_1: u32,
    }
}

impl Job {
    /// Number of tile rows.
    pub(crate) fn tile_rows(&self) -> u32 {
        self.tiles / self.tiles_x.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_whole_vectors() {
        assert_eq!((Job::BYTES % 16, View::BYTES % 16, Rule::BYTES % 16), (0, 0, 0));
        assert_eq!(Job::BYTES, 4 * Job::default().words().len() as u64);
    }
}
