//! The trait that an engine implements. The database and the conformance suite call nothing else
//! of an open engine.

use std::ops::ControlFlow;
use std::sync::Arc;

use codec::SeqNo;

use crate::background_errors::BackgroundError;
use crate::batch::Op;
use crate::error::{Error, InOrder, Result};
use crate::ingestion::Ingestion;
use crate::lookup::{At, EachLookup, Lookup};
use crate::ranges::Ranges;
use crate::reservation::{Demand, Reservation, Wait};
use crate::resizable_memory::ResizableMemory;
use crate::stats::Stats;
use sequence::Pin;
use sequence::{Direction, KeyRange};

/// Capabilities of an engine beyond the minimum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Its name, as users write it.
    pub name: &'static str,
    /// Whether it keeps keys in order, hence scans and shows snapshots.
    pub ordered: bool,
    /// Whether it removes ranges of keys ([`Op::DeleteRange`]).
    pub deletes_ranges: bool,
    /// Whether it puts concurrent writes to one key in an order of its own. Then the host need not
    /// keep [`Engine::apply`] of one step and [`Updates::try_update`] apart (law L6) if no journal
    /// must agree with that order.
    pub orders_writes: bool,
    /// Whether a flush writes all data again. A host that flushes to trim a journal then waits
    /// until the journal has grown by that number of bytes. If a flush writes only new data,
    /// waiting gains nothing.
    pub flush_rewrites_all: bool,
    /// Whether it counts its live keys, so that [`Engine::stats`] has their number at the cost of
    /// a few loads.
    pub counts_keys: bool,
}

/// The decision of a read-modify-write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The key has this value from now on.
    Put(Vec<u8>),
    /// The key is deleted.
    Delete,
    /// Nothing changes.
    Keep,
}

/// The function of a read-modify-write. An engine may call it several times for one update (when it
/// loses a race and starts again); only the last call counts, so it keeps no sums of its own. It
/// may be called under the lock of the record that it changes: it is short, and must not call the
/// engine.
pub trait Operator {
    /// Changes the value in place, without changing its length. `false` declines, and
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

/// The read-modify-writes of an engine that orders the writes of a key.
pub trait Updates: Sync {
    /// Atomically replaces the key's value by the result of `operator`, unless the device has to be
    /// read for the old value, or `room` does not suffice for the new one. Never waits (law L8).
    ///
    /// # Errors
    /// As [`Engine::reserve`] and [`Engine::apply`]; [`crate::Error::Corruption`].
    fn try_update(
        &self,
        key: &[u8],
        operator: &mut dyn Operator,
        seqno: SeqNo,
        room: &mut Reservation<'_>,
    ) -> Result<Updated>;
}

/// The result of [`Updates::try_update`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Updated {
    /// The last decision of the operator counts.
    Done,
    /// The device has to be read ([`At::ForUpdate`]). Nothing has changed.
    NeedsRead,
    /// The new value has this many bytes, for which there is no room. Nothing has changed.
    NeedsRoom {
        /// Bytes of the value.
        bytes: u64,
    },
}

/// The next step of a scan that does not wait for the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryNext<'a> {
    /// The next pair: its key and its value.
    Pair(&'a [u8], &'a [u8]),
    /// There is no further pair.
    End,
    /// The device has to be read first.
    WouldBlock,
}

impl<'a> TryNext<'a> {
    /// Returns the same result of a walk that did not have to wait.
    pub fn known(pair: Option<(&'a [u8], &'a [u8])>) -> Self {
        pair.map_or(Self::End, |(key, value)| Self::Pair(key, value))
    }
}

/// A walk over pairs. It shows one moment (law L4) and may be kept as long as one likes, at the
/// price of the old versions that it holds back.
pub trait Cursor: Send {
    /// Returns the next pair, or `None` at the end. An error ends the walk too: it is returned
    /// once, and every later call returns `None`.
    fn next(&mut self) -> Result<Option<(&[u8], &[u8])>>;

    /// The same without waiting for the device. After [`TryNext::WouldBlock`] the walk has not
    /// moved, and [`Cursor::next`] reads the device for the same pair.
    fn try_next(&mut self) -> Result<TryNext<'_>>;

