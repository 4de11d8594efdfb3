//! TIFF: pages are the slices of a volume, its channels or its frames.
//!
//! Numbers of 1, 2, 4, 8 to 64 bits, floats of 16 to 64. Smaller pages, as pyramids have them, are left out. ImageJ
//! writes large stacks with one page, whose data the other slices follow.

use std::io::{Cursor, Read, Seek};

use ::tiff::TiffError;
use ::tiff::decoder::ifd::Value;
use ::tiff::decoder::{Decoder, DecodingResult, Limits};
use ::tiff::tags::{ByteOrder, Tag};

use crate::error::ContentError;
use crate::input::checks::{ReadRequest, voxels};
use crate::input::scalar::{Scalar, unpack_bits};
use crate::input::tiff_axes::{self, Axes, PixelSize};
use crate::input::volume::Volume;

/// Number of slices within a page, of the volumetric TIFF of SGI, which the decoder does not know.
const IMAGE_DEPTH: Tag = Tag::Unknown(32997);
/// Longest description that is read, bytes.
const MAX_DESCRIPTION: u64 = 16 << 20;

/// Reads a volume.
pub(crate) fn read(bytes: &[u8], wanted: &ReadRequest<'_>) -> Result<Volume, ContentError> {
    let pages = Pages::new(bytes, wanted)?;
    let axes = pages.axes(bytes, wanted)?;
    pages.volume(bytes, &axes, wanted)
}

/// Reads a volume whose pages are slices, whatever its description says.
pub(crate) fn read_pages(bytes: &[u8], wanted: &ReadRequest<'_>) -> Result<Volume, ContentError> {
    let pages = Pages::new(bytes, wanted)?;
    let axes = Axes::of_slices(pages.full.len() as u64);
    pages.volume(bytes, &axes, wanted)
}

/// What the entries of the pages say. All sizes are checked before any pixel is decoded.
struct Pages {
    width: u32,
    height: u32,
    /// Indices of the pages of full size.
    full: Vec<usize>,
    /// Number of pages.
    count: usize,
    /// Channels within a page.
    samples: u64,
    bits: u8,
}

impl Pages {
    fn new(bytes: &[u8], wanted: &ReadRequest<'_>) -> Result<Self, ContentError> {
        let mut decoder = open(bytes, wanted)?;
        let depth = decoder.find_tag_unsigned::<u32>(IMAGE_DEPTH).ok().flatten().unwrap_or(1);
        if depth > 1 {
            let error =
                ContentError::unexpected("page 0", "volumetric TIFF (ImageDepth) is not read", 1, depth);
            return Err(error.with_advice("save each slice as a page"));
        }
        let (width, height) = decoder.dimensions().map_err(page_error(0))?;
        let color = decoder.colortype().map_err(page_error(0))?;
        let mut pages = Self {
            width,
            height,
            full: vec![0],
            count: 1,
            samples: u64::from(color.num_samples()).max(1),
            bits: color.bit_depth(),
        };
        while decoder.more_images() {
            let page = pages.count;
            decoder.next_image().map_err(page_error(page))?;
            let size = decoder.dimensions().map_err(page_error(page))?;
            // Bit 0: a reduced version of another page.
            let kind = decoder.find_tag_unsigned::<u32>(Tag::NewSubfileType).ok().flatten().unwrap_or(0);
            if size == (width, height) && kind & 1 == 0 {
                pages.full.push(page);
            } else if kind & 1 == 0 && !(size.0 < width && size.1 < height) {
                let place = format_args!("page {page}");
                let (expected, found) = (format!("{width} x {height}"), format!("{} x {}", size.0, size.1));
                return Err(ContentError::unexpected(place, "another size", expected, found));
            }
            pages.count += 1;
        }
        let smaller = pages.count - pages.full.len();
        if smaller > 0 {
            wanted.note(format_args!(
                "pages: {smaller} smaller ones of {} left out (a pyramid or thumbnails)",
                pages.count
            ));
        }
        Ok(pages)
    }

    /// The axes by the description; otherwise pages are slices.
    fn axes(&self, bytes: &[u8], wanted: &ReadRequest<'_>) -> Result<Axes, ContentError> {
        let slices = self.full.len() as u64;
        let plain = Axes::of_slices(slices);
        let text = description(&mut open(bytes, wanted)?);
        // OME-XML counts all pages, the others those of the stack.
        let Some(mut axes) = tiff_axes::parse(&text, slices.max(self.count as u64), self.samples)? else {
            return Ok(plain);
        };
        let planes = axes.planes();
        if planes > slices && !(axes.is_contiguous && self.count == 1) && !axes.has_pages() {
            let what = "fewer than the description declares";
            return Err(ContentError::unexpected("pages", what, planes, slices));
        }
        if planes < slices {
            if axes.channels > 1 || axes.frames > 1 {
                let what = "more than the description declares";
                return Err(ContentError::unexpected("pages", what, planes, slices));
            }
            if !axes.has_pages() {
                wanted
                    .note(format_args!("pages: {slices} slices, although the description declares {planes}"));
                axes.slices = slices;
                return Ok(axes);
            }
            wanted.note(format_args!("pages: {} after the first image left out", slices - planes));
        }
        Ok(axes)
    }

