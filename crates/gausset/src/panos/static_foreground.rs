//! Masks that need no segmentation model: the static foreground (operator, tripod), its shadow, and the region around
//! the nadir.
//!
//! Frames are read at low resolution, one after the other. Of many frames, evenly spaced ones are used.

use std::sync::{Arc, Mutex, PoisonError};

use gausset_compute::{Pool, SimdLevel, dispatch_level};
use gausset_core::RgbImage8;
use gausset_jpeg::colour::rgb_from_ycbcr;
use gausset_pano::convert::{self, ConvertError, OutputContext, fingerprint};
use gausset_pano::cutter::Format;
use gausset_pano::plane::{ColourModel, Frame, Plane};
use gausset_pano::projection::Projection;
use gausset_pano::selection::SmallFrames;
use gausset_pano::sphere_mask::SphereMask;
use gausset_pano::sphere_mask::static_foreground::{
    ForegroundAxes, ForegroundDetector, MAX_FRAMES, StaticForeground,
};
use gausset_pano::sphere_video::SphereVideo;

use super::source::{Footage, measured_projection};
use crate::{CountedItem, Event, Failure, Host};

/// Width of the panoramas that are analysed, in pixels.
const WIDTH: usize = 960;

/// Largest dilation of a mask, degrees.
pub(crate) const MAX_DILATION: f64 = 45.0;

/// What to mask in every frame.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StillChoice {
    /// Mask what does not move relative to the camera: operator, tripod.
    pub still_patch: bool,
    /// Mask its shadow as well.
    pub shadow: bool,
    /// Mask everything within this angle of the nadir, in degrees.
    pub crop_bottom: f64,
    /// Dilation of the mask in degrees.
    pub dilate: f64,
}

impl StillChoice {
    /// Refuses invalid options.
    ///
    /// # Errors
    /// Angles out of range, or a shadow without static foreground.
    pub fn check(&self) -> Result<(), Failure> {
        if !(0.0..=90.0).contains(&self.crop_bottom) {
            let found = self.crop_bottom;
            return Err(Failure::usage(format!("⟨crop-bottom⟩: expected 0 to 90 degrees, found {found}")));
        }
        if !(0.0..=MAX_DILATION).contains(&self.dilate) {
            let found = self.dilate;
            return Err(Failure::usage(format!(
                "⟨dilate⟩: expected 0 to {MAX_DILATION} degrees, found {found}"
            )));
        }
        if self.shadow && !self.still_patch {
            return Err(Failure::usage("⟨shadow⟩: needs ⟨still-patch⟩"));
        }
        Ok(())
    }
}

/// Memory of the analysis in addition to the current frame, in bytes: nadir discs, as read and rotated, and their
/// means.
#[cfg(feature = "masks")]
pub(crate) const ANALYSIS_BYTES: u64 = 80 << 20;

/// Static masks of all frames of a source.
#[derive(Debug)]
pub struct StaticMasks {
    choice: StillChoice,
    /// Yaw of each frame in the axes of the patch, in degrees.
    headings: Vec<f64>,
    patch: Option<StaticForeground>,
    /// Cache of the mask shared by all frames of one size.
    shared: Mutex<Option<Arc<SphereMask>>>,
    /// Why no static foreground was found, if it was requested.
    pub not_found: Option<String>,
}

/// Indices of the analysed frames.
type AnalysedFrames = Vec<usize>;

impl StaticMasks {
    /// Detects the static foreground. `headings`: walking direction in the axes of each panorama, degrees of yaw; empty
    /// or `None` if unknown.
    ///
    /// # Errors
    /// Unusable options or frames; the job was asked to stop.
    pub fn detect(
        source: &Footage,
        choice: StillChoice,
        headings: &[Option<f64>],
        host: &mut Host<'_>,
    ) -> Result<Self, Failure> {
        choice.check()?;
        let mut found =
            Self { choice, headings: Vec::new(), patch: None, shared: Mutex::new(None), not_found: None };
        if !choice.still_patch {
            return Ok(found);
        }
        let mut finder = ForegroundDetector::new();
        let looked = match &source.film {
            Some(film) => analyse_video(film, headings, &mut finder, host)?,
            None => analyse_images(source, headings, &mut finder, host)?,
        };
        match finder.detect() {
            Ok(patch) => {
                if patch.axes == ForegroundAxes::Heading {
                    found.headings = patch_headings(headings, &patch, &looked, source.frames.len());
                }
                found.patch = Some(patch);
            }
            Err(why) => found.not_found = Some(why.to_string()),
        }
        Ok(found)
    }

