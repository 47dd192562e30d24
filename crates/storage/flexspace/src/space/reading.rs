//! A read that never waits for the device: it lists the blocks that it needs.
//! The caller passes them in any order.
//!
//! A caller with many reads in flight puts the blocks of all of them on one queue of the device.

use std::ops::Range;
use std::sync::Arc;

use device::File;
use smallvec::{SmallVec, smallvec};

use super::{Error, Snapshot};
use crate::data::{Span, unexpected_end};

/// Bytes of the longest run that several extents are read in.
const JOINED_BYTES_MAX: usize = 256 << 10;

/// A read of some bytes of a [`Snapshot`], which it keeps alive.
#[derive(Debug)]
pub struct Reading {
    snapshot: Snapshot,
    len: usize,
    /// As long as the read once any of them are there, and empty before.
    bytes: Vec<u8>,
    wanted: SmallVec<[Wanted; 1]>,
    /// The runs that are still missing.
    missing: usize,
}

/// A run of blocks that a read wants: the blocks of one extent, or of several extents in the same
/// blocks or in neighbours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Their offset in the file.
    pub offset: u64,
    /// Their bytes.
    pub bytes: usize,
    /// The parts of it that are wanted.
    parts: SmallVec<[Part; 4]>,
    is_there: bool,
}

/// Bytes of one extent, of the blocks of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    address: u64,
    span: Span,
    into: Range<usize>,
}

impl Snapshot {
    /// Begins a read of the `length` bytes at `offset`: bytes in memory are there immediately.
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
        let len = length as usize;
        let (mut bytes, mut parts) = (Vec::new(), SmallVec::<[Part; 4]>::new());
        let mut at = 0;
        for piece in self.tree().query(offset..end) {
            let into = at..at + piece.length as usize;
            at = into.end;
            // A hole is zeros.
            let Some(address) = piece.extent.address() else { continue };
            let (segment, inside) = data.geometry.place(address);
            if let Some(open) = self.open_buffer(segment) {
                bytes.resize(len, 0);
                open.read(inside as usize, &mut bytes[into]);
                continue;
            }
            // An extent that follows the one before it without a gap is read with it.
            let follows = |part: &&mut Part| {
                part.address + part.into.len() as u64 == address
                    && part.into.end == into.start
                    && data.geometry.place(part.address).0 == segment
            };
            let (address, into) = match parts.last_mut().filter(follows) {
                Some(part) => (part.address, part.into.start..into.end),
                None => {
                    parts.push(Part { address, span: Span { offset: 0, bytes: 0 }, into: 0..0 });
                    (address, into)
                }
            };
            if let (Some(part), Some(span)) = (parts.last_mut(), data.span(address, into.len())) {
                *part = Part { address, span, into };
            }
        }
        let wanted = runs(parts);
        Ok(Reading { snapshot: self.clone(), len, bytes, missing: wanted.len(), wanted })
    }
}

/// Returns the runs of blocks that have all parts, joined without an unneeded block up to
/// `JOINED_BYTES_MAX` bytes.
fn runs(mut parts: SmallVec<[Part; 4]>) -> SmallVec<[Wanted; 1]> {
    parts.sort_unstable_by_key(|part| part.span.offset);
    let mut runs: SmallVec<[Wanted; 1]> = SmallVec::new();
    for part in parts {
        let Span { offset, bytes } = part.span;
        if let Some(run) = runs.last_mut()
            && offset <= run.offset + run.bytes as u64
            && (offset - run.offset) as usize + bytes <= JOINED_BYTES_MAX
        {
            run.bytes = run.bytes.max((offset - run.offset) as usize + bytes);
            run.parts.push(part);
        } else {
            runs.push(Wanted { offset, bytes, parts: smallvec![part], is_there: false });
        }
    }
    runs
}

impl Reading {
    /// Returns the runs of blocks that it wants of [`Self::file`]: one for each extent that is not
    /// in memory, and fewer if extents are neighbours.
    pub fn wanted(&self) -> &[Wanted] {
        &self.wanted
    }

    /// Returns the file that they are in.
    pub fn file(&self) -> &Arc<dyn File> {
        &self.snapshot.shared().data.file
    }

    /// Returns how many bytes it reads.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether it reads none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns how many of the wanted runs are missing.
    pub fn missing(&self) -> usize {
        self.missing
    }

    /// Takes the run `index` of the wanted ones, or the device's error.
    ///
    /// # Errors
    /// [`Error::Corruption`] if a block is not the one that was written to that place,
    /// [`Error::Device`], [`Error::Closed`].
    ///
    /// # Panics
    /// If there is no such run, or it has another length.
    pub fn give(&mut self, index: usize, blocks: device::Result<&[u8]>) -> Result<(), Error> {
        let shared = self.snapshot.shared();
        self.bytes.resize(self.len, 0);
        let wanted = &mut self.wanted[index];
        let taken = blocks.map_err(|error| unexpected_end(error, wanted.offset));
        let taken = taken.and_then(|blocks| {
            assert_eq!(blocks.len(), wanted.bytes, "a run as long as it was wanted");
            wanted.parts.iter().try_for_each(|Part { address, span, into }| {
                let skip = (span.offset - wanted.offset) as usize;
                let blocks = &blocks[skip..skip + span.bytes];
                shared.data.take(*address, blocks, &mut self.bytes[into.clone()])
            })
        });
        // The next opening's life may fill segments that only this snapshot knew.
        taken.map_err(|error| shared.health.check_open().err().unwrap_or(error))?;
        self.missing -= usize::from(!std::mem::replace(&mut wanted.is_there, true));
        Ok(())
    }

    /// Returns the bytes.
    ///
    /// # Panics
    /// If some of them are missing.
    pub fn into_bytes(mut self) -> Vec<u8> {
        self.take_bytes()
    }

    /// Takes the bytes out; the read has none from then on.
    ///
    /// # Panics
    /// The same.
    pub fn take_bytes(&mut self) -> Vec<u8> {
        assert_eq!(self.missing, 0, "all of a read has come");
        // Nothing but holes.
        self.bytes.resize(self.len, 0);
        std::mem::take(&mut self.bytes)
    }
}
