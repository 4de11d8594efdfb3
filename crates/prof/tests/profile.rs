//! The profiler through its public interface. The recorder is global, so the tests run one at a time.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use gausset_prof::{
    Interval, MAX_COUNTERS, MAX_DEPTH, MAX_PATHS, Profile, Row, RowKind, TRACE_EVENTS, TraceEvent, counter,
    interval, reset, set_enabled, set_trace, snapshot, span, trace,
};

/// Gives exclusive use of the recorder to one test, empty and off.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    let guard = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    set_enabled(false);
    set_trace(false);
    reset();
    guard
}

fn work(duration: Duration) {
    let end = Instant::now() + duration;
    while Instant::now() < end {
        std::hint::spin_loop();
    }
}

fn three_steps() {
    for i in 0..3 {
        let _step = span("step");
        {
            let _project = span("project");
            work(Duration::from_micros(200));
        }
        {
            let _blend = span("blend");
            work(Duration::from_micros(300));
        }
        work(Duration::from_micros(100));
        counter("visible", f64::from(100 + i));
    }
}

fn children<'a>(profile: &'a Profile, path: &str) -> Vec<&'a Row> {
    let below = format!("{path}/");
    let is_child = |row: &&Row| row.path.strip_prefix(&below).is_some_and(|rest| !rest.contains('/'));
    profile.rows.iter().filter(is_child).collect()
}

/// Times are sums of integer nanoseconds; in milliseconds as f64 they add up to within this.
const ROUNDING_MS: f64 = 1e-9;

#[test]
fn children_and_the_unattributed_rest_sum_to_their_parent_and_all_to_the_wall_time() {
    let _turn = turn();
    set_enabled(true);
    work(Duration::from_micros(400));
    three_steps();
    set_enabled(false);
    let profile = snapshot();

    let paths: Vec<&str> = profile.rows.iter().map(|row| row.path.as_str()).collect();
    assert_eq!(paths, ["step", "step/project", "step/blend", "step/unattributed", "unattributed"]);
    let step = profile.row("step").unwrap();
    let sum: f64 = children(&profile, "step").iter().map(|row| row.total_ms).sum();
    assert!((sum - step.total_ms).abs() < ROUNDING_MS);
    let top: f64 = profile.rows.iter().filter(|row| row.depth == 0).map(|row| row.total_ms).sum();
    assert!((top - profile.wall_ms).abs() < ROUNDING_MS);
    let leaves: f64 = profile.rows.iter().map(|row| row.self_ms).sum::<f64>() - step.self_ms;
    assert!((leaves - profile.wall_ms).abs() < ROUNDING_MS);

    // The unattributed time is measured: at least the work outside of any child.
    assert_eq!(profile.row("step/unattributed").unwrap().kind, RowKind::Unattributed);
    assert!(profile.row("step/unattributed").unwrap().min_ms >= 0.1);
    assert!(profile.row("unattributed").unwrap().total_ms >= 0.4);
    let blend = profile.row("step/blend").unwrap();
    assert_eq!(blend.count, 3);
    assert!(blend.min_ms >= 0.3 && blend.min_ms <= blend.mean_ms && blend.mean_ms <= blend.max_ms);
    assert!((blend.share - blend.total_ms / profile.wall_ms).abs() < 1e-12);
    let visible = &profile.counters[0];
    assert_eq!(
        (visible.count, visible.min, visible.max, visible.last, visible.mean),
        (3, 100.0, 102.0, 102.0, 101.0)
    );
}

#[test]
fn nothing_is_recorded_while_it_is_off() {
    let _turn = turn();
    three_steps();
    let profile = snapshot();
    assert!(profile.rows.iter().all(|row| row.path == "unattributed"));
    assert_eq!(profile.wall_ms, 0.0);
    assert!(profile.counters.is_empty() && profile.worker_rows.is_empty() && trace().events.is_empty());
}

#[test]
fn a_span_that_is_open_at_the_switch_ends_there_and_one_across_a_reset_leaves_no_record() {
    let _turn = turn();
    set_enabled(true);
    let open = span("run");
    work(Duration::from_micros(200));
    let so_far = snapshot();
    assert!(so_far.row("run").unwrap().total_ms >= 0.2 && so_far.row("run").unwrap().count == 0);
    set_enabled(false);
    let at_switch = snapshot();
    work(Duration::from_millis(2));
    drop(open);
    assert_eq!(snapshot(), at_switch);
    assert!(at_switch.row("run").unwrap().total_ms <= at_switch.wall_ms);

    set_enabled(true);
    let across = span("across");
    reset();
    drop(across);
    set_enabled(false);
    assert!(snapshot().row("across").is_none());
}

