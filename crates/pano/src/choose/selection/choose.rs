//! Decides which frames are kept, and gives the reason for each.

use gausset_core::se3::{self, IDENTITY3, Mat3};

use super::distance::TravelledDistance;
use super::moving_time::MovingTime;
use super::record::FrameRecord;
use super::{FrameReason, SelectBy, SelectionCriteria};
use crate::choose::motion::SmallProjection;

/// Tolerance around a whole step within which a sharper frame is preferred, in steps; and the wider tolerance if no
/// frame within it is sharp.
const STEP_TOLERANCE: f64 = 0.25;
const WIDE_STEP_TOLERANCE: f64 = 0.5;
/// Sharpness relative to nearby frames below which a frame is blurred.
const BLURRED_SHARPNESS: f64 = 0.9;
/// Fraction of the best sharpness in reach that is sharp enough.
const SHARP_FRACTION: f64 = 0.97;
/// Frames before and after a frame between which a camera at rest rotates if it turns by more than [`TURNING_DEGREES`]
/// degrees.
const MOTION_WINDOW: usize = 6;
const TURNING_DEGREES: f64 = 5.0;
/// Fraction of the rotation after which an ordinary image shows mostly new content that counts as a step.
const ROTATION_STEP_FRACTION: f64 = 0.5;

/// Rotation that counts as a step by itself, degrees, for images that do not show the whole sphere; `None` for
/// panoramas.
pub(super) fn rotation_step(is_sphere: bool, [width, height]: [u32; 2]) -> Option<f64> {
    let optics = SmallProjection::pinhole(width as usize, height as usize);
    optics.novel_rotation().filter(|_| !is_sphere).map(|turn| ROTATION_STEP_FRACTION * turn)
}

/// Sets `kept` and `reason` of all frames. Returns the parallax between consecutive frames that was used, degrees.
/// `turn` is the rotation that counts as a step by itself, degrees.
pub fn select_frames(lines: &mut [FrameRecord], wanted: &SelectionCriteria, turn: Option<f64>) -> f64 {
    for line in lines.iter_mut() {
        (line.kept, line.reason) = (false, FrameReason::Near);
    }
    let most = wanted.max_frames.unwrap_or(usize::MAX).max(1);
    match wanted.select {
        SelectBy::Space => {
            let way = FrameDistances::new(lines, wanted.step, turn);
            let (scale, kept) = way.select_at_most(lines, most);
            way.mark(lines, &kept);
            wanted.step * scale
        }
        SelectBy::Time => {
            select_by_time(lines, wanted.fps);
            thin_out(lines, most);
            wanted.step
        }
        SelectBy::All => {
            for line in lines.iter_mut() {
                (line.kept, line.reason) = (true, FrameReason::All);
            }
            thin_out(lines, most);
            wanted.step
        }
    }
}

/// Distances between frames, in steps.
struct FrameDistances {
    travelled: TravelledDistance,
    moving: MovingTime,
    /// Accumulated rotation of each frame.
    orientations: Vec<Mat3>,
    turn: Option<f64>,
}

/// A kept frame, with the candidates among which it was chosen.
struct KeptFrame {
    frame: usize,
    reason: FrameReason,
    candidates: Vec<usize>,
}

impl FrameDistances {
    fn new(lines: &[FrameRecord], step: f64, turn: Option<f64>) -> Self {
        let mut orientation = IDENTITY3;
        let orientations = lines.iter().map(|line| {
            if let Some(rotation) = line.rotation {
                orientation = se3::mul(&se3::so3_exp(rotation.map(f64::to_radians)), &orientation);
            }
            orientation
        });
        let orientations: Vec<Mat3> = orientations.collect();
        let (travelled, moving) = (TravelledDistance::new(lines, step), MovingTime::new(lines));
        Self { travelled, moving, orientations, turn }
    }

    /// Rotation between two frames, degrees.
    fn rotation_between(&self, a: usize, b: usize) -> f64 {
        let rest = se3::mul(&self.orientations[b], &se3::transpose(&self.orientations[a]));
        let cosine = 0.5 * (rest[0][0] + rest[1][1] + rest[2][2] - 1.0);
        libm::acos(cosine.clamp(-1.0, 1.0)).to_degrees()
    }

