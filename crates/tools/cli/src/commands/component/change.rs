//! Changes of a running cluster: `thermocline cluster keyspace`, `drop`, `move`, `accept-loss`,
//! `drain` and `undrain`.

use coordinator::{Coordinator, Error, LogMode, MakeKeyspace, RemoteStore};
use serde_json::json;
use stoc::RangeId;
use wire::Role;

use super::Change;
use super::node::{Process, of_coordinator};
use crate::commands::Context;
use crate::commands::cluster::arguments::LogName;
use crate::failure::{Failure, Outcome};
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
            let (name, options) = (keyspace.name.clone(), log_mode(keyspace.log).to_options());
            store.make_keyspace(&MakeKeyspace { name, options, splits }).and_then(|()| {
                let ranges = coordinator.keyspace(&keyspace.name)?.ranges.len();
                Ok(format!("keyspace {} has {ranges} ranges", keyspace.name))
            })
        }
        Change::Drop(dropped) => {
            if dropped.confirm != dropped.name {
                return Err(Failure::usage(format_args!(
                    "all data of the keyspace is lost: --confirm has to repeat its name, {}",
                    dropped.name
                )));
            }
            let dropped = &dropped.name;
            coordinator.drop_keyspace(dropped).map(|()| format!("keyspace {dropped} is dropped"))
        }
        Change::Move(moved) => match moved.to {
            Some(target) => move_range((&store, &coordinator), moved.range, target),
            None => cancel_move(&coordinator, moved.range),
        },
        Change::AcceptLoss(accepted) => {
            let range = accepted.range;
            if accepted.confirm != range {
                return Err(Failure::usage(format_args!(
                    "writes that are in no table of the range are lost: --confirm has to repeat its \
                     number, {range}"
                )));
            }
            coordinator
                .give_up_log(RangeId(range))
                .map(|_| format!("the next opening of range {range} gives up its write log"))
        }
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

/// Has a range move to an LTC that the cluster has.
fn move_range(
    (store, coordinator): (&RemoteStore, &Coordinator),
    range: u32,
    target: u32,
) -> coordinator::Result<String> {
    if !coordinator.ltcs()?.iter().any(|(number, _)| *number == target) {
        return Err(Error::NoLtc(target));
    }
    coordinator.move_range(RangeId(range), target)?;
    // Without a leader the move waits, too, and `cluster status` shows that.
    let leases = store.leases().map(|report| report.ltcs).unwrap_or_default();
    let has_lease = leases.iter().any(|it| it.owner.ltc == target && !it.left.is_zero());
    let waits = match has_lease {
        true => String::new(),
        false => format!(
            ", and waits until that LTC has a lease: `cluster move {range} --cancel` ends the wait"
        ),
    };
    Ok(format!("range {range} moves to LTC {target}{waits}"))
}

/// Has a range stay that has not begun to move.
fn cancel_move(coordinator: &Coordinator, range: u32) -> coordinator::Result<String> {
    let owner = coordinator.range(RangeId(range))?.owner.map(|owner| owner.ltc);
    let ltcs = coordinator.ltcs()?;
    let draining = ltcs.iter().find(|(number, ltc)| ltc.is_draining && Some(*number) == owner);
    if let Some((number, _)) = draining {
        return Err(Error::Draining(*number));
    }
    let stays = coordinator.stay(RangeId(range))?;
    let owner = stays.owner.map_or("its LTC".to_owned(), |owner| format!("LTC {}", owner.ltc));
    Ok(format!("range {range} stays at {owner}"))
}

fn log_mode(name: LogName) -> LogMode {
    match name {
        LogName::Durable => LogMode::Durable,
        LogName::Memory => LogMode::Memory,
        LogName::None => LogMode::None,
    }
}
