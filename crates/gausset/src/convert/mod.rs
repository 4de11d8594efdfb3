//! Converts splats of a file or run to another format, with optional filters, transforms and SH reduction, and measures
//! the loss.

mod confirmed;
pub(crate) mod edits;
mod importance;
mod loss;
mod ranges;
mod sky_image;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gausset_core::Region;
use gausset_core::constants::NEAR_PLANE;
use gausset_core::engine::RenderOptions;
use gausset_core::splats_transform::Similarity;
use gausset_io::atomic::{Disk, Overwrite, WriteError, WriteOptions, check_free, write_atomic_with};
use gausset_io::dataset::{self, Dataset};
use gausset_io::input_files::InputFiles;
use gausset_io::splat::{
    self, FORMATS, Format, Initial, LoadOptions, SaveOptions, SaveReport, SplatFile, SpzAxes, SpzOptions,
};
use gausset_train::Split;
use gausset_train::cameras::{self, NamedCamera};
use gausset_train::orbit::{self, ImageShape};

pub use edits::{RemovedCounts, SplatEdits};
pub use loss::ConversionLoss;

use self::importance::Ranking;
use self::loss::LossMeter;
use crate::device::DeviceOptions;
use crate::saved_run::{
    ChangedData, DataLocation, SavedRun, file_render_options, open_beside, splats_from_dataset_of,
};
use crate::splat_info::SplatInfo;
use crate::training::warn_about_dataset;
use crate::{Failure, Host, page};

/// Number of cameras on the circle around splats without a dataset.
const CAMERAS_AROUND: usize = 12;
/// Camera sources, as reported in [`ConversionLoss::cameras`].
const CAMERAS_ON_CIRCLE: &str = "around";
const HELD_OUT: &str = "held-out";
/// What options that encode in memory need.
const ONE_FILE: &str = "a format of one file that is written";
/// Numbers of SH bits tried in an SPZ to reach a given quality, the smallest file first.
const SH_BITS: [[u8; 2]; 6] = [[4, 3], [5, 4], [6, 5], [7, 6], [8, 7], [8, 8]];

/// Options of [`convert()`].
#[derive(Clone, Debug, Default)]
pub struct ConvertOptions {
    /// A splat file or the folder of a finished run.
    pub input: PathBuf,
    /// Splat file to write; a streamed SOG is written around its `lod-meta.json`.
    pub output: PathBuf,
    /// Output format; `None` = according to the file extension.
    pub format: Option<Format>,
    /// Edits to apply.
    pub edits: SplatEdits,
    /// Whether splats of a sky are written.
    pub sky: SkyChoice,
    /// PNG to write with the sky as an equirectangular image in the axes of the output splats.
    pub sky_image: Option<PathBuf>,
    /// Largest number of splats; the least important ones are removed.
    pub max_splats: Option<usize>,
    /// Largest size of the output in bytes; the least important splats are removed.
    pub max_bytes: Option<u64>,
    /// Removes splats outside the ball around the training cameras of the run, its radius multiplied by this factor.
    pub crop_to_cameras: Option<f64>,
    /// Removes the splats of the scene that at most one training view of the run confirms.
    pub confirmed: bool,
    /// Dataset that the splats were trained on; `None` = where the run found it, or none for a file.
    pub data: Option<PathBuf>,
    /// Folder of its photographs; `None` = where the run found them, or the dataset's own.
    pub images: Option<PathBuf>,
    /// Writes a PLY without normals, which some viewers require.
    pub no_normals: bool,
    /// SH bits of an SPZ; `None` = the default, or as many as the requested quality needs.
    pub sh_bits: Option<[u8; 2]>,
    /// SPZ version; `None` = the newest.
    pub spz_version: Option<u8>,
    /// Axes of an SPZ input or output; `None` = those that the input records, and those of a PLY for the output.
    pub spz_frame: Option<SpzAxes>,
    /// Levels of detail of a streamed SOG; `None` = until one has at most 100,000 splats.
    pub levels: Option<u32>,
    /// Measures the loss of the conversion.
    pub report: bool,
    /// Minimum mean PSNR in dB of the converted splats against the original ones.
    pub min_psnr: Option<f64>,
    /// Replace an existing output file.
    pub force: bool,
    /// Device that renders for the measurements.
    pub device: DeviceOptions,
    /// Threads; 0 = all CPU threads.
    pub threads: u32,
}

