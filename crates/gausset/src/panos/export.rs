//! Exports aligned panoramas to other programs: poses, points and masks in their formats, all in the same coordinates.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use gausset_io::atomic::{Disk, Overwrite, check_free};
use gausset_io::dataset::colmap::{ColmapPoint, ModelFormat};
use gausset_io::image::encode::{PngPixels, png};
use gausset_io::image::{Mask, decode_file, decode_mask_file, read_header};
use gausset_io::input;
use gausset_io::input_files::InputFiles;
use gausset_pano::export::{self, AlignedPoses};
use gausset_pano::landmarks::{self, Landmark};
use gausset_pano::mask_names::MaskConvention;
use gausset_pano::poses::{NamedPose, gpx, metashape, table, tum};
use gausset_pano::split::{MANIFEST, SplitDescription, is_split_output, read_manifest};
use gausset_sfm::gps;
use serde::Serialize;

use super::align::poses_path;
use super::model::{observed_points, write};
use crate::{Failure, georeference, records};

/// File name of the points next to exported cameras, as Nerfstudio expects it.
const POINTS: &str = "sparse_pc.ply";

/// An export format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExportFormat {
    /// COLMAP model of the views with rigs, frames and points.
    Colmap,
    /// `transforms.json` of the views, `panoramas.json`, and points.
    Transforms,
    /// Metashape XML of the views, and points.
    Metashape,
    /// Metashape XML of the panoramas (spherical cameras), and points.
    MetashapeSpherical,
    /// RealityCapture XMP sidecars of the views, and points.
    Xmp,
    /// RealityCapture table of the views, and points.
    Realitycapture,
    /// TUM trajectory of the panoramas.
    Tum,
    /// CSV table of the panoramas.
    Csv,
    /// GPX track with the geographic positions of the panoramas.
    Gpx,
}

impl ExportFormat {
    /// Every format, each once.
    pub const ALL: [Self; 9] = [
        Self::Colmap,
        Self::Transforms,
        Self::Metashape,
        Self::MetashapeSpherical,
        Self::Xmp,
        Self::Realitycapture,
        Self::Tum,
        Self::Csv,
        Self::Gpx,
    ];

    /// Stable name, for options and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Colmap => "colmap",
            Self::Transforms => "transforms",
            Self::Metashape => "metashape",
            Self::MetashapeSpherical => "metashape-spherical",
            Self::Xmp => "xmp",
            Self::Realitycapture => "realitycapture",
            Self::Tum => "tum",
            Self::Csv => "csv",
            Self::Gpx => "gpx",
        }
    }

    /// The format with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|form| form.name() == name)
    }

    /// Whether poses of the panoramas are written.
    const fn has_panoramas(self) -> bool {
        matches!(self, Self::Transforms | Self::MetashapeSpherical | Self::Tum | Self::Csv)
    }

    /// Default output folder, relative to the alignment folder.
    const fn default_folder(self) -> &'static str {
        match self {
            Self::Colmap => "export",
            Self::Xmp => "images",
            _ => "",
        }
    }
}

/// Options of [`export()`].
#[derive(Clone, Debug)]
pub struct ExportOptions {
    /// Folder of the alignment.
    pub folder: PathBuf,
    /// Folder of another split of the same frames, whose views are exported instead.
    pub views_of: Option<PathBuf>,
    /// Folder of the source panoramas, to read their size.
    pub sources: Option<PathBuf>,
    /// Format to write.
    pub form: ExportFormat,
    /// Whether a COLMAP model is written as text.
    pub is_text: bool,
    /// Output folder; `None` = the alignment folder.
    pub output: Option<PathBuf>,
    /// Mask convention of the target program; `None` = no masks.
    pub masks: Option<MaskConvention>,
    /// Inverts masks: 255 = remove.
    pub invert: bool,
    /// Writes white masks for images without one.
    pub empty_masks: bool,
    /// Whether existing files may be replaced.
    pub overwrite: Overwrite,
}

/// Result of an export; the JSON form is a stable contract.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ExportResult {
    /// Version of this layout.
    pub schema: u32,
    /// Format that was written.
    pub format: ExportFormat,
    /// The output file, or the folder if there are several.
    pub path: PathBuf,
    /// Number of panoramas.
    pub frames: usize,
    /// Number of panoramas with a pose.
    pub registered: usize,
    /// Number of views per panorama.
    pub views: usize,
    /// Number of points.
    pub points: usize,
    /// Number of observations of the points.
    pub observations: usize,
    /// Number of masks.
    pub masks: usize,
}

