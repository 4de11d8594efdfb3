//! `gausset clean`: removes splats in space that cameras and points show to be empty, and prints how the scores change.

use std::path::PathBuf;

use clap::Args;
use gausset::clean::{CleanOptions, CleanResult, clean_run};
use gausset_io::text;
use gausset_train::EvalReport;

use super::training::exit_status;
use crate::EarlyExit;
use crate::console::Console;
use crate::device::ComputeArgs;
use crate::events::run_job;
use crate::exit::Status;
use crate::interrupt::Interrupt;
use crate::lines::Lines;
use crate::numbers::grouped;
use crate::table::{self, ColumnAlign};

const AFTER_HELP: &str = "\
Examples:
  gausset clean run/ -o clean.ply            write the splats without floaters; the run is unchanged
  gausset clean run/ -o clean.ply --json | jq .after.psnr
Free space is the space around cameras and between neighbouring ones, up to 0.7 of the distance of
the nearest points, and the first 0.3 of the distance to visible points
(docs/internals/density.md). Training clears it during the first 5/6 of the steps; this command
removes what was added later or left by older versions. Prints the scores of the held-out views
before and after.";

/// Arguments of `clean`.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct CleanArgs {
    /// Folder of a finished run.
    #[arg(value_name = "RUN")]
    run: PathBuf,
    /// Output file; format by extension: .ply, .compressed.ply, .splat, .spz, .sog or .glb.
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// Path of the dataset [default: the path recorded by the run].
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Folder of the photographs [default: the path recorded by the run, or that of --data].
    #[arg(long, value_name = "DIR")]
    images: Option<PathBuf>,
    /// Replace OUT if it exists.
    #[arg(long, alias = "overwrite", short_aliases = ['y', 'w'])]
    force: bool,
    /// Accept a dataset that differs from the one of the run.
    #[arg(long)]
    accept_changed_data: bool,
    /// Allow image names that point outside the image folder (by `..` or absolute paths).
    #[arg(long)]
    allow_outside: bool,
    /// Print the result as a JSON object.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    compute: ComputeArgs,
}

/// Runs the command.
pub(crate) fn run(args: &CleanArgs, console: &Console) -> Result<Status, EarlyExit> {
    let interrupt = Interrupt::watch();
    let options = CleanOptions {
        run: args.run.clone(),
        output: args.output.clone(),
        data: args.data.clone(),
        images: args.images.clone(),
        force: args.force,
        accept_changed_data: args.accept_changed_data,
        allow_outside: args.allow_outside,
        device: args.compute.device.options(),
        threads: args.compute.threads,
    };
    let cleaned = match run_job(&interrupt, console, |host| clean_run(&options, host)) {
        Ok(cleaned) => cleaned,
        Err(failure) => return exit_status(failure, &interrupt),
    };
    console.json_or_summary(&cleaned, || {
        let (removed, splats) = (grouped(cleaned.removed as u64), grouped(cleaned.splats as u64));
        let (output, size) = (args.output.display(), text::format_bytes(cleaned.bytes));
        table(&cleaned) + format!("{output}: {removed} of {splats} splats removed, {size}")
    })?;
    Ok(Status::done(cleaned.has_skipped))
}

/// Formats the scores before and after as a table.
fn table(cleaned: &CleanResult) -> Lines {
    let header = [
        ("", ColumnAlign::Left),
        ("before", ColumnAlign::Right),
        ("after", ColumnAlign::Right),
        ("change", ColumnAlign::Right),
    ];
    let [a, b] = [&cleaned.before, &cleaned.after];
    let worst =
        |report: &EvalReport| report.per_image.iter().filter_map(|picture| picture.psnr).reduce(f64::min);
    let rows = [
        ("PSNR", a.psnr, b.psnr, 2),
        ("worst image", worst(a), worst(b), 2),
        ("SSIM", a.ssim, b.ssim, 4),
        ("CC-PSNR", a.scores.psnr_colour_corrected, b.scores.psnr_colour_corrected, 2),
        ("CC-SSIM", a.scores.ssim_colour_corrected, b.scores.ssim_colour_corrected, 4),
        ("co-visible", a.scores.psnr_covisible, b.scores.psnr_covisible, 2),
        ("share", a.scores.covisible_share, b.scores.covisible_share, 3),
        ("haze", a.scores.haze, b.scores.haze, 3),
    ];
    let rows = rows.iter().filter_map(|&(name, before, after, digits)| {
        let (before, after) = (before?, after?);
        let number = |value: f64| format!("{value:.digits$}");
        Some(vec![name.to_owned(), number(before), number(after), format!("{:+.digits$}", after - before)])
    });
    table::columns(&header, &rows.collect::<Vec<_>>())
}
