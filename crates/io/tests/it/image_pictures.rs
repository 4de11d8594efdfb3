//! Images: every variant is decoded to 8-bit RGB with straight alpha; damage and other formats are reported.

use std::io::Cursor;
use std::path::Path;

use crate::dataset_support::{Scene, damage, tiny_png};
use crate::memory;
use gausset_io::image::encode::{PngPixels, png, png_rgb8};
use gausset_io::image::header::parse_header;
use gausset_io::image::{
    DecodedImage, Exposure, ImageFormat, ImageProblem, area_filter, check, decode, decode_file,
    decode_mask_file, read_exif, read_header,
};
use proptest::prelude::*;

/// A baseline JPEG of one 8x8 block per component in which all coefficients are 0: mid grey in each channel.
///
/// Both Huffman tables have one code, `0`: difference 0 and end of block. `extra` is inserted after the start marker.
fn flat_jpeg(components: u8, start_of_frame: u8, bits: u8, extra: &[u8]) -> Vec<u8> {
    let segment = |marker: u8, data: &[u8]| {
        let length = (data.len() as u16 + 2).to_be_bytes();
        [&[0xFF, marker], &length[..], data].concat()
    };
    let quantisation = [&[0u8][..], &[1; 64]].concat();
    let table = |class: u8| [&[class, 1][..], &[0; 15], &[0]].concat();
    let frame: Vec<u8> = [bits, 0, 8, 0, 8, components]
        .into_iter()
        .chain((1..=components).flat_map(|c| [c, 0x11, 0]))
        .collect();
    let scan: Vec<u8> =
        [components].into_iter().chain((1..=components).flat_map(|c| [c, 0])).chain([0, 63, 0]).collect();
    [
        vec![0xFF, 0xD8],
        extra.to_vec(),
        segment(0xDB, &quantisation),
        segment(start_of_frame, &frame),
        segment(0xC4, &table(0x00)),
        segment(0xC4, &table(0x10)),
        segment(0xDA, &scan),
        // Two bits per component; the rest is filled with ones.
        vec![[0x3F, 0x0F, 0x03, 0x00][components as usize - 1]],
        vec![0xFF, 0xD9],
    ]
    .concat()
}

/// APP1 with an EXIF directory of one entry: the orientation.
fn exif(orientation: u8, little: bool) -> Vec<u8> {
    let tiff: Vec<u8> = if little {
        [&b"II\x2A\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0"[..], &[orientation, 0, 0, 0], &[0; 4]].concat()
    } else {
        [&b"MM\0\x2A\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01"[..], &[0, orientation, 0, 0], &[0; 4]].concat()
    };
    let length = (tiff.len() as u16 + 8).to_be_bytes();
    [&[0xFF, 0xE1], &length[..], b"Exif\0\0", &tiff].concat()
}

/// A PNG by the encoder of the `png` crate, for variants that Gausset does not write.
fn png_of(
    colour: png::ColorType,
    depth: png::BitDepth,
    palette: Option<(&[u8], &[u8])>,
    data: &[u8],
) -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = png::Encoder::new(&mut out, 2, 2);
    encoder.set_color(colour);
    encoder.set_depth(depth);
    if let Some((colours, alphas)) = palette {
        encoder.set_palette(colours.to_vec());
        encoder.set_trns(alphas.to_vec());
    }
    let mut writer = encoder.write_header().unwrap();
    writer.write_image_data(data).unwrap();
    writer.finish().unwrap();
    out
}

#[test]
fn grey_rgb_and_cmyk_jpegs_become_rgb() {
    for (components, channels) in [(1, 1), (3, 3), (4, 4)] {
        let bytes = flat_jpeg(components, 0xC0, 8, &[]);
        let header = parse_header(Cursor::new(&bytes)).unwrap();
        assert_eq!((header.format, header.channels, header.bits), (ImageFormat::Jpeg, channels, 8));
        let picture = decode(&bytes).unwrap();
        assert_eq!((picture.width, picture.height, picture.alpha), (8, 8, None));
        assert_eq!(picture.rgb.len(), 192);
        assert!(picture.rgb.chunks_exact(3).all(|p| p == &picture.rgb[..3]), "flat: {:?}", &picture.rgb[..6]);
    }
    assert_eq!(decode(&flat_jpeg(1, 0xC0, 8, &[])).unwrap().rgb[..3], [128, 128, 128]);
}

