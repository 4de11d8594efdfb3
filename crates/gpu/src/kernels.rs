//! The table of kernels: which files of `kernels/` one is made of, its entry point, how it sees its buffers.
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
//! | `project_vjp+adam` | `direction`, `project_vjp`, `sh_adam` for each block, `rows`, `dead`, `finish` |
//! | (questions) | `in_front` |

use gausset_core::Stage;

use crate::record::header;

/// How a kernel sees a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Access {
    /// As a uniform.
    Uniform,
    /// As storage that it reads.
    Read,
    /// As storage that it reads and writes.
    Write,
}

use Access::{Read as R, Uniform as U, Write as W};

/// A kernel; those that differ in a constant alone are kernels of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kernel {
    /// Start of a unit.
    Begin,
    /// Places of visible splats.
    PlanVisible,
    /// Whether all entries fit.
    PlanEntries,
    /// The loss.
    PlanLoss,
    /// End of a step.
    Finish,
    /// The camera.
    View,
    /// Splats to the screen.
    Project,
    /// Visible splats, one after another.
    Compact,
    /// Digits of keys: of which sort, and which byte.
    Histogram(Sorted, u8),
    /// Keys to their places.
    Scatter(Sorted, u8),
    /// Sums of blocks.
    Reduce(Scanned),
    /// Sums before blocks.
    Spine(Scanned),
    /// Sums before values.
    Down(Scanned),
    /// The three of them in one workgroup.
    Alone(Scanned),
    /// Tiles of visible splats.
    Gather,
    /// Entries.
    Emit,
    /// Entries of tiles.
    Ranges,
    /// Shorter lists.
    Cap,
    /// Pixels; with depth and count?
    Blend(bool),
    /// The loss and its derivatives.
    Loss,
    /// Gradient of the picture.
    LossVjp,
    /// Gradient of the sky.
    SkyVjp,
    /// Gradients of entries.
    BlendVjp(Sums),
    /// Gradients of screen splats.
    SlotSum,
    /// Gradients of colours.
    Direction,
    /// Gradients and update of the geometry; with a gradient of the depth?
    ProjectVjp(bool),
    /// Update of a block of SH coefficients.
    ShAdam(u8),
    /// Update of the rows of corrections.
    Rows,
    /// Counts dead splats.
    Dead,
    /// What is in front.
    InFront,
}

/// What `blend_vjp` sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Sums {
    /// Absolute gradients.
    pub(crate) absolute: bool,
    /// With upstream gradients of alpha and depth.
    pub(crate) extras: bool,
}

/// What is sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Sorted {
    /// Visible splats by depth.
    Splats,
    /// Entries by tile.
    Entries,
}

/// What is scanned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scanned {
    /// Tiles of visible splats.
    Tiles,
    /// Digit counts of a sort.
    Counts(Sorted),
}

impl Sorted {
    const fn number(self) -> f64 {
        match self {
            Self::Splats => 0.0,
            Self::Entries => 1.0,
        }
    }
}

impl Scanned {
    const fn number(self) -> f64 {
        match self {
            Self::Tiles => 0.0,
            Self::Counts(Sorted::Splats) => 1.0,
            Self::Counts(Sorted::Entries) => 2.0,
        }
    }
}

/// A constant of a kernel that is set when it is compiled.
pub(crate) type Constant = (&'static str, f64);

macro_rules! parts {
    ($($name:literal)*) => { &[$(include_str!(concat!("kernels/", $name, ".wgsl"))),*] };
}

/// What a kernel is made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source {
    /// Files, in order.
    parts: &'static [&'static str],
    /// Entry point.
    pub(crate) entry: &'static str,
    /// How it sees its buffers.
    pub(crate) bindings: &'static [Access],
}

impl Source {
    /// The whole text.
    pub(crate) fn text(&self) -> String {
        let mut text = header();
        for part in self.parts {
            text.push_str(part);
        }
        text
    }
}

const PLAN: &[Access] = &[W, W, W, W, W];

