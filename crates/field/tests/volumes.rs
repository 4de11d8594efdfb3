//! Volumes and samples as other programs write them: what is read, what is left out and said, and what is refused.

use std::cell::RefCell;
use std::io::Write;
use std::path::Path;

use gausset_field::input::{self, DecodeError, Input, ReadRequest, Volume, decode};
use gausset_field::output::OutputVolume;

/// Decodes a file; with the lines about what was left out.
fn decoded(name: &str, bytes: &[u8], wanted: &ReadRequest<'_>) -> (Result<Input, DecodeError>, Vec<String>) {
    let notes = RefCell::new(Vec::new());
    let wanted = ReadRequest { notes: Some(&notes), ..*wanted };
    let input = decode(name, bytes, &wanted, &|other| panic!("{name} reads {other}"));
    (input, notes.take())
}

fn volume_and_notes(name: &str, bytes: &[u8], wanted: &ReadRequest<'_>) -> (Volume, Vec<String>) {
    match decoded(name, bytes, wanted) {
        (Ok(Input::Volume(volume)), notes) => (volume, notes),
        (other, _) => panic!("{name}: {other:?}"),
    }
}

fn volume(name: &str, bytes: &[u8]) -> Volume {
    volume_and_notes(name, bytes, &ReadRequest::default()).0
}

fn refusal(name: &str, bytes: &[u8], wanted: &ReadRequest<'_>) -> String {
    decoded(name, bytes, wanted).0.expect_err(name).to_string()
}

fn channel(channel: usize) -> ReadRequest<'static> {
    ReadRequest { channel: Some(channel), ..ReadRequest::default() }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(bytes).unwrap();
    packed.finish().unwrap()
}

fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut packed = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(bytes).unwrap();
    packed.finish().unwrap()
}

fn bzip2(bytes: &[u8]) -> Vec<u8> {
    let mut packed = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    packed.write_all(bytes).unwrap();
    packed.finish().unwrap()
}

// NRRD

#[test]
fn a_byte_skip_of_minus_one_takes_the_last_bytes_in_every_encoding() {
    let data = [&[9; 352][..], &[1, 2, 3, 4, 5, 6, 7, 8]].concat();
    for (encoding, data) in [("raw", data.clone()), ("gzip", gzip(&data)), ("bzip2", bzip2(&data))] {
        let nrrd = |skip: &str| {
            let header =
                format!("NRRD0004\ntype: uchar\ndimension: 3\nsizes: 2 2 2\nencoding: {encoding}\n{skip}\n");
            [header.as_bytes(), &data].concat()
        };
        let (last, notes) = volume_and_notes("a.nrrd", &nrrd("byte skip: -1\n"), &ReadRequest::default());
        assert_eq!((&last.values[..2], notes.len()), (&[1.0, 2.0][..], 0), "{encoding}");
        let (first, notes) = volume_and_notes("a.nrrd", &nrrd(""), &ReadRequest::default());
        assert_eq!(first.values, [9.0; 8], "{encoding}");
        assert!(notes[0].starts_with("data: 352 bytes are left over"), "{encoding}: {notes:?}");
        let (_, notes) = volume_and_notes("a.nrrd", &nrrd("byte skip: 352\n"), &ReadRequest::default());
        assert_eq!(notes.len(), 0, "{encoding}: {notes:?}");
    }
}

// TIFF

/// A page of numbers that are stored as they are.
#[derive(Clone, Default)]
struct Page {
    size: [u32; 2],
    bits: u16,
    /// 1: whole numbers, 3: floats.
    format: u16,
    samples: u16,
    data: Vec<u8>,
    description: String,
    /// Pixels per unit.
    resolution: Option<[u32; 2]>,
    /// 1: a reduced version of another page.
    kind: u32,
    is_planar: bool,
}

/// A page of 3 x 2 pixels of 8 bits that begin with `first`.
fn page(first: u8) -> Page {
    let data = (first..first + 6).collect();
    Page { size: [3, 2], bits: 8, format: 1, samples: 1, data, ..Page::default() }
}

