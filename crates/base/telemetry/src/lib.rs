//! Counters, gauges and histograms in one registry.
//!
//! A database has one [`Registry`], which it hands to its parts; nothing is global. A part asks the
//! registry for handles when it opens and uses them on its paths without a lock:
//!
//! ```text
//! part  -- counter(name, help) -->  Registry (lock: only here)
//!       <-- Counter ------------
//! part  -- add(1), relaxed, in the thread's shard -->  Counter
//! scrape, stats, bench  -- snapshot() -->  Snapshot  -- render_prometheus() -->  text
//! ```
//!
//! A program that uses the database writes `thermocline::telemetry` for the name of this crate.
//!
//! ```
//! use std::time::Duration;
//! use thermocline_telemetry::{Registry, Unit};
//!
//! let registry = Registry::default();
//! let users = registry.with_labels(&[("keyspace", "users")]);
//! let flushes = users.counter("flushes_total", "Memtables written to disk.");
//! let reads = users.histogram("read_seconds", "Time of a read.", Unit::Seconds);
//!
//! flushes.add(2);
//! reads.record_duration(Duration::from_micros(3));
//!
//! let snapshot = registry.snapshot();
//! assert_eq!(snapshot.counter("flushes_total"), 2);
//! assert!(snapshot.render_prometheus().contains("flushes_total{keyspace=\"users\"} 2\n"));
//! ```
//!
//! # Invariants
//! - One name and one set of labels is one metric: asking again gives the same handle.
//! - One name is one kind and one unit, whatever its labels; anything else is our own mistake and
//!   panics at the request for the second kind.
//!
//! # Concurrency
//! Handles and the registry may be used by any number of threads. Numbers are relaxed atomics: they
//! count, they never order anything. A snapshot is not one instant; each number in it is at least
//! the number that had been counted when the snapshot began.

mod counter;
mod gauge;
mod histogram;
mod prometheus;
mod registry;
mod shards;
mod snapshot;

pub use counter::Counter;
pub use gauge::Gauge;
pub use histogram::{Histogram, Unit};
pub use registry::Registry;
pub use shards::{Shards, note_background_thread, thread_number};
pub use snapshot::{Bucket, Distribution, Metric, Snapshot, Value};
