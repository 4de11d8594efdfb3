//! `gausset convert`: converts splats to another format, with optional crops and transforms.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use gausset::convert::{ConvertOptions, SkyChoice, SplatEdits, convert};
use gausset_core::{Region, sh};
use gausset_io::splat::{FORMATS, Format};
use gausset_train::{MemoryLimit, Up};

use super::recognised::failure_of_other_file;
use super::splat_facts;
use super::spz_frame::SpzFrameArgs;
use super::training::exit_status;
use crate::EarlyExit;
use crate::console::Console;
use crate::device::ComputeArgs;
use crate::events::run_job;
use crate::exit::Status;
use crate::interrupt::Interrupt;
use crate::value_parsers::{parse_box, parse_fraction, parse_numbers, parse_positive};

const AFTER_HELP: &str = "\
Examples:
  gausset convert run/ scene.spz --report          a tenth of the size; report the loss in dB
  gausset convert scene.ply scene.spz --min-psnr 45     fewest SH bits that keep 45 dB
  gausset convert scene.ply scene.compressed.ply   also .splat, .sog and .glb
  gausset convert run/ scene.sog --max-size 5MB    as many splats as fit, the most important ones
  gausset convert run/ scene.glb --sky-image sky.png    for programs with a background of their own
  gausset convert run/ city/lod-meta.json          streamed SOG: parts and levels for large scenes
  gausset convert run/ scene.html                  a self-contained page for any browser
  gausset convert scene.ply upright.ply --up z     rotate a scene with z up for common viewers
  gausset convert scene.ply table.ply --box=-1,-1,-1,1,1,1 --min-opacity 0.02
  gausset convert run/ object.ply --crop-to-cameras 1   keep the object inside an orbit
  gausset convert scene.spz scene.ply --spz-frame rub   an SPZ with y up that names no axes
IN may be PLY, compressed PLY, .splat, SPZ, SOG, streamed SOG, .ksplat or glTF; it is recognised by
content. PLY to PLY without options is bit-exact; what another format cannot store is reported.
Splats that cannot be drawn are left out and counted. Edits are applied in the order of the options
above.";

