//! The parts of memtables that do not depend on how they store their entries.
//!
//! [`MemtableSet`] is the state that the memtables of a store share: their ids, and the newest
//! applied write. [`MemtableMemory`] counts the bytes of all memtables, of reservations for writes,
//! and of chunks for the next memtables. [`Head`] is the part of one memtable: its id, its floor,
//! its gate, and its bytes. [`Versions`] has a head and a skip list of versions.
//!
//! 1. A write reserves memory ([`MemtableMemory::try_reserve`]) before it has a number.
//! 2. The writer enters the memtable that the state of its store names ([`Head::gate`]). If that is
//!    sealed, the state already has another one, and the writer looks again.
//! 3. It adds its entries, whose bytes come out of the reservation ([`Head::note_entry`]), and
//!    notes that the write is applied ([`MemtableSet::note_applied`]).
//! 4. [`Head::seal`] waits for the writers that have entered. From then on nothing changes, and the
//!    memtable may be written to the device.
//!
//! # Invariants
//! - M1. Every write that a memtable holds, or ever will, has a number above its floor, or is
//!   persisted. The floor is not above the last number up to which all writes were finished when
//!   the memtable was made: a later writer holds an unfinished number. Nor is it above the newest
//!   write before: a replay applies writes in order, and the finished number says nothing of it.
//!   Hence, once all older memtables are persisted, everything up to the floor is.
//! - M3. The number of an applied write is noted once all its steps are in memtables: a floor that
//!   is requested in between does not pass it.
//! - M8. The bytes of memtables and of reservations are one sum, which a reservation raises before
//!   its write has a number, and which no write raises above a limit that its reservation kept.

mod arena_pool;
mod head;
mod memory;
mod memtable_set;
#[cfg(test)]
mod tests;
mod versions;

pub use head::{Gate, Head};
pub use memory::MemtableMemory;
pub use memtable_set::MemtableSet;
pub use versions::{Entered, Versions};
