//! The model of photographs: an existing one, or a new one by the aligner.

use std::collections::BTreeSet;
use std::path::PathBuf;

use gausset_io::atomic::{Disk, FileSystem, Overwrite, WriteError};
use gausset_io::dataset::{CameraModel, Georeference};
use gausset_io::image::read_header;
use gausset_io::input::absolute;
use gausset_io::ownership;
use gausset_sfm::align::{AlignJob, CameraSharing};
use gausset_sfm::model::{CheckedModel, FrameImages};
use gausset_sfm::reprojection::errors_at_centre_and_corners;
use gausset_sfm::{Alignment, PairChoice};
use serde_json::{Value, json};

use super::alignment::LeftOut;
use super::images::ImageSet;
use super::picture_report::{AlignmentReport, left_out_lines, reason};
use super::{MAX_IMAGE_SIZE, PhotoAlignment, PhotoOptions};
use crate::aligner::Aligner;
use crate::frame_selection::with_advice;
use crate::{FILES_LEFT_OUT, Failure, Host, georeference, records};

/// Key of the result in the record, which is no option.
const RESULT: &str = "result";
const PHOTOGRAPH_BYTES: &str = "photograph-bytes";
const MASK_BYTES: &str = "mask-bytes";
const IMAGE_SIZE: &str = "max-image-size";

fn cameras(options: &PhotoOptions, pictures: &ImageSet) -> CameraSharing {
    if options.lens.single_camera || pictures.is_video {
        CameraSharing::Single
    } else if pictures.has_camera_per_folder {
        CameraSharing::PerFolder
    } else {
        CameraSharing::Auto
    }
}

fn is_sequence(options: &PhotoOptions, pictures: &ImageSet) -> bool {
    options.lens.sequence || pictures.is_video
}

/// Record of everything that the model depends on; keys are option names.
fn record(options: &PhotoOptions, pictures: &ImageSet, frames: &[FrameImages]) -> Value {
    let masks = pictures.masks();
    let has_masks = options.lens.masks.is_some() || !masks.is_empty();
    json!({
        "photographs": frames.iter().map(|frame| &frame.name).collect::<BTreeSet<_>>(),
        // Other photographs of the same names. Not their times, which copying changes.
        PHOTOGRAPH_BYTES: bytes_of(frames.iter().map(|frame| pictures.folder.join(&frame.name))),
        MASK_BYTES: has_masks.then(|| bytes_of(masks.into_values())),
        "camera-model": options.lens.camera_model.name(),
        "single-camera": cameras(options, pictures) == CameraSharing::Single,
        "sequence": is_sequence(options, pictures),
        // Older records have none.
        "pairs": (pictures.pairs != PairChoice::Auto).then(|| pictures.pairs.describe()),
        "masks": options.lens.masks.as_deref().map(records::canonical_path),
        "invert-masks": (has_masks && options.lens.invert_masks).then_some(true),
        IMAGE_SIZE: options.max_image_size,
        "sfm-seed": options.tool.seed,
        "mapper": options.tool.non_default_mapper(),
        "aligner": options.tool.non_default_aligner(),
    })
}

/// Total size of files.
fn bytes_of(files: impl Iterator<Item = PathBuf>) -> u64 {
    files.filter_map(|path| Some(path.metadata().ok()?.len())).sum()
}

/// The existing model of these photographs, if it was made with these options. A complete model that Gausset did not
/// create is accepted as well.
pub(super) fn existing_model(
    options: &PhotoOptions,
    pictures: &ImageSet,
    frames: &[FrameImages],
) -> Result<Option<CheckedModel>, Failure> {
    let folder = records::model_folder(&options.output);
    if ownership::is_gausset_owned(&folder, records::MODEL_PURPOSE) {
        // The record is written last: without it the model may be incomplete.
        let Some(known) = records::read_record(&folder.join(records::MODEL_RECORD)) else {
            return Ok(None);
        };
        let known = options_of_record(known, options.tool.aligner);
        let differences = differences(&known, record(options, pictures, frames));
        if !differences.is_empty() {
            let refused = options.overwrite == Overwrite::Refuse;
            return if refused { Err(records::other_options(&folder, &differences)) } else { Ok(None) };
        }
    }
    Ok(CheckedModel::read(&folder, frames).ok().filter(|model| !model.image_of_frame.is_empty()))
}

