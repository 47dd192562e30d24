//! The locks of a pool, which shuttle schedules like the locks of the tasks' data.
//!
//! Not so loom: its models are of a few steps of a store, and each lock of the pool on the way
//! would multiply their executions.

#[cfg(loom)]
pub(crate) use sync::locks::{Condvar, Mutex, MutexGuard};
#[cfg(not(loom))]
pub(crate) use sync::{Condvar, Mutex, MutexGuard};

pub(crate) use sync::thread::thread_local;
