//! The table of kernels: the files of `kernels/` in each source, its entry point, and the access of its bindings.
//!
//! | stage | kernels |
//! |---|---|
//! | (start) | `begin`, `view` |
//! | `project` | `project`, `plan_visible`, `compact` |
//! | `sort` | `histogram`, `reduce` `spine` `down` (or `alone`), `scatter`: four passes |
//! | `tile` | `gather`, scan, `plan_entries`, `emit`, passes by tile, `ranges`, `cap` |
//! | `blend` | `blend` |
//! | `loss` | `loss`, `loss_vjp`, `plan_loss`, `sky_vjp` |
//! | `blend_vjp` | `blend_vjp`, `slot_sum` |
//! | `project_vjp+adam` | `direction`, `project_vjp`, `sh_adam` for each block, `dead`, `rows`, `finish` |
//! | (queries) | `in_front` |
//! | (splitting) | `next_band`, `next_chunk`, `next_window`: see `split` |
//! | (pages) | `turn_page`; `compact_page` in place of `compact`, `page_gradients` before `direction`: see `layout` |
//! | `density` | see `schedule::rule` |

use gausset_core::Stage;

use crate::header::header;

/// How a kernel accesses a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Access {
    /// Uniform buffer.
    Uniform,
    /// Read-only storage.
    Read,
    /// Storage that is read and written.
    Write,
}

use Access::{Read as R, Uniform as U, Write as W};

/// A kernel; variants that differ only in a constant are separate kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kernel {
    /// Starts a unit.
    Begin,
    /// Plans the output positions of visible splats.
    PlanVisible,
    /// Checks whether all entries fit.
    PlanEntries,
    /// Moves to the next band of tile rows.
    NextBand,
    /// Moves to the next chunk of long lists.
    NextChunk,
    /// Moves to the next part of a dispatch: index of its arguments, number of parts.
    NextWindow(u8, u8),
    /// Selects a page of the splats, or all of them.
    TurnPage(PageSelection),
    /// Reduces the loss.
    PlanLoss,
    /// Ends a step.
    Finish,
    /// Computes the camera with its pose correction.
    View,
    /// Projects splats to the screen.
    Project,
    /// Writes the visible splats to consecutive positions.
    Compact,
    /// The same for those of a page, with their screen records.
    CompactPage,
    /// Counts digits of keys: which sort, which byte.
    Histogram(SortInput, u8),
    /// Moves keys to their target positions.
    Scatter(SortInput, u8),
    /// Scan: sums of blocks.
    Reduce(ScanInput),
    /// Scan: prefix sums over blocks.
    Spine(ScanInput),
    /// Scan: prefix sums over values.
    Down(ScanInput),
    /// The three scan passes in one workgroup.
    Alone(ScanInput),
    /// Counts the tiles of visible splats.
    Gather,
    /// Writes the tile entries.
    Emit,
    /// Finds the range of entries of each tile.
    Ranges,
    /// Cuts tile lists to the cap.
    Cap,
    /// Blends pixels; true: with depth and count.
    Blend(bool),
    /// Computes the loss and its derivatives.
    Loss,
    /// Gradient of the render.
    LossVjp,
    /// Gradient of the sky.
    SkyVjp,
    /// Gradients of tile entries.
    BlendVjp(BlendVjpVariant),
    /// Gradients of screen splats.
    SlotSum,
    /// Gradients of the screen splats of a page.
    PageGradients,
    /// Gradients of colours.
    Direction,
    /// Gradients and update of the geometry; true: with a gradient of the depth.
    ProjectVjp(bool),
    /// Update of a block of SH coefficients.
    ShAdam(u8),
    /// Update of the correction rows.
    Rows,
    /// Counts dead splats.
    Dead,
    /// Weights in front of given depths.
    InFront,
    /// A single formula: for tests.
    #[cfg(test)]
    Probe(Probe),
    /// A planning kernel of a density rule.
    PlanRule(RulePlan),
    /// Decides for each splat what a rule does with it; true: MCMC.
    Mark(bool),
    /// Sampling weights of rows.
    Weigh,
    /// Sort keys from marks.
    Keys,
    /// Reduces the number of splats that grow.
    Limit,
    /// Counts rows that each splat keeps and adds.
    Flags,
    /// Writes the rows after clone and split.
    Spawn,
    /// 64-bit scan: sums of weights per block.
    ReduceWide,
    /// 64-bit scan: prefix sums over blocks.
    SpineWide,
    /// 64-bit scan: prefix sums over weights.
    DownWide,
    /// Draws splats by weight; true: for new splats.
    Draw(bool),
    /// Writes the rows after draws; true: with new splats.
    Share(bool),
    /// Bounding box of all rows.
    Bounds,
    /// Morton codes; true: rows are sorted by them.
    Codes(bool),
    /// Moves planes of splats to the positions of their rows; true: moments.
    Carry(bool),
    /// Moves planes of rows to their positions.
    Settle,
    /// Copies planes back from the scratch buffer.
    Put,
    /// Moves ids, clocks and statistics to the positions of their rows.
    CarryRecords,
    /// Copies them back from the scratch buffer.
    PutRecords,
    /// Lowers opacities.
    Reset,
    /// Clears the free-space evidence.
    Forget,
    /// Adds the free-space evidence of the rays of a view.
    Follow,
    /// Makes splats in free space transparent.
    Clear,
}

