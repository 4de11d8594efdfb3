//! The seeds and past findings of the fuzz targets, so that a clone without cargo-fuzz checks them, too.

use std::path::Path;

#[path = "../../../fuzz/oracles/checkpoint_read.rs"]
mod checkpoint_read;
#[path = "../../../fuzz/oracles/colmap_bin.rs"]
mod colmap_bin;
#[path = "../../../fuzz/oracles/colmap_txt.rs"]
mod colmap_txt;
#[path = "../../../fuzz/oracles/image_decode.rs"]
mod image_decode;
#[path = "../../../fuzz/oracles/metrics_jsonl.rs"]
mod metrics_jsonl;
#[path = "../../../fuzz/oracles/ply_read.rs"]
mod ply_read;
#[path = "../../../fuzz/oracles/transforms_json.rs"]
mod transforms_json;

/// Checks every file of a corpus.
fn replay(target: &str, check: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|e| e.unwrap().path()).collect();
    assert!(!files.is_empty(), "{} is empty", folder.display());
    for file in files {
        check(&std::fs::read(file).unwrap());
    }
}

#[test]
fn the_corpus_of_checkpoint_read_holds() {
    replay("checkpoint_read", checkpoint_read::check);
}

#[test]
fn the_corpus_of_colmap_bin_holds() {
    replay("colmap_bin", colmap_bin::check);
}

#[test]
fn the_corpus_of_colmap_txt_holds() {
    replay("colmap_txt", colmap_txt::check);
}

#[test]
fn the_corpus_of_image_decode_holds() {
    replay("image_decode", image_decode::check);
}

#[test]
fn the_corpus_of_metrics_jsonl_holds() {
    replay("metrics_jsonl", metrics_jsonl::check);
}

#[test]
fn the_corpus_of_ply_read_holds() {
    replay("ply_read", ply_read::check);
}

#[test]
fn the_corpus_of_transforms_json_holds() {
    replay("transforms_json", transforms_json::check);
}
