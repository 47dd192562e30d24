//! `thermocline check`: verifies every byte of a database, or of all backups in a directory.
//!
//! The database must be offline. Damage exits with 3.

use serde_json::{Value, json};
use thermocline::{Backups, Checked, Report};

use super::{Context, backup};
use crate::arguments::Check;
use crate::failure::{Failure, Kind, Outcome};
use crate::output;

pub(super) fn run(context: &Context, arguments: &Check) -> Outcome {
    if let Some(backups) = Backups::find(&arguments.dir)? {
        return check_backups(context, &backups);
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
    match report.damage_count() {
        0 if context.shared.json => Ok(()),
        0 => output::line("everything is whole"),
        1 => Err(Failure::new(Kind::Damaged, "1 piece is damaged")),
        count => Err(Failure::new(Kind::Damaged, format_args!("{count} pieces are damaged"))),
    }
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
