//! CPU time of the splitter's parts on procedural 8K frames: `cargo run --release -p gausset-pano --example splitter_speed -- FOLDER [level]`.
#![allow(clippy::print_stdout, reason = "an example prints what it measures")]

use gausset_compute::{VectorLevel, level};
use gausset_pano::bench::{Options, measure};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().unwrap_or_else(|| "splitter-speed".to_owned());
    let wanted = arguments.next().unwrap_or_default();
    let wanted = VectorLevel::ALL.into_iter().find(|l| l.name() == wanted).unwrap_or_default();
    let level = level(wanted).expect("this processor has the level");
    let cpu = || {
        let t = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        t.tv_sec as f64 + 1e-9 * t.tv_nsec as f64
    };
    let options = Options { width: 7680, frames: 2, repeats: 5, quality: 95 };
    let m = measure(&options, folder.as_ref(), level, &cpu).expect("the bench runs");
    println!("{m:#.2?}");
}
