//! What a step had to do, and what that takes at least on a device: figures for profiles and benchmarks.

use crate::Stage;

/// Sizes of a step or picture: what the times of its stages follow from.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StepWork {
    /// Splats of the state.
    pub splats: f64,
    /// SH degree that is drawn and learnt.
    pub sh_degree: u8,
    /// Splats drawn.
    pub visible: f64,
    /// Pixels of the picture.
    pub pixels: f64,
    /// Passes of the sort that move keys.
    pub sort_passes: f64,
    /// Entries of all tile lists.
    pub intersections: f64,
    /// Entries that were looked at before their tile was opaque.
    pub processed: f64,
    /// Entries with a gradient; 0 for a picture.
    pub live: f64,
    /// Pairs of an entry and a cell of 4x4 pixels that were evaluated.
    pub cells: f64,
    /// Blocks of 16 splats that were updated; 0 for a picture.
    pub blocks: f64,
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
    /// Counter of [`Self::processed`].
    pub const PROCESSED: &str = "intersections looked at";
    /// Counter of [`Self::live`].
    pub const LIVE: &str = "intersections with a gradient";
    /// Counter of [`Self::cells`].
    pub const CELLS: &str = "cells evaluated";
    /// Counter of [`Self::blocks`].
    pub const BLOCKS: &str = "blocks updated";
    /// Counter of [`Self::sh_degree`].
    pub const SH_DEGREE: &str = "SH degree";
    /// Counter of [`Self::sort_passes`].
    pub const PASSES: &str = "sort passes";

    /// The work from counters, by their names; `None` where no step was counted in full.
    #[must_use]
    pub fn from_counters(value: impl Fn(&str) -> Option<f64>) -> Option<Self> {
        Some(Self {
            splats: value(Self::SPLATS)?,
            sh_degree: value(Self::SH_DEGREE)? as u8,
            visible: value(Self::VISIBLE)?,
            pixels: value(Self::PIXELS)?,
            sort_passes: value(Self::PASSES)?,
            intersections: value(Self::INTERSECTIONS)?,
            processed: value(Self::PROCESSED)?,
            live: value(Self::LIVE).unwrap_or(0.0),
            cells: value(Self::CELLS)?,
            blocks: value(Self::BLOCKS).unwrap_or(0.0),
        })
    }
}

/// Rates of a device, as measured: no code on it is faster.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DeviceRates {
    /// Threads that the rates are those of, together.
    pub threads: usize,
    /// Multiply-adds on 16 values of f32 per second.
    pub vector_ops_per_s: f64,
    /// Bytes read and written per second in memory, beyond all caches.
    pub bytes_per_s: f64,
}

/// What a stage takes at least.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StageFloor {
    /// The stage.
    pub stage: Stage,
    /// Bytes that it reads and writes at least.
    pub bytes: f64,
    /// Multiply-adds on 16 values that it does at least.
    pub vector_ops: f64,
    /// Milliseconds that it takes at least.
    pub floor_ms: f64,
}

/// What the stages of a step take at least on a device, and the rates that say so.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Floors {
    /// Rates of the device.
    pub rates: DeviceRates,
    /// The stages, in their order.
    pub stages: Vec<StageFloor>,
}
