//! Statistics of a splat file, for `gausset info` and scripts.

use gausset_core::Splats;
use gausset_io::splat::{SaveReport, SplatFile};
use serde::Serialize;

use crate::convert::edits;

/// Fraction of the splats between the `middle` bounds, along each axis.
const MIDDLE_FRACTION: f64 = 0.98;
/// Distance from the middle, in median distances, beyond which a splat counts as far.
pub const FAR: f64 = 20.0;
/// Opacity below which a splat counts as transparent: about one step of 8 bits.
pub const TRANSPARENT: f64 = 0.005;

/// Statistics of a splat file; the JSON form is a stable contract.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct SplatInfo {
    /// Number of splats.
    pub count: usize,
    /// SH degree stored in the file.
    pub sh_degree: u8,
    /// Bounds of the scene splats; `None` without splats.
    pub bounds: Option<Bounds>,
    /// Bounds without the outermost hundredth at each end of each axis.
    pub middle: Option<Bounds>,
    /// Number of scene splats beyond [`FAR`] median distances from the middle, which dominate the bounds.
    pub far: usize,
    /// Number of splats with an opacity below [`TRANSPARENT`].
    pub transparent: usize,
    /// Size of the splats in memory, in bytes.
    pub memory_bytes: u64,
    /// Stable format name.
    pub format: &'static str,
    /// Format version, if the format has versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Render mode: `default`, `mip` or `2dgs`.
    pub mode: &'static str,
    /// Whether the mode uses opacity compensation.
    pub antialiased: bool,
    /// Coordinate axes of the file, if they were converted, recorded or assumed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frame: Option<String>,
    /// Up direction, if the file records it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub up: Option<[f32; 3]>,
    /// Number of sky splats, which the bounds exclude; omitted if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sky: Option<usize>,
    /// Splats of each level of detail, the finest first; omitted if there is one level.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub levels: Vec<u64>,
    /// Splats dropped because they cannot be rendered.
    pub dropped: u64,
    /// Splats with a value clamped to the nearest valid one.
    pub repaired: u64,
}

/// Smallest and largest coordinates.
#[derive(Clone, Debug, Serialize)]
pub struct Bounds {
    /// Smallest x, y, z.
    pub min: [f32; 3],
    /// Largest x, y, z.
    pub max: [f32; 3],
}

impl SplatInfo {
    /// Statistics of a file that was read.
    #[must_use]
    pub fn from_document(document: &SplatFile) -> Self {
        let scene = document.scene();
        let report = &document.report;
        Self {
            count: document.splats.len(),
            sh_degree: document.sh_degree,
            bounds: scene.bounds().map(|[min, max]| Bounds { min, max }),
            middle: percentile_bounds(&scene),
            far: edits::count_far(document, FAR),
            transparent: edits::count_transparent(document, TRANSPARENT),
            memory_bytes: 4 * (document.splats.len() * (11 + document.splats.sh_stride())) as u64,
            format: document.format.name(),
            version: document.version.clone(),
            mode: match (document.antialiased, document.flat) {
                (true, _) => "mip",
                (false, true) => "2dgs",
                (false, false) => "default",
            },
            antialiased: document.antialiased,
            frame: document.frame.clone(),
            up: document.vertical_axis,
            sky: (document.sky > 0).then_some(document.sky),
            levels: document.levels.clone(),
            dropped: report.dropped_total(),
            repaired: report.repaired.iter().map(|(_, count)| count).sum(),
        }
    }

    /// Statistics of a file written from a document.
    #[must_use]
    pub fn from_saved(document: &SplatFile, saved: &SaveReport) -> Self {
        let facts = Self {
            count: saved.splats as usize,
            sh_degree: document.splats.sh_degree,
            format: saved.format.name(),
            version: saved.version.map(str::to_owned),
            frame: saved.frame.map(str::to_owned),
            levels: Vec::new(),
            dropped: saved.dropped,
            repaired: saved.clipped.iter().map(|(_, count)| count).sum(),
            ..Self::from_document(document)
        };
        if saved.has_mode { facts } else { Self { mode: "default", antialiased: false, ..facts } }
    }
}

/// Bounds between two percentiles of each axis.
fn percentile_bounds(splats: &Splats) -> Option<Bounds> {
    let last = splats.len().checked_sub(1)?;
    let cut = ((1.0 - MIDDLE_FRACTION) / 2.0 * last as f64).round() as usize;
    let mut bounds = Bounds { min: [0.0; 3], max: [0.0; 3] };
    let mut values: Vec<f32> = Vec::with_capacity(splats.len());
    for axis in 0..3 {
        values.clear();
        values.extend(splats.means.iter().map(|mean| mean[axis]));
        bounds.min[axis] = *values.select_nth_unstable_by(cut, f32::total_cmp).1;
        bounds.max[axis] = *values.select_nth_unstable_by(last - cut, f32::total_cmp).1;
    }
    Some(bounds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_far_splat_does_not_rule_the_middle() {
        let mut splats = Splats::zeros(0, 201);
        for (i, mean) in splats.means.iter_mut().enumerate() {
            *mean = [i as f32, -(i as f32), if i == 7 { 11_898.0 } else { 1.0 }];
        }
        let bounds = percentile_bounds(&splats).unwrap();
        assert_eq!((bounds.min, bounds.max), ([2.0, -198.0, 1.0], [198.0, -2.0, 1.0]));
        assert!(percentile_bounds(&Splats::zeros(0, 0)).is_none());
        assert!(percentile_bounds(&Splats::zeros(0, 1)).is_some());
    }
}
