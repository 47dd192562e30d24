//! Engine `flexdb`: all pairs sorted, in place, in a space into whose middle one can insert.
//!
//! ```text
//!  put · rmw ──> memtable ──commit──┐ in place: insert, remove, replace
//!                   │               v
//!                   │     [ a  b  c | d  f | g  h ... | x  y  z ]   FlexSpace: one order, on disk
//!                   │       ^         ^      ^          ^
//!  get · scan ──────┴──> sparse index: an entry for each interval   in memory, its offsets shift
//!   │                           └──> interval cache: its bytes, its pairs' places, fingerprints
//!   └──> pairs: those that gets found in intervals
//! ```
//!
//! Between two commits durability is the host's: it journals each write that it applies, and
//! replays the writes above [`engine::Engine::persisted`].
//!
//! # Invariants
//! - A reader's state misses nothing (`state`, S1), shows one moment (S2), and finds the newest
//!   version first (`memtable`, M2).
//! - The place of a key in the index holds for the space of the same base (`index`, X1), and can be
//!   found again from the space alone (X2).
//! - Persisted writes are in the space, by the same commit as the number that says so (`memtable`,
//!   M1; `commit`, C1).
//! - No reader waits for a commit: the state that it reads does not change.
//! - A cached block has the pairs of its interval, in the version to which it is attached (`index`,
//!   X3). A pair that is kept is the pair of the base, for all readers that look for its key there
//!   (`state`, S3).
//!
//! # To follow
//! - a put: `write::Shared::apply`, then `memtable::Entered::insert`;
//! - a get: `lookup::Shared::lookup`, then `memtable::Memtable::get`, `cache::RowCache::get`,
//!   `state::Base::interval_of`, `block::Block::find`;
//! - a scan: `scan::Walk`, a run at a time;
//! - a commit: `commit::Shared::commit_oldest`, then `put`, `commit/plan_parallel.rs`,
//!   `commit/plan.rs` and `commit/changing.rs`. Between commits, intervals that scans found in
//!   pieces: `fragmented_queue`, then `commit/defragment_scanned.rs`. While the store is idle,
//!   other intervals in pieces: `defragment_idle`, then `commit/defragment_idle.rs`;
//! - recovery: `open::Store::open`, then `stored_index::Reading`, or else `recover::index`;
//! - freed room: `collect::Shared::collect`.
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
//! use thermocline_flexdb::{Options, Store};
//!
//! let sequence = Arc::clone(&host.sequence);
//! let store = Store::open(host, Options::default())?;
//! let ticket = sequence.begin();
//! store.write(&[Op::Put { key: b"lake", value: b"warm" }], ticket.seqno())?;
//! drop(ticket);
//! store.flush()?; // now it is in the space, and survives the process
//!
//! let mut value = Vec::new();
//! assert!(store.get(b"lake", &mut value)?);
//! assert_eq!(value, b"warm");
//! assert_eq!(store.persisted(), sequence.visible());
//! store.close()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod admission;
mod allocated;
mod background;
mod background_errors;
mod block;
mod cache;
mod check;
mod checkpoint;
mod collect;
mod commit;
mod commit_steps;
mod contract;
mod defragment_idle;
mod driver;
mod error;
mod figures;
mod fragmented_queue;
mod index;
mod index_memory;
mod lookup;
mod memory_parts;
mod memory_split;
mod memtable;
mod open;
mod options;
mod pair;
mod planted;
mod read;
mod reading;
mod reclaim;
mod recover;
mod salvage;
mod scan;
mod scan_ratio;
mod space_read;
mod space_reads;
mod state;
mod state_cell;
mod stats;
mod store;
mod stored_index;
#[cfg(test)]
mod tests;
mod trials;
mod write;
mod writes;

/// The kinds of files that a store has next to its superblock. Its header is in the space.
pub const FORMATS: &[codec::Format] = &[stored_index::FORMAT, flexspace::space::LOG_FORMAT];

pub use check::{Report, check};
pub use contract::Store;
pub use driver::DRIVER;
pub use options::Options;
pub use pair::{decode_header, decode_pairs};
pub use salvage::salvage;
pub use stored_index::decode_stored_intervals;
