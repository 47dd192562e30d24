//! Hot to cold: the live records in the oldest part of the hot log move to the cold log.
//!
//! 1. The part is read page by page, by several threads, each with a page of its own. A record
//!    lives if the hot log has no newer one of its key (`check_liveness`). A value that lives is
//!    appended to the cold log, and an entry for the cold index noted; of a tombstone its key is
//!    noted.
//! 2. Whenever the notes fill the memory for them, the same threads apply them to the cold index,
//!    each chunk once. Values get entries, and tombstones remove the entries of their key. Until
//!    then cold-to-cold compaction does not touch the appended records.
//! 3. When they are applied the hot log begins behind the pages that were read ([X1] of
//!    `docs/design/f2.md`); if one could not be moved, before that one.
//!
//! A tombstone stays if its entries are unknown because a record that may be of its key cannot be
//! read. It is appended to the hot log's tail again, if it still is the newest of its key, and
//! takes part in a later round. Only then, and when it is durable there, may the log begin behind
//! it: with a journal a checkpoint may name that beginning while its end stays the same.
//!
//! A key has at most one note in a round, since only the newest of its records in the part is live.
//! So the order in which threads read the records means nothing. Superfluous copies do no harm: the
//! hot log's records of a key come first.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use engine::Result;
use sync::locks::Mutex;
use workers::StopToken;

use super::fan_out::together;
use super::liveness::{CheckedRecord, in_groups};
use crate::address::LogAddress;
use crate::cold::Cold;
use crate::cold_index::{Change, Puts, SortedPuts};
use crate::compaction::Copied;
use crate::hybrid_log::{Scan, Stretch};
use crate::position::Position;
use crate::store::Shared;

/// Bytes of memory of a noted removal in addition to its key: the note itself, and the changes that
/// it becomes.
const REMOVAL_BYTES: u64 = 208;
/// Margin of addresses: notes are applied before the cold log's tail is this near to the greatest
/// address that a note can have.
const FAR: u64 = 1 << 35;

/// A tombstone, which removes the entries of its key.
struct Removal {
    position: Position,
    key: Box<[u8]>,
    at: LogAddress,
    /// The head that its chain had when it was the newest of its key.
    searched: LogAddress,
}

/// Result of noting the entries that tombstones remove.
struct Removed {
    /// Positions with a record that has moved meanwhile.
    again: HashSet<Position>,
    /// Numbers of the removals for which a record cannot be read.
    undecided: HashSet<usize>,
}

/// Changes for the cold index, and the figures of the part read so far.
#[derive(Default)]
struct Notes {
    puts: Puts,
    removals: Vec<Removal>,
    removals_bytes: u64,
    copied: Copied,
}

impl Notes {
    fn remove(&mut self, removal: Removal) {
        self.removals_bytes += REMOVAL_BYTES + removal.key.len() as u64;
        self.removals.push(removal);
    }

    fn add(&mut self, mut more: Self) {
        self.puts.extend(&mut more.puts);
        self.removals.append(&mut more.removals);
        self.removals_bytes += more.removals_bytes;
        self.copied += more.copied;
    }

    fn bytes(&self) -> u64 {
        self.puts.len() as u64 * Puts::BYTES + self.removals_bytes
    }
}

/// The first step of a round, which several threads take together.
struct Move {
    shared: Arc<Shared>,
    scan: Mutex<Scan>,
    /// End of the last page that was handed out, and beginning of the first page that failed.
    handed_out_until: AtomicU64,
    failed_from: AtomicU64,
    notes: Mutex<Notes>,
    error: Mutex<Option<engine::Error>>,
    stop: StopToken,
}

/// The second step.
struct Put {
    shared: Arc<Shared>,
    puts: SortedPuts,
    error: Mutex<Option<engine::Error>>,
    stop: StopToken,
}

