//! Aligns panoramas: estimates their poses by structure from motion.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use gausset_core::Pose;
use gausset_io::atomic::{Disk, FileSystem, Overwrite, WriteError, check_free, write_atomic};
use gausset_io::dataset::Georeference;
use gausset_io::dataset::colmap::ModelFormat;
use gausset_io::input;
use gausset_io::lock::FolderLock;
use gausset_io::ownership;
use gausset_pano::export::{AlignedPoses, FramePose, colmap_files};
use gausset_pano::geometry::View;
use gausset_pano::lens_pose::LensRelation;
use gausset_pano::rig;
use gausset_pano::split::{MANIFEST, Naming, SplitDescription, read_manifest};
use gausset_sfm::align::{
    AlignJob, Alignment, CameraSharing, PositionPrior, check_frame_count, remove_work_folder,
};
use gausset_sfm::model::{CheckedModel, FrameImages};
use gausset_sfm::track::TrackFit;
use gausset_sfm::{AlignmentTool, ImportedMatches, PairChoice, masks_in};
use serde_json::json;

use super::alignment::{PanoAlignment, unregistered};
use super::compare;
use super::prior_knowledge::{self, PriorKnowledge};
use super::track;
use crate::aligner::{AlignerOptions, run_tool};
use crate::frame_selection::with_advice;
use crate::{Event, Failure, Host, Stage, georeference, records};

/// File name of the poses.
const POSES: &str = "poses.json";

/// Path of the pose file in a folder of views.
#[must_use]
pub fn poses_path(folder: &Path) -> PathBuf {
    folder.join(POSES)
}

/// Size limit of a split manifest.
const MAX_MANIFEST_BYTES: u64 = 1 << 30;

/// Fingerprint of an alignment: a hash of views and tool, and after a space a hash of prior knowledge, if there is any.
fn fingerprint(folder: &Path, tool: &AlignerOptions, known: &PriorKnowledge) -> String {
    let manifest = input::read(&folder.join(MANIFEST), MAX_MANIFEST_BYTES).unwrap_or_default();
    let mut text = manifest;
    text.extend(format!("seed {}", tool.seed).bytes());
    if let Some(mapper) = tool.non_default_mapper() {
        text.extend(format!("mapper {mapper}").bytes());
    }
    if let Some(aligner) = tool.non_default_aligner() {
        text.extend(format!("aligner {aligner}").bytes());
    }
    let files = [("poses", &known.poses), ("matches", &known.matches), ("database", &known.database)];
    let files = files.map(|(key, path)| (key, json!(path.as_deref().map(records::canonical_path))));
    let said = known.record().into_iter().chain(files).filter(|(_, value)| !value.is_null());
    let said: String = said.map(|(key, value)| format!("{key} {value} ")).collect();
    match said.is_empty() {
        true => fnv1a(&text),
        false => format!("{} {}", fnv1a(&text), fnv1a(said.as_bytes())),
    }
}

/// FNV-1a hash. It identifies inputs and does not need to be cryptographic.
fn fnv1a(bytes: &[u8]) -> String {
    let fold = |h: u64, b: &u8| (h ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3);
    format!("{:016x}", bytes.iter().fold(0xcbf2_9ce4_8422_2325u64, fold))
}

/// Poses of an earlier alignment of the same views. Without options about a track, any earlier alignment is accepted.
/// An alignment with another track, or without one, is only discarded with `Replace`.
///
/// # Errors
/// The earlier alignment used other tracks and `overwrite` is `Refuse`.
pub fn earlier_poses(
    folder: &Path,
    tool: &AlignerOptions,
    known: &PriorKnowledge,
    overwrite: Overwrite,
) -> Result<Option<AlignedPoses>, Failure> {
    let wanted = fingerprint(folder, tool, known);
    let of_views = |input: &str| input.split(' ').next().map(str::to_owned);
    let found = AlignedPoses::read(&poses_path(folder)).ok();
    let Some(poses) = found.filter(|poses| of_views(&poses.input) == of_views(&wanted)) else {
        return Ok(None);
    };
    match (poses.input == wanted || !wanted.contains(' '), overwrite) {
        (true, _) => Ok(Some(poses)),
        (false, Overwrite::Replace) => Ok(None),
        (false, Overwrite::Refuse) => Err(Failure::new(
            "other-options",
            format!(
                "{}: was aligned with another ⟨track⟩, ⟨track-offset⟩ or ⟨refine⟩, or with none; leave them out to keep it, or align again with ⟨force⟩",
                folder.display()
            ),
        )),
    }
}