fn tiff(pages: &[Page]) -> Vec<u8> {
    let mut bytes = b"II*\0\0\0\0\0".to_vec();
    let mut link = 4;
    for page in pages {
        let data = bytes.len() as u32;
        bytes.extend(&page.data);
        let description = bytes.len() as u32;
        bytes.extend(page.description.bytes());
        bytes.push(0);
        let resolution = bytes.len() as u32;
        page.resolution.iter().flatten().for_each(|n| bytes.extend(n.to_le_bytes()));
        let bits = bytes.len() as u32;
        (0..page.samples).for_each(|_| bytes.extend(page.bits.to_le_bytes()));
        let directory = bytes.len() as u32;
        bytes[link..link + 4].copy_from_slice(&directory.to_le_bytes());
        let length = page.description.len() as u32 + 1;
        let bits = if page.samples > 2 {
            bits
        } else {
            u32::from(page.bits) * if page.samples == 2 { 0x1_0001 } else { 1 }
        };
        let color = if page.samples == 3 { 2 } else { 1 };
        let mut entries: Vec<(u16, u16, u32, u32)> = vec![
            (254, 4, 1, page.kind),
            (256, 4, 1, page.size[0]),
            (257, 4, 1, page.size[1]),
            (258, 3, u32::from(page.samples), bits),
            (259, 3, 1, 1),
            (262, 3, 1, color),
            (270, 2, length, description),
            (273, 4, 1, data),
            (277, 3, 1, u32::from(page.samples)),
            (278, 4, 1, page.size[1]),
            (279, 4, 1, page.data.len() as u32),
            (282, 5, 1, resolution),
            (283, 5, 1, resolution),
            (284, 3, 1, if page.is_planar { 2 } else { 1 }),
            (339, 3, 1, u32::from(page.format)),
        ];
        if page.is_planar {
            // A strip for each plane.
            let size = page.data.len() as u32 / u32::from(page.samples);
            let at = bytes.len() as u32 + 2 + 12 * entries.len() as u32 + 4;
            entries[7] = (273, 4, u32::from(page.samples), at);
            entries[10] = (279, 4, u32::from(page.samples), at + 4 * u32::from(page.samples));
            write_directory(&mut bytes, &mut link, page, &entries);
            (0..u32::from(page.samples)).for_each(|i| bytes.extend((data + i * size).to_le_bytes()));
            (0..page.samples).for_each(|_| bytes.extend(size.to_le_bytes()));
        } else {
            write_directory(&mut bytes, &mut link, page, &entries);
        }
    }
    bytes
}

fn write_directory(bytes: &mut Vec<u8>, link: &mut usize, page: &Page, entries: &[(u16, u16, u32, u32)]) {
    let is_used = |tag: u16| match tag {
        270 => !page.description.is_empty(),
        282 | 283 => page.resolution.is_some(),
        _ => true,
    };
    let count = entries.iter().filter(|entry| is_used(entry.0)).count() as u16;
    bytes.extend(count.to_le_bytes());
    for (tag, kind, count, value) in entries.iter().copied() {
        // Directories of planar pages need all entries; an unused one is given a private tag.
        if is_used(tag) {
            bytes.extend([tag, kind].map(u16::to_le_bytes).concat());
            bytes.extend([count, value].map(u32::to_le_bytes).concat());
        }
    }
    *link = bytes.len();
    bytes.extend([0; 4]);
}

fn with_description(description: &str, count: u8) -> Vec<u8> {
    let mut pages: Vec<Page> = (0..count).map(|i| page(10 * i)).collect();
    pages[0].description = description.to_owned();
    pages[0].resolution = Some([2, 1]);
    tiff(&pages)
}

/// The first value of each slice.
fn firsts(volume: &Volume) -> Vec<f64> {
    volume.values.chunks(volume.dims[0] * volume.dims[1]).map(|slice| slice[0]).collect()
}

