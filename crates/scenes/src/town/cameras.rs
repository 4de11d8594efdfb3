//! The flights over a town and the walk through it.
//!
//! ```text
//! half of the pictures      nadir, in lines along y, back and forth: 80 % overlap along, 70 % across
//! two fifths                four passes at 45 degrees, looking north, east, south and west
//! the rest                  a third descends into a street, two thirds are a walk along the streets at eye height
//! ```
//! The number of pictures decides the area, and the area the size of the town.

use gausset_core::{Camera, Pose};
use gausset_io::image::exif::FILM_DIAGONAL;

use super::plan::{Dice, Plan, QUARTER};
use crate::demo::look_at;
use crate::vec3::{Vec3, vec3};

/// Focal length for a sensor of the size of film, mm.
pub(crate) const FOCAL_35MM: u16 = 28;
/// Flying height above the plane z = 0, m.
const ALTITUDE: f64 = 50.0;
/// Shares of a picture on z = 0 that the next one along the line and the next line repeat.
const OVERLAP: [f64; 2] = [0.8, 0.7];
/// Eye height of the walk, m.
const EYE: f64 = 1.7;
/// Distance between two pictures of the walk, m.
const STEP: f64 = 2.0;

/// A camera of this width, three quarters as high.
pub(crate) fn camera(width: u32) -> Camera {
    let height = width * 3 / 4;
    let (w, h) = (f64::from(width), f64::from(height));
    let focal = f64::from(FOCAL_35MM) / FILM_DIAGONAL * libm::hypot(w, h);
    Camera {
        width,
        height,
        fx: focal,
        fy: focal,
        cx: 0.5 * w,
        cy: 0.5 * h,
        ..crate::demo::camera(width, height)
    }
}

/// Numbers of pictures: nadir, each oblique pass, walk.
fn shares(pictures: u32) -> [u32; 3] {
    let (nadir, pass) = (pictures / 2, pictures / 10);
    [nadir, pass, pictures - nadir - 4 * pass]
}

/// Ground that a nadir picture shows, m: across and along the line.
fn footprint() -> [f64; 2] {
    let camera = camera(400);
    [f64::from(camera.width), f64::from(camera.height)].map(|px| px / camera.fx * ALTITUDE)
}

/// Quarters along each side of the town that this many pictures cover.
pub(crate) fn quarters(pictures: u32) -> i32 {
    let [nadir, ..] = shares(pictures);
    let [across, along] = footprint();
    let side = (f64::from(nadir) * across * (1.0 - OVERLAP[1]) * along * (1.0 - OVERLAP[0])).sqrt();
    // Half a picture on each side looks over the rim.
    ((side - 0.3 * across) / QUARTER).round().max(2.0) as i32
}

/// The poses of all pictures in the order of exposure.
pub(crate) fn poses(plan: &Plan, pictures: u32) -> Vec<Pose> {
    let [nadir, pass, walk] = shares(pictures);
    let mut poses = nadir_lines(plan, nadir);
    for direction in 0..4 {
        poses.extend(oblique_pass(plan, pass, direction));
    }
    poses.extend(descent(plan, walk / 3));
    poses.extend(walk_poses(plan, walk - walk / 3));
    poses
}

/// A little wind: up to 0.6 m and 2 degrees.
fn in_the_wind(plan: &Plan, index: u32, eye: Vec3, target: Vec3, up: Vec3) -> Pose {
    let mut dice = Dice::new(plan.seed ^ 0x300, index as i32, 0);
    let mut drift = |reach: f64| {
        vec3(dice.between(-reach, reach), dice.between(-reach, reach), dice.between(-reach, reach))
    };
    let (eye, aim) = (eye + drift(0.6), drift(1.6));
    upright(eye, target + aim, up)
}

/// A pose that looks at a target, the top of the picture towards `up`.
fn upright(eye: Vec3, target: Vec3, up: Vec3) -> Pose {
    let forward = (target - eye).normalised();
    let right = forward.cross(up).normalised();
    let rows = [right, forward.cross(right), forward];
    Pose { rotation: rows.map(Vec3::array), translation: rows.map(|row| -row.dot(eye)) }
}

/// Straight down in parallel lines; the aircraft's nose, the top of the picture, turns with each line.
fn nadir_lines(plan: &Plan, count: u32) -> Vec<Pose> {
    let [across, along] = footprint();
    let steps = [across * (1.0 - OVERLAP[1]), along * (1.0 - OVERLAP[0])];
    grid(count, steps, |index, [x, y], heading| {
        let eye = vec3(x, y, ALTITUDE);
        in_the_wind(plan, index, eye, vec3(x, y, 0.0), vec3(0.0, heading, 0.0))
    })
}