/// Aligns views as [`align`] does and compares the poses with reference poses of the same panoramas. If the comparison
/// is impossible (too few frames registered), it warns and keeps the alignment.
///
/// # Errors
/// As [`align`]; the reference cannot be read or has none of the frames (checked first).
pub fn align_and_compare(
    folder: &Path,
    reference: &Path,
    known: &PriorKnowledge,
    options: &AlignerOptions,
    overwrite: Overwrite,
    host: &mut Host<'_>,
) -> Result<PanoAlignment, Failure> {
    known.check(options.aligner)?;
    let description = SplitDescription::read(folder).map_err(|e| Failure::new("frames", e))?;
    compare::check_names(&description.frames, reference)?;
    let poses = align(folder, known, options, overwrite, host)?;
    let compared = compare::compare(folder, reference);
    if let Err(failure) = &compared {
        host.warn(failure.code, failure.message.clone());
    }
    Ok(PanoAlignment {
        reference: compared.ok(),
        ..PanoAlignment::new(&poses, records::model_folder(folder))
    })
}

/// Aligns the views in a folder and writes `sparse/0` and `poses.json`. Uses the prior knowledge in `known`. A finished
/// alignment of the same views and options is kept, unless it is replaced.
///
/// # Errors
/// Not a folder of views, no COLMAP, no matching pair of images, a model that Gausset did not create or made of other
/// views or options, or the job was asked to stop.
pub fn align(
    folder: &Path,
    known: &PriorKnowledge,
    options: &AlignerOptions,
    overwrite: Overwrite,
    host: &mut Host<'_>,
) -> Result<AlignedPoses, Failure> {
    let poses_file = poses_path(folder);
    let is_ours = ownership::is_gausset_owned(&records::model_folder(folder), records::MODEL_PURPOSE);
    if overwrite == Overwrite::Refuse
        && is_ours
        && let Ok(poses) = AlignedPoses::read(&poses_file)
    {
        // The contents of files of prior knowledge are not compared.
        let has_files = *known != PriorKnowledge::default();
        if !has_files && poses.input == fingerprint(folder, options, known) {
            host.stage(Stage::AlignedAlready);
            return Ok(poses);
        }
        let line = format!(
            "{}: exists, of views, options or files that may be others; align again with ⟨force⟩",
            poses_file.display()
        );
        return Err(Failure::new("other-options", line));
    }
    align_anew(folder, known, options, overwrite, host)
}

/// As [`align`], but replaces a finished alignment.
pub(super) fn align_anew(
    folder: &Path,
    known: &PriorKnowledge,
    options: &AlignerOptions,
    overwrite: Overwrite,
    host: &mut Host<'_>,
) -> Result<AlignedPoses, Failure> {
    let aligned = align_views(folder, known, options, overwrite, host);
    host.unless_stopped(aligned)
}