/// Which page to select.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PageSelection {
    /// The first one.
    First,
    /// The next one.
    Next,
    /// All splats.
    Whole,
}

/// Formulas whose results no kernel of a step exposes directly.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Probe {
    /// The Adam update of values.
    Adam,
    /// Rotation and covariance, with their VJP.
    Shape,
    /// Projection of splats.
    Screen,
    /// The SH basis of their colours.
    Basis,
    /// The loss with a target in floats.
    Loss,
    /// Gradient of that loss.
    LossVjp,
    /// SSIM of each pixel.
    Similarity,
}

/// The planning kernels of a density rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RulePlan {
    /// Limits which splats may grow.
    Limit,
    /// Rows after clone, split and prune.
    Rows,
    /// Rows after relocation and growth.
    Relocation,
    /// Total weight for draws.
    Draws,
    /// Starts growth.
    Growth,
    /// Number of splats to add.
    Added,
    /// Starts moving rows to their positions.
    Order,
    /// Computes the Morton grid.
    Grid,
    /// Ends a rule.
    Finish,
}

impl RulePlan {
    /// All of them.
    #[cfg(test)]
    pub(crate) const ALL: [Self; 9] = [
        Self::Limit,
        Self::Rows,
        Self::Relocation,
        Self::Draws,
        Self::Growth,
        Self::Added,
        Self::Order,
        Self::Grid,
        Self::Finish,
    ];

    const fn entry(self) -> &'static str {
        match self {
            Self::Limit => "plan_limit",
            Self::Rows => "plan_rows",
            Self::Relocation => "plan_relocation",
            Self::Draws => "plan_draws",
            Self::Growth => "plan_growth",
            Self::Added => "plan_added",
            Self::Order => "plan_order",
            Self::Grid => "plan_grid",
            Self::Finish => "finish_rule",
        }
    }
}

/// Variants of the sums of `blend_vjp`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BlendVjpVariant {
    /// With sums of absolute gradients.
    pub(crate) absolute: bool,
    /// With upstream gradients of alpha and depth.
    pub(crate) extras: bool,
}

/// Which items are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SortInput {
    /// Visible splats by depth.
    Splats,
    /// Entries by tile.
    Entries,
}

/// Which values are scanned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ScanInput {
    /// Tile counts of visible splats.
    Tiles,
    /// Digit counts of a sort.
    Counts(SortInput),
}

impl SortInput {
    const fn number(self) -> f64 {
        match self {
            Self::Splats => 0.0,
            Self::Entries => 1.0,
        }
    }
}

impl ScanInput {
    const fn number(self) -> f64 {
        match self {
            Self::Tiles => 0.0,
            Self::Counts(SortInput::Splats) => 1.0,
            Self::Counts(SortInput::Entries) => 2.0,
        }
    }
}

