//! Compares with directions on a spiral, and with the formula for one view.

use super::*;
use crate::sphere::layout::Layout;

/// Directions spread evenly (golden-angle spiral).
fn spiral(count: usize) -> impl Iterator<Item = [f64; 3]> {
    (0..count).map(move |k| {
        let y = 1.0 - 2.0 * (k as f64 + 0.5) / count as f64;
        let turn = 2.399_963_229_728_653 * k as f64;
        let flat = (1.0 - y * y).sqrt();
        [flat * turn.cos(), y, flat * turn.sin()]
    })
}

/// Fraction of the directions that are seen, mean and minimum number of views.
fn sampled(views: &[View], count: usize) -> (f64, f64, u32) {
    let planes: Vec<ViewPlanes> = views.iter().map(ViewPlanes::new).collect();
    let (mut seen, mut sum, mut least) = (0usize, 0u64, u32::MAX);
    for d in spiral(count) {
        let by = planes.iter().filter(|view| view.sees(d)).count() as u32;
        seen += usize::from(by > 0);
        sum += u64::from(by);
        least = least.min(by);
    }
    (seen as f64 / count as f64, sum as f64 / count as f64, least)
}

/// Random views, reproducible by seed.
fn random_views(seed: u64) -> Vec<View> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    let count = 1 + (next() * 9.0) as usize;
    (0..count)
        .map(|k| View {
            name: format!("view{k:02}"),
            yaw: 360.0 * next(),
            pitch: 180.0 * next() - 90.0,
            roll: 360.0 * next(),
            hfov: 20.0 + 130.0 * next(),
            width: 100,
            height: 40 + (80.0 * next()) as u32,
        })
        .collect()
}

fn compare(views: &[View], directions: usize, points: f64) {
    let coverage = Coverage::new(views);
    let (share, mean, least) = sampled(views, directions);
    assert!((coverage.fraction - share).abs() < points / 100.0, "{} {share} {views:?}", coverage.fraction);
    assert!((coverage.mean_views - mean).abs() < 10.0 * points / 100.0, "{} {mean}", coverage.mean_views);
    // The sampled directions can miss a small region with fewer views, but cannot find too few.
    assert!(coverage.min_views.unwrap() <= least, "{:?} {least}", coverage.min_views);
    let holes: f64 = coverage.holes.iter().map(|hole| hole.fraction).sum();
    assert!((holes + coverage.fraction - 1.0).abs() < 1e-9);
}

#[test]
fn one_view_sees_what_the_formula_says() {
    for (hfov, percent) in [(90.0, 16.667), (110.0, 23.414), (120.0, 26.995)] {
        let view =
            View { name: "v".into(), yaw: 33.0, pitch: -71.0, roll: 12.0, hfov, width: 64, height: 64 };
        let tangent = f64::tan((hfov / 2.0f64).to_radians());
        let formula = (tangent * tangent / (1.0 + tangent * tangent)).asin() / std::f64::consts::PI;
        let coverage = Coverage::new(std::slice::from_ref(&view));
        assert!((coverage.fraction - formula).abs() < 1e-9, "{hfov}: {}", coverage.fraction);
        assert!((100.0 * coverage.fraction - percent).abs() < 1e-3);
        assert!((coverage.mean_views - coverage.fraction).abs() < 1e-12);
        assert_eq!((coverage.min_views, coverage.holes.len()), (Some(0), 1));
    }
}

#[test]
fn layouts_see_the_shares_that_are_published() {
    let percents = [69.78, 81.20, 81.60, 66.67, 100.0, 100.0, 100.0, 81.20, 100.0, 98.08, 100.0];
    for (layout, percent) in Layout::ALL.into_iter().zip(percents) {
        let views = layout.views(256, 256, None);
        let coverage = Coverage::new(&views);
        assert!(
            (100.0 * coverage.fraction - percent).abs() < 0.006,
            "{}: {}",
            layout.name(),
            coverage.fraction
        );
        compare(&views, 20_000, 0.1);
        assert_eq!(coverage.holes.is_empty(), percent == 100.0, "{}", layout.name());
    }
    let ring = Coverage::new(&Layout::Ring8.views(256, 256, None));
    let [up, down] = ring.holes[..] else { panic!("{:?}", ring.holes) };
    assert!((up.fraction - down.fraction).abs() < 1e-9 && (up.fraction - 0.1511).abs() < 1e-3);
    assert_eq!(up.pitch.unwrap().abs().round(), 90.0);
    assert!((45.0..48.0).contains(&up.radius), "{}", up.radius);
    // The two holes have equal area; both are reported.
    assert!((up.pitch.unwrap() + down.pitch.unwrap()).abs() < 1e-6);
}

#[test]
fn random_views_see_what_directions_on_a_spiral_say() {
    (0..40).for_each(|seed| compare(&random_views(seed), 20_000, 0.2));
}

/// The figure in the documentation; `docs/internals/pano.md` has the command.
#[test]
#[ignore = "a million directions for each of 210 sets of views: a minute in a release build"]
fn a_million_directions_agree_to_a_hundredth_of_a_point() {
    for layout in Layout::ALL {
        compare(&layout.views(256, 256, None), 1_000_000, 0.01);
    }
    (1000..1200).for_each(|seed| compare(&random_views(seed), 1_000_000, 0.01));
}

#[test]
fn a_hole_is_closed_by_the_fewest_views() {
    for (layout, added) in [
        (Layout::Ring8, 2),
        (Layout::Ring4, 2),
        (Layout::Ring12Wide, 2),
        (Layout::Cube8, 2),
        (Layout::Cube6, 0),
        (Layout::Dome16, 0),
    ] {
        let mut views = layout.views(256, 256, None);
        let more = views_to_complete(&views).unwrap();
        assert_eq!(more.len(), added, "{}: {more:?}", layout.name());
        views.extend(more);
        let coverage = Coverage::new(&views);
        assert_eq!((coverage.fraction, coverage.holes.len()), (1.0, 0), "{}", layout.name());
        assert!(coverage.min_views.unwrap() >= 1);
    }
    assert_eq!(views_to_complete(&[]), Err(CompleteError::NoViews));
    let narrow = View { hfov: 5.0, ..Layout::Ring4.views(64, 64, None)[0].clone() };
    assert_eq!(views_to_complete(&[narrow]), Err(CompleteError::TooManyViews(5.0)));
}

#[test]
fn the_map_counts_views() {
    let counts = view_count_grid(&Layout::Cube6.views(64, 64, None), 8, 4);
    assert!(counts.iter().all(|&count| count >= 1));
    let ring = view_count_grid(&Layout::Ring8.views(64, 64, None), 8, 8);
    assert!(ring[..8].iter().all(|&count| count == 0) && ring[24..32].iter().all(|&count| count == 2));
}
