//! Jobs of panoramas, called as functions: alignment, exports, poses, tracks, lenses and masks. Programs are stand-ins,
//! recorded or real; a test whose program is missing is skipped.
#![cfg_attr(not(unix), allow(dead_code, reason = "stand-ins are shell scripts"))]
#![allow(clippy::print_stdout, reason = "measured figures, shown with --nocapture")]

mod colmap;
#[cfg(unix)]
mod exports;
mod lenses;
#[cfg(feature = "masks")]
mod masks;
#[cfg(unix)]
mod prior_knowledge;
mod splits;
mod support;
#[cfg(unix)]
mod tracks;
