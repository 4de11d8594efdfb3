//! Renders some images of the demo scene, or the whole scene as a dataset if no view is given: `cargo run --release -p
//! gausset-scenes --example demo_pictures -- FOLDER [VIEW...]`.
#![allow(clippy::print_stdout, reason = "an example prints its result")]

use std::error::Error;
use std::path::PathBuf;
use std::time::Instant;

use gausset_compute::Pool;
use gausset_io::image::encode;
use gausset_scenes::{DemoSize, demo, write_dataset};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let folder = PathBuf::from(args.next().ok_or("expected a folder")?);
    let views = args.map(|arg| arg.parse()).collect::<Result<Vec<usize>, _>>()?;
    let scene = demo(DemoSize::Default, 0);
    let pool = Pool::with_all_cores();
    let start = Instant::now();
    if views.is_empty() {
        write_dataset(&scene, &folder, &pool, &mut |done, all| println!("{done}/{all}"))?;
    }
    for view in views {
        let pose = scene.poses.get(view).ok_or("no such view")?;
        let picture = scene.render(&scene.camera, pose, &pool);
        std::fs::write(folder.join(format!("{view}.png")), encode::png_rgb8(&picture)?)?;
    }
    println!("{:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}
