//! Size and quality of the frames of a moving view, so that each takes at most [`FRAME_MS`].

use std::time::Duration;

use gausset_core::Camera;

/// Time limit for rendering and encoding a frame of a moving view, ms.
pub(crate) const FRAME_MS: f64 = 33.0;
/// Target time, slightly below the limit.
const TARGET_MS: f64 = 0.8 * FRAME_MS;
/// Smallest scale of a side. Below it, the time hardly depends on the pixels, and the image is unreadable.
const MIN_SCALE: f64 = 0.3;
/// A link with a longer round trip is slow: a second frame is sent before the first has arrived.
const FAST_ROUND_TRIP: Duration = Duration::from_millis(25);

/// Measurements of one page.
#[derive(Debug)]
pub(crate) struct FramePacing {
    /// Scale of width and height of the frames of a moving view.
    scale: f64,
    /// Round trip from sending a frame to its acknowledgement, smoothed.
    round_trip: Option<Duration>,
}

impl Default for FramePacing {
    fn default() -> Self {
        Self { scale: 0.7, round_trip: None }
    }
}

impl FramePacing {
    /// The camera of a frame of a moving view.
    pub(crate) fn scaled_camera(&self, camera: &Camera) -> Camera {
        let side = |side: u32| ((f64::from(side) * self.scale).round() as u32).clamp(1, side);
        camera.resized(side(camera.width), side(camera.height))
    }

    /// JPEG quality of such a frame.
    pub(crate) fn quality(&self) -> u8 {
        if self.round_trip.is_some_and(|time| time > FAST_ROUND_TRIP) { 50 } else { 70 }
    }

    /// Updates the scale from the time of such a frame. Part of the time does not depend on the pixels, so the scale is
    /// found by iteration: it changes by the square root of the excess, and grows slowly.
    pub(crate) fn add_frame_time(&mut self, ms: f64) {
        let factor = (TARGET_MS / ms.max(0.1)).sqrt().clamp(0.6, 1.08);
        self.scale = (self.scale * factor).clamp(MIN_SCALE, 1.0);
    }

    /// Updates the round trip from the time between sending and acknowledgement.
    pub(crate) fn add_round_trip(&mut self, after: Duration) {
        self.round_trip = Some(self.round_trip.map_or(after, |before| (before * 3 + after) / 4));
    }

    /// Largest number of frames in flight: one on a fast link, up to three on a slow one, which would otherwise be idle
    /// for a round trip after each frame.
    pub(crate) fn window(&self) -> usize {
        match self.round_trip {
            Some(time) if time > 3 * FAST_ROUND_TRIP => 3,
            Some(time) if time > FAST_ROUND_TRIP => 2,
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
        // 10 ms that do not depend on the size, and 60 ms for a full-size frame.
        let cost = |scale: f64, ms: f64| 10.0 + ms * scale * scale;
        let mut pace = FramePacing::default();
        (0..60).for_each(|_| pace.add_frame_time(cost(pace.scale, 60.0)));
        let slow = cost(pace.scale, 60.0);
        assert!(slow <= FRAME_MS && slow > 0.6 * FRAME_MS, "{slow}");
        assert!(pace.scaled_camera(&camera).width < 1000);
        (0..60).for_each(|_| pace.add_frame_time(cost(pace.scale, 2.0)));
        assert_eq!(pace.scaled_camera(&camera), camera);
        (0..60).for_each(|_| pace.add_frame_time(1e9));
        assert!(pace.scaled_camera(&camera).width >= 256);
    }

    #[test]
    fn a_slow_link_has_more_frames_under_way() {
        let window = |ms| {
            let mut pace = FramePacing::default();
            pace.add_round_trip(Duration::from_millis(ms));
            pace.window()
        };
        assert_eq!((FramePacing::default().window(), window(5), window(50), window(120)), (1, 1, 2, 3));
    }
}