/// Warns about an existing model that Gausset did not create.
pub(super) fn warn_of_other_program(options: &PhotoOptions, host: &mut Host<'_>) {
    let folder = records::model_folder(&options.output);
    if !ownership::is_gausset_owned(&folder, records::MODEL_PURPOSE) {
        let line = format!(
            "{}: the model of another program is used; to align anew, choose another folder with ⟨output⟩",
            folder.display()
        );
        host.warn("photographs", line);
    }
}

/// Differences between a known record and that of the given options and files.
fn differences(known: &Value, mut given: Value) -> Vec<String> {
    if let Some(given) = given.as_object_mut() {
        // Older records have none.
        given.retain(|key, _| ![PHOTOGRAPH_BYTES, MASK_BYTES].contains(&&**key) || known.get(key).is_some());
        // A model of larger images is as good.
        let size = |value: &Value| value.as_u64().unwrap_or(MAX_IMAGE_SIZE.into());
        if given.get(IMAGE_SIZE).map(size) <= Some(size(&known[IMAGE_SIZE])) {
            given.insert(IMAGE_SIZE.to_owned(), known[IMAGE_SIZE].clone());
        }
    }
    records::differences(known, &given)
}

/// The options that a record names. The aligner is the one that made the model, which `auto` accepts from any; older
/// records without a name are of COLMAP.
fn options_of_record(mut known: Value, asked: Aligner) -> Value {
    let Some(options) = known.as_object_mut() else { return known };
    let result = options.remove(RESULT).unwrap_or_default();
    let named = [result.get("aligner").cloned(), options.get("aligner").cloned()];
    let made_by = named.into_iter().flatten().find(|name| !name.is_null());
    let made_by = made_by.unwrap_or_else(|| json!(Aligner::Colmap.name()));
    options.insert("aligner".to_owned(), if asked == Aligner::Auto { Value::Null } else { made_by });
    known
}

/// Aligns photographs and writes the model to `output/sparse/0`. The caller holds the lock of `output`.
pub(super) fn align(
    options: &PhotoOptions,
    pictures: &ImageSet,
    frames: &[FrameImages],
    host: &mut Host<'_>,
) -> Result<PhotoAlignment, Failure> {
    let PhotoOptions { output, lens, tool, overwrite, .. } = options;
    records::check_model_folder(output, *overwrite)?;
    let program = options.find_aligner(host)?;
    let position =
        |frame: usize| georeference::position_of(&pictures.file_with_metadata(&frames[frame].name));
    let masks = pictures.masks();
    if let (Some(folder), true) = (&lens.masks, masks.is_empty()) {
        host.warn(
            "photographs",
            format!("{}: no photograph has a mask here; aligned without", folder.display()),
        );
    }
    let job = AlignJob {
        image_folder: absolute(&pictures.folder),
        masks,
        invert_masks: lens.invert_masks,
        metadata: pictures.originals.clone(),
        frames: frames.to_vec(),
        rig_config: None,
        views: Vec::new(),
        camera_model: lens.camera_model.name().to_owned(),
        camera_params: None,
        cameras: cameras(options, pictures),
        pairs: pictures.pairs.clone(),
        is_sequence: is_sequence(options, pictures),
        ground_positions: georeference::ground_positions(frames.len(), &position),
        max_image_size: options.max_image_size,
        work_folder: absolute(output).join(records::WORK_FOLDER),
        threads: tool.thread_count(),
        seed: tool.seed,
        known_poses: None,
        refine_known_poses: false,
        priors: Vec::new(),
        imported_matches: None,
        keep_work_folder: false,
        mapper: tool.mapper,
        silence_limit: tool.colmap_timeout(),
    };
    let (aligned, program) = tool
        .run(&job, program, "photograph", host)
        .map_err(|failure| with_advice(failure, &pictures.folder))?;
    let Alignment { mut model, frames: facts, .. } = aligned;
    let orientation =
        |name: &str| read_header(&pictures.folder.join(name)).map_or(1, |header| header.orientation);
    let place = georeference::georeference(&mut model, frames, &position, &orientation, host);
    let left_out = left_out(&model, frames, |index| reason(index, &model, &facts));
    let mut record = record(options, pictures, frames);
    record[RESULT] = json!(AlignmentReport::new(&program, pictures, &model, frames, &facts, &left_out));
    write(options, &model, frames, &record, place.as_ref())?;
    for line in left_out_lines(&left_out, frames) {
        host.warn(FILES_LEFT_OUT, line);
    }
    if let Some(line) = wrong_lens_line(&model, lens.camera_model) {
        host.warn("photographs", line);
    }
    let left_out = [left_out, pictures.unreadable.clone()].concat();
    Ok(PhotoAlignment { left_out, ..summarise(options, &model, pictures) })
}

