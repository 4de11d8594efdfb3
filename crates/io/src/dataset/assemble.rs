//! Turns a list of images into a [`Dataset`]: files, poses, split, image headers, cameras, masks.
//!
//! The split is made over images that have a pose and a file, before any image is opened: one unreadable JPEG does not
//! reshuffle the test set.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gausset_core::{Pose, se3};

use super::calibration;
use super::camera_model::{CameraModel, SourceCamera};
use super::colmap::ModelFolder;
use super::error::{DatasetError, PicturesThere};
use super::exports::SharedLens;
use super::fingerprint::{self, Fingerprint, Sample};
use super::lens::Lens;
use super::masks::{self, MaskFinder};
use super::panorama::{Face, face_camera, sphere_camera};
use super::paths::{ExtensionRule, NameResolver, ResolvedFile};
use super::similar::FileKind;
use super::sizes::{check_aspect_ratio, far_cameras, far_offset, fits, lens_at, scene_extent, training_size};
use super::source::{self, SplitRole};
use super::training_image;
use super::transforms::Intrinsics;
use super::warning::{OrientationUse, SkipReason, SkippedImage, Warning};
use super::{
    AppliedTransform, Dataset, DatasetKind, Georeference, ImageEntry, OpenOptions, PanoramaTraining, Point,
    Split, Turn,
};
use crate::image::turn::without_mirror;
use crate::image::{ImageError, ImageHeader, ImageProblem, read_header, turned_size, warp};
use crate::input_files::InputFiles;

/// Fewer training images than this cause a warning.
const MIN_IMAGES_WITHOUT_WARNING: usize = 3;
/// At most one in this many images may be unreadable.
const MAX_UNREADABLE_FRACTION: usize = 10;

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
    /// Intrinsics that may need the size of the image, their file, and whether some are of the frame itself.
    Intrinsics { values: Box<Intrinsics>, file: PathBuf, are_own: bool },
    /// The lens that another program exported.
    Export(SharedLens),
}

/// An image with a file and a pose.
pub(super) struct PresentImage {
    pub(super) listed: ListedImage,
    pub(super) found: ResolvedFile,
    pub(super) pose: Pose,
    /// Whether it is trained on or held out; `listed.role` is what the dataset itself specifies.
    pub(super) role: SplitRole,
}

/// Warnings and skipped images collected so far.
#[derive(Default)]
pub(super) struct Findings {
    pub(super) warnings: Vec<Warning>,
    pub(super) skipped: Vec<SkippedImage>,
}

impl Findings {
    pub(super) fn skip(&mut self, name: &str, reason: SkipReason) {
        self.skipped.push(SkippedImage { name: name.to_owned(), reason });
    }
}

/// What both kinds of source provide once they are parsed.
pub(super) struct DatasetBuilder {
    pub(super) root: PathBuf,
    pub(super) source: PathBuf,
    pub(super) model: Option<ModelFolder>,
    /// Files and folders that were read, except images and masks.
    pub(super) read: Vec<PathBuf>,
    /// The file that lists the images, for messages.
    pub(super) file: PathBuf,
    /// The file that lists the cameras, for messages.
    pub(super) cameras_file: PathBuf,
    pub(super) kind: DatasetKind,
    pub(super) folder: PathBuf,
    pub(super) extension: ExtensionRule,
    /// Folder to which `mask_path` entries are relative.
    pub(super) name_folder: Option<NameResolver>,
    pub(super) cameras: Vec<SourceCamera>,
    pub(super) points: Vec<Point>,
    pub(super) applied_transform: Option<AppliedTransform>,
    pub(super) georeference: Option<Georeference>,
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
        let root = NameResolver::new(&self.folder, options.allow_outside);
        let present = self.locate_images(&root, listed, options, &mut report);
        let present_count = present.len();
        let (mut images, split, roles) = self.create_entries(present, options, &mut report)?;
        self.check_usable_count([listed_count, present_count], (&images, &roles), &split, &root, &report)?;
        self.doubt_cameras(&images, &mut report);

