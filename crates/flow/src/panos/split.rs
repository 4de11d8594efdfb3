//! Panoramas to perspective views.

use std::path::{Path, PathBuf};
use std::time::Duration;

use gausset_compute::{VectorLevel, level};
use gausset_io::atomic::{Disk, FileSystem, Overwrite};
use gausset_io::lock::FolderLock;
use gausset_io::reading::Reading;
use gausset_io::{owned, units};
use gausset_pano::cutter::Format;
use gausset_pano::equalise::Equalise;
use gausset_pano::frames::SourceFrame;
use gausset_pano::geometry::View;
use gausset_pano::layout::{Layout, ViewError, check_view, natural_side, read_views};
use gausset_pano::lens_views::LensViews;
use gausset_pano::load::Limits;
use gausset_pano::projection::Projection;
use gausset_pano::selection::FILE;
use gausset_pano::split::{self, MaskCommand, Naming, Numbering, OnError, Report, Settings, Work};
use gausset_train::MemoryLimit;
use serde::Serialize;

use super::colour::{self, ColourChoice};
use super::masked::{MaskShare, Removal};
use super::source::{FrameChoice, Source};
use crate::memory::budget;
use crate::tool::SILENCE;
use crate::{Event, Failure, Host, Part, Stage, device, profiling, records};

/// Which views.
#[derive(Clone, Debug, PartialEq)]
pub struct ViewChoice {
    /// A layout.
    pub layout: Layout,
    /// Views from a JSON list of {yaw, pitch, roll, hfov, width, height} instead.
    pub views: Option<PathBuf>,
    /// Side of a view in px; `None` = a quarter of the panorama's width at 90 degrees.
    pub size: Option<u32>,
    /// Horizontal field of view in degrees; `None` = the layout's.
    pub fov: Option<f64>,
    /// Turns all views to the right, degrees.
    pub rotate: f64,
    /// Adds the fewest views that let every direction be seen.
    pub full_sphere: bool,
    /// How views lie to the lenses of frames that have two.
    pub lenses: Lenses,
}

/// How views lie to the lenses of frames that have two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lenses {
    /// Views over the whole sphere, some of them over the seam, as if both lenses had one centre.
    #[default]
    Together,
    /// Views inside one lens each; each lens of a frame is a frame with a pose of its own.
    Separate,
}

impl Lenses {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Together, Self::Separate];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Together => "together",
            Self::Separate => "separate",
        }
    }
}

impl Default for ViewChoice {
    fn default() -> Self {
        Self {
            layout: Layout::Ring8,
            views: None,
            size: None,
            fov: None,
            rotate: 0.0,
            full_sphere: false,
            lenses: Lenses::Together,
        }
    }
}

impl ViewChoice {
    /// The views for a source that is `around` px wide, with those that complete the sphere if that was asked for.
    ///
    /// # Errors
    /// Values out of range, a file of views that cannot be used, a sphere that takes too many views.
    pub fn views(&self, around: u32) -> Result<Vec<View>, Failure> {
        let mut views = self.chosen(around)?;
        if self.full_sphere {
            let added = gausset_pano::coverage::complete(&views)
                .map_err(|what| Failure::usage(format!("⟨full-sphere⟩: {what}")))?;
            views.extend(added);
        }
        Ok(views)
    }

    /// The views of each lens, where lenses are cut apart.
    ///
    /// # Errors
    /// A source without two lenses, a choice of views that is not for them, a circle that is too small.
    pub fn lens_views(&self, source: &Source) -> Result<Option<LensViews>, Failure> {
        if self.lenses == Lenses::Together {
            return Ok(None);
        }
        let film = source.film.as_ref().map(gausset_pano::film::Film::projection);
        let Some(Projection::Fisheye(frame)) = film.as_ref().or(source.projection.as_ref()) else {
            return Err(Failure::usage(
                "⟨lenses = separate⟩: is for frames of two fisheye circles (found none; ⟨lens⟩ describes them); leave it out",
            ));
        };
        if self.layout != Layout::Ring8 || self.views.is_some() || self.rotate != 0.0 || self.full_sphere {
            return Err(Failure::usage(
                "⟨lenses = separate⟩: has views of its own (found ⟨layout⟩, ⟨views⟩, ⟨rotate⟩ or ⟨full-sphere⟩); leave one of both out",
            ));
        }
        let hfov = self.fov.unwrap_or(90.0);
        let side = self.size.unwrap_or_else(|| natural_side(source.around, hfov));
        let views = Layout::Ring8.views(side, side, Some(hfov));
        let checked = views.first().map_or(Ok(()), check_view);
        checked.map_err(|what| Failure::usage(format!("⟨fov⟩, ⟨size⟩: {what}")))?;
        let found = LensViews::of(frame, side, hfov).map_err(|e| Failure::usage(format!("⟨fov⟩: {e}")))?;
        Ok(Some(found))
    }

