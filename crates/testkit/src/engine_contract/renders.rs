//! Renders, and queries about them.

use gausset_core::engine::{Engine, OcclusionQuery, Outputs, RenderOptions, Rendering, StepWork};

use super::scene::{loaded, options, params, scene, splats, start, view};
use super::{MakeEngine, if_supported};

fn render(engine: &mut dyn Engine, options: &RenderOptions, outputs: Outputs) -> Rendering {
    engine.render(&scene().camera, &scene().pose, options, outputs).expect("a picture")
}

/// Colour and alpha do not depend on the requested outputs; depth and count exist if requested.
pub fn pictures_have_the_outputs_that_are_wanted(make: MakeEngine<'_>) {
    let mut engine = loaded(make, Vec::new());
    let all = render(&mut *engine, &options(), Outputs::All);
    let pixels = 24 * 18;
    assert_eq!((all.width, all.height, all.capped_tiles), (24, 18, 0));
    assert_eq!(
        [all.color.len(), all.alpha.len(), all.depth.len(), all.count.len()],
        [3 * pixels, pixels, pixels, pixels]
    );
    assert!(
        all.alpha.iter().all(|alpha| (0.0..=1.0).contains(alpha))
            && all.alpha.iter().any(|&alpha| alpha > 0.5)
    );
    for ((depth, count), alpha) in all.depth.iter().zip(&all.count).zip(&all.alpha) {
        assert_eq!((*depth > 0.0, *count > 0), (*alpha > 0.0, *alpha > 0.0));
    }
    let color = render(&mut *engine, &options(), Outputs::Color);
    assert!(color.color == all.color && color.alpha == all.alpha, "the same splats");
    assert!(color.depth.is_empty() && color.count.is_empty());
    // Pixels without splats show the background.
    let empty = (0..pixels).find(|&pixel| all.alpha[pixel] == 0.0);
    if let Some(pixel) = empty {
        assert_eq!(all.color[3 * pixel..3 * pixel + 3], options().background);
    }
}

/// Renders of other sizes and outputs into given buffers.
pub fn buffers_that_were_used_before_make_no_difference(make: MakeEngine<'_>) {
    let mut engine = loaded(make, Vec::new());
    let expected = render(&mut *engine, &options(), Outputs::All);
    let (camera, pose) = (scene().camera, scene().pose);
    let mut buffers = Rendering::default();
    for (camera, outputs) in [
        (camera.downscaled(2), Outputs::All),
        (camera, Outputs::Color),
        (camera, Outputs::All),
        (camera, Outputs::All),
    ] {
        buffers.color.fill(f32::NAN);
        buffers.count.fill(77);
        engine.render_into(&camera, &pose, &options(), outputs, &mut buffers).expect("a picture");
        let fresh = engine.render(&camera, &pose, &options(), outputs).expect("a picture");
        assert!(buffers == fresh);
    }
    assert!(buffers == expected);
    let nothing = RenderOptions { sky: true, ..options() };
    engine.render_into(&camera, &pose, &nothing, Outputs::All, &mut buffers).expect_err("no sky");
    assert!(buffers == expected, "as they were");
}

/// `load_splats` for rendering only.
pub fn splats_that_are_only_drawn_look_the_same(make: MakeEngine<'_>) {
    let expected = render(&mut *loaded(make, Vec::new()), &options(), Outputs::All);
    let mut engine = loaded(make, Vec::new());
    engine.load_splats(splats(), Vec::new()).expect("loaded");
    assert!(render(&mut *engine, &options(), Outputs::All) == expected);
    assert!(engine.save().expect("saved") == start(Vec::new()));
    assert_eq!(engine.flush().expect("flushed").splats, 24);
    let _ = if_supported(engine.step(&[view(0)], &[], &params(0)));
    engine.load(start(Vec::new())).expect("a whole state");
    engine.step(&[view(0)], &[], &params(0)).expect("a step");
}

/// The splats after the first ones in a saved scene may be its sky.
pub fn only_the_first_splats_are_drawn_where_that_is_asked(make: MakeEngine<'_>) {
    let mut engine = loaded(make, Vec::new());
    let part = render(&mut *engine, &RenderOptions { splat_limit: Some(7), ..options() }, Outputs::All);
    let all = render(&mut *engine, &RenderOptions { splat_limit: Some(24), ..options() }, Outputs::All);
    assert!(all == render(&mut *engine, &options(), Outputs::All) && part != all);
    engine.load_splats(splats().select(&(0..7).collect::<Vec<_>>()), Vec::new()).expect("loaded");
    assert!(render(&mut *engine, &options(), Outputs::All) == part);
}

/// No weight is in front of the camera, all of it in front of the horizon, and none outside the image.
pub fn what_is_in_front_is_a_part_of_the_picture(make: MakeEngine<'_>) {
    let mut engine = loaded(make, Vec::new());
    let all = render(&mut *engine, &options(), Outputs::All);
    let pixel = (0..24 * 18).max_by(|&a, &b| all.alpha[a].total_cmp(&all.alpha[b])).unwrap_or(0);
    let (x, y) = ((pixel % 24) as u32, (pixel / 24) as u32);
    let queries = [([x, y], 0.0), ([x, y], 2.5), ([x, y], 1e6), ([24, y], 1e6)]
        .map(|(pixel, depth)| OcclusionQuery { pixel, depth });
    let answer =
        engine.weight_in_front(&scene().camera, &scene().pose, &options(), &queries).expect("an answer");
    let Some(weights) = answer else { return };
    assert_eq!((weights[0], weights[3]), (0.0, 0.0));
    assert!((weights[2] - all.alpha[pixel]).abs() < 1e-4, "{weights:?} {}", all.alpha[pixel]);
    assert!(weights[0] <= weights[1] && weights[1] <= weights[2], "{weights:?}");
}

/// For engines that count: the work of a step has updates, that of a render has none, and a new state has none yet.
pub fn work_is_that_of_the_last_picture(make: MakeEngine<'_>) {
    let mut engine = loaded(make, Vec::new());
    assert_eq!(engine.work(), None);
    engine.step(&[view(0)], &[], &params(0)).expect("a step");
    let visible = engine.flush().expect("flushed").visible;
    let Some(work) = engine.work() else { return };
    assert_eq!((work.splats, work.visible, work.pixels), (24.0, visible as f64, 432.0));
    assert!(
        work.live_entries > 0.0 && work.updated_blocks > 0.0 && work.evaluated_entries <= work.intersections,
        "{work:?}"
    );
    if let Some(floors) = engine.lower_bounds(&work) {
        assert!(
            floors.stages.iter().all(|stage| stage.lower_bound_ms >= 0.0 && stage.lower_bound_ms.is_finite())
        );
        assert!(floors.rates.vector_ops_per_s > 0.0 && floors.rates.bytes_per_s > 0.0);
    }
    render(&mut *engine, &options(), Outputs::Color);
    let work = engine.work().expect("the work of a picture");
    assert_eq!((work.live_entries, work.updated_blocks), (0.0, 0.0));
    assert_ne!(work, StepWork::default());
}