/// Arguments of `convert`.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ConvertArgs {
    /// Input splat file, or folder of a finished run.
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// Output file; format by extension: .ply, .compressed.ply, .splat, .spz, .sog, .glb, .html or DIR/lod-meta.json.
    #[arg(value_name = "OUT")]
    output: PathBuf,
    /// Leave out the sky, as .glb and .splat do by default.
    #[arg(long, conflicts_with = "keep_sky")]
    no_sky: bool,
    /// Keep the sky in .glb and .splat as well.
    #[arg(long)]
    keep_sky: bool,
    /// Write the sky to FILE as an equirectangular PNG; centre +z, top -y (.glb: -z and +y).
    #[arg(long, value_name = "FILE")]
    sky_image: Option<PathBuf>,
    /// Drop splats farther from the centre than FACTOR times the median distance (such as 20); keeps the sky.
    #[arg(long, value_name = "FACTOR", value_parser = parse_positive)]
    drop_far: Option<f64>,
    /// Drop splats with a lower opacity, 0..1.
    #[arg(long, value_name = "OPACITY", value_parser = parse_fraction)]
    min_opacity: Option<f64>,
    /// Keep only splats with their centre in this box, in the axes of IN; drops the sky.
    #[arg(
        long = "box", visible_alias = "crop", value_name = "X0,Y0,Z0,X1,Y1,Z1", allow_hyphen_values = true,
        value_parser = parse_box_region
    )]
    within_box: Option<Region>,
    /// Keep only splats with their centre in this sphere (centre, radius), in the axes of IN; drops the sky.
    #[arg(long, value_name = "X,Y,Z,R", allow_hyphen_values = true, value_parser = parse_sphere)]
    sphere: Option<Region>,
    /// Keep only splats in the sphere around the training cameras of run IN or --data, its radius scaled by FACTOR.
    #[arg(long, value_name = "FACTOR", value_parser = parse_positive)]
    crop_to_cameras: Option<f64>,
    /// Drop splats whose place at most one training photograph of run IN or --data confirms; keeps the sky.
    #[arg(long)]
    confirmed: bool,
    /// Translation added to all positions.
    #[arg(long, value_name = "X,Y,Z", allow_hyphen_values = true, value_parser = parse_vector)]
    translate: Option<[f64; 3]>,
    /// Rotation about x, then y, then z, in degrees; rotates positions, shapes and SH.
    #[arg(long, value_name = "X,Y,Z", allow_hyphen_values = true, value_parser = parse_vector)]
    rotate: Option<[f64; 3]>,
    /// Scale factor of positions and sizes.
    #[arg(long, value_name = "FACTOR", value_parser = parse_positive)]
    scale: Option<f64>,
    /// Axis that is rotated to up (-y): x|y|z|-x|-y|-z|none.
    #[arg(
        long, value_name = "AXIS", default_value = "none", allow_hyphen_values = true, hide_possible_values = true,
        value_parser = PossibleValuesParser::new(["x", "y", "z", "-x", "-y", "-z", "none"])
            .try_map(|word| word.parse::<Up>())
    )]
    up: Up,
    /// Maximum SH degree, 0..3; higher degrees are dropped.
    #[arg(long, value_name = "DEGREE", value_parser = clap::value_parser!(u8).range(0..=i64::from(sh::MAX_DEGREE)))]
    sh_degree: Option<u8>,
    /// Maximum number of splats; those with the least opacity times area are dropped.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_splats: Option<u64>,
    /// Maximum size of OUT, such as 2MB; the splats with the least opacity times area are dropped.
    #[arg(long, value_name = "SIZE", value_parser = parse_file_size, conflicts_with = "min_psnr")]
    max_size: Option<u64>,
    /// Sort the splats along a Morton curve.
    #[arg(long)]
    morton: bool,
    /// Output format, regardless of the extension of OUT.
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(output_formats()))]
    format: Option<String>,
    /// Omit the PLY normals that some viewers require; saves 12 bytes per splat.
    #[arg(long)]
    no_normals: bool,
    /// SH bits in SPZ: degree 1, higher degrees; 8,8 is nearly exact, other programs use 5,4 [default: 6,5].
    #[arg(long, value_name = "A,B", value_parser = parse_sh_bits)]
    sh_bits: Option<[u8; 2]>,
    /// SPZ version: 3 (for programs without zstd) or 4 [default: 4].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(3..=4))]
    spz_version: Option<u8>,
    #[command(flatten)]
    spz: SpzFrameArgs,
    /// Levels of detail in a streamed SOG, each with half the splats [default: down to 100,000 splats].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=16))]
    levels: Option<u32>,
    /// Measure the loss: PSNR of OUT against its source, rendered from the held-out cameras of run IN or --data, or
    /// from 12 cameras around the splats.
    #[arg(long)]
    report: bool,
    /// Minimum mean PSNR in dB; refuse to write below it. SPZ uses the fewest SH bits that reach it.
    #[arg(long, value_name = "DB", value_parser = parse_positive)]
    min_psnr: Option<f64>,
    /// Dataset with the cameras of IN [default: the path recorded by run IN].
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Folder of the photographs [default: the path recorded by run IN, or that of --data].
    #[arg(long, value_name = "DIR")]
    images: Option<PathBuf>,
    #[command(flatten)]
    compute: ComputeArgs,
    /// Print the result as a JSON object.
    #[arg(long)]
    pub(crate) json: bool,
    /// Replace OUT if it exists.
    #[arg(long, alias = "overwrite", short_aliases = ['y', 'w'])]
    force: bool,
}

