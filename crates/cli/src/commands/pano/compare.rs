//! `gausset pano compare`: compares poses with reference poses of the same images.

use std::path::PathBuf;

use clap::Args;
use gausset::panos::compare::{self, PoseComparison, PoseSource};
use gausset::panos::model::write;
use gausset_io::atomic::{Disk, check_free};
use gausset_pano::poses::matching::MatchKey;
use gausset_sfm::compare::ErrorStats;

use crate::EarlyExit;
use crate::commands::overwrite;
use crate::console::Console;
use crate::exit::Status;
use crate::lines::Lines;
use crate::numbers::{counted, grouped, three_digits};
use crate::table;

const AFTER_HELP: &str = "\
Examples:
  gausset pano compare work/ truth/sparse/0              compare with a COLMAP model
  gausset pano compare work/ cameras.xml --csv errors.csv
A and B are a folder of `gausset pano align`, poses.json, a COLMAP model, transforms.json, Metashape
.xml, RealityCapture .csv or a folder of .xmp, OpenMVG sfm_data.json, OpenSfM reconstruction.json,
or a TUM .txt. See docs/reference/pano.md.";

/// Arguments of `pano compare`.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct CompareArgs {
    /// Poses to evaluate.
    #[arg(value_name = "A")]
    first: PathBuf,
    /// Reference poses of the same images.
    #[arg(value_name = "B")]
    reference: PathBuf,
    /// Output file for the errors of each image.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Replace FILE if it exists.
    #[arg(long, alias = "overwrite", short_aliases = ['y', 'w'])]
    force: bool,
    /// Print the result as a JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Runs the command.
pub(crate) fn run(args: &CompareArgs, console: &Console) -> Result<Status, EarlyExit> {
    if let Some(path) = &args.csv {
        check_free(&Disk, path, overwrite(args.force)).map_err(gausset::Failure::from)?;
    }
    let compared = compare::compare(&args.first, &args.reference)?;
    if let Some(path) = &args.csv {
        write(path, compared.csv().as_bytes())?;
    }
    console.json_or_text(&compared, || format_comparison(&compared))?;
    Ok(Status::done(!compared.missing.is_empty()))
}

/// Formats a comparison.
pub(crate) fn format_comparison(found: &PoseComparison) -> Lines {
    let PoseComparison { first, reference, fit, centre, rotation_degrees, path, .. } = found;
    let unit = if reference.is_metric { "m" } else { "units" };
    let by = match found.matched_by {
        MatchKey::Name => "by name",
        MatchKey::NameWithoutExtension => "by name without extension",
        MatchKey::Stem => "by name without folder and extension",
        MatchKey::Place => "by position in the list",
    };
    let share = 100.0 * found.registered_share;
    let all = counted(reference.poses as u64, "pose");
    let mut rows =
        vec![("poses", format!("{} of {all} of the reference ({share:.1} %), matched {by}", found.common))];
    for side in [first, reference] {
        if let Some(note) = &side.note {
            rows.push(("read", format!("{}: {note}", side.path.display())));
        }
    }
    let of = if found.is_line {
        "from the rotations, because the centres are collinear".to_owned()
    } else if found.left_out_of_fit.is_empty() {
        "over all centres".to_owned()
    } else {
        format!("without outliers {}", first_names(&found.left_out_of_fit))
    };
    rows.push(("fit", format!("scale {}, {of}", format_number(fit.scale))));
    let spread = |s: &ErrorStats, unit: &str, worst: Option<&str>| {
        let [mean, median, most] = [s.mean, s.median, s.worst].map(format_number);
        let name = worst.map(|name| format!(" ({name})")).unwrap_or_default();
        format!("{mean} {unit} mean, {median} median, {most} worst{name}")
    };
    let name = |frame: Option<&compare::FrameError>| frame.map(|f| f.name.clone());
    let worst = name(found.largest_error(|f| f.centre_error));
    let share = 100.0 * centre.worst / path;
    rows.push(("centres", spread(centre, unit, worst.as_deref())));
    if *path > 0.0 {
        rows.push((
            "",
            format!("worst {} % of the path of {} {unit}", format_number(share), format_number(*path)),
        ));
    }
    let worst = name(found.largest_error(|f| f.rotation_error_degrees));
    rows.push(("rotations", spread(rotation_degrees, "degrees", worst.as_deref())));
    if let Some(drift) = &found.drift {
        let (t, r) = (format_number(100.0 * drift.translation), format_number(drift.rotation));
        let (pieces, piece) = (counted(drift.pieces as u64, "piece"), format_number(drift.piece));
        let per = if reference.is_metric { "metre" } else { "unit" };
        rows.push((
            "drift",
            format!("{t} % of the path length and {r} degrees per {per}, over {pieces} of {piece} {unit}"),
        ));
    }
    for (title, side) in [("reprojection", first), ("of the reference", reference)] {
        rows.extend(reprojection(title, side));
    }
    if !found.missing.is_empty() {
        rows.push(("missing", first_names(&found.missing)));
    }
    table::facts(&rows)
}

fn reprojection(title: &'static str, side: &PoseSource) -> Option<(&'static str, String)> {
    let found = side.reprojection.as_ref()?;
    let [px, degrees] = [found.px, found.degrees];
    let count = grouped(found.observations as u64);
    let (mean, most) = (format_number(px.mean), format_number(px.worst));
    let (angle, largest) = (format_number(degrees.mean), format_number(degrees.worst));
    Some((
        title,
        format!("{mean} px mean, {most} worst; {angle} degrees mean, {largest} worst; {count} observations"),
    ))
}

/// Formats a number with three digits, with an exponent if it is very small.
fn format_number(value: f64) -> String {
    if value != 0.0 && value.abs() < 1e-3 { format!("{value:.1e}") } else { three_digits(value) }
}

/// Lists the first few names.
fn first_names(names: &[String]) -> String {
    const SHOWN: usize = 5;
    let mut text = names.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    if names.len() > SHOWN {
        text += &format!(" and {} more", names.len() - SHOWN);
    }
    text
}
