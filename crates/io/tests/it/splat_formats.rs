//! Formats of other programs: their files are read to their reference values, and Gausset's files have the bytes that
//! they expect.

use crate::files;
use std::io::Read;
use std::path::Path;

use crate::files::{Numbers, some_splats};
use gausset_core::splats_transform::Similarity;
use gausset_core::{Splats, sh};
use gausset_io::dataset::georeference::EarthPlace;
use gausset_io::splat::{
    self, FORMATS, Format, Initial, LoadOptions, SaveOptions, SplatFile, SpzAxes, SpzOptions, parse_initial,
};
use gausset_testkit::data_file;

fn parse(bytes: &[u8]) -> SplatFile {
    match parse_initial(bytes, Path::new("t"), &LoadOptions::default().limits) {
        Ok(Initial::Splats(document)) => document,
        other => panic!("{other:?}"),
    }
}

fn written(splats: &Splats, format: Format) -> Vec<u8> {
    written_with(&SplatFile::new(splats.clone()), format, &SaveOptions::default())
}

fn written_with(document: &SplatFile, format: Format, options: &SaveOptions) -> Vec<u8> {
    let mut bytes = Vec::new();
    let saved = splat::write(&mut bytes, document, format, options).unwrap();
    assert_eq!((saved.bytes, saved.format), (bytes.len() as u64, format));
    assert_eq!(saved.splats, document.splats.len() as u64);
    bytes
}

/// The two splats of the reference values and three others that make the bounds x -2..10, y -0.5..20, z -30..3.
fn checked() -> Splats {
    let mut splats = Splats::with_capacity(1, 5);
    // f_rest is channel-major: red 0.1 0.2 0.3, green 0.4 0.5 0.6, blue 0.7 0.8 0.9.
    let sh = |dc: [f32; 3], rest: [f32; 9]| -> Vec<f32> {
        let coefficients = (0..3).flat_map(|k| [0, 3, 6].map(|channel| rest[channel + k]));
        dc.into_iter().chain(coefficients).collect()
    };
    let a = sh([0.5, -0.25, 1.0], [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]);
    let b = sh([0.0; 3], [-0.3, 0.3, 0.0, 0.0, 0.0, 0.0, 0.5, -0.5, 0.25]);
    splats.push([1.25, -0.5, 3.0], [-4.2, -3.0, -6.5], [0.8, 0.4, 0.2, -0.4], 0.0, &a);
    splats.push([-2.0, 0.75, -1.5], [-1.0, -2.0, -3.0], [0.1, -0.9, 0.3, 0.3], 2.0, &b);
    for mean in [[10.0, 20.0, -30.0], [0.0, 0.0, 0.0], [1.0, 1.0, 1.0]] {
        splats.push(mean, [-2.0, -2.0, -2.0], [1.0, 0.0, 0.0, 0.0], 1.0, &[0.0; 12]);
    }
    splats
}

/// Splats as from training, over the whole ranges that the formats support.
fn trained(count: usize, sh_degree: u8) -> Splats {
    let mut n = Numbers(7);
    let mut splats = Splats::with_capacity(sh_degree, count);
    for _ in 0..count {
        let mean = [8.0, 5.0, 3.0].map(|side| side * n.value());
        let log_scale = [0; 3].map(|_| 3.0 * n.value() - 4.0);
        let quat = [0; 4].map(|_| n.value() + 0.01);
        let mut sh = n.values(splats.sh_stride());
        sh[..3].iter_mut().for_each(|dc| *dc *= 1.5);
        sh[3..].iter_mut().for_each(|v| *v *= 0.9);
        splats.push(mean, log_scale, quat, 6.0 * n.value(), &sh);
    }
    splats
}

/// Largest differences allowed between splats.
struct Within {
    mean: f32,
    log_scale: f32,
    /// Of a component of the unit quaternion.
    rotation: f32,
    opacity: f32,
    dc: f32,
    rest: f32,
}

fn opacity(logit: f32) -> f32 {
    1.0 / (1.0 + (-logit).exp())
}

/// Checks that `b[order[i]]` equals `a[i]` within tolerances.
fn assert_close(a: &Splats, b: &Splats, order: &[usize], within: &Within) {
    assert_eq!((a.len(), a.sh_degree), (b.len(), b.sh_degree));
    for (i, &j) in order.iter().enumerate() {
        let near = |what: &str, a: &[f32], b: &[f32], most: f32| {
            for (a, b) in a.iter().zip(b) {
                assert!((a - b).abs() <= most, "splat {i}, {what}: {a} became {b} (at most {most} away)");
            }
        };
        near("mean", &a.means[i], &b.means[j], within.mean);
        near("log scale", &a.log_scales[i], &b.log_scales[j], within.log_scale);
        let unit = |q: [f32; 4]| q.map(|v| v / q.iter().map(|v| v * v).sum::<f32>().sqrt());
        let (p, q) = (unit(a.quats[i]), unit(b.quats[j]));
        let sign = p.iter().zip(&q).map(|(p, q)| p * q).sum::<f32>().signum();
        near("rotation", &p, &q.map(|v| sign * v), within.rotation);
        near("opacity", &[opacity(a.opacity_logits[i])], &[opacity(b.opacity_logits[j])], within.opacity);
        near("colour", &a.sh_coefficients(i)[..3], &b.sh_coefficients(j)[..3], within.dc);
        near("SH", &a.sh_coefficients(i)[3..], &b.sh_coefficients(j)[3..], within.rest);
    }
}

/// For each splat of `a`, the one of `b` with the nearest mean.
fn nearest(a: &Splats, b: &Splats) -> Vec<usize> {
    let distance = |p: &[f32; 3], q: &[f32; 3]| p.iter().zip(q).map(|(p, q)| (p - q) * (p - q)).sum::<f32>();
    let nearest = |p: &[f32; 3]| {
        let all = b.means.iter().enumerate().map(|(j, q)| (distance(p, q), j));
        all.min_by(|x, y| x.0.total_cmp(&y.0)).unwrap().1
    };
    a.means.iter().map(nearest).collect()
}

fn in_order(splats: &Splats) -> Vec<usize> {
    (0..splats.len()).collect()
}

/// Reference values of a file from `../shared/data/README.md`, by an independent reader in f64.
struct Check {
    splats: usize,
    sh_degree: u8,
    bounds: [[f64; 3]; 2],
    mean: [f64; 3],
    opacity: f64,
    scale: [f64; 3],
    dc: [f64; 3],
    rms_rest: Option<f64>,
}

