//! A store of ours as the command line names it.
//!
//! It is an engine with the settings that differ from the usual ones, for comparisons of an engine
//! with itself. The settings are those of the engine's table; a hyphen counts as `_`, and a flag
//! without a value is on.
//!
//! ```text
//! f2    f2:single-log    f2:read-cache-bytes=0:chunk-bytes=64    lsm:routing=one:merging=off
//! ```

use std::str::FromStr;

use thermocline::{EngineKind, Settings};

use super::cluster::is_on_cluster;
use super::{StoreError, nova};
use crate::workload::Workload;

/// An engine and its settings.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Variant {
    pub(super) engine: EngineKind,
    pub(super) settings: Settings,
}

/// Returns whether a store by this name is one of ours, with any options after it in a comparison.
pub fn is_ours(name: &str) -> bool {
    let engine = name.split([':', '@']).next().unwrap_or_default();
    is_on_cluster(engine) || engine.parse::<EngineKind>().is_ok()
}

/// Refuses a name that is none of ours, or has settings that do not exist, and a workload that
/// scans a store without order.
pub(crate) fn check(name: &str, workload: &Workload) -> Result<(), StoreError> {
    if is_on_cluster(name) {
        return nova::check_name(name);
    }
    let Variant { engine, .. } = name.parse()?;
    if workload.scans() && !engine.is_ordered() {
        return Err(format!("{workload} scans, and engine {engine} keeps no order").into());
    }
    Ok(())
}

impl FromStr for Variant {
    type Err = StoreError;

    fn from_str(name: &str) -> Result<Self, StoreError> {
        let mut parts = name.split(':');
        let engine: EngineKind = parts.next().unwrap_or_default().parse()?;
        let mut settings = usual(engine);
        for setting in parts {
            let (name, text) = setting.split_once('=').unwrap_or((setting, "on"));
            settings.set(name, text)?;
        }
        let is_on = |name| settings.get(name) == Some(1);
        if is_on("scan_compaction") && !is_on("single_log") {
            return Err("scan-compaction wants single-log".into());
        }
        Ok(Self { engine, settings })
    }
}

/// Returns the settings of an engine in comparisons. Nothing is compressed in any store, and values
/// could not be: trying would only cost time.
fn usual(engine: EngineKind) -> Settings {
    let settings = engine.settings();
    settings.with("compression", "none").unwrap_or(settings)
}

#[cfg(test)]
mod tests;
