//! The possible contents of a disk after the power was cut.
//!
//! 1. A *survival* is drawn for the names and one for the bytes: nothing, everything, all up to a
//!    moment, any subset of the changes, or any subset of their sectors. The extremes are drawn
//!    more often than chance would, since stores are wrong there most often.
//! 2. Each directory becomes its durable names with those pending changes that survive, in order.
//! 3. Each file that can still be reached becomes its durable bytes with those pending changes that
//!    survive, by sectors of 512 bytes. A sector that survives has the contents of the moment right
//!    after that change, with all that was written to it before. A sector may tear from its
//!    neighbours, but it is never put together from pieces of different times.
//! 4. A length is metadata, which file systems write in order: the length is that of some moment
//!    since the last sync, independent of the bytes. Bytes that were cut off before that moment are
//!    zeros.
//!
//! Any *order* of the pending writes is covered by any *subset*. If an earlier write of a sector
//! reaches the medium after a later one, the result is the one without the later write.

use std::collections::BTreeMap;

use super::content::Content;
use super::dice::Dice;
use super::event::{Change, Inode, ROOT};
use super::state::{DirState, FileState, InFlightWrite, Node, SECTOR, State};

/// Which pending changes survive.
#[derive(Clone, Copy, Debug)]
enum Survival {
    Nothing,
    Everything,
    /// The changes before the one of this sequence number, and that one torn.
    Until(u64),
    /// Each by itself with this chance; some of them torn.
    Some {
        ppm: u32,
    },
    /// Each sector by itself with this chance.
    Sectors {
        ppm: u32,
    },
}

/// The fate of one change.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Lost,
    Kept,
    /// The first sectors, a random number of them.
    Head,
    /// Each sector by itself.
    Torn {
        ppm: u32,
    },
}

impl Survival {
    fn drawn(dice: &mut Dice, first: u64, end: u64) -> Self {
        let ppm = dice.pick(&[50_000, 300_000, 500_000, 700_000, 950_000]);
        match dice.below(8) {
            0 => Self::Nothing,
            1 => Self::Everything,
            2..=4 => Self::Until(first + dice.below(end.saturating_sub(first) + 1)),
            5 | 6 => Self::Some { ppm },
            _ => Self::Sectors { ppm },
        }
    }

    fn fate(self, dice: &mut Dice, sequence: u64) -> Fate {
        match self {
            Self::Nothing => Fate::Lost,
            Self::Everything => Fate::Kept,
            Self::Until(end) if sequence < end => Fate::Kept,
            Self::Until(end) if sequence > end => Fate::Lost,
            Self::Until(_) => Fate::torn(dice),
            Self::Some { ppm } if !dice.happens(ppm) => Fate::Lost,
            Self::Some { .. } if dice.below(4) > 0 => Fate::Kept,
            Self::Some { .. } => Fate::torn(dice),
            Self::Sectors { ppm } => Fate::Torn { ppm },
        }
    }

    /// Whether a change that is whole or not at all survives.
    fn keeps(self, dice: &mut Dice, sequence: u64) -> bool {
        match self.fate(dice, sequence) {
            Fate::Lost => false,
            Fate::Kept => true,
            Fate::Head | Fate::Torn { .. } => dice.below(2) == 0,
        }
    }

    /// The sequence number before which changes of a file's length survive.
    fn length_end(self, dice: &mut Dice, file: &FileState) -> u64 {
        match self {
            Self::Nothing => 0,
            Self::Everything => u64::MAX,
            Self::Until(end) => end + dice.below(2),
            Self::Some { .. } | Self::Sectors { .. } => {
                let moment = dice.below(file.pending.len() as u64 + 1) as usize;
                file.pending.get(moment).map_or(u64::MAX, |(sequence, _)| *sequence)
            }
        }
    }
}

impl Fate {
    fn torn(dice: &mut Dice) -> Self {
        dice.pick(&[Self::Head, Self::Torn { ppm: 500_000 }])
    }
}

/// A state in which a machine may find the disk after a crash in `state`. `seed` chooses among
/// them.
pub(super) fn crash(state: &State, seed: u64) -> State {
    let mut dice = Dice::new(seed, "crash");
    let first = oldest_pending(state);
    let bytes = Survival::drawn(&mut dice, first, state.sequence);
    let names = match dice.below(2) {
        0 => bytes,
        _ => Survival::drawn(&mut dice, first, state.sequence),
    };
    surviving(state, bytes, names, &mut dice)
}

/// The state in which all is lost that was not synced.
pub(super) fn crash_losing_all(state: &State) -> State {
    surviving(state, Survival::Nothing, Survival::Nothing, &mut Dice::new(0, "crash"))
}

/// The state in which nothing is lost that was done, as after a kill.
pub(super) fn crash_losing_nothing(state: &State) -> State {
    surviving(state, Survival::Everything, Survival::Everything, &mut Dice::new(0, "crash"))
}