impl Check {
    fn holds_for(&self, name: &str, document: &SplatFile) {
        let s = &document.splats;
        assert_eq!((s.len(), document.sh_degree), (self.splats, self.sh_degree), "{name}");
        let mean = |f: &dyn Fn(usize) -> f64| (0..s.len()).map(f).sum::<f64>() / s.len() as f64;
        let near = |what: &str, found: f64, expected: f64, most: f64| {
            assert!((found - expected).abs() <= most, "{name}, {what}: {found} (expected {expected})");
        };
        let [low, high] = s.bounds().unwrap();
        for k in 0..3 {
            near("lowest", f64::from(low[k]), self.bounds[0][k], 6e-6);
            near("highest", f64::from(high[k]), self.bounds[1][k], 6e-6);
            near("mean", mean(&|i| f64::from(s.means[i][k])), self.mean[k], 2e-6);
            near("scale", mean(&|i| f64::from(s.log_scales[i][k]).exp()), self.scale[k], 2e-6);
            near("colour", mean(&|i| f64::from(s.sh_coefficients(i)[k])), self.dc[k], 2e-6);
        }
        let opacity = |i: usize| 1.0 / (1.0 + (-f64::from(s.opacity_logits[i])).exp());
        // The other reader had infinite logits; those of Gausset end at 15.
        near("opacity", mean(&opacity), self.opacity, 1e-6);
        if let Some(rms) = self.rms_rest {
            let squares = |i: usize| s.sh_coefficients(i)[3..].iter().map(|v| f64::from(v * v)).sum::<f64>();
            near("SH", (mean(&squares) / (s.sh_stride() - 3) as f64).sqrt(), rms, 2e-6);
        }
    }
}

/// Loads a file of `shared/data/splats` if it exists.
fn sample(test: &str, name: &str) -> Option<SplatFile> {
    let path = data_file(test, &format!("splats/{name}"))?;
    Some(splat::load(&path, &LoadOptions::default()).unwrap())
}

const OS4K_BOUNDS: [[f64; 3]; 2] = [[-6.15997, -7.26668, 0.76784], [6.89381, 6.58994, 7.20639]];

#[test]
fn compressed_plys_of_other_programs_are_read_to_their_check_values() {
    let test = "compressed_plys_of_other_programs_are_read_to_their_check_values";
    if let Some(document) = sample(test, "os4k/os4k.compressed.ply") {
        assert_eq!(document.format, Format::CompressedPly);
        let check = Check {
            splats: 4000,
            sh_degree: 3,
            bounds: OS4K_BOUNDS,
            mean: [0.636196, -0.784529, 5.353218],
            opacity: 0.544925,
            scale: [0.061008, 0.060885, 0.060537],
            dc: [0.11553, 0.095051, 0.045539],
            rms_rest: Some(0.024217),
        };
        check.holds_for("os4k.compressed.ply", &document);
    }
    if let Some(document) = sample(test, "guitar.compressed.ply") {
        let check = Check {
            splats: 90854,
            sh_degree: 0,
            bounds: [[-0.65500, -4.29227, -0.52759], [0.82156, 0.08609, 0.92468]],
            mean: [0.225487, -1.463924, 0.190061],
            opacity: 0.388866,
            scale: [0.00636, 0.01364, 0.016497],
            dc: [-0.087688, -0.313098, -0.679601],
            rms_rest: None,
        };
        check.holds_for("guitar.compressed.ply", &document);
        let mut first = Splats::with_capacity(0, 1);
        let logit = (0.68235f32 / (1.0 - 0.68235)).ln();
        let scale = [0.000151f32, 0.005338, 0.003261].map(f32::ln);
        let rotation = [0.79511, 0.57716, -0.04631, -0.18041];
        first.push([-0.472491, -4.078205, -0.166346], scale, rotation, logit, &[0.13267, -0.84601, -1.50645]);
        let within =
            Within { mean: 1e-6, log_scale: 5e-3, rotation: 1e-5, opacity: 1e-5, dc: 1e-5, rest: 0.0 };
        assert_close(&first, &document.splats.select(&[0]), &[0], &within);
    }
}

#[test]
fn a_compressed_ply_has_the_bytes_that_others_expect() {
    let bytes = written(&checked(), Format::CompressedPly);
    let text = String::from_utf8_lossy(&bytes).into_owned();
    for line in ["element chunk 1\n", "element vertex 5\n", "element sh 5\n", "property uint packed_color\n"]
    {
        assert!(text.contains(line), "{line}");
    }
    let body = &bytes[bytes.len() - 18 * 4 - 5 * (16 + 9)..];
    let word = |at: usize| u32::from_le_bytes(body[at..at + 4].try_into().unwrap());
    let float = |k: usize| f32::from_bits(word(4 * k));
    assert_eq!([0, 1, 2, 3, 4, 5].map(float), [-2.0, -0.5, -30.0, 10.0, 20.0, 3.0]);
    let rows = 18 * 4;
    // Splats of a chunk are sorted along a curve.
    let row = |position: u32| (0..5).find(|k| word(rows + 16 * k) == position).unwrap();
    let (first, second) = (row(0x4540_07ff), row(0x0001_f6e8));
    assert_eq!((word(rows + 16 * first + 4), word(rows + 16 * second + 4)), (0x321a_40de, 0x5b74_9926));
    let sh = |k: usize| &body[rows + 5 * 16 + 9 * k..][..9];
    assert_eq!(sh(first), [131, 134, 137, 140, 144, 147, 150, 153, 156]);
    assert_eq!(sh(second), [118, 137, 128, 128, 128, 128, 144, 112, 136]);
    assert!(parse(&bytes).splats.len() == 5);
}

#[test]
fn a_compressed_ply_keeps_splats_within_half_a_step() {
    for degree in 0..=3 {
        let splats = trained(3000, degree);
        let mut document = SplatFile::new(splats.clone());
        (document.antialiased, document.vertical_axis) = (true, Some([0.0, -1.0, 0.0]));
        let bytes = written_with(&document, Format::CompressedPly, &SaveOptions::default());
        let back = parse(&bytes);
        assert_eq!((back.antialiased, back.vertical_axis), (true, Some([0.0, -1.0, 0.0])));
        assert!(back.report.lines(Path::new("t")).is_empty());
        // Chunks of 3000 splats are at most as wide as the scene, 16 units; scales range over 6, colours over 0.85.
        let within = Within {
            mean: 0.5 * 16.0 / 1023.0,
            log_scale: 0.5 * 6.0 / 1023.0 + 1e-5,
            rotation: 2.5e-3,
            opacity: 0.5 / 255.0 + 1e-5,
            dc: 0.5 * 3.0 / 255.0 + 1e-4,
            rest: 8.0 / 256.0,
        };
        assert_close(&splats, &back.splats, &nearest(&splats, &back.splats), &within);
        assert!(written_with(&document, Format::CompressedPly, &SaveOptions::default()) == bytes);
    }
}

