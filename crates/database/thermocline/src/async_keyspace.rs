//! The futures of a keyspace: gets and writes for any executor.
//!
//! The gets are in `session/future.rs` and `session/many.rs`, the writes in `async_writes.rs`.

use crate::keyspace::Keyspace;

/// The operations of a keyspace as futures; see [`Keyspace::futures`]. Cheap to copy.
#[derive(Clone, Copy, Debug)]
pub struct AsyncKeyspace<'k>(pub(crate) &'k Keyspace);

impl Keyspace {
    /// Returns the operations of this handle as futures, which need no particular executor. No poll
    /// waits for the device, for the journal, or for work that slows writers down.
    /// [`AsyncKeyspace::put`] documents the order in which writes take place, and the meaning of a
    /// drop. The futures keep the database open. Costs nothing.
    pub fn futures(&self) -> AsyncKeyspace<'_> {
        AsyncKeyspace(self)
    }
}