/// Whether the splats of a sky are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SkyChoice {
    /// Not in the formats of programs that have a background of their own and place the view by the bounds of all splats:
    /// glTF and `.splat`.
    #[default]
    Auto,
    /// In all formats.
    Keep,
    /// In no format.
    Drop,
}

impl ConvertOptions {
    /// Converts one file to another, with defaults for everything else.
    #[must_use]
    pub fn new(input: impl Into<PathBuf>, output: impl Into<PathBuf>) -> Self {
        Self { input: input.into(), output: output.into(), ..Self::default() }
    }
}

/// Result of [`convert()`].
#[derive(Clone, Debug)]
pub struct ConversionResult {
    /// The splat file that was read.
    pub input: PathBuf,
    /// Statistics of the input.
    pub read: SplatInfo,
    /// Splats removed by the filters.
    pub removed: RemovedCounts,
    /// Fraction of the sum of opacity times area that the splats above the largest number or size had.
    pub removed_importance: f64,
    /// Statistics of the output.
    pub written: SplatInfo,
    /// Details of the written file.
    pub saved: SaveReport,
    /// SH bits of an SPZ output.
    pub sh_bits: Option<[u8; 2]>,
    /// Loss caused by the format, if measured.
    pub loss: Option<ConversionLoss>,
    /// Loss caused by filters and SH reduction, if measured and if there was any.
    pub edits_loss: Option<ConversionLoss>,
}

/// The output format for a file extension.
///
/// ```
/// use gausset::convert::format_of;
/// use gausset_io::splat::Format;
///
/// assert_eq!(format_of("scene.spz".as_ref(), "").ok(), Some(Format::Spz));
/// assert!(format_of("scene.gltf".as_ref(), "").unwrap_err().message.contains(".glb"));
/// // Read only.
/// assert_eq!(format_of("scene.ksplat".as_ref(), "").unwrap_err().code, "usage");
/// ```
///
/// # Errors
/// An unknown extension (`hint` is appended to that message), or a format that can only be read.
pub fn format_of(path: &Path, hint: &str) -> Result<Format, Failure> {
    let place = path.display();
    match Format::from_path(path) {
        Some(Format::Gltf) if path.extension().is_some_and(|end| end.eq_ignore_ascii_case("gltf")) => {
            Err(Failure::usage(format!(
                "{place}: name: glTF is written as one binary file (expected a name that ends in .glb)"
            )))
        }
        Some(format) if format.is_written() => Ok(format),
        Some(format) => {
            let title = format.row().title;
            Err(Failure::usage(format!("{place}: name: {title} is read, but {}", format.row().loses)))
        }
        None => {
            let ends = FORMATS.iter().filter(|row| row.format.is_written());
            let ends: Vec<&str> = ends.filter_map(|row| row.extensions.first().copied()).collect();
            let line = format!(
                "{place}: name: no known splat format (expected a name that ends in one of {}{hint})",
                ends.join(" ")
            );
            Err(Failure::usage(line))
        }
    }
}

