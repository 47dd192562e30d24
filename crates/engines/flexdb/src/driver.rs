//! The engine as a host lists it, and its settings.

use engine::{Capabilities, CheckReport, Driver, MemoryUse, Scope, SettingKind, opened};

use crate::FORMATS;
use crate::contract::Store;
use crate::options::Options;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Bytes that an opening may write to the space: its log, its tree, and a segment.
const SPACE_BYTES: u64 = 4 << 20;

engine::settings! {
    Options, DRIVER;
    interval_pairs: SettingKind::Number(2, 4096), "between 2 and 4096", Scope::Keyspace(0),
        "Pairs of an interval above which it is split.";
    interval_bytes: SettingKind::Number(512, MIB), "between 512 and 1 MiB", Scope::Keyspace(1),
        "Bytes of an interval above which it is split.";
    memtable_bytes_max: SettingKind::Number(KIB, 1 << 40), "between 1 KiB and 1 TiB",
        Scope::Database, "Bytes of a memtable above which it is sealed and committed.";
    segment_bytes_max: SettingKind::PowerOfTwo(16 * KIB, GIB),
        "a power of two, from 16 KiB to 1 GiB", Scope::Database,
        "Bytes of a segment of the FlexSpace, at most; fixed when the store is made.";
    capacity_bytes: SettingKind::Number(2 * MIB, 1 << 48),
        "between 2 MiB and 2^48, and at least 128 segments", Scope::Database,
        "Bytes that the data file may grow to.";
    defragments_when_idle: SettingKind::Flag, "on or off", Scope::Database,
        "Whether neighbors in many pieces are written as one while the store is idle.";
    damaged_bytes_max: SettingKind::Number(MIB, 2 * GIB), "between 1 MiB and 2 GiB",
        Scope::Database, "Bytes up to which a damaged interval is appended to.";
    stored_intervals_min: SettingKind::Number(0, u64::MAX), "a number", Scope::Database,
        "Intervals from which on a store that is closed writes its index to a file.";
    tail_pairs_max: SettingKind::Number(0, 56), "at most 56", Scope::Experiment,
        "Updates that may be unsorted behind an interval's pairs.";
    fragments_max: SettingKind::Number(1, 1024), "between 1 and 1024", Scope::Experiment,
        "Extents of an interval above which its next update rewrites it as one.";
    tail_percent_max: SettingKind::Number(0, 1000), "at most 1000", Scope::Experiment,
        "Updates behind the pairs of neighbors, in percent, from which on they are rewritten.";
    unscanned_tail_percent_max: SettingKind::Number(0, 1000), "at most 1000", Scope::Experiment,
        "The same if scans read next to nothing of the written data.";
    pairs: SettingKind::Flag, "on or off", Scope::Experiment,
        "Whether single pairs that gets find in intervals are cached.";
    round_updates_max: SettingKind::Number(1, 1 << 20), "between 1 and 2^20", Scope::Experiment,
        "Updates of one interval that a commit plans together.";
    round_bytes_max: SettingKind::Number(KIB, GIB), "between 1 KiB and 1 GiB", Scope::Experiment,
        "Bytes of keys and values above which such a round ends.";
}

/// The engine `flexdb`.
pub static DRIVER: Driver = Driver {
    capabilities: Capabilities {
        name: "flexdb",
        ordered: true,
        deletes_ranges: false,
        orders_writes: false,
        flush_rewrites_all: false,
        counts_keys: false,
    },
    summary: "all pairs sorted in one file, in place: ordered, for reads and scans of small pairs",
    settings: SETTINGS,
    defaults: Options::default_numbers,
    open: |host, settings, dir| opened(Store::open(host, Options::of_settings(settings)), dir),
    formats: FORMATS,
    // The header is in the space, and is read before anything is written.
    opens_without_changes: true,
    check: |device| {
        let found = crate::check(device)?;
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
    salvage: crate::salvage,
    memory: MemoryUse::Share {
        least_of_new: Options::MEMORY_BYTES_MIN,
        least_of: |_| Ok(Options::MEMORY_BYTES_MIN),
    },
    // The space's data, tree, log, superblock, ballast and lock.
    descriptors: 6,
    opening_bytes: SPACE_BYTES,
    rewritten_bytes: |_| Ok(0),
    trials: &crate::trials::TRIALS,
};
