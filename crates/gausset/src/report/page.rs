//! The sections of the report, the most important first.

use std::path::{Component, Path, PathBuf};

use gausset_core::splats_transform::Similarity;
use gausset_io::input::absolute;
use gausset_io::splat::{self, Format, LoadOptions, SaveOptions, SplatFile};
use gausset_io::text::{grouped, scene_and_sky};
use gausset_page::chart::LineChart;
use gausset_page::place_map::PlaceMap;
use gausset_page::report::ReportPage;
use gausset_page::scene::ScenePage;
use gausset_prof::Profile;
use gausset_train::{Advice, ConfidenceReport, EvalReport};

use super::metrics::{Histograms, ReportMetrics, SecondsTo};
use super::run_log::{DensityChange, RunLog};
use super::thumbnails::{self, COLUMNS, number};
use super::verdict;
use crate::saved_run::{DataLocation, SavedRun};
use crate::{Failure, Host, page};

/// What the images of a view show.
const PANELS: &str = "Photograph, render, absolute difference (white = 0.25 or more) and, where it gains more than half a dB, the render after a colour fit.";
/// Maximum rows of the density table; consecutive changes are merged.
const DENSITY_ROWS: usize = 40;
/// Profile rows below this fraction of the time are hidden.
const MIN_FRACTION: f64 = 0.005;

/// Data of a report.
pub(super) struct ReportContent {
    record: RunLog,
    splats: Option<SplatFile>,
    warnings: Vec<String>,
}

impl ReportContent {
    pub(super) fn read(run: &SavedRun) -> Result<Self, Failure> {
        let record = RunLog::read(&run.folder)?;
        let splats =
            run.trained_splats().ok().map(|path| splat::load(&path, &LoadOptions::default())).transpose()?;
        let mut warnings = record.skipped.clone();
        let left_out = record.evaluation.iter().flat_map(|evaluation| &evaluation.skipped);
        warnings.extend(left_out.map(|view| format!("{}: not evaluated: {}", view.name, view.reason)));
        warnings.extend(truncated_lists(&record));
        Ok(Self { record, splats, warnings })
    }

    pub(super) fn numbers<'a>(&'a self, run: &'a SavedRun) -> ReportMetrics<'a> {
        ReportMetrics::new(run, &self.record, self.splats.as_ref(), &self.warnings)
    }
}

/// The last two components of a path: the full path is private to the machine.
fn last_components(path: &Path) -> PathBuf {
    let whole = absolute(path);
    let parts: Vec<Component<'_>> =
        whole.components().filter(|part| matches!(part, Component::Normal(_))).collect();
    parts[parts.len().saturating_sub(2)..].iter().collect()
}

/// Renders the report as HTML.
pub(super) fn html(
    run: &SavedRun,
    content: &ReportContent,
    numbers: &ReportMetrics<'_>,
    with_splats: Option<DataLocation<'_>>,
    host: &mut Host<'_>,
) -> Result<String, Failure> {
    let ReportContent { record, splats, warnings } = content;
    let about = &run.recorded.record;
    let names = last_components(&run.folder);
    let title = names.iter().map(|part| part.display().to_string()).collect::<Vec<_>>().join("/");
    let lead = format!("Gausset {} · {}", about.version, about.device_name);
    let mut report = ReportPage::new(&title, &lead);

    opening(&mut report, run, content);
    if let Some((file, data)) = splats.as_ref().zip(with_splats) {
        report.splat_viewer(&scene_page(run, &title, file, data, host)?);
    }
    if let Some(confidence) = &record.confidence {
        report.section(&format!("{} confirmed by the photographs", percent(confidence.confirmed)));
        confidence_section(&mut report, confidence);
    }
    report.section("Run");
    report.facts(&summary(run, record, &numbers.seconds_to));
    report.section("Training curves");
    let log_loss = LineChart { title: "loss", x_label: "steps", points: &record.loss, logarithmic: true };
    let line = |title, points| LineChart { title, x_label: "steps", points, logarithmic: false };
    report.charts(
        &[
            log_loss,
            line("PSNR of held-out views, dB", &record.psnr),
            line("splats", &record.splats),
            line("steps per second", &record.steps_per_second),
            line("memory, bytes", &record.memory),
        ],
        &[],
    );
    if !record.density.is_empty() {
        report.section("Density control");
        density_table(&mut report, &record.density);
    }
    if let Some(evaluation) = &record.evaluation {
        evaluation_section(&mut report, run, evaluation);
    }
    if let Some((file, histograms)) = splats.as_ref().zip(numbers.histograms.as_ref()) {
        report.section("Splat statistics");
        splat_statistics(&mut report, file, histograms);
    }
    if let Some(profile) = &record.profile {
        report.section("Profile");
        profile_table(&mut report, profile);
    }
    if !warnings.is_empty() {
        report.section("Warnings");
        report.list(warnings);
    }
    report.section("Configuration");
    report.paragraph(
        "Saved as config.toml, with the folders of your machine, this configuration reproduces the same splats, byte for \
         byte, from the same data.",
    );
    let mut recorded = run.recorded.clone();
    recorded.config = recorded.config.with_paths(last_components);
    report.verbatim(&recorded.to_toml());
    Ok(report.finish())
}

