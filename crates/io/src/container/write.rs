//! Writes containers as a stream.

use std::io::{self, Write};

use serde_json::Value;
use xxhash_rust::xxh3::xxh3_64;

use super::{
    END_MARK, ENTRY_BYTES, Element, FLAG_REQUIRED, FOOTER_BYTES, FORMAT_VERSION, MAGIC, MAX_HEADER_BYTES,
    MAX_SECTIONS, PREAMBLE_BYTES, Requirement,
};

/// Streams a container to a writer.
///
/// ```
/// use gausset_io::container::{ContainerReader, ContainerWriter, Requirement};
///
/// let mut writer = ContainerWriter::new(Vec::new(), &serde_json::json!({ "kind": "example" }))?;
/// writer.section("values", Requirement::Required, &[1.0f32, 2.0])?;
/// let bytes = writer.finish()?;
/// let mut file = ContainerReader::from_source(std::io::Cursor::new(bytes), "example".as_ref())?;
/// assert_eq!(file.section::<f32>("values")?, [1.0, 2.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ContainerWriter<W: Write> {
    writer: W,
    /// Bytes written so far.
    offset: u64,
    /// Hash of preamble and header.
    header_hash: u64,
    /// The section table so far.
    table: Vec<u8>,
    names: Vec<String>,
}

impl<W: Write> ContainerWriter<W> {
    /// Starts a container.
    ///
    /// # Errors
    /// The writer failed, or the header is larger than [`MAX_HEADER_BYTES`].
    pub fn new(mut writer: W, header: &Value) -> io::Result<Self> {
        let json = serde_json::to_vec(header)?;
        if json.len() > MAX_HEADER_BYTES {
            return Err(bad_input(format!(
                "header is too large (expected at most {MAX_HEADER_BYTES} bytes, found {})",
                json.len()
            )));
        }
        let mut start = Vec::with_capacity(PREAMBLE_BYTES + json.len());
        start.extend_from_slice(&MAGIC);
        start.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        start.extend_from_slice(&0u32.to_le_bytes());
        start.extend_from_slice(&(json.len() as u32).to_le_bytes());
        start.extend_from_slice(&0u32.to_le_bytes());
        start.extend_from_slice(&json);
        writer.write_all(&start)?;
        Ok(Self {
            writer,
            offset: start.len() as u64,
            header_hash: xxh3_64(&start),
            table: Vec::new(),
            names: Vec::new(),
        })
    }

    /// Appends a section.
    ///
    /// # Errors
    /// The writer failed, the name is empty, longer than 255 bytes or a duplicate, or there are more than
    /// [`MAX_SECTIONS`].
    pub fn section<T: Element>(&mut self, name: &str, need: Requirement, values: &[T]) -> io::Result<()> {
        let Ok(name_bytes @ 1..) = u8::try_from(name.len()) else {
            return Err(bad_input(format!("section name has {} bytes (expected 1..255)", name.len())));
        };
        if self.names.iter().any(|used| used == name) || self.names.len() == MAX_SECTIONS {
            return Err(bad_input(format!(
                "section {name} is a duplicate or exceeds the limit of {MAX_SECTIONS}"
            )));
        }
        let data: &[u8] = bytemuck::cast_slice(values);
        self.writer.write_all(data)?;
        self.table.reserve(ENTRY_BYTES + name.len());
        self.table.push(name_bytes);
        self.table.extend_from_slice(name.as_bytes());
        self.table.push(T::KIND as u8);
        self.table.push(if need == Requirement::Required { FLAG_REQUIRED } else { 0 });
        self.table.extend_from_slice(&self.offset.to_le_bytes());
        self.table.extend_from_slice(&(data.len() as u64).to_le_bytes());
        self.table.extend_from_slice(&xxh3_64(data).to_le_bytes());
        self.names.push(name.to_owned());
        self.offset += data.len() as u64;
        Ok(())
    }

    /// Writes table and footer and returns the writer.
    ///
    /// # Errors
    /// The writer failed.
    pub fn finish(mut self) -> io::Result<W> {
        self.writer.write_all(&self.table)?;
        let total = self.offset + (self.table.len() + FOOTER_BYTES) as u64;
        let mut footer = Vec::with_capacity(FOOTER_BYTES);
        for word in [self.offset, self.table.len() as u64, total, self.header_hash, xxh3_64(&self.table)] {
            footer.extend_from_slice(&word.to_le_bytes());
        }
        footer.extend_from_slice(&xxh3_64(&footer).to_le_bytes());
        footer.extend_from_slice(&END_MARK);
        self.writer.write_all(&footer)?;
        Ok(self.writer)
    }
}

fn bad_input(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}
