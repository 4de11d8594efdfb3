//! Intermediate results of `run`, `align` and `pano run`: models, and JSON records of the options each was made with.
//! The same command resumes. A command with other options is refused with the option that differs; only `--force`
//! replaces results.

use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use gausset_io::atomic::{Disk, FileSystem, Overwrite, WriteError, plain_reason, write_atomic};
use gausset_io::dataset::Georeference;
use gausset_io::dataset::georeference::GEOREFERENCE_FILE;
use gausset_io::input;
use gausset_io::input_files;
use gausset_io::lock::FolderLock;
use gausset_io::ownership::{self, OwnershipError};
use serde_json::Value;

use crate::{Failure, Host};

/// Purpose in the ownership marker of a COLMAP model folder ([`gausset_io::ownership`]).
pub const MODEL_PURPOSE: &str = "model";
/// File name of the record of a photo model, in the model folder.
pub const MODEL_RECORD: &str = "align.json";
/// Name of the working folder of COLMAP, which exists until there is a model.
pub const WORK_FOLDER: &str = ".sfm";

/// Size limit of a record: enough for a million image names.
const MAX_RECORD_BYTES: u64 = 64 << 20;

/// Creates the folder of a command and locks it against other processes.
pub fn lock(folder: &Path) -> Result<FolderLock, Failure> {
    Disk.create_folder(folder).map_err(|source| {
        let reason = plain_reason(&source);
        Failure::new("write", format!("{}: folder: {reason}", folder.display()))
    })?;
    FolderLock::acquire(folder).map_err(|e| Failure::new("in-use", e))
}

/// The output folder of a job that may fail before it has written anything: a new folder that is still empty at the end
/// is removed.
pub(crate) struct OutputFolder {
    path: PathBuf,
    is_new: bool,
}

impl OutputFolder {
    /// Keep it until the job has ended and its lock is released.
    pub(crate) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), is_new: path.symlink_metadata().is_err() }
    }
}

impl Drop for OutputFolder {
    fn drop(&mut self) {
        if self.is_new {
            ownership::remove_empty(&self.path);
        }
    }
}

/// Claims the folder of a command or refuses it, locks it against other processes, and removes half-written files of
/// killed processes in it and in the subfolders `below`.
pub fn claim(
    folder: &Path,
    purpose: &str,
    below: impl IntoIterator<Item = impl AsRef<Path>>,
    overwrite: Overwrite,
    host: &mut Host<'_>,
) -> Result<FolderLock, Failure> {
    ownership::claim_folder(&Disk, folder, purpose, overwrite)?;
    let lock = FolderLock::acquire(folder).map_err(|e| Failure::new("in-use", e))?;
    if let Some(note) = &lock.note {
        host.warn("the folder", note);
    }
    ownership::clean_up(&Disk, folder, purpose, below)?;
    Ok(lock)
}

/// Refuses output names that are links out of the folder, or neither file nor folder.
pub fn refuse_links_out(folder: &Path, names: &[&str]) -> Result<(), Failure> {
    names.iter().try_for_each(|name| ownership::check_inside(folder, Path::new(name))).map_err(Failure::from)
}

/// Canonical path for records: the same for every spelling of a path.
pub fn canonical_path(path: &Path) -> String {
    let named = std::fs::canonicalize(path).or_else(|_| std::path::absolute(path));
    named.unwrap_or_else(|_| path.to_owned()).display().to_string()
}

/// Reads a record; `None` if the file is missing or is not a JSON object.
pub fn read_record(path: &Path) -> Option<Value> {
    let text = input::read(path, MAX_RECORD_BYTES).ok()?;
    serde_json::from_slice(&text).ok().filter(Value::is_object)
}

/// Writes a record as indented JSON.
pub fn write_record(path: &Path, record: &Value) -> Result<(), WriteError> {
    write_atomic(&Disk, path, |file| writeln!(file, "{record:#}"))
}

/// Differences between two records, each as `fps = 2 (given: 3)`. Keys are long option names or other inputs of the
/// stage.
pub fn differences(was: &Value, is: &Value) -> Vec<String> {
    let keys =
        |record: &Value| record.as_object().into_iter().flat_map(|o| o.keys().cloned()).collect::<Vec<_>>();
    let mut all = [keys(was), keys(is)].concat();
    all.sort();
    all.dedup();
    all.iter().filter(|key| was[key] != is[key]).map(|key| difference(key, &was[key], &is[key])).collect()
}

fn difference(key: &str, was: &Value, is: &Value) -> String {
    if let (Some(was), Some(is)) = (was.as_array(), is.as_array()) {
        let without =
            |list: &[Value], other: &[Value]| list.iter().filter(|v| !other.contains(v)).cloned().collect();
        let (gone, new): (Vec<Value>, Vec<Value>) = (without(was, is), without(is, was));
        let count =
            |word, list: &[Value]| list.first().map(|first| format!("{} {word}: {first}", list.len()));
        let parts: Vec<String> = [count("gone", &gone), count("new", &new)].into_iter().flatten().collect();
        return format!("{key} = {} (given: {}, {})", was.len(), is.len(), parts.join(", "));
    }
    let shown = |value: &Value| if value.is_null() { "nothing".to_owned() } else { value.to_string() };
    format!("{key} = {} (given: {})", shown(was), shown(is))
}

