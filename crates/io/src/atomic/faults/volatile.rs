//! A disk in memory that loses unsynced data at a simulated power failure.
//!
//! The model is harsher than real file systems: file data survives only up to the last sync, after which each 512-byte
//! block is old or new at random. Each change of a name (create, rename, remove) without a later sync of its folder
//! survives or not at random, independently of the order.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::atomic::{FileInfo, FileKind, FileSystem, OutputFile};

/// Granularity at which unsynced data is lost.
const BLOCK_BYTES: usize = 512;

/// A disk in memory. Clones share it.
#[derive(Clone, Debug)]
pub struct VolatileDisk {
    inner: Arc<Mutex<VolatileState>>,
}

#[derive(Debug)]
struct VolatileState {
    /// Contents of files, by index.
    files: Vec<FileContent>,
    /// Names as seen by the running system.
    names: BTreeMap<PathBuf, usize>,
    /// Names as stored on the device.
    durable_names: BTreeMap<PathBuf, usize>,
    /// Name changes since the last sync of their folder.
    pending: Vec<NameChange>,
    calls: usize,
    /// Number of the call before which the power fails, from 1; 0 = never.
    power_off_at: usize,
}

#[derive(Clone, Debug, Default)]
struct FileContent {
    current: Vec<u8>,
    durable: Vec<u8>,
}

/// A name that now refers to another file, or to none, and the old name if it was moved.
#[derive(Clone, Debug)]
struct NameChange {
    path: PathBuf,
    file: Option<usize>,
    moved_from: Option<PathBuf>,
}

impl VolatileDisk {
    /// Creates an empty disk. The power fails before the `power_off_at`-th call (from 1; 0 = never).
    #[must_use]
    pub fn new(power_off_at: usize) -> Self {
        let inner = VolatileState {
            files: Vec::new(),
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            pending: Vec::new(),
            calls: 0,
            power_off_at,
        };
        Self { inner: Arc::new(Mutex::new(inner)) }
    }

    /// Number of calls so far.
    #[must_use]
    pub fn calls(&self) -> usize {
        self.lock().calls
    }

    /// Schedules a power failure before the `calls`-th call from now (from 1).
    pub fn power_off_after(&self, calls: usize) {
        let mut inner = self.lock();
        inner.power_off_at = inner.calls + calls;
    }

