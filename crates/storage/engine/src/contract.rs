//! The trait that `Db`, the server, the benchmark and the conformance suite know an engine by.

use std::ops::ControlFlow;
use std::sync::Arc;

use codec::SeqNo;

use crate::batch::Op;
use crate::error::{Error, Result};
use crate::ingestion::Ingestion;
use crate::memory_needs::MemoryNeeds;
use crate::range::{Direction, KeyRange};
use crate::ranges::Ranges;
use crate::seat::Seat;
use crate::sequence::Pin;
use crate::stats::Stats;
use crate::trouble::Trouble;

/// What an engine can do beyond the minimum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Its name, as users write it.
    pub name: &'static str,
    /// Whether it keeps keys in order, hence scans and shows snapshots.
    pub ordered: bool,
    /// Whether it removes ranges of keys ([`Op::DeleteRange`]).
    pub deletes_ranges: bool,
    /// Whether it puts writes to one key in an order of its own where they come at once, so that
    /// [`Engine::apply`] of one step and [`Engine::rmw`] need not be kept apart by the host (law
    /// L6) where no journal must agree with it.
    pub orders_writes: bool,
    /// Whether a flush writes all data anew. Whoever flushes so that a journal can be trimmed then
    /// waits until as much was journaled; where a flush writes only what is new, nothing is gained.
    pub flush_rewrites_all: bool,
}

/// What a read-modify-write decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The key has this value from now on.
    Put(Vec<u8>),
    /// The key is gone from now on.
    Delete,
    /// Nothing changes.
    Keep,
}

/// The function of a read-modify-write. An engine may call it several times for one `rmw` (when
/// it loses a race and starts anew); only the last call counts, so it keeps no sums of its own.
/// It may be called under the lock of the record that it changes: it is short, and must not call
/// the engine. Of one that orders writes ([`Capabilities::orders_writes`]) [`Operator::update`] may ask
/// [`Engine::admit_at_once`].
pub trait Operator {
    /// Changes the value where it lies, without changing its length. `false` declines, and
    /// [`Operator::update`] is called instead.
    fn update_in_place(&mut self, _value: &mut [u8]) -> bool {
        false
    }

    /// Decides from the present value; `None` where there is none.
    fn update(&mut self, value: Option<&[u8]>) -> Change;
}

impl<F: FnMut(Option<&[u8]>) -> Change> Operator for F {
    fn update(&mut self, value: Option<&[u8]>) -> Change {
        self(value)
    }
}

/// A walk over pairs. It shows one moment (law L4) and may be kept as long as one likes, at the
/// price of the old versions that it holds back.
pub trait Cursor: Send {
    /// Returns the next pair, or `None` at the end. An error ends the walk too: it is returned
    /// once, and every later call returns `None`.
    fn next(&mut self) -> Result<Option<(&[u8], &[u8])>>;

    /// Moves the walk, forth or back, within the range that it began with: the next pair is the
    /// first one at or behind `key` in the walk's direction. After the end it goes on from there,
    /// after an error it does not. Costs no more than a new walk.
    fn seek(&mut self, key: &[u8]);
}

/// A snapshot of one engine at one moment.
pub trait View: Send + Sync {
    /// The key's value at that moment replaces what is in `into`; `false` if it had none.
    fn get(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool>;

    /// The pairs of `range` at that moment.
    fn scan(&self, range: KeyRange, direction: Direction) -> Result<Box<dyn Cursor>>;
}

/// A walk over the pairs of a snapshot, for ordered engines: what [`Engine::walk`] asks for.
///
/// # Errors
/// The snapshot's.
pub fn walk_in_order(view: &dyn View, from: Option<&[u8]>, visit: &mut Visit<'_>) -> Result<()> {
    let range = from.map_or_else(KeyRange::all, |key| KeyRange::of(key.to_vec()..));
    let mut cursor = view.scan(range, Direction::Forward)?;
    while let Some((key, value)) = cursor.next()? {
        if visit(key, value) == ControlFlow::Break(()) {
            break;
        }
    }
    Ok(())
}

/// What a walk is told about each pair: the key and its value.
pub type Visit<'a> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'a;

/// Asked by long work whether it is to be brought to its end; an error ends it.
pub type GoOn<'a> = dyn Fn() -> Result<()> + 'a;

/// A storage engine, opened. All calls may come from any number of threads at once, within law L6.
pub trait Engine: Send + Sync {
    /// What it is and can do.
    fn capabilities(&self) -> Capabilities;

