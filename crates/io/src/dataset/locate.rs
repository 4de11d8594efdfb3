//! From listed names to files: which images have a file and a pose, each file once, and which half of the split they
//! belong to.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use gausset_core::Pose;

use super::OpenOptions;
use super::assemble::{DatasetBuilder, Findings, ListedImage, PresentImage};
use super::limits::MAX_DISTANCE;
use super::paths::{NameResolver, ResolvedFile};
use super::similar::FileKind;
use super::source::SplitRole;
use super::warning::{SkipReason, Warning};

/// Number of names of missing images that the warning quotes.
const MAX_MISSING_NAMES: usize = 10;

impl DatasetBuilder {
    /// Images with a file and a pose, each file once, sorted by name, with their half of the split.
    pub(super) fn locate_images(
        &self,
        root: &NameResolver,
        listed: Vec<ListedImage>,
        options: &OpenOptions,
        report: &mut Findings,
    ) -> Vec<PresentImage> {
        let listed_count = listed.len();
        let files = self.find_files(root, &listed, options, report);
        let mut missing = Vec::new();
        let mut present: Vec<PresentImage> = Vec::new();
        for (mut entry, found) in listed.into_iter().zip(files) {
            let pose = std::mem::replace(&mut entry.pose, Ok(Pose::IDENTITY)).and_then(|pose| {
                let distance = pose.translation.iter().fold(0.0f64, |far, v| far.max(v.abs()));
                if distance <= MAX_DISTANCE { Ok(pose) } else { Err(SkipReason::TooFar(distance)) }
            });
            match (found, pose) {
                (Ok(found), Ok(pose)) => {
                    let role = entry.role;
                    present.push(PresentImage { listed: entry, found, pose, role });
                }
                (Err(SkipReason::Missing), _) => {
                    missing.push(entry.name.clone());
                    report.skip(&entry.name, SkipReason::Missing);
                }
                (Err(reason), _) | (_, Err(reason)) => report.skip(&entry.name, reason),
            }
        }
        if !missing.is_empty() {
            let (folder, count) = (self.folder.clone(), missing.len());
            missing.truncate(MAX_MISSING_NAMES);
            let warning = Warning::MissingFiles { folder, count, listed: listed_count, names: missing };
            report.warnings.push(warning);
        }
        let mut present = self.deduplicate(present, report);
        for PresentImage { listed, .. } in &mut present {
            // Each panorama is its own frame. Frame ids in files are small, so ids from the top do not clash.
            if listed.frame.is_none() && self.is_panorama(&listed.camera) {
                listed.frame = Some(u32::MAX - listed.id);
            }
        }
        present.sort_by(|a, b| a.found.name.as_bytes().cmp(b.found.name.as_bytes()));
        hold_out(&mut present, options.test_every);
        present
    }

    /// The file of each name: of that name, else the one that it stands for. A file that is listed by its own name, or
    /// that two names stand for, is not guessed.
    fn find_files(
        &self,
        root: &NameResolver,
        listed: &[ListedImage],
        options: &OpenOptions,
        report: &mut Findings,
    ) -> Vec<Result<ResolvedFile, SkipReason>> {
        let find = |entry: &ListedImage| {
            let found = root.find(&entry.name, self.extension);
            match (&found, entry.name.trim_start_matches("./").split_once('/')) {
                // `images/a.jpg` of a JSON file, in another image folder given by an option.
                (Err(SkipReason::Missing), Some((_, rest))) if options.images.is_some() => {
                    root.find(rest, self.extension)
                }
                _ => found,
            }
        };
        let mut files: Vec<_> = listed.iter().map(find).collect();
        let exact: BTreeSet<PathBuf> = files.iter().flatten().map(|found| found.file.clone()).collect();
        let mut names_of: BTreeMap<PathBuf, BTreeSet<&str>> = BTreeMap::new();
        let mut similar = Vec::new();
        for (index, entry) in listed.iter().enumerate() {
            let Err(reason) = &files[index] else { continue };
            let found = root.find_similar(&entry.name, FileKind::Picture, reason.clone());
            if let Ok(found) = &found {
                names_of.entry(found.file.clone()).or_default().insert(&entry.name);
            }
            similar.push((index, found));
        }
        let (mut count, mut first) = (0, None);
        for (index, found) in similar {
            files[index] = found.and_then(|found| {
                let is_free = !exact.contains(&found.file);
                if is_free && names_of.get(&found.file).is_some_and(|names| names.len() == 1) {
                    count += 1;
                    first.get_or_insert_with(|| (found.spelled.clone(), found.name.clone()));
                    Ok(found)
                } else {
                    Err(SkipReason::Missing)
                }
            });
        }
        if let Some((name, used)) = first {
            let path = self.folder.clone();
            report.warnings.push(Warning::SimilarNames { path, what: "images", count, name, used });
        }
        files
    }

    /// Keeps each file once: the first entry, unless a later one is held out by the dataset.
    fn deduplicate(&self, listed: Vec<PresentImage>, report: &mut Findings) -> Vec<PresentImage> {
        let mut place_of: BTreeMap<PathBuf, usize> = BTreeMap::new();
        let mut each: Vec<PresentImage> = Vec::new();
        let (mut count, mut first) = (0, None);
        for mut picture in listed {
            let Some(&place) = place_of.get(&picture.found.file) else {
                place_of.insert(picture.found.file.clone(), each.len());
                each.push(picture);
                continue;
            };
            let Some(stays) = each.get_mut(place) else { continue };
            if picture.role == SplitRole::Test && stays.role != SplitRole::Test {
                std::mem::swap(stays, &mut picture);
            }
            let (name, of) = (&picture.found.spelled, stays.found.name.clone());
            count += 1;
            first.get_or_insert_with(|| (picture.found.spelled.clone(), of.clone()));
            report.skip(name, SkipReason::SameFile { of });
        }
        if let Some((name, of)) = first {
            report.warnings.push(Warning::ListedTwice { folder: self.folder.clone(), count, name, of });
        }
        each
    }
}

/// Holds out every n-th image, or frame of a rig, of those for which the dataset decides nothing.
fn hold_out(present: &mut [PresentImage], every: usize) {
    // Images of one rig frame see the same scene, so a frame is held out as a whole. The middle one of every n is
    // taken, because the first and last of a trajectory have neighbours on one side only.
    let mut moments: BTreeMap<u32, usize> = BTreeMap::new();
    for picture in present.iter().filter(|picture| picture.role == SplitRole::Undecided) {
        if let Some(frame) = picture.listed.frame {
            let next = moments.len();
            moments.entry(frame).or_insert(next);
        }
    }
    let middle = (every / 2).min(moments.len() / 2);
    for (index, picture) in present.iter_mut().enumerate() {
        if picture.role == SplitRole::Undecided {
            let moment = picture.listed.frame.and_then(|frame| moments.get(&frame));
            let held_out = every > 0
                && match moment {
                    Some(moment) => moment % every == middle,
                    None => index % every == 0,
                };
            picture.role = if held_out { SplitRole::Test } else { SplitRole::Train };
        }
    }
}
