//! Resamples between the sphere and the pixels of images in any projection.

use std::sync::atomic::AtomicBool;

use gausset_compute::Pool;
use gausset_compute::fearless_simd::Level;
use gausset_jpeg::colour::rgb_from_ycbcr;
use gausset_pano::convert::{self, DecodedFrame, OutputContext};
use gausset_pano::cutter::Format;
use gausset_pano::geometry::equirect_from_direction;
use gausset_pano::plane::{Frame, Plane};
use gausset_pano::projection::{Equirect, Projection};
use gausset_pano::sphere_mask::SphereMask;
use gausset_pano::unproject::Unprojection;

/// The mask of an image at its size. Pixels that do not show the sphere are kept.
pub(super) fn mask_of(sphere: &SphereMask, projection: &Projection) -> (Vec<u8>, [usize; 2]) {
    let [w, h] = projection.source_image_size().map(|side| side as usize);
    if sphere.data.iter().all(|&keep| keep == 255) {
        return (vec![255; w * h], [w, h]);
    }
    let mut out = Vec::with_capacity(w * h);
    if let Projection::Equirect(equirect) = projection {
        let scale = [sphere.width as f64 / equirect.full_width, sphere.height as f64 / equirect.full_height];
        for y in 0..h {
            let v = ((y as f64 + 0.5 + equirect.top) * scale[1]) as f32;
            for x in 0..w {
                let u = ((x as f64 + 0.5 + equirect.left) * scale[0]) as f32;
                out.push((sphere.sample(u, v) + 0.5) as u8);
            }
        }
        return (out, [w, h]);
    }
    let shown = Unprojection::new(projection);
    for k in 0..w * h {
        let direction = shown.direction((k % w) as f64 + 0.5, (k / w) as f64 + 0.5);
        out.push(direction.map_or(255, |direction| {
            let [u, v] = equirect_from_direction(direction, sphere.width as f64, sphere.height as f64);
            (sphere.sample(u as f32, v as f32) + 0.5) as u8
        }));
    }
    (out, [w, h])
}

/// Luma of a frame as a panorama; `None` if asked to stop.
pub(super) fn luma(
    moment: &DecodedFrame,
    [width, height]: [usize; 2],
    (level, stop): (Level, &AtomicBool),
) -> Option<Vec<u8>> {
    if let Projection::Equirect(equirect) = &moment.projection {
        return Some(reduce_plane(&moment.frame.planes[0], equirect, [width, height]));
    }
    let pool = Pool::new(1);
    let writing = OutputContext { format: Format::Png, level, pool: &pool, stop, segments: &[] };
    let frame = convert::to_panorama(moment, width as u32, writing).ok()?;
    Some(reduce_plane(&frame.planes[0], &Equirect::whole(width as u32, width as u32 / 2), [width, height]))
}

/// Reduces a plane to a panorama: each pixel is the mean of the pixels it covers.
fn reduce_plane(plane: &Plane, equirect: &Equirect, [width, height]: [usize; 2]) -> Vec<u8> {
    let scale = [equirect.full_width / width as f64, equirect.full_height / height as f64];
    let mut out = vec![128; width * height];
    let range = |k: usize, scale: f64, first: f64, count: usize| {
        let start = (k as f64 * scale - first).floor();
        let end = ((k + 1) as f64 * scale - first).ceil().max(start + 1.0);
        (start.max(0.0) as usize).min(count)..(end.max(0.0) as usize).min(count)
    };
    for (y, row) in out.chunks_exact_mut(width).enumerate() {
        let rows = range(y, scale[1], equirect.top, plane.height);
        for (x, out) in row.iter_mut().enumerate() {
            let columns = range(x, scale[0], equirect.left, plane.width);
            let of_row = |y: usize| {
                plane.row(y as i32)[columns.clone()].iter().map(|&v| usize::from(v)).sum::<usize>()
            };
            let sum = rows.clone().map(of_row).sum::<usize>();
            // Directions outside the image stay grey.
            if let Some(mean) = sum.checked_div(rows.len() * columns.len()) {
                *out = mean as u8;
            }
        }
    }
    out
}

/// The pixels of an image as RGB.
pub(super) fn rgb_of(moment: &DecodedFrame) -> Vec<u8> {
    let frame = &moment.frame;
    let (width, height) = (frame.planes[0].width, frame.planes[0].height);
    if let Projection::Cube(_) = &moment.projection {
        // The frame stores the faces; map each pixel of the image to its face.
        let [w, h] = moment.projection.source_image_size().map(|side| side as usize);
        let shown = Unprojection::new(&moment.projection);
        let pixel = |k: usize| {
            let direction = shown.direction((k % w) as f64 + 0.5, (k / w) as f64 + 0.5)?;
            let place = moment.projection.project(direction);
            Some(rgb_at(frame, (place.u as usize).min(width - 1), (place.v as usize).min(height - 1)))
        };
        return (0..w * h).flat_map(|k| pixel(k).unwrap_or([0; 3])).collect();
    }
    (0..width * height).flat_map(|k| rgb_at(frame, k % width, k / width)).collect()
}

fn rgb_at(frame: &Frame, x: usize, y: usize) -> [u8; 3] {
    let luma = &frame.planes[0];
    let at = |index: usize| {
        let plane = &frame.planes[index];
        plane.row((y * plane.height / luma.height) as i32)[x * plane.width / luma.width]
    };
    if frame.planes.len() < 3 { [at(0); 3] } else { rgb_from_ycbcr([at(0), at(1), at(2)]) }
}
