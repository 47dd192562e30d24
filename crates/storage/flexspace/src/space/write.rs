//! Changing a space: the bytes go to the segment's buffer, then tree, live bytes and the log's
//! buffer are changed in one go.

use std::ops::Range;

use sync::MutexGuard;

use super::{Error, FlexSpace, OpenBuffer, Shared, Writer};
use crate::data::{SegmentBuffer, SegmentWriter, Segments};
use crate::log::{Change, Piece, Record};
use crate::{Extent, FlexSnapshot, FlexTree};

/// Extents removed in one change whose nodes are freed under the readers' lock.
const FREED_EXTENTS_FEW: usize = 4096;

/// The longest space that has holes: as offsets of files are, its offsets are numbers with a sign.
const LEN_MAX: u64 = i64::MAX as u64;

impl FlexSpace {
    /// Puts `data` behind the last byte.
    ///
    /// # Errors
    /// As [`Self::splice`].
    pub fn append(&self, data: &[u8]) -> Result<(), Error> {
        let shared = &self.shared;
        shared.splice(&mut *shared.writer_for_change()?, None, Some(0), data, 0)
    }

    /// Puts `data` at `offset`; bytes from there on move back (Flex 4, insert-range).
    ///
    /// # Errors
    /// As [`Self::splice`].
    pub fn insert(&self, offset: u64, data: &[u8]) -> Result<(), Error> {
        self.splice(offset, 0, data, 0)
    }

    /// Takes `length` bytes at `offset` out; all behind them moves up (Flex 4, collapse-range).
    ///
    /// # Errors
    /// As [`Self::splice`].
    pub fn collapse(&self, offset: u64, length: u64) -> Result<(), Error> {
        self.splice(offset, length, &[], 0)
    }

    /// Writes `data` over the bytes at `offset` and behind the end, but not from behind the end on.
    ///
    /// # Errors
    /// As [`Self::splice`].
    pub fn pwrite(&self, offset: u64, data: &[u8]) -> Result<(), Error> {
        let shared = &self.shared;
        shared.splice(&mut *shared.writer_for_change()?, Some(offset), None, data, 0)
    }

    /// Puts `data` in the place of `removed` bytes at `offset`: one change, of which a crash leaves
    /// all or nothing. The first new extent gets `tag`, which is then not joined to the one before
    /// it; a tag belongs to a byte, and is removed with it.
    ///
    /// Data of at most [`Stats::extent_bytes_max`](super::Stats::extent_bytes_max) is one extent.
    /// Writes to the device only if a segment is full, or the log's buffer; not durable before
    /// [`Self::sync`].
    ///
    /// # Errors
    /// [`Error::BehindTheEnd`], [`Error::NoSpace`] and [`Error::Uncollected`], if nothing was
    /// changed; [`Error::Device`] if the device failed; then and from then on [`Error::ReadOnly`].
    pub fn splice(&self, offset: u64, removed: u64, data: &[u8], tag: u16) -> Result<(), Error> {
        self.together(|space| space.splice(offset, removed, data, tag))
    }

    /// Puts `length` zeros in the place of `removed` bytes at `offset`. The zeros have no address,
    /// so they take no room except that of the tree, in which each 4 GiB of them take a leaf. If
    /// `length` equals `removed`, a file system calls this punching a hole; if `removed` is 0, it
    /// is an insertion.
    ///
    /// # Errors
    /// As [`Self::splice`], and [`Error::TooLong`] for more than 2^48 zeros in one call.
    pub fn splice_hole(&self, offset: u64, removed: u64, length: u64) -> Result<(), Error> {
        self.together(|space| space.splice_hole(offset, removed, length))
    }

    /// Tags the byte at `offset`: an extent begins there from now on. With tag 0 it may be joined
    /// to the one before it again.
    ///
    /// # Errors
    /// As [`Self::splice`].
    pub fn set_tag(&self, offset: u64, tag: u16) -> Result<(), Error> {
        self.together(|space| space.set_tag(offset, tag))
    }
}

