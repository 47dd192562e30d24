//! A read that waits for the device nowhere: it says which blocks it wants, and is given them in any
//! order.
//!
//! Whoever has many reads under way puts the blocks of all of them on one queue of the device.

use std::ops::Range;
use std::sync::Arc;

use device::File;

use super::{Error, Snapshot};
use crate::data::unexpected_end;

/// A read of some bytes of a [`Snapshot`], which it keeps alive.
#[derive(Debug)]
pub struct Reading {
    snapshot: Snapshot,
    bytes: Vec<u8>,
    wanted: Vec<Wanted>,
    /// Which of them are still to come.
    missing: usize,
}

/// Blocks that a read wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Where they begin in the file.
    pub offset: u64,
    /// Their bytes.
    pub bytes: usize,
    address: u64,
    into: Range<usize>,
    is_there: bool,
}

impl Snapshot {
    /// Begins a read of the `length` bytes at `offset`: what is in memory is there at once.
    ///
    /// # Errors
    /// [`Error::BehindTheEnd`], [`Error::Closed`].
    pub fn begin_read(&self, offset: u64, length: u64) -> Result<Reading, Error> {
        self.shared().health.check_open()?;
        let end = offset.saturating_add(length);
        if end > self.len() {
            return Err(Error::BehindTheEnd { end, len: self.len() });
        }
        let data = &self.shared().data;
        let (mut bytes, mut wanted) = (vec![0; length as usize], Vec::new());
        let mut at = 0;
        for piece in self.tree().query(offset..end) {
            let into = at..at + piece.length as usize;
            at = into.end;
            // A hole is zeros.
            let Some(address) = piece.extent.address() else { continue };
            let (segment, inside) = data.geometry.place(address);
            if let Some(open) = self.open_buffer(segment) {
                open.read(inside as usize, &mut bytes[into]);
            } else if let Some(span) = data.span(address, into.len()) {
                let (offset, bytes) = (span.offset, span.bytes);
                wanted.push(Wanted { offset, bytes, address, into, is_there: false });
            }
        }
        Ok(Reading { snapshot: self.clone(), bytes, missing: wanted.len(), wanted })
    }
}

impl Reading {
    /// The blocks that it wants of [`Self::file`]: one run for each extent that is not in memory.
    pub fn wanted(&self) -> &[Wanted] {
        &self.wanted
    }

    /// The file that they are in.
    pub fn file(&self) -> &Arc<dyn File> {
        &self.snapshot.shared().data.file
    }

    /// How many bytes it reads.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether it reads none.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// How many of the wanted runs have not come.
    pub fn missing(&self) -> usize {
        self.missing
    }

    /// The run `index` of the wanted ones has come, or what the device says instead.
    ///
    /// # Errors
    /// [`Error::Corruption`] if a block is not what was written to that place, [`Error::Device`],
    /// [`Error::Closed`].
    ///
    /// # Panics
    /// If there is no such run, or it has another length.
    pub fn give(&mut self, index: usize, blocks: device::Result<&[u8]>) -> Result<(), Error> {
        let shared = self.snapshot.shared();
        let wanted = &mut self.wanted[index];
        let taken = blocks.map_err(|error| unexpected_end(error, wanted.offset));
        let taken = taken.and_then(|blocks| {
            assert_eq!(blocks.len(), wanted.bytes, "a run as long as it was wanted");
            shared.data.take(wanted.address, blocks, &mut self.bytes[wanted.into.clone()])
        });
        // The next opening's life may fill segments that only this snapshot knew.
        taken.map_err(|error| shared.health.check_open().err().unwrap_or(error))?;
        self.missing -= usize::from(!std::mem::replace(&mut wanted.is_there, true));
        Ok(())
    }

    /// The bytes.
    ///
    /// # Panics
    /// If some of them have not come.
    pub fn into_bytes(self) -> Vec<u8> {
        assert_eq!(self.missing, 0, "all of a read has come");
        self.bytes
    }
}
