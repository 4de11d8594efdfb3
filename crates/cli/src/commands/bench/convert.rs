//! `gausset bench convert`: time, size and loss of splat formats, optionally compared with another program.
//!
//! Splats are written as a PLY, which is converted to each format and read back, alternating with the peer program, in
//! several passes. Medians of CPU seconds of all threads are reported. The peer is `splat-transform` of PlayCanvas or a
//! program with the same arguments. Its time is that of the whole command; the time of Gausset covers reading the PLY
//! and writing. The loss is the PSNR of 12 views around the splats, rendered in f32, against those of the PLY.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::Args;
use gausset::Failure;
use gausset::convert::{ConversionLoss, measure_loss};
use gausset_core::Splats;
use gausset_io::atomic::{Disk, Overwrite, WriteOptions};
use gausset_io::splat::{self, LoadOptions, SaveOptions, SplatFile, SpzOptions};
use gausset_io::{ownership, text};
use gausset_process::Program;
use gausset_scenes::workload::{HEIGHT, WIDTH, Workload, WorkloadState};
use serde::Serialize;

use super::timing::{children_cpu_seconds, cpu_seconds, median, peak_bytes, reset_peak};
use crate::EarlyExit;
use crate::console::Console;
use crate::device::ComputeArgs;
use crate::events::run_short_job;
use crate::exit::Status;
use crate::lines::Lines;
use crate::numbers::{grouped, three_digits};
use crate::table::{self, ColumnAlign};

/// Purpose in the ownership marker of the temporary folder.
const PURPOSE: &str = "bench of conversions";
/// Maximum time without output of the peer, seconds.
const SILENCE: u64 = 600;

/// Arguments of `bench convert`.
#[derive(Clone, Debug, Args)]
pub(super) struct BenchConvertArgs {
    /// Splat file to use instead of the reference workload.
    #[arg(long, value_name = "FILE", conflicts_with = "splats")]
    ply: Option<PathBuf>,
    /// Number of splats of the workload.
    #[arg(long, value_name = "N", default_value_t = 300_000, value_parser = clap::value_parser!(u32).range(1000..=10_000_000))]
    splats: u32,
    /// Number of conversions to each format; the median is reported.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    passes: u32,
    /// Path of `splat-transform`, to measure it for comparison.
    #[arg(long, value_name = "PATH")]
    peer: Option<PathBuf>,
    /// Measure only times and sizes, not the loss.
    #[arg(long)]
    no_loss: bool,
    /// Print the result as a JSON object.
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    compute: ComputeArgs,
}

/// A format with its settings.
struct Case {
    name: &'static str,
    ending: &'static str,
    options: SaveOptions,
    /// Whether the SH degree is reduced to 0 first.
    without_sh: bool,
    /// Whether the peer writes the format (with the same settings and in reasonable time), and whether it reads it.
    peer: [bool; 2],
}

/// The result: a stable contract.
#[derive(Debug, Serialize)]
struct ConvertMeasurement {
    splats: usize,
    sh_degree: u8,
    /// Size of the PLY, bytes.
    input_bytes: u64,
    /// Size of the splats in memory, bytes.
    splat_bytes: u64,
    passes: u32,
    rows: Vec<FormatMeasurement>,
}

#[derive(Debug, Serialize)]
struct FormatMeasurement {
    format: &'static str,
    ours: ProgramMeasurement,
    #[serde(skip_serializing_if = "Option::is_none")]
    peer: Option<ProgramMeasurement>,
    /// Largest difference in raw parameters between the peer's and Gausset's reading of the file that Gausset wrote.
    #[serde(skip_serializing_if = "Option::is_none")]
    peer_reads_ours_within: Option<f64>,
}

