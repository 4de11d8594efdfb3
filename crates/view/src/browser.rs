//! The browser of whoever sits at this machine.

use std::process::{Command, Stdio};

/// Opens an address that this program has made, where there is a screen to show it on. Whether a program for it could be
/// started.
///
/// The address is in the command line of a program for a moment, which other users may read: give one that is used up
/// by the first who comes ([`crate::Server::ticket_url`]).
#[must_use]
pub fn open(url: &str) -> bool {
    let Some((program, before)) =
        opener(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()))
    else {
        return false;
    };
    let mut command = Command::new(program);
    command.args(before).arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().is_ok()
}

/// The program that opens addresses, with what comes before the address.
fn opener(is_set: impl Fn(&str) -> bool) -> Option<(&'static str, &'static [&'static str])> {
    if cfg!(target_os = "macos") {
        return Some(("open", &[]));
    }
    if cfg!(windows) {
        return Some(("rundll32", &["url.dll,FileProtocolHandler"]));
    }
    // Over ssh the browser is on the other side.
    let has_screen = is_set("DISPLAY") || is_set("WAYLAND_DISPLAY");
    (has_screen && !is_set("SSH_CONNECTION")).then_some(("xdg-open", &[]))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_browser_is_opened_only_where_somebody_sits() {
        assert_eq!(opener(|_| false), None);
        assert_eq!(opener(|name| name == "DISPLAY").map(|(program, _)| program), Some("xdg-open"));
        assert_eq!(opener(|name| name != "WAYLAND_DISPLAY"), None);
    }
}
