//! A file of checksummed sections, in which checkpoints are stored. Little-endian, no padding.
//!
//! ```text
//! preamble  magic "GAUSSETC" | format version u32 | required flags u32 | header bytes u32 | 0 u32
//! header    JSON, at most 1 MiB
//! sections  raw data, one after the other
//! table     per section: name bytes u8 | name | kind u8 | flags u8 | offset u64 | bytes u64 | xxh3 of the data u64
//! footer    table offset u64 | table bytes u64 | total bytes u64 | xxh3 of preamble and header u64
//!           | xxh3 of the table u64 | xxh3 of the footer so far u64 | end mark "GSETCEND"
//! ```
//! The table is at the end, so that sections can be streamed without buffering or counting them first. Every byte is
//! covered by exactly one hash or compared with its only valid value, and the parts must follow each other without
//! gaps: any flipped bit, truncation or appended byte is detected.
//!
//! A reader may skip unknown sections unless they are marked [`Requirement::Required`]. It refuses unknown versions and flags.

mod read;
mod write;

use std::path::PathBuf;

pub use read::ContainerReader;
pub use write::ContainerWriter;

#[cfg(target_endian = "big")]
compile_error!("sections are copied between memory and file as they are: a little-endian target is needed");

/// First bytes of every container.
pub const MAGIC: [u8; 8] = *b"GAUSSETC";
/// Last bytes of every container.
pub const END_MARK: [u8; 8] = *b"GSETCEND";
/// Format version that is written, and the only one that is read.
pub const FORMAT_VERSION: u32 = 1;
/// Largest header in bytes.
pub const MAX_HEADER_BYTES: usize = 1 << 20;
/// Largest number of sections.
pub const MAX_SECTIONS: usize = 4096;

/// Bytes of the preamble.
const PREAMBLE_BYTES: usize = 24;
/// Bytes of the footer.
const FOOTER_BYTES: usize = 56;
/// Bytes of a table entry without its name.
const ENTRY_BYTES: usize = 27;
/// Section flag: a reader that does not know the section must refuse the file.
const FLAG_REQUIRED: u8 = 1;

/// Types that a section can contain.
pub trait Element: bytemuck::Pod {
    /// Scalar type that the section table records.
    const KIND: ElementKind;
}

/// Scalar type of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElementKind {
    /// Bytes, 1 per value.
    U8 = 0,
    /// 32-bit floats, 4 bytes per value, little-endian.
    F32 = 1,
    /// 32-bit unsigned integers.
    U32 = 2,
}

impl ElementKind {
    /// Name for messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::U8 => "u8",
            Self::F32 => "f32",
            Self::U32 => "u32",
        }
    }

    const fn from_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::U8),
            1 => Some(Self::F32),
            2 => Some(Self::U32),
            _ => None,
        }
    }
}

impl Element for u8 {
    const KIND: ElementKind = ElementKind::U8;
}
impl Element for u32 {
    const KIND: ElementKind = ElementKind::U32;
}
impl Element for f32 {
    const KIND: ElementKind = ElementKind::F32;
}
impl Element for [f32; 3] {
    const KIND: ElementKind = ElementKind::F32;
}
impl Element for [f32; 4] {
    const KIND: ElementKind = ElementKind::F32;
}

/// Whether a reader may skip a section that it does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requirement {
    /// The reader must refuse the file.
    Required,
    /// The reader may skip the section.
    Optional,
}

/// One section, as the table describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SectionInfo {
    /// Name, unique in the container, 1 to 255 bytes.
    pub name: String,
    /// Scalar type; `None` if this version does not know it.
    pub kind: Option<ElementKind>,
    /// Whether readers must know it.
    pub need: Requirement,
    /// Offset of the data in the file, bytes.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// Hash of the data.
    pub xxh3: u64,
}

/// Why a container cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ContainerError {
    /// A system call failed.
    #[error("{}: {place}: {}", path.display(), crate::atomic::plain_reason(source))]
    Io {
        /// The file of the failed call.
        path: PathBuf,
        /// The part that was being read.
        place: String,
        /// Error of the system.
        source: std::io::Error,
    },
    /// The file does not start like a container.
    #[error("{}: first bytes: not a checkpoint (expected \"GAUSSETC\", found \"{found}\")", path.display())]
    NotAContainer {
        /// The file, which has another magic number.
        path: PathBuf,
        /// Its first bytes, escaped.
        found: String,
    },
    /// The format version is unknown.
    #[error("{}: format version: unknown (expected {FORMAT_VERSION}, found {found}); use the version of gausset that wrote it", path.display())]
    Version {
        /// The file, whose version is not read.
        path: PathBuf,
        /// Version of the format that the file states.
        found: u32,
    },
    /// The file requires a feature that this version does not know.
    #[error("{}: {place}: requires a feature that this version does not know (found {found}); use a newer gausset", path.display())]
    Unsupported {
        /// The file that requires the feature.
        path: PathBuf,
        /// Part of the file.
        place: String,
        /// The flag or section.
        found: String,
    },
    /// A length or an offset is wrong: the file is truncated, or data was appended.
    #[error("{}: {place}: the file is truncated or damaged (expected {expected}, found {found})", path.display())]
    Structure {
        /// The file with the wrong length or offset.
        path: PathBuf,
        /// Part of the file.
        place: String,
        /// The expected value.
        expected: String,
        /// The value found.
        found: String,
    },
    /// Bytes have changed since they were written.
    #[error("{}: {place}: the file is damaged (expected checksum {expected:016x}, found {found:016x})", path.display())]
    Checksum {
        /// The file that has changed.
        path: PathBuf,
        /// Part of the file.
        place: String,
        /// Hash that the file stores: XXH3, 64 bits.
        expected: u64,
        /// Hash of the bytes.
        found: u64,
    },
    /// The header is not JSON.
    #[error("{}: header: not JSON (expected an object, found an error: {found})", path.display())]
    Header {
        /// The file with the invalid header.
        path: PathBuf,
        /// Message of the parser.
        found: String,
    },
    /// A required section is missing or has unexpected content.
    #[error("{}: section \"{name}\": does not fit (expected {expected}, found {found})", path.display())]
    Section {
        /// The file that lacks the content.
        path: PathBuf,
        /// Name of the section.
        name: String,
        /// The expected content.
        expected: String,
        /// The content found.
        found: String,
    },
}
