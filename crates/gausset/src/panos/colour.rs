//! Colour options: adjustments, a LUT and exposure equalisation.

use gausset_compute::{Pool, SimdLevel, dispatch_level};
use gausset_pano::convert::{self, OutputContext};
use gausset_pano::cutter::Format;
use gausset_pano::equalise::{self, Equalise};
use gausset_pano::frame_gains;
use gausset_pano::grade::{Colouring, Grade};
use gausset_pano::lut::Lut;
use gausset_pano::plane::Frame;
use gausset_pano::projection::Projection;

use super::frame_reader::{ReadFailure, SourceFrames};
use super::source::Footage;
use crate::footage_options::ColourOptions;
use crate::{CountedItem, Event, Failure, Host, Stage, device};

impl ColourOptions {
    /// The adjustments with the LUT loaded.
    ///
    /// # Errors
    /// The LUT cannot be used.
    pub fn resolve(&self) -> Result<Colouring, Failure> {
        let lut = self.lut.as_deref().map(Lut::read).transpose().map_err(|e| Failure::new("lut", e))?;
        Ok(Colouring { look: self.look, lut })
    }

    /// Resolves what to equalise for a source.
    ///
    /// # Errors
    /// Lenses were requested for a source without two lenses.
    pub fn equalise(&self, source: &Footage) -> Result<Equalise, Failure> {
        let film = source.film.as_ref().map(gausset_pano::sphere_video::SphereVideo::projection);
        let projection = film.as_ref().or(source.projection.as_ref());
        let has_lenses = projection.is_some_and(|p| equalise::lens_parts(p).is_some());
        match self.equalise {
            Some(Equalise::Lenses) if !has_lenses => Err(Failure::usage(
                "⟨equalise = lenses⟩: applies to frames of two lenses only (found none); leave it out",
            )),
            Some(asked) => Ok(asked),
            None if has_lenses => Ok(Equalise::Lenses),
            None => Ok(Equalise::Off),
        }
    }
}

/// Applies colours to one frame of a source, as a split does.
pub(super) fn apply(
    colouring: &Colouring,
    equalise: Equalise,
    projection: &Projection,
    frame: &mut Frame,
    gains: Option<[f64; 3]>,
) {
    if equalise == Equalise::Lenses && equalise::grade_lenses(projection, colouring, frame).is_some() {
        return;
    }
    if !colouring.is_neutral() || gains.is_some() {
        Grade::new(colouring.clone(), gains.unwrap_or([1.0; 3])).apply(frame);
    }
}

/// Gains of red, green and blue that equalise the selected frames of a source; computed once. Unreadable frames get no
/// gains and are reported later, when they are split.
///
/// # Errors
/// The job was asked to stop.
pub(super) fn frame_gains(
    source: &Footage,
    simd: SimdLevel,
    threads: u32,
    host: &mut Host<'_>,
) -> Result<Vec<[f64; 3]>, Failure> {
    if let Some(known) = source.frame_gains.get() {
        return Ok(known.clone());
    }
    let level =
        dispatch_level(simd).ok_or_else(|| Failure::new("device", "⟨simd⟩: not supported by this CPU"))?;
    let pool = Pool::new(device::thread_count(threads));
    let stop = host.stop();
    let mut moments = SourceFrames::new(source, level, stop);
    let mut walk = frame_gains::FrameEqualiser::default();
    let count = source.frames.len();
    host.stage(Stage::CompareLight);
    host.report(Event::Begun { item: CountedItem::Frames, done: 0, total: count as u64 });
    for index in 0..count {
        let writing = OutputContext { format: Format::Png, level, pool: &pool, stop, segments: &[] };
        let panorama = match moments.read(index) {
            Ok(moment) => convert::to_panorama(&moment, frame_gains::COMPARED_WIDTH, writing).ok(),
            Err(ReadFailure::Frame(_)) => None,
            Err(ReadFailure::End | ReadFailure::Stopped) => break,
            Err(ReadFailure::Broken(error)) => return Err(error.into()),
            Err(ReadFailure::Fatal(failure)) => return Err(failure),
        };
        if host.is_stopping() {
            break;
        }
        walk.add(
            panorama.map(|panorama| frame_gains::FrameFeatures::from_panorama(&panorama)).unwrap_or_default(),
            &pool,
        );
        host.report(Event::Done { done: index as u64 + 1, views_per_s: None });
    }
    host.report(Event::Ended);
    if host.is_stopping() {
        return Err(Failure::stopped());
    }
    Ok(source.frame_gains.get_or_init(|| walk.gains()).clone())
}
