//! A picture file → planes.
//!
//! Baseline JPEG goes through the decoder of our own, everything else (progressive JPEG, CMYK, PNG, TIFF) through the
//! `image` crate and RGB, converted to full-range BT.601 without subsampling.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use gausset_compute::fearless_simd::Level;

use crate::jpeg::{DecodeError, Decoder, Header};
use crate::metadata::Metadata;
use crate::plane::{Colour, Frame, FrameShape, Plane};
use crate::projection::Equirect;

/// Limits on source pictures.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Widest picture, px.
    pub width: u32,
    /// Highest picture, px.
    pub height: u32,
    /// Longest file, bytes.
    pub bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { width: 16_384, height: 8_192, bytes: 256 << 20 }
    }
}

/// Why a frame cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {what}", path.display())]
pub struct LoadError {
    /// The file.
    pub path: PathBuf,
    /// `PLACE: what is wrong …`.
    pub what: String,
}

/// A file in memory with what its header says.
#[derive(Debug, Default)]
pub struct Opened {
    /// The file.
    pub path: PathBuf,
    /// Its bytes.
    pub data: Vec<u8>,
    /// Width and height, px.
    pub size: [u32; 2],
    /// What it says about itself.
    pub metadata: Metadata,
    jpeg: Option<Header>,
}

fn error(path: &Path, what: impl Into<String>) -> LoadError {
    LoadError { path: path.to_owned(), what: what.into() }
}

/// Reads a file into `buffer` and looks at its header.
///
/// # Errors
/// Not a regular file, not a picture, beyond the limits, damaged.
pub fn open(path: &Path, limits: &Limits, mut buffer: Vec<u8>) -> Result<Opened, LoadError> {
    let io = |e: &std::io::Error| error(path, format!("picture: {}", gausset_io::atomic::plain_reason(e)));
    let info = std::fs::metadata(path).map_err(|e| io(&e))?;
    if !info.is_file() {
        return Err(error(path, "picture: is not a regular file"));
    }
    if info.len() == 0 {
        return Err(error(path, "picture: is empty (0 bytes); copy it again"));
    }
    if info.len() > limits.bytes {
        let (found, most) = (gausset_io::units::bytes(info.len()), gausset_io::units::bytes(limits.bytes));
        return Err(error(
            path,
            format!("picture: file has {found} (expected at most {most}); raise --max-file"),
        ));
    }
    buffer.clear();
    // One byte more tells a file that grows.
    buffer.reserve(info.len() as usize + 1);
    let file = File::open(path).map_err(|e| io(&e))?;
    file.take(info.len() + 1).read_to_end(&mut buffer).map_err(|e| io(&e))?;
    parse(path, limits, buffer)
}

/// [`open`] for bytes that are in memory already.
///
/// # Errors
/// As [`open`].
pub fn parse(path: &Path, limits: &Limits, data: Vec<u8>) -> Result<Opened, LoadError> {
    let check = |size: [u32; 2]| {
        let [w, h] = size;
        if w > limits.width || h > limits.height {
            let (mw, mh) = (limits.width, limits.height);
            return Err(error(
                path,
                format!("picture: {w}x{h} px are too many (expected at most {mw}x{mh}); raise --max-side"),
            ));
        }
        Ok(size)
    };
    let mut opened = Opened { path: path.to_owned(), data, ..Opened::default() };
    opened.metadata.orientation = 1;
    let is_tiff = matches!(opened.data.get(..4), Some(b"II*\0" | b"MM\0*"));
    if is_tiff {
        let reader =
            image::ImageReader::with_format(std::io::Cursor::new(&opened.data), image::ImageFormat::Tiff);
        let (w, h) = reader
            .into_dimensions()
            .map_err(|e| error(path, format!("picture: TIFF header is damaged: {e}")))?;
        opened.size = check([w, h])?;
        return Ok(opened);
    }
    let header = gausset_io::image::header::parse_header(std::io::Cursor::new(&opened.data))
        .map_err(|e| error(path, e.to_string()))?;
    opened.size = check([header.width, header.height])?;
    // The header of a bomb costs nothing, its pixels would: compressed data of a panorama takes at least this much.
    let pixels = u64::from(header.width) * u64::from(header.height);
    if pixels / 4096 > opened.data.len() as u64 {
        return Err(error(
            path,
            format!(
                "picture: {} bytes cannot hold {}x{} px; copy it again",
                opened.data.len(),
                header.width,
                header.height
            ),
        ));
    }
    if opened.data.starts_with(&[0xFF, 0xD8]) {
        opened.metadata = Metadata::of_jpeg(&opened.data);
        match Header::parse(&opened.data) {
            Ok(header) => opened.jpeg = Some(header),
            Err(DecodeError::Unsupported(_)) => {}
            Err(e) => return Err(error(path, format!("picture: {e}"))),
        }
    }
    if opened.metadata.orientation != 1 {
        opened.jpeg = None;
    }
    Ok(opened)
}

