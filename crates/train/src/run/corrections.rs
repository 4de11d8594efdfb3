//! The corrections that a run learns beside the splats: exposure, vignetting and pose per row of training views, and a
//! sky. The device holds their values; this part knows which view uses which row, and writes what was learnt.
//!
//! `cameras.json` has the layout of the released 3DGS code (Kerbl et al. 2023, `camera_to_JSON`), which viewers import:
//! a list of `id`, `img_name`, `width`, `height`, `position` (of the camera), `rotation` (rows of `world_from_camera`,
//! y down, z ahead), `fx`, `fy`; in addition the principal point, `cx` and `cy`. All image lengths are in px.
//!
//! A COLMAP model is written as a COLMAP model, a `transforms.json` as a `transforms.json`; intrinsics are those of the
//! dataset. Held-out views keep their poses, but are rotated with the others.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use gausset_core::engine::{CorrectionGroup, CorrectionKind, TrainState};
use gausset_core::se3::Mat3;
use gausset_core::splats_transform::Similarity;
use gausset_core::{Camera, Pose, Splats, se3};
use gausset_io::atomic::{Disk, FileSystem, Overwrite, WriteError, write_atomic};
use gausset_io::dataset::colmap::{ColmapImage, ColmapModel, ColmapPoint, ModelFormat};
use gausset_io::dataset::{Dataset, DatasetKind, Face, ImageEntry, Loader, SourceCamera};
use gausset_io::ownership;
use gausset_io::run_folder::{
    CAMERAS_MARKER, cameras_folder, cameras_json_path, checkpoints_folder, newest_checkpoint,
};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{TrainError, prepare};
use crate::block::GivenCorrections;
use crate::config::RecordedRun;
use crate::exposures::LearntGains;
use crate::gains::{self, Gains};
use crate::option_values::{Colours, Exposure};
use crate::recipe::{ColourRows, Recipe};
use crate::sky;

/// Rows of corrections per training view, by its index in the training split.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Corrections {
    colours: Colours,
    exposure: Option<GroupRows>,
    /// A row per camera.
    vignetting: Option<GroupRows>,
    poses: Option<GroupRows>,
    sky: bool,
    /// Pose of each view's camera in the rig that its pose row moves.
    camera_from_rig: Vec<Option<Pose>>,
}

/// Rows of one group.
#[derive(Clone, Debug, PartialEq, Eq)]
struct GroupRows {
    by_view: Vec<Option<u32>>,
    count: usize,
}

impl Corrections {
    /// The corrections that a recipe learns on a dataset, and whether a sky is learnt. There is one row per view, or
    /// per rig frame, whose images were taken at the same time.
    ///
    /// Colours: gains keep the mean of their logarithm at 0, so that the whole cannot drift. Poses: the row of a frame
    /// moves the rig as a whole, in the axes of the camera of its first training view.
    pub(super) fn new(recipe: &Recipe, colours: Colours, dataset: &Dataset, sky: bool) -> Self {
        let images = || dataset.split.train.iter().map(|&index| &dataset.images[index]);
        let moments = frame_rows(dataset);
        // A panorama has no corners that a lens could darken.
        let lens = |image: &ImageEntry| image.camera.is_pinhole().then_some(image.source_camera as u32);
        let cameras = || rows_per_frame(images().map(lens));
        let mut first_of_row: Vec<Option<Pose>> = vec![None; moments.count];
        let camera_from_rig = images().zip(&moments.by_view).map(|(image, row)| {
            let first = first_of_row.get_mut((*row)? as usize)?;
            match first {
                None => {
                    *first = Some(image.pose);
                    None
                }
                Some(first) => Some(image.pose.compose(&first.inverse())),
            }
        });
        let camera_from_rig = camera_from_rig.collect();
        Self {
            colours,
            exposure: match colours {
                Colours::None => None,
                Colours::Gains | Colours::GainsFromTracks => Some(moments.clone()),
            },
            vignetting: recipe.vignetting.then(cameras),
            poses: recipe.poses.map(|_| moments),
            sky,
            camera_from_rig,
        }
    }

