//! The simulated machine's disk, behind its lock: counts operations, decides faults, makes events.

use std::collections::{BTreeMap, BTreeSet};

use rustix::io::Errno;

use crate::error::{Error, Operation, Result};
use crate::file::SyncKind;

use super::dice::Dice;
use super::event::{Change, Event, Inode, ROOT};
use super::faults::{Faults, SyncFailure};
use super::latency::Delays;
use super::resolve::failed;
use super::state::{Node, SECTOR, State};

/// No file may be longer: sums of offsets and lengths below it do not overflow.
const FILE_BYTES_MAX: u64 = 1 << 60;

/// The content of a read buffer until its read is complete: a caller that looks at it too early
/// sees this.
pub(super) const POISON: u8 = 0xdb;

/// Unreachable files are searched for when there are this many more than after the last search.
const COLLECT_EVERY: usize = 64;

#[derive(Debug)]
pub(super) struct Disk {
    pub(super) state: State,
    pub(super) dice: Dice,
    pub(super) faults: Faults,
    /// Operations that change something, so far.
    pub(super) operations: u64,
    /// The operation during which the power goes.
    pub(super) cut_at: Option<u64>,
    /// A hash over everything that was asked and answered.
    pub(super) trace: u64,
    /// Every event with the number of its operation, if a history is kept.
    pub(super) history: Option<Vec<(u64, Event)>>,
    /// The state at which the history begins.
    pub(super) history_from: State,
    pub(super) locks: BTreeSet<Inode>,
    /// How many handles are open on each file.
    pub(super) open: BTreeMap<Inode, usize>,
    /// The source of the times that operations take, if they take any.
    pub(super) delays: Option<Delays>,
    collect_at: usize,
}

/// An operation that was counted. If the power goes during it, it may leave traces, but is never
/// acknowledged.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Whole,
    Cut,
}

impl Disk {
    pub(super) fn new(state: State, seed: u64, faults: Faults) -> Self {
        Self {
            state,
            dice: Dice::new(seed, "disk"),
            faults,
            operations: 0,
            cut_at: None,
            trace: seed,
            history: None,
            history_from: State::default(),
            locks: BTreeSet::new(),
            open: BTreeMap::new(),
            delays: None,
            collect_at: COLLECT_EVERY,
        }
    }

    /// Mixes a request and its result into the trace.
    pub(super) fn note(&mut self, what: Operation, numbers: [u64; 3], bytes: &[u8], good: bool) {
        let mut line = [0; 26];
        line[0] = what as u8;
        line[1] = u8::from(good);
        for (slot, number) in line[2..].chunks_exact_mut(8).zip(numbers) {
            slot.copy_from_slice(&number.to_le_bytes());
        }
        self.trace = codec::hash64(codec::hash64(self.trace, &line), bytes);
    }

    /// Refuses everything once the power is off.
    pub(super) fn alive(&self, what: Operation, name: &str) -> Result<()> {
        match self.cut_at {
            Some(cut) if self.operations >= cut => Err(failed(what, name, Errno::NODEV)),
            _ => Ok(()),
        }
    }

    /// Counts an operation that changes something.
    pub(super) fn step(&mut self, what: Operation, name: &str) -> Result<Step> {
        self.alive(what, name)?;
        self.operations += 1;
        Ok(if self.cut_at == Some(self.operations) { Step::Cut } else { Step::Whole })
    }

    /// Something that belongs to the operation that was counted last.
    pub(super) fn happen(&mut self, event: Event) {
        self.happen_in(self.operations, event);
    }

    /// Something that comes before the next operation and is there from then on.
    pub(super) fn happen_between(&mut self, event: Event) {
        self.happen_in(self.operations + 1, event);
    }

    fn happen_in(&mut self, operation: u64, event: Event) {
        self.state.apply(&event);
        if let Some(history) = &mut self.history {
            history.push((operation, event));
        }
    }

    fn change(&mut self, node: Inode, change: Change) {
        self.happen(Event::Change { node, change });
    }

    fn len(&self, node: Inode) -> u64 {
        self.state.file(node).map_or(0, |file| file.current.len())
    }

    pub(super) fn read(
        &mut self,
        (node, name): (Inode, &str),
        offset: u64,
        into: &mut [u8],
    ) -> Result<()> {
        let outcome = self.try_read((node, name), offset, into);
        if outcome.is_err() {
            into.fill(POISON);
        }
        let numbers = [u64::from(node), offset, into.len() as u64];
        self.note(Operation::Read, numbers, into, outcome.is_ok());
        outcome
    }

