//! The changes of a FlexTree (Flex 3.2): each is one walk from the root, unless it says otherwise.

use crate::error::Error;
use crate::extent::{ADDRESS_BITS, Extent, Joining};
use crate::flex_tree::FlexTree;
use crate::shift_tree::{Leaf, Room, Side, Spot};

/// The longest piece that is one extent.
const LENGTH_MAX: u64 = u32::MAX as u64;

impl<const C: usize, const F: usize> FlexTree<C, F> {
    /// Most bytes by which one operation makes the space longer: the number of bytes that have
    /// addresses.
    ///
    /// Bytes with addresses are never longer. Holes might be, and each 4 GiB of one take a leaf, so
    /// the farthest offset takes 65,000 leaves and not all memory.
    pub const GROWTH_MAX: u64 = 1 << ADDRESS_BITS;

    /// Adds `length` bytes at `extent` behind the last byte. They are one extent with those before
    /// them if they follow them at their address, too.
    ///
    /// # Errors
    /// [`Error::TooLong`], [`Error::AddressTooLarge`].
    pub fn append(&mut self, length: u64, extent: Extent) -> Result<(), Error> {
        self.insert_range(self.len(), length, extent)
    }

    /// Makes room for `length` bytes at `offset`, whose place is `extent`: bytes from `offset` on
    /// move back (insert-range). If `offset` is behind the end, a hole fills the range between.
    ///
    /// O(log N); longer than 32 bits say it is one walk for each 4 GiB.
    ///
    /// # Errors
    /// [`Error::TooLong`], [`Error::AddressTooLarge`].
    pub fn insert_range(&mut self, offset: u64, length: u64, extent: Extent) -> Result<(), Error> {
        self.check_growth(offset, length)?;
        extent.check_length(length)?;
        if length == 0 {
            return Ok(());
        }
        if offset > self.len() {
            self.insert_pieces(self.len(), offset - self.len(), Extent::HOLE);
        }
        self.insert_pieces(offset, length, extent);
        Ok(())
    }

    /// Takes `length` bytes at `offset` out: all behind them moves up (collapse-range). O(log N),
    /// plus the nodes that are dropped as a whole.
    ///
    /// # Errors
    /// [`Error::BehindTheEnd`].
    pub fn collapse_range(&mut self, offset: u64, length: u64) -> Result<(), Error> {
        let end = self.check_end(offset, length)?;
        if length == 0 {
            return Ok(());
        }
        self.tree.remove(offset, end);
        self.join_at(offset);
        Ok(())
    }

    /// Says that the place of `length` bytes from `offset` on is now `extent`. Bytes that were
    /// there are replaced; nothing moves. If `offset` is behind the end, a hole fills the range
    /// between.
    ///
    /// # Errors
    /// [`Error::TooLong`], [`Error::AddressTooLarge`].
    pub fn overwrite(&mut self, offset: u64, length: u64, extent: Extent) -> Result<(), Error> {
        let more = offset.saturating_add(length).saturating_sub(self.len());
        self.check_growth(self.len(), more)?;
        extent.check_length(length)?;
        if offset >= self.len() || length == 0 {
            return self.insert_range(offset, length, extent);
        }
        let end = (offset + length).min(self.len());
        self.tree.remove(offset, end);
        self.insert_pieces(offset, length, extent);
        Ok(())
    }

    /// Makes a hole of `length` bytes at `offset`; nothing moves.
    ///
    /// # Errors
    /// [`Error::BehindTheEnd`].
    pub fn punch(&mut self, offset: u64, length: u64) -> Result<(), Error> {
        self.check_end(offset, length)?;
        self.overwrite(offset, length, Extent::HOLE)
    }

    /// Says that `length` bytes from `offset` on are now at `address`, in the same order: the
    /// collector's change after it has moved them (Flex 4.2, relocation). Tags stay where they are;
    /// holes are filled.
    ///
    /// One walk for each leaf of the range, and one for each of its ends.
    ///
    /// # Errors
    /// [`Error::BehindTheEnd`], [`Error::AddressTooLarge`].
    pub fn remap(&mut self, offset: u64, length: u64, address: u64) -> Result<(), Error> {
        let end = self.check_end(offset, length)?;
        let extent = Extent::at(address)?;
        extent.check_length(length)?;
        if length == 0 {
            return Ok(());
        }
        // The range begins and ends with extents from here on, so no leaf gets more of them.
        self.divide_at(offset);
        self.divide_at(end);
        let joining = self.joining;
        let room = Room { entries: 0, bytes: 0, side: Side::At };
        let mut at = offset;
        while at < end {
            let moved = extent.skip(at - offset);
            at += self.tree.edit(at, room, |leaf, spot| {
                let to = u64::from(spot.inside) + (end - at);
                remap_in_leaf(leaf, spot.inside, to, moved, joining)
            });
        }
        self.join_at(offset);
        self.join_at(end);
        Ok(())
    }

    /// Tags the byte at `offset`: an extent begins there from now on. With tag 0 it may be joined
    /// to the one before it again.
    ///
    /// # Errors
    /// [`Error::BehindTheEnd`] if there is no such byte.
    pub fn set_tag(&mut self, offset: u64, tag: u16) -> Result<(), Error> {
        self.check_end(offset, 1)?;
        let room = Room { entries: 0, bytes: 0, side: Side::At };
        self.tree.edit(offset, room, |leaf, spot| {
            let index = leaf.divide(spot.inside);
            let extent = leaf.entry_mut(index);
            *extent = extent.with_tag(tag);
        });
        self.join_at(offset);
        Ok(())
    }

