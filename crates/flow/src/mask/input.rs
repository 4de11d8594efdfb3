//! What IN is: panoramas in whatever way they show the sphere, photographs, or the views of a split.

use std::path::{Path, PathBuf};
use std::time::Duration;

use gausset_pano::eac;
use gausset_pano::film::Film;
use gausset_pano::frames::{SourceFrame, list_frames, source_frame};
use gausset_pano::load::{self, Limits};
use gausset_pano::selection::FILE;
use gausset_pano::split::{self, Description};

use super::MaskOptions;
use crate::panos::source::{Source, refuse_lone_stream};
use crate::panos::{FrameChoice, ShapeChoice};
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
    /// The folder of a split, and its frames, with a picture for each of its views.
    Views(PathBuf, Description, Vec<SourceFrame>),
}

impl Input {
    pub(super) fn open(options: &MaskOptions, host: &mut Host<'_>) -> Result<Self, Failure> {
        let MaskOptions { input: path, kind, frames: choice, .. } = options;
        if split::is_ours(path) {
            let is_chosen = *choice != FrameChoice::default();
            return match kind {
                _ if is_chosen => Err(Failure::usage(format!(
                    "{}: is the folder of a split, whose frames are chosen already; leave out ⟨every⟩, ⟨fps⟩, ⟨lens⟩ and the like",
                    path.display()
                ))),
                None | Some(InputKind::Views) => Self::of_split(path),
                Some(_) => Err(Failure::usage(format!(
                    "⟨as⟩: {} is the folder of a split; leave it out",
                    path.display()
                ))),
            };
        }
        let panoramas = |host: &mut Host<'_>| {
            let silence = Duration::from_secs(SILENCE);
            let source = Source::open(path, choice, Limits::default(), silence, host)?;
            Ok(Self::Panoramas(Box::new(source.choose(&options.output, host)?)))
        };
        let is_file = path.is_file();
        // What photographs do not have says that there are none.
        let is_of_sphere =
            choice.lens.is_some() || choice.is_stereo || choice.shape != ShapeChoice::default();
        if *kind == Some(InputKind::Panoramas) || is_of_sphere || (is_file && !has_picture_name(path)) {
            return panoramas(host);
        }
        let frames = if is_file {
            let stem = path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
            vec![source_frame(&stem, vec![path.to_owned()])]
        } else {
            list_frames(path)?
        };
        if *kind != Some(InputKind::Photographs) {
            refuse_lone_stream(path, &frames)?;
        }
        let are_panoramas = || eac::pairs(&frames).is_some() || shows_sphere(&frames);
        if *kind != Some(InputKind::Photographs) && are_panoramas() {
            return panoramas(host);
        }
        if *choice != FrameChoice::default() {
            return Err(Failure::usage(
                "⟨every⟩, ⟨fps⟩, ⟨max-frames⟩ and the like: are for panoramas and videos (found photographs)",
            ));
        }
        Ok(Self::Photographs(frames))
    }

    /// Whether frames follow each other in time.
    pub(super) fn is_film(&self) -> bool {
        match self {
            Self::Panoramas(source) => source.film.is_some(),
            Self::Views(folder, ..) => folder.join(FILE).is_file(),
            Self::Photographs(_) => false,
        }
    }

    /// What decides what frames show, beside their files.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Panoramas(source) => {
                let film = source.film.as_ref().map(Film::selection);
                format!("{film:?} {:?} {}", source.projection, source.is_stereo)
            }
            Self::Photographs(_) | Self::Views(..) => String::new(),
        }
    }

    fn of_split(folder: &Path) -> Result<Self, Failure> {
        let description = Description::read(folder).map_err(|e| Failure::new("frames", e))?;
        if description.lens_axes.is_some() {
            let line = format!(
                "{}: frames: are lenses apart (expected views of panoramas); mask the source: `gausset mask`, then split with ⟨masks⟩",
                folder.display()
            );
            return Err(Failure::new("frames", line));
        }
        let frames = description.frames.iter().enumerate().map(|(index, name)| {
            let views = 0..description.views.len();
            let files = views.map(|view| folder.join("images").join(description.picture_name(index, view)));
            source_frame(name, files.collect())
        });
        let frames = frames.collect();
        Ok(Self::Views(folder.to_owned(), description, frames))
    }

    pub(super) fn frames(&self) -> &[SourceFrame] {
        match self {
            Self::Panoramas(source) => &source.frames,
            Self::Photographs(frames) | Self::Views(_, _, frames) => frames,
        }
    }

    pub(super) fn kind(&self) -> InputKind {
        match self {
            Self::Panoramas(_) => InputKind::Panoramas,
            Self::Photographs(_) => InputKind::Photographs,
            Self::Views(..) => InputKind::Views,
        }
    }

    /// Names of what a frame gets, relative to the folder.
    pub(super) fn names(&self, index: usize) -> Vec<Names> {
        let frame = &self.frames()[index];
        match self {
            Self::Views(_, description, _) => (0..description.views.len())
                .map(|view| Names::of_picture(&description.picture_name(index, view)))
                .collect(),
            Self::Panoramas(source) if source.film.is_some() || source.has_parts() => {
                vec![Names { mask: format!("{}.png", frame.stem).into(), cutout: frame.stem.clone().into() }]
            }
            Self::Panoramas(_) | Self::Photographs(_) => {
                let name = frame.files.first().and_then(|file| file.file_name()).unwrap_or_default();
                vec![Names::of_picture(&name.to_string_lossy())]
            }
        }
    }
}

/// Names of what belongs to a picture.
pub(super) struct Names {
    /// That of the picture with `.png` behind it, as COLMAP wants; of a frame that is no file of its own, of the frame.
    pub(super) mask: PathBuf,
    /// Without an extension.
    pub(super) cutout: PathBuf,
}

impl Names {
    fn of_picture(name: &str) -> Self {
        Self { mask: PathBuf::from(format!("{name}.png")), cutout: Path::new(name).with_extension("") }
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
