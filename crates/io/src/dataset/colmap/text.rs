//! Text models: `#` comments, fields separated by white space.
//!
//! ```text
//! cameras.txt : CAMERA_ID MODEL WIDTH HEIGHT PARAMS...
//! images.txt  : IMAGE_ID QW QX QY QZ TX TY TZ CAMERA_ID NAME       and a second line, possibly empty:
//!               X Y POINT3D_ID ...                                 (-1 = no point)
//! points3D.txt: POINT3D_ID X Y Z R G B ERROR (IMAGE_ID POINT2D_IDX)...
//! ```
//! Accepts what other programs write: CRLF, a byte order mark, tabs, names with spaces, colours with a decimal point,
//! `-nan(ind)`, and a missing second line of the last image. Numbers are written with as many digits as an exact round trip needs.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::str::FromStr;

use super::{ColmapImage, ColmapModel, ColmapPoint, NO_POINT, Observations, PointItem};
use crate::dataset::camera_model::{
    CameraModel, CameraModelError, SPHERESFM_MODEL, SPHERESFM_PARAMETER_COUNT, SourceCamera,
};
use crate::dataset::error::{DatasetError, DatasetProblem};
use crate::dataset::limits::{MAX_IMAGES, MAX_NAME_BYTES, MAX_POINTS};
use crate::text::excerpt;

/// Longest line in bytes: enough for the 2-D points of an image with ten million of them.
const MAX_LINE_BYTES: u64 = 256 << 20;

/// Reads a text file line by line.
pub(super) struct LineReader<'a, R> {
    path: &'a Path,
    reader: BufReader<R>,
    buffer: Vec<u8>,
    /// Number of the line in `buffer`, from 1.
    number: u64,
}

impl<'a, R: Read> LineReader<'a, R> {
    pub(super) fn new(path: &'a Path, file: R) -> Self {
        Self { path, reader: BufReader::with_capacity(1 << 16, file), buffer: Vec::new(), number: 0 }
    }

    pub(super) fn error(&self, problem: DatasetProblem) -> DatasetError {
        DatasetError::malformed(self.path, format!("line {}", self.number), problem)
    }

    /// Reads the next line into `buffer`. Returns `false` at the end of the file.
    fn advance(&mut self) -> Result<bool, DatasetError> {
        self.buffer.clear();
        let io = |e: std::io::Error| DatasetError::io(self.path, "read", &e);
        let mut limited = (&mut self.reader).take(MAX_LINE_BYTES + 1);
        let read = limited.read_until(b'\n', &mut self.buffer).map_err(io)? as u64;
        self.number += u64::from(read > 0);
        if read > MAX_LINE_BYTES {
            return Err(self.error(DatasetProblem::FileSize { found: read, limit: MAX_LINE_BYTES }));
        }
        if self.number == 1 && self.buffer.starts_with(b"\xEF\xBB\xBF") {
            self.buffer.drain(..3);
        }
        Ok(read > 0)
    }

    pub(super) fn text(&self) -> Result<&str, DatasetError> {
        std::str::from_utf8(&self.buffer).map(str::trim).map_err(|_| self.error(DatasetProblem::NotText))
    }

