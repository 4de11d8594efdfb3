//! Reads SPZ files. The possible number of splats is limited by the compression: gzip expands a byte to at most 1032,
//! zstd is not limited, but version 4 stores the length of each block. Memory for everything is accounted for before
//! decompression.
#![deny(clippy::indexing_slicing, reason = "what comes from outside is never an index")]

use std::f64::consts::FRAC_1_SQRT_2;
use std::io::{ErrorKind, Read, SeekFrom};

use flate2::bufread::GzDecoder;
use gausset_core::sh;
use ruzstd::decoding::StreamingDecoder;

use super::{
    ANTIALIASED, AS_IS, AXES_EXTENSION, BLOCKS, COLOUR_SCALE, EXTENSIONS, HEADER_BYTES, HEADER_BYTES_4,
    LEAST_LOG_SCALE, MAGIC, METADATA_EXTENSION, SCALE_STEPS, SpzAxes, axes_from_number, block_bytes,
};
use crate::splat::axes::Axes;
use crate::splat::format::FileStart;
use crate::splat::memory::MemoryAccount;
use crate::splat::metadata;
use crate::splat::source::{SeekableRead, SourceFile};
use crate::splat::usable::{SplatCollector, row_values};
use crate::splat::values::{self, EXTREME_LOGIT};
use crate::splat::{Format, Initial, SplatError, SplatFile};

/// Largest size of all extensions, bytes.
const MAX_EXTENSION_BYTES: u64 = 1 << 20;
/// Largest number of extensions with a note.
const MAX_NOTES: usize = 16;
/// Splats whose SH is decoded at once.
const CHUNK_SPLATS: usize = 1 << 12;
/// Largest number of fractional bits of a position.
const MAX_FRACTIONAL_BITS: u8 = 23;
/// Window of a zstd frame that is always allowed, independently of its content size.
const SMALL_WINDOW: u64 = 8 << 20;
/// Largest expansion of a byte by gzip (RFC 1951: 258 bytes from two bits).
const GZIP_RATIO: u64 = 1032;

/// Detects the magic number, uncompressed (version 4) or as gzip.
pub(in crate::splat) fn sniff(start: &FileStart) -> bool {
    start.bytes.starts_with(MAGIC) || start.bytes.starts_with(&[0x1f, 0x8b])
}

/// Fields of the header.
#[derive(Clone, Copy, Debug)]
struct Header {
    version: u32,
    count: u32,
    sh_degree: u8,
    fractional_bits: u8,
    flags: u8,
    streams: u8,
}

impl Header {
    fn parse(bytes: &[u8; HEADER_BYTES]) -> Option<Self> {
        let [m0, m1, m2, m3, v0, v1, v2, v3, c0, c1, c2, c3, sh_degree, fractional_bits, flags, streams] =
            *bytes;
        let (version, count) = (u32::from_le_bytes([v0, v1, v2, v3]), u32::from_le_bytes([c0, c1, c2, c3]));
        let header = Self { version, count, sh_degree, fractional_bits, flags, streams };
        ([m0, m1, m2, m3] == *MAGIC).then_some(header)
    }

    /// Checks that the values are valid.
    fn check(&self, source: &SourceFile<'_>) -> Result<(), SplatError> {
        if self.sh_degree > 4 {
            return Err(source.damaged_error(
                "header",
                "unknown SH degree",
                "0..4",
                self.sh_degree.to_string(),
            ));
        }
        if self.version > 1 && self.fractional_bits > MAX_FRACTIONAL_BITS {
            let found = self.fractional_bits.to_string();
            return Err(source.damaged_error("header", "too many fractional bits", "0..23", found));
        }
        Ok(())
    }

    /// Fails if more splats are announced than the decompressed bytes can hold.
    fn check_count(&self, unpacked: u64, source: &SourceFile<'_>) -> Result<(), SplatError> {
        let splat: u64 = block_bytes(self.version, self.sh_degree).iter().sum();
        let most = unpacked / splat;
        if u64::from(self.count) <= most {
            return Ok(());
        }
        let expected = format!("at most {most} in {} bytes", source.bytes);
        let what = "more splats than the file can hold";
        Err(source.damaged_error("header", what, expected, self.count.to_string()))
    }
}

