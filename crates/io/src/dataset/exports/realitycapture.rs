//! RealityCapture and RealityScan: the table "Internal/External camera parameters" and XMP sidecars of pictures.
//!
//! ```text
//! CSV   #name,x,y,alt,heading,pitch,roll,f,px,py,k1,k2,k3,k4,t1,t2
//!       world_from_camera (x right, y up, z backwards) = Rz(-heading) Rx(pitch) Ry(roll), degrees
//! XMP   xcr:Rotation   camera_from_world, row by row; x right, y down, z forward   attribute or element of
//!       xcr:Position   centre of the camera                                        rdf:Description
//!       xcr:FocalLength35mm, PrincipalPointU, PrincipalPointV, DistortionModel, DistortionCoeficients (k1 to k4, t1, t2)
//! ```
//! f is for an image that is 36 mm on its longer side; the principal point is in longer sides from the middle.
//! Tangential terms are `(t1 (r² + 2x²) + 2 t2 x y, t2 (r² + 2y²) + 2 t1 x y)`: OpenCV has them the other way round.
//! Sources: "RealityCapture XMP Camera Math"; Nerfstudio (`process_data/realitycapture_utils.py`) for the angles;
//! AliceVision (`main_importKnownPoses.cpp`) for principal point and tangential terms. Not tested with RealityCapture
//! itself. Columns are found by name, in any order, separated by `,`, `;` or tabs; other columns are ignored.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gausset_core::Pose;
use gausset_core::se3::{self, Mat3};
use roxmltree::Document;

use super::lens::{Distortion, ExportLens, LensUnit, perspective};
use super::{Export, ExportError, ExportFrame, ValueProblem};
use super::{decode_text, parse_numbers, pose_from_centre, pose_from_opengl};
use crate::dataset::limits::MAX_IMAGES;
use crate::file_problem::FileProblem;
use crate::input;
use crate::text::{excerpt, quote};

/// Width of the image that focal lengths are for, mm.
const FILM_WIDTH: f64 = 36.0;
/// What to do about a lens that cannot be used.
const UNDISTORT: &str =
    "align with distortion model Brown3 in RealityCapture, or export undistorted pictures";

/// Columns of a table, as indices into its records.
struct Columns {
    name: usize,
    centre: [usize; 3],
    angles: [usize; 3],
    focal: Option<usize>,
    /// px, py.
    principal_point: [Option<usize>; 2],
    /// k1 to k4, t1, t2.
    distortion: [Option<usize>; 6],
}

impl Columns {
    fn find(header: &csv::ByteRecord) -> Option<Self> {
        let column = |names: &[&str]| {
            header.iter().position(|title| {
                let title = title.strip_prefix(b"#").unwrap_or(title);
                names.iter().any(|name| title.eq_ignore_ascii_case(name.as_bytes()))
            })
        };
        Some(Self {
            name: column(&["name", "image", "filename"])?,
            centre: [column(&["x"])?, column(&["y"])?, column(&["alt", "z", "altitude"])?],
            angles: [column(&["heading", "yaw"])?, column(&["pitch"])?, column(&["roll"])?],
            focal: column(&["f"]),
            principal_point: [column(&["px"]), column(&["py"])],
            distortion: ["k1", "k2", "k3", "k4", "t1", "t2"].map(|name| column(&[name])),
        })
    }
}

/// A table below its optional first line: older versions write the number of cameras before the header.
struct Table<'a> {
    reader: csv::Reader<&'a [u8]>,
    delimiter: char,
    /// Number of the header's line.
    header_line: usize,
}

fn table(text: &str) -> Table<'_> {
    let (text, header_line) = match text.split_once('\n') {
        Some((first, rest)) if first.starts_with("#cameras") => (rest, 2),
        _ => (text, 1),
    };
    let first = text.lines().next().unwrap_or_default();
    let delimiter = [',', ';', '\t'].into_iter().find(|d| first.contains(*d)).unwrap_or(',');
    let mut builder = csv::ReaderBuilder::new();
    builder.delimiter(delimiter as u8).flexible(true).trim(csv::Trim::All);
    Table { reader: builder.from_reader(text.as_bytes()), delimiter, header_line }
}

/// Whether the start of a file has the columns of a table.
#[must_use]
pub fn is_table(start: &[u8]) -> bool {
    let text = decode_text(start);
    table(&text).reader.byte_headers().is_ok_and(|header| Columns::find(header).is_some())
}

/// Whether the start of a file has the columns of a table with positions as longitude and latitude.
#[must_use]
pub(super) fn is_geographic_table(start: &[u8]) -> bool {
    let text = decode_text(start);
    table(&text).reader.byte_headers().is_ok_and(|header| {
        let has = |name: &str| {
            let bare = |title: &[u8]| title.strip_prefix(b"#").unwrap_or(title).to_ascii_lowercase();
            header.iter().any(|title| bare(title) == name.as_bytes())
        };
        ["name", "longitude", "latitude", "pitch", "roll"].into_iter().all(has)
    })
}