/// Error for an existing result that was made with other options.
pub fn other_options(place: &Path, differences: &[String]) -> Failure {
    let line = format!(
        "{}: made with {}; use the same options to resume, choose another folder with ⟨output⟩, or replace it with ⟨force⟩",
        place.display(),
        differences.join(", ")
    );
    Failure::new("other-options", line)
}

/// Error for existing frames made with other options, where only a hash of the options is known.
pub fn other_settings(folder: &Path) -> Failure {
    let line = format!(
        "{}: made with other options, or by another version; use the same options to resume, choose another folder with ⟨output⟩, or replace it with ⟨force⟩",
        folder.display()
    );
    Failure::new("other-options", line)
}

/// Files that a model folder may contain.
const MODEL_FILES: [&str; 7] =
    ["cameras.bin", "images.bin", "points3D.bin", "rigs.bin", "frames.bin", GEOREFERENCE_FILE, MODEL_RECORD];

/// `FOLDER/sparse/0`, the place of the first model.
pub fn model_folder(folder: &Path) -> PathBuf {
    folder.join("sparse").join("0")
}

/// Checks before a long alignment that a model may be written to `FOLDER/sparse/0`. Changes nothing.
pub fn check_model_folder(folder: &Path, overwrite: Overwrite) -> Result<(), Failure> {
    refuse_links_out(folder, &["sparse/0"])?;
    let folder = model_folder(folder);
    refuse_links_out(&folder, &MODEL_FILES)?;
    MODEL_FILES.iter().try_for_each(|name| input_files::check_not_input(&folder.join(name)))?;
    if overwrite == Overwrite::Replace || ownership::is_gausset_owned(&folder, MODEL_PURPOSE) {
        return Ok(());
    }
    match Disk.list(&folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(source) => Err(WriteError::Io { path: folder, action: "list", source }.into()),
        Ok(names) => match names.first().map(|found| found.display().to_string()) {
            None => Ok(()),
            Some(found) => Err(OwnershipError::ThirdPartyFiles { path: folder, found }.into()),
        },
    }
}

/// Claims `FOLDER/sparse/0` for a model.
pub fn claim_model(folder: &Path, overwrite: Overwrite) -> Result<PathBuf, Failure> {
    check_model_folder(folder, overwrite)?;
    let model = model_folder(folder);
    ownership::claim_folder(&Disk, &model, MODEL_PURPOSE, overwrite)?;
    Ok(model)
}

/// Writes `georeference.json` to the folder of a model, or removes that of an earlier model.
pub(crate) fn write_georeference(folder: &Path, found: Option<&Georeference>) -> Result<(), WriteError> {
    let path = folder.join(GEOREFERENCE_FILE);
    match found {
        Some(found) => found.write(folder),
        None if path.is_file() => {
            Disk.remove(&path).map_err(|source| WriteError::Io { path, action: "remove", source })
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_differs_is_named_with_both_values() {
        let was = json!({ "fps": 2.0, "end": null, "photographs": ["a.jpg", "b.jpg", "c.jpg"], "seed": 0 });
        let is = json!({ "fps": 2.5, "end": 9.0, "photographs": ["a.jpg", "d.jpg"], "seed": 0 });
        assert!(differences(&was, &was).is_empty());
        assert_eq!(
            differences(&was, &is),
            [
                "end = nothing (given: 9.0)",
                "fps = 2.0 (given: 2.5)",
                "photographs = 3 (given: 2, 2 gone: \"b.jpg\", 1 new: \"d.jpg\")",
            ]
        );
        // Records of other versions may have more or fewer keys.
        assert_eq!(differences(&json!({}), &json!({ "seed": 1 })), ["seed = nothing (given: 1)"]);
    }

    #[test]
    fn a_model_is_written_to_a_new_an_empty_and_our_own_folder_only() {
        let root = tempfile::tempdir().unwrap();
        let folder = model_folder(root.path());
        check_model_folder(root.path(), Overwrite::Refuse).unwrap();
        assert!(!folder.exists(), "nothing was changed");
        claim_model(root.path(), Overwrite::Refuse).unwrap();
        std::fs::write(folder.join("cameras.bin"), b"x").unwrap();
        check_model_folder(root.path(), Overwrite::Refuse).unwrap();
        std::fs::remove_file(folder.join(ownership::MARKER)).unwrap();
        let refusal = check_model_folder(root.path(), Overwrite::Refuse).unwrap_err();
        assert!(refusal.code == "exists" && refusal.message.contains("found cameras.bin"), "{refusal:?}");
        check_model_folder(root.path(), Overwrite::Replace).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn a_model_is_never_written_through_a_link_that_leads_out() {
        let [root, outside] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        std::os::unix::fs::symlink(outside.path(), root.path().join("sparse")).unwrap();
        assert!(claim_model(root.path(), Overwrite::Replace).is_err());
        assert_eq!(Disk.list(outside.path()).unwrap().len(), 0);
        std::fs::remove_file(root.path().join("sparse")).unwrap();
        let folder = claim_model(root.path(), Overwrite::Refuse).unwrap();
        std::fs::write(outside.path().join("mine"), b"mine").unwrap();
        std::os::unix::fs::symlink(outside.path().join("mine"), folder.join("images.bin")).unwrap();
        assert!(claim_model(root.path(), Overwrite::Replace).is_err());
    }
}
