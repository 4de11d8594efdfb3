//! Writes a streamed SOG.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use gausset_core::Splats;
use serde_json::json;

use super::index::{Index, Node, Rows};
use super::levels::Level;
use super::{INDEX, VERSION};
use crate::atomic::{
    FileSystem, UnnamedFile, WriteError, WriteOptions, check_free, commit_all, write_atomic_with,
    write_uncommitted,
};
use crate::ownership;
use crate::splat::{Format, PositionSteps, SaveOptions, SaveReport, SplatFile, metadata, sog};

/// A file that has more splats gets no further part.
const FULL_FILE: usize = 512 << 10;
/// Number of splats of the coarsest level, unless the options say how many levels there are.
const COARSEST: usize = 100_000;
/// Largest number of levels.
const MAX_LEVELS: u32 = 16;

/// Writes the files of a document, all of whose splats are usable, and then their index at `path`.
///
/// Files have no names before all of them are complete, and the index is written last.
pub(in crate::splat) fn save(
    fs: &dyn FileSystem,
    path: &Path,
    document: &SplatFile,
    options: &SaveOptions,
    write_options: &WriteOptions,
) -> Result<SaveReport, WriteError> {
    let failed = |action| move |source| WriteError::Io { path: path.to_owned(), action, source };
    if path.file_name().is_none_or(|name| name != INDEX) {
        let reason =
            format!("viewers know a streamed SOG by its name (expected {INDEX} in a folder of its own)");
        return Err(failed("name")(io::Error::new(io::ErrorKind::InvalidInput, reason)));
    }
    check_free(fs, path, write_options.overwrite)?;
    // Dropped last: it removes the folders of a failed write, which are empty then.
    let mut folders = NewFolders(Vec::new());
    let mut output =
        Output { fs, root: path.parent().unwrap_or(Path::new("")), write_options, folders: &mut folders };
    let mut written = Written { files: Vec::new(), bytes: 0, positions: None };

    let (first, tree) = Level::finest(&document.scene());
    let mut level = first;
    let mut leaves: Vec<Node> = level.parts.iter().map(|_| Node::default()).collect();
    let mut index = Index {
        version: VERSION,
        asset: json!({ "generator": format!("gausset {}", env!("CARGO_PKG_VERSION")) }),
        count: 0,
        counts: Vec::new(),
        lod_levels: 0,
        lod_errors: false,
        environment: None,
        filenames: Vec::new(),
        tree: Node::default(),
    };
    loop {
        index.add_level(&level, &mut leaves, |name, parts| {
            output.write_sog(name, &level.splats, parts, document, &mut written)
        })?;
        let is_last = match options.levels {
            Some(levels) => index.lod_levels >= levels,
            None => level.splats.len() <= COARSEST,
        };
        if is_last || index.lod_levels >= MAX_LEVELS || level.splats.len() <= level.parts.len() {
            break;
        }
        level = level.halved();
    }
    if document.sky > 0 {
        let name = "env/meta.json";
        let all = document.scene_len()..document.splats.len();
        output.write_sog(name, &document.splats, &[all], document, &mut written)?;
        index.environment = Some(name.to_owned());
    }
    let facts = metadata::metadata_lines(document);
    if !facts.is_empty() {
        index.asset["gausset"] = json!(facts);
    }
    index.count = index.counts.iter().sum();
    index.tree = tree.into_node(&mut leaves);
    let text = serde_json::to_vec(&index).map_err(|error| failed("encode")(error.into()))?;

    // An index never names files of another write.
    match fs.remove(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed("replace")(error)),
        _ => {}
    }
    commit_all(std::mem::take(&mut written.files))?;
    let ((), committed) =
        write_atomic_with(fs, path, write_options, |file| io::Write::write_all(file, &text))?;
    folders.0.clear();
    let mut saved =
        SaveReport::new(Format::StreamedSog, document.splats.len(), written.bytes + text.len() as u64);
    saved.version = Some("1");
    saved.positions = written.positions;
    saved.sync_seconds = committed.sync_seconds;
    Ok(saved)
}

