//! Damaged and hostile files: an error or splats, never a panic, never more memory than the file deserves.

mod files;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::path::Path;

use files::{Numbers, PlyOptions, some_splats, some_state, temporary_folder, write_ply};
use gausset_io::atomic::Disk;
use gausset_io::checkpoint::{parse_train_state, save_train_state};
use gausset_io::splat::{
    self, Document, Format, Initial, ReadLimits, SaveOptions, SpzOptions, parse_initial,
};
use gausset_testkit::data_file;

/// Counts the bytes that each thread holds.
struct Counting;

thread_local! {
    static HELD: Cell<usize> = const { Cell::new(0) };
    static PEAK: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call is passed on to the system's allocator unchanged; the counters do not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD.get() + layout.size();
        HELD.set(held);
        PEAK.set(PEAK.get().max(held));
        // SAFETY: the caller's promise about `layout` is the one that the system's allocator wants.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // Memory may come from another thread: the count must not fall below zero.
        HELD.set(HELD.get().saturating_sub(layout.size()));
        // SAFETY: as above; `pointer` came from `alloc`, which is the system's.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Most bytes held at a time by this thread while `work` ran.
fn peak_of<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = HELD.get();
    PEAK.set(before);
    let result = work();
    (result, PEAK.get() - before)
}

/// Small files of every kind that the reader knows.
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
        let document = Document::new(some_splats(5, sh_degree, 3));
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

/// Parses hostile bytes; whatever comes of it must be sane and cheap.
fn survive(bytes: &[u8], what: &dyn Fn() -> String) {
    let limits = ReadLimits { memory_bytes: 1 << 28 };
    let (result, peak) = peak_of(|| parse_initial(bytes, Path::new("t.ply"), &limits));
    // The file's values once more as f32, doubled by a growing array, a chunk of rows and the header's lines. A quantised
    // value has one byte and becomes four; what is packed may be a hundred times as long, and a packer has tables and a
    // window of its own.
    let is_packed = [&b"NGSP"[..], b"PK", &[0x1f, 0x8b]].iter().any(|magic| bytes.starts_with(magic));
    let allowed = if is_packed { 256 * bytes.len() + (10 << 20) } else { 64 * bytes.len() + (64 << 10) };
    assert!(peak <= allowed, "{}: {peak} bytes for {}", what(), bytes.len());
    match result {
        Ok(Initial::Splats(file)) => {
            file.splats.validate().unwrap();
            assert!((0..file.splats.len()).all(|i| file.splats.is_usable(i)), "{}", what());
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
        let limits = ReadLimits { memory_bytes: 1 << 20 };
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
fn any_flipped_bits_are_survived() {
    for (name, bytes) in fixtures() {
        let mut damaged = bytes.clone();
        for bit in 0..8 * bytes.len().min(1024) {
            damaged[bit / 8] ^= 1 << (bit % 8);
            survive(&damaged, &|| format!("{name}, bit {bit}"));
            damaged[bit / 8] = bytes[bit / 8];
        }
        let mut numbers = Numbers(1);
        // Unpacking takes its time.
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
        let (result, peak) = peak_of(|| parse_train_state(&damaged, Path::new("a.ckpt")));
        assert!(result.is_err() || damaged == bytes, "round {round}");
        assert!(peak <= 4 * bytes.len() + (64 << 10), "round {round}: {peak} bytes");
    }
}
