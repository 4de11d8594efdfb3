//! Tests of trainings through the public interface.

mod budget;
mod common;
mod compatibility;
mod confidence;
mod config;
mod dense;
mod disk_faults;
mod eval;
mod exposure;
mod free_space;
mod held;
mod held_out;
mod near_plane;
mod options;
mod recipe;
mod refined_poses;
mod resume;
mod run;
mod sky;
mod units;
mod up;
