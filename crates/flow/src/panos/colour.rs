//! Colour options: adjustments, a LUT and exposure equalisation.

use std::path::PathBuf;

use gausset_compute::{Pool, VectorLevel, level};
use gausset_pano::convert::{self, Writing};
use gausset_pano::cutter::Format;
use gausset_pano::equalise::{self, Equalise};
use gausset_pano::frame_gains;
use gausset_pano::grade::{Colouring, Grade};
use gausset_pano::look::Look;
use gausset_pano::lut::Lut;
use gausset_pano::plane::Frame;
use gausset_pano::projection::Projection;

use super::moments::{Moments, Trouble};
use super::source::Source;
use crate::{Event, Failure, Host, Part, Stage, device};

/// Colour options.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ColourChoice {
    /// Adjustments such as exposure and contrast.
    pub look: Look,
    /// LUT in a `.cube` file.
    pub lut: Option<PathBuf>,
    /// What to equalise; `None` = the lenses, if there are two.
    pub equalise: Option<Equalise>,
}

impl ColourChoice {
    /// The adjustments with the LUT loaded.
    ///
    /// # Errors
    /// The LUT cannot be used.
    pub fn colouring(&self) -> Result<Colouring, Failure> {
        let lut = self.lut.as_deref().map(Lut::read).transpose().map_err(|e| Failure::new("lut", e))?;
        Ok(Colouring { look: self.look, lut })
    }

    /// Resolves what to equalise for a source.
    ///
    /// # Errors
    /// Lenses were requested for a source without two lenses.
    pub fn equalise(&self, source: &Source) -> Result<Equalise, Failure> {
        let film = source.film.as_ref().map(gausset_pano::film::Film::projection);
        let projection = film.as_ref().or(source.projection.as_ref());
        let has_lenses = projection.is_some_and(|p| equalise::parts(p).is_some());
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
    source: &Source,
    simd: VectorLevel,
    threads: u32,
    host: &mut Host<'_>,
) -> Result<Vec<[f64; 3]>, Failure> {
    if let Some(known) = source.frame_gains.get() {
        return Ok(known.clone());
    }
    let level = level(simd).ok_or_else(|| Failure::new("device", "⟨simd⟩: not supported by this CPU"))?;
    let pool = Pool::new(device::threads(threads));
    let stop = host.stop();
    let mut moments = Moments::new(source, level, stop);
    let mut walk = frame_gains::Walk::default();
    let count = source.frames.len();
    host.stage(Stage::CompareLight);
    host.report(Event::Begun { part: Part::Frames, done: 0, total: count as u64 });
    for index in 0..count {
        let writing = Writing { format: Format::Png, level, pool: &pool, stop, segments: &[] };
        let panorama = match moments.read(index) {
            Ok(moment) => convert::panorama(&moment, frame_gains::WIDTH, writing).ok(),
            Err(Trouble::Frame(_)) => None,
            Err(Trouble::End(_) | Trouble::Stopped) => break,
            Err(Trouble::Fatal(failure)) => return Err(failure),
        };
        if host.is_stopping() {
            break;
        }
        walk.add(panorama.map(|panorama| frame_gains::Shown::of(&panorama)).unwrap_or_default(), &pool);
        host.report(Event::Done { done: index as u64 + 1, views_per_s: None });
    }
    host.report(Event::Ended);
    if host.is_stopping() {
        return Err(Failure::stopped());
    }
    Ok(source.frame_gains.get_or_init(|| walk.gains()).clone())
}
