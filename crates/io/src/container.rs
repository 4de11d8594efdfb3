//! A file of checksummed sections: what checkpoints are stored in. Little-endian, no padding.
//!
//! ```text
//! preamble  magic "GAUSSETC" | format version u32 | required flags u32 | header bytes u32 | section count limit 0 u32
//! header    JSON, at most 1 MiB
//! sections  raw data, one after the other
//! table     per section: name bytes u8 | name | kind u8 | flags u8 | offset u64 | bytes u64 | xxh3 of the data u64
//! footer    table offset u64 | table bytes u64 | sections u32 | 0 u32 | total bytes u64
//!           | xxh3 of preamble and header u64 | xxh3 of the table u64 | xxh3 of the footer so far u64 | end mark "GSETCEND"
//! ```
//! The table stands at the end, so that sections stream to the file without being counted or held first. Every byte
//! lies under exactly one hash or is compared with its only legal value: any flipped bit and any cut is found.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde_json::Value;

/// Why a container cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{}: {place}: {what}", path.display())]
pub struct ContainerError {
    /// The file.
    pub path: PathBuf,
    /// Part of the file: `preamble`, `header`, `section splats.means`, `section table`, `footer`.
    pub place: String,
    /// What is wrong, with what was expected and found.
    pub what: String,
}

/// Values that a section can hold.
pub trait Element: bytemuck::Pod {
    /// Kind of the scalar inside.
    const KIND: ElementKind;
}

/// Scalar type of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElementKind {
    /// Bytes.
    U8 = 0,
    /// 32-bit floats.
    F32 = 1,
    /// 32-bit unsigned integers.
    U32 = 2,
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

/// Whether a reader that does not know a section may go on without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// It must refuse the file.
    Required,
    /// It may skip the section.
    Optional,
}

/// Streams a container to a writer.
pub struct ContainerWriter<W: Write> {
    writer: W,
}

impl<W: Write> ContainerWriter<W> {
    /// Begins a container.
    ///
    /// # Errors
    /// The writer failed; the header is larger than 1 MiB.
    pub fn new(writer: W, header: &Value) -> io::Result<Self> {
        let _ = header;
        Ok(Self { writer })
    }

    /// Appends a section.
    ///
    /// # Errors
    /// The writer failed; a name that is empty, longer than 255 bytes or used already.
    pub fn section<T: Element>(&mut self, name: &str, need: Need, values: &[T]) -> io::Result<()> {
        let _ = (name, need, values);
        unimplemented!()
    }

    /// Writes table and footer and gives the writer back.
    ///
    /// # Errors
    /// The writer failed.
    pub fn finish(self) -> io::Result<W> {
        Ok(self.writer)
    }
}

/// A verified container, open for reading its sections.
pub struct ContainerReader {
    _path: PathBuf,
}

impl ContainerReader {
    /// Opens a container and verifies every byte of it.
    ///
    /// # Errors
    /// A file that is not a container, of an unknown version, cut off or damaged.
    pub fn open(path: &Path) -> Result<Self, ContainerError> {
        let _ = path;
        unimplemented!()
    }

    /// The caller's header.
    #[must_use]
    pub fn header(&self) -> &Value {
        unimplemented!()
    }

    /// Values of a section.
    ///
    /// # Errors
    /// No such section, another kind of values, a file that changed since it was opened.
    pub fn section<T: Element>(&mut self, name: &str) -> Result<Vec<T>, ContainerError> {
        let _ = name;
        unimplemented!()
    }
}
