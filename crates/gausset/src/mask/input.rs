//! Input of the mask job: panoramas or other full-sphere images, photographs, or the views of a split.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gausset_io::image::{MAX_FILE_BYTES, MAX_SIDE};
use gausset_pano::frames::{FramesError, SourceFrame, list_frames, source_frame_from_files};
use gausset_pano::load::{self, ImageLimits};
use gausset_pano::recognise;
use gausset_pano::selection::FRAMES_FILE;
use gausset_pano::sphere_video::SphereVideo;
use gausset_pano::split::{self, SplitDescription};

use super::{InputKind, MaskOptions};
use crate::aligner::TOOL_TIMEOUT;
use crate::panos::source::{Footage, refuse_lone_stream};
use crate::panos::{FrameOptions, ProjectionOptions};
use crate::photos::PhotographList;
use crate::{FILES_LEFT_OUT, Failure, Host};

/// Limits on panoramas: those of the decoders, within the memory limit.
const LIMITS: ImageLimits = ImageLimits { width: MAX_SIDE, height: MAX_SIDE, bytes: MAX_FILE_BYTES };

/// Input that has been probed.
pub(super) enum MaskInput {
    Panoramas(Box<Footage>),
    /// Photographs and their folder.
    Photographs(PathBuf, Vec<SourceFrame>),
    /// Folder of a split, and its frames, with an image per view.
    Views(PathBuf, SplitDescription, Vec<SourceFrame>),
}

impl MaskInput {
    pub(super) fn open(options: &MaskOptions, host: &mut Host<'_>) -> Result<Self, Failure> {
        let MaskOptions { input: path, kind, frames: choice, .. } = options;
        if split::is_split_output(path) {
            let is_chosen = *choice != FrameOptions::default();
            return match kind {
                _ if is_chosen => Err(Failure::usage(format!(
                    "{}: is the folder of a split, whose frames are already selected; leave out ⟨every⟩, ⟨fps⟩, ⟨lens⟩ and other frame options",
                    path.display()
                ))),
                None | Some(InputKind::Views) => Self::from_split(path),
                Some(_) => Err(Failure::usage(format!(
                    "⟨as⟩: {} is the folder of a split; leave it out",
                    path.display()
                ))),
            };
        }
        let panoramas = |host: &mut Host<'_>| {
            let silence = Duration::from_secs(TOOL_TIMEOUT);
            let source = Footage::open(path, choice, LIMITS, silence, host)?;
            Ok(Self::Panoramas(Box::new(source.select_frames(&options.output, host)?)))
        };
        let is_file = path.is_file();
        // These options only apply to full-sphere footage.
        let is_of_sphere =
            choice.lens.is_some() || choice.stereo.is_some() || choice.shape != ProjectionOptions::default();
        if *kind == Some(InputKind::Panoramas) || is_of_sphere || (is_file && !has_image_extension(path)) {
            return panoramas(host);
        }
        let listed = if is_file {
            let stem = path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
            Ok(vec![source_frame_from_files(&stem, vec![path.to_owned()])])
        } else {
            list_frames(path)
        };
        let may_be_sphere = *kind != Some(InputKind::Photographs);
        if may_be_sphere && let Ok(frames) = &listed {
            refuse_lone_stream(path, frames)?;
            if recognise::pair_streams(frames).is_some() || shows_sphere(frames) {
                return panoramas(host);
            }
        }
        let (folder, frames) = if is_file {
            (path.parent().unwrap_or(path).to_owned(), listed?)
        } else {
            let mut list = PhotographList::of_folder(path, &[&options.output])?;
            list.leave_out_heif();
            let frames = photographs(path, &list.names)?;
            // Panoramas are not searched in sub-folders.
            if list.names.is_empty() || may_be_sphere && listed.is_err() && shows_sphere(&frames) {
                listed?;
            }
            for line in &list.left_out {
                host.warn(FILES_LEFT_OUT, format!("{}: {line}", path.display()));
            }
            (path.clone(), frames)
        };
        if *choice != FrameOptions::default() {
            return Err(Failure::usage(
                "⟨every⟩, ⟨fps⟩, ⟨max-frames⟩ and other frame options: apply to panoramas and videos only (found photographs)",
            ));
        }
        Ok(Self::Photographs(folder, frames))
    }

    /// Whether frames are consecutive in time.
    pub(super) fn is_video(&self) -> bool {
        match self {
            Self::Panoramas(source) => source.film.is_some(),
            Self::Views(folder, ..) => folder.join(FRAMES_FILE).is_file(),
            Self::Photographs(..) => false,
        }
    }

    /// Part of the settings hash: everything besides the files that determines the content of the frames.
    pub(super) fn settings_text(&self) -> String {
        match self {
            Self::Panoramas(source) => {
                let film = source.film.as_ref().map(SphereVideo::selection);
                format!("{film:?} {:?} {}", source.projection, source.is_stereo)
            }
            // Version of the bytes: pictures are upright before the model sees them.
            Self::Photographs(..) => "upright".to_owned(),
            Self::Views(..) => String::new(),
        }
    }

    fn from_split(folder: &Path) -> Result<Self, Failure> {
        let description = SplitDescription::read(folder).map_err(|e| Failure::new("frames", e))?;
        if description.lens_axes.is_some() {
            let line = format!(
                "{}: frames: are separate lenses (expected views of panoramas); mask the source instead: `gausset mask`, then split with ⟨masks⟩",
                folder.display()
            );
            return Err(Failure::new("frames", line));
        }
        let frames = description.frames.iter().enumerate().map(|(index, name)| {
            let views = 0..description.views.len();
            let files = views.map(|view| folder.join("images").join(description.image_name(index, view)));
            source_frame_from_files(name, files.collect())
        });
        let frames = frames.collect();
        Ok(Self::Views(folder.to_owned(), description, frames))
    }

    pub(super) fn frames(&self) -> &[SourceFrame] {
        match self {
            Self::Panoramas(source) => &source.frames,
            Self::Photographs(_, frames) | Self::Views(_, _, frames) => frames,
        }
    }

    pub(super) fn kind(&self) -> InputKind {
        match self {
            Self::Panoramas(_) => InputKind::Panoramas,
            Self::Photographs(..) => InputKind::Photographs,
            Self::Views(..) => InputKind::Views,
        }
    }

    /// Output names of a frame, relative to the output folder.
    pub(super) fn names(&self, index: usize) -> Vec<OutputNames> {
        let frame = &self.frames()[index];
        match self {
            Self::Views(_, description, _) => (0..description.views.len())
                .map(|view| OutputNames::for_image(&description.image_name(index, view)))
                .collect(),
            Self::Panoramas(source) if source.film.is_some() || source.has_parts() => {
                vec![OutputNames {
                    mask: format!("{}.png", frame.stem).into(),
                    cutout: frame.stem.clone().into(),
                }]
            }
            Self::Photographs(folder, _) => {
                let name = frame.files.first().and_then(|file| file.strip_prefix(folder).ok());
                vec![OutputNames::for_image(&name.unwrap_or(Path::new("")).to_string_lossy())]
            }
            Self::Panoramas(_) => {
                let name = frame.files.first().and_then(|file| file.file_name()).unwrap_or_default();
                vec![OutputNames::for_image(&name.to_string_lossy())]
            }
        }
    }
}

