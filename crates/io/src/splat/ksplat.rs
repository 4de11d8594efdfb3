//! `.ksplat` (mkkellogg/GaussianSplats3D), version 0.1: sections of splats, at one of three compression levels. Read
//! only: its viewer is no longer developed.
//!
//! ```text
//! header, 4096 bytes: u8 0, u8 1 (version) | @4 u32 capacity for sections; sections in use and splats in total, which some writers leave at 0 | @20 u16 level
//!                     @36 f32 minimum and maximum SH
//! sections, 1024 bytes each: u32 splats, capacity for splats, splats per bucket, buckets | @16 f32 width of a bucket
//!                     @20 u16 bytes of a bucket, 12 | @24 u32 range | @32 u32 full buckets, partial buckets | @40 u16 SH degree
//! data of a section: u32 per partial bucket (its splats) | 3 f32 per bucket (its centre) | capacity for splats
//! ```
//! | level | mean | scale (linear) | rotation wxyz | colour, opacity | SH |
//! |---|---|---|---|---|---|
//! | 0 | f32 | f32 | f32 | 4 u8 | f32 |
//! | 1 | u16 in its bucket | f16 | f16 | 4 u8 | f16 |
//! | 2 | u16 in its bucket | f16 | f16 | 4 u8 | u8 in the range of the header |
//!
//! SH is channel-major within each degree.
#![deny(clippy::indexing_slicing, reason = "what comes from outside is never an index")]

use std::io::SeekFrom;

use gausset_core::sh;

use super::format::FileStart;
use super::source::SourceFile;
use super::usable::{SplatCollector, row_values};
use super::values::{self, EXTREME_LOGIT};
use super::{Format, Initial, SplatError, SplatFile};

const HEADER_BYTES: usize = 4096;
const SECTION_HEADER_BYTES: usize = 1024;
const BUCKET_BYTES: usize = 12;
const MAX_SECTIONS: u32 = 10_000;
/// Splats per read.
const BLOCK_SPLATS: u64 = 1 << 12;
/// Default range of SH bytes.
const USUAL_SH_RANGE: f32 = 1.5;

/// Fields of the header.
struct Header {
    version: [u8; 2],
    room_for_sections: u32,
    level: u16,
    sh_range: [f32; 2],
}

/// Fields of a section header.
struct Section {
    splats: u64,
    room: u64,
    bucket_splats: u64,
    buckets: u64,
    bucket_width: f32,
    range: f32,
    full_buckets: u64,
    partial_buckets: u64,
    sh_degree: u8,
}

/// Reads little-endian numbers at offsets of a header.
struct HeaderFields<'a>(&'a [u8]);

impl HeaderFields<'_> {
    fn bytes<const N: usize>(&self, at: usize) -> [u8; N] {
        self.0.get(at..).and_then(|bytes| bytes.first_chunk()).copied().unwrap_or([0; N])
    }

    fn u16(&self, at: usize) -> u16 {
        u16::from_le_bytes(self.bytes(at))
    }

    fn u32(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.bytes(at))
    }

    fn f32(&self, at: usize) -> f32 {
        f32::from_le_bytes(self.bytes(at))
    }
}

impl Header {
    fn parse(bytes: &[u8]) -> Self {
        let numbers = HeaderFields(bytes);
        let or = |value: f32, usual: f32| if value == 0.0 { usual } else { value };
        Self {
            version: numbers.bytes(0),
            room_for_sections: numbers.u32(4),
            level: numbers.u16(20),
            sh_range: [or(numbers.f32(36), -USUAL_SH_RANGE), or(numbers.f32(40), USUAL_SH_RANGE)],
        }
    }

    fn is_plausible(&self) -> bool {
        self.level <= 2 && (1..=MAX_SECTIONS).contains(&self.room_for_sections)
    }
}

impl Section {
    fn parse(bytes: &[u8], level: u16) -> (Self, [u16; 2]) {
        let numbers = HeaderFields(bytes);
        let range = match numbers.u32(24) {
            0 if level == 0 => 1,
            0 => 32_767,
            range => range,
        };
        let (degree, bucket_bytes) = (numbers.u16(40), numbers.u16(20));
        let section = Self {
            splats: numbers.u32(0).into(),
            room: numbers.u32(4).into(),
            bucket_splats: numbers.u32(8).into(),
            buckets: numbers.u32(12).into(),
            bucket_width: numbers.f32(16),
            range: range as f32,
            full_buckets: numbers.u32(32).into(),
            partial_buckets: numbers.u32(36).into(),
            sh_degree: degree.min(3) as u8,
        };
        (section, [degree, bucket_bytes])
    }

    /// Bytes of the tables before the splats.
    fn bucket_table_bytes(&self) -> u64 {
        4 * self.partial_buckets + BUCKET_BYTES as u64 * self.buckets
    }
}

