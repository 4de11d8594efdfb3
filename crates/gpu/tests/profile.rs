//! The profile of a device: in a separate process, because the profiler is global to the process.

use gausset_core::engine::{DensityRule, Engine};
use gausset_gpu::{AdapterChoice, Gpu, GpuEngine, GpuOptions};
use gausset_testkit::engine_contract::{params, start, view};
use gausset_testkit::skip_for_gpu;

#[test]
fn stages_and_transfers_of_a_device_have_rows_with_bytes_and_a_track() {
    let test = "stages_and_transfers_of_a_device_have_rows_with_bytes_and_a_track";
    let gpu = match Gpu::open(&AdapterChoice::Best) {
        Ok(gpu) => gpu,
        Err(reason) => return skip_for_gpu(test, &reason.to_string()),
    };
    let mut engine = GpuEngine::new(&gpu, GpuOptions { threads: 1, ..GpuOptions::default() });
    engine.load(start(Vec::new())).expect("a state");
    gausset_prof::set_enabled(true);
    gausset_prof::set_trace(true);
    for step in 0..40 {
        engine.step(&[view(step as u32 % 2)], &[], &params(step)).expect("a step");
    }
    engine.flush().expect("flushed");
    for _ in 0..11 {
        engine.densify(&DensityRule::ResetOpacity { max_opacity: 0.9 }).expect("a rule");
    }
    engine.save().expect("saved");
    gausset_prof::set_enabled(false);
    let (profile, trace) = (gausset_prof::snapshot(), gausset_prof::trace());
    let row =
        |track: &str, name: &str| profile.tracks.iter().find(|row| row.track == track && row.name == name);
    let read = row("gpu transfers", "read back").expect("what came back");
    assert!(read.count > 0 && read.bytes > 0.0 && read.gb_per_s > 0.0, "{read:?}");
    // A device without timestamps has no such rows.
    let Some(blend) = row("gpu", "blend") else { return };
    // One unit in ten is timed.
    assert!((4..=5).contains(&blend.count) && blend.total_ms > 0.0, "{blend:?}");
    let view = view(0).camera;
    let pixels = f64::from(view.width * view.height);
    assert!(blend.bytes > 16.0 * pixels, "{blend:?}");
    for name in ["project", "sort", "tile", "loss", "blend_vjp", "project_vjp+adam", "density"] {
        let row = row("gpu", name).unwrap_or_else(|| panic!("no row {name}: {}", profile.table()));
        assert!(row.bytes > 0.0, "{row:?}");
    }
    // A stage ends before its status has arrived, and stages of a unit follow each other.
    let now = gausset_prof::clock_ns();
    let intervals = trace.events.iter().filter_map(|event| match event {
        gausset_prof::TraceEvent::Interval(interval) if interval.track == "gpu" => Some(interval),
        _ => None,
    });
    let intervals: Vec<_> = intervals.collect();
    assert!(
        intervals.len() >= 7 * 4
            && intervals.iter().all(|i| i.start_ns > 0 && i.start_ns + i.duration_ns <= now)
    );
}
