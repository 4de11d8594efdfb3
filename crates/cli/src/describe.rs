//! Formatting of job results as tables and lines of text.

use std::path::Path;

use gausset::SelectionSummary;
use gausset::panos::split::SplitForecast;
use gausset::panos::{MaskStatistics, PanoAlignment};
use gausset::photos::PhotoAlignment;
use gausset::training::Trained;
use gausset_io::dataset::Georeference as Georeferenced;
use gausset_io::dataset::georeference::EarthPlace;
use gausset_io::run_folder::{eval_folder, report_path, splats_path};
use gausset_io::text::{self, shell_quote};
use gausset_pano::export::Georeference;
use gausset_pano::lens_pose::LensRelation;
use gausset_pano::selection::SelectBy;
use gausset_pano::split::{SplitReport, StageTimes};
use gausset_prof::StageTime;
use gausset_train::eval::CONTACT_SHEET;
use gausset_train::{Advice, Judgement, RunEnd, RunOutcome};

use crate::lines::Lines;
use crate::numbers::{counted, decibels, duration, grouped, three_digits};
use crate::table::ColumnAlign;
use crate::{scores, table};

/// Formats the result of aligning photographs.
pub(crate) fn photo_alignment(alignment: &PhotoAlignment) -> Lines {
    let all = counted(alignment.frames as u64, "photograph");
    let mut rows = vec![
        ("photographs", format!("{} of {all} registered", alignment.registered)),
        ("points", grouped(alignment.points as u64)),
        ("error", format!("{:.3} px (mean reprojection error)", alignment.mean_reprojection_px)),
        ("model", alignment.model.display().to_string()),
    ];
    if let Some(found) = &alignment.georeference {
        rows.push(("place", georeference(found)));
    }
    if !alignment.unregistered.is_empty() {
        rows.push(("missing", counted(alignment.unregistered.len() as u64, "photograph")));
    }
    table::facts(&rows)
}

/// Formats the names of pictures whose GPS position was left out.
pub(crate) fn left_out_positions(names: &[String]) -> String {
    const NAMED: usize = 5;
    let more = if names.len() > NAMED { ", …" } else { "" };
    match names {
        [] => String::new(),
        _ => format!("; {} left out: {}{more}", names.len(), names[..names.len().min(NAMED)].join(", ")),
    }
}

/// Formats where a model is on the earth, and how well GPS positions fit it.
pub(crate) fn georeference(found: &Georeferenced) -> String {
    let EarthPlace { latitude, longitude, altitude } = found.origin;
    let height = altitude.map_or_else(String::new, |altitude| format!(", {altitude:.1} m"));
    let (count, residual) = (found.positions, three_digits(found.residual_m));
    let out = left_out_positions(&found.left_out);
    format!(
        "metres east, north, up of {latitude:.6}, {longitude:.6}{height}; {count} GPS positions, residual {residual} m{out}"
    )
}

/// Formats the result of aligning panoramas.
pub(crate) fn pano_alignment(alignment: &PanoAlignment) -> Lines {
    let all = counted(alignment.frames as u64, "frame");
    let (points, views) = (grouped(alignment.points), three_digits(alignment.track_length));
    let scale = match (&alignment.earth, alignment.is_metric) {
        (Some(earth), _) => format!("metres, from the GPS track: {}", track_fit(earth)),
        (None, true) => "metres, from GPS".to_owned(),
        (None, false) => "arbitrary".to_owned(),
    };
    let mut rows = vec![
        ("frames", format!("{} of {all} registered", alignment.registered)),
        ("aligned by", alignment.tool.clone()),
        ("points", format!("{points}, seen in {views} views on average")),
        ("error", format!("{:.3} px (mean reprojection error)", alignment.mean_reprojection_px)),
        ("scale", scale),
        ("model", alignment.model.display().to_string()),
    ];
    if let Some(lenses) = &alignment.lenses {
        rows.push(("lenses", lens_relation(lenses, alignment.is_metric)));
        if !lenses.completed.is_empty() {
            rows.push(("by the other lens", lenses.completed.join(", ")));
        }
    }
    if !alignment.unregistered.is_empty() {
        rows.push(("missing", alignment.unregistered.join(", ")));
    }
    table::facts(&rows)
}

/// Formats the relative pose of two lenses.
fn lens_relation(lenses: &LensRelation, is_metric: bool) -> String {
    let unit = if is_metric { " m" } else { "" };
    let [turn, _] = lenses.deviation_degrees;
    let [place, _] = lenses.deviation;
    format!(
        "{:.3} degrees between the lenses ({:.3} from the lens file), baseline {}{unit}; median deviation over {}: {turn:.3} degrees, {}{unit}",
        lenses.angle_degrees,
        lenses.off_lens_file_degrees,
        three_digits(lenses.baseline),
        counted(lenses.frames as u64, "frame"),
        three_digits(place),
    )
}