#[test]
fn jpeg_variants_that_are_not_decoded_are_named() {
    let line = |frame, bits| decode(&flat_jpeg(1, frame, bits, &[])).unwrap_err().to_string();
    assert_eq!(line(0xC1, 12), "picture: 12-bit JPEG cannot be decoded (expected 8 bits); convert it");
    assert_eq!(
        line(0xC3, 8),
        "picture: lossless JPEG cannot be decoded (expected baseline or progressive); convert it"
    );
    assert_eq!(
        line(0xC9, 8),
        "picture: JPEG with arithmetic coding cannot be decoded (expected baseline or progressive); convert it"
    );
    assert_eq!(
        decode(&flat_jpeg(2, 0xC0, 8, &[])).unwrap_err().to_string(),
        "picture: JPEG with 2 channels cannot be decoded (expected 1, 3 or 4); convert it"
    );
}

#[test]
fn every_png_variant_becomes_rgb_with_straight_alpha() {
    use png::{BitDepth as D, ColorType as C};
    let case = |colour, depth, palette, data: &[u8]| decode(&png_of(colour, depth, palette, data)).unwrap();
    let grey16: Vec<u8> =
        [0u16, 257 * 100, 257 * 100 + 129, 65535].iter().flat_map(|v| v.to_be_bytes()).collect();
    let picture = case(C::Grayscale, D::Sixteen, None, &grey16);
    assert_eq!(picture.rgb, [0, 0, 0, 100, 100, 100, 101, 101, 101, 255, 255, 255]);
    let bits = case(C::Grayscale, D::One, None, &[0b1000_0000, 0b0100_0000]);
    assert_eq!(bits.rgb, [255, 255, 255, 0, 0, 0, 0, 0, 0, 255, 255, 255]);
    let rgba16: Vec<u8> =
        (0..4u16).flat_map(|i| [0x1234, 0x8080, 0xFFFF, i * 21845]).flat_map(u16::to_be_bytes).collect();
    let picture = case(C::Rgba, D::Sixteen, None, &rgba16);
    assert_eq!((&picture.rgb[..3], picture.alpha), (&[18, 128, 255][..], Some(vec![0, 85, 170, 255])));
    let palette = (&[10, 20, 30, 40, 50, 60][..], &[0, 255][..]);
    let picture = case(C::Indexed, D::Eight, Some(palette), &[0, 1, 1, 0]);
    assert_eq!(picture.alpha, Some(vec![0, 255, 255, 0]));
    assert_eq!(picture.rgb, [10, 20, 30, 40, 50, 60, 40, 50, 60, 10, 20, 30]);
    let picture = case(C::GrayscaleAlpha, D::Eight, None, &[7, 255, 8, 255, 9, 255, 10, 255]);
    assert_eq!((picture.rgb[3], picture.alpha), (8, None), "alpha that is opaque everywhere is dropped");
}

#[test]
fn the_content_counts_and_not_the_extension() {
    let scene = Scene::empty();
    let path = scene.write("really.jpg", &tiny_png(16, 12));
    assert_eq!(read_header(&path).unwrap().format, ImageFormat::Png);
    assert_eq!(decode_file(&path).unwrap().width, 16);
    let formats: [(&[u8], &str); 6] = [
        (b"GIF89a", "GIF"),
        (b"FUJIFILMCCD-RAW ", "a raw photograph"),
        (b"\0\0\0\x18ftypheic", "HEIC"),
        (b"\0\0\0\x18ftypavif", "AVIF"),
        (b"version https://git-lfs.github.com/spec/v1", "a Git LFS pointer (run `git lfs pull`)"),
        (b"hello", "of an unknown format"),
    ];
    for (bytes, name) in formats {
        assert_eq!(decode(bytes).unwrap_err(), ImageProblem::Format(name));
    }
}

