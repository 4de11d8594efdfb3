//! PLY files: values survive bit by bit, and files of other programs are accepted.

use std::path::Path;

use crate::files::{PlyOptions, bits, save_ply, some_splats, temporary_folder, write_ply};
use gausset_core::splats_transform::{Similarity, rotation_between};
use gausset_core::{Splats, sh};
use gausset_io::atomic::{Disk, Overwrite, WriteError, WriteOptions};
use gausset_io::dataset::georeference::EarthPlace;
use gausset_io::splat::{
    self, Format, Initial, LoadOptions, PointCloud, ReadLimits, SaveOptions, SplatFile, parse_initial,
};
use gausset_testkit::data_file;
use proptest::prelude::*;

const LIMITS: ReadLimits = ReadLimits { memory_bytes: 1 << 30 };

fn parse(bytes: &[u8]) -> Result<Initial, String> {
    parse_initial(bytes, Path::new("t.ply"), &LIMITS).map_err(|e| e.to_string())
}

fn splats(bytes: &[u8]) -> SplatFile {
    match parse(bytes) {
        Ok(Initial::Splats(file)) => file,
        other => panic!("{other:?}"),
    }
}

fn points(bytes: &[u8]) -> PointCloud {
    match parse(bytes) {
        Ok(Initial::Points(points)) => points,
        other => panic!("{other:?}"),
    }
}

fn written(splats: &Splats, options: &PlyOptions) -> Vec<u8> {
    let mut bytes = Vec::new();
    let said = write_ply(&mut bytes, splats, options).unwrap();
    assert_eq!(said.bytes, bytes.len() as u64);
    bytes
}

/// Names of the properties of a degree-0 splat, in the usual order.
const NAMES: [&str; 14] = [
    "x", "y", "z", "f_dc_0", "f_dc_1", "f_dc_2", "opacity", "scale_0", "scale_1", "scale_2", "rot_0",
    "rot_1", "rot_2", "rot_3",
];

/// Values of one splat that are exact in every number type of PLY with 16 bits or more.
const VALUES: [f32; 14] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0];

fn splat_of_values() -> Splats {
    let mut splats = Splats::with_capacity(0, 1);
    splats.push([1.0, 2.0, 3.0], [8.0, 9.0, 10.0], [11.0, 12.0, 13.0, 14.0], 7.0, &[4.0, 5.0, 6.0]);
    splats
}

/// An ASCII file of one row with these columns.
fn ascii(columns: &[(&str, &str, &str)]) -> Vec<u8> {
    let properties: String =
        columns.iter().map(|(kind, name, _)| format!("property {kind} {name}\n")).collect();
    let values: Vec<&str> = columns.iter().map(|(_, _, value)| *value).collect();
    format!("ply\nformat ascii 1.0\nelement vertex 1\n{properties}end_header\n{}\n", values.join(" "))
        .into_bytes()
}

/// The columns of the standard splat as text, to modify some of them.
fn columns() -> Vec<(&'static str, &'static str, &'static str)> {
    const TEXT: [&str; 14] = ["1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14"];
    NAMES.iter().zip(TEXT).map(|(name, value)| ("float", *name, value)).collect()
}

fn without(name: &str) -> Vec<(&'static str, &'static str, &'static str)> {
    columns().into_iter().filter(|(_, n, _)| *n != name).collect()
}

#[test]
fn parts_are_written_as_one_document() {
    let folder = temporary_folder();
    let splats = some_splats(50, 1, 7);
    let document = |splats: Splats| SplatFile { sky: 10, antialiased: true, ..SplatFile::new(splats) };
    let options = WriteOptions { overwrite: Overwrite::Replace, ..WriteOptions::default() };
    let [whole, joined] = ["whole.ply", "joined.ply"].map(|name| folder.path().join(name));
    splat::save(&Disk, &whole, &document(splats.clone()), &SaveOptions::default(), &options).unwrap();
    let none = document(Splats::with_capacity(1, 0));
    let part = |range: std::ops::Range<usize>| Ok(splats.select(&range.collect::<Vec<_>>()));
    let save = |count: u64, parts: Vec<Result<Splats, WriteError>>| {
        splat::save_ply_in_parts(&Disk, &joined, &none, count, parts, &options).map_err(|e| e.to_string())
    };
    let saved = save(50, vec![part(0..20), part(20..20), part(20..50)]).unwrap();
    let bytes = std::fs::read(&joined).unwrap();
    assert_eq!((saved.splats, saved.bytes), (50, bytes.len() as u64));
    assert!(bytes == std::fs::read(&whole).unwrap());

    let refused = [
        (save(50, vec![part(0..20)]), "expected 50 splats, found 20"),
        (save(0, vec![]), "no splats to write"),
        (save(1, vec![Ok(some_splats(1, 0, 7))]), "expected 1, found 0"),
        (
            save(
                50,
                vec![
                    part(0..20),
                    Err(WriteError::Exists { path: joined.clone(), found: "a file".to_owned() }),
                ],
            ),
            "found a file",
        ),
    ];
    for (refused, why) in refused {
        let told = refused.unwrap_err();
        assert!(told.contains(why), "{told}");
    }
    assert!(bytes == std::fs::read(&joined).unwrap(), "a failed write leaves the file as it was");
}

