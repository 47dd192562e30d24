//! An engine as its host sees it: one static for each engine.
//!
//! The host has a list of these. All that it knows of an engine before the engine is open comes
//! from here, so that a new engine is one more entry of that list.

use std::fmt;
use std::sync::Arc;

use codec::{Corruption, Format, SeqNo};
use device::Device;

use crate::contract::{Capabilities, Engine};
use crate::error::Result;
use crate::host::Host;
use crate::placed::Placed;
use crate::salvage::{SalvageSink, Salvaged};
use crate::settings::{Setting, Settings};
use crate::trials::Trials;

/// Opens an engine in the host's device. `dir` is the directory of the device in the database: the
/// engine is returned as [`opened`] returns it.
pub type OpenEngine = fn(host: Host, settings: &Settings, dir: &str) -> Result<Box<dyn Engine>>;

/// Returns the bytes of memory of a pair whose key and value have these lengths.
pub type PairFootprint = fn(usize, usize) -> u64;

/// An entry in the list of engines: all that a host knows of an engine before it is open.
pub struct Driver {
    /// The capabilities of its stores, and its name.
    pub capabilities: Capabilities,
    /// Its purpose, in one sentence.
    pub summary: &'static str,
    /// Its settings. The number of a setting in the catalog never changes.
    pub settings: &'static [Setting],
    /// Returns the defaults of the settings, in their order; none where the default follows from
    /// the memory.
    pub defaults: fn() -> Vec<Option<u64>>,
    /// Opens a store, or makes one. The new store is durable when this returns, with a file
    /// [`Superblock::NAME`]: a directory of a keyspace without that file is damaged.
    ///
    /// [`Superblock::NAME`]: crate::Superblock::NAME
    pub open: OpenEngine,
    /// The formats of its files. A host refuses files that a newer release wrote by these, before
    /// it opens any store.
    pub formats: &'static [Format],
    /// Whether an opening that fails changes no file. A host opens such stores first.
    pub opens_without_changes: bool,
    /// Verifies every byte of a store that is not open; changes nothing. Damage is no error: the
    /// report lists it.
    pub check: fn(&Arc<dyn Device>) -> Result<CheckReport>,
    /// The unit of [`CheckReport::pairs`], in words.
    pub counted: &'static str,
    /// Reads all that is sound in a damaged store.
    pub salvage: fn(&Arc<dyn Device>, &mut SalvageSink<'_>) -> Result<Salvaged>,
    /// Its use of memory.
    pub memory: MemoryUse,
    /// Descriptors that a store holds while it is open. Files beyond these are opened when they are
    /// used, and closed when the process wants their descriptors.
    pub descriptors: u64,
    /// Bytes on the device that an opening may need, besides [`Driver::rewritten_bytes`] and those
    /// for the writes that it replays.
    pub opening_bytes: u64,
    /// Returns the bytes of files that an opening may write again. Changes nothing.
    pub rewritten_bytes: fn(&dyn Device) -> Result<u64>,
    /// Stores of small parts, for tests.
    pub trials: &'static Trials,
}

/// The use of memory by an engine.
#[derive(Clone, Copy, Debug)]
pub enum MemoryUse {
    /// Its data may be larger than memory. A store gets a share of the memory when it is opened,
    /// and may use all of it.
    Share {
        /// The least share of a new store, in bytes.
        least_of_new: u64,
        /// Returns the least share of a store that is there. Reads a few blocks.
        least_of: fn(&dyn Device) -> Result<u64>,
    },
    /// All data of a store are in memory, and nothing of a write is on the device before a flush.
    Data {
        /// Returns the footprint of a store that is there. Reads a few blocks.
        footprint: fn(&dyn Device) -> Result<Footprint>,
        /// Returns the bytes of memory of a pair whose key and value have these lengths.
        pair_footprint: PairFootprint,
    },
}

/// The memory that a store will take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footprint {
    /// About how many bytes of memory its files take once it is opened; zero if there are none.
    pub bytes: u64,
    /// Every write up to here is in the files.
    pub persisted: SeqNo,
}

/// The result of a check of a store's files.
#[derive(Clone, Debug, Default)]
pub struct CheckReport {
    /// Pairs, or entries, that were verified ([`Driver::counted`]).
    pub pairs: u64,
    /// Bytes of their keys and values.
    pub pair_bytes: u64,
    /// Every write up to this is in the files.
    pub persisted: SeqNo,
    /// The newest write of which anything is in them, as far as the engine numbers its data.
    pub newest: SeqNo,
    /// Each piece that differs from the written one, with its place; if there are many, the first
    /// ones.
    pub damage: Vec<Corruption>,
    /// How many more there are.
    pub further_damage: u64,
}

impl Driver {
    /// Returns the engine's name, as users write it and as the catalog stores it.
    pub const fn name(&self) -> &'static str {
        self.capabilities.name
    }

    /// Returns whether a store gets a share of the memory ([`MemoryUse::Share`]).
    pub const fn has_share(&self) -> bool {
        matches!(self.memory, MemoryUse::Share { .. })
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("name", &self.name()).finish_non_exhaustive()
    }
}

/// Returns an engine that was opened in `dir` of a database. Its errors, and the one of the
/// opening, name files with the directory.
///
/// # Errors
/// That of `opened`.
pub fn opened<E: Engine + 'static>(opened: Result<E>, dir: &str) -> Result<Box<dyn Engine>> {
    let engine = opened.map_err(|error| error.in_dir(dir))?;
    Ok(Box::new(Placed::new(engine, dir)))
}
