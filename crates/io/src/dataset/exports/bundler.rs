//! Bundler's `bundle.out` with the list of its pictures.
//!
//! ```text
//! # Bundle file v0.3
//! CAMERAS POINTS
//! f k1 k2, R (3 rows), t          per camera: camera_from_world; x right, y up, z backwards; f = 0: not registered
//! X Y Z, R G B, a line of views   per point
//! ```
//! `p = -P / P.z`, pixel `f (1 + k1 |p|² + k2 |p|⁴) p` from the middle of the picture, y up. Picture names are lines
//! `NAME` or `NAME 0 FOCAL` in the order of the cameras. Source: Bundler's user manual, version 0.4.

use std::sync::Arc;

use gausset_core::Pose;

use super::{Export, ExportFrame, ExportLens, LensUnit};
use crate::dataset::CameraModel;
use crate::dataset::limits::MAX_IMAGES;
use crate::file_problem::FileProblem;
use crate::text::excerpt;

/// Start of a file.
pub(super) const MAGIC: &str = "# Bundle file";

/// White-space separated fields, with the number of the line.
struct Fields<'a> {
    lines: std::iter::Enumerate<std::str::Lines<'a>>,
    line: std::str::SplitAsciiWhitespace<'a>,
    number: usize,
}

impl<'a> Fields<'a> {
    fn problem(&self, problem: impl ToString) -> FileProblem {
        FileProblem::new(format!("line {}", self.number), problem)
    }

    fn next(&mut self, what: &str) -> Result<&'a str, FileProblem> {
        loop {
            if let Some(field) = self.line.next() {
                return Ok(field);
            }
            match self.lines.next() {
                Some((_, line)) if line.trim_start().starts_with('#') => {}
                Some((at, line)) => (self.number, self.line) = (at + 1, line.split_ascii_whitespace()),
                None => {
                    let problem = format!("the file ends before {what}; export or copy it again");
                    return Err(self.problem(problem));
                }
            }
        }
    }

    fn parse<T: std::str::FromStr>(&mut self, what: &str) -> Result<T, FileProblem> {
        let field = self.next(what)?;
        let problem = || self.problem(format!("{what} is `{}` (expected a number)", excerpt(field)));
        field.parse().map_err(|_| problem())
    }

    fn numbers<const N: usize>(&mut self, what: &str) -> Result<[f64; N], FileProblem> {
        let mut out = [0.0; N];
        for slot in &mut out {
            *slot = self.parse(what)?;
        }
        Ok(out)
    }
}

/// Names in a list of pictures.
#[must_use]
pub fn parse_list(text: &str) -> Vec<String> {
    let name = |line: &str| {
        // `NAME 0 FOCAL`: the name itself may contain spaces.
        let mut parts = line.rsplitn(3, ' ');
        match (parts.next(), parts.next(), parts.next()) {
            (Some(focal), Some("0"), Some(name)) if focal.parse::<f64>().is_ok() => name.trim().to_owned(),
            _ => line.to_owned(),
        }
    };
    text.lines().map(str::trim).filter(|line| !line.is_empty()).map(name).collect()
}

/// Parses cameras and points; `names` are the pictures of the cameras.
///
/// # Errors
/// The file is cut or has something else than numbers, or fewer names than cameras.
pub fn parse(text: &str, names: &[String]) -> Result<Export, FileProblem> {
    let mut fields = Fields { lines: text.lines().enumerate(), line: "".split_ascii_whitespace(), number: 1 };
    let cameras: u64 = fields.parse("the number of cameras")?;
    let points: u64 = fields.parse("the number of points")?;
    if cameras > MAX_IMAGES {
        return Err(fields.problem(format!("{cameras} cameras (expected at most {MAX_IMAGES})")));
    }
    let mut found = Export::default();
    for index in 0..cameras as usize {
        let [f, k1, k2] = fields.numbers(&format!("f, k1, k2 of camera {index}"))?;
        let r: [f64; 9] = fields.numbers(&format!("the rotation of camera {index}"))?;
        let [x, y, z] = fields.numbers(&format!("the translation of camera {index}"))?;
        let Some(name) = names.get(index).cloned() else {
            let problem = format!("camera {index} has no picture (found {} names in its list)", names.len());
            return Err(fields.problem(problem));
        };
        if f == 0.0 {
            found.unregistered.push(name);
            continue;
        }
        // y and z change sign from Bundler's camera axes.
        let rotation = [[r[0], r[1], r[2]], [-r[3], -r[4], -r[5]], [-r[6], -r[7], -r[8]]];
        let pose = Pose::from_matrix(rotation, [x, -y, -z]).map_err(Into::into);
        let (model, unit) = (CameraModel::Radial, LensUnit::PixelFromMiddle);
        let lens = ExportLens { model, size: None, unit, params: vec![f, 0.0, 0.0, k1, k2] };
        found.frames.push(ExportFrame { name, pose, lens: Arc::new(Ok(lens)) });
    }
    for index in 0..points {
        let place = format!("point {index}");
        let position = fields.numbers(&place)?;
        let colour = fields.numbers(&place)?;
        let views: u64 = fields.parse(&place)?;
        for _ in 0..views.saturating_mul(4) {
            fields.next(&place)?;
        }
        found.add_point(position, colour);
    }
    Ok(found)
}
