//! Processes one frame, from its images to the files of its views.

use std::path::Path;
use std::sync::Arc;

use gausset_jpeg::Decoder;
use gausset_jpeg::plane::Frame;
use gausset_prof::StageTimer;

use super::error::FrameError;
use super::files::{ViewFiles, WrittenFrame};
use super::masks;
use super::plans::PlanKey;
use super::record::ManifestLine;
use super::settings::SplitSettings;
use super::shared::SharedState;
use super::stages::WorkerStage;
use crate::cut::cutter::{CutError, CutJob, CutTimes, CutView, Cutter, Plan};
use crate::cut::equalise::{Equalise, grade_lenses};
use crate::cut::grade::Grade;
use crate::source::decoded::size_mismatch;
use crate::source::frames::SourceFrame;
use crate::source::load::{self, LoadedImage};
use crate::source::metadata::Metadata;
use crate::source::vignetting;
use crate::sphere::geometry::View;
use crate::sphere::projection::Projection;

/// Buffers of a worker.
#[derive(Default)]
pub(super) struct WorkerBuffers {
    file: Vec<u8>,
    decoder: Decoder,
    pub(super) frame: Frame,
    parts: Vec<Frame>,
    /// A cube before folding.
    pub(super) unfolded: Frame,
    mask: Frame,
    cutter: Cutter,
}

/// Panics on a frame of this name if the environment asks for it, so that a test can check the error message.
#[cfg(debug_assertions)]
fn panic_if_requested(frame: &str) {
    let is_due = std::env::var_os("GAUSSET_REHEARSE_BREAKDOWN").is_some_and(|name| name == frame);
    assert!(!is_due, "this is a rehearsal");
}

#[cfg(not(debug_assertions))]
const fn panic_if_requested(_frame: &str) {}

/// Processes one frame up to its written, not yet renamed files. Returns `None` if cancelled.
pub(super) fn process_frame(
    shared: &SharedState<'_>,
    index: usize,
    buffers: &mut WorkerBuffers,
    (ledger, times): (&mut StageTimer<WorkerStage>, &mut CutTimes),
) -> Result<Option<WrittenFrame>, FrameError> {
    let source = &shared.frames[index];
    let settings = shared.settings;
    panic_if_requested(&source.stem);
    let mut tilt = [0.0, 0.0];
    let (plan, metadata) = if let Some(film) = &settings.video {
        ledger.switch_to(WorkerStage::Tables);
        (shared.plans.get_or_build(PlanKey::for_video(film), &shared.budget), Metadata::default())
    } else if let [file] = source.files.as_slice() {
        ledger.switch_to(WorkerStage::Read);
        let mut opened = load::load(file, &settings.limits, std::mem::take(&mut buffers.file))?;
        ledger.switch_to(WorkerStage::Decode);
        let projection;
        (projection, tilt) = projection_and_tilt(settings, &opened, file)?;
        let plan = decode_image(shared, (projection, tilt), &mut opened, buffers, ledger)?;
        buffers.file = std::mem::take(&mut opened.data);
        (plan, opened.metadata)
    } else {
        decode_stacked(shared, source, buffers, ledger)?
    };
    ledger.switch_to(WorkerStage::Mask);
    let WorkerBuffers { frame, unfolded, mask, .. } = buffers;
    let stored = if matches!(settings.projection(), Some(Projection::Cube(_))) { unfolded } else { frame };
    let found = masks::load(shared, source, stored, mask)?;
    ledger.switch_to(WorkerStage::Colour);
    let gains = apply_colours(shared, index, &mut buffers.frame);
    ledger.switch_to(WorkerStage::Cut);
    let WorkerBuffers { cutter, frame, mask, .. } = buffers;
    let mask = (!matches!(found, masks::MaskSource::Absent)).then(|| {
        mask.planes[0].pad(plan.wraps);
        &mask.planes[0]
    });
    // The file stores the orientation of the views in the layout, not in a levelled panorama.
    let segments = |view: &View| {
        let own = settings.views.iter().find(|v| v.name == view.name && settings.lenses.is_none());
        let named = own.unwrap_or(view);
        metadata.view_segments(named, &source.stem)
    };
    let mut files = ViewFiles::new(settings, shared.folder, source, index);
    let mut receive = |view: CutView<'_>| ledger.run_in_stage(WorkerStage::Write, || files.write(&view));
    let (level, cancel) = (shared.work.level, shared.stop);
    let job = CutJob { level, plan: &plan, frame, mask, cancel, segments: &segments };
    match cutter.cut(job, times, &mut receive) {
        Ok(()) => {}
        Err(CutError::Cancelled) => return Ok(None),
        Err(CutError::Receiver(error)) => return Err(FrameError::Fatal(error)),
        Err(CutError::Encoding(what)) => {
            return Err(FrameError::Frame(format!("{}: view: cannot be encoded: {what}", source.stem)));
        }
    }
    let gps = metadata.position();
    let name = source.files.first().and_then(|f| f.file_name()).map(|n| n.to_string_lossy().into_owned());
    let line = ManifestLine {
        frame: source.stem.clone(),
        source: name.unwrap_or_default(),
        bytes: source.bytes,
        modified: source.modified,
        settings: shared.hash.to_owned(),
        views: files.view_bytes,
        gps,
        tilt: settings.level_gpano.then_some(tilt),
        mask: match found {
            masks::MaskSource::File(file) => Some(file),
            masks::MaskSource::Absent | masks::MaskSource::Command => None,
        },
        masks: files.mask_bytes,
        colours: Some(settings.colouring.text()).filter(|text| !text.is_empty()),
        gains,
    };
    Ok(Some(WrittenFrame { index, line, files: files.unnamed, absent_masks: files.absent_masks }))
}

