//! `gausset clean`: removes the splats that hang in space which cameras and points show to be empty, and reports what that
//! changes.

use std::path::PathBuf;

use clap::Args;
use gausset_flow::clean::{CleanOptions, Cleaned, clean_run};
use gausset_io::units;
use gausset_train::EvalReport;

use super::training::ending;
use crate::Ending;
use crate::console::Console;
use crate::device::ComputeArgs;
use crate::exit::Status;
use crate::interrupt::Interrupt;
use crate::lines::Lines;
use crate::listener::attend;
use crate::numbers::grouped;
use crate::table::{self, Align};

const AFTER_HELP: &str = "\
Examples:
  gausset clean run/ -o clean.ply            what hangs in the air is gone; the run stays as it is
  gausset clean run/ -o clean.ply --json | jq .after.psnr
Empty is the space around the cameras and on the ways between neighbours, up to 0.7 of the distance
of the nearest points, and the first 0.3 of the way to points that are seen (docs/density.md). Runs
clear it while they train, until 5/6 of their steps; this finds what came since, and what older runs
left. The scores are those of the held-out pictures before and after.";

/// Arguments of `clean`.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct CleanArgs {
    /// Folder of a finished run.
    #[arg(value_name = "RUN")]
    run: PathBuf,
    /// File to write; the end of its name says the format: .ply, .compressed.ply, .splat, .spz, .sog or .glb.
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// Where the dataset is now [default: where the run found it].
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Replace OUT if it exists.
    #[arg(long, alias = "overwrite", short_aliases = ['y', 'w'])]
    force: bool,
    /// Take a dataset that is not the run's, or that changed since.
    #[arg(long)]
    accept_changed_data: bool,
    /// Take pictures whose names lead out of the picture folder (by `..` or as absolute paths).
    #[arg(long)]
    allow_outside: bool,
    /// Print the result as a JSON object.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    compute: ComputeArgs,
}

/// Runs the command.
pub(crate) fn run(args: &CleanArgs, console: &Console) -> Result<Status, Ending> {
    let interrupt = Interrupt::watch();
    let options = CleanOptions {
        run: args.run.clone(),
        output: args.output.clone(),
        data: args.data.clone(),
        force: args.force,
        accept_changed_data: args.accept_changed_data,
        allow_outside: args.allow_outside,
        device: args.compute.device.options(),
        threads: args.compute.threads,
    };
    let cleaned = match attend(&interrupt, console, |host| clean_run(&options, host)) {
        Ok(cleaned) => cleaned,
        Err(failure) => return ending(failure, &interrupt),
    };
    console.object_or(&cleaned, || {
        let (removed, splats) = (grouped(cleaned.removed as u64), grouped(cleaned.splats as u64));
        let (output, size) = (args.output.display(), units::bytes(cleaned.bytes));
        table(&cleaned) + format!("{output}: {removed} of {splats} splats removed, {size}")
    })?;
    Ok(Status::done(cleaned.has_skipped))
}

/// The scores before and after, as a table.
fn table(cleaned: &Cleaned) -> Lines {
    let header =
        [("", Align::Left), ("before", Align::Right), ("after", Align::Right), ("change", Align::Right)];
    let [a, b] = [&cleaned.before, &cleaned.after];
    let worst =
        |report: &EvalReport| report.per_image.iter().filter_map(|picture| picture.psnr).reduce(f64::min);
    let rows = [
        ("PSNR", a.psnr, b.psnr, 2),
        ("worst picture", worst(a), worst(b), 2),
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
