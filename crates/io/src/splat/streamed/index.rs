//! The `lod-meta.json`.
#![deny(clippy::indexing_slicing, reason = "what comes from outside is never an index")]

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Index {
    /// Older files have none.
    #[serde(default)]
    pub(super) version: Option<u32>,
    /// Generator of the files and its additional data.
    #[serde(default)]
    pub(super) asset: serde_json::Value,
    /// Number of splats of all levels, without the environment.
    #[serde(default)]
    pub(super) count: u64,
    /// Number of splats of each level.
    #[serde(default)]
    pub(super) counts: Vec<u64>,
    pub(super) lod_levels: u32,
    /// Whether leaves have errors of their levels; viewers estimate them otherwise.
    #[serde(default)]
    pub(super) lod_errors: bool,
    /// Path of the `meta.json` of the sky.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) environment: Option<String>,
    /// Paths of the `meta.json` of each file.
    pub(super) filenames: Vec<String>,
    pub(super) tree: Node,
}

/// A box of space: its halves, or a leaf with rows of files.
#[derive(Default, Deserialize, Serialize)]
pub(super) struct Node {
    #[serde(default)]
    pub(super) bound: Bound,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) children: Vec<Node>,
    /// Rows of a leaf, by level.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) lods: BTreeMap<u32, Rows>,
}

/// Union of the boxes of some splats, one standard deviation wide.
#[derive(Clone, Copy, Default, Deserialize, Serialize)]
pub(super) struct Bound {
    pub(super) min: [f32; 3],
    pub(super) max: [f32; 3],
}

/// Consecutive rows of a file.
#[derive(Clone, Copy, Deserialize, Serialize)]
pub(super) struct Rows {
    /// Index of its name.
    pub(super) file: u64,
    pub(super) offset: u64,
    pub(super) count: u64,
}

impl Bound {
    pub(super) const EMPTY: Self = Self { min: [f32::INFINITY; 3], max: [f32::NEG_INFINITY; 3] };

    pub(super) fn union(self, other: Self) -> Self {
        let fold = |pick: fn(f32, f32) -> f32, a: [f32; 3], b: [f32; 3]| {
            let (([ax, ay, az], [bx, by, bz]), f) = ((a, b), pick);
            [f(ax, bx), f(ay, by), f(az, bz)]
        };
        Self { min: fold(f32::min, self.min, other.min), max: fold(f32::max, self.max, other.max) }
    }
}
