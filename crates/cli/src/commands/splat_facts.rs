//! Formatting of splat files and conversions for `info` and `convert`, with the same facts in text and JSON.

use std::collections::BTreeMap;
use std::path::Path;

use gausset::convert::{ConversionLoss, ConversionResult, RemovedCounts};
use gausset::splat_info::{Bounds, FAR, SplatInfo, TRANSPARENT};
use gausset_io::splat;
use serde::Serialize;

use crate::console::Console;
use crate::numbers::{grouped, three_digits};

/// Size of a splat file in bytes, with all files of an unpacked or streamed SOG.
pub(super) fn file_bytes(path: &Path) -> u64 {
    let files = splat::files_of(path);
    files.iter().filter_map(|file| std::fs::metadata(file).ok()).map(|metadata| metadata.len()).sum()
}

/// Formats the facts about a splat file as rows of a table; `bytes` is the size of the file.
pub(super) fn rows(facts: &SplatInfo, bytes: u64) -> Vec<(&'static str, String)> {
    let corner = |corner: [f32; 3]| corner.map(|v| three_digits(f64::from(v))).join(" ");
    let box_of = |bounds: &Option<Bounds>| {
        bounds.as_ref().map_or_else(
            || "none".to_owned(),
            |bounds| format!("{} .. {}", corner(bounds.min), corner(bounds.max)),
        )
    };
    let version = facts.version.as_ref().map_or(String::new(), |version| format!(" {version}"));
    let mode = match facts.mode {
        "mip" => "mip (antialiased: opacity compensation)",
        "2dgs" => "2dgs (flat discs)",
        mode => mode,
    };
    let mut rows = vec![
        ("splats", count_of(facts)),
        ("SH degree", facts.sh_degree.to_string()),
        ("format", format!("{}{version}, {}", facts.format, gausset_io::text::format_bytes(bytes))),
        ("bounds", box_of(&facts.bounds)),
    ];
    if facts.middle.is_some() {
        rows.push(("98 % within", box_of(&facts.middle)));
    }
    if facts.far > 0 {
        let far = format_part(facts.far, facts.count.saturating_sub(facts.sky.unwrap_or(0)));
        rows.push(("far out", format!("{far} beyond {FAR} median distances from the centre")));
    }
    if facts.transparent > 0 {
        let transparent = format_part(facts.transparent, facts.count);
        rows.push(("transparent", format!("{transparent} with an opacity below {TRANSPARENT}")));
    }
    if !facts.levels.is_empty() {
        let levels: Vec<String> = facts.levels.iter().map(|&count| grouped(count)).collect();
        rows.push(("levels", format!("{}: {} splats", levels.len(), levels.join(" | "))));
    }
    rows.push(("mode", mode.to_owned()));
    if let Some(frame) = &facts.frame {
        rows.push(("frame", frame.clone()));
    }
    if let Some(up) = facts.up {
        rows.push(("up", corner(up)));
    }
    for (what, count) in [("dropped", facts.dropped), ("repaired", facts.repaired)] {
        if count > 0 {
            rows.push((what, grouped(count)));
        }
    }
    rows
}

/// Formats the number of splats: `6,000 and a sky of 4,000`.
fn count_of(facts: &SplatInfo) -> String {
    let sky = facts.sky.unwrap_or(0);
    gausset_io::text::scene_and_sky(facts.count.saturating_sub(sky) as u64, sky as u64)
}

/// Formats a part of some splats: `4,000 splats (8.3 %)`.
fn format_part(count: usize, all: usize) -> String {
    let share = match 100.0 * count as f64 / all.max(1) as f64 {
        few if few < 0.1 => "below 0.1 %".to_owned(),
        some => format!("{some:.1} %"),
    };
    format!("{} splats ({share})", grouped(count as u64))
}

/// `convert --json`: a stable contract.
#[derive(Debug, Serialize)]
pub(super) struct ConversionJson<'a> {
    kind: &'static str,
    input: &'a SplatInfo,
    output: OutputJson<'a>,
    /// Loss by the format; left out if it was not measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    loss: Option<&'a ConversionLoss>,
    /// Loss by crops and other edits; left out if it was not measured or there were none.
    #[serde(skip_serializing_if = "Option::is_none")]
    edits_loss: Option<&'a ConversionLoss>,
}

