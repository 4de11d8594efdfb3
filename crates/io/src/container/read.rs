//! Reads containers: every byte is verified before it is used.
#![deny(clippy::indexing_slicing, reason = "what comes from outside is never an index")]

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use serde_json::Value;
use xxhash_rust::xxh3::xxh3_64;

use super::{
    ContainerError, END_MARK, ENTRY_BYTES, Element, ElementKind, FLAG_REQUIRED, FOOTER_BYTES, FORMAT_VERSION,
    MAGIC, MAX_HEADER_BYTES, MAX_SECTIONS, PREAMBLE_BYTES, Requirement, SectionInfo,
};
use crate::input;
use crate::text::quote;

/// A container that is open for reading.
pub struct ContainerReader<R = File> {
    source: R,
    path: PathBuf,
    header: Value,
    sections: Vec<SectionInfo>,
}

impl ContainerReader<File> {
    /// Opens a container and verifies header, table and footer, but not the data of the sections, which
    /// [`ContainerReader::section`] verifies one by one.
    ///
    /// # Errors
    /// The file is not a container, has an unknown version, or is truncated or damaged.
    pub fn open_header(path: &Path) -> Result<Self, ContainerError> {
        let io_error =
            |source| ContainerError::Io { path: path.to_owned(), place: "open".to_owned(), source };
        Self::from_source(input::open(path, input::NO_LIMIT).map_err(io_error)?, path)
    }
}

impl<R: Read + Seek> ContainerReader<R> {
    /// Reads header, table and footer from any source; `path` is for messages.
    ///
    /// # Errors
    /// As [`ContainerReader::open_header`].
    pub fn from_source(mut source: R, path: &Path) -> Result<Self, ContainerError> {
        let parts = PartReader { path };
        let total = source.seek(SeekFrom::End(0)).map_err(|e| parts.io("length", e))?;
        let start: [u8; PREAMBLE_BYTES] =
            parts.read_array(&mut source, "preamble", 0, total.min(PREAMBLE_BYTES as u64))?;
        let mut fields = FieldReader(&start);
        let magic: [u8; 8] = fields.array();
        if magic != MAGIC {
            let found = magic.escape_ascii().to_string();
            return Err(ContainerError::NotAContainer { path: path.to_owned(), found });
        }
        let [version, flags, header_bytes, zero] =
            std::array::from_fn(|_| u32::from_le_bytes(fields.array()));
        let header_bytes = u64::from(header_bytes);
        if version != FORMAT_VERSION {
            return Err(ContainerError::Version { path: path.to_owned(), found: version });
        }
        if flags != 0 {
            return Err(parts.unsupported("required flags", format!("{flags:#x}")));
        }
        let after_header = PREAMBLE_BYTES as u64 + header_bytes;
        if zero != 0 {
            let expected = "0 in its last four bytes".to_owned();
            return Err(parts.structure("preamble", expected, zero.to_string()));
        }
        let largest_header =
            total.saturating_sub((PREAMBLE_BYTES + FOOTER_BYTES) as u64).min(MAX_HEADER_BYTES as u64);
        if header_bytes > largest_header || total < after_header + FOOTER_BYTES as u64 {
            let expected = format!("a header of at most {largest_header} bytes");
            return Err(parts.structure("preamble", expected, header_bytes.to_string()));
        }

        let footer_offset = total - FOOTER_BYTES as u64;
        let footer: [u8; FOOTER_BYTES] =
            parts.read_array(&mut source, "footer", footer_offset, FOOTER_BYTES as u64)?;
        let mut fields = FieldReader(&footer);
        let [table_offset, table_bytes, stored_total, header_hash, table_hash, footer_hash] =
            std::array::from_fn(|_| u64::from_le_bytes(fields.array()));
        let end_mark: [u8; 8] = fields.array();
        if end_mark != END_MARK {
            let found = format!("\"{}\" at byte {}", end_mark.escape_ascii(), total - 8);
            return Err(parts.structure("footer", "the end mark \"GSETCEND\"".to_owned(), found));
        }
        parts.compare_hash("footer", footer_hash, xxh3_64(&footer[..40]))?;
        if stored_total != total {
            return Err(parts.structure("footer", format!("{stored_total} bytes"), format!("{total} bytes")));
        }
        let largest_table = (MAX_SECTIONS * (ENTRY_BYTES + 255)) as u64;
        let table_fits = table_offset >= after_header
            && table_bytes <= largest_table
            && table_offset.checked_add(table_bytes) == Some(footer_offset);
        if !table_fits {
            let found = format!("{table_bytes} bytes at {table_offset}");
            return Err(parts.structure("section table", format!("its end at byte {footer_offset}"), found));
        }

        let start = parts.read_vec(&mut source, "header", 0, after_header)?;
        parts.compare_hash("header", header_hash, xxh3_64(&start))?;
        let header = serde_json::from_slice(start.get(PREAMBLE_BYTES..).unwrap_or_default())
            .map_err(|e| ContainerError::Header { path: path.to_owned(), found: e.to_string() })?;
        let table = parts.read_vec(&mut source, "section table", table_offset, table_bytes)?;
        parts.compare_hash("section table", table_hash, xxh3_64(&table))?;
        let sections = parts.parse_table(&table, after_header, table_offset)?;
        Ok(Self { source, path: path.to_owned(), header, sections })
    }

