//! Rules of this repository that no compiler checks.
//!
//! - Kernels may not call the vector `mul_add`: it is not fused on every SIMD level, so results would depend on the
//!   CPU. `mul_add_precise` is. (The scalar `f32::mul_add` is always fused; only files that use `fearless_simd` are
//!   checked.)
//! - Sources contain no path of a single machine.
//! - Comments name who does what (`docs/glossary.md`).
//! - Files with unsafe code are listed in the table of `docs/reference/unsafe.md`, and tests that `docs/reference/reliability.md` names
//!   exist.
//! - No crate depends on a forbidden crate ([`crate::dependencies`]).
//! - Third-party packages have licences that `docs/reference/dependencies.md` names ([`crate::licences`]).
//! - Messages of libraries contain no command-line flags ([`crate::message_flags`]).
//! - The root of each crate denies the methods that `clippy.toml` disallows.
//! - Imports inside `gausset-pano` follow the order of its folders ([`crate::pano_order`]).
//! - Link targets of pages, and files cited by pages and comments, exist ([`crate::citations`]).

use std::collections::BTreeSet;
use std::path::Path;

use crate::{citations, dependencies, licences, message_flags, pano_order};

/// Paths of a single machine. Assembled here so that this file does not match itself.
const MACHINE_PATHS: [[&str; 2]; 4] = [["\"/", "tmp"], ["\"/", "work"], ["\"/", "home/"], ["\"/", "Users/"]];

/// Persons that no comment needs. Assembled here so that this file does not match itself.
const VAGUE: [[&str; 2]; 4] = [["some", "body"], ["no", "body"], ["any", "body"], ["who", "ever"]];

/// Checks all Rust sources and all pages.
pub(crate) fn run(workspace: &Path) -> Result<(), String> {
    let files = citations::files(workspace)?;
    let table = std::fs::read_to_string(workspace.join(UNSAFE_TABLE))
        .map_err(|error| format!("{UNSAFE_TABLE}: {error}"))?;
    let order = pano_order::order(workspace)?;
    let mut findings = 0;
    let mut functions = BTreeSet::new();
    for path in &files {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        functions.extend(names_of_functions(&text).map(str::to_owned));
        let mut found = citations::findings_in(workspace, path, &text);
        if path.extension() == Some("rs".as_ref()) {
            found.extend(unlisted_unsafe(workspace, path, &text, &table));
            found.extend(pano_order::findings_in(workspace, path, &text, &order));
            found.extend(message_flags::flags_in_library(workspace, path, &text));
            found.extend(root_without_denial(workspace, path, &text));
            // Tests compute expected values one number at a time: the scalar form is fused everywhere.
            let kernels = !path.components().any(|part| part.as_os_str() == "tests");
            found.extend(
                findings_in(&text, kernels).into_iter().map(|(number, what)| (number, what.to_owned())),
            );
        }
        for (number, what) in found {
            findings += 1;
            let shown = path.strip_prefix(workspace).unwrap_or(path).display();
            println!("{shown}: line {number}: {what}");
        }
    }
    let promises =
        std::fs::read_to_string(workspace.join(PROMISES)).map_err(|error| format!("{PROMISES}: {error}"))?;
    for (number, name) in named_tests(&promises).filter(|(_, name)| !functions.contains(*name)) {
        findings += 1;
        println!("{PROMISES}: line {number}: there is no test {name}");
    }
    for finding in
        dependencies::forbidden_dependencies(workspace)?.into_iter().chain(licences::findings(workspace)?)
    {
        findings += 1;
        println!("{finding}");
    }
    println!("{} files, {findings} findings", files.len());
    if findings == 0 { Ok(()) } else { Err(format!("lint: {findings} findings")) }
}

/// The page that names the test of each promise.
const PROMISES: &str = "docs/reference/reliability.md";

/// Names of the functions that a source defines.
fn names_of_functions(text: &str) -> impl Iterator<Item = &str> {
    text.split("fn ").skip(1).filter_map(|rest| rest.split(['(', '<']).next())
}

/// The tests that a page names, with their lines: words in backticks that read like a sentence, `it_does_what_it_says`.
fn named_tests(page: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_test = |word: &&str| {
        let is_name = word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        is_name && word.matches('_').count() >= 3
    };
    (1..).zip(page.lines()).flat_map(move |(number, line)| {
        line.split('`').skip(1).step_by(2).filter(is_test).map(move |word| (number, word))
    })
}

/// The page that lists all unsafe code.
const UNSAFE_TABLE: &str = "docs/reference/unsafe.md";

