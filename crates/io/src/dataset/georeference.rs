//! `georeference.json`, beside the files of a COLMAP model: where the world of the model lies on the earth.
//!
//! The coordinates of the model are metres east, north and up of `origin` (WGS 84; heights are those of the GPS records).
//! `scale`, `rotation` and `translation` tell how they were made from the coordinates of the aligner:
//! `metres = scale * rotation * p + translation`.

use std::io::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::atomic::{Disk, WriteError, plain_reason, write_atomic};
use crate::input;

/// Name of the file in the folder of the model.
pub const GEOREFERENCE_FILE: &str = "georeference.json";
/// Largest file: a million pictures.
const MAX_BYTES: u64 = 128 << 20;
/// Version of the file.
const SCHEMA: u32 = 1;

/// A place on the earth, WGS 84.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct EarthPlace {
    /// Degrees north.
    pub latitude: f64,
    /// Degrees east.
    pub longitude: f64,
    /// Metres; `None` if fewer than three pictures have an altitude.
    pub altitude: Option<f64>,
}

impl EarthPlace {
    /// Whether the values are those of a place.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.latitude.abs() <= 90.0
            && self.longitude.abs() <= 180.0
            && self.altitude.is_none_or(|altitude| altitude.abs() <= 1e7)
    }
}

/// A picture with a GPS position.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GeoreferencedPicture {
    /// Name of the picture.
    pub name: String,
    /// Distance of its camera from its GPS position, metres; horizontal if the position has no altitude.
    pub residual_m: f64,
    /// Whether the position took part in the fit.
    pub used: bool,
}

/// The content of `georeference.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Georeference {
    /// Version of the file, 1.
    pub schema: u32,
    /// Where the coordinates are zero.
    pub origin: EarthPlace,
    /// Metres per unit of the aligner.
    pub scale: f64,
    /// Rotation to east, north and up, by rows.
    pub rotation: [[f64; 3]; 3],
    /// Position of the aligner's origin, metres east, north and up.
    pub translation: [f64; 3],
    /// Number of positions that took part in the fit.
    pub positions: usize,
    /// Root mean square of their residuals, metres.
    pub residual_m: f64,
    /// Root mean square distance of these positions from their mean, metres.
    pub spread_m: f64,
    /// The registered pictures with a GPS position.
    pub pictures: Vec<GeoreferencedPicture>,
    /// Names of the pictures whose position does not fit and was left out.
    pub left_out: Vec<String>,
}

impl Georeference {
    /// Current version of the file.
    pub const SCHEMA: u32 = SCHEMA;

    /// Reads the file in the folder of a model; `None` if there is none.
    ///
    /// # Errors
    /// The file cannot be read, or is not of this form.
    pub fn read(folder: &Path) -> Result<Option<Self>, GeoreferenceError> {
        let path = folder.join(GEOREFERENCE_FILE);
        if path.symlink_metadata().is_err() {
            return Ok(None);
        }
        let error = |problem| GeoreferenceError { path: path.display().to_string(), problem };
        let io = |e| error(GeoreferenceProblem::Unreadable(plain_reason(&e)));
        let text = input::read(&path, MAX_BYTES).map_err(io)?;
        Self::parse(&text).map(Some).map_err(error)
    }

    /// Parses the content of a file.
    ///
    /// # Errors
    /// The text is not of this form, or a value is out of range.
    pub fn parse(text: &[u8]) -> Result<Self, GeoreferenceProblem> {
        let json = |e: serde_json::Error| GeoreferenceProblem::Unreadable(e.to_string());
        let found: Self = serde_json::from_slice(text).map_err(json)?;
        if found.schema != SCHEMA {
            return Err(GeoreferenceProblem::Schema(found.schema));
        }
        if !found.origin.is_valid() {
            return Err(GeoreferenceProblem::Origin);
        }
        Ok(found)
    }

    /// Writes the file to the folder of a model.
    ///
    /// # Errors
    /// The file could not be written.
    pub fn write(&self, folder: &Path) -> Result<(), WriteError> {
        let text = serde_json::to_string_pretty(self).unwrap_or_default();
        write_atomic(&Disk, &folder.join(GEOREFERENCE_FILE), |file| writeln!(file, "{text}"))
    }
}

/// Why a `georeference.json` cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{path}: {problem}")]
pub struct GeoreferenceError {
    path: String,
    problem: GeoreferenceProblem,
}

/// What is wrong with a `georeference.json`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GeoreferenceProblem {
    /// The file cannot be read, or is not JSON of this form, for this reason.
    #[error("{0}")]
    Unreadable(String),
    /// It is of another version.
    #[error("schema is {0} (expected {SCHEMA})")]
    Schema(u32),
    /// The origin is out of range.
    #[error("origin is no place on the earth (expected degrees and metres)")]
    Origin,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_other_content_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Georeference::read(folder.path()), Ok(None));
        let origin = EarthPlace { latitude: 48.1, longitude: 11.5, altitude: None };
        let written = Georeference {
            schema: 1,
            origin,
            scale: 23.12,
            rotation: [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
            translation: [1.0, 2.0, 3.0],
            positions: 3,
            residual_m: 1.48,
            spread_m: 83.6,
            pictures: vec![GeoreferencedPicture { name: "a.jpg".into(), residual_m: 1.0, used: true }],
            left_out: vec!["b.jpg".into()],
        };
        written.write(folder.path()).unwrap();
        assert_eq!(Georeference::read(folder.path()), Ok(Some(written.clone())));
        let text = serde_json::to_string(&written).unwrap();
        for (from, to) in [("48.1", "481.0"), ("\"schema\":1", "\"schema\":2"), ("\"scale\"", "\"size\"")] {
            assert!(Georeference::parse(text.replace(from, to).as_bytes()).is_err(), "{from}");
        }
        std::fs::write(folder.path().join(GEOREFERENCE_FILE), "{").unwrap();
        let error = Georeference::read(folder.path()).unwrap_err().to_string();
        assert!(error.contains("georeference.json: "), "{error}");
    }
}
