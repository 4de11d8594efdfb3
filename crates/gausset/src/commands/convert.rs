//! `gausset convert`: reads splats and writes them again.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use gausset_core::sh;
use gausset_core::splats_transform::Similarity;
use gausset_io::atomic::{Disk, Overwrite, WriteOptions};
use gausset_io::splat::ply::{PlyOptions, save_ply};
use gausset_io::splat::read_splats;
use gausset_io::units;
use gausset_train::{Up, up};

use crate::Ending;
use crate::console::Console;
use crate::exit::Status;
use crate::failure::Failure;
use crate::numbers::grouped;

const AFTER_HELP: &str = "\
Examples:
  gausset convert scene.ply upright.ply --up z     turn a scene with z up so that common viewers show it upright
  gausset convert scene.ply small.ply --sh-degree 0
Without options every value keeps its bits; splats that cannot be drawn are left out and counted.";

/// Arguments of `convert`.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ConvertArgs {
    /// Splat file to read.
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// PLY file to write.
    #[arg(value_name = "OUT")]
    output: PathBuf,
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
    #[arg(long)]
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
    let mut file = read_splats(&args.input).map_err(Failure::from)?;
    for line in file.report.lines(&args.input) {
        console.warn("the splats", line);
    }
    let mut vertical_axis = file.vertical_axis;
    if args.up != Up::None {
        Similarity::from_rotation(up::rotation(args.up, &[])).apply_to_splats(&mut file.splats);
        vertical_axis = Some(up::SAVED_UP.map(|v| v as f32));
    }
    if let Some(degree) = args.sh_degree.filter(|degree| *degree < file.splats.sh_degree) {
        file.splats = file.splats.with_sh_degree(degree);
    }
    let options =
        PlyOptions { normals: !args.no_normals, antialiased: file.antialiased, vertical_axis, sky: file.sky };
    let overwrite = if args.force { Overwrite::Replace } else { Overwrite::Refuse };
    let write = WriteOptions { label: "splats", overwrite, ..WriteOptions::default() };
    let written = save_ply(&Disk, &args.output, &file.splats, &options, &write).map_err(Failure::from)?;
    let (splats, size) = (grouped(written.splats), units::bytes(written.bytes));
    console.note(format!("{}: {splats} splats, {size}", args.output.display()));
    if written.dropped > 0 {
        let dropped = grouped(written.dropped);
        console.warn(
            "the splats",
            format!("{}: {dropped} splats left out, because a value is not finite", args.output.display()),
        );
    }
    Ok(Status::Done)
}
