//! Frames of camera rigs (COLMAP 3.12 and later): which images a rig took at the same time.
//!
//! ```text
//! frames.bin: u64 n; n × { u32 frame_id; u32 rig_id; f64 q[4]; f64 t[3]; u32 m; m × { i32 sensor_type; u32 sensor_id; u64 data_id } }
//! frames.txt: FRAME_ID RIG_ID QW QX QY QZ TX TY TZ NUM (SENSOR_TYPE SENSOR_ID DATA_ID)...
//! ```
//! The image file contains full poses of all images, so rigs are not needed for rendering. Images of one frame share
//! their exposure and the error of the rig pose. For cameras, `data_id` is the image id.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::io::{Read, Seek};
use std::path::Path;

use super::binary::RecordReader;
use super::text::{LineReader, parse_integer, split_field};
use crate::dataset::error::{DatasetError, DatasetProblem};
use crate::dataset::limits::MAX_IMAGES;

/// Bytes of a frame record without its data ids.
const FRAME_BYTES: u64 = 68;
/// Bytes of one data id.
const DATA_BYTES: u64 = 16;
/// Sensor type of cameras.
const CAMERA: i32 = 0;

/// Reads `frames.bin` as a map from image id to frame id.
///
/// # Errors
/// The file is damaged.
pub fn read_binary(path: &Path, file: impl Read + Seek) -> Result<BTreeMap<u32, u32>, DatasetError> {
    let mut records = RecordReader::new(path, file)?;
    let count = records.count("frames", FRAME_BYTES, MAX_IMAGES)?;
    let mut frame_of = BTreeMap::new();
    for record in 1..=count {
        records.record = record;
        let frame = records.u32()?;
        records.skip(FRAME_BYTES - 8)?;
        let data = records.u32()?;
        records.check_count("data of a frame", u64::from(data), DATA_BYTES)?;
        for _ in 0..data {
            let sensor_type = records.read_bytes().map(i32::from_le_bytes)?;
            records.u32()?;
            let id = records.u64()?;
            if let (CAMERA, Ok(image)) = (sensor_type, u32::try_from(id)) {
                frame_of.insert(image, frame);
            }
        }
    }
    records.finish()?;
    Ok(frame_of)
}

/// Reads `frames.txt` as a map from image id to frame id.
///
/// # Errors
/// A line is not a valid frame.
pub fn read_text(path: &Path, file: impl Read) -> Result<BTreeMap<u32, u32>, DatasetError> {
    let mut lines = LineReader::new(path, file);
    let mut frame_of = BTreeMap::new();
    while lines.advance_to_record()? {
        parse_frame(lines.text()?, &mut frame_of).map_err(|p| lines.error(p))?;
    }
    Ok(frame_of)
}

fn parse_frame(line: &str, frame_of: &mut BTreeMap<u32, u32>) -> Result<(), DatasetProblem> {
    const EXPECTED: &str = "10 and triples: FRAME_ID RIG_ID QW QX QY QZ TX TY TZ NUM (TYPE ID DATA_ID)...";
    let fields = DatasetProblem::Fields { expected: EXPECTED, found: line.split_ascii_whitespace().count() };
    let (first, mut rest) = split_field(line).ok_or_else(|| fields.clone())?;
    let frame = parse_integer("FRAME_ID", first)?;
    // Rig, pose and count: not needed.
    for _ in 0..9 {
        (_, rest) = split_field(rest).ok_or_else(|| fields.clone())?;
    }
    let mut data = rest.split_ascii_whitespace();
    while let Some(kind) = data.next() {
        let (Some(_), Some(id)) = (data.next(), data.next()) else { return Err(fields) };
        if kind == "CAMERA" {
            frame_of.insert(parse_integer("DATA_ID", id)?, frame);
        }
    }
    Ok(())
}
