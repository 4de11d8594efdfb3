//! The GPano packet (Google, Photo Sphere XMP Metadata), and the part of the sphere that an image shows.

use crate::sphere::projection::{Equirect, is_panorama_size};

/// The values of a GPano packet.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GPano {
    /// Size of the whole sphere as declared, px.
    pub full_size: Option<[f64; 2]>,
    /// Left and top of the stored part, px.
    pub crop_origin: [f64; 2],
    /// Size of the stored part as declared, px.
    pub crop_size: Option<[f64; 2]>,
    /// Compass heading of the centre, degrees.
    pub heading: Option<f64>,
    /// Pitch of the camera, degrees.
    pub pitch: f64,
    /// Roll of the camera, degrees.
    pub roll: f64,
    /// Whether `ProjectionType` is not equirectangular.
    pub is_other_projection: bool,
}

/// The first value of an attribute or element of an XMP packet, by its whole name.
pub(super) fn xmp_value<'a>(xmp: &'a str, key: &str) -> Option<&'a str> {
    let mut rest = xmp;
    loop {
        let at = rest.find(key)?;
        rest = rest.get(at + key.len()..)?;
        let trimmed = rest.trim_start();
        if let Some(after) = trimmed.strip_prefix('=') {
            let after = after.trim_start();
            let quote = after.chars().next().filter(|c| matches!(c, '"' | '\''))?;
            return after.get(1..)?.split(quote).next();
        }
        if let Some(after) = trimmed.strip_prefix('>') {
            return after.split('<').next();
        }
    }
}

/// Parses the GPano attributes or elements of an XMP packet.
#[must_use]
pub fn parse_gpano(xmp: &str) -> Option<GPano> {
    if !xmp.contains("GPano:") {
        return None;
    }
    let text = |name: &str| xmp_value(xmp, &format!("GPano:{name}"));
    let number = |name: &str| text(name)?.trim().parse::<f64>().ok().filter(|v| v.is_finite());
    let pair = |a: &str, b: &str| Some([number(a)?, number(b)?]);
    Some(GPano {
        full_size: pair("FullPanoWidthPixels", "FullPanoHeightPixels"),
        crop_origin: pair("CroppedAreaLeftPixels", "CroppedAreaTopPixels").unwrap_or([0.0; 2]),
        crop_size: pair("CroppedAreaImageWidthPixels", "CroppedAreaImageHeightPixels"),
        heading: number("PoseHeadingDegrees"),
        pitch: number("PosePitchDegrees").unwrap_or(0.0),
        roll: number("PoseRollDegrees").unwrap_or(0.0),
        is_other_projection: text("ProjectionType")
            .is_some_and(|t| !t.trim().eq_ignore_ascii_case("equirectangular")),
    })
}

/// The part of the sphere that an image of this size shows.
///
/// # Errors
/// Neither 2:1 nor described by GPano, or the GPano values are invalid.
pub(super) fn equirect(gpano: Option<GPano>, width: u32, height: u32) -> Result<Equirect, EquirectError> {
    let (w, h) = (f64::from(width), f64::from(height));
    if let Some(GPano { is_other_projection: true, .. }) = gpano {
        return Err(EquirectError::Projection);
    }
    if let Some(GPano { full_size: Some([fw, fh]), crop_origin: [left, top], crop_size, .. }) = gpano {
        let [cw, ch] = crop_size.unwrap_or([fw, fh]);
        let good = [fw, fh, cw, ch].iter().all(|v| *v >= 1.0 && *v <= 1e6)
            && left >= 0.0
            && top >= 0.0
            && left + cw <= fw + 1.0
            && top + ch <= fh + 1.0
            && (fw / fh - 2.0).abs() < 0.02;
        if !good {
            return Err(EquirectError::InvalidCrop { part: [cw, ch], origin: [left, top], full: [fw, fh] });
        }
        // The file may have been resized after the values were written.
        let (sx, sy) = (w / cw, h / ch);
        if (sx / sy - 1.0).abs() > 0.02 {
            return Err(EquirectError::AspectMismatch { size: [width, height], declared: [cw, ch] });
        }
        if left == 0.0 && top == 0.0 && cw == fw && ch == fh && width == 2 * height {
            return Ok(Equirect::whole(width, height));
        }
        return Ok(Equirect {
            full_width: fw * sx,
            full_height: fh * sy,
            left: left * sx,
            top: top * sy,
            width,
            height,
        });
    }
    if is_panorama_size([width, height]) {
        return Ok(Equirect::whole(width, height));
    }
    Err(EquirectError::NotTwoToOne([width, height]))
}

