//! Runs the oracles of the fuzz targets on their seeds, unchanged, truncated and damaged.

use gausset_testkit::corpus::replay;

#[path = "../../../../fuzz/oracles/cube_lut.rs"]
mod cube_lut;
#[path = "../../../../fuzz/oracles/exif_xmp.rs"]
mod exif_xmp;
#[path = "../../../../fuzz/oracles/lens_json.rs"]
mod lens_json;
#[path = "../../../../fuzz/oracles/pano_layout.rs"]
mod pano_layout;
#[path = "../../../../fuzz/oracles/pose_files.rs"]
mod pose_files;
#[path = "../../../../fuzz/oracles/track_files.rs"]
mod track_files;

/// Largest number of truncated variants, and of damaged variants, per seed.
const VARIANTS: usize = 200;

#[test]
fn metadata_seeds() {
    replay("exif_xmp", VARIANTS, exif_xmp::check);
}

#[test]
fn layout_seeds() {
    replay("pano_layout", VARIANTS, pano_layout::check);
}

#[test]
fn lens_seeds() {
    replay("lens_json", VARIANTS, lens_json::check);
}

#[test]
fn lut_seeds() {
    replay("cube_lut", VARIANTS, cube_lut::check);
}

#[test]
fn pose_seeds() {
    replay("pose_files", VARIANTS, pose_files::check);
}

#[test]
fn track_seeds() {
    replay("track_files", VARIANTS, track_files::check);
}
