//! Calibrates two fisheye lenses from frames and writes a lens file.

use std::io::Write;

use gausset_compute::Pool;
use gausset_io::atomic::{Disk, Overwrite, WriteOptions, check_output, write_atomic_with};
use gausset_io::input_files::InputFiles;
use gausset_pano::calibrate::{
    self, Calibration, CalibrationError, InitialCalibration, LumaImage, circle_cells,
};
use gausset_pano::equalise::{lens_gains, rounded_gain};
use gausset_pano::fisheye::DualFisheye;
use gausset_pano::projection::Projection;
use gausset_pano::vignetting_fit::VignettingEstimator;
use serde::Serialize;

use super::calibrate_options::{CalibrateOptions, CircleRadius};
use super::calibration_frames::CalibrationFrames;
use crate::{CountedItem, Event, Failure, Host, device};

/// A detected image circle; the JSON form is a stable contract.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct DetectedCircle {
    /// Centre in pixels.
    pub centre: [f64; 2],
    /// Radius in pixels.
    pub radius: f64,
    /// Standard deviation of the centre in pixels.
    pub centre_doubt: f64,
    /// Standard deviation of the radius in pixels.
    pub radius_doubt: f64,
}

/// Results that need frames with poses; the JSON form is a stable contract.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct PoseResults {
    /// Number of frames with a pose.
    pub frames: usize,
    /// Number of corners tracked between them; 0 if all frames were taken at one position.
    pub corners: usize,
    /// Root mean square change of the given rotations in degrees.
    pub moved_degrees: f64,
    /// Root mean square change of the given positions, relative to the usual distance between neighbours.
    pub moved: f64,
    /// Position of the second lens relative to the first: x right, y down, z forward, in the unit of the poses.
    pub second: [f64; 3],
    /// Standard deviation of each of its coordinates.
    pub second_doubt: f64,
}

/// Result of a calibration or dry run; the JSON form is a stable contract.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct CalibrationReport {
    schema: u32,
    kind: &'static str,
    /// Number of frames used.
    pub frames: usize,
    /// Width and height of a frame in pixels.
    pub size: [u32; 2],
    /// The image circles; `null` if the radius was given and no circle was detected.
    pub circles: Vec<Option<DetectedCircle>>,
    /// Angle from the optical axis to the rim of each circle, in degrees.
    pub half_angles: Vec<f64>,
    /// Number of tracks seen by both lenses, and of tracks seen in several frames.
    pub tracks: [usize; 2],
    /// Number of frames with a known rotation relative to the previous frame.
    pub turned: usize,
    /// Results from the poses; `null` without poses, and if all frames were taken at one position.
    pub poses: Option<PoseResults>,
    /// Standard deviation of the residuals in pixels.
    pub spread: f64,
    /// Standard deviation of the circle centres in pixels.
    pub centre_doubt: f64,
    /// Standard deviation of the rotation between the lenses in degrees.
    pub rotation_doubt: f64,
    /// Largest standard deviation of the angle of a pixel, in degrees.
    pub angle_doubt: f64,
    /// Exposure difference of the second lens in stops (positive = darker), for red, green and blue.
    pub stops: Option<[f64; 3]>,
    /// Whether this is a dry run, which writes nothing.
    pub is_dry_run: bool,
}