fn align_views(
    folder: &Path,
    known: &PriorKnowledge,
    options: &AlignerOptions,
    overwrite: Overwrite,
    host: &mut Host<'_>,
) -> Result<AlignedPoses, Failure> {
    known.check(options.aligner)?;
    let description = SplitDescription::read(folder).map_err(|e| Failure::new("frames", e))?;
    if description.naming != Naming::Rig {
        return Err(Failure::usage(format!(
            "{}: names: are flat, so COLMAP cannot group the views of a panorama (expected ⟨naming = rig⟩); split again",
            folder.display()
        )));
    }
    if known.poses.is_some() && description.levelled {
        return Err(Failure::usage(format!(
            "{}: views: are those of levelled panoramas, so that ⟨poses⟩ of the panoramas do not fit them; split again with ⟨level = off⟩",
            folder.display()
        )));
    }
    let choice = known;
    let mut known = choice
        .poses
        .as_deref()
        .map(|path| prior_knowledge::poses_of_frames(&description, path, host))
        .transpose()?;
    let track =
        choice.track.as_ref().map(|track| track::open(track, folder, &description, host)).transpose()?;
    let frames = frames_of(&description);
    let given = match (&choice.matches, &choice.database) {
        (Some(folder), _) => {
            let sizes: Vec<[u32; 2]> = description.views.iter().map(|v| [v.width, v.height]).collect();
            Some(ImportedMatches::read(folder, &frames, &sizes)?)
        }
        (None, Some(path)) => Some(ImportedMatches::database(path)?),
        (None, None) => None,
    };
    let tool = options.find(choice.needs_colmap(), host)?;
    let _lock = FolderLock::acquire(folder).map_err(|e| Failure::new("in-use", e))?;
    let (model_folder, poses_file) = (records::model_folder(folder), poses_path(folder));
    records::check_model_folder(folder, overwrite)?;
    records::refuse_links_out(folder, &[POSES])?;
    if !ownership::is_gausset_owned(&model_folder, records::MODEL_PURPOSE) {
        check_free(&Disk, &poses_file, overwrite)?;
    }
    let count = description.frames.len();
    if known.is_none() {
        check_frame_count(folder, count, true)?;
    }
    let views = &description.views;
    let Some(first) = views.first() else {
        return Err(Failure::new("frames", format!("{}: views: none", folder.display())));
    };
    let f = first.focal();
    let absolute = input::absolute(folder);
    let masks = absolute.join("masks");
    // Scale given poses to metres before their points are triangulated, so that the track positions are in the same
    // coordinates.
    let fit =
        known.as_mut().zip(track.as_ref()).and_then(|(known, track)| track.scale_to_metres(known, host));
    let places = track.as_ref().zip(fit.as_ref()).filter(|_| choice.refine);
    let job = AlignJob {
        image_folder: absolute.join("images"),
        masks: masks_in(&masks, &frames),
        invert_masks: false,
        metadata: BTreeMap::new(),
        frames,
        rig_config: Some(absolute.join("rig_config.json")),
        views: views.iter().map(sfm_view).collect(),
        camera_model: "PINHOLE".to_owned(),
        camera_params: Some(format!(
            "{f},{f},{},{}",
            0.5 * f64::from(first.width),
            0.5 * f64::from(first.height)
        )),
        cameras: CameraSharing::PerFolder,
        pairs: PairChoice::Auto,
        is_sequence: true,
        ground_positions: Vec::new(),
        known_poses: known.as_ref().map(|poses| colmap_files(&description, poses, &[], ModelFormat::Binary)),
        refine_known_poses: choice.refine && known.is_some(),
        priors: places.map_or_else(Vec::new, |(track, fit)| priors(track, fit, &description)),
        imported_matches: given,
        keep_work_folder: choice.refine && track.is_some() && known.is_none(),
        mapper: options.mapper,
        max_image_size: first.width.max(first.height),
        work_folder: absolute.join(records::WORK_FOLDER),
        threads: options.thread_count(),
        seed: options.seed,
        silence_limit: options.colmap_timeout(),
    };
    let (aligned, tool) =
        options.run(&job, tool, "frame", host).map_err(|failure| with_advice(failure, folder))?;
    let input = fingerprint(folder, options, choice);
    let is_known = known.is_some();
    let by = match tool {
        AlignmentTool::BuiltIn => tool.describe(),
        _ => format!("{}, {} mapper", tool.describe(), options.mapper.name()),
    };
    let is_given = known.is_some() && !choice.refine;
    // Poses read from a file may already be georeferenced.
    let is_on_track = fit.is_some() || known.is_none();
    let context = PoseContext { description: &description, folder, tool: &tool, by: &by, input };
    let (model, mut poses, place) = match known {
        Some(known) => {
            let (model, poses) =
                context.result_of_known_poses(aligned.model, known, choice.refine, places, host)?;
            (model, poses, None)
        }
        None => context.with_scale(aligned, track.as_ref(), &job, host)?,
    };
    if let Some(earth) = poses.earth.as_ref().filter(|_| is_on_track) {
        host.report(Event::OnTrack(earth.clone()));
    }
    if let Some(axes) = description.lens_axes {
        estimate_lens_pose(&mut poses, axes, is_given, host);
    }
    if is_known && model.colmap.points.is_empty() {
        host.warn("poses", "points: none could be triangulated; these poses do not belong to these images (other axes, mirrored, other names), or the images have too few features");
    }
    records::claim_model(folder, overwrite)?;
    if poses_file.is_file() {
        // Poses say that the model is complete.
        let failed = |source| WriteError::Io { path: poses_file.clone(), action: "remove", source };
        Disk.remove(&poses_file).map_err(failed)?;
    }
    model.write(&model_folder, &job.frames)?;
    records::write_georeference(&model_folder, place.as_ref())?;
    let text = serde_json::to_string_pretty(&poses).unwrap_or_default();
    write_atomic(&Disk, &poses_file, |file| file.write_all(text.as_bytes()))?;
    for name in unregistered(&poses) {
        host.warn(
            "frames",
            format!("{name}: frame: {}", if is_known { "has no given pose" } else { "did not register" }),
        );
    }
    Ok(poses)
}