    fn volume(&self, bytes: &[u8], axes: &Axes, wanted: &ReadRequest<'_>) -> Result<Volume, ContentError> {
        let dims = [u64::from(self.width), u64::from(self.height), axes.slices];
        wanted.check_count(voxels(&dims)?)?;
        let channels = axes.channels.saturating_mul(self.samples);
        let channel = wanted.channel_of(usize::try_from(channels).unwrap_or(usize::MAX), &axes.names)? as u64;
        let frame = wanted.frame_of(axes.frames)?;
        let (plane, sample) = (channel / self.samples, (channel % self.samples) as usize);
        let mut decoder = open(bytes, wanted)?;
        let spacing = spacing(&mut decoder, axes);
        let mut values = Vec::new();
        if axes.planes() > self.count as u64 {
            self.append_contiguous(&mut decoder, bytes, axes, [plane, frame], sample, &mut values)?;
        } else {
            for slice in 0..axes.slices {
                wanted.check_stop()?;
                let page = axes.page(slice, plane, frame);
                let index = if axes.has_pages() {
                    Some(page as usize)
                } else {
                    self.full.get(page as usize).copied()
                };
                let missing = || ContentError::unread(format_args!("slice {slice}"), "no page in this file");
                let index =
                    index.filter(|index| self.full.binary_search(index).is_ok()).ok_or_else(missing)?;
                self.append_page(&mut decoder, index, sample, &mut values)?;
            }
        }
        let volume = Volume::on_grid(dims.map(|d| d as usize), spacing, values);
        Ok(Volume { frames: axes.frames as usize, ..volume })
    }

    /// Decodes a sample of a page.
    fn append_page(
        &self,
        decoder: &mut Decoder<impl Read + Seek>,
        page: usize,
        sample: usize,
        values: &mut Vec<f64>,
    ) -> Result<(), ContentError> {
        let at = |what: &str, expected: &str, found: String| {
            Err(ContentError::unexpected(format_args!("page {page}"), what, expected, found))
        };
        decoder.seek_to_image(page).map_err(page_error(page))?;
        let color = decoder.colortype().map_err(page_error(page))?;
        if (u64::from(color.num_samples()), color.bit_depth()) != (self.samples, self.bits) {
            let found = format!("{} of {} bits", color.num_samples(), color.bit_depth());
            return at("another kind of samples", &format!("{} of {} bits", self.samples, self.bits), found);
        }
        let mut pixels = DecodingResult::U8(Vec::new());
        decoder.read_image_to_buffer(&mut pixels).map_err(page_error(page))?;
        let (samples, area) = (self.samples as usize, self.width as usize * self.height as usize);
        let numbers = match self.bits {
            1 | 2 | 4 if samples == 1 => match &pixels {
                DecodingResult::U8(bytes) => unpack_bits(bytes, self.bits, self.width as usize),
                _ => return at("sample type is not read", "whole numbers", format!("{color:?}")),
            },
            8 | 16 | 32 | 64 => numbers(pixels),
            bits => {
                return at(
                    "sample type is not read",
                    "1, 2, 4, 8, 16, 32 or 64 bits",
                    format!("{bits} bits"),
                );
            }
        };
        let before = values.len();
        if numbers.len() == area * samples && samples > 1 && is_planar(decoder) {
            values.extend(&numbers[area * sample..area * (sample + 1)]);
        } else if numbers.len() == area * samples {
            values.extend(numbers.iter().skip(sample).step_by(samples));
        }
        if values.len() - before != area {
            return at("wrong number of values", &(area * samples).to_string(), numbers.len().to_string());
        }
        Ok(())
    }