    /// Moves the walk, forth or back, within the range that it began with: the next pair is the
    /// first one at or behind `key` in the walk's direction. After the end it continues from there;
    /// after an error it does not. Costs no more than a new walk.
    fn seek(&mut self, key: &[u8]);
}

/// Walks over the pairs of a snapshot, for ordered engines: does the work of [`Engine::walk`].
///
/// # Errors
/// The scan's.
pub fn walk_in_order(
    engine: &dyn Engine,
    pin: Arc<Pin>,
    from: Option<&[u8]>,
    visit: &mut Visit<'_>,
) -> Result<()> {
    let range = from.map_or_else(KeyRange::all, |key| KeyRange::of(key.to_vec()..));
    let mut cursor = engine.scan(range, Direction::Forward, pin)?;
    while let Some((key, value)) = cursor.next()? {
        if visit(key, value) == ControlFlow::Break(()) {
            break;
        }
    }
    Ok(())
}

/// The callback of a walk, called with each pair: the key and its value.
pub type Visit<'a> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'a;

/// A callback that long work calls to learn whether it should continue; an error ends it.
pub type GoOn<'a> = dyn Fn() -> Result<()> + 'a;

/// Lets long work continue to its end.
pub fn go_on() -> Result<()> {
    Ok(())
}

/// The state that an engine has found when it was opened. It is apart from [`Engine`], since only
/// the host of a journal needs it, once.
pub trait FoundState {
    /// Makes that state durable. A process that was killed may have left it only in the page cache,
    /// so the host calls this before it removes anything because of [`Engine::persisted`]. The host
    /// need not call it after an orderly close. An engine that writes nothing when it is opened
    /// needs some syncs here, once (`flexdb` eight, others two). An engine that makes them when it
    /// is opened has nothing to do.
    ///
    /// Returns `false` without waiting if a flush has the files. Then nothing must be removed, and
    /// the host asks again later: the flush may wait for a write, which may wait for the host's
    /// thread.
    ///
    /// # Errors
    /// The storage's; then nothing must be removed.
    fn make_durable(&self) -> Result<bool> {
        Ok(true)
    }
}

/// An open storage engine. Any number of threads may make all calls at the same time, within law
/// L6.
pub trait Engine: FoundState + Send + Sync {
    /// Returns its name and capabilities.
    fn capabilities(&self) -> Capabilities;

