//! The operations that were done, as a value.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use sync::locks::Mutex;

use crate::Device;
use crate::error::{Error, Operation, Result};
use crate::file::{File, Mode, SyncKind};

/// One operation that succeeded. Files that were opened are known by number.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "they are the device's operations, and the names say which")]
pub enum Recorded {
    Open { file: u64, name: String, mode: Mode },
    Close { file: u64 },
    Read { file: u64, offset: u64, len: usize },
    Write { file: u64, offset: u64, bytes: Arc<[u8]> },
    Sync { file: u64, kind: SyncKind },
    SetLen { file: u64, len: u64 },
    Allocate { file: u64, offset: u64, len: u64 },
    Punch { file: u64, offset: u64, len: u64 },
    CreateDir { name: String },
    Rename { from: String, to: String },
    Link { from: String, to: String },
    Remove { name: String },
    RemoveDir { name: String },
    SyncDir { name: String },
}

/// Operations in the order in which they succeeded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recording(Vec<Recorded>);

/// A recording that grows.
#[derive(Debug, Default)]
pub(super) struct Log(Mutex<(u64, Vec<Recorded>)>);

impl Log {
    pub(super) fn push(&self, recorded: Recorded) {
        self.0.lock().1.push(recorded);
    }

    /// Writes an opening down; the number that the file is known by.
    pub(super) fn open(&self, name: String, mode: Mode) -> u64 {
        let mut log = self.0.lock();
        log.0 += 1;
        let file = log.0;
        log.1.push(Recorded::Open { file, name, mode });
        file
    }

    pub(super) fn recording(&self) -> Recording {
        Recording(self.0.lock().1.clone())
    }
}

impl Recording {
    /// The operations.
    pub fn operations(&self) -> &[Recorded] {
        &self.0
    }

    /// Does the same on `device`. A read only has to succeed; what it finds is not compared.
    ///
    /// # Errors
    /// The first error of an operation, at which it stops.
    pub fn replay(&self, device: &dyn Device) -> Result<()> {
        let mut files = BTreeMap::new();
        self.0.iter().try_for_each(|operation| operation.perform(device, &mut files))
    }
}

type Files = BTreeMap<u64, Arc<dyn File>>;

impl Recorded {
    fn perform(&self, device: &dyn Device, files: &mut Files) -> Result<()> {
        match self {
            Self::Open { file, name, mode } => {
                files.insert(*file, device.open(name, *mode)?);
                Ok(())
            }
            Self::Close { file } => {
                files.remove(file);
                Ok(())
            }
            Self::Read { file, offset, len } => {
                find(files, *file)?.read_at(*offset, &mut vec![0; *len])
            }
            Self::Write { file, offset, bytes } => find(files, *file)?.write_at(*offset, bytes),
            Self::Sync { file, kind } => find(files, *file)?.sync(*kind),
            Self::SetLen { file, len } => find(files, *file)?.set_len(*len),
            Self::Allocate { file, offset, len } => find(files, *file)?.allocate(*offset, *len),
            Self::Punch { file, offset, len } => find(files, *file)?.punch(*offset, *len),
            Self::CreateDir { name } => device.create_dir(name),
            Self::Rename { from, to } => device.rename(from, to),
            Self::Link { from, to } => device.link(from, to),
            Self::Remove { name } => device.remove(name),
            Self::RemoveDir { name } => device.remove_dir(name),
            Self::SyncDir { name } => device.sync_dir(name),
        }
    }
}

/// An open file; a recording whose handles were opened before it began has some that are not.
fn find(files: &Files, file: u64) -> Result<&dyn File> {
    let bad = || Error::Io {
        operation: Operation::Open,
        name: format!("#{file}"),
        code: rustix::io::Errno::BADF.raw_os_error(),
    };
    files.get(&file).map(|file| &**file).ok_or_else(bad)
}

impl fmt::Display for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|operation| writeln!(f, "{operation}"))
    }
}

impl fmt::Display for Recorded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open { file, name, mode } => {
                let mode = match mode {
                    Mode::Read => "read",
                    Mode::Write => "write",
                    Mode::CreateNew => "create-new",
                    Mode::Create => "create",
                };
                write!(f, "#{file} = open {name} {mode}")
            }
            Self::Close { file } => write!(f, "#{file} close"),
            Self::Read { file, offset, len } => write!(f, "#{file} read at {offset}: {len} bytes"),
            Self::Write { file, offset, bytes } => {
                let (len, checksum) = (bytes.len(), codec::crc32c(bytes));
                write!(f, "#{file} write at {offset}: {len} bytes, crc32c {checksum:08x}")
            }
            Self::Sync { file, kind: SyncKind::Data } => write!(f, "#{file} sync data"),
            Self::Sync { file, kind: SyncKind::All } => write!(f, "#{file} sync all"),
            Self::SetLen { file, len } => write!(f, "#{file} set length {len}"),
            Self::Allocate { file, offset, len } => {
                write!(f, "#{file} allocate at {offset}: {len} bytes")
            }
            Self::Punch { file, offset, len } => {
                write!(f, "#{file} punch at {offset}: {len} bytes")
            }
            Self::CreateDir { name } => write!(f, "create directory {name}"),
            Self::Rename { from, to } => write!(f, "rename {from} to {to}"),
            Self::Link { from, to } => write!(f, "link {from} to {to}"),
            Self::Remove { name } => write!(f, "remove {name}"),
            Self::RemoveDir { name } => write!(f, "remove directory {name}"),
            Self::SyncDir { name } if name.is_empty() => write!(f, "sync directory /"),
            Self::SyncDir { name } => write!(f, "sync directory {name}"),
        }
    }
}