/// Calibrates two lenses and writes the lens file; with `is_dry_run` only counts and measures the frames.
///
/// # Errors
/// Unusable frames, no circles, too few tracks seen by both lenses, or the output file exists.
pub fn calibrate(
    options: &CalibrateOptions,
    is_dry_run: bool,
    host: &mut Host<'_>,
) -> Result<CalibrationReport, Failure> {
    let overwrite = if options.force { Overwrite::Replace } else { Overwrite::Refuse };
    let read = [Some(&options.input), options.poses.as_ref(), options.lens.as_ref()];
    let _reading = InputFiles::new(read.into_iter().flatten());
    check_output(&Disk, &options.output, overwrite)?;
    let lenses = options.lens.as_deref().map(DualFisheye::read).transpose();
    let lenses = lenses.map_err(|e| Failure::new("lens", e))?;
    let frames = CalibrationFrames::open(options, host);
    let (frames, mut poses) = host.unless_stopped(frames)?;
    let mut done = CalibrationReport {
        schema: 1,
        kind: "calibrate",
        frames: frames.count(),
        size: frames.size()?,
        circles: Vec::new(),
        half_angles: Vec::new(),
        tracks: [0; 2],
        turned: 0,
        poses: None,
        spread: 0.0,
        centre_doubt: 0.0,
        rotation_doubt: 0.0,
        angle_doubt: 0.0,
        stops: None,
        is_dry_run,
    };
    let failed =
        |error: &dyn std::fmt::Display| Failure::new("lens", format!("{}: {error}", options.input.display()));
    let [width, height] = done.size;
    let cell = circle_cells(done.size).ok_or_else(|| failed(&CalibrationError::Shape(width, height)))?[0];
    if let Some(lenses) = lenses.as_ref().filter(|lenses| lenses.canvas() != done.size) {
        let [w, h] = lenses.canvas();
        return Err(failed(&format!(
            "frames of {width}x{height} px (expected {w}x{h}, as the lens file says)"
        )));
    }
    if is_dry_run {
        return Ok(done);
    }
    let half = 0.5 * cell[2].min(cell[3]) as f64;
    let radius = options.circle_radius.map(|radius| match radius {
        CircleRadius::Percent(percent) => 0.01 * percent * half,
        CircleRadius::Pixels(pixels) => pixels,
    });
    host.report(Event::Begun { item: CountedItem::Frames, done: 0, total: done.frames as u64 });
    let mut greys = Vec::with_capacity(done.frames);
    let read = frames.for_each(options, host, &mut |frame, host| {
        greys.extend(frame.planes.first().map(LumaImage::from_plane));
        host.report(Event::Done { done: greys.len() as u64, views_per_s: None });
    });
    host.report(Event::Ended);
    host.unless_stopped(read)?;
    // A video may end before its last selected frame.
    done.frames = greys.len();
    poses.truncate(greys.len());
    let pool = Pool::new(device::thread_count(options.threads));
    let found =
        calibrate::calibrate(&greys, &InitialCalibration { lenses, radius, poses }, &pool, host.stop());
    let mut found = found.map_err(|error| match (error, &options.poses) {
        (CalibrationError::Stopped, _) => Failure::stopped(),
        (error, Some(path)) if error.is_caused_by_poses() => {
            Failure::new("poses", format!("{}, {}: {error}", options.input.display(), path.display()))
        }
        (error, _) => failed(&error),
    })?;
    drop(greys);
    let mut gains = Vec::new();
    let projection = Projection::Fisheye(found.lenses.clone());
    let mut shading = VignettingEstimator::new(found.lenses.clone());
    let read = frames.for_each(options, host, &mut |frame, _| {
        shading.add(frame);
        gains.extend(lens_gains(&projection, frame));
    });
    host.unless_stopped(read)?;
    if let Some(estimate) = shading.estimate() {
        for (lens, vignetting) in found.lenses.lenses.iter_mut().zip(estimate.vignetting) {
            lens.vignetting = vignetting;
        }
        // The fall-off changes what is left for gains to explain.
        let halves = |stops: [f64; 3]| [-0.5, 0.5].map(|sign| stops.map(|stops| libm::exp2(sign * stops)));
        gains = estimate.exposure_stops.into_iter().map(halves).collect();
    }
    done.stops = store_gains(&mut found.lenses, &gains);
    done.fill_results(&found);
    if found.rotations == 0 && found.pose_refinement.is_none() {
        host.warn(
            "frames",
            "no frame is rotated on the spot relative to the previous one; near the axis the polynomial keeps its initial shape (if the camera moved, ⟨poses⟩ improve it)",
        );
    }
    let text = found.lenses.to_json();
    let write = WriteOptions { overwrite, ..WriteOptions::default() };
    write_atomic_with(&Disk, &options.output, &write, |file| file.write_all(text.as_bytes()))?;
    Ok(done)
}

impl CalibrationReport {
    fn fill_results(&mut self, found: &Calibration) {
        let circle = |c: &Option<calibrate::ImageCircle>| {
            c.map(|c| DetectedCircle {
                centre: c.centre,
                radius: c.radius,
                centre_doubt: c.centre_sigma,
                radius_doubt: c.radius_sigma,
            })
        };
        self.circles = found.circles.iter().map(circle).collect();
        self.half_angles = found.lenses.lenses.iter().map(|lens| lens.half_angle.to_degrees()).collect();
        (self.tracks, self.turned, self.spread) = (found.matches, found.rotations, found.residual_spread);
        (self.centre_doubt, self.rotation_doubt) = (found.centre_sigma, found.rotation_sigma);
        self.angle_doubt = found.angle_sigma;
        self.poses = found.pose_refinement.map(|walk| PoseResults {
            frames: walk.frames,
            corners: walk.landmarks,
            moved_degrees: walk.pose_change[0],
            moved: walk.pose_change[1],
            second: walk.second_position,
            second_doubt: walk.second_sigma,
        });
    }
}

/// Stores the median gains of the frames in the lenses; returns the exposure difference in stops.
fn store_gains(lenses: &mut DualFisheye, gains: &[[[f64; 3]; 2]]) -> Option<[f64; 3]> {
    if gains.is_empty() {
        return None;
    }
    let mut stops = [0.0; 3];
    for (channel, stops) in stops.iter_mut().enumerate() {
        let mut ratios: Vec<f64> = gains.iter().map(|g| (g[1][channel] / g[0][channel]).log2()).collect();
        ratios.sort_by(f64::total_cmp);
        *stops = ratios[ratios.len() / 2];
        for (lens, sign) in [(0, -0.5), (1, 0.5)] {
            lenses.lenses[lens].gain[channel] = rounded_gain((sign * *stops).exp2());
        }
    }
    Some(stops.map(rounded_gain))
}