    /// Advances to the next line that is neither empty nor a comment. Returns `false` at the end of the file.
    pub(super) fn advance_to_record(&mut self) -> Result<bool, DatasetError> {
        while self.advance()? {
            let text = self.text()?;
            if !text.is_empty() && !text.starts_with('#') {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Splits the first field off a line.
pub(super) fn split_field(line: &str) -> Option<(&str, &str)> {
    let line = line.trim_start();
    if line.is_empty() {
        return None;
    }
    Some(line.split_once(|c: char| c.is_ascii_whitespace()).unwrap_or((line, "")))
}

/// Splits the first `N` fields off a line; also returns the rest.
fn fields<'t, const N: usize>(
    line: &'t str,
    expected: &'static str,
) -> Result<([&'t str; N], &'t str), DatasetProblem> {
    let mut rest = line;
    let mut found = [""; N];
    for (i, field) in found.iter_mut().enumerate() {
        (*field, rest) = split_field(rest).ok_or(DatasetProblem::Fields { expected, found: i })?;
    }
    Ok((found, rest.trim()))
}

fn parse_number<T: FromStr>(
    field: &'static str,
    text: &str,
    expected: &'static str,
) -> Result<T, DatasetProblem> {
    text.parse().map_err(|_| DatasetProblem::Number { field, found: excerpt(text), expected })
}

fn parse_real(field: &'static str, text: &str) -> Result<f64, DatasetProblem> {
    match text.parse() {
        Ok(value) => Ok(value),
        Err(_) if is_not_finite(text) => Ok(f64::NAN),
        Err(_) => parse_number(field, text, "a number with a decimal point"),
    }
}

/// Whether the text is how Microsoft's libraries write what is not finite: `-nan(ind)`, `1.#QNAN`, `-1.#INF`.
fn is_not_finite(text: &str) -> bool {
    let text = text.trim_start_matches(['-', '+']);
    ["nan", "inf", "1.#"].iter().any(|start| text.get(..3).is_some_and(|t| t.eq_ignore_ascii_case(start)))
}

/// A colour channel; scripts write it as `164.0`.
fn parse_channel(field: &'static str, text: &str) -> Result<u8, DatasetProblem> {
    let channel = match text.parse::<f64>() {
        Ok(value) if (-0.5..255.5).contains(&value) => Some(value.round() as u8),
        _ => None,
    };
    channel.ok_or_else(|| DatasetProblem::Number { field, found: excerpt(text), expected: "0..255" })
}

pub(super) fn parse_integer<T: FromStr>(field: &'static str, text: &str) -> Result<T, DatasetProblem> {
    parse_number(field, text, "a whole number")
}

fn reals<const N: usize>(names: [&'static str; N], texts: &[&str]) -> Result<[f64; N], DatasetProblem> {
    let mut values = [0.0; N];
    for ((value, name), text) in values.iter_mut().zip(names).zip(texts) {
        *value = parse_real(name, text)?;
    }
    Ok(values)
}

/// Reads `cameras.txt`, sorted by id.
///
/// # Errors
/// A line is not a valid camera, or an id is duplicate.
pub fn read_cameras(path: &Path, file: impl Read) -> Result<Vec<SourceCamera>, DatasetError> {
    let mut lines = LineReader::new(path, file);
    let mut cameras = Vec::new();
    while lines.advance_to_record()? {
        let camera = parse_camera(lines.text()?).map_err(|p| lines.error(p))?;
        cameras.push(camera);
        check_limit(&lines, "cameras", cameras.len(), MAX_IMAGES)?;
    }
    super::sort_cameras(path, &mut cameras)?;
    Ok(cameras)
}

fn parse_camera(line: &str) -> Result<SourceCamera, DatasetProblem> {
    let ([id, model, width, height], rest) =
        fields::<4>(line, "at least 5: CAMERA_ID MODEL WIDTH HEIGHT PARAMS...")?;
    if model == SPHERESFM_MODEL {
        let found = rest.split_ascii_whitespace().count();
        let ([f, cx, cy], "") =
            fields::<SPHERESFM_PARAMETER_COUNT>(rest, "8: CAMERA_ID SPHERE WIDTH HEIGHT F CX CY")?
        else {
            return Err(DatasetProblem::Fields {
                expected: "8: CAMERA_ID SPHERE WIDTH HEIGHT F CX CY",
                found: 4 + found,
            });
        };
        let params = reals(["f", "cx", "cy"], &[f, cx, cy])?;
        let (width, height) = (parse_integer("WIDTH", width)?, parse_integer("HEIGHT", height)?);
        return Ok(SourceCamera::sphere(parse_integer("CAMERA_ID", id)?, width, height, params)?);
    }
    let model = CameraModel::from_name(model)
        .ok_or_else(|| DatasetProblem::UnknownModelName { name: excerpt(model) })?;
    let names = model.parameters();
    // Counted before any value is stored.
    let found = rest.split_ascii_whitespace().count();
    if found != names.len() {
        return Err(CameraModelError::parameter_count(model, found).into());
    }
    let params = names
        .iter()
        .zip(rest.split_ascii_whitespace())
        .map(|(name, text)| parse_real(name, text))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(SourceCamera::new(
        parse_integer("CAMERA_ID", id)?,
        model,
        parse_integer("WIDTH", width)?,
        parse_integer("HEIGHT", height)?,
        params,
    )?)
}

/// Reads `images.txt`, sorted by id.
///
/// # Errors
/// A line is not a valid image, a camera is missing, or an id is duplicate.
pub fn read_images(
    path: &Path,
    file: impl Read,
    cameras: &[SourceCamera],
    observations: Observations,
) -> Result<Vec<ColmapImage>, DatasetError> {
    let mut lines = LineReader::new(path, file);
    let mut images = Vec::new();
    while lines.advance_to_record()? {
        let mut image = parse_image(lines.text()?).map_err(|p| lines.error(p))?;
        super::check_camera(cameras, image.camera_id, "cameras.txt").map_err(|p| lines.error(p))?;
        // The second line always belongs to the image; an empty one must not be skipped.
        if lines.advance()? {
            (image.point_count, image.points) =
                parse_points2d(lines.text()?, observations).map_err(|p| lines.error(p))?;
        }
        images.push(image);
        check_limit(&lines, "images", images.len(), MAX_IMAGES)?;
    }
    super::sort_images(path, &mut images)?;
    Ok(images)
}

fn parse_image(line: &str) -> Result<ColmapImage, DatasetProblem> {
    let (found, name) = fields::<9>(line, "10: IMAGE_ID QW QX QY QZ TX TY TZ CAMERA_ID NAME")?;
    let [id, q @ .., camera_id] = &found;
    let quaternion = reals(["QW", "QX", "QY", "QZ"], &q[..4])?;
    let translation = reals(["TX", "TY", "TZ"], &q[4..])?;
    if name.is_empty() || name.len() > MAX_NAME_BYTES {
        return Err(DatasetProblem::NameLength { bytes: name.len() });
    }
    Ok(ColmapImage {
        id: parse_integer("IMAGE_ID", id)?,
        quaternion,
        translation,
        camera_id: parse_integer("CAMERA_ID", camera_id)?,
        name: name.to_owned(),
        point_count: 0,
        points: Vec::new(),
    })
}

/// Number of 2-D points of a line, and the points if they are kept.
type Points2d = (u64, Vec<([f64; 2], u64)>);

fn parse_points2d(line: &str, observations: Observations) -> Result<Points2d, DatasetProblem> {
    const EXPECTED: &str = "a multiple of 3: X Y POINT3D_ID ...; is the line of an image missing?";
    let (mut count, mut points) = (0, Vec::new());
    let mut fields = line.split_ascii_whitespace();
    while let Some(x) = fields.next() {
        let (Some(y), Some(id)) = (fields.next(), fields.next()) else {
            let found = line.split_ascii_whitespace().count();
            return Err(DatasetProblem::Fields { expected: EXPECTED, found });
        };
        let pixel = [parse_real("X", x)?, parse_real("Y", y)?];
        let id = match id {
            "-1" => NO_POINT,
            id => parse_number("POINT3D_ID", id, "a whole number; is the line of an image missing?")?,
        };
        count += 1;
        if observations == Observations::Keep {
            points.push((pixel, id));
        }
    }
    Ok((count, points))
}

/// Reads `points3D.txt`, sorted by id.
///
/// # Errors
/// A line is not a valid point.
pub fn read_points(
    path: &Path,
    file: impl Read,
    observations: Observations,
) -> Result<Vec<ColmapPoint>, DatasetError> {
    super::collect_points(|take| for_each_point(path, file, observations, take))
}

/// Reads `points3D.txt` and passes each point to `take`, in file order.
///
/// # Errors
/// A line is not a valid point, or `take` fails.
pub fn for_each_point(
    path: &Path,
    file: impl Read,
    observations: Observations,
    take: &mut dyn FnMut(PointItem) -> Result<(), DatasetError>,
) -> Result<(), DatasetError> {
    let mut lines = LineReader::new(path, file);
    let mut count = 0;
    while lines.advance_to_record()? {
        let point = parse_point(lines.text()?, observations).map_err(|p| lines.error(p))?;
        count += 1;
        check_limit(&lines, "points", count, MAX_POINTS)?;
        take(PointItem::Point(point))?;
    }
    Ok(())
}

fn parse_point(line: &str, observations: Observations) -> Result<ColmapPoint, DatasetProblem> {
    let ([id, x, y, z, r, g, b, error], rest) =
        fields::<8>(line, "at least 8: POINT3D_ID X Y Z R G B ERROR TRACK...")?;
    let (mut track_length, mut track) = (0, Vec::new());
    let mut elements = rest.split_ascii_whitespace();
    while let Some(image) = elements.next() {
        let Some(index) = elements.next() else {
            let found = 8 + rest.split_ascii_whitespace().count();
            return Err(DatasetProblem::Fields {
                expected: "an even number: 8 and pairs IMAGE_ID POINT2D_IDX",
                found,
            });
        };
        let element = [parse_integer("IMAGE_ID", image)?, parse_integer("POINT2D_IDX", index)?];
        track_length += 1;
        if observations == Observations::Keep {
            track.push(element);
        }
    }
    Ok(ColmapPoint {
        id: parse_integer("POINT3D_ID", id)?,
        position: reals(["X", "Y", "Z"], &[x, y, z])?,
        colour: [parse_channel("R", r)?, parse_channel("G", g)?, parse_channel("B", b)?],
        error: parse_real("ERROR", error)?,
        track_length,
        track,
    })
}

fn check_limit<R: Read>(
    lines: &LineReader<'_, R>,
    what: &'static str,
    found: usize,
    limit: u64,
) -> Result<(), DatasetError> {
    match found as u64 {
        found if found > limit => Err(lines.error(DatasetProblem::Limit { what, found, limit })),
        _ => Ok(()),
    }
}

/// Contents of `cameras.txt`, `images.txt` and `points3D.txt`.
pub(super) fn encode(model: &ColmapModel) -> [Vec<u8>; 3] {
    // Writing to a string cannot fail.
    let mut cameras = String::from("# CAMERA_ID MODEL WIDTH HEIGHT PARAMS...\n");
    for c in &model.cameras {
        let _ = write!(cameras, "{} {} {} {}", c.id, c.model.name(), c.width, c.height);
        for p in &c.params {
            let _ = write!(cameras, " {p}");
        }
        cameras.push('\n');
    }
    let mut images = String::from(
        "# IMAGE_ID QW QX QY QZ TX TY TZ CAMERA_ID NAME, then a line X Y POINT3D_ID ... (-1 = no point)\n",
    );
    for i in &model.images {
        let _ = write!(images, "{}", i.id);
        for v in i.quaternion.iter().chain(&i.translation) {
            let _ = write!(images, " {v}");
        }
        let _ = writeln!(images, " {} {}", i.camera_id, i.name);
        for (n, ([x, y], id)) in i.points.iter().enumerate() {
            let separator = if n == 0 { "" } else { " " };
            let _ = match *id {
                NO_POINT => write!(images, "{separator}{x} {y} -1"),
                id => write!(images, "{separator}{x} {y} {id}"),
            };
        }
        images.push('\n');
    }
    let mut points = String::from("# POINT3D_ID X Y Z R G B ERROR (IMAGE_ID POINT2D_IDX)...\n");
    for p in &model.points {
        let ([x, y, z], [r, g, b]) = (p.position, p.colour);
        let _ = write!(points, "{} {x} {y} {z} {r} {g} {b} {}", p.id, p.error);
        for [image, index] in &p.track {
            let _ = write!(points, " {image} {index}");
        }
        points.push('\n');
    }
    [cameras, images, points].map(String::into_bytes)
}