#[test]
fn dot_splat_files_of_other_programs_are_read_to_their_check_values() {
    let test = "dot_splat_files_of_other_programs_are_read_to_their_check_values";
    if let Some(document) = sample(test, "os4k/os4k.splat") {
        let check = Check {
            splats: 4000,
            sh_degree: 0,
            bounds: OS4K_BOUNDS,
            mean: [0.636182, -0.784464, 5.353219],
            opacity: 0.542937,
            scale: [0.061008, 0.060884, 0.060535],
            dc: [0.099372, 0.086402, 0.029784],
            rms_rest: None,
        };
        check.holds_for("os4k.splat", &document);
        let mut first = Splats::with_capacity(0, 1);
        let colour = [26u8, 77, 50].map(|c| sh::dc_from_colour(f32::from(c) / 255.0));
        let scale = [1.0586784f32, 2.1119378, 0.8603085].map(f32::ln);
        let logit = (245.0f32 / 10.0).ln();
        first.push([3.255_681, 6.5899386, 2.9307005], scale, [71.0, 82.0, -35.0, 57.0], logit, &colour);
        let within =
            Within { mean: 0.0, log_scale: 1e-6, rotation: 1e-6, opacity: 1e-6, dc: 1e-6, rest: 0.0 };
        assert_close(&first, &document.splats.select(&[0]), &[0], &within);
    }
    if let Some(document) = sample(test, "minimal/minimal.splat") {
        assert_eq!((document.splats.len(), document.format), (4, Format::Splat));
    }
}

#[test]
fn dot_splat_has_the_bytes_that_others_expect() {
    let bytes = written(&checked(), Format::Splat);
    assert_eq!(bytes.len(), 5 * 32);
    let record = |x: f32| bytes.chunks(32).find(|row| row[..4] == x.to_le_bytes()).unwrap();
    assert_eq!(record(1.25)[28..], [230, 179, 154, 77]);
    assert_eq!(record(-2.0)[28..], [141, 13, 166, 166]);
    assert_eq!(record(1.25)[24..28], [163, 110, 199, 128]);
    // The largest first: volume e^-6 times opacity 0.88 comes before e^-6 times 0.73 and e^-13.7.
    let first = |row: usize| f32::from_le_bytes(bytes[32 * row..32 * row + 4].try_into().unwrap());
    assert_eq!([first(0), first(1), first(4)], [-2.0, 10.0, 1.25]);
}

#[test]
fn dot_splat_keeps_splats_within_half_a_step_and_says_what_is_lost() {
    let splats = trained(2000, 2);
    let mut bytes = Vec::new();
    let document = SplatFile { antialiased: true, sky: 3, ..SplatFile::new(splats.clone()) };
    let saved = splat::write(&mut bytes, &document, Format::Splat, &SaveOptions::default()).unwrap();
    let lost = ["SH above degree 0", "the antialiased render mode", "which splats are the sky"];
    assert_eq!(saved.lost, lost);
    let outside = |i: usize| {
        splats.sh_coefficients(i)[..3].iter().any(|dc| !(-0.0019..=1.0019).contains(&sh::colour_from_dc(*dc)))
    };
    let clipped = (0..splats.len()).filter(|&i| outside(i)).count() as u64;
    assert_eq!(saved.clipped, if clipped > 0 { vec![("colour outside 0..1", clipped)] } else { vec![] });
    let back = parse(&bytes).splats;
    let within = Within {
        mean: 0.0,
        log_scale: 1e-6,
        rotation: 6e-3,
        opacity: 0.5 / 255.0 + 1e-5,
        dc: 0.5 / 255.0 / 0.2821 + 1e-5,
        rest: 0.0,
    };
    let flat = splats.with_sh_degree(0);
    assert_close(&flat, &back, &nearest(&flat, &back), &within);
}

fn spz(version: u8, sh_bits: [u8; 2], frame: SpzAxes) -> SaveOptions {
    SaveOptions { spz: SpzOptions { version, sh_bits, frame }, ..SaveOptions::default() }
}

/// The concatenated blocks of an SPZ file, decompressed.
fn inflated(bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    if bytes.starts_with(&[0x1f, 0x8b]) {
        flate2::read::GzDecoder::new(bytes).read_to_end(&mut plain).unwrap();
        return plain.split_off(16);
    }
    let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
    let table = u32::from_le_bytes(bytes[16..20].try_into().unwrap()) as usize;
    let mut at = table + 16 * usize::from(bytes[15]);
    for stream in 0..usize::from(bytes[15]) {
        let length = number(table + 16 * stream);
        let frame = ruzstd::decoding::StreamingDecoder::new(&bytes[at..at + length]).unwrap();
        assert_eq!(frame.take(1 << 30).read_to_end(&mut plain).unwrap(), number(table + 16 * stream + 8));
        at += length;
    }
    assert_eq!(at, bytes.len());
    plain
}

#[test]
fn an_spz_has_the_bytes_that_others_expect() {
    let document = SplatFile::new(checked());
    for version in [3, 4] {
        let bytes = written_with(&document, Format::Spz, &spz(version, [5, 4], SpzAxes::AsIs));
        if version == 4 {
            let header = [0x4e, 0x47, 0x53, 0x50, 4, 0, 0, 0, 5, 0, 0, 0, 1, 12, 2, 6, 44, 0, 0, 0];
            assert_eq!(bytes[..20], header);
            // The extension that specifies the axes: type, length, RDF.
            assert_eq!(bytes[32..44], [0x03, 0, 0xbe, 0xad, 4, 0, 0, 0, 6, 0, 0, 0]);
        }
        let plain = inflated(&bytes);
        let block = |begin: usize, each: usize, row: usize| &plain[5 * begin + each * row..][..each];
        assert_eq!(*block(0, 9, 0), [0x00, 0x14, 0x00, 0x00, 0xf8, 0xff, 0x00, 0x30, 0x00]);
        assert_eq!(*block(0, 9, 1), [0x00, 0xe0, 0xff, 0x00, 0x0c, 0x00, 0x00, 0xe8, 0xff]);
        assert_eq!([block(9, 1, 0), block(9, 1, 1)], [[128], [225]]);
        assert_eq!([block(10, 3, 0), block(10, 3, 1)], [[147, 118, 166], [128, 128, 128]]);
        assert_eq!([block(13, 3, 0), block(13, 3, 1)], [[93, 112, 56], [144, 128, 112]]);
        let rotation = |row: usize| u32::from_le_bytes(block(16, 4, row).try_into().unwrap());
        assert_eq!([rotation(0), rotation(1)], [0xd212_4721, 0x2d9b_6648]);
        assert_eq!(*block(20, 9, 0), [144, 176, 216, 152, 192, 232, 168, 208, 240]);
        assert_eq!(*block(20, 9, 1), [88, 128, 192, 168, 128, 64, 128, 128, 160]);
    }
}

