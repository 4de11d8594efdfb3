//! SIFT keypoints and descriptors (Lowe 2004) of the views of a panorama, as bearings on the sphere.
//!
//! Where views overlap, features are taken from the view whose axis is nearest, which has the least distortion there;
//! the rest of a view is skipped. If there are too many features, the largest are kept, as they are the most
//! repeatable.

mod describe;
mod keypoints;
mod scale_space;

use gausset_compute::fearless_simd::Level;

use crate::reconstruction::picture::PictureCamera;
use crate::reconstruction::view::{PanoView, nearest_region, nearest_view};
use describe::Gradients;
use keypoints::Keypoint;
use scale_space::{GreyImage, ScaleSpace};

/// Number of elements of a descriptor.
pub const DESCRIPTOR_LENGTH: usize = 128;

/// Image of a view.
#[derive(Clone, Debug)]
pub struct ViewImage {
    /// Width of the image, px.
    pub width: u32,
    /// Height of the image, px.
    pub height: u32,
    /// `height × width × 3`.
    pub rgb: Vec<u8>,
    /// Mask, `height × width`; 0 = no features here. `None` = features everywhere.
    pub mask: Option<Vec<u8>>,
}

/// A feature of a panorama.
#[derive(Clone, Debug, PartialEq)]
pub struct Feature {
    /// Unit direction in the axes of the panorama.
    pub bearing: [f64; 3],
    /// Index of the view.
    pub view: u16,
    /// Position in the view, continuous px.
    pub pixel: [f64; 2],
    /// Size, px of the view (the standard deviation of its Gaussian).
    pub size: f32,
    /// Colour of the image at that position.
    pub colour: [u8; 3],
}

/// Features of a view or of a panorama, with their descriptors at the same indices.
#[derive(Clone, Debug, Default)]
pub struct Features {
    /// Directions, positions, sizes and colours.
    pub features: Vec<Feature>,
    /// Square roots of normalised gradient histograms (RootSIFT: Arandjelović and Zisserman 2012), of norm 512.
    pub descriptors: Vec<[u8; DESCRIPTOR_LENGTH]>,
}

impl Features {
    /// Appends the features of another view.
    pub fn append(&mut self, mut other: Self) {
        self.features.append(&mut other.features);
        self.descriptors.append(&mut other.descriptors);
    }
}

/// Extracts the features of one view; at most `limit`.
#[must_use]
pub fn extract(
    views: &[PanoView],
    index: usize,
    picture: &ViewImage,
    limit: usize,
    level: Level,
) -> Features {
    /// Margin around the rectangle of the view, px, that the descriptors near its border need.
    const MARGIN: usize = 40;
    let (width, height) = (picture.width as usize, picture.height as usize);
    let [left, top, right, bottom] = nearest_region(views, index);
    let (left, top) = (left.saturating_sub(MARGIN), top.saturating_sub(MARGIN));
    let (right, bottom) = ((right + MARGIN).min(width), (bottom + MARGIN).min(height));
    if right < left + 16 || bottom < top + 16 {
        return Features::default();
    }
    let view = &views[index];
    let lens = Lens {
        bearing: &|pixel| view.bearing(pixel),
        is_wanted: &|pixel| nearest_view(views, view.bearing(pixel)) == index,
        view: index as u16,
    };
    extract_region(picture, [left, top, right, bottom], &lens, limit, level, |keypoints| {
        // The sort is stable: of keypoints of equal size, the upper ones come first.
        keypoints.sort_by(|a, b| b.size().total_cmp(&a.size()));
        keypoints.truncate(limit);
    })
}

/// Extracts the features of a picture; at most `limit`, the largest of each part of the picture. `scale` = size of the
/// stored picture, whose positions features have, relative to this one.
#[must_use]
pub fn extract_from_picture(
    picture: &ViewImage,
    camera: &PictureCamera,
    scale: f64,
    limit: usize,
    level: Level,
) -> Features {
    if picture.width < 16 || picture.height < 16 {
        return Features::default();
    }
    let lens = Lens { bearing: &|_| [0.0, 0.0, 1.0], is_wanted: &|_| true, view: 0 };
    let size = [picture.width as usize, picture.height as usize];
    let mut found = extract_region(picture, [0, 0, size[0], size[1]], &lens, limit, level, |keypoints| {
        keep_spread(keypoints, size, limit);
    });
    for feature in &mut found.features {
        feature.pixel = feature.pixel.map(|v| scale * v);
        feature.size *= scale as f32;
        feature.bearing = camera.bearing(feature.pixel);
    }
    found
}

