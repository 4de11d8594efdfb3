//! Aligns panoramas from the views that `pano split` cut in the layout ring8, and prints the time of each stage:
//! `cargo run --release -p gausset-sfm --example align_views -- WORK [ASSUMED_THREADS] > poses.csv`.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use gausset_compute::{Exec, Pool};
use gausset_core::se3::so3_exp;
use gausset_io::image::{decode_file, decode_mask_file};
use gausset_sfm::reconstruction::features::{Features, ViewImage, extract};
use gausset_sfm::reconstruction::{PanoView, ReconstructionOptions, reconstruct};

const LIMIT: usize = 1500;

#[allow(clippy::print_stdout, clippy::print_stderr)]
fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let folder = Path::new(&arguments[1]);
    let threads = arguments.get(2).map_or(2, |n| n.parse().expect("a number"));
    let limit = arguments.get(3).map_or(LIMIT, |n| n.parse().expect("a number"));
    let mut names: Vec<String> = std::fs::read_dir(folder.join("images/view00"))
        .expect("views")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"))
        .collect();
    names.sort();
    let side = decode_file(&folder.join("images/view00").join(&names[0])).expect("a picture").width;
    let turn = |k: u32| so3_exp([0.0, f64::from(k) * std::f64::consts::FRAC_PI_4, 0.0]);
    let views: Vec<PanoView> = (0..8)
        .map(|k| PanoView {
            focal: 0.5 * f64::from(side),
            width: side,
            height: side,
            pano_from_view: turn(k),
        })
        .collect();
    let pool = Pool::new(threads);
    let exec = Exec::best(&pool);
    let begin = Instant::now();
    let found: Vec<Mutex<Features>> = (0..8 * names.len()).map(|_| Mutex::default()).collect();
    pool.run(8 * names.len(), |task, _| {
        let (frame, view) = (task / 8, task % 8);
        let name = format!("view{view:02}/{}", names[frame]);
        let picture = decode_file(&folder.join("images").join(&name)).expect("a picture");
        let keep = decode_mask_file(&folder.join("masks").join(format!("{name}.png"))).ok().map(|m| m.values);
        let picture =
            ViewImage { width: picture.width, height: picture.height, rgb: picture.rgb, mask: keep };
        *found[task].lock().expect("no panic") = extract(&views, view, &picture, limit, exec.level);
    });
    let mut frames: Vec<Features> = Vec::new();
    for (task, features) in found.into_iter().enumerate() {
        if task % 8 == 0 {
            frames.push(Features::default());
        }
        frames[task / 8].append(features.into_inner().expect("no panic"));
    }
    let counts: Vec<usize> = frames.iter().map(|f| f.features.len()).collect();
    eprintln!("features {:?} {counts:?}", begin.elapsed());
    let options =
        ReconstructionOptions { tolerance: 2.0 / (0.5 * f64::from(side)), is_sequence: true, seed: 0 };
    let mut last = None;
    let mut tell = |p: gausset_sfm::reconstruction::Progress| {
        if last != Some(p.stage) || p.stage == gausset_sfm::reconstruction::Stage::Mapping {
            eprintln!("{:?} {}/{} at {:?}", p.stage, p.done, p.total, begin.elapsed());
            last = Some(p.stage);
        }
    };
    let result =
        reconstruct(&frames, options, None, exec, &AtomicBool::new(false), &mut tell).expect("not stopped");
    let sights: usize = result.landmarks.iter().map(|p| p.observations.len()).sum();
    eprintln!("{} points, {sights} sights, {:?}", result.landmarks.len(), begin.elapsed());
    println!("name,x,y,z,qw,qx,qy,qz");
    for (name, pose) in names.iter().zip(&result.poses) {
        if let Some(pose) = pose {
            let ([x, y, z], [qw, qx, qy, qz]) = (pose.centre(), pose.inverse().quaternion());
            println!("{name},{x},{y},{z},{qw},{qx},{qy},{qz}");
        }
    }
}
