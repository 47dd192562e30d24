//! A thread's seat: look-ups of one thread, many of them under way at once.
//!
//! A get is a look-up whose value is told. A read-modify-write whose old value is on disk is a
//! look-up too, and nothing more as far as the engine goes: its host holds no lock meanwhile. Told of
//! the value, the host keeps other writes of the key out, asks whether the value still is the newest
//! (law L7), and then applies what it makes of it; otherwise it begins anew.

use std::sync::Arc;

use device::Doorbell;

use crate::error::Result;

/// How a get began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    /// The key has a value, which is there.
    Found,
    /// The key has none.
    Absent,
    /// The device is asked; [`Seat::complete`] will tell.
    Pending,
    /// As many are under way as there may be, and this one needs the device: nothing was begun.
    Full,
}

/// How the look-up of an old value began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BegunOld {
    /// It needs no device by now: [`crate::Engine::rmw_at_once`] will do. Nothing was begun.
    AtOnce,
    /// The device is asked, or memory has a value that no update would find again; [`Seat::complete`]
    /// will tell.
    Pending,
    /// As many are under way as there may be: nothing was begun.
    Full,
}

/// The value that a read-modify-write is to change, as a look-up has found it.
#[derive(Clone, Copy)]
pub struct Old<'a> {
    /// Whose it is.
    pub key: &'a [u8],
    /// The value, if the key had one.
    pub value: Option<&'a [u8]>,
    is_newest: &'a dyn Fn() -> bool,
}

impl<'a> Old<'a> {
    /// A value, and what tells whether it still is the key's newest.
    pub fn new(key: &'a [u8], value: Option<&'a [u8]>, is_newest: &'a dyn Fn() -> bool) -> Self {
        Self { key, value, is_newest }
    }

    /// Whether it is what the key has now, if the caller keeps writes of the key out (law L7). Asks
    /// memory alone; may say no without need, so that whoever hears it begins anew.
    pub fn is_newest(&self) -> bool {
        (self.is_newest)()
    }
}

/// Who is told of what was pending. A closure is one for gets alone.
pub trait Listener {
    /// A get's tag, and its key's value if it has one.
    fn value(&mut self, tag: u64, value: Result<Option<&[u8]>>);

    /// The tag of the look-up of an old value, and what it has found.
    fn old(&mut self, tag: u64, old: Result<Old<'_>>);
}

impl<F: FnMut(u64, Result<Option<&[u8]>>)> Listener for F {
    fn value(&mut self, tag: u64, value: Result<Option<&[u8]>>) {
        self(tag, value);
    }

    fn old(&mut self, _tag: u64, _old: Result<Old<'_>>) {
        unreachable!("a closure hears of gets, and no old value was looked up")
    }
}

/// A thread's seat: those of its look-ups that need the device overlap. Dropping it gives up what is
/// pending, none of which has changed anything.
///
/// A get is linearizable: what it tells is what the key had at some moment between its beginning and
/// [`Seat::complete`].
pub trait Seat: Send {
    /// Reads `key`; the value replaces what is in `into` if it is known at once. Never waits for the
    /// device.
    ///
    /// # Errors
    /// [`crate::Error::Closed`], [`crate::Error::Corruption`]; nothing is pending then.
    fn begin_get(&mut self, tag: u64, key: &[u8], into: &mut Vec<u8>) -> Result<Begun>;

    /// Looks up the value that a read-modify-write of `key` is to change, after
    /// [`crate::Engine::rmw_at_once`] could not do it. Never waits for the device.
    ///
    /// # Errors
    /// The same.
    fn begin_old(&mut self, tag: u64, key: &[u8]) -> Result<BegunOld>;

    /// Tells `listener` of the look-ups that have ended, and where `waits`, does not return before
    /// there was one, if any is pending. Answers how many there were.
    ///
    /// # Errors
    /// The device's queue failed. What goes wrong with one look-up is told of it alone.
    fn complete(&mut self, waits: bool, listener: &mut dyn Listener) -> Result<usize>;

    /// How many are pending.
    fn pending(&self) -> usize;

    /// Has `bell` rung from now on whenever [`Seat::complete`] may have something to tell of what was
    /// begun before its last call. It may be rung for nothing. For a seat on which nothing is pending.
    ///
    /// # Errors
    /// The device's queue failed.
    fn ring(&mut self, bell: &Arc<Doorbell>) -> Result<()>;
}
