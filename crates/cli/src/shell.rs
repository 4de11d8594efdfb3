//! Quoting of paths for a POSIX shell.

use std::path::Path;

/// Formats a path as one word of a POSIX shell, in single quotes where needed. A path that begins with `-` gets `./`.
pub(crate) fn shell_quote(path: &Path) -> String {
    let text = path.display().to_string();
    let text = if text.starts_with('-') { format!("./{text}") } else { text };
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+=:,@%".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text;
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_the_path_that_was_meant() {
        let cases = [
            ("runs/garden", "runs/garden"),
            ("my run", "'my run'"),
            ("it's", r"'it'\''s'"),
            ("$HOME;rm *", "'$HOME;rm *'"),
            ("~", "'~'"),
            ("-o", "./-o"),
            ("", "''"),
            ("großer_see", "großer_see"),
        ];
        for (path, word) in cases {
            assert_eq!(shell_quote(Path::new(path)), word);
        }
    }
}
