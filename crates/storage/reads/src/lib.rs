//! In-flight reads, and the drivers that complete pending lookups.
//!
//! A search that misses memory becomes an [`engine::PendingLookup`], a value that names the reads
//! which it needs. This crate does these reads:
//!
//! | driver | does |
//! |---|---|
//! | [`ReadPool::complete`] | the reads of one lookup; the calling thread waits |
//! | [`ReadPool::multi_get`] | the reads of many lookups, concurrently; the calling thread waits |
//! | [`ReadPool::complete_many`] | the same for lookups that are pending already |
//! | [`InFlightReads`] | the reads of many lookups of one thread, which does other work meanwhile |
//! | [`ReadPool::read_batch`] | many ranges, near ones together; the calling thread waits |
//! | [`BlockingReads`] | gets, multi-gets and updates of an engine without a database |
//!
//! Gets, multi-gets and updates whose old value is on the device use them. So do the read-ahead of
//! scans, commits and compactions.
//! The sessions and futures of a database use them, and the commands of a server.

mod batch;
mod blocking;
mod buffers;
mod in_flight;
#[cfg(all(test, shuttle))]
mod models;
mod pool;

#[cfg(all(test, not(shuttle)))]
mod tests;

pub use batch::{Batch, RangeBytes, RangeRead, RangeReader};
pub use blocking::{BlockingReads, View};
pub use in_flight::{Done, EachDone, InFlightReads};
pub use pool::{EachValue, Found, ReadPool};