impl Index {
    /// Divides the parts of a level into files, which `write` writes, and adds their rows to the leaves.
    fn add_level(
        &mut self,
        level: &Level,
        leaves: &mut [Node],
        mut write: impl FnMut(&str, &[Range<usize>]) -> Result<(), WriteError>,
    ) -> Result<(), WriteError> {
        // Stray splats in a file would make the steps of all its positions coarser.
        let (stray, near): (Vec<usize>, Vec<usize>) =
            (0..level.parts.len()).partition(|&part| level.is_stray(part));
        let mut number = 0;
        for parts in [near, stray] {
            let mut rest = parts.as_slice();
            while !rest.is_empty() {
                let mut count = 0;
                let last = rest.iter().position(|&part| {
                    count += level.parts[part].len();
                    count > FULL_FILE
                });
                let (of_file, others) = rest.split_at(last.map_or(rest.len(), |last| last + 1));
                rest = others;
                let name = format!("{}_{number}/meta.json", self.lod_levels);
                let ranges: Vec<Range<usize>> =
                    of_file.iter().map(|&part| level.parts[part].clone()).collect();
                write(&name, &ranges)?;
                let (file, mut offset) = (self.filenames.len() as u64, 0);
                for &part in of_file {
                    let count = level.parts[part].len() as u64;
                    let (node, bound) = (&mut leaves[part], level.bound(part));
                    node.lods.insert(self.lod_levels, Rows { file, offset, count });
                    node.bound = if self.lod_levels == 0 { bound } else { node.bound.union(bound) };
                    offset += count;
                }
                self.filenames.push(name);
                number += 1;
            }
        }
        self.counts.push(level.splats.len() as u64);
        self.lod_levels += 1;
        Ok(())
    }
}

/// Where files go.
struct Output<'a> {
    fs: &'a dyn FileSystem,
    root: &'a Path,
    write_options: &'a WriteOptions,
    folders: &'a mut NewFolders,
}

/// What was written so far.
struct Written {
    files: Vec<UnnamedFile>,
    bytes: u64,
    positions: Option<PositionSteps>,
}

impl Output<'_> {
    /// Writes some splats as a SOG that is not packed, whose rows are in the order of the parts.
    fn write_sog(
        &mut self,
        name: &str,
        splats: &Splats,
        parts: &[Range<usize>],
        document: &SplatFile,
        written: &mut Written,
    ) -> Result<(), WriteError> {
        let path = self.root.join(name);
        let failed = |action| {
            let path = path.clone();
            move |source| WriteError::Io { path, action, source }
        };
        let Some(folder) = path.parent() else { return Ok(()) };
        let rows: Vec<usize> = parts.iter().cloned().flatten().collect();
        let mut end = 0;
        let parts: Vec<Range<usize>> = parts
            .iter()
            .map(|part| {
                end += part.len();
                end - part.len()..end
            })
            .collect();
        let chunk = SplatFile {
            antialiased: document.antialiased,
            flat: document.flat,
            ..SplatFile::new(splats.select(&rows))
        };
        let sog = sog::encode(&chunk, &parts).map_err(failed("encode"))?;
        self.folders.create(self.fs, folder).map_err(failed("create the folder of"))?;
        for (name, content) in sog.files {
            let path = folder.join(name);
            check_free(self.fs, &path, self.write_options.overwrite)?;
            written.files.push(write_uncommitted(&path, &content)?);
            written.bytes += content.len() as u64;
        }
        written.positions = match (written.positions, sog.positions) {
            (Some(all), Some(new)) => Some(PositionSteps { scene: all.scene.max(new.scene), ..all }),
            (all, new) => all.or(new),
        };
        Ok(())
    }
}

/// Folders that are removed on drop if they are empty.
struct NewFolders(Vec<PathBuf>);

impl NewFolders {
    fn create(&mut self, fs: &dyn FileSystem, folder: &Path) -> io::Result<()> {
        for folder in folder.ancestors().take(2).filter(|folder| !folder.as_os_str().is_empty()) {
            if fs.info(folder)?.is_none() {
                self.0.push(folder.to_owned());
            }
        }
        fs.create_folder(folder)
    }
}

impl Drop for NewFolders {
    fn drop(&mut self) {
        self.0.sort_by_key(|folder| std::cmp::Reverse(folder.components().count()));
        for folder in &self.0 {
            ownership::remove_empty(folder);
        }
    }
}
