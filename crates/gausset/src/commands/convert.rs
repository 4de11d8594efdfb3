//! `gausset convert`: reads splats and writes them again, in any format that is written.

use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use gausset_core::splats_transform::Similarity;
use gausset_core::{Region, se3, sh};
use gausset_flow::saved_run::{DataPlace, OtherData, SavedRun};
use gausset_flow::{Failure, page};
use gausset_io::atomic::{Disk, Overwrite, WriteOptions};
use gausset_io::splat::{self, Document, FORMATS, Format, LoadOptions, SaveOptions, SpzFrame, SpzOptions};
use gausset_train::{Up, up};

use super::pano::split::parse_positive;
use super::splat_facts::{Conversion, SplatFacts};
use crate::Ending;
use crate::console::Console;
use crate::exit::Status;
use crate::listener::brief;
use crate::numbers::grouped;

const AFTER_HELP: &str = "\
Examples:
  gausset convert scene.ply upright.ply --up z     turn a scene with z up so that common viewers show it upright
  gausset convert scene.ply small.ply --sh-degree 0
  gausset convert scene.ply table.ply --crop=-1,-1,-1,1,1,1
  gausset convert run/ object.ply --crop-to-cameras 1   what an orbit goes round
  gausset convert run/ scene.spz                   a tenth of the size; scene.compressed.ply, .splat and .glb, too
  gausset convert run/ scene.html                  one file that any browser opens: to send to somebody
  gausset convert scene.spz scene.ply --spz-frame rub   an SPZ whose axes are not named, with y up
IN may be a PLY, compressed PLY, .splat, SPZ, SOG, .ksplat or glTF: its content decides, not its name. To PLY without
options every value keeps its bits; what another format cannot hold is said. Splats that cannot be drawn are left out
and counted.";

/// Arguments of `convert`.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ConvertArgs {
    /// Splat file to read, or the folder of a finished run.
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// File to write; the end of its name says the format: .ply, .compressed.ply, .splat, .spz, .sog, .glb or
    /// .html.
    #[arg(value_name = "OUT")]
    output: PathBuf,
    /// Keep the splats whose centre lies in this box, in the axes of IN; the sky goes, too.
    #[arg(
        long, value_name = "X0,Y0,Z0,X1,Y1,Z1", allow_hyphen_values = true, value_parser = parse_box,
        conflicts_with = "crop_to_cameras"
    )]
    crop: Option<Region>,
    /// Keep the splats in the ball around the training cameras of the run IN, its radius times FACTOR.
    #[arg(long, value_name = "FACTOR", value_parser = parse_positive)]
    crop_to_cameras: Option<f64>,
    /// Where the dataset of the run IN is now [default: where the run found it].
    #[arg(long, value_name = "DIR", requires = "crop_to_cameras")]
    data: Option<PathBuf>,
    /// Direction of IN that becomes up (-y): x|y|z|-x|-y|-z|none.
    #[arg(
        long, value_name = "AXIS", default_value = "none", allow_hyphen_values = true, hide_possible_values = true,
        value_parser = PossibleValuesParser::new(["x", "y", "z", "-x", "-y", "-z", "none"])
            .try_map(|word| word.parse::<Up>())
    )]
    up: Up,
    /// Drop spherical harmonics above this degree, 0..3.
    #[arg(long, value_name = "DEGREE", value_parser = clap::value_parser!(u8).range(0..=i64::from(sh::MAX_DEGREE)))]
    sh_degree: Option<u8>,
    /// Leave out the normals of a PLY that some viewers insist on: 12 bytes less a splat.
    #[arg(long)]
    no_normals: bool,
    /// Write this format, whatever the name of OUT.
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(written_formats()))]
    format: Option<String>,
    /// Bits of SH in an SPZ: degree 1, others [default: 6,5]; 8,8 is nearly exact, 5,4 what other programs write.
    #[arg(long, value_name = "A,B", value_parser = parse_sh_bits)]
    sh_bits: Option<[u8; 2]>,
    /// Version of an SPZ, 3 or 4 [default: 4]; 3 is for programs without zstd.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(3..=4))]
    spz_version: Option<u8>,
    /// Axes of an SPZ, read or written: as-is (those of a PLY) or rub (x right, y up, z back) [default: what IN says].
    #[arg(long, value_name = "AXES", value_parser = PossibleValuesParser::new(["as-is", "rub"]))]
    spz_frame: Option<String>,
    /// Print the result as a JSON object.
    #[arg(long)]
    pub(crate) json: bool,
    /// Replace OUT if it exists.
    #[arg(long, alias = "overwrite", short_aliases = ['y', 'w'])]
    force: bool,
}

