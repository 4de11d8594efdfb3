//! Opens the page in the user's browser. The browser gets a file that redirects to the page, because the command line
//! of a program can be read by all users of a machine and so must not contain the secret.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use gausset_process::Program;
use tempfile::{TempDir, TempPath};

/// The program that opens files for the user, if there is one and this machine has a screen.
pub(crate) fn opener() -> Option<Program> {
    let (name, before) = opener_for(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()))?;
    let program = gausset_process::find_program(name)?;
    Some(before.iter().fold(Program::new(program), Program::arg))
}

/// Name and first arguments of the program, selected by the environment variables that are set.
fn opener_for(is_set: impl Fn(&str) -> bool) -> Option<(&'static str, &'static [&'static str])> {
    if cfg!(target_os = "macos") {
        return Some(("open", &[]));
    }
    if cfg!(windows) {
        return Some(("rundll32", &["url.dll,FileProtocolHandler"]));
    }
    // Over ssh the browser is on the other machine.
    let has_screen = is_set("DISPLAY") || is_set("WAYLAND_DISPLAY");
    (has_screen && !is_set("SSH_CONNECTION")).then_some(("xdg-open", &[]))
}

/// A file (mode 0600, in a folder of mode 0700) that redirects a browser to an address. Removed when dropped.
#[derive(Debug)]
pub(crate) struct RedirectFile {
    // Fields are dropped in this order: the file before its folder.
    file: TempPath,
    _folder: TempDir,
}

impl RedirectFile {
    /// Writes the file; `url` must be plain ASCII without characters that HTML interprets.
    pub(crate) fn new(url: &str) -> io::Result<Self> {
        // The user's runtime folder, if the system has one.
        let own = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        let own = own.filter(|folder| folder.is_absolute() && folder.is_dir());
        let folder = private_folder(&own.unwrap_or_else(std::env::temp_dir))?;
        let mut file = tempfile::Builder::new().prefix("open-").suffix(".html").tempfile_in(&folder)?;
        writeln!(
            file,
            "<!DOCTYPE html><meta charset=utf-8><meta name=referrer content=no-referrer><title>Gausset</title>\
             <meta http-equiv=refresh content=\"0; url={url}\"><a href=\"{url}\">Open the viewer</a>"
        )?;
        Ok(Self { file: file.into_temp_path(), _folder: folder })
    }

    /// Path of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.file
    }
}

/// A new folder that only this user can enter.
fn private_folder(place: &Path) -> io::Result<TempDir> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("gausset-");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
    builder.tempdir_in(place)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_browser_is_opened_only_where_somebody_sits() {
        assert_eq!(opener_for(|_| false), None);
        assert_eq!(opener_for(|name| name == "DISPLAY").map(|(program, _)| program), Some("xdg-open"));
        assert_eq!(opener_for(|name| name != "WAYLAND_DISPLAY"), None);
    }

    #[test]
    fn a_redirect_is_readable_for_its_owner_only_and_goes_with_its_folder() {
        use std::os::unix::fs::PermissionsExt;
        let redirect = RedirectFile::new("http://127.0.0.1:7007/#token=00ff").unwrap();
        let file = redirect.path().to_owned();
        let folder = file.parent().unwrap().to_owned();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&folder), mode(&file)), (0o700, 0o600));
        assert!(std::fs::read_to_string(&file).unwrap().contains("url=http://127.0.0.1:7007/#token=00ff\""));
        drop(redirect);
        assert!(!file.exists() && !folder.exists());
    }
}
