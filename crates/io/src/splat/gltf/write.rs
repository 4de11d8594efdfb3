//! Writes GLB files: one mesh, one primitive, all numbers as f32.

use std::io::{self, Write};

use gausset_core::sh;
use serde_json::json;

use super::{BINARY_CHUNK, CHUNK_HEAD_BYTES, EXTENSION, HEADER_BYTES, JSON_CHUNK, MAGIC, VERSION, sh_name};
use crate::splat::axes::HalfTurn;
use crate::splat::metadata;
use crate::splat::values::{self, ClampCounts};
use crate::splat::{Format, SaveOptions, SaveReport, SplatFile};

/// Component types of glTF.
const F32: u32 = 5126;
const U8: u32 = 5121;
/// `bufferView.target` of vertex attributes.
const ARRAY_BUFFER: u32 = 34_962;
/// Rows per write.
const CHUNK_ROWS: usize = 1 << 12;

/// A column of the file.
struct Column {
    name: String,
    shape: &'static str,
    component: u32,
    bytes: usize,
}

/// Writes a document.
pub(in crate::splat) fn write(
    writer: &mut dyn Write,
    document: &SplatFile,
    _: &SaveOptions,
) -> io::Result<SaveReport> {
    let invalid = |reason: String| io::Error::new(io::ErrorKind::InvalidInput, reason);
    let splats = &document.splats;
    let count = splats.len();
    let columns = columns(splats.sh_degree);
    let binary: usize = columns.iter().map(|column| column.bytes * count).sum();
    let mut json = json_of(&columns, count, &splats.means, binary);
    let facts = metadata::metadata_lines(document);
    if !facts.is_empty() {
        json["asset"]["extras"] = json!({ "gausset": facts });
    }
    let mut json = json.to_string();
    while !json.len().is_multiple_of(4) {
        json.push(' ');
    }
    let length = HEADER_BYTES + 2 * CHUNK_HEAD_BYTES + (json.len() + binary) as u64;
    let Ok(whole) = u32::try_from(length) else {
        return Err(invalid(format!("a GLB holds less than 4 GiB (found {length} bytes)")));
    };
    writer.write_all(MAGIC)?;
    for word in [VERSION, whole, json.len() as u32, JSON_CHUNK] {
        writer.write_all(&word.to_le_bytes())?;
    }
    writer.write_all(json.as_bytes())?;
    for word in [binary as u32, BINARY_CHUNK] {
        writer.write_all(&word.to_le_bytes())?;
    }

    let mut clips = ClampCounts::default();
    column(writer, count, |i, out| floats(out, &HalfTurn::mean(splats.means[i])))?;
    column(writer, count, |i, out| {
        let linear = |k: usize| linear_byte(0.5 + sh::C0 * f64::from(splats.sh_coefficients(i)[k]));
        let opacity = values::quantise(values::opacity(splats.opacity_logits[i]), 255) as u8;
        out.extend([linear(0), linear(1), linear(2), opacity]);
    })?;
    column(writer, count, |i, out| {
        let [w, x, y, z] = HalfTurn::quat(values::unit_quaternion(splats.quats[i])).map(|v| v as f32);
        floats(out, &[x, y, z, w]);
    })?;
    column(writer, count, |i, out| {
        let scale = splats.log_scales[i].map(|v| libm::exp(f64::from(v)) as f32);
        clips.count("scale beyond a 32-bit number", scale.iter().any(|v| !v.is_normal()));
        floats(out, &scale.map(|v| v.min(f32::MAX)));
    })?;
    column(writer, count, |i, out| {
        let logit = splats.opacity_logits[i];
        clips.count("opacity within 3e-7 of 0 or 1", logit.abs() > values::EXTREME_LOGIT);
        floats(out, &[values::opacity(logit) as f32]);
    })?;
    for coefficient in 0..sh::coefficients(splats.sh_degree) {
        let sign = HalfTurn::sign(coefficient);
        column(writer, count, |i, out| {
            let values = &splats.sh_coefficients(i)[3 * coefficient..3 * coefficient + 3];
            floats(out, &[0, 1, 2].map(|k| sign * values[k]));
        })?;
    }
    let mut saved = SaveReport::new(Format::Gltf, count, length);
    saved.version = Some("2.0, binary");
    saved.frame = Some("y up, turned by half a turn about z");
    saved.clipped = clips.into_counts();
    Ok(saved)
}

