//! A space as a file: offsets behind the end are written to, and lengths are set.

use flexspace::space::{Error, FlexSpace, Together};
use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use crate::refusal::Outcome;
use crate::shift::Shift;

/// The longest file: offsets are numbers with a sign.
const LEN_MAX: u64 = i64::MAX as u64;

/// The kind of range that `seek` looks for behind an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sought {
    Data,
    Hole,
}

/// An open space.
#[derive(Debug)]
pub(crate) struct SpaceFile {
    space: FlexSpace,
}

impl SpaceFile {
    pub(crate) fn new(space: FlexSpace) -> Self {
        Self { space }
    }

    pub(crate) fn len(&self) -> u64 {
        self.space.len()
    }

    /// Returns the bytes that are stored: all but those of holes.
    pub(crate) fn stored_bytes(&self) -> u64 {
        self.space.live_bytes()
    }

    /// Up to `length` bytes at `offset`: fewer before the end.
    pub(crate) fn read(&self, offset: u64, length: u64) -> Outcome<Vec<u8>> {
        let snapshot = self.space.snapshot()?;
        let length = length.min(snapshot.len().saturating_sub(offset));
        Ok(if length == 0 { Vec::new() } else { snapshot.read(offset, length)? })
    }

    /// Writes `data` over the bytes at `offset` and behind the end; the range between the end and
    /// the offset becomes a hole. Without an offset, appends `data` at the end.
    pub(crate) fn write(&self, offset: Option<u64>, data: &[u8]) -> Outcome<()> {
        let length = data.len() as u64;
        if offset.is_some_and(|offset| offset.saturating_add(length) > LEN_MAX) {
            return Err(Errno::FBIG.into());
        }
        self.change(|space| {
            let len = space.len();
            let offset = offset.unwrap_or(len);
            if offset <= len || data.is_empty() {
                let removed = len.saturating_sub(offset).min(length);
                return space.splice(offset.min(len), removed, data, 0);
            }
            // The hole first: a concurrent reader sees zeros up to the offset, and no byte at a
            // wrong offset. If the bytes are refused, the hole is removed again, and nothing was
            // done.
            space.splice_hole(len, 0, offset - len)?;
            let written = space.splice(offset, 0, data, 0);
            if written.is_err() {
                space.splice(len, offset - len, &[], 0)?;
            }
            written
        })
    }

    /// Takes bytes off the end, or adds zeros there, which take no room.
    pub(crate) fn set_len(&self, wanted: u64) -> Outcome<()> {
        if wanted > LEN_MAX {
            return Err(Errno::FBIG.into());
        }
        self.change(|space| {
            let len = space.len();
            if wanted < len {
                space.splice(wanted, len - wanted, &[], 0)
            } else {
                space.splice_hole(len, 0, wanted - len)
            }
        })
    }

    /// Does the requests of `fallocate` that the kernel passes on. No room is reserved: the next
    /// write needs new room wherever it is.
    pub(crate) fn allocate(&self, offset: u64, length: u64, mode: FallocateFlags) -> Outcome<()> {
        const KEEP_SIZE: FallocateFlags = FallocateFlags::KEEP_SIZE;
        const PUNCH: FallocateFlags = FallocateFlags::PUNCH_HOLE;
        const ZERO: FallocateFlags = FallocateFlags::ZERO_RANGE;
        let end = offset.checked_add(length).filter(|end| *end <= LEN_MAX).ok_or(Errno::FBIG)?;
        let keeps_size = mode.contains(KEEP_SIZE);
        match mode.difference(KEEP_SIZE) {
            PUNCH if keeps_size => {}
            ZERO => {}
            rest if rest.is_empty() => {
                let added = |len| if keeps_size { 0 } else { end.saturating_sub(len) };
                // Read and made longer in one step: bytes that others append meanwhile are not cut
                // off.
                return self.change(|space| space.splice_hole(space.len(), 0, added(space.len())));
            }
            _ => return Err(Errno::OPNOTSUPP.into()),
        }
        self.change(|space| {
            let len = space.len();
            let inside = end.min(len).saturating_sub(offset);
            let added = if keeps_size { 0 } else { end.saturating_sub(len) };
            // The end first: if the rest is refused, it is taken back, and nothing was done.
            space.splice_hole(len, 0, added)?;
            let zeroed = space.splice_hole(offset.min(len), inside, inside);
            if zeroed.is_err() {
                space.splice(len, added, &[], 0)?;
            }
            zeroed
        })
    }

    /// Moves the bytes behind an offset back or up.
    pub(crate) fn shift(&self, shift: Shift<'_>) -> Outcome<()> {
        self.change(|space| match shift {
            Shift::Insert { offset, bytes } => space.splice(offset, 0, bytes, 0),
            Shift::InsertZeros { offset, length } => space.splice_hole(offset, 0, length),
            Shift::Collapse { offset, length } => space.splice(offset, length, &[], 0),
        })
    }

    /// Returns the first offset from `offset` on where there is data, or a hole; behind the last
    /// byte is one.
    pub(crate) fn seek(&self, offset: u64, sought: Sought) -> Outcome<u64> {
        let snapshot = self.space.snapshot()?;
        let len = snapshot.len();
        if offset >= len {
            return Err(Errno::NXIO.into());
        }
        let is_sought = |is_hole: bool| is_hole == (sought == Sought::Hole);
        let found = snapshot.extents(offset..len).find(|piece| is_sought(piece.extent.is_hole()));
        match (found, sought) {
            (Some(piece), _) => Ok(piece.offset),
            (None, Sought::Hole) => Ok(len),
            (None, Sought::Data) => Err(Errno::NXIO.into()),
        }
    }

    /// Makes all that was done durable.
    pub(crate) fn sync(&self) -> Outcome<()> {
        Ok(self.space.sync()?)
    }

    /// Releases room that the space does not need any more. Bytes that cannot be read stay where
    /// they are, and are reported.
    pub(crate) fn tidy(&self) -> Outcome<()> {
        let mut damage = None;
        loop {
            let done = self.space.collect()?;
            damage = damage.or(done.damage);
            if done.segments == 0 {
                return damage.map_or(Ok(()), |damage| Err(damage.into()));
            }
        }
    }

    /// Stores all that was done; no call is taken any more.
    pub(crate) fn close(&self) -> Outcome<()> {
        Ok(self.space.close()?)
    }

    /// The same, but without room to store it the space stays open, with all that was done.
    pub(crate) fn try_close(&self) -> Outcome<()> {
        Ok(self.space.try_close()?)
    }

    /// Makes a change as a whole, and runs the collector as long as that is all it lacks.
    fn change(&self, mut make: impl FnMut(&mut Together<'_>) -> Result<(), Error>) -> Outcome<()> {
        loop {
            match self.space.together(&mut make) {
                Err(Error::Uncollected) => {
                    if self.space.collect()?.segments == 0 {
                        // A commit of the collector may have freed the required room.
                        return Ok(self.space.together(&mut make)?);
                    }
                }
                made => return Ok(made?),
            }
        }
    }
}