#[test]
fn imagej_stacks_have_their_slices_channels_frames_and_spacing() {
    let calibrated =
        volume("a.tif", &with_description("ImageJ=1.53t\nimages=4\nslices=4\nspacing=3.0\nunit=um\n", 4));
    assert_eq!((calibrated.dims, calibrated.spacing), ([3, 2, 4], [0.5, 0.5, 3.0]));
    let plain = volume("a.tif", &with_description("ImageJ=1.53t\nimages=4\nslices=4\n", 4));
    assert_eq!(plain.spacing, [1.0; 3]);
    // Channels are fastest, then slices, then frames.
    let all =
        with_description("ImageJ=1.53t\nimages=8\nchannels=2\nslices=2\nframes=2\nhyperstack=true\n", 8);
    let refused = refusal("a.tif", &all, &ReadRequest::default());
    assert_eq!(refused, "channels: more than one (expected one, found 2); choose one with ⟨channel⟩, from 0");
    let (chosen, _) = volume_and_notes("a.tif", &all, &ReadRequest { frame: 1, ..channel(1) });
    assert_eq!((firsts(&chosen), chosen.frames), (vec![50.0, 70.0], 2));
    assert!(refusal("a.tif", &all, &channel(2)).starts_with("channel 2: no such channel (expected 0 to 1)"));
    let fewer = with_description("ImageJ=1.53t\nimages=20\nslices=20\n", 4);
    assert!(
        refusal("a.tif", &fewer, &ReadRequest::default())
            .contains("pages: fewer than the description declares")
    );
}

#[test]
fn an_imagej_stack_with_one_page_has_all_of_its_slices() {
    let mut one = page(0);
    one.description = "ImageJ=1.53t\nimages=3\nslices=3\n".to_owned();
    one.data = (0..18).collect();
    let bytes = tiff(std::slice::from_ref(&one));
    let stack = volume("a.tif", &bytes);
    assert_eq!((stack.dims, stack.values), ([3, 2, 3], (0..18).map(f64::from).collect()));
    one.description = "ImageJ=1.53t\nimages=300\nslices=300\n".to_owned();
    let cut = refusal("a.tif", &tiff(&[one]), &ReadRequest::default());
    assert!(cut.starts_with("data: cut off (expected 300 images"), "{cut}");
}

#[test]
fn ome_tiff_has_its_order_of_pages_channels_and_voxel_size() {
    let xml = |order: &str| {
        format!(
            "<?xml version=\"1.0\"?><OME xmlns=\"http://www.openmicroscopy.org/Schemas/OME/2016-06\"><Image><Pixels \
             DimensionOrder=\"{order}\" SizeX=\"3\" SizeY=\"2\" SizeC=\"2\" SizeZ=\"2\" SizeT=\"1\" \
             PhysicalSizeX=\"0.5\" PhysicalSizeY=\"0.5\" PhysicalSizeZ=\"3\"><Channel Name=\"DAPI\"/><Channel \
             Name=\"GFP\"/><TiffData IFD=\"0\" PlaneCount=\"4\"/></Pixels></Image></OME>"
        )
    };
    for (order, expected) in [("XYCZT", [10.0, 30.0]), ("XYZCT", [20.0, 30.0])] {
        let bytes = with_description(&xml(order), 4);
        let (green, _) = volume_and_notes("a.ome.tif", &bytes, &channel(1));
        assert_eq!((firsts(&green), green.spacing), (expected.to_vec(), [0.5, 0.5, 3.0]), "{order}");
        let refused = refusal("a.ome.tif", &bytes, &ReadRequest::default());
        assert!(refused.contains("found 2: \"DAPI\", \"GFP\"); choose one with ⟨channel⟩"), "{refused}");
    }
}

#[test]
fn a_stack_whose_shape_has_two_axes_of_pages_is_refused_and_not_mixed() {
    let refused =
        refusal("a.tif", &with_description("{\"shape\": [2, 2, 2, 3]}", 4), &ReadRequest::default());
    assert!(refused.contains("axes without a meaning") && refused.contains("[2, 2, 2, 3]"), "{refused}");
    assert_eq!(volume("a.tif", &with_description("{\"shape\": [4, 2, 3]}", 4)).dims, [3, 2, 4]);
}

