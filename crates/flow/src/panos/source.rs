//! What footage is given: which frames, how large, in which projection. Looked at once, however often views are cut.

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

/// Which frames.
#[derive(Clone, Debug, PartialEq)]
pub struct FrameChoice {
    /// Every n-th frame of a folder.
    pub every: u32,
    /// Video: by what frames are chosen.
    pub select: SelectChoice,
    /// Video: frames per second.
    pub fps: Option<f64>,
    /// Video: first second.
    pub start: f64,
    /// Video: last second.
    pub end: Option<f64>,
    /// Video: of so many neighbouring frames, the sharpest.
    pub sharpest_of: u32,
    /// Two eyes, one above the other; the upper one is taken.
    pub is_stereo: bool,
    /// Frames of two fisheye circles, described by a lens file (docs/pano.md).
    pub lens: Option<PathBuf>,
    /// At most so many frames: of a video spread by parallax, of a folder evenly.
    pub max_frames: Option<u32>,
    /// What the pictures look like.
    pub shape: ShapeChoice,
    /// Video: the way of the camera where its pictures say little of it.
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
    /// Refuses what only a video has.
    fn not_of_video(&self, found: &str) -> Result<(), Failure> {
        let Self { fps, start, end, sharpest_of, select, .. } = self;
        if fps.is_some() || end.is_some() || *start != 0.0 || *sharpest_of != 1 {
            return Err(Failure::usage(format!(
                "⟨fps⟩, ⟨start⟩, ⟨end⟩, ⟨sharpest-of⟩: are for videos (found {found})"
            )));
        }
        if *select != SelectChoice::default() {
            return Err(Failure::usage(format!("⟨select⟩, ⟨step⟩: are for videos (found {found})")));
        }
        Ok(())
    }
}

/// Footage that was looked at.
#[derive(Clone, Debug)]
pub struct Source {
    /// The frames.
    pub frames: Vec<SourceFrame>,
    /// Pixels around the horizon.
    pub around: u32,
    /// What the pictures are, where they are no panoramas.
    pub projection: Option<Projection>,
    /// The film that the frames come from.
    pub film: Option<Film>,
    /// What is wanted of the film, until frames are chosen.
    wanted: Option<Wanted>,
    /// The way of the camera, until then.
    track: Option<TrackChoice>,
    /// Which frames of the film were chosen, and why.
    pub selection: Option<Selection>,
    /// Whether the upper of two eyes is to be taken.
    pub is_stereo: bool,
    /// The largest picture that is opened.
    pub limits: Limits,
    /// Factors that make frames alike, once they were asked for.
    pub(super) frame_gains: OnceLock<Vec<[f64; 3]>>,
    /// Keeps its files from being written over.
    _reading: Arc<Reading>,
}

/// Whether pictures of the sphere come in files with this extension.
#[must_use]
pub fn is_picture(extension: &OsStr) -> bool {
    ["jpg", "jpeg", "insp", "png", "tif", "tiff"].iter().any(|known| extension.eq_ignore_ascii_case(known))
}

impl Source {
    /// Looks at a picture, a folder or a video. `silence` is how long ffmpeg may say nothing.
    ///
    /// # Errors
    /// Nothing there that can be used, a choice that is not for such footage; the job was asked to stop.
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
                "⟨track⟩: chooses frames of a video (found pictures; `gausset pano align` takes it for their places)",
            ));
        }
        if choice.is_stereo && source.projection.is_some() {
            return Err(Failure::usage("⟨stereo⟩: is for panoramas (found other frames)"));
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

    /// Pictures that show the sphere in a way of their own.
    fn of_projection(frames: Vec<SourceFrame>, projection: Projection, limits: Limits) -> Self {
        let around = projection.pixels_around();
        Self { projection: Some(projection), ..Self::of_files(frames, around, limits) }
    }

    /// Pictures in files: panoramas, unless something else is said of them.
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

    /// Chooses the frames of a film, where that was not done; `folder` may hold an earlier choice, whose measurements
    /// are used again.
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

    /// Whether a frame is several pictures.
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
        choice.not_of_video("a picture")?;
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
        // What is chosen one by one is chosen among all.
        let chosen = Choice { fps: if wanted.is_none() { fps } else { None }, start, end, sharpest_of };
        let largest = [limits.width, limits.height];
        let film = match lenses_of(choice)? {
            Some(_) if is_stereo => {
                return Err(Failure::usage("⟨stereo⟩: is for panoramas and cubes (found ⟨lens⟩)"));
            }
            Some(_) if choice.shape != ShapeChoice::default() => {
                return Err(Failure::usage(
                    "⟨from⟩, ⟨from-faces⟩, ⟨from-turns⟩: are for panoramas and cubes (found ⟨lens⟩)",
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
            return Err(Failure::usage("⟨every⟩: is for folders of pictures; say ⟨fps⟩ for a video"));
        }
        // ffmpeg gives the upper eye alone.
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

/// The lens file that was named.
fn lenses_of(choice: &FrameChoice) -> Result<Option<DualFisheye>, Failure> {
    let lenses = choice.lens.as_deref().map(DualFisheye::read).transpose();
    lenses.map_err(|e| Failure::new("lens", e))
}

/// What the frames of a film show, for those who look at them.
pub(super) fn shows(film: &Film) -> Shows {
    match film.projection() {
        Projection::Equirect(_) => Shows::Sphere,
        folded => Shows::Folded(Box::new(folded)),
    }
}

/// Refuses a GoPro MAX stream whose other half is not there.
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

/// The layout of GoPro MAX streams of the size of the first.
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
            format!("{file}: picture: {w}x{h} px is no GoPro MAX stream (expected 4096x1344 or 2272x736)"),
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

/// Pixels around the horizon in the first frame that can be read.
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