/// Converts splats.
///
/// # Errors
/// The input cannot be read or the output not written, an option does not apply to these formats, no splat is left, the
/// loss exceeds the limit, or the job was asked to stop.
pub fn convert(options: &ConvertOptions, host: &mut Host<'_>) -> Result<ConversionResult, Failure> {
    options.check_ranges()?;
    let output = &options.output;
    let format = options.format.map_or_else(|| format_of(output, "; or ⟨format⟩"), Ok)?;
    let run = SavedRun::from_input(&options.input)?;
    let input = run.as_ref().map_or_else(|| Ok(splat::file_at(&options.input)), SavedRun::trained_splats)?;
    let _reading = InputFiles::new(splat::files_of(&input));
    let write = WriteOptions { label: "splats", overwrite: options.overwrite(), ..WriteOptions::default() };
    check_free(&Disk, output, write.overwrite)?;
    options.check_sky_image()?;
    if options.device != DeviceOptions::default() {
        // Refused as early as where something is rendered.
        options.device.engine(options.threads as usize)?;
    }
    let load = LoadOptions { spz_frame: options.spz_frame, ..LoadOptions::default() };
    let mut document = splat::load(&input, &load)?;
    for line in document.report.lines(&input) {
        host.warn("the splats", line);
    }
    options.check_effects(format, document.format, run.is_some())?;
    check_stop(host)?;

    if let Some(run) = &run {
        // Files of older runs do not contain it.
        let near_plane = run.render_options().near_plane;
        document.near_plane = (near_plane != NEAR_PLANE).then_some(near_plane);
    }
    let read = SplatInfo::from_document(&document);
    let sky_image = options.sky_image(&document)?;
    let seen = options.training_cameras(run.as_ref(), &document, &input, host)?;
    let mut edits = options.edits.clone();
    edits.within.extend(options.crop_ball(seen.as_ref())?);
    edits.drop_sky |= options.drops_sky(format, &document, &input, host);
    let is_weighed = options.is_weighed() || (options.is_limited() && seen.is_some() && !format.is_folder());
    let can_change = edits.can_change_renders() || options.is_limited() || options.confirmed;
    let original = (is_weighed && can_change).then(|| document.clone());
    let sh_degree = document.splats.sh_degree;
    let invented =
        if options.confirmed { options.remove_invented(&mut document, seen.as_ref(), host)? } else { 0 };
    let mut removed = RemovedCounts { invented, ..edits.filter(&mut document) };
    if document.splats.is_empty() {
        return Err(no_splats_left(&input, &removed));
    }
    edits.apply(&mut document);
    if format == Format::Html {
        let data = DataLocation::for_viewing(options.data.as_deref(), options.images.as_deref());
        let scene = page::page_scene(output, run.as_ref(), data, &edits.transform(), &document, host);
        document.page = Some(Box::new(scene));
    }

    check_stop(host)?;
    let removed_importance = options.limit(format, &mut document, &mut removed, write, host)?;
    let mut conversion = Conversion { options, format, document: &document, write };
    let (saved, sh_bits, loss, edits_loss) = if is_weighed {
        let moves = edits.transform();
        let mut scales = conversion.loss_meter(seen.as_ref(), &moves)?;
        let changed = original.filter(|_| edits.changes_renders(&removed, sh_degree));
        let edits_loss = match changed {
            Some(original) => Some(scales.measure(&original, &moves, &document, host)?),
            None => None,
        };
        let (saved, sh_bits, loss) = conversion.save_measured(&mut scales, host)?;
        (saved, sh_bits, Some(loss), edits_loss)
    } else {
        let saved = splat::save(&Disk, output, &document, &conversion.save_options(None), &conversion.write)?;
        (saved, conversion.sh_bits(None), None, None)
    };
    if let Some(image) = &sky_image {
        options.write_sky_image(image)?;
    }
    let written = SplatInfo::from_saved(&document, &saved);
    Ok(ConversionResult {
        input,
        read,
        removed,
        removed_importance,
        written,
        saved,
        sh_bits,
        loss,
        edits_loss,
    })
}

fn check_stop(host: &Host<'_>) -> Result<(), Failure> {
    if host.is_stopping() { Err(Failure::stopped()) } else { Ok(()) }
}

/// Measures the loss between two sets of splats, rendered from cameras around them.
///
/// # Errors
/// There are no splats, the device is not available, or the job was asked to stop.
pub fn measure_loss(
    before: &SplatFile,
    after: &SplatFile,
    device: DeviceOptions,
    threads: u32,
    host: &mut Host<'_>,
) -> Result<ConversionLoss, Failure> {
    let mut scales = LossMeter::new(
        cameras_around(before)?,
        CAMERAS_ON_CIRCLE,
        RenderOptions::default(),
        device,
        threads,
    )?;
    scales.measure(before, &Similarity::IDENTITY, after, host)
}

/// Cameras on a circle around the splats.
fn cameras_around(document: &SplatFile) -> Result<Vec<NamedCamera>, Failure> {
    let (scene, up) = (document.scene(), document.vertical_axis);
    let cameras = orbit::orbit_splats(&scene, CAMERAS_AROUND, up, &ImageShape::default());
    let cameras = cameras.map_err(|error| Failure::usage(error.to_string()))?;
    if cameras.is_empty() {
        return Err(Failure::new("cameras", "there are no splats to render"));
    }
    Ok(cameras)
}

impl ConvertOptions {
    fn overwrite(&self) -> Overwrite {
        if self.force { Overwrite::Replace } else { Overwrite::Refuse }
    }

