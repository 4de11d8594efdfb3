//! Containers and checkpoints: exact round trips, and damage of every kind is detected and reported.

use std::io::Cursor;
use std::path::Path;

use crate::files::{Numbers, same_bits, some_state, temporary_folder};
use gausset_core::engine::{CorrectionKind, TrainState};
use gausset_io::atomic::Disk;
use gausset_io::checkpoint::{load_train_state, parse_train_state, save_train_state};
use gausset_io::container::{ContainerError, ContainerReader, ContainerWriter, Element, Requirement};
use proptest::prelude::*;
use serde_json::{Value, json};

/// The bytes of a checkpoint of a few splats.
fn checkpoint_bytes(splats: usize) -> Vec<u8> {
    let folder = temporary_folder();
    let path = folder.path().join("a.ckpt");
    save_train_state(&Disk, &path, &some_state(splats, 3), &json!({"step": 7})).unwrap();
    std::fs::read(path).unwrap()
}

fn parse(bytes: &[u8]) -> Result<(TrainState, Value), String> {
    parse_train_state(bytes, Path::new("run/a.ckpt")).map_err(|e| e.to_string())
}

/// The error of damaged bytes, which must be one line with file and position.
fn assert_detected(bytes: &[u8], what: &str) -> String {
    let Err(line) = parse(bytes) else { panic!("not detected: {what}") };
    assert!(line.starts_with("run/a.ckpt: ") && !line.contains('\n'), "{what}: {line}");
    line
}

#[test]
fn a_state_comes_back_to_the_bit() {
    let folder = temporary_folder();
    let path = folder.path().join("a.ckpt");
    // The header's floats must survive bit by bit as well; this one needs 17 digits.
    let header = json!({"step": u64::MAX, "rate": 0.1 + 0.2, "tiny": 5e-324, "cursor": [3, 1, 2]});
    for splats in [1, 300] {
        let state = some_state(splats, 11);
        let committed = save_train_state(&Disk, &path, &state, &header).unwrap();
        assert_eq!(committed.bytes, std::fs::metadata(&path).unwrap().len());
        let (loaded, loaded_header) = load_train_state(&path).unwrap();
        assert!(same_bits(&loaded, &state));
        assert_eq!(loaded_header, header);
    }
    let empty = TrainState::new(gausset_core::Splats::zeros(0, 0), Vec::new());
    save_train_state(&Disk, &path, &empty, &Value::Null).unwrap();
    assert_eq!(load_train_state(&path).unwrap(), (empty, Value::Null));
}

#[test]
fn equal_states_give_equal_bytes() {
    assert_eq!(checkpoint_bytes(5), checkpoint_bytes(5));
}

#[test]
fn every_truncation_is_detected() {
    let bytes = checkpoint_bytes(2);
    for length in 0..bytes.len() {
        assert_detected(&bytes[..length], &format!("cut to {length}"));
    }
}

#[test]
fn every_flipped_bit_is_detected() {
    let bytes = checkpoint_bytes(1);
    let mut damaged = bytes.clone();
    for byte in 0..bytes.len() {
        for bit in 0..8 {
            damaged[byte] ^= 1 << bit;
            assert_detected(&damaged, &format!("bit {bit} of byte {byte}"));
            damaged[byte] = bytes[byte];
        }
    }
    assert!(parse(&damaged).is_ok());
}

#[test]
fn hostile_numbers_splices_and_appended_bytes_are_detected() {
    let bytes = checkpoint_bytes(2);
    let words: [u64; 7] = [0, 1, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 63, u64::MAX];
    for word in words {
        for size in [4, 8] {
            for at in (0..bytes.len() - size).step_by(size) {
                let mut damaged = bytes.clone();
                damaged[at..at + size].copy_from_slice(&word.to_le_bytes()[..size]);
                if damaged != bytes {
                    assert_detected(&damaged, &format!("{word} at {at}"));
                }
            }
        }
    }
    let other = checkpoint_bytes(3);
    let half = bytes.len() / 2;
    for (what, damaged) in [
        ("doubled", [&bytes[..], &bytes].concat()),
        ("no body", [&bytes[..200], &bytes[bytes.len() - 56..]].concat()),
        ("head of one, rest of another", [&other[..half], &bytes[half..]].concat()),
        ("one byte behind", [&bytes[..], &[0]].concat()),
        ("a MiB behind", [&bytes[..], &vec![0x5a; 1 << 20]].concat()),
        ("shuffled", {
            let mut numbers = Numbers(5);
            let mut shuffled = bytes.clone();
            for i in (1..shuffled.len()).rev() {
                shuffled.swap(i, numbers.below(i + 1));
            }
            shuffled
        }),
    ] {
        assert_detected(&damaged, what);
    }
}