    /// Row of a view's exposure correction.
    pub(super) fn exposure_row(&self, train_index: usize) -> Option<u32> {
        self.exposure.as_ref().and_then(|rows| rows.by_view.get(train_index).copied().flatten())
    }

    /// Row of the vignetting of a view's camera.
    pub(super) fn vignetting_row(&self, train_index: usize) -> Option<u32> {
        self.vignetting.as_ref().and_then(|rows| rows.by_view.get(train_index).copied().flatten())
    }

    /// Number of rows that correct colours.
    pub(super) fn colour_rows(&self) -> ColourRows {
        let count = |rows: &Option<GroupRows>| rows.as_ref().map_or(0, |rows| rows.count);
        ColourRows {
            gains: count(&self.exposure),
            vignetting: count(&self.vignetting),
            is_measured: self.colours == Colours::GainsFromTracks,
        }
    }

    /// Row of a view's pose correction.
    pub(super) fn pose_row(&self, train_index: usize) -> Option<u32> {
        self.poses.as_ref().and_then(|rows| rows.by_view.get(train_index).copied().flatten())
    }

    /// Pose of a view's camera in the rig that its pose row moves; `None` if the row moves the camera itself.
    pub(super) fn camera_from_rig(&self, train_index: usize) -> Option<Pose> {
        self.camera_from_rig.get(train_index).copied().flatten()
    }

    /// `camera_from_world` of a training view with its correction: `exp(twist) · pose`.
    fn refined_pose(&self, group: &CorrectionGroup, train_index: usize, pose: &Pose) -> Pose {
        let Some(row) = self.pose_row(train_index) else { return *pose };
        let row = group.row(row as usize);
        let twist: [f64; 6] = std::array::from_fn(|k| f64::from(row[k]));
        let twist = match &self.camera_from_rig(train_index) {
            Some(camera_from_rig) => se3::adjoint(camera_from_rig, twist),
            None => twist,
        };
        se3::exp(twist).compose(pose)
    }

    /// The groups before the first step, as identities.
    pub(super) fn identity_groups(&self) -> Vec<CorrectionGroup> {
        let exposure =
            self.exposure.as_ref().map(|rows| CorrectionGroup::new(CorrectionKind::Gain, rows.count));
        let vignetting =
            self.vignetting.as_ref().map(|rows| CorrectionGroup::new(CorrectionKind::Vignetting, rows.count));
        let poses = self.poses.as_ref().map(|rows| CorrectionGroup::new(CorrectionKind::Pose, rows.count));
        let sky = self.sky.then(|| CorrectionGroup::new(CorrectionKind::Sky, 1));
        exposure.into_iter().chain(vignetting).chain(poses).chain(sky).collect()
    }

    /// The groups before the first step: gains initialised from measurements (rows without one are 1), vignetting and
    /// sky as `given`.
    pub(super) fn initial_groups(
        &self,
        gains: &Gains,
        dataset: &Dataset,
        given: Option<&GivenCorrections>,
    ) -> Vec<CorrectionGroup> {
        let mut groups = self.identity_groups();
        if let Some(group) = groups.iter_mut().find(|group| group.group == CorrectionKind::Gain) {
            for (row, gain) in group.values.chunks_exact_mut(3).zip(&gains.rows) {
                row.copy_from_slice(&gain.unwrap_or_default().map(|g| g as f32));
            }
        }
        if let Some(given) = given {
            given.write_to(&mut groups, dataset, |train_index| self.vignetting_row(train_index));
        }
        groups
    }