/// The first unsafe code of a file that the table does not list.
fn unlisted_unsafe(workspace: &Path, path: &Path, text: &str, table: &str) -> Option<(usize, String)> {
    let shown = path.strip_prefix(workspace.join("crates")).unwrap_or(path).to_str()?;
    if table.contains(&format!("`{shown}`")) {
        return None;
    }
    // Assembled here so that this file does not match itself.
    let forms = ["{", "fn ", "impl ", "extern "].map(|what| ["unsafe", " ", what].concat());
    let is_unsafe = |line: &str| {
        let code = line.split("//").next().unwrap_or_default();
        forms.iter().any(|form| code.contains(form.as_str()))
    };
    let (number, _) = (1..).zip(text.lines()).find(|(_, line)| is_unsafe(line))?;
    Some((number, format!("unsafe code in a file that {UNSAFE_TABLE} does not name")))
}

/// The attribute of crate roots. Tests are exempt: they make files as they like.
const DENIAL: &str = "#![cfg_attr(not(test), deny(clippy::disallowed_methods))]";

/// Whether a file is the root of a crate that allows the disallowed methods.
fn root_without_denial(workspace: &Path, path: &Path, text: &str) -> Option<(usize, String)> {
    let shown = path.strip_prefix(workspace.join("crates")).ok()?.to_str()?;
    let is_root = shown.ends_with("/src/lib.rs") || shown.ends_with("/src/main.rs");
    (is_root && !shown.starts_with("testkit/") && !text.contains(DENIAL)).then(|| (1, format!("no {DENIAL}")))
}

/// Line numbers, from 1, with the problem there.
fn findings_in(text: &str, kernels: bool) -> Vec<(usize, &'static str)> {
    let is_kernel =
        kernels && text.lines().any(|line| line.starts_with("use ") && line.contains("fearless_simd"));
    let mut findings = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let code = line.split("//").next().unwrap_or_default();
        // The scalar form is called with its type's name, or on a scalar with that comment.
        let is_scalar =
            code.contains("f32::mul_add") || code.contains("f64::mul_add") || line.contains("// scalar");
        if is_kernel && code.contains(".mul_add(") && !is_scalar {
            findings
                .push((number, "mul_add in a kernel (expected mul_add_precise, or `// scalar` behind it)"));
        }
        let comment = line.split_once("//").map_or("", |(_, comment)| comment);
        let vague = |word: &str| VAGUE.iter().any(|[a, b]| word.eq_ignore_ascii_case(&[*a, *b].concat()));
        // A name in backticks may be any word.
        if comment
            .split('`')
            .step_by(2)
            .flat_map(|part| part.split(|c: char| !c.is_alphanumeric()))
            .any(vague)
        {
            findings.push((number, "a vague person (expected who does it, or the passive)"));
        }
        if MACHINE_PATHS.iter().any(|path| code.contains(&path.concat())) {
            findings.push((
                number,
                "a path of one machine (expected a temporary folder or an environment variable)",
            ));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_keeps_its_rules() {
        run(&crate::workspace()).unwrap();
    }

    #[test]
    fn an_unfused_multiply_add_in_a_kernel_is_found_and_a_fused_one_is_not() {
        let kernel = |line: &str| findings_in(&format!("use fearless_simd::Simd;\n{line}\n"), true).len();
        assert_eq!(kernel("let y = a.mul_add(b, c);"), 1);
        assert_eq!(kernel("let y = a.mul_add_precise(b, c);"), 0);
        assert_eq!(kernel("// never a.mul_add(b, c)"), 0);
        assert_eq!(findings_in("let y = a.mul_add(b, c);", true).len(), 0);
    }

    #[test]
    fn a_vague_person_in_a_comment_is_found_and_a_name_is_not() {
        let word = VAGUE[1].concat();
        assert_eq!(findings_in(&format!("// The file is read by {word}."), false).len(), 1);
        assert_eq!(findings_in(&format!("// Runs as the user `{word}`."), false).len(), 0);
        assert_eq!(findings_in(&format!("let {word} = 1;"), false).len(), 0);
    }

    #[test]
    fn unsafe_code_must_be_in_the_table() {
        let code = format!("fn f() {{ {} {{ g() }} }}", "unsafe");
        let workspace = Path::new("root");
        let find =
            |name: &str| unlisted_unsafe(workspace, &workspace.join(name), &code, "`compute/src/pool.rs`, x");
        assert!(find("crates/compute/src/pool.rs").is_none());
        assert!(find("crates/compute/src/other.rs").is_some());
        assert!(unlisted_unsafe(workspace, Path::new("a.rs"), "// unsafe { } is not used", "").is_none());
    }

    #[test]
    fn tests_that_a_page_names_are_found() {
        let page = "| a promise | `a_test_of_it`, `cargo test`, `no_test` |\n`another_one_of_them`";
        let named: Vec<_> = named_tests(page).collect();
        assert_eq!(named, [(1, "a_test_of_it"), (2, "another_one_of_them")]);
        let functions: Vec<_> = names_of_functions("fn a_test_of_it() {}\nfn f<T>(x: T) {}").collect();
        assert_eq!(functions, ["a_test_of_it", "f"]);
    }

    #[test]
    fn a_path_of_one_machine_is_found() {
        let path = MACHINE_PATHS[0].concat();
        assert_eq!(findings_in(&format!("open({path}/x\")"), true).len(), 1);
    }
}
