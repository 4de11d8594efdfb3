//! Aligns panoramas: estimates their poses by structure from motion.

use std::io::Write;
use std::path::{Path, PathBuf};

use gausset_core::Pose;
use gausset_io::atomic::{Disk, Overwrite, refuse_existing, write_atomic};
use gausset_io::dataset::colmap::ModelFormat;
use gausset_io::draft::Draft;
use gausset_io::input;
use gausset_io::lock::FolderLock;
use gausset_io::owned;
use gausset_pano::export::{FramePose, Poses, colmap_files};
use gausset_pano::geometry::View;
use gausset_pano::lens_pose::LensRelation;
use gausset_pano::rig;
use gausset_pano::split::{Description, MANIFEST, Naming, read_manifest};
use gausset_sfm::align::{Aligned, Cameras, Job, Prior};
use gausset_sfm::model::{FrameImages, Model};
use gausset_sfm::track::TrackFit;
use gausset_sfm::{Given, Tool, gps};

use super::alignment::{PanoAlignment, unregistered};
use super::compare;
use super::known::{self, KnownChoice};
use super::track;
use crate::tool::ToolOptions;
use crate::{Event, Failure, Host, Stage, records};

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
fn fingerprint(folder: &Path, tool: &ToolOptions, known: &KnownChoice) -> String {
    let manifest = input::read(&folder.join(MANIFEST), MAX_MANIFEST_BYTES).unwrap_or_default();
    let mut text = manifest;
    text.extend(format!("seed {}", tool.seed).bytes());
    if let Some(mapper) = tool.other_mapper() {
        text.extend(format!("mapper {mapper}").bytes());
    }
    if let Some(aligner) = tool.other_aligner() {
        text.extend(format!("aligner {aligner}").bytes());
    }
    let said = known.record().into_iter().filter(|(_, value)| !value.is_null());
    let said: String = said.map(|(key, value)| format!("{key} {value} ")).collect();
    match said.is_empty() {
        true => hash(&text),
        false => format!("{} {}", hash(&text), hash(said.as_bytes())),
    }
}

/// FNV-1a hash. It identifies inputs and does not need to be cryptographic.
fn hash(bytes: &[u8]) -> String {
    let fold = |h: u64, b: &u8| (h ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3);
    format!("{:016x}", bytes.iter().fold(0xcbf2_9ce4_8422_2325u64, fold))
}

/// Poses of an earlier alignment of the same views. Without options about a track, any earlier alignment is accepted.
/// An alignment with another track, or without one, is only discarded with `Replace`.
///
/// # Errors
/// The earlier alignment used other tracks and `overwrite` is `Refuse`.
pub fn finished(
    folder: &Path,
    tool: &ToolOptions,
    known: &KnownChoice,
    overwrite: Overwrite,
) -> Result<Option<Poses>, Failure> {
    let wanted = fingerprint(folder, tool, known);
    let of_views = |input: &str| input.split(' ').next().map(str::to_owned);
    let found = Poses::read(&poses_path(folder)).ok();
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
    known: &KnownChoice,
    options: &ToolOptions,
    overwrite: Overwrite,
    host: &mut Host<'_>,
) -> Result<PanoAlignment, Failure> {
    known.check(options.aligner)?;
    let description = Description::read(folder).map_err(|e| Failure::new("frames", e))?;
    compare::check_names(&description.frames, reference)?;
    let poses = align(folder, known, options, overwrite, host)?;
    let compared = compare::compare(folder, reference);
    if let Err(failure) = &compared {
        host.warn(failure.code, failure.message.clone());
    }
    Ok(PanoAlignment { reference: compared.ok(), ..PanoAlignment::of(&poses, folder) })
}

/// Aligns the views in a folder and writes `sparse/0` and `poses.json`. Uses the prior knowledge in `known`.
///
/// # Errors
/// Not a folder of views, no COLMAP, no matching pair of images, a model that Gausset did not create, or the job was
/// asked to stop.
pub fn align(
    folder: &Path,
    known: &KnownChoice,
    options: &ToolOptions,
    overwrite: Overwrite,
    host: &mut Host<'_>,
) -> Result<Poses, Failure> {
    let aligned = align_views(folder, known, options, overwrite, host);
    host.unless_stopped(aligned)
}