    /// The views without those that complete the sphere.
    fn chosen(&self, around: u32) -> Result<Vec<View>, Failure> {
        let mut views = match &self.views {
            Some(path) => {
                let hfov = self.fov.unwrap_or(90.0);
                let side = self.size.unwrap_or_else(|| natural_side(around, hfov));
                read_views(path, side, hfov).map_err(|e| Failure::new("views", e))?
            }
            None => {
                let side = self.size.unwrap_or_else(|| self.layout.natural_side(around, self.fov));
                self.layout.views(side, side, self.fov)
            }
        };
        for view in &mut views {
            view.yaw += self.rotate;
            check_view(view).map_err(|what| {
                let key = match what {
                    ViewError::Angles => "rotate",
                    ViewError::Size(..) => "size",
                    _ => "fov",
                };
                Failure::usage(format!("⟨{key}⟩: {what}"))
            })?;
        }
        Ok(views)
    }
}

/// Panoramas, the views that they are cut into, and where to.
#[derive(Clone, Debug)]
pub struct SplitOptions {
    /// A folder of panoramas (JPEG, PNG, TIFF), of GoPro MAX stream pairs, or a video (through ffmpeg).
    pub input: PathBuf,
    /// Folder for the views.
    pub output: PathBuf,
    /// Which views.
    pub views: ViewChoice,
    /// Which frames.
    pub frames: FrameChoice,
    /// Everything within so many degrees of straight down is masked: tripod, operator.
    pub crop_bottom: f64,
    /// Folder with a mask per frame (0 = remove); `None` = INPUT/masks.
    pub masks: Option<PathBuf>,
    /// A program that writes a mask per frame, with its arguments; {frame} and {mask} stand for the picture and for the
    /// PNG to write.
    pub mask_command: Option<String>,
    /// What is looked for and removed before anything is cut; its masks are kept in `panorama_masks/` of the output.
    pub removal: Removal,
    /// Turn panoramas level by the pitch and roll that their metadata say.
    pub level_gpano: bool,
    /// Kind of the views.
    pub format: Format,
    /// Their names.
    pub naming: Naming,
    /// Which numbers flat names have.
    pub numbering: Numbering,
    /// What is done to the colours.
    pub colours: ColourChoice,
    /// What to do with a frame that cannot be used.
    pub on_error: OnError,
    /// Redo frames that are finished, replace what was made with other options, and write among files of somebody else.
    pub force: bool,
    /// Seconds for which an outside program (ffmpeg, mask command) may say nothing.
    pub tool_timeout: u64,
    /// Largest panorama, px.
    pub max_side: [u32; 2],
    /// Longest file of a frame, MiB.
    pub max_file: u64,
    /// Memory to stay within; auto = a quarter of the machine's, at most 2 GiB.
    pub max_memory: MemoryLimit,
    /// Folder for a profile of the split: `profile.json`, `profile.csv`, `trace.json`.
    pub profile: Option<PathBuf>,
    /// Threads; 0 = all processors.
    pub threads: u32,
    /// Vector instructions of the processor.
    pub simd: VectorLevel,
}

impl SplitOptions {
    /// Footage, and the folder for its views; everything else as it is by default.
    #[must_use]
    pub fn new(input: impl Into<PathBuf>, output: impl Into<PathBuf>) -> Self {
        Self {
            input: input.into(),
            output: output.into(),
            views: ViewChoice::default(),
            frames: FrameChoice::default(),
            crop_bottom: 0.0,
            masks: None,
            mask_command: None,
            removal: Removal::default(),
            level_gpano: false,
            format: Format::Jpeg(95),
            naming: Naming::Rig,
            numbering: Numbering::Order,
            colours: ColourChoice::default(),
            on_error: OnError::Skip,
            force: false,
            tool_timeout: SILENCE,
            max_side: [16_384, 8_192],
            max_file: 256,
            max_memory: MemoryLimit::Auto,
            profile: None,
            threads: 0,
            simd: VectorLevel::Auto,
        }
    }

