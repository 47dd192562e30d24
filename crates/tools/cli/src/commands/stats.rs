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
        let expiring = if keyspace.options.expiring { "yes; scan --json shows when" } else { "no" };
        figure("  values may expire", expiring.to_owned())?;
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

/// Returns a figure in the unit that its name ends with. Units below one byte or one millisecond,
/// and thousandths, are followed by the same in a larger unit.
fn shown(name: &str, value: u64) -> String {
    let as_ms = |of_ms: f64| format!("{value} ({:.3} ms)", value as f64 / of_ms);
    let thousandth = value as f64 / 1e3;
    match name.rsplit('_').next() {
        Some("bytes") => human_bytes(value),
        Some("millibytes") if value < 1 << 20 => format!("{value} ({thousandth:.3} bytes)"),
        Some("millibytes") => format!("{value} ({})", human_bytes(value / 1000)),
        Some("permille") => format!("{value} ({thousandth:.3})"),
        Some("us" | "micros") => as_ms(1e3),
        Some("nanos") => as_ms(1e6),
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
        "expiring": keyspace.options.expiring,
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

#[cfg(test)]
mod tests {
    use super::shown;

    #[test]
    fn figures_have_the_unit_of_their_names() {
        assert_eq!(shown("log_bytes", 3 << 20), "3.00 MiB");
        assert_eq!(shown("memory_per_key_millibytes", 252_375_040), "252375040 (246.46 KiB)");
        assert_eq!(shown("memory_per_key_millibytes", 12_345), "12345 (12.345 bytes)");
        assert_eq!(shown("space_amplification_permille", 1_250), "1250 (1.250)");
        assert_eq!(shown("recovery_us", 1_234), "1234 (1.234 ms)");
        assert_eq!(shown("snapshot_micros", 1_234), "1234 (1.234 ms)");
        assert_eq!(shown("slowed_nanos", 2_500_000), "2500000 (2.500 ms)");
        assert_eq!(shown("log_pages", 7), "7");
    }
}
