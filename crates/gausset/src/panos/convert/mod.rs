//! Converts full-sphere images to another projection: panorama, cross, strip, six faces.
//!
//! One image is converted to a file (six faces: to a folder). A folder, or selected frames of a video, is converted to
//! a folder with an ownership marker and a line in `convert.jsonl` for each finished frame. The same command resumes an
//! interrupted conversion with identical results.
//!
//! ```text
//! folder     many frames: files, manifest, resuming
//! panorama   one frame, for a preview
//! memory_check  memory check of a frame
//! ```

mod folder;
mod memory_check;
mod panorama;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use gausset_compute::fearless_simd::Level;
use gausset_compute::{Pool, SimdLevel, dispatch_level};
use gausset_io::atomic::{
    Disk, Overwrite, WriteOptions, check_not_in_inputs, check_output, write_atomic_with,
};
use gausset_pano::convert::{
    self, ConvertError, DecodedFrame, OutputContext, OutputProjection, SourceSampler,
};
use gausset_pano::cube::{CubeLayout, Face, Faces, StripOrder};
use gausset_pano::cutter::Format;
use gausset_pano::equalise::Equalise;
use gausset_pano::grade::Colouring;
use gausset_pano::load::ImageLimits;
use gausset_pano::projection::Projection;
use gausset_pano::sphere_video::SphereVideo;
use gausset_pano::split::Skipped;
use gausset_train::MemoryLimit;
use serde::Serialize;

use super::colour;
use super::frame_reader::{ReadFailure, SourceFrames};
use super::source::Footage;
use crate::footage_options::{ColourOptions, FrameOptions};
use crate::memory::budget;
use crate::{Failure, Host, device};
pub use panorama::panorama_of;

/// Maximum width and height of images in pixels; high, because the faces of a strip may be stacked vertically.
const MAX_SIDE: u32 = 49_152;

/// Target projection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetProjection {
    /// Equirectangular panoramas of 2:1.
    Equirect,
    /// Cross or strip.
    Net(CubeLayout, StripOrder),
    /// Six images per frame.
    Faces,
}

/// Options of [`convert()`].
#[derive(Clone, Debug)]
pub struct PanoConvertOptions {
    /// An image, a folder of images, or a video.
    pub input: PathBuf,
    /// Output image; for a folder, a video or six faces, an output folder.
    pub output: PathBuf,
    /// Projection of the output images.
    pub to: TargetProjection,
    /// Side of a face or width of a panorama in pixels; `None` = the resolution of the source.
    pub size: Option<u32>,
    /// File format of the output images.
    pub format: Format,
    /// Options about colours and brightness.
    pub colours: ColourOptions,
    /// Frame selection and projection of the input.
    pub frames: FrameOptions,
    /// Redo finished frames, and replace files that Gausset did not create.
    pub force: bool,
    /// Timeout of ffmpeg in seconds without output.
    pub tool_timeout: u64,
    /// Memory limit; auto = a quarter of the machine's memory, at most 2 GiB.
    pub max_memory: MemoryLimit,
    /// Threads; 0 = all CPU threads.
    pub threads: u32,
    /// SIMD level of the CPU.
    pub simd: SimdLevel,
}

impl PanoConvertOptions {
    /// Whether the output is a single image file.
    #[must_use]
    pub fn is_to_file(&self) -> bool {
        let extension = self.output.extension().map(|e| e.to_ascii_lowercase());
        let is_picture = extension.is_some_and(|e| ["jpg", "jpeg", "png"].iter().any(|known| e == *known));
        is_picture && self.to != TargetProjection::Faces && !self.output.is_dir()
    }
}

/// Result of a conversion or dry run; the JSON form is a stable contract.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct PanoConvertResult {
    schema: u32,
    kind: &'static str,
    /// Number of frames in the output.
    pub frames: usize,
    /// Number of output files.
    pub files: usize,
    /// Number of frames that were finished earlier.
    pub resumed: usize,
    /// Width and height of an output file in pixels.
    pub size: [u32; 2],
    /// Frames that were left out, each with the reason.
    pub skipped: Vec<Skipped>,
    /// Whether this is a dry run, which writes nothing.
    pub is_dry_run: bool,
    /// Whether the job was asked to stop.
    #[serde(skip)]
    pub is_cancelled: bool,
}

