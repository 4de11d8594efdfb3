//! Splat files as other programs and people write them: odd rotations, drafts of formats, prefixes, archives, folders.

use crate::files;
use std::io::{Cursor, Write};
use std::path::Path;

use crate::files::some_splats;
use gausset_core::{Splats, se3, sh};
use gausset_io::splat::{
    self, FORMATS, Format, Initial, LoadOptions, SaveOptions, SplatFile, SpzAxes, SpzOptions, parse,
};
use serde_json::{Value, json};

fn written(document: &SplatFile, format: Format) -> Vec<u8> {
    let mut bytes = Vec::new();
    splat::write(&mut bytes, document, format, &SaveOptions::default()).unwrap();
    bytes
}

fn read(bytes: &[u8], name: &str) -> Result<SplatFile, String> {
    read_with(bytes, name, None)
}

fn read_with(bytes: &[u8], name: &str, spz_frame: Option<SpzAxes>) -> Result<SplatFile, String> {
    match parse(bytes, Path::new(name), &LoadOptions { spz_frame, ..LoadOptions::default() }) {
        Ok(Initial::Splats(document)) => Ok(document),
        Ok(Initial::Points(_)) => Err("points".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Records of a `.splat` whose rotations have these bytes.
fn dot_splat(rotations: &[[u8; 4]]) -> Vec<u8> {
    let record = |(i, rotation): (usize, &[u8; 4])| {
        let numbers = [i as f32, 2.0, 3.0, 0.1, 0.2, 0.3].map(f32::to_le_bytes);
        [numbers.as_flattened(), &[200, 100, 50, 128], rotation].concat()
    };
    rotations.iter().enumerate().flat_map(record).collect()
}

#[test]
fn the_name_decides_for_a_dot_splat_and_its_rotations_are_normalised() {
    let bytes = dot_splat(&[[255, 0, 0, 0], [10, 20, 30, 40], [128, 128, 128, 130], [255, 128, 128, 128]]);
    let found = read(&bytes, "model.SPLAT").unwrap();
    assert_eq!((found.splats.len(), found.format), (4, Format::Splat));
    for quat in &found.splats.quats {
        let length: f32 = quat.iter().map(|v| v * v).sum();
        assert!((length - 1.0).abs() < 1e-6, "{quat:?}");
    }
    assert_eq!(found.splats.quats[3], [1.0, 0.0, 0.0, 0.0]);
    // By its content alone, it is not a splat file.
    assert!(read(&bytes, "model").unwrap_err().contains("first bytes: not a splat file"));
    // A first position that begins as a gzip file or a zip.
    for magic in [&[0x1f, 0x8b][..], b"PK\x03\x04"] {
        let mut bytes = dot_splat(&[[255, 128, 128, 128]; 3]);
        bytes[..magic.len()].copy_from_slice(magic);
        assert_eq!(read(&bytes, "a.splat").unwrap().format, Format::Splat);
    }
    assert_eq!(read(&[0; 64 * 32], "zeros.splat").unwrap().splats.len(), 64);
    let page = "<!DOCTYPE html><html><head><title>404 Not Found</title></head></html>          ";
    assert!(read(page.as_bytes(), "a.splat").unwrap_err().contains("not a splat file"));
}

#[test]
fn a_dot_splat_of_a_wrong_length_names_both_lengths() {
    let bytes = dot_splat(&[[255, 128, 128, 128]; 10]);
    let line = read(&bytes[..320 - 7], "a.splat").unwrap_err();
    let what =
        "cut off, or not a .splat file (expected 32 bytes a splat, 288 bytes for 9 splats, found 313 bytes)";
    assert_eq!(line, format!("a.splat: length: {what}"));
    for name in ["a.splat", "a.ply", "a.spz"] {
        let line = read(&[], name).unwrap_err();
        assert_eq!(line, format!("{name}: length: the file is empty (expected splats, found 0 bytes)"));
    }
}

const POINTER: &str =
    "version https://git-lfs.github.com/spec/v1\noid sha256:9a0364b9e99bb480dd25e1f0284c8555\nsize 9728040\n";

#[test]
fn a_git_lfs_pointer_is_named_wherever_splats_are_read() {
    let what = "content: a Git LFS pointer instead of the file (expected splats, found \"version https://git-lfs\"); \
                run `git lfs pull`";
    for extension in FORMATS.iter().flat_map(|row| row.extensions) {
        let name = format!("a{extension}");
        assert_eq!(read(POINTER.as_bytes(), &name).unwrap_err(), format!("{name}: {what}"));
    }
    let folder = files::temporary_folder();
    let load = |name: &str| {
        let line = splat::load(&folder.path().join(name), &LoadOptions::default()).unwrap_err().to_string();
        line.replace(&folder.path().display().to_string(), "F")
    };
    // An image of an unpacked SOG, and the buffer of a glTF.
    let document = SplatFile::new(some_splats(20, 0, 1));
    let mut archive = zip::ZipArchive::new(Cursor::new(written(&document, Format::Sog))).unwrap();
    archive.extract(folder.path()).unwrap();
    std::fs::write(folder.path().join("quats.webp"), POINTER).unwrap();
    assert_eq!(load(""), format!("F/quats.webp: {what}"));
    let (mut gltf, _) = glb_parts(&written(&document, Format::Gltf));
    gltf["buffers"][0]["uri"] = "a.bin".into();
    std::fs::write(folder.path().join("a.bin"), POINTER).unwrap();
    std::fs::write(folder.path().join("a.gltf"), gltf.to_string()).unwrap();
    assert_eq!(load("a.gltf"), format!("F/a.bin: {what}"));
}

/// The JSON and the binary chunk of a GLB.
fn glb_parts(bytes: &[u8]) -> (Value, Vec<u8>) {
    let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let json = 20 + number(12);
    (serde_json::from_slice(&bytes[20..json]).unwrap(), bytes[json + 8..].to_vec())
}

fn glb(json: &Value, binary: &[u8]) -> Vec<u8> {
    let mut json = json.to_string();
    while !json.len().is_multiple_of(4) {
        json.push(' ');
    }
    let mut binary = binary.to_vec();
    binary.resize(binary.len().next_multiple_of(4), 0);
    let word = |length: usize| (length as u32).to_le_bytes();
    let head = [word(2), word(28 + json.len() + binary.len()), word(json.len())];
    [b"glTF", head.as_flattened(), b"JSON", json.as_bytes(), &word(binary.len()), b"BIN\0", &binary].concat()
}

#[test]
fn scales_of_a_draft_gltf_that_are_logarithms_are_read_as_such() {
    let splats = some_splats(30, 0, 3);
    let (json, binary) = glb_parts(&written(&SplatFile::new(splats), Format::Gltf));
    let plain = read(&glb(&json, &binary), "t").unwrap().splats;
    let attributes = &json["meshes"][0]["primitives"][0]["attributes"];
    let accessor = attributes["KHR_gaussian_splatting:SCALE"].as_u64().unwrap() as usize;
    let view = json["accessors"][accessor]["bufferView"].as_u64().unwrap() as usize;
    let at = json["bufferViews"][view]["byteOffset"].as_u64().unwrap() as usize;
    let mut draft = binary.clone();
    for scale in draft[at..at + 12 * 30].chunks_exact_mut(4) {
        let value = f32::from_le_bytes(scale.try_into().unwrap());
        scale.copy_from_slice(&value.ln().to_le_bytes());
    }
    let found = read(&glb(&json, &draft), "t").unwrap();
    assert_eq!(found.splats.len(), 30);
    for (a, b) in found.splats.log_scales.iter().flatten().zip(plain.log_scales.iter().flatten()) {
        assert!((a - b).abs() < 1e-5, "{a} {b}");
    }
    assert_eq!(found.report.notes, ["SCALE: read as logarithms, as in a draft (found negative values)"]);
}

#[test]
fn a_draft_gltf_of_cesium_is_read() {
    let splats = some_splats(30, 0, 3);
    let (mut json, binary) = glb_parts(&written(&SplatFile::new(splats.clone()), Format::Gltf));
    let plain = read(&glb(&json, &binary), "t").unwrap().splats;
    let own = |name: &str| {
        json["meshes"][0]["primitives"][0]["attributes"][format!("KHR_gaussian_splatting:{name}")].clone()
    };
    let attributes = json!({
        "POSITION": 0, "COLOR_0": 1, "_ROTATION": own("ROTATION"), "_SCALE": own("SCALE"),
    });
    // Colours as displayed, with the opacity, as bytes; the writer has linear light there.
    let at = json["bufferViews"][1]["byteOffset"].as_u64().unwrap() as usize;
    let mut draft = binary.clone();
    for (i, colour) in draft[at..at + 4 * 30].chunks_exact_mut(4).enumerate() {
        let shown = |dc: f32| (sh::colour_from_dc(dc).clamp(0.0, 1.0) * 255.0).round() as u8;
        let opacity = 1.0 / (1.0 + (-splats.opacity_logits[i]).exp());
        let [r, g, b] = [0, 1, 2].map(|k| shown(splats.sh_coefficients(i)[k]));
        colour.copy_from_slice(&[r, g, b, (opacity * 255.0).round() as u8]);
    }
    let primitive = &mut json["meshes"][0]["primitives"][0];
    primitive["attributes"] = attributes;
    for name in ["KHR_gaussian_splatting", "CESIUM_gaussian_splatting", "CESIUM_gaussian_splats"] {
        json["meshes"][0]["primitives"][0]["extensions"] = json!({ name: {} });
        json["extensionsRequired"] = json!([name]);
        let found = read(&glb(&json, &draft), "t").unwrap().splats;
        assert_eq!((found.sh_degree, found.len()), (0, 30), "{name}");
        assert_eq!(
            (&found.means, &found.quats, &found.log_scales),
            (&plain.means, &plain.quats, &plain.log_scales)
        );
        for i in 0..30 {
            for k in 0..3 {
                let [a, b] =
                    [&found, &splats].map(|s| sh::colour_from_dc(s.sh_coefficients(i)[k]).clamp(0.0, 1.0));
                assert!((a - b).abs() < 0.6 / 255.0, "{a} {b}");
            }
            let [a, b] = [&found, &splats].map(|s| gausset_core::splats::opacity(s.opacity_logits[i]));
            assert!((a - b).abs() < 0.6 / 255.0, "{a} {b}");
        }
    }
    // An opacity of its own counts more than that of the colour; quantised positions have a factor.
    json["meshes"][0]["primitives"][0]["attributes"]["_OPACITY"] = 4.into();
    json["meshes"][0]["primitives"][0]["extensions"] =
        json!({ "KHR_gaussian_splatting": { "quantizedPositionScale": 2.0 } });
    let found = read(&glb(&json, &draft), "t").unwrap().splats;
    assert_eq!(found.opacity_logits, plain.opacity_logits);
    assert_eq!(found.means[7], plain.means[7].map(|v| 2.0 * v));
}

#[test]
fn an_spz_in_a_buffer_view_of_a_gltf_is_read() {
    let document = SplatFile::new(some_splats(40, 1, 5));
    let options =
        SaveOptions { spz: SpzOptions { version: 3, ..SpzOptions::default() }, ..SaveOptions::default() };
    let mut spz = Vec::new();
    splat::write(&mut spz, &document, Format::Spz, &options).unwrap();
    let [stored, turned] =
        [SpzAxes::AsIs, SpzAxes::Rub].map(|axes| read_with(&spz, "t", Some(axes)).unwrap().splats);
    let accessor = |shape: &str| json!({ "componentType": 5126, "count": 40, "type": shape });
    let of = |extensions: Value, required: &[&str]| {
        json!({
            "asset": { "version": "2.0" }, "extensionsRequired": required, "scene": 0,
            "scenes": [{ "nodes": [0] }], "nodes": [{ "mesh": 0 }],
            "meshes": [{ "primitives": [{
                "attributes": { "POSITION": 0, "COLOR_0": 1, "_SCALE": 2, "_ROTATION": 3 },
                "mode": 0, "extensions": extensions,
            }] }],
            "accessors": [accessor("VEC3"), accessor("VEC4"), accessor("VEC3"), accessor("VEC4")],
            "bufferViews": [{ "buffer": 0, "byteOffset": 4, "byteLength": spz.len() }],
            "buffers": [{ "byteLength": spz.len() + 4 }],
        })
    };
    let binary = [&[0; 4][..], &spz].concat();
    let view = json!({ "bufferView": 0 });
    // Drafts: the axes that are stored are those of glTF.
    for name in ["KHR_spz_gaussian_splats_compression", "KHR_spz_compression"] {
        let json = of(json!({ name: view }), &[name]);
        let found = read(&glb(&json, &binary), "t").unwrap();
        assert_eq!(
            (found.splats.len(), found.splats.sh_degree, found.format),
            (40, 1, Format::Gltf),
            "{name}"
        );
        let [x, y, z] = stored.means[3];
        assert_eq!(found.splats.means[3], [-x, -y, z]);
        // With the axes of the specification of SPZ, as `--spz-frame rub` asks for.
        let found = read_with(&glb(&json, &binary), "t", Some(SpzAxes::Rub)).unwrap();
        assert_eq!(found.splats, turned);
    }
    // Inside the base extension of the release candidate: decoded from RUB, as that specification says.
    for name in ["KHR_gaussian_splatting_compression_spz", "KHR_gaussian_splatting_compression_spz_2"] {
        let base = json!({ "kernel": "ellipse", "extensions": { name: view } });
        let json = of(json!({ "KHR_gaussian_splatting": base }), &["KHR_gaussian_splatting", name]);
        let found = read(&glb(&json, &binary), "t").unwrap();
        assert_eq!(found.splats, turned, "{name}");
    }
    // In two files.
    let folder = files::temporary_folder();
    let mut json = of(json!({ "KHR_spz_gaussian_splats_compression": view }), &[]);
    json["buffers"][0]["uri"] = "a.bin".into();
    std::fs::write(folder.path().join("a.bin"), &binary).unwrap();
    std::fs::write(folder.path().join("a.gltf"), json.to_string()).unwrap();
    let found = splat::load(&folder.path().join("a.gltf"), &LoadOptions::default()).unwrap();
    assert_eq!(found.splats.len(), 40);
    for (key, value) in [("byteLength", 1u64 << 40), ("buffer", 7), ("byteOffset", 1 << 63)] {
        let mut json = of(json!({ "KHR_spz_compression": view }), &[]);
        json["bufferViews"][0][key] = value.into();
        let line = read(&glb(&json, &binary), "t").unwrap_err();
        assert!(line.starts_with("t: SPZ: "), "{line}");
    }
}

#[test]
fn names_with_the_prefixes_of_cloudcompare_are_those_of_splats() {
    let splats = some_splats(12, 3, 4);
    let bytes = written(&SplatFile::new(splats), Format::Ply);
    let plain = read(&bytes, "t").unwrap();
    let end = bytes.windows(11).position(|w| w == b"end_header\n").unwrap();
    let header = std::str::from_utf8(&bytes[..end]).unwrap();
    for prefix in ["scalar_", "scal_", "scalar_scal_"] {
        let renamed: Vec<String> = header
            .lines()
            .map(|line| match line.strip_prefix("property float ") {
                Some(name) if name.len() > 2 => format!("property float {prefix}{name}\n"),
                _ => format!("{line}\n"),
            })
            .collect();
        let found = read(&[renamed.concat().as_bytes(), &bytes[end..]].concat(), "t").unwrap();
        assert_eq!(found.splats, plain.splats, "{prefix}");
    }
}

/// Packs a SOG again, with a folder before the names and other files.
fn repacked(sog: &[u8], folder: &str, others: &[&str]) -> Vec<u8> {
    let mut archive = zip::ZipArchive::new(Cursor::new(sog)).unwrap();
    let mut out = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default();
    for other in others {
        out.start_file(*other, options).unwrap();
        out.write_all(b"\0\x05\x16\x07 {}").unwrap();
    }
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index).unwrap();
        let name = entry.name().unwrap().into_owned();
        out.start_file(format!("{folder}{name}"), options).unwrap();
        std::io::copy(&mut entry, &mut out).unwrap();
    }
    out.finish().unwrap().into_inner()
}

#[test]
fn a_sog_may_be_zipped_in_a_folder() {
    let sog = written(&SplatFile::new(some_splats(25, 1, 6)), Format::Sog);
    let plain = read(&sog, "t").unwrap().splats;
    let mac = ["__MACOSX/._scene", "__MACOSX/scene/._meta.json", "__MACOSX/scene/meta.json", ".DS_Store"];
    for (folder, others) in
        [("scene/", &[][..]), ("scene/", &mac), ("a b/c/", &mac), ("", &mac), ("scene\\", &[])]
    {
        let found = read(&repacked(&sog, folder, others), "t.zip").unwrap();
        assert_eq!(found.splats, plain, "{folder}");
    }
    let line = read(&repacked(&sog, "", &["x/meta.json", "a/meta.json"]), "t").map(|found| found.splats);
    assert_eq!(line, Ok(plain), "the description at the top counts");
    let line = read(&repacked(&sog, "b/", &["a/meta.json"]), "two.zip").unwrap_err();
    let what =
        "several SOGs; unpack it and name one (expected one, found \"a/meta.json\" and \"b/meta.json\")";
    assert_eq!(line, format!("two.zip: zip: {what}"));
    let mut other = zip::ZipWriter::new(Cursor::new(Vec::new()));
    other.start_file("gs_scene.ply", zip::write::SimpleFileOptions::default()).unwrap();
    let line = read(&other.finish().unwrap().into_inner(), "luma.zip").unwrap_err();
    let what = "not a SOG; a file of another format must be unpacked first (expected meta.json, found \"gs_scene.ply\")";
    assert_eq!(line, format!("luma.zip: zip: {what}"));
}

#[test]
fn an_spz_of_version_1_has_half_floats_as_positions() {
    let header = [&b"NGSP"[..], &1u32.to_le_bytes(), &2u32.to_le_bytes(), &[0, 0, 0, 0]].concat();
    let halves = [0x3c00u16, 0xc000, 0x7bff, 0x0000, 0x3800, 0xb800].map(u16::to_le_bytes);
    let rest = [[255, 128].as_slice(), &[128; 6], &[160; 6], &[128; 6]].concat();
    let plain = [&header[..], halves.as_flattened(), &rest].concat();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(&plain).unwrap();
    let found = read(&gzip.finish().unwrap(), "t").unwrap();
    assert_eq!((found.splats.len(), found.version.as_deref()), (2, Some("1")));
    assert_eq!(found.splats.means, [[1.0, -2.0, 65_504.0], [0.0, 0.5, -0.5]]);
    assert_eq!(found.splats.log_scales[1], [0.0; 3]);
    assert!((found.splats.quats[0][0] - 1.0).abs() < 1e-3);
}

#[test]
fn no_writer_writes_a_file_without_splats() {
    let none = [SplatFile::new(Splats::default()), SplatFile::new(Splats::zeros(1, 3))];
    for row in FORMATS.iter().filter(|row| row.format.is_written() && !row.format.is_folder()) {
        for document in &none {
            let error =
                splat::write(&mut Vec::new(), document, row.format, &SaveOptions::default()).unwrap_err();
            let expected = "no splats to write (expected at least one that can be drawn)";
            assert_eq!(error.to_string(), expected, "{}", row.name);
        }
    }
}

#[test]
fn the_last_iteration_in_an_output_folder_of_the_released_code_is_read() {
    let folder = files::temporary_folder();
    let of = |iteration: &str| folder.path().join("point_cloud").join(iteration);
    for (iteration, count) in [("iteration_7000", 3), ("iteration_30000", 5), ("iteration_x", 7)] {
        std::fs::create_dir_all(of(iteration)).unwrap();
        let bytes = written(&SplatFile::new(some_splats(count, 0, 1)), Format::Ply);
        std::fs::write(of(iteration).join("point_cloud.ply"), bytes).unwrap();
    }
    std::fs::create_dir_all(of("iteration_40000")).unwrap();
    let last = of("iteration_30000").join("point_cloud.ply");
    for path in
        [folder.path().to_owned(), folder.path().join("point_cloud"), of("iteration_30000"), last.clone()]
    {
        assert_eq!(splat::file_at(&path), last);
        assert_eq!(splat::load(&path, &LoadOptions::default()).unwrap().splats.len(), 5);
        assert_eq!(splat::recognise(&path), Some(Format::Ply));
    }
    assert_eq!(splat::recognise(&folder.path().join("no")), None);
}

#[test]
fn formats_that_sort_splats_keep_the_sky_apart() {
    let mut splats = some_splats(700, 1, 8);
    splats.means.iter_mut().skip(500).for_each(|mean| *mean = mean.map(|v| 1000.0 * v + 2000.0));
    let document = SplatFile { sky: 200, ..SplatFile::new(splats) };
    for format in [Format::CompressedPly, Format::Sog, Format::Html, Format::Spz, Format::Gltf, Format::Ply] {
        let mut bytes = Vec::new();
        let saved = splat::write(&mut bytes, &document, format, &SaveOptions::default()).unwrap();
        assert!(saved.lost.iter().all(|lost| !lost.contains("sky")), "{format:?}: {:?}", saved.lost);
        let back = read(&bytes, "t").unwrap();
        assert_eq!(back.sky, 200, "{format:?}");
        let distance = |mean: &[f32; 3]| se3::norm(mean.map(f64::from));
        let (scene, sky) = back.splats.means.split_at(500);
        assert!(scene.iter().all(|mean| distance(mean) < 100.0), "{format:?}");
        assert!(sky.iter().all(|mean| distance(mean) > 100.0), "{format:?}");
        if let Some(steps) = saved.positions {
            let sky = steps.sky.unwrap();
            assert!(steps.scene <= sky && steps.to_string().contains(", sky to "), "{format:?}: {steps}");
        }
    }
}
