//! The engine as a host lists it, and its settings.

use engine::{Capabilities, CheckReport, Driver, MemoryUse, Salvaged, Scope, SettingKind, opened};

use crate::FORMATS;
use crate::open::memory_bytes_min;
use crate::options::Options;
use crate::store::Store;

const KIB: u64 = 1 << 10;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

engine::settings! {
    Options, DRIVER;
    chunk_bytes: SettingKind::Number(64, 4096), "between 64 and 4096", Scope::NewKeyspace(0),
        "Bytes of a chunk of the cold index.";
    disk_bytes_max: SettingKind::Number(4 * KIB, 1 << 48), "between 4096 and 2^48",
        Scope::Keyspace(1), "Bytes of disk that the hot log should keep within.";
    cold_disk_bytes_max: SettingKind::Number(4 * KIB, 1 << 48), "between 4096 and 2^48",
        Scope::Keyspace(2), "Bytes of disk that the cold log should keep within.";
    log_memory_bytes: SettingKind::Number(4 * KIB, TIB), "between 4096 and 1 TiB",
        Scope::Database, "Bytes of memory that the hot log and the read cache take.";
    read_cache_bytes: SettingKind::Number(0, TIB), "at most 1 TiB", Scope::Database,
        "Bytes of memory for copies of records that were read from the device.";
    page_bytes: SettingKind::PowerOfTwo(4 * KIB, GIB), "a power of two, from 4096 to 1 GiB",
        Scope::Database, "Bytes of a page.";
    segment_bytes: SettingKind::PowerOfTwo(4 * KIB, TIB), "a power of two, from 4096 to 1 TiB",
        Scope::Database, "Bytes of a segment.";
    compaction_threads: SettingKind::Number(1, 64), "between 1 and 64", Scope::Database,
        "The most threads of the pool that a compaction uses.";
    index_bits: SettingKind::Number(1, 30), "between 1 and 30", Scope::Database,
        "A new hot index has 2 to this power buckets.";
    adaptive_split: SettingKind::Flag, "on or off", Scope::Experiment,
        "Whether memory moves between the hot log, the read cache and the digests.";
    chunk_digests: SettingKind::Flag, "on or off", Scope::Experiment,
        "Whether memory may go to digests of the cold index's chunks.";
    mutable_share: SettingKind::Share, "from 0 to 1", Scope::Experiment,
        "The share of the hot log's memory that is updated in place.";
    single_log: SettingKind::Flag, "on or off", Scope::Experiment,
        "One log for everything, as FASTER has it.";
    scan_compaction: SettingKind::Flag, "on or off", Scope::Experiment,
        "With a single log, whether a compaction reads the whole log.";
}

/// The engine `f2`.
pub static DRIVER: Driver = Driver {
    capabilities: Capabilities {
        name: "f2",
        ordered: false,
        deletes_ranges: false,
        orders_writes: true,
        flush_rewrites_all: false,
        counts_keys: false,
    },
    summary: "a hash store over two hybrid logs: single keys, over data larger than memory",
    settings: SETTINGS,
    defaults: Options::default_numbers,
    open: |host, settings, dir| opened(Store::open(host, Options::of_settings(settings)), dir),
    formats: FORMATS,
    opens_without_changes: false,
    check: |device| {
        let found = crate::check(device)?;
        Ok(CheckReport {
            pairs: found.records,
            pair_bytes: found.bytes,
            persisted: found.persisted,
            newest: found.persisted,
            damage: found.damage,
            further_damage: found.further_damage,
        })
    },
    counted: "records, old versions and tombstones too",
    salvage: |device, take| crate::salvage(device, take).map(salvaged),
    memory: MemoryUse::Share {
        least_of_new: Options::MEMORY_BYTES_MIN,
        least_of: memory_bytes_min,
    },
    // A segment of each log stays open from a write to the sync that covers it.
    descriptors: 3,
    opening_bytes: 0,
    rewritten_bytes: |_| Ok(0),
    trials: &crate::trials::TRIALS,
};

fn salvaged(found: crate::SalvageReport) -> Salvaged {
    let mut salvaged = Salvaged {
        persisted: found.report.persisted,
        may_be_outdated: found.has_lost_chunks,
        ..Salvaged::default()
    };
    found.report.damage.into_iter().for_each(|damage| salvaged.lose(damage, None));
    salvaged.further_lost += found.report.further_damage;
    salvaged
}