    /// Distance from frame `a` to frame `b`, in steps that are enlarged by `scale`; at least the time in motion, in
    /// intervals.
    fn steps_between(&self, a: usize, b: usize, scale: f64) -> f64 {
        self.seen_steps(a, b, scale).max(self.intervals_between(a, b, scale))
    }

    /// Time in motion between two frames, in intervals that are enlarged by `scale`.
    fn intervals_between(&self, a: usize, b: usize, scale: f64) -> f64 {
        (self.moving.intervals[b] - self.moving.intervals[a]) / scale
    }

    /// Distance travelled and rotation between two frames, in steps that are enlarged by `scale`.
    fn seen_steps(&self, a: usize, b: usize, scale: f64) -> f64 {
        let moved = (self.travelled.steps[b] - self.travelled.steps[a]) / scale;
        match self.turn {
            Some(turn) => moved.max(self.rotation_between(a, b) / (turn * scale)),
            None => moved,
        }
    }

    /// The selection with the smallest step scale, at least 1, that keeps at most `most` frames (by bisection).
    fn select_at_most(&self, lines: &[FrameRecord], most: usize) -> (f64, Vec<KeptFrame>) {
        let kept = self.select(lines, 1.0);
        if kept.len() <= most {
            return (1.0, kept);
        }
        let (mut low, mut high) = (1.0, 2.0 * kept.len() as f64 / most as f64);
        while self.select(lines, high).len() > most && high < 1e9 {
            high *= 2.0;
        }
        for _ in 0..30 {
            let middle = 0.5 * (low + high);
            if self.select(lines, middle).len() > most {
                low = middle;
            } else {
                high = middle;
            }
        }
        let mut kept = self.select(lines, high);
        kept.truncate(most);
        (high, kept)
    }

    /// Selects frame by frame: among the sharp frames about a step away, the one nearest to a whole step.
    fn select(&self, lines: &[FrameRecord], scale: f64) -> Vec<KeptFrame> {
        let mut kept: Vec<KeptFrame> = Vec::new();
        let start: Vec<usize> =
            (0..lines.len()).take_while(|&k| self.steps_between(0, k, scale) <= STEP_TOLERANCE).collect();
        let Some(first) = nearest_sharp(lines, &start, |k| k as f64) else { return kept };
        kept.push(KeptFrame { frame: first, reason: FrameReason::First, candidates: start });
        while let Some(next) = self.select_next(lines, kept.last().map_or(0, |kept| kept.frame), scale) {
            kept.push(next);
        }
        kept
    }

    fn select_next(&self, lines: &[FrameRecord], last: usize, scale: f64) -> Option<KeptFrame> {
        let from_step = |k: usize| (self.steps_between(last, k, scale) - 1.0).abs();
        let reach = |slack: f64| -> (Vec<usize>, Option<usize>) {
            let mut reach = Vec::new();
            for k in last + 1..lines.len() {
                let steps = self.steps_between(last, k, scale);
                if steps > 1.0 + slack {
                    return (reach, Some(k));
                }
                if steps >= 1.0 - slack {
                    reach.push(k);
                }
            }
            (reach, None)
        };
        let (mut within, beyond) = reach(STEP_TOLERANCE);
        let sharp = |reach: &[usize]| reach.iter().map(|&k| lines[k].sharpness).fold(0.0, f64::max);
        if sharp(&within) < BLURRED_SHARPNESS {
            let (wide, _) = reach(WIDE_STEP_TOLERANCE);
            if sharp(&wide) > sharp(&within) {
                within = wide;
            }
        }
        match nearest_sharp(lines, &within, from_step) {
            Some(frame) => {
                let reason = if self.travelled.by_track[frame] {
                    FrameReason::Track
                } else if self.seen_steps(last, frame, scale) < self.intervals_between(last, frame, scale) {
                    FrameReason::Due
                } else {
                    FrameReason::Step
                };
                Some(KeptFrame { frame, reason, candidates: within })
            }
            // A jump of more than a step between two frames: the frame before it may be nearer to a whole step.
            None => beyond.map(|beyond| {
                let before = beyond - 1;
                let is_before = before > last && from_step(before) < from_step(beyond);
                let frame =
                    if is_before && self.steps_between(last, before, scale) > 0.5 { before } else { beyond };
                KeptFrame { frame, reason: FrameReason::Jump, candidates: Vec::new() }
            }),
        }
    }

