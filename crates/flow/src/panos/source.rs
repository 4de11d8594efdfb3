//! Input footage: frames, size and projection. It is probed once, even if several splits use it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use gausset_io::reading::Reading;
use gausset_pano::eac::{self, Eac};
use gausset_pano::film::Film;
use gausset_pano::fisheye::DualFisheye;
use gausset_pano::frames::{SourceFrame, list_frames, source_frame, video_frames};
use gausset_pano::load::{self, Limits};
use gausset_pano::projection::Projection;
use gausset_pano::selection::{FILE, Selection, Shows, Wanted};
use gausset_pano::video::Choice;

use super::shape::ShapeChoice;
use super::track::TrackChoice;
use crate::film_frames::{self, Rates, SelectChoice};
use crate::{Failure, Host};

/// Options about the input frames.
#[derive(Clone, Debug, PartialEq)]
pub struct FrameChoice {
    /// Use every n-th image of a folder.
    pub every: u32,
    /// Video: criterion of the frame selection.
    pub select: SelectChoice,
    /// Video: frames per second.
    pub fps: Option<f64>,
    /// Video: start in seconds.
    pub start: f64,
    /// Video: end in seconds.
    pub end: Option<f64>,
    /// Video: keep the sharpest of this many neighbouring frames.
    pub sharpest_of: u32,
    /// Top-bottom stereo; the upper eye is used.
    pub is_stereo: bool,
    /// Lens file that describes dual-fisheye frames (docs/reference/pano.md).
    pub lens: Option<PathBuf>,
    /// Maximum number of frames: of a video selected by parallax, of a folder evenly spaced.
    pub max_frames: Option<u32>,
    /// Options about the projection.
    pub shape: ShapeChoice,
    /// Video: GPS track, for motion that the images do not show.
    pub track: Option<TrackChoice>,
}

impl Default for FrameChoice {
    fn default() -> Self {
        Self {
            every: 1,
            select: SelectChoice::default(),
            fps: None,
            start: 0.0,
            end: None,
            sharpest_of: 1,
            is_stereo: false,
            lens: None,
            max_frames: None,
            shape: ShapeChoice::default(),
            track: None,
        }
    }
}

impl FrameChoice {
    /// Refuses options that apply to videos only.
    fn not_of_video(&self, found: &str) -> Result<(), Failure> {
        let Self { fps, start, end, sharpest_of, select, .. } = self;
        if fps.is_some() || end.is_some() || *start != 0.0 || *sharpest_of != 1 {
            return Err(Failure::usage(format!(
                "⟨fps⟩, ⟨start⟩, ⟨end⟩, ⟨sharpest-of⟩: apply to videos only (found {found})"
            )));
        }
        if *select != SelectChoice::default() {
            return Err(Failure::usage(format!("⟨select⟩, ⟨step⟩: apply to videos only (found {found})")));
        }
        Ok(())
    }
}

/// Footage that has been probed.
#[derive(Clone, Debug)]
pub struct Source {
    /// The frames.
    pub frames: Vec<SourceFrame>,
    /// Width of the equivalent panorama: pixels around the horizon.
    pub around: u32,
    /// Projection of image files that are not panoramas.
    pub projection: Option<Projection>,
    /// The video that the frames come from.
    pub film: Option<Film>,
    /// Options of the frame selection, until it is done.
    wanted: Option<Wanted>,
    /// GPS track, until the selection is done.
    track: Option<TrackChoice>,
    /// The frame selection of the video, with reasons.
    pub selection: Option<Selection>,
    /// Whether images are top-bottom stereo, of which the upper eye is used.
    pub is_stereo: bool,
    /// Size limits of images.
    pub limits: Limits,
    /// Gains that equalise the frames, computed on first use.
    pub(super) frame_gains: OnceLock<Vec<[f64; 3]>>,
    /// Marks the files as inputs that must not be overwritten.
    _reading: Arc<Reading>,
}

/// Whether this file extension is that of a supported image format.
#[must_use]
pub fn is_picture(extension: &OsStr) -> bool {
    ["jpg", "jpeg", "insp", "png", "tif", "tiff"].iter().any(|known| extension.eq_ignore_ascii_case(known))
}

impl Source {
    /// Probes an image, a folder or a video. `silence` is the timeout of ffmpeg without output.
    ///
    /// # Errors
    /// No usable input, options that do not apply to it, or the job was asked to stop.
    pub fn open(
        input: &Path,
        choice: &FrameChoice,
        limits: Limits,
        silence: Duration,
        host: &Host<'_>,
    ) -> Result<Self, Failure> {
        let source = if input.is_file() && input.extension().is_some_and(is_picture) {
            Self::of_picture(input, choice, limits)
        } else if input.is_file() {
            Self::of_video(input, choice, limits, silence, host)
        } else {
            Self::of_folder(input, choice, limits)
        };
        let source = host.unless_stopped(source)?;
        if choice.track.is_some() && source.film.is_none() {
            return Err(Failure::usage(
                "⟨track⟩: selects frames of a video (found images; `gausset pano align` uses it for their positions)",
            ));
        }
        if choice.is_stereo && source.projection.is_some() {
            return Err(Failure::usage("⟨stereo⟩: applies to panoramas only (found other frames)"));
        }
        let track = choice.track.as_ref().map(|track| &track.path);
        let named = [
            Some(input).filter(|input| input.is_file()),
            choice.lens.as_deref(),
            track.map(PathBuf::as_path),
        ];
        let files = source.frames.iter().flat_map(|frame| &frame.files).map(PathBuf::as_path);
        let reading = Reading::of(named.into_iter().flatten().chain(files));
        Ok(Self { _reading: Arc::new(reading), ..source })
    }

