use gausset_compute::Pool;
use gausset_core::se3;
use gausset_scenes::room::{self, Room};

use super::super::REMOVED;
use super::*;

/// The colour of the operator in a direction, if it is hit: a head of 25 degrees with a shoulder on one side, and a
/// pole of 3 degrees up to 60 degrees from the nadir, in axes rotated by `turn` (degrees of yaw).
fn is_operator(direction: [f64; 3], turn: f64) -> Option<[u8; 3]> {
    let d = se3::mul_vec(&se3::transpose(&crate::sphere::geometry::rotation_y(turn)), direction);
    let degrees = crate::sphere::projection::degrees_from_nadir(d);
    let longitude = libm::atan2(d[0], d[2]).to_degrees();
    let across = degrees * longitude.to_radians().sin();
    let along = degrees * longitude.to_radians().cos();
    // Hair with strands, striped cloth, a grey pole.
    if across.hypot(along + 6.0) < 22.0 {
        let strand = 14.0 * (longitude / 4.0).sin();
        return Some([(58.0 + strand) as u8, (44.0 + strand) as u8, (36.0 + strand) as u8]);
    }
    if across.abs() < 30.0 && (along + 10.0).abs() < 11.0 {
        return Some(if (across / 3.0).sin() > 0.0 { [200, 90, 30] } else { [180, 190, 40] });
    }
    (along > 0.0 && along < 60.0 && across.abs() < 1.5).then_some([120, 120, 125])
}

/// Frames of the room with a sky above 20 degrees and the operator, each with the true mask of the operator.
fn frames(count: usize, turn: impl Fn(usize) -> f64, is_moving: bool) -> Vec<(RgbImage8, Vec<bool>)> {
    let (w, h) = (480u32, 240u32);
    let pool = Pool::new(2);
    (0..count)
        .map(|k| {
            let pose = room::pose(if is_moving { k } else { 0 }, count);
            let mut picture = Room::FOR_REGISTRATION.panorama(w, &pose, &pool);
            let mut truth = vec![false; (w * h) as usize];
            for (at, rgb) in picture.data.chunks_exact_mut(3).enumerate() {
                let (u, v) = ((at % w as usize) as f64 + 0.5, (at / w as usize) as f64 + 0.5);
                let d = crate::sphere::geometry::direction_from_equirect(u, v, f64::from(w), f64::from(h));
                if let Some(colour) = is_operator(d, turn(k)) {
                    rgb.copy_from_slice(&colour);
                    truth[at] = true;
                } else if v < 70.0 {
                    rgb.copy_from_slice(&[150, 190, 240]);
                }
            }
            (picture, truth)
        })
        .collect()
}

/// IoU of a mask with the truth, and the fraction of the sphere that it removes elsewhere.
fn judged(mask: &SphereMask, truth: &[bool]) -> (f64, f64) {
    let (mut both, mut either, mut wrong) = (0.0, 0.0, 0.0);
    for (at, (keep, truth)) in mask.data.iter().zip(truth).enumerate() {
        let share = mask.pixel_fraction(at / mask.width);
        let removed = *keep < REMOVED;
        both += if removed && *truth { share } else { 0.0 };
        either += if removed || *truth { share } else { 0.0 };
        wrong += if removed && !*truth { share } else { 0.0 };
    }
    (both / either, wrong)
}

#[test]
fn an_operator_with_a_pole_is_found_in_the_panoramas_axes() {
    let frames = frames(12, |_| 40.0, true);
    let mut finder = ForegroundDetector::new();
    frames.iter().for_each(|(picture, _)| finder.add_frame(picture, None));
    let found = finder.detect().unwrap();
    assert_eq!((found.axes, found.frames), (ForegroundAxes::Panorama, 12));
    let (iou, wrong) = judged(&found.mask(480, 240, 0.0), &frames[0].1);
    assert!(iou >= 0.90 && wrong <= 0.001, "IoU {iou:.4}, elsewhere {wrong:.5} of the sphere");
}