/// Measurements of one program.
#[derive(Debug, Default, Serialize)]
struct ProgramMeasurement {
    bytes: u64,
    /// CPU seconds from the PLY to the file.
    convert_cpu_s: f64,
    /// MB of the PLY per CPU second.
    convert_mb_per_s: f64,
    /// CPU seconds to read the file.
    read_cpu_s: Option<f64>,
    /// Peak memory of the conversion, bytes.
    peak_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    loss: Option<ConversionLoss>,
}

fn cases(sh_degree: u8) -> Vec<Case> {
    let case = |name, ending, peer| {
        let options = SaveOptions::default();
        Case { name, ending, options, without_sh: false, peer }
    };
    let spz = |name, sh_bits, peer| {
        let options =
            SaveOptions { spz: SpzOptions { sh_bits, ..SpzOptions::default() }, ..SaveOptions::default() };
        Case { options, ..case(name, ".spz", peer) }
    };
    let mut cases = vec![
        case("ply", ".ply", [true, true]),
        case("compressed-ply", ".compressed.ply", [true, true]),
        case("glb", ".glb", [true, false]),
        spz("spz 5,4", [5, 4], [true, true]),
        spz("spz 6,5", [6, 5], [false, true]),
        spz("spz 8,8", [8, 8], [false, true]),
        case("sog", ".sog", [sh_degree == 0, true]),
    ];
    if sh_degree > 0 {
        cases.push(Case { without_sh: true, ..case("sog, SH 0", ".sog", [true, true]) });
    }
    cases.push(Case { without_sh: true, ..case("splat, SH 0", ".splat", [false, true]) });
    cases
}

/// Runs the command.
pub(super) fn run(args: &BenchConvertArgs, console: &Console) -> Result<Status, EarlyExit> {
    let folder = std::env::temp_dir().join(format!("gausset-bench-convert-{}", std::process::id()));
    ownership::claim_folder(&Disk, &folder, PURPOSE, Overwrite::Refuse)
        .map_err(|e| Failure::new("write", e))?;
    let measured = measure(args, &folder, console);
    let _ = ownership::remove(&folder, PURPOSE);
    let measured = measured?;
    console.json_or_text(&measured, || measured.table())?;
    Ok(Status::Done)
}

fn measure(args: &BenchConvertArgs, folder: &Path, console: &Console) -> Result<ConvertMeasurement, Failure> {
    let document = match &args.ply {
        Some(path) => splat::load(path, &LoadOptions::default())?,
        None => SplatFile::new(
            Workload::sized(WorkloadState::Trained, args.splats as usize, [WIDTH, HEIGHT]).splats,
        ),
    };
    let bench = Bench { args, folder, console };
    let input = folder.join("input.ply");
    bench.save(&input, &document, &SaveOptions::default())?;
    let flat = SplatFile { splats: document.splats.with_sh_degree(0), ..document.clone() };
    let flat_input = folder.join("flat.ply");
    bench.save(&flat_input, &flat, &SaveOptions::default())?;
    let mut rows = Vec::new();
    for case in cases(document.splats.sh_degree) {
        console.note(format!("bench: {}", case.name));
        let (before, input) = if case.without_sh { (&flat, &flat_input) } else { (&document, &input) };
        rows.push(bench.row(&case, before, input)?);
    }
    let input_bytes = length(&input)?;
    let values = 11 + document.splats.sh_stride();
    let splat_bytes = (4 * values * document.splats.len()) as u64;
    let (splats, sh_degree) = (document.splats.len(), document.splats.sh_degree);
    Ok(ConvertMeasurement { splats, sh_degree, input_bytes, splat_bytes, passes: args.passes, rows })
}

struct Bench<'a> {
    args: &'a BenchConvertArgs,
    folder: &'a Path,
    console: &'a Console,
}