    /// The header: the JSON value that the writer was given.
    #[must_use]
    pub fn header(&self) -> &Value {
        &self.header
    }

    /// The sections in file order.
    #[must_use]
    pub fn sections(&self) -> &[SectionInfo] {
        &self.sections
    }

    /// Fails if the container has a required section that `is_known` does not accept.
    ///
    /// # Errors
    /// The first such section.
    pub fn refuse_unknown(&self, is_known: impl Fn(&str) -> bool) -> Result<(), ContainerError> {
        let unknown = self.sections.iter().find(|s| s.need == Requirement::Required && !is_known(&s.name));
        match unknown {
            Some(s) => Err(PartReader { path: &self.path }
                .unsupported("section table", format!("the required section {}", quote(&s.name)))),
            None => Ok(()),
        }
    }

    /// Reads the values of a section and verifies its checksum.
    ///
    /// # Errors
    /// There is no such section, its values have another type, or its data does not match the checksum.
    pub fn section<T: Element>(&mut self, name: &str) -> Result<Vec<T>, ContainerError> {
        let parts = PartReader { path: &self.path };
        let does_not_fit = |expected: String, found: String| ContainerError::Section {
            path: parts.path.to_owned(),
            name: name.to_owned(),
            expected,
            found,
        };
        let Some(info) = self.sections.iter().find(|s| s.name == name) else {
            return Err(does_not_fit("to find it".to_owned(), "no such section".to_owned()));
        };
        if info.kind != Some(T::KIND) {
            let found = info.kind.map_or("an unknown type", ElementKind::name).to_owned();
            return Err(does_not_fit(format!("values of type {}", T::KIND.name()), found));
        }
        let size = size_of::<T>() as u64;
        if info.bytes % size != 0 {
            return Err(does_not_fit(format!("a multiple of {size} bytes"), format!("{} bytes", info.bytes)));
        }
        let place = format!("section {}", quote(name));
        // The length was checked against the file when the table was read, but a file can be larger than memory.
        let count = usize::try_from(info.bytes / size).unwrap_or(usize::MAX);
        let mut values = Vec::new();
        values.try_reserve_exact(count).map_err(|e| parts.io(&place, e.into()))?;
        values.resize(count, T::zeroed());
        self.source.seek(SeekFrom::Start(info.offset)).map_err(|e| parts.io(&place, e))?;
        let data: &mut [u8] = bytemuck::cast_slice_mut(&mut values);
        self.source.read_exact(data).map_err(|e| parts.io(&place, e))?;
        parts.compare_hash(&place, info.xxh3, xxh3_64(data))?;
        Ok(values)
    }
}

/// Reads parts of the file and creates errors that name it.
struct PartReader<'a> {
    path: &'a Path,
}

