//! The ladder of recipes: which attempt COLMAP makes next when too few frames are registered.
//!
//! ```text
//! 1  8,192 features an image
//! 2  twice as many; skipped if no image reached the first cap
//! 3  affine shapes
//! 4  fewer matches a pair: only the mapper's setting differs, so it maps the matches of recipe 3 again
//! ```
//! A dearer recipe is tried only if a cheaper one found a verified pair of images. The best model counts.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use gausset_io::atomic::{Disk, Overwrite, write_atomic};
use gausset_io::input::absolute;
use gausset_io::ownership;
use gausset_process::ProcessError;

use crate::align::{
    AlignError, AlignJob, AlignProgress, Alignment, DATABASE, FrameFacts, StageFacts, WORK_FOLDER_KIND,
    attempt_of_recipe, create_folder, run_attempt, write_imported_matches,
};
use crate::attempt::{Attempt, Mapper, STAGES};
use crate::model::{CheckedModel, FrameImages};
use crate::resume;
use crate::tool::AlignmentTool;

/// Fraction of registered frames at which no further recipe is tried.
const ENOUGH_REGISTERED: f64 = 0.8;

/// One recipe of the ladder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Recipe {
    pub(crate) max_features: u32,
    pub(crate) affine_shape: bool,
    pub(crate) min_matches: u32,
}

pub(crate) const LADDER: [Recipe; 4] = [
    Recipe { max_features: 8192, affine_shape: false, min_matches: 15 },
    Recipe { max_features: 16_384, affine_shape: false, min_matches: 15 },
    Recipe { max_features: 16_384, affine_shape: true, min_matches: 15 },
    Recipe { max_features: 16_384, affine_shape: true, min_matches: 10 },
];

impl Recipe {
    /// Whether another recipe makes the same features and matches.
    fn has_features_of(&self, other: &Self) -> bool {
        (self.max_features, self.affine_shape) == (other.max_features, other.affine_shape)
    }

    /// Whether the only difference from the recipe before is a cap of features that no image reached there.
    fn repeats(&self, before: &Self, facts: &StageFacts) -> bool {
        let is_uncapped = facts.most_features.is_some_and(|most| most < u64::from(before.max_features));
        let other = Self { max_features: before.max_features, ..*self };
        *self != *before && other == *before && is_uncapped
    }
}

/// One run of COLMAP on the features of a recipe.
struct Rung<'a> {
    job: &'a AlignJob,
    tool: &'a AlignmentTool,
    recipe: Recipe,
    number: usize,
    /// Folder of the database.
    folder: &'a Path,
    /// Whether features and matches exist.
    is_matched: bool,
}

/// Tries the recipes in turn, until enough frames are registered.
pub(crate) fn climb(
    job: &AlignJob,
    tool: &AlignmentTool,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(&AlignProgress),
) -> Result<Alignment, AlignError> {
    let mut best: Option<Alignment> = None;
    let (mut failure, mut facts) = (None, StageFacts::default());
    let mut unmatched = Vec::new();
    // The recipe whose features exist, and their folder.
    let mut last: Option<(Recipe, PathBuf)> = None;
    for (number, &recipe) in LADDER.iter().enumerate() {
        if last.as_ref().is_some_and(|(before, _)| recipe.repeats(before, &facts)) {
            continue;
        }
        let same = last.as_ref().filter(|(before, _)| recipe.has_features_of(before));
        let is_matched = same.is_some() && failure.is_none();
        let folder = match same.filter(|_| is_matched) {
            Some((_, folder)) => folder.clone(),
            None => absolute(&job.work_folder.join(format!("features{number}"))),
        };
        if !is_matched {
            resume::prepare(job, tool, recipe, &folder)?;
        }
        let rung = Rung { job, tool, recipe, number, folder: &folder, is_matched };
        match rung.run(stop, tell) {
            Ok((model, found)) => {
                if !is_matched {
                    facts = found;
                    unmatched = unmatched_frames(job, &facts);
                }
                let is_better = |model: &CheckedModel| {
                    best.as_ref().is_none_or(|best| sort_key(model) > sort_key(&best.model))
                };
                if let Some(model) = model.filter(is_better) {
                    let database = job.keep_work_folder.then(|| folder.join(DATABASE));
                    best = Some(Alignment {
                        model,
                        recipe: number,
                        database,
                        frames: frame_facts(job, &unmatched),
                    });
                }
            }
            Err(error @ AlignError::Process(ProcessError::Stopped { .. })) => return Err(error),
            Err(error) if number == 0 => return Err(error),
            // The first recipe succeeded; a later one that fails does not discard its model.
            Err(error) => failure = Some(error),
        }
        last = Some((recipe, folder));
        // With known poses another recipe finds more points, but no more frames. Imported matches are the same in all
        // recipes.
        if job.known_poses.is_some()
            || job.imported_matches.is_some()
            || facts.verified_pairs == Some(0)
            || has_enough_frames(best.as_ref().map(|b| &b.model), job)
        {
            break;
        }
        let registered = best.as_ref().map_or(0, |b| b.model.image_of_frame.len());
        tracing::info!("{registered} of {} frames with recipe {number}", job.frames.len());
    }
    best.ok_or_else(|| {
        failure.unwrap_or_else(|| AlignError::NoFrameRegistered {
            images: job.image_folder.clone(),
            frames: job.frames.len(),
            unmatched,
        })
    })
}

