//! `gausset pano layouts`: coverage of the sphere by view layouts.

use std::path::PathBuf;

use clap::Args;
use gausset::panos::ViewOptions;
use gausset_pano::coverage::{Coverage, view_count_grid};
use gausset_pano::geometry::View;
use gausset_pano::layout::Layout;
use serde::Serialize;

use super::views::layout_parser;
use crate::EarlyExit;
use crate::console::Console;
use crate::describe;
use crate::exit::Status;
use crate::lines::Lines;
use crate::table::{self, ColumnAlign};

const AFTER_HELP: &str = "\
Examples:
  gausset pano layouts                       table of all layouts
  gausset pano layouts ring8                 one layout, with a coverage map
  gausset pano layouts ring8 --full-sphere   also the views that fill its holes
  gausset pano layouts --views mine.json";

/// Columns and rows of the coverage map.
const MAP_SIZE: [usize; 2] = [72, 18];
/// Width of an assumed panorama, px. The sizes of views do not matter here.
const ASSUMED_WIDTH: u32 = 4096;

/// Arguments of `pano layouts`.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct LayoutsArgs {
    /// Layout to show with its coverage map [default: a table of all layouts].
    #[arg(value_name = "LAYOUT", value_parser = layout_parser())]
    layout: Option<Layout>,
    /// JSON file of custom views: a list of {yaw, pitch, roll, hfov, width, height}.
    #[arg(long, value_name = "FILE", conflicts_with = "layout")]
    views: Option<PathBuf>,
    /// Horizontal field of view, degrees [default: the layout's].
    #[arg(long, value_name = "DEG")]
    fov: Option<f64>,
    /// Add the fewest views that make the layout cover the full sphere, and list them.
    #[arg(long)]
    full_sphere: bool,
    /// Print the result as a JSON object.
    #[arg(long)]
    pub(super) json: bool,
}

/// The result: a stable contract.
#[derive(Serialize)]
struct LayoutsReport {
    schema: u32,
    kind: &'static str,
    layouts: Vec<LayoutCoverage>,
}

/// Coverage of one layout.
#[derive(Serialize)]
struct LayoutCoverage {
    name: String,
    /// Views of the layout, followed by those added for the full sphere.
    views: Vec<View>,
    added: usize,
    /// Covered fraction of the sphere, 0 to 1.
    share: f64,
    mean_views: f64,
    least_views: Option<u32>,
    holes: Vec<HoleInfo>,
}

/// A part of the sphere that no view covers.
#[derive(Serialize)]
struct HoleInfo {
    share: f64,
    yaw: Option<f64>,
    pitch: Option<f64>,
    radius_degrees: f64,
}

/// Runs the command.
pub(crate) fn run(args: &LayoutsArgs, console: &Console) -> Result<Status, EarlyExit> {
    let choice = |layout: Layout| ViewOptions {
        layout,
        fov: args.fov,
        full_sphere: args.full_sphere,
        ..ViewOptions::default()
    };
    let chosen: Vec<(String, ViewOptions)> = match (&args.views, args.layout) {
        (Some(path), _) => {
            let choice = ViewOptions { views: Some(path.clone()), ..choice(Layout::Ring8) };
            vec![(path.display().to_string(), choice)]
        }
        (None, Some(layout)) => vec![(layout.name().to_owned(), choice(layout))],
        (None, None) => Layout::ALL.map(|layout| (layout.name().to_owned(), choice(layout))).to_vec(),
    };
    let is_single = chosen.len() == 1;
    let layouts = chosen
        .into_iter()
        .map(|(name, choice)| LayoutCoverage::new(name, &choice))
        .collect::<Result<_, _>>()?;
    let report = LayoutsReport { schema: 1, kind: "layouts", layouts };
    console.json_or_text(&report, || match report.layouts.first() {
        Some(entry) if is_single => entry.text(),
        _ => layouts_table(&report.layouts),
    })?;
    Ok(Status::Done)
}

impl LayoutCoverage {
    fn new(name: String, choice: &ViewOptions) -> Result<Self, EarlyExit> {
        let chosen = ViewOptions { full_sphere: false, ..choice.clone() }.views(ASSUMED_WIDTH)?.len();
        let views = choice.views(ASSUMED_WIDTH)?;
        let coverage = Coverage::new(&views);
        let hole = |h: &gausset_pano::coverage::Hole| HoleInfo {
            share: h.fraction,
            yaw: h.yaw,
            pitch: h.pitch,
            radius_degrees: h.radius,
        };
        Ok(Self {
            name,
            added: views.len() - chosen,
            views,
            share: coverage.fraction,
            mean_views: coverage.mean_views,
            least_views: coverage.min_views,
            holes: coverage.holes.iter().map(hole).collect(),
        })
    }

    fn min_views_text(&self) -> String {
        self.least_views.map_or_else(|| "?".to_owned(), |least| least.to_string())
    }

    /// Formats the layout with its coverage map.
    fn text(&self) -> Lines {
        let mut text = table::facts(&[
            ("layout", format!("{}, {} views", self.name, self.views.len())),
            ("sphere", format!("{} covered", describe::percent(self.share))),
            (
                "views",
                format!(
                    "{:.2} per direction on average, {} at least",
                    self.mean_views,
                    self.min_views_text()
                ),
            ),
        ]);
        for hole in &self.holes {
            text += format!("hole    {}", hole.text());
        }
        if self.added > 0 {
            let added = &self.views[self.views.len() - self.added..];
            text += describe::views_added(added);
        }
        let [columns, rows] = MAP_SIZE;
        text += "";
        text += "number of views per direction; top = zenith, centre = straight ahead, . = none";
        for row in view_count_grid(&self.views, columns, rows).chunks(columns) {
            let digits = row.iter().map(|&count| match count {
                0 => '.',
                count => char::from_digit(count, 36).unwrap_or('+'),
            });
            text += digits.collect::<String>();
        }
        text
    }
}

impl HoleInfo {
    fn text(&self) -> String {
        let share = describe::percent(self.share);
        match (self.yaw, self.pitch) {
            (Some(_), Some(pitch)) if pitch > 89.5 => {
                format!("{share} around the zenith, radius {:.0} degrees", self.radius_degrees)
            }
            (Some(_), Some(pitch)) if pitch < -89.5 => {
                format!("{share} around the nadir, radius {:.0} degrees", self.radius_degrees)
            }
            (Some(yaw), Some(pitch)) => format!(
                "{share} around yaw {yaw:.0}, pitch {pitch:.0}, radius {:.0} degrees",
                self.radius_degrees
            ),
            _ => format!("{share} in a belt around the sphere"),
        }
    }
}

fn layouts_table(layouts: &[LayoutCoverage]) -> Lines {
    let header = [
        ("layout", ColumnAlign::Left),
        ("views", ColumnAlign::Right),
        ("degrees", ColumnAlign::Right),
        ("sphere", ColumnAlign::Right),
        ("mean", ColumnAlign::Right),
        ("least", ColumnAlign::Right),
        ("largest hole", ColumnAlign::Left),
    ];
    let rows: Vec<Vec<String>> = layouts
        .iter()
        .map(|entry| {
            vec![
                entry.name.clone(),
                entry.views.len().to_string(),
                entry.views.first().map_or(0.0, |view| view.hfov).to_string(),
                describe::percent(entry.share),
                format!("{:.2}", entry.mean_views),
                entry.min_views_text(),
                entry.holes.first().map_or_else(String::new, HoleInfo::text),
            ]
        })
        .collect();
    table::columns(&header, &rows)
}
