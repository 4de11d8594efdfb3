//! `gausset view`: shows a run or a splat file in a browser.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use gausset_view::Server;
use gausset_view::file::{FileRenderer, FileViewOptions};
use gausset_view::hub::Hub;

use super::recognised::failure_of_other_file;
use super::spz_frame::SpzFrameArgs;
use super::viewer::{ListenArgs, announce, server_failure};
use crate::EarlyExit;
use crate::console::Console;
use crate::device::ComputeArgs;
use crate::events::run_job;
use crate::exit::Status;
use crate::interrupt::Interrupt;

const AFTER_HELP: &str = "\
Examples:
  gausset view run/                 splats, cameras and photographs of a run
  gausset view scene.ply            a splat file
  gausset view scene/sparse/0       cameras and points of an alignment
  ssh -L 7007:localhost:7007 HOST   then, on HOST: gausset view run/ --port 7007 --no-open
The browser needs no GPU: this program renders. Ctrl-C stops it. The view is updated when splats.ply
is replaced.";

/// Arguments of `view`.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ViewArgs {
    /// Run folder, splat file, COLMAP model or dataset.
    #[arg(value_name = "RUN|FILE|MODEL")]
    input: PathBuf,
    /// Path of the dataset [default: the path recorded by the run; none for a splat file].
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Folder of the photographs [default: the path recorded by the run, or that of --data].
    #[arg(long, value_name = "DIR")]
    images: Option<PathBuf>,
    /// Port; 0 = any free port [default: 7007, or the next free port].
    #[arg(long, value_name = "PORT", help_heading = "Viewer")]
    port: Option<u16>,
    #[command(flatten)]
    spz: SpzFrameArgs,
    #[command(flatten)]
    listen: ListenArgs,
    /// Print the address without starting a browser.
    #[arg(long, help_heading = "Viewer")]
    no_open: bool,
    /// Print the address as a JSON object on one line.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    compute: ComputeArgs,
}

/// Runs the command.
pub(crate) fn run(args: &ViewArgs, console: &Console) -> Result<Status, EarlyExit> {
    let options = FileViewOptions {
        input: args.input.clone(),
        spz_frame: args.spz.axes(),
        data: args.data.clone(),
        images: args.images.clone(),
        device: args.compute.device.options(),
        threads: args.compute.threads,
    };
    let interrupt = Interrupt::watch();
    run_job(&interrupt, console, |host| {
        let mut view = FileRenderer::open(&options, host)
            .map_err(|failure| failure_of_other_file(failure, &args.input))?;
        let hub = Hub::new(view.scene().clone());
        hub.set_history(&view.log());
        hub.set_thumbs(view.thumbs());
        let server =
            Server::start(Arc::clone(&hub), &args.listen.options(args.port)).map_err(server_failure)?;
        announce("viewer", &server, console)?;
        if !args.no_open && !args.json && !server.is_public() {
            // If no browser starts, the printed address is enough.
            let _ = server.open_browser();
        }
        view.serve(&hub, host);
        // The view only ends by a signal, so a signal is not an interruption.
        Ok(Status::Done)
    })
}
