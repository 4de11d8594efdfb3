//! Splits panoramas into perspective views.

use std::path::{Path, PathBuf};
use std::time::Duration;

use gausset_compute::{SimdLevel, dispatch_level};
use gausset_io::atomic::{Disk, FileSystem, Overwrite};
use gausset_io::input_files::InputFiles;
use gausset_io::lock::FolderLock;
use gausset_io::{ownership, text};
use gausset_pano::cutter::Format;
use gausset_pano::equalise::Equalise;
use gausset_pano::frames::SourceFrame;
use gausset_pano::geometry::View;
use gausset_pano::layout::{Layout, ViewError, check_view, native_view_side, read_views};
use gausset_pano::lens_views::LensViews;
use gausset_pano::load::{self, ImageLimits};
use gausset_pano::projection::Projection;
use gausset_pano::split::{
    self, MaskCommand, Naming, Numbering, OnError, SplitReport, SplitSettings, WorkerSettings,
};
use gausset_train::MemoryLimit;
use serde::Serialize;

use super::colour;
use super::mask_options::MaskStatistics;
use super::source::Footage;
use crate::aligner::TOOL_TIMEOUT;
use crate::footage_options::{ColourOptions, FrameMaskOptions, FrameOptions, MaskingOptions, ViewOptions};
use crate::memory::budget;
use crate::{CountedItem, Event, Failure, Host, Stage, device, profiling, records};

/// Arrangement of views relative to the lenses of dual-lens frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LensArrangement {
    /// Views of the whole sphere, some across the seam, as if both lenses had one centre.
    #[default]
    Together,
    /// Views inside one lens each. Each lens of a frame becomes a frame with its own pose.
    Separate,
}

impl LensArrangement {
    /// Both arrangements, each once.
    pub const ALL: [Self; 2] = [Self::Together, Self::Separate];

    /// Name as in options.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Together => "together",
            Self::Separate => "separate",
        }
    }
}

impl ViewOptions {
    /// The views for a panorama `around` pixels wide, including those that complete the sphere if requested.
    ///
    /// # Errors
    /// Values out of range, an unusable file of views, or too many views to complete the sphere.
    pub fn views(&self, around: u32) -> Result<Vec<View>, Failure> {
        let mut views = self.layout_views(around)?;
        if self.full_sphere {
            let added = gausset_pano::coverage::views_to_complete(&views)
                .map_err(|what| Failure::usage(format!("⟨full-sphere⟩: {what}")))?;
            views.extend(added);
        }
        Ok(views)
    }

    /// The views of each lens; `None` unless lenses are split separately.
    ///
    /// # Errors
    /// A source without two lenses, layout options, or too small an image circle.
    pub fn lens_views(&self, source: &Footage) -> Result<Option<LensViews>, Failure> {
        if self.lenses == LensArrangement::Together {
            return Ok(None);
        }
        let film = source.film.as_ref().map(gausset_pano::sphere_video::SphereVideo::projection);
        let Some(Projection::Fisheye(frame)) = film.as_ref().or(source.projection.as_ref()) else {
            return Err(Failure::usage(
                "⟨lenses = separate⟩: applies to frames of two fisheye circles only (found none; ⟨lens⟩ describes them); leave it out",
            ));
        };
        if self.layout != Layout::Ring8 || self.views.is_some() || self.rotate != 0.0 || self.full_sphere {
            return Err(Failure::usage(
                "⟨lenses = separate⟩: has a fixed layout (found ⟨layout⟩, ⟨views⟩, ⟨rotate⟩ or ⟨full-sphere⟩); leave one of both out",
            ));
        }
        let hfov = self.fov.unwrap_or(90.0);
        let side = self.size.unwrap_or_else(|| native_view_side(source.panorama_width, hfov));
        let views = Layout::Ring8.views(side, side, Some(hfov));
        let checked = views.first().map_or(Ok(()), check_view);
        checked.map_err(|what| Failure::usage(format!("⟨fov⟩, ⟨size⟩: {what}")))?;
        let found = LensViews::new(frame, side, hfov).map_err(|e| Failure::usage(format!("⟨fov⟩: {e}")))?;
        Ok(Some(found))
    }