impl Shared {
    /// Moves the live records between `from` and `until`, which are on disk, to the cold log, and
    /// has the hot log begin behind them. `None`: it was stopped; records that were moved until
    /// then do no harm.
    pub(crate) fn move_to_cold(
        self: &Arc<Self>,
        cold: &Cold,
        from: LogAddress,
        until: LogAddress,
        stop: &StopToken,
    ) -> Result<Option<Copied>> {
        let mut copied = Copied::default();
        let step = Arc::new(Move {
            shared: Arc::clone(self),
            scan: Mutex::new(Scan::new(&self.hot.log.geometry, from, until)),
            notes: Mutex::default(),
            handed_out_until: AtomicU64::new(from.get()),
            failed_from: AtomicU64::new(u64::MAX),
            error: Mutex::default(),
            stop: stop.clone(),
        });
        while !step.scan.lock().is_at_end() {
            let base = cold.log.tail();
            cold.unnamed_from.begin(base);
            let count = (self.compactions.work.notes / Puts::BYTES) as usize;
            *step.notes.lock() = Notes { puts: Puts::new(base, count), ..Notes::default() };
            let work = Arc::clone(&step);
            self.in_company(move || work.run());
            let notes = std::mem::take(&mut *step.notes.lock());
            copied += notes.copied;
            self.apply_notes(cold, notes, stop)?;
            if stop.is_stopping() {
                return Ok(None);
            }
            let error = step.error.lock().take();
            // Records moved before an error stay moved: the next round begins at the failed page,
            // and appends no record before that page again.
            let moved_until = match error {
                None if step.scan.lock().is_at_end() => until,
                _ => step.moved_until(),
            };
            if moved_until > self.hot.log.begin() {
                self.truncate(moved_until);
            }
            if let Some(error) = error {
                return Err(error);
            }
        }
        Ok(Some(copied))
    }

    /// Does `work` on several threads.
    pub(super) fn in_company(&self, work: impl Fn() + Send + Sync + 'static) {
        let work: Arc<dyn Fn() + Send + Sync> = Arc::new(work);
        together(&self.background.workers, "help to compact", self.compactions.threads - 1, &work);
    }

    /// Reads the data that a round from `from` to `until` needs, and appends nothing. After a round
    /// has failed because of data it reads, the next one would leave dead copies in the cold log
    /// again.
    pub(crate) fn try_reading(
        &self,
        cold: &Cold,
        from: LogAddress,
        until: LogAddress,
        stop: &StopToken,
    ) -> Result<bool> {
        let at_once =
            (self.compactions.work.notes / size_of::<(Position, usize)>() as u64).max(1) as usize;
        let mut positions = Vec::new();
        let lookup = |positions: &mut Vec<Position>| {
            cold.lookup(positions.drain(..), stop, &mut |_, _| Ok(()))
        };
        let mut scan = Scan::new(&self.hot.log.geometry, from, until);
        while !stop.is_stopping()
            && let Some(stretch) = scan.next(&self.hot.log.segments)?
        {
            in_groups(&stretch, &mut |records| {
                self.check_liveness(records, stop)?;
                let live = records.iter().filter(|record| record.lives);
                positions.extend(live.map(|it| self.hot.index.position(self.hash(it.stored.key))));
                if positions.len() >= at_once {
                    lookup(&mut positions)?;
                }
                Ok(())
            })?;
        }
        Ok(lookup(&mut positions)? && !stop.is_stopping())
    }

    /// Step 2. Positions that another compaction changes meanwhile are looked up again.
    fn apply_notes(self: &Arc<Self>, cold: &Cold, notes: Notes, stop: &StopToken) -> Result<()> {
        let Notes { puts, mut removals, .. } = notes;
        self.put_all(cold, puts, stop)?;
        let (mut changes, mut stay) = (Vec::new(), Vec::new());
        while !removals.is_empty() && !stop.is_stopping() {
            let noted = self.note_removals(cold, &removals, &mut changes, stop)?;
            let Removed { mut again, undecided } = noted;
            let missed = cold.index.apply(&mut changes, stop)?.missed;
            changes.clear();
            again.extend(missed.iter().map(|change| change.position));
            let mut left = Vec::new();
            for (number, removal) in removals.into_iter().enumerate() {
                if undecided.contains(&number) {
                    stay.push(removal);
                } else if again.contains(&removal.position) {
                    left.push(removal);
                }
            }
            removals = left;
        }
        self.renew(&stay)
    }

    /// Appends tombstones to the hot log again, durably.
    fn renew(&self, tombstones: &[Removal]) -> Result<()> {
        for Removal { key, at, searched, .. } in tombstones {
            self.copy_newest(key, None, *at, *searched)?;
        }
        if tombstones.is_empty() { Ok(()) } else { self.flush() }
    }

    fn put_all(self: &Arc<Self>, cold: &Cold, puts: Puts, stop: &StopToken) -> Result<()> {
        let puts = puts.sorted();
        cold.index.make_room_for(&puts);
        let (shared, error) = (Arc::clone(self), Mutex::default());
        let step = Arc::new(Put { shared, puts, error, stop: stop.clone() });
        let work = Arc::clone(&step);
        self.in_company(move || work.run());
        let error = step.error.lock().take();
        error.map_or(Ok(()), Err)
    }

