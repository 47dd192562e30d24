//! The merge of an interval's pairs with the updates to it.
//!
//! It decides the fate of each, makes the image of all, and finds the bytes that change.

use flexspace::Found;
use std::sync::Arc;

use super::plan::Step;
use crate::block::Block;
use crate::index::{Head, Interval, START};
use crate::memtable::Update;
use crate::pair::Pair;

/// The fate of a pair or an update of an interval, by key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// This pair stays.
    Keep(usize),
    /// This pair goes.
    Drop(usize),
    /// This update is a pair from now on.
    Add(usize),
}

/// The interval that is planned for, with its pairs.
pub(super) struct Merging<'a> {
    pub(super) place: Option<(&'a Found<'a, Interval>, &'a Arc<Head>)>,
    pub(super) block: Option<&'a Block>,
    pub(super) updates: &'a [Update],
    pub(super) fates: Vec<Fate>,
}

impl Merging<'_> {
    /// Returns all pairs of the resulting interval, and the end of each.
    pub(super) fn image(&self) -> (Vec<u8>, Vec<usize>) {
        let bytes_max = self.block.map_or(0, Block::pair_bytes) as u64 + bytes_of(self.updates);
        let mut image = Vec::with_capacity(bytes_max as usize);
        let mut ends = Vec::with_capacity(self.fates.len());
        for fate in &self.fates {
            match fate {
                Fate::Keep(index) => image.extend_from_slice(self.kept(*index)),
                Fate::Add(index) => self.add(*index, &mut image),
                Fate::Drop(_) => continue,
            }
            ends.push(image.len());
        }
        (image, ends)
    }

    fn kept(&self, index: usize) -> &[u8] {
        self.block.and_then(|block| block.pair(index)).unwrap_or_default()
    }

    fn add(&self, index: usize, into: &mut Vec<u8>) {
        if let Some(update) = self.updates.get(index) {
            pair(update).encode(into);
        }
    }

    /// Returns a step for each run of pairs that change, and the bytes that the steps write. The
    /// block's pairs are all pairs of the interval, in their order.
    pub(super) fn steps(&self, block: &Block) -> (Vec<u8>, Vec<Step>) {
        let (mut data, mut steps) = (Vec::new(), Vec::new());
        let mut at = 0_u64;
        let mut run: Option<(u32, usize)> = None;
        let mut end_run = |run: &mut Option<(u32, usize)>, at: &mut u64, data: &[u8]| {
            let Some((removed, begin)) = run.take() else { return };
            let tag = if *at == 0 { START } else { 0 };
            let written = data.len() - begin;
            steps.push(Step::Splice { at: *at, removed, data: begin..data.len(), tag });
            if *at == 0 && written == 0 {
                // The tag went with the first pair.
                steps.push(Step::Tag { at: 0, tag: START });
            } else if *at == 0 && removed == 0 {
                // It is the new pair's now.
                steps.push(Step::Tag { at: written as u64, tag: 0 });
            }
            *at += written as u64;
        };
        for fate in &self.fates {
            match fate {
                Fate::Keep(index) => {
                    end_run(&mut run, &mut at, &data);
                    at += block.pair(*index).map_or(0, <[u8]>::len) as u64;
                }
                Fate::Drop(index) => {
                    let len = block.pair(*index).map_or(0, <[u8]>::len) as u32;
                    run.get_or_insert((0, data.len())).0 += len;
                }
                Fate::Add(index) => {
                    run.get_or_insert((0, data.len()));
                    self.add(*index, &mut data);
                }
            }
        }
        end_run(&mut run, &mut at, &data);
        (data, steps)
    }
}

/// An update as a pair.
pub(super) fn pair(update: &Update) -> Pair<'_> {
    Pair { key: update.key(), value: update.value() }
}

/// Bytes that updates take as pairs.
pub(super) fn bytes_of(updates: &[Update]) -> u64 {
    updates.iter().map(|update| pair(update).encoded_len() as u64).sum()
}

/// Returns the fates of pairs and updates, both by ascending key.
pub(super) fn fates(block: Option<&Block>, updates: &[Update]) -> Vec<Fate> {
    let pairs = block.map_or(0, Block::len);
    let mut fates = Vec::with_capacity(pairs + updates.len());
    let mut old = 0;
    for (new, update) in updates.iter().enumerate() {
        let mut is_same = false;
        while let Some(key) =
            block.and_then(|block| block.key(old)).filter(|it| *it <= update.key())
        {
            if key == update.key() {
                is_same = block.and_then(|block| block.value(old)) == update.value();
                fates.push(if is_same { Fate::Keep(old) } else { Fate::Drop(old) });
            } else {
                fates.push(Fate::Keep(old));
            }
            old += 1;
        }
        if update.value().is_some() && !is_same {
            fates.push(Fate::Add(new));
        }
    }
    fates.extend((old..pairs).map(Fate::Keep));
    fates
}
