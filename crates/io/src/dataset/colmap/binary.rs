//! Binary models: little-endian, no padding.
//!
//! ```text
//! cameras.bin : u64 n; n × { u32 camera_id; i32 model_id; u64 width; u64 height; f64 params[…] }
//! images.bin  : u64 n; n × { u32 image_id; f64 q[4]; f64 t[3]; u32 camera_id; char name[] 0; u64 m; m × { f64 x, y; u64 point_id } }
//! points3D.bin: u64 n; n × { u64 point_id; f64 xyz[3]; u8 rgb[3]; f64 error; u64 m; m × { u32 image_id; u32 point2D_idx } }
//! ```
//! A count is checked against the number of bytes that follow before memory is allocated; unused data is skipped by
//! seeking.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use super::{ColmapImage, ColmapModel, ColmapPoint, Observations, PointItem};
use crate::dataset::camera_model::{
    CameraModel, SPHERESFM_MODEL_ID, SPHERESFM_PARAMETER_COUNT, SourceCamera,
};
use crate::dataset::error::{DatasetError, DatasetProblem};
use crate::dataset::limits::{MAX_IMAGES, MAX_NAME_BYTES, MAX_POINTS};

/// Bytes of a camera record without its parameters.
const CAMERA_BYTES: u64 = 24;
/// Bytes of the shortest image record: a name of one byte, no 2-D points.
const IMAGE_BYTES: u64 = 64 + 2 + 8;
/// Bytes of a 2-D point.
const POINT2D_BYTES: u64 = 24;
/// Bytes of a point record without its track.
const POINT_BYTES: u64 = 51;
/// Bytes of an element of a track.
const TRACK_BYTES: u64 = 8;

/// Reads a file record by record and tracks the number of remaining bytes.
pub(super) struct RecordReader<'a, R> {
    path: &'a Path,
    reader: BufReader<R>,
    left: u64,
    /// Number of the current record, from 1; 0 is the header.
    pub(super) record: u64,
}

impl<'a, R: Read + Seek> RecordReader<'a, R> {
    pub(super) fn new(path: &'a Path, mut file: R) -> Result<Self, DatasetError> {
        let io = |e: std::io::Error| DatasetError::io(path, "read", &e);
        let left = file.seek(SeekFrom::End(0)).map_err(io)?;
        file.seek(SeekFrom::Start(0)).map_err(io)?;
        Ok(Self { path, reader: BufReader::with_capacity(1 << 16, file), left, record: 0 })
    }

    fn error(&self, problem: DatasetProblem) -> DatasetError {
        let place = if self.record == 0 { "header".to_owned() } else { format!("record {}", self.record) };
        DatasetError::malformed(self.path, place, problem)
    }

