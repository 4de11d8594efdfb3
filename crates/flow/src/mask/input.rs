//! What IN is: panoramas, photographs, or the views of a split.

use std::path::{Path, PathBuf};
use std::time::Duration;

use gausset_pano::frames::{SourceFrame, list_frames, source_frame};
use gausset_pano::load::{self, Limits};
use gausset_pano::split::{self, Description};

use crate::panos::FrameChoice;
use crate::panos::source::Source;
use crate::tool::SILENCE;
use crate::{Failure, Host};

/// What pictures are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputKind {
    /// The whole sphere by longitude and latitude, or a part of it.
    Panoramas,
    /// What one camera sees.
    Photographs,
    /// Views of panoramas, cut by a split.
    Views,
}

impl InputKind {
    /// What one of them is called.
    #[must_use]
    pub const fn noun(self) -> &'static str {
        match self {
            Self::Panoramas => "panorama",
            Self::Photographs => "photograph",
            Self::Views => "frame",
        }
    }
}

/// Pictures that were looked at.
pub(super) enum Input {
    Panoramas(Box<Source>),
    Photographs(Vec<SourceFrame>),
    /// Frames of a split, with a picture for each of its views.
    Views(Description, Vec<SourceFrame>),
}

impl Input {
    pub(super) fn open(path: &Path, kind: Option<InputKind>, host: &Host<'_>) -> Result<Self, Failure> {
        if split::is_ours(path) {
            return match kind {
                None | Some(InputKind::Views) => Self::of_split(path),
                Some(_) => Err(Failure::usage(format!(
                    "⟨as⟩: {} is the folder of a split; leave it out",
                    path.display()
                ))),
            };
        }
        let panoramas = || {
            let silence = Duration::from_secs(SILENCE);
            Source::open(path, &FrameChoice::default(), Limits::default(), silence, host)
        };
        let is_file = path.is_file();
        if kind == Some(InputKind::Panoramas) || (is_file && !has_picture_name(path)) {
            return Self::of_source(path, panoramas()?);
        }
        let frames = if is_file {
            let stem = path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
            vec![source_frame(&stem, vec![path.to_owned()])]
        } else {
            list_frames(path)?
        };
        if kind == Some(InputKind::Photographs) || !shows_sphere(&frames) {
            return Ok(Self::Photographs(frames));
        }
        Self::of_source(path, panoramas()?)
    }

    pub(super) fn of_source(path: &Path, source: Source) -> Result<Self, Failure> {
        let what = match (&source.film, &source.projection) {
            (Some(_), _) => {
                "a video; take its frames first (`pano split` with `cube6`, then give its folder)"
            }
            (None, Some(_)) => {
                "cubes, fisheyes or GoPro MAX streams; make panoramas of them first (`pano convert`)"
            }
            (None, None) => return Ok(Self::Panoramas(Box::new(source))),
        };
        Err(Failure::new(
            "frames",
            format!("{}: frames: expected panoramas or photographs, found {what}", path.display()),
        ))
    }

    fn of_split(folder: &Path) -> Result<Self, Failure> {
        let description = Description::read(folder).map_err(|e| Failure::new("frames", e))?;
        let frames = description.frames.iter().enumerate().map(|(index, name)| {
            let views = 0..description.views.len();
            let files = views.map(|view| folder.join("images").join(description.picture_name(index, view)));
            source_frame(name, files.collect())
        });
        let frames = frames.collect();
        Ok(Self::Views(description, frames))
    }

    pub(super) fn frames(&self) -> &[SourceFrame] {
        match self {
            Self::Panoramas(source) => &source.frames,
            Self::Photographs(frames) | Self::Views(_, frames) => frames,
        }
    }

    pub(super) fn kind(&self) -> InputKind {
        match self {
            Self::Panoramas(_) => InputKind::Panoramas,
            Self::Photographs(_) => InputKind::Photographs,
            Self::Views(..) => InputKind::Views,
        }
    }

    /// Names of the masks of a frame, relative to their folder: that of a picture with `.png` behind it, as COLMAP wants.
    pub(super) fn names(&self, index: usize) -> Vec<PathBuf> {
        let frame = &self.frames()[index];
        match self {
            Self::Views(description, _) => (0..description.views.len())
                .map(|view| PathBuf::from(description.picture_name(index, view) + ".png"))
                .collect(),
            Self::Panoramas(_) | Self::Photographs(_) => {
                let name = frame.files.first().and_then(|file| file.file_name()).unwrap_or_default();
                vec![PathBuf::from(format!("{}.png", name.to_string_lossy()))]
            }
        }
    }
}

fn has_picture_name(path: &Path) -> bool {
    path.extension().is_some_and(crate::panos::source::is_picture)
}

/// Whether the first picture that can be opened shows the sphere.
fn shows_sphere(frames: &[SourceFrame]) -> bool {
    let limits = Limits::default();
    let opened = frames
        .iter()
        .flat_map(|frame| &frame.files)
        .find_map(|file| load::open(file, &limits, Vec::new()).ok());
    opened.is_some_and(|opened| opened.equirect(false).is_ok())
}
