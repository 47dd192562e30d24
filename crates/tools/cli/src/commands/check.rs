//! `thermocline check`: verifies every byte of a database, or of all backups in a directory.
//!
//! The database must be offline. Damage exits with 3.

use std::path::Path;

use serde_json::{Value, json};
use thermocline::{Backups, Checked, Report};

use super::{Context, backup, cluster};
use crate::arguments::Check;
use crate::failure::{Failure, Kind, Outcome};
use crate::output;

pub(super) fn run(context: &Context, arguments: &Check) -> Outcome {
    if let Some(backups) = Backups::find(&arguments.dir)? {
        return check_backups(context, &backups);
    }
    if ltc::is_cluster(&arguments.dir).map_err(|error| cluster::opening(&arguments.dir, &error))? {
        return check_cluster(context, &arguments.dir);
    }
    let report = thermocline::check(&arguments.dir)
        .map_err(|error| Failure::opening(&arguments.dir, error))?;
    if context.shared.json {
        output::json_line(&as_json(&report))?;
    } else {
        for checked in &report.checked {
            output::line(&format!("checked  {checked}"))?;
        }
        for damage in &report.damage {
            output::line(&format!("damaged  {damage}"))?;
        }
        if report.further_damage > 0 {
            output::line(&format!("damaged  {} more, not listed", report.further_damage))?;
        }
    }
    conclude(context, report.damage_count())
}

/// Ends a check by the number of damaged pieces.
fn conclude(context: &Context, damage_count: u64) -> Outcome {
    match damage_count {
        0 if context.shared.json => Ok(()),
        0 => output::line("everything is whole"),
        1 => Err(Failure::new(Kind::Damaged, "1 piece is damaged")),
        count => Err(Failure::new(Kind::Damaged, format_args!("{count} pieces are damaged"))),
    }
}

/// Verifies the coordinator's database and the files of all StoCs.
fn check_cluster(context: &Context, dir: &Path) -> Outcome {
    let report = ltc::check(dir).map_err(|error| cluster::opening(dir, &error))?;
    if context.shared.json {
        let stoc = |(node, checked): &(u32, Option<stoc::Checked>)| match checked {
            None => json!({ "stoc": node, "files": Value::Null }),
            Some(checked) => json!({
                "stoc": node,
                "files": checked.files,
                "bytes": checked.bytes,
                "damage": checked.damage.iter().map(ToString::to_string).collect::<Vec<_>>(),
            }),
        };
        output::json_line(&json!({
            "whole": report.damage_count() == 0,
            "coordinator": as_json(&report.coordinator),
            "stocs": report.stocs.iter().map(stoc).collect::<Vec<_>>(),
        }))?;
    } else {
        for checked in &report.coordinator.checked {
            output::line(&format!("checked  coordinator: {checked}"))?;
        }
        for damage in &report.coordinator.damage {
            output::line(&format!("damaged  coordinator: {damage}"))?;
        }
        for (node, checked) in &report.stocs {
            let Some(stoc::Checked { files, bytes, damage, .. }) = checked else {
                output::line(&format!("missing  StoC {node}"))?;
                continue;
            };
            output::line(&format!("checked  StoC {node}: {files} files, {bytes} bytes"))?;
            for damage in damage {
                output::line(&format!("damaged  StoC {node}: {damage}"))?;
            }
        }
    }
    conclude(context, report.damage_count())
}

/// Continues behind damage, to the next backup.
fn check_backups(context: &Context, backups: &Backups) -> Outcome {
    let (mut whole, mut damaged) = (Vec::new(), Vec::new());
    for number in backups.numbers()? {
        let verified = backup::followed(context, |progress| backups.verify(Some(number), progress));
        match verified {
            Ok(known) => whole.push(known),
            Err(failure) if matches!(failure.kind, Kind::Damaged | Kind::NotFound) => {
                damaged.push(failure.message);
            }
            Err(failure) => return Err(failure),
        }
    }
    if context.shared.json {
        output::json_line(&json!({
            "whole": damaged.is_empty(),
            "backups": whole.iter().map(backup::as_json).collect::<Vec<_>>(),
            "damage": damaged,
        }))?;
    } else {
        for known in &whole {
            output::line(&format!("checked  {}", backup::shown(known)))?;
        }
        for damage in &damaged {
            output::line(&format!("damaged  {damage}"))?;
        }
    }
    match damaged.len() {
        0 if context.shared.json => Ok(()),
        0 => output::line("everything is whole"),
        1 => Err(Failure::new(Kind::Damaged, "1 backup is damaged")),
        count => Err(Failure::new(Kind::Damaged, format_args!("{count} backups are damaged"))),
    }
}

/// Returns the report as JSON; null is a part that the check did not reach.
fn as_json(report: &Report) -> Value {
    let mut catalog = Value::Null;
    let mut journal = Value::Null;
    let mut of_keyspaces = Vec::new();
    for checked in &report.checked {
        match checked {
            Checked::Catalog { keyspaces } => catalog = json!({ "keyspaces": keyspaces }),
            Checked::Journal { records, bytes, segments } => {
                journal = json!({ "records": records, "bytes": bytes, "segments": segments });
            }
            Checked::Keyspace { name, engine, pairs, pair_bytes, persisted } => {
                of_keyspaces.push(json!({
                    "name": name,
                    "engine": engine.name(),
                    "pairs": pairs,
                    "pair_bytes": pair_bytes,
                    "persisted_seqno": persisted.get(),
                }));
            }
        }
    }
    json!({
        "whole": report.is_whole(),
        "catalog": catalog,
        "journal": journal,
        "keyspaces": of_keyspaces,
        "damage_count": report.damage_count(),
        "damage": report.damage.iter().map(output::damage).collect::<Vec<_>>(),
    })
}
