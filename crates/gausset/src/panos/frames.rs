//! Frame selection of a video as a job: writes the selection and a contact sheet of the selected frames.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gausset_core::RgbImage8;
use gausset_io::atomic::{Disk, Overwrite, WriteOptions, check_output, write_atomic_with};
use gausset_io::input_files::InputFiles;
use gausset_pano::fisheye::DualFisheye;
use gausset_pano::selection::{
    FrameContent, Selection, SmallFrames, THUMBNAIL_WIDTH, contact_sheet, max_thumbnails,
};
use gausset_pano::sphere_video::SphereVideo;
use gausset_pano::video::{FrameSelection, Video};

use super::shape::Recognised;
use super::source::measured_projection;
use super::track::TrackOptions;
use crate::aligner::TOOL_TIMEOUT;
use crate::footage_options::{ProjectionOptions, SelectionOptions};
use crate::frame_selection::{Rates, check_start, select, warn_of_colours};
use crate::{Failure, Host};

/// What the frames of a video show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FootageKind {
    /// The full sphere.
    Panorama,
    /// An ordinary perspective image.
    Ordinary,
}

/// Options of [`frames()`].
#[derive(Clone, Debug)]
pub struct FramesOptions {
    /// Video to extract frames from.
    pub input: PathBuf,
    /// Output file of the selection.
    pub output: PathBuf,
    /// Output contact sheet (PNG).
    pub sheet: PathBuf,
    /// Kind of footage; `None` = the sphere if the frame size suggests it.
    pub kind: Option<FootageKind>,
    /// Projection of the frames, for full-sphere footage.
    pub shape: ProjectionOptions,
    /// Criterion of the selection; `all` lists all frames here.
    pub select: SelectionOptions,
    /// Frames per second, for selection by time.
    pub fps: Option<f64>,
    /// Start in seconds.
    pub start: f64,
    /// End in seconds.
    pub end: Option<f64>,
    /// Top-bottom stereo; the upper eye is measured.
    pub is_stereo: bool,
    /// Lens file that describes dual-fisheye frames (docs/reference/pano.md).
    pub lens: Option<PathBuf>,
    /// Maximum number of frames.
    pub max_frames: Option<u32>,
    /// GPS track, for motion that the images do not show.
    pub track: Option<TrackOptions>,
    /// Whether existing files may be replaced.
    pub overwrite: Overwrite,
    /// Timeout of ffmpeg in seconds without output.
    pub tool_timeout: u64,
}

impl FramesOptions {
    /// Input video and output file, with defaults for everything else.
    #[must_use]
    pub fn new(input: impl Into<PathBuf>, output: impl Into<PathBuf>) -> Self {
        let output = output.into();
        Self {
            input: input.into(),
            sheet: output.with_extension("png"),
            output,
            kind: None,
            shape: ProjectionOptions::default(),
            select: SelectionOptions::default(),
            fps: None,
            start: 0.0,
            end: None,
            is_stereo: false,
            lens: None,
            max_frames: None,
            track: None,
            overwrite: Overwrite::Refuse,
            tool_timeout: TOOL_TIMEOUT,
        }
    }

    /// Refuses unusable output files before the slow measurement of all frames.
    fn check_files(&self) -> Result<(), Failure> {
        let (output, sheet) = (self.output.display(), self.sheet.display());
        if self.sheet == self.output {
            return Err(Failure::usage(format!(
                "⟨sheet⟩: {sheet} is the output file of the selection; choose another name"
            )));
        }
        if !self.sheet.extension().is_some_and(|e| e.eq_ignore_ascii_case("png")) {
            return Err(Failure::usage(format!("⟨sheet⟩: {sheet}: expected a name ending in .png")));
        }
        if self.output.extension().is_some_and(|e| e.eq_ignore_ascii_case("png")) {
            return Err(Failure::usage(format!("{output}: is an image name (expected .jsonl)")));
        }
        let files = [&self.output, &self.sheet];
        Ok(files.into_iter().try_for_each(|file| check_output(&Disk, file, self.overwrite))?)
    }

