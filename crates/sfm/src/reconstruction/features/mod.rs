//! SIFT keypoints and descriptors (Lowe 2004) of the views of a panorama, as bearings on the sphere.
//!
//! Where views overlap, features are taken from the view whose axis is nearest, which has the least distortion there;
//! the rest of a view is skipped. If there are too many features, the largest are kept, as they are the most
//! repeatable.

mod describe;
mod keypoints;
mod scale_space;

use gausset_compute::fearless_simd::Level;

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
    let grey = GreyImage::from_rgb(&picture.rgb, width, [left, top, right, bottom]);
    let space = ScaleSpace::new(&grey, level);
    let view = &views[index];
    let place = |keypoint: &Keypoint| {
        let [x, y] = keypoint.position();
        [x + left as f64, y + top as f64]
    };
    let is_wanted = |keypoint: &Keypoint| {
        let [x, y] = place(keypoint);
        let pixel = (y as usize).min(height - 1) * width + (x as usize).min(width - 1);
        picture.mask.as_ref().is_none_or(|keep| keep[pixel] != 0)
            && nearest_view(views, view.bearing([x, y])) == index
    };
    let mut keypoints = keypoints::detect(&space, level);
    keypoints.retain(is_wanted);
    // The sort is stable: of keypoints of equal size, the upper ones come first.
    keypoints.sort_by(|a, b| b.size().total_cmp(&a.size()));
    keypoints.truncate(limit);
    let mut found = Features::default();
    let mut gradients: Option<Gradients> = None;
    for keypoint in &keypoints {
        // Keypoints come in order of size, so each plane of gradients is computed once or twice.
        if gradients.as_ref().is_none_or(|known| !known.is_of(keypoint)) {
            gradients = Some(Gradients::new(&space, keypoint, level));
        }
        let Some(gradients) = &gradients else { continue };
        let [x, y] = place(keypoint);
        let pixel = (y as usize).min(height - 1) * width + (x as usize).min(width - 1);
        for angle in gradients.orientations(keypoint) {
            if found.features.len() == limit {
                return found;
            }
            found.descriptors.push(gradients.describe(keypoint, angle));
            found.features.push(Feature {
                bearing: view.bearing([x, y]),
                view: index as u16,
                pixel: [x, y],
                size: keypoint.size() as f32,
                colour: [0, 1, 2].map(|k| picture.rgb[3 * pixel + k]),
            });
        }
    }
    found
}
