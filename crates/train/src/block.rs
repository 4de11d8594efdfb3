//! Runs that are trained in blocks: the option, and what the run of one block is given by the whole.
//!
//! Whatever a run decides from its images (exposure, sky, background, extent, near plane), the whole set decides once. A
//! block that decided from its own images would decide otherwise: two halves of a set whose exposures each have a mean
//! of their own differ by a tenth in brightness where they meet (research/experiments.md, "Blocks").

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use gausset_core::engine::{CorrectionGroup, CorrectionKind};
use gausset_io::dataset::{Dataset, Point};
use serde::{Deserialize, Serialize};

use crate::gains::Gains;
use crate::option_values::ParseValueError;

/// Maximum number of blocks of a run.
pub const MAX_BLOCKS: u32 = 1000;

/// Whether a scene is trained in blocks.
///
/// ```
/// use gausset_train::Blocks;
///
/// assert_eq!("4".parse(), Ok(Blocks::Count(4)));
/// assert_eq!(Blocks::Auto.to_string(), "auto");
/// assert!("0".parse::<Blocks>().is_err());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Blocks {
    /// As a whole.
    #[default]
    Off,
    /// In as few blocks as memory allows.
    Auto,
    /// In this many blocks.
    Count(u32),
}

impl FromStr for Blocks {
    type Err = ParseValueError;

    fn from_str(text: &str) -> Result<Self, ParseValueError> {
        match text {
            "off" => return Ok(Self::Off),
            "auto" => return Ok(Self::Auto),
            _ => {}
        }
        match text.parse() {
            Ok(count @ 1..=MAX_BLOCKS) => Ok(Self::Count(count)),
            _ => Err(ParseValueError {
                expected: format!("off, auto or 1..{MAX_BLOCKS}"),
                found: text.to_owned(),
            }),
        }
    }
}

impl fmt::Display for Blocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::Auto => f.write_str("auto"),
            Self::Count(count) => write!(f, "{count}"),
        }
    }
}

impl TryFrom<String> for Blocks {
    type Error = ParseValueError;

    fn try_from(text: String) -> Result<Self, ParseValueError> {
        text.parse()
    }
}

impl From<Blocks> for String {
    fn from(blocks: Blocks) -> Self {
        blocks.to_string()
    }
}

/// What the run of one block is given. The coarse run that precedes the blocks is one, too: of all training images, with
/// corrections of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// Which block of which division it is. A run resumes only as the block that it has begun as.
    pub label: String,
    /// Names of its training images. It holds out none: the whole does.
    pub images: BTreeSet<Arc<str>>,
    /// Whether each point of the dataset may be one of its initial splats; `None`: all of them.
    pub points: Option<Vec<bool>>,
    /// Corrections that are not learnt, but given; `None`: learnt.
    pub corrections: Option<GivenCorrections>,
    /// What the machine that divided the scene has decided by its memory; `None`: this one decides.
    pub memory: Option<BlockMemory>,
}

/// Decisions by memory that change the result: those of a block are the same on each machine, or it is refused there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockMemory {
    /// Bytes that tracks may use.
    pub tracks_bytes: u64,
    /// Longest side of the depth maps, px; `None`: no stereo.
    pub stereo_side: Option<u32>,
}

/// The corrections of a block, from the coarse run on all images.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct GivenCorrections {
    /// Log gain of each training image; `None` if exposure is not corrected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_gains: Option<BTreeMap<String, [f32; 3]>>,
    /// Vignetting of each camera, by its index in the dataset.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub vignetting: BTreeMap<u32, Vec<f32>>,
    /// Coefficients of the sky, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sky: Option<Vec<f32>>,
}

impl Block {
    /// Whether each of its images must be readable: those that the coarse run could not read are in no block.
    pub(crate) fn reads_all(&self) -> bool {
        self.memory.is_some()
    }

    /// Limits the training images of a dataset to those of the block. Cameras, points and extent stay those of the whole.
    pub(crate) fn limit(&self, dataset: &mut Dataset) {
        let Dataset { split, images, .. } = dataset;
        split.train.retain(|&index| self.images.contains(&images[index].name));
        split.test.clear();
    }

    /// Number of points that may be initial splats.
    #[must_use]
    pub fn start_points(&self, dataset: &Dataset) -> u64 {
        let usable = |points: &Vec<bool>| points.iter().filter(|usable| **usable).count();
        self.points.as_ref().map_or(dataset.points.len(), usable) as u64
    }

    /// A dataset with the points that may be initial splats; `None`: all of them may.
    pub(crate) fn with_initial_points(&self, dataset: &Dataset) -> Option<Dataset> {
        let usable = self.points.as_ref()?;
        let points = dataset.points.iter().zip(usable).filter(|(_, usable)| **usable);
        let points: Vec<Point> = points.map(|(point, _)| *point).collect();
        Some(Dataset { points, ..dataset.clone() })
    }
}

impl GivenCorrections {
    /// Log gains by row, of `count` rows; `row` names that of each training image of `dataset`.
    pub(crate) fn gains(&self, dataset: &Dataset, count: usize, row: impl Fn(usize) -> Option<u32>) -> Gains {
        let mut rows = vec![None; count];
        for (train_index, &index) in dataset.split.train.iter().enumerate() {
            let gain = self.log_gains.as_ref().and_then(|gains| gains.get(&*dataset.images[index].name));
            let row = row(train_index).and_then(|row| rows.get_mut(row as usize));
            if let (Some(row), Some(gain)) = (row, gain) {
                *row = Some(gain.map(f64::from));
            }
        }
        Gains { rows, ..Gains::default() }
    }

    /// Sets the vignetting and the sky in `groups` to the given ones; `row` names the row of the vignetting of each
    /// training image of `dataset`.
    pub(crate) fn write_to(
        &self,
        groups: &mut [CorrectionGroup],
        dataset: &Dataset,
        row: impl Fn(usize) -> Option<u32>,
    ) {
        for group in groups {
            match group.group {
                CorrectionKind::Sky => set_row(group, 0, self.sky.as_deref()),
                CorrectionKind::Vignetting => {
                    for (train_index, &index) in dataset.split.train.iter().enumerate() {
                        let camera = dataset.images[index].source_camera as u32;
                        if let Some(row) = row(train_index) {
                            set_row(group, row as usize, self.vignetting.get(&camera).map(Vec::as_slice));
                        }
                    }
                }
                CorrectionKind::Gain | CorrectionKind::Pose => {}
            }
        }
    }
}

/// Sets the values of a row, if they are given.
fn set_row(group: &mut CorrectionGroup, row: usize, given: Option<&[f32]>) {
    let range = group.row_range(row);
    if let (Some(values), Some(given)) = (group.values.get_mut(range), given)
        && values.len() == given.len()
    {
        values.copy_from_slice(given);
    }
}
