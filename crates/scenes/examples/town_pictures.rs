//! Draws a contact sheet of pictures of the town: `cargo run --release -p gausset-scenes --example town_pictures --
//! FILE.png PICTURES WIDTH [VIEW...]`; without views, every eighth of all.
#![allow(clippy::print_stdout, reason = "an example prints its result")]

use std::error::Error;
use std::time::Instant;

use gausset_compute::Pool;
use gausset_core::RgbImage8;
use gausset_io::image::encode;
use gausset_scenes::town;

/// Most pictures in a row.
const MAX_COLUMNS: usize = 4;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let file = args.next().ok_or("expected a file")?;
    let pictures = args.next().ok_or("expected a number of pictures")?.parse()?;
    let width: usize = args.next().ok_or("expected a width")?.parse()?;
    let mut views = args.map(|arg| arg.parse()).collect::<Result<Vec<usize>, _>>()?;
    let begin = Instant::now();
    let scene = town(pictures, width as u32, 0);
    let (built, count) = (begin.elapsed().as_secs_f64(), scene.world.objects().len());
    if views.is_empty() {
        views = (0..scene.poses.len()).step_by(8).collect();
    }
    let height = width * 3 / 4;
    let columns = views.len().min(MAX_COLUMNS);
    let rows = views.len().div_ceil(columns);
    let mut sheet = RgbImage8::new((columns * width) as u32, (rows * height) as u32);
    let (pool, begin) = (Pool::new(1), Instant::now());
    for (i, &view) in views.iter().enumerate() {
        let picture = scene.image(view, &pool);
        for (row, line) in picture.data.chunks_exact(3 * width).enumerate() {
            let at = 3 * ((i / columns * height + row) * columns + i % columns) * width;
            sheet.data[at..at + 3 * width].copy_from_slice(line);
        }
    }
    let seconds = begin.elapsed().as_secs_f64() / views.len() as f64;
    std::fs::write(file, encode::png_rgb8(&sheet)?)?;
    println!("{count} objects in {built:.2} s; {seconds:.3} s per picture on one thread");
    Ok(())
}