#[test]
fn smaller_pages_of_a_pyramid_are_left_out_and_other_sizes_refused_in_plain_words() {
    let small = Page { size: [1, 1], data: vec![99], ..page(0) };
    let (stack, notes) =
        volume_and_notes("a.tif", &tiff(&[page(0), page(10), small]), &ReadRequest::default());
    assert_eq!((firsts(&stack), notes.len()), (vec![0.0, 10.0], 1), "{notes:?}");
    assert!(notes[0].starts_with("pages: 1 smaller ones of 3 left out"), "{notes:?}");
    let reduced = Page { kind: 1, ..page(50) };
    let (stack, _) = volume_and_notes("a.tif", &tiff(&[page(0), reduced]), &ReadRequest::default());
    assert_eq!(firsts(&stack), [0.0]);
    let wide = Page { size: [6, 1], ..page(0) };
    let refused = refusal("a.tif", &tiff(&[page(0), wide]), &ReadRequest::default());
    assert_eq!(refused, "page 1: another size (expected 3 x 2, found 6 x 1)");
}

#[test]
fn pages_of_bits_of_short_floats_and_of_colours_are_read() {
    let bits = Page { bits: 1, data: vec![0b1010_0000, 0b0100_0000], ..page(0) };
    assert_eq!(volume("a.tif", &tiff(&[bits])).values, [1.0, 0.0, 1.0, 0.0, 1.0, 0.0]);
    let halves = [0x3C00u16, 0xC000, 0, 0x3800, 0x4200, 0xBC00].map(u16::to_le_bytes).concat();
    let halves = Page { bits: 16, format: 3, data: halves, ..page(0) };
    assert_eq!(volume("a.tif", &tiff(&[halves])).values, [1.0, -2.0, 0.0, 0.5, 3.0, -1.0]);
    for is_planar in [false, true] {
        let red_to_blue = Page {
            samples: 3,
            data: (0..18).collect(),
            is_planar,
            resolution: Some([1, 1]),
            description: "x".to_owned(),
            ..page(0)
        };
        let bytes = tiff(&[red_to_blue]);
        assert!(refusal("a.tif", &bytes, &ReadRequest::default()).starts_with("channels: more than one"));
        let (green, _) = volume_and_notes("a.tif", &bytes, &channel(1));
        let expected = if is_planar { [6.0, 7.0] } else { [1.0, 4.0] };
        assert_eq!(green.values[..2], expected, "planar: {is_planar}");
    }
}

#[test]
fn a_folder_of_slices_is_a_volume_in_the_order_of_its_numbers() {
    let scratch = tempfile::tempdir().unwrap();
    for i in [1, 2, 10] {
        std::fs::write(scratch.path().join(format!("s{i}.tif")), tiff(&[page(i)])).unwrap();
    }
    std::fs::write(scratch.path().join("notes.txt"), "x").unwrap();
    std::fs::write(scratch.path().join("._s3.tif"), "x").unwrap();
    let notes = RefCell::new(Vec::new());
    let wanted =
        ReadRequest { notes: Some(&notes), spacing: Some([1.0, 1.0, 2.5]), ..ReadRequest::default() };
    let Input::Volume(stack) = input::read(scratch.path(), &wanted).unwrap() else { panic!("samples") };
    assert_eq!((firsts(&stack), stack.spacing), (vec![1.0, 2.0, 10.0], [1.0, 1.0, 2.5]));
    assert_eq!(notes.take(), ["folder: 1 file ignored, no slices"]);
    let wide = Page { size: [6, 1], ..page(0) };
    std::fs::write(scratch.path().join("s4.tif"), tiff(&[wide])).unwrap();
    let refused = input::read(scratch.path(), &ReadRequest::default()).unwrap_err().to_string();
    assert!(refused.ends_with("s4.tif: slice: another size (expected 3 x 2, found 6 x 1)"), "{refused}");
}

