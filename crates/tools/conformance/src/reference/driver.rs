//! The reference engine as a host lists it.

use std::sync::Arc;

use device::Device;
use engine::{
    Capabilities, CheckReport, Driver, Error, MemoryUse, Op, Result, SalvageSink, Salvaged,
    Settings, Trial, Trials, opened,
};

use super::versions::Pair;
use super::{Reference, snapshot, superblock};

/// The least memory that a store is opened with.
const MEMORY_BYTES_MIN: u64 = 1 << 20;

/// The engine `reference`.
pub static DRIVER: Driver = Driver {
    capabilities: Capabilities {
        name: "reference",
        ordered: true,
        deletes_ranges: true,
        orders_writes: false,
        flush_rewrites_all: true,
        counts_keys: true,
    },
    summary: "a small, slow, correct engine",
    settings: &[],
    defaults: Vec::new,
    open: |host, _settings, dir| opened(Reference::open(host), dir),
    formats: &[snapshot::SNAPSHOT, superblock::SUPERBLOCK],
    opens_without_changes: false,
    check: |device| match pairs(device) {
        Ok((persisted, pairs)) => Ok(CheckReport {
            pairs: pairs.len() as u64,
            pair_bytes: pairs.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum(),
            persisted,
            newest: persisted,
            ..CheckReport::default()
        }),
        Err(Error::Corruption(damage)) => {
            Ok(CheckReport { damage: vec![damage], ..CheckReport::default() })
        }
        Err(error) => Err(error),
    },
    counted: "pairs",
    salvage,
    memory: MemoryUse::Share { least_of_new: MEMORY_BYTES_MIN, least_of: |_| Ok(MEMORY_BYTES_MIN) },
    descriptors: 1,
    opening_bytes: 0,
    rewritten_bytes: |_| Ok(0),
    trials: &Trials {
        crashed: &[Trial::new("reference", || Settings::new(&DRIVER))],
        killed: || Settings::new(&DRIVER),
        work: &[],
    },
};

/// Returns the pairs of the snapshot that counts, and up to which write it has everything.
fn pairs(device: &Arc<dyn Device>) -> Result<(engine::SeqNo, Vec<Pair>)> {
    match superblock::inspect(device)? {
        Some(commit) if commit.generation > 0 => {
            Ok((engine::SeqNo::new(commit.persisted), snapshot::read(device, commit)?))
        }
        _ => Ok((engine::SeqNo::ZERO, Vec::new())),
    }
}

fn salvage(device: &Arc<dyn Device>, take: &mut SalvageSink<'_>) -> Result<Salvaged> {
    let mut salvaged = Salvaged::default();
    let Some((persisted, pairs)) = salvaged.sound(pairs(device), || None)? else {
        return Ok(salvaged);
    };
    salvaged.persisted = persisted;
    for (key, value) in &pairs {
        if take(Op::Put { key, value }).is_break() {
            break;
        }
    }
    Ok(salvaged)
}