    fn try_read(
        &mut self,
        (node, name): (Inode, &str),
        offset: u64,
        into: &mut [u8],
    ) -> Result<()> {
        self.alive(Operation::Read, name)?;
        let end = offset.saturating_add(into.len() as u64);
        if end > self.len(node) {
            return Err(Error::UnexpectedEnd { name: name.to_owned(), end });
        }
        if into.is_empty() {
            return Ok(());
        }
        if self.dice.happens(self.faults.read_error_ppm) {
            return Err(failed(Operation::Read, name, Errno::IO));
        }
        if self.dice.happens(self.faults.bit_rot_ppm) {
            let offset = offset + self.dice.below(into.len() as u64);
            let bit = self.dice.below(8) as u8;
            self.happen_between(Event::Rot { node, offset, bit });
        }
        if self.dice.happens(self.faults.zeroed_sector_ppm) {
            let offset = (offset + self.dice.below(into.len() as u64)) / SECTOR * SECTOR;
            self.happen_between(Event::ZeroSector { node, offset });
        }
        if let Some(file) = self.state.file(node) {
            file.current.read(offset, into);
        }
        Ok(())
    }

    pub(super) fn write(
        &mut self,
        (node, name): (Inode, &str),
        offset: u64,
        bytes: &[u8],
    ) -> Result<()> {
        let outcome = self.try_write((node, name), offset, bytes);
        let numbers = [u64::from(node), offset, bytes.len() as u64];
        self.note(Operation::Write, numbers, bytes, outcome.is_ok());
        outcome
    }

    fn try_write(&mut self, (node, name): (Inode, &str), offset: u64, bytes: &[u8]) -> Result<()> {
        check_end(name, offset, bytes.len() as u64)?;
        if bytes.is_empty() {
            return self.alive(Operation::Write, name);
        }
        let step = self.step(Operation::Write, name)?;
        let (bytes, outcome) = self.write_in_part(name, bytes);
        let end = offset + bytes.len() as u64;
        if self.dice.happens(self.faults.lost_write_ppm) {
            if end > self.len(node) {
                self.change(node, Change::SetLen(end));
            }
        } else if self.dice.happens(self.faults.misdirected_write_ppm) {
            let elsewhere = self.dice.below(end.div_ceil(SECTOR)) * SECTOR;
            let fits = self.len(node).max(end) - elsewhere;
            let bytes = &bytes[..bytes.len().min(usize::try_from(fits).unwrap_or(usize::MAX))];
            if end > self.len(node) {
                self.change(node, Change::SetLen(end));
            }
            self.change(node, Change::Write { offset: elsewhere, bytes: bytes.into() });
        } else if !bytes.is_empty() {
            self.change(node, Change::Write { offset, bytes: bytes.into() });
        }
        outcome.and(step.end(Operation::Write, name))
    }