#[test]
fn spz_files_of_other_programs_are_read_to_their_check_values() {
    let test = "spz_files_of_other_programs_are_read_to_their_check_values";
    let mut others = Vec::new();
    for (name, version) in [("os4k/os4k_v2.spz", "2"), ("os4k/os4k_v3.spz", "3"), ("os4k/os4k_v4.spz", "4")] {
        let Some(path) = data_file(test, &format!("splats/{name}")) else { return };
        // These were written as right, up, back.
        let options = LoadOptions { spz_frame: Some(SpzAxes::Rub), ..LoadOptions::default() };
        let document = splat::load(&path, &options).unwrap();
        assert_eq!(document.version.as_deref(), Some(version));
        let check = Check {
            splats: 4000,
            sh_degree: 3,
            bounds: [[-6.15991, -7.2666, 0.76782], [6.8938, 6.58984, 7.2063]],
            mean: [0.636182, -0.784461, 5.353219],
            opacity: 0.544925,
            scale: [0.061004, 0.06093, 0.060555],
            dc: [0.115471, 0.095013, 0.045588],
            rms_rest: Some(0.017395),
        };
        check.holds_for(name, &document);
        others.push(document.splats);
    }
    assert_eq!(others[1], others[2]);
    // Three bytes determine a fourth component near 0 only roughly.
    let exact = Within { mean: 0.0, log_scale: 0.0, rotation: 0.1, opacity: 0.0, dc: 0.0, rest: 0.0 };
    assert_close(&others[0], &others[1], &in_order(&others[0]), &exact);
    let mut first = Splats::with_capacity(0, 1);
    let scale = [0.032145f32, 0.018316, 0.014264].map(f32::ln);
    let logit = (0.81961f32 / (1.0 - 0.81961)).ln();
    first.push(
        [-2.063965, -3.579102, 5.136475],
        scale,
        [0.31827, 0.26153, -0.80539, -0.42620],
        logit,
        &[1.13725, 0.87582, 1.11111],
    );
    let within = Within { mean: 1e-6, log_scale: 5e-5, rotation: 6e-6, opacity: 6e-6, dc: 6e-6, rest: 0.0 };
    assert_close(&first, &others[1].select(&[0]).with_sh_degree(0), &[0], &within);
    // The same splats in a PLY show whether SH was rotated correctly: SPZ keeps their order.
    let Some(ply) = sample(test, "os4k/os4k.ply") else { return };
    let within =
        Within { mean: 2e-4, log_scale: 0.04, rotation: 2e-3, opacity: 2e-3, dc: 0.014, rest: 0.067 };
    assert_close(&ply.splats, &others[1], &in_order(&ply.splats), &within);
    for name in ["minimal-v2.spz", "minimal-v3.spz", "minimal-v4.spz"] {
        let Some(document) = sample(test, &format!("minimal/{name}")) else { return };
        assert_eq!((document.splats.len(), document.sh_degree), (4, 0), "{name}");
        assert_eq!(document.frame.as_deref(), Some("as is (assumed; the file does not specify them)"));
    }
    let Some(path) = data_file(test, "splats/minimal/minimal-raw.spz") else { return };
    let error = splat::load(&path, &LoadOptions::default()).unwrap_err().to_string();
    let what = "header: an SPZ that is not compressed (expected version 4, or gzip around versions 1 to 3, found version 2)";
    assert_eq!(error, format!("{}: {what}", path.display()));
}

#[test]
fn an_spz_keeps_splats_within_half_a_step_in_order_and_in_their_axes() {
    for (degree, version) in [(0, 4), (1, 3), (2, 4), (3, 4), (3, 3)] {
        for frame in [SpzAxes::AsIs, SpzAxes::Rub] {
            for (sh_bits, rest) in [([5, 4], 8.5), ([6, 5], 4.5), ([8, 8], 0.5)] {
                let splats = trained(500, degree);
                let mut document = SplatFile::new(splats.clone());
                document.antialiased = true;
                let options = spz(version, sh_bits, frame);
                let bytes = written_with(&document, Format::Spz, &options);
                assert!(written_with(&document, Format::Spz, &options) == bytes);
                let as_asked = LoadOptions { spz_frame: Some(frame), ..LoadOptions::default() };
                let Ok(Initial::Splats(back)) = splat::parse(&bytes, Path::new("t"), &as_asked) else {
                    panic!()
                };
                assert!(back.antialiased);
                let named = match frame {
                    SpzAxes::AsIs => "RDF, as the file says",
                    SpzAxes::Rub => "RUB, as the file says",
                };
                assert_eq!(version == 4, back.frame.as_deref() == Some(named), "{:?}", back.frame);
                let within = Within {
                    mean: 0.5 / 4096.0 + 1e-6,
                    log_scale: 0.5 / 16.0 + 1e-6,
                    rotation: 1.5e-3,
                    opacity: 0.5 / 255.0 + 1e-5,
                    dc: 0.5 / 255.0 / 0.15 + 1e-5,
                    rest: rest / 128.0 + 1e-6,
                };
                assert_close(&splats, &back.splats, &in_order(&splats), &within);
            }
        }
    }
}

#[test]
fn what_is_known_of_a_scene_is_kept_where_others_pass_over_it() {
    let moved = Similarity { scale: 0.1, translation: [1.0 / 3.0, -2e-9, 4.0], ..Similarity::IDENTITY };
    let whole = SplatFile {
        vertical_axis: Some([0.0, -1.0, 0.25]),
        saved_from_dataset: Some(moved),
        near_plane: Some(0.23),
        sky: 2,
        antialiased: true,
        ..SplatFile::new(checked())
    };
    for format in [Format::Gltf, Format::Spz, Format::Sog] {
        let bytes = written_with(&whole, format, &SaveOptions::default());
        let back = parse(&bytes);
        assert_eq!(back.saved_from_dataset, Some(moved), "{format:?}");
        assert_eq!(back.near_plane, Some(0.23), "{format:?}");
        assert_eq!((back.vertical_axis, back.antialiased), (whole.vertical_axis, true), "{format:?}");
        assert_eq!(back.sky, 2, "{format:?}");
        let plain = SplatFile::new(checked());
        let bytes = written_with(&plain, format, &SaveOptions::default());
        let back = parse(&bytes);
        assert_eq!((back.saved_from_dataset, back.vertical_axis, back.sky), (None, None, 0), "{format:?}");
        assert_eq!(back.near_plane, None, "{format:?}");
        assert!(back.report.notes.is_empty(), "{:?}", back.report.notes);
    }
}

