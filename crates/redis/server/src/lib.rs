//! The front door for Redis clients: RESP2 and RESP3 over TCP, on a Thermocline database.
//!
//! ```text
//!  clients ──► event loop 0..n ──► parser ──► dispatch ──► handler ──► Store ──► Db
//!                  │   one turn: read all, execute all,       │
//!                  │   wait once for durability, reply        ├─ gate: with others, or alone
//!                  ▼                                          └─ watches, expiry
//!              replies
//! ```
//!
//! To follow a command, start at `event_loop::EventLoop::run`, then
//! `connection::Connection::serve`, then `commands::dispatch`. Commands that wait, for the device
//! or for room, or have much to do run on threads (`event_loop::command_threads`). `docs/redis.md`
//! lists the differences from Redis, `docs/formats/expiring-value.md` defines how values are
//! stored.
//!
//! # Invariants
//! - I1. A reply leaves only when every write that it shows has the durability that the server was
//!   started with ([`Options::durability`]).
//! - I2. Commands take effect one at a time per key; a command over several keys, and a
//!   transaction, take effect at one moment for all clients.
//! - I3. No client makes the process grow beyond [`Options::client_memory_bytes`] by more than one
//!   request and 64 KiB of replies per thread. The changes of a transaction, which are not counted
//!   in it, are bounded by the room of the store.

mod bound;
mod buffer;
mod client_memory;
mod clients;
mod commands;
mod connection;
mod event_loop;
mod gate;
mod glob;
mod key_marks;
mod metrics;
mod open_files;
mod options;
mod process;
mod protocol;
mod rates;
mod retired;
mod saving;
mod scan_cursors;
mod server;
mod session;
mod shared;
mod stats;
mod store;
mod watch;
mod write_status;

#[cfg(test)]
mod tests;

pub use bound::Bound;
pub use glob::glob_matches;
pub use metrics::{MetricsListener, MetricsServer};
pub use options::{Durability, EngineKind, Options, Secret};
pub use protocol::parser::{count_commands, parse_in_pieces};
pub use server::{Error, Server, Stopper};
pub use store::database::is_database_name;
pub use store::ranges::Databases;
