//! Input footage: frames, size and projection. It is probed once, even if several splits use it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use gausset_compute::{SimdLevel, dispatch_level};
use gausset_io::atomic::{Disk, FileSystem, Overwrite, WriteError};
use gausset_io::image::formats::left_out_line;
use gausset_io::input_files::InputFiles;
use gausset_io::ownership;
use gausset_pano::eac::Eac;
use gausset_pano::fisheye::DualFisheye;
use gausset_pano::frames::{
    FrameList, SourceFrame, list_folder, list_frames, masks_line, source_frame_from_files, video_frames,
};
use gausset_pano::load::{self, ImageLimits};
use gausset_pano::projection::Projection;
use gausset_pano::recognise;
use gausset_pano::selection::{FRAMES_FILE, FrameContent, Selection, SelectionCriteria};
use gausset_pano::sphere_video::SphereVideo;
use gausset_pano::video::FrameSelection;

use super::track::TrackOptions;
use crate::footage_options::{FrameOptions, LensWords};
use crate::frame_selection::{self, Rates};
use crate::{FILES_LEFT_OUT, Failure, Host};

/// Largest number of files to decode as a whole in search of unstitched images.
const WHOLE_DECODES: usize = 8;

/// Footage that has been probed.
#[derive(Clone, Debug)]
pub struct Footage {
    /// The frames, in the order of the footage.
    pub frames: Vec<SourceFrame>,
    /// Width of the equivalent panorama: pixels around the horizon.
    pub panorama_width: u32,
    /// Projection of image files that are not panoramas.
    pub projection: Option<Projection>,
    /// The video that the frames come from.
    pub film: Option<SphereVideo>,
    /// Options of the frame selection, until it is done.
    wanted: Option<SelectionCriteria>,
    /// GPS track, until the selection is done.
    track: Option<TrackOptions>,
    /// The frame selection of the video, with reasons.
    pub selection: Option<Selection>,
    /// Whether images are top-bottom stereo, of which the upper eye is used.
    pub is_stereo: bool,
    /// Size limits of images.
    pub limits: ImageLimits,
    /// Gains that equalise the frames, computed on first use.
    pub(super) frame_gains: OnceLock<Vec<[f64; 3]>>,
    /// Marks the files as inputs that must not be overwritten.
    _reading: Arc<InputFiles>,
}

/// Whether this file extension is that of a supported image format.
#[must_use]
pub fn is_image_extension(extension: &OsStr) -> bool {
    gausset_io::image::formats::is_readable(&Path::new("picture").with_extension(extension))
}

impl Footage {
    /// Probes an image, a folder or a video. `silence` is the timeout of ffmpeg without output. Warns of pictures that are
    /// left out.
    ///
    /// # Errors
    /// No usable input, options that do not apply to it, or the job was asked to stop.
    pub fn open(
        input: &Path,
        choice: &FrameOptions,
        limits: ImageLimits,
        silence: Duration,
        host: &mut Host<'_>,
    ) -> Result<Self, Failure> {
        choice.refuse_shape_of_lenses()?;
        let source = if input.is_file() && input.extension().is_some_and(is_image_extension) {
            Self::from_image(input, choice, limits, host.stop())
        } else if input.is_file() {
            Self::from_video(input, choice, limits, silence, host)
        } else {
            Self::from_folder(input, choice, limits, host)
        };
        let source = host.unless_stopped(source)?;
        if choice.track.is_some() && source.film.is_none() {
            return Err(Failure::usage(
                "⟨track⟩: selects frames of a video (found images; `gausset pano align` uses it for their positions)",
            ));
        }
        if choice.stereo.is_some() && source.projection.is_some() {
            return Err(Failure::usage("⟨stereo⟩: applies to panoramas only (found other frames)"));
        }
        let track = choice.track.as_ref().map(|track| &track.path);
        let named = [
            Some(input).filter(|input| input.is_file()),
            choice.lens.as_deref(),
            track.map(PathBuf::as_path),
        ];
        let files = source.frames.iter().flat_map(|frame| &frame.files).map(PathBuf::as_path);
        let reading = InputFiles::new(named.into_iter().flatten().chain(files));
        Ok(Self { _reading: Arc::new(reading), ..source })
    }

