//! End-to-end tests: the program runs as a process and is checked by exit code, output and files.
#![allow(clippy::print_stdout, reason = "measured figures, shown with --nocapture")]

mod alike;
mod answers;
mod axes;
mod bounds;
mod bytes;
mod colmap;
mod compatibility;
mod cube_films;
mod demo;
mod devtools;
mod doctor;
mod doors;
mod effects;
#[cfg(feature = "masks")]
mod engine;
#[cfg(unix)]
mod exports;
mod field;
mod formats;
#[cfg(unix)]
mod goes_on;
mod help;
mod hints;
mod inputs;
mod kills;
mod known;
mod light;
mod looking;
#[cfg(feature = "masks")]
mod masked;
#[cfg(target_os = "linux")]
mod memory;
#[cfg(unix)]
mod metres;
mod mistakes;
#[cfg(unix)]
mod names;
mod pages;
mod pano;
mod preview_page;
mod profile;
mod read_only;
mod signals;
mod sphere;
mod strangers;
mod support;
mod tools;
mod two_lenses;
mod viewer;
mod viewer_browser;