/// An override constant of a kernel: name and value.
pub(crate) type Constant = (&'static str, f64);

macro_rules! parts {
    ($($name:literal)*) => { &[$(include_str!(concat!("kernels/", $name, ".wgsl"))),*] };
}

/// The source of a kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KernelSource {
    /// WGSL files, in order.
    parts: &'static [&'static str],
    /// Entry point.
    pub(crate) entry: &'static str,
    /// Access of each binding.
    pub(crate) bindings: &'static [Access],
}

impl KernelSource {
    /// The concatenated text.
    pub(crate) fn text(&self) -> String {
        let mut text = header();
        for part in self.parts {
            text.push_str(part);
        }
        text
    }
}

#[cfg(test)]
impl Probe {
    fn source(self) -> KernelSource {
        const PROJECT: &[Access] = &[U, U, R, R, R, R, R, W, W, W];
        let (parts, entry, bindings): (&'static [&'static str], _, &'static [Access]) = match self {
            Self::Adam => (parts!("common" "adam" "probes/adam"), "main", &[U, W, W, W, R]),
            Self::Shape => (
                parts!("common" "random" "normal" "geometry" "adam" "project_vjp" "probes/shape"),
                "shape",
                &[U, U, W, W, W, R, W, W, R, W],
            ),
            Self::Screen => (
                parts!("common" "random" "spherical" "geometry" "project" "probes/screen"),
                "on_screen",
                PROJECT,
            ),
            Self::Basis => {
                (parts!("common" "random" "spherical" "geometry" "project" "probes/screen"), "basis", PROJECT)
            }
            Self::Loss => (parts!("common" "probes/truth" "colour" "loss"), "main", &[U, R, R, R, W, W]),
            Self::LossVjp => {
                (parts!("common" "probes/truth" "colour" "loss_vjp"), "main", &[U, W, R, R, R, W])
            }
            Self::Similarity => (
                parts!("common" "probes/truth" "colour" "loss" "probes/similarity"),
                "map",
                &[U, R, R, R, W, W],
            ),
        };
        KernelSource { parts, entry, bindings }
    }
}

const PLAN: &[Access] = &[W, W, W, W, W, W];
const PLAN_RULE: &[Access] = &[W, W, W, W, W, W, W];
/// Bindings of the kernels of `carry.wgsl`.
const CARRY: &[Access] = &[U, R, R, R, W];

