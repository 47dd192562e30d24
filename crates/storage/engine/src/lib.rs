//! The contract that every storage engine fulfils.
//!
//! ```text
//!   Db, conformance suite                 know an open engine only through
//!        |  lookup · scan · reserve · apply · flush · checkpoint · persisted · stats · close
//!      dyn Engine                          opened with a
//!        |
//!      Host: device · workers · environment · telemetry · sequence · barrier · memory budget
//! ```
//!
//! # Laws
//! - L1 *Replay law.* Applying again, in sequence-number order, all writes above
//!   [`Engine::persisted`] after a crash gives the state before the crash.
//! - L2 *Read your writes.* Once `apply` or an update has returned, every later lookup anywhere in
//!   the process sees it or something newer, and so does every later scan.
//! - L3 *Prefix.* Before an engine makes any effect of write `s` durable it calls
//!   [`Barrier::reach`] with `s`, so that no store is ever ahead of its journal.
//! - L4 *A pin shows one moment.* A lookup or a scan at a [`Pin`] shows all writes up to it and
//!   none above it, for as long as the pin lives.
//! - L5 *Errors are values.* A write that failed is never acknowledged; after a failed write or
//!   sync the engine refuses writes ([`Error::ReadOnly`]) until it is opened again. A temporary
//!   failure ([`Error::is_retryable`]) is none of these. The work that it prevented stays in memory
//!   and can be done later. Writes are refused for it only while there is no memory for them.
//! - L6 *Same key, one at a time.* The host never calls `apply` for one key from two threads
//!   concurrently with numbers that are out of order: per key, calls are in sequence-number order.
//!   A range delete is a write of every key in its range, whether it is there or not. Many threads
//!   may concurrently call an engine that orders such writes itself
//!   ([`Capabilities::orders_writes`]) and whose writes no journal numbers.
//! - L7 *A confirmed value is the newest.* If [`PendingLookup::is_newest`] returns `true` while the
//!   host excludes other writes of the key, the value of the lookup is the key's value.
//! - L8 *`apply` never waits.* With a reservation that covers the write, [`Engine::apply`] and
//!   [`Updates::try_update`] wait for no device, flush, compaction, commit or task of the pool.
//!   They take no lock that is held during such a wait.
//! - L9 *`lookup` never waits* for a device, nor for a lock that is held during such a wait.

mod background_errors;
mod barrier;
mod batch;
mod contract;
mod driver;
mod entry_key;
mod error;
mod health;
mod host;
mod ingestion;
mod limits;
mod lookup;
mod newer;
mod placed;
mod ranges;
mod reclaim;
mod reservation;
mod resizable_memory;
mod rounds;
mod salvage;
mod settings;
mod stats;
mod superblock;
mod trials;

pub use background_errors::{BackgroundError, BackgroundErrors};
pub use barrier::{Barrier, NoJournal};
pub use batch::{Op, last_of_each_key};
pub use contract::{
    Capabilities, Change, Cursor, Engine, FoundState, GoOn, Operator, TryNext, Updated, Updates,
    Visit, go_on, walk_in_order,
};
pub use driver::{CheckReport, Driver, Footprint, MemoryUse, OpenEngine, PairFootprint, opened};
pub use entry_key::{AsTarget, EntryKey, Target};
pub use error::{Error, InOrder, Result};
pub use health::Health;
pub use host::{Host, stopped};
pub use ingestion::Ingestion;
pub use limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX, check_key, check_value};
pub use lookup::{
    At, DeviceReads, EachLookup, LookedUp, Lookup, PendingLookup, Progress, ReadRequest, ReadSource,
};
pub use newer::refuse_newer;
pub use ranges::Ranges;
pub use reclaim::{DeadRuns, IdleLooks, Look, WaitingDeletes, has_many_tombstones, is_long_run};
pub use reservation::{BlockingWrites, Demand, Reservation, Room, VALUE_BYTES_GUESSED, Wait};
pub use resizable_memory::{MemoryParts, ResizableMemory};
pub use rounds::Rounds;
pub use salvage::{Lost, LostKeys, SalvageSink, Salvaged, as_damage};
pub use sequence::{
    Direction, ForgottenWrites, KeyRange, Pin, RecentWrites, Sequence, Ticket, Watch, WriteConflict,
};
pub use settings::{EngineSettings, Scope, Setting, SettingKind, SettingValue, Settings};
pub use stats::Stats;
pub use superblock::Superblock;
pub use trials::{Trial, Trials};

pub use codec::{Corruption, NewerVersion, SeqNo};
