//! Measurements of a GPU and of the CPU beside it, as rows of `docs/benchmarks.md`.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::runs::TempFolder;
use crate::{output, program};

/// The timed training steps: name, options of `gausset bench train`.
const STEPS: [(&str, &[&str]); 3] = [
    ("165,751 splats, 516x344, trained", &[]),
    ("165,751 splats, 516x344, initial", &["--workload", "initial"]),
    ("2,000,000 splats, 1600x1060", &["--splats", "2000000", "--size", "1600x1060"]),
];

/// Arguments: what is measured.
#[derive(Debug, clap::Args)]
pub(crate) struct DeviceArgs {
    /// Datasets that are trained on both devices; without, the small demo scene.
    #[arg(value_name = "SCENE")]
    scenes: Vec<PathBuf>,
    /// Release build of the program; without, it is built.
    #[arg(long)]
    program: Option<PathBuf>,
    /// The GPU, as in `gausset train --device`.
    #[arg(long, default_value = "gpu")]
    device: String,
    /// Options of the training runs.
    #[arg(long, default_value = "", allow_hyphen_values = true)]
    train: String,
}

/// Times steps and trainings on both devices; a GPU whose second run has other bytes is an error.
pub(crate) fn run(args: &DeviceArgs) -> Result<(), String> {
    let program = args.program.clone().map_or_else(program, Ok)?;
    let folder = TempFolder::new("device")?;
    println!("| step | GPU, it/s | CPU, it/s |\n|---|---|---|");
    for (name, options) in STEPS {
        let rate = |device: &str| {
            let mut command = Command::new(&program);
            command.args(["bench", "train", "--json", "--device", device]).args(options);
            number(&json(&mut command)?, "it_per_s")
        };
        println!("| {name} | {:.0} | {:.1} |", rate(&args.device)?, rate("cpu")?);
    }
    println!("\n| scene | GPU | seconds | CPU | seconds |\n|---|---|---|---|---|");
    let scenes = if args.scenes.is_empty() { vec![folder.make_data(&program)?] } else { args.scenes.clone() };
    for scene in &scenes {
        let [gpu, again] = ["gpu", "again"].map(|run| folder.path(run));
        let on_gpu = train(&program, scene, &gpu, &args.device, &args.train)?;
        train(&program, scene, &again, &args.device, &args.train)?;
        let on_cpu = train(&program, scene, &folder.path("cpu"), "cpu", &args.train)?;
        let name = scene.file_name().unwrap_or_default().to_string_lossy();
        println!(
            "| {name} | {:.2} dB | {:.1} | {:.2} dB | {:.1} |",
            on_gpu[0], on_gpu[1], on_cpu[0], on_cpu[1]
        );
        let [first, second] = [&gpu, &again].map(|run| std::fs::read(run.join("splats.ply")).ok());
        if first.is_none() || first != second {
            return Err(format!("{name}: two runs on the GPU have different bytes"));
        }
    }
    Ok(())
}

/// Trains a scene; PSNR of held-out images and seconds of training.
fn train(program: &Path, scene: &Path, run: &Path, device: &str, options: &str) -> Result<[f64; 2], String> {
    let mut command = Command::new(program);
    command
        .arg("train")
        .arg(scene)
        .arg("-o")
        .arg(run)
        .args(["--force", "--json", "--seed", "0", "--device", device]);
    let result = json(command.args(options.split_whitespace()))?;
    Ok([number(&result, "psnr")?, number(&result, "seconds")?])
}

fn json(command: &mut Command) -> Result<serde_json::Value, String> {
    let text = output(command)?;
    serde_json::from_slice(&text).map_err(|error| format!("{command:?}: {error}"))
}

fn number(value: &serde_json::Value, key: &str) -> Result<f64, String> {
    value[key].as_f64().ok_or_else(|| format!("no number {key} in {value}"))
}
