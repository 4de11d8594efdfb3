//! Pictures of the sphere into another form: panorama, cross, strip, six faces.
//!
//! One picture goes to a file (six faces: to a folder), a folder to a folder, which is marked as ours and has a line of
//! `convert.jsonl` for each frame that is finished: the same command goes on where it was interrupted, with the same
//! bytes.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use gausset_compute::{Pool, VectorLevel, level};
use gausset_io::atomic::{
    Disk, FileSystem, Overwrite, WriteOptions, check_output, name_together, refuse_input, write_atomic,
    write_atomic_with, write_unnamed,
};
use gausset_io::lock::FolderLock;
use gausset_io::{input, owned};
use gausset_pano::convert::{self, ConvertError, Sampled, Shown, Writing};
use gausset_pano::cube::{Face, Faces, Net, Order};
use gausset_pano::cutter::Format;
use gausset_pano::equalise::Equalise;
use gausset_pano::frames::SourceFrame;
use gausset_pano::grade::Colouring;
use gausset_pano::load::Limits;
use gausset_pano::plane::Frame;
use gausset_pano::projection::{Equirect, Projection};
use gausset_pano::split::Skipped;
use serde::{Deserialize, Serialize};

use super::colour::{self, ColourChoice};
use super::source::{FrameChoice, Source};
use crate::tool::SILENCE;
use crate::{Event, Failure, Host, Part, device};

/// What makes a folder of converted pictures ours.
const PURPOSE: &str = "converted panoramas";
/// Name of the manifest in such a folder.
const MANIFEST: &str = "convert.jsonl";
/// Longest manifest that is read.
const MAX_MANIFEST_BYTES: u64 = 1 << 30;
/// Part of the settings: changes when the same input would give other bytes.
const BYTES_VERSION: u32 = 1;
/// Highest picture that is read and made, px: a strip of six faces below each other is higher than a panorama.
const MOST: u32 = 49_152;

/// What pictures are converted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Panoramas of 2:1.
    Equirect,
    /// A cross or a strip.
    Net(Net, Order),
    /// Six pictures each.
    Faces,
}

/// Pictures of the sphere, what they are converted to, and where to.
#[derive(Clone, Debug)]
pub struct ConvertOptions {
    /// A picture, or a folder of them.
    pub input: PathBuf,
    /// A picture; of a folder, or for six faces, a folder.
    pub output: PathBuf,
    /// What they become.
    pub to: Target,
    /// Side of a face, or width of a panorama, px; `None` = as fine as the source.
    pub size: Option<u32>,
    /// Kind of the files.
    pub format: Format,
    /// What is done to the colours.
    pub colours: ColourChoice,
    /// Which frames, and what they look like.
    pub frames: FrameChoice,
    /// Make finished frames anew, and replace files of somebody else.
    pub force: bool,
    /// Threads; 0 = all processors.
    pub threads: u32,
    /// Vector instructions of the processor.
    pub simd: VectorLevel,
}

impl ConvertOptions {
    /// Whether one picture is written, under the name that is given.
    #[must_use]
    pub fn is_to_file(&self) -> bool {
        let extension = self.output.extension().map(|e| e.to_ascii_lowercase());
        let is_picture = extension.is_some_and(|e| ["jpg", "jpeg", "png"].iter().any(|known| e == *known));
        is_picture && self.to != Target::Faces && !self.output.is_dir()
    }
}

/// What was done, or would be: a stable contract.
#[derive(Clone, Debug, Serialize)]
pub struct Converted {
    schema: u32,
    kind: &'static str,
    /// Frames that are there now, or would be.
    pub frames: usize,
    /// Their files.
    pub files: usize,
    /// Frames that were there before.
    pub resumed: usize,
    /// Width and height of a file, px.
    pub size: [u32; 2],
    /// Frames left out.
    pub skipped: Vec<Skipped>,
    /// Whether nothing was written because nothing was to be.
    pub is_dry_run: bool,
    /// Whether it was stopped.
    #[serde(skip)]
    pub is_cancelled: bool,
}

/// A line of the manifest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Line {
    frame: String,
    /// Name of the first file of the source.
    source: String,
    /// Length of the files of the source, and their time of change.
    bytes: u64,
    modified: u64,
    /// Hash of what decides the bytes.
    settings: String,
    /// Length of each file.
    files: Vec<u64>,
}

/// What is done to the colours of every frame.
struct Colours {
    colouring: Colouring,
    equalise: Equalise,
}

/// Everything that was decided before the first frame.
struct Job<'a> {
    options: &'a ConvertOptions,
    source: &'a Source,
    pictures: &'a Pictures,
    colours: &'a Colours,
}