    /// Looks at the footage and chooses its frames; nothing is written.
    ///
    /// # Errors
    /// As [`Source::open`] and [`Source::choose`].
    pub fn open(&self, host: &mut Host<'_>) -> Result<Source, Failure> {
        if !(0.0..=90.0).contains(&self.crop_bottom) {
            return Err(Failure::usage(format!(
                "⟨crop-bottom⟩: expected 0..90 degrees, found {}",
                self.crop_bottom
            )));
        }
        if let Some(masks) = self.masks.as_deref().filter(|masks| !masks.is_dir()) {
            let found = if masks.exists() { "is no folder" } else { "no such folder" };
            let line =
                format!("{}: masks: {found} (expected one with a mask for each frame)", masks.display());
            return Err(Failure::new("frames", line));
        }
        // A LUT that cannot be used is told before frames are looked at.
        self.colours.colouring()?;
        let [width, height] = self.max_side;
        let limits = Limits { width, height, bytes: self.max_file.saturating_mul(1 << 20) };
        let silence = Duration::from_secs(self.tool_timeout);
        Source::open(&self.input, &self.frames, limits, silence, host)?.choose(&self.output, host)
    }

    /// What is to be done with the frames of a source.
    fn settings(&self, source: &Source, host: &mut Host<'_>) -> Result<Settings, Failure> {
        let mask_command = match &self.mask_command {
            Some(_) if source.has_parts() => {
                return Err(Failure::usage(if source.is_eac() {
                    "⟨mask-command⟩: is for panoramas and fisheyes (found GoPro MAX streams)"
                } else {
                    "⟨mask-command⟩: is for frames of one picture (found six faces a frame)"
                }));
            }
            Some(text) => {
                let command = MaskCommand::parse(text, Duration::from_secs(self.tool_timeout));
                Some(command.map_err(|what| Failure::usage(format!("⟨mask-command⟩: {what}")))?)
            }
            None => None,
        };
        let lenses = self.views.lens_views(source)?;
        if lenses.is_some() && self.level_gpano {
            return Err(Failure::usage(
                "⟨level⟩: is for panoramas (found ⟨lenses = separate⟩); leave one of both out",
            ));
        }
        let equalise = self.colours.equalise(source)?;
        let frame_gains = if equalise == Equalise::Frames {
            colour::frame_gains(source, self.simd, self.threads, host)?
        } else {
            Vec::new()
        };
        Ok(Settings {
            views: match &lenses {
                Some(lenses) => lenses.of_both(),
                None => self.views.views(source.around)?,
            },
            lenses,
            format: self.format,
            naming: self.naming,
            numbering: self.numbering,
            crop_bottom: self.crop_bottom,
            level_gpano: self.level_gpano,
            projection: source.projection.clone(),
            masks: self.masks.clone(),
            mask_command,
            is_stereo: source.is_stereo,
            limits: source.limits,
            film: source.film.clone(),
            colouring: self.colours.colouring()?,
            equalise,
            frame_gains,
        })
    }
}

/// What will be done: a stable contract.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SplitForecast {
    schema: u32,
    kind: &'static str,
    /// Panoramas.
    pub frames: usize,
    /// Views of all of them.
    pub views: usize,
    /// Width of a view, px.
    pub view_width: u32,
    /// Height of a view, px.
    pub view_height: u32,
    /// Bytes of the views.
    pub disk_bytes: u64,
    /// CPU seconds.
    pub cpu_seconds: f64,
    /// Nothing was written because nothing was to be.
    is_dry_run: bool,
}

/// Bytes of a pixel of a view at quality 95, as the preflight counts them.
const BYTES_PER_PIXEL: f64 = 0.35;
/// CPU time of a pixel of a view, decoding included, seconds.
const SECONDS_PER_PIXEL: f64 = 12e-9;