/// Parses a table.
///
/// # Errors
/// Columns are missing, a picture has no name, or there are too many rows.
pub fn parse_table(bytes: &[u8]) -> Result<Export, FileProblem> {
    let text = decode_text(bytes);
    let Table { mut reader, delimiter, header_line } = table(&text);
    let header = reader.byte_headers().map_err(|e| FileProblem::new("line 1", e))?.clone();
    let Some(columns) = Columns::find(&header) else {
        let found: Vec<_> = header.iter().take(12).map(String::from_utf8_lossy).collect();
        let expected = "#name,x,y,alt,heading,pitch,roll,f";
        let problem =
            format!("columns are missing (expected {expected}; found {})", excerpt(&found.join(",")));
        return Err(FileProblem::new("line 1", problem));
    };
    let mut found = Export::default();
    for (record, line) in reader.byte_records().zip(header_line + 1..) {
        let record = record.map_err(|e| FileProblem::new("table", e))?;
        let place = format!("line {line}");
        let name = String::from_utf8_lossy(record.get(columns.name).unwrap_or_default()).into_owned();
        if name.is_empty() {
            return Err(FileProblem::new(&place, "name: is empty"));
        }
        if found.frames.len() as u64 >= MAX_IMAGES {
            return Err(FileProblem::new(&place, format!("too many rows (expected at most {MAX_IMAGES})")));
        }
        let cell = |at: usize| -> Result<f64, ExportError> {
            let text = String::from_utf8_lossy(record.get(at).unwrap_or_default());
            // Programs that separate by `;` may write a decimal comma.
            let number = if delimiter == ';' { text.replace(',', ".") } else { text.to_string() };
            number.parse().ok().filter(|v: &f64| v.is_finite()).ok_or_else(|| {
                let title = excerpt(&String::from_utf8_lossy(header.get(at).unwrap_or_default()));
                not_finite(format!("{place}: {title}"), &text)
            })
        };
        let pose = pose_of(&columns, &cell);
        let lens = lens_of(&columns, &cell);
        found.frames.push(ExportFrame { name, pose, lens: Arc::new(lens) });
    }
    Ok(found)
}

fn not_finite(location: String, found: &str) -> ExportError {
    FileProblem { location, problem: format!("{} is not a finite number", quote(found)) }.into()
}

fn pose_of(
    columns: &Columns,
    cell: &impl Fn(usize) -> Result<f64, ExportError>,
) -> Result<Pose, ExportError> {
    let three = |at: [usize; 3]| Ok::<_, ExportError>([cell(at[0])?, cell(at[1])?, cell(at[2])?]);
    let (centre, [heading, pitch, roll]) = (three(columns.centre)?, three(columns.angles)?);
    Ok(pose_from_opengl(opengl_rotation(heading, pitch, roll), centre)?)
}

fn lens_of(
    columns: &Columns,
    cell: &impl Fn(usize) -> Result<f64, ExportError>,
) -> Result<ExportLens, ExportError> {
    let optional = |at: Option<usize>| at.map_or(Ok(0.0), cell);
    let missing = || {
        let problem = ValueProblem::new("column f", "is missing");
        ExportError::lens("", problem, "export \"Internal/External camera parameters\"")
    };
    let focal = cell(columns.focal.ok_or_else(missing)?)?;
    let [px, py] = columns.principal_point;
    let mut terms = [0.0; 6];
    for (term, at) in terms.iter_mut().zip(columns.distortion) {
        *term = optional(at)?;
    }
    lens(focal, [optional(px)?, optional(py)?], terms)
}

/// The lens of a focal length in mm, a principal point in longer sides, and k1 to k4, t1, t2.
fn lens(focal: f64, centre: [f64; 2], [k1, k2, k3, k4, t1, t2]: [f64; 6]) -> Result<ExportLens, ExportError> {
    let distortion = Distortion { k: [k1, k2, k3, k4], p: [t2, t1] };
    let (model, params) = perspective([focal / FILM_WIDTH; 2], centre, distortion)
        .map_err(|problem| ExportError::lens("RealityCapture's lens: ", problem, UNDISTORT))?;
    Ok(ExportLens { model, size: None, unit: LensUnit::LongerSide, params })
}

/// `world_from_camera` (x right, y up, z backwards) of angles in degrees: Rz(-heading) Rx(pitch) Ry(roll).
#[must_use]
pub fn opengl_rotation(heading: f64, pitch: f64, roll: f64) -> Mat3 {
    let turn = |degrees: f64| (libm::cos(degrees.to_radians()), libm::sin(degrees.to_radians()));
    let ((ch, sh), (cp, sp), (cr, sr)) = (turn(-heading), turn(pitch), turn(roll));
    let about_z = [[ch, -sh, 0.0], [sh, ch, 0.0], [0.0, 0.0, 1.0]];
    let about_x = [[1.0, 0.0, 0.0], [0.0, cp, -sp], [0.0, sp, cp]];
    let about_y = [[cr, 0.0, sr], [0.0, 1.0, 0.0], [-sr, 0.0, cr]];
    se3::mul(&about_z, &se3::mul(&about_x, &about_y))
}