impl Shared {
    /// Returns the writers' lock, if writes are accepted. Commits first if there are many records,
    /// so that a change that is refused for lack of room was not made. Stores the tree if the log
    /// is long, unless another thread does and the log is not very long. Begins the life of this
    /// opening (L2).
    pub(super) fn writer_for_change(&self) -> Result<MutexGuard<'_, Writer>, Error> {
        self.ready()?;
        loop {
            let writer = self.writer.lock();
            self.health.check_changeable()?;
            if writer.pending.len() < self.options.log_buffer_bytes.max(1) {
                return Ok(writer);
            }
            drop(writer);
            if self.commit()? {
                self.shorten_log(false)?;
            }
        }
    }

    /// Without an offset, splices at the end; without a number to remove, replaces the bytes that
    /// the data covers.
    pub(super) fn splice(
        &self,
        writer: &mut Writer,
        offset: Option<u64>,
        removed: Option<u64>,
        data: &[u8],
        tag: u16,
    ) -> Result<(), Error> {
        self.health.check_writable()?;
        let len = self.state.read().tree.len();
        let offset = offset.unwrap_or(len);
        let covered = || len.saturating_sub(offset).min(data.len() as u64);
        let removed = removed.unwrap_or_else(covered);
        let end = offset.saturating_add(removed);
        if end > len {
            return Err(Error::BehindTheEnd { end, len });
        }
        if removed == 0 && data.is_empty() {
            return Ok(());
        }
        self.check_limit(writer, data.len() as u64, offset..end)?;
        let pieces = self.place(writer, data)?;
        self.apply(writer, &Change::Splice { offset, removed, tag, pieces })
    }

    /// Refuses bytes in the place of a range if more would live than may.
    fn check_limit(&self, writer: &Writer, bytes: u64, range: Range<u64>) -> Result<(), Error> {
        let (live_bytes, limit_bytes) =
            (writer.segments.live_bytes(), writer.segments.limit_bytes());
        if live_bytes + bytes <= limit_bytes {
            return Ok(());
        }
        // Holes of the range release no room.
        let tree = self.state.read().tree.snapshot();
        let pieces = tree.query(range).filter(|piece| !piece.extent.is_hole());
        let gone: u64 = pieces.map(|piece| u64::from(piece.length)).sum();
        let more_bytes = bytes.saturating_sub(gone);
        if more_bytes > 0 && live_bytes + more_bytes > limit_bytes {
            return Err(Error::NoSpace { live_bytes, limit_bytes, more_bytes });
        }
        Ok(())
    }

    /// Zeros that take no room, in the place of `removed` bytes.
    pub(super) fn splice_hole(
        &self,
        writer: &mut Writer,
        offset: u64,
        removed: u64,
        length: u64,
    ) -> Result<(), Error> {
        self.health.check_writable()?;
        let len = self.state.read().tree.len();
        let end = offset.saturating_add(removed);
        if end > len {
            return Err(Error::BehindTheEnd { end, len });
        }
        if length > <FlexTree>::GROWTH_MAX || len.saturating_add(length) > LEN_MAX {
            return Err(Error::TooLong { len, more_bytes: length });
        }
        if removed == 0 && length == 0 {
            return Ok(());
        }
        if length > removed {
            // Its nodes are to have room.
            self.make_room(writer, 0)?;
        }
        self.apply(writer, &Change::Hole { offset, removed, length })
    }

    /// Puts data into segments; nothing refers to it yet. Refuses it before any of it is put, if
    /// too few segments are available (`room.rs`).
    pub(super) fn place(&self, writer: &mut Writer, data: &[u8]) -> Result<Vec<Piece>, Error> {
        if data.is_empty() {
            return Ok(Vec::new());
        }
        let extents = data.chunks(self.data.geometry.extent_bytes_max() as usize);
        let wanted = self.wanted_segments(writer, extents.clone());
        self.make_room(writer, wanted)?;
        let mut pieces: Vec<Piece> = Vec::with_capacity(extents.len());
        for bytes in extents {
            let has_room = |open: &SegmentWriter| open.has_room(&self.data, bytes.len());
            if !writer.open.as_ref().is_some_and(has_room) {
                self.next_segment(writer)?;
            }
            let open = writer.open.as_mut().expect("a segment was begun");
            let address = open.push(&self.data, bytes);
            self.health.stop_on(open.begin_full(&self.data, &mut writer.writes))?;
            pieces.push(Piece { address, length: bytes.len() as u32 });
        }
        Ok(pieces)
    }

    /// Returns how many segments have to be begun for these extents.
    fn wanted_segments<'a>(&self, writer: &Writer, extents: impl Iterator<Item = &'a [u8]>) -> u32 {
        let mut room = writer.open.as_ref().map_or(0, |open| open.room_bytes(&self.data));
        let mut count = 0;
        for bytes in extents {
            if room < bytes.len() {
                room = self.data.geometry.payload_bytes() as usize;
                count += 1;
            }
            room -= bytes.len();
        }
        count
    }

    /// Ends the segment that callers fill, and begins another one.
    fn next_segment(&self, writer: &mut Writer) -> Result<(), Error> {
        let next = self.begin_segment(writer, false)?;
        if let Some(mut full) = writer.open.take() {
            let written = full.write_new(&self.data, &mut writer.writes);
            if let Err(error) = self.health.stop_on(written) {
                // Readers continue to read it in its buffer.
                writer.open = Some(full);
                return Err(error);
            }
            writer.segments.close(full.segment);
            writer.spare = Some(full.buffer);
        }
        let (segment, buffer) = (next.segment, next.buffer.clone());
        // Later reads find the full one in the file.
        self.state.write().open = Some(OpenBuffer { segment, buffer });
        writer.open = Some(next);
        Ok(())
    }

    /// Begins a segment of a new generation, for which room was made.
    pub(super) fn begin_segment(
        &self,
        writer: &mut Writer,
        for_collector: bool,
    ) -> Result<SegmentWriter, Error> {
        let segment = writer.segments.next_free(for_collector).ok_or(Error::Uncollected)?;
        if !writer.segments.is_roomy(segment) {
            return Err(Error::Uncollected);
        }
        let begun = writer.begun + 1;
        let generation = self.health.stop_on(generation(writer.life, begun))?;
        writer.segments.open(segment);
        writer.begun = begun;
        self.data.set_generation(segment, generation);
        Record::encode_segment(segment, generation, &mut writer.pending);
        let buffer = match writer.spare.take().map(std::sync::Arc::try_unwrap) {
            // No snapshot knows it any more, so it may be written over.
            Some(Ok(buffer)) => buffer,
            _ => SegmentBuffer::new(self.data.geometry.payload_bytes() as usize),
        };
        Ok(SegmentWriter::new(segment, generation, buffer.into()))
    }

    /// Makes a change whose bytes were placed; it is in the next commit. Removed bytes are counted,
    /// and removed nodes are freed, without the readers' lock.
    pub(super) fn apply(&self, writer: &mut Writer, change: &Change) -> Result<(), Error> {
        let (before, number) = {
            let state = self.state.read();
            (state.tree.snapshot(), state.number)
        };
        let gone = subtract(&before, &mut writer.segments, change, number);
        // A snapshot that lives has the nodes copied that are changed, so few of them have one.
        let before = (gone > FREED_EXTENTS_FEW).then_some(before);
        {
            let mut state = self.state.write();
            change_tree(&mut state.tree, change)?;
            state.number = number + 1;
        }
        drop(before);
        add(&mut writer.segments, change, number + 1);
        change.encode(&mut writer.pending);
        writer.tracking.note(change);
        Ok(())
    }
}

