//! A real disk on which one call fails.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use crate::atomic::{Disk, FileInfo, FileSystem, OutputFile};

/// What happens at the chosen call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The call fails once with this error number.
    Once(rustix::io::Errno),
    /// The call and all later writing calls fail with this error number, as on a full disk.
    FromNowOn(rustix::io::Errno),
    /// The call and all later calls of any kind fail with this error number, as on a removed disk.
    Dead(rustix::io::Errno),
    /// A write accepts half of the bytes and reports that; other calls succeed.
    ShortWrite,
    /// A write accepts half of the bytes, and the next call fails with this error number.
    TornWrite(rustix::io::Errno),
}

/// A real disk that counts calls. Clones share the counter.
#[derive(Clone, Debug)]
pub struct FaultyDisk {
    counter: Arc<Mutex<Counter>>,
}

#[derive(Debug)]
struct Counter {
    /// Names of the calls so far.
    calls: Vec<&'static str>,
    /// Number of the call that fails, from 1; 0 = none.
    fail_at: usize,
    fault: Fault,
}

/// Outcome of a call.
enum CallOutcome {
    Succeed,
    Half,
    Fail(io::Error),
}

impl FaultyDisk {
    /// A disk on which the `fail_at`-th call (from 1; 0 = none) has the fault.
    #[must_use]
    pub fn new(fail_at: usize, fault: Fault) -> Self {
        Self { counter: Arc::new(Mutex::new(Counter { calls: Vec::new(), fail_at, fault })) }
    }

    /// Names of all calls so far.
    #[must_use]
    pub fn calls(&self) -> Vec<&'static str> {
        self.counter.lock().unwrap_or_else(PoisonError::into_inner).calls.clone()
    }

    fn outcome(&self, call: &'static str) -> CallOutcome {
        let mut counter = self.counter.lock().unwrap_or_else(PoisonError::into_inner);
        counter.calls.push(call);
        let (now, at) = (counter.calls.len(), counter.fail_at);
        if at == 0 || now < at {
            return CallOutcome::Succeed;
        }
        let writes = matches!(call, "create_new" | "append" | "write" | "sync" | "create_folder");
        match counter.fault {
            Fault::Once(errno) if now == at => CallOutcome::Fail(errno.into()),
            Fault::FromNowOn(errno) if now == at || writes => CallOutcome::Fail(errno.into()),
            Fault::Dead(errno) => CallOutcome::Fail(errno.into()),
            Fault::ShortWrite if now == at => CallOutcome::Half,
            Fault::TornWrite(_) if now == at => CallOutcome::Half,
            Fault::TornWrite(errno) if now == at + 1 => CallOutcome::Fail(errno.into()),
            _ => CallOutcome::Succeed,
        }
    }

    fn check(&self, call: &'static str) -> io::Result<()> {
        match self.outcome(call) {
            CallOutcome::Fail(e) => Err(e),
            CallOutcome::Succeed | CallOutcome::Half => Ok(()),
        }
    }
}

impl FileSystem for FaultyDisk {
    fn info(&self, path: &Path) -> io::Result<Option<FileInfo>> {
        self.check("info")?;
        Disk.info(path)
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn Read + Send>> {
        self.check("open")?;
        Ok(Box::new(FaultyFile { file: Disk.open(path)?, disk: self.clone() }))
    }

    fn create_new(&self, path: &Path, mode: Option<u32>) -> io::Result<Box<dyn OutputFile>> {
        self.check("create_new")?;
        Ok(Box::new(FaultyFile { file: Disk.create_new(path, mode)?, disk: self.clone() }))
    }

    fn append(&self, path: &Path) -> io::Result<Box<dyn OutputFile>> {
        self.check("append")?;
        Ok(Box::new(FaultyFile { file: Disk.append(path)?, disk: self.clone() }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.check("rename")?;
        Disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.check("remove")?;
        Disk.remove(path)
    }

    fn create_folder(&self, path: &Path) -> io::Result<()> {
        self.check("create_folder")?;
        Disk.create_folder(path)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<OsString>> {
        self.check("list")?;
        Disk.list(folder)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        self.check("sync_folder")?;
        Disk.sync_folder(folder)
    }

    fn free_space(&self, folder: &Path) -> io::Result<u64> {
        self.check("free_space")?;
        Disk.free_space(folder)
    }
}

/// An open file whose reads, writes and syncs are counted.
struct FaultyFile<F> {
    file: F,
    disk: FaultyDisk,
}

impl<F: Read> Read for FaultyFile<F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.disk.outcome("read") {
            CallOutcome::Fail(e) => Err(e),
            CallOutcome::Half => {
                let half = buffer.len().div_ceil(2);
                self.file.read(&mut buffer[..half])
            }
            CallOutcome::Succeed => self.file.read(buffer),
        }
    }
}

impl Write for FaultyFile<Box<dyn OutputFile>> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        match self.disk.outcome("write") {
            CallOutcome::Fail(e) => Err(e),
            CallOutcome::Half => self.file.write(&data[..data.len().div_ceil(2)]),
            CallOutcome::Succeed => self.file.write(data),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl OutputFile for FaultyFile<Box<dyn OutputFile>> {
    fn sync(&mut self) -> io::Result<()> {
        self.disk.check("sync")?;
        self.file.sync()
    }
}