/// Resolved colour options.
struct ResolvedColours {
    colouring: Colouring,
    equalise: Equalise,
}

/// Everything decided before the first frame.
struct ConvertJob<'a> {
    options: &'a PanoConvertOptions,
    source: &'a Footage,
    pictures: &'a OutputImages,
    colours: &'a ResolvedColours,
    level: Level,
    /// Memory budget in bytes.
    budget: u64,
}

/// Output images per frame: suffix of the file name, and projection.
type OutputImages = Vec<(String, OutputProjection)>;

/// Converts images; with `is_dry_run` only reports the result.
///
/// # Errors
/// Unusable images or options, files that Gausset did not create, or a file that cannot be written.
pub fn convert(
    options: &PanoConvertOptions,
    is_dry_run: bool,
    host: &mut Host<'_>,
) -> Result<PanoConvertResult, Failure> {
    let limits = ImageLimits { width: MAX_SIDE, height: MAX_SIDE, ..ImageLimits::default() };
    let silence = Duration::from_secs(options.tool_timeout);
    let source = Footage::open(&options.input, &options.frames, limits, silence, host)?;
    let pictures = output_images(options, &source)?;
    let colours = ResolvedColours {
        colouring: options.colours.resolve()?,
        equalise: options.colours.equalise(&source)?,
    };
    if colours.equalise == Equalise::Frames {
        return Err(Failure::usage("⟨equalise = frames⟩: applies to split and run only; leave it out"));
    }
    let level = dispatch_level(options.simd)
        .ok_or_else(|| Failure::new("device", "⟨simd⟩: not supported by this CPU"))?;
    let budget = budget(options.max_memory)?;
    let is_file = options.is_to_file();
    if is_file {
        let overwrite = if options.force { Overwrite::Replace } else { Overwrite::Refuse };
        check_output(&Disk, &options.output, overwrite)?;
    } else {
        // Outputs have the names of their sources, so the output folder must not be the input folder.
        check_not_in_inputs(&options.output, [options.input.as_path()])?;
    }
    let source = source.select_frames(&options.output, host)?;
    let mut done = PanoConvertResult {
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
            "{output}: is a single image, but there are {} frames (expected a folder)",
            source.frames.len()
        )));
    }
    let job = ConvertJob { options, source: &source, pictures: &pictures, colours: &colours, level, budget };
    if let (Some(_), Some(frame)) = (&source.film, source.frames.first()) {
        // All frames of a video have the same size.
        memory_check::check(&job, frame).map_err(|what| Failure::new("memory", what))?;
    }
    if is_dry_run {
        return Ok(done);
    }
    if is_file {
        convert_to_file(&job, &mut done, host)?;
    } else {
        folder::convert_folder(&job, &mut done, host)?;
    }
    Ok(done)
}

/// The projection, if all frames of the source share it.
fn projection_of(source: &Footage) -> Option<Projection> {
    source.film.as_ref().map(SphereVideo::projection).or_else(|| source.projection.clone())
}

/// The output images of each frame.
fn output_images(options: &PanoConvertOptions, source: &Footage) -> Result<OutputImages, Failure> {
    // Default: the resolution of the source around the horizon, with faces of whole 16 px encoder blocks.
    let natural = (source.panorama_width / 4).next_multiple_of(16).max(16);
    let side = options.size.unwrap_or(natural);
    let most = if let TargetProjection::Net(net, _) = options.to {
        MAX_SIDE / net.grid().into_iter().max().unwrap_or(1)
    } else {
        MAX_SIDE / 6
    };
    let bad = |what: String| Err(Failure::usage(format!("⟨size⟩: {what}")));
    Ok(match options.to {
        TargetProjection::Equirect => {
            let width = options.size.unwrap_or(match projection_of(source) {
                None | Some(Projection::Equirect(_)) => source.panorama_width,
                Some(_) => source.panorama_width.next_multiple_of(4),
            });
            if options.size.is_some() && !width.is_multiple_of(4) {
                return bad(format!("expected a multiple of 4 px for a panorama, found {width}"));
            }
            vec![(String::new(), OutputProjection::Equirect(width))]
        }
        _ if !side.is_multiple_of(2) || side > most => {
            return bad(format!("expected an even number of px for a face, at most {most}, found {side}"));
        }
        TargetProjection::Net(net, order) => {
            vec![(String::new(), OutputProjection::Faces(Faces::new(net, order, side)))]
        }
        TargetProjection::Faces => {
            let ends = Face::ALL.map(|face| format!("_{}", face.name()));
            ends.into_iter().zip(OutputProjection::separate_faces(side)).collect()
        }
    })
}