impl PartReader<'_> {
    fn io(&self, place: &str, source: io::Error) -> ContainerError {
        ContainerError::Io { path: self.path.to_owned(), place: place.to_owned(), source }
    }

    fn structure(&self, place: &str, expected: String, found: String) -> ContainerError {
        ContainerError::Structure { path: self.path.to_owned(), place: place.to_owned(), expected, found }
    }

    fn unsupported(&self, place: &str, found: String) -> ContainerError {
        ContainerError::Unsupported { path: self.path.to_owned(), place: place.to_owned(), found }
    }

    fn compare_hash(&self, place: &str, expected: u64, found: u64) -> Result<(), ContainerError> {
        if expected == found {
            return Ok(());
        }
        Err(ContainerError::Checksum { path: self.path.to_owned(), place: place.to_owned(), expected, found })
    }

    /// Reads `bytes` bytes at `offset`; the caller has checked both against the length of the file.
    fn read_vec(
        &self,
        source: &mut (impl Read + Seek),
        place: &str,
        offset: u64,
        bytes: u64,
    ) -> Result<Vec<u8>, ContainerError> {
        source.seek(SeekFrom::Start(offset)).map_err(|e| self.io(place, e))?;
        let mut data = vec![0; bytes as usize];
        source.read_exact(&mut data).map_err(|e| self.io(place, e))?;
        Ok(data)
    }

    /// As [`Self::read_vec`] for a part of fixed size; fails if the file has fewer bytes.
    fn read_array<const N: usize>(
        &self,
        source: &mut (impl Read + Seek),
        place: &str,
        offset: u64,
        available: u64,
    ) -> Result<[u8; N], ContainerError> {
        let data = self.read_vec(source, place, offset, available)?;
        <[u8; N]>::try_from(data.as_slice()).map_err(|_| {
            self.structure(place, format!("at least {N} bytes"), format!("{} bytes", data.len()))
        })
    }

    /// Parses the section table; sections must cover `begin` to `end` without gaps.
    fn parse_table(&self, table: &[u8], begin: u64, end: u64) -> Result<Vec<SectionInfo>, ContainerError> {
        let mut sections: Vec<SectionInfo> = Vec::new();
        let mut rest = table;
        let mut next_offset = begin;
        while let Some((&name_bytes, after)) = rest.split_first() {
            let number = sections.len();
            let place = format!("section table entry {number}");
            let entry_bytes = name_bytes as usize + ENTRY_BYTES - 1;
            let Some((entry, after)) = after.split_at_checked(entry_bytes) else {
                let found = format!("{} bytes", after.len());
                return Err(self.structure(&place, format!("{entry_bytes} bytes"), found));
            };
            rest = after;
            let (name, fields) = entry.split_at(name_bytes as usize);
            let mut fields = FieldReader(fields);
            let [kind, flags] = fields.array();
            let [offset, bytes, xxh3] = std::array::from_fn(|_| u64::from_le_bytes(fields.array()));
            let Ok(name) = std::str::from_utf8(name) else {
                return Err(self.structure(
                    &place,
                    "a name in UTF-8".to_owned(),
                    name.escape_ascii().to_string(),
                ));
            };
            if flags & !FLAG_REQUIRED != 0 {
                return Err(self.unsupported(&place, format!("section flags {flags:#x}")));
            }
            let need = if flags & FLAG_REQUIRED != 0 { Requirement::Required } else { Requirement::Optional };
            let kind = ElementKind::from_code(kind);
            if kind.is_none() && need == Requirement::Required {
                return Err(self.unsupported(&place, format!("an unknown type of values in {}", quote(name))));
            }
            let section_end = offset.checked_add(bytes).filter(|&e| e <= end);
            let Some(section_end) = section_end.filter(|_| offset == next_offset) else {
                let expected = format!("data from byte {next_offset} up to {end}");
                return Err(self.structure(&place, expected, format!("{bytes} bytes at {offset}")));
            };
            next_offset = section_end;
            if number == MAX_SECTIONS || sections.iter().any(|s| s.name == name) {
                let expected = format!("at most {MAX_SECTIONS} different names");
                return Err(self.structure(&place, expected, quote(name)));
            }
            sections.push(SectionInfo { name: name.to_owned(), kind, need, offset, bytes, xxh3 });
        }
        if next_offset != end {
            let found = format!("sections up to byte {next_offset}");
            return Err(self.structure("section table", format!("sections up to byte {end}"), found));
        }
        Ok(sections)
    }
}

/// Reads numbers from the front of bytes whose length has been checked; returns zeros beyond the end.
struct FieldReader<'a>(&'a [u8]);

impl FieldReader<'_> {
    fn array<const N: usize>(&mut self) -> [u8; N] {
        let Some((array, rest)) = self.0.split_first_chunk() else { return [0; N] };
        self.0 = rest;
        *array
    }
}
