//! Loads an image file into planes.
//!
//! Baseline JPEG uses the decoder of this crate. Everything else (progressive JPEG, CMYK, PNG, TIFF) uses the `image`
//! crate and is converted from RGB to full-range BT.601 without subsampling.

use std::fs::File;
use std::io::{BufRead, BufReader, Cursor, Read, Seek};
use std::path::{Path, PathBuf};

use gausset_compute::fearless_simd::Level;
use gausset_io::image::DecodedImage;
use gausset_io::image::header::parse_header;
use gausset_io::{catch_panic, input};
use gausset_jpeg::colour::ycbcr_from_rgb;
use gausset_jpeg::plane::{ColourModel, Frame, FrameShape, Plane};
use gausset_jpeg::{DecodeError, Decoder, JpegHeader};
use image::ImageDecoder;
use image::codecs::tiff::TiffDecoder;

use crate::source::metadata::{EquirectError, Metadata};
use crate::sphere::projection::Equirect;

/// Limits on source images.
#[derive(Clone, Copy, Debug)]
pub struct ImageLimits {
    /// Largest width, px.
    pub width: u32,
    /// Largest height, px.
    pub height: u32,
    /// Largest file, bytes.
    pub bytes: u64,
}

impl Default for ImageLimits {
    fn default() -> Self {
        Self { width: 16_384, height: 8_192, bytes: 256 << 20 }
    }
}

/// Why an image file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {problem}", path.display())]
pub struct LoadError {
    /// The image file.
    pub path: PathBuf,
    /// The problem, as `FIELD: what is wrong …`.
    pub problem: String,
}

/// An image file in memory with its parsed header.
#[derive(Debug, Default)]
pub struct LoadedImage {
    /// The image file.
    pub path: PathBuf,
    /// The whole file.
    pub data: Vec<u8>,
    /// Width and height, px.
    pub size: [u32; 2],
    /// EXIF, GPano and ICC data.
    pub metadata: Metadata,
    jpeg_header: Option<JpegHeader>,
}

fn load_error(path: &Path, what: impl Into<String>) -> LoadError {
    LoadError { path: path.to_owned(), problem: what.into() }
}

/// Reads a file into `buffer` and parses its header.
///
/// # Errors
/// Not a regular file, not an image, over the limits, or damaged.
pub fn load(path: &Path, limits: &ImageLimits, mut buffer: Vec<u8>) -> Result<LoadedImage, LoadError> {
    let (file, length) = open_checked(path, limits)?;
    buffer.clear();
    // One byte more than expected, so that a growing file is noticed.
    buffer.reserve_exact(length as usize + 1);
    file.take(length + 1).read_to_end(&mut buffer).map_err(|e| io_error(path, &e))?;
    parse(path, limits, buffer)
}

fn io_error(path: &Path, e: &std::io::Error) -> LoadError {
    load_error(path, format!("picture: {}", gausset_io::atomic::plain_reason(e)))
}

/// Opens an image file and returns it with its length, which is within the limits.
fn open_checked(path: &Path, limits: &ImageLimits) -> Result<(File, u64), LoadError> {
    let file = input::open(path, input::NO_LIMIT).map_err(|e| io_error(path, &e))?;
    let length = file.metadata().map_err(|e| io_error(path, &e))?.len();
    if length == 0 {
        return Err(load_error(path, "picture: is empty (0 bytes); copy it again"));
    }
    if length > limits.bytes {
        let (found, most) =
            (gausset_io::text::format_bytes(length), gausset_io::text::format_bytes(limits.bytes));
        return Err(load_error(
            path,
            format!("picture: file has {found} (expected at most {most}); raise ⟨max-file⟩"),
        ));
    }
    Ok((file, length))
}

/// Memory that decoding an image needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryEstimate {
    /// Number of pixels of the image.
    pub pixels: u64,
    /// Bytes of its planes.
    pub all_planes_bytes: u64,
    /// Peak bytes: file, decoder buffers, planes and their halved copies.
    pub peak_bytes: u64,
}

