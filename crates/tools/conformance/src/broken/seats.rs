//! A seat that confirms every value that it has returned.

use std::sync::Arc;

use device::Doorbell;
use engine::{Begun, BegunOld, Listener, Old, Result, Seat};

pub(super) struct ConfirmingSeat {
    pub(super) inner: Box<dyn Seat>,
}

/// Passes on each result, confirmed.
struct Confirming<'a>(&'a mut dyn Listener);

impl Listener for Confirming<'_> {
    fn value(&mut self, tag: u64, value: Result<Option<&[u8]>>) {
        self.0.value(tag, value);
    }

    fn old(&mut self, tag: u64, old: Result<Old<'_>>) {
        self.0.old(tag, old.map(|old| Old::new(old.key, old.value, &|| true)));
    }
}

impl Seat for ConfirmingSeat {
    fn begin_get(&mut self, tag: u64, key: &[u8], into: &mut Vec<u8>) -> Result<Begun> {
        self.inner.begin_get(tag, key, into)
    }

    fn begin_old(&mut self, tag: u64, key: &[u8]) -> Result<BegunOld> {
        self.inner.begin_old(tag, key)
    }

    fn complete(&mut self, waits: bool, listener: &mut dyn Listener) -> Result<usize> {
        self.inner.complete(waits, &mut Confirming(listener))
    }

    fn pending(&self) -> usize {
        self.inner.pending()
    }

    fn ring(&mut self, bell: &Arc<Doorbell>) -> Result<()> {
        self.inner.ring(bell)
    }
}
