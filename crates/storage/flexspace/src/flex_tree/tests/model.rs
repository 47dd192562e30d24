//! A flexible address space as a plain sorted vector, in which every shift visits all of it.

use crate::{Extent, Mapping};

/// A run of bytes at consecutive addresses, of any length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) offset: u64,
    pub(super) length: u64,
    pub(super) extent: Extent,
}

/// Runs without gaps, as long as they can be: a new one begins only where addresses jump or a tag
/// is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Model {
    pub(super) runs: Vec<Run>,
}

impl Model {
    /// Returns the pieces of a tree as runs, whatever extents the tree cuts long runs into.
    pub(super) fn of(pieces: impl Iterator<Item = Mapping>) -> Self {
        let mut model = Self::default();
        for piece in pieces {
            assert_eq!(piece.offset, model.len(), "pieces are contiguous");
            assert!(piece.length > 0, "an empty piece at {}", piece.offset);
            let Mapping { offset, length, extent } = piece;
            model.push(Run { offset, length: u64::from(length), extent });
        }
        model
    }

    pub(super) fn len(&self) -> u64 {
        self.runs.last().map_or(0, |run| run.offset + run.length)
    }

    /// Adds a run behind the last.
    pub(super) fn push(&mut self, run: Run) {
        match self.runs.last_mut() {
            Some(last) if is_one(last, &run) => last.length += run.length,
            _ => self.runs.push(run),
        }
    }

    /// Returns the index of the run that begins at `offset`, which is made if need be.
    fn divide(&mut self, offset: u64) -> usize {
        let index = self.runs.partition_point(|run| run.offset < offset);
        if let Some(before) = index.checked_sub(1) {
            let whole = self.runs[before];
            let head = offset - whole.offset;
            if head < whole.length {
                self.runs[before].length = head;
                let (length, extent) = (whole.length - head, whole.extent.skip(head));
                self.runs.insert(index, Run { offset, length, extent });
            }
        }
        index
    }

    fn join_all(&mut self) {
        for run in std::mem::take(&mut self.runs) {
            self.push(run);
        }
    }

    pub(super) fn insert(&mut self, offset: u64, length: u64, extent: Extent) {
        let len = self.len();
        if length == 0 {
            return;
        }
        if offset > len {
            self.push(Run { offset: len, length: offset - len, extent: Extent::HOLE });
        }
        let index = self.divide(offset);
        for run in &mut self.runs[index..] {
            run.offset += length;
        }
        self.runs.insert(index, Run { offset, length, extent });
        self.join_all();
    }

    pub(super) fn collapse(&mut self, offset: u64, length: u64) {
        let (from, to) = (self.divide(offset), self.divide(offset + length));
        self.runs.drain(from..to);
        for run in &mut self.runs[from..] {
            run.offset -= length;
        }
        self.join_all();
    }

    pub(super) fn overwrite(&mut self, offset: u64, length: u64, extent: Extent) {
        let end = (offset + length).min(self.len());
        if offset < end && length > 0 {
            self.collapse(offset, end - offset);
        }
        self.insert(offset, length, extent);
    }

    pub(super) fn remap(&mut self, offset: u64, length: u64, moved: Extent) {
        let (from, to) = (self.divide(offset), self.divide(offset + length));
        for run in &mut self.runs[from..to] {
            run.extent = moved.skip(run.offset - offset).with_tag(run.extent.tag());
        }
        self.join_all();
    }

    pub(super) fn set_tag(&mut self, offset: u64, tag: u16) {
        let index = self.divide(offset);
        self.runs[index].extent = self.runs[index].extent.with_tag(tag);
        self.join_all();
    }

    /// Returns the run with the byte at `offset`.
    pub(super) fn get(&self, offset: u64) -> Option<Run> {
        let behind = self.runs.partition_point(|run| run.offset <= offset);
        let run = self.runs[behind.checked_sub(1)?];
        (offset < run.offset + run.length).then_some(run)
    }

    /// Returns a range, as a model of its own that begins at the range's start.
    pub(super) fn cut(&self, from: u64, to: u64) -> Vec<Run> {
        let overlaps =
            self.runs.iter().filter(|run| run.offset < to && from < run.offset + run.length);
        let clip = |run: &Run| {
            let offset = run.offset.max(from);
            let length = (run.offset + run.length).min(to) - offset;
            Run { offset, length, extent: run.extent.skip(offset - run.offset) }
        };
        overlaps.map(clip).collect()
    }
}

fn is_one(left: &Run, right: &Run) -> bool {
    let follows = match (left.extent.address(), right.extent.address()) {
        (Some(first), Some(next)) => first + left.length == next,
        (None, None) => true,
        _ => false,
    };
    follows && right.extent.tag() == 0
}