/// Keeps at most `limit` keypoints, by rank in size within cells of the picture, so that a textured part does not take
/// all. Sorts them by size.
fn keep_spread(keypoints: &mut Vec<Keypoint>, [width, height]: [usize; 2], limit: usize) {
    /// Cells along a side.
    const CELLS: usize = 8;
    keypoints.sort_by(|a, b| b.size().total_cmp(&a.size()));
    if keypoints.len() <= limit {
        return;
    }
    let mut counts = [0usize; CELLS * CELLS];
    let mut ranked: Vec<(usize, usize)> = keypoints
        .iter()
        .enumerate()
        .map(|(at, keypoint)| {
            let [x, y] = keypoint.position();
            let cell = |v: f64, side: usize| ((v * CELLS as f64 / side as f64) as usize).min(CELLS - 1);
            let count = &mut counts[cell(y, height) * CELLS + cell(x, width)];
            *count += 1;
            (*count, at)
        })
        .collect();
    ranked.sort_unstable();
    ranked.truncate(limit);
    let mut chosen: Vec<usize> = ranked.into_iter().map(|(_, at)| at).collect();
    chosen.sort_unstable();
    *keypoints = chosen.into_iter().map(|at| keypoints[at]).collect();
}

/// Where features are looked for, and their bearings.
struct Lens<'a> {
    bearing: &'a dyn Fn([f64; 2]) -> [f64; 3],
    is_wanted: &'a dyn Fn([f64; 2]) -> bool,
    view: u16,
}

/// Extracts the features of a rectangle `[left, top, right, bottom]`. `select` sorts the keypoints by size and limits
/// their number.
fn extract_region(
    picture: &ViewImage,
    [left, top, right, bottom]: [usize; 4],
    lens: &Lens<'_>,
    limit: usize,
    level: Level,
    select: impl FnOnce(&mut Vec<Keypoint>),
) -> Features {
    let (width, height) = (picture.width as usize, picture.height as usize);
    let grey = GreyImage::from_rgb(&picture.rgb, width, [left, top, right, bottom]);
    let space = ScaleSpace::new(&grey, level);
    let place = |keypoint: &Keypoint| {
        let [x, y] = keypoint.position();
        [x + left as f64, y + top as f64]
    };
    let is_wanted = |keypoint: &Keypoint| {
        let [x, y] = place(keypoint);
        let pixel = (y as usize).min(height - 1) * width + (x as usize).min(width - 1);
        picture.mask.as_ref().is_none_or(|keep| keep[pixel] != 0) && (lens.is_wanted)([x, y])
    };
    let mut keypoints = keypoints::detect(&space, level);
    keypoints.retain(is_wanted);
    select(&mut keypoints);
    let mut found = Features::default();
    // Keypoints come in order of size, and sizes of an octave and the next overlap: with the last two planes, each is
    // computed once or twice.
    let mut planes: [Option<Gradients>; 2] = [None, None];
    for keypoint in &keypoints {
        let is_known = |plane: &Option<Gradients>| plane.as_ref().is_some_and(|plane| plane.is_of(keypoint));
        if !is_known(&planes[0]) {
            planes.swap(0, 1);
            if !is_known(&planes[0]) {
                planes[0] = Some(Gradients::new(&space, keypoint, level));
            }
        }
        let Some(gradients) = &planes[0] else { continue };
        let [x, y] = place(keypoint);
        let pixel = (y as usize).min(height - 1) * width + (x as usize).min(width - 1);
        for angle in gradients.orientations(keypoint) {
            if found.features.len() == limit {
                return found;
            }
            found.descriptors.push(gradients.describe(keypoint, angle));
            found.features.push(Feature {
                bearing: (lens.bearing)([x, y]),
                view: lens.view,
                pixel: [x, y],
                size: keypoint.size() as f32,
                colour: [0, 1, 2].map(|k| picture.rgb[3 * pixel + k]),
            });
        }
    }
    found
}
