//! Table of the file formats.

use std::io::{self, Write};
use std::path::Path;

use super::format::{FileStart, Format};
use super::source::SourceFile;
use super::{
    Initial, SaveOptions, SaveReport, SplatError, SplatFile, compressed_ply, dot_splat, gltf, html, ksplat,
    ply, sog, spz, streamed,
};
use crate::atomic::{FileSystem, WriteError, WriteOptions};
use crate::text;

/// Properties of a format.
#[derive(Debug)]
pub struct FormatRow {
    /// The format of this row.
    pub format: Format,
    /// Stable name, for `info --json` and `convert --format`.
    pub name: &'static str,
    /// Name for messages and pages: `compressed PLY`.
    pub title: &'static str,
    /// Endings of file names, in lower case; the first one is the default.
    pub extensions: &'static [&'static str],
    /// Whether the start of a file is of this format.
    pub(super) sniff: fn(&FileStart) -> bool,
    /// Reads a file that `sniff` accepted.
    pub(super) read: fn(&mut SourceFile<'_>) -> Result<Initial, SplatError>,
    /// Its writer.
    pub(super) write: Writer,
    /// What the format cannot store, as text.
    pub loses: &'static str,
}

type FolderWriter =
    fn(&dyn FileSystem, &Path, &SplatFile, &SaveOptions, &WriteOptions) -> Result<SaveReport, WriteError>;

/// Writer of a format.
#[derive(Clone, Copy, Debug)]
pub(super) enum Writer {
    /// Writes a document, all of whose splats are usable, to a stream.
    Stream(fn(&mut dyn Write, &SplatFile, &SaveOptions) -> io::Result<SaveReport>),
    /// Writes a document, all of whose splats are usable, as several files around a path.
    Folder(FolderWriter),
    /// The format is read only.
    None,
}

/// All formats, in the order of [`Format`], in which they are also detected.
pub static FORMATS: [FormatRow; 9] = [
    FormatRow {
        format: Format::CompressedPly,
        name: "compressed-ply",
        title: "compressed PLY",
        extensions: &[".compressed.ply"],
        sniff: compressed_ply::sniff,
        read: compressed_ply::read,
        write: Writer::Stream(compressed_ply::write),
        loses: "positions and scales in 10 or 11 bits of their chunk, rotations in 10 bits, colours, opacities and SH in 8 \
                (SH within ±4); the order of the splats",
    },
    FormatRow {
        format: Format::Ply,
        name: "ply",
        title: "PLY",
        extensions: &[".ply"],
        sniff: FileStart::is_ply,
        read: ply::read_ply,
        write: Writer::Stream(ply::write_ply),
        loses: "nothing",
    },
    FormatRow {
        format: Format::Gltf,
        name: "glb",
        title: "glTF",
        extensions: &[".glb", ".gltf"],
        sniff: gltf::sniff,
        read: gltf::read,
        write: Writer::Stream(gltf::write),
        loses: "nothing of the splats but the last bits of opacities and scales; mode, up and sky",
    },
    FormatRow {
        format: Format::Spz,
        name: "spz",
        title: "SPZ",
        extensions: &[".spz"],
        sniff: spz::sniff,
        read: spz::read,
        write: Writer::Stream(spz::write),
        loses: "positions in 24 bits of the bounds, log scales -10..5.9 in steps of 1/16, rotations in 9 bits and a sign, \
                colours and opacities in 8 bits, SH within ±1 in the bits asked for; up and sky",
    },
    FormatRow {
        format: Format::Sog,
        name: "sog",
        title: "SOG",
        extensions: &[".sog"],
        sniff: sog::sniff,
        read: sog::read,
        write: Writer::Stream(sog::write),
        loses: "positions in 16 bits of their logarithm, rotations and opacities in 8 bits, scales and colours in 256 values, \
                SH above degree 0 in a palette of at most 65,536; up and sky; the order of the splats",
    },
    FormatRow {
        format: Format::StreamedSog,
        name: "streamed-sog",
        title: "streamed SOG",
        extensions: &["lod-meta.json"],
        sniff: streamed::sniff,
        read: streamed::read,
        write: Writer::Folder(streamed::save),
        loses: "what a SOG loses, but not the sky",
    },
    FormatRow {
        format: Format::Ksplat,
        name: "ksplat",
        title: ".ksplat",
        extensions: &[".ksplat"],
        sniff: ksplat::sniff,
        read: ksplat::read,
        write: Writer::None,
        loses: "not written: its viewer is no longer developed",
    },
    FormatRow {
        format: Format::Html,
        name: "html",
        title: "HTML page",
        extensions: &[".html", ".htm"],
        sniff: html::sniff,
        read: html::read,
        write: Writer::Stream(html::write),
        loses: "what a compressed PLY loses",
    },
    FormatRow {
        format: Format::Splat,
        name: "splat",
        title: ".splat",
        extensions: &[".splat"],
        sniff: dot_splat::sniff,
        read: dot_splat::read,
        write: Writer::Stream(dot_splat::write),
        loses: "SH above degree 0; colours outside 0..1; 8 bits for colours, opacities and rotations; mode, up and sky; the \
                order of the splats",
    },
];