#[test]
fn guards_that_are_dropped_in_the_wrong_order_do_not_break_the_sums() {
    let _turn = turn();
    set_enabled(true);
    let outer = span("outer");
    let inner = span("inner");
    drop(outer);
    drop(inner);
    drop(span("next"));
    set_enabled(false);
    let profile = snapshot();
    assert_eq!(profile.row("outer/inner").unwrap().count, 1);
    assert_eq!(profile.row("next").unwrap().depth, 0);
}

#[test]
fn spans_of_other_threads_stand_apart_and_survive_their_threads() {
    let _turn = turn();
    set_enabled(true);
    {
        let _blend = span("blend");
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..5 {
                        let _tile = span("tile");
                        work(Duration::from_micros(50));
                    }
                    counter("tiles", 5.0);
                });
            }
        });
    }
    set_enabled(false);
    let profile = snapshot();
    assert!(profile.row("tile").is_none() && profile.row("blend/tile").is_none());
    assert_eq!((profile.worker_rows.len(), profile.worker_threads), (1, 3));
    let tile = &profile.worker_rows[0];
    assert_eq!((tile.path.as_str(), tile.count), ("tile", 15));
    assert!(tile.total_ms >= 15.0 * 0.05);
    assert_eq!(profile.counters[0].count, 3);
    // Three threads were busy during the span; the critical path still sums to the wall time.
    let top: f64 = profile.rows.iter().filter(|row| row.depth == 0).map(|row| row.total_ms).sum();
    assert!((top - profile.wall_ms).abs() < ROUNDING_MS);
    #[cfg(unix)]
    assert!(profile.row("blend").unwrap().cpu_ms.unwrap() >= 15.0 * 0.05 * 0.5);
}

/// Names made at run time, to meet limits; a few hundred short strings are leaked.
fn leaked(prefix: &str, i: usize) -> &'static str {
    Box::leak(format!("{prefix}{i}").into_boxed_str())
}

#[test]
fn memory_is_bounded_by_paths_depth_counters_and_the_ring() {
    let _turn = turn();
    set_enabled(true);
    set_trace(true);
    for i in 0..MAX_PATHS + 10 {
        let name = leaked("path", i);
        drop(span(name));
        counter(name, 1.0);
    }
    let profile = snapshot();
    assert_eq!(profile.rows.len(), MAX_PATHS + 1, "the paths and one unattributed row");
    assert_eq!(profile.dropped_spans, 10);
    assert_eq!(profile.counters.len(), MAX_COUNTERS);
    assert!(profile.table().contains("10 spans did not fit"));

    for _ in 0..TRACE_EVENTS {
        drop(span("path0"));
    }
    assert_eq!(trace().events.len(), TRACE_EVENTS);

    reset();
    let nested: Vec<_> = (0..MAX_DEPTH + 3).map(|_| span("deeper")).collect();
    drop(nested);
    set_enabled(false);
    let profile = snapshot();
    let spans = || profile.rows.iter().filter(|row| row.kind == RowKind::Span);
    assert_eq!(
        (spans().count(), spans().map(|row| row.depth).max()),
        (MAX_DEPTH, Some(MAX_DEPTH as u32 - 1))
    );
    assert_eq!(profile.dropped_spans, 3);
}

#[test]
fn negative_and_not_finite_values_are_not_counted() {
    let _turn = turn();
    set_enabled(true);
    for value in [f64::NAN, f64::INFINITY, -1.0, 4.0] {
        counter("size", value);
    }
    set_enabled(false);
    assert_eq!((snapshot().counters[0].count, snapshot().counters[0].max), (1, 4.0));
}