impl Opened {
    /// Width and height as the EXIF orientation wants the picture to be seen, px.
    #[must_use]
    pub fn upright_size(&self) -> [u32; 2] {
        let [w, h] = self.size;
        if self.metadata.orientation >= 5 { [h, w] } else { [w, h] }
    }

    /// How it shows the sphere; with two eyes, one above the other, how the upper one does.
    ///
    /// # Errors
    /// `PLACE: what is wrong`: neither twice as wide as high nor a sensible part of such a panorama.
    pub fn equirect(&self, is_stereo: bool) -> Result<Equirect, String> {
        let [w, h] = self.upright_size();
        if !is_stereo {
            return self.metadata.equirect(w, h);
        }
        if w != h || !h.is_multiple_of(4) {
            return Err(format!(
                "picture: {w}x{h} px does not show two eyes (expected a square with sides of a multiple of 4)"
            ));
        }
        Ok(Equirect::whole(w, h / 2))
    }

    /// Sizes of the planes that [`Self::decode`] gives. For files that need the general decoder this is a guess about
    /// colour and alpha that holds for all frames of one kind.
    #[must_use]
    pub fn shape(&self) -> Option<FrameShape> {
        let header = self.jpeg.as_ref()?;
        let sizes = (0..header.components.len()).map(|c| header.plane_size(c).map(|s| s as u32)).collect();
        let colour = if header.components.len() == 1 { Colour::Grey } else { Colour::YCbCr };
        Some(FrameShape { colour, sizes, has_alpha: false })
    }

    /// Decodes the rows that are needed of each plane into `frame`.
    ///
    /// # Errors
    /// Damaged data.
    pub fn decode(
        &mut self,
        level: Level,
        decoder: &mut Decoder,
        rows: &[[i32; 2]],
        frame: &mut Frame,
    ) -> Result<(), LoadError> {
        if let Some(header) = &self.jpeg {
            frame.colour = if header.components.len() == 1 { Colour::Grey } else { Colour::YCbCr };
            frame.alpha = None;
            return decoder
                .decode(level, header, &mut self.data, rows, &mut frame.planes)
                .map_err(|e| error(&self.path, format!("picture: {e}; copy it again")));
        }
        let picture = self.general()?;
        let picture =
            if self.metadata.orientation == 1 { picture } else { turn(picture, self.metadata.orientation) };
        fill(frame, &picture);
        Ok(())
    }

    fn general(&self) -> Result<gausset_io::image::Picture, LoadError> {
        if matches!(self.data.get(..4), Some(b"II*\0" | b"MM\0*")) {
            let mut reader =
                image::ImageReader::with_format(std::io::Cursor::new(&self.data), image::ImageFormat::Tiff);
            let mut limits = image::Limits::default();
            limits.max_alloc = Some(gausset_io::image::MAX_DECODED_BYTES);
            reader.limits(limits);
            let decoded = reader
                .decode()
                .map_err(|e| error(&self.path, format!("picture: TIFF cannot be decoded: {e}")))?;
            let has_alpha = decoded.color().has_alpha();
            let (width, height) = (decoded.width(), decoded.height());
            let rgba = decoded.into_rgba8();
            let rgb = rgba.pixels().flat_map(|p| [p[0], p[1], p[2]]).collect();
            let alpha = has_alpha.then(|| rgba.pixels().map(|p| p[3]).collect());
            return Ok(gausset_io::image::Picture { width, height, rgb, alpha });
        }
        gausset_io::image::decode(&self.data).map_err(|e| error(&self.path, e.to_string()))
    }
}

/// RGB as three full planes.
fn fill(frame: &mut Frame, picture: &gausset_io::image::Picture) {
    let (width, height) = (picture.width as usize, picture.height as usize);
    let all = [-1, height as i32];
    frame.colour = Colour::YCbCr;
    frame.planes.resize_with(3, Plane::default);
    for plane in &mut frame.planes {
        plane.reshape(width, height, all);
    }
    for (y, row) in picture.rgb.chunks_exact(3 * width).enumerate() {
        let y = y as i32;
        for (x, p) in row.chunks_exact(3).enumerate() {
            let ycc = ycbcr_from_rgb([p[0], p[1], p[2]]);
            for (plane, value) in frame.planes.iter_mut().zip(ycc) {
                plane.row_mut(y)[x] = value;
            }
        }
    }
    frame.alpha = picture.alpha.as_ref().map(|alpha| {
        let mut plane = Plane::default();
        plane.reshape(width, height, all);
        for (y, row) in alpha.chunks_exact(width).enumerate() {
            plane.row_mut(y as i32).copy_from_slice(row);
        }
        plane
    });
}