#[derive(Debug, Serialize)]
struct OutputJson<'a> {
    path: &'a Path,
    #[serde(flatten)]
    facts: &'a SplatInfo,
    bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    sh_bits: Option<[u8; 2]>,
    /// Number of splats removed by `--box`, `--sphere` and `--crop-to-cameras`.
    cropped: usize,
    /// Number of splats removed by each kind of option.
    removed: RemovedCounts,
    /// Fraction of the sum of opacity times area that `--max-splats` and `--max-size` removed.
    removed_importance: f64,
    /// Largest step of the positions of the scene, scene units; left out if they are not rounded.
    #[serde(skip_serializing_if = "Option::is_none")]
    position_step: Option<f64>,
    /// Number of splats with a value outside the range of the format, by parameter.
    clipped: BTreeMap<&'static str, u64>,
    /// Other data that the format cannot store.
    lost: &'a [String],
}

/// The result of a conversion as a JSON object.
pub(super) fn conversion_json<'a>(converted: &'a ConversionResult, path: &'a Path) -> ConversionJson<'a> {
    let ConversionResult {
        read, removed, removed_importance, written, saved, sh_bits, loss, edits_loss, ..
    } = converted;
    let output = OutputJson {
        path,
        facts: written,
        bytes: saved.bytes,
        sh_bits: *sh_bits,
        cropped: removed.outside,
        removed: *removed,
        removed_importance: *removed_importance,
        position_step: saved.positions.map(|positions| positions.scene),
        clipped: saved.clipped.iter().copied().collect(),
        lost: &saved.lost,
    };
    let (loss, edits_loss) = (loss.as_ref(), edits_loss.as_ref());
    ConversionJson { kind: "convert", input: read, output, loss, edits_loss }
}

/// Prints what was written, and what was removed or could not be stored. `no_sky` says whether the sky was unwanted.
pub(super) fn print_conversion(converted: &ConversionResult, output: &Path, no_sky: bool, console: &Console) {
    let (input, output, saved) = (converted.input.display(), output.display(), &converted.saved);
    if let Some(frame) = &converted.read.frame {
        console.note(format!("{input}: axes: {frame}"));
    }
    let size = gausset_io::text::format_bytes(saved.bytes);
    let bits = match converted.sh_bits {
        Some([first, others]) => format!(", SH in {first} and {others} bits"),
        None => String::new(),
    };
    console.note(format!("{output}: {} splats, {size}{bits}", count_of(&converted.written)));
    let losses = saved.losses();
    if !losses.is_empty() {
        console.note(format!("{output}: {}", losses.join("; ")));
    }
    if let Some(line) = saved.coarse_positions() {
        console.warn("the splats", format!("{output}: {line}"));
    } else if let Some(positions) = saved.positions {
        console.note(format!("{output}: {positions}"));
    }
    let RemovedCounts { invented, sky, far, faint, outside, unimportant } = converted.removed;
    let of_sky = if no_sky {
        "the sky"
    } else {
        "the sky; --keep-sky keeps it, --sky-image FILE writes it as an image"
    };
    let share = format!(
        "the least important, {:.2} % of the sum of opacity times area",
        100.0 * converted.removed_importance
    );
    let removed = [
        (invented, "not confirmed by two photographs"),
        (sky, of_sky),
        (far, "too far out"),
        (faint, "too transparent"),
        (outside, "outside the crop"),
        (unimportant, share.as_str()),
    ];
    for (count, what) in removed {
        if count > 0 {
            console.note(format!("{input}: {} splats removed ({what})", grouped(count as u64)));
        }
    }
    if saved.dropped > 0 {
        let dropped = grouped(saved.dropped);
        let line = format!("{output}: {dropped} splats with non-finite values left out");
        console.warn("the splats", line);
    }
    for (what, loss) in [("loss by edits", &converted.edits_loss), ("loss by the format", &converted.loss)] {
        if let Some(loss) = loss {
            console.note(format!("{output}: {what}: {}", format_loss(loss)));
        }
    }
}

/// Formats a loss.
fn format_loss(loss: &ConversionLoss) -> String {
    let ConversionLoss { psnr, worst, worst_view, views, cameras } = loss;
    let where_from = match *cameras {
        "held-out" => "held-out views",
        _ => "views around the splats",
    };
    match (psnr, worst) {
        (Some(psnr), Some(worst)) => {
            format!("PSNR {psnr:.2} dB, worst {worst:.2} dB ({worst_view}), {views} {where_from}")
        }
        _ => format!("none in {views} {where_from}"),
    }
}