/// Bytes at the start of a JPEG that are searched for its header first.
const HEADER_BYTES: u64 = 1 << 20;

/// Computes the memory that decoding an image needs from the header of its file. No pixel is decoded.
///
/// A baseline JPEG needs only its planes. For other formats, decoders hold the channels as well, often twice.
///
/// # Errors
/// Not a regular file, not an image, over the limits, or an invalid header.
pub fn estimate_memory(path: &Path, limits: &ImageLimits) -> Result<MemoryEstimate, LoadError> {
    let (mut file, length) = open_checked(path, limits)?;
    let mut start = Vec::new();
    (&mut file).take(HEADER_BYTES).read_to_end(&mut start).map_err(|e| io_error(path, &e))?;
    if is_tiff(&start) {
        file.rewind().map_err(|e| io_error(path, &e))?;
        let (size, channels, bytes_a_pixel) = tiff_header(path, BufReader::new(file))?;
        check_size(path, limits, size)?;
        let has_alpha = matches!(channels, 2 | 4);
        let is_rgb8 = channels == 3 && bytes_a_pixel == 3;
        let converted = if is_rgb8 { 0 } else { 3 + u64::from(has_alpha) };
        return Ok(MemoryEstimate::for_rgb(length, size, 2 * bytes_a_pixel + converted, has_alpha));
    }
    let header = match parse_header(Cursor::new(&start)) {
        // The segments before the image data can be longer than `HEADER_BYTES`.
        Err(gausset_io::image::ImageProblem::Truncated) if length > HEADER_BYTES => {
            file.rewind().map_err(|e| io_error(path, &e))?;
            parse_header(file)
        }
        header => header,
    }
    .map_err(|e| load_error(path, e.to_string()))?;
    let size = [header.width, header.height];
    check_size(path, limits, size)?;
    if header.may_have_alpha() {
        // Palette and grey images become RGB, with alpha if they have it.
        return Ok(MemoryEstimate::for_rgb(
            length,
            size,
            header.decoding_bytes_per_pixel(),
            header.channels != 3,
        ));
    }
    let turned = header.orientation != 1;
    if let (false, Ok(own)) = (turned, JpegHeader::parse(&start)) {
        let sizes = (0..own.components.len()).map(|c| own.plane_size(c).map(|side| side as u64));
        let planes = sizes.map(plane_bytes).sum::<u64>();
        let pixels = u64::from(header.width) * u64::from(header.height);
        return Ok(MemoryEstimate {
            pixels,
            all_planes_bytes: planes,
            peak_bytes: length + planes + planes / 3,
        });
    }
    let turn = if turned { 3 } else { 0 };
    Ok(MemoryEstimate::for_rgb(2 * length, size, header.decoding_bytes_per_pixel() + turn, false))
}

impl MemoryEstimate {
    /// For an image that is decoded to RGB first: its planes are not subsampled.
    fn for_rgb(file: u64, size: [u32; 2], decoding: u64, has_alpha: bool) -> Self {
        let size = size.map(u64::from);
        let pixels = size[0] * size[1];
        // Alpha is halved twice: by averages as an image, and by minima as a mask.
        let planes = plane_bytes(size) * if has_alpha { 4 } else { 3 };
        let halves = planes / 3 + if has_alpha { plane_bytes(size) / 3 } else { 0 };
        Self { pixels, all_planes_bytes: planes, peak_bytes: file + planes + halves.max(decoding * pixels) }
    }
}

/// Bytes of a plane including its padding.
fn plane_bytes([width, height]: [u64; 2]) -> u64 {
    (width + 192) * (height + 3)
}

/// [`Metadata::tilt`] of a JPEG. Reads the start of the file only.
#[must_use]
pub fn read_tilt(path: &Path) -> Option<[f64; 2]> {
    read_metadata(path)?.tilt()
}

