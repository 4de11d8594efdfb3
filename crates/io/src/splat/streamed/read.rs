//! Reads a streamed SOG: the finest level of each part, and the environment as the sky.
#![deny(clippy::indexing_slicing, reason = "what comes from outside is never an index")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufReader, Read};
use std::path::{Component, Path, PathBuf};

use gausset_core::Splats;

use super::index::{Index, Node, Rows};
use super::{INDEX, VERSION};
use crate::input;
use crate::splat::format::FileStart;
use crate::splat::memory::MemoryAccount;
use crate::splat::source::SourceFile;
use crate::splat::usable::splat_bytes;
use crate::splat::{
    Format, Initial, LoadOptions, ReadLimits, ReadReport, SplatError, SplatFile, metadata, sog,
};
use crate::text::quote;

/// Longest index, bytes.
const MAX_INDEX_BYTES: u64 = 64 << 20;

/// Detects an index.
pub(in crate::splat) fn sniff(start: &FileStart) -> bool {
    start.is_json() && start.contains("\"lodLevels\"")
}

/// Reads the files that an index names.
pub(in crate::splat) fn read(source: &mut SourceFile<'_>) -> Result<Initial, SplatError> {
    if source.bytes > MAX_INDEX_BYTES {
        let found = format!("{} bytes", source.bytes);
        return Err(source.damaged_error(INDEX, "too long", "at most 64 MiB", found));
    }
    let mut text = source.memory.vec_with_capacity(source.bytes)?;
    let read = (&mut *source.stream).take(MAX_INDEX_BYTES).read_to_end(&mut text);
    read.map_err(|error| source.io(error))?;
    source.memory.reserve_json(&text)?;
    let mut parser = serde_json::Deserializer::from_slice(&text);
    let index: Index = serde_path_to_error::deserialize(&mut parser).map_err(|error| {
        let place = format!("{INDEX} {}", quote(&error.path().to_string()));
        let found = quote(&error.inner().to_string());
        source.damaged_error(place, "not the index of a streamed SOG", "that of version 1", found)
    })?;
    if let Some(version) = index.version.filter(|version| *version != VERSION) {
        let found = version.to_string();
        return Err(source.damaged_error(INDEX, "unknown version of streamed SOG", "1", found));
    }
    let mut finest: BTreeMap<u64, Vec<Rows>> = BTreeMap::new();
    collect_finest(&index.tree, &mut finest);
    let mut names: BTreeSet<&Path> = index.environment.iter().map(Path::new).collect();
    let mut merged = Merged::default();
    for (file, parts) in finest {
        let name = usize::try_from(file).ok().and_then(|file| index.filenames.get(file));
        let Some(name) = name else {
            let expected = format!("below {}", index.filenames.len());
            return Err(source.damaged_error(INDEX, "a file that has no name", expected, file.to_string()));
        };
        if !names.insert(Path::new(name)) {
            return Err(source.damaged_error(INDEX, "a file is named twice", "different names", quote(name)));
        }
        let chunk = read_chunk(name, source)?;
        merged.add_rows(name, chunk, &parts, source)?;
    }
    let scene = merged.splats.len();
    let found = scene as u64 + merged.report.dropped_total();
    if let Some(&count) = index.counts.first().filter(|&&count| count != found) {
        merged
            .report
            .notes
            .push(format!("{INDEX}: counts (expected {count} splats, found {found} in its parts)"));
    }
    if let Some(name) = &index.environment {
        let chunk = read_chunk(name, source)?;
        let all = Rows { file: 0, offset: 0, count: chunk.report.found };
        merged.add_rows(name, chunk, &[all], source)?;
    }
    let document = SplatFile {
        antialiased: merged.is_antialiased,
        flat: merged.is_flat,
        format: Format::StreamedSog,
        version: Some(VERSION.to_string()),
        levels: if index.counts.len() > 1 { index.counts } else { Vec::new() },
        report: merged.report,
        ..SplatFile::new(merged.splats)
    };
    let sky = document.splats.len() - scene;
    let document = metadata::apply_metadata(document, metadata::json_lines(&index.asset));
    Ok(Initial::Splats(SplatFile { sky, ..document }))
}

/// Names of the files that an index names; none if it cannot be read.
pub(super) fn part_names(index: &Path) -> BTreeSet<String> {
    let text = input::read_to_string(index, MAX_INDEX_BYTES).unwrap_or_default();
    let Ok(read) = serde_json::from_str::<Index>(&text) else { return BTreeSet::new() };
    read.filenames.into_iter().chain(read.environment).filter(|name| is_below(name)).collect()
}

/// The files that an index names, and the images beside them.
pub(in crate::splat) fn part_files(index: &Path) -> Vec<PathBuf> {
    let folder = index.parent().unwrap_or(Path::new(""));
    let files = part_names(index).into_iter().flat_map(|name| {
        let file = folder.join(name);
        let images = sog::image_files(&file);
        std::iter::once(file).chain(images)
    });
    files.collect()
}