    fn open(&self, host: &Host<'_>) -> Result<(Video, FrameContent), Failure> {
        if self.input.is_dir() {
            return Err(Failure::usage(format!(
                "{}: is a folder (expected a video); in a folder all images are used, or every n-th with ⟨every⟩",
                self.input.display()
            )));
        }
        check_start(self.start)?;
        let choice = FrameSelection { start: self.start, end: self.end, ..FrameSelection::default() };
        let (limits, silence) = ([16_384; 2], Duration::from_secs(self.tool_timeout));
        let plain = || Video::open(&self.input, choice.clone(), limits, silence, host.stop());
        let film = || {
            SphereVideo::open_any_shape(
                &self.input,
                choice.clone(),
                self.is_stereo,
                limits,
                silence,
                host.stop(),
            )
        };
        let is_said = self.shape != ProjectionOptions::default();
        if let Some(lens) = &self.lens {
            if self.is_stereo || is_said || self.kind == Some(FootageKind::Ordinary) {
                return Err(Failure::usage(
                    "⟨lens⟩: cannot be combined with ⟨stereo⟩, ⟨from⟩ or ⟨kind = ordinary⟩",
                ));
            }
            let lenses = DualFisheye::read(lens).map_err(|e| Failure::new("lens", e))?;
            let film = SphereVideo::open_fisheye(&self.input, &lenses, choice, limits, silence, host.stop())?;
            let shows = measured_projection(&film);
            return Ok((film.video, shows));
        }
        if is_said && self.kind == Some(FootageKind::Ordinary) {
            return Err(Failure::usage(
                "⟨from⟩, ⟨from-faces⟩, ⟨from-turns⟩: need ⟨kind = panorama⟩; leave one of both out",
            ));
        }
        let is_of_camera = self.input.extension().is_some_and(|e| e.eq_ignore_ascii_case("360"));
        let is_sphere = self.kind == Some(FootageKind::Panorama) || self.is_stereo || is_said || is_of_camera;
        let of_sphere = |film: SphereVideo| {
            let shows = measured_projection(&film);
            (film.video, shows)
        };
        if is_sphere {
            return Ok(of_sphere(self.shape.resolve_video(film()?, host)?));
        }
        let video = plain()?;
        // Footage with the size of full-sphere video may still be unusable as such.
        if self.kind.is_none()
            && let Ok(film) = film()
            && let Recognised::Film(film) = self.shape.recognise(film, host)?
        {
            return Ok(of_sphere(*film));
        }
        Ok((video, FrameContent::Pinhole))
    }
}

/// Selects frames of a video; with `is_dry` nothing is written.
///
/// # Errors
/// An unusable video or options, or existing output files.
pub fn frames(options: &FramesOptions, is_dry: bool, host: &mut Host<'_>) -> Result<Selection, Failure> {
    let rates = Rates { fps: options.fps, sharpest_of: None, max_frames: options.max_frames };
    let wanted = options.select.resolve(rates)?;
    let wanted = wanted.unwrap_or_else(|| gausset_pano::selection::SelectionCriteria {
        select: gausset_pano::selection::SelectBy::All,
        max_frames: options.max_frames.map(|most| most as usize),
        ..gausset_pano::selection::SelectionCriteria::default()
    });
    let track = options.track.as_ref();
    TrackOptions::check(track, Some(&wanted))?;
    let opened = options.open(host);
    let (video, shows) = host.unless_stopped(opened)?;
    let read =
        [Some(&video.path), video.second.as_ref(), options.lens.as_ref(), track.map(|track| &track.path)];
    let _reading = InputFiles::new(read.into_iter().flatten());
    if !is_dry {
        options.check_files()?;
    }
    warn_of_colours(&video, host);
    let selection = select(&video, &shows, &wanted, track, &options.output, host)?;
    if is_dry {
        return Ok(selection);
    }
    let pictures = host.unless_stopped(thumbnails(&video, &shows, &selection, host))?;
    selection.write(&options.output, options.overwrite)?;
    let png = gausset_io::image::encode::png_rgb8(&contact_sheet(&selection, &pictures));
    let png = png.map_err(|e| Failure::new("write", e))?;
    write(&options.sheet, &png, options.overwrite)?;
    Ok(selection)
}

fn write(path: &Path, bytes: &[u8], overwrite: Overwrite) -> Result<(), Failure> {
    let options = WriteOptions { overwrite, ..WriteOptions::default() };
    write_atomic_with(&Disk, path, &options, |file| file.write_all(bytes))?;
    Ok(())
}

/// Thumbnails of the selected frames, evenly thinned out to the number that the sheet can show.
fn thumbnails(
    video: &Video,
    shows: &FrameContent,
    selection: &Selection,
    host: &Host<'_>,
) -> Result<Vec<RgbImage8>, Failure> {
    let picks = selection.kept_frames();
    let count = picks.len().min(max_thumbnails());
    let shown: Vec<usize> = (0..count).map(|k| picks[k * picks.len() / count]).collect();
    let [width, height] = match shows {
        // Cube maps are shown as panoramas.
        FrameContent::Projected(_) => [2, 1],
        FrameContent::Sphere | FrameContent::Pinhole => video.size.map(|side| side as usize),
    };
    let height = (THUMBNAIL_WIDTH * height / width.max(1)).clamp(2, 4 * THUMBNAIL_WIDTH) & !1;
    let size = [THUMBNAIL_WIDTH as u32, height as u32];
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
