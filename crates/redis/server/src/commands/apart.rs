//! Refusals for a store whose databases are apart ([`crate::store::Durable::are_apart`]): a command
//! or transaction stays within one of them.

use super::connection::parse_db;
use super::flags::Flags;
use super::{COMMANDS, Call, Failure};
use crate::session::Queue;
use crate::store::DbIndex;
use crate::store::ranges::two_databases;

/// Checks that a command may use another database than the selected one.
///
/// # Errors
/// The databases are apart.
pub(super) fn check_other(call: &Call<'_>, other: DbIndex) -> Result<(), Failure> {
    let own = call.session.db;
    if own == other || !call.shared.store.are_apart() {
        return Ok(());
    }
    Err(Failure::made(format!("ERR {}", two_databases(own, other))))
}

/// Checks that the commands of a transaction use one database. In a cluster none of them uses all
/// keys: other keys than the named ones are not compared.
///
/// # Errors
/// They use two that are apart, or all keys.
pub(super) fn check_queue(call: &Call<'_>, queue: &Queue) -> Result<(), Failure> {
    if !call.shared.store.are_apart() {
        return Ok(());
    }
    let mut selected = call.session.db;
    let mut used = None;
    let is_gateway = call.shared.is_gateway;
    for (index, args) in &queue.commands {
        let (command, args) = (&COMMANDS[*index], args.args());
        if command.name == "select" {
            // One that cannot be parsed fails when it runs, and selects nothing.
            selected = parse_db(args.at(1)).unwrap_or(selected);
            continue;
        }
        if is_gateway && (command.flags.has(Flags::WALKS) || command.name.starts_with("flush")) {
            return Err(Failure::made(format!(
                "ERR {} uses all keys, and a transaction over the data of a cluster has the keys \
                 that it names",
                command.name
            )));
        }
        let uses = command.flags.has(Flags::WRITE) || command.flags.has(Flags::READ);
        if uses && *used.get_or_insert(selected) != selected {
            let other = used.unwrap_or(selected);
            return Err(Failure::made(format!("ERR {}", two_databases(other, selected))));
        }
    }
    Ok(())
}
