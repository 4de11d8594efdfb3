//! `xtask python` on a machine without Python.

use std::process::Command;

#[test]
fn without_python_a_wheel_is_refused_in_one_line() {
    let target = std::env::temp_dir().join(format!("gausset-xtask-{}", std::process::id()));
    let output = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(["python", "build"])
        .env("CARGO_TARGET_DIR", &target)
        .env("GAUSSET_SYSTEM_PYTHON", "no-such-python")
        .output()
        .expect("it starts");
    let said = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.starts_with("xtask: Python 3.11 or later is needed: "), "{said}");
    assert_eq!((said.lines().count(), target.exists()), (1, false), "{said}");
}
