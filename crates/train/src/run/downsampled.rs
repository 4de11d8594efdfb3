//! Downsampled images for the coarse part of a run, cached while their size is in use.
//!
//! A downsampled image is a pure function of the image, so caching does not change results.

use std::sync::Arc;

use gausset_core::TargetImage;
use gausset_core::engine::TrainView;

/// Downsamples views.
#[derive(Debug)]
pub(super) struct DownsampledCache {
    /// Maximum bytes of cached images; others are downsampled each time.
    budget: u64,
    factor: u32,
    /// By index of the image in the dataset.
    cached: Vec<Option<Arc<TargetImage>>>,
    bytes: u64,
}

impl DownsampledCache {
    /// A cache of at most `budget` bytes.
    pub(super) fn new(budget: u64) -> Self {
        Self { budget, factor: 1, cached: Vec::new(), bytes: 0 }
    }

    /// The view at `1 / factor` of its size.
    pub(super) fn reduce(&mut self, mut view: TrainView, factor: u32) -> TrainView {
        if self.factor != factor {
            *self = Self { factor, ..Self::new(self.budget) };
        }
        if factor <= 1 {
            return view;
        }
        let index = view.index as usize;
        view.downscale = factor;
        view.camera = view.camera.downscaled(factor);
        view.target = match self.cached.get(index) {
            Some(Some(kept)) => Arc::clone(kept),
            _ => self.downsample(index, &view.target),
        };
        view
    }

    fn downsample(&mut self, index: usize, target: &TargetImage) -> Arc<TargetImage> {
        let _span = gausset_prof::span("reduce");
        let reduced = Arc::new(target.downscaled(self.factor));
        let bytes = reduced.bytes() as u64;
        if self.bytes + bytes <= self.budget {
            self.bytes += bytes;
            if self.cached.len() <= index {
                self.cached.resize(index + 1, None);
            }
            self.cached[index] = Some(Arc::clone(&reduced));
        }
        reduced
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gausset_core::{Camera, Pose};

    #[test]
    fn views_keep_their_geometry_and_get_each_picture_once_per_size() {
        let camera = Camera {
            projection: gausset_core::Projection::Pinhole,
            width: 9,
            height: 6,
            fx: 8.0,
            fy: 6.0,
            cx: 4.5,
            cy: 3.0,
        };
        let rgb = (0..9 * 6 * 3).map(|v| v as u8).collect();
        let view = TrainView {
            index: 3,
            downscale: 1,
            name: "view".into(),
            camera,
            pose: Pose::IDENTITY,
            target: Arc::new(TargetImage { width: 9, height: 6, rgb, alpha: None, mask: None }),
            exposure_row: None,
            vignetting_row: None,
            pose_row: None,
            camera_from_rig: None,
        };
        let mut coarse = DownsampledCache::new(1 << 20);
        let half = coarse.reduce(view.clone(), 2);
        assert_eq!((half.camera.width, half.camera.height), (4, 3));
        assert_eq!((half.target.width, half.target.height), (4, 3));
        assert_eq!((half.index, half.downscale), (3, 2), "the index of the image");
        // The same point of the scene projects to the same relative position in the image.
        assert_eq!((half.camera.fx, half.camera.cy), (4.0, 1.5));
        assert!(Arc::ptr_eq(&half.target, &coarse.reduce(view.clone(), 2).target));
        let whole = coarse.reduce(view.clone(), 1);
        assert!(whole.downscale == 1 && Arc::ptr_eq(&view.target, &whole.target));
        assert!(!Arc::ptr_eq(&half.target, &coarse.reduce(view, 2).target));
    }
}
