//! What a splat file holds, whatever its format.

use std::borrow::Cow;

use gausset_core::Splats;
use gausset_core::splats_transform::Similarity;
use gausset_page::scene::Scene;

use super::{Format, ReadReport};

/// A splat file in memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// The splats, with the numbers of the file.
    pub splats: Splats,
    /// Whether the splats were trained with opacity compensation and should be drawn with it.
    pub antialiased: bool,
    /// Whether the splats are flat discs (2DGS).
    pub flat: bool,
    /// Direction that is up, if the file tells.
    pub vertical_axis: Option<[f32; 3]>,
    /// How the splats were moved since they were trained, `saved_from_dataset`, if the file tells: cameras of the dataset
    /// see them from there.
    pub saved_from_dataset: Option<Similarity>,
    /// How many of the last splats are a sky far behind the scene, as Gausset exports it.
    pub sky: usize,
    /// How a page shows it, in the axes of the splats; no other format keeps that.
    pub page: Option<Box<Scene>>,
    /// Format that it was read from.
    pub format: Format,
    /// Version of the format, where it has versions: `4`.
    pub version: Option<String>,
    /// Axes of the numbers in the file, where they were turned or had to be assumed.
    pub frame: Option<String>,
    /// SH degree that the file stores; 4 when its top band was dropped ([`gausset_core::sh::MAX_DEGREE`] is 3).
    pub sh_degree: u8,
    /// What was dropped, repaired or noticed.
    pub report: ReadReport,
}

impl Document {
    /// Splats of which nothing else is known.
    #[must_use]
    pub fn new(splats: Splats) -> Self {
        Self {
            sh_degree: splats.sh_degree,
            splats,
            antialiased: false,
            flat: false,
            vertical_axis: None,
            saved_from_dataset: None,
            sky: 0,
            page: None,
            format: Format::Ply,
            version: None,
            frame: None,
            report: ReadReport::default(),
        }
    }

    /// The same document with other splats, the last `sky` of which are a sky.
    #[must_use]
    pub fn with_splats(&self, splats: Splats, sky: usize) -> Self {
        Self {
            sky,
            vertical_axis: self.vertical_axis,
            saved_from_dataset: self.saved_from_dataset,
            antialiased: self.antialiased,
            flat: self.flat,
            page: self.page.clone(),
            ..Self::new(splats)
        }
    }

    /// Notes the SH degree of the file, which may be higher than what is kept of it.
    pub(super) fn stored_degree(&mut self, stored: u8) {
        self.sh_degree = stored;
        let kept = self.splats.sh_degree;
        if stored > kept {
            self.report.notes.push(format!(
                "SH degree: the top band was left out (expected a degree of at most {kept}, found {stored})"
            ));
        }
    }

    /// Number of splats of the scene, which come before those of the sky.
    #[must_use]
    pub fn scene_len(&self) -> usize {
        self.splats.len() - self.sky
    }

    /// The splats of the scene, without those of the sky.
    #[must_use]
    pub fn scene(&self) -> Cow<'_, Splats> {
        match self.sky {
            0 => Cow::Borrowed(&self.splats),
            _ => Cow::Owned(self.splats.select(&(0..self.scene_len()).collect::<Vec<_>>())),
        }
    }

    /// Moves, turns and scales the splats, and remembers it.
    pub fn transform(&mut self, by: &Similarity) {
        by.apply_to_splats(&mut self.splats);
        self.saved_from_dataset = Some(self.saved_from_dataset.unwrap_or_default().then(by));
    }

    /// Keeps the splats whose flag is set.
    pub fn retain(&mut self, stays: &[bool]) {
        let scene_len = self.scene_len();
        self.sky = stays.iter().skip(scene_len).filter(|stays| **stays).count();
        self.splats.retain(stays);
    }
}

/// Points with colours, for a start of training.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PointCloud {
    /// Positions in world space.
    pub positions: Vec<[f32; 3]>,
    /// Colours in 0..1, one per position; `None` when the file has none.
    pub colours: Option<Vec<[f32; 3]>>,
    /// What was dropped or noticed.
    pub report: ReadReport,
}

/// What a file holds that training can start from.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "there is one at a time")]
pub enum Initial {
    /// Splats.
    Splats(Document),
    /// Points.
    Points(PointCloud),
}