#[test]
fn a_format_without_metadata_says_all_that_it_loses() {
    let document = SplatFile {
        flat: true,
        vertical_axis: Some([0.0, -1.0, 0.25]),
        georeference: Some(EarthPlace { latitude: 48.0, longitude: 11.0, altitude: None }),
        offset: Some([431_000.0, 5_412_000.0, 312.0]),
        near_plane: Some(0.23),
        ..SplatFile::new(checked().with_sh_degree(0))
    };
    for (format, options) in [
        (Format::Splat, SaveOptions::default()),
        (Format::Spz, spz(3, SpzOptions::default().sh_bits, SpzAxes::AsIs)),
    ] {
        let saved = splat::write(&mut Vec::new(), &document, format, &options).unwrap();
        let lost = ["the 2DGS render mode", "which direction is up", "the place on the earth"];
        assert_eq!(saved.lost, [&lost[..], &["the offset of the dataset", "the near plane"]].concat());
        assert!(!saved.has_mode, "{format:?}");
    }
}

#[test]
fn far_splats_do_not_wrap_in_an_spz_and_what_is_clipped_is_counted() {
    let mut splats = checked();
    splats.means[0] = [11_898.0, -2520.0, 1.0];
    splats.log_scales[1] = [-11.0, 0.0, 7.0];
    splats.sh[3 + 2] = 1.5;
    let mut bytes = Vec::new();
    let document = SplatFile { sky: 2, ..SplatFile::new(splats) };
    let saved = splat::write(&mut bytes, &document, Format::Spz, &SaveOptions::default()).unwrap();
    let clipped =
        [("log scale below -10", 1), ("log scale above 5.9", 1), ("SH coefficient beyond 1", 1)].to_vec();
    assert_eq!(saved.clipped, clipped);
    assert!(saved.lost.is_empty(), "{:?}", saved.lost);
    assert_eq!(saved.positions.unwrap().to_string(), "positions: scene to 0.002 units, sky to 0.002");
    let back = parse(&bytes);
    assert_eq!(back.sky, 2);
    let back = back.splats;
    assert_eq!((back.means[0], back.log_scales[1]), ([11_898.0, -2520.0, 1.0], [-10.0, 0.0, 5.9375]));
    // Farther than 24 bits without a fraction: clamped to the limit, and counted.
    let mut splats = checked();
    splats.means[0][1] = -1e9;
    let saved =
        splat::write(&mut Vec::new(), &SplatFile::new(splats), Format::Spz, &SaveOptions::default()).unwrap();
    assert_eq!(saved.clipped, [("position beyond 8,388,607", 1)]);
}

#[test]
fn extensions_of_an_spz_are_obeyed_named_or_skipped() {
    let bytes = written(&trained(3, 1), Format::Spz);
    let with = |kind: u32, value: u32| {
        let mut bytes = bytes.clone();
        bytes[32..36].copy_from_slice(&kind.to_le_bytes());
        bytes[40..44].copy_from_slice(&value.to_le_bytes());
        let document = parse(&bytes);
        (document.frame.unwrap(), document.report.notes, document.splats.means[0])
    };
    let assumed = "as is (assumed; the file does not specify them)".to_owned();
    let [x, y, z] = with(0xadbe_0003, 6).2;
    assert_eq!(with(0xadbe_0003, 4), ("RUB, as the file says".to_owned(), vec![], [x, -y, -z]));
    assert_eq!(with(0xadbe_0003, 10), ("RFD, as the file says".to_owned(), vec![], [x, z, y]));
    assert_eq!(with(0xadbe_0002, 6), (assumed.clone(), vec![], [x, y, z]));
    let note =
        "extension 0xadbe0003: does not specify axes, and was ignored (expected 1..16, found 17)".to_owned();
    assert_eq!(with(0xadbe_0003, 17), (assumed.clone(), vec![note], [x, y, z]));
    let note =
        "extension 0x12340001: unknown, and was ignored (expected 0xadbe0002 or 0xadbe0003, found 4 bytes)";
    assert_eq!(with(0x1234_0001, 0), (assumed, vec![note.to_owned()], [x, y, z]));
    assert!(with(0xadbe_0009, 0).1[0].contains("can change the axes"));
}

/// The JSON of a GLB and its binary chunk.
fn glb_parts(bytes: &[u8]) -> (serde_json::Value, &[u8]) {
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    assert_eq!((&bytes[..4], word(4), word(8)), (&b"glTF"[..], 2, bytes.len()));
    let json = serde_json::from_slice(&bytes[20..20 + word(12)]).unwrap();
    (json, &bytes[28 + word(12)..])
}

#[test]
fn a_glb_has_the_numbers_that_others_expect() {
    let bytes = written(&checked(), Format::Gltf);
    let (json, binary) = glb_parts(&bytes);
    assert_eq!(json["accessors"][0]["min"], serde_json::json!([-10.0, -20.0, -30.0]));
    let attributes = &json["meshes"][0]["primitives"][0]["attributes"];
    let rows = |name: &str, row: usize, parts: usize| -> Vec<f32> {
        let view = &json["bufferViews"][attributes[name].as_u64().unwrap() as usize];
        let at = view["byteOffset"].as_u64().unwrap() as usize + 4 * parts * row;
        let floats = binary[at..at + 4 * parts].chunks(4);
        floats.map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
    };
    let near = |found: Vec<f32>, expected: &[f32]| {
        let close = found.iter().zip(expected).all(|(a, b)| (a - b).abs() <= 2e-6 * b.abs().max(1.0));
        assert!(close && found.len() == expected.len(), "{found:?} {expected:?}");
    };
    let own = |name: &str| format!("KHR_gaussian_splatting:{name}");
    near(rows("POSITION", 0, 3), &[-1.25, 0.5, 3.0]);
    near(rows(&own("ROTATION"), 0, 4), &[-0.2, 0.4, 0.8, 0.4]);
    near(rows(&own("ROTATION"), 1, 4), &[-0.3, -0.9, 0.1, -0.3]);
    near(rows(&own("SCALE"), 0, 3), &[0.0149956, 0.0497871, 0.00150344]);
    near(rows(&own("SCALE"), 1, 3), &[0.367879, 0.135335, 0.0497871]);
    near(rows(&own("OPACITY"), 0, 1), &[0.5]);
    near(rows(&own("SH_DEGREE_0_COEF_0"), 0, 3), &[0.5, -0.25, 1.0]);
    // Odd m changes its sign, m = 0 keeps it.
    near(rows(&own("SH_DEGREE_1_COEF_0"), 0, 3), &[-0.1, -0.4, -0.7]);
    near(rows(&own("SH_DEGREE_1_COEF_1"), 0, 3), &[0.2, 0.5, 0.8]);
    near(rows(&own("SH_DEGREE_1_COEF_2"), 0, 3), &[-0.3, -0.6, -0.9]);
}