impl Format {
    /// Its row in [`FORMATS`].
    #[must_use]
    pub fn row(self) -> &'static FormatRow {
        &FORMATS[self as usize]
    }

    /// Stable name, for `info --json`.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// The format with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        FORMATS.iter().find(|row| row.name == name).map(|row| row.format)
    }

    /// The format by the ending of a file name; the longest matching ending counts.
    ///
    /// ```
    /// use gausset_io::splat::Format;
    ///
    /// assert_eq!(Format::from_path("scene.PLY".as_ref()), Some(Format::Ply));
    /// assert_eq!(Format::from_path("scene.compressed.ply".as_ref()), Some(Format::CompressedPly));
    /// assert_eq!(Format::from_path("scene.obj".as_ref()), None);
    /// ```
    #[must_use]
    pub fn from_path(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_string_lossy().to_ascii_lowercase();
        let fits = |ending: &&&str| name.ends_with(**ending);
        let ends = FORMATS.iter().filter_map(|row| {
            let longest = row.extensions.iter().filter(fits).map(|ending| ending.len()).max()?;
            Some((longest, row.format))
        });
        ends.max_by_key(|(length, _)| *length).map(|(_, format)| format)
    }

    /// Whether the format can be written.
    #[must_use]
    pub fn is_written(self) -> bool {
        !matches!(self.row().write, Writer::None)
    }

    /// Whether it is written as a folder with several files, which [`super::write`] cannot.
    #[must_use]
    pub fn is_folder(self) -> bool {
        matches!(self.row().write, Writer::Folder(_))
    }

    /// Detects the format of a file from its start. A `.splat` has no magic number, so its name counts as well: before
    /// magic numbers that its records may begin with by chance, and where no format recognises the start.
    pub(super) fn detect(start: &FileStart, path: &Path) -> Result<Self, SplatError> {
        if text::is_lfs_pointer(&start.bytes) {
            return Err(SplatError::LfsPointer { path: path.to_owned() });
        }
        if start.bytes.is_empty() {
            let (place, what, expected) = ("length".to_owned(), "the file is empty", "splats".to_owned());
            let found = "0 bytes".to_owned();
            return Err(SplatError::Damaged { path: path.to_owned(), place, what, expected, found });
        }
        let is_named_splat = Self::from_path(path) == Some(Self::Splat);
        if is_named_splat && dot_splat::sniff(start) {
            return Ok(Self::Splat);
        }
        if let Some(row) = FORMATS.iter().find(|row| (row.sniff)(start)) {
            return Ok(row.format);
        }
        if is_named_splat && !start.is_text() {
            return Ok(Self::Splat);
        }
        if streamed::is_index(path) {
            return Ok(Self::StreamedSog);
        }
        let found = start.bytes.get(..16).unwrap_or(&start.bytes).escape_ascii().to_string();
        Err(SplatError::UnknownFormat { path: path.to_owned(), found })
    }
}

/// Endings of formats that can be written, for messages: `.ply, .spz or .glb`.
pub(super) fn writable_extensions() -> String {
    let ends: Vec<&str> = FORMATS
        .iter()
        .filter(|row| row.format.is_written())
        .filter_map(|row| row.extensions.first().copied())
        .collect();
    match ends.split_last() {
        Some((last, [])) => (*last).to_owned(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_stand_in_the_order_of_the_formats() {
        for (i, row) in FORMATS.iter().enumerate() {
            assert_eq!(row.format as usize, i, "{}", row.name);
            assert!(std::ptr::eq(row.format.row(), row));
            assert_eq!(Format::from_name(row.name), Some(row.format));
        }
    }

    #[test]
    fn the_full_end_of_a_name_decides() {
        assert_eq!(Format::from_path(Path::new("a/B.PLY")), Some(Format::Ply));
        assert_eq!(Format::from_path(Path::new("a/b.compressed.ply")), Some(Format::CompressedPly));
        assert_eq!(Format::from_path(Path::new("a.ply/b")), None);
        assert_eq!(Format::from_path(Path::new("ply")), None);
    }
}
