//! `gausset pano compare`: poses against others of the same pictures.

use std::path::PathBuf;

use clap::Args;
use gausset_flow::panos::compare::{self, Compared, Side};
use gausset_flow::panos::model::write;
use gausset_io::atomic::{Disk, refuse_existing};
use gausset_pano::poses::matching::MatchedBy;
use gausset_sfm::compare::Spread;

use crate::Ending;
use crate::commands::overwrite;
use crate::console::Console;
use crate::exit::Status;
use crate::lines::Lines;
use crate::numbers::{counted, grouped, three_digits};
use crate::table;

const AFTER_HELP: &str = "\
Examples:
  gausset pano compare work/ truth/sparse/0              COLMAP against COLMAP
  gausset pano compare work/ cameras.xml --csv errors.csv
A and B are a folder of `gausset pano align`, poses.json, a COLMAP model, transforms.json, Metashape .xml, RealityCapture
.csv or a folder of .xmp, OpenMVG sfm_data.json, OpenSfM reconstruction.json, a TUM .txt. See docs/pano.md.";

/// Arguments of `pano compare`.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct CompareArgs {
    /// Poses that are judged.
    #[arg(value_name = "A")]
    first: PathBuf,
    /// Poses of the same pictures that they are judged by.
    #[arg(value_name = "B")]
    reference: PathBuf,
    /// Write the errors picture by picture.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Replace FILE if it is there.
    #[arg(long, alias = "overwrite", short_aliases = ['y', 'w'])]
    force: bool,
    /// Print the result as a JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Runs the command.
pub(crate) fn run(args: &CompareArgs, console: &Console) -> Result<Status, Ending> {
    if let Some(path) = &args.csv {
        refuse_existing(&Disk, path, overwrite(args.force)).map_err(gausset_flow::Failure::from)?;
    }
    let compared = compare::compare(&args.first, &args.reference)?;
    if let Some(path) = &args.csv {
        write(path, compared.csv().as_bytes())?;
    }
    console.object_or(&compared, || describe(&compared))?;
    Ok(Status::done(!compared.missing.is_empty()))
}

/// A comparison, for people.
pub(crate) fn describe(found: &Compared) -> Lines {
    let Compared { first, reference, fit, centre, rotation_degrees, path, .. } = found;
    let unit = if reference.is_metric { "m" } else { "units" };
    let by = match found.matched_by {
        MatchedBy::Name => "by name",
        MatchedBy::NameWithoutExtension => "by name without extension",
        MatchedBy::Stem => "by name without folder and extension",
        MatchedBy::Place => "by place in the list",
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
        "from the cameras' rotations, because the centres lie on a line".to_owned()
    } else if found.left_out_of_fit.is_empty() {
        "over all centres".to_owned()
    } else {
        format!("without {}, which are far off", some(&found.left_out_of_fit))
    };
    rows.push(("fit", format!("scale {}, {of}", digits(fit.scale))));
    let spread = |s: &Spread, unit: &str, worst: Option<&str>| {
        let [mean, median, most] = [s.mean, s.median, s.worst].map(digits);
        let name = worst.map(|name| format!(" ({name})")).unwrap_or_default();
        format!("{mean} {unit} mean, {median} median, {most} worst{name}")
    };
    let name = |frame: Option<&compare::Frame>| frame.map(|f| f.name.clone());
    let worst = name(found.worst(|f| f.centre_error));
    let share = 100.0 * centre.worst / path;
    rows.push(("centres", spread(centre, unit, worst.as_deref())));
    if *path > 0.0 {
        rows.push(("", format!("worst {} % of the path of {} {unit}", digits(share), digits(*path))));
    }
    let worst = name(found.worst(|f| f.rotation_error_degrees));
    rows.push(("rotations", spread(rotation_degrees, "degrees", worst.as_deref())));
    if let Some(drift) = &found.drift {
        let (t, r) = (digits(100.0 * drift.translation), digits(drift.rotation));
        let (pieces, piece) = (counted(drift.pieces as u64, "piece"), digits(drift.piece));
        let per = if reference.is_metric { "metre" } else { "unit" };
        rows.push((
            "drift",
            format!("{t} % of the way and {r} degrees per {per}, over {pieces} of {piece} {unit}"),
        ));
    }
    for (title, side) in [("reprojection", first), ("of the reference", reference)] {
        rows.extend(reprojection(title, side));
    }
    if !found.missing.is_empty() {
        rows.push(("missing", some(&found.missing)));
    }
    table::facts(&rows)
}

fn reprojection(title: &'static str, side: &Side) -> Option<(&'static str, String)> {
    let found = side.reprojection.as_ref()?;
    let [px, degrees] = [found.px, found.degrees];
    let count = grouped(found.observations as u64);
    let (mean, most) = (digits(px.mean), digits(px.worst));
    let (angle, largest) = (digits(degrees.mean), digits(degrees.worst));
    Some((
        title,
        format!("{mean} px mean, {most} worst; {angle} degrees mean, {largest} worst; {count} observations"),
    ))
}

/// Three digits, or powers of ten where that would be zeros.
fn digits(value: f64) -> String {
    if value != 0.0 && value.abs() < 1e-3 { format!("{value:.1e}") } else { three_digits(value) }
}

/// The first few of some names.
fn some(names: &[String]) -> String {
    const SHOWN: usize = 5;
    let mut text = names.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    if names.len() > SHOWN {
        text += &format!(" and {} more", names.len() - SHOWN);
    }
    text
}
