//! Pages that stand alone: nothing in them is loaded from anywhere. A scene to be sent to somebody ([`scene`]), and
//! reports with charts ([`report`], [`chart`]).
//!
//! The scripts in `script/` draw splats in the browser and take care of mouse, fingers and keys; the viewer serves the
//! same ones. They are plain modules; [`bundle`] makes one of them.
#![forbid(unsafe_code)]

pub mod chart;
pub mod report;
pub mod scene;
pub mod sha256;
pub mod text;

/// Where one stands and looks: `Camera`.
pub const CAMERA: &str = include_str!("../script/camera.js");
/// Mouse, fingers and keys: `Input`.
pub const INPUT: &str = include_str!("../script/input.js");
/// Splats on the browser's GPU: `SplatView`.
pub const SPLATS: &str = include_str!("../script/splats.js");
/// What is packed into a page: `unpack`.
const SEVENS: &str = include_str!("../script/sevens.js");

/// Whether a file that begins so is a page of ours.
#[must_use]
pub fn is_ours(start: &[u8]) -> bool {
    let mark = b"<meta name=\"generator\" content=\"Gausset ";
    start.starts_with(b"<!doctype html>") && start.windows(mark.len()).any(|window| window == mark)
}

/// One script of several modules, in the order in which they need each other: without imports, exports, comments that
/// have a line for themselves, and indentation.
#[must_use]
pub fn bundle(modules: &[&str]) -> String {
    let mut script = String::new();
    for line in modules.iter().flat_map(|module| module.lines()) {
        let line = line.trim_start();
        if line.is_empty() || line.starts_with("//") || line.starts_with("import ") {
            continue;
        }
        script.push_str(line.strip_prefix("export ").unwrap_or(line));
        script.push('\n');
    }
    script
}

/// A style without indentation.
fn unindented(style: &str) -> String {
    style.lines().map(str::trim_start).collect::<Vec<_>>().join("\n")
}

/// A template with a text in the place of each `{name}`.
pub(crate) fn fill(template: &str, of_name: impl Fn(&str) -> String) -> String {
    let mut page = String::new();
    for (k, part) in template.split('{').enumerate() {
        match part.split_once('}').filter(|_| k > 0) {
            Some((name, rest)) => page.extend([of_name(name), rest.to_owned()]),
            None => page.push_str(part),
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bundle_is_one_script() {
        let script = bundle(&[
            "// A module.\nexport const a = 1;\n\n",
            "import { a } from './a.js';\n  export class B {\n    x = a; // one\n  }\n",
        ]);
        assert_eq!(script, "const a = 1;\nclass B {\nx = a; // one\n}\n");
    }

    #[test]
    fn templates_are_filled() {
        assert_eq!(fill("a {x} b {y}{x}", |name| name.repeat(2)), "a xx b yyxx");
    }
}