/// A container with one section, modified before its checksums are recomputed: a deliberate forgery.
fn forged(change: impl Fn(&mut Vec<u8>)) -> String {
    let mut bytes = ContainerWriter::new(Vec::new(), &json!({"a": 1}))
        .and_then(|mut w| {
            w.section("floats", Requirement::Optional, &[1.0f32, 2.0])?;
            w.finish()
        })
        .unwrap();
    change(&mut bytes);
    let footer = bytes.len() - 56;
    let word = |at: usize, bytes: &[u8]| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let (table, table_bytes) = (word(footer, &bytes) as usize, word(footer + 8, &bytes) as usize);
    let header_bytes = u32::from_le_bytes(bytes[16..20].try_into().unwrap()) as usize;
    let hash = |range: Option<&[u8]>| xxhash_rust::xxh3::xxh3_64(range.unwrap_or_default()).to_le_bytes();
    let header_hash = hash(bytes.get(..24 + header_bytes));
    let table_hash = hash(bytes.get(table..table.saturating_add(table_bytes)));
    bytes[footer + 24..footer + 32].copy_from_slice(&header_hash);
    bytes[footer + 32..footer + 40].copy_from_slice(&table_hash);
    let footer_hash = hash(bytes.get(footer..footer + 40));
    bytes[footer + 40..footer + 48].copy_from_slice(&footer_hash);
    match open(bytes) {
        Ok(mut reader) => match reader.section::<f32>("floats") {
            Ok(values) => format!("{values:?}"),
            Err(e) => e.to_string(),
        },
        Err(e) => e.to_string(),
    }
}

fn open(bytes: Vec<u8>) -> Result<ContainerReader<Cursor<Vec<u8>>>, ContainerError> {
    ContainerReader::from_source(Cursor::new(bytes), Path::new("f.ckpt"))
}

/// Sizes of the parts of [`forged`]'s container: 24 preamble, 7 header, 8 data, 33 table, 56 footer.
const TABLE: usize = 24 + 7 + 8;
const FOOTER: usize = TABLE + 33;