    /// Whether all frames share one mask.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.patch.as_ref().is_none_or(|patch| patch.axes == ForegroundAxes::Panorama)
    }

    /// The mask of a frame, by index in the source.
    #[must_use]
    pub fn mask(&self, frame: usize, width: usize, height: usize) -> Arc<SphereMask> {
        if !self.is_shared() {
            return Arc::new(self.create_mask(frame, width, height));
        }
        let mut all = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        match &*all {
            Some(mask) if [mask.width, mask.height] == [width, height] => Arc::clone(mask),
            _ => Arc::clone(all.insert(Arc::new(self.create_mask(frame, width, height)))),
        }
    }

    fn create_mask(&self, frame: usize, width: usize, height: usize) -> SphereMask {
        let mut mask = SphereMask::new(width, height);
        self.draw(frame, &mut mask);
        if self.choice.dilate > 0.0 {
            mask.dilate(self.choice.dilate);
        }
        if self.choice.crop_bottom > 0.0 {
            mask.crop_bottom(self.choice.crop_bottom);
        }
        mask
    }

    /// Draws the static foreground and its shadow.
    fn draw(&self, frame: usize, mask: &mut SphereMask) {
        let Some(patch) = &self.patch else { return };
        let heading = self.headings.get(frame).copied().unwrap_or(0.0);
        let (width, height) = (mask.width, mask.height);
        mask.union_with(&patch.mask(width, height, heading));
        if self.choice.shadow {
            mask.union_with(&patch.shadow(width, height, heading));
        }
    }

    /// Fraction of the sphere covered by the static foreground, and its shadow if requested. Independent of the
    /// heading.
    #[must_use]
    pub fn covered_fraction(&self) -> f64 {
        let mut mask = SphereMask::new(720, 360);
        self.draw(0, &mut mask);
        mask.removed_fraction()
    }

    /// Fingerprint of the detected foreground. It is part of the mask settings, because it depends on all frames: an
    /// additional frame may change it.
    #[must_use]
    pub fn settings_text(&self) -> String {
        let mut mask = SphereMask::new(720, 360);
        self.draw(0, &mut mask);
        let levels: String = mask.data.iter().map(|keep| char::from(b'0' + keep / 26)).collect();
        let headings: Vec<String> = self.headings.iter().map(|heading| format!("{heading:.2}")).collect();
        fingerprint(&format!("{levels} {}", headings.join(" ")))
    }
}

/// Headings of all frames in the axes of the patch: the walking direction of the frame or of the nearest frame with a
/// known one, plus the offset of the patch in the nearest analysed frame.
fn patch_headings(
    headings: &[Option<f64>],
    patch: &StaticForeground,
    looked: &AnalysedFrames,
    frames: usize,
) -> Vec<f64> {
    let known: Vec<(usize, f64)> =
        headings.iter().enumerate().filter_map(|(frame, heading)| Some((frame, (*heading)?))).collect();
    let heading = |frame: usize| {
        let nearest = known.iter().min_by_key(|(other, _)| other.abs_diff(frame));
        nearest.map_or(0.0, |(_, heading)| *heading)
    };
    let offset = |frame: usize| {
        let nearest = (0..looked.len()).min_by_key(|place| looked[*place].abs_diff(frame));
        nearest.map_or(0.0, |place| patch.offset(place))
    };
    (0..frames).map(|frame| heading(frame) + offset(frame)).collect()
}