#[test]
fn an_operator_who_turns_with_the_walk_is_found_in_its_axes() {
    let heading = |k: usize| 25.0 * k as f64;
    let frames = frames(12, heading, true);
    let mut finder = ForegroundDetector::new();
    for (k, (picture, _)) in frames.iter().enumerate() {
        finder.add_frame(picture, Some(heading(k)));
    }
    let found = finder.detect().unwrap();
    assert_eq!(found.axes, ForegroundAxes::Heading);
    for (k, (_, truth)) in frames.iter().enumerate() {
        let (iou, wrong) = judged(&found.mask(480, 240, heading(k) + found.offset(k)), truth);
        assert!(iou >= 0.90 && wrong <= 0.001, "frame {k}: IoU {iou:.4}, elsewhere {wrong:.5}");
    }
    // In panorama axes hardly any part of the operator is static.
    let mut finder = ForegroundDetector::new();
    frames.iter().for_each(|(picture, _)| finder.add_frame(picture, None));
    let alone = finder.detect().map_or(0.0, |found| judged(&found.mask(480, 240, 0.0), &frames[3].1).0);
    assert!(alone < 0.5, "{alone}");
}

#[test]
fn a_walk_whose_direction_is_roughly_known_will_do() {
    let heading = |k: usize| 25.0 * k as f64;
    // The operator looks up to 14 degrees to the side, and the direction of two frames is unknown.
    let off = |k: usize| 14.0 * (1.3 * k as f64).sin();
    let frames = frames(12, heading, true);
    let mut finder = ForegroundDetector::new();
    for (k, (picture, _)) in frames.iter().enumerate() {
        finder.add_frame(picture, (k != 4 && k != 9).then(|| heading(k) + off(k)));
    }
    let found = finder.detect().unwrap();
    assert_eq!((found.axes, found.frames), (ForegroundAxes::Heading, 10));
    for (k, (_, truth)) in frames.iter().enumerate().filter(|(k, _)| *k != 4 && *k != 9) {
        let (iou, wrong) = judged(&found.mask(480, 240, heading(k) + off(k) + found.offset(k)), truth);
        assert!(iou >= 0.85 && wrong <= 0.002, "frame {k}: IoU {iou:.4}, elsewhere {wrong:.5}");
    }
    // With the given headings, the masks miss the operator.
    let given = |k: usize| judged(&found.mask(480, 240, heading(k) + off(k)), &frames[k].1).0;
    let worst = (0..12).map(given).fold(1.0, f64::min);
    assert!(worst < 0.8, "{worst}");
}

#[test]
fn a_camera_that_stands_or_rides_alone_gives_nothing() {
    let standing = frames(1, |_| 0.0, false);
    let mut finder = ForegroundDetector::new();
    for k in 0..5 {
        // Slightly darker each time, so that no frame is a duplicate.
        let mut picture = standing[0].0.clone();
        picture.data.iter_mut().for_each(|value| *value = value.saturating_sub(4 * k));
        finder.add_frame(&picture, None);
    }
    assert_eq!(finder.detect().err(), Some(NoForeground::CameraStatic));
    let pool = Pool::new(2);
    let mut finder = ForegroundDetector::new();
    for k in 0..8 {
        finder.add_frame(&Room::FOR_REGISTRATION.panorama(480, &room::pose(k, 8), &pool), None);
    }
    assert_eq!(finder.detect().err(), Some(NoForeground::NoRegion));
    let mut finder = ForegroundDetector::new();
    (0..5).for_each(|_| finder.add_frame(&standing[0].0, None));
    assert_eq!(finder.detect().err(), Some(NoForeground::TooFewFrames(1)));
}

#[test]
fn many_frames_take_no_more_memory() {
    let mut finder = ForegroundDetector::new();
    for k in 0..200u32 {
        let data = (0..3 * 64 * 32).map(|at: u32| (at.wrapping_mul(2_654_435_761 + k) >> 24) as u8).collect();
        finder.add_frame(&RgbImage8 { width: 64, height: 32, data }, None);
    }
    assert!(finder.kept.len() <= MAX_FRAMES, "{}", finder.kept.len());
}

