//! Room that is held on the device, so that work which must not fail can go on when the device is full.
//!
//! A file holds the room, and nothing that is read. Its length says how much it holds, so an opening needs to
//! know nothing more. If a step finds no room, the file is made shorter and the step is tried again. How much is
//! to be held, and for what, is the caller's to decide.
//!
//! # Concurrency
//! One lock, held over I/O.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;

use crate::Device;
use crate::error::{Error, Result};
use crate::file::{File, Mode};

/// Bytes of which each gift is a multiple: a page of all but the rarest file systems.
const GIVEN_AT_ONCE: u64 = 4096;

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
        let (held, file) = (self.bytes(), self.file_of(&mut file)?);
        if bytes > held {
            if let Err(error) = file.allocate(held, bytes - held) {
                // Others must not lack the part that was allocated.
                file.set_len(held)?;
                return Err(error);
            }
            self.bytes.store(bytes, Relaxed);
        }
        Ok(())
    }

    /// Holds `bytes` bytes, or the same as before if there is no room for more. If it holds more than twice
    /// `bytes`, the rest is given back.
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

    /// Does `work`, which needs up to `bytes` bytes of room. If it fails for lack of room, which `is_full` says of
    /// its error, room is given back and it is tried again. Keeps at least `kept` bytes.
    ///
    /// # Errors
    /// Those of `work`. An error of which `is_full` is true means that nothing is left to give.
    pub fn spend<T, E: From<Error>>(
        &self,
        (kept, bytes): (u64, u64),
        is_full: impl Fn(&E) -> bool,
        mut work: impl FnMut() -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        loop {
            match work() {
                Err(error) if is_full(&error) => {
                    // A file system may want more than the bytes, so it is asked until all is given.
                    let bytes = bytes.max(1).next_multiple_of(GIVEN_AT_ONCE);
                    if self.give(bytes.min(self.bytes().saturating_sub(kept)))? == 0 {
                        return Err(error);
                    }
                }
                done => return done,
            }
        }
    }

    fn file_of<'a>(&self, file: &'a mut Option<Arc<dyn File>>) -> Result<&'a Arc<dyn File>> {
        match file {
            Some(file) => Ok(file),
            none => Ok(none.insert(self.device.open(self.name, Mode::Create)?)),
        }
    }
}