    /// Checks that a state matches this run: SH degree and rows of corrections.
    ///
    /// # Errors
    /// It does not; the error names `path`, the file of the state.
    pub(super) fn check_state(
        &self,
        path: &Path,
        state: &TrainState,
        sh_degree: u8,
    ) -> Result<(), TrainError> {
        let bad = |place: &str, what| {
            Err(TrainError::Checkpoint { path: path.to_owned(), place: place.to_owned(), what })
        };
        if state.splats.sh_degree != sh_degree {
            let what = format!("SH degree is {} (expected {})", state.splats.sh_degree, sh_degree);
            return bad("splats", what);
        }
        let shape = |group: &CorrectionGroup| (group.group, group.update_counts.len(), group.values.len());
        let found: Vec<_> = state.corrections.iter().map(shape).collect();
        let expected: Vec<_> = self.identity_groups().iter().map(shape).collect();
        if found != expected {
            let show = |groups: &[(CorrectionKind, usize, usize)]| match groups {
                [] => "none".to_owned(),
                _ => groups
                    .iter()
                    .map(|(name, rows, values)| format!("{name}: {rows} rows, {values} values"))
                    .collect::<Vec<_>>()
                    .join("; "),
            };
            return bad("corrections", format!("are {} (expected {})", show(&found), show(&expected)));
        }
        Ok(())
    }

    /// Whether poses are refined.
    pub(super) fn refines_poses(&self) -> bool {
        self.poses.is_some()
    }

    /// `camera_from_world` of all images in the coordinates of `dataset`, those of training views with their corrections;
    /// `None` if `groups` refine no poses.
    pub(super) fn refined_poses(&self, dataset: &Dataset, groups: &[CorrectionGroup]) -> Option<Vec<Pose>> {
        let group = groups.iter().find(|group| group.group == CorrectionKind::Pose)?;
        let mut poses: Vec<Pose> = dataset.images.iter().map(|image| image.pose).collect();
        for (train_index, &index) in dataset.split.train.iter().enumerate() {
            poses[index] = self.refined_pose(group, train_index, &poses[index]);
        }
        Some(poses)
    }

    /// The same, or the poses of the dataset if none are refined.
    pub(super) fn poses(&self, dataset: &Dataset, groups: &[CorrectionGroup]) -> Vec<Pose> {
        let given = || dataset.images.iter().map(|image| image.pose).collect();
        self.refined_poses(dataset, groups).unwrap_or_else(given)
    }

    /// The gains and the vignetting in `groups`; `None` if neither is learnt.
    pub(super) fn learnt_gains(&self, dataset: &Dataset, groups: &[CorrectionGroup]) -> Option<LearntGains> {
        let rows = |train_index| [self.exposure_row(train_index), self.vignetting_row(train_index)];
        LearntGains::from_groups(dataset, groups, rows)
    }

    /// What was learnt, as the blocks of a run are given it.
    pub(super) fn to_given(&self, dataset: &Dataset, groups: &[CorrectionGroup]) -> GivenCorrections {
        let find = |kind| groups.iter().find(|group| group.group == kind);
        let images = || dataset.split.train.iter().map(|&index| &dataset.images[index]).enumerate();
        let log_gains = find(CorrectionKind::Gain).map(|group| {
            let gain = |(train_index, image): (usize, &ImageEntry)| {
                let row = group.row(self.exposure_row(train_index)? as usize);
                Some((image.name.to_string(), [row[0], row[1], row[2]]))
            };
            images().filter_map(gain).collect()
        });
        let vignetting = find(CorrectionKind::Vignetting).into_iter().flat_map(|group| {
            let of_camera = |(train_index, image): (usize, &ImageEntry)| {
                let row = self.vignetting_row(train_index)?;
                Some((image.source_camera as u32, group.row(row as usize).to_vec()))
            };
            images().filter_map(of_camera).collect::<Vec<_>>()
        });
        GivenCorrections {
            log_gains,
            vignetting: vignetting.collect(),
            sky: find(CorrectionKind::Sky).map(|group| group.values.clone()),
        }
    }

    /// Appends the sky in `groups` to splats in the coordinates of the dataset, and returns the number of its splats. `extent`
    /// is the size of the scene in its units.
    pub(super) fn append_sky(
        splats: &mut Splats,
        groups: &[CorrectionGroup],
        dataset: &Dataset,
        extent: f64,
    ) -> usize {
        let before = splats.len();
        if let Some(sky) = Self::sky_values(groups) {
            sky::append(splats, sky, &prepare::train_poses(dataset), extent);
        }
        splats.len() - before
    }