    /// Image files with a projection other than equirectangular.
    fn of_projection(frames: Vec<SourceFrame>, projection: Projection, limits: Limits) -> Self {
        let around = projection.pixels_around();
        Self { projection: Some(projection), ..Self::of_files(frames, around, limits) }
    }

    /// Image files that are panoramas, or stereo pairs of panoramas.
    fn of_files(frames: Vec<SourceFrame>, around: u32, limits: Limits) -> Self {
        Self {
            frames,
            around,
            projection: None,
            film: None,
            wanted: None,
            track: None,
            selection: None,
            is_stereo: false,
            limits,
            frame_gains: OnceLock::new(),
            _reading: Arc::default(),
        }
    }

    /// Selects the frames of a video, unless done before. Measurements of an earlier selection in `folder` are reused.
    ///
    /// # Errors
    /// ffmpeg fails; the job was asked to stop.
    pub fn choose(mut self, folder: &Path, host: &mut Host<'_>) -> Result<Self, Failure> {
        let (Some(film), Some(wanted)) = (&self.film, &self.wanted) else { return Ok(self) };
        let known = folder.join(FILE);
        let track = self.track.as_ref();
        let selection = film_frames::select(&film.video, &shows(film), wanted, track, &known, host)?;
        let film = film.clone().picked(&selection.picks());
        self.frames = video_frames(&film.video);
        (self.film, self.selection, self.wanted) = (Some(film), Some(selection), None);
        Ok(self)
    }

    /// Whether a frame consists of several images.
    #[must_use]
    pub fn has_parts(&self) -> bool {
        self.is_eac() || self.frames.iter().any(|frame| frame.files.len() > 1)
    }

    /// Whether the frames are GoPro MAX streams.
    #[must_use]
    pub fn is_eac(&self) -> bool {
        matches!(self.projection, Some(Projection::Eac(_)))
            || self.film.as_ref().is_some_and(|film| film.eac.is_some())
    }

    fn of_picture(input: &Path, choice: &FrameChoice, limits: Limits) -> Result<Self, Failure> {
        choice.not_of_video("an image")?;
        let stem = input.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
        let frames = vec![source_frame(&stem, vec![input.to_owned()])];
        if let Some(lenses) = lenses_of(choice)? {
            return Ok(Self::of_projection(frames, Projection::Fisheye(lenses), limits));
        }
        if !choice.is_stereo
            && let Some(cube) = choice.shape.of_pictures(input, &frames, &limits)?
        {
            return Ok(Self::of_projection(frames, cube, limits));
        }
        let around = width_of_first(&frames, &limits, choice.is_stereo)?;
        Ok(Self { is_stereo: choice.is_stereo, ..Self::of_files(frames, around, limits) })
    }

    fn of_video(
        input: &Path,
        choice: &FrameChoice,
        limits: Limits,
        silence: Duration,
        host: &Host<'_>,
    ) -> Result<Self, Failure> {
        let FrameChoice { fps, start, end, sharpest_of, is_stereo, .. } = *choice;
        if !(start.is_finite() && start >= 0.0) {
            return Err(Failure::usage(format!("⟨start⟩: expected a number from 0 on, found {start}")));
        }
        let rates = Rates {
            fps,
            sharpest_of: (sharpest_of != 1).then_some(sharpest_of),
            max_frames: choice.max_frames,
        };
        let wanted = choice.select.wanted(rates)?;
        TrackChoice::check(choice.track.as_ref(), wanted.as_ref())?;
        // A frame selection chooses among all frames of the video.
        let chosen = Choice { fps: if wanted.is_none() { fps } else { None }, start, end, sharpest_of };
        let largest = [limits.width, limits.height];
        let film = match lenses_of(choice)? {
            Some(_) if is_stereo => {
                return Err(Failure::usage("⟨stereo⟩: applies to panoramas and cubes only (found ⟨lens⟩)"));
            }
            Some(_) if choice.shape != ShapeChoice::default() => {
                return Err(Failure::usage(
                    "⟨from⟩, ⟨from-faces⟩, ⟨from-turns⟩: apply to panoramas and cubes only (found ⟨lens⟩)",
                ));
            }
            Some(lenses) => Film::of_lenses(input, &lenses, chosen, largest, silence, host.stop())?,
            None => {
                let film = Film::of_any_shape(input, chosen, is_stereo, largest, silence, host.stop())?;
                choice.shape.of_film(film, host)?
            }
        };
        let around = film.projection().pixels_around();
        let film = match choice.max_frames {
            Some(most) if wanted.is_none() => film.at_most(most as usize),
            _ => film,
        };
        let frames = video_frames(&film.video);
        if choice.every != 1 {
            return Err(Failure::usage("⟨every⟩: applies to folders of images; use ⟨fps⟩ for a video"));
        }
        // ffmpeg crops stereo frames to the upper eye.
        let track = choice.track.clone();
        Ok(Self { film: Some(film), wanted, track, ..Self::of_files(frames, around, limits) })
    }