impl Kernel {
    /// The source of this kernel.
    pub(crate) fn source(self) -> KernelSource {
        let (parts, entry, bindings): (&'static [&'static str], _, &'static [Access]) = match self {
            Self::Begin => (parts!("common" "plan"), "begin", PLAN),
            Self::PlanVisible => (parts!("common" "plan"), "plan_visible", PLAN),
            Self::PlanEntries => (parts!("common" "plan"), "plan_entries", PLAN),
            Self::NextBand => (parts!("common" "plan"), "next_band", PLAN),
            Self::NextChunk => (parts!("common" "plan"), "next_chunk", PLAN),
            Self::NextWindow(..) => (parts!("common" "plan"), "next_window", PLAN),
            Self::TurnPage(_) => (parts!("common" "plan"), "turn_page", PLAN),
            Self::PlanLoss => (parts!("common" "plan"), "plan_loss", PLAN),
            Self::Finish => (parts!("common" "plan"), "finish", PLAN),
            Self::View => (parts!("view"), "main", &[U, W, R]),
            Self::Project => (
                parts!("common" "random" "spherical" "geometry" "project"),
                "main",
                &[U, U, R, R, R, R, R, W, W, W],
            ),
            Self::Compact => (parts!("common" "rank" "compact"), "main", &[U, R, R, W, W]),
            Self::CompactPage => (parts!("common" "rank" "compact_page"), "main", &[U, W, R, R, W, W, W, W]),
            Self::Histogram(..) => (parts!("common" "sort"), "histogram", &[U, R, R, W, W, W]),
            Self::Scatter(..) => (parts!("common" "sort"), "scatter", &[U, R, R, W, W, W]),
            Self::Reduce(_) => (parts!("common" "scan"), "reduce", &[U, W, W]),
            Self::Spine(_) => (parts!("common" "scan"), "spine", &[U, W, W]),
            Self::Down(_) => (parts!("common" "scan"), "down", &[U, W, W]),
            Self::Alone(_) => (parts!("common" "scan"), "alone", &[U, W, W]),
            Self::Gather => (parts!("common" "band" "gather"), "main", &[U, R, R, W]),
            Self::Emit => (parts!("common" "band" "emit"), "main", &[U, R, R, R, W, W, W]),
            Self::Ranges => (parts!("common" "ranges"), "main", &[U, R, W]),
            Self::Cap => (parts!("common" "band" "pixel" "tile_list" "cap"), "main", &[U, W, R, R, R, W]),
            Self::Blend(_) => (
                parts!("common" "spherical" "band" "chunk" "pixel" "tile_list" "blend"),
                "main",
                &[U, U, W, R, R, R, W, W, R, W],
            ),
            Self::Loss => (parts!("common" "truth" "colour" "loss"), "main", &[U, R, R, R, W, W]),
            Self::LossVjp => (parts!("common" "truth" "colour" "loss_vjp"), "main", &[U, W, R, R, R, W]),
            Self::SkyVjp => (parts!("common" "spherical" "pixel" "sky_vjp"), "main", &[U, U, R, R, W]),
            Self::BlendVjp(_) => {
                (parts!("common" "band" "chunk" "pixel" "blend_vjp"), "main", &[U, R, R, R, R, W, W, R])
            }
            Self::SlotSum => (parts!("common" "band" "slot_sum"), "main", &[U, R, R, R, R, W]),
            Self::PageGradients => (parts!("common" "page_gradients"), "main", &[U, R, R, W]),
            Self::Direction => {
                (parts!("common" "spherical" "geometry" "direction"), "main", &[U, U, R, R, R, R, R, R, W, W])
            }
            Self::ProjectVjp(_) => (
                parts!("common" "random" "normal" "geometry" "adam" "project_vjp"),
                "main",
                &[U, U, W, W, W, R, W, W, R, W],
            ),
            Self::ShAdam(_) => {
                (parts!("common" "spherical" "adam" "sh_adam"), "main", &[U, W, W, W, R, R, R, R])
            }
            Self::Rows => (parts!("common" "adam" "rows"), "main", &[U, U, W, R, R]),
            Self::InFront => (parts!("common" "pixel" "in_front"), "main", &[U, R, R, R, R, W]),
            Self::Dead => (parts!("common" "dead"), "main", &[U, R, R, W]),
            #[cfg(test)]
            Self::Probe(probe) => return probe.source(),
            Self::PlanRule(plan) => {
                (parts!("common" "random" "wide" "double" "order" "rule_plan"), plan.entry(), PLAN_RULE)
            }
            Self::Mark(_) => (
                parts!("common" "random" "wide" "double" "order" "weight" "mark"),
                "main",
                &[U, U, R, R, R, R, R, R, W, W],
            ),
            Self::Weigh => (parts!("common" "order" "weight" "weigh"), "main", &[U, R, W]),
            Self::Keys => (parts!("common" "keys"), "main", &[U, R, W, W]),
            Self::Limit => (parts!("common" "limit"), "main", &[U, U, R, W, W]),
            Self::Flags => (parts!("common" "flags"), "main", &[U, R, W, W]),
            Self::Spawn => (
                parts!("common" "random" "normal" "geometry" "order" "spawn"),
                "main",
                &[U, U, R, R, R, R, R, W, W],
            ),
            Self::ReduceWide => (parts!("common" "random" "wide" "scan_wide"), "reduce", &[U, R, W, W, W]),
            Self::SpineWide => (parts!("common" "random" "wide" "scan_wide"), "spine", &[U, R, W, W, W]),
            Self::DownWide => (parts!("common" "random" "wide" "scan_wide"), "down", &[U, R, W, W, W]),
            Self::Draw(grows) => {
                let entry = if grows { "grow" } else { "relocate" };
                (parts!("common" "random" "wide" "draw"), entry, &[U, U, R, R, W, W, W])
            }
            Self::Share(grows) => {
                let entry = if grows { "grow" } else { "relocate" };
                (parts!("common" "geometry" "order" "share"), entry, &[U, U, R, R, R, R, R, W, W])
            }
            Self::Bounds => (parts!("common" "order" "bounds"), "main", &[U, R, W]),
            Self::Codes(_) => {
                (parts!("common" "random" "wide" "double" "order" "codes"), "main", &[U, R, R, W, W])
            }
            Self::Carry(_) => (parts!("common" "carry"), "carry", CARRY),
            Self::Settle => (parts!("common" "carry"), "settle", CARRY),
            Self::Put => (parts!("common" "carry"), "put", CARRY),
            Self::CarryRecords => (parts!("common" "carry_records"), "carry", &[U, U, R, R, R, W]),
            Self::PutRecords => (parts!("common" "carry_records"), "put", &[U, U, R, R, R, W]),
            Self::Reset => (parts!("common" "order" "reset"), "main", &[U, U, W, W, W]),
            Self::Forget => (parts!("common" "forget"), "main", &[U, W]),
            Self::Follow => {
                (parts!("common" "geometry" "pixel" "follow"), "main", &[U, U, R, R, R, R, R, R, W])
            }
            Self::Clear => (parts!("common" "order" "clear"), "main", &[U, U, W, W, R, R, W]),
        };
        KernelSource { parts, entry, bindings }
    }

    /// Values of its override constants.
    pub(crate) fn constants(self) -> Vec<Constant> {
        match self {
            Self::Histogram(sorted, byte) | Self::Scatter(sorted, byte) => {
                vec![("KEYS", sorted.number()), ("SHIFT", 8.0 * f64::from(byte))]
            }
            Self::Reduce(scanned) | Self::Spine(scanned) | Self::Down(scanned) | Self::Alone(scanned) => {
                vec![("LENGTH", scanned.number())]
            }
            Self::Blend(extras) => vec![("EXTRAS", f64::from(u8::from(extras)))],
            Self::BlendVjp(sums) => vec![
                ("ABSOLUTE", f64::from(u8::from(sums.absolute))),
                ("EXTRAS", f64::from(u8::from(sums.extras))),
            ],
            Self::NextWindow(dispatch, parts) => {
                vec![("DISPATCH", f64::from(dispatch)), ("PARTS", f64::from(parts))]
            }
            Self::TurnPage(turn) => vec![("TURN", f64::from(turn as u8))],
            Self::ProjectVjp(depth) => vec![("DEPTH", f64::from(u8::from(depth)))],
            Self::ShAdam(block) => vec![("BLOCK", f64::from(block))],
            Self::Mark(mcmc) => vec![("MCMC", f64::from(u8::from(mcmc)))],
            Self::Codes(reorder) => vec![("REORDER", f64::from(u8::from(reorder)))],
            Self::Carry(moments) => vec![("MOMENTS", f64::from(u8::from(moments)))],
            _ => Vec::new(),
        }
    }

    /// Every kernel, with each variant.
    #[cfg(test)]
    pub(crate) fn all() -> Vec<Self> {
        let sorts = [SortInput::Splats, SortInput::Entries];
        let scans =
            [ScanInput::Tiles, ScanInput::Counts(SortInput::Splats), ScanInput::Counts(SortInput::Entries)];
        let mut all = vec![
            Self::Begin,
            Self::PlanVisible,
            Self::PlanEntries,
            Self::NextBand,
            Self::NextChunk,
            Self::NextWindow(0, 2),
            Self::PlanLoss,
            Self::Finish,
            Self::View,
            Self::Project,
            Self::Compact,
            Self::CompactPage,
            Self::PageGradients,
            Self::Gather,
            Self::Emit,
            Self::Ranges,
            Self::Cap,
            Self::Loss,
            Self::LossVjp,
            Self::SkyVjp,
            Self::SlotSum,
            Self::Direction,
            Self::Rows,
            Self::Dead,
            Self::InFront,
        ];
        all.extend(sorts.map(|sorted| Self::Histogram(sorted, 1)));
        all.extend(sorts.map(|sorted| Self::Scatter(sorted, 1)));
        for scan in scans {
            all.extend([Self::Reduce(scan), Self::Spine(scan), Self::Down(scan), Self::Alone(scan)]);
        }
        all.extend([false, true].map(Self::Blend));
        for extras in [false, true] {
            all.extend([false, true].map(|absolute| Self::BlendVjp(BlendVjpVariant { absolute, extras })));
            all.push(Self::ProjectVjp(extras));
        }
        all.extend([0, 1, 2, 3].map(Self::ShAdam));
        all.extend([PageSelection::First, PageSelection::Next, PageSelection::Whole].map(Self::TurnPage));
        let probes = [Probe::Adam, Probe::Shape, Probe::Screen, Probe::Basis, Probe::Loss, Probe::LossVjp];
        all.extend(probes.map(Self::Probe));
        all.push(Self::Probe(Probe::Similarity));
        all.extend(RulePlan::ALL.map(Self::PlanRule));
        for variant in [false, true] {
            all.extend([Self::Mark, Self::Draw, Self::Share, Self::Codes, Self::Carry].map(|of| of(variant)));
        }
        all.extend([
            Self::Weigh,
            Self::Keys,
            Self::Limit,
            Self::Flags,
            Self::Spawn,
            Self::ReduceWide,
            Self::SpineWide,
            Self::DownWide,
            Self::Bounds,
            Self::Settle,
            Self::Put,
            Self::CarryRecords,
            Self::PutRecords,
            Self::Reset,
            Self::Forget,
            Self::Follow,
            Self::Clear,
        ]);
        all
    }

    /// The stage to which it belongs.
    pub(crate) fn stage(self) -> Stage {
        match self {
            Self::Begin | Self::View | Self::Project | Self::PlanVisible => Stage::Project,
            Self::Compact | Self::CompactPage | Self::TurnPage(_) => Stage::Project,
            Self::Histogram(SortInput::Splats, _) | Self::Scatter(SortInput::Splats, _) => Stage::Sort,
            Self::Reduce(scanned) | Self::Spine(scanned) | Self::Down(scanned) | Self::Alone(scanned) => {
                if scanned == ScanInput::Counts(SortInput::Splats) {
                    Stage::Sort
                } else {
                    Stage::Tile
                }
            }
            Self::Histogram(SortInput::Entries, _) | Self::Scatter(SortInput::Entries, _) => Stage::Tile,
            Self::NextBand | Self::NextChunk | Self::NextWindow(..) => Stage::Tile,
            Self::Gather | Self::PlanEntries | Self::Emit | Self::Ranges | Self::Cap => Stage::Tile,
            Self::Blend(_) | Self::InFront => Stage::Blend,
            Self::Loss | Self::PlanLoss | Self::LossVjp | Self::SkyVjp => Stage::Loss,
            Self::BlendVjp(_) | Self::SlotSum => Stage::BlendVjp,
            Self::PageGradients
            | Self::Direction
            | Self::ProjectVjp(_)
            | Self::ShAdam(_)
            | Self::Rows
            | Self::Dead
            | Self::Finish => Stage::ProjectVjpAdam,
            #[cfg(test)]
            Self::Probe(_) => Stage::ProjectVjpAdam,
            Self::PlanRule(_)
            | Self::Mark(_)
            | Self::Weigh
            | Self::Keys
            | Self::Limit
            | Self::Flags
            | Self::Spawn
            | Self::ReduceWide
            | Self::SpineWide
            | Self::DownWide
            | Self::Draw(_)
            | Self::Share(_)
            | Self::Bounds
            | Self::Codes(_)
            | Self::Carry(_)
            | Self::Settle
            | Self::Put
            | Self::CarryRecords
            | Self::PutRecords
            | Self::Reset
            | Self::Forget
            | Self::Follow
            | Self::Clear => Stage::Density,
        }
    }

    /// Name for messages and profiles.
    pub(crate) fn label(self) -> String {
        format!("{self:?}")
    }
}
