//! Each option of a tuning as a number: its name, its allowed values, and how it is shown.
//!
//! # Format
//! An option's number in the catalog is its place in its engine's table here
//! (`docs/formats/catalog.md`). A new option comes last, and none is removed.

use std::ops::RangeInclusive;

use lsm::{Compression, FilterKind};

use super::{F2Tuning, FlexDbTuning, LsmTuning, Tuning};
use crate::options::EngineKind;

/// One option.
pub(super) struct Setting {
    pub(super) name: &'static str,
    /// The allowed values, for people.
    pub(super) allowed: &'static str,
    kind: Kind,
}

enum Kind {
    Number(RangeInclusive<u64>),
    /// Four bits a level, the lowest for Level 0.
    Compression,
    Filter,
}

const LEVEL_BITS: usize = 4;
const COMPRESSION_BITS: usize = LEVEL_BITS * lsm::Options::LEVELS;
const _: () = assert!(COMPRESSION_BITS <= u64::BITS as usize, "one number has all levels");

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

const fn number(name: &'static str, allowed: &'static str, range: RangeInclusive<u64>) -> Setting {
    Setting { name, allowed, kind: Kind::Number(range) }
}

const F2: &[Setting] = &[
    number("chunk_bytes", "between 64 and 4096", 64..=4096),
    number("disk_bytes_max", "between 1 MiB and 2^48", MIB..=1 << 48),
    number("cold_disk_bytes_max", "between 1 MiB and 2^48", MIB..=1 << 48),
];

const LSM: &[Setting] = &[
    Setting { name: "compression", allowed: "one for each level", kind: Kind::Compression },
    Setting { name: "filter", allowed: "a kind of filter", kind: Kind::Filter },
    number("filter_bits_per_key", "between 1 and 32", 1..=32),
    number("block_bytes", "between 512 and 1 MiB", 512..=MIB),
    number("table_bytes", "between 64 KiB and 1 GiB", 64 * KIB..=1 << 30),
    number("level0_tables", "between 1 and 1024", 1..=1024),
    number("level0_tables_slow", "between 1 and 1024", 1..=1024),
    number("level1_bytes", "between 64 KiB and 1 TiB", 64 * KIB..=1 << 40),
    number("level_ratio", "between 2 and 100", 2..=100),
];

const FLEXDB: &[Setting] = &[
    number("interval_pairs", "between 2 and 4096", 2..=4096),
    number("interval_bytes", "between 512 and 1 MiB", 512..=MIB),
];

impl Setting {
    pub(super) fn allows(&self, value: u64) -> bool {
        match &self.kind {
            Kind::Number(range) => range.contains(&value),
            Kind::Compression => compression_of(value).is_some(),
            Kind::Filter => filter_of(value).is_some(),
        }
    }

    pub(super) fn shown(&self, value: u64) -> String {
        match &self.kind {
            Kind::Number(_) => value.to_string(),
            Kind::Compression => compression_of(value).as_ref().map_or_else(String::new, by_level),
            Kind::Filter => match filter_of(value) {
                Some(FilterKind::Ribbon) => "ribbon".to_owned(),
                Some(FilterKind::Bloom) => "bloom".to_owned(),
                None => String::new(),
            },
        }
    }
}

/// As `--compression` takes it: the last one holds for all levels below.
fn by_level(levels: &[Compression; lsm::Options::LEVELS]) -> String {
    let mut names: Vec<&str> = levels.iter().map(|level| level.name()).collect();
    while let [.., above, last] = names.as_slice() {
        if above != last {
            break;
        }
        names.pop();
    }
    names.join(",")
}

/// The options that a keyspace of `engine` may have for itself, by their numbers.
pub(super) const fn of(engine: EngineKind) -> &'static [Setting] {
    match engine {
        EngineKind::F2 => F2,
        EngineKind::Lsm => LSM,
        EngineKind::FlexDb => FLEXDB,
        EngineKind::Memory | EngineKind::HashKv | EngineKind::Nova => &[],
    }
}