    /// How much of a write is done, and how it ends.
    fn write_in_part<'a>(&mut self, name: &str, bytes: &'a [u8]) -> (&'a [u8], Result<()>) {
        let error = if self.dice.happens(self.faults.write_error_ppm) {
            failed(Operation::Write, name, Errno::IO)
        } else if self.dice.happens(self.faults.no_space_ppm) {
            Error::NoSpace { name: name.to_owned() }
        } else {
            return (bytes, Ok(()));
        };
        let sectors = self.dice.below(bytes.len() as u64 / SECTOR + 1);
        (&bytes[..(sectors * SECTOR) as usize], Err(error))
    }

    /// Makes the changes before `until` durable.
    pub(super) fn sync(
        &mut self,
        (node, name): (Inode, &str),
        kind: SyncKind,
        until: u64,
    ) -> Result<()> {
        let outcome = self.try_sync((node, name), until);
        let kind = u64::from(kind == SyncKind::All);
        self.note(Operation::Sync, [u64::from(node), kind, 0], &[], outcome.is_ok());
        outcome
    }

    fn try_sync(&mut self, (node, name): (Inode, &str), until: u64) -> Result<()> {
        let step = self.step(Operation::Sync, name)?;
        let is_lie = self.faults.lying_flush || self.faults.unsynced_name == Some(name);
        if step == Step::Whole && !is_lie {
            if self.dice.happens(self.faults.sync_error_ppm) {
                let how = self.dice.pick(&SyncFailure::ALL);
                self.happen(Event::SyncFailed { node, how });
                return Err(failed(Operation::Sync, name, Errno::IO));
            }
            self.happen(Event::Sync { node, until });
        }
        step.end(Operation::Sync, name)
    }

    pub(super) fn sync_dir(&mut self, node: Inode, name: &str) -> Result<()> {
        let step = self.step(Operation::Sync, name)?;
        if step == Step::Whole && !self.faults.lying_flush {
            self.happen(Event::SyncDir(node));
            self.collect();
        }
        self.note(Operation::Sync, [u64::from(node), 2, 0], &[], true);
        step.end(Operation::Sync, name)
    }

    pub(super) fn set_len(&mut self, (node, name): (Inode, &str), len: u64) -> Result<()> {
        check_end(name, len, 0)?;
        let step = self.metadata(name, [u64::from(node), len, 0])?;
        self.change(node, Change::SetLen(len));
        step.end(Operation::Write, name)
    }

    pub(super) fn allocate(
        &mut self,
        (node, name): (Inode, &str),
        offset: u64,
        len: u64,
    ) -> Result<()> {
        check_end(name, offset, len)?;
        let end = offset + len;
        let step = self.metadata(name, [u64::from(node), offset, len])?;
        if end > self.len(node) && len > 0 {
            self.change(node, Change::SetLen(end));
        }
        step.end(Operation::Write, name)
    }

    pub(super) fn punch(
        &mut self,
        (node, name): (Inode, &str),
        offset: u64,
        len: u64,
    ) -> Result<()> {
        let step = self.metadata(name, [u64::from(node), offset, len])?;
        let end = offset.saturating_add(len).min(self.len(node));
        if offset < end {
            self.change(node, Change::Zero(offset..end));
        }
        step.end(Operation::Write, name)
    }

    /// Counts a change that moves no bytes, unless there is no room for it.
    pub(super) fn metadata(&mut self, name: &str, numbers: [u64; 3]) -> Result<Step> {
        let step = self.step(Operation::Metadata, name)?;
        let full = self.dice.happens(self.faults.no_space_ppm);
        self.note(Operation::Metadata, numbers, name.as_bytes(), !full);
        if full { Err(Error::NoSpace { name: name.to_owned() }) } else { Ok(step) }
    }

    /// Forgets files that neither a name nor a handle nor a crash can bring back. Not while a
    /// history is kept, so that its replay goes through the very same states.
    fn collect(&mut self) {
        if self.state.nodes.len() < self.collect_at || self.history.is_some() {
            return;
        }
        let mut kept: BTreeSet<Inode> = self.open.keys().copied().collect();
        let mut seen = vec![ROOT];
        while let Some(node) = seen.pop() {
            let fresh = kept.insert(node);
            if let (true, Some(dir)) = (fresh, self.state.dir(node)) {
                let pending = dir.pending.iter().filter_map(|change| change.set.as_ref());
                seen.extend(pending.map(|(_, node)| *node));
                seen.extend(dir.durable.values().chain(dir.current.values()));
            }
        }
        self.state.nodes.retain(|node, _| kept.contains(node));
        self.collect_at = self.state.nodes.len() * 2 + COLLECT_EVERY;
    }

    /// Bytes that all files take up.
    pub(super) fn stored_bytes(&self) -> u64 {
        let stored = |node: &Node| match node {
            Node::File(file) => file.current.stored_bytes(),
            Node::Dir(_) => 0,
        };
        self.state.nodes.values().map(stored).sum()
    }

    /// Notes a write that is under way, for a crash that comes before its completion. Returns the
    /// number by which its end is reported, unless there is nothing to note.
    pub(super) fn start(
        &mut self,
        (node, name): (Inode, &str),
        offset: u64,
        bytes: &[u8],
    ) -> Option<u64> {
        self.alive(Operation::Write, name).ok()?;
        check_end(name, offset, bytes.len() as u64).ok()?;
        let ticket = self.state.sequence;
        self.happen_between(Event::Started { ticket, node, offset, bytes: bytes.into() });
        Some(ticket)
    }
}

impl Step {
    /// The end of an operation that did all it had to do.
    pub(super) fn end(self, what: Operation, name: &str) -> Result<()> {
        match self {
            Self::Whole => Ok(()),
            Self::Cut => Err(failed(what, name, Errno::NODEV)),
        }
    }
}

fn check_end(name: &str, offset: u64, len: u64) -> Result<()> {
    match offset.checked_add(len) {
        Some(end) if end <= FILE_BYTES_MAX => Ok(()),
        _ => Err(failed(Operation::Write, name, Errno::FBIG)),
    }
}
