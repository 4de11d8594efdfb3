//! Pictures of the sphere into another form: panorama, cross, strip, six faces.
//!
//! One picture goes to a file (six faces: to a folder); a folder, and the frames of a video that are chosen, go to a
//! folder, which is marked as ours and has a line of `convert.jsonl` for each frame that is finished: the same command
//! goes on where it was interrupted, with the same bytes.
//!
//! ```text
//! folder     many frames: files, manifest, going on
//! panorama   one frame, for a preview
//! room       whether a frame fits into memory
//! ```

mod folder;
mod panorama;
mod room;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use gausset_compute::fearless_simd::Level;
use gausset_compute::{Pool, VectorLevel, level};
use gausset_io::atomic::{Disk, Overwrite, WriteOptions, check_output, refuse_input, write_atomic_with};
use gausset_pano::convert::{self, ConvertError, Moment, Sampled, Shown, Writing};
use gausset_pano::cube::{Face, Faces, Net, Order};
use gausset_pano::cutter::Format;
use gausset_pano::equalise::Equalise;
use gausset_pano::film::Film;
use gausset_pano::grade::Colouring;
use gausset_pano::load::Limits;
use gausset_pano::projection::Projection;
use gausset_pano::split::Skipped;
use gausset_train::MemoryLimit;
use serde::Serialize;

use super::colour::{self, ColourChoice};
use super::moments::{Moments, Trouble};
use super::source::{FrameChoice, Source};
use crate::memory::budget;
use crate::{Failure, Host, device};
pub use panorama::panorama_of;

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
    /// A picture, a folder of them, or a video.
    pub input: PathBuf,
    /// A picture; of a folder or a video, or for six faces, a folder.
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
    /// Seconds for which ffmpeg may say nothing.
    pub tool_timeout: u64,
    /// Memory to stay within; auto = a quarter of the machine's, at most 2 GiB.
    pub max_memory: MemoryLimit,
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
    level: Level,
    /// Bytes for what is under way.
    budget: u64,
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
    let silence = Duration::from_secs(options.tool_timeout);
    let source = Source::open(&options.input, &options.frames, limits, silence, host)?;
    let pictures = pictures(options, &source)?;
    let colours =
        Colours { colouring: options.colours.colouring()?, equalise: options.colours.equalise(&source)? };
    if colours.equalise == Equalise::Frames {
        return Err(Failure::usage("⟨equalise = frames⟩: is for split and run; leave it out"));
    }
    let level = level(options.simd)
        .ok_or_else(|| Failure::new("device", "⟨simd⟩: this processor does not have it"))?;
    let budget = budget(options.max_memory)?;
    let is_file = options.is_to_file();
    if is_file {
        let overwrite = if options.force { Overwrite::Replace } else { Overwrite::Refuse };
        check_output(&Disk, &options.output, overwrite)?;
    } else {
        // Files of a folder would get the names of those that they are made of.
        refuse_input(&options.output, [options.input.as_path()])?;
    }
    let source = source.choose(&options.output, host)?;
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
    if is_file && source.frames.len() != 1 {
        let output = options.output.display();
        return Err(Failure::usage(format!(
            "{output}: is the name of one picture, but there are {} frames (expected a folder)",
            source.frames.len()
        )));
    }
    let job = Job { options, source: &source, pictures: &pictures, colours: &colours, level, budget };
    if let (Some(_), Some(frame)) = (&source.film, source.frames.first()) {
        // All frames of a video are alike.
        room::check(&job, frame).map_err(|what| Failure::new("memory", what))?;
    }
    if is_dry_run {
        return Ok(done);
    }
    if is_file {
        one(&job, &mut done, host)?;
    } else {
        folder::all(&job, &mut done, host)?;
    }
    Ok(done)
}

/// How the frames of a source show the sphere, where that is known of all of them.
fn projection_of(source: &Source) -> Option<Projection> {
    source.film.as_ref().map(Film::projection).or_else(|| source.projection.clone())
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
            let width = options.size.unwrap_or(match projection_of(source) {
                None | Some(Projection::Equirect(_)) => source.around,
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

/// Takes a picture that was made, with its place among those of its frame.
type Receive<'a> = dyn FnMut(usize, &[u8]) -> Result<(), Failure> + 'a;

/// Makes the pictures of a frame, one after the other.
fn make(
    job: &Job<'_>,
    moment: &mut Moment,
    file: &Path,
    pool: &Pool,
    stop: &AtomicBool,
    receive: &mut Receive<'_>,
) -> Result<(), Trouble> {
    let file = file.display();
    if moment.bits > 8 {
        return Err(Trouble::Frame(format!(
            "{file}: picture: has {} bits a sample (expected 8); make it one of 8 bits first",
            moment.bits
        )));
    }
    if moment.frame.alpha.is_some() {
        return Err(Trouble::Frame(format!(
            "{file}: picture: has alpha (expected none); take it off, a mask can be a picture beside it"
        )));
    }
    let Colours { colouring, equalise } = job.colours;
    colour::apply(colouring, *equalise, &moment.projection, &mut moment.frame, None);
    let Some((_, first)) = job.pictures.first() else { return Ok(()) };
    // All pictures of a frame are as fine.
    let sampled = Sampled::new(&moment.projection, &moment.frame, first);
    for (place, (_, shown)) in job.pictures.iter().enumerate() {
        let panorama = matches!(shown, Shown::Equirect(_)).then(|| shown.size());
        let segments = moment.metadata.whole_segments(panorama);
        let writing =
            Writing { format: job.options.format, level: job.level, pool, stop, segments: &segments };
        let picture = convert::picture(&sampled, shown, writing).map_err(|e| match e {
            ConvertError::Stopped => Trouble::Stopped,
            other => Trouble::Frame(format!("{file}: {other}")),
        })?;
        receive(place, &picture).map_err(Trouble::Fatal)?;
    }
    Ok(())
}

/// One picture to a file.
fn one(job: &Job<'_>, done: &mut Converted, host: &Host<'_>) -> Result<(), Failure> {
    let options = job.options;
    let Some(frame) = job.source.frames.first() else { return Ok(()) };
    let file = frame.files.first().map(PathBuf::as_path).unwrap_or(&options.input);
    room::check(job, frame).map_err(|what| Failure::new("memory", what))?;
    let pool = Pool::new(device::threads(options.threads));
    let overwrite = if options.force { Overwrite::Replace } else { Overwrite::Refuse };
    let how = WriteOptions { overwrite, ..WriteOptions::default() };
    let mut receive = |_: usize, bytes: &[u8]| {
        write_atomic_with(&Disk, &options.output, &how, |file| file.write_all(bytes))?;
        Ok(())
    };
    let made = Moments::new(job.source, job.level, host.stop())
        .read(0)
        .and_then(|mut moment| make(job, &mut moment, file, &pool, host.stop(), &mut receive));
    match made {
        Ok(()) => Ok(()),
        Err(Trouble::Stopped) => {
            done.is_cancelled = true;
            Ok(())
        }
        Err(Trouble::Frame(what)) => Err(Failure::new("frames", what)),
        Err(Trouble::End(why)) => Err(Failure::new("video", why.unwrap_or_else(|| no_frame(job)))),
        Err(Trouble::Fatal(failure)) => Err(failure),
    }
}

/// That a video gave nothing.
fn no_frame(job: &Job<'_>) -> String {
    format!("{}: video: gave no frame", job.options.input.display())
}
