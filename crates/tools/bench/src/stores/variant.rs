//! A store of ours as the command line names it.
//!
//! It is an engine with the options that differ from the usual ones, for comparisons of an engine
//! with itself.
//!
//! ```text
//! f2    f2:single-log    f2:read-cache=0:chunk-bytes=64    lsm:dranges=off:merging=off    flexdb:tail=0
//! ```

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use thermocline::{EngineKind, f2, flexdb, lsm};

use super::{StoreError, WordError};
use crate::workload::Workload;

/// An engine and its options.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Variant {
    pub(super) engine: EngineKind,
    pub(super) f2: f2::Options,
    pub(super) lsm: lsm::Options,
    pub(super) flexdb: flexdb::Options,
}

const LSM_SETTINGS: &str = "dranges=off, dranges=random, lookup-index=off, range-index=off, \
                            merging=off, duplicates=off, pairs=off or tidying=off";
const FLEXDB_SETTINGS: &str = "tail=COUNT, tail-percent=PERCENT, unscanned-percent=PERCENT, fragments=COUNT, \
                               interval-pairs=COUNT, memtable-bytes=BYTES, pairs=off or tidying=off";
const SETTINGS: &str = "single-log, scan-compaction, read-cache=BYTES, chunk-bytes=BYTES, digests=off, \
                        threads=COUNT, mutable-share=SHARE, disk-bytes=BYTES or cold-disk-bytes=BYTES";

/// Returns whether a store by this name is one of ours, with any options after it in a comparison.
pub fn is_ours(name: &str) -> bool {
    let engine = name.split([':', '@']).next().unwrap_or_default();
    engine.parse::<EngineKind>().is_ok()
}

/// Refuses a name that is none of ours, or has settings that do not exist, and a workload that
/// scans a store without order.
pub(crate) fn check(name: &str, workload: &Workload) -> Result<(), StoreError> {
    let Variant { engine, .. } = name.parse()?;
    if !engine.is_built() {
        return Err(thermocline::Error::NotBuilt { engine }.into());
    }
    if workload.scans() && !engine.is_ordered() {
        return Err(format!("{workload} scans, and engine {engine} keeps no order").into());
    }
    Ok(())
}

fn within<T>(text: &str, range: RangeInclusive<T>) -> Result<T, StoreError>
where
    T: FromStr + PartialOrd + fmt::Display,
    T::Err: std::error::Error + Send + Sync + 'static,
{
    let value = text.parse()?;
    match range.contains(&value) {
        true => Ok(value),
        false => Err(format!("{value}: want {} to {}", range.start(), range.end()).into()),
    }
}

impl FromStr for Variant {
    type Err = StoreError;

    fn from_str(name: &str) -> Result<Self, StoreError> {
        let mut parts = name.split(':');
        let engine: EngineKind = parts.next().unwrap_or_default().parse()?;
        let (mut f2, mut lsm) = (f2::Options::default(), uncompressed());
        let mut flexdb = flexdb::Options::default();
        for setting in parts {
            let unknown = || WordError::new(setting, SETTINGS);
            if engine == EngineKind::Lsm {
                set_of_lsm(&mut lsm, setting)?;
                continue;
            }
            if engine == EngineKind::FlexDb {
                set_of_flexdb(&mut flexdb, setting)?;
                continue;
            }
            if engine != EngineKind::F2 {
                return Err(WordError::new(setting, "no settings but of f2, lsm and flexdb").into());
            }
            match setting.split_once('=') {
                None if setting == "single-log" => f2.single_log = true,
                None if setting == "scan-compaction" => f2.scan_compaction = true,
                Some(("digests", "off")) => f2.chunk_digests = false,
                Some(("read-cache", bytes)) => f2.read_cache_bytes = Some(bytes.parse()?),
                Some(("chunk-bytes", bytes)) => f2.chunk_bytes = within(bytes, 64..=4096)?,
                Some(("threads", count)) => f2.compaction_threads = within(count, 1..=64)?,
                Some(("mutable-share", share)) => f2.mutable_share = within(share, 0.0..=1.0)?,
                Some(("disk-bytes", bytes)) => f2.disk_bytes_max = Some(bytes.parse()?),
                Some(("cold-disk-bytes", bytes)) => f2.cold_disk_bytes_max = Some(bytes.parse()?),
                _ => return Err(unknown().into()),
            }
        }
        if f2.scan_compaction && !f2.single_log {
            return Err("scan-compaction wants single-log".into());
        }
        Ok(Self { engine, f2, lsm, flexdb })
    }
}

/// Nothing is compressed in any store, and values could not be: trying would only cost time.
fn uncompressed() -> lsm::Options {
    lsm::Options { compression: vec![lsm::Compression::None], ..lsm::Options::default() }
}

fn set_of_lsm(lsm: &mut lsm::Options, setting: &str) -> Result<(), WordError> {
    match setting {
        "dranges=off" => lsm.routing = lsm::Routing::One,
        "dranges=random" => lsm.routing = lsm::Routing::Random,
        "lookup-index=off" => lsm.lookup_index_bytes_max = 0,
        "range-index=off" => lsm.range_index = false,
        "merging=off" => lsm.merging = false,
        "duplicates=off" => lsm.duplicates = false,
        "pairs=off" => lsm.pairs = false,
        "tidying=off" => lsm.tidies_when_idle = false,
        _ => return Err(WordError::new(setting, LSM_SETTINGS)),
    }
    Ok(())
}

fn set_of_flexdb(flexdb: &mut flexdb::Options, setting: &str) -> Result<(), StoreError> {
    match setting.split_once('=') {
        Some(("tail", count)) => flexdb.tail_pairs_max = count.parse()?,
        Some(("tail-percent", percent)) => flexdb.tail_percent_max = percent.parse()?,
        Some(("unscanned-percent", percent)) => {
            flexdb.unscanned_tail_percent_max = percent.parse()?
        }
        Some(("fragments", count)) => flexdb.fragments_max = count.parse()?,
        Some(("pairs", "off")) => flexdb.pairs = false,
        Some(("tidying", "off")) => flexdb.tidies_when_idle = false,
        Some(("interval-pairs", count)) => flexdb.interval_pairs = within(count, 2..=1024)?,
        Some(("memtable-bytes", bytes)) => flexdb.memtable_bytes_max = bytes.parse()?,
        _ => return Err(WordError::new(setting, FLEXDB_SETTINGS).into()),
    }
    Ok(())
}

#[cfg(test)]
mod tests;
