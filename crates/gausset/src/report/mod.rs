//! `report.html`: results of a run on one page that opens from disk without a server.
//!
//! All content is read from the run folder: `config.toml`, `metrics.jsonl`, `eval/`, `profile.json`, `splats.ply`.
//! Equal folders give equal bytes. A report inside its run folder has its numbers next to it, in `metrics.json`.

mod metrics;
mod page;
mod run_log;
mod thumbnails;
mod verdict;

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use gausset_io::atomic::{Disk, Overwrite, WriteError, WriteOptions, check_free, write_atomic_with};
use gausset_io::input;
use gausset_io::input_files::InputFiles;
use gausset_io::run_folder::{eval_folder, report_metrics_path, report_path};
use gausset_page::scene::is_scene_page;
use serde_json::Value;

use self::page::ReportContent;
use crate::saved_run::{DataLocation, SavedRun};
use crate::{Failure, Host};

/// Bytes at the start of a page that are searched for Gausset's mark.
const HEAD_BYTES: u64 = 2048;
/// Size limit of a `metrics.json` that is checked for ownership.
const MAX_NUMBERS_BYTES: u64 = 64 << 20;

/// Options of [`write_report()`].
#[derive(Clone, Debug)]
pub struct ReportOptions {
    /// The run folder.
    pub run: PathBuf,
    /// Output page; `None` = `report.html` in the run folder.
    pub output: Option<PathBuf>,
    /// Whether to embed an interactive view of the splats.
    pub splats: bool,
    /// Folder of the photographs, for the cameras of that view; `None` = where the run found them.
    pub images: Option<PathBuf>,
    /// What to do with an existing file that is not a report of Gausset.
    pub overwrite: Overwrite,
}

/// A written report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportWritten {
    /// The HTML page that was written.
    pub path: PathBuf,
    /// Its size in bytes.
    pub bytes: u64,
}

/// Writes the report of a run, finished or not. An existing report of Gausset is replaced.
///
/// # Errors
/// The folder has no run, a file cannot be read or written, or the page would replace a file that Gausset did not
/// create.
pub fn write_report(options: &ReportOptions, host: &mut Host<'_>) -> Result<ReportWritten, Failure> {
    let run = SavedRun::read(&options.run)?;
    let _evaluation = InputFiles::new([eval_folder(&run.folder)]);
    let _lock = if options.output.is_none() { Some(run.lock_shared()?) } else { None };
    let path = options.output.clone().unwrap_or_else(|| report_path(&run.folder));
    let overwrite = |is_ours| if is_ours { Overwrite::Replace } else { options.overwrite };
    check_free(&Disk, &path, overwrite(is_report_page(&path)))?;
    let for_programs = match options.output {
        None => {
            let path = report_metrics_path(&run.folder);
            let overwrite = overwrite(is_our_metrics(&path));
            check_free(&Disk, &path, overwrite)?;
            Some((path, overwrite))
        }
        Some(_) => None,
    };
    let content = ReportContent::read(&run)?;
    let numbers = content.numbers(&run);
    let data = DataLocation::for_viewing(None, options.images.as_deref());
    let with_splats = options.splats.then_some(data);
    let page = page::html(&run, &content, &numbers, with_splats, host)?;
    let written = write(&path, &page, overwrite(is_report_page(&path)))?;
    if let Some((path, overwrite)) = for_programs {
        write(&path, &numbers.to_json(), overwrite)?;
    }
    Ok(written)
}

/// Whether a file is a report written by Gausset. A page of a scene holds splats.
#[must_use]
pub fn is_report_page(path: &Path) -> bool {
    let mut start = Vec::new();
    let read =
        input::open(path, input::NO_LIMIT).and_then(|file| file.take(HEAD_BYTES).read_to_end(&mut start));
    read.is_ok() && gausset_page::is_gausset_page(&start) && !is_scene_page(&start)
}

/// Whether a file is a `metrics.json` written by Gausset.
fn is_our_metrics(path: &Path) -> bool {
    let file = input::read(path, MAX_NUMBERS_BYTES).ok();
    let numbers: Option<Value> = file.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    numbers.is_some_and(|numbers| {
        ["schema", "seconds_to", "curves"].iter().all(|field| numbers.get(field).is_some())
    })
}

/// Writes the report of a run that has just finished; the caller holds the lock of its folder.
pub(crate) fn write_finished(folder: &Path, host: &mut Host<'_>) -> Result<ReportWritten, Failure> {
    let run = SavedRun::read(folder)?;
    let content = ReportContent::read(&run)?;
    let numbers = content.numbers(&run);
    let page = page::html(&run, &content, &numbers, None, host)?;
    // Existing files were checked when the run folder was claimed.
    write(&report_metrics_path(folder), &numbers.to_json(), Overwrite::Replace)?;
    Ok(write(&report_path(folder), &page, Overwrite::Replace)?)
}

fn write(path: &Path, text: &str, overwrite: Overwrite) -> Result<ReportWritten, WriteError> {
    let options = WriteOptions { label: "report", overwrite, needed_bytes: text.len() as u64 };
    write_atomic_with(&Disk, path, &options, |file| file.write_all(text.as_bytes()))?;
    Ok(ReportWritten { path: path.to_owned(), bytes: text.len() as u64 })
}
