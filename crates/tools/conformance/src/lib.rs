//! The conformance suite, generic over engines.
//!
//! An engine's author says how to open the engine and how to check its files, and gets every test
//! that the other engines have. In a test file of the engine's crate:
//!
//! ```
//! use std::sync::Arc;
//! use engine::{Engine, Host, Result};
//! use thermocline_conformance as conformance;
//! # use conformance::reference as mine;
//!
//! struct Mine;
//! impl conformance::Fixture for Mine {
//!     fn name(&self) -> &'static str { "mine" }
//!     fn open(&self, host: Host) -> Result<Arc<dyn Engine>> {
//!         Ok(Arc::new(mine::Reference::open(host)?))
//!     }
//!     fn check(&self, device: &Arc<dyn device::Device>) -> Result<()> { mine::check(device) }
//! }
//! conformance::suite!(Mine);
//! # fn main() {}
//! ```
//!
//! | check | holds the engine to |
//! |---|---|
//! | `model` | a map of all versions, over random operations that print, replay and shrink |
//! | `budget` | the same, with little memory: a refusal changes nothing |
//! | `reservations` | room that is reserved: none is spent beyond it, and none is left over |
//! | `waits` | each device operation held up in turn: `lookup` and `apply` return |
//! | `registers` | linearizability of each key, with several threads and a concurrent flush |
//! | `counters` | read-modify-writes that add up |
//! | `snapshots` | views of whole batches, none missed, however often they are asked |
//! | `crashes` | prefix recovery on a simulated disk, with power cuts also during recovery |
//! | `crowd` | the same after several threads wrote and flushed concurrently |
//! | `errors` | every I/O of a workload failing, once and for good |
//! | `out_of_files` | a process that may open no more files, at each operation |
//! | `unavailable` | the place of every read that cannot be reached: no store stops for good |
//! | `damage` | every sector flipped or zeroed: right data, or an error with the place |
//! | `determinism` | one seed, one trace |
//!
//! `THERMOCLINE_SEED` and `THERMOCLINE_CASES` choose the first seed and how many cases each check
//! runs; a failure prints the command that shows it again.
//!
//! The suite is itself tested: [`mod@reference`] is a small correct engine that passes, and the
//! engines of [`broken`], each with one planted bug, must fail.

mod arguments;
mod bench;
pub mod broken;
pub mod cold;
mod concurrent;
pub mod crash;
mod damage;
mod database;
pub mod deletes;
mod draw;
mod errors;
mod failure;
mod fixture;
mod host;
mod in_flight;
pub mod ledger;
pub mod linearizable;
mod model;
mod operation;
mod out_of_files;
pub mod reference;
mod reservations;
pub mod resident;
pub mod resized;
pub mod salvaged;
mod sequential;
pub mod session;
mod suite;
mod text;
mod trace;
#[cfg(shuttle)]
pub mod waiting_writers;
mod waits;

pub use arguments::Arguments;
pub use bench::{Bench, Cranked, Journaled, Pairs, cranked_host, detail, key, scan};
pub use failure::Failure;
pub use fixture::{Fixture, TrialFixture};
pub use in_flight::{Ended, InFlight, LookupStart};
pub use model::{Model, Pair};
pub use operation::{Generator, Operation, Profile, Step, Tweak};
pub use suite::{Check, Suite, assert_conforms};
pub use trace::Trace;
