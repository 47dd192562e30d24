//! `thermocline stats`: figures of a database and its keyspaces.

use serde_json::{Map, Value, json};
use thermocline::KeyspaceStats;

use super::{Context, existing};
use crate::arguments::Stats;
use crate::failure::{Kind, Outcome};
use crate::output::{self, human_bytes};

pub(super) fn run(context: &Context, arguments: &Stats) -> Outcome {
    let stats = context.reading(&arguments.database.dir, |db| {
        let mut stats = db.stats();
        if let Some(wanted) = &arguments.keyspace {
            match existing(db, wanted) {
                // One that is damaged has figures, and says so there.
                Err(failure) if failure.kind != Kind::Damaged => return Err(failure),
                _ => stats.keyspaces.retain(|keyspace| keyspace.name == *wanted),
            }
        }
        Ok(stats)
    })?;
    if context.shared.json {
        let keyspaces: Vec<Value> = stats.keyspaces.iter().map(keyspace_json).collect();
        return output::json_line(&json!({
            "last_seqno": stats.last.get(),
            "disk_bytes": stats.disk_bytes(),
            "journal_bytes": stats.journal.bytes,
            "memory_limit_bytes": stats.memory_limit_bytes,
            "memory_used_bytes": stats.memory_used_bytes,
            "device": stats.device,
            "opening": {
                "read_ops": stats.io.read_ops,
                "read_bytes": stats.io.read_bytes,
                "write_ops": stats.io.write_ops,
                "write_bytes": stats.io.write_bytes,
                "syncs": stats.io.syncs,
            },
            "keyspaces": keyspaces,
        }));
    }
    let figure = |name: &str, value: String| output::line(&format!("{name:<20} {value}"));
    figure("newest write", stats.last.get().to_string())?;
    figure("on disk", human_bytes(stats.disk_bytes()))?;
    figure("  of it journal", human_bytes(stats.journal.bytes))?;
    let used = human_bytes(stats.memory_used_bytes);
    figure("memory", format!("{used} of {}", human_bytes(stats.memory_limit_bytes)))?;
    figure("device", stats.device.to_owned())?;
    for keyspace in &stats.keyspaces {
        output::line("")?;
        figure("keyspace", keyspace.name.clone())?;
        figure("  engine", keyspace.options.engine.to_string())?;
        figure("  journaled", keyspace.options.journaled.to_string())?;
        let ends = if keyspace.options.values_end { "yes; scan --json shows when" } else { "no" };
        figure("  values may end", ends.to_owned())?;
        if let Some(settings) = keyspace.options.settings {
            figure("  its own options", settings.to_string())?;
        }
        let unknown = || "not counted".to_owned();
        figure("  keys", keyspace.engine.live_keys.map_or_else(unknown, |n| n.to_string()))?;
        figure("  live", keyspace.engine.live_bytes.map_or_else(unknown, human_bytes))?;
        figure("  memory", human_bytes(keyspace.engine.memory_bytes))?;
        if let Some(share) = keyspace.memory_share_bytes {
            figure("  share of memory", human_bytes(share))?;
        }
        figure("  on disk", human_bytes(keyspace.engine.disk_bytes))?;
        figure("  persisted up to", keyspace.persisted.get().to_string())?;
        for error in &keyspace.background_errors {
            figure("  background error", error.to_string())?;
        }
        for (name, value) in sizes(keyspace) {
            output::line(&format!("    {name:<34} {}", shown(name, value)))?;
        }
        if !keyspace.engine.running.is_empty() {
            figure("  rates and progress", "only a server knows: INFO, or its metrics".to_owned())?;
        }
    }
    Ok(())
}

/// Returns the figures of an engine that was opened only for them. Its counters have counted the
/// opening alone, and are left out.
fn sizes(keyspace: &KeyspaceStats) -> impl Iterator<Item = (&'static str, u64)> {
    let engine = &keyspace.engine;
    engine.detail.iter().filter(|(name, _)| !engine.running.contains(name)).copied()
}

/// A figure in its unit, which its name ends with.
fn shown(name: &str, value: u64) -> String {
    let thousandth = value as f64 / 1000.0;
    match name.rsplit('_').next() {
        Some("bytes") => human_bytes(value),
        Some("millibytes") if value < 1 << 20 => format!("{thousandth:.3} bytes"),
        Some("millibytes") => human_bytes(value / 1000),
        Some("permille") => format!("{thousandth:.3}"),
        Some("us") => format!("{thousandth:.3} ms"),
        _ => value.to_string(),
    }
}

fn keyspace_json(keyspace: &KeyspaceStats) -> Value {
    let detail: Map<String, Value> =
        sizes(keyspace).map(|(name, value)| (name.to_owned(), json!(value))).collect();
    let said = keyspace.options.settings.iter().flat_map(|settings| settings.iter());
    let settings: Map<String, Value> = said
        .map(|(setting, value)| (setting.name.to_owned(), json!(setting.shown(value))))
        .collect();
    json!({
        "name": keyspace.name,
        "engine": keyspace.options.engine.name(),
        "journaled": keyspace.options.journaled,
        "values_end": keyspace.options.values_end,
        "own_options": settings,
        "persisted_seqno": keyspace.persisted.get(),
        "live_keys": keyspace.engine.live_keys,
        "live_bytes": keyspace.engine.live_bytes,
        "memory_bytes": keyspace.engine.memory_bytes,
        "memory_share_bytes": keyspace.memory_share_bytes,
        "disk_bytes": keyspace.engine.disk_bytes,
        "background_errors": keyspace.background_errors.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "detail": detail,
        "only_while_running": keyspace.engine.running,
    })
}
