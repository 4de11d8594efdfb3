//! Loading fixtures skips nothing: anything that would go untested is a failure with a message.

use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use gausset_testkit::{Case, Fixtures, Precision, Tensor, compare, testdata_dir};

/// The project's own fixtures, regardless of the environment.
fn own_copy() -> PathBuf {
    testdata_dir().join("fixtures/raster")
}

/// A folder with one small case and the index reduced to it.
fn folder_with_one_case() -> tempfile::TempDir {
    let source = own_copy();
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(source.join("ssim_tiny.safetensors"), folder.path().join("ssim_tiny.safetensors")).unwrap();
    let text = std::fs::read_to_string(source.join("index.json")).unwrap();
    let mut index: serde_json::Value = serde_json::from_str(&text).unwrap();
    index["cases"].as_object_mut().unwrap().retain(|name, _| name == "ssim_tiny");
    write_index(folder.path(), &index);
    folder
}

fn read_index(folder: &Path) -> serde_json::Value {
    serde_json::from_str(&std::fs::read_to_string(folder.join("index.json")).unwrap()).unwrap()
}

fn write_index(folder: &Path, index: &serde_json::Value) {
    std::fs::write(folder.join("index.json"), index.to_string()).unwrap();
}

#[track_caller]
fn assert_refused(folder: &Path, reason: &str) {
    let panic = catch_unwind(|| Fixtures::load_from(folder)).expect_err("loading fails");
    let message = panic.downcast_ref::<String>().expect("the message is formatted");
    assert!(message.contains(reason), "{message}");
}

#[test]
fn a_folder_without_tensor_files_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    assert_refused(folder.path(), "no *.safetensors there");
    assert_refused(&folder.path().join("absent"), "let GAUSSET_FIXTURES name the folder");
}

#[test]
fn a_tensor_file_that_the_index_does_not_list_is_refused() {
    let folder = folder_with_one_case();
    assert_eq!(Fixtures::load_from(folder.path()).cases.len(), 1);
    let file = folder.path().join("ssim_tiny.safetensors");
    std::fs::copy(file, folder.path().join("extra.safetensors")).unwrap();
    assert_refused(folder.path(), "extra.safetensors: not listed in index.json");
}

#[test]
fn a_listed_case_without_its_file_is_refused() {
    let folder = folder_with_one_case();
    let mut index = read_index(folder.path());
    index["cases"]["absent"] = index["cases"]["ssim_tiny"].clone();
    write_index(folder.path(), &index);
    assert_refused(folder.path(), r#"lists cases without a file: ["absent"]"#);
}

#[test]
fn a_result_without_a_rule_and_a_rule_without_a_result_are_refused() {
    let folder = folder_with_one_case();
    let mut index = read_index(folder.path());
    let rule = index["cases"]["ssim_tiny"]["tolerances"].as_object_mut().unwrap().remove("out.l1").unwrap();
    write_index(folder.path(), &index);
    assert_refused(folder.path(), "no rule for `out.l1`");

    index["cases"]["ssim_tiny"]["tolerances"]["out.l1"] = rule.clone();
    index["cases"]["ssim_tiny"]["tolerances"]["out.l3"] = rule;
    write_index(folder.path(), &index);
    assert_refused(folder.path(), "tensor `out.l3` is missing");
}

#[test]
fn every_case_of_the_project_agrees_with_itself_and_with_no_disturbed_copy() {
    // Three per cent and one unit off: beyond every tolerance.
    let fixtures = Fixtures::load_from(&own_copy());
    let disturbed = |case: &Case, name: &str| {
        let reference = case.tensor(name);
        let values: Vec<f64> = reference.values.iter().map(|v| v * 1.03 + 1.0).collect();
        Tensor::new(&reference.shape, &values)
    };
    for case in &fixtures.cases {
        for name in case.rules.keys() {
            for precision in [Precision::F32, Precision::F64] {
                let itself = compare(case, name, case.tensor(name), precision);
                assert!(itself.passed, "{itself}");
                if !case.tensor(name).is_empty() {
                    let other = compare(case, name, &disturbed(case, name), precision);
                    assert!(!other.passed, "{other}");
                }
            }
        }
    }
}