    /// The coefficients of the sky in `groups`.
    pub(super) fn sky_values(groups: &[CorrectionGroup]) -> Option<&[f32]> {
        let sky = groups.iter().find(|group| group.group == CorrectionKind::Sky)?;
        Some(&sky.values)
    }

    /// Writes what `groups` contain into the folder of a run: refined cameras, `cameras.json` (always), learnt gains.
    /// Cameras are written in the axes of the saved splats.
    pub(super) fn write_files(
        &self,
        fs: &dyn FileSystem,
        run: &Path,
        dataset: &Dataset,
        groups: &[CorrectionGroup],
        saved_from_normalised: &Similarity,
    ) -> Result<(), WriteError> {
        let poses = self.poses(dataset, groups);
        let poses: Vec<Pose> = poses.iter().map(|pose| saved_from_normalised.apply_to_pose(pose)).collect();
        if self.refines_poses() {
            write_cameras(fs, run, dataset, &poses, saved_from_normalised)?;
        }
        write_cameras_json(fs, run, dataset, &poses)?;
        self.learnt_gains(dataset, groups).map_or(Ok(()), |gains| gains.write(fs, run))
    }
}

/// Rows per rig frame of the training views.
fn frame_rows(dataset: &Dataset) -> GroupRows {
    rows_per_frame(dataset.split.train.iter().map(|&index| dataset.images[index].frame))
}

/// How a new run corrects colours, and its initial gains. For a resumed run, `decided` is the recorded mode; the
/// measured gains are then the same. `given` are the corrections of a block, which measures none.
pub(super) fn initial_colours(
    recipe: &Recipe,
    loader: &Loader,
    memory_bytes: u64,
    decided: Option<Colours>,
    given: Option<&GivenCorrections>,
    stop: &AtomicBool,
) -> Result<(Colours, Gains), TrainError> {
    if let Some(given) = given {
        let rows = frame_rows(loader.dataset());
        let row = |train_index: usize| rows.by_view.get(train_index).copied().flatten();
        return Ok(match given.log_gains {
            Some(_) => (Colours::GainsFromTracks, given.gains(loader.dataset(), rows.count, row)),
            None => (Colours::None, Gains::default()),
        });
    }
    let mode = recipe.exposure.map_or(Exposure::Off, |exposure| exposure.mode);
    match (mode, decided) {
        (Exposure::Off, _) | (_, Some(Colours::None)) => return Ok((Colours::None, Gains::default())),
        (Exposure::Auto | Exposure::On, _) => {}
    }
    let dataset = loader.dataset();
    let rows = frame_rows(dataset);
    let pictures = dataset.split.train.iter().zip(&rows.by_view);
    let pictures: Vec<(usize, u32)> = pictures.filter_map(|(&index, row)| Some((index, (*row)?))).collect();
    let tracks = dataset.read_tracks(memory_bytes)?;
    let gains = gains::measure(loader, &tracks, &pictures, rows.count, stop);
    let gains = gains.ok_or(TrainError::Stopped)?;
    Ok(match mode {
        Exposure::Auto if !gains.are_notable() => (Colours::None, Gains::default()),
        _ if gains.are_known() => (Colours::GainsFromTracks, gains),
        _ => (Colours::Gains, Gains::default()),
    })
}