    /// Image files with a projection other than equirectangular.
    fn with_projection(frames: Vec<SourceFrame>, projection: Projection, limits: ImageLimits) -> Self {
        let around = projection.pixels_per_turn();
        Self { projection: Some(projection), ..Self::from_files(frames, around, limits) }
    }

    /// Image files that are panoramas, or stereo pairs of panoramas.
    fn from_files(frames: Vec<SourceFrame>, around: u32, limits: ImageLimits) -> Self {
        Self {
            frames,
            panorama_width: around,
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
    pub fn select_frames(mut self, folder: &Path, host: &mut Host<'_>) -> Result<Self, Failure> {
        if let Some(film) = &self.film {
            frame_selection::warn_of_colours(&film.video, host);
        }
        let (Some(film), Some(wanted)) = (&self.film, &self.wanted) else { return Ok(self) };
        let known = folder.join(FRAMES_FILE);
        let track = self.track.as_ref();
        let selection =
            frame_selection::select(&film.video, &measured_projection(film), wanted, track, &known, host)?;
        let film = film.clone().picked(&selection.kept_frames());
        self.frames = video_frames(&film.video);
        (self.film, self.selection, self.wanted) = (Some(film), Some(selection), None);
        Ok(self)
    }

    /// Writes the frame selection into an output folder. Without one, removes that of earlier frames.
    pub(crate) fn write_selection(&self, folder: &Path) -> Result<(), Failure> {
        ownership::check_inside(folder, Path::new(FRAMES_FILE))?;
        let path = folder.join(FRAMES_FILE);
        if let Some(selection) = &self.selection {
            return Ok(selection.write(&path, Overwrite::Replace)?);
        }
        match Disk.remove(&path) {
            Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
                Err(WriteError::Io { path, action: "remove", source }.into())
            }
            _ => Ok(()),
        }
    }

    /// Refuses masks of a video that were created for other frames, whose names are the same.
    pub(super) fn check_masks(&self, masks: &Path) -> Result<(), Failure> {
        let Some(masked) = self.film.as_ref().and_then(|_| Selection::read(&masks.join(FRAMES_FILE))) else {
            return Ok(());
        };
        let kept = |selection: &Selection| -> Vec<(usize, Option<String>)> {
            let kept = selection.lines.iter().filter(|line| line.kept);
            kept.map(|line| (line.frame, line.name.clone())).collect()
        };
        let is_same =
            |own: &Selection| own.header.film.start == masked.header.film.start && kept(own) == kept(&masked);
        if self.selection.as_ref().is_some_and(is_same) {
            return Ok(());
        }
        let line = format!(
            "{}: masks: are of other frames of the video by their {FRAMES_FILE} (expected those of this selection); create them with the same frame options",
            masks.display()
        );
        Err(Failure::new("frames", line))
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

    fn from_image(
        input: &Path,
        choice: &FrameOptions,
        limits: ImageLimits,
        stop: &AtomicBool,
    ) -> Result<Self, Failure> {
        choice.refuse_video_options("an image")?;
        choice.refuse_stereo_cubes()?;
        let stem = input.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
        let frames = vec![source_frame_from_files(&stem, vec![input.to_owned()])];
        if let Some(lenses) = lenses_of(choice)? {
            let frames = lens_frame_of(input, frames, &lenses, choice);
            return Ok(Self::with_projection(frames, Projection::Fisheye(lenses), limits));
        }
        if choice.stereo.is_none()
            && let Some(cube) = choice.shape.resolve_images(input, &frames, &limits)?
        {
            return Ok(Self::with_projection(frames, cube, limits));
        }
        refuse_two_circles(&frames, choice, &limits, stop)?;
        let around = width_of_first(&frames, &limits, choice.stereo.is_some())?;
        Ok(Self { is_stereo: choice.stereo.is_some(), ..Self::from_files(frames, around, limits) })
    }

    fn from_video(
        input: &Path,
        choice: &FrameOptions,
        limits: ImageLimits,
        silence: Duration,
        host: &Host<'_>,
    ) -> Result<Self, Failure> {
        let FrameOptions { fps, start, end, sharpest_of, stereo, .. } = *choice;
        let is_stereo = stereo.is_some();
        frame_selection::check_start(start)?;
        let rates = Rates {
            fps,
            sharpest_of: (sharpest_of != 1).then_some(sharpest_of),
            max_frames: choice.max_frames,
        };
        let wanted = choice.select.resolve(rates)?;
        TrackOptions::check(choice.track.as_ref(), wanted.as_ref())?;
        if choice.pair.is_some() {
            return Err(Failure::usage(
                "⟨pair⟩: applies to images only (found a video; its second file is found by its name, GPFR and GPBK, _front and _back, _00_ and _10_)",
            ));
        }
        // A frame selection chooses among all frames of the video.
        let chosen =
            FrameSelection { fps: if wanted.is_none() { fps } else { None }, start, end, sharpest_of };
        let largest = [limits.width, limits.height];
        let film = match lenses_of(choice)? {
            Some(lenses) => SphereVideo::open_fisheye(input, &lenses, chosen, largest, silence, host.stop())?,
            None => {
                let film =
                    SphereVideo::open_any_shape(input, chosen, is_stereo, largest, silence, host.stop())?;
                choice.shape.resolve_video(film, host)?
            }
        };
        let around = film.projection().pixels_per_turn();
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
        Ok(Self { film: Some(film), wanted, track, ..Self::from_files(frames, around, limits) })
    }

    fn from_folder(
        input: &Path,
        choice: &FrameOptions,
        limits: ImageLimits,
        host: &mut Host<'_>,
    ) -> Result<Self, Failure> {
        choice.refuse_video_options("a folder")?;
        choice.refuse_stereo_cubes()?;
        let is_stereo = choice.stereo.is_some();
        let listed = list_and_warn(input, host)?;
        if let Some(lenses) = lenses_of(choice)? {
            let frames = thin_out(lens_frames(input, listed, &lenses, choice)?, choice);
            return Ok(Self::with_projection(frames, Projection::Fisheye(lenses), limits));
        }
        if let Some(pairs) = recognise::pair_streams(&listed) {
            choice.refuse_shape("GoPro MAX images")?;
            let frames = thin_out(pairs, choice);
            let eac = eac_of(&frames, &limits)?;
            let around = 4 * eac.face_side();
            let projection = Some(Projection::Eac(eac));
            return Ok(Self { projection, is_stereo, ..Self::from_files(frames, around, limits) });
        }
        refuse_lens_files(input, choice, &listed)?;
        let lens_pairs = probable_lens_pairs(input, choice, &listed);
        let or_lens_pairs = |failure: Failure| lens_pairs.clone().unwrap_or(failure);
        let sets = || choice.shape.resolve_face_sets(input, &listed, &limits).map_err(or_lens_pairs);
        if !is_stereo && let Some((sets, cube)) = sets()? {
            return Ok(Self::with_projection(thin_out(sets, choice), cube, limits));
        }
        refuse_lone_stream(input, &listed)?;
        let frames = thin_out(listed, choice);
        let cube = || choice.shape.resolve_images(input, &frames, &limits).map_err(or_lens_pairs);
        if !is_stereo && let Some(cube) = cube()? {
            return Ok(Self::with_projection(frames, cube, limits));
        }
        refuse_two_circles(&frames, choice, &limits, host.stop())?;
        let around = width_of_first(&frames, &limits, is_stereo).map_err(or_lens_pairs)?;
        Ok(Self { is_stereo, ..Self::from_files(frames, around, limits) })
    }
}

/// Lists the frames of a folder, and warns of the pictures that are left out.
pub(crate) fn list_and_warn(folder: &Path, host: &mut Host<'_>) -> Result<Vec<SourceFrame>, Failure> {
    let FrameList { frames, left_out, masks } = list_folder(folder)?;
    let formats =
        left_out.into_iter().filter_map(|(format, ending, count)| left_out_line(format, &ending, count));
    for line in formats.chain(masks_line(masks)) {
        host.warn(FILES_LEFT_OUT, format!("{}: {line}", folder.display()));
    }
    Ok(frames)
}

/// Reads the given lens file.
fn lenses_of(choice: &FrameOptions) -> Result<Option<DualFisheye>, Failure> {
    let lenses = choice.lens.as_deref().map(DualFisheye::read).transpose();
    lenses.map_err(|e| Failure::new("lens", e))
}

/// What the frames of a video show, for motion measurement.
pub(super) fn measured_projection(film: &SphereVideo) -> FrameContent {
    match film.projection() {
        Projection::Equirect(_) => FrameContent::Sphere,
        folded => FrameContent::Projected(Box::new(folded)),
    }
}

/// Refuses a GoPro MAX stream without its counterpart.
pub(crate) fn refuse_lone_stream(folder: &Path, frames: &[SourceFrame]) -> Result<(), Failure> {
    match recognise::find_missing_stream(frames) {
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

/// Width and height of the first image, upright.
pub(super) fn size_of_first(frames: &[SourceFrame]) -> Option<[u32; 2]> {
    let header = gausset_io::image::read_header(frames.first()?.files.first()?).ok()?;
    Some(header.upright_size())
}

/// Pairs the files of two lenses, where a file is half of a frame.
///
/// # Errors
/// The file of one lens is missing.
fn lens_frames(
    folder: &Path,
    listed: Vec<SourceFrame>,
    lenses: &DualFisheye,
    choice: &FrameOptions,
) -> Result<Vec<SourceFrame>, Failure> {
    let half = Projection::Fisheye(lenses.clone()).part_size(2);
    if size_of_first(&listed) != Some(half) {
        return Ok(listed);
    }
    pair_lens_files(folder, &listed, choice.pair.as_ref())
}

/// Pairs files of two lenses by their names, or returns them as they are if the names do not tell.
///
/// # Errors
/// The file of one lens is missing; files that do not have the given words.
pub(super) fn pair_lens_files(
    folder: &Path,
    listed: &[SourceFrame],
    words: Option<&LensWords>,
) -> Result<Vec<SourceFrame>, Failure> {
    let failed = |what: String| Failure::new("frames", format!("{}: frames: {what}", folder.display()));
    match (recognise::pair_lens_files(listed, words.map(|words| &words.0)), words) {
        (Some(Ok(pairs)), _) => Ok(pairs),
        (Some(Err(missing)), _) => Err(failed(format!(
            "{missing} is missing (expected the files of both lenses of each frame); copy both"
        ))),
        (None, Some(LensWords([a, b]))) => Err(failed(format!(
            "not all names contain {a} or {b} (expected pairs of files that differ in these words); give other words with ⟨pair⟩"
        ))),
        (None, None) => Ok(listed.to_vec()),
    }
}

/// The frame of two files to which the file of one lens belongs, if it is half of a frame.
pub(super) fn frame_of_lens_file(input: &Path, words: Option<&LensWords>) -> Option<SourceFrame> {
    let folder = input.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let words = words.map(|words| &words.0);
    let known = |frame: &SourceFrame| frame.files.iter().any(|file| file.file_name() == input.file_name());
    let listed = list_frames(folder).ok()?;
    let own = listed.iter().find(|frame| known(frame))?;
    listed
        .iter()
        .filter_map(|other| recognise::pair_lens_files(&[own.clone(), other.clone()], words)?.ok()?.pop())
        .find(|pair| pair.files.len() == 2)
}

/// The frame of a file, or of it and that of the other lens.
fn lens_frame_of(
    input: &Path,
    frames: Vec<SourceFrame>,
    lenses: &DualFisheye,
    choice: &FrameOptions,
) -> Vec<SourceFrame> {
    let half = Projection::Fisheye(lenses.clone()).part_size(2);
    if size_of_first(&frames) != Some(half) {
        return frames;
    }
    frame_of_lens_file(input, choice.pair.as_ref()).map_or(frames, |pair| vec![pair])
}

/// Refuses pairs of lens files without a lens file.
fn refuse_lens_files(folder: &Path, choice: &FrameOptions, listed: &[SourceFrame]) -> Result<(), Failure> {
    let is_other = choice.stereo.is_some() || choice.shape.from.is_some();
    if is_other || !is_square(listed) || !matches!(recognise::pair_lens_files(listed, None), Some(Ok(_))) {
        return Ok(());
    }
    Err(Failure::new(
        "frames",
        format!(
            "{}: frames: are pairs of files, one per fisheye lens (expected panoramas); use ⟨lens⟩ with a file from `gausset pano calibrate`, or stitch them first",
            folder.display()
        ),
    ))
}

/// The reason to refuse square images whose names are those of pairs of lens files.
fn probable_lens_pairs(folder: &Path, choice: &FrameOptions, listed: &[SourceFrame]) -> Option<Failure> {
    if choice.stereo.is_some() || choice.shape.from.is_some() || listed.len() < 2 || !is_square(listed) {
        return None;
    }
    // `⟨pair⟩` is needed where the names do not tell by themselves.
    let (pairs, pair) = match recognise::pair_lens_files(listed, None) {
        Some(pairs) => (pairs, String::new()),
        None => {
            let words = recognise::probable_lens_words(listed)?;
            let pairs = recognise::pair_lens_files(listed, Some(&words))?;
            (pairs, format!(" and ⟨pair = {} {}⟩", words[0], words[1]))
        }
    };
    let missing = pairs.err().map_or_else(String::new, |missing| format!("; {missing} is missing, copy it"));
    let folder = folder.display();
    let line = format!(
        "{folder}: frames: look like pairs of files, one per fisheye lens (expected panoramas); use ⟨lens⟩ with a file from `gausset pano calibrate`{pair}, or stitch them first{missing}"
    );
    Some(Failure::new("frames", line))
}

/// Whether the first image is about as wide as high.
fn is_square(listed: &[SourceFrame]) -> bool {
    size_of_first(listed).is_some_and(|[w, h]| w.abs_diff(h) * 8 <= w)
}

/// Refuses unstitched images of two fisheye lenses, also one among panoramas; of files that cannot be decoded in part,
/// some are looked at. Unreadable files are reported when they are split. The caller handles a stop.
fn refuse_two_circles(
    frames: &[SourceFrame],
    choice: &FrameOptions,
    limits: &ImageLimits,
    stop: &AtomicBool,
) -> Result<(), Failure> {
    if choice.stereo.is_some() || choice.shape.from.is_some() {
        return Ok(());
    }
    let level = dispatch_level(SimdLevel::Auto).ok_or_else(|| Failure::new("device", "no SIMD level"))?;
    let in_part = |file: &&Path| {
        let extension = file.extension().unwrap_or_default();
        ["jpg", "jpeg", "insp"].iter().any(|known| extension.eq_ignore_ascii_case(known))
    };
    let files = frames.iter().flat_map(|frame| &frame.files).map(PathBuf::as_path);
    let (quick, whole): (Vec<_>, Vec<_>) = files.partition(in_part);
    let some = whole.iter().step_by(whole.len().div_ceil(WHOLE_DECODES).max(1));
    let shows_circles = |file: &&&Path| recognise::is_two_circles_file(file, limits, level).unwrap_or(false);
    let found = quick.iter().chain(some).take_while(|_| !stop.load(Ordering::Relaxed)).find(shows_circles);
    match found {
        None => Ok(()),
        Some(file) => Err(Failure::new(
            "frames",
            format!(
                "{}: picture: shows two fisheye circles (expected a panorama); use ⟨lens⟩ with a file from `gausset pano calibrate`, or stitch it first; if it is a panorama: ⟨from = equirect⟩",
                file.display()
            ),
        )),
    }
}

/// Layout of GoPro MAX streams, from the size of the first frame.
fn eac_of(frames: &[SourceFrame], limits: &ImageLimits) -> Result<Eac, Failure> {
    let Some(file) = frames.first().and_then(|frame| frame.files.first()) else {
        return Err(Failure::new("frames", "frames: none found"));
    };
    let opened = load::load(file, limits, Vec::new()).map_err(|e| Failure::new("frames", e))?;
    let [w, h] = opened.size;
    Eac::from_stream_size(w, h).ok_or_else(|| {
        let file = file.display();
        Failure::new(
            "frames",
            format!("{file}: picture: {w}x{h} px is not a GoPro MAX stream (expected 4096x1344 or 2272x736)"),
        )
    })
}

fn thin_out(frames: Vec<SourceFrame>, choice: &FrameOptions) -> Vec<SourceFrame> {
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
fn width_of_first(frames: &[SourceFrame], limits: &ImageLimits, is_stereo: bool) -> Result<u32, Failure> {
    let mut first_error = None;
    for file in frames.iter().flat_map(|frame| &frame.files) {
        let found = load::load(file, limits, Vec::new()).map_err(|e| e.to_string()).and_then(|opened| {
            opened.equirect(is_stereo).map_err(|what| format!("{}: {what}", file.display()))
        });
        match found {
            Ok(equirect) => return Ok(Projection::Equirect(equirect).pixels_per_turn()),
            Err(error) => {
                first_error.get_or_insert(error);
            }
        }
    }
    Err(Failure::new("frames", first_error.unwrap_or_else(|| "frames: none found".to_owned())))
}

#[cfg(test)]
mod tests {
    use gausset_io::image::encode::png_rgb8;

    use super::*;
    use crate::Event;

    #[test]
    fn pictures_of_formats_that_are_not_read_are_named_and_left_out() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["0.png", "1.heic", "IMG_2.DNG"] {
            std::fs::write(folder.path().join(name), b"x").unwrap();
        }
        let (stop, mut lines) = (Default::default(), Vec::new());
        let mut events = |event| {
            if let Event::Warning { line, .. } = event {
                lines.push(line);
            }
        };
        let frames = list_and_warn(folder.path(), &mut Host::new(&stop, &mut events)).unwrap();
        assert_eq!((frames.len(), lines.len()), (1, 2));
        assert!(lines[0].contains(": 1 HEIC file left out: convert it"), "{lines:?}");
        assert!(lines[1].contains(": 1 DNG file left out: develop it"), "{lines:?}");
    }

    #[test]
    fn pairs_of_lens_files_are_recognised_by_their_names_and_told_what_to_do() {
        let square = png_rgb8(&gausset_core::RgbImage8::new(64, 64)).unwrap();
        let refusal = |names: &[&str]| {
            let folder = tempfile::tempdir().unwrap();
            for name in names {
                std::fs::write(folder.path().join(format!("{name}.png")), &square).unwrap();
            }
            let (stop, mut ignore) = (Default::default(), |_| {});
            let mut host = Host::new(&stop, &mut ignore);
            let (choice, limits) = (FrameOptions::default(), ImageLimits::default());
            let opened = Footage::open(folder.path(), &choice, limits, Duration::from_secs(9), &mut host);
            opened.err().unwrap().to_string()
        };
        for (names, expected) in [
            (&["p0-front", "p0-back"][..], "calibrate`, or stitch them first"),
            (&["cam0_left", "cam0_right"], "calibrate` and ⟨pair = left right⟩, or stitch"),
            (&["FRONT_2", "BACK_2"], "calibrate` and ⟨pair = FRONT BACK⟩, or stitch"),
            (&["p0_lens0", "p0_lens1"], "calibrate` and ⟨pair = lens0 lens1⟩, or stitch"),
            (&["a_front", "a_back", "b_front"], "first; b_back is missing, copy it"),
        ] {
            let line = refusal(names);
            let is_said = line.contains("pairs of files, one per fisheye lens") && line.contains(expected);
            assert!(is_said, "{names:?}: {line}");
        }
        let line = refusal(&["a_right", "a_left", "a_up", "a_down", "a_front"]);
        assert!(line.contains("a_back is missing (expected six faces"), "{line}");
        let line = refusal(&["a", "b"]);
        assert!(line.contains("may be a face of a cube"), "{line}");
    }
}
