//! Measures how fast splat files and checkpoints are read and written.
//!
//! ```text
//! cargo run --release -p gausset-io --example splat_speed [-- SPLATS [FOLDER]]
//! ```
//! Each row is the best of five runs; the time of the fsync is listed separately.
#![allow(clippy::print_stdout, reason = "its output is its purpose")]

use std::error::Error;
use std::path::PathBuf;
use std::time::Instant;

use gausset_core::Splats;
use gausset_core::engine::TrainState;
use gausset_io::atomic::{Disk, WriteOptions};
use gausset_io::checkpoint::{load_train_state, save_train_state};
use gausset_io::splat::{self, LoadOptions, SaveOptions, SplatFile};

const REPEATS: usize = 5;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let count: usize = arguments.next().map_or(Ok(1_000_000), |text| text.parse())?;
    let folder = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let folder = folder.join(format!("gausset-splat-speed-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let result = measure(count, &folder.join("splats.ply"), &folder.join("state.ckpt"));
    std::fs::remove_dir_all(&folder)?;
    result
}

fn measure(count: usize, ply: &std::path::Path, checkpoint: &std::path::Path) -> Result<(), Box<dyn Error>> {
    let document = SplatFile::new(some_splats(count));
    println!("{count} splats, SH degree 3                  MB   best s    MB/s   sync s");
    let row = |name: &str, bytes: u64, best: f64, sync: f64| {
        let megabytes = bytes as f64 / 1e6;
        println!("{name:<34} {megabytes:>9.1} {best:>8.3} {:>7.0} {sync:>8.3}", megabytes / best);
    };

    let mut best = (f64::INFINITY, 0.0, 0);
    for _ in 0..REPEATS {
        let clock = Instant::now();
        let written = splat::save(&Disk, ply, &document, &SaveOptions::default(), &WriteOptions::default())?;
        let seconds = clock.elapsed().as_secs_f64() - written.sync_seconds;
        if seconds < best.0 {
            best = (seconds, written.sync_seconds, written.bytes);
        }
    }
    row("write PLY into the page cache", best.2, best.0, best.1);

    let mut read = f64::INFINITY;
    for _ in 0..REPEATS {
        let clock = Instant::now();
        let file = splat::load(ply, &LoadOptions::default())?;
        read = read.min(clock.elapsed().as_secs_f64());
        assert!(file.splats == document.splats, "what was read is not what was written");
    }
    row("read PLY from the page cache", best.2, read, 0.0);

    let state = TrainState::new(document.splats, Vec::new());
    let mut best = (f64::INFINITY, 0.0, 0);
    for _ in 0..REPEATS {
        let clock = Instant::now();
        let committed = save_train_state(&Disk, checkpoint, &state, &serde_json::Value::Null)?;
        let seconds = clock.elapsed().as_secs_f64() - committed.sync_seconds;
        if seconds < best.0 {
            best = (seconds, committed.sync_seconds, committed.bytes);
        }
    }
    row("write checkpoint", best.2, best.0, best.1);

    let mut read = f64::INFINITY;
    for _ in 0..REPEATS {
        let clock = Instant::now();
        let (loaded, _) = load_train_state(checkpoint)?;
        read = read.min(clock.elapsed().as_secs_f64());
        assert!(loaded == state, "what was loaded is not what was saved");
    }
    row("load checkpoint", best.2, read, 0.0);
    Ok(())
}

/// Splats with plausible values, all different.
fn some_splats(count: usize) -> Splats {
    let mut splats = Splats::with_capacity(3, count);
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    for _ in 0..count {
        let sh: [f32; 48] = std::array::from_fn(|_| next());
        let quat = [1.0 + next() * 0.5, next(), next(), next()];
        splats.push([next() * 5.0, next() * 5.0, next() * 5.0], [next() - 4.0; 3], quat, next() * 3.0, &sh);
    }
    splats
}
