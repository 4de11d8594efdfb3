//! Where other programs look for the mask of an image.

/// A naming convention for masks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaskConvention {
    /// COLMAP, Gausset: `masks/PATH.jpg.png`.
    Colmap,
    /// Nerfstudio: any file that `mask_path` in `transforms.json` names.
    Nerfstudio,
    /// Inria's 3DGS, splatfacto, Postshot: the alpha of `images/PATH.png`.
    Alpha,
    /// Brush, LichtFeld: `masks/PATH.png`.
    Brush,
    /// 360toolkit: `masks/PATH_mask.png`.
    Toolkit360,
    /// RealityCapture, RealityScan: `PATH.jpg.mask.png` in the folder of the image.
    RealityCapture,
    /// Metashape: `masks/PATH_mask.png`, template `{filename}_mask.png`.
    Metashape,
}

impl MaskConvention {
    /// All names; aliases follow the name that they stand for.
    pub const NAMES: [(&'static str, Self); 12] = [
        ("colmap", Self::Colmap),
        ("gausset", Self::Colmap),
        ("nerfstudio", Self::Nerfstudio),
        ("inria", Self::Alpha),
        ("splatfacto", Self::Alpha),
        ("postshot", Self::Alpha),
        ("brush", Self::Brush),
        ("lichtfeld", Self::Brush),
        ("360toolkit", Self::Toolkit360),
        ("realitycapture", Self::RealityCapture),
        ("realityscan", Self::RealityCapture),
        ("metashape", Self::Metashape),
    ];

    /// The convention of a program.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(own, _)| *own == name).map(|(_, form)| *form)
    }

    /// Path of the mask of an image (`view00/a.jpg`), relative to the folder of the export.
    #[must_use]
    pub fn path(self, picture: &str) -> String {
        let stem = picture.rsplit_once('.').map_or(picture, |(stem, _)| stem);
        match self {
            Self::Colmap => format!("masks/{picture}.png"),
            // A separate folder: Nerfstudio also needs masks that keep everything, and those must not be added to
            // `masks`.
            Self::Nerfstudio => format!("masks_nerfstudio/{picture}.png"),
            Self::Alpha => format!("images/{stem}.png"),
            Self::Brush => format!("masks/{stem}.png"),
            Self::Toolkit360 | Self::Metashape => format!("masks/{stem}_mask.png"),
            Self::RealityCapture => format!("images/{picture}.mask.png"),
        }
    }

    /// Whether the program needs a mask for every image as soon as one image has one.
    #[must_use]
    pub fn needs_all_masks(self) -> bool {
        // Nerfstudio rejects a dataset in which only some frames have masks.
        self == Self::Nerfstudio
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_where_programs_look() {
        let path = |name: &str| MaskConvention::from_name(name).map(|form| form.path("view00/a.b.jpg"));
        for (name, wanted) in [
            ("colmap", "masks/view00/a.b.jpg.png"),
            ("nerfstudio", "masks_nerfstudio/view00/a.b.jpg.png"),
            ("postshot", "images/view00/a.b.png"),
            ("lichtfeld", "masks/view00/a.b.png"),
            ("360toolkit", "masks/view00/a.b_mask.png"),
            ("realityscan", "images/view00/a.b.jpg.mask.png"),
            ("metashape", "masks/view00/a.b_mask.png"),
        ] {
            assert_eq!(path(name).as_deref(), Some(wanted), "{name}");
        }
        assert_eq!(path("gimp"), None);
    }
}