#[test]
fn exif_orientation_is_read_and_turns_the_view() {
    for (orientation, little) in [(1, true), (6, true), (8, false), (3, false)] {
        let bytes = flat_jpeg(3, 0xC0, 8, &exif(orientation, little));
        assert_eq!(parse_header(Cursor::new(&bytes)).unwrap().orientation, orientation);
    }
    let bytes = flat_jpeg(3, 0xC0, 8, &exif(9, true));
    assert_eq!(parse_header(Cursor::new(&bytes)).unwrap().orientation, 1, "9 is no orientation");
    // Its pixels stay as they are stored for the camera; the view of both is turned, and the dataset says so once.
    let scene = Scene::json("\"fl_x\": 14,", "");
    for i in 0..9 {
        scene.write(&format!("images/{i}.png"), &flat_jpeg(3, 0xC0, 8, &exif(6, true)));
    }
    let report = scene.report();
    assert!(
        report.contains(
            &"DATA: EXIF orientation: 9 pictures turned upright, each with its camera: poses belong to the stored \
              pixels (the first: images/0.png, orientation 6)"
                .to_owned()
        ),
        "{report:?}"
    );
}

/// APP1 with time 1/200 s, f/2.8 and ISO 400 in a separate directory after the first.
fn exif_of_a_shot(little: bool, iso: u16) -> Vec<u8> {
    let u16s = |v: u16| if little { v.to_le_bytes() } else { v.to_be_bytes() };
    let u32s = |v: u32| if little { v.to_le_bytes() } else { v.to_be_bytes() };
    let entry =
        |tag: u16, kind: u16, value: [u8; 4]| [&u16s(tag)[..], &u16s(kind), &u32s(1), &value].concat();
    let short = |v: u16| [&u16s(v)[..], &[0, 0]].concat().try_into().unwrap();
    let tiff = [
        if little { b"II\x2A\0".to_vec() } else { b"MM\0\x2A".to_vec() },
        u32s(8).to_vec(),
        // At 8: one entry, the offset of the other directory.
        u16s(1).to_vec(),
        entry(0x8769, 4, u32s(26)),
        u32s(0).to_vec(),
        // At 26: three entries and no next directory, 42 bytes; numbers from 68 on.
        u16s(3).to_vec(),
        entry(0x829A, 5, u32s(68)),
        entry(0x829D, 5, u32s(76)),
        entry(0x8827, 3, short(iso)),
        u32s(0).to_vec(),
        [u32s(1), u32s(200), u32s(28), u32s(10)].concat(),
    ]
    .concat();
    let length = (tiff.len() as u16 + 8).to_be_bytes();
    [&[0xFF, 0xE1], &length[..], b"Exif\0\0", &tiff].concat()
}

#[test]
fn time_f_number_and_iso_are_read_where_all_of_them_are_there() {
    for little in [true, false] {
        let header = |app1: &[u8]| parse_header(Cursor::new(&flat_jpeg(3, 0xC0, 8, app1))).unwrap();
        let shot = header(&exif_of_a_shot(little, 400)).shot.unwrap();
        assert_eq!(shot, Exposure { time: [1, 200], f_number: [28, 10], iso: 400 });
        assert!((shot.brightness_stops() - (4.0 / 200.0 / 7.84f64).log2()).abs() < 1e-12);
        assert_eq!(header(&exif_of_a_shot(little, 0)).shot, None);
        assert_eq!(header(&exif(6, little)).shot, None);
        // The image is read wherever the EXIF data is truncated.
        let whole = exif_of_a_shot(little, 400);
        for end in 10..whole.len() {
            let mut cut = whole[..end].to_vec();
            cut[2..4].copy_from_slice(&(end as u16 - 2).to_be_bytes());
            assert_eq!(header(&cut).shot, None, "{end}");
        }
    }
}

#[test]
fn sizes_beyond_the_limits_are_refused_before_decoding() {
    let mut bytes = tiny_png(16, 12);
    let with = |bytes: &mut Vec<u8>, width: u32, height: u32| {
        bytes[16..20].copy_from_slice(&width.to_be_bytes());
        bytes[20..24].copy_from_slice(&height.to_be_bytes());
        memory::peak(|| decode(bytes).unwrap_err())
    };
    for (width, height) in
        [(40_000, 2), (2, 40_000), (20_000, 20_000), (u32::MAX, u32::MAX), (32_768, 16_384)]
    {
        let (problem, peak) = with(&mut bytes, width, height);
        assert_eq!(problem, ImageProblem::Size { width, height });
        assert!(peak < 64 << 10, "{peak} bytes");
    }
    assert_eq!(with(&mut bytes, 0, 5).0.to_string(), "picture: header is damaged: size is 0x5 px");
}

