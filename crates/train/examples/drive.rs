use gausset_io::atomic::{Disk, Overwrite};
use gausset_train::*;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let mut text = format!("data = \"{}\"\n", a[1]);
    for kv in &a[3..] {
        text += kv;
        text += "\n";
    }
    let options = TrainOptions::from_toml(&text, Path::new("args")).unwrap();
    let config = TrainConfig::resolve(&options, None).unwrap();
    let dataset = Arc::new(gausset_io::dataset::open(Path::new(&a[1]), &config.open_options()).unwrap());
    for w in &dataset.warnings {
        println!("warning {w}");
    }
    println!(
        "{} images, train {} test {}, extent {}",
        dataset.images.len(),
        dataset.split.train.len(),
        dataset.split.test.len(),
        dataset.scene_extent
    );
    let mut engine = gausset_cpu::CpuEngine::new(gausset_cpu::CpuOptions {
        threads: config.threads() as usize,
        ..Default::default()
    })
    .unwrap();
    let stop = AtomicBool::new(false);
    let mut last = std::time::Instant::now();
    let mut events = |e: &Event| match e {
        Event::Progress(p) => {
            if last.elapsed().as_secs() >= 10 {
                last = std::time::Instant::now();
                println!("{p:?}")
            }
        }
        e => println!("{}", format!("{e:?}").chars().take(400).collect::<String>()),
    };
    let session = Session { dataset, engine: &mut engine, fs: &Disk, stop: &stop, events: &mut events };
    let run = Run::start(config, Path::new(&a[2]), Overwrite::Replace, session).unwrap();
    let out = run.train().unwrap();
    println!("{:?}", out.summary);
}
