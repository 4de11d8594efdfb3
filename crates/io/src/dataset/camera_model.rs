//! Camera models of COLMAP: ids, names, parameters. Their projections are in [`super::lens`].
//!
//! Source: `colmap/sensor/models.h` (ids 0 to 17). Parameters keep the order of the files.

use gausset_core::Camera;

/// A camera model; the discriminant is COLMAP's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names are COLMAP's; `name` and `parameters` document them")]
#[repr(u8)]
pub enum CameraModel {
    SimplePinhole = 0,
    Pinhole = 1,
    SimpleRadial = 2,
    Radial = 3,
    OpenCv = 4,
    OpenCvFisheye = 5,
    FullOpenCv = 6,
    Fov = 7,
    SimpleRadialFisheye = 8,
    RadialFisheye = 9,
    ThinPrismFisheye = 10,
    RadTanThinPrismFisheye = 11,
    SimpleDivision = 12,
    Division = 13,
    SimpleFisheye = 14,
    Fisheye = 15,
    Eucm = 16,
    Equirectangular = 17,
}

impl CameraModel {
    /// All models in the order of their ids.
    pub const ALL: [Self; 18] = [
        Self::SimplePinhole,
        Self::Pinhole,
        Self::SimpleRadial,
        Self::Radial,
        Self::OpenCv,
        Self::OpenCvFisheye,
        Self::FullOpenCv,
        Self::Fov,
        Self::SimpleRadialFisheye,
        Self::RadialFisheye,
        Self::ThinPrismFisheye,
        Self::RadTanThinPrismFisheye,
        Self::SimpleDivision,
        Self::Division,
        Self::SimpleFisheye,
        Self::Fisheye,
        Self::Eucm,
        Self::Equirectangular,
    ];

    /// The model with this id, if any.
    #[must_use]
    pub fn from_id(id: i32) -> Option<Self> {
        Self::ALL.get(usize::try_from(id).ok()?).copied()
    }

    /// The model with this name, if any.
    ///
    /// ```
    /// use gausset_io::dataset::CameraModel;
    ///
    /// let model = CameraModel::from_name("SIMPLE_RADIAL").unwrap();
    /// assert_eq!((model.id(), model.parameters()), (2, ["f", "cx", "cy", "k"].as_slice()));
    /// ```
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|model| model.name() == name)
    }

    /// The id of the model in COLMAP's files, 0..=17.
    #[must_use]
    pub const fn id(self) -> u8 {
        self as u8
    }

    /// The name of the model in COLMAP's files, in capitals.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::SimplePinhole => "SIMPLE_PINHOLE",
            Self::Pinhole => "PINHOLE",
            Self::SimpleRadial => "SIMPLE_RADIAL",
            Self::Radial => "RADIAL",
            Self::OpenCv => "OPENCV",
            Self::OpenCvFisheye => "OPENCV_FISHEYE",
            Self::FullOpenCv => "FULL_OPENCV",
            Self::Fov => "FOV",
            Self::SimpleRadialFisheye => "SIMPLE_RADIAL_FISHEYE",
            Self::RadialFisheye => "RADIAL_FISHEYE",
            Self::ThinPrismFisheye => "THIN_PRISM_FISHEYE",
            Self::RadTanThinPrismFisheye => "RAD_TAN_THIN_PRISM_FISHEYE",
            Self::SimpleDivision => "SIMPLE_DIVISION",
            Self::Division => "DIVISION",
            Self::SimpleFisheye => "SIMPLE_FISHEYE",
            Self::Fisheye => "FISHEYE",
            Self::Eucm => "EUCM",
            Self::Equirectangular => "EQUIRECTANGULAR",
        }
    }

    /// Names of the parameters, in file order.
    #[must_use]
    pub const fn parameters(self) -> &'static [&'static str] {
        match self {
            Self::SimplePinhole | Self::SimpleFisheye => &["f", "cx", "cy"],
            Self::Pinhole | Self::Fisheye => &["fx", "fy", "cx", "cy"],
            Self::SimpleRadial | Self::SimpleRadialFisheye | Self::SimpleDivision => &["f", "cx", "cy", "k"],
            Self::Radial | Self::RadialFisheye => &["f", "cx", "cy", "k1", "k2"],
            Self::OpenCv => &["fx", "fy", "cx", "cy", "k1", "k2", "p1", "p2"],
            Self::OpenCvFisheye => &["fx", "fy", "cx", "cy", "k1", "k2", "k3", "k4"],
            Self::FullOpenCv => &["fx", "fy", "cx", "cy", "k1", "k2", "p1", "p2", "k3", "k4", "k5", "k6"],
            Self::Fov => &["fx", "fy", "cx", "cy", "omega"],
            Self::ThinPrismFisheye => {
                &["fx", "fy", "cx", "cy", "k1", "k2", "p1", "p2", "k3", "k4", "sx1", "sy1"]
            }
            Self::RadTanThinPrismFisheye => &[
                "fx", "fy", "cx", "cy", "k0", "k1", "k2", "k3", "k4", "k5", "p0", "p1", "s0", "s1", "s2",
                "s3",
            ],
            Self::Division => &["fx", "fy", "cx", "cy", "k"],
            Self::Eucm => &["fx", "fy", "cx", "cy", "alpha", "beta"],
            Self::Equirectangular => &["w", "h"],
        }
    }

    /// Whether both axes share one focal length.
    #[must_use]
    pub const fn has_single_focal(self) -> bool {
        matches!(
            self,
            Self::SimplePinhole
                | Self::SimpleRadial
                | Self::Radial
                | Self::SimpleRadialFisheye
                | Self::RadialFisheye
                | Self::SimpleDivision
                | Self::SimpleFisheye
        )
    }
}

