//! Quoting of paths for a POSIX shell.

pub(crate) use gausset_io::text::shell_quote;