/// The format has no magic number, but a version and a header of known length.
pub(super) fn sniff(start: &FileStart) -> bool {
    let header = Header::parse(&start.bytes);
    let least = HEADER_BYTES as u64 + SECTION_HEADER_BYTES as u64 * u64::from(header.room_for_sections);
    header.version[0] == 0 && header.version[1] >= 1 && header.is_plausible() && start.file_bytes >= least
}

/// Reads a file.
pub(super) fn read(source: &mut SourceFile<'_>) -> Result<Initial, SplatError> {
    let mut bytes = vec![0; HEADER_BYTES];
    source.read_exact(&mut bytes)?;
    let header = Header::parse(&bytes);
    if header.version != [0, 1] {
        let [major, minor] = header.version;
        return Err(source.damaged_error(
            "header",
            "unknown version of a .ksplat",
            "0.1",
            format!("{major}.{minor}"),
        ));
    }
    let mut sections = Vec::new();
    let mut begin = (HEADER_BYTES + SECTION_HEADER_BYTES * header.room_for_sections as usize) as u64;
    let mut degree = 0;
    bytes.resize(SECTION_HEADER_BYTES, 0);
    for index in 0..header.room_for_sections {
        source.read_exact(&mut bytes)?;
        let (section, [stored_degree, bucket_bytes]) = Section::parse(&bytes, header.level);
        let place = format!("section {index}");
        if stored_degree > u16::from(sh::MAX_DEGREE) {
            return Err(source.damaged_error(place, "unknown SH degree", "0..3", stored_degree.to_string()));
        }
        if usize::from(bucket_bytes) != BUCKET_BYTES && section.buckets > 0 {
            return Err(source.damaged_error(
                place,
                "unknown kind of buckets",
                "12 bytes",
                format!("{bucket_bytes} bytes"),
            ));
        }
        if section.splats > section.room {
            let expected = format!("at most {}", section.room);
            return Err(source.damaged_error(
                place,
                "more splats than its capacity",
                expected,
                section.splats.to_string(),
            ));
        }
        let splat_bytes = SplatLayout::new(header.level, section.sh_degree).splat as u64;
        let end =
            begin.saturating_add(section.bucket_table_bytes()).saturating_add(section.room * splat_bytes);
        if end > source.bytes {
            let (expected, found) = (format!("{end} bytes"), format!("{} bytes", source.bytes));
            return Err(source.damaged_error(
                place,
                "the file is truncated or its header is wrong",
                expected,
                found,
            ));
        }
        degree = degree.max(section.sh_degree);
        sections.push((begin, section));
        begin = end;
    }
    let count = sections.iter().map(|(_, section)| section.splats).sum();
    let mut splats = SplatCollector::new(degree, count, source.memory)?;
    let logits = values::byte_logits(EXTREME_LOGIT);
    for (index, (begin, section)) in sections.iter().enumerate() {
        source.stream.seek(SeekFrom::Start(*begin)).map_err(|error| source.io(error))?;
        let layout = SplatLayout::new(header.level, section.sh_degree);
        let mut reader = SectionReader {
            header: &header,
            section,
            layout,
            logits: &logits,
            row: vec![0.0; row_values(degree)],
        };
        reader.read(source, index, &mut splats)?;
    }
    let mut document = splats.into_document(Format::Ksplat);
    if begin < source.bytes {
        let more = source.bytes - begin;
        document.report.notes.push(format!(
            "end of file: data after the last section was ignored (expected none, found {more} bytes)"
        ));
    }
    Ok(Initial::Splats(SplatFile { version: Some(format!("0.1, level {}", header.level)), ..document }))
}

/// Sizes of the parts of a splat, bytes.
#[derive(Clone, Copy)]
struct SplatLayout {
    level: u16,
    /// Bytes per SH coefficient and channel.
    sh: usize,
    splat: usize,
    sh_degree: u8,
}

impl SplatLayout {
    fn new(level: u16, sh_degree: u8) -> Self {
        let (geometry, sh_bytes) = match level {
            0 => (12 + 12 + 16, 4),
            1 => (6 + 6 + 8, 2),
            _ => (6 + 6 + 8, 1),
        };
        let coefficients = 3 * (sh::coefficients(sh_degree) - 1);
        Self { level, sh: sh_bytes, splat: geometry + 4 + coefficients * sh_bytes, sh_degree }
    }

    /// Offset of the colours.
    const fn colour(self) -> usize {
        if self.level == 0 { 40 } else { 20 }
    }
}

/// Reads the splats of a section.
struct SectionReader<'a> {
    header: &'a Header,
    section: &'a Section,
    layout: SplatLayout,
    logits: &'a [f32; 256],
    row: Vec<f32>,
}