    /// The views of the layout or file, without those that complete the sphere.
    fn layout_views(&self, around: u32) -> Result<Vec<View>, Failure> {
        let mut views = match &self.views {
            Some(path) => {
                let hfov = self.fov.unwrap_or(90.0);
                let side = self.size.unwrap_or_else(|| native_view_side(around, hfov));
                read_views(path, side, hfov).map_err(|e| Failure::new("views", e))?
            }
            None => {
                let side = self.size.unwrap_or_else(|| self.layout.native_view_side(around, self.fov));
                self.layout.views(side, side, self.fov)
            }
        };
        for view in &mut views {
            view.yaw += self.rotate;
            check_view(view).map_err(|what| {
                let key = match what {
                    ViewError::NonFiniteAngle => "rotate",
                    ViewError::Size(..) => "size",
                    _ => "fov",
                };
                Failure::usage(format!("⟨{key}⟩: {what}"))
            })?;
        }
        Ok(views)
    }
}

/// Levelling of panoramas by the pitch and roll in their GPano metadata.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Levelling {
    /// Where a panorama has them.
    #[default]
    Auto,
    /// By GPano.
    Gpano,
    /// Never.
    Off,
}

impl Levelling {
    /// All of them; the first is the default.
    pub const ALL: [Self; 3] = [Self::Auto, Self::Gpano, Self::Off];

    /// Name in options.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Gpano => "gpano",
            Self::Off => "off",
        }
    }
}

/// Options of [`split()`].
#[derive(Clone, Debug)]
pub struct SplitOptions {
    /// Folder of panoramas (JPEG, PNG, TIFF) or GoPro MAX stream pairs, or a video (read by ffmpeg).
    pub input: PathBuf,
    /// Output folder of the views.
    pub output: PathBuf,
    /// Layout and size of the views.
    pub views: ViewOptions,
    /// Which frames of the input are used.
    pub frames: FrameOptions,
    /// Masks of the frames; created ones are kept in `panorama_masks/` of the output folder.
    pub masking: FrameMaskOptions,
    /// Whether panoramas are levelled by the pitch and roll in their metadata.
    pub level: Levelling,
    /// File format of the views.
    pub format: Format,
    /// Naming scheme of the views.
    pub naming: Naming,
    /// Numbering of flat names.
    pub numbering: Numbering,
    /// Options about colours and brightness.
    pub colours: ColourOptions,
    /// What to do with an unusable frame.
    pub on_error: OnError,
    /// Redo finished frames, replace results of other options, and write into folders that Gausset did not create.
    pub force: bool,
    /// Timeout of external programs (ffmpeg, mask command) in seconds without output.
    pub tool_timeout: u64,
    /// Largest panorama in pixels (width, height).
    pub max_side: [u32; 2],
    /// Largest input file of a frame in MiB.
    pub max_file: u64,
    /// Memory limit; auto = a quarter of the machine's memory, at most 2 GiB.
    pub max_memory: MemoryLimit,
    /// Folder for a profile of the split: `profile.json`, `profile.csv`, `trace.json`.
    pub profile: Option<PathBuf>,
    /// Threads; 0 = all CPU threads.
    pub threads: u32,
    /// SIMD level of the CPU.
    pub simd: SimdLevel,
}

impl SplitOptions {
    /// Input footage and output folder, with defaults for everything else.
    #[must_use]
    pub fn new(input: impl Into<PathBuf>, output: impl Into<PathBuf>) -> Self {
        Self {
            input: input.into(),
            output: output.into(),
            views: ViewOptions::default(),
            frames: FrameOptions::default(),
            masking: FrameMaskOptions::default(),
            level: Levelling::Auto,
            format: Format::Jpeg(95),
            naming: Naming::Rig,
            numbering: Numbering::Order,
            colours: ColourOptions::default(),
            on_error: OnError::Skip,
            force: false,
            tool_timeout: TOOL_TIMEOUT,
            max_side: [16_384, 8_192],
            max_file: 256,
            max_memory: MemoryLimit::Auto,
            profile: None,
            threads: 0,
            simd: SimdLevel::Auto,
        }
    }