/// EXIF and GPano data of a JPEG; `None` for other formats. Reads the start of the file only.
#[must_use]
pub fn read_metadata(path: &Path) -> Option<Metadata> {
    let mut start = Vec::new();
    input::open(path, input::NO_LIMIT).ok()?.take(HEADER_BYTES).read_to_end(&mut start).ok()?;
    start.starts_with(&[0xFF, 0xD8]).then(|| Metadata::from_jpeg(&start))
}

fn is_tiff(data: &[u8]) -> bool {
    matches!(data.get(..4), Some(b"II*\0" | b"MM\0*"))
}

/// Size, number of channels, and bytes per decoded pixel of a TIFF.
fn tiff_header(path: &Path, source: impl BufRead + Seek) -> Result<([u32; 2], u8, u64), LoadError> {
    let damaged = |what: String| load_error(path, format!("picture: TIFF header is damaged: {what}"));
    catch_panic::catch(|| {
        let decoder = TiffDecoder::new(source).map_err(|e| damaged(e.to_string()))?;
        let (width, height) = decoder.dimensions();
        let colour = decoder.color_type();
        Ok(([width, height], colour.channel_count(), u64::from(colour.bytes_per_pixel())))
    })
    .unwrap_or_else(|_| Err(damaged("the decoder broke down".to_owned())))
}

fn check_size(path: &Path, limits: &ImageLimits, [w, h]: [u32; 2]) -> Result<[u32; 2], LoadError> {
    if w > limits.width || h > limits.height {
        let (mw, mh) = (limits.width, limits.height);
        return Err(load_error(
            path,
            format!("picture: {w}x{h} px are too many (expected at most {mw}x{mh}); raise ⟨max-side⟩"),
        ));
    }
    Ok([w, h])
}

