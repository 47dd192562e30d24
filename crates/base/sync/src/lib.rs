//! Locks, atomics and cells that are switchable between std, loom and shuttle, and the epoch
//! framework.
//!
//! Latch-free code anywhere in Thermocline takes its atomics, cells and locks from here, so that
//! the same source runs in production and under two checkers:
//!
//! | built with | what the names mean | finds |
//! |---|---|---|
//! | nothing | std, [`locks`] | - |
//! | `RUSTFLAGS="--cfg loom"` | [loom](https://docs.rs/loom) | missing memory order, data races |
//! | `RUSTFLAGS="--cfg shuttle"` | [shuttle](https://docs.rs/shuttle) | interleavings, at scale |
//!
//! Both are needed. Loom enumerates what the memory model allows, for two or three threads and a
//! few steps. It takes a sequentially consistent *access* for acquire/release, so code that needs
//! the total order says so by a fence. Shuttle runs large models at random, but every run of it is
//! sequentially consistent, so it never sees a missing fence.
//!
//! The models of this crate (the second directory keeps the ordinary build from being redone):
//!
//! ```text
//! RUSTFLAGS="--cfg loom"    cargo test -p thermocline-sync --profile models --test loom \
//!     --target-dir target/loom
//! RUSTFLAGS="--cfg shuttle" cargo test -p thermocline-sync --profile models --test shuttle \
//!     --target-dir target/shuttle
//! ```
//!
//! Code that no model checks takes its locks from [`locks`] by name.
//!
//! A simulation runs whole databases with these same locks: [`scheduler`].
//!
//! To follow the epoch framework, start at [`epoch`].

pub mod atomic;
pub mod cell;
pub mod channel;
pub mod epoch;
pub mod locks;
mod mutex;
#[doc(hidden)]
pub mod planted;
mod prefetch;
mod rwlock;
pub mod scheduler;
#[cfg(shuttle)]
#[doc(hidden)]
pub mod schedules;
mod set_once;
pub mod thread;

pub use crossbeam_utils::CachePadded;
pub use mutex::{Condvar, Mutex, MutexGuard};
#[cfg(any(loom, shuttle))]
#[doc(hidden)]
pub use planted::Planted;
pub use prefetch::prefetch;
pub use rwlock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use set_once::SetOnce;
