//! Blocking calls of an engine that is used without a database.

use std::sync::Arc;

use engine::{
    At, BlockingWrites, Change, Cursor, Demand, Direction, Engine, KeyRange, Lookup, Op, Operator,
    Pin, Reservation, Result, SeqNo, Updated, VALUE_BYTES_GUESSED, Wait,
};
use memory_budget::MemoryBudget;

use crate::pool::{Found, ReadPool};

/// Gets, multi-gets and updates whose caller waits for the device. A database has its own, which
/// keep queues and count their buffers ([`ReadPool`]).
pub trait BlockingReads: Engine {
    /// Replaces the content of `into` by the key's value. Returns `false` if it has none.
    ///
    /// # Errors
    /// As [`Engine::lookup`]; the device's.
    fn get(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool> {
        match self.lookup(key, At::Newest, into)? {
            Lookup::Found => Ok(true),
            Lookup::Absent => Ok(false),
            pending @ Lookup::Pending(_) => unshared().complete(pending, into),
        }
    }

    /// The same at a pin.
    ///
    /// # Errors
    /// The same.
    fn get_at(&self, key: &[u8], pin: &Pin, into: &mut Vec<u8>) -> Result<bool> {
        unshared().complete(self.lookup(key, At::Pin(pin), into)?, into)
    }

    /// Returns the store at a pin.
    fn view(&self, pin: Arc<Pin>) -> View<'_, Self> {
        View { engine: self, pin }
    }

    /// [`BlockingReads::get`] if it needs no device, otherwise `None`.
    ///
    /// # Errors
    /// The same.
    fn try_get(&self, key: &[u8], into: &mut Vec<u8>) -> Result<Option<bool>> {
        Ok(match self.lookup(key, At::Newest, into)? {
            Lookup::Found => Some(true),
            Lookup::Absent => Some(false),
            Lookup::Pending(_) => None,
        })
    }

    /// Gets many keys, whose reads overlap. Calls `found` with the index of each key, in any order.
    ///
    /// # Errors
    /// The same, of any of the keys.
    fn multi_get(&self, keys: &[&[u8]], found: &mut Found<'_>) -> Result<()> {
        unshared().multi_get(self, keys, At::Newest, found)
    }

    /// Replaces the key's value by the result of `operator`. The caller excludes other writes of
    /// the key (law L6).
    ///
    /// # Errors
    /// The same; as [`Engine::apply`].
    fn rmw(&self, key: &[u8], operator: &mut dyn Operator, seqno: SeqNo) -> Result<()> {
        engine::check_key(key)?;
        if let Some(updates) = self.updates() {
            let mut bytes_max = VALUE_BYTES_GUESSED;
            loop {
                let granted = self.reserve(&Demand::Update { key, bytes_max }, Wait::Yes)?;
                let mut room = granted.unwrap_or_else(Reservation::uncounted);
                match updates.try_update(key, operator, seqno, &mut room)? {
                    Updated::Done => return Ok(()),
                    Updated::NeedsRead => break,
                    Updated::NeedsRoom { bytes } => bytes_max = bytes,
                }
            }
        }
        let mut value = Vec::new();
        let lookup = self.lookup(key, At::ForUpdate, &mut value)?;
        let is_found = unshared().complete(lookup, &mut value)?;
        if is_found && operator.update_in_place(&mut value) {
            return self.write(&[Op::Put { key, value: &value }], seqno);
        }
        match operator.update(is_found.then_some(&value)) {
            Change::Keep => Ok(()),
            Change::Delete => self.write(&[Op::Delete { key }], seqno),
            Change::Put(value) => self.write(&[Op::Put { key, value: &value }], seqno),
        }
    }
}

impl<E: Engine + ?Sized> BlockingReads for E {}

/// An engine at one pin.
pub struct View<'e, E: Engine + ?Sized> {
    engine: &'e E,
    pin: Arc<Pin>,
}

impl<E: Engine + ?Sized> View<'_, E> {
    /// Returns the number of the newest write that it shows.
    pub fn seqno(&self) -> SeqNo {
        self.pin.seqno()
    }

    /// As [`BlockingReads::get_at`].
    ///
    /// # Errors
    /// The same.
    pub fn get(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool> {
        self.engine.get_at(key, &self.pin, into)
    }

    /// As [`Engine::scan`].
    ///
    /// # Errors
    /// The same.
    pub fn scan(&self, range: KeyRange, direction: Direction) -> Result<Box<dyn Cursor>> {
        self.engine.scan(range, direction, Arc::clone(&self.pin))
    }
}

/// Drivers of one call.
fn unshared() -> ReadPool {
    ReadPool::new(&Arc::new(MemoryBudget::new(u64::MAX)))
}
