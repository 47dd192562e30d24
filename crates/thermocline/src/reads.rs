//! A thread's seat for reads of one keyspace, many of them under way at once.

pub(crate) mod desk;
mod future;

use std::fmt;
use std::sync::Arc;

use engine::{Begun, Found};

use crate::error::Result;
use crate::keyspace::Keyspace;
use crate::slot::Generation;

pub use future::AsyncGet;

/// A thread's seat for reads of one [`Keyspace`]: those that need the device overlap, so that one
/// thread keeps it busy. An engine in memory answers all of them at once.
///
/// Each read is linearizable: what it tells is what the key had at some moment between
/// [`Reads::begin`] and [`Reads::complete`]. Dropping the seat gives up what is pending, and waits for
/// what the device has in hand.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// use thermocline::{Begun, Db, EngineKind, KeyspaceOptions, Options};
/// let db = Db::open(dir.path(), Options::default())?;
/// let options = KeyspaceOptions { engine: EngineKind::F2, ..Default::default() };
/// let years = db.keyspace("years", options)?;
/// years.put(b"ada", b"1815")?;
/// let mut reads = years.reads(64)?;
/// let (mut value, mut told) = (Vec::new(), Vec::new());
/// for (tag, name) in [b"ada", b"bob"].into_iter().enumerate() {
///     match reads.begin(tag as u64, name, &mut value)? {
///         Begun::Found => told.push((tag as u64, value.clone())),
///         Begun::Absent => {}
///         Begun::Pending => {} // told of below
///         Begun::Full => unreachable!("two of 64"),
///     }
/// }
/// while reads.pending() > 0 {
///     reads.complete(true, &mut |tag, found| {
///         if let Ok(Some(value)) = found {
///             told.push((tag, value.to_vec()));
///         }
///     })?;
/// }
/// assert_eq!(told, [(0, b"1815".to_vec())]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Reads {
    keyspace: Keyspace,
    depth: usize,
    seat: Seat,
}

/// A seat in the engine that filled the keyspace when it was taken, which it keeps.
struct Seat {
    reads: Option<Box<dyn engine::Reads>>,
    generation: Arc<Generation>,
}

impl Seat {
    fn new(generation: Arc<Generation>, depth: usize) -> Result<Self> {
        Ok(Self { reads: generation.engine.reads(depth)?, generation })
    }
}

impl Keyspace {
    /// A seat for reads, of which up to `depth`, at least one, are under way at once.
    ///
    /// # Errors
    /// The device has no queue left; the database is closed.
    pub fn reads(&self, depth: usize) -> Result<Reads> {
        self.inner.check_open()?;
        let seat = Seat::new(self.slot.generation()?, depth)?;
        Ok(Reads { keyspace: self.clone(), depth, seat })
    }
}

impl Reads {
    /// Reads `key`; the value replaces what is in `into` if it is known at once. Never waits for the
    /// device. [`Begun::Full`] also if the keyspace was cleared and reads from before are pending.
    ///
    /// # Errors
    /// As [`Keyspace::get`]; nothing is pending then.
    pub fn begin(&mut self, tag: u64, key: &[u8], into: &mut Vec<u8>) -> Result<Begun> {
        self.keyspace.inner.check_open()?;
        let is_current = Arc::ptr_eq(&*self.keyspace.slot.current()?, &self.seat.generation);
        if !is_current {
            if self.pending() > 0 {
                return Ok(Begun::Full);
            }
            self.seat = Seat::new(self.keyspace.slot.generation()?, self.depth)?;
        }
        Ok(match &mut self.seat.reads {
            Some(reads) => reads.begin(tag, key, into)?,
            None if self.seat.generation.engine.get(key, into)? => Begun::Found,
            None => Begun::Absent,
        })
    }

    /// Tells `found` of the reads that are done: the tag, and the value where it lies. Where `waits`,
    /// does not return before there was one, if any is pending. Answers how many there were.
    ///
    /// # Errors
    /// The device's queue failed: nothing more can come of this seat. What goes wrong with one read
    /// is told of it alone.
    pub fn complete(&mut self, waits: bool, found: &mut Found<'_>) -> Result<usize> {
        match &mut self.seat.reads {
            Some(reads) => Ok(reads.complete(waits, found)?),
            None => Ok(0),
        }
    }

    /// Reads that are pending.
    pub fn pending(&self) -> usize {
        self.seat.reads.as_ref().map_or(0, |reads| reads.pending())
    }
}

impl fmt::Debug for Reads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reads").field("pending", &self.pending()).finish_non_exhaustive()
    }
}