/// What to try if the reprojection errors grow towards the corners. On real photographs, errors there are at most 1.4 times
/// those in the middle if the model fits; with a wrong model for a fisheye lens, twice and more.
fn wrong_lens_line(model: &CheckedModel, camera_model: CameraModel) -> Option<String> {
    const MAX_GROWTH: f64 = 1.8;
    /// Smaller errors do not matter, px.
    const MIN_ERROR: f64 = 0.5;
    let try_instead = match camera_model {
        model if model.name().contains("FISHEYE") => return None,
        CameraModel::OpenCv | CameraModel::FullOpenCv => {
            "for a fisheye lens, try ⟨camera-model = OPENCV_FISHEYE⟩"
        }
        _ => "try ⟨camera-model = OPENCV_FISHEYE⟩ for a fisheye lens, else OPENCV",
    };
    let [centre, corners] = errors_at_centre_and_corners(&model.colmap)?;
    (corners > (MAX_GROWTH * centre).max(MIN_ERROR)).then(|| {
        format!(
            "errors grow from {centre:.2} px in the middle of the photographs to {corners:.2} px at their corners, as with \
             a lens that {} does not describe; {try_instead}",
            camera_model.name()
        )
    })
}

fn write(
    options: &PhotoOptions,
    model: &CheckedModel,
    frames: &[FrameImages],
    record: &Value,
    place: Option<&Georeference>,
) -> Result<(), Failure> {
    let folder = records::claim_model(&options.output, options.overwrite)?;
    let path = folder.join(records::MODEL_RECORD);
    let is_ours = ownership::is_gausset_owned(&folder, records::MODEL_PURPOSE);
    if is_ours && path.is_file() {
        // Remove the record first: while files of two models are mixed, no record must claim that the model is
        // complete.
        let failed = |source| WriteError::Io { path: path.clone(), action: "remove", source };
        Disk.remove(&path).map_err(failed)?;
    }
    model.write(&folder, frames)?;
    records::write_georeference(&folder, place)?;
    if is_ours {
        records::write_record(&path, record)?;
    }
    Ok(())
}

/// The photographs without a pose.
fn left_out(model: &CheckedModel, frames: &[FrameImages], reason: impl Fn(usize) -> String) -> Vec<LeftOut> {
    let missing = (0..frames.len()).filter(|index| !model.image_of_frame.contains_key(index));
    missing.map(|index| LeftOut { name: frames[index].name.clone(), reason: reason(index) }).collect()
}

/// Summarises a model of these photographs.
pub(super) fn summarise(options: &PhotoOptions, model: &CheckedModel, pictures: &ImageSet) -> PhotoAlignment {
    let frames = &pictures.frames;
    let left_out = left_out(model, frames, |index| reason(index, model, &[]));
    let folder = records::model_folder(&options.output);
    PhotoAlignment {
        schema: PhotoAlignment::SCHEMA,
        folder: options.output.clone(),
        photographs: frames.len(),
        frames: frames.len(),
        registered: model.image_of_frame.len(),
        points: model.colmap.points.len(),
        mean_reprojection_px: model.mean_reprojection_error(),
        unregistered: left_out.iter().map(|left_out| left_out.name.clone()).collect(),
        left_out: [left_out, pictures.unreadable.clone()].concat(),
        georeference: Georeference::read(&folder).ok().flatten(),
        model: folder,
    }
}

