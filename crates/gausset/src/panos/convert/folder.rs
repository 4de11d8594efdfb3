//! Converts many frames into a folder, with a manifest.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use gausset_compute::Pool;
use gausset_io::atomic::{
    Disk, FileSystem, Overwrite, UnnamedFile, commit_all, write_atomic, write_uncommitted,
};
use gausset_io::{input, ownership};
use gausset_pano::convert;
use gausset_pano::frames::SourceFrame;
use gausset_pano::split::Skipped;
use serde::{Deserialize, Serialize};

use super::{ConvertJob, PanoConvertResult, create_images, memory_check};
use crate::frame_selection::broken_video;
use crate::panos::frame_reader::{ReadFailure, SourceFrames};
use crate::panos::source::Footage;
use crate::{CountedItem, Event, Failure, Host, device, records};

/// Purpose in the ownership marker of the folder.
const PURPOSE: &str = "converted panoramas";
/// File name of the manifest.
const MANIFEST: &str = "convert.jsonl";
/// Size limit of the manifest.
const MAX_MANIFEST_BYTES: u64 = 1 << 30;
/// Part of the settings hash; incremented when the same input gives other bytes.
const BYTES_VERSION: u32 = 2;

/// A line of the manifest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct ManifestEntry {
    frame: String,
    /// Name of the first file of the source.
    source: String,
    /// Total size of the source files in bytes; `modified` is their modification time.
    bytes: u64,
    modified: u64,
    /// Hash of everything that the output bytes depend on.
    settings: String,
    /// Size of each output file in bytes.
    files: Vec<u64>,
}

impl ManifestEntry {
    fn of(frame: &SourceFrame, settings: &str, files: Vec<u64>) -> Self {
        let name = frame.files.first().and_then(|file| file.file_name());
        Self {
            frame: frame.stem.clone(),
            source: name.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
            bytes: frame.bytes,
            modified: frame.modified,
            settings: settings.to_owned(),
            files,
        }
    }
}

/// Converts all frames of a source into the output folder.
pub(super) fn convert_folder(
    job: &ConvertJob<'_>,
    done: &mut PanoConvertResult,
    host: &mut Host<'_>,
) -> Result<(), Failure> {
    let ConvertJob { options, source, pictures, .. } = *job;
    let folder = options.output.as_path();
    let overwrite = if options.force { Overwrite::Replace } else { Overwrite::Refuse };
    let _lock = records::claim(folder, PURPOSE, None::<&Path>, overwrite, host)?;
    let settings = settings_hash(job);
    let manifest = folder.join(MANIFEST);
    ownership::check_inside(folder, Path::new(MANIFEST))?;
    let text = input::read_to_string(&manifest, MAX_MANIFEST_BYTES).unwrap_or_default();
    let known: BTreeMap<String, ManifestEntry> = text
        .lines()
        .filter_map(|line| serde_json::from_str::<ManifestEntry>(line).ok())
        .map(|line| (line.frame.clone(), line))
        .collect();
    let is_other = !known.is_empty() && known.values().all(|line| line.settings != settings);
    if is_other && !options.force {
        return Err(records::other_settings(folder));
    }
    source.write_selection(folder)?;
    let pool = Pool::new(device::thread_count(options.threads));
    let mut moments = SourceFrames::new(source, job.level, host.stop());
    let mut lines: Vec<ManifestEntry> = Vec::new();
    let total = source.frames.len();
    host.report(Event::Begun { item: CountedItem::Frames, done: 0, total: total as u64 });
    let mut new = 0;
    for (index, frame) in source.frames.iter().enumerate() {
        if host.is_stopping() {
            done.is_cancelled = true;
            break;
        }
        let names: Vec<PathBuf> = pictures
            .iter()
            .map(|(end, _)| PathBuf::from(format!("{}{end}.{}", frame.stem, options.format.extension())))
            .collect();
        let lengths = names.iter().map(|name| length(&folder.join(name))).collect();
        let mut line = ManifestEntry::of(frame, &settings, lengths);
        if !options.force && known.get(&frame.stem) == Some(&line) {
            lines.push(line);
            done.resumed += 1;
        } else {
            match convert_frame(job, &mut moments, (index, frame), &names, &pool, host) {
                Ok(lengths) => {
                    line.files = lengths;
                    lines.push(line);
                    new += 1;
                    // Also keep the lines of later frames that were finished before, in case this run is interrupted.
                    let later = source.frames[index + 1..].iter().filter_map(|f| known.get(&f.stem));
                    write_lines(&manifest, lines.iter().chain(later))?;
                }
                Err(ReadFailure::Stopped) => {
                    done.is_cancelled = true;
                    break;
                }
                Err(ReadFailure::Frame(reason)) => skip(done, frame, reason, host),
                Err(ReadFailure::End) => break,
                Err(ReadFailure::Broken(error)) => return Err(broken_video(error)),
                Err(ReadFailure::Fatal(failure)) => return Err(failure),
            }
        }
        host.report(Event::Done { done: index as u64 + 1, views_per_s: None });
    }
    host.report(Event::Ended);
    done.frames = lines.len();
    done.files = lines.len() * pictures.len();
    if done.is_cancelled {
        return Ok(());
    }
    if new > 0 || lines.len() != known.len() {
        write_lines(&manifest, lines.iter())?;
    }
    if lines.is_empty() {
        let first = done.skipped.first().map_or_else(|| "no frame".to_owned(), |s| s.reason.clone());
        let path = options.input.display();
        return Err(Failure::new(
            "frames",
            format!("{path}: frames: none could be used (the first: {first})"),
        ));
    }
    Ok(())
}