/// The dataset of a run with refined poses, in the dataset's own axes; unchanged if the run refines none. The poses
/// come from the newest checkpoint, which a finished run writes together with its splats.
///
/// # Errors
/// No complete checkpoint, or one that is not of this run and dataset.
pub fn with_refined_poses(
    mut dataset: Dataset,
    run: &Path,
    recorded: &RecordedRun,
) -> Result<Dataset, TrainError> {
    let recipe = &recorded.config.recipe;
    if recipe.poses.is_none() {
        return Ok(dataset);
    }
    // Corrections refer to normalised coordinates. What is not refined keeps its bits.
    let normalisation = recorded.record.normalisation;
    let points = std::mem::take(&mut dataset.points);
    let mut normalised = dataset.clone();
    normalised.normalise(normalisation);
    dataset.points = points;
    let corrections = Corrections::new(recipe, recorded.record.colours, &normalised, recorded.record.sky);
    let place = checkpoints_folder(run);
    let missing = |what: &str| TrainError::Checkpoint {
        path: place.clone(),
        place: "poses".to_owned(),
        what: what.to_owned(),
    };
    let Some(found) = newest_checkpoint(&Disk, run)?.found else {
        return Err(missing("there is no complete checkpoint with refined poses"));
    };
    corrections.check_state(&found.path, &found.state, recipe.sh_degree)?;
    let poses = corrections
        .refined_poses(&normalised, &found.state.corrections)
        .ok_or_else(|| missing("the checkpoint has none"))?;
    let dataset_from_normalised = normalisation.dataset_from_normalised();
    for ((image, before), pose) in dataset.images.iter_mut().zip(&normalised.images).zip(poses) {
        if pose != before.pose {
            image.pose = dataset_from_normalised.apply_to_pose(&pose);
        }
    }
    Ok(dataset)
}

/// One row per rig frame, and one per view without a frame, in the order of their first views.
fn rows_per_frame(frames: impl Iterator<Item = Option<u32>>) -> GroupRows {
    let mut of_frame = BTreeMap::new();
    let mut used = 0u32;
    let of_view = frames
        .map(|frame| {
            let mut next = || {
                used += 1;
                used - 1
            };
            Some(match frame {
                Some(frame) => *of_frame.entry(frame).or_insert_with(next),
                None => next(),
            })
        })
        .collect();
    GroupRows { by_view: of_view, count: used as usize }
}

/// A camera in the format of the released 3DGS code.
#[derive(Serialize)]
struct CameraJson<'a> {
    id: usize,
    img_name: &'a str,
    width: u32,
    height: u32,
    position: [f64; 3],
    rotation: Mat3,
    fx: f64,
    fy: f64,
    cx: f64,
    cy: f64,
}

/// Writes `cameras.json`: the cameras of the dataset with `poses`, one per image, in the axes of the saved splats.
fn write_cameras_json(
    fs: &dyn FileSystem,
    run: &Path,
    dataset: &Dataset,
    poses: &[Pose],
) -> Result<(), WriteError> {
    let listed = dataset.images.iter().zip(poses).enumerate().map(|(id, (image, pose))| {
        let Camera { width, height, fx, fy, cx, cy, .. } = image.camera.as_pinhole();
        let (position, rotation) = (pose.centre(), se3::transpose(&pose.rotation));
        CameraJson { id, img_name: &image.name, width, height, position, rotation, fx, fy, cx, cy }
    });
    write_atomic(fs, &cameras_json_path(run), |file| {
        // One camera per line, for readability.
        let mut mark = "[\n";
        for camera in listed {
            file.write_all(mark.as_bytes())?;
            serde_json::to_writer(&mut *file, &camera)?;
            mark = ",\n";
        }
        file.write_all(if mark == "[\n" { b"[]\n" } else { b"\n]\n" })
    })?;
    Ok(())
}

/// Writes `RUN/cameras/`: the cameras of the dataset with refined `poses`, one per image, in the axes of the saved
/// splats. Points are transformed by `saved_from_normalised`.
fn write_cameras(
    fs: &dyn FileSystem,
    run: &Path,
    dataset: &Dataset,
    poses: &[Pose],
    saved_from_normalised: &Similarity,
) -> Result<(), WriteError> {
    let folder = cameras_folder(run);
    let files = match dataset.kind {
        DatasetKind::Nerfstudio | DatasetKind::InstantNgp | DatasetKind::Blender => {
            vec![("transforms.json", transforms_file(dataset, poses))]
        }
        // The models of COLMAP express the lenses of all other programs.
        _ => colmap_files(dataset, poses, saved_from_normalised),
    };
    // Ownership of existing files was checked when the run folder was taken.
    ownership::claim_for_files(
        fs,
        &folder,
        CAMERAS_MARKER,
        files.iter().map(|(name, _)| name),
        Overwrite::Replace,
    )?;
    for (name, content) in files {
        write_atomic(fs, &folder.join(name), |file| file.write_all(&content))?;
    }
    Ok(())
}