/// Content of the extensions.
#[derive(Default)]
struct Extensions {
    axes: Option<u32>,
    facts: String,
    notes: Vec<String>,
}

/// Reads a file.
pub(in crate::splat) fn read(source: &mut SourceFile<'_>) -> Result<Initial, SplatError> {
    let mut start = [0; HEADER_BYTES];
    if source.bytes < HEADER_BYTES as u64 {
        let found = format!("{} bytes", source.bytes);
        return Err(source.damaged_error("header", "the file is too short", "a header", found));
    }
    source.read_exact(&mut start)?;
    match Header::parse(&start) {
        Some(header) if header.version == 4 => read_zstd(source, header),
        Some(header) => {
            let found = format!("version {}", header.version);
            let expected = "version 4, or gzip around versions 1 to 3";
            Err(source.damaged_error("header", "an SPZ that is not compressed", expected, found))
        }
        None => read_gzip(source),
    }
}

/// Reads versions 1 to 3.
fn read_gzip(source: &mut SourceFile<'_>) -> Result<Initial, SplatError> {
    source.stream.seek(SeekFrom::Start(0)).map_err(|error| source.io(error))?;
    // The stream is borrowed by the decoder, the other fields by messages.
    let SourceFile { stream, bytes, path, options, folder, memory } = source;
    let mut nothing = std::io::empty();
    let about = SourceFile { stream: &mut nothing, bytes: *bytes, path, options, folder: *folder, memory };
    let mut gzip = GzDecoder::new(&mut **stream as &mut dyn SeekableRead);
    let mut start = [0; HEADER_BYTES];
    gzip.read_exact(&mut start).map_err(|error| stream_error(&about, "header", "gzip", &error))?;
    let Some(header) = Header::parse(&start) else {
        let found = start.escape_ascii().to_string();
        return Err(about.damaged_error(
            "header",
            "a gzip file, but not an SPZ",
            "it to begin with NGSP",
            found,
        ));
    };
    if !(1..=3).contains(&header.version) {
        let found = header.version.to_string();
        return Err(about.damaged_error("header", "unknown version of a gzip SPZ", "1, 2 or 3", found));
    }
    header.check(&about)?;
    header.check_count(bytes.saturating_mul(GZIP_RATIO), &about)?;
    let mut reader = BlockReader { about: &about, header, packer: "gzip" };
    let mut decoder = Decoder::new(header, memory)?;
    for (block, bytes) in block_bytes(header.version, header.sh_degree).into_iter().enumerate() {
        reader.block(block, bytes, &mut gzip, &mut decoder)?;
    }
    let mut extensions = Extensions::default();
    if header.flags & EXTENSIONS != 0 {
        let mut bytes = memory.vec_with_capacity(MAX_EXTENSION_BYTES)?;
        let read = gzip.by_ref().take(MAX_EXTENSION_BYTES).read_to_end(&mut bytes);
        read.map_err(|error| stream_error(&about, "extensions", "gzip", &error))?;
        extensions = Extensions::parse(&bytes, &about)?;
    } else {
        extensions.check_end(&mut gzip, &about)?;
    }
    decoder.finish(extensions, &about)
}