    /// Marks the kept frames and sets the reason of the others.
    fn mark(&self, lines: &mut [FrameRecord], kept: &[KeptFrame]) {
        for (index, KeptFrame { frame, reason, candidates: reach }) in kept.iter().enumerate() {
            let best = reach.iter().map(|&k| lines[k].sharpness).fold(0.0, f64::max);
            let until = kept.get(index + 1).map_or(lines.len(), |next| next.frame);
            for k in frame + 1..until {
                if self.moving.at_rest[k] {
                    let (before, behind) =
                        (k.saturating_sub(MOTION_WINDOW), (k + MOTION_WINDOW).min(lines.len() - 1));
                    let turned = self.rotation_between(before, behind) > TURNING_DEGREES;
                    lines[k].reason = if turned { FrameReason::Turning } else { FrameReason::Standing };
                }
            }
            for &k in reach {
                if lines[k].sharpness < SHARP_FRACTION * best {
                    lines[k].reason = FrameReason::Blurred;
                }
            }
            (lines[*frame].kept, lines[*frame].reason) = (true, *reason);
        }
        mark_duplicates(lines);
    }
}

fn mark_duplicates(lines: &mut [FrameRecord]) {
    for line in lines.iter_mut().filter(|line| line.duplicate && !line.kept) {
        line.reason = FrameReason::Duplicate;
    }
}

/// Among the frames about as sharp as the sharpest in reach, the one with the least distance; the first of equals.
fn nearest_sharp(lines: &[FrameRecord], reach: &[usize], distance: impl Fn(usize) -> f64) -> Option<usize> {
    let is_new = |k: &&usize| !lines[**k].duplicate;
    let best = reach.iter().filter(is_new).map(|&k| lines[k].sharpness).fold(0.0, f64::max);
    let sharp = reach.iter().filter(is_new).filter(|&&k| lines[k].sharpness >= SHARP_FRACTION * best);
    sharp.copied().min_by(|&a, &b| distance(a).total_cmp(&distance(b)).then(a.cmp(&b)))
}

/// Selects at a frame rate: the sharpest frame around each due time.
fn select_by_time(lines: &mut [FrameRecord], fps: f64) {
    let (Some(start), Some(end)) = (lines.first().map(|l| l.time), lines.last().map(|l| l.time)) else {
        return;
    };
    let period = 1.0 / fps;
    let moment = |k: u64| start + k as f64 * period;
    for line in lines.iter_mut() {
        line.reason = FrameReason::Time;
    }
    let (mut k, mut next) = (0u64, 0usize);
    while next < lines.len() {
        // Due times within a gap of the video are skipped.
        k = k.max(((lines[next].time - start) / period - 0.5).ceil().max(0.0) as u64);
        if moment(k) > end + 1e-9 {
            break;
        }
        let until =
            next + lines[next..].iter().take_while(|line| line.time < moment(k) + 0.5 * period).count();
        let until = until.max(next + 1);
        let distance = |at: usize| (lines[at].time - moment(k)).abs();
        let within: Vec<usize> =
            (next..until).filter(|&at| distance(at) <= STEP_TOLERANCE * period + 1e-9).collect();
        let all: Vec<usize> = (next..until).collect();
        let reach = if within.is_empty() { &all } else { &within };
        if let Some(frame) = nearest_sharp(lines, reach, distance) {
            let best = reach.iter().map(|&at| lines[at].sharpness).fold(0.0, f64::max);
            for &at in
                reach.iter().filter(|&&at| lines[at].sharpness < SHARP_FRACTION * best).collect::<Vec<_>>()
            {
                lines[at].reason = FrameReason::Blurred;
            }
            (lines[frame].kept, lines[frame].reason) = (true, FrameReason::Time);
        }
        (k, next) = (k + 1, until);
    }
    mark_duplicates(lines);
}

