//! Writes the PLY layout of the released 3DGS code: exact names and order, little-endian f32, bits unchanged.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::Path;

use gausset_core::Splats;

use crate::atomic::{FileSystem, WriteError, WriteOptions, write_atomic_with};

/// Rows put together before they are written.
const ROWS_PER_CHUNK: usize = 1024;

/// What stands in the file besides the parameters. Equal splats and options give equal bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct PlyOptions {
    /// Write `nx ny nz` (all zero) as the released code does: useless, but some viewers insist on them, and files for
    /// strangers should open everywhere. Without them a splat is 12 bytes smaller.
    pub normals: bool,
    /// The splats were trained with opacity compensation: `comment SplatRenderMode: mip`.
    pub antialiased: bool,
    /// Direction that is up: `comment Vertical axis: x y z`.
    pub vertical_axis: Option<[f32; 3]>,
    /// So many of the last splats are a sky far behind the scene: `comment gausset sky N`.
    pub sky: usize,
}

impl Default for PlyOptions {
    fn default() -> Self {
        Self { normals: true, antialiased: false, vertical_axis: None, sky: 0 }
    }
}

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PlyWritten {
    /// Splats in the file.
    pub splats: u64,
    /// Splats left out because a parameter is not finite or the rotation is zero.
    pub dropped: u64,
    /// Length of the file.
    pub bytes: u64,
    /// Seconds spent in bringing it to the device.
    pub sync_seconds: f64,
}

/// Saves splats atomically.
///
/// # Errors
/// A failed write; a name that is taken, with [`crate::atomic::Overwrite::Refuse`].
pub fn save_ply(
    fs: &dyn FileSystem,
    path: &Path,
    splats: &Splats,
    options: &PlyOptions,
    write: &WriteOptions,
) -> Result<PlyWritten, WriteError> {
    let columns = column_names(splats, options).len() as u64;
    let needed_bytes = write.needed_bytes.max(4 * columns * splats.len() as u64);
    let write = WriteOptions { needed_bytes, ..*write };
    let (written, committed) = write_atomic_with(fs, path, &write, |file| write_ply(file, splats, options))?;
    Ok(PlyWritten { sync_seconds: committed.sync_seconds, ..written })
}

/// Writes splats to a stream. Splats that are not usable ([`Splats::is_usable`]) are left out.
///
/// # Errors
/// The writer failed; the arrays of the splats do not fit together.
pub fn write_ply(writer: &mut dyn Write, splats: &Splats, options: &PlyOptions) -> io::Result<PlyWritten> {
    splats.validate().map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, e))?;
    let _span = gausset_prof::span("write_ply");
    let usable = (0..splats.len()).filter(|&i| splats.is_usable(i)).count();
    let all_usable = usable == splats.len();
    let names = column_names(splats, options);
    let scene = splats.len().saturating_sub(options.sky);
    let sky = (scene..splats.len()).filter(|&i| splats.is_usable(i)).count();
    let header = header(usable, sky, &names, options);
    writer.write_all(header.as_bytes())?;

    let mut rows: Vec<f32> = Vec::with_capacity(ROWS_PER_CHUNK * names.len());
    let rest = splats.sh_stride() - 3;
    for i in 0..splats.len() {
        if !all_usable && !splats.is_usable(i) {
            continue;
        }
        rows.extend_from_slice(&splats.means[i]);
        if options.normals {
            rows.extend_from_slice(&[0.0; 3]);
        }
        let (dc, coefficients) = splats.sh_of(i).split_at(3);
        rows.extend_from_slice(dc);
        // Coefficient-major in memory, channel-major in the file.
        for channel in 0..3 {
            rows.extend(coefficients.iter().skip(channel).step_by(3));
        }
        rows.push(splats.opacity_logits[i]);
        rows.extend_from_slice(&splats.log_scales[i]);
        rows.extend_from_slice(&splats.quats[i]);
        if rows.len() >= ROWS_PER_CHUNK * names.len() {
            writer.write_all(bytemuck::cast_slice(&rows))?;
            rows.clear();
        }
    }
    writer.write_all(bytemuck::cast_slice(&rows))?;
    debug_assert_eq!(names.len(), 14 + rest + if options.normals { 3 } else { 0 });
    Ok(PlyWritten {
        splats: usable as u64,
        dropped: (splats.len() - usable) as u64,
        bytes: (header.len() + usable * names.len() * 4) as u64,
        sync_seconds: 0.0,
    })
}

/// Names of the columns in file order.
fn column_names(splats: &Splats, options: &PlyOptions) -> Vec<String> {
    let numbered = |prefix: &'static str, count: usize| (0..count).map(move |i| format!("{prefix}_{i}"));
    let mut names: Vec<String> = ["x", "y", "z"].map(str::to_owned).into();
    if options.normals {
        names.extend(["nx", "ny", "nz"].map(str::to_owned));
    }
    names.extend(numbered("f_dc", 3));
    names.extend(numbered("f_rest", splats.sh_stride() - 3));
    names.push("opacity".to_owned());
    names.extend(numbered("scale", 3));
    names.extend(numbered("rot", 4));
    names
}

/// The header, under 4 KiB because many programs look no further for its end.
fn header(count: usize, sky: usize, names: &[String], options: &PlyOptions) -> String {
    let mut text = "ply\nformat binary_little_endian 1.0\n".to_owned();
    // Writing to a string cannot fail.
    let _ = writeln!(text, "comment Generated by gausset {}", env!("CARGO_PKG_VERSION"));
    let mode = if options.antialiased { "mip" } else { "default" };
    let _ = writeln!(text, "comment SplatRenderMode: {mode}");
    if let Some([x, y, z]) = options.vertical_axis.filter(|axis| axis.iter().all(|v| v.is_finite())) {
        let _ = writeln!(text, "comment Vertical axis: {x} {y} {z}");
    }
    if sky > 0 {
        let _ = writeln!(text, "comment gausset sky {sky}");
    }
    let _ = writeln!(text, "element vertex {count}");
    for name in names {
        let _ = writeln!(text, "property float {name}");
    }
    text.push_str("end_header\n");
    text
}
