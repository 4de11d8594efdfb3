//! Damaged and hostile files: an error or splats, never a panic, never more memory than the file justifies.

use crate::memory;

use std::path::Path;

use crate::files::{Numbers, PlyOptions, some_splats, some_state, temporary_folder, write_ply};
use gausset_io::atomic::Disk;
use gausset_io::checkpoint::{parse_train_state, save_train_state};
use gausset_io::splat::{
    self, FORMATS, Format, Initial, ReadLimits, SaveOptions, SplatError, SplatFile, SpzOptions, parse_initial,
};
use gausset_testkit::data_file;

/// Small files of every supported kind.
fn fixtures() -> Vec<(&'static str, Vec<u8>)> {
    let write = |sh_degree, normals| {
        let mut bytes = Vec::new();
        let options = PlyOptions { normals, vertical_axis: Some([0.0, 1.0, 0.0]), ..PlyOptions::default() };
        write_ply(&mut bytes, &some_splats(5, sh_degree, 3), &options).unwrap();
        bytes
    };
    let ascii = "ply\nformat ascii 1.0\nelement path 1\nproperty list uchar int stops\nelement vertex 2\n\
                 property float x\nproperty double y\nproperty int z\nproperty uchar red\nproperty uchar green\n\
                 property uchar blue\nend_header\n3 1 2 3\n0.5 1e3 -7 255 0 128\n-1.25 .5 8 1 2 3\n";
    let mut lists = b"ply\r\nformat binary_big_endian 1.0\r\nelement path 2\r\nproperty short id\r\n\
        property list ushort float stops\r\nelement vertex 2\r\nproperty float x\r\nproperty float y\r\n\
        property double z\r\nend_header\r\n"
        .to_vec();
    lists.extend([0, 7, 0, 2, 1, 2, 3, 4, 5, 6, 7, 8, 0, 8, 0, 0]);
    lists.extend([0x3f; 32]);
    let other = |format, sh_degree, options: &SaveOptions| {
        let mut bytes = Vec::new();
        let document = SplatFile::new(some_splats(5, sh_degree, 3));
        splat::write(&mut bytes, &document, format, options).unwrap();
        bytes
    };
    let usual = SaveOptions::default();
    let spz_3 = SaveOptions { spz: SpzOptions { version: 3, ..SpzOptions::default() }, ..usual };
    vec![
        ("compressed", other(Format::CompressedPly, 1, &usual)),
        (".splat", other(Format::Splat, 0, &usual)),
        ("SPZ 3", other(Format::Spz, 1, &spz_3)),
        ("SPZ 4", other(Format::Spz, 2, &usual)),
        ("GLB", other(Format::Gltf, 0, &usual)),
        ("SOG", other(Format::Sog, 1, &usual)),
        (".ksplat", ksplat()),
        ("degree 0", write(0, false)),
        ("degree 2 with normals", write(2, true)),
        ("ASCII points with a list before them", ascii.as_bytes().to_vec()),
        ("big-endian points behind lists", lists),
    ]
}

/// A .ksplat of level 1 and degree 1: two splats in a full bucket, one in a partial one.
fn ksplat() -> Vec<u8> {
    let mut bytes = vec![0; 4096 + 1024];
    bytes[1] = 1;
    bytes[4] = 1;
    bytes[20] = 1;
    let section = &mut bytes[4096..];
    for (at, value) in [(0, 3), (4, 3), (8, 2), (12, 2), (20, 12), (32, 1), (36, 1), (40, 1)] {
        section[at] = value;
    }
    section[16..20].copy_from_slice(&5.0f32.to_le_bytes());
    bytes.extend(1u32.to_le_bytes());
    bytes.extend([0.5f32, -1.0, 2.0, 0.0, 1.0, 0.0].iter().flat_map(|v| v.to_le_bytes()));
    for splat in 0..3u8 {
        bytes.extend([
            7, 0x70, 9, 0x80, 1, 0x60, 0, 0x2c, 0, 0x30, 0, 0x34, 0, 0x3c, 0, 0x38, splat, 0x34, 0, 0,
        ]);
        bytes.extend([200, 100, 50, 128]);
        bytes.extend([0, 0x30].repeat(9));
    }
    bytes
}