/// Reads version 4.
fn read_zstd(source: &mut SourceFile<'_>, header: Header) -> Result<Initial, SplatError> {
    header.check(source)?;
    let mut rest = [0; HEADER_BYTES_4 - HEADER_BYTES];
    if source.bytes < HEADER_BYTES_4 as u64 {
        let found = format!("{} bytes", source.bytes);
        return Err(source.damaged_error("header", "the file is too short", "32 bytes", found));
    }
    source.read_exact(&mut rest)?;
    let [o0, o1, o2, o3, ..] = rest;
    let table = u64::from(u32::from_le_bytes([o0, o1, o2, o3]));
    let streams = if header.sh_degree == 0 { 5..=6 } else { 6..=6 };
    if !streams.contains(&header.streams) {
        let expected = if header.sh_degree == 0 { "5" } else { "6" };
        return Err(source.damaged_error(
            "header",
            "not a stream for each block",
            expected,
            header.streams.to_string(),
        ));
    }
    let frames = table.saturating_add(16 * u64::from(header.streams));
    if table < HEADER_BYTES_4 as u64
        || table - HEADER_BYTES_4 as u64 > MAX_EXTENSION_BYTES
        || frames > source.bytes
    {
        let expected = format!("an offset of 32 or more in {} bytes", source.bytes);
        return Err(source.damaged_error(
            "header",
            "the table of streams is not in the file",
            expected,
            table.to_string(),
        ));
    }
    let extension_bytes = table - HEADER_BYTES_4 as u64;
    let mut bytes = source.memory.vec_with_capacity(extension_bytes)?;
    bytes.resize(extension_bytes as usize, 0);
    source.read_exact(&mut bytes)?;
    let extensions = match header.flags & EXTENSIONS {
        0 => Extensions::default(),
        _ => Extensions::parse(&bytes, source)?,
    };

    let (mut begin, mut places) = (frames, Vec::new());
    let promised = block_bytes(header.version, header.sh_degree).map(|bytes| bytes * u64::from(header.count));
    for (name, promised) in BLOCKS.iter().zip(promised).take(usize::from(header.streams)) {
        let mut entry = [0; 16];
        source.read_exact(&mut entry)?;
        let number = |from: usize| {
            entry.get(from..).and_then(|b| b.first_chunk()).map_or(0, |b| u64::from_le_bytes(*b))
        };
        let (packed, plain) = (number(0), number(8));
        if plain != promised {
            let expected = format!("{promised} bytes");
            return Err(source.damaged_error(
                *name,
                "not as long as the header promises",
                expected,
                format!("{plain} bytes"),
            ));
        }
        places.push([begin, packed]);
        begin = begin.saturating_add(packed);
    }
    if begin != source.bytes {
        let what = if source.bytes < begin {
            "the file is truncated or its header is wrong"
        } else {
            "the streams do not end with the file"
        };
        let [expected, found] = [begin, source.bytes].map(|bytes| format!("{bytes} bytes"));
        return Err(source.damaged_error("table of streams", what, expected, found));
    }
    read_frames(source, header, &places, extensions)
}

/// Reads the frames of version 4, given their offsets and lengths.
fn read_frames(
    source: &mut SourceFile<'_>,
    header: Header,
    places: &[[u64; 2]],
    extensions: Extensions,
) -> Result<Initial, SplatError> {
    let mut decoder = Decoder::new(header, source.memory)?;
    let SourceFile { stream, bytes, path, options, folder, memory } = source;
    let mut nothing = std::io::empty();
    let about = SourceFile { stream: &mut nothing, bytes: *bytes, path, options, folder: *folder, memory };
    let mut reader = BlockReader { about: &about, header, packer: "zstd" };
    let promised = block_bytes(header.version, header.sh_degree);
    for (block, (bytes, name)) in promised.into_iter().zip(BLOCKS).enumerate() {
        let Some(&[begin, packed]) = places.get(block).filter(|[_, packed]| *packed > 0) else {
            reader.block(block, bytes, &mut std::io::empty(), &mut decoder)?;
            continue;
        };
        stream.seek(SeekFrom::Start(begin)).map_err(|error| about.io(error))?;
        let mut frame = (&mut **stream).take(packed);
        let window = window_bytes(&mut frame).map_err(|error| stream_error(&about, name, "zstd", &error))?;
        if window > SMALL_WINDOW.max(bytes * u64::from(header.count)) {
            let expected = format!("a window of at most {SMALL_WINDOW} bytes");
            return Err(about.damaged_error(
                name,
                "zstd requires too much memory",
                expected,
                format!("{window} bytes"),
            ));
        }
        // The decoder's ring buffer is rounded up to a power of two.
        memory.reserve(2 * window)?;
        stream.seek(SeekFrom::Start(begin)).map_err(|error| about.io(error))?;
        let frame = (&mut **stream).take(packed);
        let mut frame = StreamingDecoder::new_with_max_window_size(frame, window).map_err(|error| {
            stream_error(
                &about,
                name,
                "zstd",
                &std::io::Error::new(ErrorKind::InvalidData, error.to_string()),
            )
        })?;
        reader.block(block, bytes, &mut frame, &mut decoder)?;
        let mut more = [0];
        let surplus = frame.read(&mut more).map_err(|error| stream_error(&about, name, "zstd", &error))?;
        if surplus > 0 {
            return Err(about.damaged_error(
                name,
                "longer than the table promises",
                "the end of the stream",
                "more bytes",
            ));
        }
        memory.release(2 * window);
    }
    decoder.finish(extensions, &about)
}