/// Output names of an image.
pub(super) struct OutputNames {
    /// Name of the image plus `.png`, as COLMAP expects; for frames that are not one file, the name of the frame.
    pub(super) mask: PathBuf,
    /// Name without extension.
    pub(super) cutout: PathBuf,
}

impl OutputNames {
    fn for_image(name: &str) -> Self {
        Self { mask: PathBuf::from(format!("{name}.png")), cutout: Path::new(name).with_extension("") }
    }
}

fn has_image_extension(path: &Path) -> bool {
    path.extension().is_some_and(crate::panos::source::is_image_extension)
}

/// Photographs of a folder, by their names relative to it without extension.
fn photographs(folder: &Path, names: &[String]) -> Result<Vec<SourceFrame>, Failure> {
    let mut seen: BTreeMap<String, &String> = BTreeMap::new();
    let frame = |name| {
        let stem = Path::new(name).with_extension("").display().to_string();
        if let Some(first) = seen.insert(stem.to_lowercase(), name) {
            let (path, first, second) = (folder.to_owned(), first.clone(), name.clone());
            return Err(FramesError::DuplicateName { path, first, second }.into());
        }
        Ok(SourceFrame { stem, ..source_frame_from_files("", vec![folder.join(name)]) })
    };
    names.iter().map(frame).collect()
}

/// Whether the first readable image is a panorama.
fn shows_sphere(frames: &[SourceFrame]) -> bool {
    let opened = frames
        .iter()
        .flat_map(|frame| &frame.files)
        .find_map(|file| load::load(file, &LIMITS, Vec::new()).ok());
    opened.is_some_and(|opened| opened.equirect(false).is_ok())
}
