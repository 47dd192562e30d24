//! Engine `lsm`: a log-structured merge-tree, shaped for the parts of Nova-LSM.
//!
//! ```text
//!  put · rmw ──> Dranges: a memtable each ──flush──> Level 0 ──compaction──> Level 1 ... Level 6
//!                little kept? └─merge──┘       (overlap)  (disjoint, each ten times the one above)
//!  get ──────> lookup index: the one that has it     scan ──> range index: those that overlap
//!  both through one state that never changes
//!                    tables: blocks, index, filter          manifest: edits + superblock
//!                    through the cache                       which tables there are
//! ```
//!
//! Between two flushes durability is the host's: it journals the writes that it applies and replays
//! those above [`engine::Engine::persisted`].
//!
//! # Invariants
//! - A reader's state misses nothing (`state`, S1), and finds the newest version first (`memtable`,
//!   M2; `lsm_tree::version`, V1 and V3).
//! - Entries that a range delete hides stay hidden until they are removed
//!   (`lsm_tree::range_deletes`, G1 to G3).
//! - A write that was routed to an open memtable was routed correctly (`memtable`; `dranges`, D1,
//!   D2).
//! - The indexes lead to entries that exist, and never away from them (`lookup_index`, U1;
//!   `range_index`, X1).
//! - Persisted writes are in durable tables that a durable manifest names (`memtable`, M1;
//!   [`edits`], N1).
//! - Flushes and compactions keep the versions that a pin shows (`lsm_tree::retention`: R1 and R2).
//! - Jobs that run at the same time are disjoint (`lsm_tree::plan::compaction`: P1 and P2).
//! - Every byte from the device was verified before it is used (`lsm_tree::table`, T1; [`edits`],
//!   N2).
//!
//! # To follow
//! - a put: `write::Shared::apply`, `dranges::Dranges::route`, `memtable::Entered::insert`;
//! - a get: `lookup::Shared::lookup`, `read::Shared::find_in_memory`, then
//!   `memtable::Memtable::get`, `search::Search::advance`, `lsm_tree::table::Table::search_block`;
//!   many concurrently: `reads::InFlightReads`;
//! - a scan: `scan::Walk`, then `lsm_tree::merge::Merged`;
//! - a range delete: `write::Shared::delete_ranges`, then `lsm_tree::range_deletes`;
//! - an ingestion: `ingest.rs`, then `lsm_tree::plan::ingest`;
//! - a reorganisation: `dranges/plan_reorganisation.rs`, then `background/reorganise.rs`;
//! - a flush: `background/flush.rs`, or instead of it a merge, `merge_memtables.rs` in the same
//!   folder; a compaction: `lsm_tree::plan::compaction`, then `compaction.rs`, then
//!   `lsm_tree::compaction`;
//! - recovery: `open::Store::open`, then `edits::read` and `edits::Chain::begin`.
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
//! use thermocline_lsm::{Options, Store};
//!
//! let sequence = Arc::clone(&host.sequence);
//! let store = Store::open(host, Options::default())?;
//! let ticket = sequence.begin();
//! store.write(&[Op::Put { key: b"lake", value: b"warm" }], ticket.seqno())?;
//! drop(ticket);
//! store.flush()?; // now it is in a table, and survives the process
//!
//! let mut value = Vec::new();
//! assert!(store.get(b"lake", &mut value)?);
//! assert_eq!(value, b"warm");
//! assert_eq!(store.persisted(), sequence.visible());
//! store.close()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod admission;
mod background;
mod cache;
mod check;
mod checkpoint;
mod contract;
mod dranges;
mod driver;
mod indexed_lookups;
mod ingest;
mod lookup;
mod lookup_index;
mod memory_parts;
mod memory_split;
mod memtable;
mod open;
mod open_manifest;
mod options;
mod planted;
mod range_index;
mod read;
mod read_ahead;
mod salvage;
mod scan;
mod search;
mod state;
mod stats;
mod store;
mod table_files;
#[cfg(test)]
mod tests;
#[doc(hidden)]
pub mod trials;
mod write;

/// The kinds of files that a store has next to its superblock.
pub const FORMATS: &[codec::Format] = &[lsm_tree::edit::FORMAT, lsm_tree::table::FORMAT];

pub use check::{Report, check, check_with};
pub use contract::Store;
pub use driver::DRIVER;
pub use edits::decode_committed;
pub use lsm_tree::edit::decode_edits;
pub use lsm_tree::table::{
    Compression, FilterKind, LocalTables, Span, Summary, TableId, TableSink, TableSource,
    TableStore, UnknownCompression, decode_block, decode_footer, decode_metadata, recode_block,
};
pub use options::{Options, Routing};
pub use salvage::salvage;
