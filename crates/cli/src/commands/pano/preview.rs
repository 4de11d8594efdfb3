//! `gausset pano preview`: draws the views of a layout on a panorama.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use gausset::panos::{ColourOptions, FrameOptions, ProjectionOptions, ViewOptions};
use gausset::{Failure, panos};
use gausset_compute::{Exec, Pool};
use gausset_io::atomic::{Disk, Overwrite, WriteOptions, check_output, write_atomic_with};
use gausset_io::image::decode::decode_mask_file;
use gausset_pano::contact_sheet;
use gausset_pano::coverage::Coverage;
use gausset_pano::look::ColourSettings;
use gausset_view::Server;
use gausset_view::preview::{MAX_WIDTH, PreviewOptions, PreviewPage};

use crate::EarlyExit;
use crate::commands::overwrite;
use crate::commands::training::exit_status;
use crate::commands::viewer::{ListenArgs, announce, server_failure};
use crate::console::Console;
use crate::describe;
use crate::events::run_job;
use crate::exit::Status;
use crate::footage::FootageArgs;
use crate::interrupt::Interrupt;

const AFTER_HELP: &str = "\
Examples:
  gausset pano preview walk/pano_01.jpg --layout dome16 -o preview.png
  gausset pano preview walk/pano_01.jpg --page
The image shows the panorama with the outlines of the views at the top (uncovered regions are dark)
and the views below. The page shows the same on a sphere, with sliders for views and colours; Ctrl-C
stops it.";

/// Arguments of `pano preview`.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct PreviewArgs {
    /// Panorama, cross or strip, folder of six faces, dual-fisheye frame (with --lens), or a video of any of these.
    #[arg(value_name = "FRAME")]
    frame: PathBuf,
    /// Output image [default: preview.png].
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace an existing file.
    #[arg(long, alias = "overwrite", short_aliases = ['y', 'w'])]
    force: bool,
    /// Show an interactive page in the browser instead, with controls for views and colours.
    #[arg(long, conflicts_with_all = ["output", "force"], help_heading = "Page")]
    page: bool,
    /// Port of the page; 0 = any free port [default: 7007, or the next free port].
    #[arg(long, value_name = "PORT", conflicts_with_all = ["output", "force"], help_heading = "Page")]
    port: Option<u16>,
    #[command(flatten)]
    listen: ListenArgs,
    /// Print the address of the page without starting a browser.
    #[arg(long, conflicts_with_all = ["output", "force"], help_heading = "Page")]
    no_open: bool,
    /// Print the address of the page as a JSON object on one line.
    #[arg(long, help_heading = "Page")]
    pub(crate) json: bool,
    /// Mask of the frame, shown in red (black = remove).
    #[arg(long, value_name = "FILE")]
    mask: Option<PathBuf>,
    /// Lens file for a dual-fisheye frame (docs/reference/pano.md).
    #[arg(long, value_name = "FILE")]
    lens: Option<PathBuf>,
    /// Video: time of the frame in seconds.
    #[arg(long, value_name = "S", default_value_t = 0.0, help_heading = "Frames")]
    start: f64,
    #[command(flatten)]
    shape: FootageArgs<ProjectionOptions>,
    #[command(flatten)]
    colours: FootageArgs<ColourOptions>,
    #[command(flatten)]
    views: FootageArgs<ViewOptions>,
}

impl PreviewArgs {
    /// Whether the page is requested, by name or by an option that is about it; an image and a page exclude each other.
    fn wants_page(&self) -> Result<bool, Failure> {
        let is_listening = self.listen.is_given();
        if is_listening && self.output.is_some() {
            return Err(Failure::usage("--output: cannot be used together with --listen"));
        }
        let is_wanted = self.page || self.port.is_some() || self.no_open || is_listening;
        if self.json && !is_wanted {
            return Err(Failure::usage("--json: has no effect without --page; leave it out, or add it"));
        }
        Ok(is_wanted)
    }

    /// Output image.
    fn output(&self) -> &Path {
        self.output.as_deref().unwrap_or(Path::new("preview.png"))
    }

    /// Refuses an image that cannot be written.
    fn check_image(&self, overwrite: Overwrite) -> Result<(), Failure> {
        let output = self.output();
        if !output.extension().is_some_and(|e| e.eq_ignore_ascii_case("png")) {
            let output = output.display();
            return Err(Failure::usage(format!("{output}: expected a name that ends with .png")));
        }
        Ok(check_output(&Disk, output, overwrite)?)
    }
}

/// Runs the command.
pub(crate) fn run(args: &PreviewArgs, console: &Console) -> Result<Status, EarlyExit> {
    let overwrite = overwrite(args.force);
    let is_page = args.wants_page()?;
    if !is_page {
        args.check_image(overwrite)?;
    }
    let pool = Pool::with_all_cores();
    let interrupt = Interrupt::watch();
    let choice = FrameOptions {
        shape: args.shape.0.clone(),
        lens: args.lens.clone(),
        start: args.start,
        ..FrameOptions::default()
    };
    let mut colours = args.colours.0.clone();
    let colouring = colours.resolve()?;
    if is_page {
        // The page applies them, so that its sliders start at these values.
        (colours.look, colours.lut) = (ColourSettings::default(), None);
    }
    let read =
        run_job(&interrupt, console, |host| panos::panorama_of(&args.frame, &choice, &colours, &pool, host));
    let (mut frame, equirect) = match read {
        Ok(read) => read,
        Err(failure) => return exit_status(failure, &interrupt),
    };
    let views = args.views.0.views(equirect.full_width.round() as u32)?;
    let mask =
        args.mask.as_deref().map(decode_mask_file).transpose().map_err(|e| Failure::new("frames", e))?;
    if is_page {
        let title = args.frame.file_name().unwrap_or(args.frame.as_os_str()).display().to_string();
        let panorama = contact_sheet::downscaled(&frame, MAX_WIDTH);
        let options = PreviewOptions { title, panorama, equirect, mask, views, colouring };
        let page = PreviewPage::new(&options).map_err(|e| Failure::new("viewer", e))?;
        return serve(args, page, &interrupt, console);
    }
    let (exec, stop) = (Exec::best(&pool), AtomicBool::new(false));
    let picture = contact_sheet::contact_sheet(&mut frame, equirect, &views, mask.as_ref(), exec, &stop);
    let png = gausset_io::image::encode::png_rgb8(&picture).map_err(|e| Failure::new("write", e))?;
    let options = WriteOptions { overwrite, ..WriteOptions::default() };
    write_atomic_with(&Disk, args.output(), &options, |file| file.write_all(&png))?;
    let coverage = Coverage::new(&views);
    console.result(format!(
        "{} ({} views, {} of the sphere covered)",
        args.output().display(),
        views.len(),
        describe::percent(coverage.fraction)
    ))?;
    Ok(Status::Done)
}

/// Serves the page until a signal stops it.
fn serve(
    args: &PreviewArgs,
    page: PreviewPage,
    interrupt: &Interrupt,
    console: &Console,
) -> Result<Status, EarlyExit> {
    let server =
        Server::start_site(Arc::new(page), &args.listen.options(args.port)).map_err(server_failure)?;
    announce("preview", &server, console)?;
    if !args.no_open && !args.json && !server.is_public() {
        // If no browser starts, the printed address is enough.
        let _ = server.open_browser();
    }
    while !interrupt.stop().load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(50));
    }
    // The page only ends by a signal, so a signal is not an interruption.
    Ok(Status::Done)
}