/// Namespace of the values in a sidecar.
pub(super) const NAMESPACE: &str = "capturingreality";

/// Depth of sub-folders that are searched for sidecars.
pub(super) const SIDECAR_DEPTH: usize = 4;

/// Names (without `.xmp`) and paths of the sidecars in a folder and below, in order.
#[must_use]
pub fn sidecars(folder: &Path) -> Vec<(String, PathBuf)> {
    let mut found = Vec::new();
    collect_sidecars(folder, "", SIDECAR_DEPTH, &mut found);
    found
}

fn collect_sidecars(folder: &Path, prefix: &str, depth: usize, out: &mut Vec<(String, PathBuf)>) {
    let entries = input::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    for name in names {
        let path = folder.join(&name);
        match name.strip_suffix(".xmp").or_else(|| name.strip_suffix(".XMP")) {
            Some(stem) if path.is_file() => out.push((format!("{prefix}{stem}"), path)),
            _ if depth > 0 && path.is_dir() => {
                collect_sidecars(&path, &format!("{prefix}{name}/"), depth - 1, out);
            }
            _ => {}
        }
    }
}

/// Content of a sidecar that has a pose.
#[derive(Clone, Debug, PartialEq)]
pub struct Sidecar {
    /// `camera_from_world`, or what is wrong with it.
    pub pose: Result<Pose, ExportError>,
    /// The lens, or why it cannot be used.
    pub lens: Result<ExportLens, ExportError>,
}

/// Parses a sidecar; `None` if it has no pose.
///
/// # Errors
/// Not XML.
pub fn parse_sidecar(text: &str) -> Result<Option<Sidecar>, FileProblem> {
    // Packets may have bytes before and after the XML element.
    let start = text.find("<x:xmpmeta").unwrap_or(0);
    let end = text.rfind("</x:xmpmeta>").map_or(text.len(), |at| at + "</x:xmpmeta>".len());
    let document =
        Document::parse(text.get(start..end).unwrap_or(text)).map_err(|e| FileProblem::new("XMP", e))?;
    let value = |name: &str| {
        document.descendants().find_map(|node| {
            let own = node.attributes().find(|a| a.name() == name).map(|a| a.value());
            own.or_else(|| node.tag_name().name().eq(name).then(|| node.text()).flatten())
        })
    };
    let (Some(rotation), Some(position)) = (value("Rotation"), value("Position")) else { return Ok(None) };
    let pose = || {
        let bad = |name| FileProblem::new(name, "wrong number of values, or not finite numbers");
        let r = parse_numbers::<9>(rotation).ok_or_else(|| bad("xcr:Rotation"))?;
        let centre = parse_numbers::<3>(position).ok_or_else(|| bad("xcr:Position"))?;
        let rotation = [[r[0], r[1], r[2]], [r[3], r[4], r[5]], [r[6], r[7], r[8]]];
        Ok(pose_from_centre(rotation, centre)?)
    };
    Ok(Some(Sidecar { pose: pose(), lens: sidecar_lens(&value) }))
}

fn sidecar_lens<'a>(value: &impl Fn(&str) -> Option<&'a str>) -> Result<ExportLens, ExportError> {
    let problem = |name: &str, found: String| ValueProblem::new(format!("xcr:{name}"), found);
    let number = |name: &str, default: Option<f64>| match (value(name), default) {
        (Some(text), _) => {
            let [number] = parse_numbers(text).ok_or_else(|| problem(name, format!("is {}", quote(text))))?;
            Ok(number)
        }
        (None, Some(default)) => Ok(default),
        (None, None) => {
            let problem = problem(name, "is missing".to_owned());
            Err(ExportError::lens("", problem, "export the sidecars with calibration"))
        }
    };
    let focal = number("FocalLength35mm", None)?;
    let centre = [number("PrincipalPointU", Some(0.0))?, number("PrincipalPointV", Some(0.0))?];
    for (name, expected) in [("Skew", 0.0), ("AspectRatio", 1.0)] {
        let found = number(name, Some(expected))?;
        if found != expected {
            let problem = problem(name, format!("is {found}")).expecting(expected.to_string());
            return Err(ExportError::lens("", problem, UNDISTORT));
        }
    }
    let mut terms = [0.0; 6];
    let text = value("DistortionCoeficients").or_else(|| value("DistortionCoefficients")).unwrap_or_default();
    for (slot, field) in terms.iter_mut().zip(text.split_ascii_whitespace()) {
        let problem = || not_finite("xcr:DistortionCoeficients".to_owned(), field);
        *slot = field.parse().ok().filter(|v: &f64| v.is_finite()).ok_or_else(problem)?;
    }
    let model = value("DistortionModel").unwrap_or("perspective");
    if terms != [0.0; 6] && !model.starts_with("brown") {
        let problem = problem("DistortionModel", format!("is {}", excerpt(model)));
        return Err(ExportError::lens("", problem.expecting("a brown model"), UNDISTORT));
    }
    lens(focal, centre, terms)
}