    pub(super) fn read_bytes<const N: usize>(&mut self) -> Result<[u8; N], DatasetError> {
        let needed = N as u64;
        if needed > self.left {
            return Err(self.error(DatasetProblem::Truncated { needed, left: self.left }));
        }
        let mut bytes = [0; N];
        self.reader.read_exact(&mut bytes).map_err(|e| DatasetError::io(self.path, "read", &e))?;
        self.left -= needed;
        Ok(bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, DatasetError> {
        self.read_bytes().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, DatasetError> {
        self.read_bytes().map(u64::from_le_bytes)
    }

    fn f64(&mut self) -> Result<f64, DatasetError> {
        self.read_bytes().map(f64::from_le_bytes)
    }

    fn f64s<const N: usize>(&mut self) -> Result<[f64; N], DatasetError> {
        let mut values = [0.0; N];
        for value in &mut values {
            *value = self.f64()?;
        }
        Ok(values)
    }

    /// Reads a count of records of at least `record_bytes` each.
    pub(super) fn count(
        &mut self,
        what: &'static str,
        record_bytes: u64,
        limit: u64,
    ) -> Result<u64, DatasetError> {
        let found = self.u64()?;
        self.check_count(what, found, record_bytes)?;
        if found > limit {
            return Err(self.error(DatasetProblem::Limit { what, found, limit }));
        }
        Ok(found)
    }

    /// Fails if too few bytes remain for `found` records.
    pub(super) fn check_count(
        &self,
        what: &'static str,
        found: u64,
        record_bytes: u64,
    ) -> Result<(), DatasetError> {
        let possible = self.left / record_bytes;
        if found > possible {
            return Err(self.error(DatasetProblem::Count { what, found, possible, left: self.left }));
        }
        Ok(())
    }

    pub(super) fn skip(&mut self, bytes: u64) -> Result<(), DatasetError> {
        let too_few = || self.error(DatasetProblem::Truncated { needed: bytes, left: self.left });
        let offset = i64::try_from(bytes).ok().filter(|_| bytes <= self.left).ok_or_else(too_few)?;
        self.reader.seek_relative(offset).map_err(|e| DatasetError::io(self.path, "read", &e))?;
        self.left -= bytes;
        Ok(())
    }

    fn name(&mut self) -> Result<String, DatasetError> {
        let mut bytes = Vec::new();
        loop {
            if self.left == 0 || bytes.len() > MAX_NAME_BYTES {
                return Err(self.error(DatasetProblem::NameWithoutEnd));
            }
            match self.read_bytes::<1>()? {
                [0] => break,
                [byte] => bytes.push(byte),
            }
        }
        if bytes.is_empty() || bytes.len() > MAX_NAME_BYTES {
            return Err(self.error(DatasetProblem::NameLength { bytes: bytes.len() }));
        }
        String::from_utf8(bytes).map_err(|e| {
            let name = crate::text::excerpt(&String::from_utf8_lossy(e.as_bytes()));
            self.error(DatasetProblem::NameEncoding { name })
        })
    }

    pub(super) fn finish(&mut self) -> Result<(), DatasetError> {
        self.record = 0;
        match self.left {
            0 => Ok(()),
            bytes => Err(DatasetError::malformed(self.path, "end", DatasetProblem::Trailing { bytes })),
        }
    }
}

/// Reads `cameras.bin`, sorted by id.
///
/// # Errors
/// The file is damaged, a model id is unknown, parameters are invalid, or an id is duplicate.
pub fn read_cameras(path: &Path, file: impl Read + Seek) -> Result<Vec<SourceCamera>, DatasetError> {
    let mut records = RecordReader::new(path, file)?;
    let count = records.count("cameras", CAMERA_BYTES, MAX_IMAGES)?;
    // SphereSfM's model id for panoramas was later used by COLMAP for a model with 16 parameters. The file length tells
    // which program wrote it.
    let is_sphere = records.left == count.saturating_mul(CAMERA_BYTES + 8 * SPHERESFM_PARAMETER_COUNT as u64);
    let mut cameras = Vec::new();
    for record in 1..=count {
        records.record = record;
        let id = records.u32()?;
        let model_id = records.read_bytes().map(i32::from_le_bytes)?;
        let (width, height) = (records.u64()?, records.u64()?);
        if is_sphere && model_id == SPHERESFM_MODEL_ID {
            let camera = SourceCamera::sphere(id, width, height, records.f64s()?);
            cameras.push(camera.map_err(|e| records.error(DatasetProblem::Camera(e)))?);
            continue;
        }
        let model = CameraModel::from_id(model_id)
            .ok_or_else(|| records.error(DatasetProblem::UnknownModelId { id: model_id }))?;
        let params = model.parameters().iter().map(|_| records.f64()).collect::<Result<Vec<_>, _>>()?;
        cameras.push(
            SourceCamera::new(id, model, width, height, params)
                .map_err(|e| records.error(DatasetProblem::Camera(e)))?,
        );
    }
    records.finish()?;
    super::sort_cameras(path, &mut cameras)?;
    Ok(cameras)
}

/// Reads `images.bin`, sorted by id.
///
/// # Errors
/// The file is damaged, a name is invalid, a camera is missing, or an id is duplicate.
pub fn read_images(
    path: &Path,
    file: impl Read + Seek,
    cameras: &[SourceCamera],
    observations: Observations,
) -> Result<Vec<ColmapImage>, DatasetError> {
    let mut records = RecordReader::new(path, file)?;
    let count = records.count("images", IMAGE_BYTES, MAX_IMAGES)?;
    let mut images = with_capacity_for(count);
    for record in 1..=count {
        records.record = record;
        let id = records.u32()?;
        let quaternion = records.f64s()?;
        let translation = records.f64s()?;
        let camera_id = records.u32()?;
        super::check_camera(cameras, camera_id, "cameras.bin").map_err(|p| records.error(p))?;
        let name = records.name()?;
        let point_count = records.count("2-D points", POINT2D_BYTES, u64::MAX)?;
        let mut points = Vec::new();
        match observations {
            Observations::Skip => records.skip(point_count * POINT2D_BYTES)?,
            Observations::Keep => {
                for _ in 0..point_count {
                    points.push((records.f64s()?, records.u64()?));
                }
            }
        }
        images.push(ColmapImage { id, quaternion, translation, camera_id, name, point_count, points });
    }
    records.finish()?;
    super::sort_images(path, &mut images)?;
    Ok(images)
}

/// Reads `points3D.bin`, sorted by id.
///
/// # Errors
/// The file is damaged.
pub fn read_points(
    path: &Path,
    file: impl Read + Seek,
    observations: Observations,
) -> Result<Vec<ColmapPoint>, DatasetError> {
    super::collect_points(|take| for_each_point(path, file, observations, take))
}

/// Reads `points3D.bin` and passes each point to `take`, in file order.
///
/// # Errors
/// The file is damaged, or `take` fails.
pub fn for_each_point(
    path: &Path,
    file: impl Read + Seek,
    observations: Observations,
    take: &mut dyn FnMut(PointItem) -> Result<(), DatasetError>,
) -> Result<(), DatasetError> {
    let mut records = RecordReader::new(path, file)?;
    let count = records.count("points", POINT_BYTES, MAX_POINTS)?;
    take(PointItem::Expected(count))?;
    for record in 1..=count {
        records.record = record;
        let id = records.u64()?;
        let position = records.f64s()?;
        let colour = records.read_bytes()?;
        let error = records.f64()?;
        let track_length = records.count("track elements", TRACK_BYTES, u64::MAX)?;
        let mut track = Vec::new();
        match observations {
            Observations::Skip => records.skip(track_length * TRACK_BYTES)?,
            Observations::Keep => {
                for _ in 0..track_length {
                    track.push([records.u32()?, records.u32()?]);
                }
            }
        }
        take(PointItem::Point(ColmapPoint { id, position, colour, error, track_length, track }))?;
    }
    records.finish()
}

/// Allocates capacity for `count` records. The file is long enough to hold them, so the capacity is at most twice its
/// length.
fn with_capacity_for<T>(count: u64) -> Vec<T> {
    Vec::with_capacity(usize::try_from(count).unwrap_or(0))
}

/// Contents of `cameras.bin`, `images.bin` and `points3D.bin`.
pub(super) fn encode(model: &ColmapModel) -> [Vec<u8>; 3] {
    fn doubles(out: &mut Vec<u8>, values: &[f64]) {
        values.iter().for_each(|v| out.extend(v.to_le_bytes()));
    }
    let count = |n: usize| (n as u64).to_le_bytes();

    let mut cameras = count(model.cameras.len()).to_vec();
    for camera in &model.cameras {
        cameras.extend(camera.id.to_le_bytes());
        cameras.extend(i32::from(camera.model.id()).to_le_bytes());
        cameras.extend(u64::from(camera.width).to_le_bytes());
        cameras.extend(u64::from(camera.height).to_le_bytes());
        doubles(&mut cameras, &camera.params);
    }
    let mut images = count(model.images.len()).to_vec();
    for image in &model.images {
        images.extend(image.id.to_le_bytes());
        doubles(&mut images, &image.quaternion);
        doubles(&mut images, &image.translation);
        images.extend(image.camera_id.to_le_bytes());
        images.extend(image.name.as_bytes());
        images.push(0);
        images.extend(count(image.points.len()));
        for (pixel, point) in &image.points {
            doubles(&mut images, pixel);
            images.extend(point.to_le_bytes());
        }
    }
    let mut points = count(model.points.len()).to_vec();
    for point in &model.points {
        points.extend(point.id.to_le_bytes());
        doubles(&mut points, &point.position);
        points.extend(point.colour);
        doubles(&mut points, &[point.error]);
        points.extend(count(point.track.len()));
        for [image, index] in &point.track {
            points.extend(image.to_le_bytes());
            points.extend(index.to_le_bytes());
        }
    }
    [cameras, images, points]
}