#[test]
fn the_written_header_is_the_inria_layout() {
    let options =
        PlyOptions { antialiased: true, vertical_axis: Some([0.0, -1.0, 0.25]), ..PlyOptions::default() };
    let bytes = written(&some_splats(2, 1, 1), &options);
    let end = bytes.windows(11).position(|w| w == b"end_header\n").unwrap() + 11;
    let version = env!("CARGO_PKG_VERSION");
    let expected = format!(
        "ply\nformat binary_little_endian 1.0\ncomment Generated by gausset {version}\ncomment SplatRenderMode: mip\n\
         comment Vertical axis: 0 -1 0.25\nelement vertex 2\n"
    );
    let mut names: Vec<String> = ["x", "y", "z", "nx", "ny", "nz"].map(str::to_owned).into();
    names.extend((0..3).map(|i| format!("f_dc_{i}")));
    names.extend((0..9).map(|i| format!("f_rest_{i}")));
    names.extend(
        ["opacity", "scale_0", "scale_1", "scale_2", "rot_0", "rot_1", "rot_2", "rot_3"].map(str::to_owned),
    );
    let properties: String = names.iter().map(|n| format!("property float {n}\n")).collect();
    assert_eq!(std::str::from_utf8(&bytes[..end]).unwrap(), expected + &properties + "end_header\n");
    assert_eq!(bytes.len() - end, 2 * 4 * names.len());
    assert!(end < 4096, "programs that look for the end of the header stop there");
}

#[test]
fn the_last_splats_are_a_sky_if_a_comment_says_so() {
    let mut splats = some_splats(5, 0, 1);
    let options = PlyOptions { sky: 3, ..PlyOptions::default() };
    let bytes = written(&splats, &options);
    assert!(String::from_utf8_lossy(&bytes).contains("\ncomment gausset sky 3 of 5\n"));
    let file = self::splats(&bytes);
    assert_eq!((file.sky, file.scene_len()), (3, 2));
    assert_eq!(file.scene().means, file.splats.means[..2]);
    // Unusable splats are neither written nor counted, on either side of the sky's first splat.
    splats.means[1][0] = f32::NAN;
    splats.means[4][0] = f32::NAN;
    let file = self::splats(&written(&splats, &options));
    assert_eq!((file.sky, file.scene_len()), (2, 1));
    // The reader drops the same splats if another program wrote them: the column x of the rows is overwritten.
    let mut damaged = bytes.clone();
    let row = (bytes.len() - (bytes.windows(11).position(|w| w == b"end_header\n").unwrap() + 11)) / 5;
    for i in [1, 4] {
        let x = bytes.len() - (5 - i) * row;
        damaged[x..x + 4].copy_from_slice(&f32::NAN.to_le_bytes());
    }
    let file = self::splats(&damaged);
    assert_eq!((file.sky, file.scene_len()), (2, 1));
    // More than there are, or not a number: a third-party comment.
    let digit = bytes.windows(13).position(|w| w == b"gausset sky 3").unwrap() + 12;
    for other in [b'6', b'x', b'-'] {
        let mut bytes = bytes.clone();
        bytes[digit] = other;
        assert_eq!(self::splats(&bytes).sky, 0, "{other}");
    }
    // Another program took rows away, and kept the comment; older files have no total.
    let text = |old: &str, new: &str| {
        let at = bytes.windows(old.len()).position(|part| part == old.as_bytes()).unwrap();
        let (before, after) = (&bytes[..at], &bytes[at + old.len()..]);
        self::splats(&[before, new.as_bytes(), after].concat())
    };
    assert_eq!(text("element vertex 5", "element vertex 4").sky, 0);
    assert_eq!(text("sky 3 of 5", "sky 3").sky, 3);
}

#[test]
fn how_splats_stand_to_the_cameras_of_their_dataset_is_kept_to_the_bit() {
    let turn = rotation_between([0.3, -0.9, 0.2], [0.0, -1.0, 0.0]);
    let moved =
        Similarity { scale: 0.1, translation: [1.0 / 3.0, -2e-9, 4e10], ..Similarity::from_rotation(turn) };
    let mut document = SplatFile::new(splat_of_values());
    document.transform(&moved);
    for format in [Format::Ply, Format::CompressedPly] {
        let mut bytes = Vec::new();
        splat::write(&mut bytes, &document, format, &SaveOptions::default()).unwrap();
        assert_eq!(splats(&bytes).saved_from_dataset, Some(moved));
        // Lines that are not a similarity are ignored.
        let text = String::from_utf8_lossy(&bytes[..2000.min(bytes.len())]).into_owned();
        let line = text.lines().find(|line| line.contains("saved_from_dataset")).unwrap();
        let start = bytes.windows(line.len()).position(|w| w == line.as_bytes()).unwrap() + 35;
        for other in [*b"-", *b"x"] {
            let mut bytes = bytes.clone();
            bytes[start..=start].copy_from_slice(&other);
            assert_eq!(splats(&bytes).saved_from_dataset, None, "{}", other[0] as char);
        }
    }
    // Two transforms are composed.
    document.transform(&moved.inverse());
    let there = document.saved_from_dataset.unwrap().apply([1.0, 2.0, 3.0]);
    assert!((0..3).all(|k| (there[k] - [1.0, 2.0, 3.0][k]).abs() < 1e-4), "{there:?}");
    assert!(document.with_splats(Splats::default(), 0).saved_from_dataset.is_some());
    // Other formats report the loss.
    let mut bytes = Vec::new();
    let saved = splat::write(&mut bytes, &document, Format::Splat, &SaveOptions::default()).unwrap();
    assert!(saved.lost.iter().any(|what| what.contains("cameras")), "{:?}", saved.lost);
}

