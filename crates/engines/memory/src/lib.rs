//! Engine `memory`: an ordered concurrent map of versioned keys, made durable by snapshots.
//!
//! ```text
//!  get · apply · rmw · view            flush · checkpoint · open
//!         |                                  |
//!        Map: directory -> leaves     snapshot: writer, reader     superblock
//!         (memory only)                 snapshot-N: all pairs       which snapshot stands
//! ```
//!
//! All data is in memory; a flush writes all of it. Between two flushes the host provides
//! durability: it journals the writes that it applies, and replays those above
//! [`engine::Engine::persisted`]. So this is the engine for data that fits, and the one that the
//! others are tested against.
//!
//! # Invariants
//! - A version that a view's pin shows is never overwritten or dropped while it is held (`write`,
//!   W1).
//! - Every key is in the leaf that the directory names for it, or a thread that looks there notices
//!   that the range has moved (`map`, M1).
//! - The superblock never names a file that is not whole and durable, nor is a file removed that a
//!   durable superblock may name (`flush`).
//!
//! # To follow
//! - a put: `write::Shared::apply`, then `map::Map::write`, then `map/leaf/edit.rs`;
//! - a get: `read::Shared::get`, then `map::Map::read`, then `map/leaf.rs`;
//! - a scan: `scan::Walk`, then `map/walk.rs`;
//! - recovery: `open::Store::open`, then `snapshot/load.rs`.
//!
//! ```
//! # use std::sync::Arc;
//! # use engine::{BlockingWrites, Engine, Host, NoJournal, Op, Sequence};
//! # use reads::BlockingReads;
//! # use memory_budget::MemoryBudget;
//! # use environment::Environment;
//! # let environment = Environment::real();
//! # let telemetry = telemetry::Registry::default();
//! # let host = Host {
//! #     device: device::memory(),
//! #     workers: workers::Pool::start(&environment, 1, &telemetry)?,
//! #     environment,
//! #     telemetry,
//! #     sequence: Arc::new(Sequence::new()),
//! #     barrier: Arc::new(NoJournal),
//! #     memory: Arc::new(MemoryBudget::new(1 << 30)),
//! # };
//! use thermocline_memory::{Options, Store};
//!
//! let sequence = Arc::clone(&host.sequence);
//! let store = Store::open(host, Options::default())?;
//! let ticket = sequence.begin();
//! store.write(&[Op::Put { key: b"lake", value: b"warm" }], ticket.seqno())?;
//! drop(ticket);
//!
//! let mut value = Vec::new();
//! assert!(store.get(b"lake", &mut value)?);
//! assert_eq!(value, b"warm");
//! store.flush()?; // now it survives the process
//! assert_eq!(store.persisted(), sequence.visible());
//! store.close()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod check;
mod driver;
mod flush;
mod map;
mod open;
mod options;
mod read;
mod scan;
mod snapshot;
mod stats;
mod store;
#[cfg(test)]
mod tests;
mod trials;
mod trim;
mod write;

/// The kinds of files that a store has next to its superblock.
pub const FORMATS: &[codec::Format] = &[snapshot::format::FORMAT];

pub use check::{Report, check};
pub use driver::DRIVER;
pub use open::{footprint, pair_footprint};
pub use options::Options;
pub use snapshot::reader::decode_block as decode_snapshot_block;
pub use snapshot::salvage::salvage;
pub use store::Store;
