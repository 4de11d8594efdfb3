//! Formats of other programs: their files are read to their check values, ours hold the bytes that they expect.

mod files;

use std::path::Path;

use files::{Numbers, some_splats};
use gausset_core::{Splats, sh};
use gausset_io::splat::{self, Document, Format, Initial, LoadOptions, SaveOptions, parse_initial};
use gausset_testkit::data_file;

fn parse(bytes: &[u8]) -> Document {
    match parse_initial(bytes, Path::new("t"), &LoadOptions::default().limits) {
        Ok(Initial::Splats(document)) => document,
        other => panic!("{other:?}"),
    }
}

fn written(splats: &Splats, format: Format) -> Vec<u8> {
    written_with(&Document::new(splats.clone()), format, &SaveOptions::default())
}

fn written_with(document: &Document, format: Format, options: &SaveOptions) -> Vec<u8> {
    let mut bytes = Vec::new();
    let saved = splat::write(&mut bytes, document, format, options).unwrap();
    assert_eq!((saved.bytes, saved.format), (bytes.len() as u64, format));
    assert_eq!(saved.splats, document.splats.len() as u64);
    bytes
}

/// The two splats of the check values and three others that make the bounds x -2..10, y -0.5..20, z -30..3.
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

/// Splats as training makes them: all over the ranges that formats are made for.
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

/// `b[order[i]]` is `a[i]` within some errors.
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
        near("colour", &a.sh_of(i)[..3], &b.sh_of(j)[..3], within.dc);
        near("SH", &a.sh_of(i)[3..], &b.sh_of(j)[3..], within.rest);
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

#[allow(dead_code, reason = "of the formats that keep it")]
fn in_order(splats: &Splats) -> Vec<usize> {
    (0..splats.len()).collect()
}

/// What `../shared/data/README.md` says of a file, by an independent reader in f64.
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
    fn holds_for(&self, name: &str, document: &Document) {
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
            near("colour", mean(&|i| f64::from(s.sh_of(i)[k])), self.dc[k], 2e-6);
        }
        let opacity = |i: usize| 1.0 / (1.0 + (-f64::from(s.opacity_logits[i])).exp());
        // The other reader had infinite logits; ours end at 15.
        near("opacity", mean(&opacity), self.opacity, 1e-6);
        if let Some(rms) = self.rms_rest {
            let squares = |i: usize| s.sh_of(i)[3..].iter().map(|v| f64::from(v * v)).sum::<f64>();
            near("SH", (mean(&squares) / (s.sh_stride() - 3) as f64).sqrt(), rms, 2e-6);
        }
    }
}

/// Loads a file of `shared/data/splats`, if it is there.
fn sample(test: &str, name: &str) -> Option<Document> {
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
    assert_eq!((word(rows), word(rows + 4)), (0x4540_07ff, 0x321a_40de));
    assert_eq!((word(rows + 16), word(rows + 20)), (0x0001_f6e8, 0x5b74_9926));
    let sh = &body[rows + 5 * 16..];
    assert_eq!(sh[..9], [131, 134, 137, 140, 144, 147, 150, 153, 156]);
    assert_eq!(sh[9..18], [118, 137, 128, 128, 128, 128, 144, 112, 136]);
    assert!(parse(&bytes).splats.len() == 5);
}

#[test]
fn a_compressed_ply_keeps_splats_within_half_a_step() {
    for degree in 0..=3 {
        let splats = trained(3000, degree);
        let mut document = Document::new(splats.clone());
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
    // The largest first: volume e^-6 times opacity 0.88 stands before e^-6 times 0.73 and e^-13.7.
    let first = |row: usize| f32::from_le_bytes(bytes[32 * row..32 * row + 4].try_into().unwrap());
    assert_eq!([first(0), first(1), first(4)], [-2.0, 10.0, 1.25]);
}

#[test]
fn dot_splat_keeps_splats_within_half_a_step_and_says_what_is_lost() {
    let splats = trained(2000, 2);
    let mut bytes = Vec::new();
    let document = Document { antialiased: true, sky: 3, ..Document::new(splats.clone()) };
    let saved = splat::write(&mut bytes, &document, Format::Splat, &SaveOptions::default()).unwrap();
    let lost = ["SH above degree 0", "that they are to be drawn antialiased", "which splats are the sky"];
    assert_eq!(saved.lost, lost);
    let outside = |i: usize| {
        splats.sh_of(i)[..3].iter().any(|dc| !(-0.0019..=1.0019).contains(&sh::colour_from_dc(*dc)))
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

#[test]
fn content_decides_and_not_the_name() {
    for format in [Format::Ply, Format::CompressedPly, Format::Splat] {
        let bytes = written(&some_splats(40, 1, 1), format);
        for name in ["t.spz", "t.ply", "t"] {
            let initial = parse_initial(&bytes, Path::new(name), &LoadOptions::default().limits).unwrap();
            let Initial::Splats(document) = initial else { panic!("points") };
            assert_eq!(document.format, format, "{name}");
        }
    }
}
