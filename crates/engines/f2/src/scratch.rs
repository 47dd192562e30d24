//! A buffer of the calling thread, so that a read or an update in place allocates nothing.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};

/// A longer one is not kept: no budget knows of it.
const KEPT_BYTES_MAX: usize = 16 << 10;

thread_local! {
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// The thread's buffer, or a new one while a caller further up the stack has it. Its content has no
/// meaning.
pub(crate) struct Scratch(Vec<u8>);

impl Scratch {
    pub(crate) fn take() -> Self {
        Self(SPARE.take())
    }
}

impl Deref for Scratch {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        &self.0
    }
}

impl DerefMut for Scratch {
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        &mut self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if self.0.capacity() <= KEPT_BYTES_MAX {
            SPARE.set(std::mem::take(&mut self.0));
        }
    }
}