    fn data_place(&self) -> DataLocation<'_> {
        let (path, images) = (self.data.as_deref(), self.images.as_deref());
        DataLocation { path, images, if_changed: ChangedData::Refuse, allow_outside: false }
    }

    /// Whether the loss is measured on request.
    fn is_weighed(&self) -> bool {
        self.report || self.min_psnr.is_some() || self.is_limited() && self.data.is_some()
    }

    /// Whether the training cameras are needed.
    fn needs_cameras(&self) -> bool {
        self.crop_to_cameras.is_some() || self.confirmed || self.is_weighed()
    }

    /// Whether the number of splats is limited.
    fn is_limited(&self) -> bool {
        self.max_splats.is_some() || self.max_bytes.is_some()
    }

    /// Whether the sky is left out, which [`is_sky_dropped`] decides by default.
    fn drops_sky(&self, format: Format, document: &SplatFile, input: &Path, host: &mut Host<'_>) -> bool {
        let has_sky = document.sky > 0;
        if self.sky == SkyChoice::Drop && !has_sky {
            let line = format!(
                "{}: sky: no splats are marked as one (expected splats that Gausset trained); ⟨drop-far = 20⟩ removes \
                 splats far out",
                input.display()
            );
            host.warn("the splats", line);
        }
        self.sky == SkyChoice::Drop && has_sky
            || self.sky == SkyChoice::Auto && is_sky_dropped(format, document)
    }

    /// Removes the least important splats until the number and the size of the file are within their limits. Returns the
    /// fraction of the importance that they had.
    fn limit(
        &self,
        format: Format,
        document: &mut SplatFile,
        removed: &mut RemovedCounts,
        write: WriteOptions,
        host: &Host<'_>,
    ) -> Result<f64, Failure> {
        if !self.is_limited() {
            return Ok(0.0);
        }
        let ranking = Ranking::of(document);
        let before = document.splats.len();
        let mut count = self.max_splats.unwrap_or(before).min(before);
        if let Some(max_bytes) = self.max_bytes {
            let size_of = |part: &SplatFile| {
                check_stop(host)?;
                let conversion = Conversion { options: self, format, document: part, write };
                conversion.encode(None).map(|(bytes, _)| bytes.len() as u64)
            };
            let found = ranking.count_within(document, count, max_bytes, size_of)?;
            count = found.ok_or_else(|| {
                let (output, title) = (self.output.display(), format.row().title);
                Failure::usage(format!(
                    "{output}: ⟨max-size⟩: no {title} is that small (expected more than {max_bytes} bytes for one splat)"
                ))
            })?;
        }
        let removed_importance = ranking.keep(document, count);
        removed.unimportant = before - document.splats.len();
        Ok(removed_importance)
    }

    /// Refuses options that have no effect with these formats.
    fn check_effects(&self, written: Format, read: Format, is_run: bool) -> Result<(), Failure> {
        let spz = Format::Spz;
        let keeps_order = matches!(written, Format::Ply | Format::Spz | Format::Gltf);
        let cameras = self.needs_cameras() || written == Format::Html;
        let selects = self.crop_to_cameras.is_some() || self.confirmed;
        if self.max_bytes.is_some() && self.min_psnr.is_some() {
            let line = "⟨max-size⟩: excludes ⟨min-psnr⟩, which decides the size; leave out one of them";
            return Err(Failure::new("option", line));
        }
        let idle = [
            ("sh-bits", self.sh_bits.is_some() && written != spz, "an SPZ that is written"),
            ("spz-version", self.spz_version.is_some() && written != spz, "an SPZ that is written"),
            ("spz-frame", self.spz_frame.is_some() && written != spz && read != spz, "an SPZ"),
            ("no-normals", self.no_normals && written != Format::Ply, "a PLY that is written"),
            ("morton", self.edits.morton && !keeps_order, "a format that keeps the order of the splats"),
            (
                "levels",
                self.levels.is_some() && written != Format::StreamedSog,
                "a streamed SOG that is written",
            ),
            ("report", self.report && written.is_folder(), ONE_FILE),
            ("min-psnr", self.min_psnr.is_some() && written.is_folder(), ONE_FILE),
            ("max-size", self.max_bytes.is_some() && written.is_folder(), ONE_FILE),
            ("data", self.data.is_some() && written.is_folder() && !selects, ONE_FILE),
        ];
        if let Some((option, _, needs)) = idle.into_iter().find(|(_, is_idle, _)| *is_idle) {
            let (from, to) = (read.row().title, written.row().title);
            let line =
                format!("⟨{option}⟩: has no effect from {from} to {to}; leave it out (it needs {needs})");
            return Err(Failure::new("option", line));
        }
        let place =
            [("data", &self.data), ("images", &self.images)].into_iter().find(|(_, path)| path.is_some());
        if let Some((option, _)) = place
            && !(cameras && (is_run || written != Format::Html || self.needs_cameras()))
        {
            let line = format!(
                "⟨{option}⟩: has no effect; leave it out (it needs ⟨report⟩, ⟨min-psnr⟩, ⟨crop-to-cameras⟩, ⟨confirmed⟩, \
                 or a page of a run)"
            );
            return Err(Failure::new("option", line));
        }
        Ok(())
    }

    /// Opens the dataset that the splats were trained on, if its cameras are needed: that of the run, or the one given
    /// for a file.
    fn training_cameras(
        &self,
        run: Option<&SavedRun>,
        file: &SplatFile,
        input: &Path,
        host: &mut Host<'_>,
    ) -> Result<Option<TrainingCameras>, Failure> {
        if !self.needs_cameras() {
            // The cost of a limit is measured where the cameras are known, and is no reason to fail.
            let run = run.filter(|_| self.is_limited());
            return Ok(run.and_then(|run| TrainingCameras::of_run(run, self.data_place(), host).ok()));
        }
        match (run, &self.data) {
            (Some(run), _) => TrainingCameras::of_run(run, self.data_place(), host).map(Some),
            (None, Some(data)) => {
                let open = open_beside(file, self.images.as_deref(), false);
                let dataset = Arc::new(dataset::open(data, &open)?);
                warn_about_dataset(&dataset, host);
                Ok(Some(TrainingCameras {
                    dataset,
                    splats_from_dataset: splats_from_dataset_of(file, input, host),
                    render_options: file_render_options(file),
                }))
            }
            (None, None) => Ok(None),
        }
    }

    fn no_cameras(&self, option: &str, or: &str) -> Failure {
        Failure::usage(format!(
            "{}: ⟨{option}⟩: a splat file has no cameras (expected a run folder, or ⟨data = DIR⟩{or})",
            self.input.display()
        ))
    }

    /// The ball around the training cameras that `crop_to_cameras` keeps.
    fn crop_ball(&self, seen: Option<&TrainingCameras>) -> Result<Option<Region>, Failure> {
        let Some(factor) = self.crop_to_cameras else { return Ok(None) };
        let Some(TrainingCameras { dataset, splats_from_dataset: turn, .. }) = seen else {
            return Err(self.no_cameras("crop-to-cameras", "; or give a box with ⟨box⟩"));
        };
        let cameras = dataset.split.train.iter().map(|&index| dataset.images[index].pose.centre());
        let centres: Vec<_> = cameras.map(|centre| turn.apply(centre)).collect();
        Ok(Region::enclosing_ball(&centres, factor))
    }
}

