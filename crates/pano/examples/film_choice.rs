//! Measures the selection of frames on a video of a walk through the procedural room:
//! `film_choice FILE.mp4 [WIDTH [SHOWN]]`. A missing video is rendered at WIDTH px and scaled to SHOWN px.
#![allow(clippy::print_stdout, reason = "a program")]
#![allow(dead_code, reason = "shared with tests")]

#[path = "../tests/it/walk/mod.rs"]
mod walk;

use std::error::Error;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use gausset_core::se3;
use gausset_pano::selection::{
    FrameContent, FrameRecord, SelectBy, SelectionCriteria, measure_frames, select_frames,
};
use gausset_pano::sphere_video::SphereVideo;
use gausset_pano::video::FrameSelection;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = PathBuf::from(arguments.next().ok_or("usage: film_choice FILE.mp4 [WIDTH [SHOWN]]")?);
    let width: u32 = arguments.next().map_or(Ok(640), |a| a.parse())?;
    let shown: u32 = arguments.next().map_or(Ok(3840), |a| a.parse())?;
    let shots = walk::shots(60.0);
    if !path.exists() {
        walk::film(&path, &shots, width, [shown, shown / 2]);
    }
    let never = AtomicBool::new(false);
    let silence = Duration::from_secs(120);
    let film = SphereVideo::open(&path, FrameSelection::default(), false, [16_384, 8192], silence, &never)?;
    let (started, cpu) = (Instant::now(), cpu_seconds());
    let times = film.video.frame_times(&never)?;
    let mut lines = measure_frames(&film.video, &FrameContent::Sphere, &times, &never, &mut |_| {})?;
    let seconds = started.elapsed().as_secs_f64();
    let each = |seconds: f64| 1e3 * seconds / lines.len() as f64;
    println!(
        "{} frames; ms per frame: {:.1} wall time with decoding, {:.2} CPU time of this program",
        lines.len(),
        each(seconds),
        each(cpu_seconds() - cpu)
    );
    turns(&lines, &shots);
    let of = |is_duplicate: bool, found: bool| {
        lines
            .iter()
            .zip(&shots)
            .filter(|(l, s)| s.is_duplicate == is_duplicate && l.duplicate == found)
            .count()
    };
    println!("duplicates: {} found, {} missed, {} false", of(true, true), of(true, false), of(false, true));
    let mut sums = [0; 3];
    for step in [2.5, 3.0, 4.0, 5.0, 6.0, 8.0] {
        let wanted = SelectionCriteria { step, ..SelectionCriteria::default() };
        let step = select_frames(&mut lines, &wanted, None);
        let found = report(&lines, &shots, SelectBy::Space, step);
        sums = [0, 1, 2].map(|k| sums[k] + found[k]);
    }
    let [kept, avoidable, duplicates] = sums;
    println!(
        "total: {kept} kept, {avoidable} of them blurred with a sharp frame in reach, {duplicates} duplicates"
    );
    for (select, max_frames) in [(SelectBy::Space, Some(25)), (SelectBy::Time, None)] {
        let wanted = SelectionCriteria { select, max_frames, fps: 4.0, ..SelectionCriteria::default() };
        let step = select_frames(&mut lines, &wanted, None);
        report(&lines, &shots, select, step);
    }
    Ok(())
}

/// CPU seconds of this thread; 0 where the system does not report them.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).map_or(0.0, |ns| 1e-9 * ns)
}

/// Prints the errors of the rotations from frame to frame.
fn turns(lines: &[FrameRecord], shots: &[walk::Shot]) {
    let mut errors = Vec::new();
    let mut shown = 0;
    for (k, line) in lines.iter().enumerate().skip(1) {
        let before = shown;
        if !shots[k].is_duplicate {
            shown = k;
        }
        let truth = se3::mul(&shots[shown].pose.rotation, &se3::transpose(&shots[before].pose.rotation));
        if let Some(rotation) = line.rotation {
            let found = se3::so3_exp(rotation.map(f64::to_radians));
            errors.push(walk::angle(&se3::mul(&found, &se3::transpose(&truth))));
        }
    }
    errors.sort_by(f64::total_cmp);
    let at = |share: f64| errors[((errors.len() - 1) as f64 * share) as usize];
    println!(
        "rotations of {} of {} frames: errors in degrees: median {:.4}, 95 % {:.4}, worst {:.4}",
        errors.len(),
        lines.len() - 1,
        at(0.5),
        at(0.95),
        at(1.0)
    );
}

/// Prints a selection. Returns its kept frames, avoidable blurred frames and duplicates.
fn report(lines: &[FrameRecord], shots: &[walk::Shot], select: SelectBy, step: f64) -> [usize; 3] {
    let kept: Vec<usize> = lines.iter().filter(|line| line.kept).map(|line| line.frame).collect();
    let steps: Vec<f64> =
        kept.windows(2).map(|p| walk::distance(&shots[p[0]].pose, &shots[p[1]].pose)).collect();
    let blurred: Vec<usize> = kept.iter().copied().filter(|&k| shots[k].is_blurred).collect();
    // A sharp frame is in reach if it is within a quarter of the mean step.
    let reach = 0.25 * steps.iter().sum::<f64>() / steps.len().max(1) as f64;
    let in_reach = |k: usize| {
        let near = |j: &usize| walk::distance(&shots[*j].pose, &shots[k].pose) < reach;
        (k.saturating_sub(24)..(k + 24).min(shots.len())).filter(near).any(|j| !shots[j].is_blurred)
    };
    let avoidable = blurred.iter().filter(|&&k| in_reach(k)).count();
    let duplicates = kept.iter().filter(|&&k| shots[k].is_duplicate).count();
    for &k in blurred.iter().filter(|&&k| in_reach(k)) {
        let around: Vec<String> = (k.saturating_sub(4)..(k + 5).min(lines.len()))
            .map(|j| {
                format!(
                    "{}{:.3}@{:.2}",
                    if shots[j].is_blurred { "~" } else { "" },
                    lines[j].sharpness,
                    lines[j].path
                )
            })
            .collect();
        println!("  blurred and kept: frame {k}: {}", around.join(" "));
    }
    println!(
        "{}: {} kept, {step:.2} degrees, spread of steps {:.3} (mean {:.3} m, worst {:.3} m), blurred {} ({} avoidable, {:.1} % of the video), duplicates {}",
        select.name(),
        kept.len(),
        walk::spread(&steps),
        steps.iter().sum::<f64>() / steps.len().max(1) as f64,
        steps.iter().copied().fold(0.0, f64::max),
        blurred.len(),
        avoidable,
        100.0 * shots.iter().filter(|s| s.is_blurred).count() as f64 / shots.len() as f64,
        duplicates
    );
    [kept.len(), avoidable, duplicates]
}