        let far = || far_offset(&images, &split, &self.points);
        let offset = options.offset.or_else(far).filter(|offset| *offset != [0.0; 3]);
        if let Some(offset) = offset {
            images.iter_mut().for_each(|image| image.pose = moved(&image.pose, offset));
            self.points.iter_mut().for_each(|point| point.position = se3::sub(point.position, offset));
            if options.offset.is_none() {
                report.warnings.push(Warning::FarCoordinates { path: self.file.clone(), offset });
            }
        }
        let centres: Vec<[f64; 3]> = split.train.iter().map(|&i| images[i].pose.centre()).collect();
        if split.train.len() < MIN_IMAGES_WITHOUT_WARNING {
            let warning = Warning::FewImages { path: self.file.clone(), count: split.train.len() };
            report.warnings.push(warning);
        }
        let far = far_cameras(&centres);
        if let Some(&(index, factor)) = far.iter().max_by(|a, b| a.1.total_cmp(&b.1)) {
            let first = images[split.train[index]].name.to_string();
            report.warnings.push(Warning::FarCameras {
                path: self.file.clone(),
                count: far.len(),
                first,
                factor,
            });
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
            model: self.model,
            images_folder: self.folder,
            kind: self.kind,
            cameras: self.cameras,
            images,
            points: self.points,
            split,
            background: if self.kind == DatasetKind::Blender { [1.0; 3] } else { [0.0; 3] },
            alpha: options.alpha,
            invert_masks: options.invert_masks,
            scene_extent: options.scene_extent.unwrap_or(extent),
            applied_transform: self.applied_transform,
            georeference: self.georeference,
            offset,
            normalisation: super::Normalisation::default(),
            warnings: report.warnings,
            skipped: report.skipped,
            fingerprint: Fingerprint::default(),
            reading: Arc::new(reading),
        };
        dataset.fingerprint = fingerprint::from_content(&dataset, &roles);
        Ok(dataset)
    }

    pub(super) fn is_panorama(&self, camera: &CameraSource) -> bool {
        match camera {
            CameraSource::Known(index) => self.cameras[*index].model == CameraModel::Equirectangular,
            CameraSource::Export(lens) => {
                lens.as_ref().as_ref().is_ok_and(|lens| lens.model == CameraModel::Equirectangular)
            }
            CameraSource::Intrinsics { values, .. } => values.is_panorama(),
        }
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
            let made = match &picture.listed.camera {
                CameraSource::Known(index) => Ok(self.cameras[*index].clone()),
                CameraSource::Intrinsics { values, .. } => values.camera(0, stored).map_err(|_| ()),
                CameraSource::Export(lens) => match lens.as_ref().as_ref() {
                    Ok(lens) => lens.camera(0, stored).map_err(|_| ()),
                    Err(_) => Err(()),
                },
            };
            let Ok(camera) = made else { continue };
            match fits(&camera, stored) {
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
        let finder = MaskFinder::new(options.masks.as_deref(), &self.root, &self.folder);
        let masks = finder.find(present.iter().map(|p| [p.found.name.as_str(), p.found.spelled.as_str()]));
        let headers: Vec<_> = present.iter().map(|picture| read_header(&picture.found.path)).collect();
        seen.poses_are_upright = self.poses_are_upright(&present, &headers);
        let (mut with, mut pictures, mut without) = (Vec::new(), 0, None);
        for ((picture, mask), header) in present.into_iter().zip(masks).zip(headers) {
            let (name, role, own_role) = (picture.found.name.clone(), picture.role, picture.listed.role);
            let entries = header
                .map_err(|e| SkipReason::Unreadable(e.problem).into())
                .and_then(|header| self.create_entry(picture, &header, mask, options, &mut seen));
            match entries {
                Ok(entries) => {
                    pictures += 1;
                    match entries.first().and_then(|entry| entry.mask.clone()) {
                        Some(mask) => with.push(mask),
                        None => without = without.or(Some(name)),
                    }
                    let half = if role == SplitRole::Test { &mut split.test } else { &mut split.train };
                    half.extend(images.len()..images.len() + entries.len());
                    roles.extend(entries.iter().map(|_| own_role));
                    images.extend(entries);
                }
                Err(EntryError::Picture(reason)) => report.skip(&name, reason),
                Err(EntryError::Dataset(error)) => return Err(error),
            }
        }
        let poses: Vec<Pose> = images.iter().map(|image| image.pose).collect();
        let looks_like_blender =
            2 * seen.notes.with_alpha >= pictures && calibration::surround_the_origin(&poses);
        if self.kind == DatasetKind::Blender && !source::is_blender_file(&self.file) && !looks_like_blender {
            // A file of another program that has no more than the angle.
            self.kind = DatasetKind::Nerfstudio;
        }
        seen.notes.report(&self.folder, &self.file, &mut report.warnings);
        report.warnings.extend(finder.coverage(with.len(), pictures, without.as_deref()));
        let with: Vec<&Path> = with.iter().map(PathBuf::as_path).collect();
        report.warnings.extend(masks::inverted(&with, options.invert_masks));
        Ok((images, split, roles))
    }

    /// Warns of cameras that cannot be those of their images.
    fn doubt_cameras(&self, images: &[ImageEntry], report: &mut Findings) {
        let used: BTreeSet<usize> = images.iter().map(|image| image.source_camera).collect();
        let mut doubts = used.into_iter().filter_map(|index| {
            let camera = self.cameras.get(index)?;
            Some((camera.id, calibration::doubt(camera)?))
        });
        if let Some((camera, doubt)) = doubts.next() {
            let path = self.cameras_file.clone();
            let warning = Warning::DoubtfulCamera { path, count: 1 + doubts.count(), camera, doubt };
            report.warnings.push(warning);
        }
    }

    /// The entry of an image, or one entry per cube face of a panorama.
    fn create_entry(
        &mut self,
        picture: PresentImage,
        header: &ImageHeader,
        mask: Option<PathBuf>,
        options: &OpenOptions,
        seen: &mut SharedState,
    ) -> Result<Vec<ImageEntry>, EntryError> {
        let PresentImage { listed, found, pose, role } = picture;
        seen.notes.with_alpha += usize::from(matches!(header.channels, 2 | 4));
        let stored = [header.width, header.height];
        let source_camera = match listed.camera {
            CameraSource::Known(index) => index,
            CameraSource::Export(lens) => {
                let unusable = |e: &dyn Display| SkipReason::Export(format!("camera: {e}"));
                let lens = lens.as_ref().as_ref().map_err(|e| unusable(e))?;
                let camera = lens.camera(self.cameras.len() as u32, stored).map_err(|e| unusable(&e))?;
                self.shared_camera(camera, seen)
            }
            CameraSource::Intrinsics { values, file, are_own } => {
                let camera = values.camera(self.cameras.len() as u32, stored);
                let camera = camera.map_err(|problem| match are_own {
                    true => EntryError::Picture(SkipReason::Intrinsics(Box::new(problem))),
                    false => DatasetError::malformed(&file, "top level", problem).into(),
                })?;
                self.shared_camera(camera, seen)
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
        let mask = self.choose_mask(mask, listed.mask.as_deref(), stored, turn, &mut seen.notes)?;
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
            has_alpha_channel: header.has_alpha_channel(),
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

    /// Index of a camera, which images with equal values share.
    fn shared_camera(&mut self, camera: SourceCamera, seen: &mut SharedState) -> usize {
        *seen.cameras.entry(camera_key(&camera)).or_insert_with(|| {
            self.cameras.push(camera);
            self.cameras.len() - 1
        })
    }

    /// The mask file of an image and its header, which must be readable: the one that the dataset names, else `usual`.
    fn choose_mask(
        &self,
        usual: Option<PathBuf>,
        named: Option<&str>,
        stored: [u32; 2],
        turn: Turn,
        notes: &mut Notices,
    ) -> Result<Option<(PathBuf, ImageHeader)>, SkipReason> {
        let named = named.zip(self.name_folder.as_ref()).map(|(mask, folder)| {
            folder.find(mask, ExtensionRule::Required).or_else(|reason| {
                let similar = folder.find_similar(mask, FileKind::Mask, reason);
                similar
                    .inspect(|found| notes.similar_mask(mask, &found.name))
                    .map_err(|reason| (folder.path(mask), reason))
            })
        });
        let path = match &named {
            Some(Ok(found)) => Some(found.path.clone()),
            _ => usual,
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
        [listed, present]: [usize; 2],
        (images, roles): (&[ImageEntry], &[SplitRole]),
        split: &Split,
        root: &NameResolver,
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
            let is_missing = report.skipped.first().is_some_and(|first| first.reason.is_missing());
            let there = is_missing.then(|| PicturesThere::new(&self.folder, root.files()));
            return Err(DatasetError::NoImages { path: self.file.clone(), listed, first, there });
        }
        if split.train.is_empty() {
            let own_list = roles.iter().all(|role| *role == SplitRole::Test);
            let path = self.file.clone();
            return Err(DatasetError::NothingToTrainOn { path, images: images.len(), own_list });
        }
        Ok(())
    }
}

/// The pose in a world whose coordinates are smaller by `offset`.
fn moved(pose: &Pose, offset: [f64; 3]) -> Pose {
    let centre = se3::sub(pose.centre(), offset);
    Pose { translation: se3::mul_vec(&pose.rotation, centre).map(|v| -v), ..*pose }
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
    /// Cameras built while images are listed, with their index.
    cameras: BTreeMap<CameraKey, usize>,
    /// Lenses by camera and stored size.
    lenses: BTreeMap<(usize, [u32; 2]), Lens>,
    notes: Notices,
}

/// Findings about many images that become one warning each.
#[derive(Default)]
struct Notices {
    with_alpha: usize,
    similar_masks: Option<(usize, String, String)>,
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

    fn similar_mask(&mut self, name: &str, used: &str) {
        self.similar_masks.get_or_insert_with(|| (0, name.to_owned(), used.to_owned())).0 += 1;
    }

    fn report(self, folder: &Path, file: &Path, warnings: &mut Vec<Warning>) {
        let folder = || folder.to_owned();
        for (applied, (count, name, orientation)) in self.oriented {
            warnings.push(Warning::Orientation { folder: folder(), count, name, orientation, applied });
        }
        if let Some((count, name, found, camera)) = self.rescaled {
            warnings.push(Warning::Rescaled { folder: folder(), count, name, found, camera });
        }
        if let Some((count, name, used)) = self.similar_masks {
            let path = file.to_owned();
            warnings.push(Warning::SimilarNames { path, what: "mask_path", count, name, used });
        }
        if let Some((count, path, found, picture)) = self.masks {
            warnings.push(Warning::MaskResized { path, count, found, picture });
        }
    }
}

/// Identity of a camera, with a total order: model, size, bits of the parameters.
type CameraKey = (u8, [u32; 2], Vec<u64>);

fn camera_key(camera: &SourceCamera) -> CameraKey {
    let params = camera.params.iter().map(|p| p.to_bits()).collect();
    (camera.model.id(), [camera.width, camera.height], params)
}
