//! Room that is held on the device for work that must not fail when the device is full.
//!
//! A file holds the room; its content is never read. Its length says how much it holds, so an
//! opening needs to know nothing more. If a step finds no room, the file is made shorter and the
//! step is tried again. The caller decides how much is held, and for which work.
//!
//! # Concurrency
//! One lock, held over I/O.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use sync::locks::Mutex;

use crate::Device;
use crate::error::{Error, Result};
use crate::file::{File, Mode};

#[cfg(test)]
mod tests;

/// Bytes of which each gift is a multiple: a page of all but the rarest file systems.
const GIVEN_PER_TURN: u64 = 4096;

/// A file that holds room.
#[derive(Debug)]
pub struct Ballast {
    device: Arc<dyn Device>,
    name: &'static str,
    /// The file, if there is one: a device without room for it is opened nevertheless.
    file: Mutex<Option<Arc<dyn File>>>,
    bytes: AtomicU64,
}

impl Ballast {
    /// The room that the file `name` of the device holds: none, if there is no such file.
    ///
    /// # Errors
    /// The device's.
    pub fn found(device: Arc<dyn Device>, name: &'static str) -> Result<Self> {
        let file = if device.exists(name)? { Some(device.open(name, Mode::Write)?) } else { None };
        let bytes = file.as_ref().map_or(Ok(0), |file| file.len())?;
        Ok(Self { device, name, file: Mutex::new(file), bytes: AtomicU64::new(bytes) })
    }

    /// Bytes that it holds.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Holds at least `bytes` bytes.
    ///
    /// # Errors
    /// [`Error::NoSpace`], which is no failure: it holds the same bytes as before.
    pub fn hold(&self, bytes: u64) -> Result<()> {
        if bytes <= self.bytes() {
            return Ok(());
        }
        let mut file = self.file.lock();
        let held = self.bytes();
        if bytes > held { self.extend(&mut file, bytes - held) } else { Ok(()) }
    }

    /// Holds `bytes` bytes, or the same as before if there is no room for more. If it holds more
    /// than twice `bytes`, it returns the rest to the device.
    ///
    /// # Errors
    /// The device's, but not [`Error::NoSpace`].
    pub fn fit(&self, bytes: u64) -> Result<()> {
        if self.bytes() > 2 * bytes {
            self.give(self.bytes() - bytes)?;
        }
        match self.hold(bytes) {
            Err(Error::NoSpace { .. }) => Ok(()),
            held => held,
        }
    }

    /// Gives `bytes` bytes back to the device, or all that it holds. Returns how many.
    ///
    /// # Errors
    /// The device's.
    pub fn give(&self, bytes: u64) -> Result<u64> {
        let mut file = self.file.lock();
        let held = self.bytes();
        let given = bytes.min(held);
        if given > 0 {
            self.file_of(&mut file)?.set_len(held - given)?;
            self.bytes.store(held - given, Relaxed);
        }
        Ok(given)
    }

    /// Does `work`, which needs up to `bytes` bytes of room. If it fails for lack of room, which
    /// `is_full` says of its error, room is released and the work is tried again. Keeps at least
    /// `kept` bytes.
    ///
    /// # Errors
    /// The errors of `work`. An error of which `is_full` is true means that no room is left to
    /// release.
    pub fn spend<T, E: From<Error>>(
        &self,
        (kept, bytes): (u64, u64),
        is_full: impl Fn(&E) -> bool,
        work: impl FnMut() -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        self.spend_counted((kept, bytes), is_full, work).0
    }

    /// Does the same for `work` that leaves the room free that it has taken, whether it succeeds or
    /// fails. Afterwards it holds again what it has given, as far as there is room. Other threads
    /// may spend meanwhile: it never holds again the bytes that they have spent.
    ///
    /// # Errors
    /// As [`Self::spend`].
    pub fn lend<T, E: From<Error>>(
        &self,
        bytes: u64,
        is_full: impl Fn(&E) -> bool,
        work: impl FnMut() -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        let (done, given) = self.spend_counted((0, bytes), is_full, work);
        let taken = self.take_back(given);
        let done = done?;
        taken?;
        Ok(done)
    }

    /// Holds up to `bytes` bytes more than now, as far as there is room.
    ///
    /// # Errors
    /// The device's, but not [`Error::NoSpace`].
    pub fn take_back(&self, bytes: u64) -> Result<()> {
        let (mut left, mut part) = (bytes, bytes);
        while part > 0 {
            match self.hold_more(part) {
                // The largest part for which there is room, to a page.
                Err(Error::NoSpace { .. }) => part = part / 2 / GIVEN_PER_TURN * GIVEN_PER_TURN,
                held => {
                    held?;
                    left -= part;
                    part = part.min(left);
                }
            }
        }
        Ok(())
    }

    /// Does `work` as [`Self::spend`] does, and returns the bytes that were given for it, too.
    fn spend_counted<T, E: From<Error>>(
        &self,
        (kept, bytes): (u64, u64),
        is_full: impl Fn(&E) -> bool,
        mut work: impl FnMut() -> std::result::Result<T, E>,
    ) -> (std::result::Result<T, E>, u64) {
        let mut given = 0;
        loop {
            match work() {
                Err(error) if is_full(&error) => {
                    // A file system may want more than the bytes, so it is asked until all is
                    // given.
                    let bytes = bytes.max(1).next_multiple_of(GIVEN_PER_TURN);
                    match self.give(bytes.min(self.bytes().saturating_sub(kept))) {
                        Ok(0) => return (Err(error), given),
                        Ok(more) => given += more,
                        Err(error) => return (Err(error.into()), given),
                    }
                }
                done => return (done, given),
            }
        }
    }

    /// Holds `bytes` bytes more than now.
    fn hold_more(&self, bytes: u64) -> Result<()> {
        self.extend(&mut self.file.lock(), bytes)
    }

    /// Makes the file, whose lock the caller holds, longer by `bytes` bytes.
    fn extend(&self, file: &mut Option<Arc<dyn File>>, bytes: u64) -> Result<()> {
        let (held, file) = (self.bytes(), self.file_of(file)?);
        if let Err(error) = file.allocate(held, bytes) {
            // Others must not lack the part that was allocated.
            file.set_len(held)?;
            return Err(error);
        }
        self.bytes.store(held + bytes, Relaxed);
        Ok(())
    }

    fn file_of<'a>(&self, file: &'a mut Option<Arc<dyn File>>) -> Result<&'a Arc<dyn File>> {
        match file {
            Some(file) => Ok(file),
            none => Ok(none.insert(self.device.open(self.name, Mode::Create)?)),
        }
    }
}
