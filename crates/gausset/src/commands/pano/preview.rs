//! `gausset pano preview`: what a layout sees of a panorama.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use gausset_compute::{Exec, Pool};
use gausset_flow::panos::FrameChoice;
use gausset_flow::{Failure, panos};
use gausset_io::atomic::{Disk, Overwrite, WriteOptions, check_output, write_atomic_with};
use gausset_io::image::decode::decode_mask_file;
use gausset_pano::coverage::Coverage;
use gausset_pano::look::Look;
use gausset_pano::preview;
use gausset_view::Server;
use gausset_view::preview::{MOST_WIDTH, Preview, PreviewOptions};

use super::colour::ColourArgs;
use super::shape::ShapeArgs;
use super::views::ViewArgs;
use crate::Ending;
use crate::commands::viewer::{ListenArgs, announce, failure};
use crate::console::Console;
use crate::describe;
use crate::exit::Status;
use crate::interrupt::Interrupt;
use crate::listener::attend;

const AFTER_HELP: &str = "\
Example:
  gausset pano preview walk/pano_01.jpg --layout dome16 -o preview.png
  gausset pano preview walk/pano_01.jpg --page
Above, the panorama with the outlines of the views, dark where none of them sees it; below, the views. The page shows the
same on a sphere, with sliders for views and colours; Ctrl-C ends it.";

/// Arguments of `pano preview`.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct PreviewArgs {
    /// A panorama, a cross or a strip; a folder with six faces; with --lens, two fisheye circles; a video of any of these.
    #[arg(value_name = "FRAME")]
    frame: PathBuf,
    /// The picture.
    #[arg(short, long, value_name = "FILE", default_value = "preview.png")]
    output: PathBuf,
    /// Replace a file that is there.
    #[arg(long, alias = "overwrite", short_aliases = ['y', 'w'])]
    force: bool,
    /// Show a page in the browser instead: look around, move views, try colours.
    #[arg(long, conflicts_with_all = ["output", "force"], help_heading = "Page")]
    page: bool,
    /// Port of the page; 0 = any [default: 7007, or the next one that is free].
    #[arg(long, value_name = "PORT", requires = "page", help_heading = "Page")]
    port: Option<u16>,
    #[command(flatten)]
    listen: ListenArgs,
    /// Only print the address of the page; start no browser.
    #[arg(long, requires = "page", help_heading = "Page")]
    no_open: bool,
    /// Print the address of the page as a JSON object, on one line.
    #[arg(long, requires = "page", help_heading = "Page")]
    pub(crate) json: bool,
    /// A mask of the frame, to be shown in red: 0 = left out.
    #[arg(long, value_name = "FILE")]
    mask: Option<PathBuf>,
    /// A frame of two fisheye circles, described by a lens file (docs/pano.md).
    #[arg(long, value_name = "FILE")]
    lens: Option<PathBuf>,
    /// Video: the second that is shown.
    #[arg(long, value_name = "S", default_value_t = 0.0, help_heading = "Frames")]
    start: f64,
    #[command(flatten)]
    shape: ShapeArgs,
    #[command(flatten)]
    colours: ColourArgs,
    #[command(flatten)]
    views: ViewArgs,
}

impl PreviewArgs {
    /// Refuses a picture that cannot be written, and what is for the page alone.
    fn check_picture(&self, overwrite: Overwrite) -> Result<(), Failure> {
        // Arguments that a page needs are not missed by clap where one is given that goes against the page.
        let of_page = [
            ("--port", self.port.is_some()),
            ("--no-open", self.no_open),
            ("--json", self.json),
            ("--listen", self.listen.is_given()),
        ];
        if let Some((name, _)) = of_page.iter().find(|(_, is_given)| *is_given) {
            return Err(Failure::usage(format!(
                "{name}: has no effect without --page; leave it out, or add it"
            )));
        }
        if !self.output.extension().is_some_and(|e| e.eq_ignore_ascii_case("png")) {
            let output = self.output.display();
            return Err(Failure::usage(format!("{output}: expected a name that ends with .png")));
        }
        Ok(check_output(&Disk, &self.output, overwrite)?)
    }
}

/// Runs the command.
pub(crate) fn run(args: &PreviewArgs, console: &Console) -> Result<Status, Ending> {
    let overwrite = if args.force { Overwrite::Replace } else { Overwrite::Refuse };
    if !args.page {
        args.check_picture(overwrite)?;
    }
    let pool = Pool::with_all_cores();
    let interrupt = Interrupt::watch();
    let choice = FrameChoice {
        shape: args.shape.options(),
        lens: args.lens.clone(),
        start: args.start,
        ..FrameChoice::default()
    };
    let mut colours = args.colours.options();
    let colouring = colours.colouring()?;
    if args.page {
        // The page changes them, so that sliders begin where they are.
        (colours.look, colours.lut) = (Look::default(), None);
    }
    let (mut frame, equirect) =
        attend(&interrupt, console, |host| panos::panorama_of(&args.frame, &choice, &colours, &pool, host))?;
    let views = args.views.options().views(equirect.full_width.round() as u32)?;
    let mask =
        args.mask.as_deref().map(decode_mask_file).transpose().map_err(|e| Failure::new("frames", e))?;
    if args.page {
        let title = args.frame.file_name().unwrap_or(args.frame.as_os_str()).display().to_string();
        let panorama = preview::picture(&frame, MOST_WIDTH);
        let options = PreviewOptions { title, panorama, equirect, mask, views, colouring };
        let page = Preview::new(&options).map_err(|e| Failure::new("viewer", e))?;
        return serve(args, page, &interrupt, console);
    }
    let (exec, stop) = (Exec::best(&pool), AtomicBool::new(false));
    let picture = preview::sheet(&mut frame, equirect, &views, mask.as_ref(), exec, &stop);
    let png = gausset_io::image::encode::png_rgb8(&picture).map_err(|e| Failure::new("write", e))?;
    let options = WriteOptions { overwrite, ..WriteOptions::default() };
    write_atomic_with(&Disk, &args.output, &options, |file| file.write_all(&png))?;
    let coverage = Coverage::of(&views);
    console.result(format!(
        "{} ({} views; {} of the sphere is seen)",
        args.output.display(),
        views.len(),
        describe::percent(coverage.share)
    ))?;
    Ok(Status::Done)
}

/// Shows the page until somebody ends it.
fn serve(
    args: &PreviewArgs,
    page: Preview,
    interrupt: &Interrupt,
    console: &Console,
) -> Result<Status, Ending> {
    let server = Server::start_site(Arc::new(page), &args.listen.options(args.port)).map_err(failure)?;
    announce(&server, console)?;
    if !args.no_open && !args.json && !server.is_public() {
        // Where none starts, the printed address is enough.
        let _ = server.open_browser();
    }
    while !interrupt.stop().load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(50));
    }
    // Being told to end is how it ends.
    Ok(Status::Done)
}