    fn of_folder(input: &Path, choice: &FrameChoice, limits: Limits) -> Result<Self, Failure> {
        choice.not_of_video("a folder")?;
        let is_stereo = choice.is_stereo;
        let listed = list_frames(input)?;
        if let Some(lenses) = lenses_of(choice)? {
            return Ok(Self::of_projection(choose(listed, choice), Projection::Fisheye(lenses), limits));
        }
        if let Some(pairs) = eac::pairs(&listed) {
            let frames = choose(pairs, choice);
            let eac = eac_of(&frames, &limits)?;
            let around = 4 * eac.face_side();
            let projection = Some(Projection::Eac(eac));
            return Ok(Self { projection, is_stereo, ..Self::of_files(frames, around, limits) });
        }
        if !is_stereo && let Some((sets, cube)) = choice.shape.of_sets(input, &listed, &limits)? {
            return Ok(Self::of_projection(choose(sets, choice), cube, limits));
        }
        refuse_lone_stream(input, &listed)?;
        let frames = choose(listed, choice);
        if !is_stereo && let Some(cube) = choice.shape.of_pictures(input, &frames, &limits)? {
            return Ok(Self::of_projection(frames, cube, limits));
        }
        let around = width_of_first(&frames, &limits, is_stereo)?;
        Ok(Self { is_stereo, ..Self::of_files(frames, around, limits) })
    }
}

/// Reads the given lens file.
fn lenses_of(choice: &FrameChoice) -> Result<Option<DualFisheye>, Failure> {
    let lenses = choice.lens.as_deref().map(DualFisheye::read).transpose();
    lenses.map_err(|e| Failure::new("lens", e))
}

/// What the frames of a video show, for motion measurement.
pub(super) fn shows(film: &Film) -> Shows {
    match film.projection() {
        Projection::Equirect(_) => Shows::Sphere,
        folded => Shows::Folded(Box::new(folded)),
    }
}

/// Refuses a GoPro MAX stream without its counterpart.
pub(crate) fn refuse_lone_stream(folder: &Path, frames: &[SourceFrame]) -> Result<(), Failure> {
    match eac::missing_stream(frames) {
        Some(missing) => Err(Failure::new(
            "frames",
            format!(
                "{}: frames: {missing} is missing (expected both streams of a GoPro MAX: NAME_track0, NAME_track5); copy both",
                folder.display()
            ),
        )),
        None => Ok(()),
    }
}

/// Layout of GoPro MAX streams, from the size of the first frame.
fn eac_of(frames: &[SourceFrame], limits: &Limits) -> Result<Eac, Failure> {
    let Some(file) = frames.first().and_then(|frame| frame.files.first()) else {
        return Err(Failure::new("frames", "frames: none found"));
    };
    let opened = load::open(file, limits, Vec::new()).map_err(|e| Failure::new("frames", e))?;
    let [w, h] = opened.size;
    Eac::of_stream(w, h).ok_or_else(|| {
        let file = file.display();
        Failure::new(
            "frames",
            format!("{file}: picture: {w}x{h} px is not a GoPro MAX stream (expected 4096x1344 or 2272x736)"),
        )
    })
}

fn choose(frames: Vec<SourceFrame>, choice: &FrameChoice) -> Vec<SourceFrame> {
    let frames: Vec<SourceFrame> = frames.into_iter().step_by(choice.every.max(1) as usize).collect();
    match choice.max_frames.map(|n| n as usize) {
        Some(most) if most < frames.len() => {
            let all = frames.len();
            (0..most).map(|k| frames[k * all / most].clone()).collect()
        }
        _ => frames,
    }
}

/// Width of the equivalent panorama, from the first readable frame.
fn width_of_first(frames: &[SourceFrame], limits: &Limits, is_stereo: bool) -> Result<u32, Failure> {
    let mut first_error = None;
    for file in frames.iter().flat_map(|frame| &frame.files) {
        let found = load::open(file, limits, Vec::new()).map_err(|e| e.to_string()).and_then(|opened| {
            opened.equirect(is_stereo).map_err(|what| format!("{}: {what}", file.display()))
        });
        match found {
            Ok(equirect) => return Ok(Projection::Equirect(equirect).pixels_around()),
            Err(error) => {
                first_error.get_or_insert(error);
            }
        }
    }
    Err(Failure::new("frames", first_error.unwrap_or_else(|| "frames: none found".to_owned())))
}