#[test]
fn only_regular_files_of_some_length_are_read() {
    let scene = Scene::empty();
    let empty = scene.write("empty.png", b"");
    assert_eq!(decode_file(&empty).unwrap_err().problem, ImageProblem::Empty);
    let reason = |path: &Path| decode_file(path).unwrap_err().problem.to_string();
    assert_eq!(reason(scene.path()), "picture: is a folder (expected a file)");
    assert_eq!(
        decode_file(&scene.path().join("none.png")).unwrap_err().problem.to_string(),
        "picture: no such file or folder"
    );
    #[cfg(unix)]
    assert_eq!(reason("/dev/zero".as_ref()), "picture: is a device (expected a regular file)");
}

#[test]
fn a_jpeg_cut_anywhere_is_refused_and_never_half_grey() {
    let bytes = flat_jpeg(3, 0xC0, 8, &exif(1, true));
    assert!(decode(&bytes).is_ok());
    damage::truncations(&bytes, |cut| assert!(decode(cut).is_err(), "cut to {} bytes", cut.len()));
    // Data after the end marker (previews of phones) is ignored.
    assert!(decode(&[&bytes[..], b"trailer"].concat()).is_ok());
}

#[test]
fn a_png_cut_in_its_pixels_is_refused() {
    let bytes = tiny_png(16, 12);
    let end = bytes.len() - 12;
    damage::truncations(&bytes[..end - 5], |cut| assert!(decode(cut).is_err(), "cut to {} bytes", cut.len()));
}

#[test]
fn damaged_pictures_are_errors_and_take_bounded_memory() {
    let jpeg = flat_jpeg(4, 0xC0, 8, &exif(6, false));
    for bytes in [tiny_png(16, 12), jpeg] {
        let mut check = |damaged: &[u8]| {
            let (_, peak) = memory::peak(|| decode(damaged));
            assert!(peak <= 4 * damaged.len() + (64 << 20), "{peak} bytes for {}", damaged.len());
        };
        damage::truncations(&bytes, &mut check);
        damage::flips(&bytes, 0, &mut check);
        damage::splices(&bytes, &tiny_png(5, 5), &mut check);
    }
}

#[test]
fn masks_keep_from_the_middle_on_and_numbers_below_it_all_but_0() {
    let scene = Scene::empty();
    let keep = |rgb: &[u8; 9]| {
        let path = scene.write("m.png", &png(3, 1, PngPixels::Rgb8(rgb), &[]).unwrap());
        decode_mask_file(&path).unwrap()
    };
    let mask = keep(&[0, 127, 0, 0, 0, 128, 255, 255, 255]);
    assert_eq!(mask.values, [0, 255, 255]);
    assert_eq!(
        (mask.at_fraction(0.0, 0.0), mask.at_fraction(0.34, 1.0), mask.at_fraction(1.0, 0.5)),
        (0, 255, 255)
    );
    assert_eq!(keep(&[0, 0, 0, 0, 0, 1, 20, 20, 20]).values, [0, 255, 255]);
}