/// Exports aligned panoramas for another program.
///
/// # Errors
/// No alignment, a split of other frames, files that exist or cannot be written, or a format that needs more than is
/// known (GPX needs a georeference).
pub fn export(options: &ExportOptions) -> Result<ExportResult, Failure> {
    let frames = |e| Failure::new("frames", e);
    let source = SplitDescription::read(&options.folder).map_err(|e| frames(e.to_string()))?;
    let poses = AlignedPoses::read(&poses_path(&options.folder)).map_err(|e| frames(e.to_string()))?;
    let views_folder = options.views_of.as_deref().unwrap_or(&options.folder);
    let target = match &options.views_of {
        Some(folder) => SplitDescription::read(folder).map_err(|e| frames(e.to_string()))?,
        None => source.clone(),
    };
    if !target.frames.iter().any(|name| source.frames.contains(name)) {
        let line =
            format!("{}: frames: none is a frame of {}", views_folder.display(), options.folder.display());
        return Err(frames(line));
    }
    if target.lens_axes.is_some() && options.form == ExportFormat::MetashapeSpherical {
        let line = format!(
            "metashape-spherical: applies to panoramas only (found separate lenses in {}); use metashape for the views",
            views_folder.display()
        );
        return Err(Failure::usage(line));
    }
    if source.levelled != target.levelled {
        let line = format!(
            "{}: views: are levelled where those of {} are not, or the reverse; split both with the same ⟨level⟩",
            views_folder.display(),
            options.folder.display()
        );
        return Err(frames(line));
    }
    let stored = if options.form.has_panoramas() {
        let stored = export::stored_poses(&source, &poses, &read_manifest(&options.folder));
        stored.map_err(|missing| {
            let folder = options.folder.display();
            frames(format!("{folder}: {MANIFEST}: {missing}; split the panoramas again"))
        })?
    } else {
        poses.clone()
    };
    let registered = export::panorama_poses(&target, &poses).len();
    if registered == 0 {
        let line = format!(
            "{}: frames: no frame of {} has a pose; align them first",
            poses_path(&options.folder).display(),
            views_folder.display()
        );
        return Err(Failure::new("poses", line));
    }
    let points = landmarks::transferred(observed_points(&options.folder, &source)?, &source, &target, &poses);
    let points = remove_hidden(points, &target, views_folder)?;
    let out = match &options.output {
        Some(output) => output.clone(),
        None => views_folder.join(options.form.default_folder()),
    };
    let job =
        ExportJob { options, views_folder, target: &target, poses: &poses, stored: &stored, points: &points };
    let (files, path) = job.files(&out)?;
    // A COLMAP export has its own masks folder; other formats use the images and masks of the split.
    let is_beside = options.output.is_none() && options.form != ExportFormat::Colmap;
    let masks_folder = if is_beside { views_folder } else { out.as_path() };
    if is_beside && options.masks == Some(MaskConvention::Colmap) && (options.invert || options.empty_masks) {
        let line = "masks colmap: would replace the masks of the split; choose another folder with ⟨output⟩";
        return Err(Failure::usage(line));
    }
    let masks = job.masks(masks_folder);
    let read = masks.iter().map(|mask| mask_file(views_folder, &mask.picture));
    let model = [poses_path(&options.folder), records::model_folder(&options.folder)];
    let _reading = InputFiles::new(model.into_iter().chain(read));
    // In the folder of the split, existing files of these names are from an earlier export.
    let is_own = options.output.is_none() && is_split_output(views_folder);
    let overwrite = if is_own { Overwrite::Replace } else { options.overwrite };
    for path in files.iter().map(|(path, _)| path).chain(masks.iter().map(|mask| &mask.to)) {
        check_free(&Disk, path, overwrite)?;
    }
    for (path, bytes) in &files {
        write(path, bytes)?;
    }
    for mask in &masks {
        write(&mask.to, &job.mask(mask)?)?;
    }
    let observations = points.iter().map(|p| p.observations.len()).sum();
    Ok(ExportResult {
        schema: 1,
        format: options.form,
        path,
        frames: target.frames.len(),
        registered,
        views: target.views.len(),
        points: points.len(),
        observations,
        masks: masks.len(),
    })
}

