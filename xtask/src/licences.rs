//! Licences of third-party packages: exactly those that `docs/reference/dependencies.md` names.

use std::path::Path;
use std::process::Command;

/// The page, and the start of its line of licences; each licence is in backticks there.
const PAGE: &str = "docs/reference/dependencies.md";
const LINE: &str = "Licences: ";

/// Packages under a licence that the page does not name, and named licences that no package has.
pub(crate) fn findings(workspace: &Path) -> Result<Vec<String>, String> {
    let page = std::fs::read_to_string(workspace.join(PAGE)).map_err(|error| format!("{PAGE}: {error}"))?;
    let line = page.lines().find_map(|line| line.strip_prefix(LINE));
    let line = line.ok_or_else(|| format!("{PAGE}: no line begins with `{LINE}`"))?;
    let named: Vec<&str> = line.split('`').skip(1).step_by(2).collect();
    let tree = Command::new(env!("CARGO"))
        .args(["tree", "--locked", "--workspace", "-e", "normal,build", "--prefix", "none", "-f", "{p}|{l}|"])
        .current_dir(workspace)
        .output()
        .map_err(|error| format!("cargo tree: {error}"))?;
    if !tree.status.success() {
        return Err(format!("cargo tree: {}", String::from_utf8_lossy(&tree.stderr)));
    }
    let text = String::from_utf8_lossy(&tree.stdout);
    let mut packages: Vec<(&str, &str)> = text.lines().filter_map(package).collect();
    packages.sort_unstable();
    packages.dedup();
    Ok(differences(&named, &packages))
}

/// `name v1.2.3|licence|`.
fn package(line: &str) -> Option<(&str, &str)> {
    let mut parts = line.split('|');
    Some((parts.next()?, parts.next()?))
}

fn differences(named: &[&str], packages: &[(&str, &str)]) -> Vec<String> {
    let unnamed = packages.iter().filter(|(_, licence)| {
        !terms(licence).iter().all(|term| term.iter().any(|option| named.contains(&option.as_str())))
    });
    let unnamed =
        unnamed.map(|(name, licence)| format!("{PAGE}: does not name the licence of {name}: {licence}"));
    let all: Vec<String> = packages.iter().flat_map(|(_, licence)| terms(licence)).flatten().collect();
    let unused = named.iter().filter(|name| !all.iter().any(|option| option == *name));
    let unused = unused.map(|name| format!("{PAGE}: names a licence that no package has: {name}"));
    unnamed.chain(unused).collect()
}

/// All required terms, each with its alternatives: `(MIT OR Apache-2.0) AND IJG`. Parentheses enclose alternatives
/// only; old manifests write `/` for `OR`.
fn terms(licence: &str) -> Vec<Vec<String>> {
    let plain = licence.replace('/', " OR ");
    let options = |term: &str| {
        term.split(" OR ").map(|option| option.trim_matches(['(', ')', ' ']).to_owned()).collect()
    };
    plain.split(" AND ").map(options).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_option_of_every_term_is_named_and_no_licence_in_vain() {
        let named = ["MIT", "IJG", "Apache-2.0 WITH LLVM-exception"];
        let of = |licence: &'static str| {
            differences(&named, &[("a", "MIT"), ("b", "IJG"), ("c", named[2]), ("d", licence)])
        };
        for fine in ["Unlicense/MIT", "(Apache-2.0 OR MIT) AND IJG", "Apache-2.0 WITH LLVM-exception OR Zlib"]
        {
            assert_eq!(of(fine), Vec::<String>::new(), "{fine}");
        }
        for other in ["ISC", "MIT AND Unicode-3.0", "Apache-2.0", ""] {
            assert_eq!(of(other).len(), 1, "{other}");
        }
        assert_eq!(differences(&named, &[("a", "MIT")]).len(), 2);
    }
}
