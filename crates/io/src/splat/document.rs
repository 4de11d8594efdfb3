//! Content of a splat file, independent of its format.

use std::borrow::Cow;

use gausset_core::Splats;
use gausset_core::constants::NEAR_PLANE;
use gausset_core::splats_transform::Similarity;
use gausset_page::scene::ScenePage;

use super::{Format, ReadReport};
use crate::dataset::georeference::EarthPlace;

/// A splat file in memory.
#[derive(Clone, Debug, PartialEq)]
pub struct SplatFile {
    /// The splats, with the values of the file.
    pub splats: Splats,
    /// Whether the splats were trained with opacity compensation and should be rendered with it.
    pub antialiased: bool,
    /// Whether the splats are flat discs (2DGS).
    pub flat: bool,
    /// Up direction, if the file contains it.
    pub vertical_axis: Option<[f32; 3]>,
    /// Transform of the splats since training, `saved_from_dataset`, if the file contains it. It maps cameras of the
    /// dataset to the axes of the file.
    pub saved_from_dataset: Option<Similarity>,
    /// Place of the dataset on the earth, if the file contains it: there, coordinates are metres east, north and up of it.
    pub georeference: Option<EarthPlace>,
    /// What was subtracted from the coordinates of the dataset, if the file contains it.
    pub offset: Option<[f64; 3]>,
    /// Near plane with which the splats were trained, in units of their positions, if the file contains it.
    pub near_plane: Option<f64>,
    /// Number of splats at the end that are a sky far behind the scene, as Gausset exports it.
    pub sky: usize,
    /// Page settings in the axes of the splats; only HTML pages store them.
    pub page: Option<Box<ScenePage>>,
    /// Format of the file.
    pub format: Format,
    /// Version of the format, if it has versions: `4`.
    pub version: Option<String>,
    /// Axes of the file, if they were converted or had to be assumed.
    pub frame: Option<String>,
    /// SH degree of the file; 4 if its highest band was dropped ([`gausset_core::sh::MAX_DEGREE`] is 3).
    pub sh_degree: u8,
    /// Splats of each level of detail as the file says, the finest first, which are those above; empty if it has one level.
    pub levels: Vec<u64>,
    /// Dropped, repaired and unusual content.
    pub report: ReadReport,
}

impl SplatFile {
    /// Creates a document from splats, with defaults for everything else.
    #[must_use]
    pub fn new(splats: Splats) -> Self {
        Self {
            sh_degree: splats.sh_degree,
            splats,
            antialiased: false,
            flat: false,
            vertical_axis: None,
            saved_from_dataset: None,
            georeference: None,
            offset: None,
            near_plane: None,
            sky: 0,
            page: None,
            format: Format::Ply,
            version: None,
            frame: None,
            levels: Vec::new(),
            report: ReadReport::default(),
        }
    }

    /// Copies the document with other splats, the last `sky` of which are a sky.
    #[must_use]
    pub fn with_splats(&self, splats: Splats, sky: usize) -> Self {
        Self {
            sky,
            vertical_axis: self.vertical_axis,
            saved_from_dataset: self.saved_from_dataset,
            georeference: self.georeference,
            offset: self.offset,
            near_plane: self.near_plane,
            antialiased: self.antialiased,
            flat: self.flat,
            page: self.page.clone(),
            ..Self::new(splats)
        }
    }

    /// Records the SH degree of the file, which may be higher than that of the splats.
    pub(super) fn set_stored_degree(&mut self, stored: u8) {
        self.sh_degree = stored;
        let kept = self.splats.sh_degree;
        if stored > kept {
            self.report.notes.push(format!(
                "SH degree: the highest band was dropped (expected a degree of at most {kept}, found {stored})"
            ));
        }
    }

    /// Number of splats of the scene; those of the sky follow.
    #[must_use]
    pub fn scene_len(&self) -> usize {
        self.splats.len() - self.sky
    }

    /// The splats of the scene, without the sky.
    #[must_use]
    pub fn scene(&self) -> Cow<'_, Splats> {
        match self.sky {
            0 => Cow::Borrowed(&self.splats),
            _ => Cow::Owned(self.splats.select(&(0..self.scene_len()).collect::<Vec<_>>())),
        }
    }

    /// Transforms the splats and the near plane, and records the transform.
    ///
    /// ```
    /// use gausset_core::Splats;
    /// use gausset_core::splats_transform::Similarity;
    /// use gausset_io::splat::SplatFile;
    ///
    /// let mut file = SplatFile::new(Splats::zeros(0, 1));
    /// let twice = Similarity { scale: 2.0, ..Similarity::IDENTITY };
    /// file.transform(&twice);
    /// file.transform(&twice);
    /// assert_eq!(file.saved_from_dataset.map(|transform| transform.scale), Some(4.0));
    /// ```
    pub fn transform(&mut self, by: &Similarity) {
        by.apply_to_splats(&mut self.splats);
        if by.scale != 1.0 {
            self.near_plane = Some(self.near_plane.unwrap_or(NEAR_PLANE) * by.scale);
        }
        self.saved_from_dataset = Some(self.saved_from_dataset.unwrap_or_default().then(by));
    }

    /// Keeps the splats whose flag is set.
    pub fn retain(&mut self, stays: &[bool]) {
        let scene_len = self.scene_len();
        self.sky = stays.iter().skip(scene_len).filter(|stays| **stays).count();
        self.splats.retain(stays);
    }
}

/// Points with colours, from which training can start.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PointCloud {
    /// Positions in world space, as precise as the file: doubles keep their digits far from the origin.
    pub positions: Vec<[f64; 3]>,
    /// Colours in 0..1, one per position; `None` if the file has none.
    pub colours: Option<Vec<[f32; 3]>>,
    /// Dropped and unusual content.
    pub report: ReadReport,
}

/// Content of a file from which training can start.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "there is one at a time")]
pub enum Initial {
    /// A file with splats: training starts from them.
    Splats(SplatFile),
    /// A file with points: splats are placed at them.
    Points(PointCloud),
}
