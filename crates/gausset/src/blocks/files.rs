//! The folder `blocks` of a run.

use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use gausset_blocks::{Division, DivisionSource};
use gausset_core::RgbImage8;
use gausset_io::atomic::{Disk, FileSystem, Overwrite, plain_reason, write_atomic};
use gausset_io::image::encode::png_rgb8;
use gausset_io::run_folder::{RunFolder, checkpoint_path, checkpoints_folder, list_checkpoints, splats_path};
use gausset_io::text::shell_quote;
use gausset_io::{input, ownership};
use gausset_train::{GivenCorrections, RecordedRun, TrainError, TrainOptions};
use serde_json::json;

use super::borders::BorderScores;
use super::merge::Contribution;
use crate::Failure;

/// Name of the folder, and its purpose in the ownership marker.
const FOLDER: &str = "blocks";
/// Files in it.
const DIVISION: &str = "division.json";
const SHARED: &str = "shared.json";
const MERGED: &str = "merged.json";
const COMMANDS: &str = "commands.txt";
const MAP: &str = "map.png";
/// All of them.
const FILES: [&str; 5] = [DIVISION, SHARED, MERGED, COMMANDS, MAP];
/// Folder of the coarse run.
const COARSE: &str = "coarse";
/// Size limit of a file: names of a million images.
const MAX_BYTES: u64 = 256 << 20;

/// The folder `RUN/blocks`.
#[derive(Clone)]
pub(super) struct BlocksFolder {
    path: PathBuf,
}

impl BlocksFolder {
    /// Creates or reuses the folder in that of a run.
    pub(super) fn claim(run: &Path) -> Result<Self, Failure> {
        let path = run.join(FOLDER);
        ownership::claim_for_files(&Disk, &path, FOLDER, FILES, Overwrite::Refuse)?;
        Ok(Self { path })
    }

    /// The folder of a run, for reading only.
    pub(super) fn of(run: &Path) -> Self {
        Self { path: run.join(FOLDER) }
    }

    /// Removes what an earlier run in blocks has left in the folder of a run. Files that Gausset did not write stay.
    pub(super) fn clear(run: &Path) -> Result<(), Failure> {
        let path = run.join(FOLDER);
        if !ownership::is_gausset_owned(&path, FOLDER) {
            return Ok(());
        }
        for name in FILES {
            remove(&path.join(name))?;
        }
        for entry in input::read_dir(&path).into_iter().flatten().flatten() {
            let part = entry.path();
            let name = entry.file_name();
            if name.to_str().and_then(|name| name.strip_suffix(".json")).is_some_and(is_number) {
                remove(&part)?;
            }
            let is_part = name == COARSE || name.to_str().is_some_and(is_number);
            if is_part && part.is_dir() {
                drop(RunFolder::create(&Disk, &part, Overwrite::Replace).map_err(TrainError::from)?);
                remove_marked(&checkpoints_folder(&part));
                remove_marked(&part);
            }
        }
        remove_marked(&path);
        Ok(())
    }

    /// Folder of the coarse run.
    pub(super) fn coarse(&self) -> PathBuf {
        self.path.join(COARSE)
    }

    /// Folder of a block's run; blocks count from 0, folders from 1.
    pub(super) fn block(&self, index: usize) -> PathBuf {
        self.path.join(format!("{:03}", index + 1))
    }

    /// Refuses a folder with files that Gausset did not write, before anything is written.
    pub(super) fn check(run: &Path) -> Result<(), Failure> {
        let path = run.join(FOLDER);
        if ownership::is_gausset_owned(&path, FOLDER) || path.symlink_metadata().is_err() {
            return Ok(());
        }
        let found = match input::read_dir(&path) {
            Ok(mut entries) => {
                entries.find_map(Result::ok).map(|entry| entry.file_name().display().to_string())
            }
            Err(_) => Some("a file".to_owned()),
        };
        let Some(found) = found else { return Ok(()) };
        let what = format!(
            "output: holds files that gausset did not write (expected an empty or no folder, found {found}); choose \
             another run folder, or move them away"
        );
        Err(failure("exists", &path, what))
    }