impl SectionReader<'_> {
    fn read(
        &mut self,
        source: &mut SourceFile<'_>,
        index: usize,
        splats: &mut SplatCollector,
    ) -> Result<(), SplatError> {
        let section = self.section;
        let mut table = source.memory.vec_with_capacity(section.bucket_table_bytes())?;
        table.resize(section.bucket_table_bytes() as usize, 0);
        source.read_exact(&mut table)?;
        let (sizes, centres) =
            table.split_at_checked(4 * section.partial_buckets as usize).unwrap_or_default();
        let sizes = sizes.as_chunks::<4>().0.iter().map(|b| u64::from(u32::from_le_bytes(*b)));
        let is_packed = self.layout.level > 0;
        let in_full = section.full_buckets.saturating_mul(section.bucket_splats);
        let in_partial = sizes.clone().fold(0, u64::saturating_add);
        if is_packed && in_full.saturating_add(in_partial) < section.splats {
            let found = in_full.saturating_add(in_partial).to_string();
            let place = format!("section {index}");
            return Err(source.damaged_error(
                place,
                "buckets with too few splats",
                section.splats.to_string(),
                found,
            ));
        }
        // Bucket of the next splat, and the number of splats left in it.
        let full = std::iter::repeat_n(
            section.bucket_splats,
            if is_packed { section.full_buckets as usize } else { 0 },
        );
        let mut buckets = full.chain(sizes).zip(centres.as_chunks::<BUCKET_BYTES>().0);
        let (mut left_in_bucket, mut centre) = (0, [0.0; 3]);
        let (mut left, mut block) = (section.splats, Vec::new());
        while left > 0 {
            let count = left.min(BLOCK_SPLATS);
            block.resize(count as usize * self.layout.splat, 0);
            source.read_exact(&mut block)?;
            for bytes in block.chunks_exact(self.layout.splat) {
                while is_packed && left_in_bucket == 0 {
                    let Some((size, bytes)) = buckets.next() else {
                        let (expected, found) = (section.splats.to_string(), section.buckets.to_string());
                        return Err(source.damaged_error(
                            format!("section {index}"),
                            "too few buckets",
                            expected,
                            found,
                        ));
                    };
                    (left_in_bucket, centre) = (size, [0, 4, 8].map(|at| HeaderFields(bytes).f32(at)));
                }
                left_in_bucket = left_in_bucket.saturating_sub(1);
                self.splat(bytes, centre);
                splats.push(&mut self.row);
            }
            left -= count;
        }
        source.memory.release(section.bucket_table_bytes());
        Ok(())
    }

    /// Decodes a splat into the row.
    fn splat(&mut self, bytes: &[u8], centre: [f32; 3]) {
        let numbers = HeaderFields(bytes);
        let (layout, section) = (self.layout, self.section);
        let half = |at: usize| values::from_half(numbers.u16(at));
        let (mean, scale, quat) = if layout.level == 0 {
            let float = |k: usize| numbers.f32(4 * k);
            ([0, 1, 2].map(float), [3, 4, 5].map(float), [6, 7, 8, 9].map(float))
        } else {
            let step = section.bucket_width / 2.0 / section.range;
            let mut centre = centre.into_iter();
            let mean = [0, 2, 4].map(|at| {
                (f32::from(numbers.u16(at)) - section.range) * step + centre.next().unwrap_or_default()
            });
            (mean, [6, 8, 10].map(half), [12, 14, 16, 18].map(half))
        };
        let [red, green, blue, opacity] = numbers.bytes(layout.colour());
        let logit = self.logits.get(usize::from(opacity)).copied().unwrap_or_default();
        let log_scale = scale.map(|v| libm::log(f64::from(v)) as f32);
        let dc = [red, green, blue].map(|c| sh::dc_from_colour(f32::from(c) / 255.0));
        let geometry = mean.into_iter().chain(log_scale).chain(quat).chain([logit]).chain(dc);
        let filled = row_values(0);
        self.row.iter_mut().zip(geometry).for_each(|(out, v)| *out = v);

        let rest = self.row.get_mut(filled..).unwrap_or_default();
        rest.fill(0.0);
        let begin = layout.colour() + 4;
        let [low, high] = self.header.sh_range;
        for degree in 1..=usize::from(layout.sh_degree) {
            let (first, size) = (degree * degree - 1, 2 * degree + 1);
            for k in 0..3 * size {
                // Channel-major within the degree; coefficient-major in the row.
                let at = begin + (3 * first + k) * layout.sh;
                let value = match layout.level {
                    0 => numbers.f32(at),
                    1 => half(at),
                    _ => low + (high - low) * f32::from(numbers.bytes::<1>(at)[0]) / 255.0,
                };
                let place = 3 * (first + k % size) + k / size;
                if let Some(out) = rest.get_mut(place) {
                    *out = value;
                }
            }
        }
    }
}
