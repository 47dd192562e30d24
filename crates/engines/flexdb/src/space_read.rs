//! A read of the space as a value: its runs of blocks are the reads of one round.

use std::sync::Arc;

use engine::{Error, PendingLookup, Progress, ReadRequest, ReadSource, Result};
use flexspace::space::Reading;
use memory_budget::{Account, MemoryBudget};
use smallvec::SmallVec;

use crate::error::from_space;

/// A read of some bytes of the space that needs the device.
pub(crate) struct SpaceRead {
    reading: Reading,
    runs: SmallVec<[ReadRequest; 1]>,
    /// Counts the memory of the bytes.
    _account: Account,
}

impl SpaceRead {
    /// Takes a read of which at least one run is missing.
    pub(crate) fn new(
        reading: Reading,
        source: &Arc<dyn ReadSource>,
        budget: &Arc<MemoryBudget>,
    ) -> Self {
        let run = |wanted: &flexspace::space::Wanted| ReadRequest {
            source: Arc::clone(source),
            file: Arc::clone(reading.file()),
            offset: wanted.offset,
            len: wanted.bytes,
        };
        let runs = reading.wanted().iter().map(run).collect();
        let account = Account::new(budget);
        account.set(reading.len() as u64);
        Self { reading, runs, _account: account }
    }

    /// Returns the runs.
    pub(crate) fn runs(&self) -> &[ReadRequest] {
        &self.runs
    }

    /// Takes a run, or its failure. Returns whether all of them are complete.
    pub(crate) fn give(&mut self, run: usize, bytes: Result<&[u8]>) -> Result<bool> {
        let bytes = match bytes {
            Ok(bytes) => Ok(bytes),
            Err(Error::Device(error)) => Err(error),
            Err(error) => return Err(error),
        };
        self.reading.give(run, bytes).map_err(from_space)?;
        Ok(self.reading.missing() == 0)
    }

    /// Returns the bytes, all of which were read.
    pub(crate) fn take_bytes(&mut self) -> Vec<u8> {
        self.reading.take_bytes()
    }
}

/// A read whose bytes become the value of the lookup.
impl PendingLookup for SpaceRead {
    fn key(&self) -> &[u8] {
        &[]
    }

    fn reads(&self) -> &[ReadRequest] {
        &self.runs
    }

    fn resume(
        &mut self,
        read: usize,
        bytes: Result<&[u8]>,
        into: &mut Vec<u8>,
    ) -> Result<Progress> {
        if !self.give(read, bytes)? {
            return Ok(Progress::Waiting);
        }
        *into = self.take_bytes();
        Ok(Progress::Found)
    }

    fn is_newest(&self) -> bool {
        false
    }
}