fn align_views(
    folder: &Path,
    known: &KnownChoice,
    options: &ToolOptions,
    overwrite: Overwrite,
    host: &mut Host<'_>,
) -> Result<Poses, Failure> {
    known.check(options.aligner)?;
    let description = Description::read(folder).map_err(|e| Failure::new("frames", e))?;
    if description.naming != Naming::Rig {
        return Err(Failure::usage(format!(
            "{}: names: are flat, so COLMAP cannot group the views of a panorama (expected ⟨naming = rig⟩); split again",
            folder.display()
        )));
    }
    let choice = known;
    let mut known =
        choice.poses.as_deref().map(|path| known::poses_of_frames(&description, path, host)).transpose()?;
    let track =
        choice.track.as_ref().map(|track| track::open(track, folder, &description, host)).transpose()?;
    let frames = frames_of(&description);
    let given = match (&choice.matches, &choice.database) {
        (Some(folder), _) => {
            let sizes: Vec<[u32; 2]> = description.views.iter().map(|v| [v.width, v.height]).collect();
            Some(Given::read(folder, &frames, &sizes)?)
        }
        (None, Some(path)) => Some(Given::database(path)?),
        (None, None) => None,
    };
    let tool = options.find(host)?;
    let _lock = FolderLock::acquire(folder).map_err(|e| Failure::new("in-use", e))?;
    let (model_folder, poses_file) = (records::model_folder(folder), poses_path(folder));
    records::may_write_model(folder, overwrite)?;
    records::stay_inside(folder, &[POSES])?;
    if !owned::is_ours(&model_folder, records::MODEL) {
        refuse_existing(&Disk, &poses_file, overwrite)?;
    }
    let count = description.frames.len();
    host.stage(Stage::Align { count, what: "frame", tool: tool.describe() });
    let views = &description.views;
    let Some(first) = views.first() else {
        return Err(Failure::new("frames", format!("{}: views: none", folder.display())));
    };
    let f = first.focal();
    let absolute = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let masks = absolute.join("masks");
    let work = Draft::new(&Disk, &absolute, records::WORK)?;
    // Scale given poses to metres before their points are triangulated, so that the track positions are in the same
    // coordinates.
    let fit =
        known.as_mut().zip(track.as_ref()).and_then(|(known, track)| track.bring_to_metres(known, host));
    let places = track.as_ref().zip(fit.as_ref()).filter(|_| choice.refine);
    let job = Job {
        images: absolute.join("images"),
        masks: masks.is_dir().then_some(masks),
        frames,
        rig_config: Some(absolute.join("rig_config.json")),
        views: views.iter().map(looks).collect(),
        camera_model: "PINHOLE".to_owned(),
        camera_params: Some(format!(
            "{f},{f},{},{}",
            0.5 * f64::from(first.width),
            0.5 * f64::from(first.height)
        )),
        cameras: Cameras::PerFolder,
        is_sequence: true,
        known: known.as_ref().map(|poses| colmap_files(&description, poses, &[], ModelFormat::Binary)),
        refine: choice.refine && known.is_some(),
        priors: places.map_or_else(Vec::new, |(track, fit)| priors(track, fit, &description)),
        given,
        keep: choice.refine && track.is_some() && known.is_none(),
        mapper: options.mapper,
        work: work.path().join("colmap"),
        threads: options.thread_count(),
        seed: options.seed,
        silence: options.silence(),
    };
    let aligned = run(&job, &tool, host)?;
    let input = fingerprint(folder, options, choice);
    let is_known = known.is_some();
    let by = match tool {
        Tool::Own => tool.describe(),
        _ => format!("{}, {} mapper", tool.describe(), options.mapper.name()),
    };
    let is_given = known.is_some() && !choice.refine;
    // Poses read from a file may already be georeferenced.
    let is_on_track = fit.is_some() || known.is_none();
    let context = Context { description: &description, folder, tool: &tool, by: &by, input };
    let (model, mut poses) = match known {
        Some(known) => context.of_known(aligned.model, known, choice.refine, places, host)?,
        None => context.with_scale(aligned, track.as_ref(), &job, host)?,
    };
    if let Some(earth) = poses.earth.as_ref().filter(|_| is_on_track) {
        host.report(Event::OnTrack(earth.clone()));
    }
    if let Some(axes) = description.lens_axes {
        relate_lenses(&mut poses, axes, is_given, host);
    }
    if is_known && model.colmap.points.is_empty() {
        host.warn("poses", "points: none could be triangulated; these poses do not belong to these images (other axes, mirrored, other names), or the images have too few features");
    }
    records::claim_model(folder, overwrite)?;
    model.write(&model_folder, &job.frames)?;
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

/// Runs the aligner and forwards its progress.
fn run(job: &Job, tool: &Tool, host: &mut Host<'_>) -> Result<Aligned, Failure> {
    let stop = host.stop();
    let mut report = |progress: &gausset_sfm::Progress| host.report(Event::Aligning(progress.clone()));
    Ok(gausset_sfm::align(job, tool, stop, &mut report)?)
}

/// Estimates the relative pose of two lenses that were aligned as separate frames. A lens without a pose gets one from
/// the other lens, except if the poses were given by the user.
fn relate_lenses(poses: &mut Poses, axes: [[f64; 2]; 2], is_given: bool, host: &mut Host<'_>) {
    let mut completed = poses.clone();
    let Some(mut found) = LensRelation::complete(&mut completed, axes) else {
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
fn frames_of(description: &Description) -> Vec<FrameImages> {
    let views = 0..description.views.len();
    let images = |frame| views.clone().map(|view| description.picture_name(frame, view)).collect();
    (0..description.frames.len())
        .map(|frame| FrameImages { name: description.frames[frame].clone(), images: images(frame) })
        .collect()
}

/// The inputs that all poses of a result share.
struct Context<'a> {
    description: &'a Description,
    folder: &'a Path,
    tool: &'a Tool,
    /// Description of the aligner.
    by: &'a str,
    input: String,
}

impl Context<'_> {
    /// Scales the model to metres by the track, or without one by the GPS of the images. If the aligner kept its
    /// database, the model is also refined with the track positions as priors.
    fn with_scale(
        &self,
        aligned: Aligned,
        track: Option<&track::Open>,
        job: &Job,
        host: &mut Host<'_>,
    ) -> Result<(Model, Poses), Failure> {
        let Aligned { mut model, database, .. } = aligned;
        let Some(track) = track else {
            let is_metric = set_scale(&mut model, self.description, self.folder, host);
            let poses = self.poses(&model, is_metric)?;
            return Ok((model, poses));
        };
        let mut poses = self.poses(&model, false)?;
        let Some(fit) = track.bring_to_metres(&mut poses, host) else { return Ok((model, poses)) };
        model.scale(fit.scale);
        let Some(database) = database else { return Ok((model, poses)) };
        let refinement = Job {
            known: Some(colmap_files(self.description, &poses, &[], ModelFormat::Binary)),
            refine: true,
            priors: priors(track, &fit, self.description),
            given: Some(Given::Database(database)),
            keep: false,
            work: job.work.with_file_name("refined"),
            ..job.clone()
        };
        self.held(run(&refinement, self.tool, host)?.model, track, &fit, host)
    }

    /// Result for given poses after triangulation. Not refined: the given poses, scaled by the track. Refined: held by
    /// the track positions, or transformed back to the coordinates in which they were given.
    fn of_known(
        &self,
        mut model: Model,
        known: Poses,
        is_refined: bool,
        places: Option<(&track::Open, &TrackFit)>,
        host: &mut Host<'_>,
    ) -> Result<(Model, Poses), Failure> {
        let Poses { tool, applied, earth, is_metric, .. } = known.clone();
        let (model, poses) = match places {
            _ if !is_refined => {
                let found = self.poses(&model, is_metric)?;
                (model, Poses { frames: known.frames, earth, ..found })
            }
            Some((track, fit)) => self.held(model, track, fit, host)?,
            None => {
                let own = self.poses(&model, is_metric)?;
                known::bring_back(&mut model, &own, &known);
                let found = self.poses(&model, is_metric)?;
                (model, Poses { earth, ..found })
            }
        };
        let what = if is_refined { "refined" } else { "points" };
        Ok((model, Poses { tool: format!("{tool}, {what} by {}", self.tool.describe()), applied, ..poses }))
    }

    /// Scales a model that was refined with track positions. If the track cannot be fitted again, uses the earlier fit:
    /// the trajectory has hardly changed.
    fn held(
        &self,
        mut model: Model,
        track: &track::Open,
        fit: &TrackFit,
        host: &mut Host<'_>,
    ) -> Result<(Model, Poses), Failure> {
        let mut poses = self.poses(&model, true)?;
        match track.bring_to_metres(&mut poses, host) {
            Some(again) => model.scale(again.scale),
            None => poses.earth = Some(track.earth(fit)),
        }
        Ok((model, poses))
    }

    fn poses(&self, model: &Model, is_metric: bool) -> Result<Poses, Failure> {
        poses_of(model, self.description, self.by, self.input.clone(), is_metric)
    }
}

/// Track positions as priors for the camera centres of the frames.
fn priors(track: &track::Open, fit: &TrackFit, description: &Description) -> Vec<Prior> {
    let (places, deviation) = track.places(fit);
    let prior = |(frame, place): (usize, Option<[f64; 3]>)| {
        let image = description.picture_name(frame, 0);
        Some(Prior { image, place: place?, deviation })
    };
    places.into_iter().enumerate().filter_map(prior).collect()
}

/// Converts a view to the form of the built-in aligner.
fn looks(view: &View) -> gausset_sfm::View {
    gausset_sfm::View {
        focal: view.focal(),
        width: view.width,
        height: view.height,
        pano_from_view: view.pano_from_camera(),
    }
}

/// Scales the model to metres if GPS positions fit it; returns whether it did.
fn set_scale(model: &mut Model, description: &Description, folder: &Path, host: &mut Host<'_>) -> bool {
    let manifest = read_manifest(folder);
    let mut centres = Vec::new();
    let mut positions = Vec::new();
    for (&frame, &image) in &model.frames {
        let source = description.source_of(&description.frames[frame]);
        let line = manifest.iter().find(|line| line.frame == source);
        if let Some(position) = line.and_then(|line| line.gps) {
            centres.push(model.pose(image).centre());
            positions.push(position);
        }
    }
    match gps::fit(&centres, &positions) {
        Some(fit) if fit.is_good() => {
            host.report(Event::MetricScale { positions: fit.count, residual: fit.residual });
            model.scale(fit.scale);
            true
        }
        Some(_) => {
            host.report(Event::NoMetricScale);
            false
        }
        None => false,
    }
}

/// Poses of the panoramas, from a model of their views.
pub(super) fn poses_of(
    model: &Model,
    description: &Description,
    by: &str,
    input: String,
    is_metric: bool,
) -> Result<Poses, Failure> {
    let views = &description.views;
    let frame = |(index, name): (usize, &String)| {
        let pose: Option<Pose> = model.frames.get(&index).and_then(|&image| {
            let own = &model.colmap.images[image].name;
            let view = (0..views.len()).find(|&view| description.picture_name(index, view) == *own)?;
            Some(rig::pano_from_world(&views[view], &model.pose(image)))
        });
        FramePose {
            name: name.clone(),
            rotation: pose.map(|p| p.quaternion()),
            translation: pose.map(|p| p.translation),
        }
    };
    Ok(Poses {
        tool: by.to_owned(),
        input,
        is_metric,
        points: model.colmap.points.len() as u64,
        mean_reprojection_px: model.mean_reprojection(),
        track_length: model.track_length(),
        earth: None,
        applied: None,
        lenses: None,
        frames: description.frames.iter().enumerate().map(frame).collect(),
    })
}