    /// The key's present value replaces what is in `into`; `false` if it has none.
    fn get(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool>;

    /// Many keys at once, so that an engine on a disk overlaps its reads. `found` is called with
    /// each key's index, in any order. Whatever error one key has ends it for all: some may have been told then,
    /// and who wants the others asks for them one by one.
    fn multi_get(&self, keys: &[&[u8]], found: &mut dyn FnMut(usize, Option<&[u8]>)) -> Result<()> {
        let mut value = Vec::new();
        for (index, key) in keys.iter().enumerate() {
            let present = self.get(key, &mut value)?;
            found(index, present.then_some(value.as_slice()));
        }
        Ok(())
    }

    /// [`Engine::get`] as far as it comes without waiting for a device: `None` if it would have to.
    fn get_at_once(&self, key: &[u8], into: &mut Vec<u8>) -> Result<Option<bool>> {
        self.get(key, into).map(Some)
    }

    /// A seat for one thread that keeps up to `depth` look-ups under way; `None` from an engine that
    /// never waits for a device, whose gets and read-modify-writes are all done at once. It does not
    /// keep the engine open.
    fn seat(&self, _depth: usize) -> Result<Option<Box<dyn Seat>>> {
        Ok(None)
    }

    /// Asked before a write is journaled: whether `apply` will take it. It may block for a while to
    /// slow writers down, so the host asks before it locks the keys, where it knows the write by then;
    /// once it has said yes, `apply` does not refuse for want of memory. Nothing is set aside for the
    /// write: others may be admitted and applied before it, and where they have taken the room `apply`
    /// goes beyond it, or waits until there is some, but not for compactions. A write that was admitted
    /// need not come.
    ///
    /// # Errors
    /// [`crate::Error::OutOfMemory`], [`crate::Error::SpaceUsedUp`], [`crate::Error::ReadOnly`],
    /// [`crate::Error::Closed`]; for a range delete [`crate::Error::Unordered`], from an engine
    /// that keeps no order, and [`crate::Error::NoRangeDeletes`] from another one that cannot.
    fn admit(&self, _ops: &[Op<'_>]) -> Result<()> {
        Ok(())
    }

    /// [`Engine::admit`] as far as it comes without waiting: `false` if it would have to wait for room, and then
    /// nothing has changed. So the host asks for a write that it knows only with the keys locked, and where there
    /// is no room it gives them up, waits with [`Engine::admit`], and begins anew. What such a write owes where
    /// writers are slowed down is left to those who are admitted next. An engine whose `admit` may wait has
    /// its own.
    ///
    /// # Errors
    /// The same.
    fn admit_at_once(&self, ops: &[Op<'_>]) -> Result<bool> {
        self.admit(ops).map(|()| true)
    }

    /// [`Engine::admit`] for a write whose caller must not wait, neither here nor in
    /// [`Engine::apply`] ([`Engine::takes_at_once`]): returns `false` if it might have to, and then
    /// nothing has changed. An engine that never waits has its own, and so has one that asks less
    /// than both calls do. The write deletes no range.
    ///
    /// # Errors
    /// The same.
    fn try_admit(&self, ops: &[Op<'_>]) -> Result<bool> {
        let bytes: usize = ops.iter().map(Op::bytes).sum();
        Ok(self.takes_at_once(ops.len(), bytes as u64) && self.admit_at_once(ops)?)
    }

    /// The same before a read-modify-write of `key`, which an engine that orders writes does by itself: it waits,
    /// and does not know how much room is wanted.
    ///
    /// # Errors
    /// The same.
    fn admit_rmw(&self, key: &[u8]) -> Result<()> {
        self.admit(&[Op::Delete { key }])
    }

    /// Whether [`Engine::admit`] would now admit a write without waiting, as far as room is concerned, and
    /// [`Engine::apply`] take it, or [`Engine::rmw_at_once`], without waiting for a device: for who must not wait. The
    /// write has so many puts and deletes, whose keys and values have so many `bytes` in all. Costs a few loads.
    /// Others may take the room before the write comes, and then it does wait, so an engine says no while there
    /// still is some for them; and where [`Engine::admit`] would have the writer wait for compactions, whatever room
    /// there is. What is known of the write is put to [`Engine::admit_at_once`] too, which refuses what is never taken.
    fn takes_at_once(&self, _steps: usize, _bytes: u64) -> bool {
        false
    }

    /// Applies the steps of write `seqno`; all of them or, with an error, none that a later read
    /// or recovery could see beside the others' absence. A number at or below
    /// [`Engine::persisted`], or one applied before, changes nothing (replay).
    fn apply(&self, ops: &[Op<'_>], seqno: SeqNo) -> Result<()>;

    /// Atomically replaces the key's value by what `operator` makes of it.
    fn rmw(&self, key: &[u8], operator: &mut dyn Operator, seqno: SeqNo) -> Result<()>;

    /// [`Engine::rmw`] if it comes to its end without waiting for a device to read: `false` if it
    /// would have to, and then nothing has changed.
    fn rmw_at_once(&self, key: &[u8], operator: &mut dyn Operator, seqno: SeqNo) -> Result<bool> {
        self.rmw(key, operator, seqno).map(|()| true)
    }

    /// A snapshot at `pin`, which the host took from the sequence that the engine was opened with.
    ///
    /// # Errors
    /// [`crate::Error::Unordered`] from an engine that keeps no order.
    fn view(&self, pin: Arc<Pin>) -> Result<Box<dyn View>>;

    /// Visits pairs in an order of the engine's own, which for an ordered engine is that of the keys,
    /// until `visit` breaks: from the beginning, or from where `from` lies in that order, the pair
    /// itself included. A pair that is there all the while is visited exactly once; a walk that is
    /// broken off may be begun again at any key without missing one. A pair that is written
    /// meanwhile is visited with one of its values, or not at all if it comes or goes.
    fn walk(&self, from: Option<&[u8]>, visit: &mut Visit<'_>) -> Result<()>;

    /// Where a key lies in the order of [`Engine::walk`], which visits pairs by ascending position,
    /// and by key where the positions are equal: always, for an ordered engine. It stays for the
    /// store's life, whether the key is there or not.
    fn position(&self, _key: &[u8]) -> u64 {
        0
    }

    /// Begins to take pairs in whole, in the order of their keys.
    ///
    /// # Errors
    /// [`crate::Error::NoIngestion`] from an engine that takes none so; [`crate::Error::ReadOnly`].
    fn ingestion(&self) -> Result<Box<dyn Ingestion>> {
        Err(Error::NoIngestion { engine: self.capabilities().name })
    }

    /// Compaction on demand and sizes of ranges; `None` from an engine that has neither.
    fn ranges(&self) -> Option<&dyn Ranges> {
        None
    }

    /// Makes everything applied before the call durable in the engine's own files. If nothing was
    /// applied since the last flush this only moves [`Engine::persisted`], at the cost of a sync.
    fn flush(&self) -> Result<()>;

    /// [`Engine::flush`] by a task of the pool that has no thread beside its own. `false` if it was put off for
    /// writes that are under way, by any engine: one of them may wait for the pool, with its number, and so
    /// the pool must not wait for it. Engines whose flushes wait for no write need none of their own.
    fn try_flush(&self) -> Result<bool> {
        self.flush().map(|()| true)
    }

    /// Writes a whole, openable copy of what was applied before the call to `into`, while running. An engine may
    /// put other flushes off until it is written.
    fn checkpoint(&self, into: Arc<dyn device::Device>) -> Result<()> {
        self.checkpoint_while(into, &|| Ok(()))
    }

    /// The same as long as `go_on` says so, which is asked again and again, after some megabytes at most: so
    /// whoever must not wait for all of it has it broken off.
    ///
    /// # Errors
    /// What `go_on` has answered; `into` has a part of a copy then, which is no store. Nothing has changed here.
    fn checkpoint_while(&self, into: Arc<dyn device::Device>, go_on: &GoOn<'_>) -> Result<()>;

    /// Every write up to this number is in the engine's own files. The journal may forget it, after
    /// [`Engine::settle`] has returned once.
    fn persisted(&self) -> SeqNo;

    /// Makes durable what opening has found. A process that was killed may have left it in the page
    /// cache alone, so the host calls this before it removes anything because of
    /// [`Engine::persisted`]. It need not, if all was closed in order. An engine that writes nothing
    /// when it is opened costs some syncs here, once (`flexdb` eight, others two); one that does it when
    /// it is opened has nothing to do.
    ///
    /// Returns `false` without waiting if a flush has the files. Then nothing must be removed, and the
    /// host asks again later: the flush may wait for a write, which may wait for the host's thread.
    ///
    /// # Errors
    /// The storage's; then nothing must be removed.
    fn settle(&self) -> Result<bool> {
        Ok(true)
    }

    /// Live keys, if the engine counts them, at the cost of a few loads.
    fn live_keys(&self) -> Option<u64>;

    /// Figures about itself. May visit all that is in memory, so it is not for a hot path.
    fn stats(&self) -> Stats;

    /// Work in the background that fails, at the cost of a few loads; nothing where all is well.
    fn troubles(&self) -> Vec<Trouble> {
        Vec::new()
    }

    /// What its memory is like at present, at the cost of a few loads; `None` from an engine whose
    /// budget is what it was opened with. It counts what more memory would have saved
    /// ([`crate::MemoryGain`]) from the first time on that it is asked.
    fn memory_needs(&self) -> Option<MemoryNeeds> {
        None
    }

    /// Sets the limit of its budget ([`crate::Host::memory`]) to `limit`, or as near to it as it can go
    /// down ([`crate::MemoryBudget::resize`]), and answers what it is. More is there at once. Less is let go in the background: it is there for
    /// others once [`MemoryNeeds::is_settled`]. One caller at a time; it waits for nobody.
    ///
    /// # Errors
    /// [`crate::Error::FixedMemory`] from an engine that cannot, [`crate::Error::Closed`]; nothing has
    /// changed.
    fn resize_memory(&self, _limit: u64) -> Result<u64> {
        Err(Error::FixedMemory { engine: self.capabilities().name })
    }

    /// Stops its background work and releases its files, without flushing. Later calls get
    /// [`crate::Error::Closed`].
    fn close(&self) -> Result<()>;
}
