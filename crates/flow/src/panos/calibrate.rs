//! A lens file from frames of two fisheye lenses.

use std::io::Write;
use std::path::PathBuf;

use gausset_compute::{Pool, VectorLevel};
use gausset_io::atomic::{Disk, Overwrite, WriteOptions, check_output, write_atomic_with};
use gausset_io::reading::Reading;
use gausset_pano::calibrate::{self, Calibration, CalibrationError, Grey, Start, cells};
use gausset_pano::equalise::{lens_gains, rounded};
use gausset_pano::fisheye::DualFisheye;
use gausset_pano::projection::Projection;
use serde::Serialize;

use super::circles::Frames;
use crate::{Event, Failure, Host, Part, device};

/// Radius of the circles, where it is given.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CircleRadius {
    /// Of half the shorter side of a lens' part of the frame.
    Percent(f64),
    /// px.
    Pixels(f64),
}

/// Frames, and the lens file that is made of them.
#[derive(Clone, Debug)]
pub struct CalibrateOptions {
    /// A folder of pictures, a picture, or a video (through ffmpeg).
    pub input: PathBuf,
    /// The lens file.
    pub output: PathBuf,
    /// A lens file to start from.
    pub lens: Option<PathBuf>,
    /// Radius of the circles, whatever the pictures say.
    pub circle_radius: Option<CircleRadius>,
    /// Poses of the frames, in any form of a comparison.
    pub poses: Option<PathBuf>,
    /// Frames that are looked at, spread evenly; with poses in runs of neighbours.
    pub max_frames: u32,
    /// Video: first second.
    pub start: f64,
    /// Video: last second.
    pub end: Option<f64>,
    /// Replace a lens file that is there.
    pub force: bool,
    /// Threads; 0 = all processors.
    pub threads: u32,
    /// Vector instructions of the processor.
    pub simd: VectorLevel,
}

/// A circle that was found: a stable contract.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct FoundCircle {
    /// Centre, px.
    pub centre: [f64; 2],
    /// Radius, px.
    pub radius: f64,
    /// Standard deviations, px.
    pub centre_doubt: f64,
    /// Of the radius, px.
    pub radius_doubt: f64,
}

/// What frames with poses told: a stable contract.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Posed {
    /// Frames with a pose.
    pub frames: usize,
    /// Corners of these that were found again; 0 where all were taken at one place.
    pub corners: usize,
    /// By how much the given poses gave way, root of mean squares, degrees.
    pub moved_degrees: f64,
    /// The same for places, parts of the usual way between neighbours.
    pub moved: f64,
    /// From the first lens to the second, x right, y down, z forward, in the unit of the poses.
    pub second: [f64; 3],
    /// Standard deviation of a coordinate of that.
    pub second_doubt: f64,
}

/// What was found, or would be looked at: a stable contract.
#[derive(Clone, Debug, Serialize)]
pub struct Calibrated {
    schema: u32,
    kind: &'static str,
    /// Frames that were looked at.
    pub frames: usize,
    /// Width and height of a frame, px.
    pub size: [u32; 2],
    /// The circles; null where a radius was given and none was found.
    pub circles: Vec<Option<FoundCircle>>,
    /// Angle from the axis to the rim, degrees.
    pub half_angles: Vec<f64>,
    /// Places that both lenses see, and places that a frame and another one see.
    pub tracks: [usize; 2],
    /// Frames whose turn against the one before is known.
    pub turned: usize,
    /// What poses told; null without poses, and where all frames were taken at one place.
    pub poses: Option<Posed>,
    /// Standard deviation of what places say, px.
    pub spread: f64,
    /// Standard deviation of the centres, px.
    pub centre_doubt: f64,
    /// Standard deviation of the rotation between the lenses, degrees.
    pub rotation_doubt: f64,
    /// The largest standard deviation of the angle that a pixel means, degrees.
    pub angle_doubt: f64,
    /// Stops by which the second lens is darker, of red, green and blue.
    pub stops: Option<[f64; 3]>,
    /// Whether nothing was written because nothing was to be.
    pub is_dry_run: bool,
}

