//! Properties that must hold for any bytes read as a PLY file.

use gausset_io::text::is_valid_message;
use std::path::Path;

use gausset_core::Splats;
use gausset_io::splat::{Format, Initial, ReadLimits, SaveOptions, SplatFile, parse_initial, write};

/// Reads the bytes; accepted splats are valid, and writing and reading them again reproduces every bit.
pub(crate) fn check(bytes: &[u8]) {
    let (path, limits) = (Path::new("fuzz.ply"), ReadLimits { memory_bytes: 128 << 20 });
    let file = match parse_initial(bytes, path, &limits) {
        Ok(Initial::Splats(file)) => file,
        Ok(Initial::Points(points)) => {
            assert!(points.positions.iter().flatten().all(|v| v.is_finite()));
            assert!(points.colours.is_none_or(|c| c.len() == points.positions.len()));
            return;
        }
        Err(error) => {
            let line = error.to_string();
            assert!(line.starts_with("fuzz.ply: ") && is_valid_message(&line), "{line:?}");
            return;
        }
    };
    assert_eq!(file.splats.validate(), Ok(()));
    assert!((0..file.splats.len()).all(|i| file.splats.is_valid(i)));
    if file.splats.is_empty() {
        // No writer writes a file without splats.
        return;
    }
    let again = write_and_read(&file, path, &limits);
    assert!(same_bits(&again.splats, &file.splats));
    assert_eq!(again.antialiased, file.antialiased);
    assert_eq!(again.vertical_axis, file.vertical_axis);
    assert_eq!(again.sky, file.sky);
}

fn write_and_read(file: &SplatFile, path: &Path, limits: &ReadLimits) -> SplatFile {
    let options = SaveOptions { normals: false, ..SaveOptions::default() };
    let mut bytes = Vec::new();
    write(&mut bytes, file, Format::Ply, &options).expect("memory takes everything");
    match parse_initial(&bytes, path, limits) {
        Ok(Initial::Splats(file)) => file,
        other => panic!("our own file is not read: {other:?}"),
    }
}

fn same_bits(a: &Splats, b: &Splats) -> bool {
    let same =
        |a: &[f32], b: &[f32]| bytemuck::cast_slice::<f32, u32>(a) == bytemuck::cast_slice::<f32, u32>(b);
    same(a.means.as_flattened(), b.means.as_flattened())
        && same(a.log_scales.as_flattened(), b.log_scales.as_flattened())
        && same(a.quats.as_flattened(), b.quats.as_flattened())
        && same(&a.opacity_logits, &b.opacity_logits)
        && same(&a.sh, &b.sh)
}
