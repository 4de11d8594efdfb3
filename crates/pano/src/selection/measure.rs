//! The first pass: every frame of a film, small and grey, in order.

use std::sync::atomic::{AtomicBool, Ordering};

use super::record::Line;
use crate::geometry::direction_from_equirect;
use crate::motion::{Grey, Optics, Scout};
use crate::projection::Projection;
use crate::video::{Times, Video, VideoError};

/// Longer side of the pictures that are measured, px.
const SIDE: u32 = 960;

/// What the frames of a film show.
#[derive(Clone, Debug, PartialEq)]
pub enum Shows {
    /// Panoramas of the whole sphere.
    Sphere,
    /// The sphere in another way: both streams of a GoPro MAX, two fisheye circles. It is unfolded to panoramas.
    Folded(Box<Projection>),
    /// What an ordinary lens sees.
    Pinhole,
}

impl Shows {
    /// Size of the small pictures that ffmpeg makes of frames of this size.
    fn stored_size(&self, [width, height]: [u32; 2]) -> [u32; 2] {
        let longer = width.max(height).max(1);
        let scaled = |side: u32| {
            let side = (u64::from(side) * u64::from(SIDE.min(longer)) / u64::from(longer)) as u32;
            (side & !1).max(16)
        };
        match self {
            Self::Sphere => {
                let width = width.clamp(32, SIDE) / 4 * 4;
                [width, width / 2]
            }
            Self::Folded(projection) => match **projection {
                Projection::Eac(_) => [width / 4, height / 4],
                _ => [scaled(width), scaled(height)],
            },
            Self::Pinhole => [scaled(width), scaled(height)],
        }
    }
}

/// Size of the pictures that are measured, of frames of this size.
#[must_use]
pub fn small_size(shows: &Shows, size: [u32; 2]) -> [u32; 2] {
    match shows {
        Shows::Folded(_) => [SIDE, SIDE / 2],
        other => other.stored_size(size),
    }
}

/// Measures the frames of a film between start and end; `tell` gets how many are done. What stopped early has fewer
/// lines.
///
/// # Errors
/// ffmpeg or ffprobe fails.
pub fn measure(
    video: &Video,
    shows: &Shows,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(usize),
) -> Result<(Vec<Line>, Times), VideoError> {
    let times = video.times(stop)?;
    let stored = shows.stored_size(video.size);
    let [width, height] = small_size(shows, video.size).map(|side| side as usize);
    let optics = match shows {
        Shows::Pinhole => Optics::pinhole(width, height),
        Shows::Sphere | Shows::Folded(_) => Optics::sphere(width, height),
    };
    let unfolded = match shows {
        Shows::Folded(folded) => Some(Unfolded::new(folded, stored, [width, height])),
        Shows::Sphere | Shows::Pinhole => None,
    };
    let mut reader = video.start_small(stored, true, stop)?;
    let mut scout = Scout::new(optics);
    let (mut raw, mut picture) = (Vec::new(), Grey::default());
    let mut done = 0;
    while !stop.load(Ordering::Relaxed) && reader.read(video, &mut raw)? {
        (picture.width, picture.height) = (width, height);
        match &unfolded {
            Some(unfolded) => unfolded.apply(&raw, &mut picture),
            None => std::mem::swap(&mut picture.data, &mut raw),
        }
        scout.look(&mut picture);
        done += 1;
        tell(done);
    }
    let lines = scout.finish().iter().enumerate().map(|(k, sight)| Line::of(k, times.of(k), sight)).collect();
    Ok((lines, times))
}

/// Where each pixel of a panorama is in the pictures of the source: the first of four neighbours, and two fractions of 256.
struct Unfolded {
    places: Vec<(u32, [u16; 2])>,
    stride: usize,
}

impl Unfolded {
    fn new(folded: &Projection, [w, h]: [u32; 2], [width, height]: [usize; 2]) -> Self {
        let canvas = folded.canvas();
        let scale = [f64::from(w) / f64::from(canvas[0]), f64::from(h) / f64::from(canvas[1])];
        let place = |at: usize| {
            let (x, y) = ((at % width) as f64 + 0.5, (at / width) as f64 + 0.5);
            let place = folded.place(direction_from_equirect(x, y, width as f64, height as f64));
            let index = |v: f64, side: u32| (v - 0.5).clamp(0.0, f64::from(side) - 1.001);
            // Of two lenses that see it, the one that sees it better.
            let [u, v] = match place.second {
                Some((other, share)) if share > 0.5 => other,
                _ => [place.u, place.v],
            };
            let (u, v) = (index(u * scale[0], w), index(v * scale[1], h));
            let fraction = |v: f64| (256.0 * (v - libm::floor(v))) as u16;
            (libm::floor(v) as u32 * w + libm::floor(u) as u32, [fraction(u), fraction(v)])
        };
        Self { places: (0..width * height).map(place).collect(), stride: w as usize }
    }

    fn apply(&self, raw: &[u8], picture: &mut Grey) {
        picture.data.resize(self.places.len(), 0);
        for (out, &(at, [fu, fv])) in picture.data.iter_mut().zip(&self.places) {
            let at = at as usize;
            let pair = |at: usize| {
                let (a, b) = (u32::from(raw[at]), u32::from(raw[at + 1]));
                a * (256 - u32::from(fu)) + b * u32::from(fu)
            };
            let (upper, lower) = (pair(at), pair(at + self.stride));
            *out = ((upper * (256 - u32::from(fv)) + lower * u32::from(fv) + (1 << 15)) >> 16) as u8;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_are_small_and_keep_their_shape() {
        assert_eq!(small_size(&Shows::Sphere, [3840, 1920]), [960, 480]);
        assert_eq!(small_size(&Shows::Sphere, [64, 32]), [64, 32]);
        assert_eq!(small_size(&Shows::Pinhole, [1920, 1080]), [960, 540]);
        assert_eq!(small_size(&Shows::Pinhole, [1080, 1921]), [538, 960]);
        assert_eq!(small_size(&Shows::Pinhole, [34, 25]), [34, 24]);
    }
}