/// Why an image is not an equirectangular panorama.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum EquirectError {
    /// GPano declares another projection.
    #[error("GPano: ProjectionType is not equirectangular")]
    Projection,
    /// The GPano values are inconsistent.
    #[error(
        "GPano: a part of {}x{} px at ({}, {}) of {}x{} px is invalid (expected a part of a 2:1 panorama)",
        part[0], part[1], origin[0], origin[1], full[0], full[1]
    )]
    InvalidCrop {
        /// Size of the part as declared, px.
        part: [f64; 2],
        /// Left and top of the part, px.
        origin: [f64; 2],
        /// Size of the whole as declared, px.
        full: [f64; 2],
    },
    /// GPano does not match the image.
    #[error(
        "GPano: the image of {}x{} px does not have the aspect ratio of the declared {}x{} px",
        size[0], size[1], declared[0], declared[1]
    )]
    AspectMismatch {
        /// Size of the image, px.
        size: [u32; 2],
        /// Size of the part as declared, px.
        declared: [f64; 2],
    },
    /// An image of this size is not 2:1 and has no GPano metadata.
    #[error(
        "picture: {}x{} px is not a panorama (expected twice as wide as high, or GPano metadata); stitch it first, or cut it with `gausset pano split`: ⟨lens⟩ for two fisheye circles, ⟨stereo = tb⟩ for one eye above the other",
        .0[0], .0[1]
    )]
    NotTwoToOne([u32; 2]),
    /// An image of this size cannot be a stacked stereo panorama.
    #[error("picture: {}x{} px is not a stacked stereo panorama (expected a square with sides of a multiple of 4)", .0[0], .0[1])]
    NotStereo([u32; 2]),
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn gpano_is_read_as_attributes_and_as_elements_and_scaled_to_the_file() {
        let attributes = r#"GPano:ProjectionType="equirectangular" GPano:FullPanoWidthPixels="8704" GPano:FullPanoHeightPixels="4352" GPano:PoseHeadingDegrees='67'"#;
        let found = parse_gpano(attributes);
        assert_eq!(equirect(found, 1024, 512), Ok(Equirect::whole(1024, 512)));
        assert_eq!(found.unwrap().heading, Some(67.0));
        let elements = "<GPano:FullPanoWidthPixels>4000</GPano:FullPanoWidthPixels><GPano:FullPanoHeightPixels>2000</GPano:FullPanoHeightPixels><GPano:CroppedAreaLeftPixels>1000</GPano:CroppedAreaLeftPixels><GPano:CroppedAreaTopPixels>500</GPano:CroppedAreaTopPixels><GPano:CroppedAreaImageWidthPixels>2000</GPano:CroppedAreaImageWidthPixels><GPano:CroppedAreaImageHeightPixels>1000</GPano:CroppedAreaImageHeightPixels>";
        let found = parse_gpano(elements);
        let crop = equirect(found, 1000, 500).unwrap();
        assert_eq!((crop.full_width, crop.left, crop.top), (2000.0, 500.0, 250.0));
        assert!(equirect(found, 1000, 900).unwrap_err().to_string().contains("aspect ratio"));
        // A pixel less than 2:1, a thousandth, and too much.
        assert!([[2000, 999], [2000, 1001], [2001, 1000], [8000, 4004]].iter().all(|[w, h]| equirect(
            None, *w, *h
        ) == Ok(
            Equirect::whole(*w, *h)
        )));
        assert!(
            [[2000, 998], [8000, 4020], [1920, 1080], [66, 32]]
                .iter()
                .all(|[w, h]| equirect(None, *w, *h).is_err())
        );
        let message = equirect(None, 300, 200).unwrap_err().to_string();
        assert!(message.starts_with("picture: 300x200 px is not a panorama"));
    }
}