/// Columns in file order.
fn columns(sh_degree: u8) -> Vec<Column> {
    let float = |name: String, shape, parts: usize| Column { name, shape, component: F32, bytes: 4 * parts };
    let own = |name: &str| format!("{EXTENSION}:{name}");
    let mut columns = vec![
        float("POSITION".to_owned(), "VEC3", 3),
        Column { name: "COLOR_0".to_owned(), shape: "VEC4", component: U8, bytes: 4 },
        float(own("ROTATION"), "VEC4", 4),
        float(own("SCALE"), "VEC3", 3),
        float(own("OPACITY"), "SCALAR", 1),
    ];
    columns.extend((0..sh::coefficients(sh_degree)).map(|k| float(own(&sh_name(k)), "VEC3", 3)));
    columns
}

fn json_of(columns: &[Column], count: usize, means: &[[f32; 3]], binary: usize) -> serde_json::Value {
    let (mut views, mut accessors, mut attributes) = (Vec::new(), Vec::new(), serde_json::Map::new());
    let mut offset = 0;
    for (index, column) in columns.iter().enumerate() {
        let bytes = column.bytes * count;
        views.push(json!({ "buffer": 0, "byteOffset": offset, "byteLength": bytes, "target": ARRAY_BUFFER }));
        offset += bytes;
        let mut accessor = json!({
            "bufferView": index, "componentType": column.component, "count": count, "type": column.shape,
        });
        if column.component == U8 {
            accessor["normalized"] = json!(true);
        }
        accessors.push(accessor);
        attributes.insert(column.name.clone(), json!(index));
    }
    let bound = |pick: fn(f32, f32) -> f32, start: f32| {
        means.iter().fold([start; 3], |best, mean| {
            let mean = HalfTurn::mean(*mean);
            std::array::from_fn(|k| pick(best[k], mean[k]))
        })
    };
    accessors[0]["min"] = json!(bound(f32::min, f32::INFINITY));
    accessors[0]["max"] = json!(bound(f32::max, f32::NEG_INFINITY));
    json!({
        "asset": { "version": "2.0", "generator": format!("gausset {}", env!("CARGO_PKG_VERSION")) },
        "extensionsUsed": [EXTENSION],
        "scene": 0,
        "scenes": [{ "nodes": [0] }],
        "nodes": [{ "mesh": 0 }],
        "meshes": [{ "primitives": [{
            "attributes": attributes,
            "mode": 0,
            "extensions": { EXTENSION: {
                "kernel": "ellipse",
                "colorSpace": "srgb_rec709_display",
                "sortingMethod": "cameraDistance",
                "projection": "perspective",
            } },
        }] }],
        "accessors": accessors,
        "bufferViews": views,
        "buffers": [{ "byteLength": binary }],
    })
}

/// Writes a column in blocks of rows.
fn column(writer: &mut dyn Write, count: usize, mut row: impl FnMut(usize, &mut Vec<u8>)) -> io::Result<()> {
    let mut bytes = Vec::new();
    for begin in (0..count).step_by(CHUNK_ROWS) {
        bytes.clear();
        (begin..count.min(begin + CHUNK_ROWS)).for_each(|i| row(i, &mut bytes));
        writer.write_all(&bytes)?;
    }
    Ok(())
}

fn floats<const N: usize>(out: &mut Vec<u8>, values: &[f32; N]) {
    out.extend_from_slice(values.map(f32::to_le_bytes).as_flattened());
}

/// Converts an sRGB colour to a byte in linear light for `COLOR_0` (IEC 61966-2-1).
fn linear_byte(colour: f64) -> u8 {
    let c = colour.clamp(0.0, 1.0);
    let linear = if c <= 0.040_45 { c / 12.92 } else { libm::pow((c + 0.055) / 1.055, 2.4) };
    values::quantise(linear, 255) as u8
}
