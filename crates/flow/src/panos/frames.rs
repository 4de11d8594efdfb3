//! The choice of a film's frames by itself: its file, and a sheet of the frames that are kept.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gausset_core::RgbImage8;
use gausset_io::atomic::{Disk, Overwrite, WriteOptions, check_output, write_atomic_with};
use gausset_io::reading::Reading;
use gausset_pano::film::Film;
use gausset_pano::fisheye::DualFisheye;
use gausset_pano::selection::{Selection, Shows, SmallFrames, THUMBNAIL, most_shown, sheet};
use gausset_pano::video::{Choice, Video};

use super::shape::{ShapeChoice, Told};
use super::source::shows;
use super::track::TrackChoice;
use crate::film_frames::{Rates, SelectChoice, select};
use crate::tool::SILENCE;
use crate::{Failure, Host};

/// What the frames of a film show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilmKind {
    /// The whole sphere.
    Panorama,
    /// What an ordinary lens sees.
    Ordinary,
}

/// A film, and what is to be chosen of it.
#[derive(Clone, Debug)]
pub struct FramesOptions {
    /// The video.
    pub input: PathBuf,
    /// The file for the choice.
    pub output: PathBuf,
    /// The picture of the frames that are kept.
    pub sheet: PathBuf,
    /// What the frames show; `None` = the sphere if their shape says so.
    pub kind: Option<FilmKind>,
    /// What they look like, if they show the sphere.
    pub shape: ShapeChoice,
    /// By what frames are chosen; here all of them may be shown, too.
    pub select: SelectChoice,
    /// Frames a second, by time.
    pub fps: Option<f64>,
    /// First second.
    pub start: f64,
    /// Last second.
    pub end: Option<f64>,
    /// Two eyes, one above the other; the upper one is looked at.
    pub is_stereo: bool,
    /// Frames of two fisheye circles, described by a lens file (docs/pano.md).
    pub lens: Option<PathBuf>,
    /// At most so many frames.
    pub max_frames: Option<u32>,
    /// The way of the camera where its pictures say little of it.
    pub track: Option<TrackChoice>,
    /// Whether files that are there may be replaced.
    pub overwrite: Overwrite,
    /// Seconds for which ffmpeg may say nothing.
    pub tool_timeout: u64,
}

impl FramesOptions {
    /// A video and where its choice goes; everything else as it is by default.
    #[must_use]
    pub fn new(input: impl Into<PathBuf>, output: impl Into<PathBuf>) -> Self {
        let output = output.into();
        Self {
            input: input.into(),
            sheet: output.with_extension("png"),
            output,
            kind: None,
            shape: ShapeChoice::default(),
            select: SelectChoice::default(),
            fps: None,
            start: 0.0,
            end: None,
            is_stereo: false,
            lens: None,
            max_frames: None,
            track: None,
            overwrite: Overwrite::Refuse,
            tool_timeout: SILENCE,
        }
    }

    /// Refuses files that could not be written once all frames were looked at.
    fn check_files(&self) -> Result<(), Failure> {
        let (output, sheet) = (self.output.display(), self.sheet.display());
        if self.sheet == self.output {
            return Err(Failure::usage(format!(
                "⟨sheet⟩: {sheet} is the file for all frames; name another one"
            )));
        }
        if !self.sheet.extension().is_some_and(|e| e.eq_ignore_ascii_case("png")) {
            return Err(Failure::usage(format!("⟨sheet⟩: {sheet}: expected a name that ends with .png")));
        }
        if self.output.extension().is_some_and(|e| e.eq_ignore_ascii_case("png")) {
            return Err(Failure::usage(format!("{output}: is the name of a picture (expected .jsonl)")));
        }
        let files = [&self.output, &self.sheet];
        Ok(files.into_iter().try_for_each(|file| check_output(&Disk, file, self.overwrite))?)
    }