/// Runs the command.
pub(crate) fn run(args: &ConvertArgs, console: &Console) -> Result<Status, Ending> {
    let format = args.written_format()?;
    let run = match args.input.is_dir() && splat::recognise(&args.input).is_none() {
        true => Some(SavedRun::read(&args.input)?),
        false => None,
    };
    let input = run.as_ref().map_or(Ok(args.input.clone()), SavedRun::splats)?;
    let load = LoadOptions { spz_frame: args.spz_frame(), ..LoadOptions::default() };
    let mut file = splat::load(&input, &load).map_err(Failure::from)?;
    for line in file.report.lines(&input) {
        console.warn("the splats", line);
    }
    args.check_effects(format, file.format)?;
    let facts = SplatFacts::of(&file);
    let cropped = match args.region(run.as_ref(), console)? {
        Some(region) => crop(&mut file, &region, &input)?,
        None => 0,
    };
    let mut change = Similarity::IDENTITY;
    if args.up != Up::None {
        change = Similarity::from_rotation(up::rotation(args.up, &[]));
        file.transform(&change);
        file.vertical_axis = Some(up::SAVED_UP.map(|v| v as f32));
    }
    if let Some(degree) = args.sh_degree.filter(|degree| *degree < file.splats.sh_degree) {
        file.splats = file.splats.with_sh_degree(degree);
    }
    if format == Format::Html {
        let data = args.data.as_deref();
        let scene = brief(console, |host| page::scene(&args.output, run.as_ref(), data, &change, &file, host));
        file.page = Some(Box::new(scene));
    }
    let usual = SpzOptions::default();
    let spz = SpzOptions {
        version: args.spz_version.unwrap_or(usual.version),
        sh_bits: args.sh_bits.unwrap_or(usual.sh_bits),
        frame: args.spz_frame().unwrap_or(usual.frame),
    };
    let options = SaveOptions { format: Some(format), normals: !args.no_normals, spz };
    let overwrite = if args.force { Overwrite::Replace } else { Overwrite::Refuse };
    let write = WriteOptions { label: "splats", overwrite, ..WriteOptions::default() };
    let saved = splat::save(&Disk, &args.output, &file, &options, &write).map_err(Failure::from)?;
    let sh_degree = file.splats.sh_degree;
    let done = Conversion { input: &input, output: &args.output, facts, sh_degree, cropped, saved };
    done.tell(console);
    if args.json {
        console.object_or(&done.object(), String::new)?;
    }
    Ok(Status::Done)
}

impl ConvertArgs {
    /// The format of OUT.
    fn written_format(&self) -> Result<Format, Failure> {
        let named = self.format.as_deref().and_then(Format::from_name);
        let format = named.or_else(|| Format::of_path(&self.output));
        let place = self.output.display();
        match format {
            Some(format) if format.is_written() => Ok(format),
            Some(format) => {
                let title = format.row().title;
                Err(Failure::usage(format!("{place}: name: {title} is read, but {}", format.row().loses)))
            }
            None => {
                let ends = FORMATS.iter().filter(|row| row.format.is_written());
                let ends: Vec<&str> = ends.filter_map(|row| row.endings.first().copied()).collect();
                let line = format!(
                    "{place}: name: no known splat format (expected a name that ends in one of {}; or --format)",
                    ends.join(" ")
                );
                Err(Failure::usage(line))
            }
        }
    }

    fn spz_frame(&self) -> Option<SpzFrame> {
        self.spz_frame.as_deref().map(|word| if word == "rub" { SpzFrame::Rub } else { SpzFrame::AsIs })
    }

    /// Refuses options that mean nothing for these formats.
    fn check_effects(&self, written: Format, read: Format) -> Result<(), Failure> {
        let spz = Format::Spz;
        let idle = [
            ("--sh-bits", self.sh_bits.is_some() && written != spz, "an SPZ that is written"),
            ("--spz-version", self.spz_version.is_some() && written != spz, "an SPZ that is written"),
            ("--spz-frame", self.spz_frame.is_some() && written != spz && read != spz, "an SPZ"),
            ("--no-normals", self.no_normals && written != Format::Ply, "a PLY that is written"),
        ];
        match idle.into_iter().find(|(_, is_idle, _)| *is_idle) {
            Some((option, _, needs)) => {
                let (from, to) = (read.row().title, written.row().title);
                let line =
                    format!("{option}: has no effect from {from} to {to}; leave it out (it needs {needs})");
                Err(Failure::new("option", line))
            }
            None => Ok(()),
        }
    }
}

impl ConvertArgs {
    /// The part of space that is kept; `None` = all of it.
    fn region(&self, run: Option<&SavedRun>, console: &Console) -> Result<Option<Region>, Failure> {
        let Some(factor) = self.crop_to_cameras else { return Ok(self.crop) };
        let Some(run) = run else {
            let line = format!(
                "{}: --crop-to-cameras: a splat file knows no cameras (expected the folder of a run; or name a box \
                 with --crop)",
                self.input.display()
            );
            return Err(Failure::usage(line));
        };
        let place = DataPlace { path: self.data.as_deref(), other: OtherData::Refuse, allow_outside: false };
        let dataset = brief(console, |host| run.open_dataset(place, host))?;
        let turn = run.splats_from_dataset();
        let cameras = dataset.split.train.iter().map(|&index| dataset.images[index].pose.centre());
        let centres: Vec<_> = cameras.map(|centre| se3::mul_vec(&turn, centre)).collect();
        Ok(Region::around(&centres, factor))
    }
}

/// Leaves out what lies outside and returns how many splats that are; refuses what would be an empty file.
fn crop(file: &mut Document, region: &Region, path: &Path) -> Result<usize, Failure> {
    let before = file.splats.len();
    file.crop(region);
    if file.splats.is_empty() {
        let line =
            format!("{}: none of {} splats lies inside the crop", path.display(), grouped(before as u64));
        return Err(Failure::usage(line));
    }
    Ok(before - file.splats.len())
}

/// Names of the formats that are written.
fn written_formats() -> Vec<&'static str> {
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

fn parse_box(text: &str) -> Result<Region, String> {
    let numbers = text.split(',').map(|number| number.trim().parse().ok().filter(|v: &f64| v.is_finite()));
    match numbers.collect::<Option<Vec<f64>>>().as_deref() {
        Some(&[x0, y0, z0, x1, y1, z1]) if x0 < x1 && y0 < y1 && z0 < z1 => {
            Ok(Region::Box { min: [x0, y0, z0], max: [x1, y1, z1] })
        }
        _ => Err(format!(
            "expected two opposite corners x0,y0,z0,x1,y1,z1 with x0 < x1, y0 < y1, z0 < z1, found `{text}`"
        )),
    }
}
