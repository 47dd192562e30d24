//! Changes of a running cluster: `thermocline cluster keyspace`, `move`, `drain` and `undrain`.

use coordinator::{Coordinator, MakeKeyspace};
use serde_json::json;
use stoc::RangeId;
use wire::Role;

use super::Change;
use super::node::{Process, of_coordinator};
use crate::commands::Context;
use crate::failure::Outcome;
use crate::output;

pub(super) fn run(context: &Context, change: &Change<'_>) -> Outcome {
    let process = Process::new(context, Role::Admin)?;
    let node = process.client()?;
    let store = process.store(&node);
    let cluster = process.tls.who().cluster;
    let joined = Coordinator::join(process.store(&node), cluster);
    let coordinator = joined.map_err(|error| of_coordinator(&error))?;
    let done = match change {
        Change::Keyspace(keyspace) => {
            let splits = keyspace.split_at.iter().map(|key| key.clone().into_bytes()).collect();
            let name = keyspace.name.clone();
            store.make_keyspace(&MakeKeyspace { name, options: Vec::new(), splits }).and_then(
                |()| {
                    let ranges = coordinator.keyspace(&keyspace.name)?.ranges.len();
                    Ok(format!("keyspace {} has {ranges} ranges", keyspace.name))
                },
            )
        }
        Change::Move(moved) => known(&coordinator, moved.to).and_then(|()| {
            coordinator.move_range(RangeId(moved.range), moved.to)?;
            Ok(format!("range {} moves to LTC {}", moved.range, moved.to))
        }),
        Change::Drain(ltc, is_draining) => {
            coordinator.drain_ltc(ltc.number, *is_draining).map(|()| match is_draining {
                true => format!("LTC {} leaves its ranges", ltc.number),
                false => format!("LTC {} gets ranges", ltc.number),
            })
        }
    };
    let done = done.map_err(|error| of_coordinator(&error))?;
    if context.shared.json {
        return output::json_line(&json!({ "done": done }));
    }
    if context.shared.quiet {
        return Ok(());
    }
    output::line(&done)
}

/// Refuses an LTC that the cluster does not have.
fn known(coordinator: &Coordinator, ltc: u32) -> coordinator::Result<()> {
    let is_known = coordinator.ltcs()?.iter().any(|(number, _)| *number == ltc);
    if is_known { Ok(()) } else { Err(coordinator::Error::NoLtc(ltc)) }
}