#[test]
fn slices_may_be_png_of_any_depth() {
    let scratch = tempfile::tempdir().unwrap();
    for (name, depth, data) in [
        ("z09.png", png::BitDepth::Sixteen, vec![1, 0, 0, 2, 0, 3]),
        ("z10.png", png::BitDepth::Sixteen, vec![0, 7, 0, 8, 0, 9]),
    ] {
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, 3, 1);
        encoder.set_color(png::ColorType::Grayscale);
        encoder.set_depth(depth);
        encoder.write_header().unwrap().write_image_data(&data).unwrap();
        std::fs::write(scratch.path().join(name), bytes).unwrap();
    }
    let Input::Volume(stack) = input::read(scratch.path(), &ReadRequest::default()).unwrap() else {
        panic!("samples")
    };
    assert_eq!((stack.dims, stack.values), ([3, 1, 2], vec![256.0, 2.0, 3.0, 7.0, 8.0, 9.0]));
}

// Tables

#[test]
fn columns_of_a_table_are_taken_by_their_names() {
    for (text, notes) in [
        ("id,x,y,z,value\n0,1,2,3,4\n", 1),
        ("value,x,y,z\n4,1,2,3\n", 0),
        (",x,y,z,v\n0,1,2,3,4\n", 1),
        ("Z;Intensity;Y;X\n3;4;2;1\n", 0),
        ("x,y,z,temperature\n1,2,3,4\n", 0),
        ("# density x y z\n4 1 2 3\n", 0),
        ("# density,x,y,z\n4,1,2,3\n", 0),
        ("# made on Monday\n1,2,3,4\n", 0),
        ("\"x\",\"y\",\"z\",\"value\",\"v\"\n1,2,3,4,5\n", 1),
        ("1,2,3,4,\n", 0),
    ] {
        let (input, found) = decoded("a.csv", text.as_bytes(), &ReadRequest::default());
        let samples = input.expect(text).samples();
        assert_eq!((samples.points, samples.values), (vec![[1.0, 2.0, 3.0]], vec![4.0]), "{text}");
        assert_eq!(found.len(), notes, "{text}: {found:?}");
    }
    let (_, notes) = decoded("a.csv", b"id,x,y,z,value\n0,1,2,3,4\n", &ReadRequest::default());
    assert_eq!(notes, ["header: the values are \"value\"; ignored: \"id\""]);
}

#[test]
fn other_numbers_of_columns_are_refused_and_not_cut() {
    for (text, expected) in [
        ("0,1,2,3,4\n", "line 1: 5 columns without names (expected x y z value"),
        ("1,2,3\n", "line 1: 3 columns without names"),
        (
            "a,b,c,d,e\n1,2,3,4,5\n",
            "header: names no coordinates (expected x y z value, found \"a b c d e\")",
        ),
        ("1,2,3,4\n1,2,3,4,5\n", "line 2: not a row of 4 columns"),
        ("x,y,z,value\n1,2,3\n", "line 2: not a row of 4 columns"),
        (
            "x,y,value\n1,2,3\n",
            "header: a coordinate is missing (expected x y z value, found \"x y value\"); for samples in 2-D",
        ),
        ("x,y,z,a,b\n1,2,3,4,5\n", "header: no column of values (expected value, v, intensity or density"),
    ] {
        let refused = refusal("a.csv", text.as_bytes(), &ReadRequest::default());
        assert!(refused.starts_with(expected), "{text}: {refused}");
    }
}

// NaN