/// Returns the options that are set, by ascending number.
pub(super) fn said(tuning: &Tuning) -> impl Iterator<Item = (u8, &'static Setting, u64)> + use<> {
    let values = match tuning {
        Tuning::F2(own) => f2_values(own).to_vec(),
        Tuning::Lsm(own) => lsm_values(own).to_vec(),
        Tuning::FlexDb(own) => flexdb_values(own).to_vec(),
    };
    let known = of(tuning.engine());
    let numbered = (0..).zip(known).zip(values);
    numbered.filter_map(|((number, setting), value)| Some((number, setting, value?)))
}

/// The tuning with these values, each of which is allowed; none of an engine that has none.
pub(super) fn tuning(engine: EngineKind, values: &[Option<u64>]) -> Option<Tuning> {
    let value = |number: usize| values.get(number).copied().flatten();
    // Every allowed value fits.
    let small = |number: usize| value(number).and_then(|value| u32::try_from(value).ok());
    Some(match engine {
        EngineKind::F2 => Tuning::F2(F2Tuning {
            chunk_bytes: small(0),
            disk_bytes_max: value(1),
            cold_disk_bytes_max: value(2),
        }),
        EngineKind::Lsm => Tuning::Lsm(LsmTuning {
            compression: value(0).and_then(compression_of),
            filter: value(1).and_then(filter_of),
            filter_bits_per_key: small(2),
            block_bytes: small(3),
            table_bytes: value(4),
            level0_tables: small(5),
            level0_tables_slow: small(6),
            level1_bytes: value(7),
            level_ratio: small(8),
        }),
        EngineKind::FlexDb => {
            Tuning::FlexDb(FlexDbTuning { interval_pairs: small(0), interval_bytes: small(1) })
        }
        EngineKind::Memory | EngineKind::HashKv | EngineKind::Nova => return None,
    })
}

fn f2_values(own: &F2Tuning) -> [Option<u64>; F2.len()] {
    [own.chunk_bytes.map(u64::from), own.disk_bytes_max, own.cold_disk_bytes_max]
}

fn lsm_values(own: &LsmTuning) -> [Option<u64>; LSM.len()] {
    [
        own.compression.map(|levels| compression_number(&levels)),
        own.filter.map(filter_number),
        own.filter_bits_per_key.map(u64::from),
        own.block_bytes.map(u64::from),
        own.table_bytes,
        own.level0_tables.map(u64::from),
        own.level0_tables_slow.map(u64::from),
        own.level1_bytes,
        own.level_ratio.map(u64::from),
    ]
}

fn flexdb_values(own: &FlexDbTuning) -> [Option<u64>; FLEXDB.len()] {
    [own.interval_pairs.map(u64::from), own.interval_bytes.map(u64::from)]
}

fn compression_number(levels: &[Compression; lsm::Options::LEVELS]) -> u64 {
    let code = |level: &Compression| match level {
        Compression::None => 0,
        Compression::Lz4 => 1,
        Compression::Zstd => 2,
    };
    levels.iter().rev().fold(0, |number, level| (number << LEVEL_BITS) | code(level))
}

fn compression_of(number: u64) -> Option<[Compression; lsm::Options::LEVELS]> {
    if number >> COMPRESSION_BITS != 0 {
        return None;
    }
    let mut levels = [Compression::None; lsm::Options::LEVELS];
    for (index, level) in levels.iter_mut().enumerate() {
        *level = match (number >> (LEVEL_BITS * index)) & ((1 << LEVEL_BITS) - 1) {
            0 => Compression::None,
            1 => Compression::Lz4,
            2 => Compression::Zstd,
            _ => return None,
        };
    }
    Some(levels)
}

const fn filter_number(kind: FilterKind) -> u64 {
    match kind {
        FilterKind::Bloom => 0,
        FilterKind::Ribbon => 1,
    }
}

fn filter_of(number: u64) -> Option<FilterKind> {
    [FilterKind::Bloom, FilterKind::Ribbon].into_iter().find(|kind| filter_number(*kind) == number)
}