/// The start of the page: the worst and the best view, three numbers, and a sentence.
fn opening(report: &mut ReportPage, run: &SavedRun, ReportContent { record, splats, .. }: &ReportContent) {
    let evaluation = record.evaluation.as_ref();
    let images = evaluation.map(|evaluation| thumbnails::extremes(&run.folder, evaluation));
    if let Some(images) = images.filter(|images| !images.is_empty()) {
        report.hero(&images, PANELS);
    }
    let mut facts = Vec::new();
    if let Some(evaluation) = evaluation {
        let size = match evaluation.reduction {
            0 | 1 => String::new(),
            reduction => format!(" at 1/{reduction} of the size"),
        };
        facts.push(("PSNR", format!("{} dB{size}", number(evaluation.psnr, 2))));
        facts.push(("SSIM", number(evaluation.ssim, 4)));
    }
    let count = match splats {
        Some(file) => splat_count(file),
        None => grouped(record.splats.last().map_or(0, |[_, count]| *count as u64)),
    };
    facts.push(("splats", count));
    report.facts(&facts);
    let trust = record.finished.as_ref().map(|summary| summary.trust).unwrap_or_default();
    let steps = record.finished.as_ref().map_or(0, |summary| summary.steps);
    let advice = evaluation.and_then(|evaluation| Advice::from_scores(evaluation, &trust, steps));
    report.verdict(&verdict::sentence(evaluation, advice));
}

/// Numbers of splats, in the words of all pages.
fn splat_count(file: &SplatFile) -> String {
    let scene = file.scene_len();
    scene_and_sky(scene as u64, (file.splats.len() - scene) as u64)
}

fn summary(run: &SavedRun, record: &RunLog, to: &SecondsTo) -> Vec<(&'static str, String)> {
    let about = &run.recorded.record;
    let mut facts = Vec::new();
    if let Some(evaluation) = &record.evaluation {
        let psnr = evaluation.per_image.iter().filter_map(|picture| picture.psnr);
        let range = [psnr.clone().fold(f64::INFINITY, f64::min), psnr.fold(f64::NEG_INFINITY, f64::max)];
        if range[0] <= range[1] {
            facts.push(("PSNR, worst to best", format!("{:.2} to {:.2} dB", range[0], range[1])));
        }
        facts.push(("definition of SSIM", evaluation.ssim_definition.clone()));
        facts.push(("views evaluated", format!("{} ({})", evaluation.images, evaluation.split)));
    }
    let steps = record.loss.last().map_or(0, |[step, _]| *step as u64);
    let last = |series: &[[f64; 2]]| series.last().map_or(0.0, |[_, value]| *value);
    let done = record.finished.as_ref();
    facts.push((
        "steps",
        match done {
            Some(summary) => grouped(summary.steps),
            None => format!("{}, not finished", grouped(steps)),
        },
    ));
    let seconds = done.map_or(last(&record.seconds), |summary| summary.seconds);
    facts.push(("training time", duration(seconds)));
    if let Some(summary) = done {
        facts.push(("CPU time", duration(summary.cpu_seconds)));
    }
    for (name, seconds) in
        [("time to 20 dB", to.db_20), ("time to 25 dB", to.db_25), ("time to 30 dB", to.db_30)]
    {
        facts.extend(seconds.map(|seconds| (name, duration(seconds))));
    }
    if let Some(psnr) = done.and_then(|summary| summary.trust.training_psnr) {
        facts.push(("PSNR of training views", format!("{psnr:.2} dB")));
    }
    if let Some(haze) = done.and_then(|summary| summary.trust.training_haze) {
        facts.push(("haze of training views", format!("{haze:.3}")));
    }
    facts.push(("images", format!("{} for training, {} held out", about.train_images, about.test_images)));
    facts.push(("start", about.start.clone()));
    facts.push(("seed", run.recorded.config.recipe.seed.to_string()));
    facts.push(("dataset", about.fingerprint.clone()));
    facts.push(("scene extent", format!("{:.4} units", about.scene_extent)));
    facts
}

fn duration(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    match whole {
        0..60 => format!("{seconds:.1} s"),
        60..3600 => format!("{} min {:02} s", whole / 60, whole % 60),
        _ => format!("{} h {:02} min", whole / 3600, whole % 3600 / 60),
    }
}

