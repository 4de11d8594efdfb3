//! What a splat file holds, as `info` and `convert` tell it: the same facts in text and JSON.

use std::collections::BTreeMap;
use std::path::Path;

use gausset_core::Splats;
use gausset_io::splat::{Document, Saved};
use serde::Serialize;

use crate::console::Console;
use crate::numbers::{grouped, three_digits};

/// Share of the splats that lies between the bounds of the middle, along each axis.
const MIDDLE: f64 = 0.98;

/// Facts about the splats of a file: a stable contract.
#[derive(Debug, Serialize)]
pub(super) struct SplatFacts {
    count: usize,
    sh_degree: u8,
    /// `null` when there is no splat.
    bounds: Option<Bounds>,
    /// Bounds without the outermost hundredth at each end of each axis.
    middle: Option<Bounds>,
    format: &'static str,
    /// Version of the format, where it has versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    /// How they are to be drawn: `default`, `mip`, `2dgs`.
    mode: &'static str,
    antialiased: bool,
    /// Axes of the file, where they were turned or assumed.
    #[serde(skip_serializing_if = "Option::is_none")]
    frame: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    up: Option<[f32; 3]>,
    /// Splats of a sky, which are not in the bounds; left out where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    sky: Option<usize>,
    /// Splats of the file that were left out, because they cannot be drawn.
    dropped: u64,
    /// Splats of the file with a value that was brought to its nearest.
    repaired: u64,
}

#[derive(Debug, Serialize)]
struct Bounds {
    min: [f32; 3],
    max: [f32; 3],
}

impl SplatFacts {
    /// The facts about a file that was read.
    pub(super) fn of(document: &Document) -> Self {
        let scene = document.scene();
        let report = &document.report;
        Self {
            count: document.splats.len(),
            sh_degree: document.sh_degree,
            bounds: scene.bounds().map(|[min, max]| Bounds { min, max }),
            middle: middle(&scene),
            format: document.format.name(),
            version: document.version.clone(),
            mode: match (document.antialiased, document.flat) {
                (true, _) => "mip",
                (false, true) => "2dgs",
                (false, false) => "default",
            },
            antialiased: document.antialiased,
            frame: document.frame.clone(),
            up: document.vertical_axis,
            sky: (document.sky > 0).then_some(document.sky),
            dropped: report.dropped_total(),
            repaired: report.repaired.iter().map(|(_, count)| count).sum(),
        }
    }

    /// Rows for people; `bytes` is the length of the file.
    pub(super) fn rows(&self, bytes: u64) -> Vec<(&'static str, String)> {
        let corner = |corner: [f32; 3]| corner.map(|v| three_digits(f64::from(v))).join(" ");
        let box_of = |bounds: &Option<Bounds>| {
            bounds.as_ref().map_or_else(
                || "none".to_owned(),
                |bounds| format!("{} .. {}", corner(bounds.min), corner(bounds.max)),
            )
        };
        let version = self.version.as_ref().map_or(String::new(), |version| format!(" {version}"));
        let mode = match self.mode {
            "mip" => "mip (antialiased: opacity compensation)",
            "2dgs" => "2dgs (flat discs)",
            mode => mode,
        };
        let mut rows = vec![
            ("splats", grouped(self.count as u64)),
            ("SH degree", self.sh_degree.to_string()),
            ("format", format!("{}{version}, {}", self.format, gausset_io::units::bytes(bytes))),
            ("bounds", box_of(&self.bounds)),
        ];
        if self.middle.is_some() {
            rows.push(("98 % within", box_of(&self.middle)));
        }
        rows.push(("mode", mode.to_owned()));
        if let Some(frame) = &self.frame {
            rows.push(("frame", frame.clone()));
        }
        if let Some(sky) = self.sky {
            rows.push(("sky", format!("{} of the splats", grouped(sky as u64))));
        }
        if let Some(up) = self.up {
            rows.push(("up", corner(up)));
        }
        for (what, count) in [("dropped", self.dropped), ("repaired", self.repaired)] {
            if count > 0 {
                rows.push((what, grouped(count)));
            }
        }
        rows
    }
}

