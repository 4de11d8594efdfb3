//! Turns a list of images into a [`Dataset`]: files, poses, split, image headers, cameras, masks.
//!
//! The split is made over images that have a pose and a file, before any image is opened: one unreadable JPEG does not
//! reshuffle the test set.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gausset_core::Pose;

use super::camera_model::{CameraModel, SourceCamera};
use super::error::DatasetError;
use super::fingerprint::{self, Fingerprint, Sample};
use super::lens::Lens;
use super::limits::MAX_DISTANCE;
use super::panorama::{Face, face_camera, sphere_camera};
use super::paths::{ExtensionRule, NameResolver, ResolvedFile, find_mask};
use super::sizes::{check_aspect_ratio, fits, lens_at, scene_extent, training_size};
use super::source::SplitRole;
use super::training_image;
use super::transforms::Intrinsics;
use super::warning::{OrientationUse, SkipReason, SkippedImage, Warning};
use super::{
    AppliedTransform, Dataset, DatasetKind, ImageEntry, OpenOptions, PanoramaTraining, Point, Split, Turn,
};
use crate::image::turn::without_mirror;
use crate::image::{ImageError, ImageHeader, ImageProblem, read_header, turned_size, warp};
use crate::input_files::InputFiles;

/// Fewer training images than this cause a warning.
const MIN_IMAGES_WITHOUT_WARNING: usize = 3;
/// At most one in this many images may be unreadable.
const MAX_UNREADABLE_FRACTION: usize = 10;
/// Number of names of missing images that the warning quotes.
const MAX_MISSING_NAMES: usize = 10;

/// An image as the source lists it.
pub(super) struct ListedImage {
    pub(super) id: u32,
    pub(super) frame: Option<u32>,
    pub(super) name: String,
    pub(super) pose: Result<Pose, SkipReason>,
    pub(super) camera: CameraSource,
    pub(super) mask: Option<String>,
    pub(super) role: SplitRole,
}

/// Where the camera of an image comes from.
pub(super) enum CameraSource {
    /// Index into the cameras of the COLMAP model.
    Known(usize),
    /// Intrinsics that may need the size of the image, their file, and the index of their frame unless they are
    /// top-level.
    Intrinsics { values: Box<Intrinsics>, file: PathBuf, frame: Option<usize> },
}

/// An image with a file and a pose.
struct PresentImage {
    listed: ListedImage,
    found: ResolvedFile,
    pose: Pose,
    /// Whether it is trained on or held out; `listed.role` is what the dataset itself specifies.
    role: SplitRole,
}

/// Warnings and skipped images collected so far.
#[derive(Default)]
pub(super) struct Findings {
    pub(super) warnings: Vec<Warning>,
    pub(super) skipped: Vec<SkippedImage>,
}

impl Findings {
    fn skip(&mut self, name: &str, reason: SkipReason) {
        self.skipped.push(SkippedImage { name: name.to_owned(), reason });
    }
}

/// What both kinds of source provide once they are parsed.
pub(super) struct DatasetBuilder {
    pub(super) root: PathBuf,
    pub(super) source: PathBuf,
    /// Files and folders that were read, except images and masks.
    pub(super) read: Vec<PathBuf>,
    /// The file that lists the images, for messages.
    pub(super) file: PathBuf,
    /// The file that lists the cameras, for messages.
    pub(super) cameras_file: PathBuf,
    pub(super) kind: DatasetKind,
    pub(super) folder: PathBuf,
    pub(super) masks: PathBuf,
    pub(super) extension: ExtensionRule,
    /// Folder to which `mask_path` entries are relative.
    pub(super) name_folder: Option<NameResolver>,
    pub(super) cameras: Vec<SourceCamera>,
    pub(super) points: Vec<Point>,
    pub(super) applied_transform: Option<AppliedTransform>,
}