/// Full-range BT.601 (JFIF), 16-bit fixed point, rounded to nearest.
#[must_use]
pub fn ycbcr_from_rgb([r, g, b]: [u8; 3]) -> [u8; 3] {
    let (r, g, b) = (i32::from(r), i32::from(g), i32::from(b));
    let y = (19_595 * r + 38_470 * g + 7_471 * b + 32_768) >> 16;
    let cb = (-11_059 * r - 21_709 * g + 32_768 * b + (128 << 16) + 32_767) >> 16;
    let cr = (32_768 * r - 27_439 * g - 5_329 * b + (128 << 16) + 32_767) >> 16;
    [y, cb, cr].map(|v| v.clamp(0, 255) as u8)
}

/// The inverse of [`ycbcr_from_rgb`].
#[must_use]
pub fn rgb_from_ycbcr([y, cb, cr]: [u8; 3]) -> [u8; 3] {
    let (y, cb, cr) = (i32::from(y) << 16, i32::from(cb) - 128, i32::from(cr) - 128);
    let r = (y + 91_881 * cr + 32_768) >> 16;
    let g = (y - 22_554 * cb - 46_802 * cr + 32_768) >> 16;
    let b = (y + 116_130 * cb + 32_768) >> 16;
    [r, g, b].map(|v| v.clamp(0, 255) as u8)
}

/// A picture as its EXIF orientation wants it to be seen.
fn turn(picture: gausset_io::image::Picture, orientation: u8) -> gausset_io::image::Picture {
    let (w, h) = (picture.width as usize, picture.height as usize);
    let swaps = orientation >= 5;
    let (width, height) = if swaps { (h, w) } else { (w, h) };
    let source = |x: usize, y: usize| match orientation {
        2 => (w - 1 - x, y),
        3 => (w - 1 - x, h - 1 - y),
        4 => (x, h - 1 - y),
        5 => (y, x),
        6 => (y, h - 1 - x),
        7 => (w - 1 - y, h - 1 - x),
        8 => (w - 1 - y, x),
        _ => (x, y),
    };
    let mut rgb = Vec::with_capacity(picture.rgb.len());
    let mut alpha = picture.alpha.as_ref().map(|a| Vec::with_capacity(a.len()));
    for y in 0..height {
        for x in 0..width {
            let (sx, sy) = source(x, y);
            let at = sy * w + sx;
            rgb.extend_from_slice(&picture.rgb[3 * at..3 * at + 3]);
            if let (Some(out), Some(from)) = (&mut alpha, &picture.alpha) {
                out.push(from[at]);
            }
        }
    }
    gausset_io::image::Picture { width: width as u32, height: height as u32, rgb, alpha }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_survive_the_way_there_and_back() {
        for r in (0..=255).step_by(15) {
            for g in (0..=255).step_by(15) {
                for b in (0..=255).step_by(15) {
                    let back = rgb_from_ycbcr(ycbcr_from_rgb([r, g, b]));
                    assert!([r, g, b].iter().zip(back).all(|(a, b)| a.abs_diff(b) <= 2));
                }
            }
        }
        assert_eq!(ycbcr_from_rgb([255, 255, 255]), [255, 128, 128]);
    }

    #[test]
    fn a_bomb_is_refused_by_its_header() {
        let mut jpeg = vec![0xFF, 0xD8, 0xFF, 0xC0, 0, 17, 8, 0x1F, 0xFF, 0x3F, 0xFF, 3];
        jpeg.extend([1, 0x22, 0, 2, 0x11, 1, 3, 0x11, 1]);
        jpeg.extend([0xFF, 0xDA, 0, 12, 3, 1, 0, 2, 0x11, 3, 0x11, 0, 63, 0]);
        jpeg.resize(1024, 0);
        let message = parse(Path::new("bomb.jpg"), &Limits::default(), jpeg).unwrap_err().to_string();
        assert_eq!(message, "bomb.jpg: picture: 1024 bytes cannot hold 16383x8191 px; copy it again");
    }

    #[test]
    fn orientation_6_turns_a_quarter() {
        let picture =
            gausset_io::image::Picture { width: 2, height: 1, rgb: vec![1, 1, 1, 2, 2, 2], alpha: None };
        let turned = turn(picture, 6);
        assert_eq!((turned.width, turned.height, turned.rgb), (1, 2, vec![1, 1, 1, 2, 2, 2]));
    }
}
