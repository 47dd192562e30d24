//! The engine as a host lists it, and its settings.

use engine::{Capabilities, CheckReport, Driver, MemoryUse, Scope, SettingKind, opened};

use crate::FORMATS;
use crate::contract::Store;
use crate::options::Options;
use crate::segment_table::Edit;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// The names of [`crate::options::Policy`], in the order of its values.
const POLICIES: &[&str] = &["cost-benefit", "greedy", "greedy-random", "group"];

engine::settings! {
    Options, DRIVER;
    separation_bytes: SettingKind::Number(0, 64 * KIB), "at most 64 KiB", Scope::Keyspace(0),
        "Bytes of key and value below which a pair is kept in the index.";
    segment_bytes_max: SettingKind::PowerOfTwo(64 * KIB, 64 * MIB),
        "a power of two, from 64 KiB to 64 MiB", Scope::Database,
        "Bytes of a segment, at most; fixed when the store is made.";
    groups_max: SettingKind::PowerOfTwo(1, 4096), "a power of two, at most 4096",
        Scope::Database, "Groups, at most; fixed when the store is made.";
    buffer_bytes_max: SettingKind::Number(64 * KIB, 1 << 40), "between 64 KiB and 1 TiB",
        Scope::Database, "Bytes of the write buffers, at most.";
    disk_bytes_max: SettingKind::Number(MIB, 1 << 48), "between 1 MiB and 2^48", Scope::Keyspace(2),
        "Bytes of disk that values take at most, without the index; if not set, no write is refused.";
    reserve_percent: SettingKind::Number(0, 400), "at most 400", Scope::Keyspace(1),
        "Space for garbage, in percent of the live bytes.";
    policy: SettingKind::Word(POLICIES), "cost-benefit, greedy, greedy-random or group",
        Scope::Experiment, "Which segments are collected.";
    table_bytes: SettingKind::Number(KIB, 1 << 30), "between 1 KiB and 1 GiB", Scope::Database,
        "Bytes of the segment table's file after which it is rewritten.";
}

/// Its capabilities.
pub(crate) const CAPABILITIES: Capabilities = Capabilities {
    name: "hashkv",
    ordered: true,
    deletes_ranges: false,
    orders_writes: false,
    flush_rewrites_all: false,
    counts_keys: false,
};

/// The engine `hashkv`.
pub static DRIVER: Driver = Driver {
    capabilities: CAPABILITIES,
    summary: "values in segments by the hash of their keys: ordered, for updates of large values",
    settings: SETTINGS,
    defaults: Options::default_numbers,
    open: |host, settings, dir| opened(Store::open(host, Options::of_settings(settings)), dir),
    formats: FORMATS,
    opens_without_changes: false,
    check: |device| {
        let found = crate::check(device)?;
        Ok(CheckReport {
            pairs: found.pairs,
            pair_bytes: found.pair_bytes,
            persisted: found.persisted,
            newest: found.newest.max(found.persisted),
            damage: found.damage,
            further_damage: 0,
        })
    },
    counted: "pairs",
    salvage: crate::salvage,
    memory: MemoryUse::Share {
        least_of_new: Options::MEMORY_BYTES_MIN,
        least_of: |_| Ok(Options::MEMORY_BYTES_MIN),
    },
    descriptors: 0,
    opening_bytes: 0,
    // The segment table, and the manifest of the index.
    rewritten_bytes: |device| {
        Ok(edits::stored_bytes::<Edit>(device)? + index_rewritten_bytes(device)?)
    },
    trials: &crate::trials::TRIALS,
};

fn index_rewritten_bytes(device: &dyn device::Device) -> engine::Result<u64> {
    match device.exists(crate::INDEX_DIR)? {
        true => (lsm::DRIVER.rewritten_bytes)(&*device.subdevice(crate::INDEX_DIR)?),
        false => Ok(0),
    }
}
