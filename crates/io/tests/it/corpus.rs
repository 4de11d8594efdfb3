//! Runs the seeds and past findings of the fuzz targets, so that a clone without cargo-fuzz checks them as well.

use gausset_testkit::corpus::replay;

#[path = "../../../../fuzz/oracles/camera_exports.rs"]
mod camera_exports;
#[path = "../../../../fuzz/oracles/checkpoint_read.rs"]
mod checkpoint_read;
#[path = "../../../../fuzz/oracles/colmap_bin.rs"]
mod colmap_bin;
#[path = "../../../../fuzz/oracles/colmap_txt.rs"]
mod colmap_txt;
#[path = "../../../../fuzz/oracles/georeference_json.rs"]
mod georeference_json;
#[path = "../../../../fuzz/oracles/heif_header.rs"]
mod heif_header;
#[path = "../../../../fuzz/oracles/image_decode.rs"]
mod image_decode;
#[path = "../../../../fuzz/oracles/metrics_jsonl.rs"]
mod metrics_jsonl;
#[path = "../../../../fuzz/oracles/ply_read.rs"]
mod ply_read;
#[path = "../../../../fuzz/oracles/splat_read.rs"]
mod splat_read;
#[path = "../../../../fuzz/oracles/transforms_json.rs"]
mod transforms_json;

/// Largest number of truncations and of damages per seed.
const VARIANTS: usize = 50;

#[test]
fn the_corpus_of_camera_exports_holds() {
    replay("camera_exports", VARIANTS, camera_exports::check);
}

#[test]
fn the_corpus_of_checkpoint_read_holds() {
    replay("checkpoint_read", VARIANTS, checkpoint_read::check);
}

#[test]
fn the_corpus_of_colmap_bin_holds() {
    replay("colmap_bin", VARIANTS, colmap_bin::check);
}

#[test]
fn the_corpus_of_colmap_txt_holds() {
    replay("colmap_txt", VARIANTS, colmap_txt::check);
}

#[test]
fn the_corpus_of_georeference_json_holds() {
    replay("georeference_json", VARIANTS, georeference_json::check);
}

#[test]
fn the_corpus_of_heif_header_holds() {
    replay("heif_header", VARIANTS, heif_header::check);
}

#[test]
fn the_corpus_of_image_decode_holds() {
    replay("image_decode", VARIANTS, image_decode::check);
}

#[test]
fn the_corpus_of_metrics_jsonl_holds() {
    replay("metrics_jsonl", VARIANTS, metrics_jsonl::check);
}

#[test]
fn the_corpus_of_ply_read_holds() {
    replay("ply_read", VARIANTS, ply_read::check);
}

#[test]
fn the_corpus_of_splat_read_holds() {
    replay("splat_read", VARIANTS, splat_read::check);
}

#[test]
fn the_corpus_of_transforms_json_holds() {
    replay("transforms_json", VARIANTS, transforms_json::check);
}