/// The training dataset, as cameras for the splats.
struct TrainingCameras {
    dataset: Arc<Dataset>,
    /// Rotation from dataset axes to splat axes.
    splats_from_dataset: Similarity,
    render_options: RenderOptions,
}

/// Whether a conversion to this format leaves out the sky by default: programs that read it expect a scene alone.
#[must_use]
pub fn is_sky_dropped(format: Format, document: &SplatFile) -> bool {
    document.sky > 0 && document.scene_len() > 0 && matches!(format, Format::Gltf | Format::Splat)
}

impl TrainingCameras {
    /// The cameras of a run's dataset.
    fn of_run(run: &SavedRun, place: DataLocation<'_>, host: &mut Host<'_>) -> Result<Self, Failure> {
        Ok(Self {
            dataset: run.open_dataset(place, host)?,
            splats_from_dataset: run.splats_from_dataset(),
            render_options: run.render_options(),
        })
    }
}

fn no_splats_left(input: &Path, removed: &RemovedCounts) -> Failure {
    if removed.total() == 0 {
        return Failure::usage(format!(
            "{}: no splats to convert (expected at least one, found none)",
            input.display()
        ));
    }
    let reasons = [
        (removed.invented, "not confirmed"),
        (removed.sky, "of a sky"),
        (removed.far, "too far out"),
        (removed.faint, "too transparent"),
        (removed.outside, "outside the region to keep"),
    ];
    let reasons = reasons.iter().filter(|(count, _)| *count > 0);
    let reasons: Vec<String> = reasons.map(|(count, why)| format!("{count} {why}")).collect();
    let (input, all) = (input.display(), removed.total());
    Failure::usage(format!("{input}: no splats left of {all} ({})", reasons.join(", ")))
}

/// Encoding of the edited splats.
struct Conversion<'a> {
    options: &'a ConvertOptions,
    format: Format,
    document: &'a SplatFile,
    write: WriteOptions,
}

