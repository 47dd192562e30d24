//! Defragmentation: neighbours in the space become neighbours in the file (Flex 4.1, defrag).

use super::{Error, FlexSpace};
use crate::log::Change;

/// Bytes that are rewritten before other writers may proceed.
const BYTES_PER_TURN: u64 = 1 << 20;

impl FlexSpace {
    /// Writes the extents of the `length` bytes at `offset` again, in order, and joins them up to
    /// the greatest length of an extent, so that reading them costs few reads. Bytes and tags stay
    /// the same. Tags still separate extents, and none is cut; holes stay. Other writers may change
    /// the space between steps of a MiB. Unreadable bytes stay where they are, and all others are
    /// rewritten.
    ///
    /// # Errors
    /// As [`Self::splice`], and the first [`Error::Corruption`] after all readable bytes were
    /// rewritten.
    pub fn defrag(&self, offset: u64, length: u64) -> Result<(), Error> {
        let end = offset.saturating_add(length);
        let len = self.len();
        if end > len {
            return Err(Error::BehindTheEnd { end, len });
        }
        let (mut at, mut damage) = (offset, None);
        while at < end {
            at = self.rewrite(at, end, &mut damage)?;
        }
        damage.map_or(Ok(()), Err)
    }

    /// Rewrites whole extents, from the one at `offset` on, and joins them up to the greatest
    /// length: so an extent still begins where a write began. Returns the offset at which it ended.
    /// Unreadable extents are left; the first damage is noted.
    fn rewrite(&self, offset: u64, end: u64, damage: &mut Option<Error>) -> Result<u64, Error> {
        let shared = &self.shared;
        let mut writer = shared.writer_for_change()?;
        let snapshot = shared.snapshot();
        // Others may have removed bytes since the caller determined the range.
        let Some(first) = snapshot.tree().get(offset) else { return Ok(end) };
        let length_max = u64::from(shared.data.geometry.extent_bytes_max());
        let stop = end.min(first.offset + BYTES_PER_TURN);
        let mut groups: Vec<(u64, u64)> = Vec::new();
        let mut done = offset + 1;
        for piece in snapshot.extents(first.offset..snapshot.len()) {
            if piece.offset >= stop {
                break;
            }
            let length = u64::from(piece.length);
            done = piece.offset + length;
            match groups.last_mut() {
                _ if piece.extent.is_hole() => {}
                Some((at, gathered))
                    if *at + *gathered == piece.offset && *gathered + length <= length_max =>
                {
                    *gathered += length;
                }
                _ => groups.push((piece.offset, length)),
            }
        }
        let mut read: Vec<(u64, Vec<u8>)> = Vec::with_capacity(groups.len());
        for (at, length) in groups {
            match snapshot.read(at, length) {
                Ok(bytes) => read.push((at, bytes)),
                Err(error @ Error::Corruption(_)) => _ = damage.get_or_insert(error),
                Err(error) => return Err(error),
            }
        }
        // The tree that is changed now should not have to be copied first.
        drop(snapshot);
        for (mut at, bytes) in read {
            for piece in shared.place(&mut writer, &bytes)? {
                let change = Change::Relocate { offset: at, piece };
                at += u64::from(piece.length);
                shared.apply(&mut writer, &change)?;
            }
        }
        Ok(done)
    }
}