/// A finished conversion.
pub(super) struct Conversion<'a> {
    /// The file that was read.
    pub(super) input: &'a Path,
    /// The file that was written.
    pub(super) output: &'a Path,
    /// What was read, before anything was left out or turned.
    pub(super) facts: SplatFacts,
    /// SH degree that was written.
    pub(super) sh_degree: u8,
    /// Splats that were left out as asked for.
    pub(super) cropped: usize,
    /// What was written.
    pub(super) saved: Saved,
}

/// `convert --json`: a stable contract.
#[derive(Debug, Serialize)]
pub(super) struct Converted<'a> {
    kind: &'static str,
    input: &'a SplatFacts,
    output: Output<'a>,
}

#[derive(Debug, Serialize)]
struct Output<'a> {
    path: &'a Path,
    format: &'static str,
    count: u64,
    sh_degree: u8,
    bytes: u64,
    cropped: usize,
    dropped: u64,
    /// Splats with a value that the format cannot hold, by what it is.
    clipped: BTreeMap<&'static str, u64>,
    /// What else is not in the file.
    lost: &'a [String],
}

impl Conversion<'_> {
    /// As an object.
    pub(super) fn object(&self) -> Converted<'_> {
        let Self { output: path, facts, sh_degree, cropped, saved, .. } = self;
        let output = Output {
            path,
            format: saved.format.name(),
            count: saved.splats,
            sh_degree: *sh_degree,
            bytes: saved.bytes,
            cropped: *cropped,
            dropped: saved.dropped,
            clipped: saved.clipped.iter().copied().collect(),
            lost: &saved.lost,
        };
        Converted { kind: "convert", input: facts, output }
    }

    /// Says what was written, and in one line what was not.
    pub(super) fn tell(&self, console: &Console) {
        let (input, output, saved) = (self.input.display(), self.output.display(), &self.saved);
        if let Some(frame) = &self.facts.frame {
            console.note(format!("{input}: axes: {frame}"));
        }
        let size = gausset_io::units::bytes(saved.bytes);
        console.note(format!("{output}: {} splats, {size}", grouped(saved.splats)));
        let mut parts = Vec::new();
        if !saved.lost.is_empty() {
            parts.push(format!("not in the file: {}", saved.lost.join(", ")));
        }
        let clipped: Vec<String> = saved
            .clipped
            .iter()
            .map(|(what, count)| format!("{what} ({} splats)", grouped(*count)))
            .collect();
        if !clipped.is_empty() {
            parts.push(format!("brought to the nearest value of the format: {}", clipped.join(", ")));
        }
        if !parts.is_empty() {
            console.note(format!("{output}: {}", parts.join("; ")));
        }
        if self.cropped > 0 {
            console
                .note(format!("{input}: {} splats outside the crop left out", grouped(self.cropped as u64)));
        }
        if saved.dropped > 0 {
            let dropped = grouped(saved.dropped);
            let line = format!("{output}: {dropped} splats left out, because a value is not finite");
            console.warn("the splats", line);
        }
    }
}

/// Bounds between the percentiles of each axis.
fn middle(splats: &Splats) -> Option<Bounds> {
    let last = splats.len().checked_sub(1)?;
    let cut = ((1.0 - MIDDLE) / 2.0 * last as f64).round() as usize;
    let mut bounds = Bounds { min: [0.0; 3], max: [0.0; 3] };
    let mut values: Vec<f32> = Vec::with_capacity(splats.len());
    for axis in 0..3 {
        values.clear();
        values.extend(splats.means.iter().map(|mean| mean[axis]));
        bounds.min[axis] = *values.select_nth_unstable_by(cut, f32::total_cmp).1;
        bounds.max[axis] = *values.select_nth_unstable_by(last - cut, f32::total_cmp).1;
    }
    Some(bounds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_far_splat_does_not_rule_the_middle() {
        let mut splats = Splats::zeros(0, 201);
        for (i, mean) in splats.means.iter_mut().enumerate() {
            *mean = [i as f32, -(i as f32), if i == 7 { 11_898.0 } else { 1.0 }];
        }
        let bounds = middle(&splats).expect("bounds");
        assert_eq!((bounds.min, bounds.max), ([2.0, -198.0, 1.0], [198.0, -2.0, 1.0]));
        assert!(middle(&Splats::zeros(0, 0)).is_none());
        assert!(middle(&Splats::zeros(0, 1)).is_some());
    }
}