/// Runs the command.
pub(crate) fn run(args: &ConvertArgs, console: &Console) -> Result<Status, EarlyExit> {
    let interrupt = Interrupt::watch();
    match run_job(&interrupt, console, |host| convert(&args.options(), host)) {
        Ok(converted) => {
            splat_facts::print_conversion(&converted, &args.output, args.no_sky, console);
            if let Some(image) = &args.sky_image {
                console.note(format!("{}: the sky", image.display()));
            }
            if args.json {
                console.json_or_text(&splat_facts::conversion_json(&converted, &args.output), String::new)?;
            }
            Ok(Status::Done)
        }
        Err(failure) => exit_status(failure_of_other_file(failure, &args.input), &interrupt),
    }
}

impl ConvertArgs {
    fn options(&self) -> ConvertOptions {
        let usual = SplatEdits::default();
        ConvertOptions {
            input: self.input.clone(),
            output: self.output.clone(),
            format: self.format.as_deref().and_then(Format::from_name),
            sky: match (self.no_sky, self.keep_sky) {
                (true, _) => SkyChoice::Drop,
                (false, true) => SkyChoice::Keep,
                (false, false) => SkyChoice::Auto,
            },
            sky_image: self.sky_image.clone(),
            max_splats: self.max_splats.map(|most| usize::try_from(most).unwrap_or(usize::MAX)),
            max_bytes: self.max_size,
            edits: SplatEdits {
                drop_sky: usual.drop_sky,
                drop_far: self.drop_far,
                min_opacity: self.min_opacity,
                within: self.within_box.into_iter().chain(self.sphere).collect(),
                translate: self.translate.unwrap_or(usual.translate),
                rotate: self.rotate.unwrap_or(usual.rotate),
                scale: self.scale.unwrap_or(usual.scale),
                up: self.up,
                sh_degree: self.sh_degree,
                morton: self.morton,
            },
            crop_to_cameras: self.crop_to_cameras,
            confirmed: self.confirmed,
            data: self.data.clone(),
            images: self.images.clone(),
            no_normals: self.no_normals,
            sh_bits: self.sh_bits,
            spz_version: self.spz_version,
            spz_frame: self.spz.axes(),
            levels: self.levels,
            report: self.report,
            min_psnr: self.min_psnr,
            force: self.force,
            device: self.compute.device.options(),
            threads: self.compute.threads,
        }
    }
}

/// Names of the output formats.
fn output_formats() -> Vec<&'static str> {
    FORMATS.iter().filter(|row| row.format.is_written()).map(|row| row.name).collect()
}

fn parse_sh_bits(text: &str) -> Result<[u8; 2], String> {
    let bits =
        text.split(',').map(|bits| bits.trim().parse().ok().filter(|bits: &u8| (1..=8).contains(bits)));
    match bits.collect::<Option<Vec<u8>>>().as_deref() {
        Some(&[first, others]) => Ok([first, others]),
        _ => Err(format!("expected two numbers of bits, 1 to 8 each, such as 6,5, found `{text}`")),
    }
}

fn parse_box_region(text: &str) -> Result<Region, String> {
    parse_box(text).map(|[min, max]| Region::Box { min, max })
}

fn parse_sphere(text: &str) -> Result<Region, String> {
    match parse_numbers(text).as_deref() {
        Some(&[x, y, z, radius]) if radius > 0.0 => Ok(Region::Ball { centre: [x, y, z], radius }),
        _ => Err(format!("expected a centre and a radius above 0, x,y,z,r, found `{text}`")),
    }
}

fn parse_vector(text: &str) -> Result<[f64; 3], String> {
    match parse_numbers(text).as_deref() {
        Some(&[x, y, z]) => Ok([x, y, z]),
        _ => Err(format!("expected three numbers x,y,z, found `{text}`")),
    }
}

/// Parses a size of a file with the units of sizes of memory.
fn parse_file_size(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(MemoryLimit::Bytes(bytes)) if bytes > 0 => Ok(bytes),
        _ => Err(format!("expected a size such as 2MB, 500KB or 2097152 bytes, found `{text}`")),
    }
}