#[test]
fn what_is_encoded_is_decoded_with_its_text() {
    let pixels: Vec<u8> = (0..60).collect();
    let rgb = gausset_core::RgbImage8 { width: 5, height: 4, data: pixels.clone() };
    assert_eq!(decode(&png_rgb8(&rgb).unwrap()).unwrap().rgb, pixels);
    let depth: Vec<u16> = (0..20).map(|i| i * 3001).collect();
    let bytes = png(5, 4, PngPixels::Grey16(&depth), &[("depth-scale", "0.001 units")]).unwrap();
    let mut reader = png::Decoder::new(Cursor::new(&bytes)).read_info().unwrap();
    assert_eq!(reader.info().uncompressed_latin1_text[0].text, "0.001 units");
    let mut buffer = vec![0; 40];
    reader.next_frame(&mut buffer).unwrap();
    let found: Vec<u16> = buffer.chunks_exact(2).map(|b| u16::from_be_bytes([b[0], b[1]])).collect();
    assert_eq!(found, depth);
    assert!(png(5, 4, PngPixels::Rgb8(&pixels[1..]), &[]).is_err(), "pixels must fill the picture");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_bytes_make_a_header_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), jpeg in any::<bool>()) {
        let start: &[u8] = if jpeg { b"\xFF\xD8\xFF" } else { b"\x89PNG\r\n\x1A\n\0\0\0\x0DIHDR" };
        let _ = parse_header(Cursor::new([start, &bytes].concat()));
        let _ = decode(&[start, &bytes].concat());
    }

    #[test]
    fn downscaling_stays_within_the_range_of_the_source(
        (width, height) in (1u32..24, 1u32..24),
        shares in (0.0f64..1.0, 0.0f64..1.0),
        seed in any::<u64>(),
        with_alpha in any::<bool>(),
    ) {
        let value = |i: u64| ((seed ^ i).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8;
        let pixels = u64::from(width * height);
        let rgb: Vec<u8> = (0..pixels * 3).map(value).collect();
        let alpha = with_alpha.then(|| (0..pixels).map(|i| value(i + 99_999)).collect::<Vec<u8>>());
        let to = |size: u32, share: f64| 1 + (f64::from(size - 1) * share) as u32;
        let (w, h) = (to(width, shares.0), to(height, shares.1));
        let small = area_filter::downscale(DecodedImage { width, height, rgb: rgb.clone(), alpha: alpha.clone() }, w, h);
        prop_assert_eq!((small.rgb.len(), small.width, small.height), ((w * h * 3) as usize, w, h));
        let (low, high) = (rgb.iter().min().unwrap(), rgb.iter().max().unwrap());
        let opaque = small.alpha.as_ref().is_none_or(|a| a.iter().all(|&a| a > 0));
        // One level for rounding; colours without coverage are 0.
        prop_assert!(!opaque || small.rgb.iter().all(|v| v.saturating_add(1) >= *low && v.saturating_sub(1) <= *high));
    }
}

#[test]
fn a_header_tells_whether_the_decoder_keeps_coefficients() {
    // Start, frame header of 8x8 px with three channels, a table to skip, a scan.
    let jpeg = |frame: u8, channels_in_scan: u8| -> Vec<u8> {
        let mut bytes = vec![0xFF, 0xD8, 0xFF, frame, 0, 17, 8, 0, 8, 0, 8, 3];
        bytes.extend([1, 0x11, 0, 2, 0x11, 0, 3, 0x11, 0]);
        bytes.extend([0xFF, 0xC4, 0, 4, 0xFF, 0xDA]);
        bytes.extend([0xFF, 0xDA, 0, 12, channels_in_scan]);
        bytes
    };
    let keeps = |bytes: &[u8]| parse_header(Cursor::new(bytes)).unwrap().keeps_coefficients;
    assert!(!keeps(&jpeg(0xC0, 3)), "baseline, all colours together");
    assert!(keeps(&jpeg(0xC0, 1)), "baseline, one colour after the other");
    assert!(keeps(&jpeg(0xC2, 3)), "progressive");
    assert!(keeps(&jpeg(0xC0, 3)[..25]), "nobody knows");
}

/// A TIFF with the given entries of tag, type (SHORT or LONG) and value, and one strip of pixels after them.
fn tiff(
    little: bool,
    size: [u32; 2],
    bits: u16,
    channels: u16,
    more: &[(u16, u16)],
    pixels: &[u8],
) -> Vec<u8> {
    let u16s = |v: u16| if little { v.to_le_bytes() } else { v.to_be_bytes() };
    let u32s = |v: u32| if little { v.to_le_bytes() } else { v.to_be_bytes() };
    let short = |v: u16| [u16s(v).to_vec(), vec![0, 0]].concat();
    let long = |v: u32| u32s(v).to_vec();
    let photometric = if channels < 3 { 1 } else { 2 };
    let mut more = more.to_vec();
    let mut instead = |tag: u16, usual: u16| {
        let given = more.iter().position(|(other, _)| *other == tag).map(|at| more.remove(at).1);
        given.unwrap_or(usual)
    };
    let (compression, photometric) = (instead(259, 1), instead(262, photometric));
    let count = 10 + more.len() as u32;
    let bits_at = 8 + 2 + 12 * count + 4;
    let strip_at = bits_at + 2 * u32::from(channels.max(2));
    let mut entries: Vec<(u16, u16, u32, Vec<u8>)> = vec![
        (256, 4, 1, long(size[0])),
        (257, 4, 1, long(size[1])),
        (258, 3, u32::from(channels), if channels > 2 { long(bits_at) } else { short(bits) }),
        (259, 3, 1, short(compression)),
        (262, 3, 1, short(photometric)),
        (273, 4, 1, long(strip_at)),
        (277, 3, 1, short(channels)),
        (278, 4, 1, long(size[1])),
        (279, 4, 1, long(pixels.len() as u32)),
        (284, 3, 1, short(1)),
    ];
    entries.extend(more.iter().map(|&(tag, value)| (tag, 3, 1, short(value))));
    entries.sort_by_key(|entry| entry.0);
    let mut out = if little { b"II*\0".to_vec() } else { b"MM\0*".to_vec() };
    out.extend(u32s(8));
    out.extend(u16s(count as u16));
    for (tag, kind, count, value) in entries {
        out.extend([u16s(tag).to_vec(), u16s(kind).to_vec(), u32s(count).to_vec(), value].concat());
    }
    out.extend(u32s(0));
    (0..channels.max(2)).for_each(|_| out.extend(u16s(bits)));
    out.extend(pixels);
    out
}