/// Divides the fall-off of lenses out of a frame and applies the colour settings. Returns the gains of its lenses, or its
/// own gain.
fn apply_colours(shared: &SharedState<'_>, index: usize, frame: &mut Frame) -> Option<Vec<[f64; 3]>> {
    let settings = shared.settings;
    if let Some(projection) = settings.projection() {
        vignetting::correct(&projection, frame);
    }
    let gains = match settings.equalise {
        Equalise::Off => None,
        Equalise::Lenses => {
            let gains = settings.projection().and_then(|p| grade_lenses(&p, &settings.colouring, frame));
            gains.map(|gains| gains.to_vec())
        }
        Equalise::Frames => settings.frame_gains.get(index).map(|&gains| {
            Grade::for_frame(&settings.colouring, gains).apply(frame);
            vec![gains]
        }),
    };
    if let (None, Some(grade)) = (&gains, &shared.grade) {
        grade.apply(frame);
    }
    gains
}

/// The projection of an image, and the pitch and roll by which it is levelled.
fn projection_and_tilt(
    settings: &SplitSettings,
    opened: &LoadedImage,
    file: &Path,
) -> Result<(Projection, [f64; 2]), FrameError> {
    let frame_error = |what: String| FrameError::Frame(format!("{}: {what}", file.display()));
    let [width, height] = opened.upright_size();
    let projection = match &settings.projection {
        Some(projection) => {
            let [w, h] = projection.source_image_size();
            if [width, height] != [w, h] {
                return Err(frame_error(match projection {
                    Projection::Fisheye(_) => {
                        format!("picture: {width}x{height} px (expected {w}x{h}, as the lens file says)")
                    }
                    _ => size_mismatch([width, height], [w, h]),
                }));
            }
            projection.clone()
        }
        None => Projection::Equirect({
            let equirect = opened.equirect(settings.is_stereo);
            equirect.map_err(|e| frame_error(e.to_string()))?
        }),
    };
    let tilt = match opened.metadata.gpano {
        Some(gpano) if settings.level_gpano => [gpano.pitch, gpano.roll],
        _ => [0.0, 0.0],
    };
    Ok((projection, tilt))
}

