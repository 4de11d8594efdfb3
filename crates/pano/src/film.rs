//! Panoramas in motion: a video of the whole sphere.
//!
//! A GoPro MAX `.360` file has its two pictures in two streams, which are stacked. Not tried on `.360` files of a camera;
//! on streams made with ffmpeg it is tested.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::eac::Eac;
use crate::projection::{Equirect, Projection};
use crate::video::{Arrangement, Choice, Video, VideoError, VideoProblem, check_size};

/// A video of panoramas.
#[derive(Clone, Debug, PartialEq)]
pub struct Film {
    /// The video that its frames come from.
    pub video: Video,
    /// Two streams of a GoPro MAX, stacked.
    pub eac: Option<Eac>,
    is_stereo: bool,
}

impl Film {
    /// Looks at a video file. `is_stereo`: top and bottom are two eyes, of which the upper is taken.
    ///
    /// # Errors
    /// As [`Video::open`]; its frames are no panoramas.
    pub fn open(
        path: &Path,
        choice: Choice,
        is_stereo: bool,
        limits: [u32; 2],
        silence: Duration,
        stop: &AtomicBool,
    ) -> Result<Self, VideoError> {
        let video = Video::arranged(path, choice, limits, silence, stop, |streams| {
            let arrangement = match eac_of(streams) {
                Some(_) => Arrangement::Stacked,
                None if is_stereo => Arrangement::UpperHalf,
                None => Arrangement::Whole,
            };
            let size = arrangement.size(streams[0]);
            check_size(size, limits)?;
            if arrangement != Arrangement::Stacked && size[0] != 2 * size[1] {
                return Err(VideoProblem::Shape(size));
            }
            Ok(arrangement)
        })?;
        let [width, height] = video.size;
        let eac =
            (video.arrangement == Arrangement::Stacked).then(|| Eac::of_stream(width, height / 2)).flatten();
        Ok(Self { video, eac, is_stereo })
    }

    /// The same film with at most so many frames, spread evenly over it.
    #[must_use]
    pub fn at_most(self, most: usize) -> Self {
        Self { video: self.video.at_most(most), ..self }
    }

    /// How its frames show the sphere.
    #[must_use]
    pub fn projection(&self) -> Projection {
        let [width, height] = self.video.size;
        self.eac.map_or_else(|| Projection::Equirect(Equirect::whole(width, height)), Projection::Eac)
    }

    /// Which frames are taken: for a hash of the settings, in the words of version 0.1.
    #[must_use]
    pub fn selection(&self) -> String {
        let Self { video, is_stereo, .. } = self;
        let Choice { fps, start, end, sharpest_of } = &video.choice;
        let choice = format!("fps: {fps:?}, start: {start:?}, end: {end:?}, sharpest_of: {sharpest_of}");
        let (frames, periods) = (video.frames, video.periods);
        format!("Choice {{ footage: Panorama, {choice}, is_stereo: {is_stereo} }} {frames} of {periods}")
    }
}

/// The layout of a GoPro MAX file, by the sizes of its streams.
fn eac_of(streams: &[[u32; 2]]) -> Option<Eac> {
    let [first, second, ..] = streams else { return None };
    Eac::of_stream(first[0], first[1]).filter(|_| first == second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_streams_of_a_known_size_are_a_gopro_max() {
        let eac = Eac::of_stream(2272, 736);
        assert_eq!(eac_of(&[[2272, 736], [2272, 736]]), eac);
        assert_eq!(eac_of(&[[2272, 736]]), None);
        assert_eq!(eac_of(&[[2272, 736], [4096, 1344]]), None);
    }
}
