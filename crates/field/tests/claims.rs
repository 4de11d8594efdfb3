//! Small files that declare huge contents are refused by their headers, before anything is unpacked.
//!
//! Each of these files is damaged after its header: unpacking it would cause another error.

use std::io::{Cursor, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use gausset_field::input::{ReadRequest, decode};

/// Voxels per side that they declare: few enough for any machine, and more than the caller's limit.
const SIDE: u16 = 100;
const MOST: u64 = 1000;

/// Data that cannot be unpacked.
const DAMAGE: [u8; 64] = [0xFF; 64];

/// A gzip stream that is damaged after these bytes and as many zeros as a decoder reads ahead.
fn gzip(head: &[u8]) -> Vec<u8> {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(head).unwrap();
    packed.write_all(&vec![0; 1 << 20]).unwrap();
    packed.flush().unwrap();
    [packed.get_ref(), &DAMAGE[..]].concat()
}

/// A NIfTI-1 header: 16-bit numbers, in the same file or a separate one.
fn nifti(magic: [u8; 4]) -> Vec<u8> {
    let mut header = vec![0; 352];
    header[..4].copy_from_slice(&348i32.to_le_bytes());
    for (at, word) in [(40, 3), (42, SIDE), (44, SIDE), (46, SIDE), (70, 4), (72, 16)] {
        header[at..at + 2].copy_from_slice(&word.to_le_bytes());
    }
    header[108..112].copy_from_slice(&352f32.to_le_bytes());
    header[344..348].copy_from_slice(&magic);
    header
}

fn nrrd(encoding: &str, more: &str) -> Vec<u8> {
    let header = format!(
        "NRRD0004\ntype: uchar\ndimension: 3\nsizes: {SIDE} {SIDE} {SIDE}\nencoding: {encoding}\n{more}\n"
    );
    [header.as_bytes(), &DAMAGE].concat()
}

/// The header of an array.
fn npy(shape: &str) -> Vec<u8> {
    let text = format!("{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}");
    [b"\x93NUMPY\x01\x00", &(text.len() as u16).to_le_bytes()[..], text.as_bytes()].concat()
}

/// An archive of an array whose bytes are damaged after its header.
fn npz(shape: &str) -> Vec<u8> {
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
    archive.start_file("volume.npy", zip::write::SimpleFileOptions::default()).unwrap();
    archive.write_all(&npy(shape)).unwrap();
    archive.write_all(&vec![7; 8_000_000]).unwrap();
    let mut bytes = archive.finish().unwrap().into_inner();
    let directory = bytes.windows(4).rposition(|mark| mark == b"PK\x01\x02").unwrap();
    bytes[directory - 300..directory - 100].fill(0xFF);
    bytes
}

/// Pages that share one damaged strip.
fn tiff(compression: u32) -> Vec<u8> {
    let mut bytes = [b"II*\0", &72u32.to_le_bytes()[..], &DAMAGE].concat();
    for page in 1..=SIDE {
        let side = u32::from(SIDE);
        let entries = [
            (256, side),
            (257, side),
            (258, 8),
            (259, compression),
            (262, 1),
            (273, 8),
            (277, 1),
            (278, side),
            (279, DAMAGE.len() as u32),
        ];
        bytes.extend((entries.len() as u16).to_le_bytes());
        for (tag, value) in entries {
            bytes.extend([tag, 4u16].map(u16::to_le_bytes).concat());
            bytes.extend([1, value].map(u32::to_le_bytes).concat());
        }
        let next = if page < SIDE { bytes.len() as u32 + 4 } else { 0 };
        bytes.extend(next.to_le_bytes());
    }
    bytes
}

/// Every supported packing, as small files that declare 100^3 voxels.
fn files() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("a.nii.gz", gzip(&nifti(*b"n+1\0"))),
        ("a.hdr.gz", gzip(&nifti(*b"ni1\0"))),
        ("a.nrrd", nrrd("gzip", "")),
        ("a.nrrd", nrrd("bzip2", "")),
        ("a.nhdr", nrrd("gzip", "data file: a.raw.gz\n")),
        ("a.npz", npz("(100, 100, 100)")),
        ("a.npz", npz("(1000000, 4)")),
        ("a.tif", tiff(5)),
        ("a.tif", tiff(8)),
        ("a.tif", tiff(32773)),
    ]
}

#[test]
fn a_small_file_that_claims_to_be_huge_is_refused_before_it_is_unpacked() {
    let wanted = ReadRequest { max_samples: MOST, ..ReadRequest::default() };
    let expected = "samples: too many for the memory of this machine (expected at most 1000, found 1000000)";
    for (name, bytes) in files() {
        assert!(bytes.len() < 20_000, "{name}: {} bytes", bytes.len());
        let beside = |file: &str| panic!("{name}: {file} is read");
        let line = decode(name, &bytes, &wanted, &beside).map(|_| name).unwrap_err().to_string();
        assert_eq!(line, expected, "{name}");
        // With a sufficient limit, it is unpacked and found to be damaged.
        let unpacked = decode(name, &bytes, &ReadRequest::default(), &|_| Ok(DAMAGE.to_vec()));
        let line = unpacked.map(|_| name).unwrap_err().to_string();
        assert!(!line.contains("too many"), "{name}: {line}");
    }
}

#[test]
fn no_format_is_read_on_once_the_flag_is_set() {
    let stop = AtomicBool::new(true);
    let wanted = ReadRequest { stop: &stop, ..ReadRequest::default() };
    let cube = "NRRD0004\ntype: uchar\ndimension: 3\nsizes: 1 1 2\nencoding:";
    let mut files = files();
    files.push(("a.csv", b"0,0,0,1\n1,1,1,2\n".to_vec()));
    files.push(("a.nrrd", format!("{cube} ascii\n\n1 2").into_bytes()));
    files.push(("a.npy", [npy("(1, 1, 2)"), vec![0; 16]].concat()));
    files.push(("a.nrrd", format!("{cube} raw\n\n12").into_bytes()));
    for (name, bytes) in files {
        let beside = |_: &str| Ok(DAMAGE.to_vec());
        let line = decode(name, &bytes, &wanted, &beside).map(|_| name).unwrap_err().to_string();
        assert!(line.contains("stopped"), "{name}: {line}");
    }
    stop.store(false, Ordering::Relaxed);
    assert!(decode("a.csv", b"0,0,0,1\n1,1,1,2\n", &wanted, &|_| Ok(Vec::new())).is_ok());
}
