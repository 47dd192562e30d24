//! An old value that a session has looked up, with which the caller updates the key.

use std::fmt;

use engine::Operator;

use crate::error::Result;
use crate::rmw::{Old, Tried};
use crate::session::Target;

/// The result of [`crate::Session::lookup_for_update`].
#[derive(Clone, Copy)]
pub struct ReadForUpdate<'a> {
    pub(super) target: &'a Target,
    pub(super) old: Old<'a>,
}

impl ReadForUpdate<'_> {
    /// Replaces the key's value by the result of `operator` for the value that was found, or for a
    /// newer one that memory knows. [`Tried::NeedsRead`]: another write of the key was first, or
    /// may have been, and nothing has changed; begin again, with [`crate::Keyspace::try_rmw`]. Like
    /// that call, it does not wait.
    ///
    /// # Errors
    /// As [`crate::Keyspace::rmw`].
    pub fn update(&self, operator: &mut dyn Operator) -> Result<Tried> {
        let Target { inner, entry, form, .. } = self.target;
        inner.try_rmw_with_old(entry, *form, &self.old, operator)
    }
}

impl PartialEq for ReadForUpdate<'_> {
    fn eq(&self, other: &Self) -> bool {
        (self.old.key, self.old.value) == (other.old.key, other.old.value)
    }
}

impl Eq for ReadForUpdate<'_> {}

impl fmt::Debug for ReadForUpdate<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Old { key, value, .. } = &self.old;
        f.debug_struct("ReadForUpdate")
            .field("key", key)
            .field("value", value)
            .finish_non_exhaustive()
    }
}
