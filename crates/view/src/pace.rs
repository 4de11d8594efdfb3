//! How large and how good a frame may be that one of many is: so that it takes at most [`FRAME_MS`].

use std::time::Duration;

use gausset_core::Camera;

/// A frame while something moves takes at most so long, drawn and encoded, ms.
pub(crate) const FRAME_MS: f64 = 33.0;
/// What is aimed at, a little below.
const AIM_MS: f64 = 0.8 * FRAME_MS;
/// Smallest share of a side: below it most of the time is what does not depend on the pixels, and nothing can be made out.
const SMALLEST: f64 = 0.3;
/// Above this round trip a link is slow, and a second frame is sent before the first has arrived.
const FAST_LINK: Duration = Duration::from_millis(25);

/// What was measured of one page.
#[derive(Debug)]
pub(crate) struct Pace {
    /// Share of the width and height that is drawn while something moves.
    scale: f64,
    /// Round trip from sending a frame to its acknowledgement, smoothed.
    round_trip: Option<Duration>,
}

impl Default for Pace {
    fn default() -> Self {
        Self { scale: 0.7, round_trip: None }
    }
}

impl Pace {
    /// The camera of a frame while something moves.
    pub(crate) fn reduced(&self, camera: &Camera) -> Camera {
        let side = |side: u32| ((f64::from(side) * self.scale).round() as u32).clamp(1, side);
        camera.resized(side(camera.width), side(camera.height))
    }

    /// JPEG quality of such a frame.
    pub(crate) fn quality(&self) -> u8 {
        if self.round_trip.is_some_and(|time| time > FAST_LINK) { 50 } else { 70 }
    }

    /// Such a frame has taken so long. The cost has a part that does not shrink with the pixels, so it is tried again
    /// rather than computed: by the square root of what is too much, and slowly upwards.
    pub(crate) fn measured(&mut self, ms: f64) {
        let factor = (AIM_MS / ms.max(0.1)).sqrt().clamp(0.6, 1.08);
        self.scale = (self.scale * factor).clamp(SMALLEST, 1.0);
    }

    /// A frame was acknowledged so long after it was sent.
    pub(crate) fn acknowledged(&mut self, after: Duration) {
        self.round_trip = Some(self.round_trip.map_or(after, |before| (before * 3 + after) / 4));
    }

    /// Most frames that may be under way: one where the answer comes at once, up to three on a slow link, which would
    /// otherwise stand idle for a round trip after each.
    pub(crate) fn window(&self) -> usize {
        match self.round_trip {
            Some(time) if time > 3 * FAST_LINK => 3,
            Some(time) if time > FAST_LINK => 2,
            _ => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_shrink_until_they_are_fast_enough_and_grow_back() {
        let camera = Camera::new(1280, 720, 900.0, 900.0, 640.0, 360.0).unwrap();
        // 10 ms that do not depend on the size, and 60 ms per full picture.
        let cost = |scale: f64, ms: f64| 10.0 + ms * scale * scale;
        let mut pace = Pace::default();
        (0..60).for_each(|_| pace.measured(cost(pace.scale, 60.0)));
        let slow = cost(pace.scale, 60.0);
        assert!(slow <= FRAME_MS && slow > 0.6 * FRAME_MS, "{slow}");
        assert!(pace.reduced(&camera).width < 1000);
        (0..60).for_each(|_| pace.measured(cost(pace.scale, 2.0)));
        assert_eq!(pace.reduced(&camera), camera);
        (0..60).for_each(|_| pace.measured(1e9));
        assert!(pace.reduced(&camera).width >= 256);
    }

    #[test]
    fn a_slow_link_has_more_frames_under_way() {
        let window = |ms| {
            let mut pace = Pace::default();
            pace.acknowledged(Duration::from_millis(ms));
            pace.window()
        };
        assert_eq!((Pace::default().window(), window(5), window(50), window(120)), (1, 1, 2, 3));
    }
}