/// Window size that a zstd frame requires (RFC 8878, 3.1.1.1).
fn window_bytes(frame: &mut dyn Read) -> std::io::Result<u64> {
    let mut start = [0; 6];
    frame.read_exact(&mut start)?;
    let [_, _, _, _, descriptor, window] = start;
    if descriptor & 0x20 != 0 {
        // A single segment: its window is its content size, which follows.
        let bytes = [1, 2, 4, 8].get(usize::from(descriptor >> 6)).copied().unwrap_or(8);
        let mut length = [window, 0, 0, 0, 0, 0, 0, 0];
        frame.read_exact(length.get_mut(1..bytes).unwrap_or_default())?;
        let dictionary = [0, 1, 2, 4].get(usize::from(descriptor & 3)).copied().unwrap_or(0);
        if dictionary > 0 {
            return Ok(u64::MAX);
        }
        return Ok(u64::from_le_bytes(length) + if bytes == 2 { 256 } else { 0 });
    }
    let base = 1u64 << (10 + u32::from(window >> 3));
    Ok(base + base / 8 * u64::from(window & 7))
}

/// Error for a stream that cannot be decompressed.
fn stream_error(about: &SourceFile<'_>, place: &str, packer: &str, error: &std::io::Error) -> SplatError {
    let found = match error.kind() {
        ErrorKind::UnexpectedEof => "the end of the file".to_owned(),
        _ => crate::text::quote(&error.to_string()),
    };
    about.damaged_error(place, "cannot be decompressed", format!("a whole {packer} stream"), found)
}

/// Reads blocks and passes them to the decoder.
struct BlockReader<'a> {
    about: &'a SourceFile<'a>,
    header: Header,
    packer: &'static str,
}

impl BlockReader<'_> {
    /// Reads a block with `bytes` bytes per splat.
    fn block(
        &mut self,
        block: usize,
        bytes: u64,
        from: &mut dyn Read,
        to: &mut Decoder,
    ) -> Result<(), SplatError> {
        let name = BLOCKS.get(block).copied().unwrap_or_default();
        let count = u64::from(self.header.count);
        if let Some(raw) = to.raw.get_mut(block) {
            let read = from.take(bytes * count).read_to_end(raw);
            read.map_err(|error| stream_error(self.about, name, self.packer, &error))?;
            if raw.len() as u64 != bytes * count {
                return Err(stream_error(self.about, name, self.packer, &ErrorKind::UnexpectedEof.into()));
            }
            return Ok(());
        }
        let mut chunk = Vec::new();
        let mut done = 0;
        while done < count {
            let splats = (count - done).min(CHUNK_SPLATS as u64);
            chunk.resize((splats * bytes) as usize, 0);
            from.read_exact(&mut chunk)
                .map_err(|error| stream_error(self.about, name, self.packer, &error))?;
            let mut rows = chunk.chunks_exact((bytes as usize).max(1));
            (done..done + splats).for_each(|i| to.splat(i as usize, rows.next().unwrap_or_default()));
            done += splats;
        }
        Ok(())
    }
}

