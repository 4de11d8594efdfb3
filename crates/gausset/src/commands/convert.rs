//! `gausset convert`: reads splats and writes them again.

use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use gausset_core::splats_transform::Similarity;
use gausset_core::{Region, se3, sh};
use gausset_flow::Failure;
use gausset_flow::saved_run::{DataPlace, OtherData, SavedRun};
use gausset_io::atomic::{Disk, Overwrite, WriteOptions};
use gausset_io::splat::{self, Document, LoadOptions, SaveOptions};
use gausset_io::units;
use gausset_train::{Up, up};

use super::pano::split::parse_positive;
use crate::Ending;
use crate::console::Console;
use crate::exit::Status;
use crate::listener::tell;
use crate::numbers::grouped;

const AFTER_HELP: &str = "\
Examples:
  gausset convert scene.ply upright.ply --up z     turn a scene with z up so that common viewers show it upright
  gausset convert scene.ply small.ply --sh-degree 0
  gausset convert scene.ply table.ply --crop=-1,-1,-1,1,1,1
  gausset convert run/ object.ply --crop-to-cameras 1   what an orbit goes round
Without options every value keeps its bits; splats that cannot be drawn are left out and counted.";

/// Arguments of `convert`.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ConvertArgs {
    /// Splat file to read, or the folder of a finished run.
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// PLY file to write.
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
    /// Leave out the normals that some viewers insist on: 12 bytes less a splat.
    #[arg(long)]
    no_normals: bool,
    /// Replace OUT if it exists.
    #[arg(long, alias = "overwrite", short_aliases = ['y', 'w'])]
    force: bool,
}

/// Runs the command.
pub(crate) fn run(args: &ConvertArgs, console: &Console) -> Result<Status, Ending> {
    if args.output.extension().is_none_or(|extension| !extension.eq_ignore_ascii_case("ply")) {
        let line = format!(
            "{}: name: no known splat format (expected a name that ends in .ply)",
            args.output.display()
        );
        return Err(Failure::usage(line).into());
    }
    let run = match args.input.is_dir() {
        true => Some(SavedRun::read(&args.input)?),
        false => None,
    };
    let input = run.as_ref().map_or(Ok(args.input.clone()), SavedRun::splats)?;
    let mut file = splat::load(&input, &LoadOptions::default()).map_err(Failure::from)?;
    for line in file.report.lines(&input) {
        console.warn("the splats", line);
    }
    let cropped = match args.region(run.as_ref(), console)? {
        Some(region) => crop(&mut file, &region, &input)?,
        None => 0,
    };
    if args.up != Up::None {
        Similarity::from_rotation(up::rotation(args.up, &[])).apply_to_splats(&mut file.splats);
        file.vertical_axis = Some(up::SAVED_UP.map(|v| v as f32));
    }
    if let Some(degree) = args.sh_degree.filter(|degree| *degree < file.splats.sh_degree) {
        file.splats = file.splats.with_sh_degree(degree);
    }
    let options = SaveOptions { normals: !args.no_normals, ..SaveOptions::default() };
    let overwrite = if args.force { Overwrite::Replace } else { Overwrite::Refuse };
    let write = WriteOptions { label: "splats", overwrite, ..WriteOptions::default() };
    let written = splat::save(&Disk, &args.output, &file, &options, &write).map_err(Failure::from)?;
    let (splats, size) = (grouped(written.splats), units::bytes(written.bytes));
    console.note(format!("{}: {splats} splats, {size}", args.output.display()));
    if cropped > 0 {
        console.note(format!(
            "{}: {} splats outside the crop left out",
            input.display(),
            grouped(cropped as u64)
        ));
    }
    if written.dropped > 0 {
        let dropped = grouped(written.dropped);
        console.warn(
            "the splats",
            format!("{}: {dropped} splats left out, because a value is not finite", args.output.display()),
        );
    }
    Ok(Status::Done)
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
        let dataset = tell(console, |host| run.open_dataset(place, host))?;
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