/// Parses hostile bytes; the result must be valid and small.
fn survive(bytes: &[u8], what: &dyn Fn() -> String) {
    let limits = ReadLimits { memory_bytes: 1 << 28 };
    let (result, peak) = memory::peak(|| parse_initial(bytes, Path::new("t.ply"), &limits));
    // The file's values once more as f32, doubled by a growing array, a chunk of rows and the header lines. A quantised
    // value has one byte and becomes four; compressed data may expand a hundredfold, and a decompressor has tables and
    // a window.
    let is_packed = [&b"NGSP"[..], b"PK", &[0x1f, 0x8b]].iter().any(|magic| bytes.starts_with(magic));
    let allowed = if is_packed { 256 * bytes.len() + (10 << 20) } else { 64 * bytes.len() + (64 << 10) };
    assert!(peak <= allowed, "{}: {peak} bytes for {}", what(), bytes.len());
    match result {
        Ok(Initial::Splats(file)) => {
            file.splats.validate().unwrap();
            assert!((0..file.splats.len()).all(|i| file.splats.is_valid(i)), "{}", what());
        }
        Ok(Initial::Points(points)) => {
            assert!(points.positions.iter().flatten().all(|v| v.is_finite()), "{}", what());
            assert!(points.colours.is_none_or(|c| c.len() == points.positions.len()), "{}", what());
        }
        Err(error) => {
            let line = error.to_string();
            assert!(line.starts_with("t.ply: ") && line.len() < 400, "{}: {line}", what());
            assert!(!line.chars().any(char::is_control), "{}: {line:?}", what());
        }
    }
}

#[test]
fn the_fixtures_are_whole() {
    for (name, bytes) in fixtures() {
        let limits = ReadLimits { memory_bytes: 1 << 24 };
        let result = parse_initial(&bytes, Path::new("t.ply"), &limits);
        assert!(result.is_ok(), "{name}: {result:?}");
    }
}

#[test]
fn any_truncation_is_survived() {
    for (name, bytes) in fixtures() {
        for length in 0..bytes.len() {
            survive(&bytes[..length], &|| format!("{name}, cut to {length}"));
        }
    }
    let Some(path) = data_file("any_truncation_is_survived", "splats/os4k/os4k.ply") else { return };
    let bytes = std::fs::read(path).unwrap();
    for i in 0..512 {
        let length = bytes.len() * i / 512;
        survive(&bytes[..length], &|| format!("os4k, cut to {length}"));
    }
}

#[test]
fn an_spz_that_is_cut_off_is_called_truncated_and_one_with_more_bytes_is_not() {
    let (_, bytes) = fixtures().into_iter().find(|(name, _)| *name == "SPZ 4").unwrap();
    let line = |bytes: &[u8]| {
        let limits = ReadLimits { memory_bytes: 1 << 24 };
        parse_initial(bytes, Path::new("t.spz"), &limits).unwrap_err().to_string()
    };
    let all = bytes.len();
    let cut = line(&bytes[..all - 3]);
    let sizes = format!("(expected {all} bytes, found {} bytes)", all - 3);
    assert!(cut.contains("truncated") && cut.ends_with(&sizes), "{cut}");
    let longer = line(&[&bytes[..], &[0; 2]].concat());
    assert!(longer.ends_with(&format!("(expected {all} bytes, found {} bytes)", all + 2)), "{longer}");
}