    pub(crate) fn check_growth(&self, offset: u64, length: u64) -> Result<(), Error> {
        let len = self.len();
        let more = length.saturating_add(offset.saturating_sub(len));
        // Unused slots hold the largest number, so no offset may reach it.
        match len.checked_add(more) {
            Some(end) if end < u64::MAX && more <= Self::GROWTH_MAX => Ok(()),
            _ => Err(Error::TooLong { len, more }),
        }
    }

    fn check_end(&self, offset: u64, length: u64) -> Result<u64, Error> {
        let end = offset.saturating_add(length);
        if end > self.len() {
            return Err(Error::BehindTheEnd { end, len: self.len() });
        }
        Ok(end)
    }

    fn insert_pieces(&mut self, offset: u64, length: u64, extent: Extent) {
        let mut done = 0;
        while done < length {
            // At most the greatest length of an extent.
            let piece = (length - done).min(LENGTH_MAX) as u32;
            self.insert_piece(offset + done, piece, extent.skip(done));
            done += u64::from(piece);
        }
    }

    fn insert_piece(&mut self, offset: u64, length: u32, extent: Extent) {
        let joining = self.joining;
        let side = if offset == self.len() { Side::End } else { Side::Before };
        let room = Room { entries: 1, bytes: length, side };
        self.tree.edit(offset, room, |leaf, spot| {
            insert_in_leaf(leaf, spot, length, extent, joining);
        });
    }

    /// Makes an extent begin at `offset`, unless the space ends there.
    fn divide_at(&mut self, offset: u64) {
        if self.get(offset).is_none_or(|piece| piece.offset == offset) {
            return;
        }
        let room = Room { entries: 0, bytes: 0, side: Side::At };
        self.tree.edit(offset, room, |leaf, spot| {
            leaf.divide(spot.inside);
        });
    }

    /// Makes one extent of the two that meet at `offset`, if they are one run of bytes.
    fn join_at(&mut self, offset: u64) {
        let Some(before) = offset.checked_sub(1).and_then(|before| self.get(before)) else {
            return;
        };
        let Some(behind) = self.get(offset) else { return };
        let joins = self.joining.joins(before.extent, before.length, behind.extent, behind.length);
        if behind.offset != offset || !joins {
            return;
        }
        let joining = self.joining;
        let room = Room { entries: 0, bytes: 0, side: Side::Before };
        // Of two leaves each keeps its own: the leaf then has no entry behind the one at the spot.
        self.tree.edit(offset, room, |leaf, spot| join_in_leaf(leaf, spot.index + 1, joining));
    }
}

/// Puts `length` bytes into a leaf, behind the byte before the spot.
#[inline]
fn insert_in_leaf<const C: usize>(
    leaf: &mut Leaf<Extent, C>,
    spot: Spot,
    length: u32,
    extent: Extent,
    joining: Joining,
) {
    if spot.inside == 0 {
        // The space's first byte, or a leaf's that is empty.
        leaf.splice(0, 0, [(length, extent)]);
        join_in_leaf(leaf, 1, joining);
        return;
    }
    let (left, left_length) = (*leaf.entry(spot.index), leaf.length(spot.index));
    let head = spot.inside - leaf.start(spot.index);
    let next = spot.index + 1;
    if head < left_length {
        let rest = (left_length - head, left.skip(u64::from(head)));
        leaf.splice(spot.index, next, [(head, left), (length, extent), rest]);
        // The new bytes may follow the head, or be followed by the rest, at their addresses.
        join_in_leaf(leaf, next + 1, joining);
        join_in_leaf(leaf, next, joining);
    } else if joining.joins(left, left_length, extent, length) {
        leaf.splice(spot.index, next, [(left_length + length, left)]);
        join_in_leaf(leaf, next, joining);
    } else {
        leaf.splice(next, next, [(length, extent)]);
        join_in_leaf(leaf, next + 1, joining);
    }
}

/// Makes one of the entries before and at `index`, if they are one run of bytes.
fn join_in_leaf<const C: usize>(leaf: &mut Leaf<Extent, C>, index: usize, joining: Joining) {
    if index == 0 || index >= leaf.count() {
        return;
    }
    let (left, right) = (*leaf.entry(index - 1), *leaf.entry(index));
    let (length, more) = (leaf.length(index - 1), leaf.length(index));
    if joining.joins(left, length, right, more) {
        leaf.splice(index - 1, index + 1, [(length + more, left)]);
    }
}

/// Remaps the bytes of this leaf from `from` to before `to`, at which extents begin; returns the
/// number of extents.
fn remap_in_leaf<const C: usize>(
    leaf: &mut Leaf<Extent, C>,
    from: u32,
    to: u64,
    moved: Extent,
    joining: Joining,
) -> u64 {
    // The smaller of the two fits 32 bits, as the span does.
    let to = to.min(u64::from(leaf.span())) as u32;
    let first = leaf.find(from);
    let end = if to < leaf.span() { leaf.find(to) } else { leaf.count() };
    for index in first..end {
        let by = u64::from(leaf.start(index) - from);
        let tag = leaf.entry(index).tag();
        *leaf.entry_mut(index) = moved.skip(by).with_tag(tag);
    }
    for index in (first + 1..end).rev() {
        join_in_leaf(leaf, index, joining);
    }
    u64::from(to - from)
}