#[test]
fn red_green_and_blue_stand_one_after_the_other_in_the_file() {
    // Golden: at degree 3, f_rest_17 is green, coefficient 3.
    let mut splats = Splats::zeros(3, 1);
    splats.quats[0] = [1.0, 0.0, 0.0, 0.0];
    splats.sh[3 * 3 + 1] = 0.75;
    let bytes = written(&splats, &PlyOptions::default());
    let row = &bytes[bytes.len() - 248..];
    let value = |column: usize| f32::from_le_bytes(row[4 * column..4 * column + 4].try_into().unwrap());
    let nonzero: Vec<(usize, f32)> = (0..62).map(|c| (c, value(c))).filter(|(_, v)| *v != 0.0).collect();
    // Nine columns before f_rest_0; rot_0 is the fourth from the end.
    assert_eq!(nonzero, [(9 + 17, 0.75), (58, 1.0)]);
}

#[test]
fn a_file_of_another_program_is_read_to_its_check_values() {
    let test = "a_file_of_another_program_is_read_to_its_check_values";
    let Some(path) = data_file(test, "splats/os4k/os4k.ply") else { return };
    let file = splat::load(&path, &LoadOptions::default()).unwrap();
    let s = &file.splats;
    assert_eq!((s.len(), file.sh_degree, s.sh_degree, file.antialiased), (4000, 3, 3, false));
    assert!(file.report.lines(&path).is_empty());

    let near = |found: f64, expected: f64| assert!((found - expected).abs() < 5.1e-7, "{found} {expected}");
    let mean = |f: &dyn Fn(usize) -> f64| (0..s.len()).map(f).sum::<f64>() / s.len() as f64;
    for (k, expected) in [0.636182, -0.784464, 5.353219].into_iter().enumerate() {
        near(mean(&|i| f64::from(s.means[i][k])), expected);
    }
    for (k, expected) in [0.061008, 0.060884, 0.060535].into_iter().enumerate() {
        near(mean(&|i| f64::from(s.log_scales[i][k]).exp()), expected);
    }
    for (k, expected) in [0.115527, 0.094967, 0.045661].into_iter().enumerate() {
        near(mean(&|i| f64::from(s.sh_coefficients(i)[k])), expected);
    }
    near(mean(&|i| 1.0 / (1.0 + (-f64::from(s.opacity_logits[i])).exp())), 0.544917);
    let square = |i: usize| s.sh_coefficients(i)[3..].iter().map(|v| f64::from(v * v)).sum::<f64>();
    near((mean(&square) / 45.0).sqrt(), 0.022214);

    // Five digits in the table of reference values.
    let close = |a: f32, b: f32| assert!((a - b).abs() < 6e-6, "{a} {b}");
    let [lo, hi] = s.bounds().unwrap();
    for k in 0..3 {
        close(lo[k], [-6.15997, -7.26668, 0.76784][k]);
        close(hi[k], [6.89381, 6.58994, 7.20639][k]);
        close(s.means[0][k], [-2.06387, -3.579036, 5.136447][k]);
        close(s.sh_coefficients(2000)[k], [1.8882, 1.47854, 1.74105][k]);
        // f_rest_0, f_rest_15, f_rest_30 of row 0: the first coefficient of each channel.
        close(s.sh_coefficients(0)[3 + k], [0.02474416, 0.02295097, 0.02449219][k]);
    }
    for k in 0..4 {
        close(s.quats[0][k], [-0.32799, -0.27046, 0.8305, 0.44016][k]);
        close(s.quats[2000][k], [-0.55725, 0.6182, 0.41044, -0.25131][k]);
    }
}

#[test]
fn writing_what_was_read_gives_the_bytes_of_the_other_program() {
    let test = "writing_what_was_read_gives_the_bytes_of_the_other_program";
    let Some(path) = data_file(test, "splats/os4k/os4k.ply") else { return };
    let original = std::fs::read(&path).unwrap();
    let ours = written(&splat::load(&path, &LoadOptions::default()).unwrap().splats, &PlyOptions::default());
    // The headers differ in their comments; the rows are the same to the byte.
    let body = 4000 * 248;
    assert!(original[original.len() - body..] == ours[ours.len() - body..]);
}

