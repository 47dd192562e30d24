//! The calls of a StoC as values.

use std::sync::Arc;

use crate::error::Result;
use crate::name::{Epoch, FileName, RangeId};
use crate::range::{Fenced, Listed};
use crate::store::{Stats, Stoc};

/// A call of a StoC. Each variant names its method of [`Stoc`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// [`Stoc::fence`].
    Fence {
        /// The range.
        range: RangeId,
        /// The epoch to promise.
        epoch: Epoch,
    },
    /// [`Stoc::create_log`], or [`Stoc::create_log_in_memory`].
    CreateLog {
        /// The log.
        name: FileName,
        /// The epoch of the caller.
        epoch: Epoch,
        /// Whether the log is in memory.
        in_memory: bool,
    },
    /// [`Stoc::append`], or [`Stoc::append_in_memory`] with a start.
    Append {
        /// The log.
        name: FileName,
        /// The epoch of the caller.
        epoch: Epoch,
        /// The start of the StoC that made the log in its memory; none for a log on the device.
        start: Option<u64>,
        /// Its length, where the bytes go.
        offset: u64,
        /// The bytes, which the requests to all replicas share.
        bytes: Arc<[u8]>,
    },
    /// [`Stoc::seal`].
    Seal {
        /// The log.
        name: FileName,
        /// The epoch of the caller.
        epoch: Epoch,
        /// The length that counts.
        length: u64,
    },
    /// [`Stoc::create_table`].
    CreateTable {
        /// The file.
        name: FileName,
        /// The epoch of the caller.
        epoch: Epoch,
        /// The stripe that it is a part of.
        stripe: u32,
    },
    /// [`Stoc::write`].
    Write {
        /// The file.
        name: FileName,
        /// The epoch of the caller.
        epoch: Epoch,
        /// Its length, where the bytes go.
        offset: u64,
        /// The bytes.
        bytes: Arc<[u8]>,
    },
    /// [`Stoc::finish`].
    Finish {
        /// The file.
        name: FileName,
        /// The epoch of the caller.
        epoch: Epoch,
        /// The length of all bytes that were written.
        length: u64,
    },
    /// [`Stoc::read`].
    Read {
        /// The file.
        name: FileName,
        /// The first byte.
        offset: u64,
        /// The number of bytes.
        bytes: u64,
    },
    /// [`Stoc::add_references`].
    AddReferences {
        /// The range that has references.
        range: RangeId,
        /// The epoch of the caller.
        epoch: Epoch,
        /// The ranges that get them too.
        others: Vec<RangeId>,
    },
    /// [`Stoc::release`].
    Release {
        /// The file.
        name: FileName,
        /// The range whose reference is released.
        by: RangeId,
        /// The epoch of that range.
        epoch: Epoch,
    },
    /// [`Stoc::list`].
    List {
        /// The range.
        range: RangeId,
    },
    /// [`Stoc::verify`].
    Verify {
        /// The file.
        name: FileName,
    },
    /// [`Stoc::stats`].
    Stats,
}

impl Request {
    /// Returns the bytes that it brings.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Append { bytes, .. } | Self::Write { bytes, .. } => bytes.len(),
            _ => 0,
        }
    }

    /// Returns whether it changes something of the StoC.
    pub fn is_change(&self) -> bool {
        !matches!(self, Self::Read { .. } | Self::List { .. } | Self::Verify { .. } | Self::Stats)
    }

    /// Returns whether it makes a log, or appends to one.
    pub fn is_of_log(&self) -> bool {
        matches!(self, Self::CreateLog { .. } | Self::Append { .. })
    }
}

/// The reply to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Response {
    /// The call returns nothing.
    Done,
    /// To [`Request::Fence`].
    Fenced(Fenced),
    /// To [`Request::Read`].
    Bytes(Vec<u8>),
    /// To [`Request::List`].
    Files(Vec<Listed>),
    /// To [`Request::Stats`].
    Stats(Stats),
}

impl Stoc {
    /// Does what a request says.
    ///
    /// # Errors
    /// Those of the call.
    pub fn serve(&self, request: &Request) -> Result<Response> {
        let done = |()| Response::Done;
        match request {
            Request::Fence { range, epoch } => self.fence(*range, *epoch).map(Response::Fenced),
            Request::CreateLog { name, epoch, in_memory: false } => {
                self.create_log(*name, *epoch).map(done)
            }
            Request::CreateLog { name, epoch, in_memory: true } => {
                self.create_log_in_memory(*name, *epoch).map(done)
            }
            Request::Append { name, epoch, start: None, offset, bytes } => {
                self.append(name, *epoch, *offset, bytes).map(done)
            }
            Request::Append { name, epoch, start: Some(start), offset, bytes } => {
                self.append_in_memory(name, (*epoch, *start), *offset, bytes).map(done)
            }
            Request::Seal { name, epoch, length } => self.seal(name, *epoch, *length).map(done),
            Request::CreateTable { name, epoch, stripe } => {
                self.create_table(*name, *epoch, *stripe).map(done)
            }
            Request::Write { name, epoch, offset, bytes } => {
                self.write(name, *epoch, *offset, bytes).map(done)
            }
            Request::Finish { name, epoch, length } => self.finish(name, *epoch, *length).map(done),
            Request::Read { name, offset, bytes } => {
                self.read(name, *offset, *bytes).map(Response::Bytes)
            }
            Request::AddReferences { range, epoch, others } => {
                self.add_references(*range, *epoch, others).map(done)
            }
            Request::Release { name, by, epoch } => self.release(name, *by, *epoch).map(done),
            Request::List { range } => Ok(Response::Files(self.list(*range))),
            Request::Verify { name } => self.verify(name).map(done),
            Request::Stats => self.stats().map(Response::Stats),
        }
    }
}
