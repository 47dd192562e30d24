//! Removes a range of bytes in one pass: at each level at most two children are walked into, those
//! between are dropped whole, and those behind are shifted once.

use super::entry::Entry;
use super::inner::{Children, Inner};
use super::node::{Ledger, Node, node, node_mut};

impl<E: Entry, const C: usize, const F: usize> Inner<E, C, F> {
    /// Removes the bytes from `from` to before `to` of the `span` bytes below this node. They are
    /// not strictly within one entry, so no node gets an entry more.
    ///
    /// May leave this node without children, if all of its bytes go.
    pub(super) fn remove(&mut self, from: u64, to: u64, span: u64, ledger: &mut Ledger) {
        let (first, last) = (self.child_at(from), self.child_at(to - 1));
        let keeps_head = from > self.shifts[first];
        let keeps_tail = to < self.end_of(last, span);
        if first == last && (keeps_head || keeps_tail) {
            self.remove_in_child(first, from, to, span, ledger);
            if !keeps_head {
                self.renew_pivot(first);
            }
            self.shift_from(first + 1, from.wrapping_sub(to));
            self.merge_children(first..first + 1, ledger);
            return;
        }
        if keeps_head {
            self.remove_in_child(first, from, self.end_of(first, span), span, ledger);
        }
        if keeps_tail {
            self.remove_in_child(last, self.shifts[last], to, span, ledger);
            // The rest of it begins where the range began.
            self.shifts[last] = to;
            self.renew_pivot(last);
        }
        let gone = first + usize::from(keeps_head)..last + usize::from(!keeps_tail);
        let seam = gone.start;
        self.drop_children(gone, ledger);
        self.shift_from(seam, from.wrapping_sub(to));
        self.merge_children(seam.saturating_sub(1)..(seam + 1).min(self.count()), ledger);
    }

    /// Child `index` begins with another entry: keys up to that one's are its neighbour's now.
    pub(super) fn renew_pivot(&mut self, index: usize) {
        self.pivots[index] = match &self.children {
            Children::Leaves(slots) => node(&slots[index]).pivot(),
            Children::Inners(slots) => node(&slots[index]).pivot(),
        };
    }

    fn end_of(&self, index: usize, span: u64) -> u64 {
        if index + 1 < self.count() { self.shifts[index + 1] } else { span }
    }

    fn remove_in_child(
        &mut self,
        index: usize,
        from: u64,
        to: u64,
        span: u64,
        ledger: &mut Ledger,
    ) {
        let begin = self.shifts[index];
        let child_span = self.end_of(index, span) - begin;
        match &mut self.children {
            Children::Leaves(slots) => {
                // Offsets in a leaf fit 32 bits (L3).
                let (from, to) = ((from - begin) as u32, (to - begin) as u32);
                node_mut(&mut slots[index], ledger).remove(from, to);
            }
            Children::Inners(slots) => {
                let child = node_mut(&mut slots[index], ledger);
                child.remove(from - begin, to - begin, child_span, ledger);
            }
        }
    }
}