#[test]
fn tiff_of_8_and_16_bits_is_read_in_both_byte_orders() {
    let rgb = [[200u8, 100, 50], [0, 255, 7]].concat();
    for little in [true, false] {
        let file = tiff(little, [2, 1], 8, 3, &[(274, 6)], &rgb);
        let header = parse_header(Cursor::new(&file)).unwrap();
        let facts = (header.format, header.width, header.height, header.channels, header.bits);
        assert_eq!((facts, header.orientation), ((ImageFormat::Tiff, 2, 1, 3, 8), 6));
        assert_eq!(decode(&file).unwrap().rgb, rgb);
        let wide: Vec<u8> = rgb
            .iter()
            .flat_map(|&v| {
                let v = u16::from(v) * 257;
                if little { v.to_le_bytes() } else { v.to_be_bytes() }
            })
            .collect();
        let file = tiff(little, [2, 1], 16, 3, &[], &wide);
        assert_eq!(parse_header(Cursor::new(&file)).unwrap().bits, 16);
        assert_eq!(decode(&file).unwrap().rgb, rgb);
        let grey = decode(&tiff(little, [2, 1], 8, 1, &[], &[9, 8])).unwrap();
        assert_eq!(grey.rgb, [9, 9, 9, 8, 8, 8]);
    }
    // Premultiplied colours are divided by alpha, straight ones not; a colour above its alpha is cut.
    let colours = [100u8, 50, 0, 128, 200, 0, 9, 100, 7, 8, 9, 0];
    let of_kind = |kind| decode(&tiff(true, [3, 1], 8, 4, &[(338, kind)], &colours)).unwrap();
    assert_eq!(of_kind(2).rgb, [100, 50, 0, 200, 0, 9, 7, 8, 9]);
    let straight = of_kind(1);
    assert_eq!(straight.rgb, [199, 100, 0, 255, 0, 23, 7, 8, 9]);
    assert_eq!(straight.alpha, Some(vec![128, 100, 0]));
    let wide: Vec<u8> = [10_000u16, 30_000, 0, 32_768].iter().flat_map(|v| v.to_le_bytes()).collect();
    let wide = decode(&tiff(true, [1, 1], 16, 4, &[(338, 1)], &wide)).unwrap();
    assert_eq!((wide.rgb, wide.alpha), (vec![78, 233, 0], Some(vec![128])));
    let refusal = |file: Vec<u8>| decode(&file).unwrap_err().to_string();
    let raw = tiff(true, [2, 1], 8, 1, &[(0xC612, 1)], &[9, 8]);
    assert_eq!(refusal(raw), "picture: is a raw photograph (expected JPEG, PNG, TIFF or WebP); convert it");
    let float = tiff(true, [1, 1], 16, 1, &[(339, 3)], &[0, 0]);
    assert!(refusal(float).contains("floating-point"));
    assert!(matches!(decode(&tiff(true, [60_000, 60_000], 8, 3, &[], &rgb)), Err(ImageProblem::Size { .. })));
    assert!(decode(&tiff(true, [2, 9], 8, 3, &[], &rgb)).is_err(), "a truncated strip");
}