#[test]
fn glbs_of_other_programs_are_read_to_their_check_values() {
    let test = "glbs_of_other_programs_are_read_to_their_check_values";
    let Some(ply) = sample(test, "os4k/os4k.ply") else { return };
    let within = Within { mean: 0.0, log_scale: 1e-6, rotation: 1e-6, opacity: 1e-6, dc: 0.0, rest: 0.0 };
    for (name, degree) in [("os4k/os4k.glb", 3), ("os4k/os4k_h0.glb", 0)] {
        let Some(document) = sample(test, name) else { return };
        assert_eq!((document.format, document.sh_degree), (Format::Gltf, degree));
        assert_close(&ply.splats.with_sh_degree(degree), &document.splats, &in_order(&ply.splats), &within);
    }
}

#[test]
fn a_glb_keeps_splats_but_for_the_last_bits_of_scales_and_opacities() {
    for degree in 0..=3 {
        let splats = trained(300, degree);
        let back = parse(&written(&splats, Format::Gltf)).splats;
        let within = Within { mean: 0.0, log_scale: 1e-6, rotation: 1e-6, opacity: 1e-6, dc: 0.0, rest: 0.0 };
        assert_close(&splats, &back, &in_order(&splats), &within);
    }
    let none = splat::write(
        &mut Vec::new(),
        &SplatFile::new(Splats::zeros(0, 0)),
        Format::Gltf,
        &SaveOptions::default(),
    );
    assert_eq!(none.unwrap_err().to_string(), "no splats to write (expected at least one that can be drawn)");
}

#[test]
fn gltf_may_lie_in_two_files_or_in_one_text_and_nodes_move_splats() {
    let splats = trained(20, 1);
    let bytes = written(&splats, Format::Gltf);
    let (mut json, binary) = glb_parts(&bytes);
    let folder = files::temporary_folder();
    let path = folder.path().join("scene.gltf");
    let load = |json: &serde_json::Value| {
        std::fs::write(&path, json.to_string()).unwrap();
        splat::load(&path, &LoadOptions::default())
    };
    let error = |json: &serde_json::Value| {
        load(json).unwrap_err().to_string().replace(&folder.path().display().to_string(), "F")
    };
    let plain = parse(&bytes).splats;
    std::fs::write(folder.path().join("all data.bin"), binary).unwrap();
    json["buffers"][0]["uri"] = "all%20data.bin".into();
    assert_eq!(load(&json).unwrap().splats, plain);
    // A rotation by 180 degrees about x in the scene is one about x here as well: the axes differ by one about z.
    json["nodes"][0] =
        serde_json::json!({ "mesh": 0, "rotation": [1.0, 0.0, 0.0, 0.0], "scale": [2.0, 2.0, 2.0] });
    let moved = load(&json).unwrap().splats;
    let [x, y, z] = plain.means[3];
    assert_eq!(moved.means[3], [2.0 * x, -2.0 * y, -2.0 * z]);
    assert!((moved.log_scales[3][0] - plain.log_scales[3][0] - 2.0f32.ln()).abs() < 1e-6);
    // Two negative scales are the same half turn.
    json["nodes"][0] = serde_json::json!({ "mesh": 0, "scale": [2.0, -2.0, -2.0] });
    assert_eq!(load(&json).unwrap().splats.means[3], moved.means[3]);
    json["nodes"][0] = serde_json::json!({ "mesh": 0, "scale": [2.0, -2.0, 2.0] });
    assert!(error(&json).contains("another transform"));
    json["nodes"][0] = serde_json::json!({ "mesh": 0, "scale": [2.0, 1.0, 2.0] });
    let what = "nodes[0]: the scene cannot be laid out (expected a rotation, a shift and one positive scale, found another transform)";
    assert_eq!(error(&json), format!("F/scene.gltf: {what}"));
    json["nodes"][0] = serde_json::json!({ "mesh": 0 });
    // A mesh without splats may be stretched.
    let (mut mixed, plane) = (json.clone(), serde_json::json!({ "primitives": [{ "attributes": {} }] }));
    mixed["meshes"].as_array_mut().unwrap().push(plane);
    mixed["nodes"].as_array_mut().unwrap().push(serde_json::json!({ "mesh": 1, "scale": [10, 1, -10] }));
    mixed["scenes"][0]["nodes"] = serde_json::json!([0, 1]);
    assert_eq!(load(&mixed).unwrap().splats, plain);
    for uri in ["../x.bin", "http://example.org/x.bin", "/etc/passwd"] {
        json["buffers"][0]["uri"] = uri.into();
        let expected = format!(
            "F/scene.gltf: buffers[0]: a buffer outside (expected a file next to this one, found \"{uri}\")"
        );
        assert_eq!(error(&json), expected);
    }
    json["buffers"][0]["uri"] = "all%20data.bin".into();
    for name in ["EXT_meshopt_compression", "MPEG_gaussian_splatting_transport"] {
        json["extensionsRequired"] = serde_json::json!([name]);
        assert!(error(&json).contains(&format!(
            "an extension that is not read (expected KHR_gaussian_splatting, found \"{name}\")"
        )));
    }
    json["extensionsRequired"] = serde_json::json!([]);
    json["accessors"][0]["sparse"] = serde_json::json!({ "count": 1 });
    let what =
        "attribute POSITION: an accessor that cannot be read (expected no sparse values, found sparse)";
    assert_eq!(error(&json), format!("F/scene.gltf: {what}"));
}

#[test]
fn ksplats_of_other_programs_are_read_to_their_check_values() {
    let test = "ksplats_of_other_programs_are_read_to_their_check_values";
    let Some(document) = sample(test, "os4k/os4k_c1.ksplat") else { return };
    assert_eq!((document.format, document.version.as_deref()), (Format::Ksplat, Some("0.1, level 1")));
    let check = Check {
        splats: 3998,
        sh_degree: 2,
        bounds: [[-6.15997, -7.26668, 0.76784], [6.89379, 6.58994, 7.20641]],
        mean: [0.635239, -0.784346, 5.353091],
        opacity: 0.543209,
        scale: [0.060998, 0.060859, 0.06053],
        dc: [0.099036, 0.086261, 0.029531],
        rms_rest: Some(0.026859),
    };
    check.holds_for("os4k_c1.ksplat", &document);
    let Some(other) = sample(test, "os4k/os4k_c2.ksplat") else { return };
    assert_eq!(other.version.as_deref(), Some("0.1, level 2"));
    let within =
        Within { mean: 0.0, log_scale: 0.0, rotation: 0.0, opacity: 0.0, dc: 0.0, rest: 1.5 / 255.0 + 1e-3 };
    assert_close(&document.splats, &other.splats, &in_order(&other.splats), &within);
    let Some(ply) = sample(test, "os4k/os4k.ply") else { return };
    // The coefficients are those of the PLY: channels and degrees match.
    let found = &document.splats;
    let order = nearest(found, &ply.splats);
    let within = Within { mean: 1e-3, log_scale: 2e-3, rotation: 2e-3, opacity: 5e-3, dc: 3.0, rest: 1e-3 };
    assert_close(found, &ply.splats.with_sh_degree(2).select(&order), &in_order(found), &within);
    let Some(minimal) = sample(test, "minimal/minimal.ksplat") else { return };
    assert_eq!((minimal.splats.len(), minimal.version.as_deref()), (4, Some("0.1, level 0")));
}

