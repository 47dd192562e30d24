//! The files of one range, and its promise.

use std::collections::BTreeMap;
use std::sync::Arc;

use codec::Corruption;

use crate::error::{Error, Result};
use crate::log_file::LogFile;
use crate::memory_log::MemoryLog;
use crate::name::{Epoch, FileName, RangeId};
use crate::table_file::{FillingFile, TableFile};

/// A file of a range.
#[derive(Debug)]
pub(crate) enum StoredFile {
    Log(LogFile),
    /// A log without a file.
    Memory(MemoryLog),
    Filling(FillingFile),
    Table(Arc<TableFile>),
    /// It cannot be opened. Its bytes count, and are never served.
    Damaged(Corruption, u64),
}

/// The files of a range that this StoC has, and the epoch that it has promised.
#[derive(Debug, Default)]
pub(crate) struct RangeState {
    pub(crate) promise: Epoch,
    pub(crate) files: BTreeMap<FileName, StoredFile>,
}

/// The reply to a fence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fenced {
    /// The promise of the StoC before this fence.
    pub before: Epoch,
    /// The logs of the range, with the lengths that are synced, or in memory for a log in memory.
    /// A damaged log has none, and does not count.
    pub logs: Vec<(FileName, Option<u64>)>,
}

/// A file, as a StoC lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its name.
    pub name: FileName,
    /// The epoch in which it was made.
    pub epoch: Epoch,
    /// The length of its content; none of a damaged file.
    pub length: Option<u64>,
    /// Whether it is a log, or finished.
    pub is_finished: bool,
    /// The ranges that have a reference to it.
    pub references: Vec<RangeId>,
}

impl StoredFile {
    /// Returns the bytes that it takes on the device.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::Log(log) => log.file_bytes(),
            Self::Memory(_) => 0,
            Self::Filling(file) => file.file_bytes(0),
            Self::Table(table) => table.file_bytes(),
            Self::Damaged(_, bytes) => *bytes,
        }
    }

    /// Returns the length of its content, and the epoch in which it was made.
    pub(crate) fn length(&self) -> Option<(u64, Epoch)> {
        match self {
            Self::Log(log) => Some((log.length(), log.head.epoch)),
            Self::Memory(log) => Some((log.length(), log.epoch)),
            Self::Filling(file) => Some((file.length(), file.head.epoch)),
            Self::Table(table) => Some((table.length(), table.head.epoch)),
            Self::Damaged(..) => None,
        }
    }
}

impl RangeState {
    /// Refuses a call of an epoch below the promise. (S1)
    ///
    /// # Errors
    /// [`Error::Fenced`].
    pub(crate) fn check_epoch(&self, range: RangeId, epoch: Epoch) -> Result<()> {
        match epoch < self.promise {
            true => Err(Error::Fenced { range, promise: self.promise }),
            false => Ok(()),
        }
    }

    /// Returns the logs with their lengths; none of damaged ones.
    pub(crate) fn logs(&self) -> Vec<(FileName, Option<u64>)> {
        let log = |(name, file): (&FileName, &StoredFile)| match file {
            StoredFile::Log(log) => Some((*name, Some(log.length()))),
            StoredFile::Memory(log) => Some((*name, Some(log.length()))),
            StoredFile::Damaged(..) if name.kind.is_log() => Some((*name, None)),
            _ => None,
        };
        self.files.iter().filter_map(log).collect()
    }

    /// Returns a log on the device.
    ///
    /// # Errors
    /// [`Error::NoFile`], [`Error::OtherKind`]; its damage.
    pub(crate) fn log(&mut self, name: &FileName) -> Result<&mut LogFile> {
        match self.files.get_mut(name) {
            None => Err(Error::NoFile { name: *name }),
            Some(StoredFile::Log(log)) => Ok(log),
            Some(StoredFile::Damaged(damage, _)) => Err(damage.clone().into()),
            Some(_) => Err(Error::OtherKind { name: *name }),
        }
    }

    /// Returns a file that is being written.
    ///
    /// # Errors
    /// The same.
    pub(crate) fn filling(&mut self, name: &FileName) -> Result<&mut FillingFile> {
        match self.files.get_mut(name) {
            None => Err(Error::NoFile { name: *name }),
            Some(StoredFile::Filling(file)) => Ok(file),
            Some(StoredFile::Damaged(damage, _)) => Err(damage.clone().into()),
            Some(_) => Err(Error::OtherKind { name: *name }),
        }
    }
}
