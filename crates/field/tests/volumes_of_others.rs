//! Volumes of other programs that are refused: each by its name, with what to do.

use gausset_field::input::{Input, ReadRequest, decode};

fn read(name: &str, bytes: &[u8], channel: Option<usize>, frame: usize) -> Result<Vec<f64>, String> {
    let wanted = ReadRequest { channel, frame, ..ReadRequest::default() };
    match decode(name, bytes, &wanted, &|other| panic!("{name} reads {other}")) {
        Ok(Input::Volume(volume)) => Ok(volume.values),
        Ok(other) => panic!("{name}: {other:?}"),
        Err(error) => Err(error.to_string()),
    }
}

/// A TIFF of 2 x 2 grey pixels with further entries, whose tags are in order behind these.
fn tiff(compression: u32, photometric: u32, more: &[(u16, u32)]) -> Vec<u8> {
    let entries: [(u16, u32); 8] =
        [(256, 2), (257, 2), (258, 8), (259, compression), (262, photometric), (273, 8), (278, 2), (279, 4)];
    let entries: Vec<(u16, u32)> = entries.into_iter().chain(more.iter().copied()).collect();
    let mut bytes = b"II*\0\x0C\0\0\0\x01\x02\x03\x04".to_vec();
    bytes.extend((entries.len() as u16).to_le_bytes());
    for (tag, value) in entries {
        let kind = if matches!(tag, 258 | 259 | 262) { 3u16 } else { 4 };
        bytes.extend([tag.to_le_bytes(), kind.to_le_bytes()].concat());
        bytes.extend([1u32.to_le_bytes(), value.to_le_bytes()].concat());
    }
    bytes.extend([0; 4]);
    bytes
}

#[test]
fn a_tiff_that_is_not_decoded_says_how_to_save_it() {
    assert_eq!(read("a.tif", &tiff(1, 1, &[]), None, 0).unwrap(), [1.0, 2.0, 3.0, 4.0]);
    assert_eq!(read("a.tif", &tiff(1, 1, &[(32997, 1)]), None, 0).unwrap().len(), 4);
    assert_eq!(
        read("a.tif", &tiff(1, 1, &[(32997, 12)]), None, 0).unwrap_err(),
        "page 0: volumetric TIFF (ImageDepth) is not read (expected 1, found 12); save each slice as a page"
    );
    for (compression, photometric) in [(50000, 1), (1, 3)] {
        let line = read("a.tif", &tiff(compression, photometric, &[]), None, 0).unwrap_err();
        assert!(line.starts_with("page 0: ") && line.ends_with("; save it uncompressed, as grey"), "{line}");
    }
}

#[test]
fn an_nrrd_with_a_list_of_data_files_is_refused_at_its_line() {
    let head = "NRRD0004\ntype: uchar\ndimension: 3\nsizes: 2 1 2\nencoding: raw\n";
    for list in ["LIST\na0.raw\na1.raw\n", "LIST 2\na.raw\n", "a%02d.raw 0 1 1\n"] {
        let line = read("a.nhdr", format!("{head}data file: {list}").as_bytes(), None, 0).unwrap_err();
        assert!(line.starts_with("line 6: data file: lists of files are not read (found"), "{line}");
        assert!(line.ends_with("; save it as one .nrrd"), "{line}");
    }
}

#[test]
fn the_channel_of_an_nrrd_in_colour_is_asked_for() {
    let bytes = |kind: &str| {
        let head = "NRRD0004\ntype: uchar\ndimension: 4\nsizes: 3 2 1 1\nencoding: raw\n";
        format!("{head}kinds: {kind} domain domain domain\n\n\u{1}\u{2}\u{3}\u{4}\u{5}\u{6}").into_bytes()
    };
    let colour = bytes("RGB-color");
    let line = read("a.nrrd", &colour, None, 0).unwrap_err();
    assert_eq!(line, "channels: more than one (expected one, found 3); choose one with ⟨channel⟩, from 0");
    assert_eq!(read("a.nrrd", &colour, Some(1), 0).unwrap(), [2.0, 5.0]);
    assert_eq!(read("a.nrrd", &colour, None, 2).unwrap(), [3.0, 6.0]);
    assert!(read("a.nrrd", &colour, Some(3), 0).unwrap_err().contains("no such channel"));
    // Other axes are frames.
    let list = bytes("list");
    assert_eq!(read("a.nrrd", &list, None, 0).unwrap(), [1.0, 4.0]);
    assert!(read("a.nrrd", &list, Some(1), 0).unwrap_err().contains("no such channel"));
}
