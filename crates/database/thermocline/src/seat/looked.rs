//! An old value that a seat has looked up for its user, who updates the key with it.

use std::fmt;
use std::sync::Arc;

use engine::{Old, Operator};

use crate::error::Result;
use crate::rmw::Tried;
use crate::seat::Target;
use crate::slot::Generation;

/// What [`crate::Seat::begin_old`] has found.
#[derive(Clone, Copy)]
pub struct Looked<'a> {
    pub(super) target: &'a Target,
    pub(super) generation: &'a Arc<Generation>,
    pub(super) old: Old<'a>,
}

impl Looked<'_> {
    /// Replaces the key's value by what `operator` makes of the one that was found, or of a newer one
    /// that memory knows. [`Tried::NeedsDevice`]: another write of the key came first, or might have,
    /// and nothing has changed; begin again, with [`crate::Keyspace::try_rmw`]. Does not wait, as
    /// that does not.
    ///
    /// # Errors
    /// As [`crate::Keyspace::rmw`].
    pub fn update(&self, operator: &mut dyn Operator) -> Result<Tried> {
        let Target { inner, slot, form, .. } = self.target;
        inner.try_rmw_of_old(slot, *form, self.generation, &self.old, operator)
    }
}

impl PartialEq for Looked<'_> {
    fn eq(&self, other: &Self) -> bool {
        (self.old.key, self.old.value) == (other.old.key, other.old.value)
    }
}

impl Eq for Looked<'_> {}

impl fmt::Debug for Looked<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Old { key, value, .. } = &self.old;
        f.debug_struct("Looked").field("key", key).field("value", value).finish_non_exhaustive()
    }
}