#[test]
fn columns_may_stand_in_any_order_with_others_between_them() {
    let mut mixed = columns();
    mixed.reverse();
    mixed.insert(3, ("uchar", "label", "200"));
    mixed.insert(7, ("double", "confidence", "0.125"));
    assert_eq!(splats(&ascii(&mixed)).splats, splat_of_values());
}

#[test]
fn every_number_type_and_byte_order_is_converted() {
    let types = [
        ("float", "float32", 4),
        ("double", "float64", 8),
        ("short", "int16", 2),
        ("ushort", "uint16", 2),
        ("int", "int32", 4),
        ("uint", "uint32", 4),
        ("char", "int8", 1),
        ("uchar", "uint8", 1),
    ];
    for (old, new, size) in types {
        for name in [old, new] {
            for big in [false, true] {
                let order = if big { "big" } else { "little" };
                let mut bytes =
                    format!("ply\nformat binary_{order}_endian 1.0\nelement vertex 1\n").into_bytes();
                for property in NAMES {
                    bytes.extend_from_slice(format!("property {name} {property}\n").as_bytes());
                }
                bytes.extend_from_slice(b"end_header\n");
                for v in VALUES {
                    let mut number = match old {
                        "float" => v.to_le_bytes().to_vec(),
                        "double" => f64::from(v).to_le_bytes().to_vec(),
                        _ => (v as i64).to_le_bytes()[..size].to_vec(),
                    };
                    if big {
                        number.reverse();
                    }
                    bytes.extend(number);
                }
                assert_eq!(splats(&bytes).splats, splat_of_values(), "{name}, {order} endian");
            }
        }
    }
}

#[test]
fn windows_line_ends_and_stray_comments_are_accepted() {
    let text = String::from_utf8(ascii(&columns())).unwrap();
    let windows =
        text.replace("ply\n", "ply\ncomment made elsewhere\nobj_info x y z\n").replace('\n', "\r\n");
    assert_eq!(splats(windows.as_bytes()).splats, splat_of_values());
    // Binary rows start directly after the line end.
    let unix = written(&splat_of_values(), &PlyOptions::default());
    let end = unix.windows(11).position(|w| w == b"end_header\n").unwrap() + 11;
    let header = std::str::from_utf8(&unix[..end]).unwrap().replace('\n', "\r\n");
    assert_eq!(splats(&[header.as_bytes(), &unix[end..]].concat()).splats, splat_of_values());
}

