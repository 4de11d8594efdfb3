//! Splats of one file, or of a run, into another file: what is left out, moved and cut, in which format, and what that
//! costs.

pub(crate) mod edits;
mod loss;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gausset_core::Region;
use gausset_core::engine::RenderOptions;
use gausset_core::se3::{self, Mat3};
use gausset_core::splats_transform::Similarity;
use gausset_io::atomic::{Disk, Overwrite, WriteError, WriteOptions, refuse_existing, write_atomic_with};
use gausset_io::dataset::{self, Dataset, OpenOptions};
use gausset_io::reading::Reading;
use gausset_io::splat::{
    self, Document, FORMATS, Format, Initial, LoadOptions, SaveOptions, Saved, SpzFrame, SpzOptions,
};
use gausset_train::Split;
use gausset_train::cameras::{self, NamedCamera};
use gausset_train::orbit::{self, PictureShape};

pub use edits::{Edits, Removed};
pub use loss::Loss;

use self::loss::Scales;
use crate::device::DeviceOptions;
use crate::saved_run::{DataPlace, OtherData, SavedRun, file_options, turn_of};
use crate::splat_facts::SplatFacts;
use crate::training::warn_of;
use crate::{Failure, Host, page};

/// Cameras around splats of which no others are known.
const CAMERAS_AROUND: usize = 12;
/// Names of where cameras are from.
const AROUND: &str = "around";
const HELD_OUT: &str = "held-out";
/// Bits of SH in an SPZ that are tried for a wanted quality, from the smallest file on.
const SH_BITS: [[u8; 2]; 6] = [[4, 3], [5, 4], [6, 5], [7, 6], [8, 7], [8, 8]];

/// Which file becomes which, and how.
#[derive(Clone, Debug, Default)]
pub struct ConvertOptions {
    /// A splat file, or the folder of a finished run.
    pub input: PathBuf,
    /// File to write.
    pub output: PathBuf,
    /// Its format; `None` = that of the end of its name.
    pub format: Option<Format>,
    /// What is done to the splats.
    pub edits: Edits,
    /// Splats outside of the ball around the training cameras of the run, its radius times this, are left out.
    pub crop_to_cameras: Option<f64>,
    /// The dataset that the splats were trained on; `None` = where the run found it, and of a file none.
    pub data: Option<PathBuf>,
    /// A PLY is written without the normals that some viewers insist on.
    pub no_normals: bool,
    /// Bits of SH in an SPZ; `None` = the usual ones, or those that the wanted quality needs.
    pub sh_bits: Option<[u8; 2]>,
    /// Version of an SPZ; `None` = the newest.
    pub spz_version: Option<u8>,
    /// Axes of an SPZ, read or written; `None` = what it says, and those of a PLY.
    pub spz_frame: Option<SpzFrame>,
    /// What the conversion costs is measured.
    pub report: bool,
    /// The least mean PSNR against the splats that are converted, in dB.
    pub min_psnr: Option<f64>,
    /// An existing file may be replaced.
    pub force: bool,
    /// What computes pictures.
    pub device: DeviceOptions,
    /// Its threads; 0 = all processors.
    pub threads: u32,
}

impl ConvertOptions {
    /// A file into another one; everything else as it is by default.
    #[must_use]
    pub fn new(input: impl Into<PathBuf>, output: impl Into<PathBuf>) -> Self {
        Self { input: input.into(), output: output.into(), ..Self::default() }
    }
}

/// What was done.
#[derive(Clone, Debug)]
pub struct Converted {
    /// The file that was read.
    pub input: PathBuf,
    /// What it holds.
    pub read: SplatFacts,
    /// What was left out as asked for.
    pub removed: Removed,
    /// What the new file holds.
    pub written: SplatFacts,
    /// How it was written.
    pub saved: Saved,
    /// Bits of SH of an SPZ.
    pub sh_bits: Option<[u8; 2]>,
    /// What the format costs, where that was measured.
    pub loss: Option<Loss>,
    /// What leaving out and cutting cost, where that was measured and there was something.
    pub edits_loss: Option<Loss>,
}

