//! End-to-end tests: the program runs as a process and is checked by exit code, output and files.
#![allow(clippy::print_stdout, reason = "measured figures, shown with --nocapture")]

mod child_processes;
mod colmap;
mod compatibility;
mod cube_videos;
mod demo;
mod devtools;
mod doctor;
mod field;
mod foreign_files;
mod formats;
mod gpu_quality;
mod help;
mod hints;
mod info_and_exit_codes;
mod inputs;
mod kills;
mod limits;
#[cfg(feature = "masks")]
mod mask_engine;
#[cfg(target_os = "linux")]
mod memory;
mod mistakes;
mod option_effects;
mod orientation;
mod pages;
mod pano;
mod preview_page;
mod profile;
mod read_only;
mod rendering;
mod reproducibility;
#[cfg(unix)]
mod resume;
mod signals;
mod special_files;
mod sphere;
mod support;
#[cfg(unix)]
mod terminal_escapes;
mod viewer;
mod viewer_browser;