/// Like [`load`], for a file that is already in memory.
///
/// # Errors
/// As [`load`].
pub fn parse(path: &Path, limits: &ImageLimits, data: Vec<u8>) -> Result<LoadedImage, LoadError> {
    let mut opened = LoadedImage { path: path.to_owned(), data, ..LoadedImage::default() };
    if is_tiff(&opened.data) {
        let (size, _, _) = tiff_header(path, Cursor::new(&opened.data))?;
        opened.size = check_size(path, limits, size)?;
        return Ok(opened);
    }
    let header = parse_header(Cursor::new(&opened.data)).map_err(|e| load_error(path, e.to_string()))?;
    opened.size = check_size(path, limits, [header.width, header.height])?;
    // Guards against decompression bombs: a compressed panorama has at least one byte per 4096 pixels.
    let pixels = u64::from(header.width) * u64::from(header.height);
    if pixels / 4096 > opened.data.len() as u64 {
        return Err(load_error(
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
        opened.metadata = Metadata::from_jpeg(&opened.data);
        match JpegHeader::parse(&opened.data) {
            Ok(header) => opened.jpeg_header = Some(header),
            Err(DecodeError::Unsupported(_)) => {}
            Err(e) => return Err(load_error(path, format!("picture: {e}"))),
        }
    }
    if opened.metadata.orientation() != 1 {
        opened.jpeg_header = None;
    }
    Ok(opened)
}

impl LoadedImage {
    /// Width and height after applying the EXIF orientation, px.
    #[must_use]
    pub fn upright_size(&self) -> [u32; 2] {
        let [w, h] = self.size;
        if self.metadata.orientation() >= 5 { [h, w] } else { [w, h] }
    }

    /// Bits per sample; 8 if the header does not specify it.
    #[must_use]
    pub fn bits(&self) -> u8 {
        if is_tiff(&self.data) {
            let header = tiff_header(&self.path, Cursor::new(&self.data));
            return header.map_or(8, |(_, channels, bytes)| (8 * bytes / u64::from(channels.max(1))) as u8);
        }
        parse_header(Cursor::new(&self.data)).map_or(8, |header| header.bits)
    }

    /// The part of the sphere that the image shows. For stacked stereo, that of the upper eye.
    ///
    /// # Errors
    /// Neither 2:1, nor a valid part of a 2:1 panorama by its GPano metadata.
    pub fn equirect(&self, is_stereo: bool) -> Result<Equirect, EquirectError> {
        let [w, h] = self.upright_size();
        if !is_stereo {
            return self.metadata.equirect(w, h);
        }
        if w != h || !h.is_multiple_of(4) {
            return Err(EquirectError::NotStereo([w, h]));
        }
        Ok(Equirect::whole(w, h / 2))
    }

    /// Plane sizes that [`Self::decode`] will return; `None` if the general decoder is needed, because colour and alpha
    /// are known only after decoding then.
    #[must_use]
    pub fn shape(&self) -> Option<FrameShape> {
        let header = self.jpeg_header.as_ref()?;
        let sizes = (0..header.components.len()).map(|c| header.plane_size(c).map(|s| s as u32)).collect();
        let colour = if header.components.len() == 1 { ColourModel::Grey } else { ColourModel::YCbCr };
        Some(FrameShape { colour, sizes, has_alpha: false })
    }

    /// Decodes the needed rows of each plane into `frame`.
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
        if let Some(header) = &self.jpeg_header {
            frame.colour = if header.components.len() == 1 { ColourModel::Grey } else { ColourModel::YCbCr };
            frame.alpha = None;
            return decoder
                .decode(level, header, &mut self.data, rows, &mut frame.planes)
                .map_err(|e| load_error(&self.path, format!("picture: {e}; copy it again")));
        }
        let picture = self.decode_general()?;
        let picture = gausset_io::image::upright(picture, self.metadata.orientation());
        fill_from_rgb(frame, &picture);
        Ok(())
    }

    fn decode_general(&self) -> Result<DecodedImage, LoadError> {
        if !is_tiff(&self.data) {
            return gausset_io::image::decode(&self.data).map_err(|e| load_error(&self.path, e.to_string()));
        }
        let failed =
            |what: String| load_error(&self.path, format!("picture: TIFF cannot be decoded: {what}"));
        let decode = || {
            let mut decoder = TiffDecoder::new(Cursor::new(&self.data))?;
            let mut limits = image::Limits::default();
            limits.max_alloc = Some(gausset_io::image::MAX_DECODED_BYTES);
            decoder.set_limits(limits)?;
            image::DynamicImage::from_decoder(decoder)
        };
        let decoded = catch_panic::catch(decode)
            .map_err(|_| failed("the decoder broke down; convert it".to_owned()))?;
        Ok(gausset_io::image::to_picture(decoded.map_err(|e| failed(e.to_string()))?))
    }
}

/// Converts RGB to three full-size YCbCr planes.
fn fill_from_rgb(frame: &mut Frame, picture: &DecodedImage) {
    let (width, height) = (picture.width as usize, picture.height as usize);
    let all = [-1, height as i32];
    frame.colour = ColourModel::YCbCr;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bomb_is_refused_by_its_header() {
        let mut jpeg = vec![0xFF, 0xD8, 0xFF, 0xC0, 0, 17, 8, 0x1F, 0xFF, 0x3F, 0xFF, 3];
        jpeg.extend([1, 0x22, 0, 2, 0x11, 1, 3, 0x11, 1]);
        jpeg.extend([0xFF, 0xDA, 0, 12, 3, 1, 0, 2, 0x11, 3, 0x11, 0, 63, 0]);
        jpeg.resize(1024, 0);
        let message = parse(Path::new("bomb.jpg"), &ImageLimits::default(), jpeg).unwrap_err().to_string();
        assert_eq!(message, "bomb.jpg: picture: 1024 bytes cannot hold 16383x8191 px; copy it again");
    }
}
