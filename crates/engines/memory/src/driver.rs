//! The engine as a host lists it, and its settings.

use engine::{Capabilities, CheckReport, Driver, MemoryUse, Scope, SettingKind, opened};

use crate::FORMATS;
use crate::open::{footprint, pair_footprint};
use crate::options::Options;
use crate::store::Store;

engine::settings! {
    Options, DRIVER;
    snapshot_block_bytes: SettingKind::Number(4 << 10, 1 << 30), "between 4 KiB and 1 GiB",
        Scope::Database, "Bytes of pairs after which a snapshot's block is written.";
}

/// The engine `memory`.
pub static DRIVER: Driver = Driver {
    capabilities: Capabilities {
        name: "memory",
        ordered: true,
        deletes_ranges: true,
        orders_writes: false,
        flush_rewrites_all: true,
        counts_keys: true,
    },
    summary: "an ordered map in memory, journaled and snapshotted: for data that fits",
    settings: SETTINGS,
    defaults: Options::default_numbers,
    open: |host, settings, dir| opened(Store::open(host, Options::of_settings(settings)), dir),
    formats: FORMATS,
    opens_without_changes: false,
    check: |device| {
        let found = crate::check(&**device)?;
        Ok(CheckReport {
            pairs: found.pairs,
            pair_bytes: found.pair_bytes,
            persisted: found.persisted,
            newest: found.persisted,
            damage: found.damage,
            further_damage: 0,
        })
    },
    counted: "pairs",
    salvage: |device, take| crate::salvage(&**device, take),
    memory: MemoryUse::Data { footprint, pair_footprint },
    descriptors: 0,
    opening_bytes: 0,
    rewritten_bytes: |_| Ok(0),
    trials: &crate::trials::TRIALS,
};