impl Kernel {
    /// What it is made of.
    pub(crate) fn source(self) -> Source {
        let (parts, entry, bindings): (&'static [&'static str], _, &'static [Access]) = match self {
            Self::Begin => (parts!("common" "plan"), "begin", PLAN),
            Self::PlanVisible => (parts!("common" "plan"), "plan_visible", PLAN),
            Self::PlanEntries => (parts!("common" "plan"), "plan_entries", PLAN),
            Self::PlanLoss => (parts!("common" "plan"), "plan_loss", PLAN),
            Self::Finish => (parts!("common" "plan"), "finish", PLAN),
            Self::View => (parts!("view"), "main", &[U, W, R]),
            Self::Project => (
                parts!("common" "random" "spherical" "geometry" "project"),
                "main",
                &[U, U, R, R, R, R, R, W, W, W],
            ),
            Self::Compact => (parts!("common" "compact"), "main", &[U, R, R, W, W]),
            Self::Histogram(..) => (parts!("common" "sort"), "histogram", &[U, R, R, W, W, W]),
            Self::Scatter(..) => (parts!("common" "sort"), "scatter", &[U, R, R, W, W, W]),
            Self::Reduce(_) => (parts!("common" "scan"), "reduce", &[U, W, W]),
            Self::Spine(_) => (parts!("common" "scan"), "spine", &[U, W, W]),
            Self::Down(_) => (parts!("common" "scan"), "down", &[U, W, W]),
            Self::Alone(_) => (parts!("common" "scan"), "alone", &[U, W, W]),
            Self::Gather => (parts!("common" "gather"), "main", &[U, R, R, W]),
            Self::Emit => (parts!("common" "emit"), "main", &[U, R, R, R, W, W, W]),
            Self::Ranges => (parts!("common" "ranges"), "main", &[U, R, W]),
            Self::Cap => (parts!("common" "pixel" "tile_list" "cap"), "main", &[U, W, R, R, R, W]),
            Self::Blend(_) => (
                parts!("common" "spherical" "pixel" "tile_list" "blend"),
                "main",
                &[U, U, W, R, R, R, W, W, R],
            ),
            Self::Loss => (parts!("common" "colour" "loss"), "main", &[U, R, R, R, W, W]),
            Self::LossVjp => (parts!("common" "colour" "loss_vjp"), "main", &[U, W, R, R, R, W]),
            Self::SkyVjp => (parts!("common" "spherical" "pixel" "sky_vjp"), "main", &[U, U, R, R, W]),
            Self::BlendVjp(_) => (parts!("common" "pixel" "blend_vjp"), "main", &[U, R, R, R, R, R, W, R]),
            Self::SlotSum => (parts!("common" "slot_sum"), "main", &[U, R, R, R, R, W]),
            Self::Direction => {
                (parts!("common" "spherical" "geometry" "direction"), "main", &[U, U, R, R, R, R, R, R, W, W])
            }
            Self::ProjectVjp(_) => (
                parts!("common" "random" "geometry" "adam" "project_vjp"),
                "main",
                &[U, U, W, W, W, R, W, W, R, W],
            ),
            Self::ShAdam(_) => {
                (parts!("common" "spherical" "adam" "sh_adam"), "main", &[U, W, W, W, R, R, R, R])
            }
            Self::Rows => (parts!("common" "adam" "rows"), "main", &[U, U, W, R, R]),
            Self::InFront => (parts!("common" "pixel" "in_front"), "main", &[U, R, R, R, R, W]),
            Self::Dead => (parts!("common" "dead"), "main", &[U, R, R, W]),
        };
        Source { parts, entry, bindings }
    }

    /// Values of its constants.
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
            Self::ProjectVjp(depth) => vec![("DEPTH", f64::from(u8::from(depth)))],
            Self::ShAdam(block) => vec![("BLOCK", f64::from(block))],
            _ => Vec::new(),
        }
    }

    /// Every kernel.
    #[cfg(test)]
    pub(crate) fn all() -> Vec<Self> {
        let sorts = [Sorted::Splats, Sorted::Entries];
        let scans = [Scanned::Tiles, Scanned::Counts(Sorted::Splats), Scanned::Counts(Sorted::Entries)];
        let mut all = vec![
            Self::Begin,
            Self::PlanVisible,
            Self::PlanEntries,
            Self::PlanLoss,
            Self::Finish,
            Self::View,
            Self::Project,
            Self::Compact,
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
            all.extend([false, true].map(|absolute| Self::BlendVjp(Sums { absolute, extras })));
            all.push(Self::ProjectVjp(extras));
        }
        all.extend([0, 1, 2, 3].map(Self::ShAdam));
        all
    }

    /// The stage that it is a part of.
    pub(crate) fn stage(self) -> Stage {
        match self {
            Self::Begin | Self::View | Self::Project | Self::PlanVisible | Self::Compact => Stage::Project,
            Self::Histogram(Sorted::Splats, _) | Self::Scatter(Sorted::Splats, _) => Stage::Sort,
            Self::Reduce(scanned) | Self::Spine(scanned) | Self::Down(scanned) | Self::Alone(scanned) => {
                if scanned == Scanned::Counts(Sorted::Splats) {
                    Stage::Sort
                } else {
                    Stage::Tile
                }
            }
            Self::Histogram(Sorted::Entries, _) | Self::Scatter(Sorted::Entries, _) => Stage::Tile,
            Self::Gather | Self::PlanEntries | Self::Emit | Self::Ranges | Self::Cap => Stage::Tile,
            Self::Blend(_) | Self::InFront => Stage::Blend,
            Self::Loss | Self::PlanLoss | Self::LossVjp | Self::SkyVjp => Stage::Loss,
            Self::BlendVjp(_) | Self::SlotSum => Stage::BlendVjp,
            Self::Direction
            | Self::ProjectVjp(_)
            | Self::ShAdam(_)
            | Self::Rows
            | Self::Dead
            | Self::Finish => Stage::ProjectVjpAdam,
        }
    }

    /// Its name in messages and profiles.
    pub(crate) fn label(self) -> String {
        format!("{self:?}")
    }
}