    /// Probes the footage and selects frames, without writing anything.
    ///
    /// # Errors
    /// As [`Footage::open`] and [`Footage::select_frames`].
    pub fn open(&self, host: &mut Host<'_>) -> Result<Footage, Failure> {
        let FrameMaskOptions { crop_bottom, masks, .. } = &self.masking;
        if !(0.0..=90.0).contains(crop_bottom) {
            let line = format!("⟨crop-bottom⟩: expected 0..90 degrees, found {crop_bottom}");
            return Err(Failure::usage(line));
        }
        if let Some(masks) = masks.as_deref().filter(|masks| !masks.is_dir()) {
            let found = if masks.exists() { "is not a folder" } else { "no such folder" };
            let line =
                format!("{}: masks: {found} (expected one with a mask for each frame)", masks.display());
            return Err(Failure::new("frames", line));
        }
        // Report an unusable LUT before frames are measured.
        self.colours.resolve()?;
        let [width, height] = self.max_side;
        let limits = ImageLimits { width, height, bytes: self.max_file.saturating_mul(1 << 20) };
        let silence = Duration::from_secs(self.tool_timeout);
        Footage::open(&self.input, &self.frames, limits, silence, host)?.select_frames(&self.output, host)
    }

    /// Whether the panoramas of a source are levelled. Without a frame that is tilted, `auto` gives the same views and
    /// settings as `off`, as before it existed.
    fn levels(&self, source: &Footage) -> bool {
        let is_tilted = |frame: &SourceFrame| frame.files.iter().any(|file| load::read_tilt(file).is_some());
        match self.level {
            Levelling::Off => false,
            Levelling::Gpano => true,
            Levelling::Auto => {
                source.film.is_none() && source.projection.is_none() && source.frames.iter().any(is_tilted)
            }
        }
    }

    /// Resolves the options for a source.
    fn settings(&self, source: &Footage, host: &mut Host<'_>) -> Result<SplitSettings, Failure> {
        let mask_command = match &self.masking.mask_command {
            Some(_) if source.has_parts() => {
                return Err(Failure::usage(if source.is_eac() {
                    "⟨mask-command⟩: applies to panoramas and fisheyes only (found GoPro MAX streams)"
                } else {
                    "⟨mask-command⟩: applies to frames of one image only (found six faces per frame)"
                }));
            }
            Some(text) => {
                let command = MaskCommand::parse(text, Duration::from_secs(self.tool_timeout));
                Some(command.map_err(|what| Failure::usage(format!("⟨mask-command⟩: {what}")))?)
            }
            None => None,
        };
        let lenses = self.views.lens_views(source)?;
        if lenses.is_some() && self.level == Levelling::Gpano {
            return Err(Failure::usage(
                "⟨level⟩: applies to panoramas only (found ⟨lenses = separate⟩); leave one of both out",
            ));
        }
        let equalise = self.colours.equalise(source)?;
        let frame_gains = if equalise == Equalise::Frames {
            colour::frame_gains(source, self.simd, self.threads, host)?
        } else {
            Vec::new()
        };
        let level_gpano = lenses.is_none() && self.levels(source);
        Ok(SplitSettings {
            views: match &lenses {
                Some(lenses) => lenses.all_views(),
                None => self.views.views(source.panorama_width)?,
            },
            lenses,
            format: self.format,
            naming: self.naming,
            numbering: self.numbering,
            crop_bottom: self.masking.crop_bottom,
            level_gpano,
            projection: source.projection.clone(),
            masks: self.masking.masks.clone(),
            mask_command,
            is_stereo: source.is_stereo,
            limits: source.limits,
            video: source.film.clone(),
            colouring: self.colours.resolve()?,
            equalise,
            frame_gains,
        })
    }
}

/// Forecast of a split; the JSON form is a stable contract.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SplitForecast {
    schema: u32,
    kind: &'static str,
    /// Number of panoramas.
    pub frames: usize,
    /// Total number of views.
    pub views: usize,
    /// Width of a view in pixels.
    pub view_width: u32,
    /// Height of a view in pixels.
    pub view_height: u32,
    /// Estimated size of the views in bytes.
    pub disk_bytes: u64,
    /// Estimated CPU time in seconds.
    pub cpu_seconds: f64,
    /// Always `true`: a forecast writes nothing.
    is_dry_run: bool,
}

/// Estimated bytes per pixel of a JPEG view at quality 95.
const BYTES_PER_PIXEL: f64 = 0.35;
/// Estimated CPU seconds per pixel of a view, including decoding.
const SECONDS_PER_PIXEL: f64 = 12e-9;