/// Converts bytes to splats.
struct Decoder {
    header: Header,
    /// The blocks before SH.
    raw: [Vec<u8>; 5],
    logits: [f32; 256],
    row: Vec<f32>,
    splats: SplatCollector,
}

impl Decoder {
    /// Fails before decompression if the splats exceed the memory limit.
    fn new(header: Header, memory: &MemoryAccount<'_>) -> Result<Self, SplatError> {
        let (degree, count) = (header.sh_degree.min(sh::MAX_DEGREE), u64::from(header.count));
        let splats = SplatCollector::new(degree, count, memory)?;
        let mut raw: [Vec<u8>; 5] = Default::default();
        for (raw, bytes) in raw.iter_mut().zip(block_bytes(header.version, header.sh_degree)) {
            *raw = memory.vec_with_capacity(bytes * count)?;
        }
        let (logits, row) = (values::byte_logits(EXTREME_LOGIT), vec![0.0; row_values(degree)]);
        Ok(Self { header, raw, logits, row, splats })
    }

    fn splat(&mut self, i: usize, rest: &[u8]) {
        let [positions, opacities, colours, scales, rotations] = &self.raw;
        let mean = if self.header.version == 1 {
            let halves = positions.get(6 * i..).unwrap_or_default().as_chunks::<2>().0;
            three(halves, |&half| values::from_half(u16::from_le_bytes(half)))
        } else {
            let step = 1.0 / f64::from(1u32 << self.header.fractional_bits);
            three(positions.get(9 * i..).unwrap_or_default().as_chunks::<3>().0, |&[a, b, c]| {
                // The sign comes from the highest byte.
                let whole = i32::from_le_bytes([0, a, b, c]) >> 8;
                (f64::from(whole) * step) as f32
            })
        };
        let log_scale = three(scales.get(3 * i..).unwrap_or_default(), |&b| {
            (f64::from(b) / SCALE_STEPS + LEAST_LOG_SCALE) as f32
        });
        let dc = three(colours.get(3 * i..).unwrap_or_default(), |&b| {
            ((f64::from(b) / 255.0 - 0.5) / COLOUR_SCALE) as f32
        });
        let opacity = opacities.get(i).copied().unwrap_or_default();
        let logit = self.logits.get(usize::from(opacity)).copied().unwrap_or_default();
        let quat = match self.header.version {
            1 | 2 => quaternion_v2(three(rotations.get(3 * i..).unwrap_or_default(), |&b| {
                f32::from(b) / 127.5 - 1.0
            })),
            _ => quaternion_v3(
                rotations.get(4 * i..).and_then(|b| b.first_chunk()).map_or(0, |b| u32::from_le_bytes(*b)),
            ),
        };
        let ([x, y, z], [sx, sy, sz], [qw, qx, qy, qz], [r, g, b]) = (mean, log_scale, quat, dc);
        if let Some((geometry, out)) = self.row.split_first_chunk_mut::<14>() {
            *geometry = [x, y, z, sx, sy, sz, qw, qx, qy, qz, logit, r, g, b];
            out.iter_mut().zip(rest).for_each(|(out, &b)| *out = (f32::from(b) - 128.0) / 128.0);
        }
        self.splats.push(&mut self.row);
    }

    fn finish(self, extensions: Extensions, about: &SourceFile<'_>) -> Result<Initial, SplatError> {
        let mut document = self.splats.into_document(Format::Spz);
        document.set_stored_degree(self.header.sh_degree);
        let (axes, frame) = match (extensions.axes.and_then(axes_from_number), about.options.spz_frame) {
            (Some((name, axes)), _) => (axes, format!("{name}, as the file says")),
            (None, Some(SpzAxes::Rub)) => (Axes::RUB, "RUB, as requested".to_owned()),
            (None, Some(SpzAxes::AsIs)) => (Axes::TRAINING, AS_IS.to_owned()),
            (None, None) => (Axes::TRAINING, "as is (assumed; the file does not specify them)".to_owned()),
        };
        axes.apply(&mut document.splats);
        document.report.notes.extend(extensions.notes);
        let document = SplatFile {
            antialiased: self.header.flags & ANTIALIASED != 0,
            version: Some(self.header.version.to_string()),
            frame: Some(frame),
            ..document
        };
        Ok(Initial::Splats(metadata::apply_metadata(document, extensions.facts.lines())))
    }
}

