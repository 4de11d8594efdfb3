//! The real file system.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;

use super::{FileInfo, FileKind, FileSystem, OutputFile};

/// The file system of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disk;

impl OutputFile for File {
    fn sync(&mut self) -> io::Result<()> {
        match self.sync_all() {
            // Devices and pipes have nothing to bring anywhere.
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
        Ok(Some(FileInfo { kind, bytes: data.len(), modified: data.modified().ok() }))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn io::Read + Send>> {
        Ok(Box::new(crate::input::open(path, crate::input::STREAMED)?))
    }

    fn create_new(&self, path: &Path) -> io::Result<Box<dyn OutputFile>> {
        Ok(Box::new(OpenOptions::new().write(true).create_new(true).open(path)?))
    }

    fn append(&self, path: &Path) -> io::Result<Box<dyn OutputFile>> {
        Ok(Box::new(OpenOptions::new().append(true).create(true).open(path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
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
            // Some network file systems cannot sync a folder, and one that may be written to but not read cannot be
            // opened for it: there is nothing better to do.
            Err(e) if matches!(e.kind(), InvalidInput | Unsupported | PermissionDenied) => Ok(()),
            other => other,
        }
    }

    fn free_space(&self, folder: &Path) -> io::Result<u64> {
        let space = rustix::fs::statvfs(folder)?;
        Ok(space.f_bavail.saturating_mul(space.f_frsize))
    }
}