/// Thins the kept frames to at most `most`, evenly by accumulated parallax, or by number if there is none.
fn thin_out(lines: &mut [FrameRecord], most: usize) {
    let kept: Vec<usize> = lines.iter().filter(|line| line.kept).map(|line| line.frame).collect();
    if kept.len() <= most {
        return;
    }
    let mut ways = vec![0.0; kept.len()];
    for k in 1..kept.len() {
        ways[k] = ways[k - 1] + (lines[kept[k]].path - lines[kept[k - 1]].path).abs();
    }
    let all = ways[kept.len() - 1];
    if all <= 0.0 {
        ways = (0..kept.len()).map(|k| k as f64).collect();
    }
    let all = ways[kept.len() - 1];
    let mut chosen = vec![false; kept.len()];
    let mut next = 0;
    for k in 0..most {
        let target = all * k as f64 / most as f64;
        // Enough frames must be left for the remaining targets.
        let last = kept.len() - (most - k);
        while next < last && ways[next] < target - 1e-9 {
            next += 1;
        }
        chosen[next] = true;
        next += 1;
    }
    for (&frame, _) in kept.iter().zip(&chosen).filter(|(_, chosen)| !**chosen) {
        (lines[frame].kept, lines[frame].reason) = (false, FrameReason::MaxFrames);
    }
}

#[cfg(test)]
mod tests {
    use super::super::DEFAULT_STEP;
    use super::*;

    /// Frames at 24 per second with the accumulated parallax `path`.
    fn film(count: usize, path: impl Fn(usize) -> f64) -> Vec<FrameRecord> {
        (0..count)
            .map(|frame| FrameRecord {
                frame,
                time: frame as f64 / 24.0,
                sharpness: 1.0,
                exposure: 0.0,
                rotation: Some([0.0; 3]),
                parallax: (frame > 0).then_some(0.5),
                way: None,
                reference: frame.saturating_sub(1),
                path: path(frame),
                tracks: 200,
                metres: None,
                duplicate: false,
                kept: false,
                reason: FrameReason::Near,
                name: None,
            })
            .collect()
    }

    fn kept(lines: &[FrameRecord]) -> Vec<usize> {
        lines.iter().filter(|line| line.kept).map(|line| line.frame).collect()
    }

    fn wanted(select: SelectBy, max_frames: Option<usize>) -> SelectionCriteria {
        SelectionCriteria { select, max_frames, fps: 2.5, step: DEFAULT_STEP }
    }

    #[test]
    fn steps_are_equal_where_the_pace_is_not_and_a_stop_gives_one_frame() {
        // Half a degree per frame, none from frame 60 to 120, then two degrees per frame.
        let path = |k: usize| 0.5 * k.min(60) as f64 + 2.0 * k.saturating_sub(120) as f64;
        let mut lines = film(140, path);
        assert_eq!(select_frames(&mut lines, &wanted(SelectBy::Space, None), None), DEFAULT_STEP);
        assert_eq!(
            kept(&lines),
            [0, 8, 16, 24, 32, 40, 48, 56, 121, 123, 125, 127, 129, 131, 133, 135, 137, 139]
        );
        assert_eq!((lines[100].reason, lines[50].reason), (FrameReason::Standing, FrameReason::Near));
        let mut lines = film(50, |_| 0.02);
        select_frames(&mut lines, &wanted(SelectBy::Space, None), None);
        assert_eq!((kept(&lines), lines[7].reason), (vec![0], FrameReason::Standing));
    }