/// Applies a function to the first three values; zeros if there are fewer.
fn three<T>(values: &[T], f: impl Fn(&T) -> f32) -> [f32; 3] {
    let mut values = values.iter();
    std::array::from_fn(|_| values.next().map_or(0.0, &f))
}

/// Decodes the quaternion of versions 1 and 2.
fn quaternion_v2([x, y, z]: [f32; 3]) -> [f32; 4] {
    [(1.0 - (x * x + y * y + z * z)).max(0.0).sqrt(), x, y, z]
}

/// Decodes the quaternion `wxyz` of versions 3 and 4.
fn quaternion_v3(word: u32) -> [f32; 4] {
    let part = |shift: u32| {
        let magnitude = f64::from(word >> shift & 511) / 511.0 * FRAC_1_SQRT_2;
        if word >> shift & 512 != 0 { -magnitude } else { magnitude }
    };
    let [x, y, z, w] = values::from_smallest_three((word >> 30) as usize, [20, 10, 0].map(part));
    [w, x, y, z]
}

impl Extensions {
    /// Parses records of u32 type, u32 length, content.
    fn parse(mut bytes: &[u8], about: &SourceFile<'_>) -> Result<Self, SplatError> {
        let mut extensions = Self::default();
        while let Some((head, rest)) = bytes.split_first_chunk::<8>() {
            let [t0, t1, t2, t3, l0, l1, l2, l3] = *head;
            let kind = u32::from_le_bytes([t0, t1, t2, t3]);
            let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
            let Some((content, after)) = rest.split_at_checked(length) else {
                let found = format!("{} bytes", rest.len());
                return Err(about.damaged_error(
                    "extensions",
                    "an extension is truncated",
                    format!("{length} bytes"),
                    found,
                ));
            };
            bytes = after;
            extensions.add(kind, content);
        }
        if !bytes.is_empty() {
            let found = format!("{} bytes", bytes.len());
            return Err(about.damaged_error("extensions", "data after the last one", "none", found));
        }
        Ok(extensions)
    }

    fn add(&mut self, kind: u32, content: &[u8]) {
        let place = format!("extension {kind:#010x}");
        if kind == AXES_EXTENSION {
            match content.first_chunk().map(|b| u32::from_le_bytes(*b)) {
                Some(axes) if axes_from_number(axes).is_some() => self.axes = Some(axes),
                _ if self.notes.len() >= MAX_NOTES => {}
                other => self.notes.push(format!(
                    "{place}: does not specify axes, and was ignored (expected 1..16, found {})",
                    other.map_or("nothing".to_owned(), |axes| axes.to_string())
                )),
            }
            return;
        }
        if kind == METADATA_EXTENSION {
            self.facts = String::from_utf8_lossy(content).into_owned();
            return;
        }
        // Adobe's safe orbit concerns only cameras; other extensions of that vendor may change the meaning of the
        // values.
        let what = match kind >> 16 {
            0xadbe if kind & 0xffff == 2 => return,
            0xadbe => "unknown, from a vendor whose extensions can change the axes: the scene may be rotated",
            _ => "unknown, and was ignored",
        };
        if self.notes.len() >= MAX_NOTES {
            return;
        }
        self.notes.push(format!(
            "{place}: {what} (expected 0xadbe0002 or 0xadbe0003, found {} bytes)",
            content.len()
        ));
    }

    /// Adds a note if there is data after the blocks.
    fn check_end(&mut self, from: &mut dyn Read, about: &SourceFile<'_>) -> Result<(), SplatError> {
        let mut more = [0];
        if from.read(&mut more).map_err(|error| stream_error(about, "end", "gzip", &error))? > 0 {
            self.notes.push(
                "end of file: data after the last block was ignored (expected none, found some)".to_owned(),
            );
        }
        Ok(())
    }
}
