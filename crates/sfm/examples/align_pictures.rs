//! Aligns a folder of photographs, compares the poses with a COLMAP model, and prints the time of each stage:
//! `cargo run --release -p gausset-sfm --example align_pictures -- IMAGES MODEL OUT [THREADS [CAMERA_MODEL]]`.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use gausset_sfm::align::{AlignJob, CameraSharing};
use gausset_sfm::compare::compare;
use gausset_sfm::model::{CheckedModel, FrameImages};
use gausset_sfm::{AlignmentTool, Mapper, PairChoice};

#[allow(clippy::print_stdout, clippy::print_stderr)]
fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let (images, model, out) = (Path::new(&arguments[1]), Path::new(&arguments[2]), Path::new(&arguments[3]));
    let threads = arguments.get(4).map_or(2, |n| n.parse().expect("a number"));
    let mut names: Vec<String> = std::fs::read_dir(images)
        .expect("images")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"))
        .collect();
    names.sort();
    let frames: Vec<FrameImages> =
        names.into_iter().map(|name| FrameImages { name: name.clone(), images: vec![name] }).collect();
    let job = AlignJob {
        image_folder: images.to_owned(),
        masks: BTreeMap::new(),
        invert_masks: false,
        metadata: BTreeMap::new(),
        frames: frames.clone(),
        rig_config: None,
        views: Vec::new(),
        camera_model: arguments.get(5).map_or("SIMPLE_RADIAL", |model| model).to_owned(),
        camera_params: None,
        cameras: CameraSharing::Auto,
        max_image_size: 1600,
        pairs: PairChoice::Auto,
        is_sequence: false,
        ground_positions: Vec::new(),
        known_poses: None,
        refine_known_poses: false,
        priors: Vec::new(),
        imported_matches: None,
        keep_work_folder: false,
        mapper: Mapper::default(),
        work_folder: out.join("work"),
        threads,
        seed: 0,
        silence_limit: Duration::from_secs(600),
    };
    let begin = Instant::now();
    let mut last = String::new();
    let aligned = gausset_sfm::align(&job, &AlignmentTool::BuiltIn, &AtomicBool::new(false), &mut |p| {
        if p.stage != last {
            eprintln!("{:7.2} s {} {}", begin.elapsed().as_secs_f64(), p.stage, p.total);
            last.clone_from(&p.stage);
        }
    })
    .expect("an alignment");
    eprintln!("{:7.2} s done", begin.elapsed().as_secs_f64());
    let found = aligned.model;
    found.write(out, &frames).expect("written");
    for camera in &found.colmap.cameras {
        println!("camera {:?}", camera);
    }
    let pixels = found.mean_reprojection_error();
    println!(
        "registered {} of {}, {} points, error {pixels:.3} px, track {:.2}",
        found.image_of_frame.len(),
        frames.len(),
        found.colmap.points.len(),
        found.mean_track_length()
    );
    let Ok(reference) = CheckedModel::read(model, &frames) else { return };
    println!(
        "reference {}, {} points, error {:.3} px, track {:.2} {:?}",
        reference.image_of_frame.len(),
        reference.colmap.points.len(),
        reference.mean_reprojection_error(),
        reference.mean_track_length(),
        reference.colmap.cameras[0]
    );
    let shared: Vec<usize> =
        found.image_of_frame.keys().filter(|k| reference.image_of_frame.contains_key(k)).copied().collect();
    let poses: Vec<_> = shared
        .iter()
        .map(|k| (found.pose(found.image_of_frame[k]), reference.pose(reference.image_of_frame[k])))
        .collect();
    let moments: Vec<u32> = (0..poses.len() as u32).collect();
    let result = compare(&poses, &moments).expect("comparable");
    let mean: [f64; 3] =
        std::array::from_fn(|k| poses.iter().map(|(_, b)| b.centre()[k]).sum::<f64>() / poses.len() as f64);
    let extent =
        poses.iter().map(|(_, b)| gausset_core::matrix::distance(b.centre(), mean)).fold(0.0, f64::max);
    println!(
        "rotation median {:.4} worst {:.4} deg; centre / extent median {:.2e} worst {:.2e}",
        result.rotation.median,
        result.rotation.worst,
        result.centre.median / extent,
        result.centre.worst / extent
    );
}
