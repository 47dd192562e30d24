//! `thermocline salvage`: a new database of the sound parts of a damaged one; damage exits with 3.

use serde_json::{Value, json};
use thermocline::{Lost, SalvageOutcome, SalvagedKeyspace};

use super::Context;
use crate::arguments::Salvage;
use crate::failure::{Failure, Kind, Outcome};
use crate::output;

pub(super) fn run(context: &Context, arguments: &Salvage) -> Outcome {
    let options = context.settings.database().map_err(Failure::usage)?;
    let dir = &arguments.database.dir;
    let found = thermocline::salvage(dir, &arguments.into, options).map_err(|error| {
        // Only the new database is written.
        if error.is_no_space() {
            let into = arguments.into.display();
            return Failure::new(
                Kind::Error,
                format_args!("{into}: {error}; no database was made"),
            );
        }
        Failure::opening(dir, error)
    })?;
    if context.shared.json {
        output::json_line(&json!({
            "keyspaces": found.keyspaces.iter().map(|one| json!({
                "name": one.name,
                "engine": one.engine.name(),
                "outcome": outcome_name(one.outcome),
                "may_be_outdated": may_be_outdated(one.outcome),
                "lost": one.lost.iter().map(lost_json).collect::<Vec<_>>(),
            })).collect::<Vec<_>>(),
            "journal_records": found.journal_records,
            "damage_count": found.damage_count(),
            "damage": found.damage.iter().map(output::damage).collect::<Vec<_>>(),
        }))?;
    } else {
        for one in &found.keyspaces {
            output::line(&line(one))?;
            for keys in one.lost.iter().filter_map(|lost| lost.keys.as_ref()) {
                output::line(&format!(
                    "lost     of keyspace {}: {keys}, or some of them",
                    one.name
                ))?;
            }
        }
        output::line(&format!("journal  {} writes beyond their files", found.journal_records))?;
        for damage in &found.damage {
            output::line(&format!("damaged  {damage}"))?;
        }
        if found.further_damage > 0 {
            output::line(&format!("damaged  {} more, not listed", found.further_damage))?;
        }
    }
    let into = arguments.into.display();
    match found.damage_count() {
        0 if context.shared.json => Ok(()),
        0 => output::line(&format!("everything was whole, and is in {into}")),
        _ => Err(Failure::new(
            Kind::Damaged,
            format_args!(
                "{into} has what is sound; keys whose newest value is damaged have an older one, or none"
            ),
        )),
    }
}

fn lost_json(lost: &Lost) -> Value {
    let text = |key: &[u8]| key.escape_ascii().to_string();
    json!({
        "damage": output::damage(&lost.damage),
        "keys_from": lost.keys.as_ref().map(|keys| text(&keys.from)),
        "keys_to": lost.keys.as_ref().and_then(|keys| keys.to.as_deref()).map(text),
    })
}

fn outcome_name(outcome: SalvageOutcome) -> &'static str {
    match outcome {
        SalvageOutcome::Copied => "copied",
        SalvageOutcome::Rewritten { .. } => "rewritten",
        SalvageOutcome::LeftOut => "left out",
    }
}

fn may_be_outdated(outcome: SalvageOutcome) -> bool {
    matches!(outcome, SalvageOutcome::Rewritten { may_be_outdated: true, .. })
}

fn line(keyspace: &SalvagedKeyspace) -> String {
    let SalvagedKeyspace { name, engine, outcome, .. } = keyspace;
    match outcome {
        SalvageOutcome::Copied => format!("copied   keyspace {name} ({engine}), which is whole"),
        SalvageOutcome::Rewritten { writes, may_be_outdated } => {
            let back = match may_be_outdated {
                true => "; some keys may have an older value, or be back though they were deleted",
                false => "",
            };
            format!(
                "written  keyspace {name} ({engine}), new from {writes} writes that are sound{back}"
            )
        }
        SalvageOutcome::LeftOut => {
            format!("left out keyspace {name} ({engine}): its files are missing")
        }
    }
}