/// Receives an encoded image and its index among those of the frame.
type Receive<'a> = dyn FnMut(usize, &[u8]) -> Result<(), Failure> + 'a;

/// Creates the images of a frame, one after the other.
fn create_images(
    job: &ConvertJob<'_>,
    moment: &mut DecodedFrame,
    file: &Path,
    pool: &Pool,
    stop: &AtomicBool,
    receive: &mut Receive<'_>,
) -> Result<(), ReadFailure> {
    let file = file.display();
    if moment.bits > 8 {
        return Err(ReadFailure::Frame(format!(
            "{file}: picture: has {} bits per sample (expected 8); convert it to 8 bits first",
            moment.bits
        )));
    }
    if moment.frame.alpha.is_some() {
        return Err(ReadFailure::Frame(format!(
            "{file}: picture: has alpha (expected none); remove it, or store it as a separate mask"
        )));
    }
    if matches!(&moment.projection, Projection::Equirect(shown) if !shown.is_nearly_whole()) {
        return Err(ReadFailure::Frame(format!(
            "{file}: picture: is a part of the sphere (expected the whole sphere); use `gausset pano split`"
        )));
    }
    let ResolvedColours { colouring, equalise } = job.colours;
    colour::apply(colouring, *equalise, &moment.projection, &mut moment.frame, None);
    let Some((_, first)) = job.pictures.first() else { return Ok(()) };
    // All images of a frame have the same resolution.
    let sampled = SourceSampler::new(&moment.projection, &moment.frame, first);
    for (place, (_, shown)) in job.pictures.iter().enumerate() {
        let panorama = matches!(shown, OutputProjection::Equirect(_)).then(|| shown.size());
        let segments = moment.metadata.frame_segments(panorama);
        let writing =
            OutputContext { format: job.options.format, level: job.level, pool, stop, segments: &segments };
        let picture = convert::render_encoded(&sampled, shown, writing).map_err(|e| match e {
            ConvertError::Stopped => ReadFailure::Stopped,
            other => ReadFailure::Frame(format!("{file}: {other}")),
        })?;
        receive(place, &picture).map_err(ReadFailure::Fatal)?;
    }
    Ok(())
}

/// Converts one image to a file.
fn convert_to_file(
    job: &ConvertJob<'_>,
    done: &mut PanoConvertResult,
    host: &Host<'_>,
) -> Result<(), Failure> {
    let options = job.options;
    let Some(frame) = job.source.frames.first() else { return Ok(()) };
    let file = frame.files.first().map(PathBuf::as_path).unwrap_or(&options.input);
    memory_check::check(job, frame).map_err(|what| Failure::new("memory", what))?;
    let pool = Pool::new(device::thread_count(options.threads));
    let overwrite = if options.force { Overwrite::Replace } else { Overwrite::Refuse };
    let how = WriteOptions { overwrite, ..WriteOptions::default() };
    let mut receive = |_: usize, bytes: &[u8]| {
        write_atomic_with(&Disk, &options.output, &how, |file| file.write_all(bytes))?;
        Ok(())
    };
    let made = SourceFrames::new(job.source, job.level, host.stop())
        .read(0)
        .and_then(|mut moment| create_images(job, &mut moment, file, &pool, host.stop(), &mut receive));
    match made {
        Ok(()) => Ok(()),
        Err(ReadFailure::Stopped) => {
            done.is_cancelled = true;
            Ok(())
        }
        Err(ReadFailure::Frame(what)) => Err(Failure::new("frames", what)),
        Err(ReadFailure::End) => Err(Failure::new("video", no_frame(job))),
        Err(ReadFailure::Broken(error)) => Err(error.into()),
        Err(ReadFailure::Fatal(failure)) => Err(failure),
    }
}

/// Message for a video without frames.
fn no_frame(job: &ConvertJob<'_>) -> String {
    format!("{}: video: contains no frames", job.options.input.display())
}