#[test]
fn webp_is_read_with_alpha_and_orientation() {
    let opaque = [[200u8, 100, 50, 255], [0, 255, 7, 255]].concat();
    let file = gausset_io::image::encode::webp_rgba8(2, 1, &opaque).unwrap();
    let header = parse_header(Cursor::new(&file)).unwrap();
    assert_eq!(
        (header.format, header.width, header.height, header.orientation),
        (ImageFormat::WebP, 2, 1, 1)
    );
    assert_eq!(decode(&file).unwrap().rgb, [200, 100, 50, 0, 255, 7]);
    let clear = [[200u8, 100, 50, 255], [0, 255, 7, 9]].concat();
    let file = gausset_io::image::encode::webp_rgba8(2, 1, &clear).unwrap();
    assert_eq!(decode(&file).unwrap().alpha, Some(vec![255, 9]));
    // The extended form: VP8X with size and flags, the image, EXIF.
    let image = &file[12..];
    let tiff = &exif(6, true)[10..];
    let chunks = [
        &b"VP8X\x0a\0\0\0\x18\0\0\0\x01\0\0\0\0\0"[..],
        image,
        b"EXIF",
        &(tiff.len() as u32).to_le_bytes(),
        tiff,
    ]
    .concat();
    let whole = [&b"RIFF"[..], &(chunks.len() as u32 + 4).to_le_bytes(), b"WEBP", &chunks].concat();
    let header = parse_header(Cursor::new(&whole)).unwrap();
    assert_eq!((header.width, header.height, header.channels, header.orientation), (2, 1, 4, 6));
    assert_eq!(decode(&whole).unwrap().alpha, Some(vec![255, 9]));
    assert!(decode(&whole[..whole.len() / 2]).is_err());
}

#[test]
fn what_the_decoder_cannot_read_is_refused_by_the_check_before_any_work() {
    let rgb = [[200u8, 100, 50], [0, 255, 7]].concat();
    let good = tiff(true, [2, 1], 8, 3, &[], &rgb);
    assert_eq!(check(&good), parse_header(Cursor::new(&good)));
    let refusal = |file: &[u8]| {
        assert!(decode(file).is_err(), "only what is not decoded is refused");
        check(file).unwrap_err().to_string()
    };
    let expected = "cannot be decoded (expected RGB, grey or CMYK); convert it";
    let palette = tiff(true, [2, 1], 8, 1, &[(262, 3)], &[0, 1]);
    assert_eq!(refusal(&palette), format!("picture: TIFF with a palette {expected}"));
    let ycbcr = tiff(true, [2, 1], 8, 3, &[(262, 6)], &rgb);
    assert_eq!(refusal(&ycbcr), format!("picture: TIFF with YCbCr colours {expected}"));
    refusal(&tiff(true, [2, 1], 8, 3, &[(259, 34925)], &rgb));
    refusal(&tiff(true, [2, 1], 4, 1, &[], &[0x12]));
    let grey_with_alpha = tiff(true, [2, 1], 8, 2, &[], &[1, 2, 3, 4]);
    assert_eq!(
        refusal(&grey_with_alpha),
        parse_header(Cursor::new(&grey_with_alpha)).unwrap_err().to_string()
    );
    damage::truncations(&good, |cut| drop(refusal(cut)));
}

#[test]
fn a_png_or_webp_cut_anywhere_or_with_other_bytes_is_refused_by_the_check() {
    let png = tiny_png(16, 12);
    assert!(check(&png).is_ok() && check(&[&png[..], b"trailer"].concat()).is_ok());
    damage::truncations(&png, |cut| assert!(check(cut).is_err(), "cut to {} bytes", cut.len()));
    let mut flipped = png.clone();
    flipped[png.len() - 18] ^= 1;
    assert!(check(&flipped).is_err() && decode(&flipped).is_err());
    let webp = gausset_io::image::encode::webp_rgba8(2, 1, &[200, 100, 50, 255, 0, 255, 7, 9]).unwrap();
    assert!(check(&webp).is_ok());
    damage::truncations(&webp, |cut| assert!(check(cut).is_err(), "cut to {} bytes", cut.len()));
}