/// What a source becomes: the end of each name, and what the picture shows.
type Pictures = Vec<(String, Shown)>;

/// Converts pictures; with `is_dry_run` says what that would make.
///
/// # Errors
/// Pictures or options that cannot be used, files of somebody else, a file that cannot be written.
pub fn convert(
    options: &ConvertOptions,
    is_dry_run: bool,
    host: &mut Host<'_>,
) -> Result<Converted, Failure> {
    let limits = Limits { width: MOST, height: MOST, ..Limits::default() };
    let silence = std::time::Duration::from_secs(SILENCE);
    let source = Source::open(&options.input, &options.frames, limits, silence, host)?;
    if source.film.is_some() {
        let input = options.input.display();
        return Err(Failure::usage(format!("{input}: expected pictures, found a video; split takes videos")));
    }
    let pictures = pictures(options, &source)?;
    let colours =
        Colours { colouring: options.colours.colouring()?, equalise: options.colours.equalise(&source)? };
    if colours.equalise == Equalise::Frames {
        return Err(Failure::usage("⟨equalise = frames⟩: is for split and run; leave it out"));
    }
    let mut done = Converted {
        schema: 1,
        kind: "convert",
        frames: source.frames.len(),
        files: source.frames.len() * pictures.len(),
        resumed: 0,
        size: pictures.first().map_or([0; 2], |(_, shown)| shown.size()),
        skipped: Vec::new(),
        is_dry_run,
        is_cancelled: false,
    };
    let is_file = options.is_to_file();
    if is_file && source.frames.len() != 1 {
        let output = options.output.display();
        return Err(Failure::usage(format!(
            "{output}: is the name of one picture, but there are {} frames (expected a folder)",
            source.frames.len()
        )));
    }
    if is_file {
        let overwrite = if options.force { Overwrite::Replace } else { Overwrite::Refuse };
        let read = source.frames.iter().flat_map(|frame| &frame.files).map(PathBuf::as_path);
        check_output(&Disk, &options.output, overwrite, read)?;
    } else {
        // Files of a folder would get the names of those that they are made of.
        refuse_input(&options.output, [options.input.as_path()])?;
    }
    if is_dry_run {
        return Ok(done);
    }
    let job = Job { options, source: &source, pictures: &pictures, colours: &colours };
    if is_file {
        one(&job, &mut done, host)?
    } else {
        all(&job, &mut done, host)?
    }
    Ok(done)
}

/// What each frame becomes.
fn pictures(options: &ConvertOptions, source: &Source) -> Result<Pictures, Failure> {
    // As fine as the source: as many pixels around the horizon, in faces that the encoder need not fill up.
    let natural = (source.around / 4).next_multiple_of(16).max(16);
    let side = options.size.unwrap_or(natural);
    let most = if let Target::Net(net, _) = options.to {
        MOST / net.grid().into_iter().max().unwrap_or(1)
    } else {
        MOST / 6
    };
    let bad = |what: String| Err(Failure::usage(format!("⟨size⟩: {what}")));
    Ok(match options.to {
        Target::Equirect => {
            let width = options.size.unwrap_or(match source.projection {
                None => source.around,
                Some(_) => source.around.next_multiple_of(4),
            });
            if options.size.is_some() && !width.is_multiple_of(4) {
                return bad(format!("expected a multiple of 4 px for a panorama, found {width}"));
            }
            vec![(String::new(), Shown::Equirect(width))]
        }
        _ if !side.is_multiple_of(2) || side > most => {
            return bad(format!("expected an even number of px for a face, at most {most}, found {side}"));
        }
        Target::Net(net, order) => vec![(String::new(), Shown::Faces(Faces::of_net(net, order, side)))],
        Target::Faces => {
            let ends = Face::ALL.map(|face| format!("_{}", face.name()));
            ends.into_iter().zip(Shown::each_face(side)).collect()
        }
    })
}

/// Why a frame is not converted.
enum Trouble {
    Frame(String),
    Stopped,
    Fatal(Failure),
}

