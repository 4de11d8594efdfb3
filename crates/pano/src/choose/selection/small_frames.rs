//! The frames of a video as small images; other projections of the sphere become panoramas.

use std::sync::atomic::AtomicBool;

use gausset_jpeg::plane::Plane;

use crate::source::video::{ReducedReader, Video, VideoError};
use crate::sphere::cube::{Cube, Faces};
use crate::sphere::geometry::direction_from_equirect;
use crate::sphere::projection::Projection;

/// Longer side of the measured images, px.
const SIDE: u32 = 960;

/// Projection of the frames of a video.
#[derive(Clone, Debug, PartialEq)]
pub enum FrameContent {
    /// Equirectangular panoramas of the whole sphere.
    Sphere,
    /// Another projection of the sphere, which is converted to panoramas: the two streams of a GoPro MAX, two fisheye
    /// circles, or a cube.
    Projected(Box<Projection>),
    /// Images of an ordinary lens.
    Pinhole,
}

impl FrameContent {
    /// Size to which ffmpeg scales the frames, from which small images of size `wanted` are made.
    fn stored_size(&self, [width, height]: [u32; 2], wanted: [u32; 2]) -> [u32; 2] {
        let Self::Projected(projection) = self else { return wanted };
        match &**projection {
            // A face has the resolution of the panorama in its middle, never more than the source; faces begin at whole
            // pixels.
            Projection::Cube(cube) => {
                let faces = &cube.faces;
                let side = faces.side.min(wanted[0] / 3).max(16) & !1;
                let [across, down] = faces.size().map(|size| size / faces.side);
                [across * side, down * side]
            }
            Projection::Eac(_) => [width, height].map(|side| scaled_even(side, wanted[0], 4 * SIDE)),
            Projection::Equirect(_) | Projection::Fisheye(_) => {
                let longer = width.max(height).max(1);
                [width, height].map(|side| scaled_even(side, wanted[0].min(longer), longer))
            }
        }
    }
}

/// `side · share / of`, rounded down to an even number, 16 px at least.
fn scaled_even(side: u32, share: u32, of: u32) -> u32 {
    let side = (u64::from(side) * u64::from(share) / u64::from(of)) as u32;
    (side & !1).max(16)
}

/// Size of the measured images for frames of this size, px.
#[must_use]
pub fn small_size(shows: &FrameContent, [width, height]: [u32; 2]) -> [u32; 2] {
    match shows {
        FrameContent::Projected(_) => [SIDE, SIDE / 2],
        FrameContent::Sphere => {
            let width = width.clamp(32, SIDE) / 4 * 4;
            [width, width / 2]
        }
        FrameContent::Pinhole => {
            let longer = width.max(height).max(1);
            [width, height].map(|side| scaled_even(side, SIDE.min(longer), longer))
        }
    }
}

/// Reads all frames of a video between start and end as small images.
pub struct SmallFrames<'a> {
    reader: ReducedReader<'a>,
    unfolded: Option<PanoramaMap>,
    raw: Vec<u8>,
    /// 1 = grey, 3 = RGB.
    channels: usize,
}

impl<'a> SmallFrames<'a> {
    /// Starts ffmpeg. Images have the given size, grey or RGB.
    ///
    /// # Errors
    /// ffmpeg cannot be started.
    pub fn start(
        video: &Video,
        shows: &FrameContent,
        size: [u32; 2],
        is_grey: bool,
        stop: &'a AtomicBool,
    ) -> Result<Self, VideoError> {
        let stored = shows.stored_size(video.size, size);
        let unfolded = match shows {
            FrameContent::Projected(folded) => {
                Some(PanoramaMap::new(folded, stored, size.map(|side| side as usize)))
            }
            FrameContent::Sphere | FrameContent::Pinhole => None,
        };
        let reader = video.start_reduced(stored, is_grey, stop)?;
        Ok(Self { reader, unfolded, raw: Vec::new(), channels: if is_grey { 1 } else { 3 } })
    }

    /// Reads the next image; returns false at the end. `video` must be the one given to [`Self::start`].
    ///
    /// # Errors
    /// As [`ReducedReader::read_image`].
    pub fn read(&mut self, video: &Video, picture: &mut Vec<u8>) -> Result<bool, VideoError> {
        let Some(unfolded) = &mut self.unfolded else { return self.reader.read_image(video, picture) };
        if !self.reader.read_image(video, &mut self.raw)? {
            return Ok(false);
        }
        picture.resize(unfolded.taps.len() * self.channels, 0);
        for channel in 0..self.channels {
            unfolded.sample_channel(&self.raw, [channel, self.channels], picture);
        }
        Ok(true)
    }
}

/// Sampling map of a panorama: for each pixel the index of the upper left of four source pixels, and two fractions in
/// 1/256.
struct PanoramaMap {
    taps: Vec<(u32, [u16; 2])>,
    /// Pixels from one row of the source to the next.
    stride: usize,
    /// For cubes: the cube with small faces, and buffers for one channel of the stored image and of the folded canvas.
    cube: Option<(Cube, Plane, Plane)>,
}

