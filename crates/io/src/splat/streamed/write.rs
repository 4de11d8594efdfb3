//! Writes a streamed SOG.

use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use gausset_core::Splats;
use serde_json::json;

use super::index::{Index, Node, Rows};
use super::levels::Level;
use super::read::part_names;
use super::{INDEX, VERSION};
use crate::atomic::{
    FileKind, FileSystem, Overwrite, UnnamedFile, WriteError, WriteOptions, check_free, commit_all_after,
    write_atomic_with, write_uncommitted,
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
    // Without a separator at its end.
    let path = &path.parent().unwrap_or(Path::new("")).join(path.file_name().unwrap_or_default());
    if path.file_name().is_none_or(|name| name != INDEX) {
        let reason =
            format!("viewers know a streamed SOG by its name (expected {INDEX} in a folder of its own)");
        return Err(failed("name")(io::Error::new(io::ErrorKind::InvalidInput, reason)));
    }
    if document.scene_len() == 0 {
        let reason = "no splats to write but a sky (expected at least one of a scene)".to_owned();
        return Err(failed("encode")(io::Error::new(io::ErrorKind::InvalidInput, reason)));
    }
    check_free(fs, path, write_options.overwrite)?;
    // Dropped last: it removes the folders of a failed write, which are empty then.
    let mut folders = NewFolders(Vec::new());
    let mut output = Output {
        fs,
        root: path.parent().unwrap_or(Path::new("")),
        overwrite: write_options.overwrite,
        folders: &mut folders,
    };
    output.check_root(path)?;
    let mut written = Written { files: Vec::new(), bytes: 0 };
    let mut positions: Option<PositionSteps> = None;

    let (mut level, tree) = Level::finest(&document.scene());
    let mut leaves: Vec<Node> = level.parts.iter().map(|_| Node::default()).collect();
    let mut index = Index {
        version: Some(VERSION),
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
        let is_finest = index.lod_levels == 0;
        index.add_level(&level, &mut leaves, |name, parts, is_stray| {
            let steps = output.write_sog(name, &level.splats, parts, document, &mut written)?;
            if let Some(steps) = steps.filter(|_| is_finest) {
                let count: usize = parts.iter().map(Range::len).sum();
                positions = Some(match positions {
                    None => steps,
                    Some(all) if is_stray => {
                        let (outliers, step) = all.outliers.unwrap_or_default();
                        PositionSteps { outliers: Some((outliers + count, step.max(steps.scene))), ..all }
                    }
                    Some(all) => PositionSteps {
                        scene: all.scene.max(steps.scene),
                        is_coarse: all.is_coarse || steps.is_coarse,
                        ..all
                    },
                });
            }
            Ok(())
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
        let steps = output.write_sog(name, &document.splats, &[all], document, &mut written)?;
        let sky = steps.map(|steps| steps.outliers.map_or(steps.scene, |(_, step)| step));
        positions = positions.map(|all| PositionSteps { sky, ..all });
        index.environment = Some(name.to_owned());
    }
    let facts = metadata::metadata_lines(document);
    if !facts.is_empty() {
        index.asset["gausset"] = json!(facts);
    }
    index.count = index.counts.iter().sum();
    index.tree = tree.into_node(&mut leaves);
    let text = serde_json::to_vec(&index).map_err(|error| failed("encode")(error.into()))?;

    // After the time that encoding takes.
    let names: Vec<PathBuf> = written.files.iter().map(|(path, _)| path.clone()).collect();
    for path in names.iter().chain([path]) {
        check_free(fs, path, write_options.overwrite)?;
    }
    let old_parts = match write_options.overwrite {
        Overwrite::Replace => part_names(path),
        Overwrite::Refuse => BTreeSet::new(),
    };
    let files = written.files.into_iter().map(|(_, file)| file).collect();
    // An index never names files of another write.
    let old = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    commit_all_after(files, || match fs.info(&old).map_err(failed("look up"))? {
        Some(info) if info.kind == FileKind::File => fs.remove(&old).map_err(failed("replace")),
        _ => Ok(()),
    })?;
    let ((), committed) =
        write_atomic_with(fs, &old, write_options, |file| io::Write::write_all(file, &text))?;
    output.folders.0.clear();
    output.remove_stale(&old_parts, &names);
    let mut saved =
        SaveReport::new(Format::StreamedSog, document.splats.len(), written.bytes + text.len() as u64);
    saved.version = Some("1");
    saved.positions = positions;
    saved.sync_seconds = committed.sync_seconds;
    Ok(saved)
}

impl Index {
    /// Divides the parts of a level into files, which `write` writes, and adds their rows to the leaves.
    fn add_level(
        &mut self,
        level: &Level,
        leaves: &mut [Node],
        mut write: impl FnMut(&str, &[Range<usize>], bool) -> Result<(), WriteError>,
    ) -> Result<(), WriteError> {
        // Stray splats in a file would make the steps of all its positions coarser.
        let (stray, near): (Vec<usize>, Vec<usize>) =
            (0..level.parts.len()).partition(|&part| level.is_stray(part));
        let mut number = 0;
        for (parts, is_stray) in [(near, false), (stray, true)] {
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
                write(&name, &ranges, is_stray)?;
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
    overwrite: Overwrite,
    folders: &'a mut NewFolders,
}

/// What was written so far.
struct Written {
    files: Vec<(PathBuf, UnnamedFile)>,
    bytes: u64,
}

impl Output<'_> {
    /// The folder of the index is created, but not the folders above it.
    fn check_root(&self, path: &Path) -> Result<(), WriteError> {
        let Some(above) = self.root.parent().filter(|above| !above.as_os_str().is_empty()) else {
            return Ok(());
        };
        let io_error = |action| move |source| WriteError::Io { path: path.to_owned(), action, source };
        match self.fs.info(above).map_err(io_error("look up"))? {
            Some(_) => Ok(()),
            None => Err(io_error("create")(io::Error::from(io::ErrorKind::NotFound))),
        }
    }

    /// Removes files of a replaced scene that the new one does not have. One that cannot be removed does no harm.
    fn remove_stale(&self, old_parts: &BTreeSet<String>, written: &[PathBuf]) {
        let real = |path: &PathBuf| std::fs::canonicalize(path).ok();
        let written: BTreeSet<PathBuf> = written.iter().filter_map(real).collect();
        for name in old_parts.iter().filter(|name| is_own_name(name)) {
            let Some(folder) = self.root.join(name).parent().map(Path::to_owned) else { continue };
            if ownership::check_inside(self.root, Path::new(name)).is_err() {
                continue;
            }
            for file in sog::FILES.map(|file| folder.join(file)) {
                if real(&file).is_some_and(|real| !written.contains(&real)) {
                    let _ = self.fs.remove(&file);
                }
            }
            ownership::remove_empty(&folder);
        }
    }

    /// Writes some splats as a SOG that is not packed, whose rows are in the order of the parts.
    fn write_sog(
        &mut self,
        name: &str,
        splats: &Splats,
        parts: &[Range<usize>],
        document: &SplatFile,
        written: &mut Written,
    ) -> Result<Option<PositionSteps>, WriteError> {
        ownership::check_inside(self.root, Path::new(name))?;
        let path = self.root.join(name);
        let failed = |action| {
            let path = path.clone();
            move |source| WriteError::Io { path, action, source }
        };
        let Some(folder) = path.parent() else { return Ok(None) };
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
            check_free(self.fs, &path, self.overwrite)?;
            let file = write_uncommitted(&path, &content)?;
            written.files.push((path, file));
            written.bytes += content.len() as u64;
        }
        Ok(sog.positions)
    }
}

/// Whether a part has a name that this writer gives.
fn is_own_name(name: &str) -> bool {
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let Some(folder) = name.strip_suffix("/meta.json") else { return false };
    folder == "env" || folder.split_once('_').is_some_and(|(level, part)| number(level) && number(part))
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