/// The files of a frame, in memory.
fn files_of(
    &Job { options, source, pictures, colours }: &Job<'_>,
    frame: &SourceFrame,
    pool: &Pool,
    host: &Host<'_>,
) -> Result<Vec<Vec<u8>>, Trouble> {
    let level = level(options.simd)
        .ok_or_else(|| Trouble::Fatal(Failure::new("device", "⟨simd⟩: this processor does not have it")))?;
    let read =
        convert::read(&frame.files, source.projection.as_ref(), source.is_stereo, &source.limits, level);
    let mut moment = read.map_err(|e| Trouble::Frame(e.to_string()))?;
    let file = || frame.files.first().map(|f| f.display().to_string()).unwrap_or_default();
    if moment.bits > 8 {
        let what = format!(
            "{}: picture: has {} bits a sample (expected 8); make it one of 8 bits first",
            file(),
            moment.bits
        );
        return Err(Trouble::Frame(what));
    }
    if moment.frame.alpha.is_some() {
        let what = format!(
            "{}: picture: has alpha (expected none); take it off, a mask can be a picture beside it",
            file()
        );
        return Err(Trouble::Frame(what));
    }
    let Colours { colouring, equalise } = colours;
    colour::apply(colouring, *equalise, &moment.projection, &mut moment.frame, None);
    let mut made = Vec::new();
    for (_, shown) in pictures {
        let panorama = matches!(shown, Shown::Equirect(_)).then(|| shown.size());
        let segments = moment.metadata.whole_segments(panorama);
        let writing = Writing { format: options.format, level, pool, stop: host.stop(), segments: &segments };
        let sampled = Sampled::new(&moment.projection, &moment.frame, shown);
        made.push(convert::picture(&sampled, shown, writing).map_err(|e| match e {
            ConvertError::Stopped => Trouble::Stopped,
            other => Trouble::Frame(format!("{}: {other}", file())),
        })?);
    }
    Ok(made)
}

/// One picture to a file.
fn one(job: &Job<'_>, done: &mut Converted, host: &mut Host<'_>) -> Result<(), Failure> {
    let Job { options, source, .. } = *job;
    let pool = Pool::new(device::threads(options.threads));
    let Some(frame) = source.frames.first() else { return Ok(()) };
    match files_of(job, frame, &pool, host) {
        Ok(files) => {
            let overwrite = if options.force { Overwrite::Replace } else { Overwrite::Refuse };
            let how = WriteOptions { overwrite, ..WriteOptions::default() };
            for bytes in files {
                write_atomic_with(&Disk, &options.output, &how, |file| file.write_all(&bytes))?;
            }
            Ok(())
        }
        Err(Trouble::Stopped) => {
            done.is_cancelled = true;
            Ok(())
        }
        Err(Trouble::Frame(what)) => Err(Failure::new("frames", what)),
        Err(Trouble::Fatal(failure)) => Err(failure),
    }
}

/// Many pictures, or many files, to a folder.
fn all(job: &Job<'_>, done: &mut Converted, host: &mut Host<'_>) -> Result<(), Failure> {
    let Job { options, source, pictures, .. } = *job;
    let folder = options.output.as_path();
    let overwrite = if options.force { Overwrite::Replace } else { Overwrite::Refuse };
    owned::claim(&Disk, folder, PURPOSE, overwrite).map_err(|e| Failure::new("write", e))?;
    let lock = FolderLock::acquire(folder).map_err(|e| Failure::new("in-use", e))?;
    if let Some(note) = &lock.note {
        host.warn("the folder", note);
    }
    let settings = settings_hash(job);
    let manifest = folder.join(MANIFEST);
    owned::stays_inside(folder, Path::new(MANIFEST))?;
    let text = input::read_to_string(&manifest, MAX_MANIFEST_BYTES).unwrap_or_default();
    let known: BTreeMap<String, Line> = text
        .lines()
        .filter_map(|line| serde_json::from_str::<Line>(line).ok())
        .map(|line| (line.frame.clone(), line))
        .collect();
    let pool = Pool::new(device::threads(options.threads));
    let mut lines: Vec<Line> = Vec::new();
    let total = source.frames.len();
    host.report(Event::Begun { part: Part::Frames, done: 0, total: total as u64 });
    let mut new = 0;
    for (index, frame) in source.frames.iter().enumerate() {
        if host.is_stopping() {
            done.is_cancelled = true;
            break;
        }
        let paths: Vec<PathBuf> = pictures
            .iter()
            .map(|(end, _)| PathBuf::from(format!("{}{end}.{}", frame.stem, options.format.extension())))
            .collect();
        let mut line = Line {
            frame: frame.stem.clone(),
            source: frame
                .files
                .first()
                .and_then(|f| f.file_name())
                .map(|n| n.to_string_lossy().into_owned())
                .unwrap_or_default(),
            bytes: frame.bytes,
            modified: frame.modified,
            settings: settings.clone(),
            files: paths.iter().map(|path| length(&folder.join(path))).collect(),
        };
        if !options.force && known.get(&frame.stem) == Some(&line) {
            lines.push(line);
            done.resumed += 1;
        } else {
            match files_of(job, frame, &pool, host) {
                Ok(files) => {
                    let mut unnamed = Vec::new();
                    for (path, bytes) in paths.iter().zip(&files) {
                        owned::stays_inside(folder, path)?;
                        unnamed.push(write_unnamed(&folder.join(path), bytes)?);
                    }
                    name_together(unnamed)?;
                    line.files = files.iter().map(|bytes| bytes.len() as u64).collect();
                    lines.push(line);
                    new += 1;
                    // What was finished before and comes later stays known, should this be interrupted.
                    let later = source.frames[index + 1..].iter().filter_map(|f| known.get(&f.stem));
                    write_lines(&manifest, lines.iter().chain(later))?;
                }
                Err(Trouble::Stopped) => {
                    done.is_cancelled = true;
                    break;
                }
                Err(Trouble::Frame(reason)) => {
                    host.warn("frames", format!("{reason}; skipped"));
                    done.skipped.push(Skipped { frame: frame.stem.clone(), reason });
                }
                Err(Trouble::Fatal(failure)) => return Err(failure),
            }
        }
        host.report(Event::Done { done: index as u64 + 1, views_per_s: None });
    }
    host.report(Event::Ended);
    done.frames = lines.len();
    done.files = lines.len() * pictures.len();
    if done.is_cancelled {
        return Ok(());
    }
    if new > 0 || lines.len() != known.len() {
        write_lines(&manifest, lines.iter())?;
    }
    if lines.is_empty() {
        let first = done.skipped.first().map_or_else(|| "no frame".to_owned(), |s| s.reason.clone());
        let path = options.input.display();
        return Err(Failure::new(
            "frames",
            format!("{path}: frames: none could be used (the first: {first})"),
        ));
    }
    Ok(())
}