impl Bench<'_> {
    fn save(&self, path: &Path, document: &SplatFile, options: &SaveOptions) -> Result<(), Failure> {
        splat::save(&Disk, path, document, options, &WriteOptions::default())?;
        Ok(())
    }

    fn row(&self, case: &Case, before: &SplatFile, input: &Path) -> Result<FormatMeasurement, Failure> {
        let file = |who: &str| self.folder.join(format!("{who}{}", case.ending));
        let (ours, theirs) = (file("ours"), file("peer"));
        let [mut convert, mut read, mut peer_convert, mut peer_read] = [const { Vec::new() }; 4];
        let mut peak = None;
        for _ in 0..self.args.passes {
            let peak_before = reset_peak();
            let begin = cpu_seconds();
            let document = splat::load(input, &LoadOptions::default())?;
            self.save(&ours, &document, &case.options)?;
            convert.push(cpu_seconds() - begin);
            drop(document);
            // Memory that the process held before does not count.
            peak = peak_bytes().zip(peak_before).map(|(peak, before)| peak.saturating_sub(before));
            let begin = cpu_seconds();
            let document = splat::load(&ours, &LoadOptions::default())?;
            read.push(cpu_seconds() - begin);
            drop(document);
            if let Some(peer) = self.args.peer.as_deref() {
                let [writes, reads] = case.peer;
                if writes {
                    peer_convert.push(run_peer(peer, &[input, &theirs])?);
                }
                if reads {
                    peer_read.push(run_peer(peer, &[if writes { &theirs } else { &ours }])?);
                }
            }
        }
        let megabytes = length(input)? as f64 / 1e6;
        let side =
            |path: &Path, convert: &mut [f64], read: &mut [f64]| -> Result<ProgramMeasurement, Failure> {
                let convert_cpu_s = median(convert);
                let read_cpu_s = (!read.is_empty()).then(|| median(read));
                let loss = if self.args.no_loss { None } else { Some(self.measure_loss(before, path)?) };
                Ok(ProgramMeasurement {
                    bytes: length(path)?,
                    convert_cpu_s,
                    convert_mb_per_s: megabytes / convert_cpu_s,
                    read_cpu_s,
                    peak_bytes: None,
                    loss,
                })
            };
        let ours_side = ProgramMeasurement { peak_bytes: peak, ..side(&ours, &mut convert, &mut read)? };
        let peer = match self.args.peer {
            Some(_) if case.peer[0] => Some(side(&theirs, &mut peer_convert, &mut peer_read)?),
            _ => None,
        };
        let within = match self.args.peer.as_deref().filter(|_| case.peer[1]) {
            Some(peer) => {
                let back = self.folder.join("back.ply");
                run_peer(peer, &[&ours, &back])?;
                let load = |path: &Path| splat::load(path, &LoadOptions::default());
                Some(difference(&load(&ours)?.splats, &load(&back)?.splats))
            }
            None => None,
        };
        Ok(FormatMeasurement { format: case.name, ours: ours_side, peer, peer_reads_ours_within: within })
    }

    fn measure_loss(&self, before: &SplatFile, path: &Path) -> Result<ConversionLoss, Failure> {
        let after = splat::load(path, &LoadOptions::default())?;
        let (device, threads) = (self.args.compute.device.options(), self.args.compute.threads);
        run_short_job(self.console, |host| measure_loss(before, &after, device, threads, host))
    }
}

/// Runs the peer to convert the first file to the second, or only to read it if there is no second. Returns its CPU
/// seconds.
fn run_peer(peer: &Path, files: &[&Path]) -> Result<f64, Failure> {
    let mut program = Program::new(peer).silence_limit(Duration::from_secs(SILENCE)).arg("-q").arg("-w");
    for file in files {
        program = program.file(file);
    }
    if files.len() == 1 {
        program = program.arg("null");
    }
    let begin = children_cpu_seconds();
    program
        .run(&AtomicBool::new(false), &mut |_, _| {})
        .map_err(|error| Failure::new("read", format!("{}: {error}", peer.display())))?;
    Ok(children_cpu_seconds() - begin)
}