#[test]
fn what_is_nan_is_no_sample_and_counted() {
    let (input, notes) = decoded("a.csv", b"1,2,3,4\n1,2,3,nan\n1,2,3,\n", &ReadRequest::default());
    assert_eq!(input.unwrap().samples().values, [4.0]);
    assert_eq!(notes, ["2 of 3 samples are NaN and left out"]);
    let nrrd = |values: &str| {
        format!("NRRD0004\ntype: float\ndimension: 3\nsizes: 2 2 1\nencoding: ascii\n\n{values}").into_bytes()
    };
    let (masked, notes) = volume_and_notes("a.nrrd", &nrrd("nan 1 2 nan"), &ReadRequest::default());
    let samples = masked.samples();
    assert_eq!((samples.points, samples.values), (vec![[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], vec![1.0, 2.0]));
    assert_eq!(notes, ["2 of 4 voxels are NaN and left out"]);
    let none = refusal("a.nrrd", &nrrd("nan nan nan nan"), &ReadRequest::default());
    assert_eq!(none, "values: all are NaN (expected at least one number, found 4 voxels)");
    assert!(refusal("a.nrrd", &nrrd("1 2 inf 3"), &ReadRequest::default()).contains("value 2: not finite"));
}

#[test]
fn arrays_of_bool_and_of_short_floats_are_read() {
    let npy = |descr: &str, data: &[u8]| {
        let text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': (1, 1, 3), }}");
        let header = [b"\x93NUMPY\x01\x00", &(text.len() as u16).to_le_bytes()[..], text.as_bytes()].concat();
        volume("a.npy", &[&header, data].concat()).values
    };
    assert_eq!(npy("|b1", &[1, 0, 1]), [1.0, 0.0, 1.0]);
    assert_eq!(npy("<f2", &[0, 0x3C, 0, 0xC0, 0, 0]), [1.0, -2.0, 0.0]);
    assert_eq!(npy(">f2", &[0x3C, 0, 0xC0, 0, 0, 0]), [1.0, -2.0, 0.0]);
}

// MetaImage, NIfTI-2, VTK

#[test]
fn metaimages_have_their_numbers_order_and_place() {
    let header = |more: &str| {
        format!(
            "ObjectType = Image\nNDims = 3\nDimSize = 2 1 2\nElementType = MET_SHORT\nElementSpacing = 0.5 1 2\n\
             Offset = 10 20 30\nTransformMatrix = 0 1 0 -1 0 0 0 0 1\n{more}\n"
        )
    };
    let data = [1i16, -2, 3, 400].map(i16::to_le_bytes).concat();
    let big = [1i16, -2, 3, 400].map(i16::to_be_bytes).concat();
    for (more, data) in [
        ("ElementDataFile = LOCAL", data.clone()),
        ("BinaryDataByteOrderMSB = True\nElementDataFile = LOCAL", big),
        ("CompressedData = True\nElementDataFile = LOCAL", zlib(&data)),
        ("BinaryData = False\nElementDataFile = LOCAL", b"1 -2 3 400\n".to_vec()),
        ("HeaderSize = -1\nElementDataFile = LOCAL", [&[7; 5][..], &data].concat()),
    ] {
        let bytes = [header(more).as_bytes(), &data].concat();
        let image = volume("a.mha", &bytes);
        assert_eq!((image.dims, &image.values[..]), ([2, 1, 2], &[1.0, -2.0, 3.0, 400.0][..]), "{more}");
        assert_eq!(image.spacing, [0.5, 1.0, 2.0]);
        // The first axis points along y of ITK; x and y of RAS+ point the other way.
        let expected = [[0.0, 1.0, 0.0, -10.0], [-0.5, 0.0, 0.0, -20.0], [0.0, 0.0, 2.0, 30.0]];
        assert_eq!(image.world_from_index.map(|row| row.map(|v| v + 0.0)), expected, "{more}");
    }
    let bytes = header("ElementDataFile = a.raw").into_bytes();
    let beside = |name: &str| {
        assert_eq!(name, "a.raw");
        Ok(data.clone())
    };
    let detached = decode("a.mhd", &bytes, &ReadRequest::default(), &beside).unwrap();
    assert_eq!(detached.samples().values, [1.0, -2.0, 3.0, 400.0]);
    let colours = header("ElementNumberOfChannels = 2\nElementDataFile = LOCAL");
    let colours = [colours.as_bytes(), &data, &data].concat();
    assert!(refusal("a.mha", &colours, &ReadRequest::default()).starts_with("channels: more than one"));
    let (second, _) = volume_and_notes("a.mha", &colours, &channel(1));
    assert_eq!(second.values, [-2.0, 400.0, -2.0, 400.0]);
    assert!(refusal("a.mha", &bytes[..60], &ReadRequest::default()).contains("cut off"));
}

#[test]
fn nifti_2_is_read_in_both_byte_orders() {
    for is_big in [false, true] {
        let mut bytes = vec![0; 544];
        let order = |mut number: Vec<u8>| {
            if is_big {
                number.reverse();
            }
            number
        };
        let mut put =
            |at: usize, number: Vec<u8>| bytes[at..at + number.len()].copy_from_slice(&order(number));
        put(0, 540i32.to_le_bytes().to_vec());
        put(12, 16i16.to_le_bytes().to_vec());
        for (at, side) in [(16, 3i64), (24, 2), (32, 1), (40, 2), (168, 544)] {
            put(at, side.to_le_bytes().to_vec());
        }
        for (at, number) in [(112, 0.5f64), (120, 1.5), (128, 2.5), (176, 2.0), (184, 1.0)] {
            put(at, number.to_le_bytes().to_vec());
        }
        put(348, 1i32.to_le_bytes().to_vec());
        for (at, number) in [(400, 0.5f64), (424, -7.0), (440, 1.5), (480, 2.5)] {
            put(at, number.to_le_bytes().to_vec());
        }
        bytes[4..8].copy_from_slice(b"n+2\0");
        for value in [1f32, 2.0, 3.0, f32::NAN] {
            bytes.extend(order(value.to_le_bytes().to_vec()));
        }
        let image = volume("a.nii", &bytes);
        assert_eq!((image.dims, &image.values[..3]), ([2, 1, 2], &[3.0, 5.0, 7.0][..]), "big: {is_big}");
        assert_eq!((image.spacing, image.world_from_index[0]), ([0.5, 1.5, 2.5], [0.5, 0.0, 0.0, -7.0]));
        assert!(image.values[3].is_nan());
    }
}

#[test]
fn a_written_vti_is_read_back_with_its_place() {
    let values: Vec<f32> = (0..24).map(|i| i as f32 * 0.5 - 3.0).collect();
    let world_from_index = [[0.0, -1.5, 0.0, 7.0], [0.5, 0.0, 0.0, -8.0], [0.0, 0.0, 2.0, 9.0]];
    let mut bytes = Vec::new();
    OutputVolume { values: &values, dims: [2, 3, 4], world_from_index }.vti(&mut bytes).unwrap();
    let read = volume("a.vti", &bytes);
    assert_eq!((read.dims, read.world_from_index), ([2, 3, 4], world_from_index));
    assert_eq!(read.values, values.iter().map(|v| f64::from(*v)).collect::<Vec<_>>());
    assert!(refusal("a.vti", &bytes[..bytes.len() - 60], &ReadRequest::default()).contains("cut off"));
}

#[test]
fn vti_of_other_programs_is_text_or_base64_with_or_without_zlib() {
    let file = |attributes: &str, array: &str, tail: &str| {
        format!(
            "<?xml version=\"1.0\"?><VTKFile type=\"ImageData\" byte_order=\"LittleEndian\" {attributes}><ImageData \
             WholeExtent=\"1 2 0 1 0 0\" Origin=\"1 2 3\" Spacing=\"0.5 1 1\"><Piece Extent=\"1 2 0 1 0 0\">\
             <PointData Scalars=\"v\"><DataArray type=\"Int16\" Name=\"v\" {array}</DataArray></PointData></Piece>\
             </ImageData>{tail}</VTKFile>"
        )
        .into_bytes()
    };
    let data = [5i16, -6, 7, 800].map(i16::to_le_bytes).concat();
    let plain = base64(&[&8u32.to_le_bytes()[..], &data].concat());
    let packed = zlib(&data);
    let sizes = [1u32, 8, 0, packed.len() as u32].map(u32::to_le_bytes).concat();
    let packed = base64(&sizes) + &base64(&packed);
    for (attributes, array, tail) in [
        ("", "format=\"ascii\">5 -6\n7 800".to_owned(), String::new()),
        ("header_type=\"UInt32\"", format!("format=\"binary\">\n  {plain}\n"), String::new()),
        ("compressor=\"vtkZLibDataCompressor\"", format!("format=\"binary\">{packed}"), String::new()),
        (
            "",
            "format=\"appended\" offset=\"4\">".to_owned(),
            format!("<AppendedData encoding=\"base64\">_AAAA{plain}</AppendedData>"),
        ),
    ] {
        let image = volume("a.vti", &file(attributes, &array, &tail));
        assert_eq!((image.dims, &image.values[..]), ([2, 2, 1], &[5.0, -6.0, 7.0, 800.0][..]), "{array}");
        // Index 0 is at the first index of the extent.
        assert_eq!(image.world_from_index[0], [0.5, 0.0, 0.0, 1.5]);
    }
    let two = file("", "format=\"ascii\" NumberOfComponents=\"2\">1 2 3 4 5 6 7 8", "");
    assert!(refusal("a.vti", &two, &ReadRequest::default()).starts_with("channels: more than one"));
    let (second, _) = volume_and_notes("a.vti", &two, &channel(1));
    assert_eq!(second.values, [2.0, 4.0, 6.0, 8.0]);
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for group in bytes.chunks(3) {
        let wide = group.iter().fold(0u32, |wide, b| wide << 8 | u32::from(*b)) << (8 * (3 - group.len()));
        for i in 0..4 {
            let letter = char::from(LETTERS[(wide >> (18 - 6 * i) & 63) as usize]);
            out.push(if i <= group.len() { letter } else { '=' });
        }
    }
    out
}

// Spacing, and formats that are not read

#[test]
fn a_spacing_that_is_given_replaces_that_of_the_file_and_keeps_its_place() {
    let header = "NRRD0004\ntype: uchar\ndimension: 3\nsizes: 1 1 2\nencoding: ascii\nspace directions: (0,2,0) (1,0,0) \
                  (0,0,4)\nspace origin: (5,6,7)\n\n1 2";
    let wanted = ReadRequest { spacing: Some([1.0, 1.0, 3.0]), ..ReadRequest::default() };
    let (spaced, _) = volume_and_notes("a.nrrd", header.as_bytes(), &wanted);
    assert_eq!(spaced.spacing, [1.0, 1.0, 3.0]);
    let expected = [[0.0, 1.0, 0.0, 5.0], [1.0, 0.0, 0.0, 6.0], [0.0, 0.0, 3.0, 7.0]];
    assert_eq!(spaced.world_from_index, expected);
    assert!(refusal("a.csv", b"1,2,3,4\n", &wanted).starts_with("⟨spacing⟩: no voxels"));
}

#[test]
fn formats_that_are_not_read_are_named_with_what_to_do() {
    let scratch = tempfile::tempdir().unwrap();
    let refused = |name: &str, bytes: &[u8]| {
        let path = scratch.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
        input::read(&path, &ReadRequest::default()).unwrap_err().to_string()
    };
    let dicom = [&[0; 128][..], b"DICM\x02\0"].concat();
    for name in ["slice.dcm", "IM000001", "series/IM1"] {
        let line = refused(name, &dicom);
        assert!(line.contains("DICOM is not read") && line.contains("dcm2niix"), "{line}");
    }
    let folder = |path: &Path| input::read(path, &ReadRequest::default()).unwrap_err().to_string();
    assert!(folder(&scratch.path().join("series")).contains("a DICOM series is not read"));
    refused("image.zarr/.zattrs", b"{}");
    assert!(folder(&scratch.path().join("image.zarr")).contains("OME-Zarr is not read"));
    assert!(refused("a.mgz", b"").contains("mri_convert"));
    assert!(refused("a.img", b"").contains("voxels without a header is not read"));
    let mut analyze = vec![0; 348];
    analyze[..4].copy_from_slice(&348i32.to_le_bytes());
    let line = refused("b.hdr", &analyze);
    assert!(line.contains("Analyze 7.5 is not read"), "{line}");
    // The voxels of a pair lead to its header.
    assert_eq!(refused("b.img", b"").replace("b.img", "b.hdr"), line);
}
