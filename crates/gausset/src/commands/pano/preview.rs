//! `gausset pano preview`: what a layout sees of a panorama.

use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use clap::Args;
use gausset_compute::{Exec, Pool};
use gausset_flow::panos::FrameChoice;
use gausset_flow::{Failure, panos};
use gausset_io::atomic::{Disk, Overwrite, WriteOptions, refuse_existing, write_atomic_with};
use gausset_pano::coverage::Coverage;
use gausset_pano::preview;

use super::colour::ColourArgs;
use super::shape::ShapeArgs;
use super::views::ViewArgs;
use crate::Ending;
use crate::console::Console;
use crate::describe;
use crate::exit::Status;
use crate::interrupt::Interrupt;
use crate::listener::attend;

const AFTER_HELP: &str = "\
Example:
  gausset pano preview walk/pano_01.jpg --layout dome16 -o preview.png
Above, the panorama with the outlines of the views, dark where none of them sees it; below, the views.";

/// Arguments of `pano preview`.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct PreviewArgs {
    /// A panorama, a cross or a strip; a folder with six faces; with --lens, two fisheye circles.
    #[arg(value_name = "FRAME")]
    frame: PathBuf,
    /// The picture.
    #[arg(short, long, value_name = "FILE", default_value = "preview.png")]
    output: PathBuf,
    /// Replace a file that is there.
    #[arg(long, alias = "overwrite", short_aliases = ['y', 'w'])]
    force: bool,
    /// A frame of two fisheye circles, described by a lens file (docs/pano.md).
    #[arg(long, value_name = "FILE")]
    lens: Option<PathBuf>,
    #[command(flatten)]
    shape: ShapeArgs,
    #[command(flatten)]
    colours: ColourArgs,
    #[command(flatten)]
    views: ViewArgs,
}

/// Runs the command.
pub(crate) fn run(args: &PreviewArgs, console: &Console) -> Result<Status, Ending> {
    let overwrite = if args.force { Overwrite::Replace } else { Overwrite::Refuse };
    refuse_existing(&Disk, &args.output, overwrite)?;
    let pool = Pool::with_all_cores();
    let interrupt = Interrupt::watch();
    let choice =
        FrameChoice { shape: args.shape.options(), lens: args.lens.clone(), ..FrameChoice::default() };
    let colours = args.colours.options();
    let (mut frame, equirect) =
        attend(&interrupt, console, |host| panos::panorama_of(&args.frame, &choice, &colours, &pool, host))?;
    let views = args.views.options().views(equirect.full_width.round() as u32)?;
    let picture = preview::sheet(&mut frame, equirect, &views, Exec::best(&pool), &AtomicBool::new(false));
    let png = gausset_io::image::encode::png_rgb8(&picture).map_err(|e| Failure::new("write", e))?;
    let options = WriteOptions { overwrite, ..WriteOptions::default() };
    write_atomic_with(&Disk, &args.output, &options, |file| file.write_all(&png))?;
    let coverage = Coverage::of(&views);
    console.result(&format!(
        "{} ({} views; {} of the sphere is seen)",
        args.output.display(),
        views.len(),
        describe::percent(coverage.share)
    ))?;
    Ok(Status::Done)
}