/// Pose of the stored image, by its source camera. The faces of a panorama move together, so its first face determines the pose.
fn stored_pose(image: &ImageEntry, pose: &Pose) -> Option<Pose> {
    match image.face {
        None => Some(image.turn.source_pose(*pose)),
        Some(Face::Front) => Some(Face::Front.panorama_pose(pose)),
        Some(_) => None,
    }
}

/// The files of a COLMAP model, text or binary like the dataset's.
fn colmap_files(
    dataset: &Dataset,
    poses: &[Pose],
    saved_from_normalised: &Similarity,
) -> Vec<(&'static str, Vec<u8>)> {
    let format = dataset.model.as_ref().map_or(ModelFormat::Binary, |model| model.format);
    let mut images: Vec<ColmapImage> = dataset
        .images
        .iter()
        .zip(poses)
        .filter_map(|(image, pose)| {
            let camera = dataset.cameras.get(image.source_camera).map_or(0, |camera| camera.id);
            Some(ColmapImage::new(
                image.id,
                image.stored_name().to_owned(),
                camera,
                &stored_pose(image, pose)?,
            ))
        })
        .collect();
    images.sort_by_key(|image| image.id);
    let points = dataset.points.iter().zip(1..).map(|(point, id)| ColmapPoint {
        id,
        position: saved_from_normalised.apply(point.position),
        colour: point.colour,
        error: point.error,
        track_length: 0,
        track: Vec::new(),
    });
    let model = ColmapModel { cameras: dataset.cameras.clone(), images, points: points.collect() };
    model.to_files(format).into()
}

/// A `transforms.json` with intrinsics per frame; image names as in the dataset.
fn transforms_file(dataset: &Dataset, poses: &[Pose]) -> Vec<u8> {
    let frames: Vec<Value> = dataset
        .images
        .iter()
        .zip(poses)
        .filter_map(|(image, pose)| {
            let pose = &stored_pose(image, pose)?;
            let mut frame = dataset.cameras.get(image.source_camera).map(intrinsics).unwrap_or_default();
            frame.insert("file_path".to_owned(), json!(image.stored_name()));
            frame.insert("transform_matrix".to_owned(), json!(opengl_matrix(pose)));
            Some(Value::Object(frame))
        })
        .collect();
    format!("{:#}\n", json!({ "frames": frames })).into_bytes()
}

/// Intrinsics under the keys of Nerfstudio.
fn intrinsics(camera: &SourceCamera) -> Map<String, Value> {
    let mut keys = Map::new();
    keys.insert("camera_model".to_owned(), json!(camera.model.name()));
    keys.insert("w".to_owned(), json!(camera.width));
    keys.insert("h".to_owned(), json!(camera.height));
    for (name, value) in camera.model.parameters().iter().zip(&camera.params) {
        let names: &[&str] = match *name {
            "f" => &["fl_x", "fl_y"],
            "fx" => &["fl_x"],
            "fy" => &["fl_y"],
            other => &[other],
        };
        for name in names {
            keys.insert((*name).to_owned(), json!(value));
        }
    }
    keys
}

/// `world_from_camera` with OpenGL axes (y up, looking along -z).
fn opengl_matrix(camera_from_world: &Pose) -> [[f64; 4]; 4] {
    let r = &camera_from_world.rotation;
    let centre = camera_from_world.centre();
    let row = |k: usize| [r[0][k], -r[1][k], -r[2][k], centre[k]];
    [row(0), row(1), row(2), [0.0, 0.0, 0.0, 1.0]]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_of_one_moment_share_their_rows() {
        let frames = [Some(9), Some(9), None, Some(4), None, Some(9), Some(4)];
        let rows = rows_per_frame(frames.into_iter());
        assert_eq!(rows.by_view, [0, 0, 1, 2, 3, 0, 2].map(Some));
        assert_eq!(rows.count, 4);
    }
}