    fn open(&self, host: &Host<'_>) -> Result<(Video, Shows), Failure> {
        if self.input.is_dir() {
            return Err(Failure::usage(format!(
                "{}: is a folder (expected a video); of a folder all pictures are taken, or every n-th with ⟨every⟩",
                self.input.display()
            )));
        }
        if !(self.start.is_finite() && self.start >= 0.0) {
            return Err(Failure::usage(format!(
                "⟨start⟩: expected a number from 0 on, found {}",
                self.start
            )));
        }
        let choice = Choice { start: self.start, end: self.end, ..Choice::default() };
        let (limits, silence) = ([16_384; 2], Duration::from_secs(self.tool_timeout));
        let plain = || Video::open(&self.input, choice.clone(), limits, silence, host.stop());
        let film =
            || Film::of_any_shape(&self.input, choice.clone(), self.is_stereo, limits, silence, host.stop());
        let is_said = self.shape != ShapeChoice::default();
        if let Some(lens) = &self.lens {
            if self.is_stereo || is_said || self.kind == Some(FilmKind::Ordinary) {
                return Err(Failure::usage(
                    "⟨lens⟩: goes with none of ⟨stereo⟩, ⟨from⟩ and ⟨kind = ordinary⟩",
                ));
            }
            let lenses = DualFisheye::read(lens).map_err(|e| Failure::new("lens", e))?;
            let film = Film::of_lenses(&self.input, &lenses, choice, limits, silence, host.stop())?;
            let shows = shows(&film);
            return Ok((film.video, shows));
        }
        if is_said && self.kind == Some(FilmKind::Ordinary) {
            return Err(Failure::usage(
                "⟨from⟩, ⟨from-faces⟩, ⟨from-turns⟩: go with ⟨kind = panorama⟩; leave one of both out",
            ));
        }
        let is_of_camera = self.input.extension().is_some_and(|e| e.eq_ignore_ascii_case("360"));
        let is_sphere = self.kind == Some(FilmKind::Panorama) || self.is_stereo || is_said || is_of_camera;
        let of_sphere = |film: Film| {
            let shows = shows(&film);
            (film.video, shows)
        };
        if is_sphere {
            return Ok(of_sphere(self.shape.of_film(film()?, host)?));
        }
        let video = plain()?;
        // What has the shape of a film of the sphere may still have odd sides.
        if self.kind.is_none()
            && let Ok(film) = film()
            && let Told::Film(film) = self.shape.told(film, host)?
        {
            return Ok(of_sphere(*film));
        }
        Ok((video, Shows::Pinhole))
    }
}

/// Chooses frames of a film; with `is_dry` nothing is written.
///
/// # Errors
/// A film or options that cannot be used, files that are there already.
pub fn frames(options: &FramesOptions, is_dry: bool, host: &mut Host<'_>) -> Result<Selection, Failure> {
    let rates = Rates { fps: options.fps, sharpest_of: None, max_frames: options.max_frames };
    let wanted = options.select.wanted(rates)?;
    let wanted = wanted.unwrap_or_else(|| gausset_pano::selection::Wanted {
        select: gausset_pano::selection::Select::All,
        max_frames: options.max_frames.map(|most| most as usize),
        ..gausset_pano::selection::Wanted::default()
    });
    let track = options.track.as_ref();
    TrackChoice::check(track, Some(&wanted))?;
    let opened = options.open(host);
    let (video, shows) = host.unless_stopped(opened)?;
    let read =
        [Some(&video.path), video.second.as_ref(), options.lens.as_ref(), track.map(|track| &track.path)];
    let _reading = Reading::of(read.into_iter().flatten());
    if !is_dry {
        options.check_files()?;
    }
    let selection = select(&video, &shows, &wanted, track, &options.output, host)?;
    if is_dry {
        return Ok(selection);
    }
    let pictures = host.unless_stopped(thumbnails(&video, &shows, &selection, host))?;
    selection.write(&options.output, options.overwrite)?;
    let png = gausset_io::image::encode::png_rgb8(&sheet(&selection, &pictures));
    let png = png.map_err(|e| Failure::new("write", e))?;
    write(&options.sheet, &png, options.overwrite)?;
    Ok(selection)
}

fn write(path: &Path, bytes: &[u8], overwrite: Overwrite) -> Result<(), Failure> {
    let options = WriteOptions { overwrite, ..WriteOptions::default() };
    write_atomic_with(&Disk, path, &options, |file| file.write_all(bytes))?;
    Ok(())
}

/// The kept frames as small pictures, at most as many as are shown, spread evenly.
fn thumbnails(
    video: &Video,
    shows: &Shows,
    selection: &Selection,
    host: &Host<'_>,
) -> Result<Vec<RgbImage8>, Failure> {
    let picks = selection.picks();
    let count = picks.len().min(most_shown());
    let shown: Vec<usize> = (0..count).map(|k| picks[k * picks.len() / count]).collect();
    let [width, height] = match shows {
        // As panoramas.
        Shows::Folded(_) => [2, 1],
        Shows::Sphere | Shows::Pinhole => video.size.map(|side| side as usize),
    };
    let height = (THUMBNAIL * height / width.max(1)).clamp(2, 4 * THUMBNAIL) & !1;
    let size = [THUMBNAIL as u32, height as u32];
    let mut reader = SmallFrames::start(video, shows, size, false, host.stop())?;
    let (mut pictures, mut data, mut frame) = (Vec::new(), Vec::new(), 0);
    for &wanted in &shown {
        while frame <= wanted {
            if host.is_stopping() {
                return Err(Failure::stopped());
            }
            if !reader.read(video, &mut data)? {
                return Ok(pictures);
            }
            frame += 1;
        }
        pictures.push(RgbImage8 { width: size[0], height: size[1], data: data.clone() });
    }
    Ok(pictures)
}