fn evaluation_section(report: &mut ReportPage, run: &SavedRun, evaluation: &EvalReport) {
    report.section(&format!("All {} views ({}), the worst first", evaluation.images, evaluation.split));
    let scores = &evaluation.scores;
    report.facts(&[
        ("PSNR, colour-corrected", format!("{} dB", number(scores.psnr_colour_corrected, 2))),
        ("PSNR, pixels seen by 3 views", format!("{} dB", number(scores.psnr_covisible, 2))),
        ("haze", number(scores.haze, 4)),
    ]);
    report.paragraph(&format!("{PANELS} Full-size images are in eval/."));
    let rows = thumbnails::rows(&run.folder, evaluation);
    let without = rows.iter().filter(|row| row.jpeg.is_none()).count();
    report.images(&COLUMNS, &rows);
    if without > 0 {
        report.paragraph(&format!(
            "{without} views have no image here: it is missing in eval/, or this page would be too large."
        ));
    }
}

/// Adds what the training views know, and where to photograph again.
fn confidence_section(report: &mut ReportPage, confidence: &ConfidenceReport) {
    report.facts(&[
        ("confirmed (green)", percent(confidence.confirmed)),
        ("seen (yellow)", percent(confidence.seen)),
        ("invented (red)", percent(confidence.invented)),
    ]);
    report.paragraph(
        "Confirmed: three photographs agree on the depth, from directions at least 1.5 degrees apart. Seen: two agree. \
         Invented: at most one photograph shows it there. Of the surfaces as the training views show them.",
    );
    let arrows: Vec<_> = confidence.again.iter().map(|place| place.arrow).collect();
    report.place_map(&PlaceMap {
        title: "From above, with the cameras; lines join those that share the most points",
        scale: &format!("a cell is {:.3} units wide", confidence.map.cell),
        size: confidence.map.size,
        cells: &confidence.map.cells,
        cameras: &confidence.map.cameras,
        pairs: &confidence.map.pairs,
        arrows: &arrows,
    });
    let places = confidence.again.iter().zip(1..).map(|(place, number)| {
        let (near, share) = (&place.near, percent(place.share));
        format!("Photograph here again ({number}): a step to the side of {near}; {share} of all surfaces are not confirmed there")
    });
    let places: Vec<String> = places.collect();
    if !places.is_empty() {
        report.list(&places);
    }
}

fn percent(fraction: f64) -> String {
    format!("{:.0} %", 100.0 * fraction)
}

/// Adds the table of density changes.
fn density_table(report: &mut ReportPage, changes: &[DensityChange]) {
    let rows = changes.chunks(changes.len().div_ceil(DENSITY_ROWS)).map(|part| {
        let sum = |count: fn(&DensityChange) -> u64| grouped(part.iter().map(count).sum());
        let last = part.last().copied().unwrap_or_default();
        vec![
            grouped(last.step),
            sum(|change| change.added),
            sum(|change| change.pruned),
            sum(|change| change.relocated),
            grouped(last.splats),
        ]
    });
    report.paragraph("Changes by density control between each step and the previous row:");
    report.table(&["step", "added", "pruned", "relocated", "splats"], &rows.collect::<Vec<_>>());
}

fn splat_statistics(report: &mut ReportPage, file: &SplatFile, histograms: &Histograms) {
    report.charts(
        &[],
        &[
            histograms.opacity.chart("opacity"),
            histograms.log10_largest_scale.chart("largest scale, log10 of scene units"),
            histograms.log10_longest_over_shortest.chart("longest / shortest axis, log10"),
        ],
    );
    report.paragraph(&format!("{} splats; SH degree {}.", splat_count(file), file.sh_degree));
}

fn profile_table(report: &mut ReportPage, profile: &Profile) {
    let shown = profile.rows.iter().filter(|row| row.share >= MIN_FRACTION);
    let rows = shown.map(|row| {
        vec![
            row.path.clone(),
            format!("{:.1} %", 100.0 * row.share),
            duration(row.total_ms / 1000.0),
            grouped(row.count),
            format!("{:.3}", row.median_ms),
        ]
    });
    report.table(&["stage", "share", "time", "calls", "median, ms"], &rows.collect::<Vec<_>>());
}

fn truncated_lists(record: &RunLog) -> Option<String> {
    let tiles = record.finished.as_ref().map_or(0, |summary| summary.cut_tiles);
    (tiles > 0).then(|| format!("{} tile lists were truncated by max-splats-per-tile", grouped(tiles)))
}

/// The embedded page of the run's splats.
fn scene_page(
    run: &SavedRun,
    title: &str,
    file: &SplatFile,
    data: DataLocation<'_>,
    host: &mut Host<'_>,
) -> Result<Vec<u8>, Failure> {
    let scene = page::page_scene(&run.folder, Some(run), data, &Similarity::IDENTITY, file, host);
    let scene = ScenePage { title: title.to_owned(), ..scene };
    let document = SplatFile { page: Some(Box::new(scene)), ..file.clone() };
    let mut page = Vec::new();
    let written = splat::write(&mut page, &document, Format::Html, &SaveOptions::default());
    written
        .map_err(|error| Failure::new("write", format!("{}: splat page: {error}", run.folder.display())))?;
    Ok(page)
}