/// Formats how well a GPS track fits the poses.
pub(crate) fn track_fit(earth: &Georeference) -> String {
    let frames = counted(earth.frames as u64, "frame");
    let doubt = earth.offset_deviation_s.map(|d| format!(" (estimated, ± {} s)", three_digits(d)));
    let residual = three_digits(earth.residual_m);
    format!("{frames}, residual {residual} m, offset {:.2} s{}", earth.offset_s, doubt.unwrap_or_default())
}

/// Formats how much of the panoramas was masked.
pub(crate) fn mask_statistics(share: &MaskStatistics) -> String {
    let all = counted(share.frames as u64, "frame");
    let (mean, worst) = (percent(share.removed_mean), percent(share.removed_worst));
    let skipped = if share.skipped > 0 { format!("; {} skipped", share.skipped) } else { String::new() };
    let rides = share.still_share.map(|share| format!("; {} static foreground", percent(share)));
    let found = (share.still_share.is_none() || share.with_finds > 0)
        .then(|| format!("; detections in {} of {all}", share.with_finds));
    let (rides, found) = (rides.unwrap_or_default(), found.unwrap_or_default());
    format!("{mean} of the sphere on average, {worst} at most{rides}{found}{skipped}")
}

/// Formats the result of a training, with all scores if `is_verbose`.
pub(crate) fn trained(trained: &Trained, is_verbose: bool) -> Lines {
    let RunOutcome { summary, evaluation, end, .. } = &trained.outcome;
    let mut rows: Vec<(&str, String)> = Vec::new();
    if let Some(report) = evaluation.as_ref().filter(|report| report.ssim.is_some()) {
        let images = counted(report.images as u64, "held-out image");
        rows.push(("PSNR", format!("{} (mean of {images})", decibels(report.psnr))));
        let details = scores::facts(report.ssim, &report.scores);
        rows.extend(details.into_iter().filter(|(name, _)| is_verbose || *name == "SSIM"));
        if let (Some(psnr), true) = (summary.trust.training_psnr, is_verbose) {
            let haze =
                summary.trust.training_haze.map(|haze| format!(", haze {haze:.2}")).unwrap_or_default();
            rows.push(("training", format!("{psnr:.2} dB{haze} on a sample of the training images")));
        }
        if let (Some(confirmed), true) = (summary.trust.confirmed_share, is_verbose) {
            rows.push(("confirmed", format!("{} of the surfaces, by three photographs", percent(confirmed))));
        }
        if let Some(judgement) = Judgement::from_scores(report) {
            rows.push(("quality", judgement.line().to_owned()));
        }
        if let Some(advice) = Advice::from_scores(report, &summary.trust, summary.steps) {
            rows.push(("advice", advice.line().to_owned()));
        }
        if report.valid_share < 1.0 && is_verbose {
            rows.push(("valid", format!("{:.1} % of the pixels", 100.0 * report.valid_share)));
        }
    } else if summary.psnr.is_some() {
        rows.push(("PSNR", decibels(summary.psnr)));
    } else if *end == RunEnd::Finished {
        let why = match evaluation {
            _ if summary.unscored => "more splats than memory can hold",
            Some(_) => "none of the held-out images could be used",
            None => "no held-out images",
        };
        rows.push(("PSNR", format!("not measured: {why}")));
    }
    let rate = summary.it_per_s();
    let rate = rate.map_or_else(String::new, |rate| format!(", {} it/s on average", three_digits(rate)));
    rows.push(("steps", grouped(summary.steps)));
    rows.push(("splats", grouped(summary.splats)));
    rows.push(("time", format!("{}{rate}", duration(summary.seconds))));
    if is_verbose {
        rows.push(("CPU time", duration(summary.cpu_seconds)));
    }
    if *end == RunEnd::Finished {
        rows.push(("result", splats_path(&trained.folder).display().to_string()));
        let report = report_path(&trained.folder);
        if report.is_file() {
            rows.push(("report", report.display().to_string()));
        }
        let sheet = eval_folder(&trained.folder).join(CONTACT_SHEET);
        if sheet.is_file() {
            rows.push(("images", format!("{} ({})", sheet.display(), scores::PANELS)));
        }
        rows.push(("view it", format!("gausset view {}", shell_quote(&trained.folder))));
    }
    table::facts(&rows)
}

/// Formats the forecast of a split: frames, views, disk space and CPU time.
pub(crate) fn split_forecast(forecast: &SplitForecast) -> Lines {
    let SplitForecast { view_width, view_height, .. } = forecast;
    let views = grouped(forecast.views as u64);
    table::facts(&[
        ("frames", grouped(forecast.frames as u64)),
        ("views", format!("{views} of {view_width}x{view_height} px")),
        ("disk", format!("about {}", text::format_bytes(forecast.disk_bytes))),
        ("CPU time", format!("about {}", duration(forecast.cpu_seconds))),
    ])
}

