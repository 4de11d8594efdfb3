//! Measures inference: views/s of a model with concurrent runs, CPU time per image, Gausset's part of it, memory.
//!
//! ```sh
//! python3 bench/make_onnx.py --large vit_s.onnx
//! cargo run --release -p gausset-segment --example inference -- vit_s.onnx rten 2 20
//! ```
//! Arguments: the model, the engine (rten, onnxruntime), concurrent runs, images per run.
#![allow(clippy::print_stdout, reason = "an example that prints figures")]

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use gausset_prof::process_cpu;
use gausset_segment::{ClassSelection, InferenceEngine, RgbImage, RunLimits, Segmenter, Tensor};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut next = |what: &str| arguments.next().ok_or(format!("expected {what}"));
    let path = PathBuf::from(next("a model")?);
    let name = next("an engine")?;
    let side_by_side: usize = next("runs side by side")?.parse()?;
    let pictures: usize = next("pictures of each")?.parse()?;
    let never = AtomicBool::new(false);
    let watch = RunLimits { stop: &never, limit: Duration::from_secs(600) };
    let engine = match name.as_str() {
        #[cfg(feature = "onnxruntime")]
        "onnxruntime" => InferenceEngine::onnx_runtime(&gausset_segment::LibraryChoice::default(), &never)?,
        _ => InferenceEngine::Rten,
    };
    let wanted = ClassSelection { confidence: 0.99, ..ClassSelection::default() };
    let segmenter = Segmenter::open(&path, None, &wanted, &engine, watch)?;
    let [width, height] = segmenter.size();
    let rgb: Vec<u8> = (0..3 * width * height).map(|k| (k * 7919 % 251) as u8).collect();
    let picture = RgbImage { width, height, rgb: &rgb };
    let cpu = || process_cpu().unwrap_or_default();
    // Warm up with as many sessions as runs.
    let work = |count: usize| {
        std::thread::scope(|scope| {
            for _ in 0..side_by_side {
                scope.spawn(|| {
                    for _ in 0..count {
                        segmenter.detect(&picture, watch).map(|_| ()).unwrap_or_else(|e| println!("{e}"));
                    }
                });
            }
        });
    };
    work(1);
    let (wall, before) = (Instant::now(), cpu());
    work(pictures);
    let all = (side_by_side * pictures) as f64;
    let (wall, whole) = (wall.elapsed().as_secs_f64(), (cpu() - before).as_secs_f64());
    let memory = segmenter.memory();
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or("VmHWM: unknown");
    println!(
        "estimate: {} MB shared, {} MB each; {peak}",
        memory.shared / 1_000_000,
        memory.per_run / 1_000_000
    );
    // The engine alone, on the same input.
    let model = gausset_segment::OnnxModel::open(&path, &engine)?;
    let outputs: Vec<&str> = model.outputs.iter().map(|port| port.name.as_str()).collect();
    let input = Tensor { shape: vec![1, 3, height, width], data: vec![0.1; 3 * width * height] };
    let run = || model.run(vec![(&model.inputs[0].name, input.clone())], &outputs, watch);
    run()?;
    let before = cpu();
    for _ in 0..pictures {
        run()?;
    }
    let alone = (cpu() - before).as_secs_f64() / pictures as f64;
    println!(
        "{}: {side_by_side} side by side: {:.2} views/s, {:.3} CPU s a picture; one run of the engine {alone:.3}",
        segmenter.engine(),
        all / wall,
        whole / all
    );
    Ok(())
}