    /// Reads the division in the folder; `None` if there is none yet.
    pub(super) fn division(&self) -> Result<Option<Division>, Failure> {
        let path = self.path.join(DIVISION);
        let text = match input::read_to_string(&path, MAX_BYTES) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failure("read", &path, plain_reason(&error))),
        };
        let read = Division::from_json(&text);
        read.map(Some).map_err(|error| failure("division", &path, format!("{error}; {REMEDY}")))
    }

    /// As [`Self::division`], of this run.
    pub(super) fn read_division(&self, recorded: &RecordedRun) -> Result<Option<Division>, Failure> {
        let Some(division) = self.division()? else { return Ok(None) };
        let path = self.path.join(DIVISION);
        let refused = |what: String| failure("division", &path, format!("{what}; {REMEDY}"));
        let (expected, found) = (source_of(recorded), &division.source);
        if found.fingerprint != expected.fingerprint {
            let (expected, found) = (expected.fingerprint, &found.fingerprint);
            return Err(refused(format!(
                "fingerprint: expected that of the data, {expected}, found {found}"
            )));
        }
        // Another version may know more options.
        for (name, found) in &found.options {
            let expected = expected.options.get(name).map_or("nothing", |value| value);
            if found != expected {
                return Err(refused(format!(
                    "options: {name}: expected {expected}, as in config.toml, found {found}"
                )));
            }
        }
        Ok(Some(division))
    }

    /// Writes what the blocks are given, and returns what a division of the run is made of.
    pub(super) fn write_corrections(
        &self,
        recorded: &RecordedRun,
        given: &GivenCorrections,
    ) -> Result<DivisionSource, Failure> {
        let text = serde_json::to_string_pretty(given).unwrap_or_default() + "\n";
        self.write(SHARED, &text)?;
        Ok(DivisionSource { shared: DivisionSource::hash_of(&text), ..source_of(recorded) })
    }

    /// Writes a division.
    pub(super) fn write_division(&self, division: &Division) -> Result<(), Failure> {
        self.write(DIVISION, &division.to_json())
    }

    /// Writes a command for each block of the run in `run`, those that take longest first.
    pub(super) fn write_commands(&self, division: &Division, run: &Path) -> Result<(), Failure> {
        let run = shell_quote(&input::absolute(run));
        let mut blocks: Vec<(usize, u64)> = (1..)
            .zip(&division.blocks)
            .map(|(number, block)| (number, block.steps * block.max_splats))
            .collect();
        blocks.retain(|(_, work)| *work > 0);
        blocks.sort_by_key(|&(number, work)| (std::cmp::Reverse(work), number));
        let line = |&(number, _): &(usize, u64)| format!("gausset train --resume {run} --block {number}\n");
        self.write(COMMANDS, &blocks.iter().map(line).collect::<String>())
    }

    /// Writes the map of a division.
    pub(super) fn write_map(&self, map: &RgbImage8) -> Result<(), Failure> {
        let path = self.path.join(MAP);
        let png = png_rgb8(map).map_err(|error| failure("write", &path, error.to_string()))?;
        write_atomic(&Disk, &path, |file| file.write_all(&png))?;
        Ok(())
    }

    /// Reads what the blocks of a division are given.
    pub(super) fn read_corrections(&self, division: &Division) -> Result<GivenCorrections, Failure> {
        let path = self.path.join(SHARED);
        let refused = |what: String| failure("division", &path, format!("{what}; {REMEDY}"));
        let text = input::read_to_string(&path, MAX_BYTES)
            .map_err(|error| refused(plain_reason(&error).to_string()))?;
        let found = DivisionSource::hash_of(&text);
        if found != division.source.shared {
            let expected = &division.source.shared;
            return Err(refused(format!(
                "expected what the division was made with, {expected}, found {found}"
            )));
        }
        serde_json::from_str(&text).map_err(|error| refused(error.to_string()))
    }

    /// Whether the splats of a block are sealed.
    pub(super) fn is_sealed(&self, index: usize) -> bool {
        self.seal_path(index).is_file()
    }

    /// Records the hash of the splats that a block has trained.
    pub(super) fn seal(&self, index: usize) -> Result<(), Failure> {
        let hash = hash_of_file(&splats_path(&self.block(index)))?;
        self.write(&seal_name(index), &format!("{}\n", json!({ "splats": hash })))
    }

    /// Refuses splats of a block that are not those it has trained: a damaged or another file.
    pub(super) fn check_seal(&self, index: usize) -> Result<(), Failure> {
        let path = self.seal_path(index);
        let text = input::read_to_string(&path, MAX_BYTES)
            .map_err(|error| failure("read", &path, plain_reason(&error)))?;
        let seal: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
        let expected = seal["splats"].as_str().unwrap_or("a hash");
        let part = self.block(index);
        let splats = splats_path(&part);
        let found = hash_of_file(&splats)?;
        if found != expected {
            let what = format!(
                "not the splats that block {} has trained (expected {expected}, found {found}); remove the folder {} \
                 and resume the run",
                index + 1,
                part.display()
            );
            return Err(failure("division", &splats, what));
        }
        Ok(())
    }

    fn seal_path(&self, index: usize) -> PathBuf {
        self.path.join(seal_name(index))
    }

    /// Writes what each block has contributed, and the quality at their borders, if it is known.
    pub(super) fn write_merged(
        &self,
        division: &Division,
        blocks: &[Contribution],
        borders: Option<BorderScores>,
    ) -> Result<(), Failure> {
        let merged = json!({ "division": division.hash(), "blocks": blocks, "borders": borders });
        self.write(MERGED, &(serde_json::to_string_pretty(&merged).unwrap_or_default() + "\n"))
    }

    fn write(&self, name: &str, text: &str) -> Result<(), Failure> {
        write_atomic(&Disk, &self.path.join(name), |file| file.write_all(text.as_bytes()))?;
        Ok(())
    }
}