#[test]
fn any_flipped_bits_are_survived() {
    for (name, bytes) in fixtures() {
        let mut damaged = bytes.clone();
        for bit in 0..8 * bytes.len().min(1024) {
            damaged[bit / 8] ^= 1 << (bit % 8);
            survive(&damaged, &|| format!("{name}, bit {bit}"));
            damaged[bit / 8] = bytes[bit / 8];
        }
        let mut numbers = Numbers(1);
        // Decompression is slow.
        for round in 0..if bytes.len() > 1000 { 500 } else { 5000 } {
            for _ in 0..1 + round % 7 {
                let at = numbers.below(bytes.len());
                damaged[at] = numbers.next() as u8;
            }
            survive(&damaged, &|| format!("{name}, round {round}"));
            damaged.copy_from_slice(&bytes);
        }
    }
}

#[test]
fn hostile_values_are_survived() {
    let words = [0, 1, (1u64 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 63, u64::MAX].map(u64::to_le_bytes);
    let floats = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, 1e38, 1e-42].map(|v| v.to_le_bytes());
    for (name, bytes) in fixtures() {
        let patterns = words.iter().flat_map(|w| [&w[..4], &w[..8]]).chain(floats.iter().map(|f| &f[..]));
        for pattern in patterns {
            for at in 0..bytes.len() - pattern.len() {
                let mut damaged = bytes.clone();
                damaged[at..at + pattern.len()].copy_from_slice(pattern);
                survive(&damaged, &|| format!("{name}, {pattern:?} at {at}"));
            }
        }
    }
}

#[test]
fn counts_that_lie_allocate_nothing() {
    for (name, bytes) in fixtures() {
        let text = String::from_utf8_lossy(&bytes);
        let Some(at) = text.find("element vertex ") else { continue };
        let end = at + text[at..].find(['\r', '\n']).unwrap();
        for count in
            ["0", "1", "1000000", "4294967295", "9223372036854775807", "18446744073709551615", "-1", "1e3"]
        {
            let damaged = [&bytes[..at], b"element vertex ", count.as_bytes(), &bytes[end..]].concat();
            survive(&damaged, &|| format!("{name}, count {count}"));
        }
    }
}

#[test]
fn spliced_files_are_survived() {
    let all = fixtures();
    for (a_name, a) in &all {
        for (b_name, b) in &all {
            for i in 1..8 {
                let spliced = [&a[..a.len() * i / 8], &b[b.len() * i / 8..]].concat();
                survive(&spliced, &|| format!("{i}/8 of {a_name}, rest of {b_name}"));
            }
        }
        survive(&[&a[..], a].concat(), &|| format!("{a_name}, doubled"));
        survive(&[&a[..], &[b' '; 1 << 20]].concat(), &|| format!("{a_name}, a MiB of blanks behind"));
    }
}

/// Files of every format, large enough to distinguish memory for content from constant buffers.
fn large(format: Format) -> Vec<(String, Vec<u8>)> {
    if format == Format::Ksplat {
        return vec![
            ("400,000 splats".to_owned(), plain_ksplat(400_000, 0)),
            ("a million buckets".to_owned(), plain_ksplat(1, 1_000_000)),
        ];
    }
    let mut samples = Vec::new();
    for (count, degree) in [(400_000, 0), (30_000, 3)] {
        let one = some_splats(1, degree, 5);
        for (what, splats) in
            [("equal", one.select(&vec![0; count])), ("different", some_splats(count, degree, 5))]
        {
            let mut bytes = Vec::new();
            splat::write(&mut bytes, &SplatFile::new(splats), format, &SaveOptions::default()).unwrap();
            samples.push((format!("{count} {what} splats of degree {degree}"), bytes));
        }
    }
    if format == Format::Gltf {
        samples.push(("a GLB with 200,000 nodes".to_owned(), glb_with_nodes(200_000)));
    }
    samples
}