#[test]
fn elements_around_the_vertices_are_skipped() {
    let properties: String = NAMES.iter().map(|n| format!("property float {n}\n")).collect();
    let header = |format: &str| {
        format!(
            "ply\nformat {format} 1.0\nelement nothing 1000000000000\nelement camera 2\nproperty uchar id\n\
             property list uchar short path\nelement vertex 1\n{properties}element face 1\n\
             property list uchar int vertex_indices\nend_header\n"
        )
    };
    let text = header("ascii") + "9 2 5 6\n8 0\n1 2 3 4 5 6 7 8 9 10 11 12 13 14\n3 0 0 0\n";
    assert_eq!(splats(text.as_bytes()).splats, splat_of_values());
    let mut binary = header("binary_little_endian").into_bytes();
    binary.extend([9, 2, 5, 0, 6, 0, 8, 0]);
    binary.extend(VALUES.iter().flat_map(|v| v.to_le_bytes()));
    binary.extend([3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let file = splats(&binary);
    assert_eq!(file.splats, splat_of_values());
    assert!(file.report.notes.is_empty(), "what stands behind the vertices is declared");
}

#[test]
fn ascii_floats_are_rounded_once() {
    // Between two f32 values, slightly above the middle: rounding to f64 first would lose the difference and round
    // down.
    let hair = "1.00000005960464477540";
    assert_eq!(hair.parse::<f32>(), Ok(1.000_000_1));
    assert_eq!(hair.parse::<f64>().map(|v| v as f32), Ok(1.0));
    let mut text = columns();
    text[0].2 = hair;
    assert_eq!(splats(&ascii(&text)).splats.means[0][0], 1.000_000_1);
}

#[test]
fn colours_stand_in_for_missing_sh() {
    let mut coloured: Vec<_> = columns().into_iter().filter(|(_, n, _)| !n.starts_with("f_dc")).collect();
    coloured.extend([("uchar", "red", "255"), ("uchar", "green", "0"), ("uchar", "blue", "51")]);
    let dc = [1.0, 0.0, 0.2].map(sh::dc_from_colour);
    assert_eq!(splats(&ascii(&coloured)).splats.sh, dc);
    for (column, value) in coloured[11..].iter_mut().zip(["1", "0", "0.2"]) {
        (column.0, column.2) = ("float", value);
    }
    assert_eq!(splats(&ascii(&coloured)).splats.sh, dc);
}

#[test]
fn flat_splats_get_a_third_scale() {
    let file = splats(&ascii(&without("scale_2")));
    assert!(file.flat);
    assert_eq!(file.splats.log_scales, [[8.0, 9.0, -20.0]]);
}

#[test]
fn degree_four_loses_its_top_band_and_says_so() {
    let names: Vec<String> = (0..72).map(|i| format!("f_rest_{i}")).collect();
    let values: Vec<String> = (0..72).map(|i| i.to_string()).collect();
    let mut all = columns();
    all.extend(names.iter().zip(&values).map(|(n, v)| ("float", n.as_str(), v.as_str())));
    let file = splats(&ascii(&all));
    assert_eq!((file.sh_degree, file.splats.sh_degree), (4, 3));
    // Coefficients 1..15 of each channel, of the 24 that are stored.
    let expected: Vec<f32> = (0..15).flat_map(|k| [k, 24 + k, 48 + k]).map(|v| v as f32).collect();
    assert_eq!(file.splats.sh[3..], expected);
    assert_eq!(
        file.report.lines(Path::new("t.ply")),
        ["t.ply: SH degree: the highest band was dropped (expected a degree of at most 3, found 4)"]
    );
}

#[test]
fn a_point_cloud_is_a_start_and_not_splats() {
    let mut cloud = vec![("float", "x", "1"), ("double", "y", "2"), ("int", "z", "3")];
    assert_eq!(points(&ascii(&cloud)).positions, [[1.0, 2.0, 3.0]]);
    assert_eq!(points(&ascii(&cloud)).colours, None);
    cloud.extend([("uchar", "red", "255"), ("uchar", "green", "0"), ("uchar", "blue", "51")]);
    assert_eq!(points(&ascii(&cloud)).colours, Some(vec![[1.0, 0.0, 0.2]]));
    cloud.push(("float", "opacity", "0.5"));
    assert_eq!(points(&ascii(&cloud)).positions.len(), 1, "transparent points are points");

    let folder = temporary_folder();
    let path = folder.path().join("points.ply");
    std::fs::write(&path, ascii(&cloud)).unwrap();
    assert_eq!(
        splat::load(&path, &LoadOptions::default())
            .unwrap_err()
            .to_string()
            .replace(&folder.path().display().to_string(), "F"),
        "F/points.ply: element vertex: a point cloud, not splats (expected f_dc, opacity, scale and rot properties, found \
         none); use it as ⟨init⟩"
    );
}

#[test]
fn comments_tell_mode_and_axis_and_the_last_one_wins() {
    let with = |comments: &[&str]| {
        let lines: String = comments.iter().map(|c| format!("comment {c}\n")).collect();
        let text = String::from_utf8(ascii(&columns())).unwrap().replace("ply\n", &format!("ply\n{lines}"));
        let file = splats(text.as_bytes());
        (file.antialiased, file.flat, file.vertical_axis)
    };
    assert_eq!(with(&[]), (false, false, None));
    assert_eq!(with(&["SplatRenderMode: mip"]), (true, false, None));
    assert_eq!(with(&["splatrendermode: MIP", "SplatRenderMode: default"]), (false, false, None));
    assert_eq!(with(&["SplatRenderMode: 2dgs"]), (false, true, None));
    assert_eq!(with(&["antialiased 1"]), (true, false, None));
    assert_eq!(with(&["Antialiased: 1", "antialiased 0"]), (false, false, None));
    assert_eq!(with(&["Vertical axis: y"]), (false, false, Some([0.0, -1.0, 0.0])));
    assert_eq!(with(&["Vertical Axis: z"]).2, Some([0.0, 0.0, 1.0]), "Nerfstudio");
    assert_eq!(with(&["vertical AXIS: 0.5, 1e-3 -2"]), (false, false, Some([0.5, 1e-3, -2.0])));
    assert_eq!(
        with(&["Vertical axis: x", "Vertical axis: nan 0 0", "Vertical axis: 0 0 0"]).2,
        Some([1.0, 0.0, 0.0])
    );
}

#[test]
fn an_animation_is_read_to_its_first_frame_with_a_note() {
    let text = String::from_utf8(ascii(&columns())).unwrap();
    let frame = "element delta_vertex_0 1\nproperty float x\nend_header\n";
    let file = splats((text.replace("end_header\n", frame) + "\n0.5\n").as_bytes());
    assert_eq!(file.splats.len(), 1);
    assert!(
        file.report.notes[0].starts_with("animation: only its first frame was read"),
        "{:?}",
        file.report
    );
}

/// One splat of the usual columns with some of them changed.
fn changed_columns(
    changes: &[(&'static str, &'static str)],
) -> Vec<(&'static str, &'static str, &'static str)> {
    let change = |(kind, name, value): (&'static str, &'static str, &'static str)| {
        let new = changes.iter().find(|(changed, _)| *changed == name);
        (kind, name, new.map_or(value, |(_, new)| *new))
    };
    columns().into_iter().map(change).collect()
}

#[test]
fn values_that_single_precision_cannot_compute_with_drop_their_splat() {
    let all = |names: [&'static str; 4], value| names.map(|name| (name, value)).to_vec();
    let rotation = ["rot_0", "rot_1", "rot_2", "rot_3"];
    for (changes, why) in [
        (vec![("f_dc_0", "1e38")], "colour out of range"),
        (vec![("f_dc_2", "-1.1e6")], "colour out of range"),
        (vec![("z", "-1e13")], "position out of range"),
        (vec![("scale_1", "88")], "scale out of range"),
        (vec![("rot_3", "1e30")], "rotation out of range"),
        (all(rotation, "1e-20"), "zero rotation"),
    ] {
        let file = splats(&ascii(&changed_columns(&changes)));
        assert!(file.splats.is_empty(), "{changes:?}");
        let line = format!("t.ply: dropped 1 of 1 splats: {why} (1)");
        assert_eq!(file.report.lines(Path::new("t.ply"))[0], line);
    }
    // Up to this limit, splats are kept and no bit is changed.
    let far =
        [("f_dc_0", "1e6"), ("x", "1e12"), ("scale_0", "40"), ("scale_1", "-1e38"), ("opacity", "1e38")];
    let mut changes = far.to_vec();
    changes.extend(all(rotation, "1e-14"));
    let file = splats(&ascii(&changed_columns(&changes)));
    assert_eq!((file.splats.len(), file.report.dropped_total()), (1, 0));
    assert_eq!((file.splats.means[0][0], file.splats.sh[0]), (1e12, 1e6));
    assert_eq!((file.splats.log_scales[0], file.splats.quats[0]), ([40.0, -1e38, 10.0], [1e-14; 4]));
}

#[test]
fn what_cannot_be_drawn_is_dropped_or_repaired_and_counted() {
    let mut s = some_splats(9, 0, 5);
    s.means[0][1] = f32::NAN;
    s.quats[1] = [0.0, -0.0, 0.0, 0.0];
    s.quats[2][3] = f32::NEG_INFINITY;
    s.log_scales[3][0] = f32::INFINITY;
    s.opacity_logits[4] = f32::NEG_INFINITY;
    s.sh[5 * 3] = f32::INFINITY;
    s.opacity_logits[6] = f32::INFINITY;
    s.log_scales[7] = [f32::NEG_INFINITY, 1.0, f32::NEG_INFINITY];
    s.means[8] = [0.0, -2e6, 0.0];
    // Gausset's writer drops such splats, so the bytes are assembled by hand.
    let properties: String = NAMES.iter().map(|n| format!("property float {n}\n")).collect();
    let mut bytes =
        format!("ply\nformat binary_little_endian 1.0\nelement vertex 9\n{properties}end_header\n")
            .into_bytes();
    for i in 0..9 {
        let row =
            [&s.means[i][..], s.sh_coefficients(i), &[s.opacity_logits[i]], &s.log_scales[i], &s.quats[i]]
                .concat();
        bytes.extend(row.iter().flat_map(|v| v.to_le_bytes()));
    }
    bytes.push(0);
    let file = splats(&bytes);
    assert_eq!(file.splats.len(), 3);
    assert_eq!(file.report.dropped_total(), 6);
    assert_eq!(file.splats.opacity_logits[0], 15.0);
    assert_eq!(file.splats.log_scales[1], [-30.0, 1.0, -30.0]);
    assert!((0..3).all(|i| file.splats.is_valid(i)));
    assert_eq!(
        file.report.lines(Path::new("t.ply")),
        [
            "t.ply: dropped 6 of 9 splats: non-finite position (1), zero rotation (1), non-finite rotation (1), \
             non-finite scale (1), non-finite opacity (1), non-finite colour (1)",
            "t.ply: repaired 2 of 9 splats: opacity of exactly 1 (1), scale of exactly 0 (1)",
            "t.ply: positions: far from the origin (expected coordinates up to 1e6, found 1 beyond)",
            "t.ply: end of file: data after the last vertex was ignored (expected none, found 1 bytes)",
        ]
    );

    let mut out = Vec::new();
    let said = write_ply(&mut out, &s, &PlyOptions::default()).unwrap();
    assert_eq!((said.splats, said.dropped), (1, 8), "a value that is not finite is never written");
    assert_eq!(splats(&out).splats, s.select(&[8]));
}

#[test]
fn every_error_is_one_line_with_place_expectation_and_finding() {
    let error = |bytes: &[u8]| parse(bytes).err().unwrap_or_else(|| "accepted".to_owned());
    let header = |lines: &str| error(format!("ply\n{lines}").as_bytes());
    let values = |name: &str, value: &'static str| {
        let mut all = columns();
        all.iter_mut().filter(|c| c.1 == name).for_each(|c| c.2 = value);
        error(&ascii(&all))
    };
    let rest = |count: usize, gap: bool| {
        let names: Vec<String> =
            (0..count).map(|i| format!("f_rest_{}", i + usize::from(gap && i > 3))).collect();
        let mut all = columns();
        all.extend(names.iter().map(|n| ("float", n.as_str(), "0")));
        error(&ascii(&all))
    };
    let mut cut = written(&splat_of_values(), &PlyOptions::default());
    cut.truncate(cut.len() - 1);
    let format = "format ascii 1.0\n";
    let many_elements: String = (0..65).map(|i| format!("element e{i} 0\n")).collect();
    let many_properties: String = (0..1025).map(|i| format!("property int p{i}\n")).collect();
    let x_y_z = "property float x\nproperty float y\nproperty float z\n";
    let lines = [
        ("nothing", error(b"")),
        ("rubbish", error(b"\x00\x01hello, world of splats")),
        ("no end", header("format ascii 1.0")),
        ("endless line", header(&"x".repeat(5000))),
        ("endless header", header(&"comment\n".repeat(9000))),
        ("format", header("format binary_middle_endian 1.0\n")),
        ("no format", header("element vertex 0\nend_header\n")),
        ("count", header(&format!("{format}element vertex -1\n"))),
        ("huge count", header(&format!("{format}element vertex 99999999999999999999\n"))),
        ("two of a name", header(&format!("{format}element vertex 1\nelement vertex 1\n"))),
        ("elements", header(&many_elements)),
        ("properties", header(&format!("element vertex 1\n{many_properties}"))),
        ("property first", header("property float x\n")),
        ("type", header("element vertex 1\nproperty quad x\n")),
        ("list", header("element vertex 1\nproperty list uchar x\n")),
        ("word", header("elephant vertex 1\n")),
        ("control characters", header("\u{1b}[31mred\n")),
        ("no vertex", header(&format!("{format}element face 0\nend_header\n"))),
        (
            "list in vertex",
            header(&format!("{format}element vertex 0\nproperty list int int x\nend_header\n")),
        ),
        (
            "no z",
            header(&format!("{format}element vertex 0\nproperty float x\nproperty float y\nend_header\n")),
        ),
        ("no rotation", error(&ascii(&without("rot_2")))),
        ("no opacity", error(&ascii(&without("opacity")))),
        ("no colour", error(&ascii(&without("f_dc_1")))),
        ("odd SH", rest(17, false)),
        ("SH with a gap", rest(9, true)),
        ("cut off", error(&cut)),
        (
            "promise",
            header(&format!("{format}element vertex 18446744073709551615\n{x_y_z}end_header\n1 2 3\n")),
        ),
        (
            "cut element",
            header(
                "format binary_little_endian 1.0\nelement a 9\nproperty int b\nelement vertex 0\nproperty float x\nproperty float y\nproperty float z\nend_header\n12345678",
            ),
        ),
        (
            "cut list",
            header(
                "format binary_little_endian 1.0\nelement a 1\nproperty list uchar double b\nelement vertex 0\nproperty float x\nproperty float y\nproperty float z\nend_header\n\u{5}12345678",
            ),
        ),
        (
            "long list",
            header(&format!(
                "{format}element a 1\nproperty list int int b\nelement vertex 0\n{x_y_z}end_header\n4000000000 1 2\n"
            )),
        ),
        (
            "negative list",
            header(&format!(
                "{format}element a 1\nproperty list int int b\nelement vertex 0\n{x_y_z}end_header\n-1\n"
            )),
        ),
        ("not a number", values("scale_1", "1,5")),
        ("long word", values("scale_1", "1111111111111111111111111111111111111111111111e")),
        ("too few", header(&format!("{format}element vertex 2\n{x_y_z}end_header\n1.5 2.5 3.5\n4.5 5.5"))),
        (
            "memory",
            parse_initial(&ascii(&columns()), Path::new("t.ply"), &ReadLimits { memory_bytes: 55 })
                .err()
                .map_or_else(String::new, |e| e.to_string()),
        ),
    ];
    let found: String = lines.iter().map(|(what, line)| format!("{what}: {line}\n")).collect();
    assert_eq!(found, include_str!("files/ply_errors.txt"));
}

#[test]
fn folders_pipes_and_missing_files_are_refused_without_waiting() {
    let folder = temporary_folder();
    let line = |path: &Path| {
        splat::load(path, &LoadOptions::default())
            .unwrap_err()
            .to_string()
            .replace(&folder.path().display().to_string(), "F")
    };
    assert_eq!(line(folder.path()), "F: open: is a folder (expected a file)");
    assert_eq!(line(Path::new("/dev/zero")), "/dev/zero: open: is a device (expected a regular file)");
    assert_eq!(line(&folder.path().join("no.ply")), "F/no.ply: open: no such file or folder");
    assert_eq!(line(Path::new("/dev/null/x")), "/dev/null/x: open: a part of the path is not a folder");
}

#[test]
fn saving_refuses_a_taken_name_only_when_asked_to() {
    let folder = temporary_folder();
    let path = folder.path().join("a.ply");
    let save = |overwrite, count| {
        let write = WriteOptions { overwrite, ..WriteOptions::default() };
        save_ply(&Disk, &path, &some_splats(count, 0, 1), &PlyOptions::default(), &write)
    };
    assert_eq!(save(Overwrite::Refuse, 3).unwrap().splats, 3);
    assert!(save(Overwrite::Refuse, 4).is_err());
    assert_eq!(splat::load(&path, &LoadOptions::default()).unwrap().splats.len(), 3);
    save(Overwrite::Replace, 4).unwrap();
    assert_eq!(splat::load(&path, &LoadOptions::default()).unwrap().splats.len(), 4);
    let error = save_ply(
        &Disk,
        folder.path(),
        &some_splats(1, 0, 1),
        &PlyOptions::default(),
        &WriteOptions::default(),
    );
    assert_eq!(
        error.unwrap_err().to_string(),
        format!(
            "{}: output: is a folder (expected a file name); give the name of a file in it",
            folder.path().display()
        )
    );
}

/// Any valid number for each parameter of a splat.
fn any_drawable() -> impl Strategy<Value = f32> {
    any_finite().prop_map(|v| if (-1e6..=40.0).contains(&v) { v } else { v % 40.0 })
}

/// Finite floats of every size, zeros of both signs, denormals.
fn any_finite() -> impl Strategy<Value = f32> {
    any::<u32>().prop_map(|b| {
        if f32::from_bits(b).is_finite() { f32::from_bits(b) } else { f32::from_bits(b & 0xff) }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn any_splats_come_back_to_the_bit(
        sh_degree in 0u8..=3,
        normals: bool,
        antialiased: bool,
        axis in proptest::option::of([any_finite(), any_finite(), any_finite()]),
        rows in proptest::collection::vec(proptest::collection::vec(any_drawable(), 59), 1..20),
    ) {
        let mut splats = Splats::with_capacity(sh_degree, rows.len());
        let n = splats.sh_stride();
        for r in &rows {
            splats.push([r[0], r[1], r[2]], [r[3], r[4], r[5]], [r[6], r[7], r[8], 0.5], r[9], &r[10..10 + n]);
        }
        let sky = rows.len() / 3;
        let options = PlyOptions { normals, antialiased, vertical_axis: axis, sky };
        let file = self::splats(&written(&splats, &options));
        prop_assert_eq!(bits(&file.splats), bits(&splats));
        prop_assert_eq!(file.splats.sh_degree, sh_degree);
        prop_assert_eq!(file.antialiased, antialiased);
        prop_assert_eq!(file.sky, sky);
        prop_assert_eq!(file.vertical_axis, axis.filter(|a| *a != [0.0; 3]));
        prop_assert_eq!(written(&file.splats, &options), written(&splats, &options));
    }
}

#[test]
fn the_near_plane_is_kept_and_scaled_with_the_splats() {
    let mut document = SplatFile { near_plane: Some(0.25), ..SplatFile::new(splat_of_values()) };
    document.transform(&Similarity { scale: 0.5, ..Similarity::IDENTITY });
    assert_eq!(document.with_splats(Splats::default(), 0).near_plane, Some(0.125));
    let mut usual = SplatFile::new(splat_of_values());
    usual.transform(&Similarity { translation: [1.0, 0.0, 0.0], ..Similarity::IDENTITY });
    assert_eq!(usual.near_plane, None);
    usual.transform(&Similarity { scale: 0.5, ..Similarity::IDENTITY });
    assert_eq!(usual.near_plane, Some(0.005), "half of what it is without a record");
    for format in [Format::Ply, Format::CompressedPly] {
        let mut bytes = Vec::new();
        splat::write(&mut bytes, &document, format, &SaveOptions::default()).unwrap();
        assert_eq!(splats(&bytes).near_plane, Some(0.125));
        let end = bytes.windows(10).position(|part| part == b"end_header").unwrap();
        let text = std::str::from_utf8(&bytes[..end]).unwrap().to_owned();
        assert!(text.contains("comment gausset near_plane 0.125\n"), "{text}");
        // What is no distance is ignored.
        for damaged in ["-1.25", "1e300", "0.000", "near!", "nan  "] {
            bytes[..text.len()].copy_from_slice(text.replace("0.125", damaged).as_bytes());
            assert_eq!(splats(&bytes).near_plane, None, "{damaged}");
        }
    }
}

#[test]
fn the_place_on_the_earth_and_the_offset_of_the_dataset_are_kept() {
    let with = |altitude| SplatFile {
        georeference: Some(EarthPlace { latitude: 48.123_456_7, longitude: -11.5, altitude }),
        offset: Some([431_000.0, 5_412_000.25, 312.0]),
        ..SplatFile::new(splat_of_values())
    };
    for document in [with(Some(520.3)), with(None)] {
        for format in [Format::Ply, Format::CompressedPly] {
            let mut bytes = Vec::new();
            splat::write(&mut bytes, &document, format, &SaveOptions::default()).unwrap();
            let found = splats(&bytes);
            assert_eq!((found.georeference, found.offset), (document.georeference, document.offset));
        }
        let copy = document.with_splats(Splats::default(), 0);
        assert_eq!((copy.georeference, copy.offset), (document.georeference, document.offset));
    }
    let mut bytes = Vec::new();
    splat::write(&mut bytes, &with(Some(520.3)), Format::Ply, &SaveOptions::default()).unwrap();
    let end = bytes.windows(10).position(|part| part == b"end_header").unwrap();
    let text = std::str::from_utf8(&bytes[..end]).unwrap().to_owned();
    assert!(text.contains("comment gausset georeference 48.1234567 -11.5 520.3\n"), "{text}");
    assert!(text.contains("comment gausset offset 431000 5412000.25 312\n"), "{text}");
    // A line that is no place is ignored.
    let damaged = text.replace("48.1234567", "480.123456");
    bytes[..text.len()].copy_from_slice(damaged.as_bytes());
    assert_eq!(splats(&bytes).georeference, None);
}