impl PanoramaMap {
    fn new(folded: &Projection, stored: [u32; 2], [width, height]: [usize; 2]) -> Self {
        let small = match folded {
            Projection::Cube(Cube { faces }) => {
                let side = stored[0] / faces.columns;
                Some(Cube { faces: Faces { side, ..faces.clone() } })
            }
            _ => None,
        };
        let cube = small.map(|cube| {
            let (mut picture, mut canvas) = (Plane::default(), Plane::default());
            let [w, h] = stored.map(|side| side as usize);
            picture.reshape(w, h, [0, h as i32]);
            cube.fold_plane(&picture, &mut canvas);
            (cube, picture, canvas)
        });
        let ([w, h], stride, folded) = match &cube {
            Some((cube, _, canvas)) => (cube.canvas_size(), canvas.stride, &Projection::Cube(cube.clone())),
            None => (stored, stored[0] as usize, folded),
        };
        let canvas = folded.canvas_size();
        let scale = [f64::from(w) / f64::from(canvas[0]), f64::from(h) / f64::from(canvas[1])];
        let place = |at: usize| {
            let (x, y) = ((at % width) as f64 + 0.5, (at / width) as f64 + 0.5);
            let place = folded.project(direction_from_equirect(x, y, width as f64, height as f64));
            let index = |v: f64, side: u32| (v - 0.5).clamp(0.0, f64::from(side) - 1.001);
            // Where both lenses see the direction, take the one with the larger weight.
            let [u, v] = match place.second {
                Some((other, share)) if share > 0.5 => other,
                _ => [place.u, place.v],
            };
            let (u, v) = (index(u * scale[0], w), index(v * scale[1], h));
            let fraction = |v: f64| (256.0 * (v - libm::floor(v))) as u16;
            let first = libm::floor(v) as usize * stride + libm::floor(u) as usize;
            (first as u32, [fraction(u), fraction(v)])
        };
        let places = (0..width * height).map(place).collect();
        Self { taps: places, stride, cube }
    }

    /// Samples channel `channel` of `channels` of an image.
    fn sample_channel(&mut self, raw: &[u8], [channel, channels]: [usize; 2], picture: &mut [u8]) {
        let (samples, channel_in_samples, step) = match &mut self.cube {
            Some((cube, stored, canvas)) => {
                let rows = raw.chunks_exact(stored.width * channels).enumerate();
                for (y, row) in rows.take(stored.height) {
                    let samples = row.iter().skip(channel).step_by(channels);
                    stored.row_mut(y as i32).iter_mut().zip(samples).for_each(|(to, from)| *to = *from);
                }
                cube.fold_plane(stored, canvas);
                (canvas.data.as_slice(), 0, 1)
            }
            None => (raw, channel, channels),
        };
        let out = picture.iter_mut().skip(channel).step_by(channels);
        for (out, &(at, [fu, fv])) in out.zip(&self.taps) {
            let at = at as usize * step + channel_in_samples;
            let pair = |at: usize| {
                let (a, b) = (u32::from(samples[at]), u32::from(samples[at + step]));
                a * (256 - u32::from(fu)) + b * u32::from(fu)
            };
            let (upper, lower) = (pair(at), pair(at + self.stride * step));
            *out = ((upper * (256 - u32::from(fv)) + lower * u32::from(fv) + (1 << 15)) >> 16) as u8;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sphere::cube::{CubeLayout, StripOrder};
    use crate::sphere::eac::Eac;

    #[test]
    fn pictures_are_small_and_keep_their_shape() {
        assert_eq!(small_size(&FrameContent::Sphere, [3840, 1920]), [960, 480]);
        assert_eq!(small_size(&FrameContent::Sphere, [64, 32]), [64, 32]);
        assert_eq!(small_size(&FrameContent::Pinhole, [1920, 1080]), [960, 540]);
        assert_eq!(small_size(&FrameContent::Pinhole, [1080, 1921]), [538, 960]);
        assert_eq!(small_size(&FrameContent::Pinhole, [34, 25]), [34, 24]);
        // Faces begin at whole pixels.
        let faces = Faces::new(CubeLayout::Strip3x2, StripOrder::default(), 512);
        let cube = FrameContent::Projected(Box::new(Projection::Cube(Cube { faces })));
        assert_eq!(small_size(&cube, [1536, 1024]), [960, 480]);
        assert_eq!(cube.stored_size([1536, 1024], [960, 480]), [960, 640]);
        let streams =
            FrameContent::Projected(Box::new(Projection::Eac(Eac::from_stream_size(4096, 1344).unwrap())));
        assert_eq!(streams.stored_size([4096, 2688], [960, 480]), [1024, 672]);
    }
}
