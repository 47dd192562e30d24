//! A thread's session in a store.

use std::marker::PhantomData;

use crate::slot::Slot;
use crate::{Error, Store, VALUE_BYTES_MAX, ffi};

/// Operations between two refreshes of the thread's epoch, as in FASTER's own benchmark.
const REFRESH_EVERY: u64 = 64;

/// How an operation began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    /// It is done.
    Done,
    /// [`Session::complete`] will report it.
    Pending,
    /// The most operations are pending that may be; nothing was begun.
    Full,
}

/// A session. It belongs to the thread that took it: FASTER finds its state by the thread.
pub struct Session<'a> {
    store: &'a Store,
    serial: u64,
    /// For the operation that the caller waits for.
    one: Slot,
    /// For operations under way, by tag. They do not move.
    many: Box<[Slot]>,
    pending: Vec<u64>,
    not_send: PhantomData<*mut ()>,
}

impl<'a> Session<'a> {
    /// Takes a session for this thread, which must have none, for up to `depth` pending operations.
    pub fn new(store: &'a Store, depth: usize) -> Self {
        // SAFETY: the store is open.
        unsafe { ffi::shim_start(store.store) };
        let many = (0..depth).map(|_| Slot::default()).collect();
        let (one, pending) = (Slot::default(), Vec::new());
        Self { store, serial: 0, one, many, pending, not_send: PhantomData }
    }

    /// Returns the value of `key`, if it has one.
    ///
    /// # Errors
    /// FASTER's errors.
    pub fn get(&mut self, key: u64) -> Result<Option<&[u8]>, Error> {
        let serial = self.next();
        // SAFETY: the slot lives until the operation is done, which the code below waits for.
        unsafe { ffi::shim_read(self.store.store, key, self.one.begin(), serial) };
        self.wait();
        self.one.outcome()
    }

    /// Writes a pair.
    ///
    /// # Errors
    /// FASTER's errors; a value that is too long.
    pub fn put(&mut self, key: u64, value: &[u8]) -> Result<(), Error> {
        let serial = self.next();
        let length = checked_length(value)?;
        let (store, slot) = (self.store.store, self.one.begin());
        // SAFETY: the slot and the value live until the operation is done, which the code below
        // waits for.
        unsafe { ffi::shim_upsert(store, key, value.as_ptr(), length, slot, serial) };
        self.wait();
        self.one.outcome().map(drop)
    }

    /// Removes a key.
    ///
    /// # Errors
    /// FASTER's errors.
    pub fn delete(&mut self, key: u64) -> Result<(), Error> {
        let serial = self.next();
        // SAFETY: the slot lives until the operation is done, which the code below waits for.
        unsafe { ffi::shim_delete(self.store.store, key, self.one.begin(), serial) };
        self.wait();
        self.one.outcome().map(drop)
    }

    /// Puts `new` in the place of the value of `key`, and returns the old value. One atomic step.
    ///
    /// # Errors
    /// FASTER's errors; a value that is too long.
    pub fn exchange(&mut self, key: u64, new: &[u8]) -> Result<Option<&[u8]>, Error> {
        let serial = self.next();
        let length = checked_length(new)?;
        let (store, slot) = (self.store.store, self.one.begin());
        // SAFETY: the slot and the value live until the operation is done, which the code below
        // waits for.
        unsafe { ffi::shim_exchange(store, key, new.as_ptr(), length, slot, serial) };
        self.wait();
        self.one.outcome()
    }

    /// Begins a get. `tag` is below the session's depth, and that of nothing else that is pending.
    pub fn begin_get(&mut self, tag: u64, key: u64) -> Begun {
        if self.is_full(tag) {
            return Begun::Full;
        }
        let serial = self.next();
        let slot = self.many[tag as usize].begin();
        // SAFETY: the slot does not move until the operation is reported; drop waits for all.
        unsafe { ffi::shim_read(self.store.store, key, slot, serial) };
        self.begun(tag)
    }

    /// Begins an exchange. `tag` as for [`Session::begin_get`].
    ///
    /// # Errors
    /// A value that is too long.
    pub fn begin_exchange(&mut self, tag: u64, key: u64, new: &[u8]) -> Result<Begun, Error> {
        checked_length(new)?;
        if self.is_full(tag) {
            return Ok(Begun::Full);
        }
        let serial = self.next();
        let store = self.store.store;
        let slot = &mut self.many[tag as usize];
        let (bytes, length) = slot.keep(new);
        // SAFETY: the slot, and with it the value, does not move until the operation is reported.
        unsafe { ffi::shim_exchange(store, key, bytes, length, slot.begin(), serial) };
        Ok(self.begun(tag))
    }

    /// Returns the outcome of the operation by this tag, which is done.
    ///
    /// # Errors
    /// FASTER's errors.
    pub fn outcome(&mut self, tag: u64) -> Result<Option<&[u8]>, Error> {
        self.many[tag as usize].outcome()
    }

    /// Returns the tags of all pending operations that are done. With `waits` it waits until an
    /// operation is done, if any is pending.
    pub fn complete(&mut self, waits: bool) -> Vec<u64> {
        loop {
            // SAFETY: the store is open, and this thread has its session.
            unsafe { ffi::shim_complete(self.store.store, false) };
            let many = &self.many;
            let (done, pending) =
                self.pending.iter().partition::<Vec<u64>, _>(|&&tag| many[tag as usize].is_done());
            self.pending = pending;
            if !waits || !done.is_empty() || self.pending.is_empty() {
                return done;
            }
            std::hint::spin_loop();
        }
    }

    fn next(&mut self) -> u64 {
        self.serial += 1;
        if self.serial.is_multiple_of(REFRESH_EVERY) {
            // SAFETY: the store is open, and this thread has its session.
            unsafe { ffi::shim_refresh(self.store.store) };
        }
        self.serial
    }

    fn wait(&mut self) {
        while !self.one.is_done() {
            // SAFETY: the store is open, and this thread has its session.
            unsafe { ffi::shim_complete(self.store.store, false) };
        }
    }

    fn is_full(&self, tag: u64) -> bool {
        tag as usize >= self.many.len() || self.pending.len() == self.many.len()
    }

    fn begun(&mut self, tag: u64) -> Begun {
        if self.many[tag as usize].is_done() {
            return Begun::Done;
        }
        self.pending.push(tag);
        Begun::Pending
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        // SAFETY: the store is open, and this thread has its session. It waits for pending
        // operations, so no slot is used any more when it returns.
        unsafe { ffi::shim_stop(self.store.store) };
    }
}

fn checked_length(value: &[u8]) -> Result<u32, Error> {
    match value.len() {
        length if length <= VALUE_BYTES_MAX => Ok(length as u32),
        length => Err(Error(format!("{length} bytes of value: {VALUE_BYTES_MAX} at most"))),
    }
}