    /// Looks a key up. Never waits for a device (law L9): if it has to be read, the lookup is
    /// pending. Replaces the content of `into` by the value if the lookup has ended with one, and
    /// leaves it in any state otherwise.
    ///
    /// # Errors
    /// [`crate::Error::Closed`], [`crate::Error::Corruption`]; with [`At::Pin`]
    /// [`crate::Error::Unordered`] from an engine that keeps no order.
    fn lookup(&self, key: &[u8], at: At<'_>, into: &mut Vec<u8>) -> Result<Lookup>;

    /// Looks many keys up, and calls `each` with the index of each key, in any order. Never waits
    /// for a device. No lock and no epoch is held during a call of `each`.
    ///
    /// # Errors
    /// As [`Engine::lookup`], of one of the keys; those of `each`. They end the call.
    fn lookup_many(&self, keys: &[&[u8]], at: At<'_>, each: &mut EachLookup<'_>) -> Result<()> {
        let mut value = Vec::new();
        for (index, key) in keys.iter().enumerate() {
            each(index, self.lookup(key, at, &mut value)?.with_value(&value))?;
        }
        Ok(())
    }

    /// Returns the pairs of `range` at `pin`, which the host took from the sequence that the engine
    /// was opened with. The cursor keeps the pin.
    ///
    /// # Errors
    /// [`crate::Error::Unordered`] from an engine that keeps no order; [`crate::Error::Closed`].
    fn scan(
        &self,
        _range: KeyRange,
        _direction: Direction,
        _pin: Arc<Pin>,
    ) -> Result<Box<dyn Cursor>> {
        let engine = self.capabilities().name;
        Err(Error::Unordered { engine, asked: InOrder::Scan })
    }

    /// Reserves room for a write, before it is journaled. A granted write is applied without a wait
    /// (law L8), and is not refused any more for lack of room. With [`Wait::Yes`] the call waits
    /// for room, and longer if compactions are behind; the host holds no lock of a key then. With
    /// [`Wait::No`] it returns `None` instead. A granted write need not be applied.
    ///
    /// # Errors
    /// [`crate::Error::OutOfMemory`], [`crate::Error::SpaceUsedUp`],
    /// [`crate::Error::WriteTooLarge`],
    /// [`crate::Error::ReadOnly`], [`crate::Error::Closed`]; for a range delete
    /// [`crate::Error::Unordered`], from an engine that keeps no order, and
    /// [`crate::Error::NoRangeDeletes`] from another one that cannot.
    fn reserve(&self, demand: &Demand<'_>, wait: Wait) -> Result<Option<Reservation<'_>>>;

    /// Applies the steps of write `seqno`: all of them or, with an error, none that a later read or
    /// recovery could see without the others. A number at or below [`Engine::persisted`], or one
    /// applied before, changes nothing (replay). Takes the room that it needs out of `room`.
    fn apply(&self, ops: &[Op<'_>], seqno: SeqNo, room: &mut Reservation<'_>) -> Result<()>;

    /// Read-modify-writes by the engine itself: from an engine that orders the writes of a key
    /// ([`Capabilities::orders_writes`]). In all others the host does them by a lookup
    /// ([`At::ForUpdate`]) and [`Engine::apply`].
    fn updates(&self) -> Option<&dyn Updates> {
        None
    }

    /// Visits pairs in an order of the engine's own, which for an ordered engine is that of the
    /// keys, until `visit` breaks. Begins at the first pair, or at the place of `from` in that
    /// order, the pair itself included. A pair that is there during the whole walk is visited
    /// exactly once. A walk that is broken off may be begun again at any key without missing one. A
    /// pair that is written during the walk is visited with one of its values, or not at all if it
    /// is inserted or deleted.
    fn walk(&self, from: Option<&[u8]>, visit: &mut Visit<'_>) -> Result<()>;

    /// Returns the position of a key in the order of [`Engine::walk`], which visits pairs by
    /// ascending position, and by key if the positions are equal: always, for an ordered engine. It
    /// stays the same for the store's life, whether the key is there or not.
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

    /// Makes everything applied before the call durable in the engine's own files. Afterwards
    /// [`Engine::persisted`] is at least the number up to which all writes had finished before the
    /// call ([`sequence::Sequence::visible`]), also if none of them was a write to this engine. If
    /// nothing was applied since the last flush, the call costs a sync.
    fn flush(&self) -> Result<()>;

    /// Writes a whole, openable copy of all writes that were applied before the call to `into`,
    /// while running. An engine may put other flushes off until it is written. Calls `go_on`
    /// repeatedly, after some megabytes at most, and stops on its error: so a caller that must not
    /// wait for all of it can break it off.
    ///
    /// # Errors
    /// The error that `go_on` has returned; `into` has a part of a copy then, which is no store.
    /// Nothing has changed here.
    fn checkpoint(&self, into: Arc<dyn device::Device>, go_on: &GoOn<'_>) -> Result<()>;

    /// Returns the number up to which every write is in the engine's own files:
    /// [`SeqNo::ZERO`] for a new store. It never falls. The journal may forget these writes, after
    /// [`FoundState::make_durable`] has returned `true` once.
    fn persisted(&self) -> SeqNo;

    /// Figures about itself. May visit all that is in memory, so it is not for a hot path.
    fn stats(&self) -> Stats;

    /// Work in the background that fails, at the cost of a few loads; nothing where all is well.
    fn background_errors(&self) -> Vec<BackgroundError> {
        Vec::new()
    }

    /// Returns the memory of a store whose budget can change while it is open.
    fn memory(&self) -> Option<&dyn ResizableMemory> {
        None
    }

    /// Stops its background work and releases its files, without flushing. Later calls get
    /// [`crate::Error::Closed`], also those of cursors, ingestions and pending lookups that are
    /// still there.
    fn close(&self) -> Result<()>;
}