#[test]
fn the_trace_is_json_with_nested_events_in_order() {
    let _turn = turn();
    set_enabled(true);
    set_trace(true);
    three_steps();
    set_enabled(false);
    let trace = trace();
    assert_eq!(trace.events.len(), 3 * 4);
    let TraceEvent::Span { name, start_ns, duration_ns, .. } = trace.events[0] else {
        panic!("a span is first")
    };
    let TraceEvent::Span { name: child, start_ns: child_start_ns, duration_ns: child_ns, .. } =
        trace.events[1]
    else {
        panic!("its child follows")
    };
    assert_eq!((name, child), ("step", "project"));
    assert!(start_ns <= child_start_ns && child_start_ns + child_ns <= start_ns + duration_ns);

    let mut bytes = Vec::new();
    trace.write_chrome(&mut bytes).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    let events = json["traceEvents"].as_array().unwrap();
    let with_phase = |phase: &str| events.iter().filter(|event| event["ph"] == phase).count();
    assert_eq!((with_phase("X"), with_phase("C")), (9, 3));
    let names: Vec<_> = events.iter().filter(|event| event["ph"] == "M").collect();
    assert!(names.iter().any(|event| event["args"]["name"] == std::thread::current().name().unwrap()));
}

#[test]
fn a_profile_survives_json_and_csv_has_a_line_for_each_row() {
    let _turn = turn();
    set_enabled(true);
    three_steps();
    set_enabled(false);
    let profile = snapshot();
    let read_back: Profile = serde_json::from_str(&profile.to_json()).unwrap();
    assert_eq!(read_back.rows.len(), profile.rows.len());
    assert!((read_back.wall_ms - profile.wall_ms).abs() < 1e-12);
    let csv = profile.to_csv();
    let fields: Vec<usize> = csv.lines().map(|line| line.split(',').count()).collect();
    assert_eq!(fields, [14; 7], "a header, five rows, one counter, 14 fields each:\n{csv}");
}

#[test]
fn the_table_is_aligned_and_names_its_units() {
    let span = |path: &str, depth: u32, count: u64, total_ms: f64, cpu_ms: Option<f64>| Row {
        path: path.to_owned(),
        name: path.rsplit('/').next().unwrap().to_owned(),
        depth,
        count,
        total_ms,
        share: total_ms / 2600.0,
        mean_ms: total_ms / count as f64,
        std_ms: 0.31,
        min_ms: 0.9 * total_ms / count as f64,
        median_ms: total_ms / count as f64,
        max_ms: 1.25 * total_ms / count as f64,
        cpu_ms,
        ..Row::default()
    };
    let profile = Profile {
        wall_ms: 2600.0,
        cpu_ms: Some(4875.0),
        rows: vec![
            span("train", 0, 1, 2580.0, Some(4860.0)),
            span("train/step", 1, 100, 2510.0, Some(4780.0)),
            span("train/step/project", 2, 100, 150.2, Some(290.4)),
            span("train/step/blend_vjp", 2, 100, 2359.8, Some(4489.0)),
            span("train/unattributed", 1, 1, 70.0, Some(80.0)),
            span("unattributed", 0, 1, 20.0, Some(15.0)),
        ],
        worker_threads: 1,
        worker_rows: vec![span("decode", 0, 57, 812.5, None)],
        counters: vec![gausset_prof::CounterRow {
            name: "intersections".to_owned(),
            count: 100,
            last: 375_479.0,
            mean: 375_102.4,
            std: 812.25,
            min: 371_002.0,
            median: 375_200.0,
            max: 378_000.0,
        }],
        dropped_spans: 0,
        median_relative_error: 1.0 / 128.0,
        ..Profile::default()
    };
    insta::assert_snapshot!(profile.table());
}

#[test]
fn a_thread_of_a_pool_works_under_the_name_of_the_stage_of_the_critical_path() {
    let _turn = turn();
    assert_eq!(gausset_prof::start_worker_span(), 0, "nothing is recorded");
    set_enabled(true);
    {
        let _step = span("step");
        for (stage, tasks) in [("blend", 2), ("sort", 1)] {
            let _stage = span(stage);
            let worker = || {
                for _ in 0..tasks {
                    let token = gausset_prof::start_worker_span();
                    assert_ne!(token, 0);
                    work(Duration::from_micros(200));
                    gausset_prof::end_worker_span(token);
                }
            };
            std::thread::scope(|scope| {
                scope.spawn(worker);
            });
        }
        // Between two stages the current span is the step's own, and the critical path is not a worker.
        assert_eq!(gausset_prof::start_worker_span(), 0);
    }
    set_enabled(false);
    let profile = snapshot();
    let mut rows: Vec<_> = profile.worker_rows.iter().map(|row| (row.path.as_str(), row.count)).collect();
    // They are sorted by time, which varies on a busy machine.
    rows.sort_unstable();
    assert_eq!(rows, [("blend", 2), ("sort", 1)]);
    assert_eq!(profile.worker_threads, 2);
}