/// Name of the file with the hash of a block's splats.
fn seal_name(index: usize) -> String {
    format!("{:03}.json", index + 1)
}

/// The hash of a file, as a division holds hashes.
fn hash_of_file(path: &Path) -> Result<String, Failure> {
    let refused = |error: std::io::Error| failure("read", path, plain_reason(&error));
    let mut file = input::open(path, u64::MAX).map_err(refused)?;
    DivisionSource::hash_of_file(&mut file).map_err(refused)
}

/// What a division of a run is made of, without what its blocks are given.
fn source_of(recorded: &RecordedRun) -> DivisionSource {
    let values = recorded.config.to_options().given_values();
    let table = TrainOptions::table();
    let is_bound = |name: &str| table.iter().any(|option| option.name == name && !option.is_free_on_resume);
    let bound = values.into_iter().filter(|(name, _)| is_bound(name));
    DivisionSource {
        fingerprint: recorded.record.fingerprint.clone(),
        options: bound.map(|(name, value)| (name, value.to_string())).collect(),
        shared: String::new(),
    }
}

/// Removes a folder in which only the ownership marker is left.
fn remove_marked(folder: &Path) {
    let is_marker = |entry: std::fs::DirEntry| entry.file_name() == ownership::MARKER;
    if input::read_dir(folder).is_ok_and(|entries| entries.flatten().all(is_marker)) {
        // A marker or folder that stays does no harm.
        let _ = Disk.remove(&folder.join(ownership::MARKER));
        ownership::remove_empty(folder);
    }
}

/// Whether a name in the folder is that of a block.
fn is_number(name: &str) -> bool {
    name.parse::<u32>().is_ok()
}

/// Removes a file, if it exists.
fn remove(path: &Path) -> Result<(), Failure> {
    match Disk.remove(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(failure("write", path, format!("remove: {}", plain_reason(&error))))
        }
        _ => Ok(()),
    }
}

/// Removes the checkpoints of a finished part.
pub(super) fn remove_checkpoints(part: &Path) -> Result<(), Failure> {
    for step in list_checkpoints(&Disk, part)? {
        remove(&checkpoint_path(part, step))?;
    }
    Ok(())
}

/// What to do about a division that cannot be used.
const REMEDY: &str = "put the file back, or train again with ⟨force⟩";

fn failure(code: &'static str, path: &Path, what: String) -> Failure {
    Failure::new(code, format!("{}: {what}", path.display()))
}