impl Conversion<'_> {
    /// SH bits, if the format has them.
    fn sh_bits(&self, chosen: Option<[u8; 2]>) -> Option<[u8; 2]> {
        let is_spz = self.format == Format::Spz && self.document.splats.sh_degree > 0;
        is_spz.then(|| self.save_options(chosen).spz.sh_bits)
    }

    fn save_options(&self, chosen: Option<[u8; 2]>) -> SaveOptions {
        let (options, usual) = (self.options, SpzOptions::default());
        let spz = SpzOptions {
            version: options.spz_version.unwrap_or(usual.version),
            sh_bits: chosen.or(options.sh_bits).unwrap_or(usual.sh_bits),
            frame: options.spz_frame.unwrap_or(usual.frame),
        };
        SaveOptions { format: Some(self.format), normals: !options.no_normals, spz, levels: options.levels }
    }

    /// Cameras that view the output splats: the held-out views if there are any, otherwise a circle around the splats.
    fn loss_meter(&self, seen: Option<&TrainingCameras>, moves: &Similarity) -> Result<LossMeter, Failure> {
        let of_dataset = |seen: &TrainingCameras| {
            cameras::dataset_cameras(&seen.dataset, Split::Test, &seen.splats_from_dataset)
        };
        let mut held_out = seen.map(of_dataset).unwrap_or_default();
        for view in &mut held_out {
            view.pose = moves.apply_to_pose(&view.pose);
        }
        let (cameras, source) = if held_out.is_empty() {
            (cameras_around(self.document)?, CAMERAS_ON_CIRCLE)
        } else {
            (held_out, HELD_OUT)
        };
        let how = seen.map_or_else(RenderOptions::default, |seen| seen.render_options);
        LossMeter::new(cameras, source, how, self.options.device, self.options.threads)
    }

    /// Encodes, measures the loss, and writes the file if the quality suffices; otherwise tries more SH bits.
    fn save_measured(
        &mut self,
        scales: &mut LossMeter,
        host: &mut Host<'_>,
    ) -> Result<(SaveReport, Option<[u8; 2]>, ConversionLoss), Failure> {
        let is_chosen = self.options.min_psnr.is_some() && self.options.sh_bits.is_none();
        let tries = match self.sh_bits(None) {
            Some(_) if is_chosen => SH_BITS.map(Some).to_vec(),
            _ => vec![None],
        };
        let mut best = None;
        for chosen in tries {
            let (bytes, saved) = self.encode(chosen)?;
            let after = self.decode(&bytes)?;
            let loss = scales.measure(self.document, &Similarity::IDENTITY, &after, host)?;
            let is_enough =
                self.options.min_psnr.is_none_or(|least| loss.psnr.is_none_or(|psnr| psnr >= least));
            if is_enough {
                let saved = self.write(&bytes, saved)?;
                return Ok((saved, self.sh_bits(chosen), loss));
            }
            best = loss.psnr;
        }
        let least = self.options.min_psnr.unwrap_or_default();
        let (output, title) = (self.options.output.display(), self.format.row().title);
        let line = format!(
            "{output}: loss: {title} keeps {:.2} dB of these splats (expected at least {least}); use a format that keeps \
             more, such as .glb or .ply, or a lower ⟨min-psnr⟩",
            best.unwrap_or_default()
        );
        Err(Failure::new("convert-loss", line))
    }

    fn encode(&self, chosen: Option<[u8; 2]>) -> Result<(Vec<u8>, SaveReport), Failure> {
        let mut bytes = Vec::new();
        let saved = splat::write(&mut bytes, self.document, self.format, &self.save_options(chosen));
        let path = self.options.output.clone();
        saved
            .map(|saved| (bytes, saved))
            .map_err(|source| WriteError::Io { path, action: "encode", source }.into())
    }

    fn decode(&self, bytes: &[u8]) -> Result<SplatFile, Failure> {
        let spz_frame = Some(self.save_options(None).spz.frame);
        let load = LoadOptions { spz_frame, ..LoadOptions::default() };
        match splat::parse(bytes, &self.options.output, &load)? {
            Initial::Splats(document) => Ok(document),
            Initial::Points(_) => Err(Failure::new("splats", "the encoded file contains no splats")),
        }
    }

    fn write(&self, bytes: &[u8], saved: SaveReport) -> Result<SaveReport, Failure> {
        let options = WriteOptions { needed_bytes: bytes.len() as u64, ..self.write };
        let write = |file: &mut gausset_io::atomic::AtomicWriter<'_>| file.write_all(bytes);
        let ((), committed) = write_atomic_with(&Disk, &self.options.output, &options, write)?;
        Ok(SaveReport { sync_seconds: committed.sync_seconds, ..saved })
    }
}
