//! `gausset doctor`: devices, and the cost of a training.

use crate::support::TestFolder;

#[test]
fn a_training_is_foreseen_on_each_device() {
    let workshop = TestFolder::with_data();
    let found = workshop.succeed(&["doctor", "data", "--json"]).json();
    assert!(
        found["question"]["pictures"].as_u64() > Some(2) && found["question"]["steps"].as_u64() > Some(100)
    );
    let works =
        found["adapters"].as_array().into_iter().flatten().filter(|adapter| adapter["fault"].is_null());
    let trainings: Vec<_> = std::iter::once(&found).chain(works).map(|device| &device["training"]).collect();
    for training in trainings {
        assert!(training["fault"].is_null() && training["fits"] == true, "{training}");
        assert!(training["memory"].as_u64() <= training["memory_limit"].as_u64(), "{training}");
        assert!(training["possible_splats"].as_u64() > Some(100_000), "{training}");
        let seconds = training["seconds"].as_f64().expect("seconds");
        assert!((0.001..36_000.0).contains(&seconds), "{training}");
    }
    // No files are left behind, and without a dataset there is no estimate.
    let entries = std::fs::read_dir(workshop.path(".")).expect("a folder").count();
    assert_eq!(entries, 1, "beside the dataset");
    let text = workshop.succeed(&["doctor", "data"]).stdout;
    assert!(text.contains("training on") && text.contains("about"), "{text}");
    let alone = workshop.succeed(&["doctor", "--json"]).json();
    assert!(alone["question"].is_null() && alone["training"].is_null(), "{alone}");
    let tools: Vec<_> = alone["tools"].as_array().expect("tools").iter().collect();
    assert!(tools.iter().any(|tool| tool["name"] == "ffmpeg"), "{tools:?}");
    assert!(tools.iter().any(|tool| tool["name"] == "heif-convert"), "{tools:?}");
    for tool in tools {
        assert_eq!(tool["version"].is_string(), tool["path"].is_string(), "{tool}");
        assert_ne!(tool["version"].is_string(), tool["fault"].is_string(), "{tool}");
    }
    assert!(alone["memory_bytes"].as_u64() > Some(1 << 28) && alone["threads"].as_u64() > Some(0), "{alone}");
    // Lines that drivers print are not passed on.
    let stderr = workshop.succeed(&["doctor"]).stderr;
    assert!(!stderr.contains("XDG_RUNTIME_DIR"), "{stderr}");
    assert!(alone["automatic"].as_str().is_some_and(|what| what.contains("the CPU")), "{alone}");
}