/// Calibrates two lenses and writes their file; with `is_dry_run` only looks at the frames.
///
/// # Errors
/// Frames that cannot be used, no circles, too little that both lenses see, a file that is there.
pub fn calibrate(
    options: &CalibrateOptions,
    is_dry_run: bool,
    host: &mut Host<'_>,
) -> Result<Calibrated, Failure> {
    let overwrite = if options.force { Overwrite::Replace } else { Overwrite::Refuse };
    let read = [Some(&options.input), options.poses.as_ref(), options.lens.as_ref()];
    let _reading = Reading::of(read.into_iter().flatten());
    check_output(&Disk, &options.output, overwrite)?;
    let lenses = options.lens.as_deref().map(DualFisheye::read).transpose();
    let lenses = lenses.map_err(|e| Failure::new("lens", e))?;
    let frames = Frames::open(options, host);
    let (frames, mut poses) = host.unless_stopped(frames)?;
    let mut done = Calibrated {
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
    let cell = cells(done.size).ok_or_else(|| failed(&CalibrationError::Shape(width, height)))?[0];
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
    host.report(Event::Begun { part: Part::Frames, done: 0, total: done.frames as u64 });
    let mut greys = Vec::with_capacity(done.frames);
    let read = frames.each(options, host, &mut |frame, host| {
        greys.extend(frame.planes.first().map(Grey::of));
        host.report(Event::Done { done: greys.len() as u64, views_per_s: None });
    });
    host.report(Event::Ended);
    host.unless_stopped(read)?;
    // A film may end before its frames do that were chosen.
    done.frames = greys.len();
    poses.truncate(greys.len());
    let pool = Pool::new(device::threads(options.threads));
    let found = calibrate::calibrate(&greys, &Start { lenses, radius, poses }, &pool, host.stop());
    let mut found = found.map_err(|error| match (error, &options.poses) {
        (CalibrationError::Stopped, _) => Failure::stopped(),
        (error, Some(path)) if error.is_of_poses() => {
            Failure::new("poses", format!("{}, {}: {error}", options.input.display(), path.display()))
        }
        (error, _) => failed(&error),
    })?;
    drop(greys);
    let mut gains = Vec::new();
    let projection = Projection::Fisheye(found.lenses.clone());
    let read = frames.each(options, host, &mut |frame, _| gains.extend(lens_gains(&projection, frame)));
    host.unless_stopped(read)?;
    done.stops = put_gains(&mut found.lenses, &gains);
    done.tell(&found);
    if found.turned == 0 && found.walk.is_none() {
        host.warn(
            "frames",
            "none is turned on the spot against the one before; towards the axis the polynomial keeps the form that it starts from (of a camera that moved, ⟨poses⟩ tell more)",
        );
    }
    let text = found.lenses.to_json();
    let write = WriteOptions { overwrite, ..WriteOptions::default() };
    write_atomic_with(&Disk, &options.output, &write, |file| file.write_all(text.as_bytes()))?;
    Ok(done)
}

impl Calibrated {
    fn tell(&mut self, found: &Calibration) {
        let circle = |c: &Option<calibrate::Circle>| {
            c.map(|c| FoundCircle {
                centre: c.centre,
                radius: c.radius,
                centre_doubt: c.centre_doubt,
                radius_doubt: c.radius_doubt,
            })
        };
        self.circles = found.circles.iter().map(circle).collect();
        self.half_angles = found.lenses.lenses.iter().map(|lens| lens.half_angle.to_degrees()).collect();
        (self.tracks, self.turned, self.spread) = (found.tracks, found.turned, found.spread);
        (self.centre_doubt, self.rotation_doubt) = (found.centre_doubt, found.rotation_doubt);
        self.angle_doubt = found.angle_doubt;
        self.poses = found.walk.map(|walk| Posed {
            frames: walk.frames,
            corners: walk.corners,
            moved_degrees: walk.moved[0],
            moved: walk.moved[1],
            second: walk.second,
            second_doubt: walk.second_doubt,
        });
    }
}

/// Puts the median of the gains of frames into the lenses; returns the stops between them.
fn put_gains(lenses: &mut DualFisheye, gains: &[[[f64; 3]; 2]]) -> Option<[f64; 3]> {
    if gains.is_empty() {
        return None;
    }
    let mut stops = [0.0; 3];
    for (channel, stops) in stops.iter_mut().enumerate() {
        let mut ratios: Vec<f64> = gains.iter().map(|g| (g[1][channel] / g[0][channel]).log2()).collect();
        ratios.sort_by(f64::total_cmp);
        *stops = ratios[ratios.len() / 2];
        for (lens, sign) in [(0, -0.5), (1, 0.5)] {
            lenses.lenses[lens].gain[channel] = rounded((sign * *stops).exp2());
        }
    }
    Some(stops.map(rounded))
}