fn length(path: &Path) -> u64 {
    Disk.info(path).ok().flatten().map_or(0, |info| info.bytes)
}

fn write_lines<'a>(path: &Path, lines: impl Iterator<Item = &'a Line>) -> Result<(), Failure> {
    let text: String =
        lines.filter_map(|line| serde_json::to_string(line).ok()).map(|line| line + "\n").collect();
    Ok(write_atomic(&Disk, path, |file| file.write_all(text.as_bytes()))?)
}

fn settings_hash(&Job { options, source, pictures, colours }: &Job<'_>) -> String {
    let Source { projection, is_stereo, .. } = source;
    let projection: &Option<Projection> = projection;
    // Streams of a GoPro MAX were not averaged, and their chroma mixed over the edges of faces.
    let since = if source.is_eac() { " averaged" } else { "" };
    let text = format!(
        "{BYTES_VERSION} {pictures:?} {:?} {projection:?} {is_stereo} {} {}{since}",
        options.format,
        colours.colouring.text(),
        colours.equalise.name()
    );
    convert::fingerprint(&text)
}

/// The first frame of pictures, whole, and as a panorama where it is none.
///
/// # Errors
/// Pictures that cannot be used; the job was asked to stop.
pub fn panorama_of(
    input: &Path,
    choice: &FrameChoice,
    colours: &ColourChoice,
    pool: &Pool,
    host: &Host<'_>,
) -> Result<(Frame, Equirect), Failure> {
    let silence = std::time::Duration::from_secs(SILENCE);
    let source = Source::open(input, choice, Limits::default(), silence, host)?;
    let (Some(first), None) = (source.frames.first(), &source.film) else {
        return Err(Failure::usage(format!("{}: expected a picture", input.display())));
    };
    let level = level(VectorLevel::Auto).ok_or_else(|| Failure::new("device", "no vector level"))?;
    let mut moment = convert::read(&first.files, source.projection.as_ref(), false, &source.limits, level)
        .map_err(|e| Failure::new("frames", e))?;
    let (colouring, equalise) = (colours.colouring()?, colours.equalise(&source)?);
    colour::apply(&colouring, equalise, &moment.projection, &mut moment.frame, None);
    if let Projection::Equirect(equirect) = moment.projection {
        return Ok((moment.frame, equirect));
    }
    let width = source.around.next_multiple_of(4);
    let writing = Writing { format: Format::Png, level, pool, stop: host.stop(), segments: &[] };
    let frame = convert::panorama(&moment, width, writing).map_err(|e| match e {
        ConvertError::Stopped => Failure::stopped(),
        other => Failure::new("frames", other),
    })?;
    Ok((frame, Equirect::whole(width, width / 2)))
}
