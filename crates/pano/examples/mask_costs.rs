//! Measures operations on sphere masks: `mask_costs [WIDTH] [DEGREES]`. The mask removes ten figures and the lower 20
//! degrees; times are the median of 15 runs on one thread.
#![allow(clippy::print_stdout, reason = "a program")]

use std::error::Error;
use std::hint::black_box;
use std::time::Instant;

use gausset_pano::layout::Layout;
use gausset_pano::sphere_mask::SphereMask;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let width: usize = arguments.next().map_or(Ok(2880), |a| a.parse())?;
    let degrees: f64 = arguments.next().map_or(Ok(1.0), |a| a.parse())?;
    let views = Layout::Ring8Caps.views(312, 312, None);
    let ellipse: Vec<u8> = (0..312 * 312i32)
        .map(|at| {
            let (x, y) = ((at % 312 - 150) / 2, (at / 312 - 160) / 5);
            if x * x + y * y < 400 { 0 } else { 255 }
        })
        .collect();
    let mut mask = SphereMask::new(width, width / 2);
    for view in &views {
        mask.project_from_view(view, &ellipse, 312, 312);
    }
    mask.crop_bottom(20.0);
    let luma: Vec<u8> = (0..mask.data.len()).map(|at| (at * 31 % 251) as u8).collect();
    println!("{width}x{} px, {:.1} % removed", width / 2, 100.0 * mask.removed_fraction());
    show("carry a 312 px view", || {
        SphereMask::new(width, width / 2).project_from_view(&views[3], &ellipse, 312, 312)
    });
    show("make an empty mask", || {
        black_box(SphereMask::new(width, width / 2));
    });
    show("cut a 312 px view", || {
        black_box(mask.sample_view(&views[3], 312, 312));
    });
    show("copy", || {
        black_box(mask.clone());
    });
    show(&format!("copy, dilate {degrees} degrees"), || {
        let mut mask = mask.clone();
        mask.dilate(degrees);
        black_box(mask);
    });
    show(&format!("copy, feather {degrees} degrees"), || {
        let mut mask = mask.clone();
        mask.feather(degrees);
        black_box(mask);
    });
    show("regions", || {
        black_box(mask.regions());
    });
    show("copy, refine edges within 1 degree", || {
        let mut mask = mask.clone();
        mask.refine_edges(&luma, 1.0);
        black_box(mask);
    });
    Ok(())
}

fn show(what: &str, mut work: impl FnMut()) {
    let mut times: Vec<f64> = (0..15)
        .map(|_| {
            let started = Instant::now();
            work();
            started.elapsed().as_secs_f64()
        })
        .collect();
    times.sort_by(f64::total_cmp);
    println!("{what:36} {:7.2} ms", 1e3 * times[times.len() / 2]);
}