/// Smooth noise on the ground from 0 to 1, with cells from one metre to an eighth.
fn ground(x: f64, z: f64) -> f64 {
    let hash = |i: i64, j: i64| {
        let mut v = (i.wrapping_mul(0x1F1F_1F1F) ^ j.wrapping_mul(0x5851_F42D)) as u64;
        v = (v ^ (v >> 31)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        ((v ^ (v >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB) >> 40) as f64 / (1u64 << 24) as f64
    };
    let octave = |cells: f64| {
        let (u, v) = (x * cells, z * cells);
        let (i, j) = (u.floor(), v.floor());
        let (fu, fv) = (u - i, v - j);
        let at = |di: i64, dj: i64| hash(i as i64 + di, j as i64 + dj);
        let upper = at(0, 0) * (1.0 - fu) + at(1, 0) * fu;
        let lower = at(0, 1) * (1.0 - fu) + at(1, 1) * fu;
        upper * (1.0 - fv) + lower * fv
    };
    0.5 * octave(1.0) + 0.3 * octave(4.0) + 0.2 * octave(8.0)
}

/// Whether a direction is in the operator's shadow: 35 degrees wide, up to 55 degrees from the nadir, to the right.
fn is_shadow(d: [f64; 3]) -> bool {
    let degrees = crate::sphere::projection::degrees_from_nadir(d);
    let turn = (libm::atan2(d[0], d[2]).to_degrees() - 90.0).to_radians();
    let (across, along) = (degrees * turn.sin(), degrees * turn.cos());
    is_operator(d, 0.0).is_none() && along > 0.0 && along < 55.0 && across.abs() < 12.0
}

#[test]
fn a_shadow_is_found_and_the_ground_beside_it_is_not() {
    let (w, h) = (480usize, 240usize);
    let of_ground = |d: [f64; 3], k: usize| {
        // A camera at a height of 2 m moves half a metre per frame over grey ground with a strip of grass.
        let far = 2.0 / d[1];
        let (x, z) = (d[0] * far + 0.1 * k as f64, d[2] * far + 0.5 * k as f64);
        let light = 0.55 + 0.5 * ground(x, z);
        let colour = if x.abs() > 4.0 { [90.0, 130.0, 50.0] } else { [150.0, 148.0, 145.0] };
        colour.map(|value: f64| value * light)
    };
    let mut finder = ForegroundDetector::new();
    let mut discs = Vec::new();
    for k in 0..12 {
        let mut data = Vec::with_capacity(3 * w * h);
        for at in 0..w * h {
            let (u, v) = ((at % w) as f64 + 0.5, (at / w) as f64 + 0.5);
            let d = crate::sphere::geometry::direction_from_equirect(u, v, w as f64, h as f64);
            let colour = match is_operator(d, 0.0) {
                Some(colour) => colour.map(f64::from),
                None if d[1] <= 0.02 => [150.0, 190.0, 240.0],
                // A fifth of the light would be 0.48 of the display value; 0.55 is used.
                None if is_shadow(d) => of_ground(d, k).map(|value| 0.55 * value),
                None => of_ground(d, k),
            };
            data.extend(colour.map(|value| value.clamp(0.0, 255.0) as u8));
        }
        let picture = RgbImage8 { width: w as u32, height: h as u32, data };
        discs.push(disc::disc_from_panorama(&picture, 0.0));
        finder.add_frame(&picture, None);
    }
    let judged = |mask: &SphereMask| {
        let (mut there, mut hit, mut wrong) = (0.0, 0.0, 0.0);
        for (at, keep) in mask.data.iter().enumerate() {
            let (u, v) = ((at % w) as f64 + 0.5, (at / w) as f64 + 0.5);
            let d = crate::sphere::geometry::direction_from_equirect(u, v, w as f64, h as f64);
            let share = mask.pixel_fraction(at / w);
            let removed = *keep < REMOVED;
            there += if is_shadow(d) { share } else { 0.0 };
            hit += if is_shadow(d) && removed { share } else { 0.0 };
            wrong += if !is_shadow(d) && is_operator(d, 0.0).is_none() && removed { share } else { 0.0 };
        }
        (hit / there, wrong)
    };
    // The shadow alone, given the operator.
    let operator: Vec<bool> = (0..AREA)
        .map(|at| {
            let (degrees, longitude) = polar_position(at);
            let (sine, cosine) = degrees.to_radians().sin_cos();
            is_operator([sine * longitude.sin(), cosine, sine * longitude.cos()], 0.0).is_some()
        })
        .collect();
    let alone = StaticForeground {
        axes: ForegroundAxes::Panorama,
        frames: discs.len(),
        offsets: Vec::new(),
        shadow: shadow::detect_shadow(&discs, &operator),
        patch: operator,
    };
    let (found, wrong) = judged(&alone.shadow(w, h, 0.0));
    assert!(found >= 0.8 && wrong <= 0.003, "alone: found {found:.3} of it, {wrong:.5} elsewhere");
    // Both together: a shadow with a constant direction is static too, and may be detected as part of the operator.
    let both = finder.detect().unwrap();
    let mut mask = both.mask(w, h, 0.0);
    mask.union_with(&both.shadow(w, h, 0.0));
    let (found, wrong) = judged(&mask);
    let patch = judged(&both.mask(w, h, 0.0));
    assert!(found >= 0.8 && wrong <= 0.003, "found {found:.3}, {wrong:.5} elsewhere, by the patch {patch:?}");
}
