//! The result of a training does not depend on the unit and the origin of the data.

use std::path::Path;
use std::sync::Arc;

use crate::common::{cpu, open, options, runs, session_on};
use gausset_core::Splats;
use gausset_core::splats_transform::Similarity;
use gausset_io::atomic::Overwrite;
use gausset_io::dataset::Dataset;
use gausset_io::splat::{self, LoadOptions};
use gausset_train::{RecordedRun, Run, TrainConfig, TrainOptions, Up};

/// Trains on the tiny dataset, moved and scaled. Returns the saved splats, moved and scaled back, and the PSNR.
fn train_moved(by: &Similarity, run: &Path) -> (Splats, f64) {
    let given = TrainOptions { up: Some(Up::None), ..options(120) };
    let config = TrainConfig::resolve(&given, None).unwrap();
    let mut dataset: Dataset = Arc::unwrap_or_clone(open(&config));
    dataset.images.iter_mut().for_each(|image| image.pose = by.apply_to_pose(&image.pose));
    dataset.points.iter_mut().for_each(|point| point.position = by.apply(point.position));
    dataset.scene_extent *= by.scale;
    let session = session_on(Arc::new(dataset), Box::new(cpu(1)), &Arc::default());
    let outcome =
        Run::start(config, run, Overwrite::Refuse, session, &mut |_| {}).unwrap().train(&mut |_| {}).unwrap();
    let mut splats = splat::load(&run.join("splats.ply"), &LoadOptions::default()).unwrap().splats;
    by.inverse().apply_to_splats(&mut splats);
    let record = RecordedRun::read(&run.join("config.toml")).unwrap().record;
    let extent = open(&TrainConfig::resolve(&given, None).unwrap()).scene_extent;
    assert!((record.scene_extent / (extent * by.scale) - 1.0).abs() < 1e-9, "{}", record.scene_extent);
    (splats, outcome.summary.psnr.unwrap())
}

#[test]
fn a_scene_in_another_unit_and_place_becomes_the_same_splat() {
    let (folder, run) = runs();
    let (expected, psnr) = train_moved(&Similarity::IDENTITY, &run);
    for (name, scale) in [("millimetres", 1e3), ("kilometres", 1e-3)] {
        let by = Similarity { scale, translation: [20.0 * scale, -5.0 * scale, 0.0], ..Similarity::IDENTITY };
        let (splats, moved_psnr) = train_moved(&by, &folder.path().join(name));
        assert_eq!(splats.len(), expected.len(), "{name}");
        assert!((moved_psnr - psnr).abs() < 0.05, "{name}: {moved_psnr} dB, {psnr} dB");
        // The file holds 32 bits, 25 units from the origin.
        let far = (0..splats.len())
            .filter(|&i| (0..3).any(|k| (splats.means[i][k] - expected.means[i][k]).abs() > 1e-4))
            .count();
        assert!(far * 50 <= splats.len(), "{name}: {far} of {} splats are elsewhere", splats.len());
    }
}
