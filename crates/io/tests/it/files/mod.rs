//! Shared by the tests of files: small states and splats in which all values differ.
#![allow(clippy::print_stderr, reason = "a skipped test says why")]

use std::io::{self, Write};
use std::path::Path;

use gausset_core::Splats;
use gausset_core::engine::{AdamMoments, CorrectionGroup, CorrectionKind, DensityStatistics, TrainState};
use gausset_io::atomic::{FileSystem, WriteError, WriteOptions};
use gausset_io::splat::{self, Format, SaveOptions, SaveReport, SplatFile};

/// Pseudo-random numbers, the same on every run (splitmix64).
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    pub(crate) fn coin(&mut self) -> bool {
        self.next() & 1 == 1
    }

    /// In -1..1.
    pub(crate) fn value(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    pub(crate) fn values(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.value()).collect()
    }
}

/// Metadata of a PLY in addition to the splats.
#[derive(Clone, Debug)]
pub(crate) struct PlyOptions {
    pub(crate) normals: bool,
    pub(crate) antialiased: bool,
    pub(crate) vertical_axis: Option<[f32; 3]>,
    pub(crate) sky: usize,
}

impl Default for PlyOptions {
    fn default() -> Self {
        Self { normals: true, antialiased: false, vertical_axis: None, sky: 0 }
    }
}

impl PlyOptions {
    fn document(&self, splats: &Splats) -> (SplatFile, SaveOptions) {
        let Self { normals, antialiased, vertical_axis, sky } = *self;
        let document = SplatFile { antialiased, vertical_axis, sky, ..SplatFile::new(splats.clone()) };
        (document, SaveOptions { normals, ..SaveOptions::default() })
    }
}

pub(crate) fn write_ply(
    writer: &mut dyn Write,
    splats: &Splats,
    options: &PlyOptions,
) -> io::Result<SaveReport> {
    let (document, options) = options.document(splats);
    splat::write(writer, &document, Format::Ply, &options)
}

pub(crate) fn save_ply(
    fs: &dyn FileSystem,
    path: &Path,
    splats: &Splats,
    options: &PlyOptions,
    write: &WriteOptions,
) -> Result<SaveReport, WriteError> {
    let (document, options) = options.document(splats);
    splat::save(fs, path, &document, &SaveOptions { format: Some(Format::Ply), ..options }, write)
}

pub(crate) fn some_splats(count: usize, sh_degree: u8, seed: u64) -> Splats {
    let mut n = Numbers(seed);
    let mut splats = Splats::with_capacity(sh_degree, count);
    for _ in 0..count {
        let (mean, scale) = ([n.value(), n.value(), n.value()], [n.value(), n.value(), n.value()]);
        let sh = n.values(splats.sh_stride());
        splats.push(mean, scale, [1.0 + n.value(), n.value(), n.value(), n.value()], n.value(), &sh);
    }
    splats
}

/// A state in which no two arrays are equal, with special floats among the moments.
pub(crate) fn some_state(count: usize, seed: u64) -> TrainState {
    let mut n = Numbers(seed);
    let mut m = some_splats(count, 3, seed + 1);
    m.opacity_logits[0] = f32::from_bits(0x7fc0_1234); // a NaN with a payload
    m.means[0] = [-0.0, f32::INFINITY, 1e-42];
    let mut extra = CorrectionGroup::new(CorrectionKind::Gain, 5);
    extra.values[3] = 0.25;
    extra.update_counts[2] = 77;
    TrainState {
        splats: some_splats(count, 3, seed),
        moments: AdamMoments { m, v: some_splats(count, 3, seed + 2) },
        update_counts: (0..count as u32).map(|i| 3 * i + 1).collect(),
        dense_update_count: u64::MAX - 5,
        ids: (0..count as u32).rev().collect(),
        next_id: u32::MAX,
        statistics: DensityStatistics {
            gradient_sum: n.values(count),
            visible_steps: (0..count as u32).map(|i| i * i).collect(),
            max_radius: n.values(count),
        },
        corrections: vec![extra, CorrectionGroup::new(CorrectionKind::Pose, 3)],
    }
}

/// All bits of the arrays of a set of splats.
pub(crate) fn bits(splats: &Splats) -> Vec<u32> {
    let arrays = [
        splats.means.as_flattened(),
        splats.log_scales.as_flattened(),
        splats.quats.as_flattened(),
        &splats.opacity_logits,
        &splats.sh,
    ];
    arrays.into_iter().flatten().map(|v| v.to_bits()).collect()
}

/// Whether two states are equal bit by bit (`==` treats NaN as different and -0 as equal to 0).
pub(crate) fn same_bits(a: &TrainState, b: &TrainState) -> bool {
    let floats = |s: &TrainState| -> Vec<u32> {
        let mut all = [bits(&s.splats), bits(&s.moments.m), bits(&s.moments.v)].concat();
        let extras = s.corrections.iter().flat_map(|g| [&g.values, &g.m, &g.v]).flatten();
        let statistics = s.statistics.gradient_sum.iter().chain(&s.statistics.max_radius);
        all.extend(statistics.chain(extras).map(|v| v.to_bits()));
        all
    };
    let rest = |s: &TrainState| {
        let extras: Vec<_> = s.corrections.iter().map(|g| (g.group, g.update_counts.clone())).collect();
        let degrees = [s.splats.sh_degree, s.moments.m.sh_degree, s.moments.v.sh_degree];
        let steps = s.statistics.visible_steps.clone();
        (s.update_counts.clone(), s.ids.clone(), steps, s.dense_update_count, s.next_id, degrees, extras)
    };
    floats(a) == floats(b) && rest(a) == rest(b)
}

/// A folder for one test; in memory if possible, because thousands of syncs to a disk take minutes.
pub(crate) fn temporary_folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// Names in a folder, sorted, without its sub-folders and the marker.
pub(crate) fn file_names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    let files = entries.filter(|e| e.file_type().unwrap().is_file());
    let mut names: Vec<String> = files.map(|e| e.file_name().into_string().unwrap()).collect();
    names.retain(|name| name != gausset_io::ownership::MARKER);
    names.sort();
    names
}
