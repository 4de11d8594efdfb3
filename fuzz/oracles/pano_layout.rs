//! Properties that must hold for any list of views of any panorama.
//!
//! Input: width of the panorama, side of a view, crop (a byte each), then the JSON of the views.

use gausset_io::text::is_valid_message;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use gausset_compute::{Pool, SimdLevel, dispatch_level};
use gausset_pano::cutter::{CutJob, CutTimes, CutView, Cutter, Format, Plan};
use gausset_pano::geometry::View;
use gausset_pano::layout::{check_view, parse_views};
use gausset_pano::plane::{ColourModel, Frame, FrameShape, Plane};
use gausset_pano::projection::{Equirect, Projection};

/// Pixels of a view that is cut; larger views are legal, but slow.
const PIXELS: u32 = 1 << 12;

/// Views that are accepted can be cut: no position outside of the panorama is read.
pub(crate) fn check(bytes: &[u8]) {
    let [width, side, crop, json @ ..] = bytes else { return };
    let (width, side) = (16 + 4 * u32::from(*width), 16 + u32::from(*side));
    let views = match parse_views(json, Path::new("views.json"), side, 90.0) {
        Ok(views) => views,
        Err(error) => {
            let line = error.to_string();
            assert!(line.starts_with("views.json") && is_valid_message(&line), "{line:?}");
            return;
        }
    };
    assert!(!views.is_empty());
    for view in views.iter().take(3) {
        assert_eq!(check_view(view), Ok(()));
        if view.width.saturating_mul(view.height) > PIXELS {
            continue;
        }
        let height = width / 2;
        let shape = FrameShape { colour: ColourModel::Grey, sizes: vec![[width, height]], has_alpha: false };
        let projection = Projection::Equirect(Equirect::whole(width, height));
        let crop = 90.0 * f64::from(*crop) / 255.0;
        let plan = Plan::new(vec![view.clone()], Format::Jpeg(80), &projection, shape, crop, &Pool::new(1));
        let mut plane = Plane::default();
        plane.reshape(width as usize, height as usize, plan.rows[0]);
        for y in plane.image_rows() {
            plane.row_mut(y as i32).fill(77);
        }
        let mut frame = Frame { colour: ColourModel::Grey, planes: vec![plane], alpha: None };
        let mut cuts = 0;
        let mut receive = |cut: CutView<'_>| -> Result<(), ()> {
            assert!(cut.mask.is_none_or(|mask| mask.len() as u32 == view.width * view.height));
            // A panorama of one colour has views of that colour: no other pixels are read.
            let picture = image::load_from_memory(cut.encoded).expect("a picture").to_luma8();
            assert_eq!(picture.dimensions(), (view.width, view.height));
            assert!(picture.pixels().all(|p| p[0].abs_diff(77) <= 1));
            cuts += 1;
            Ok(())
        };
        let level = dispatch_level(SimdLevel::Auto).expect("the baseline");
        let (never, mut times) = (AtomicBool::new(false), CutTimes::default());
        let (frame, segments) = (&mut frame, |_: &View| Vec::new());
        let job = CutJob { level, plan: &plan, frame, mask: None, cancel: &never, segments: &segments };
        let done = Cutter::default().cut(job, &mut times, &mut receive);
        assert!(done.is_ok() && cuts == 1);
    }
}