/// Returns a generation that no segment had in another life, or earlier in this one.
pub(super) fn generation(life: u64, begun: u64) -> Result<u64, Error> {
    if begun > u64::from(u32::MAX) {
        let what = "2^32 segments were begun since the space was opened: open it again";
        return Err(Error::Options(what.to_owned()));
    }
    Ok(life << 32 | begun)
}

/// Makes a change in a tree.
pub(super) fn change_tree(tree: &mut FlexTree, change: &Change) -> Result<(), Error> {
    match change {
        Change::Splice { offset, removed, tag, pieces } => {
            let end = offset.saturating_add(*removed);
            if end > tree.len() {
                return Err(Error::BehindTheEnd { end, len: tree.len() });
            }
            tree.collapse_range(*offset, *removed)?;
            let mut at = *offset;
            for piece in pieces {
                let extent = Extent::at(piece.address)?;
                let extent = if at == *offset { extent.with_tag(*tag) } else { extent };
                tree.insert_range(at, u64::from(piece.length), extent)?;
                at += u64::from(piece.length);
            }
        }
        Change::Hole { offset, removed, length } => {
            let end = offset.saturating_add(*removed);
            if end > tree.len() {
                return Err(Error::BehindTheEnd { end, len: tree.len() });
            }
            // Refusals happen before any change.
            tree.check_growth(tree.len(), *length)?;
            tree.collapse_range(*offset, *removed)?;
            tree.insert_range(*offset, *length, Extent::HOLE)?;
        }
        Change::Relocate { offset, piece } => {
            let length = u64::from(piece.length);
            let end = offset.saturating_add(length);
            if end > tree.len() {
                return Err(Error::BehindTheEnd { end, len: tree.len() });
            }
            tree.remap(*offset, length, piece.address)?;
        }
        Change::SetTag { offset, tag } => tree.set_tag(*offset, *tag)?,
    }
    Ok(())
}

/// Counts the bytes that a change puts into segments.
fn add(segments: &mut Segments, change: &Change, state: u64) {
    let pieces = match change {
        Change::Splice { pieces, .. } => &pieces[..],
        Change::Relocate { piece, .. } => std::slice::from_ref(piece),
        Change::SetTag { .. } | Change::Hole { .. } => &[],
    };
    for piece in pieces {
        segments.add(piece.address, u64::from(piece.length), state);
    }
}

/// Counts the bytes that a change takes out of segments, and returns the number of their extents.
fn subtract(tree: &FlexSnapshot, segments: &mut Segments, change: &Change, state: u64) -> usize {
    let (offset, length) = match change {
        Change::Splice { offset, removed, .. } | Change::Hole { offset, removed, .. } => {
            (*offset, *removed)
        }
        Change::Relocate { offset, piece } => (*offset, u64::from(piece.length)),
        Change::SetTag { .. } => return 0,
    };
    let mut count = 0;
    for gone in tree.query(offset..offset.saturating_add(length)) {
        if let Some(address) = gone.extent.address() {
            segments.subtract(address, u64::from(gone.length), state);
        }
        count += 1;
    }
    count
}
