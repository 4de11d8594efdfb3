//! Measures size, speed and loss of the splat formats:
//! `cargo run --release -p gausset --example format_speed [-- FILE|SPLATS [PEER]]`.
//!
//! Converts a splat file, or that many splats of the reference workload, as a PLY to each format. PEER is the path of
//! `splat-transform`, which does the same in turns. Prints megabytes, CPU seconds from PLY to file (medians of three)
//! and the PSNR of renders of the file against those of the PLY. The CPU time of a child needs Linux.
#![allow(clippy::print_stdout, reason = "a program for the terminal")]

use std::error::Error;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use gausset::Host;
use gausset::convert::measure_loss;
use gausset::device::DeviceOptions;
use gausset_io::atomic::{Disk, WriteOptions};
use gausset_io::splat::{self, LoadOptions, SaveOptions, SplatFile, SpzOptions};
use gausset_scenes::workload::{HEIGHT, WIDTH, Workload, WorkloadState};

const REPEATS: usize = 3;
/// Name, ending, bits of SH in SPZ, SH degree that is kept, whether the peer writes the same.
const FORMATS: [(&str, &str, [u8; 2], u8, bool); 9] = [
    ("ply", "ply", [5, 4], 3, true),
    ("compressed ply", "compressed.ply", [5, 4], 3, true),
    ("glb", "glb", [5, 4], 3, true),
    ("spz 5,4", "spz", [5, 4], 3, true),
    ("spz 6,5", "spz", [6, 5], 3, false),
    ("spz 8,8", "spz", [8, 8], 3, false),
    ("sog", "sog", [5, 4], 3, false),
    ("sog, SH 0", "sog", [5, 4], 0, true),
    ("splat, SH 0", "splat", [5, 4], 0, false),
];

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let source = arguments.first().map_or("300000", String::as_str);
    let document = match source.parse() {
        Ok(count) => SplatFile::new(Workload::sized(WorkloadState::Trained, count, [WIDTH, HEIGHT]).splats),
        Err(_) => splat::load(Path::new(source), &LoadOptions::default())?,
    };
    let folder = std::env::temp_dir().join(format!("gausset-format-speed-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let result = measure(&document, &folder, arguments.get(1).map(Path::new));
    std::fs::remove_dir_all(&folder)?;
    result
}

fn measure(document: &SplatFile, folder: &Path, peer: Option<&Path>) -> Result<(), Box<dyn Error>> {
    println!("{} splats, SH degree {}", document.splats.len(), document.splats.sh_degree);
    println!("format           by              MB    CPU s       dB");
    for (name, ending, sh_bits, sh_degree, by_peer) in FORMATS {
        let degree = sh_degree.min(document.splats.sh_degree);
        let before = SplatFile { splats: document.splats.with_sh_degree(degree), ..document.clone() };
        let [input, ours, theirs] =
            ["input.ply".to_owned(), format!("ours.{ending}"), format!("peer.{ending}")]
                .map(|name| folder.join(name));
        save(&input, &before, &SaveOptions::default())?;
        let spz = SpzOptions { sh_bits, ..SpzOptions::default() };
        let options = SaveOptions { spz, ..SaveOptions::default() };
        let (mut times, mut peer_times) = (Vec::new(), Vec::new());
        for _ in 0..REPEATS {
            let started = cpu_seconds();
            save(&ours, &splat::load(&input, &LoadOptions::default())?, &options)?;
            times.push(cpu_seconds() - started);
            if let Some(peer) = peer.filter(|_| by_peer) {
                peer_times.push(run_peer(peer, &input, &theirs)?);
            }
        }
        for (who, path, mut times) in [("gausset", &ours, times), ("peer", &theirs, peer_times)] {
            if times.is_empty() {
                continue;
            }
            times.sort_by(f64::total_cmp);
            let megabytes = std::fs::metadata(path)?.len() as f64 / 1e6;
            let decibels = psnr(&before, path)?.map_or_else(|| "exact".to_owned(), |db| format!("{db:.2}"));
            println!("{name:<16} {who:<8} {megabytes:>9.2} {:>8.3} {decibels:>8}", times[times.len() / 2]);
        }
    }
    Ok(())
}

fn save(path: &Path, document: &SplatFile, options: &SaveOptions) -> Result<(), Box<dyn Error>> {
    splat::save(&Disk, path, document, options, &WriteOptions::default())?;
    Ok(())
}

/// PSNR in dB of renders of a file against those of the splats; `None` if they are identical.
fn psnr(before: &SplatFile, path: &Path) -> Result<Option<f64>, Box<dyn Error>> {
    let (stop, mut events) = (Arc::new(AtomicBool::new(false)), |_| {});
    let mut host = Host::new(&stop, &mut events);
    let after = splat::load(path, &LoadOptions::default())?;
    Ok(measure_loss(before, &after, DeviceOptions::default(), 0, &mut host)?.psnr)
}

fn cpu_seconds() -> f64 {
    gausset_prof::process_cpu().map_or(f64::NAN, |time| time.as_secs_f64())
}

/// Converts with the peer. Returns its CPU seconds, with a resolution of 10 ms.
fn run_peer(peer: &Path, input: &Path, output: &Path) -> Result<f64, Box<dyn Error>> {
    // User and system time of ended children, in hundredths of a second, are the 14th and 15th fields after the name.
    let spent = || {
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let fields = stat.rsplit_once(')').map_or("", |(_, after)| after).split_whitespace();
        fields.skip(13).take(2).filter_map(|field| field.parse::<f64>().ok()).sum::<f64>() / 100.0
    };
    let before = spent();
    let status = Command::new(peer).args(["-q", "-w"]).args([input, output]).status()?;
    if status.success() { Ok(spent() - before) } else { Err("the peer failed".into()) }
}