    /// Notes the entries that keys have in the cold index, so that these are removed.
    fn note_removals(
        &self,
        cold: &Cold,
        removals: &[Removal],
        changes: &mut Vec<Change>,
        stop: &StopToken,
    ) -> Result<Removed> {
        let (mut named, mut newest) = (Vec::new(), vec![None; removals.len()]);
        let positions = removals.iter().map(|removal| removal.position);
        cold.lookup(positions, stop, &mut |number, addresses| {
            newest[number] = addresses.first().copied();
            named.extend(addresses.iter().map(|at| (*at, number)));
            Ok(())
        })?;
        let mut again = HashSet::new();
        let undecided = cold.each_readable(named, stop, &mut |number, at, record| {
            let Removal { position, key, .. } = &removals[number];
            match record {
                Some(stored) if stored.key == &**key => {
                    changes.push(Change { position: *position, old: at, new: LogAddress::NONE });
                    // Those behind it were dead before.
                    if newest[number] == Some(at) {
                        cold.live.take(at, stored.bytes as u64);
                    }
                }
                Some(_) => {}
                None => {
                    again.insert(*position);
                }
            }
            Ok(())
        })?;
        Ok(Removed { again, undecided: undecided.into_iter().collect() })
    }
}

impl Move {
    /// The work of each thread.
    fn run(&self) {
        if let Err(error) = self.move_pages() {
            self.error.lock().get_or_insert(error);
        }
    }

    fn move_pages(&self) -> Result<()> {
        let Some(cold) = &self.shared.cold else { return Ok(()) };
        while self.has_room(cold) && !self.stop.is_stopping() && self.error.lock().is_none() {
            let stretch = self.scan.lock().next(&self.shared.hot.log.segments)?;
            let Some(stretch) = stretch else { return Ok(()) };
            // The threads join before this is read.
            self.handed_out_until.fetch_max(stretch.end().get(), Relaxed);
            self.shared.compactions.hot.figures.note_progress(stretch.end());
            if let Err(error) = self.move_stretch(cold, &stretch) {
                self.failed_from.fetch_min(stretch.begin().get(), Relaxed);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Returns the address below which all records are moved. Valid once the threads have joined.
    fn moved_until(&self) -> LogAddress {
        let handed_out_until = self.handed_out_until.load(Relaxed);
        LogAddress::new(handed_out_until.min(self.failed_from.load(Relaxed)))
    }

    /// Whether there is room for the notes of another page.
    fn has_room(&self, cold: &Cold) -> bool {
        let notes = self.notes.lock();
        notes.bytes() < self.shared.compactions.work.notes
            && notes.puts.reaches(cold.log.tail().plus(FAR))
    }

    fn move_stretch(&self, cold: &Cold, stretch: &Stretch) -> Result<()> {
        let bytes = stretch.len() as u64;
        self.notes.lock().copied.bytes += bytes;
        in_groups(stretch, &mut |records| self.move_records(cold, records))
    }

    fn move_records(&self, cold: &Cold, records: &mut [CheckedRecord<'_>]) -> Result<()> {
        let shared = &self.shared;
        shared.check_liveness(records, &self.stop)?;
        let base = self.notes.lock().puts.base();
        let mut notes = Notes { puts: Puts::new(base, records.len()), ..Notes::default() };
        notes.copied.records += records.len() as u64;
        let living = records.iter().filter(|record| record.lives);
        for CheckedRecord { at, stored, searched, .. } in living {
            let position = shared.hot.index.position(shared.hash(stored.key));
            match stored.value {
                Some(value) => {
                    notes.puts.push(position, cold.append(stored.key, value)?);
                    notes.copied.records_live += 1;
                    notes.copied.bytes_live += stored.bytes as u64;
                }
                None => {
                    let (key, at, searched) = (stored.key.into(), *at, *searched);
                    notes.remove(Removal { position, key, at, searched });
                }
            }
        }
        self.notes.lock().add(notes);
        Ok(())
    }
}

impl Put {
    fn run(&self) {
        let Some(cold) = &self.shared.cold else { return };
        while self.error.lock().is_none() {
            let put = cold.index.put_some(&self.puts, &self.stop).and_then(|put| {
                let Some((crowded, covered)) = put else { return Ok(false) };
                cold.note_covered(&covered, &self.stop);
                cold.merge_tag_entries(&crowded, &self.stop).map(|()| true)
            });
            match put {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    self.error.lock().get_or_insert(error);
                }
            }
        }
    }
}