/// Model name of panoramas in SphereSfM.
pub(crate) const SPHERESFM_MODEL: &str = "SPHERE";
/// Model id of panoramas in SphereSfM; COLMAP later used it for another model.
pub(crate) const SPHERESFM_MODEL_ID: i32 = 11;
/// Number of parameters of that model.
pub(crate) const SPHERESFM_PARAMETER_COUNT: usize = 3;

/// A camera as the dataset describes it: model and parameters at the image size of the calibration.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceCamera {
    /// COLMAP camera id; for `transforms.json` a sequential number.
    pub id: u32,
    /// Projection and distortion; determines the number of `params`.
    pub model: CameraModel,
    /// Image width in px.
    pub width: u32,
    /// Image height in px.
    pub height: u32,
    /// Parameters in the order of [`CameraModel::parameters`].
    pub params: Vec<f64>,
}

/// Why parameters are invalid for their model.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CameraModelError {
    /// Wrong number of parameters.
    #[error("{model} needs {expected} parameters ({names}), found {found}")]
    ParameterCount {
        /// Name of the camera model.
        model: &'static str,
        /// Number of parameters of the model.
        expected: usize,
        /// Names of the parameters of the model.
        names: String,
        /// Number of parameters found.
        found: usize,
    },
    /// A parameter is NaN or infinite.
    #[error("{model} parameter {name} is {value} (expected a finite number)")]
    NotFinite {
        /// Name of the camera model.
        model: &'static str,
        /// Name of the parameter.
        name: &'static str,
        /// Value found: NaN or infinite.
        value: f64,
    },
    /// A parameter is outside the domain of the model.
    #[error("{model} parameter {name} is {value} (expected {expected})")]
    OutOfRange {
        /// Name of the camera model.
        model: &'static str,
        /// Name of the parameter.
        name: &'static str,
        /// Value found, in the unit of the parameter.
        value: f64,
        /// Values allowed, as text: `> 0`.
        expected: &'static str,
    },
    /// A side is zero or beyond [`Camera::MAX_SIDE`].
    #[error("image size is {width}x{height} px (expected 1..{max} a side)", max = Camera::MAX_SIDE)]
    Size {
        /// Width found, px.
        width: u64,
        /// Height found, px.
        height: u64,
    },
}

impl CameraModelError {
    /// Error for a wrong number of parameters.
    pub(crate) fn parameter_count(model: CameraModel, found: usize) -> Self {
        let names = model.parameters();
        Self::ParameterCount { model: model.name(), expected: names.len(), names: names.join(", "), found }
    }
}

impl SourceCamera {
    /// A `SPHERE` camera of SphereSfM, a fork of COLMAP 3.8. For a 2:1 image it is equivalent to COLMAP's
    /// EQUIRECTANGULAR. Its parameters are f (always 1), cx, cy.
    ///
    /// # Errors
    /// The image is not 2:1, the principal point is not its centre, or a value is not finite.
    pub fn sphere(id: u32, width: u64, height: u64, params: [f64; 3]) -> Result<Self, CameraModelError> {
        let [_, cx, cy] = params;
        let (w, h) = (width as f64, height as f64);
        let out_of_range = |name, value, expected| {
            Err(CameraModelError::OutOfRange { model: SPHERESFM_MODEL, name, value, expected })
        };
        if width != height.saturating_mul(2) {
            return out_of_range("height", h, "half the width");
        }
        let is_off = |found: f64, middle: f64| found.is_nan() || (found - middle).abs() > 0.5;
        if is_off(cx, 0.5 * w) {
            return out_of_range("cx", cx, "half the width");
        }
        if is_off(cy, 0.5 * h) {
            return out_of_range("cy", cy, "half the height");
        }
        Self::new(id, CameraModel::Equirectangular, width, height, vec![w, h])
    }

    /// Validates values from a file and creates a camera.
    ///
    /// # Errors
    /// The size is zero or beyond [`Camera::MAX_SIDE`], the number of parameters is wrong, a value is not finite, or a
    /// focal length is not positive.
    pub fn new(
        id: u32,
        model: CameraModel,
        width: u64,
        height: u64,
        params: Vec<f64>,
    ) -> Result<Self, CameraModelError> {
        let names = model.parameters();
        if params.len() != names.len() {
            return Err(CameraModelError::parameter_count(model, params.len()));
        }
        let side = |v: u64| u32::try_from(v).ok().filter(|v| (1..=Camera::MAX_SIDE).contains(v));
        let (Some(width), Some(height)) = (side(width), side(height)) else {
            return Err(CameraModelError::Size { width, height });
        };
        for (&name, &value) in names.iter().zip(&params) {
            if !value.is_finite() {
                return Err(CameraModelError::NotFinite { model: model.name(), name, value });
            }
            let expected = match (model, name) {
                (CameraModel::Equirectangular, _) | (_, "f" | "fx" | "fy") if value <= 0.0 => "> 0",
                (CameraModel::Eucm, "alpha") if !(0.0..=1.0).contains(&value) => "0..1",
                (CameraModel::Eucm, "beta") if value <= 0.0 => "> 0",
                // tan(ω/2) has to be finite and positive.
                (CameraModel::Fov, "omega") if !(0.0..3.1).contains(&value) => "0..3.1 radians",
                _ => continue,
            };
            return Err(CameraModelError::OutOfRange { model: model.name(), name, value, expected });
        }
        Ok(Self { id, model, width, height, params })
    }
}
