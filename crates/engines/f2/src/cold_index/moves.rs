//! Records of a part of the cold log. The index knows which of them are live, and their entries
//! change to their copies. Each takes 12 bytes of memory: the longer a part, the fewer chunks are
//! read and written for each of its records.

use engine::Result;
use workers::StopToken;

use super::ColdIndex;
use super::apply::{Applied, Change};
use super::chunk::{ADDRESS_UNIT, Prefix};
use super::read_chunks::Outcome;
use crate::address::LogAddress;
use crate::position::Position;

/// Outcome for a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is the newest of its key, as far as is known.
    Lives,
    /// No entry names it.
    Unnamed,
    /// There is a newer record of its key, so its entry is to be removed.
    Outdated,
    /// It has a copy.
    Copied(LogAddress),
}

/// One record. The numbers that represent a verdict are no offset of a copy.
#[derive(Clone, Copy, Debug)]
struct Item {
    prefix: Prefix,
    /// Units from the part's beginning.
    at: u32,
    verdict: u32,
}

const UNNAMED: u32 = u32::MAX;
const LIVES: u32 = u32::MAX - 1;
const OUTDATED: u32 = u32::MAX - 2;

/// Records of one part, in the order of their addresses until the index is asked about them.
#[derive(Debug)]
pub(crate) struct Moves {
    base: LogAddress,
    copies_base: LogAddress,
    items: Vec<Item>,
}

impl Moves {
    /// Bytes of memory of one record.
    pub(crate) const BYTES: u64 = size_of::<Item>() as u64;

    /// Makes the list of records behind `base`, whose copies will be behind `copies_base`.
    pub(crate) fn new(base: LogAddress, copies_base: LogAddress) -> Self {
        Self { base, copies_base, items: Vec::new() }
    }

    /// Returns whether addresses of records and copies below these can be represented.
    pub(crate) fn reaches(&self, at: LogAddress, copy: LogAddress) -> bool {
        let is_near = |from: LogAddress, to: LogAddress| {
            to.get().saturating_sub(from.get()) / ADDRESS_UNIT < u64::from(OUTDATED)
        };
        is_near(self.base, at) && is_near(self.copies_base, copy)
    }

    /// Adds a record that is behind all those before.
    pub(crate) fn push(&mut self, position: Position, at: LogAddress) {
        let at = units(self.base, at);
        self.items.push(Item { prefix: Prefix::of(position), at, verdict: UNNAMED });
    }

    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    fn address(&self, item: Item) -> LogAddress {
        self.base.plus(u64::from(item.at) * ADDRESS_UNIT)
    }

    /// In the order of addresses, the number of the record at `at`.
    pub(crate) fn number_of(&self, at: LogAddress) -> Option<usize> {
        let at = units(self.base, at);
        self.items.binary_search_by_key(&at, |item| item.at).ok()
    }

    /// Returns the address and the verdict of a record.
    pub(crate) fn verdict(&self, number: usize) -> Option<(LogAddress, Verdict)> {
        let item = *self.items.get(number)?;
        let verdict = match item.verdict {
            UNNAMED => Verdict::Unnamed,
            LIVES => Verdict::Lives,
            OUTDATED => Verdict::Outdated,
            copy => Verdict::Copied(self.copies_base.plus(u64::from(copy) * ADDRESS_UNIT)),
        };
        Some((self.address(item), verdict))
    }

    /// Sets the verdict on a record.
    pub(crate) fn decide(&mut self, number: usize, verdict: Verdict) {
        self.items[number].verdict = match verdict {
            Verdict::Lives => LIVES,
            Verdict::Unnamed => UNNAMED,
            Verdict::Outdated => OUTDATED,
            Verdict::Copied(copy) => units(self.copies_base, copy),
        };
    }

    fn change(&self, item: Item) -> Option<Change> {
        let (position, old) = (item.prefix.position(), self.address(item));
        let new = match item.verdict {
            UNNAMED | LIVES => return None,
            OUTDATED => LogAddress::NONE,
            copy => self.copies_base.plus(u64::from(copy) * ADDRESS_UNIT),
        };
        Some(Change { position, old, new })
    }
}

fn units(base: LogAddress, at: LogAddress) -> u32 {
    let units = (at.get() - base.get()) / ADDRESS_UNIT;
    // Cut off it would name another record.
    assert!(units < u64::from(OUTDATED), "{at:?} is too far from {base:?}");
    units as u32
}

impl ColdIndex {
    /// Checks the liveness of all records: a record that an entry names is live. If other entries
    /// with the same bits are in front of its entry, calls `pending` with the record and each of
    /// these, the record first. The records are in the order of their addresses before and after.
    /// Each chunk is read once. `false`: it was stopped. Blocks; the caller is not protected.
    ///
    /// # Errors
    /// Damage with its place; the storage's.
    pub(crate) fn check_liveness(
        &self,
        moves: &mut Moves,
        stop: &StopToken,
        pending: &mut dyn FnMut(LogAddress, LogAddress),
    ) -> Result<bool> {
        moves.items.sort_unstable_by_key(|item| (item.prefix, item.at));
        let mut addresses = Vec::new();
        let mut living = vec![false; moves.items.len()];
        let prefix_of = |index: usize| moves.items.get(index).map(|item| item.prefix);
        let is_whole =
            self.with_chunks(0..moves.items.len(), &prefix_of, stop, &mut |group, chunk| {
                let Some(chunk) = chunk else { return Ok(Outcome::Done) };
                let items = moves.items[group.first..group.end].iter().copied();
                for (item, lives) in items.zip(&mut living[group.first..group.end]) {
                    let at = moves.address(item);
                    addresses.clear();
                    chunk.addresses(item.prefix.tag(), &mut addresses);
                    if let Some(place) = addresses.iter().position(|named| *named == at) {
                        *lives = true;
                        addresses[..place].iter().for_each(|newer| pending(at, *newer));
                    }
                }
                Ok(Outcome::Done)
            })?;
        for (item, lives) in moves.items.iter_mut().zip(living) {
            item.verdict = if lives { LIVES } else { UNNAMED };
        }
        moves.items.sort_unstable_by_key(|item| item.at);
        Ok(is_whole)
    }

    /// Changes the entries of records with copies to the copies, and removes the entries of
    /// outdated records, each chunk once. If an entry does not exist any more, nothing changes: the
    /// copy is dead, like the record. Blocks; the caller is not protected.
    ///
    /// # Errors
    /// Damage with its place; the storage's. Some may have been changed then.
    pub(crate) fn apply_moves(&self, moves: &mut Moves, stop: &StopToken) -> Result<bool> {
        moves.items.sort_unstable_by_key(|item| (item.prefix, item.at));
        let prefix_of = |index: usize| moves.items.get(index).map(|item| item.prefix);
        let (mut value, mut applied) = (Vec::new(), Applied::default());
        self.with_chunks(0..moves.items.len(), &prefix_of, stop, &mut |group, chunk| {
            let items = &moves.items[group.first..group.end];
            let changes = items.iter().filter_map(|item| moves.change(*item));
            applied.missed.clear();
            self.edit(group, chunk, changes, &mut value, &mut applied)
        })
    }
}