    #[test]
    fn a_track_tells_the_way_where_all_is_far_and_where_few_corners_are_found() {
        // 0.1 m per frame; from frame 120 on the scene is ten times as far away, from 180 on few corners are tracked.
        let path = |k: usize| 0.5 * k.min(120) as f64 + 0.05 * k.saturating_sub(120) as f64;
        let mut lines = film(220, path);
        select_frames(&mut lines, &wanted(SelectBy::Space, None), None);
        // One frame a second.
        let gaps = kept(&lines)[15..].windows(2).map(|pair| pair[1] - pair[0]).collect::<Vec<_>>();
        assert!(gaps.iter().all(|gap| (18..=24).contains(gap)), "{gaps:?}");
        for line in &mut lines {
            line.metres = Some(0.1 * line.frame as f64);
            if line.frame >= 180 {
                line.tracks = 20;
            }
        }
        select_frames(&mut lines, &wanted(SelectBy::Space, None), None);
        let picks = kept(&lines);
        assert!(picks.windows(2).all(|pair| (6..=10).contains(&(pair[1] - pair[0]))), "{picks:?}");
        assert_eq!(
            (lines[picks[3]].reason, lines[picks[20]].reason),
            (FrameReason::Step, FrameReason::Track)
        );
        // At rest, a drifting receiver is ignored; so is a track with gaps, or one that agrees with the parallax.
        let mut lines = film(180, |k| 0.5 * k.min(59) as f64);
        for line in &mut lines {
            line.metres = Some(0.1 * line.frame.min(59) as f64 + 0.1 * line.time);
        }
        let with = |lines: &mut [FrameRecord]| {
            select_frames(lines, &wanted(SelectBy::Space, None), None);
            (kept(lines), lines.iter().filter(|line| line.reason == FrameReason::Track).count())
        };
        assert_eq!(with(&mut lines), (vec![0, 8, 16, 24, 32, 40, 48, 56], 0));
        lines.iter_mut().for_each(|line| line.metres = None);
        assert_eq!(with(&mut lines), (vec![0, 8, 16, 24, 32, 40, 48, 56], 0));
    }

    #[test]
    fn of_frames_in_reach_a_sharp_one_is_taken_and_duplicates_never() {
        let mut lines = film(33, |k| 0.5 * k as f64);
        lines[8].sharpness = 0.6;
        lines[17].duplicate = true;
        lines[24].sharpness = 0.95;
        select_frames(&mut lines, &wanted(SelectBy::Space, None), None);
        assert_eq!(kept(&lines), [0, 7, 15, 23, 31]);
        assert_eq!((lines[8].reason, lines[24].reason), (FrameReason::Blurred, FrameReason::Blurred));
        assert_eq!((lines[17].reason, lines[3].reason), (FrameReason::Duplicate, FrameReason::Near));
    }

    #[test]
    fn at_most_so_many_are_spread_by_parallax() {
        let path = |k: usize| 0.5 * k.min(60) as f64 + 2.0 * k.saturating_sub(120) as f64;
        for most in [1, 2, 5, 11] {
            let mut lines = film(140, path);
            let step = select_frames(&mut lines, &wanted(SelectBy::Space, Some(most)), None);
            let kept = kept(&lines);
            assert!(kept.len() <= most && kept.len() + 1 >= most && step > DEFAULT_STEP, "{most}: {kept:?}");
            let ways: Vec<f64> = kept.windows(2).map(|p| path(p[1]) - path(p[0])).collect();
            assert!(
                ways.iter().all(|way| (way / step - 1.0).abs() <= STEP_TOLERANCE + 1e-9),
                "{most}: {ways:?} {step}"
            );
        }
    }