/// Frames, views, disk and time of a split, without doing it.
///
/// # Errors
/// As [`split()`], as far as it can be known before.
pub fn forecast(options: &SplitOptions, host: &mut Host<'_>) -> Result<SplitForecast, Failure> {
    let source = options.open(host)?;
    let without = SplitOptions {
        colours: ColourChoice {
            equalise: options.colours.equalise.filter(|e| *e != Equalise::Frames),
            ..options.colours.clone()
        },
        ..options.clone()
    };
    let settings = without.settings(&source, host)?;
    let first = settings.views.first();
    let frames = source.frames.len();
    Ok(SplitForecast {
        schema: 1,
        kind: "split",
        frames,
        views: frames * settings.views.len(),
        view_width: first.map_or(0, |v| v.width),
        view_height: first.map_or(0, |v| v.height),
        disk_bytes: disk_bytes(&source.frames, &settings),
        cpu_seconds: frames as f64 * pixels(&settings) * SECONDS_PER_PIXEL,
        is_dry_run: true,
    })
}

/// Cuts panoramas into views. Frames that were finished before are kept; a report says whether the job was asked to
/// stop before it was done.
///
/// # Errors
/// Footage or options that cannot be used, a folder of somebody else, too little room or memory.
pub fn split(options: &SplitOptions, host: &mut Host<'_>) -> Result<Report, Failure> {
    let source = match options.open(host) {
        Err(failure) if failure.is_stopped() => {
            return Ok(Report { is_cancelled: true, ..Report::default() });
        }
        source => source?,
    };
    if !options.force && split::is_ours(&options.output) {
        let settings = options.settings(&source, host);
        if split::is_cut_otherwise(&options.output, &host.unless_stopped(settings)?) {
            return Err(records::made_otherwise(&options.output));
        }
    }
    let Some(folder) = &options.profile else { return split_source(options, &source, host) };
    profiling::take_beside(folder, &options.output)?;
    profiling::start();
    let report = split_source(options, &source, host);
    let (profile, trace) = profiling::stop_recording(&[
        ("folder", options.output.display().to_string()),
        ("frames", source.frames.len().to_string()),
    ]);
    let report = report?;
    profiling::save(&profile, &trace, folder)?;
    Ok(report)
}

/// Cuts the panoramas of a source that was looked at before.
///
/// # Errors
/// As [`split()`].
pub fn split_source(options: &SplitOptions, source: &Source, host: &mut Host<'_>) -> Result<Report, Failure> {
    options.removal.check()?;
    // Before masks are made for it.
    options.views.lens_views(source)?;
    options.colours.equalise(source)?;
    if options.removal.is_wanted() {
        let overwrite = if options.force { Overwrite::Replace } else { Overwrite::Refuse };
        split::claim(&options.output, overwrite)?;
        owned::stays_inside(&options.output, Path::new(PANORAMA_MASKS))?;
        let folder = options.output.join(PANORAMA_MASKS);
        match make_masks(source, &folder, options, overwrite, host)? {
            Some(share) => host.report(Event::Masked(share)),
            None => {
                host.stage(Stage::CutStopped);
                return Ok(Report { is_cancelled: true, ..Report::default() });
            }
        }
        let with_masks = SplitOptions { masks: Some(folder), removal: Removal::default(), ..options.clone() };
        return split_source(&with_masks, source, host);
    }
    let _masks = Reading::of(&options.masks);
    let settings = options.settings(source, host);
    let settings = host.unless_stopped(settings)?;
    if options.views.full_sphere {
        let chosen = options.views.chosen(source.around)?.len();
        host.report(Event::ViewsAdded(settings.views[chosen..].to_vec()));
    }
    if let Some(masks) = &options.masks
        && !masks.join(MASKS_FOUND).is_file()
        && !source.frames.iter().any(|frame| split::has_mask(&settings, frame))
    {
        let masks = masks.display();
        host.warn("masks", format!("{masks}: no mask is of any frame (expected NAME.jpg.png or NAME.png)"));
    }
    let folder = options.output.as_path();
    let budget = budget(options.max_memory)?;
    split::claim(folder, if options.force { Overwrite::Replace } else { Overwrite::Refuse })?;
    let lock = FolderLock::acquire(folder).map_err(|e| Failure::new("in-use", e))?;
    if let Some(note) = &lock.note {
        host.warn("the folder", note);
    }
    check_space(folder, &source.frames, &settings)?;
    if let Some(selection) = &source.selection {
        owned::stays_inside(folder, Path::new(FILE))?;
        selection.write(&folder.join(FILE), Overwrite::Replace)?;
    }
    let level = level(options.simd)
        .ok_or_else(|| Failure::new("device", "⟨simd⟩: this processor does not have it"))?;
    let threads = device::threads(options.threads);
    let work = Work { threads, level, on_error: options.on_error, force: options.force, budget };
    host.report(Event::Begun { part: Part::Frames, done: 0, total: source.frames.len() as u64 });
    let stop = host.stop();
    let report = split::split(&source.frames, &settings, &work, folder, stop, &mut |event| match event {
        split::Event::Frame { done, views_per_s, .. } => {
            host.report(Event::Done { done: done as u64, views_per_s: Some(views_per_s) });
        }
        split::Event::Skipped(skipped) => host.warn("frames", format!("{}; skipped", skipped.reason)),
    });
    host.report(Event::Ended);
    let report = report?;
    if report.is_cancelled {
        host.stage(Stage::CutStopped);
    }
    Ok(report)
}