    /// Appends the slices of a stack with one page, whose planes follow each other in the file.
    fn append_contiguous(
        &self,
        decoder: &mut Decoder<impl Read + Seek>,
        bytes: &[u8],
        axes: &Axes,
        [channel, frame]: [u64; 2],
        sample: usize,
        values: &mut Vec<f64>,
    ) -> Result<(), ContentError> {
        let refused = |what: &str, found: String| {
            Err(ContentError::unexpected("page 0", what, "plain data that the other slices follow", found))
        };
        let format = decoder.find_tag_unsigned_vec::<u16>(Tag::SampleFormat).map_err(page_error(0))?;
        let format = format.and_then(|list| list.first().copied()).unwrap_or(1);
        let scalar = match (format, self.bits) {
            (1, 8) => Scalar::U8,
            (1, 16) => Scalar::U16,
            (1, 32) => Scalar::U32,
            (2, 8) => Scalar::I8,
            (2, 16) => Scalar::I16,
            (2, 32) => Scalar::I32,
            (3, 16) => Scalar::F16,
            (3, 32) => Scalar::F32,
            (3, 64) => Scalar::F64,
            _ => return refused("sample type is not read", format!("{} bits", self.bits)),
        };
        let compression = decoder.find_tag_unsigned::<u16>(Tag::Compression).map_err(page_error(0))?;
        if compression.is_some_and(|kind| kind != 1) || (self.samples > 1 && is_planar(decoder)) {
            return refused("fewer pages than the description declares", "one compressed page".to_owned());
        }
        let offsets = decoder.find_tag_unsigned_vec::<u64>(Tag::StripOffsets).map_err(page_error(0))?;
        let Some(&first) = offsets.as_ref().and_then(|list| list.first()) else {
            return refused("fewer pages than the description declares", "tiles".to_owned());
        };
        let samples = self.samples as usize;
        let length = u64::from(self.width) * u64::from(self.height) * (samples * scalar.bytes()) as u64;
        let is_big_endian = decoder.byte_order() == ByteOrder::BigEndian;
        for slice in 0..axes.slices {
            let from =
                axes.page(slice, channel, frame).checked_mul(length).and_then(|at| at.checked_add(first));
            let range = from.and_then(|at| {
                Some(usize::try_from(at).ok()?..usize::try_from(at.checked_add(length)?).ok()?)
            });
            let Some(plane) = range.and_then(|range| bytes.get(range)) else {
                let expected = format_args!("{} images, as the description declares", axes.planes());
                let found = format_args!("{} bytes, too few for slice {slice}", bytes.len());
                return Err(ContentError::unexpected("data", "cut off", expected, found));
            };
            values.extend(scalar.decode(plane, is_big_endian).iter().skip(sample).step_by(samples));
        }
        Ok(())
    }
}

type Stream<'a> = gausset_io::input::StoppableReader<'a, Cursor<&'a [u8]>>;

fn open<'a>(bytes: &'a [u8], wanted: &ReadRequest<'a>) -> Result<Decoder<Stream<'a>>, ContentError> {
    let mut limits = Limits::default();
    // With the supported codecs, a page cannot inflate to more than a thousand times the file, nor to more than this
    // limit.
    limits.decoding_buffer_size = bytes.len().saturating_mul(1100).clamp(1 << 20, 4 << 30);
    let decoder = Decoder::new(wanted.stoppable(Cursor::new(bytes))).map_err(page_error(0))?;
    Ok(decoder.with_limits(limits))
}

/// Converts an error of the library for a page.
fn page_error(page: usize) -> impl Fn(TiffError) -> ContentError {
    move |error| {
        let is_unsupported = matches!(error, TiffError::UnsupportedError(_));
        let error = ContentError::unread(format_args!("page {page}"), error);
        if is_unsupported { error.with_advice("save it uncompressed, as grey") } else { error }
    }
}

/// The description of the first page; empty if there is none.
fn description(decoder: &mut Decoder<impl Read + Seek>) -> String {
    let mut ifd = decoder.image_ifd();
    let Some(entry) = ifd.find_entry(Tag::ImageDescription) else { return String::new() };
    let mut bytes = vec![0; entry.count().min(MAX_DESCRIPTION) as usize];
    let count = ifd.find_tag_bytes(Tag::ImageDescription, &mut bytes, 0).ok().flatten().unwrap_or(0);
    bytes.truncate(count);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The distance of voxel centres.
fn spacing(decoder: &mut Decoder<impl Read + Seek>, axes: &Axes) -> [f64; 3] {
    let mut resolution = |tag| match decoder.find_tag(tag) {
        Ok(Some(Value::Rational(above, below))) => {
            let size = f64::from(below) / f64::from(above);
            if size.is_finite() && size > 0.0 { size } else { 1.0 }
        }
        _ => 1.0,
    };
    let [x, y] = match axes.pixel {
        PixelSize::Unknown => [1.0; 2],
        PixelSize::Resolution => [resolution(Tag::XResolution), resolution(Tag::YResolution)],
        PixelSize::Is(size) => size,
    };
    [x, y, axes.depth.unwrap_or(1.0)]
}

fn is_planar(decoder: &mut Decoder<impl Read + Seek>) -> bool {
    decoder.find_tag_unsigned::<u16>(Tag::PlanarConfiguration).ok().flatten() == Some(2)
}

fn numbers(pixels: DecodingResult) -> Vec<f64> {
    macro_rules! wide {
        ($pixels:expr) => {
            $pixels.into_iter().map(|v| v as f64).collect()
        };
    }
    match pixels {
        DecodingResult::U8(pixels) => wide!(pixels),
        DecodingResult::U16(pixels) => wide!(pixels),
        DecodingResult::U32(pixels) => wide!(pixels),
        DecodingResult::U64(pixels) => wide!(pixels),
        DecodingResult::I8(pixels) => wide!(pixels),
        DecodingResult::I16(pixels) => wide!(pixels),
        DecodingResult::I32(pixels) => wide!(pixels),
        DecodingResult::I64(pixels) => wide!(pixels),
        DecodingResult::F32(pixels) => wide!(pixels),
        DecodingResult::F64(pixels) => wide!(pixels),
        DecodingResult::F16(pixels) => pixels.into_iter().map(|v| v.to_f64()).collect(),
    }
}
