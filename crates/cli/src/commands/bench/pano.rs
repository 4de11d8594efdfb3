//! `gausset bench pano`: speed of cutting panoramas into views.

use std::path::PathBuf;

use clap::Args;
use gausset::Failure;
use gausset_compute::{SimdLevel, dispatch_level};
use gausset_io::atomic::Disk;
use gausset_io::{ownership, text};
use gausset_pano::look::ColourSettings;
use serde::Serialize;

use super::splitter::{SplitterOptions, measure};
use super::timing::peak_bytes;
use crate::EarlyExit;
use crate::commands::overwrite;
use crate::console::Console;
use crate::device::level_parser;
use crate::exit::Status;
use crate::lines::Lines;
use crate::numbers::three_digits;
use crate::table::{self, ColumnAlign};

const AFTER_HELP: &str = "\
Examples:
  gausset bench pano
  gausset bench pano --keep frames/ --json     keep the panoramas, for bench/pano_peers.py";

/// Purpose in the ownership marker of the folder of panoramas.
const PURPOSE: &str = "bench of panoramas";

/// Arguments of `bench pano`.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct BenchPanoArgs {
    /// Width of the panoramas, px.
    #[arg(long, value_name = "PX", default_value_t = 7680, value_parser = clap::value_parser!(u32).range(128..=16_384))]
    width: u32,
    /// Number of different panoramas.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=100))]
    frames: u32,
    /// Number of passes over the panoramas; the fastest is reported.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    passes: u32,
    /// Colour adjustments to include in the measurement, as in `pano split`.
    #[arg(long, value_name = "SETTINGS", allow_hyphen_values = true, value_parser = crate::footage::parse_value::<ColourSettings>)]
    look: Option<ColourSettings>,
    /// Output folder that keeps panoramas and views [default: a temporary folder].
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Also write to a folder that was not created by Gausset.
    #[arg(long, requires = "keep")]
    force: bool,
    /// Print the result as a JSON object.
    #[arg(long)]
    pub(crate) json: bool,
    /// SIMD instruction set: auto|avx512|avx2|fallback.
    #[arg(
        long, value_name = "LEVEL", default_value = "auto", value_parser = level_parser(),
        hide_possible_values = true
    )]
    simd: SimdLevel,
}

/// The result: a stable contract.
#[derive(Debug, Serialize)]
struct PanoMeasurement {
    /// Views per CPU second of one thread.
    views_per_s: f64,
    cpu_ms_per_view: f64,
    stages: Vec<PanoStageJson>,
    peak_bytes: Option<u64>,
    width: u32,
    views: usize,
}

#[derive(Debug, Serialize)]
struct PanoStageJson {
    name: &'static str,
    cpu_ms_per_view: f64,
}

/// Runs the command.
pub(crate) fn run(args: &BenchPanoArgs, console: &Console) -> Result<Status, EarlyExit> {
    if !args.width.is_multiple_of(32) {
        return Err(
            Failure::usage(format!("--width: expected a multiple of 32, found {}", args.width)).into()
        );
    }
    let own = std::env::temp_dir().join(format!("gausset-bench-pano-{}", std::process::id()));
    let folder = args.keep.clone().unwrap_or_else(|| own.clone());
    let level = dispatch_level(args.simd)
        .ok_or_else(|| Failure::new("device", "--simd: not supported by this CPU"))?;
    let options = SplitterOptions {
        width: args.width as usize,
        frames: args.frames as usize,
        repeats: args.passes as usize,
        quality: 95,
        look: args.look.unwrap_or_default(),
    };
    ownership::claim_folder(&Disk, &folder, PURPOSE, overwrite(args.force))
        .map_err(|e| Failure::new("write", e))?;
    let measured = measure(&options, &folder, level);
    if args.keep.is_none() {
        let _ = ownership::remove(&own, PURPOSE);
    }
    let m = measured?;
    let stage = |name, cpu_ms_per_view| PanoStageJson { name, cpu_ms_per_view };
    let colour = (m.colour > 0.0).then(|| stage("colour", m.colour));
    let result = PanoMeasurement {
        views_per_s: 1e3 / m.total,
        cpu_ms_per_view: m.total,
        stages: [stage("read", m.read), stage("decode", m.decode)]
            .into_iter()
            .chain(colour)
            .chain([stage("remap", m.remap), stage("encode", m.encode), stage("write", m.write)])
            .collect(),
        peak_bytes: peak_bytes(),
        width: args.width,
        views: m.views,
    };
    console.json_or_text(&result, || result.table())?;
    Ok(Status::Done)
}

impl PanoMeasurement {
    fn table(&self) -> Lines {
        let head = table::facts(&[
            ("views", format!("{} from panoramas of {}x{} px", self.views, self.width, self.width / 2)),
            ("rate", format!("{} views per CPU second", three_digits(self.views_per_s))),
            ("CPU", format!("{:.2} ms a view", self.cpu_ms_per_view)),
            ("memory", self.peak_bytes.map_or_else(|| "-".to_owned(), text::format_bytes)),
        ]);
        let rows: Vec<Vec<String>> = self
            .stages
            .iter()
            .map(|s| vec![s.name.to_owned(), format!("{:.2}", s.cpu_ms_per_view)])
            .collect();
        head + ""
            + table::columns(&[("stage", ColumnAlign::Left), ("CPU ms a view", ColumnAlign::Right)], &rows)
    }
}