/// Estimates the relative pose of two lenses that were aligned as separate frames. A lens without a pose gets one from
/// the other lens, except if the poses were given by the user.
fn estimate_lens_pose(poses: &mut AlignedPoses, axes: [[f64; 2]; 2], is_given: bool, host: &mut Host<'_>) {
    let mut completed = poses.clone();
    let Some(mut found) = LensRelation::estimate_and_complete(&mut completed, axes) else {
        return host.warn(
            "frames",
            "lenses: no frame has poses of both, so their relative pose is unknown; turn the camera between frames",
        );
    };
    if is_given {
        found.completed.clear();
    } else {
        *poses = completed;
    }
    poses.lenses = Some(found);
}

/// The frames of a split with the image names of their views.
fn frames_of(description: &SplitDescription) -> Vec<FrameImages> {
    let views = 0..description.views.len();
    let images = |frame| views.clone().map(|view| description.image_name(frame, view)).collect();
    (0..description.frames.len())
        .map(|frame| FrameImages { name: description.frames[frame].clone(), images: images(frame) })
        .collect()
}

/// The inputs that all poses of a result share.
struct PoseContext<'a> {
    description: &'a SplitDescription,
    folder: &'a Path,
    tool: &'a AlignmentTool,
    /// Description of the aligner.
    by: &'a str,
    input: String,
}

impl PoseContext<'_> {
    /// Scales the model to metres by the track, or without one places it by the GPS of the images. If the aligner kept its
    /// database, the model is also refined with the track positions as priors.
    fn with_scale(
        &self,
        aligned: Alignment,
        track: Option<&track::TrackWithTimes>,
        job: &AlignJob,
        host: &mut Host<'_>,
    ) -> Result<(CheckedModel, AlignedPoses, Option<Georeference>), Failure> {
        let Alignment { mut model, database, .. } = aligned;
        let Some(track) = track else {
            let place = place_on_earth(&mut model, self.description, self.folder, host);
            let poses = self.poses(&model, place.is_some())?;
            return Ok((model, poses, place));
        };
        let mut poses = self.poses(&model, false)?;
        let Some(fit) = track.scale_to_metres(&mut poses, host) else {
            remove_work_folder(&job.work_folder);
            return Ok((model, poses, None));
        };
        model.scale(fit.scale);
        let Some(database) = database else { return Ok((model, poses, None)) };
        let refinement = AlignJob {
            known_poses: Some(colmap_files(self.description, &poses, &[], ModelFormat::Binary)),
            refine_known_poses: true,
            priors: priors(track, &fit, self.description),
            imported_matches: Some(ImportedMatches::Database(database)),
            keep_work_folder: false,
            work_folder: job.work_folder.with_extension("refined"),
            ..job.clone()
        };
        let refined = run_tool(&refinement, self.tool, "frame", host);
        remove_work_folder(&refinement.work_folder);
        remove_work_folder(&job.work_folder);
        let refined = refined?.model;
        let (model, poses) = self.refined_with_track(refined, track, &fit, host)?;
        Ok((model, poses, None))
    }

    /// Result for given poses after triangulation. Not refined: the given poses, scaled by the track. Refined: held by
    /// the track positions, or transformed back to the coordinates in which they were given.
    fn result_of_known_poses(
        &self,
        mut model: CheckedModel,
        known: AlignedPoses,
        is_refined: bool,
        places: Option<(&track::TrackWithTimes, &TrackFit)>,
        host: &mut Host<'_>,
    ) -> Result<(CheckedModel, AlignedPoses), Failure> {
        let AlignedPoses { tool, applied, earth, is_metric, .. } = known.clone();
        let (model, poses) = match places {
            _ if !is_refined => {
                let found = self.poses(&model, is_metric)?;
                (model, AlignedPoses { frames: known.frames, earth, ..found })
            }
            Some((track, fit)) => self.refined_with_track(model, track, fit, host)?,
            None => {
                let own = self.poses(&model, is_metric)?;
                prior_knowledge::restore_coordinates(&mut model, &own, &known);
                let found = self.poses(&model, is_metric)?;
                (model, AlignedPoses { earth, ..found })
            }
        };
        let what = if is_refined { "refined" } else { "points" };
        Ok((
            model,
            AlignedPoses { tool: format!("{tool}, {what} by {}", self.tool.describe()), applied, ..poses },
        ))
    }

    /// Scales a model that was refined with track positions. If the track cannot be fitted again, uses the earlier fit:
    /// the trajectory has hardly changed.
    fn refined_with_track(
        &self,
        mut model: CheckedModel,
        track: &track::TrackWithTimes,
        fit: &TrackFit,
        host: &mut Host<'_>,
    ) -> Result<(CheckedModel, AlignedPoses), Failure> {
        let mut poses = self.poses(&model, true)?;
        match track.scale_to_metres(&mut poses, host) {
            Some(again) => model.scale(again.scale),
            None => poses.earth = Some(track.earth(fit)),
        }
        Ok((model, poses))
    }

    fn poses(&self, model: &CheckedModel, is_metric: bool) -> Result<AlignedPoses, Failure> {
        poses_of(model, self.description, self.by, self.input.clone(), is_metric)
    }
}