/// Removes observations hidden by a view's mask, and points that lose all observations.
fn remove_hidden(
    mut points: Vec<Landmark>,
    target: &SplitDescription,
    folder: &Path,
) -> Result<Vec<Landmark>, Failure> {
    // [frame, view, point, observation]: each mask is decoded once, and tested with its own observations only.
    let mut seen: Vec<[usize; 4]> = Vec::new();
    for (p, point) in points.iter().enumerate() {
        let of_point = point.observations.iter().enumerate();
        seen.extend(of_point.map(|(k, found)| [found.frame, found.view, p, k]));
    }
    seen.sort_unstable();
    let mut hidden = BTreeSet::new();
    for of_view in seen.chunk_by(|a, b| a[..2] == b[..2]) {
        let [frame, view, ..] = of_view[0];
        let Some(mask) = read_mask(folder, &target.image_name(frame, view))? else { continue };
        let size = [target.views[view].width, target.views[view].height].map(f64::from);
        for &[.., p, k] in of_view {
            let pixel = points[p].observations[k].pixel;
            if mask.at_fraction(pixel[0] / size[0], pixel[1] / size[1]) == 0 {
                hidden.insert([p, k]);
            }
        }
    }
    let mut places = 0..points.len();
    points.retain_mut(|Landmark { observations, .. }| {
        let (p, was_seen, mut k) = (places.next(), !observations.is_empty(), 0..observations.len());
        observations.retain(|_| !p.zip(k.next()).is_some_and(|(p, k)| hidden.contains(&[p, k])));
        !was_seen || !observations.is_empty()
    });
    for point in &mut points {
        point.point.track_length = point.observations.len() as u64;
    }
    Ok(points)
}

fn mask_file(folder: &Path, picture: &str) -> PathBuf {
    folder.join("masks").join(format!("{picture}.png"))
}

fn read_mask(folder: &Path, picture: &str) -> Result<Option<Mask>, Failure> {
    let path = mask_file(folder, picture);
    if !path.is_file() {
        return Ok(None);
    }
    decode_mask_file(&path).map(Some).map_err(|e| Failure::new("frames", e))
}

/// A mask to be written.
struct MaskJob {
    /// Name of the image.
    picture: String,
    /// Size of the image in pixels.
    size: [u32; 2],
    /// Output path.
    to: PathBuf,
}

struct ExportJob<'a> {
    options: &'a ExportOptions,
    views_folder: &'a Path,
    target: &'a SplitDescription,
    poses: &'a AlignedPoses,
    /// Poses of the panoramas as they are stored, not levelled.
    stored: &'a AlignedPoses,
    points: &'a [Landmark],
}

/// Path and content of an output file.
type OutputFile = (PathBuf, Vec<u8>);