fn analyse_images(
    source: &Footage,
    headings: &[Option<f64>],
    finder: &mut ForegroundDetector,
    host: &mut Host<'_>,
) -> Result<AnalysedFrames, Failure> {
    let level = dispatch_level(SimdLevel::Auto).ok_or_else(|| Failure::new("device", "no SIMD level"))?;
    let pool = Pool::with_all_cores();
    let count = source.frames.len().min(MAX_FRAMES);
    let mut looked = Vec::with_capacity(count);
    host.report(Event::Begun { item: CountedItem::Frames, done: 0, total: count as u64 });
    for k in 0..count {
        if host.is_stopping() {
            return Err(Failure::stopped());
        }
        let index = k * source.frames.len() / count;
        let frame = &source.frames[index];
        let read = convert::decode_frame(
            &frame.files,
            source.projection.as_ref(),
            source.is_stereo,
            &source.limits,
            level,
        );
        let moment = match read {
            Ok(moment) => moment,
            // Also reported when the frame is split.
            Err(error) => {
                host.warn("frames", format!("{error}; ignored"));
                continue;
            }
        };
        let is_whole = matches!(&moment.projection, Projection::Equirect(e) if e.is_whole());
        let panorama = if is_whole {
            moment.frame
        } else {
            let writing =
                OutputContext { format: Format::Png, level, pool: &pool, stop: host.stop(), segments: &[] };
            convert::to_panorama(&moment, WIDTH as u32, writing).map_err(|e| match e {
                ConvertError::Stopped => Failure::stopped(),
                other => Failure::new("frames", other),
            })?
        };
        finder.add_frame(&reduced_panorama(&panorama), headings.get(index).copied().flatten());
        looked.push(index);
        host.report(Event::Done { done: k as u64 + 1, views_per_s: None });
    }
    host.report(Event::Ended);
    Ok(looked)
}

fn analyse_video(
    film: &SphereVideo,
    headings: &[Option<f64>],
    finder: &mut ForegroundDetector,
    host: &mut Host<'_>,
) -> Result<AnalysedFrames, Failure> {
    let all = film.video.selected().map(<[usize]>::to_vec);
    let film = film.clone().at_most(MAX_FRAMES);
    let size = [WIDTH as u32, WIDTH as u32 / 2];
    let mut reader = SmallFrames::start(&film.video, &measured_projection(&film), size, false, host.stop())?;
    let (mut data, mut frame, mut looked) = (Vec::new(), 0, Vec::new());
    let picks = film.video.selected().map(<[usize]>::to_vec);
    let place = |picks: &Option<Vec<usize>>, frame: usize| match picks {
        Some(picks) => picks.iter().position(|pick| *pick == frame),
        None => Some(frame),
    };
    while reader.read(&film.video, &mut data)? {
        if host.is_stopping() {
            return Err(Failure::stopped());
        }
        if place(&picks, frame).is_some()
            && let Some(index) = place(&all, frame)
        {
            let picture = RgbImage8 { width: size[0], height: size[1], data: data.clone() };
            finder.add_frame(&picture, headings.get(index).copied().flatten());
            looked.push(index);
        }
        frame += 1;
    }
    Ok(looked)
}

/// Reduces a panorama to a width of [`WIDTH`]; each pixel is the mean of the pixels it covers.
fn reduced_panorama(frame: &Frame) -> RgbImage8 {
    let (width, height) = (WIDTH, WIDTH / 2);
    let planes: Vec<Vec<u8>> = frame.planes.iter().map(|plane| reduce_plane(plane, width, height)).collect();
    let rgb = |at: usize| match (frame.colour, planes.as_slice()) {
        (ColourModel::YCbCr, [y, cb, cr]) => rgb_from_ycbcr([y[at], cb[at], cr[at]]),
        (_, [grey, ..]) => [grey[at]; 3],
        (_, []) => [0; 3],
    };
    let data = (0..width * height).flat_map(rgb).collect();
    RgbImage8 { width: width as u32, height: height as u32, data }
}

fn reduce_plane(plane: &Plane, width: usize, height: usize) -> Vec<u8> {
    let span = |at: usize, of: usize, side: usize| {
        let first = (at * side / of).min(side - 1);
        first..((at + 1) * side / of).clamp(first + 1, side)
    };
    let mut out = Vec::with_capacity(width * height);
    for y in 0..height {
        let rows = span(y, height, plane.height);
        for x in 0..width {
            let columns = span(x, width, plane.width);
            let count = (rows.len() * columns.len()) as u32;
            let sum: u32 = rows
                .clone()
                .map(|row| plane.row(row as i32)[columns.clone()].iter().map(|v| u32::from(*v)).sum::<u32>())
                .sum();
            out.push(((sum + count / 2) / count) as u8);
        }
    }
    out
}