/// A .ksplat of level 0 and degree 0, with a table of empty buckets.
fn plain_ksplat(splats: u32, buckets: u32) -> Vec<u8> {
    let mut bytes = vec![0; 4096 + 1024];
    (bytes[1], bytes[4]) = (1, 1);
    for (at, value) in [(0, splats), (4, splats), (20, 12), (36, buckets)] {
        bytes[4096 + at..][..4].copy_from_slice(&value.to_le_bytes());
    }
    bytes.resize(bytes.len() + 4 * buckets as usize, 0);
    let numbers = [0.5f32, 1.0, -1.0, 0.1, 0.1, 0.1, 1.0, 0.0, 0.0, 0.0];
    let mut splat: Vec<u8> = numbers.iter().flat_map(|v| v.to_le_bytes()).collect();
    splat.extend([200, 100, 50, 128]);
    bytes.extend(splat.repeat(splats as usize));
    bytes
}

/// A GLB with empty nodes.
fn glb_with_nodes(nodes: usize) -> Vec<u8> {
    let mut glb = Vec::new();
    splat::write(&mut glb, &SplatFile::new(some_splats(5, 0, 3)), Format::Gltf, &SaveOptions::default())
        .unwrap();
    let length = u32::from_le_bytes(glb[12..16].try_into().unwrap()) as usize;
    let (json, rest) = glb[20..].split_at(length);
    let mut json = String::from_utf8(json.to_vec())
        .unwrap()
        .replace("[{\"mesh\":0}", &format!("[{{\"mesh\":0}}{}", ",{}".repeat(nodes)));
    while !json.len().is_multiple_of(4) {
        json.push(' ');
    }
    let words = [2, (20 + json.len() + rest.len()) as u32, json.len() as u32].map(u32::to_le_bytes);
    [b"glTF", words.as_flattened(), b"JSON", json.as_bytes(), rest].concat()
}

#[test]
fn no_reader_holds_more_than_it_was_checked_for() {
    // Chunks of rows, tables, buffers of the decompressor.
    let always = 2 << 20;
    let mut more = Vec::new();
    for row in FORMATS.iter().filter(|row| !row.format.is_folder()) {
        for (what, bytes) in large(row.format) {
            let read = |memory_bytes| parse_initial(&bytes, Path::new("t"), &ReadLimits { memory_bytes });
            // The first power of two that is enough, then halving: few reads succeed, which are the long ones.
            let mut enough = 1 << 16;
            while matches!(read(enough), Err(SplatError::Memory { .. })) {
                enough *= 2;
            }
            let mut refused = enough / 2;
            while enough - refused > enough / 200 {
                let limit = (refused + enough) / 2;
                match read(limit) {
                    Ok(_) => enough = limit,
                    Err(SplatError::Memory { .. }) => refused = limit,
                    Err(error) => panic!("{}, {what}: {error}", row.name),
                }
            }
            let (_, peak) = memory::peak(|| read(enough));
            let allowed = enough + enough / 10 + always;
            if peak as u64 > allowed {
                more.push(format!("{}, {what}: {peak} bytes, checked for {enough}", row.name));
            }
        }
    }
    assert!(more.is_empty(), "{}", more.join("\n"));
}

#[test]
fn damaged_checkpoints_take_no_more_memory_than_they_are_long() {
    let folder = temporary_folder();
    let path = folder.path().join("a.ckpt");
    save_train_state(&Disk, &path, &some_state(20, 1), &serde_json::json!({"a": [1, 2, 3]})).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let mut numbers = Numbers(2);
    for round in 0..3000 {
        let mut damaged = bytes.clone();
        let at = numbers.below(bytes.len() - 8);
        damaged[at..at + 8].copy_from_slice(&numbers.next().to_le_bytes());
        let (result, peak) = memory::peak(|| parse_train_state(&damaged, Path::new("a.ckpt")));
        assert!(result.is_err() || damaged == bytes, "round {round}");
        assert!(peak <= 4 * bytes.len() + (64 << 10), "round {round}: {peak} bytes");
    }
}