impl DatasetBuilder {
    pub(super) fn build(
        mut self,
        listed: Vec<ListedImage>,
        options: &OpenOptions,
        mut report: Findings,
    ) -> Result<Dataset, DatasetError> {
        if !self.folder.is_dir() {
            return Err(DatasetError::NoImageFolder { path: self.folder });
        }
        let listed_count = listed.len();
        let present = self.locate_images(listed, options, &mut report);
        let present_count = present.len();
        let (images, split, roles) = self.create_entries(present, options, &mut report)?;
        self.check_usable_count(listed_count, present_count, &images, &split, &report)?;

        let centres: Vec<[f64; 3]> = split.train.iter().map(|&i| images[i].pose.centre()).collect();
        if split.train.len() < MIN_IMAGES_WITHOUT_WARNING {
            let warning = Warning::FewImages { path: self.file.clone(), count: split.train.len() };
            report.warnings.push(warning);
        }
        let (extent, spread) = scene_extent(&centres, &self.points);
        if spread == 0.0 && centres.len() > 1 && options.scene_extent.is_none() {
            report.warnings.push(Warning::CoincidentCameras { path: self.file.clone(), extent });
        }
        report.skipped.sort_by(|a, b| a.name.cmp(&b.name));
        let pictures = images.iter().flat_map(|image| [Some(&image.path), image.mask.as_ref()]);
        let reading = InputFiles::new(self.read.iter().chain(pictures.flatten()));
        let mut dataset = Dataset {
            root: self.root,
            source: self.source,
            images_folder: self.folder,
            kind: self.kind,
            cameras: self.cameras,
            images,
            points: self.points,
            split,
            background: if self.kind == DatasetKind::Blender { [1.0; 3] } else { [0.0; 3] },
            alpha: options.alpha,
            scene_extent: options.scene_extent.unwrap_or(extent),
            applied_transform: self.applied_transform,
            warnings: report.warnings,
            skipped: report.skipped,
            fingerprint: Fingerprint::default(),
            reading: Arc::new(reading),
        };
        dataset.fingerprint = fingerprint::from_content(&dataset, &roles);
        Ok(dataset)
    }

