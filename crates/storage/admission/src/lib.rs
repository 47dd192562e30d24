//! How writers wait: for room, and for background work that is behind.
//!
//! - [`WriteController`]: the debt of writers to background work, and the queue of writers that
//!   wait for room;
//! - [`Attempts`]: tries of one kind of background work, and the failure of the last one;
//! - [`Admits`]: the steps by which a write reserves memory of memtables.
//!
//! The engine decides how much a write owes, whether there is room, and what makes room. This crate
//! has the mechanism, once for all engines.
//!
//! 1. *Debt.* While background work is behind, each write adds to a debt: nanoseconds for each KiB.
//!    A writer pays it by a wait ([`WriteController::delay`]). So writers come down to the pace
//!    of the work before they have to stop for it.
//! 2. *Room.* A writer that finds no room joins a queue ([`WriteController::wait_for_room`]). The
//!    first writer in the queue asks for room again after each task of the pool. So small writes
//!    never keep a large one waiting forever.
//!
//! # Concurrency
//! Neither wait is made with a key locked or with a number of the sequence.

mod admits;
mod attempts;
#[doc(hidden)]
pub mod planted;
mod write_controller;

pub use admits::{Admits, Parts};
pub use attempts::Attempts;
pub use write_controller::{DebtPolicy, WriteController};
