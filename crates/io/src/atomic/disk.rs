//! The real file system.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;

use super::{FileInfo, FileKind, FileSystem, OutputFile};
use crate::{input, input_files};

/// The file system of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disk;

impl OutputFile for File {
    fn sync(&mut self) -> io::Result<()> {
        match self.sync_all() {
            // Devices and pipes cannot be synced.
            Err(e) if e.kind() == io::ErrorKind::InvalidInput => Ok(()),
            other => other,
        }
    }
}

impl FileSystem for Disk {
    fn info(&self, path: &Path) -> io::Result<Option<FileInfo>> {
        let data = match fs::metadata(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other?,
        };
        let kind = match data.file_type() {
            t if t.is_file() => FileKind::File,
            t if t.is_dir() => FileKind::Folder,
            _ => FileKind::Special,
        };
        Ok(Some(FileInfo { kind, bytes: data.len(), mode: mode_of(&data) }))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn io::Read + Send>> {
        Ok(Box::new(input::open(path, input::NO_LIMIT)?))
    }

    fn create_new(&self, path: &Path, mode: Option<u32>) -> io::Result<Box<dyn OutputFile>> {
        Ok(Box::new(create_with_mode(path, mode)?))
    }

    fn append(&self, path: &Path) -> io::Result<Box<dyn OutputFile>> {
        check_not_input(path)?;
        Ok(Box::new(OpenOptions::new().append(true).create(true).open(path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        check_not_input(from)?;
        check_not_input(to)?;
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        check_not_input(path)?;
        fs::remove_file(path)
    }

    fn create_folder(&self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<OsString>> {
        let mut names = fs::read_dir(folder)?.map(|e| Ok(e?.file_name())).collect::<io::Result<Vec<_>>>()?;
        names.sort();
        Ok(names)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        use io::ErrorKind::{InvalidInput, PermissionDenied, Unsupported};
        match File::open(folder).and_then(|folder| folder.sync_all()) {
            // Some network file systems cannot sync a folder, and a folder with write but without read permission
            // cannot be opened for it. Neither can be improved here.
            Err(e) if matches!(e.kind(), InvalidInput | Unsupported | PermissionDenied) => Ok(()),
            other => other,
        }
    }

    #[cfg(unix)]
    fn free_space(&self, folder: &Path) -> io::Result<u64> {
        let space = rustix::fs::statvfs(folder)?;
        Ok(space.f_bavail.saturating_mul(space.f_frsize))
    }

    #[cfg(not(unix))]
    fn free_space(&self, _folder: &Path) -> io::Result<u64> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Last check before the disk: input files are neither replaced nor removed.
fn check_not_input(path: &Path) -> io::Result<()> {
    input_files::check_not_input(path).map_err(|_| io::Error::other("is an input"))
}

/// The permission bits of a file.
#[cfg(unix)]
fn mode_of(about: &fs::Metadata) -> Option<u32> {
    use std::os::unix::fs::PermissionsExt;
    Some(about.permissions().mode() & 0o777)
}

#[cfg(not(unix))]
fn mode_of(_about: &fs::Metadata) -> Option<u32> {
    None
}

/// Creates a file with its final permissions, so that no other user can read it in between.
#[cfg(unix)]
fn create_with_mode(path: &Path, mode: Option<u32>) -> io::Result<File> {
    use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    let Some(mode) = mode else { return options.open(path) };
    let file = options.mode(mode).open(path)?;
    // Sets the bits that the umask cleared. Fails only on file systems without modes, where it is not needed.
    let _ = file.set_permissions(fs::Permissions::from_mode(mode));
    Ok(file)
}

#[cfg(not(unix))]
fn create_with_mode(path: &Path, _mode: Option<u32>) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).open(path)
}