/// Formats the result of a split, with the time per stage if `is_verbose`.
pub(crate) fn split(report: &SplitReport, folder: &Path, is_verbose: bool) -> Lines {
    let mut rows = vec![
        ("frames", counted(report.frames as u64, "frame")),
        ("views", counted(report.views as u64, "view")),
        ("folder", folder.display().to_string()),
    ];
    if report.resumed > 0 {
        rows.push(("kept", format!("{} from an earlier run", counted(report.resumed as u64, "frame"))));
    }
    if !report.skipped.is_empty() {
        rows.push(("skipped", counted(report.skipped.len() as u64, "frame")));
    }
    if report.frames == report.resumed {
        return table::facts(&rows);
    }
    rows.push(("limited by", report.times.bottleneck().to_owned()));
    if !is_verbose {
        return table::facts(&rows);
    }
    table::facts(&rows) + "" + stage_table(&report.times)
}

/// Formats the time per stage of a job as a table whose rows add up to the time of all workers.
pub(crate) fn stage_table(times: &StageTimes) -> Lines {
    let header = [
        ("stage", ColumnAlign::Left),
        ("wall s", ColumnAlign::Right),
        ("share", ColumnAlign::Right),
        ("CPU s", ColumnAlign::Right),
        ("waiting s", ColumnAlign::Right),
    ];
    let row = |name: String, spent: StageTime, share: Option<f64>| {
        let share = share.map_or_else(|| "-".to_owned(), |share| format!("{:.1} %", 100.0 * share));
        let seconds = [spent.wall_s, spent.cpu_s, spent.waiting_s()].map(three_digits);
        let [wall, cpu, waiting] = seconds;
        vec![name, wall, share, cpu, waiting]
    };
    // Stages that took no time were not requested: colours, masks, waiting for the video.
    let busy = times.stages.iter().filter(|stage| times.fraction(stage) >= 5e-4);
    let mut rows: Vec<Vec<String>> =
        busy.map(|stage| row(stage.stage.to_owned(), stage.spent, Some(times.fraction(stage)))).collect();
    let mut all = StageTime::default();
    times.stages.iter().for_each(|stage| all += stage.spent);
    rows.push(row(counted(times.workers as u64, "worker"), all, Some(1.0)));
    rows.push(row("beside: sync".to_owned(), times.sync, None));
    table::columns(&header, &rows)
}

/// Formats the time per stage of a split as one line.
pub(crate) fn split_times(times: &StageTimes) -> String {
    let mut rows: Vec<_> = times.stages.iter().filter(|row| times.fraction(row) >= 0.02).collect();
    rows.sort_by(|a, b| b.spent.wall_s.total_cmp(&a.spent.wall_s));
    let parts: Vec<String> =
        rows.into_iter().map(|row| format!("{} {:.0} %", row.stage, 100.0 * times.fraction(row))).collect();
    let workers = counted(times.workers as u64, "worker");
    format!(
        "cut in {} by {workers}: {}; limited by {}",
        duration(times.wall_s),
        parts.join(", "),
        times.bottleneck()
    )
}

/// Formats how many frames of a video were selected, and why the others were dropped.
pub(crate) fn frames_chosen(chosen: &SelectionSummary) -> String {
    let by = match (chosen.select, chosen.step, chosen.fps) {
        (SelectBy::Space, Some(step), _) => {
            let metres = chosen.step_metres.map(|metres| format!(" or {metres:.2} m along the GPS track"));
            format!(", {step:.2} degrees of parallax{} apart", metres.unwrap_or_default())
        }
        (SelectBy::Time, _, Some(fps)) => format!(", {fps} per second"),
        _ => String::new(),
    };
    let dropped: Vec<String> =
        chosen.dropped.iter().map(|(reason, count)| format!("{count} {}", reason.name())).collect();
    let dropped =
        if dropped.is_empty() { String::new() } else { format!("; dropped: {}", dropped.join(", ")) };
    let frames = counted(chosen.frames as u64, "frame");
    format!("frames: {} of {frames}, by {}{by}{dropped}", chosen.kept, chosen.select.name())
}

/// Formats the views that were added to cover the full sphere.
pub(crate) fn views_added(views: &[gausset_pano::geometry::View]) -> String {
    if views.is_empty() {
        return "full sphere: already covered, no views added".to_owned();
    }
    let list: Vec<String> = views
        .iter()
        .map(|v| format!("{} (yaw {:.0}, pitch {:.0}, roll {:.0})", v.name, v.yaw, v.pitch, v.roll))
        .collect();
    format!("full sphere: {} added: {}", counted(views.len() as u64, "view"), list.join(", "))
}

/// Formats a fraction in percent with two decimals. Only 1 is shown as 100 %.
pub(crate) fn percent(share: f64) -> String {
    match share {
        1.0 => "100 %".to_owned(),
        share => format!("{:.2} %", (100.0 * share).min(99.99)),
    }
}