/// Forecasts frames, views, disk space and time of a split.
///
/// # Errors
/// As [`split()`], for what can be checked in advance.
pub fn forecast(options: &SplitOptions, host: &mut Host<'_>) -> Result<SplitForecast, Failure> {
    let source = options.open(host)?;
    let without = SplitOptions {
        colours: ColourOptions {
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

/// Splits panoramas into views. Frames finished earlier are kept. The report says whether the job stopped on request
/// before the end.
///
/// # Errors
/// Unusable footage or options, a folder that Gausset did not create, too little disk space or memory.
pub fn split(options: &SplitOptions, host: &mut Host<'_>) -> Result<SplitReport, Failure> {
    let source = match options.open(host) {
        Err(failure) if failure.is_stopped() => {
            return Ok(SplitReport { is_cancelled: true, ..SplitReport::default() });
        }
        source => source?,
    };
    if !options.force && split::is_split_output(&options.output) {
        let settings = options.settings(&source, host);
        if split::has_other_settings(&options.output, &host.unless_stopped(settings)?) {
            return Err(records::other_settings(&options.output));
        }
    }
    let Some(folder) = &options.profile else { return split_source(options, &source, host) };
    profiling::claim_folder_outside(folder, &options.output)?;
    let _recording = profiling::start();
    let report = split_source(options, &source, host);
    let (profile, trace) = profiling::stop_recording(&[
        ("folder", options.output.display().to_string()),
        ("frames", source.frames.len().to_string()),
    ]);
    let report = report?;
    profiling::save(&profile, &trace, folder)?;
    Ok(report)
}

/// Splits a source that has been opened.
///
/// # Errors
/// As [`split()`].
pub fn split_source(
    options: &SplitOptions,
    source: &Footage,
    host: &mut Host<'_>,
) -> Result<SplitReport, Failure> {
    options.masking.removal.check()?;
    // Check these before masks are created.
    options.views.lens_views(source)?;
    options.colours.equalise(source)?;
    if options.masking.removal.is_wanted() {
        let overwrite = if options.force { Overwrite::Replace } else { Overwrite::Refuse };
        split::claim(&options.output, overwrite)?;
        ownership::check_inside(&options.output, Path::new(PANORAMA_MASKS))?;
        let folder = options.output.join(PANORAMA_MASKS);
        match create_masks(source, &folder, options, overwrite, host)? {
            Some(share) => host.report(Event::Masked(share)),
            None => {
                host.stage(Stage::CutStopped);
                return Ok(SplitReport { is_cancelled: true, ..SplitReport::default() });
            }
        }
        let removal = MaskingOptions::default();
        let masking = FrameMaskOptions { masks: Some(folder), removal, ..options.masking.clone() };
        let with_masks = SplitOptions { masking, ..options.clone() };
        return split_source(&with_masks, source, host);
    }
    let _masks = InputFiles::new(&options.masking.masks);
    if let Some(masks) = &options.masking.masks {
        source.check_masks(masks)?;
    }
    let settings = options.settings(source, host);
    let settings = host.unless_stopped(settings)?;
    if options.views.full_sphere {
        let chosen = options.views.layout_views(source.panorama_width)?.len();
        host.report(Event::ViewsAdded(settings.views[chosen..].to_vec()));
    }
    if let Some(masks) = &options.masking.masks
        && !masks.join(MASK_MANIFEST).is_file()
        && !source.frames.iter().any(|frame| split::has_mask(&settings, frame))
    {
        let masks = masks.display();
        host.warn("masks", format!("{masks}: no mask matches a frame (expected NAME.jpg.png or NAME.png)"));
    }
    if let Some(ignored) = ignored_mask(options, source) {
        let ignored = ignored.display();
        host.warn(
            "masks",
            format!("{ignored}: masks next to the panoramas are ignored, as others are given"),
        );
    }
    let folder = options.output.as_path();
    let budget = budget(options.max_memory)?;
    split::claim(folder, if options.force { Overwrite::Replace } else { Overwrite::Refuse })?;
    let lock = FolderLock::acquire(folder).map_err(|e| Failure::new("in-use", e))?;
    if let Some(note) = &lock.note {
        host.warn("the folder", note);
    }
    check_space(folder, &source.frames, &settings)?;
    source.write_selection(folder)?;
    let level = dispatch_level(options.simd)
        .ok_or_else(|| Failure::new("device", "⟨simd⟩: not supported by this CPU"))?;
    let threads = device::thread_count(options.threads);
    let work = WorkerSettings {
        threads,
        level,
        on_error: options.on_error,
        force: options.force,
        memory_budget: budget,
    };
    host.report(Event::Begun { item: CountedItem::Frames, done: 0, total: source.frames.len() as u64 });
    let stop = host.stop();
    let report = split::split(&source.frames, &settings, &work, folder, stop, &mut |event| match event {
        split::SplitEvent::Frame { done, views_per_s, .. } => {
            host.report(Event::Done { done: done as u64, views_per_s: Some(views_per_s) });
        }
        split::SplitEvent::Skipped(skipped) => host.warn("frames", format!("{}; skipped", skipped.reason)),
    });
    host.report(Event::Ended);
    let report = report?;
    if report.is_cancelled {
        host.stage(Stage::CutStopped);
    }
    Ok(report)
}

/// The first mask next to the panoramas, if other masks are given.
fn ignored_mask(options: &SplitOptions, source: &Footage) -> Option<PathBuf> {
    let given = options.masking.masks.as_ref().filter(|_| source.film.is_none())?.canonicalize().ok();
    let beside = |frame: &SourceFrame| split::find_mask(frame.files.first()?, &frame.stem, None);
    let is_other = |path: &PathBuf| path.parent().and_then(|folder| folder.canonicalize().ok()) != given;
    source.frames.iter().filter_map(beside).find(is_other)
}

/// File that `gausset mask` leaves in a mask folder even without detections.
const MASK_MANIFEST: &str = "masks.jsonl";
/// Subfolder of the output for created masks.
const PANORAMA_MASKS: &str = "panorama_masks";

/// Creates masks for the frames of a source; `None` if asked to stop. `others` says what to do with masks made with
/// other options.
///
/// # Errors
/// An unusable model or unusable frames.
#[cfg(feature = "masks")]
pub(super) fn create_masks(
    source: &Footage,
    folder: &Path,
    options: &SplitOptions,
    others: Overwrite,
    host: &mut Host<'_>,
) -> Result<Option<MaskStatistics>, Failure> {
    use crate::mask::{MaskOptions, mask_source};
    let MaskingOptions { model, still_patch, shadow, temporal, engine } = options.masking.removal.clone();
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
    let share = MaskStatistics {
        frames: done.frames,
        with_finds: done.with_finds,
        still_share: done.still_share,
        removed_mean: done.removed_mean,
        removed_worst: done.removed_worst,
        skipped: done.skipped.len(),
    };
    Ok((!done.is_cancelled).then_some(share))
}

/// This build has no segmentation.
#[cfg(not(feature = "masks"))]
pub(super) fn create_masks(
    _source: &Footage,
    _folder: &Path,
    _options: &SplitOptions,
    _others: Overwrite,
    _host: &mut Host<'_>,
) -> Result<Option<MaskStatistics>, Failure> {
    Err(Failure::usage(
        "⟨mask-model⟩, ⟨still-patch⟩: this program was built without mask support (feature `masks`)",
    ))
}

/// Pixels of all views of a frame.
fn pixels(settings: &SplitSettings) -> f64 {
    settings.views.iter().map(|v| f64::from(v.width) * f64::from(v.height)).sum()
}

fn disk_bytes(frames: &[SourceFrame], settings: &SplitSettings) -> u64 {
    let factor = if settings.format == Format::Png { 6.0 } else { 1.0 };
    (frames.len() as f64 * pixels(settings) * BYTES_PER_PIXEL * factor) as u64
}

fn check_space(folder: &Path, frames: &[SourceFrame], settings: &SplitSettings) -> Result<(), Failure> {
    let needed = disk_bytes(frames, settings);
    let free = Disk.free_space(folder).unwrap_or(u64::MAX);
    if free < needed {
        let (needed, free) = (text::format_bytes(needed), text::format_bytes(free));
        return Err(Failure::new(
            "write",
            format!(
                "{}: free space: not enough (expected about {needed}, found {free}); free some space or choose another folder",
                folder.display()
            ),
        ));
    }
    Ok(())
}