/// A GPS directory at an offset: 48° 30' 0" N.
fn gps_directory(little: bool, at: u32) -> Vec<u8> {
    let u16s = |v: u16| if little { v.to_le_bytes() } else { v.to_be_bytes() };
    let u32s = |v: u32| if little { v.to_le_bytes() } else { v.to_be_bytes() };
    let entry =
        |tag, kind, count, value: [u8; 4]| [&u16s(tag)[..], &u16s(kind), &u32s(count), &value].concat();
    let latitude = [48, 1, 30, 1, 0, 1].map(u32s).concat();
    let entries = [entry(1, 2, 2, *b"N\0\0\0"), entry(2, 5, 3, u32s(at + 30))].concat();
    [&u16s(2)[..], &entries, &u32s(0), &latitude].concat()
}

#[test]
fn a_gps_position_is_read_from_every_format_wherever_it_stands() {
    let folder = tempfile::tempdir().unwrap();
    let latitude = |name: &str, bytes: &[u8]| -> Option<Vec<[u32; 2]>> {
        std::fs::write(folder.path().join(name), bytes).unwrap();
        let gps = read_exif(&folder.path().join(name))?.gps;
        assert_eq!(gps.first().map(|field| (field.tag, field.bytes.clone())), Some((1, b"N\0".to_vec())));
        Some(gps.iter().find(|field| field.tag == 2)?.rationals().collect())
    };
    let expected = Some(vec![[48, 1], [30, 1], [0, 1]]);
    for little in [true, false] {
        let head: &[u8] = if little {
            b"II\x2A\0\x08\0\0\0\x01\0\x25\x88\x04\0\x01\0\0\0\x1A\0\0\0\0\0\0\0"
        } else {
            b"MM\0\x2A\0\0\0\x08\0\x01\x88\x25\0\x04\0\0\0\x01\0\0\0\x1A\0\0\0\0"
        };
        let exif = [head, &gps_directory(little, 26)].concat();
        let chunk = |name: &[u8; 4], length: [u8; 4]| [name, &length[..], &exif].concat();
        let length = (exif.len() as u16 + 8).to_be_bytes();
        let segment = [&[0xFF, 0xE1], &length[..], b"Exif\0\0", &exif].concat();
        assert_eq!(latitude("a.jpg", &flat_jpeg(3, 0xC0, 8, &segment)), expected);
        let plain = png_rgb8(&gausset_core::RgbImage8::new(2, 1)).unwrap();
        // Signature and IHDR; the checksum of eXIf is not read.
        let (start, rest) = plain.split_at(33);
        let length = (exif.len() as u32).to_be_bytes();
        assert_eq!(latitude("a.png", &[start, &length, b"eXIf", &exif, &[0; 4], rest].concat()), expected);
        let image = &gausset_io::image::encode::webp_rgba8(2, 1, &[9; 8]).unwrap()[12..];
        let head = b"RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0\x18\0\0\0\x01\0\0\0\0\0";
        let exif = chunk(b"EXIF", (exif.len() as u32).to_le_bytes());
        assert_eq!(latitude("a.webp", &[&head[..], image, &exif].concat()), expected);
        // Of a TIFF of 3 MB behind the pixels.
        let (size, pixels) = ([1000, 1000], vec![9; 3_000_000]);
        let at = tiff(little, size, 8, 3, &[(0x8825, 0)], &[]).len() + pixels.len();
        let mut file = tiff(little, size, 8, 3, &[(0x8825, 0)], &pixels);
        let entry: &[u8] = if little { b"\x25\x88\x03\0\x01\0\0\0" } else { b"\x88\x25\0\x03\0\0\0\x01" };
        let entry = file.windows(8).position(|bytes| bytes == entry).unwrap();
        let [kind, place] = if little {
            [[4, 0].to_vec(), (at as u32).to_le_bytes().to_vec()]
        } else {
            [[0, 4].to_vec(), (at as u32).to_be_bytes().to_vec()]
        };
        file.splice(entry + 2..entry + 4, kind);
        file.splice(entry + 8..entry + 12, place);
        file.extend(gps_directory(little, at as u32));
        assert_eq!(latitude("a.tif", &file), expected);
        // A damaged directory is no reason to refuse the picture.
        file.truncate(at + 8);
        std::fs::write(folder.path().join("cut.tif"), &file).unwrap();
        assert_eq!(read_exif(&folder.path().join("cut.tif")).unwrap().gps, []);
        assert_eq!(parse_header(Cursor::new(&file)).unwrap().width, 1000);
    }
    assert_eq!(read_exif(&folder.path().join("missing.png")), None);
}