#[test]
fn a_profile_reads_back_as_it_was_written() {
    let _turn = turn();
    set_enabled(true);
    three_steps();
    set_enabled(false);
    let profile = Profile {
        about: vec![("device".to_owned(), "CPU".to_owned())],
        machine: Some(gausset_prof::MachineRates {
            threads: 2,
            vector_ops_per_s: 7.4e9,
            stream_bytes_per_s: 5.5e10,
        }),
        ..snapshot()
    };
    assert_eq!(Profile::from_json(profile.to_json().as_bytes()).unwrap(), profile);
    assert!(Profile::from_json(b"{\"rows\": 3}").is_err());
    let exclusive: f64 = profile.exclusive_rows().map(|row| row.total_ms).sum();
    assert!((exclusive - profile.wall_ms).abs() < ROUNDING_MS);
}

#[test]
fn what_a_device_did_has_rows_and_a_track_of_its_own() {
    let _turn = turn();
    let of =
        |track, name, start_ns, duration_ns, bytes| Interval { track, name, start_ns, duration_ns, bytes };
    interval(of("gpu", "blend", 0, 1, 1.0));
    set_enabled(true);
    set_trace(true);
    for round in 0..3 {
        interval(of("gpu", "project", 10_000_000 * round, 1_000_000, 0.0));
        interval(of("gpu transfers", "upload", 10_000_000 * round, 500_000, 1e6));
        interval(of("gpu", "blend", 10_000_000 * round + 1_000_000, 2_000_000 + 1_000_000 * round, 30e6));
    }
    interval(of("gpu", "odd", 0, 0, f64::NAN));
    set_enabled(false);
    let profile = snapshot();
    let names: Vec<_> = profile.tracks.iter().map(|row| (&*row.track, &*row.name, row.count)).collect();
    let expected =
        [("gpu", "project", 3), ("gpu", "blend", 3), ("gpu", "odd", 1), ("gpu transfers", "upload", 3)];
    assert_eq!(names, expected, "nothing of before");
    let blend = &profile.tracks[1];
    assert!((blend.total_ms - 9.0).abs() < 1e-9 && (blend.median_ms - 3.0).abs() < 3.0 / 64.0, "{blend:?}");
    // 30 MB in 3 ms.
    assert!((blend.gb_per_s - 10.0).abs() < 1e-9 && blend.bytes == 30e6, "{blend:?}");
    assert_eq!(
        (profile.tracks[0].gb_per_s, profile.tracks[2].gb_per_s, profile.tracks[2].bytes),
        (0.0, 0.0, 0.0)
    );
    let table = profile.table();
    assert!(
        table.lines().any(|line| line.starts_with("gpu transfers ") && line.ends_with("GB/s")),
        "{table}"
    );
    assert!(table.lines().any(|line| line.starts_with("blend") && line.ends_with("10.00")), "{table}");
    assert!(profile.to_csv().contains("gpu,blend,interval,ms,3,9,"), "{}", profile.to_csv());
    assert_eq!(Profile::from_json(profile.to_json().as_bytes()).unwrap(), profile);
    let mut text = Vec::new();
    trace().write_chrome(&mut text).unwrap();
    let events: serde_json::Value = serde_json::from_slice(&text).unwrap();
    let events = events["traceEvents"].as_array().unwrap();
    let name = |track: &str| {
        let is_name = |event: &&serde_json::Value| event["ph"] == "M" && event["args"]["name"] == track;
        events.iter().find(is_name).map(|event| event["tid"].clone()).expect("a track")
    };
    let blends: Vec<_> = events.iter().filter(|event| event["name"] == "blend").collect();
    assert_eq!(blends.len(), 3);
    assert!(blends.iter().all(|event| event["tid"] == name("gpu") && event["args"]["bytes"] == 30e6));
    assert_ne!(name("gpu"), name("gpu transfers"));
}