#[test]
fn sogs_of_other_programs_are_read_to_their_check_values() {
    let test = "sogs_of_other_programs_are_read_to_their_check_values";
    if let Some(document) = sample(test, "os4k/os4k.sog") {
        assert_eq!((document.format, document.version.as_deref()), (Format::Sog, Some("2")));
        let check = Check {
            splats: 4000,
            sh_degree: 3,
            bounds: [[-6.15997, -7.26668, 0.76784], [6.89332, 6.58994, 7.20639]],
            mean: [0.636105, -0.784557, 5.353144],
            opacity: 0.542937,
            scale: [0.06102, 0.060882, 0.060542],
            dc: [0.114107, 0.093898, 0.044568],
            rms_rest: Some(0.020934),
        };
        check.holds_for("os4k.sog", &document);
    }
    // The folder and its `meta.json` are equivalent.
    for name in ["playbot_lod5_sog", "playbot_lod5_sog/meta.json"] {
        let Some(document) = sample(test, name) else { return };
        let check = Check {
            splats: 3000,
            sh_degree: 2,
            bounds: [[-1.02343, -1.07758, -1.02861], [1.02602, 0.03596, 1.02877]],
            mean: [-0.007387, -0.167795, 0.006589],
            opacity: 0.873736,
            scale: [0.023749, 0.023016, 0.023331],
            dc: [-0.659346, -0.740112, -0.835709],
            rms_rest: Some(0.186456),
        };
        check.holds_for(name, &document);
        let mut first = Splats::with_capacity(0, 1);
        let scale = [0.00045f32, 0.007498, 0.014273].map(f32::ln);
        let rotation = [0.65719, 0.1747, 0.29116, 0.67291];
        let logit = (0.99608f32 / (1.0 - 0.99608)).ln();
        first.push(
            [-1.005476, -0.021417, -1.001937],
            scale,
            rotation,
            logit,
            &[-1.35588, -1.37277, -1.30003],
        );
        let within =
            Within { mean: 1e-6, log_scale: 1e-3, rotation: 1e-5, opacity: 1e-5, dc: 1e-5, rest: 0.0 };
        assert_close(&first, &document.splats.select(&[0]).with_sh_degree(0), &[0], &within);
    }
    let Some(document) = sample(test, "playbot_lod4_sog") else { return };
    let check = Check {
        splats: 8406,
        sh_degree: 2,
        bounds: [[-1.02401, -1.08043, -1.03329], [1.02618, 0.03682, 1.03292]],
        mean: [-0.005025, -0.206899, -0.002023],
        opacity: 0.857658,
        scale: [0.014795, 0.015254, 0.014893],
        dc: [-0.557654, -0.664722, -0.773908],
        rms_rest: Some(0.189391),
    };
    check.holds_for("playbot_lod4_sog", &document);
}

/// A SOG unpacked into a folder, and the path of its `meta.json`.
fn unpacked(splats: &Splats) -> (tempfile::TempDir, serde_json::Value) {
    let bytes = written(splats, Format::Sog);
    let mut archive = zip::ZipArchive::new(std::io::Cursor::new(bytes)).unwrap();
    let folder = files::temporary_folder();
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index).unwrap();
        assert_eq!(entry.compression(), zip::CompressionMethod::Stored);
        let mut content = Vec::new();
        let name = entry.name().unwrap().into_owned();
        entry.read_to_end(&mut content).unwrap();
        std::fs::write(folder.path().join(name), content).unwrap();
    }
    let meta = std::fs::read(folder.path().join("meta.json")).unwrap();
    (folder, serde_json::from_slice(&meta).unwrap())
}

#[test]
fn a_sog_has_the_numbers_that_others_expect() {
    let (folder, meta) = unpacked(&checked());
    let near = |found: &serde_json::Value, expected: [f64; 3]| {
        for k in 0..3 {
            assert!((found[k].as_f64().unwrap() - expected[k]).abs() < 1e-6, "{found}");
        }
    };
    near(&meta["means"]["mins"], [-1.0986123, -0.4054651, -3.4339872]);
    near(&meta["means"]["maxs"], [2.3978953, 3.0445224, 1.3862944]);
    assert_eq!((&meta["version"], &meta["count"], &meta["shN"]["bands"]), (&2.into(), &5.into(), &1.into()));
    let picture = std::fs::read(folder.path().join("quats.webp")).unwrap();
    let mut decoder = image_webp::WebPDecoder::new(std::io::Cursor::new(picture)).unwrap();
    assert_eq!(decoder.dimensions(), (4, 4));
    let mut pixels = vec![0; 64];
    decoder.read_image(&mut pixels).unwrap();
    // Other programs truncate where Gausset rounds: the same error, or one step more.
    for expected in [[199, 163, 55, 252], [109, 73, 73, 253]] {
        let fits = |pixel: &[u8]| {
            pixel[3] == expected[3] && (0..3).all(|k| (expected[k]..=expected[k] + 1).contains(&pixel[k]))
        };
        assert!(pixels.chunks(4).any(fits), "{expected:?} {pixels:?}");
    }
}

#[test]
fn a_sog_keeps_splats_within_the_steps_of_its_codes() {
    for degree in 0..=3 {
        let splats = trained(2000, degree);
        let mut document = SplatFile::new(splats.clone());
        document.antialiased = true;
        let bytes = written_with(&document, Format::Sog, &SaveOptions::default());
        assert!(written_with(&document, Format::Sog, &SaveOptions::default()) == bytes);
        let back = parse(&bytes);
        assert!(back.antialiased && back.report.lines(Path::new("t")).is_empty());
        // ln(1 + 8) on both sides of 0 in 65,535 steps, at its steepest; codebooks over 6 and 3 units in 256 values;
        // the palette has 1024 entries for 2000 unrelated random vectors: its error is that of its entries.
        let within = Within {
            mean: 0.5 * 2.0 * 2.2 / 65_535.0 * 9.0,
            log_scale: 6.0 / 256.0,
            rotation: 8e-3,
            opacity: 0.5 / 255.0 + 1e-5,
            dc: 3.0 / 256.0,
            rest: 2.0,
        };
        let order = nearest(&splats, &back.splats);
        assert_close(&splats, &back.splats, &order, &within);
        let squares = |a: &[f32]| a.iter().map(|v| f64::from(v * v)).sum::<f64>();
        let found = back.splats.select(&order);
        let difference: Vec<f32> = splats.sh.iter().zip(&found.sh).map(|(a, b)| a - b).collect();
        assert!(squares(&difference) < 0.4 * squares(&splats.sh), "degree {degree}");
    }
}

