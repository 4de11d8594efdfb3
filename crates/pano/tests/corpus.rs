//! The seeds of the fuzz targets pass their oracles, whole, cut and damaged.

use gausset_testkit::workspace_root;

#[path = "../../../fuzz/oracles/exif_xmp.rs"]
mod exif_xmp;
#[path = "../../../fuzz/oracles/jpeg_decode.rs"]
mod jpeg_decode;
#[path = "../../../fuzz/oracles/lens_json.rs"]
mod lens_json;
#[path = "../../../fuzz/oracles/pano_layout.rs"]
mod pano_layout;

/// Cuts and damages of a seed, at most this many of each.
const VARIANTS: usize = 200;

fn replay(target: &str, check: fn(&[u8])) {
    let folder = workspace_root().join("fuzz/corpus").join(target);
    let mut count = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        check(&bytes);
        for at in (0..bytes.len()).step_by(bytes.len().div_ceil(VARIANTS).max(1)) {
            check(&bytes[..at]);
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x15;
            check(&damaged);
        }
        count += 1;
    }
    assert!(count > 0, "{}", folder.display());
}

#[test]
fn jpeg_seeds() {
    replay("jpeg_decode", jpeg_decode::check);
}

#[test]
fn metadata_seeds() {
    replay("exif_xmp", exif_xmp::check);
}

#[test]
fn layout_seeds() {
    replay("pano_layout", pano_layout::check);
}

#[test]
fn lens_seeds() {
    replay("lens_json", lens_json::check);
}
