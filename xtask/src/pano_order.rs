//! The order of the folders of `gausset-pano`: a folder imports itself and those above it in the table of the crate's
//! root documentation. Links of comments are free.

use std::path::Path;

/// Sources of the crate, relative to the workspace.
const SOURCES: &str = "crates/pano/src";

/// The folders in the order of the table: rows that begin with a name in backticks.
pub(crate) fn order(workspace: &Path) -> Result<Vec<String>, String> {
    let root = format!("{SOURCES}/lib.rs");
    let text = std::fs::read_to_string(workspace.join(&root)).map_err(|error| format!("{root}: {error}"))?;
    let name = |line: &str| Some(line.strip_prefix("//! | `")?.split_once('`')?.0.to_owned());
    let order: Vec<String> = text.lines().filter_map(name).collect();
    if order.is_empty() { Err(format!("{root}: no table of folders")) } else { Ok(order) }
}

/// Lines of a source file, from 1, that name a module of a later folder, or one that is in no folder.
pub(crate) fn findings_in(
    workspace: &Path,
    path: &Path,
    text: &str,
    order: &[String],
) -> Vec<(usize, String)> {
    let place = path.strip_prefix(workspace.join(SOURCES)).ok().and_then(|rest| rest.iter().next());
    let rank = |name: &str| order.iter().position(|folder| folder == name);
    let Some(own) = place.and_then(|folder| rank(folder.to_str()?)) else { return Vec::new() };
    let mut findings = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let code = line.split("//").next().unwrap_or_default();
        for rest in code.split("crate::").skip(1) {
            let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
            if rank(name).is_none_or(|rank| rank > own) {
                let what =
                    format!("crate::{name} from {} (expected the order of {SOURCES}/lib.rs)", order[own]);
                findings.push((number, what));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_import_of_a_later_folder_is_found_and_a_link_is_not() {
        let order = ["sphere", "cut"].map(str::to_owned);
        let found = |line: &str| {
            let path = Path::new("root").join(SOURCES).join("sphere/view.rs");
            findings_in(Path::new("root"), &path, line, &order).len()
        };
        assert_eq!(found("use crate::sphere::geometry::View;"), 0);
        assert_eq!(found("use crate::cut::table::Table;"), 1);
        assert_eq!(found("use crate::geometry::View;"), 1);
        assert_eq!(found("/// See [`crate::cut::table`]."), 0);
    }
}