impl ExportJob<'_> {
    /// The output files, and the path to report (the main file or its folder).
    fn files(&self, out: &Path) -> Result<(Vec<OutputFile>, PathBuf), Failure> {
        let Self { options, target, poses, stored, points, .. } = self;
        let mut files: Vec<OutputFile> = Vec::new();
        let bare: Vec<ColmapPoint> = points.iter().map(|p| p.point.clone()).collect();
        // Transform the points to the coordinates of the exported cameras.
        let applied = poses.applied.filter(|_| options.form == ExportFormat::Transforms);
        let place = |point: ColmapPoint| ColmapPoint {
            position: applied.map_or(point.position, |applied| applied.transform_point(point.position)),
            ..point
        };
        let bare: Vec<ColmapPoint> = bare.into_iter().map(place).collect();
        let ply = (!bare.is_empty()).then(|| (out.join(POINTS), export::points_ply(&bare)));
        let views = || export::view_poses(target, poses);
        let panoramas = || export::panorama_poses(target, stored);
        let view_of = |k: usize| &target.views[k % target.views.len()];
        let main = match options.form {
            ExportFormat::Colmap => {
                let format = if options.is_text { ModelFormat::Text } else { ModelFormat::Binary };
                for (name, bytes) in export::colmap_files(target, poses, points, format) {
                    files.push((out.join(name), bytes));
                }
                return Ok((files, out.to_owned()));
            }
            ExportFormat::Transforms => {
                let mask_of = |name: &str| self.mask_path(name);
                let points_file = ply.is_some().then_some(POINTS);
                files.extend(ply);
                // Separate lenses have no panorama.
                if target.lens_axes.is_none() {
                    let manifest = read_manifest(self.views_folder);
                    files.push((
                        out.join("panoramas.json"),
                        export::panoramas(target, stored, points_file, &manifest).into_bytes(),
                    ));
                }
                ("transforms.json", export::transforms(target, poses, points_file, &mask_of))
            }
            ExportFormat::Xmp => {
                files.extend(ply);
                for (stem, text) in export::xmp_sidecars(target, poses) {
                    files.push((out.join(format!("{stem}.xmp")), text.into_bytes()));
                }
                return Ok((files, out.to_owned()));
            }
            ExportFormat::Metashape => {
                files.extend(ply);
                let sensor = |view: &gausset_pano::geometry::View| metashape::Sensor {
                    label: view.name.clone(),
                    size: [view.width, view.height],
                    focal: Some(view.focal()),
                };
                let sensors: Vec<_> = target.views.iter().map(sensor).collect();
                ("cameras.xml", metashape::write(&sensors, &views(), |k| k % target.views.len()))
            }
            ExportFormat::MetashapeSpherical => {
                files.extend(ply);
                let panoramas = panoramas();
                let sizes = self.panorama_sizes(&panoramas)?;
                let mut sensors: Vec<metashape::Sensor> = Vec::new();
                for size in &sizes {
                    if sensors.iter().all(|sensor| sensor.size != *size) {
                        sensors.push(metashape::Sensor {
                            label: "panorama".to_owned(),
                            size: *size,
                            focal: None,
                        });
                    }
                }
                let sensor_of = |k: usize| sensors.iter().position(|sensor| sensor.size == sizes[k]);
                ("panoramas.xml", metashape::write(&sensors, &panoramas, |k| sensor_of(k).unwrap_or(0)))
            }
            ExportFormat::Realitycapture => {
                files.extend(ply);
                ("cameras.csv", table::write_realitycapture(&views(), |k| view_of(k).focal_36mm()))
            }
            ExportFormat::Tum => ("trajectory.txt", tum::write(&panoramas())),
            ExportFormat::Csv => ("trajectory.csv", table::write(&panoramas())),
            ExportFormat::Gpx => ("trajectory.gpx", gpx::write(&self.positions()?)),
        };
        let path = out.join(main.0);
        files.push((path.clone(), main.1.into_bytes()));
        Ok((files, path))
    }

    /// Width and height of the panoramas by their headers, upright.
    fn panorama_sizes(&self, panoramas: &[NamedPose]) -> Result<Vec<[u32; 2]>, Failure> {
        let Some(folder) = &self.options.sources else {
            return Err(Failure::usage(
                "metashape-spherical: needs the size of the panoramas; give their folder with ⟨sources⟩",
            ));
        };
        let manifest = read_manifest(self.views_folder);
        let size = |panorama: &NamedPose| {
            let file = self.target.panorama_file(&panorama.name, &manifest);
            let path = input::resolve_inside(folder, &file).map_err(|e| Failure::new("frames", e))?;
            let header = read_header(&path).map_err(|e| Failure::new("frames", e))?;
            Ok(header.upright_size())
        };
        panoramas.iter().map(size).collect()
    }

    /// Geographic positions of the panoramas, from the GPS track of the alignment, or by fitting the GPS positions of
    /// the frames.
    fn positions(&self) -> Result<Vec<(String, [f64; 3])>, Failure> {
        let manifest = read_manifest(&self.options.folder);
        let all = export::panorama_poses(self.target, self.poses);
        if let Some((earth, origin)) = self.poses.earth.as_ref().and_then(|e| Some((e, e.origin?))) {
            let rotation = gausset_core::se3::rotation_from_quaternion(earth.rotation);
            let position = |pose: NamedPose| {
                let turned = gausset_core::se3::mul_vec(&rotation, pose.pose.centre());
                let metres = std::array::from_fn(|k| turned[k] + earth.translation[k]);
                (pose.name, gps::to_geodetic(metres, origin))
            };
            return Ok(all.into_iter().map(position).collect());
        }
        let (mut centres, mut known) = (Vec::new(), Vec::new());
        for pose in &all {
            let source = self.target.source_frame(&pose.name);
            if let Some(position) =
                manifest.iter().find(|line| line.frame == source).and_then(|line| line.gps)
            {
                centres.push(pose.pose.centre());
                known.push(position);
            }
        }
        let refused = || {
            let folder = self.options.folder.display();
            Failure::new(
                "poses",
                format!(
                    "{folder}: poses: are not georeferenced (expected three or more frames with GPS that agrees with the alignment)"
                ),
            )
        };
        let fit = georeference::fit_positions(&centres, &known, None);
        let fit = fit.filter(|fit| fit.quality.is_significant()).ok_or_else(refused)?;
        let origin = [fit.origin.latitude, fit.origin.longitude, fit.origin.altitude.unwrap_or_default()];
        let position =
            |pose: NamedPose| (pose.name, gps::to_geodetic(fit.similarity.apply(pose.pose.centre()), origin));
        Ok(all.into_iter().map(position).collect())
    }

    /// Whether a mask is exported for an image.
    fn has_mask(&self, form: MaskConvention, picture: &str) -> bool {
        self.options.empty_masks
            || form == MaskConvention::Alpha
            || form.needs_all_masks() && self.has_any_mask()
            || mask_file(self.views_folder, picture).is_file()
    }

    fn has_any_mask(&self) -> bool {
        export::view_poses(self.target, self.poses)
            .iter()
            .any(|pose| mask_file(self.views_folder, &pose.name).is_file())
    }

    /// Path of an image's mask as written in `transforms.json`.
    fn mask_path(&self, picture: &str) -> Option<String> {
        let form = self.options.masks.filter(|form| *form != MaskConvention::Alpha)?;
        self.has_mask(form, picture).then(|| form.path(picture))
    }

    /// Masks to write below this folder.
    fn masks(&self, out: &Path) -> Vec<MaskJob> {
        let Some(form) = self.options.masks else { return Vec::new() };
        export::view_poses(self.target, self.poses)
            .into_iter()
            .enumerate()
            .filter(|(_, pose)| self.has_mask(form, &pose.name))
            .map(|(index, pose)| {
                // The views of a frame are consecutive.
                let view = &self.target.views[index % self.target.views.len()];
                let to = out.join(form.path(&pose.name));
                MaskJob { picture: pose.name, size: [view.width, view.height], to }
            })
            // Do not overwrite the masks of the split.
            .filter(|mask| mask.to != mask_file(self.views_folder, &mask.picture))
            .collect()
    }

    /// Content of a mask file: 0 = remove, 255 = keep (swapped if inverted); or the image with the mask as alpha
    /// channel.
    fn mask(&self, job: &MaskJob) -> Result<Vec<u8>, Failure> {
        let MaskJob { picture, size: [width, height], .. } = job;
        let found = read_mask(self.views_folder, picture)?;
        let (remove, keep) = if self.options.invert { (255, 0) } else { (0, 255) };
        let mut values = Vec::with_capacity((width * height) as usize);
        for y in 0..*height {
            for x in 0..*width {
                let place =
                    [(f64::from(x) + 0.5) / f64::from(*width), (f64::from(y) + 0.5) / f64::from(*height)];
                let is_kept = found.as_ref().is_none_or(|mask| mask.at_fraction(place[0], place[1]) != 0);
                values.push(if is_kept { keep } else { remove });
            }
        }
        let encoded = if self.options.masks == Some(MaskConvention::Alpha) {
            let path = self.views_folder.join("images").join(picture);
            let decoded = decode_file(&path).map_err(|e| Failure::new("frames", e))?;
            if [decoded.width, decoded.height] != [*width, *height] {
                let (w, h) = (decoded.width, decoded.height);
                let line = format!("{}: size: {w}x{h} px (expected {width}x{height})", path.display());
                return Err(Failure::new("frames", line));
            }
            let rgba: Vec<u8> =
                decoded.rgb.chunks_exact(3).zip(&values).flat_map(|(c, a)| [c[0], c[1], c[2], *a]).collect();
            png(*width, *height, PngPixels::Rgba8(&rgba), &[])
        } else {
            png(*width, *height, PngPixels::Grey8(&values), &[])
        };
        encoded.map_err(|e| Failure::new("write", e))
    }
}