#[test]
fn a_sog_of_version_1_and_damaged_ones() {
    let (folder, good) = unpacked(&checked().with_sh_degree(0));
    let load = |meta: &serde_json::Value| {
        std::fs::write(folder.path().join("meta.json"), meta.to_string()).unwrap();
        splat::load(folder.path(), &LoadOptions::default())
    };
    let error = |meta: &serde_json::Value| {
        load(meta).unwrap_err().to_string().replace(&folder.path().display().to_string(), "F")
    };
    let plain = load(&good).unwrap();
    assert_eq!((plain.splats.len(), plain.version.as_deref()), (5, Some("2")));

    // A first value of NaN, as older versions of splat-transform wrote it.
    let mut without_first = good.clone();
    without_first["scales"]["codebook"][0] = serde_json::Value::Null;
    let found = load(&without_first).unwrap().splats;
    let first = |k: usize| good["scales"]["codebook"][k].as_f64().unwrap();
    let continued = (first(1) + (first(1) - first(255)) / 255.0) as f32;
    for (value, before) in found.log_scales.iter().zip(&plain.splats.log_scales) {
        for (value, before) in value.iter().zip(before) {
            assert!(value == before || *value == continued, "{value} {before}");
        }
    }
    without_first["scales"]["codebook"][1] = serde_json::Value::Null;
    assert!(error(&without_first).contains("256 finite numbers"));

    let mut old = good.clone();
    let object = old.as_object_mut().unwrap();
    object.remove("version");
    object.remove("count");
    old["means"]["shape"] = serde_json::json!([5, 3]);
    old["scales"] = serde_json::json!({ "mins": [-5, -6, -7], "maxs": [1, 1, 1], "files": ["scales.webp"] });
    old["sh0"] = serde_json::json!({ "mins": [-1, -1, -1, -5], "maxs": [1, 1, 1, 5], "files": ["sh0.webp"] });
    let found = load(&old).unwrap();
    assert_eq!((found.version.as_deref(), &found.splats.means), (Some("1"), &plain.splats.means));
    // The splat with opacity 1/2 has the byte 128; version 1 decodes it as a logit.
    let half = (0..5).find(|&i| plain.splats.means[i][1] < -0.4).unwrap();
    assert!((found.splats.opacity_logits[half] - (-5.0 + 10.0 * 128.0 / 255.0)).abs() < 1e-6);
    let steps = found.splats.log_scales.iter().flatten().zip([-5.0f32, -6.0, -7.0].into_iter().cycle());
    for (value, low) in steps {
        let code = (value - low) / (1.0 - low) * 255.0;
        assert!((code - code.round()).abs() < 1e-3, "{value}");
    }

    let broken = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut meta = good.clone();
        change(&mut meta);
        error(&meta)
    };
    let line = broken(&|meta| meta["version"] = 3.into());
    assert_eq!(line, "F/meta.json: meta.json: unknown version of SOG (expected 2, or none for 1, found 3)");
    let line = broken(&|meta| meta["scales"]["codebook"] = serde_json::json!(vec![0.0; 255]));
    let what = "meta.json: invalid numbers (expected scales.codebook with 256 finite numbers, found others)";
    assert_eq!(line, format!("F/meta.json: {what}"));
    let line = broken(&|meta| meta["count"] = 17.into());
    assert_eq!(
        line,
        "F/meta.json: file \"means_l.webp\": too small for its splats (expected 17 pixels, found 4x4)"
    );
    let line = broken(&|meta| meta["quats"]["files"][0] = "../quats.webp".into());
    let what = "a name that leads out (expected a plain file name, found \"../quats.webp\")";
    assert_eq!(line, format!("F/meta.json: file \"../quats.webp\": {what}"));
    let line = broken(&|meta| meta["quats"]["files"][0] = "no.webp".into());
    assert_eq!(line, "F/no.webp: read: no such file or folder");
    let line = broken(&|meta| meta["quats"]["files"][0] = "meta.json".into());
    assert!(
        line.starts_with("F/meta.json: file \"meta.json\": not an image of a SOG (expected a lossless WebP"),
        "{line}"
    );
}

/// Equal splats, which compress best: each coordinate, log scale, logit and SH coefficient is one number.
fn equal(count: usize, sh_degree: u8, [mean, log_scale, logit, sh]: [f32; 4]) -> Splats {
    let mut splat = Splats::with_capacity(sh_degree, 1);
    splat.push([mean; 3], [log_scale; 3], [0.5; 4], logit, &vec![sh; splat.sh_stride()]);
    splat.select(&vec![0; count])
}

#[test]
fn every_format_that_is_written_reads_equal_splats_again() {
    let usual = SaveOptions::default();
    let spz_3 = SaveOptions { spz: SpzOptions { version: 3, ..SpzOptions::default() }, ..usual };
    let [ordinary, largest, smallest] =
        [[1.0, -3.0, 2.0, 0.3], [1e12, 40.0, 80.0, 1e6], [-1e12, -80.0, -80.0, -1e6]];
    for row in FORMATS.iter().filter(|row| row.format.is_written() && !row.format.is_folder()) {
        let all = (0..=3).flat_map(|degree| [(1, degree), (100_000, degree)]).chain([(1_000_000, 0)]);
        let extreme = [(300, 3, largest), (300, 3, smallest)];
        for (count, degree, numbers) in all.map(|(count, degree)| (count, degree, ordinary)).chain(extreme) {
            let document = SplatFile::new(equal(count, degree, numbers));
            for options in [usual, spz_3].into_iter().take(if row.format == Format::Spz { 2 } else { 1 }) {
                let bytes = written_with(&document, row.format, &options);
                let what = format!("{} of {count} splats of degree {degree}, {numbers:?}", row.name);
                match parse_initial(&bytes, Path::new("t"), &LoadOptions::default().limits) {
                    Ok(Initial::Splats(back)) => {
                        assert_eq!((back.splats.len(), back.format), (count, row.format), "{what}")
                    }
                    other => panic!("{what}: {:?}", other.err()),
                }
            }
        }
    }
}

#[test]
fn content_decides_and_not_the_name() {
    for format in [Format::Ply, Format::CompressedPly, Format::Spz, Format::Gltf, Format::Sog, Format::Splat]
    {
        let bytes = written(&some_splats(40, 1, 1), format);
        for name in ["t.spz", "t.ply", "t"] {
            let initial = parse_initial(&bytes, Path::new(name), &LoadOptions::default().limits).unwrap();
            let Initial::Splats(document) = initial else { panic!("points") };
            assert_eq!(document.format, format, "{name}");
        }
    }
}