    #[test]
    fn a_film_that_moves_gives_a_frame_a_second_or_forty_however_small_the_parallax() {
        let space = wanted(SelectBy::Space, None);
        // 0.2 degrees per second: one step in 20 seconds. The sharpest of neighbours is taken.
        let mut lines = film(12 * 24, |k| 0.2 * k as f64 / 24.0);
        lines[48].sharpness = 0.5;
        select_frames(&mut lines, &space, None);
        let picks = kept(&lines);
        assert!(
            (12..=17).contains(&picks.len()) && picks[0] < 6 && *picks.last().unwrap() > 270,
            "{picks:?}"
        );
        assert!(picks.windows(2).all(|pair| (18..=30).contains(&(pair[1] - pair[0]))), "{picks:?}");
        assert!(!lines[48].kept && lines.iter().all(|line| line.reason != FrameReason::Standing));
        assert_eq!(lines[picks[1]].reason, FrameReason::Due);
        // Ten minutes: 40, spread over time. A maximum still holds.
        let mut lines = film(600 * 24, |k| 0.2 * k as f64 / 24.0);
        select_frames(&mut lines, &space, None);
        let picks = kept(&lines);
        assert!((40..=55).contains(&picks.len()), "{}", picks.len());
        assert!(picks.windows(2).all(|pair| pair[1] - pair[0] <= 450), "{picks:?}");
        select_frames(&mut lines, &wanted(SelectBy::Space, Some(10)), None);
        assert!((9..=10).contains(&kept(&lines).len()));
        // A camera on a tripod, with a tenth of a pixel of noise, for all of the film and for half of it.
        let noise = |k: usize| 0.006 * ((k * 7919) % 11) as f64 / 11.0;
        let mut lines = film(20 * 24, noise);
        select_frames(&mut lines, &space, None);
        assert_eq!((kept(&lines).len(), lines[100].reason), (1, FrameReason::Standing));
        let mut lines = film(20 * 24, |k| noise(k) + 0.01 * k.saturating_sub(240) as f64);
        select_frames(&mut lines, &space, None);
        let picks = kept(&lines);
        assert!((10..=15).contains(&picks.len()) && picks[1] >= 240, "{picks:?}");
        // Fewer frames than seconds: all of them.
        let mut lines = film(5, |k| 0.5 * k as f64);
        lines.iter_mut().for_each(|line| line.time *= 48.0);
        select_frames(&mut lines, &space, None);
        assert_eq!(kept(&lines), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn a_rate_is_kept_also_where_it_does_not_divide_that_of_the_film() {
        // Ten seconds at 24 frames per second: every 9.6th frame.
        let mut lines = film(240, |k| k as f64);
        select_frames(&mut lines, &wanted(SelectBy::Time, None), None);
        let expected: Vec<usize> = (0..25).map(|k| (9.6 * f64::from(k)).round() as usize).collect();
        assert_eq!(kept(&lines), expected);
        // A video with a gap of a minute, and with a blurred frame.
        for line in &mut lines[120..] {
            line.time += 60.0;
        }
        lines[96].sharpness = 0.5;
        select_frames(&mut lines, &wanted(SelectBy::Time, Some(100)), None);
        let times: Vec<f64> = kept(&lines).iter().map(|&k| lines[k].time).collect();
        assert_eq!(times.len(), 26);
        assert!(!lines[96].kept && lines[96].reason == FrameReason::Blurred);
        select_frames(&mut lines, &wanted(SelectBy::Time, Some(4)), None);
        assert_eq!(kept(&lines).len(), 4);
    }

    #[test]
    fn where_nothing_is_known_of_the_motion_time_stands_for_it() {
        let mut lines = film(240, |_| 0.0);
        for line in &mut lines {
            (line.parallax, line.reference) = (None, 0);
        }
        select_frames(&mut lines, &wanted(SelectBy::Space, None), None);
        let count = kept(&lines).len();
        assert!((20..=21).contains(&count), "{count}");
        // A loss of three frames changes nothing.
        let mut lines = film(64, |k| 0.5 * k as f64);
        for line in &mut lines[20..23] {
            (line.parallax, line.path) = (None, 9.5);
        }
        for line in &mut lines[23..26] {
            line.reference = 19;
        }
        select_frames(&mut lines, &wanted(SelectBy::Space, None), None);
        assert_eq!(kept(&lines), [0, 8, 16, 24, 32, 40, 48, 56, 63]);
    }

    #[test]
    fn an_ordinary_lens_that_turns_sees_something_new() {
        let mut lines = film(240, |_| 0.0);
        for line in &mut lines[1..] {
            line.rotation = Some([0.0, 0.5, 0.0]);
        }
        let turn = rotation_step(false, [1920, 1080]).unwrap();
        assert!((8.0..14.0).contains(&turn), "{turn}");
        select_frames(&mut lines, &wanted(SelectBy::Space, None), Some(turn));
        assert_eq!(kept(&lines).len(), (119.5 / turn) as usize + 1);
        select_frames(&mut lines, &wanted(SelectBy::Space, None), None);
        assert_eq!((kept(&lines).len(), lines[100].reason), (1, FrameReason::Turning));
    }
}