#[cfg(test)]
mod tests {
    use gausset_io::image::encode::png_rgb8;

    use super::*;
    use crate::photos::{CaptureOptions, images};

    #[test]
    fn other_photographs_or_masks_of_the_same_names_are_another_model() {
        let place = tempfile::tempdir().unwrap();
        let picture = |side: u32| png_rgb8(&gausset_core::RgbImage8::new(side, side)).unwrap();
        let [photos, masks] = ["photos", "masks"].map(|name| place.path().join(name));
        for folder in [&photos, &masks] {
            std::fs::create_dir(folder).unwrap();
        }
        for name in ["a.png", "b.png", "c.png"] {
            std::fs::write(photos.join(name), picture(8)).unwrap();
        }
        // Named as Brush and Metashape name them.
        std::fs::write(masks.join("a.png"), picture(8)).unwrap();
        std::fs::write(masks.join("b_mask.png"), picture(8)).unwrap();
        let mut options = PhotoOptions::new(&photos, place.path().join("out"));
        let record = |options: &PhotoOptions| {
            let (stop, mut ignore) = (Default::default(), |_| {});
            let mut host = Host::new(&stop, &mut ignore);
            let source = images::source(options, &host).unwrap();
            let pictures = images::prepare_images(options, source, &mut host).unwrap();
            assert_eq!(pictures.masks().len(), 2);
            record(options, &pictures, &pictures.frames)
        };
        // The masks that training finds without an option are those of the aligner, too.
        let found = record(&options);
        assert_eq!(found["mask-bytes"], 2 * picture(8).len());
        // A model of smaller images is another one, one of larger images is kept; older records have no size.
        let mut older = found.clone();
        older.as_object_mut().unwrap().remove("max-image-size");
        options.max_image_size = 1600;
        let fast = record(&options);
        assert_eq!(differences(&fast, found.clone()), ["max-image-size = 1600 (given: 2400)"]);
        assert_eq!([&found, &older].map(|known| differences(known, fast.clone()).len()), [0, 0]);
        options.max_image_size = MAX_IMAGE_SIZE;
        assert_eq!(differences(&older, record(&options)), [""; 0]);
        options.lens.invert_masks = true;
        assert_eq!(differences(&found, record(&options)), ["invert-masks = nothing (given: true)"]);
        options.lens = CaptureOptions { masks: Some(masks.clone()), ..CaptureOptions::default() };
        let record = || record(&options);
        let known = record();
        let mut older = known.clone();
        older.as_object_mut().unwrap().retain(|key, _| !key.ends_with("-bytes"));
        assert_eq!(differences(&known, record()), [""; 0]);
        std::fs::write(photos.join("b.png"), picture(9)).unwrap();
        let found = differences(&known, record());
        assert!(found.len() == 1 && found[0].starts_with("photograph-bytes = "), "{found:?}");
        std::fs::write(masks.join("b_mask.png"), picture(9)).unwrap();
        assert_eq!(differences(&known, record()).len(), 2);
        assert_eq!(differences(&older, record()), [""; 0]);
    }

    #[test]
    fn a_record_names_the_aligner_that_made_the_model() {
        let aligner = |record: Value, asked| options_of_record(record, asked)["aligner"].clone();
        let by_auto = json!({"aligner": null, RESULT: {"aligner": "own"}});
        assert_eq!(aligner(by_auto.clone(), Aligner::Auto), Value::Null);
        assert_eq!(aligner(by_auto.clone(), Aligner::Own), "own");
        assert_eq!(aligner(by_auto, Aligner::Colmap), "own");
        let older = [json!({}), json!({"aligner": null, RESULT: {}}), json!({"aligner": "own"})];
        assert_eq!(older.map(|record| aligner(record, Aligner::Own)), ["colmap", "colmap", "own"]);
        // A damaged record is other options, not a panic.
        for damaged in [json!([]), json!(3), json!("own"), json!(null)] {
            assert_eq!(options_of_record(damaged.clone(), Aligner::Own), damaged);
        }
        assert!(options_of_record(json!({RESULT: 3}), Aligner::Own)[RESULT].is_null());
    }
}