/// Largest difference of any parameter. Quaternions are compared up to sign, and opacities instead of their logits. If
/// the numbers of splats differ, invisible splats are left out: an opacity of 0 has no logit.
fn difference(a: &Splats, b: &Splats) -> f64 {
    if a.len() != b.len() {
        let seen = |splats: &Splats| {
            let is_seen = |&i: &usize| splats.opacity_logits[i] > -(2.0 * 255.0_f32).ln();
            splats.select(&(0..splats.len()).filter(is_seen).collect::<Vec<_>>())
        };
        let (a, b) = (seen(a), seen(b));
        return if a.len() == b.len() { difference(&a, &b) } else { f64::INFINITY };
    }
    if a.len() != b.len() || a.sh_degree != b.sh_degree {
        return f64::INFINITY;
    }
    let largest = |a: &[f32], b: &[f32]| {
        a.iter().zip(b).map(|(a, b)| (f64::from(*a) - f64::from(*b)).abs()).fold(0.0, f64::max)
    };
    let opacity = |logit: &f32| 1.0 / (1.0 + (-logit).exp());
    let opacities = |splats: &Splats| splats.opacity_logits.iter().map(opacity).collect::<Vec<f32>>();
    let unit = |q: &[f32; 4]| {
        let length = q.iter().map(|v| v * v).sum::<f32>().sqrt();
        q.map(|v| v / length)
    };
    let turns = a.quats.iter().zip(&b.quats).map(|(p, q)| {
        let (p, q) = (unit(p), unit(q));
        largest(&p, &q).min(largest(&p, &q.map(|v| -v)))
    });
    [
        largest(a.means.as_flattened(), b.means.as_flattened()),
        largest(a.log_scales.as_flattened(), b.log_scales.as_flattened()),
        largest(&opacities(a), &opacities(b)),
        largest(&a.sh, &b.sh),
        turns.fold(0.0, f64::max),
    ]
    .into_iter()
    .fold(0.0, f64::max)
}

fn length(path: &Path) -> Result<u64, Failure> {
    let metadata = std::fs::metadata(path);
    metadata.map(|m| m.len()).map_err(|e| Failure::new("read", format!("{}: read: {e}", path.display())))
}

impl ConvertMeasurement {
    fn table(&self) -> Lines {
        let facts = table::facts(&[
            ("splats", format!("{}, SH {}", grouped(self.splats as u64), self.sh_degree)),
            ("PLY", text::format_bytes(self.input_bytes)),
            ("in memory", text::format_bytes(self.splat_bytes)),
        ]);
        let header = ["format", "by", "MB", "self dB", "worst", "CPU s", "MB/s", "read s", "peak"];
        let header: Vec<_> = header
            .iter()
            .enumerate()
            .map(|(i, name)| (*name, if i < 2 { ColumnAlign::Left } else { ColumnAlign::Right }))
            .collect();
        let mut rows = Vec::new();
        for row in &self.rows {
            for (who, side) in [("gausset", Some(&row.ours)), ("peer", row.peer.as_ref())] {
                let Some(side) = side else { continue };
                let decibels =
                    |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |v| format!("{v:.2}"));
                let loss = side.loss.as_ref();
                rows.push(vec![
                    row.format.to_owned(),
                    who.to_owned(),
                    format!("{:.2}", side.bytes as f64 / 1e6),
                    decibels(loss.and_then(|loss| loss.psnr)),
                    decibels(loss.and_then(|loss| loss.worst)),
                    format!("{:.3}", side.convert_cpu_s),
                    three_digits(side.convert_mb_per_s),
                    side.read_cpu_s.map_or_else(|| "-".to_owned(), |s| format!("{s:.3}")),
                    side.peak_bytes.map_or_else(|| "-".to_owned(), text::format_bytes),
                ]);
            }
        }
        let peer = self.rows.iter().filter_map(|row| {
            row.peer_reads_ours_within
                .map(|within| format!("{}: the peer reads it within {within:.1e}", row.format))
        });
        facts + "" + table::columns(&header, &rows) + peer.collect::<Lines>()
    }
}