/// The format that the end of a name means, if it is written.
///
/// # Errors
/// A name that means none, or one that is read only; `hint` ends the line of the former.
pub fn format_of(path: &Path, hint: &str) -> Result<Format, Failure> {
    let place = path.display();
    match Format::of_path(path) {
        Some(format) if format.is_written() => Ok(format),
        Some(format) => {
            let title = format.row().title;
            Err(Failure::usage(format!("{place}: name: {title} is read, but {}", format.row().loses)))
        }
        None => {
            let ends = FORMATS.iter().filter(|row| row.format.is_written());
            let ends: Vec<&str> = ends.filter_map(|row| row.endings.first().copied()).collect();
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
/// A file that cannot be read or written, options that mean nothing for these formats or leave no splat, a loss that is
/// larger than allowed; the job was asked to stop.
pub fn convert(options: &ConvertOptions, host: &mut Host<'_>) -> Result<Converted, Failure> {
    let output = &options.output;
    let format = options.format.map_or_else(|| format_of(output, "; or ⟨format⟩"), Ok)?;
    let run = SavedRun::of(&options.input)?;
    let input = run.as_ref().map_or(Ok(options.input.clone()), SavedRun::splats)?;
    let _reading = Reading::of([&input]);
    let write = WriteOptions { label: "splats", overwrite: options.overwrite(), ..WriteOptions::default() };
    refuse_existing(&Disk, output, write.overwrite)?;
    let load = LoadOptions { spz_frame: options.spz_frame, ..LoadOptions::default() };
    let mut document = splat::load(&input, &load)?;
    for line in document.report.lines(&input) {
        host.warn("the splats", line);
    }
    options.check_effects(format, document.format, run.is_some())?;

    let read = SplatFacts::of(&document);
    let seen = options.seen(run.as_ref(), &document, &input, host)?;
    let mut edits = options.edits.clone();
    edits.within.extend(options.ball(seen.as_ref())?);
    let is_weighed = options.report || options.min_psnr.is_some();
    let original = (is_weighed && edits.can_change_pictures()).then(|| document.clone());
    let sh_degree = document.splats.sh_degree;
    let removed = edits.filter(&mut document);
    if document.splats.is_empty() && removed.total() > 0 {
        return Err(nothing_left(&input, &removed));
    }
    edits.shape(&mut document);
    if format == Format::Html {
        let data = options.data.as_deref();
        let scene = page::scene(output, run.as_ref(), data, &edits.moves(), &document, host);
        document.page = Some(Box::new(scene));
    }

    let mut conversion = Conversion { options, format, document: &document, write };
    if !is_weighed {
        let saved = splat::save(&Disk, output, &document, &conversion.save_options(None), &conversion.write)?;
        let written = SplatFacts::of_saved(&document, &saved);
        let sh_bits = conversion.sh_bits(None);
        return Ok(Converted { input, read, removed, written, saved, sh_bits, loss: None, edits_loss: None });
    }
    let moves = edits.moves();
    let mut scales = conversion.scales(seen.as_ref(), &moves)?;
    let changed = original.filter(|_| edits.change_pictures(&removed, sh_degree));
    let edits_loss = match changed {
        Some(original) => Some(scales.weigh(&original, &moves, &document, host)?),
        None => None,
    };
    let (saved, sh_bits, loss) = conversion.save_weighed(&mut scales, host)?;
    let written = SplatFacts::of_saved(&document, &saved);
    Ok(Converted { input, read, removed, written, saved, sh_bits, loss: Some(loss), edits_loss })
}

/// What some splats lose that became others, as views around them show it.
///
/// # Errors
/// There is no splat to look at; a device that is not there; the job was asked to stop.
pub fn weigh(
    before: &Document,
    after: &Document,
    device: DeviceOptions,
    threads: u32,
    host: &mut Host<'_>,
) -> Result<Loss, Failure> {
    let mut scales = Scales::new(around(before)?, AROUND, RenderOptions::default(), device, threads)?;
    scales.weigh(before, &Similarity::IDENTITY, after, host)
}

/// Cameras around splats.
fn around(document: &Document) -> Result<Vec<NamedCamera>, Failure> {
    let (scene, up) = (document.scene(), document.vertical_axis);
    let cameras = orbit::around_splats(&scene, CAMERAS_AROUND, up, &PictureShape::default());
    let cameras = cameras.map_err(|error| Failure::usage(error.to_string()))?;
    if cameras.is_empty() {
        return Err(Failure::new("cameras", "there is no splat to look at"));
    }
    Ok(cameras)
}

impl ConvertOptions {
    fn overwrite(&self) -> Overwrite {
        if self.force { Overwrite::Replace } else { Overwrite::Refuse }
    }

    /// Refuses options that mean nothing for these formats.
    fn check_effects(&self, written: Format, read: Format, is_run: bool) -> Result<(), Failure> {
        let spz = Format::Spz;
        let keeps_order = matches!(written, Format::Ply | Format::Spz | Format::Gltf);
        let is_weighed = self.report || self.min_psnr.is_some();
        let cameras = self.crop_to_cameras.is_some() || is_weighed || written == Format::Html;
        let idle = [
            ("sh-bits", self.sh_bits.is_some() && written != spz, "an SPZ that is written"),
            ("spz-version", self.spz_version.is_some() && written != spz, "an SPZ that is written"),
            ("spz-frame", self.spz_frame.is_some() && written != spz && read != spz, "an SPZ"),
            ("no-normals", self.no_normals && written != Format::Ply, "a PLY that is written"),
            ("morton", self.edits.morton && !keeps_order, "a format that keeps the order of the splats"),
        ];
        if let Some((option, _, needs)) = idle.into_iter().find(|(_, is_idle, _)| *is_idle) {
            let (from, to) = (read.row().title, written.row().title);
            let line =
                format!("⟨{option}⟩: has no effect from {from} to {to}; leave it out (it needs {needs})");
            return Err(Failure::new("option", line));
        }
        if self.data.is_some() && !(cameras && (is_run || written != Format::Html || is_weighed)) {
            let line = "⟨data⟩: has no effect; leave it out (it needs ⟨report⟩, ⟨min-psnr⟩, ⟨crop-to-cameras⟩, or a page of \
                        a run)";
            return Err(Failure::new("option", line));
        }
        Ok(())
    }

    /// The dataset that the splats were trained on, where its cameras are wanted: of the run, or of a file the one that is
    /// named.
    fn seen(
        &self,
        run: Option<&SavedRun>,
        file: &Document,
        input: &Path,
        host: &mut Host<'_>,
    ) -> Result<Option<Seen>, Failure> {
        if self.crop_to_cameras.is_none() && !self.report && self.min_psnr.is_none() {
            return Ok(None);
        }
        match (run, &self.data) {
            (Some(run), data) => {
                let place =
                    DataPlace { path: data.as_deref(), other: OtherData::Refuse, allow_outside: false };
                let (turn, how) = (run.splats_from_dataset(), run.render_options());
                Ok(Some(Seen { dataset: run.open_dataset(place, host)?, turn, how }))
            }
            (None, Some(data)) => {
                let dataset = Arc::new(dataset::open(data, &OpenOptions::default())?);
                warn_of(&dataset, host);
                Ok(Some(Seen { dataset, turn: turn_of(file, input, host)?, how: file_options(file) }))
            }
            (None, None) => Ok(None),
        }
    }

    /// The ball around the training cameras, if that is what is kept.
    fn ball(&self, seen: Option<&Seen>) -> Result<Option<Region>, Failure> {
        let Some(factor) = self.crop_to_cameras else { return Ok(None) };
        let Some(Seen { dataset, turn, .. }) = seen else {
            let line = format!(
                "{}: ⟨crop-to-cameras⟩: a splat file knows no cameras (expected the folder of a run, or ⟨data = DIR⟩; or name \
                 a box with ⟨box⟩)",
                self.input.display()
            );
            return Err(Failure::usage(line));
        };
        let cameras = dataset.split.train.iter().map(|&index| dataset.images[index].pose.centre());
        let centres: Vec<_> = cameras.map(|centre| se3::mul_vec(turn, centre)).collect();
        Ok(Region::around(&centres, factor))
    }
}

/// Where splats are seen from.
struct Seen {
    dataset: Arc<Dataset>,
    /// From the axes of the dataset to those of the splats.
    turn: Mat3,
    how: RenderOptions,
}

fn nothing_left(input: &Path, removed: &Removed) -> Failure {
    let reasons = [
        (removed.far, "too far out"),
        (removed.faint, "too transparent"),
        (removed.outside, "outside of what is kept"),
    ];
    let reasons = reasons.iter().filter(|(count, _)| *count > 0);
    let reasons: Vec<String> = reasons.map(|(count, why)| format!("{count} {why}")).collect();
    let (input, all) = (input.display(), removed.total());
    Failure::usage(format!("{input}: none of {all} splats is left ({})", reasons.join(", ")))
}

/// What is written, once the splats are as they should be.
struct Conversion<'a> {
    options: &'a ConvertOptions,
    format: Format,
    document: &'a Document,
    write: WriteOptions,
}

impl Conversion<'_> {
    /// Bits of SH, if the format has them.
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
        SaveOptions { format: Some(self.format), normals: !options.no_normals, spz }
    }

    /// Cameras that see the splats as they are to be written.
    fn scales(&self, seen: Option<&Seen>, moves: &Similarity) -> Result<Scales, Failure> {
        let of_dataset = |seen: &Seen| cameras::of_dataset(&seen.dataset, Split::Test, &seen.turn);
        let mut held_out = seen.map(of_dataset).unwrap_or_default();
        for view in &mut held_out {
            view.pose = moves.apply_to_pose(&view.pose);
        }
        let (cameras, source) =
            if held_out.is_empty() { (around(self.document)?, AROUND) } else { (held_out, HELD_OUT) };
        let how = seen.map_or_else(RenderOptions::default, |seen| seen.how);
        Scales::new(cameras, source, how, self.options.device, self.options.threads)
    }

    /// Encodes, looks at the result, and writes it if it is good enough.
    fn save_weighed(
        &mut self,
        scales: &mut Scales,
        host: &mut Host<'_>,
    ) -> Result<(Saved, Option<[u8; 2]>, Loss), Failure> {
        let is_chosen = self.options.min_psnr.is_some() && self.options.sh_bits.is_none();
        let tries = match self.sh_bits(None) {
            Some(_) if is_chosen => SH_BITS.map(Some).to_vec(),
            _ => vec![None],
        };
        let mut best = None;
        for chosen in tries {
            let (bytes, saved) = self.encode(chosen)?;
            let after = self.decode(&bytes)?;
            let loss = scales.weigh(self.document, &Similarity::IDENTITY, &after, host)?;
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
            "{output}: loss: {title} keeps {:.2} dB of these splats (expected at least {least}); take a format that keeps \
             more, such as .glb or .ply, or ask for less",
            best.unwrap_or_default()
        );
        Err(Failure::new("convert-loss", line))
    }

    fn encode(&self, chosen: Option<[u8; 2]>) -> Result<(Vec<u8>, Saved), Failure> {
        let mut bytes = Vec::new();
        let saved = splat::write(&mut bytes, self.document, self.format, &self.save_options(chosen));
        let path = self.options.output.clone();
        saved
            .map(|saved| (bytes, saved))
            .map_err(|source| WriteError::Io { path, action: "encode", source }.into())
    }

    fn decode(&self, bytes: &[u8]) -> Result<Document, Failure> {
        let spz_frame = Some(self.save_options(None).spz.frame);
        let load = LoadOptions { spz_frame, ..LoadOptions::default() };
        match splat::parse(bytes, &self.options.output, &load)? {
            Initial::Splats(document) => Ok(document),
            Initial::Points(_) => Err(Failure::new("splats", "what was written holds no splats")),
        }
    }

    fn write(&self, bytes: &[u8], saved: Saved) -> Result<Saved, Failure> {
        let options = WriteOptions { needed_bytes: bytes.len() as u64, ..self.write };
        let write = |file: &mut gausset_io::atomic::AtomicWriter<'_>| file.write_all(bytes);
        let ((), committed) = write_atomic_with(&Disk, &self.options.output, &options, write)?;
        Ok(Saved { sync_seconds: committed.sync_seconds, ..saved })
    }
}