fn surviving(state: &State, bytes: Survival, names: Survival, dice: &mut Dice) -> State {
    let dirs = surviving_names(state, names, dice);
    let mut image = State {
        nodes: BTreeMap::new(),
        in_flight: BTreeMap::new(),
        sequence: state.sequence,
        next_inode: state.next_inode,
    };
    let mut reached = vec![ROOT];
    while let Some(node) = reached.pop() {
        if image.nodes.contains_key(&node) {
            continue;
        }
        if let Some(names) = dirs.get(&node) {
            reached.extend(names.values());
            let dir = DirState { durable: names.clone(), current: names.clone(), pending: vec![] };
            image.nodes.insert(node, Node::Dir(dir));
        } else if let Some(file) = state.file(node) {
            let in_flight = state.in_flight.values().filter(|flight| flight.node == node);
            let content = surviving_bytes(file, in_flight, bytes, dice);
            image.nodes.insert(node, Node::File(FileState::durable(content)));
        }
    }
    image
}

fn oldest_pending(state: &State) -> u64 {
    let oldest = |node: &Node| match node {
        Node::File(file) => file.pending.first().map(|(sequence, _)| *sequence),
        Node::Dir(dir) => dir.pending.first().map(|change| change.sequence),
    };
    state.nodes.values().filter_map(oldest).min().unwrap_or(state.sequence)
}

/// The names of every directory after the crash.
fn surviving_names(
    state: &State,
    survival: Survival,
    dice: &mut Dice,
) -> BTreeMap<Inode, BTreeMap<String, Inode>> {
    // One draw for each event, in the order of the events: a name that moves between directories
    // is two changes, and is never lost from both.
    let mut fates: BTreeMap<u64, bool> = BTreeMap::new();
    let dirs = || {
        state.nodes.iter().filter_map(|(&number, node)| match node {
            Node::Dir(dir) => Some((number, dir)),
            Node::File(_) => None,
        })
    };
    for change in dirs().flat_map(|(_, dir)| &dir.pending) {
        fates.entry(change.sequence).or_default();
    }
    for (&sequence, kept) in &mut fates {
        *kept = survival.keeps(dice, sequence);
    }
    let mut after = BTreeMap::new();
    for (number, dir) in dirs() {
        let mut names = dir.durable.clone();
        for change in &dir.pending {
            let kept = fates.get(&change.sequence).copied().unwrap_or(false);
            // The old name of a moved file may outlive the crash next to the new one.
            let both = change.moved_to.is_some() && dice.below(4) == 0;
            if kept && !both {
                change.make(&mut names);
            }
        }
        after.insert(number, names);
    }
    after
}

/// The bytes of a file after the crash.
fn surviving_bytes<'a>(
    file: &FileState,
    in_flight: impl Iterator<Item = &'a InFlightWrite>,
    survival: Survival,
    dice: &mut Dice,
) -> Content {
    let mut image = file.durable.clone();
    let mut seen = file.base.clone();
    let mut len = image.len();
    let length_end = survival.length_end(dice, file);
    for (sequence, change) in &file.pending {
        let before = seen.len();
        change.make(&mut seen);
        if *sequence < length_end && seen.len() != before {
            len = seen.len();
            if len < before {
                image.cut(len);
            }
        }
        let fate = survival.fate(dice, *sequence);
        keep(&mut image, &seen, change, fate, dice);
    }
    for write in in_flight {
        let change = Change::Write { offset: write.offset, bytes: write.bytes.clone() };
        change.make(&mut seen);
        let choices = [Fate::Lost, Fate::Kept, Fate::Head, Fate::Torn { ppm: 500_000 }];
        let fate = dice.pick(&choices);
        if dice.below(2) == 0 {
            len = len.max(write.offset + write.bytes.len() as u64);
        }
        keep(&mut image, &seen, &change, fate, dice);
    }
    image.cut(len);
    image
}

/// Takes the parts of `change` that survive over from `seen`, the file right after the change.
fn keep(image: &mut Content, seen: &Content, change: &Change, fate: Fate, dice: &mut Dice) {
    let sectors = change.sectors();
    match (change, fate) {
        (Change::SetLen(_), _) | (_, Fate::Lost) => {}
        (Change::Zero(range), _) => image.zero(range.clone()),
        (Change::Write { .. }, Fate::Kept) => image.copy_from(seen, sectors),
        (Change::Write { .. }, Fate::Head) => {
            let count = dice.below((sectors.end - sectors.start) / SECTOR + 1);
            image.copy_from(seen, sectors.start..sectors.start + count * SECTOR);
        }
        (Change::Write { .. }, Fate::Torn { ppm }) => {
            for start in sectors.step_by(SECTOR as usize) {
                if dice.happens(ppm) {
                    image.copy_from(seen, start..start + SECTOR);
                }
            }
        }
    }
}
