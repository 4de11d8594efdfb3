//! Libraries that are not ONNX Runtime, or too old. Separate from the tests that load one, as a process can only load
//! one.
#![cfg(feature = "onnxruntime")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

use gausset_segment::{InferenceEngine, LibraryChoice};
use gausset_testkit::skip_for_tool;

fn refusal(library: &Path) -> String {
    let choice = LibraryChoice { library: Some(library.to_owned()), python: None };
    let line =
        InferenceEngine::onnx_runtime(&choice, &AtomicBool::new(false)).map(|_| ()).unwrap_err().to_string();
    assert!(!line.contains('\n'), "{line}");
    let folder = library.parent().unwrap().display();
    line.replace(&format!("{folder}/"), "")
}

fn compiled(folder: &Path, name: &str, text: &str) -> Option<PathBuf> {
    let (source, library) = (folder.join("library.c"), folder.join(name));
    std::fs::write(&source, text).unwrap();
    let made = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status();
    made.is_ok_and(|status| status.success()).then_some(library)
}

#[test]
fn what_is_no_library_is_refused_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("libonnxruntime.so");
    assert_eq!(refusal(&path), "libonnxruntime.so: ONNX Runtime: no such file (named by ⟨onnx-library⟩)");
    std::fs::write(&path, "not a library").unwrap();
    let line = refusal(&path);
    assert!(line.starts_with("libonnxruntime.so: ONNX Runtime: cannot be loaded: "), "{line}");
}

#[test]
fn other_libraries_and_old_ones_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let Some(other) = compiled(folder.path(), "other.so", "int nothing(void) { return 0; }\n") else {
        return skip_for_tool("libraries of other kinds", "no C compiler (cc)");
    };
    assert_eq!(refusal(&other), "other.so: ONNX Runtime: is another library (it has no OrtGetApiBase)");
    let old = "struct base { const void *(*api)(unsigned); const char *(*version)(void); };\n\
               static const void *api(unsigned v) { return 0; }\n\
               static const char *version(void) { return \"1.10.0\"; }\n\
               static const struct base base = { api, version };\n\
               const struct base *OrtGetApiBase(void) { return &base; }\n";
    let old = compiled(folder.path(), "old.so", old).unwrap();
    assert_eq!(
        refusal(&old),
        "old.so: ONNX Runtime: version 1.10.0 is too old (expected 1.18 or later); pip install --upgrade onnxruntime"
    );
}

#[test]
fn a_python_without_the_package_says_how_to_install_it() {
    let choice = LibraryChoice { library: None, python: Some("/nonexistent/python".into()) };
    let line =
        InferenceEngine::onnx_runtime(&choice, &AtomicBool::new(false)).map(|_| ()).unwrap_err().to_string();
    assert!(line.contains("/nonexistent/python"), "{line}");
    #[cfg(unix)]
    {
        let folder = tempfile::tempdir().unwrap();
        let python = folder.path().join("python");
        gausset_testkit::programs::script(&python, "echo onnxruntime=");
        let choice = LibraryChoice { library: None, python: Some(python.clone()) };
        let line = InferenceEngine::onnx_runtime(&choice, &AtomicBool::new(false))
            .map(|_| ())
            .unwrap_err()
            .to_string();
        let shown = python.display();
        assert_eq!(
            line,
            format!(
                "{shown}: onnxruntime: not installed; install it with: {shown} -m pip install onnxruntime"
            )
        );
    }
}