/// Track positions as priors for the camera centres of the frames.
fn priors(
    track: &track::TrackWithTimes,
    fit: &TrackFit,
    description: &SplitDescription,
) -> Vec<PositionPrior> {
    let (places, deviation) = track.positions(fit);
    let prior = |(frame, place): (usize, Option<[f64; 3]>)| {
        let image = description.image_name(frame, 0);
        Some(PositionPrior { image, position: place?, deviation })
    };
    places.into_iter().enumerate().filter_map(prior).collect()
}

/// Converts a view to the form of the built-in aligner.
fn sfm_view(view: &View) -> gausset_sfm::PanoView {
    gausset_sfm::PanoView {
        focal: view.focal(),
        width: view.width,
        height: view.height,
        pano_from_view: view.pano_from_camera(),
    }
}

/// Maps the model to metres east, north and up, if the GPS positions of the panoramas fit it.
fn place_on_earth(
    model: &mut CheckedModel,
    description: &SplitDescription,
    folder: &Path,
    host: &mut Host<'_>,
) -> Option<Georeference> {
    let manifest = read_manifest(folder);
    let position = |frame: usize| {
        let source = description.source_frame(&description.frames[frame]);
        manifest.iter().find(|line| line.frame == source)?.gps
    };
    georeference::georeference(model, &frames_of(description), &position, &|_| 1, host)
}

/// Poses of the panoramas, from a model of their views.
pub(super) fn poses_of(
    model: &CheckedModel,
    description: &SplitDescription,
    by: &str,
    input: String,
    is_metric: bool,
) -> Result<AlignedPoses, Failure> {
    let views = &description.views;
    let frame = |(index, name): (usize, &String)| {
        let pose: Option<Pose> = model.image_of_frame.get(&index).and_then(|&image| {
            let own = &model.colmap.images[image].name;
            let view = (0..views.len()).find(|&view| description.image_name(index, view) == *own)?;
            Some(rig::pano_from_world(&views[view], &model.pose(image)))
        });
        FramePose {
            name: name.clone(),
            rotation: pose.map(|p| p.quaternion()),
            translation: pose.map(|p| p.translation),
        }
    };
    Ok(AlignedPoses {
        tool: by.to_owned(),
        input,
        is_metric,
        points: model.colmap.points.len() as u64,
        mean_reprojection_px: model.mean_reprojection_error(),
        track_length: model.mean_track_length(),
        earth: None,
        applied: None,
        lenses: None,
        frames: description.frames.iter().enumerate().map(frame).collect(),
    })
}
