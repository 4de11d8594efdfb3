//! Counts of the work of a step, and lower bounds of its time on a device: figures for profiles and benchmarks.

use crate::Stage;

/// Counts of one step or render, from which the times of its stages follow.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StepWork {
    /// Splats of the state.
    pub splats: f64,
    /// SH degree that is rendered and trained.
    pub sh_degree: u8,
    /// Visible splats: those that `project` keeps.
    pub visible: f64,
    /// Pixels of the image.
    pub pixels: f64,
    /// Passes of the radix sort that move keys.
    pub sort_passes: f64,
    /// Total length of all tile lists.
    pub intersections: f64,
    /// List entries that were evaluated before their tile was opaque.
    pub evaluated_entries: f64,
    /// List entries with a gradient; 0 for a render.
    pub live_entries: f64,
    /// Evaluated pairs of a list entry and a cell of 4x4 pixels.
    pub evaluated_cells: f64,
    /// Blocks of 16 splats that were updated; 0 for a render.
    pub updated_blocks: f64,
}

/// Names of the counters of a profile that hold a [`StepWork`].
impl StepWork {
    /// Counter of [`Self::splats`].
    pub const SPLATS: &str = "splats";
    /// Counter of [`Self::visible`].
    pub const VISIBLE: &str = "visible";
    /// Counter of [`Self::pixels`].
    pub const PIXELS: &str = "pixels";
    /// Counter of [`Self::intersections`].
    pub const INTERSECTIONS: &str = "intersections";
    /// Counter of [`Self::evaluated_entries`].
    pub const PROCESSED: &str = "intersections looked at";
    /// Counter of [`Self::live_entries`].
    pub const LIVE: &str = "intersections with a gradient";
    /// Counter of [`Self::evaluated_cells`].
    pub const CELLS: &str = "cells evaluated";
    /// Counter of [`Self::updated_blocks`].
    pub const BLOCKS: &str = "blocks updated";
    /// Counter of [`Self::sh_degree`].
    pub const SH_DEGREE: &str = "SH degree";
    /// Counter of [`Self::sort_passes`].
    pub const SORT_PASSES: &str = "sort passes";

    /// Reads the counts from profile counters by name; `None` if no step was counted in full.
    #[must_use]
    pub fn from_counters(value: impl Fn(&str) -> Option<f64>) -> Option<Self> {
        Some(Self {
            splats: value(Self::SPLATS)?,
            sh_degree: value(Self::SH_DEGREE)? as u8,
            visible: value(Self::VISIBLE)?,
            pixels: value(Self::PIXELS)?,
            sort_passes: value(Self::SORT_PASSES)?,
            intersections: value(Self::INTERSECTIONS)?,
            evaluated_entries: value(Self::PROCESSED)?,
            live_entries: value(Self::LIVE).unwrap_or(0.0),
            evaluated_cells: value(Self::CELLS)?,
            updated_blocks: value(Self::BLOCKS).unwrap_or(0.0),
        })
    }
}

/// Measured peak rates of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DevicePeakRates {
    /// Number of threads that reach these rates together.
    pub threads: usize,
    /// Multiply-adds on 16 values of f32 per second.
    pub vector_ops_per_s: f64,
    /// Bytes read and written per second in main memory, beyond all caches.
    pub bytes_per_s: f64,
}

/// Lower bounds for one stage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StageLowerBound {
    /// The stage that the bounds are for.
    pub stage: Stage,
    /// Bytes that it has to read and write.
    pub bytes: f64,
    /// Multiply-adds on 16 values that it has to do.
    pub vector_ops: f64,
    /// Lower bound of its time, ms.
    pub lower_bound_ms: f64,
}

/// Lower bounds for the stages of a step on a device, with the rates that they follow from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LowerBounds {
    /// Measured rates of the device.
    pub rates: DevicePeakRates,
    /// The stages, in pipeline order.
    pub stages: Vec<StageLowerBound>,
}
