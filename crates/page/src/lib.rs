//! HTML pages that contain everything they need and load nothing: a scene to share ([`scene`]), and reports with charts
//! ([`report`], [`chart`]).
//!
//! The scripts in `script/` render splats in the browser and handle mouse, touch and keyboard; the viewer serves the
//! same ones. They are plain modules; [`bundle`] joins them into one script.
//!
//! ```
//! use gausset_page::report::ReportPage;
//!
//! let mut page = ReportPage::new("A run", "7000 steps");
//! page.section("Scores");
//! page.facts(&[("PSNR", "27.4 dB".to_owned())]);
//! let html = page.finish();
//! assert!(html.contains("<dt>PSNR</dt><dd>27.4 dB</dd>"));
//! assert!(gausset_page::is_gausset_page(html.as_bytes()));
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod chart;
pub mod place_map;
pub mod report;
pub mod scene;
pub mod text;

/// Style of all pages: one palette, light and dark, and its controls.
pub const BASE: &str = include_str!("../script/base.css");
/// Camera pose and its controls: `Camera`.
pub const CAMERA: &str = include_str!("../script/camera.js");
/// Numbers beside sliders, full screen: `showNumbers`, `fullScreen`.
pub const CONTROLS: &str = include_str!("../script/controls.js");
/// Mouse, touch and keyboard: `Input`.
pub const INPUT: &str = include_str!("../script/input.js");
/// Renders splats on the browser's GPU: `SplatView`.
pub const SPLATS: &str = include_str!("../script/splats.js");
/// Unpacks the data that a page contains: `unpack`.
const UNPACK: &str = include_str!("../script/sevens.js");

/// Whether a file that begins with these bytes is a page written by Gausset.
#[must_use]
pub fn is_gausset_page(start: &[u8]) -> bool {
    let mark = b"<meta name=\"generator\" content=\"Gausset ";
    start.starts_with(b"<!doctype html>") && start.windows(mark.len()).any(|window| window == mark)
}

/// Joins modules into one script. Modules come after those they import. Imports, exports, comments on lines of their
/// own, and indentation are removed.
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

/// A style sheet without indentation.
fn unindented(style: &str) -> String {
    style.lines().map(str::trim_start).collect::<Vec<_>>().join("\n")
}

/// Replaces each `{name}` of a template by a text.
pub(crate) fn fill_template(template: &str, of_name: impl Fn(&str) -> String) -> String {
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
        assert_eq!(fill_template("a {x} b {y}{x}", |name| name.repeat(2)), "a xx b yyxx");
    }
}