    /// Writes the state after a power failure at this moment to real files. `coin` decides where two outcomes are
    /// possible. Paths on this disk are relative to `from`.
    ///
    /// # Errors
    /// The real files could not be written.
    pub fn survivors(&self, from: &Path, to: &Path, mut coin: impl FnMut() -> bool) -> io::Result<()> {
        let inner = self.lock();
        let mut names = inner.durable_names.clone();
        for change in &inner.pending {
            if !coin() {
                continue;
            }
            if let Some(moved_from) = &change.moved_from {
                names.remove(moved_from);
            }
            match change.file {
                Some(file) => names.insert(change.path.clone(), file),
                None => names.remove(&change.path),
            };
        }
        for (path, file) in names {
            let path = to.join(path.strip_prefix(from).unwrap_or(&path));
            if let Some(folder) = path.parent() {
                std::fs::create_dir_all(folder)?;
            }
            std::fs::write(path, inner.files[file].survivor(&mut coin))?;
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, VolatileState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a call and returns the disk, unless the power is off.
    fn call(&self) -> io::Result<MutexGuard<'_, VolatileState>> {
        let mut inner = self.lock();
        inner.calls += 1;
        if inner.power_off_at != 0 && inner.calls >= inner.power_off_at {
            return Err(io::Error::other("the power is off"));
        }
        Ok(inner)
    }
}

impl FileContent {
    /// Content of the file after a power failure.
    fn survivor(&self, coin: &mut impl FnMut() -> bool) -> Vec<u8> {
        let (old, new) = (self.durable.len(), self.current.len());
        let bytes = if coin() { new } else { old };
        let mut data = self.durable.clone();
        data.resize(bytes, 0);
        for (i, block) in data.chunks_mut(BLOCK_BYTES).enumerate() {
            let written = self.current.get(i * BLOCK_BYTES..).unwrap_or_default();
            let written = &written[..written.len().min(block.len())];
            if coin() {
                block[..written.len()].copy_from_slice(written);
            }
        }
        if self.durable == self.current { self.current.clone() } else { data }
    }
}

impl VolatileState {
    fn find(&self, path: &Path) -> io::Result<usize> {
        self.names.get(path).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn create(&mut self, path: &Path) -> usize {
        self.files.push(FileContent::default());
        let file = self.files.len() - 1;
        self.names.insert(path.to_owned(), file);
        self.pending.push(NameChange { path: path.to_owned(), file: Some(file), moved_from: None });
        file
    }
}

impl FileSystem for VolatileDisk {
    fn info(&self, path: &Path) -> io::Result<Option<FileInfo>> {
        let inner = self.call()?;
        let is_folder = inner.names.keys().any(|name| name != path && name.starts_with(path));
        let info = |kind, bytes| Some(FileInfo { kind, bytes, mode: None });
        Ok(match inner.names.get(path) {
            Some(&file) => info(FileKind::File, inner.files[file].current.len() as u64),
            None if is_folder => info(FileKind::Folder, 0),
            None => None,
        })
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn Read + Send>> {
        let inner = self.call()?;
        let file = inner.find(path)?;
        Ok(Box::new(io::Cursor::new(inner.files[file].current.clone())))
    }

    fn create_new(&self, path: &Path, _mode: Option<u32>) -> io::Result<Box<dyn OutputFile>> {
        let mut inner = self.call()?;
        if inner.names.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let file = inner.create(path);
        Ok(Box::new(VolatileFile { disk: self.clone(), file }))
    }

    fn append(&self, path: &Path) -> io::Result<Box<dyn OutputFile>> {
        let mut inner = self.call()?;
        let file = inner.find(path).unwrap_or_else(|_| inner.create(path));
        Ok(Box::new(VolatileFile { disk: self.clone(), file }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut inner = self.call()?;
        let file = inner.find(from)?;
        inner.names.remove(from);
        inner.names.insert(to.to_owned(), file);
        let moved_from = Some(from.to_owned());
        inner.pending.push(NameChange { path: to.to_owned(), file: Some(file), moved_from });
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut inner = self.call()?;
        inner.find(path)?;
        inner.names.remove(path);
        inner.pending.push(NameChange { path: path.to_owned(), file: None, moved_from: None });
        Ok(())
    }

    fn create_folder(&self, _path: &Path) -> io::Result<()> {
        self.call().map(|_| ())
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<OsString>> {
        let inner = self.call()?;
        let inside = inner.names.keys().filter(|path| path.parent() == Some(folder));
        Ok(inside.filter_map(|path| path.file_name().map(OsString::from)).collect())
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        let mut inner = self.call()?;
        let pending = std::mem::take(&mut inner.pending);
        for change in pending {
            if change.path.parent() != Some(folder) {
                inner.pending.push(change);
                continue;
            }
            if let Some(moved_from) = &change.moved_from {
                inner.durable_names.remove(moved_from);
            }
            match change.file {
                Some(file) => inner.durable_names.insert(change.path, file),
                None => inner.durable_names.remove(&change.path),
            };
        }
        Ok(())
    }

    fn free_space(&self, _folder: &Path) -> io::Result<u64> {
        self.call().map(|_| u64::MAX)
    }
}

/// A file on a [`VolatileDisk`], open for appending.
struct VolatileFile {
    disk: VolatileDisk,
    file: usize,
}

impl Write for VolatileFile {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let mut inner = self.disk.call()?;
        inner.files[self.file].current.extend_from_slice(data);
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl OutputFile for VolatileFile {
    fn sync(&mut self) -> io::Result<()> {
        let mut inner = self.disk.call()?;
        let content = &mut inner.files[self.file];
        content.durable.clone_from(&content.current);
        Ok(())
    }
}
