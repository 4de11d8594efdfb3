//! Training on a GPU gives the quality of the CPU: `cargo xtask full`.

use gausset_testkit::{data_file, skip_for_gpu};

use crate::support::TestFolder;

/// Maximum difference of the means over the seeds, dB.
const TOLERANCE: f64 = 0.15;

/// 500 steps on a real scene at 270 px: PSNR of the held-out views, three seeds, both strategies.
#[test]
#[ignore = "half an hour of CPU time where the GPU is a program"]
fn a_gpu_learns_what_the_processor_learns() {
    let test = "a_gpu_learns_what_the_processor_learns";
    let Some(scene) = data_file(test, "scenes/plush") else { return };
    let scene = scene.to_str().expect("a name");
    let workshop = TestFolder::empty();
    if workshop.run(&["doctor", "--json"]).json()["adapters"].as_array().is_none_or(Vec::is_empty) {
        return skip_for_gpu(test, "no adapter");
    }
    let trained = |strategy: &str, device: &str, seed: &str| {
        let run = format!("{strategy}-{device}-{seed}");
        let options = ["--max-resolution", "270", "--max-splats", "10000", "--no-report", "--json"];
        let what = ["train", scene, "-o", &run, "--steps", "500"];
        let which = ["--strategy", strategy, "--device", device, "--seed", seed];
        let result = workshop.succeed(&[&what[..], &which, &options].concat()).json();
        result["psnr"].as_f64().unwrap_or_else(|| panic!("no PSNR in {result}"))
    };
    let mut apart = Vec::new();
    for strategy in ["classic", "mcmc"] {
        let of = |device: &str| ["1", "2", "3"].map(|seed| trained(strategy, device, seed));
        let [gpu, processor] = ["gpu", "cpu"].map(of);
        let mean = |values: [f64; 3]| values.iter().sum::<f64>() / 3.0;
        let difference = mean(gpu) - mean(processor);
        println!("{strategy}: GPU {gpu:.3?}, processor {processor:.3?} dB: {difference:+.3} dB");
        apart.push(difference.abs());
    }
    assert!(apart.iter().all(|&difference| difference <= TOLERANCE), "{apart:?}");
}