/// Places of `count` pictures in lines along y around the origin, flown back and forth; `steps` are the distances
/// between lines and along them.
fn grid(count: u32, steps: [f64; 2], pose: impl Fn(u32, [f64; 2], f64) -> Pose) -> Vec<Pose> {
    // As many lines as make the area a square.
    let lines = (f64::from(count) * steps[1] / steps[0]).sqrt().round().max(1.0) as u32;
    let (mut poses, mut index) = (Vec::new(), 0);
    for line in 0..lines {
        let here = (line + 1) * count / lines - line * count / lines;
        let heading = if line % 2 == 0 { 1.0 } else { -1.0 };
        let x = (f64::from(line) - 0.5 * f64::from(lines - 1)) * steps[0];
        for i in 0..here {
            let y = heading * (f64::from(i) - 0.5 * f64::from(here - 1)) * steps[1];
            poses.push(pose(index, [x, y], heading));
            index += 1;
        }
    }
    poses
}

/// Over the town with the view 45 degrees down towards one side.
fn oblique_pass(plan: &Plan, count: u32, direction: u32) -> Vec<Pose> {
    let (s, c) = [(0.0, 1.0), (1.0, 0.0), (0.0, -1.0), (-1.0, 0.0)][direction as usize];
    // The pass covers the area of the nadir lines with fewer pictures.
    let side = plan.half() + 0.15 * footprint()[0];
    let area = 4.0 * side * side / f64::from(count.max(1));
    let step = (area / 1.5).sqrt();
    grid(count, [1.5 * step, step], |index, [u, v], _| {
        // The lines lie in the direction of the view and begin where the town is at the centre of the picture.
        let v = v - 0.6 * ALTITUDE;
        let eye = vec3(u * c + v * s, -u * s + v * c, ALTITUDE);
        let target = vec3(eye.x + ALTITUDE * s, eye.y + ALTITUDE * c, 0.0);
        in_the_wind(plan, 20_000 * (direction + 1) + index, eye, target, vec3(0.0, 0.0, 1.0))
    })
}

/// From an oblique view of the first street down to where the walk begins, each picture a little nearer and lower than the
/// one before: without these, nothing connects the pictures from the air with those of the walk.
fn descent(plan: &Plan, count: u32) -> Vec<Pose> {
    /// Distance from the place looked at, m, and elevation above it, degrees: of the first picture and of the last.
    const DISTANCE: [f64; 2] = [1.4 * ALTITUDE, 12.0];
    const ELEVATION: [f64; 2] = [45.0, 0.0];
    let Some(begin) = walk_places(plan, 1).first().copied() else { return Vec::new() };
    let target = begin.eye + begin.ahead * DISTANCE[1];
    (0..count)
        .map(|index| {
            let t = (f64::from(index) + 0.5) / f64::from(count);
            let distance = DISTANCE[0] * libm::pow(DISTANCE[1] / DISTANCE[0], t);
            let elevation = (ELEVATION[0] + (ELEVATION[1] - ELEVATION[0]) * t).to_radians();
            let (s, c) = (libm::sin(elevation), libm::cos(elevation));
            let eye = target - begin.ahead * (c * distance) + vec3(0.0, 0.0, s * distance);
            look_at(eye, target, 0.0)
        })
        .collect()
}

/// A place of the walk.
#[derive(Clone, Copy)]
struct WalkPlace {
    eye: Vec3,
    /// Direction of the walk.
    ahead: Vec3,
}

/// Along the streets in the middle of the carriageway, looking ahead and to the houses on either side in turn.
fn walk_poses(plan: &Plan, count: u32) -> Vec<Pose> {
    let look = |(index, WalkPlace { eye, ahead }): (u32, WalkPlace)| {
        let turn = (26.0 * libm::sin(0.42 * f64::from(index))).to_radians();
        let (s, c) = (libm::sin(turn), libm::cos(turn));
        let to = vec3(ahead.x * c - ahead.y * s, ahead.x * s + ahead.y * c, 0.04);
        look_at(eye, eye + to, 0.0)
    };
    (0..).zip(walk_places(plan, count)).map(look).collect()
}

/// Every street that runs north, back and forth, and along the rim from one to the next.
fn walk_places(plan: &Plan, count: u32) -> Vec<WalkPlace> {
    let half = plan.half();
    let lines = plan.quarters - 1;
    let length = 2.0 * half;
    let begin = lines / 2;
    let place = |index: u32| {
        let walked = STEP * f64::from(index);
        let round = (walked / (length + QUARTER)).floor();
        let (line, rest) = ((begin + round as i32) % lines.max(1) + 1, walked - round * (length + QUARTER));
        let sign = if round as i32 % 2 == 0 { 1.0 } else { -1.0 };
        let x = f64::from(line) * QUARTER - half;
        let (at, ahead) = if rest < length {
            (vec3(x, sign * (rest - 0.5 * length), 0.0), vec3(0.0, sign, 0.0))
        } else {
            (vec3(x + rest - length, sign * 0.5 * length, 0.0), vec3(1.0, 0.0, 0.0))
        };
        WalkPlace { eye: vec3(at.x, at.y, plan.height(at.x, at.y) + EYE), ahead }
    };
    (0..count).map(place).collect()
}
