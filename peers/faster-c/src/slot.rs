//! The memory that an operation under way reads and writes.

use std::cell::UnsafeCell;

use crate::{Error, VALUE_BYTES_MAX, ffi};

/// Values of FASTER's `Status`.
const OK: u32 = 0;
const PENDING: u32 = 1;
const NOT_FOUND: u32 = 2;
/// The old value's length after an exchange of a key that is new.
const NO_VALUE: u32 = u32::MAX;

/// One operation's memory. It does not move while the operation is under way.
pub(crate) struct Slot {
    shared: Box<UnsafeCell<ffi::shim_slot>>,
    /// The buffer that a value is read to.
    old: Box<[u8]>,
    /// The value to be written.
    new: Vec<u8>,
}

impl Default for Slot {
    fn default() -> Self {
        let mut old = vec![0; VALUE_BYTES_MAX].into_boxed_slice();
        let value = old.as_mut_ptr();
        let shared = ffi::shim_slot { value, length: 0, status: OK, done: 1 };
        Self { shared: Box::new(UnsafeCell::new(shared)), old, new: Vec::new() }
    }
}

impl Slot {
    /// The memory for an operation that is about to begin.
    pub(crate) fn begin(&mut self) -> *mut ffi::shim_slot {
        let shared = self.shared.get_mut();
        shared.done = 0;
        shared.length = NO_VALUE;
        self.shared.get()
    }

    /// Copies the bytes that an operation writes, to keep them while it is under way.
    pub(crate) fn keep(&mut self, new: &[u8]) -> (*const u8, u32) {
        self.new.clear();
        self.new.extend_from_slice(new);
        (self.new.as_ptr(), self.new.len() as u32)
    }

    /// Whether the operation is done. The thread that asks is the one that completes.
    pub(crate) fn is_done(&self) -> bool {
        // SAFETY: only this thread's own calls write to it, and none runs now.
        unsafe { (*self.shared.get()).done != 0 }
    }

    /// Returns its outcome: the value that the key had, if it had one.
    pub(crate) fn outcome(&mut self) -> Result<Option<&[u8]>, Error> {
        let shared = self.shared.get_mut();
        match (shared.status, shared.length) {
            (NOT_FOUND, _) | (OK, NO_VALUE) => Ok(None),
            (OK, length) => Ok(Some(&self.old[..length as usize])),
            (PENDING, _) => Err(Error("FASTER has not ended it".to_owned())),
            (status, _) => Err(Error(format!("FASTER says status {status}"))),
        }
    }
}