/// Decodes an image into the frame of the buffers. Returns the plan for its shape.
fn decode_image(
    shared: &SharedState<'_>,
    (projection, tilt): (Projection, [f64; 2]),
    opened: &mut LoadedImage,
    buffers: &mut WorkerBuffers,
    ledger: &mut StageTimer<WorkerStage>,
) -> Result<Arc<Plan>, FrameError> {
    let is_stereo = shared.settings.is_stereo;
    let mut plan_of = |shape, projection| {
        let key = PlanKey { projection, shape, tilt };
        ledger.run_in_stage(WorkerStage::Tables, || shared.plans.get_or_build(key, &shared.budget))
    };
    if let Projection::Cube(cube) = &projection {
        let WorkerBuffers { decoder, unfolded, frame, .. } = buffers;
        opened.decode(shared.work.level, decoder, &[[0, i32::MAX / 2]; 3], unfolded)?;
        cube.fold(unfolded, frame);
        return Ok(plan_of(frame.shape(), projection));
    }
    if let Some(mut shape) = opened.shape() {
        if is_stereo {
            shape.sizes.iter_mut().for_each(|size| size[1] /= 2);
        }
        let plan = plan_of(shape, projection);
        let rows = shared.rows_to_decode(&plan);
        opened.decode(shared.work.level, &mut buffers.decoder, &rows, &mut buffers.frame)?;
        if is_stereo {
            buffers.frame.crop_to_upper_half();
        }
        return Ok(plan);
    }
    opened.decode(shared.work.level, &mut buffers.decoder, &[], &mut buffers.frame)?;
    if is_stereo {
        buffers.frame.crop_to_upper_half();
    }
    Ok(plan_of(buffers.frame.shape(), projection))
}

/// Decodes the images of one frame and combines them.
fn decode_stacked(
    shared: &SharedState<'_>,
    source: &SourceFrame,
    buffers: &mut WorkerBuffers,
    ledger: &mut StageTimer<WorkerStage>,
) -> Result<(Arc<Plan>, Metadata), FrameError> {
    let settings = shared.settings;
    let Some(projection) = &settings.projection else {
        return Err(FrameError::Frame(format!(
            "{}: frame: has several images, but no projection is given",
            source.stem
        )));
    };
    let mut metadata = Metadata::default();
    let expected = projection.part_size(source.files.len());
    buffers.parts.resize_with(source.files.len(), Frame::default);
    for (file, part) in source.files.iter().zip(&mut buffers.parts) {
        ledger.switch_to(WorkerStage::Read);
        let mut opened = load::load(file, &settings.limits, std::mem::take(&mut buffers.file))?;
        ledger.switch_to(WorkerStage::Decode);
        if opened.size != expected {
            let ([w, h], [ew, eh]) = (opened.size, expected);
            return Err(FrameError::Frame(format!(
                "{}: picture: {w}x{h} px (expected {ew}x{eh})",
                file.display()
            )));
        }
        let all = [[0, i32::MAX / 2]; 3];
        opened.decode(shared.work.level, &mut buffers.decoder, &all, part)?;
        buffers.file = std::mem::take(&mut opened.data);
        metadata = opened.metadata;
    }
    let WorkerBuffers { parts, unfolded, frame, .. } = buffers;
    let stacked = if matches!(projection, Projection::Cube(_)) { &mut *unfolded } else { &mut *frame };
    projection.combine(parts, stacked).ok_or_else(|| {
        FrameError::Frame(format!("{}: frame: its images differ in size or channels", source.stem))
    })?;
    if let Projection::Cube(cube) = projection {
        cube.fold(unfolded, frame);
    }
    let key = PlanKey { projection: projection.clone(), shape: buffers.frame.shape(), tilt: [0.0, 0.0] };
    Ok((
        ledger.run_in_stage(WorkerStage::Tables, || shared.plans.get_or_build(key, &shared.budget)),
        metadata,
    ))
}