fn skip(done: &mut PanoConvertResult, frame: &SourceFrame, reason: String, host: &mut Host<'_>) {
    host.warn("frames", format!("{reason}; skipped"));
    done.skipped.push(Skipped { frame: frame.stem.clone(), reason });
}

/// Converts a frame. Its files are written under temporary names and renamed together. Returns their sizes.
fn convert_frame(
    job: &ConvertJob<'_>,
    moments: &mut SourceFrames<'_>,
    (index, frame): (usize, &SourceFrame),
    names: &[PathBuf],
    pool: &Pool,
    host: &Host<'_>,
) -> Result<Vec<u64>, ReadFailure> {
    let folder = job.options.output.as_path();
    if job.source.film.is_none() {
        memory_check::check(job, frame).map_err(|error| ReadFailure::Frame(error.to_string()))?;
    }
    let mut moment = moments.read(index)?;
    let (mut files, mut lengths): (Vec<UnnamedFile>, Vec<u64>) = (Vec::new(), Vec::new());
    let mut receive = |place: usize, bytes: &[u8]| {
        ownership::check_inside(folder, &names[place])?;
        files.push(write_uncommitted(&folder.join(&names[place]), bytes)?);
        lengths.push(bytes.len() as u64);
        Ok(())
    };
    let file = frame.files.first().map(PathBuf::as_path).unwrap_or(folder);
    create_images(job, &mut moment, file, pool, host.stop(), &mut receive)?;
    commit_all(files).map_err(|e| ReadFailure::Fatal(e.into()))?;
    Ok(lengths)
}

fn length(path: &Path) -> u64 {
    Disk.info(path).ok().flatten().map_or(0, |info| info.bytes)
}

fn write_lines<'a>(path: &Path, lines: impl Iterator<Item = &'a ManifestEntry>) -> Result<(), Failure> {
    let text: String =
        lines.filter_map(|line| serde_json::to_string(line).ok()).map(|line| line + "\n").collect();
    Ok(write_atomic(&Disk, path, |file| file.write_all(text.as_bytes()))?)
}

fn settings_hash(&ConvertJob { options, source, pictures, colours, .. }: &ConvertJob<'_>) -> String {
    let Footage { projection, is_stereo, film, .. } = source;
    // Older versions did not average GoPro MAX streams and mixed chroma across face edges: the suffix invalidates them.
    let since = if source.is_eac() { " averaged" } else { "" };
    let mut text = format!(
        "{BYTES_VERSION} {pictures:?} {:?} {projection:?} {is_stereo} {} {}{since}",
        options.format,
        colours.colouring.text(),
        colours.equalise.name()
    );
    if let Some(film) = film {
        text += &format!(" {} {:?} {:?}", film.selection(), film.eac, film.video.size);
    }
    convert::fingerprint(&text)
}