#[test]
fn every_error_is_one_line_with_place_expectation_and_finding() {
    let lines = [
        ("as written", forged(|_| {})),
        ("magic", forged(|b| b[0] = b'X')),
        ("version", forged(|b| b[8] = 2)),
        ("required flags", forged(|b| b[12] = 4)),
        ("reserved", forged(|b| b[20] = 1)),
        ("header size", forged(|b| b[18] = 0xff)),
        ("header text", forged(|b| b[24] = b'[')),
        ("total", forged(|b| b[FOOTER + 16] += 1)),
        ("end mark", forged(|b| *b.last_mut().unwrap() = b'x')),
        ("table offset", forged(|b| b[FOOTER] += 1)),
        ("table size", forged(|b| b[FOOTER + 12] = 1)),
        ("name length", forged(|b| b[TABLE] = 200)),
        ("name text", forged(|b| b[TABLE + 1] = 0xff)),
        ("kind", forged(|b| b[TABLE + 7] = 9)),
        ("kind, required", forged(|b| (b[TABLE + 7], b[TABLE + 8]) = (9, 1))),
        ("section flags", forged(|b| b[TABLE + 8] = 2)),
        ("section offset", forged(|b| b[TABLE + 9] += 4)),
        ("section size", forged(|b| b[TABLE + 17 + 7] = 0xff)),
        ("section size, smaller", forged(|b| b[TABLE + 17] -= 1)),
        ("section data", forged(|b| b[TABLE - 1] ^= 1)),
        ("cut off", open(vec![b'G'; 10]).err().map(|e| e.to_string()).unwrap_or_default()),
        ("empty", open(Vec::new()).err().map(|e| e.to_string()).unwrap_or_default()),
    ];
    let found: String = lines.iter().map(|(what, line)| format!("{what}: {line}\n")).collect();
    let expected = "\
as written: [1.0, 2.0]
magic: f.ckpt: first bytes: not a checkpoint (expected \"GAUSSETC\", found \"XAUSSETC\")
version: f.ckpt: format version: unknown (expected 1, found 2); use the version of gausset that wrote it
required flags: f.ckpt: required flags: requires a feature that this version does not know (found 0x4); use a newer gausset
reserved: f.ckpt: preamble: the file is truncated or damaged (expected 0 in its last four bytes, found 1)
header size: f.ckpt: preamble: the file is truncated or damaged (expected a header of at most 48 bytes, found 16711687)
header text: f.ckpt: header: not JSON (expected an object, found an error: expected `,` or `]` at line 1 column 5)
total: f.ckpt: footer: the file is truncated or damaged (expected 129 bytes, found 128 bytes)
end mark: f.ckpt: footer: the file is truncated or damaged (expected the end mark \"GSETCEND\", found \"GSETCENx\" at byte 120)
table offset: f.ckpt: section table: the file is truncated or damaged (expected its end at byte 72, found 33 bytes at 40)
table size: f.ckpt: section table: the file is truncated or damaged (expected its end at byte 72, found 4294967329 bytes at 39)
name length: f.ckpt: section table entry 0: the file is truncated or damaged (expected 226 bytes, found 32 bytes)
name text: f.ckpt: section table entry 0: the file is truncated or damaged (expected a name in UTF-8, found \\xffloats)
kind: f.ckpt: section \"floats\": does not fit (expected values of type f32, found an unknown type)
kind, required: f.ckpt: section table entry 0: requires a feature that this version does not know (found an unknown type of values in \"floats\"); use a newer gausset
section flags: f.ckpt: section table entry 0: requires a feature that this version does not know (found section flags 0x2); use a newer gausset
section offset: f.ckpt: section table entry 0: the file is truncated or damaged (expected data from byte 31 up to 39, found 8 bytes at 35)
section size: f.ckpt: section table entry 0: the file is truncated or damaged (expected data from byte 31 up to 39, found 18374686479671623688 bytes at 31)
section size, smaller: f.ckpt: section table: the file is truncated or damaged (expected sections up to byte 39, found sections up to byte 38)
section data: f.ckpt: section \"floats\": the file is damaged (expected checksum 4de8d78f7134f4b7, found 1761eb6f5468f7eb)
cut off: f.ckpt: preamble: the file is truncated or damaged (expected at least 24 bytes, found 10 bytes)
empty: f.ckpt: preamble: the file is truncated or damaged (expected at least 24 bytes, found 0 bytes)
";
    assert_eq!(found, expected);
}

#[test]
fn unknown_sections_are_skipped_unless_they_are_required() {
    let with = |need| {
        let mut w = ContainerWriter::new(Vec::new(), &Value::Null).unwrap();
        w.section("known", Requirement::Required, &[1u32]).unwrap();
        w.section("from the future", need, &[1u8, 2, 3]).unwrap();
        open(w.finish().unwrap()).unwrap()
    };
    assert!(with(Requirement::Optional).refuse_unknown(|name| name == "known").is_ok());
    assert_eq!(
        with(Requirement::Required).refuse_unknown(|name| name == "known").unwrap_err().to_string(),
        "f.ckpt: section table: requires a feature that this version does not know (found the required section \"from \
         the future\"); use a newer gausset"
    );
}

#[test]
fn sections_are_asked_for_by_name_and_type() {
    let mut w = ContainerWriter::new(Vec::new(), &Value::Null).unwrap();
    w.section("floats", Requirement::Required, &[1.0f32, 2.0]).unwrap();
    assert!(w.section("floats", Requirement::Required, &[0u8]).is_err(), "a name twice");
    assert!(w.section("", Requirement::Required, &[0u8]).is_err(), "no name");
    let mut reader = open(w.finish().unwrap()).unwrap();
    let line = |e: ContainerError| e.to_string();
    assert_eq!(
        reader.section::<u32>("floats").map_err(line),
        Err("f.ckpt: section \"floats\": does not fit (expected values of type u32, found f32)".to_owned())
    );
    assert_eq!(
        reader.section::<[f32; 3]>("floats").map_err(line),
        Err("f.ckpt: section \"floats\": does not fit (expected a multiple of 12 bytes, found 8 bytes)"
            .to_owned())
    );
    assert_eq!(
        reader.section::<f32>("nothing").map_err(line),
        Err("f.ckpt: section \"nothing\": does not fit (expected to find it, found no such section)"
            .to_owned())
    );
}

#[test]
fn a_header_of_more_than_a_mebibyte_is_not_written() {
    let text = Value::String("x".repeat(1 << 20));
    let Err(error) = ContainerWriter::new(Vec::new(), &text) else { panic!("accepted") };
    assert_eq!(error.to_string(), "header is too large (expected at most 1048576 bytes, found 1048578)");
}

#[test]
fn a_state_whose_arrays_do_not_fit_is_neither_saved_nor_loaded() {
    let folder = temporary_folder();
    let path = folder.path().join("a.ckpt");
    let line = |state: &TrainState| {
        let error = save_train_state(&Disk, &path, state, &Value::Null).unwrap_err().to_string();
        assert!(!path.exists());
        error.replace(&path.display().to_string(), "a.ckpt")
    };
    let mut state = some_state(3, 1);
    state.ids.pop();
    assert_eq!(line(&state), "a.ckpt: ids: not a training state (expected 3 values, found 2)");
    let mut state = some_state(3, 1);
    state.moments.v.means.pop();
    assert_eq!(
        line(&state),
        "a.ckpt: moments.v: not a training state (expected arrays that fit, found array `log_scales` has 3 values \
         (expected 2))"
    );
    let mut state = some_state(3, 1);
    state.corrections[1].values.pop();
    assert_eq!(line(&state), "a.ckpt: extras.1.values: not a training state (expected 12 values, found 17)");

    let other = ContainerWriter::new(Vec::new(), &json!({"kind": "a cake"}))
        .and_then(ContainerWriter::finish)
        .unwrap();
    assert_eq!(
        parse(&other).err().unwrap_or_default(),
        "run/a.ckpt: header field kind: not a training state (expected \"gausset training state\", found \"a cake\")"
    );
}

#[test]
fn groups_of_corrections_have_the_names_that_checkpoints_have_had() {
    let names = ["gains", "vignetting", "pose", "sky"];
    assert_eq!(CorrectionKind::ALL.map(CorrectionKind::name), names);
    assert_eq!(names.map(CorrectionKind::from_name), CorrectionKind::ALL.map(Some));
    let with = |name: &str, width: u32| {
        let extras = json!([{"name": name, "width": width}]);
        let state = json!({"sh_degrees": [0, 0, 0], "group_clock": 0, "next_id": 0, "extras": extras});
        let header = json!({"kind": "gausset training state", "caller": null, "state": state});
        let file = ContainerWriter::new(Vec::new(), &header).and_then(ContainerWriter::finish).unwrap();
        parse(&file).err().unwrap_or_default()
    };
    assert_eq!(
        with("fog", 3),
        "run/a.ckpt: extras: not a training state (expected one of gains, vignetting, pose, sky, found \"fog\")"
    );
    assert_eq!(
        with("pose", 5),
        "run/a.ckpt: extras: not a training state (expected 6 values in a row of pose, found 5)"
    );
    // The error must not be about the known name and width.
    assert!(with("pose", 6).contains("splats.means"), "{}", with("pose", 6));
}

fn round_trip<T: Element + PartialEq + std::fmt::Debug>(values: &[T]) {
    let mut w = ContainerWriter::new(Vec::new(), &Value::Null).unwrap();
    w.section("empty", Requirement::Optional, &[0u8; 0]).unwrap();
    w.section("values", Requirement::Optional, values).unwrap();
    let found: Vec<T> = open(w.finish().unwrap()).unwrap().section("values").unwrap();
    assert_eq!(bytemuck::cast_slice::<T, u8>(&found), bytemuck::cast_slice::<T, u8>(values));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_section_comes_back(bytes: Vec<u8>, words: Vec<u32>, rows: Vec<[u32; 3]>) {
        round_trip(&bytes);
        round_trip(&words);
        // Arbitrary bits as floats, including NaN.
        let rows: Vec<[f32; 3]> = rows.into_iter().map(|row| row.map(f32::from_bits)).collect();
        round_trip(&rows);
    }

    #[test]
    fn any_bytes_are_an_error_and_no_panic(bytes: Vec<u8>, start in 0usize..80) {
        let whole = checkpoint_bytes(1);
        prop_assert!(parse(&bytes).is_err());
        prop_assert!(parse(&[&whole[..start.min(whole.len())], &bytes].concat()).is_err());
    }
}