/// Whether a name is a path below the index.
fn is_below(name: &str) -> bool {
    let is_plain = Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
    is_plain && !name.is_empty() && !name.contains(['\\', ':'])
}

/// The rows of the finest level of each leaf, by file.
fn collect_finest(node: &Node, parts: &mut BTreeMap<u64, Vec<Rows>>) {
    node.children.iter().for_each(|child| collect_finest(child, parts));
    let is_leaf = node.children.is_empty();
    if let Some(rows) = node.lods.values().find(|rows| is_leaf && rows.count > 0) {
        parts.entry(rows.file).or_default().push(*rows);
    }
}

/// Reads a file of the index with the memory that is left.
fn read_chunk(name: &str, source: &SourceFile<'_>) -> Result<SplatFile, SplatError> {
    if !is_below(name) {
        let place = format!("file {}", quote(name));
        return Err(source.damaged_error(
            place,
            "a name that leads out",
            "a path below the index",
            quote(name),
        ));
    }
    let Some(folder) = source.folder else {
        return Err(source.damaged_error(
            format!("file {}", quote(name)),
            "not there",
            "a file below this one",
            "none",
        ));
    };
    let path = &folder.join(name);
    let io_error = |source| SplatError::Io { path: path.clone(), action: "open", source };
    let file = input::open(path, input::NO_LIMIT).map_err(io_error)?;
    let bytes = file.metadata().map_err(io_error)?.len();
    let limits = ReadLimits { memory_bytes: source.memory.remaining() };
    let (stream, memory) = (&mut BufReader::new(file), &MemoryAccount::new(path, &limits));
    let options = &LoadOptions { limits, ..*source.options };
    let chunk = sog::read(&mut SourceFile { stream, bytes, path, folder: path.parent(), options, memory })?;
    match chunk {
        Initial::Splats(chunk) => Ok(chunk),
        Initial::Points(_) => Err(SplatError::PointCloud { path: path.clone() }),
    }
}

/// Splats of several files.
#[derive(Default)]
struct Merged {
    splats: Splats,
    is_antialiased: bool,
    is_flat: bool,
    report: ReadReport,
}

impl Merged {
    /// Adds rows of a file.
    fn add_rows(
        &mut self,
        name: &str,
        chunk: SplatFile,
        parts: &[Rows],
        source: &SourceFile<'_>,
    ) -> Result<(), SplatError> {
        let rows = chunk.report.found;
        for part in parts {
            if part.offset.checked_add(part.count).is_none_or(|end| end > rows) {
                let place = format!("file {}", quote(name));
                let found = format!("{} from row {}", part.count, part.offset);
                return Err(source.damaged_error(
                    place,
                    "rows that it lacks",
                    format!("rows below {rows}"),
                    found,
                ));
            }
        }
        let count = parts.iter().fold(0u64, |sum, part| sum.saturating_add(part.count));
        let mut sorted = parts.to_vec();
        sorted.sort_by_key(|part| part.offset);
        if sorted.windows(2).any(|pair| matches!(pair, [a, b] if a.offset + a.count > b.offset)) {
            let place = format!("file {}", quote(name));
            return Err(source.damaged_error(
                place,
                "rows that two parts have",
                "rows of one part",
                "the same",
            ));
        }
        let kept = chunk.splats.len() as u64;
        let whole = [Rows { file: 0, offset: 0, count: kept }];
        let parts = match kept == rows {
            true => parts,
            // Where splats were dropped, it is not known which rows are left.
            false if count == rows => &whole,
            false => {
                let place = format!("file {}", quote(name));
                let found = format!("{} that cannot be drawn", rows - kept);
                return Err(source.damaged_error(place, "rows of parts are unknown", "whole splats", found));
            }
        };
        let (before, own) = (self.splats.sh_degree, chunk.splats.sh_degree);
        let (degree, have) = (own.max(before), self.splats.len() as u64);
        // Those of the file, those of the file at another degree, and the copies.
        let of_file = splat_bytes(kept, own) + splat_bytes(kept, degree);
        source.memory.reserve_rows(count, of_file + splat_bytes(count, degree))?;
        if degree > before {
            source.memory.reserve(splat_bytes(have, degree))?;
            self.splats = self.splats.with_sh_degree(degree);
            source.memory.release(splat_bytes(have, before));
        }
        let splats = if degree > own { chunk.splats.with_sh_degree(degree) } else { chunk.splats };
        for part in parts {
            let rows: Vec<usize> = (part.offset as usize..(part.offset + part.count) as usize).collect();
            self.splats.append(&splats.select(&rows));
        }
        source.memory.release(of_file);
        self.is_antialiased |= chunk.antialiased;
        self.is_flat |= chunk.flat;
        self.report.add(chunk.report);
        Ok(())
    }
}
