//! Options and result of saving.

use gausset_core::splats_transform::Similarity;

use super::{Format, PositionSteps, SplatFile, SpzOptions};
use crate::text::grouped;

/// Options of writing. Equal documents and options give equal bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SaveOptions {
    /// Format; `None` = by the ending of the file name.
    pub format: Option<Format>,
    /// PLY: write `nx ny nz` (all zero) like the released code. They are useless, but some viewers require them, and
    /// files should open everywhere. Without them, a splat is 12 bytes smaller.
    pub normals: bool,
    /// Options of SPZ.
    pub spz: SpzOptions,
    /// Streamed SOG: number of levels of detail, at most 16; `None` = until one has at most 100,000 splats.
    pub levels: Option<u32>,
}

impl Default for SaveOptions {
    fn default() -> Self {
        Self { format: None, normals: true, spz: SpzOptions::default(), levels: None }
    }
}

/// Result of a save.
#[derive(Clone, Debug, PartialEq)]
pub struct SaveReport {
    /// Format.
    pub format: Format,
    /// Version of the format, if it has versions.
    pub version: Option<&'static str>,
    /// Axes of the file, if they differ from those of the splats or the file specifies them.
    pub frame: Option<&'static str>,
    /// Whether the file stores how the splats are to be rendered.
    pub has_mode: bool,
    /// Number of splats in the file.
    pub splats: u64,
    /// Splats dropped because a parameter is not finite or the rotation is zero.
    pub dropped: u64,
    /// Length of the file, bytes.
    pub bytes: u64,
    /// Seconds spent syncing the file.
    pub sync_seconds: f64,
    /// Numbers of splats with a value outside the range of the format, which was clamped, by reason.
    pub clipped: Vec<(&'static str, u64)>,
    /// How exactly positions are kept; `None` if their numbers are not rounded.
    pub positions: Option<PositionSteps>,
    /// Other content that the file lacks: `SH above degree 0`.
    pub lost: Vec<String>,
}

impl SaveReport {
    /// What the file lacks beside exact positions, a line each.
    #[must_use]
    pub fn losses(&self) -> Vec<String> {
        let clipped = self.clipped.iter().map(|(what, count)| format!("{what} ({} splats)", grouped(*count)));
        let groups =
            [("not stored", self.lost.clone()), ("clipped to the range of the format", clipped.collect())];
        let listed = groups.into_iter().filter(|(_, items)| !items.is_empty());
        listed.map(|(what, items)| format!("{what}: {}", items.join(", "))).collect()
    }

    /// A line about positions that are visibly rounded.
    #[must_use]
    pub fn coarse_positions(&self) -> Option<String> {
        let positions = self.positions.filter(|positions| positions.is_coarse)?;
        Some(format!("{positions}, more than its splats are wide; .glb and .ply keep them"))
    }

    /// Records the loss of a format that stores only splat values, up to an SH degree.
    pub(super) fn report_loss_of_metadata(&mut self, document: &SplatFile, sh_degree: u8) {
        if document.splats.sh_degree > sh_degree {
            self.lost.push(format!("SH above degree {sh_degree}"));
        }
        self.has_mode = false;
        if document.antialiased {
            self.lost.push("the antialiased render mode".to_owned());
        }
        self.report_loss_of_scene_metadata(document);
    }

    /// Records the loss of a format that stores no metadata but whether splats are antialiased.
    pub(super) fn report_loss_of_scene_metadata(&mut self, document: &SplatFile) {
        if document.flat {
            self.has_mode &= document.antialiased;
            self.lost.push("the 2DGS render mode".to_owned());
        }
        if document.vertical_axis.is_some() {
            self.lost.push("which direction is up".to_owned());
        }
        if document.saved_from_dataset.is_some_and(|moved| moved != Similarity::IDENTITY) {
            self.lost.push("the transform from the dataset's cameras".to_owned());
        }
        if document.georeference.is_some() {
            self.lost.push("the place on the earth".to_owned());
        }
        if document.offset.is_some() {
            self.lost.push("the offset of the dataset".to_owned());
        }
        if document.near_plane.is_some() {
            self.lost.push("the near plane".to_owned());
        }
        if document.sky > 0 {
            self.lost.push("which splats are the sky".to_owned());
        }
    }

    /// Result for a number of splats and bytes, with nothing lost.
    pub(super) fn new(format: Format, splats: usize, bytes: u64) -> Self {
        let (clipped, lost) = (Vec::new(), Vec::new());
        Self {
            format,
            version: None,
            frame: None,
            has_mode: true,
            splats: splats as u64,
            dropped: 0,
            bytes,
            sync_seconds: 0.0,
            clipped,
            positions: None,
            lost,
        }
    }
}