/// What COLMAP reports of frames: whether they share a verified match with another.
fn frame_facts(job: &AlignJob, unmatched: &[String]) -> Vec<FrameFacts> {
    let facts = |frame: &FrameImages| FrameFacts {
        features: None,
        tried: None,
        partners: unmatched.contains(&frame.name).then(Vec::new),
    };
    job.frames.iter().map(facts).collect()
}

/// Names of the frames none of whose images has a verified pair.
fn unmatched_frames(job: &AlignJob, facts: &StageFacts) -> Vec<String> {
    let without = |name: &String| facts.without_pair.binary_search(name).is_ok();
    let frames = job.frames.iter().filter(|frame| frame.images.iter().all(without));
    frames.map(|frame| frame.name.clone()).collect()
}

impl Rung<'_> {
    /// Runs the stages and returns the best model that the mappers make.
    fn run(
        &self,
        stop: &AtomicBool,
        tell: &mut dyn FnMut(&AlignProgress),
    ) -> Result<(Option<CheckedModel>, StageFacts), AlignError> {
        let Self { job, folder, .. } = self;
        let first = Attempt {
            given: write_imported_matches(job, folder)?,
            ..attempt_of_recipe(job, self.recipe, folder)
        };
        if let Some(known) = &first.known {
            create_folder(known)?;
            for (name, bytes) in job.known_poses.iter().flatten() {
                write_atomic(&Disk, &known.join(name), |file| file.write_all(bytes))?;
            }
        }
        // Points of known poses are triangulated once, so only one mapper runs.
        let mappers = if job.known_poses.is_some() { Mapper::Incremental } else { job.mapper }.sequence();
        let (mut best, mut facts): (Option<CheckedModel>, _) = (None, StageFacts::default());
        for (run, &mapper) in mappers.iter().enumerate() {
            let is_mapping_only = run > 0 || self.is_matched;
            let attempt = Attempt {
                mapper,
                models: folder.join(format!("models{}-{run}", self.number)),
                stages: if is_mapping_only { &STAGES[2..] } else { &STAGES },
                ..first.clone()
            };
            // Models of an interrupted mapping are made again.
            ownership::remove(&attempt.models, WORK_FOLDER_KIND)?;
            ownership::claim_folder(&Disk, &attempt.models, WORK_FOLDER_KIND, Overwrite::Refuse)?;
            let found = run_attempt(&attempt, job, self.tool, self.number, folder, stop, tell)
                .and_then(|facts| Ok((CheckedModel::best(&attempt.models, &job.frames)?, facts)));
            match found {
                Ok((model, found)) => {
                    best = better_model(best, model);
                    if !is_mapping_only {
                        facts = found;
                    }
                }
                Err(error @ AlignError::Process(ProcessError::Stopped { .. })) => return Err(error),
                Err(error) if run == 0 => return Err(error),
                // The first mapper succeeded; a later one that fails does not discard its model.
                Err(error) => tracing::warn!("{error}"),
            }
            if has_enough_frames(best.as_ref(), job) {
                break;
            }
        }
        Ok((best, facts))
    }
}

/// Sort key of models: number of frames, then number of points.
fn sort_key(model: &CheckedModel) -> (usize, usize) {
    (model.image_of_frame.len(), model.colmap.points.len())
}

fn better_model(a: Option<CheckedModel>, b: Option<CheckedModel>) -> Option<CheckedModel> {
    match (a, b) {
        (Some(a), Some(b)) => Some(if sort_key(&b) > sort_key(&a) { b } else { a }),
        (a, b) => a.or(b),
    }
}

fn has_enough_frames(model: Option<&CheckedModel>, job: &AlignJob) -> bool {
    model.map_or(0, |model| model.image_of_frame.len()) as f64 >= ENOUGH_REGISTERED * job.frames.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recipe_that_would_repeat_another_is_known() {
        let facts = |most| StageFacts { most_features: most, ..StageFacts::default() };
        let [first, second, third, fourth] = LADDER;
        assert!(second.repeats(&first, &facts(Some(3300))));
        assert!(!second.repeats(&first, &facts(Some(8192))) && !second.repeats(&first, &facts(None)));
        // Affine shapes are other features.
        assert!(!third.repeats(&first, &facts(Some(3300))) && !third.repeats(&second, &facts(Some(3300))));
        assert!(fourth.has_features_of(&third) && !third.has_features_of(&second));
    }
}