    /// Images with a file and a pose, each file once, sorted by name, with their half of the split.
    fn locate_images(
        &self,
        listed: Vec<ListedImage>,
        options: &OpenOptions,
        report: &mut Findings,
    ) -> Vec<PresentImage> {
        let root = NameResolver::new(&self.folder, options.allow_outside);
        let listed_count = listed.len();
        let mut missing = Vec::new();
        let mut present: Vec<PresentImage> = Vec::new();
        for mut entry in listed {
            let mut found = root.find(&entry.name, self.extension);
            if let (Err(SkipReason::Missing), Some((_, rest)), true) =
                (&found, entry.name.trim_start_matches("./").split_once('/'), options.images.is_some())
            {
                // `images/a.jpg` of a JSON file, in another image folder given by an option.
                found = root.find(rest, self.extension);
            }
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
        if let Some(first) = missing.first() {
            let (count, hint) = (missing.len(), root.same_name_in_other_case(first));
            let folder = self.folder.clone();
            missing.truncate(MAX_MISSING_NAMES);
            let warning = Warning::MissingFiles { folder, count, listed: listed_count, names: missing, hint };
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
        // Images of one rig frame see the same scene, so a frame is held out as a whole. The middle one of every n is
        // taken, because the first and last of a trajectory have neighbours on one side only.
        let mut moments: BTreeMap<u32, usize> = BTreeMap::new();
        for picture in present.iter().filter(|picture| picture.role == SplitRole::Undecided) {
            if let Some(frame) = picture.listed.frame {
                let next = moments.len();
                moments.entry(frame).or_insert(next);
            }
        }
        let every = options.test_every;
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
        present
    }

    fn is_panorama(&self, camera: &CameraSource) -> bool {
        match camera {
            CameraSource::Known(index) => self.cameras[*index].model == CameraModel::Equirectangular,
            CameraSource::Intrinsics { values, .. } => {
                values.camera_model.as_deref() == Some(CameraModel::Equirectangular.name())
            }
        }
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

    /// Whether poses belong to the upright pictures: some picture fits its camera only as its EXIF orientation turns it,
    /// and none only as it is stored. It decides for orientations that keep the ratio of the sides.
    fn poses_are_upright(
        &self,
        present: &[PresentImage],
        headers: &[Result<ImageHeader, ImageError>],
    ) -> bool {
        let (mut as_stored, mut turned) = (false, false);
        for (picture, header) in present.iter().zip(headers) {
            let Ok(header @ ImageHeader { orientation: 5..=8, .. }) = header else { continue };
            let stored = [header.width, header.height];
            let made;
            let camera = match &picture.listed.camera {
                CameraSource::Known(index) => &self.cameras[*index],
                CameraSource::Intrinsics { values, .. } => match values.camera(0, stored) {
                    Ok(camera) => {
                        made = camera;
                        &made
                    }
                    Err(_) => continue,
                },
            };
            match fits(camera, stored) {
                [true, false] => as_stored = true,
                [false, true] => turned = true,
                _ => {}
            }
        }
        turned && !as_stored
    }

    /// Reads the header of each image and creates its entry.
    fn create_entries(
        &mut self,
        present: Vec<PresentImage>,
        options: &OpenOptions,
        report: &mut Findings,
    ) -> Result<(Vec<ImageEntry>, Split, Vec<SplitRole>), DatasetError> {
        let mut seen = SharedState::default();
        let (mut images, mut split, mut roles) = (Vec::new(), Split::default(), Vec::new());
        let headers: Vec<_> = present.iter().map(|picture| read_header(&picture.found.path)).collect();
        seen.poses_are_upright = self.poses_are_upright(&present, &headers);
        for (picture, header) in present.into_iter().zip(headers) {
            let (name, role, own_role) = (picture.found.name.clone(), picture.role, picture.listed.role);
            let entries = header
                .map_err(|e| SkipReason::Unreadable(e.problem).into())
                .and_then(|header| self.create_entry(picture, &header, options, &mut seen));
            match entries {
                Ok(entries) => {
                    let half = if role == SplitRole::Test { &mut split.test } else { &mut split.train };
                    half.extend(images.len()..images.len() + entries.len());
                    roles.extend(entries.iter().map(|_| own_role));
                    images.extend(entries);
                }
                Err(EntryError::Picture(reason)) => report.skip(&name, reason),
                Err(EntryError::Dataset(error)) => return Err(error),
            }
        }
        seen.notes.report(&self.folder, &mut report.warnings);
        Ok((images, split, roles))
    }

    /// The entry of an image, or one entry per cube face of a panorama.
    fn create_entry(
        &mut self,
        picture: PresentImage,
        header: &ImageHeader,
        options: &OpenOptions,
        seen: &mut SharedState,
    ) -> Result<Vec<ImageEntry>, EntryError> {
        let PresentImage { listed, found, pose, role } = picture;
        let stored = [header.width, header.height];
        let source_camera = match listed.camera {
            CameraSource::Known(index) => index,
            CameraSource::Intrinsics { values, file, frame } => {
                let camera = values
                    .camera(self.cameras.len() as u32, stored)
                    .map_err(|problem| DatasetError::malformed(&file, json_position(frame), problem))?;
                *seen.cameras.entry(camera_key(&camera)).or_insert_with(|| {
                    self.cameras.push(camera);
                    self.cameras.len() - 1
                })
            }
        };
        let source = &self.cameras[source_camera];
        let turn = turn_of(source, header, seen.poses_are_upright);
        seen.notes.orientation(&found.name, header, turn);
        let stored = match turn {
            Turn::Pixels(orientation) => turned_size(stored, orientation),
            Turn::None | Turn::View(_) => stored,
        };
        check_aspect_ratio(source, stored)?;
        seen.notes.rescaled(&found.name, source, stored);
        let is_panorama = source.model == CameraModel::Equirectangular;
        let is_cut = is_panorama && (options.panoramas == PanoramaTraining::Cube || role == SplitRole::Test);
        let camera = if is_cut {
            face_camera(stored, options.max_resolution)
        } else if is_panorama {
            sphere_camera(stored, options.max_resolution)
        } else {
            let [width, height] = training_size(stored, options.max_resolution);
            let lens = seen.lenses.entry((source_camera, stored)).or_insert_with(|| lens_at(source, stored));
            warp::pinhole_for(lens, stored, width, height)
        };
        let camera = camera.map_err(SkipReason::Camera)?;
        let mask = self.find_mask_of(&found.name, listed.mask.as_deref(), stored, turn, &mut seen.notes)?;
        let io = |e: std::io::Error| ImageProblem::Io(crate::atomic::plain_reason(&e));
        let (file_bytes, sample) =
            Sample::from_file(&found.path).map_err(|e| SkipReason::Unreadable(io(e)))?;
        let mask_content = mask.as_ref().map(|(path, _)| {
            Sample::from_file(path).map_err(|e| SkipReason::Mask { path: path.clone(), problem: io(e) })
        });
        let mask_content = mask_content.transpose()?;
        let stored_mask = mask
            .as_ref()
            .zip(mask_content)
            .map(|((_, header), (file_bytes, _))| training_image::StoredFile { header, file_bytes });
        let entry = ImageEntry {
            name: Arc::from(found.name.as_str()),
            file_bytes,
            sample,
            decode_bytes: training_image::decode_bytes(
                training_image::StoredFile { header, file_bytes },
                stored_mask,
                is_cut.then_some(camera.width),
                turn,
            ),
            path: found.path,
            id: listed.id,
            frame: listed.frame,
            source_camera,
            stored_size: stored,
            turn,
            camera: turn.view_camera(camera),
            pose: turn.view_pose(pose),
            mask: mask.map(|(path, _)| path),
            mask_content,
            face: None,
        };
        if !is_cut {
            return Ok(vec![entry]);
        }
        let face = |face: Face| ImageEntry {
            name: Arc::from(format!("{}/{}", entry.name, face.name())),
            pose: face.pose(&entry.pose),
            face: Some(face),
            ..entry.clone()
        };
        Ok(Face::ALL.map(face).into())
    }

    /// The mask file of an image and its header, which must be readable.
    fn find_mask_of(
        &self,
        name: &str,
        named: Option<&str>,
        stored: [u32; 2],
        turn: Turn,
        notes: &mut Notices,
    ) -> Result<Option<(PathBuf, ImageHeader)>, SkipReason> {
        let named = named.zip(self.name_folder.as_ref()).map(|(mask, folder)| {
            folder.find(mask, ExtensionRule::Required).map_err(|reason| (folder.path(mask), reason))
        });
        let path = match &named {
            Some(Ok(found)) => Some(found.path.clone()),
            _ => find_mask(&self.masks, &self.folder, name).or_else(|| {
                // `images/a.jpg` of a JSON file: `masks/a.png` and similar.
                name.split_once('/').and_then(|(_, rest)| find_mask(&self.masks, &self.folder, rest))
            }),
        };
        let Some(path) = path else {
            return match named {
                // A mask that the dataset names must not be missing silently.
                Some(Err((path, reason))) => Err(SkipReason::NoMask { path, reason: reason.without_label() }),
                _ => Ok(None),
            };
        };
        match read_header(&path) {
            Ok(header) => {
                let size = [header.width, header.height];
                notes.mask(&path, turned_size(size, training_image::mask_turn(turn, size, stored)), stored);
                Ok(Some((path, header)))
            }
            Err(e) => Err(SkipReason::Mask { path, problem: e.problem }),
        }
    }

    /// Fails if too few images are usable.
    fn check_usable_count(
        &self,
        listed: usize,
        present: usize,
        images: &[ImageEntry],
        split: &Split,
        report: &Findings,
    ) -> Result<(), DatasetError> {
        let unreadable = || report.skipped.iter().filter(|s| s.reason.is_unreadable());
        let count = unreadable().count();
        if let (Some(first), true) = (unreadable().next(), count * MAX_UNREADABLE_FRACTION > present) {
            return Err(DatasetError::TooManyUnreadable {
                folder: self.folder.clone(),
                unreadable: count,
                present,
                first: Box::new(first.clone()),
            });
        }
        if images.is_empty() {
            let untrainable = report.skipped.iter().find_map(|s| match s.reason {
                SkipReason::Untrainable(model) => Some(model),
                _ => None,
            });
            if let Some(model) = untrainable {
                let camera = self.cameras.iter().find(|c| c.model == model).map_or(0, |c| c.id);
                return Err(DatasetError::Untrainable { path: self.cameras_file.clone(), camera, model });
            }
            let first = report.skipped.first().cloned().map(Box::new);
            return Err(DatasetError::NoImages { path: self.file.clone(), listed, first });
        }
        if split.train.is_empty() {
            return Err(DatasetError::NothingToTrainOn { path: self.file.clone(), images: images.len() });
        }
        Ok(())
    }
}

/// Why an image gets no entry: it is skipped, or its source is invalid.
enum EntryError {
    Picture(SkipReason),
    Dataset(DatasetError),
}

impl From<SkipReason> for EntryError {
    fn from(reason: SkipReason) -> Self {
        Self::Picture(reason)
    }
}

impl From<DatasetError> for EntryError {
    fn from(error: DatasetError) -> Self {
        Self::Dataset(error)
    }
}

/// How the EXIF orientation of an image is applied. A camera that fits only the turned picture is that of the upright
/// picture; if it fits both, `poses_are_upright` decides.
fn turn_of(camera: &SourceCamera, header: &ImageHeader, poses_are_upright: bool) -> Turn {
    let orientation = header.orientation;
    if orientation == 1 || camera.model == CameraModel::Equirectangular {
        return Turn::None;
    }
    let fits_turned = match (orientation, fits(camera, [header.width, header.height])) {
        (5..=8, [false, true]) => true,
        (5..=8, [true, false]) => false,
        _ => poses_are_upright,
    };
    match without_mirror(orientation) {
        _ if fits_turned => Turn::Pixels(orientation),
        1 => Turn::None,
        turn => Turn::View(turn),
    }
}

/// Shared by all images of the dataset.
#[derive(Default)]
struct SharedState {
    poses_are_upright: bool,
    /// Cameras built from JSON intrinsics, with their index.
    cameras: BTreeMap<CameraKey, usize>,
    /// Lenses by camera and stored size.
    lenses: BTreeMap<(usize, [u32; 2]), Lens>,
    notes: Notices,
}

/// Findings about many images that become one warning each.
#[derive(Default)]
struct Notices {
    oriented: BTreeMap<OrientationUse, (usize, String, u8)>,
    rescaled: Option<(usize, String, [u32; 2], [u32; 2])>,
    masks: Option<(usize, PathBuf, [u32; 2], [u32; 2])>,
}

impl Notices {
    fn orientation(&mut self, name: &str, header: &ImageHeader, turn: Turn) {
        let applied = match turn {
            Turn::Pixels(_) => OrientationUse::Pixels,
            Turn::View(_) => OrientationUse::View,
            Turn::None if header.orientation == 1 => return,
            Turn::None => OrientationUse::Ignored,
        };
        self.oriented.entry(applied).or_insert_with(|| (0, name.to_owned(), header.orientation)).0 += 1;
    }

    fn rescaled(&mut self, name: &str, camera: &SourceCamera, stored: [u32; 2]) {
        let size = [camera.width, camera.height];
        if size != stored {
            self.rescaled.get_or_insert_with(|| (0, name.to_owned(), stored, size)).0 += 1;
        }
    }

    fn mask(&mut self, path: &Path, found: [u32; 2], picture: [u32; 2]) {
        if found != picture {
            self.masks.get_or_insert_with(|| (0, path.to_owned(), found, picture)).0 += 1;
        }
    }

    fn report(self, folder: &Path, warnings: &mut Vec<Warning>) {
        let folder = || folder.to_owned();
        for (applied, (count, name, orientation)) in self.oriented {
            warnings.push(Warning::Orientation { folder: folder(), count, name, orientation, applied });
        }
        if let Some((count, name, found, camera)) = self.rescaled {
            warnings.push(Warning::Rescaled { folder: folder(), count, name, found, camera });
        }
        if let Some((count, path, found, picture)) = self.masks {
            warnings.push(Warning::MaskResized { path, count, found, picture });
        }
    }
}

/// Position of intrinsics in the JSON file.
fn json_position(frame: Option<usize>) -> String {
    frame.map_or_else(|| "top level".to_owned(), |frame| format!("frames[{frame}]"))
}

/// Identity of a camera, with a total order: model, size, bits of the parameters.
type CameraKey = (u8, [u32; 2], Vec<u64>);

fn camera_key(camera: &SourceCamera) -> CameraKey {
    let params = camera.params.iter().map(|p| p.to_bits()).collect();
    (camera.model.id(), [camera.width, camera.height], params)
}