/// What `gausset mask` leaves in a folder, also where it finds nothing.
const MASKS_FOUND: &str = "masks.jsonl";
/// Folder in the output for masks that are made.
const PANORAMA_MASKS: &str = "panorama_masks";

/// Masks of what is to be removed of the frames of a source; `None` when it was to stop. `others` is what happens to masks
/// that were made with other options.
///
/// # Errors
/// A model or frames that cannot be used.
#[cfg(feature = "masks")]
pub(super) fn make_masks(
    source: &Source,
    folder: &Path,
    options: &SplitOptions,
    others: Overwrite,
    host: &mut Host<'_>,
) -> Result<Option<MaskShare>, Failure> {
    use crate::mask::{MaskOptions, mask_source};
    let Removal { model, still_patch, shadow, temporal, engine } = options.removal.clone();
    let options = MaskOptions {
        temporal,
        threads: options.threads,
        simd: options.simd,
        max_memory: options.max_memory,
        model,
        still_patch,
        shadow,
        engine,
        ..MaskOptions::new(&options.input, folder)
    };
    host.stage(Stage::FindMasks);
    let done = mask_source(&options, source.clone(), others, host)?;
    let share = MaskShare {
        frames: done.frames,
        with_finds: done.with_finds,
        still_share: done.still_share,
        removed_mean: done.removed_mean,
        removed_worst: done.removed_worst,
        skipped: done.skipped.len(),
    };
    Ok((!done.is_cancelled).then_some(share))
}

/// Masks are not built in.
#[cfg(not(feature = "masks"))]
pub(super) fn make_masks(
    _source: &Source,
    _folder: &Path,
    _options: &SplitOptions,
    _others: Overwrite,
    _host: &mut Host<'_>,
) -> Result<Option<MaskShare>, Failure> {
    Err(Failure::usage("⟨mask-model⟩, ⟨still-patch⟩: this program was built without masks (feature `masks`)"))
}

/// Pixels of the views of a frame.
fn pixels(settings: &Settings) -> f64 {
    settings.views.iter().map(|v| f64::from(v.width) * f64::from(v.height)).sum()
}

fn disk_bytes(frames: &[SourceFrame], settings: &Settings) -> u64 {
    let factor = if settings.format == Format::Png { 6.0 } else { 1.0 };
    (frames.len() as f64 * pixels(settings) * BYTES_PER_PIXEL * factor) as u64
}

fn check_space(folder: &Path, frames: &[SourceFrame], settings: &Settings) -> Result<(), Failure> {
    let needed = disk_bytes(frames, settings);
    let free = Disk.free_space(folder).unwrap_or(u64::MAX);
    if free < needed {
        let (needed, free) = (units::bytes(needed), units::bytes(free));
        return Err(Failure::new(
            "write",
            format!(
                "{}: free space: too little room (expected about {needed}, found {free}); free some space or choose another folder",
                folder.display()
            ),
        ));
    }
    Ok(())
}
