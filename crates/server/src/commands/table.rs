//! The table of commands: names, arities, flags, handlers. COMMAND is answered from it.

use std::sync::LazyLock;

use super::call::Handler;
use super::command::Command;
use super::flags::{Flags, KeyPlaces};
use super::{client, command, config, connection, counters, expiry, info, keys, scan};
use super::{server, set, strings, transactions};

const READ: Flags = Flags::READ.and(Flags::FAST);
const SLOW_READ: Flags = Flags::READ;
/// Writes that make data smaller, or not larger by much.
const CHANGE: Flags = Flags::WRITE.and(Flags::FAST);
const GROW: Flags = Flags::WRITE.and(Flags::GROWS).and(Flags::FAST);
const FLUSH: Flags = Flags::WRITE.and(Flags::ALONE);
const CONNECTION: Flags = Flags::FAST.and(Flags::SMALL);
const GREETING: Flags = Flags::FAST.and(Flags::SMALL).and(Flags::NO_AUTH);
const AT_ONCE: Flags = Flags::FAST.and(Flags::SMALL).and(Flags::NOT_QUEUED);
const ADMIN: Flags = Flags::ADMIN.and(Flags::SMALL);

/// A row of the table.
const fn row(
    name: &'static str,
    arity: i32,
    flags: Flags,
    keys: KeyPlaces,
    since: &'static str,
    (group, summary): (&'static str, &'static str),
    handler: Handler,
) -> Command {
    Command { name, arity, flags, keys, group, since, summary, handler }
}

const fn string(summary: &'static str) -> (&'static str, &'static str) {
    ("string", summary)
}

const fn generic(summary: &'static str) -> (&'static str, &'static str) {
    ("generic", summary)
}

const fn conn(summary: &'static str) -> (&'static str, &'static str) {
    ("connection", summary)
}

const fn admin(summary: &'static str) -> (&'static str, &'static str) {
    ("server", summary)
}

const fn multi(summary: &'static str) -> (&'static str, &'static str) {
    ("transactions", summary)
}

use KeyPlaces as K;

/// Every command. One line each, longer than other code's lines: it is read as a table.
#[rustfmt::skip]
pub(crate) static COMMANDS: &[Command] = &[
    row("get", 2, READ, K::ONE, "1.0.0", string("Reads a value."), strings::get),
    row("set", -3, GROW, K::ONE, "1.0.0", string("Writes a value, perhaps on a condition, perhaps with an expiry."), set::set),
    row("setnx", 3, GROW, K::ONE, "1.0.0", string("Writes a value if the key is absent."), strings::setnx),
    row("setex", 4, GROW, K::ONE, "2.0.0", string("Writes a value that ends after some seconds."), set::setex),
    row("psetex", 4, GROW, K::ONE, "2.6.0", string("Writes a value that ends after some milliseconds."), set::psetex),
    row("getset", 3, GROW, K::ONE, "1.0.0", string("Writes a value and reads the one before."), strings::getset),
    row("getdel", 2, CHANGE, K::ONE, "6.2.0", string("Reads a value and removes its key."), strings::getdel),
    row("getex", -2, CHANGE, K::ONE, "6.2.0", string("Reads a value and changes its expiry."), set::getex),
    row("mget", -2, READ, K::ALL, "1.0.0", string("Reads several values at one moment."), strings::mget),
    row("mset", -3, GROW, K::PAIRS, "1.0.1", string("Writes several values as one."), strings::mset),
    row("msetnx", -3, GROW, K::PAIRS, "1.0.1", string("Writes several values as one if all keys are absent."), strings::msetnx),
    row("strlen", 2, READ, K::ONE, "2.2.0", string("Tells a value's length."), strings::strlen),
    row("append", 3, GROW, K::ONE, "2.0.0", string("Puts bytes behind a value."), strings::append),
    row("getrange", 4, SLOW_READ, K::ONE, "2.4.0", string("Reads a part of a value."), strings::getrange),
    row("substr", 4, SLOW_READ, K::ONE, "1.0.0", string("Reads a part of a value; the old name of GETRANGE."), strings::getrange),
    row("setrange", 4, GROW, K::ONE, "2.2.0", string("Overwrites a part of a value."), strings::setrange),
    row("incr", 2, GROW, K::ONE, "1.0.0", string("Adds one to an integer."), counters::incr),
    row("decr", 2, GROW, K::ONE, "1.0.0", string("Takes one from an integer."), counters::decr),
    row("incrby", 3, GROW, K::ONE, "1.0.0", string("Adds to an integer."), counters::incrby),
    row("decrby", 3, GROW, K::ONE, "1.0.0", string("Takes from an integer."), counters::decrby),
    row("incrbyfloat", 3, GROW, K::ONE, "2.6.0", string("Adds to a decimal number."), counters::incrbyfloat),
    row("del", -2, CHANGE, K::ALL, "1.0.0", generic("Removes keys."), keys::del),
    row("unlink", -2, CHANGE, K::ALL, "4.0.0", generic("Removes keys."), keys::del),
    row("exists", -2, READ, K::ALL, "1.0.0", generic("Counts which of the keys are present."), keys::exists),
    row("touch", -2, READ, K::ALL, "3.2.1", generic("Counts which of the keys are present."), keys::touch),
    row("type", 2, READ, K::ONE, "1.0.0", generic("Tells what kind of value a key has."), keys::key_type),
    row("rename", 3, CHANGE, K::TWO, "1.0.0", generic("Moves a value to another key."), keys::rename),
    row("renamenx", 3, CHANGE, K::TWO, "1.0.0", generic("Moves a value to another key that is absent."), keys::renamenx),
    row("copy", -3, GROW, K::TWO, "6.2.0", generic("Copies a value to another key."), keys::copy),
    row("expire", -3, CHANGE, K::ONE, "1.0.0", generic("Lets a key end after some seconds."), expiry::expire),
    row("pexpire", -3, CHANGE, K::ONE, "2.6.0", generic("Lets a key end after some milliseconds."), expiry::pexpire),
    row("expireat", -3, CHANGE, K::ONE, "1.2.0", generic("Lets a key end at a Unix time in seconds."), expiry::expireat),
    row("pexpireat", -3, CHANGE, K::ONE, "2.6.0", generic("Lets a key end at a Unix time in milliseconds."), expiry::pexpireat),
    row("persist", 2, CHANGE, K::ONE, "2.2.0", generic("Takes a key's expiry away."), expiry::persist),
    row("ttl", 2, READ, K::ONE, "1.0.0", generic("Tells the seconds until a key ends."), expiry::ttl),
    row("pttl", 2, READ, K::ONE, "2.6.0", generic("Tells the milliseconds until a key ends."), expiry::pttl),
    row("expiretime", 2, READ, K::ONE, "7.0.0", generic("Tells the Unix time in seconds at which a key ends."), expiry::expiretime),
    row("pexpiretime", 2, READ, K::ONE, "7.0.0", generic("Tells the Unix time in milliseconds at which a key ends."), expiry::pexpiretime),
    row("scan", -2, SLOW_READ, K::NONE, "2.8.0", generic("Walks over the keys in steps."), scan::scan),
    row("keys", 2, SLOW_READ.and(Flags::ALONE), K::NONE, "1.0.0", generic("Lists the keys that match a pattern."), scan::keys),
    row("randomkey", 1, SLOW_READ, K::NONE, "1.0.0", generic("Picks some key."), scan::randomkey),
    row("object", -2, SLOW_READ, K { first: 2, last: 2, step: 1 }, "2.2.3", generic("Tells how a value is kept."), keys::object),
    row("memory", -2, SLOW_READ, K { first: 2, last: 2, step: 1 }, "4.0.0", admin("Estimates what a key costs."), keys::memory),
    row("dbsize", 1, READ, K::NONE, "1.0.0", admin("Counts the keys of the database."), keys::dbsize),
    row("flushdb", -1, FLUSH, K::NONE, "1.0.0", admin("Removes all keys of the database."), keys::flushdb),
    row("flushall", -1, FLUSH, K::NONE, "1.0.0", admin("Removes all keys of all databases."), keys::flushall),
    row("multi", 1, AT_ONCE, K::NONE, "1.2.0", multi("Begins a transaction."), transactions::multi),
    row("exec", 1, AT_ONCE.and(Flags::ALONE), K::NONE, "1.2.0", multi("Executes the queued commands as one."), transactions::exec),
    row("discard", 1, AT_ONCE, K::NONE, "2.0.0", multi("Drops the queued commands."), transactions::discard),
    row("watch", -2, Flags::FAST.and(Flags::NOT_QUEUED).and(Flags::ALONE), K::ALL, "2.2.0", multi("Makes the next EXEC depend on keys staying as they are."), transactions::watch),
    row("unwatch", 1, CONNECTION, K::NONE, "2.2.0", multi("Forgets what was watched."), transactions::unwatch),
    row("ping", -1, CONNECTION, K::NONE, "1.0.0", conn("Answers."), connection::ping),
    row("echo", 2, Flags::FAST, K::NONE, "1.0.0", conn("Answers what it was given."), connection::echo),
    row("hello", -1, GREETING.and(Flags::NO_MULTI), K::NONE, "6.0.0", conn("Chooses the protocol, perhaps authenticates."), connection::hello),
    row("auth", -2, GREETING, K::NONE, "1.0.0", conn("Authenticates."), connection::auth),
    row("select", 2, CONNECTION, K::NONE, "1.0.0", conn("Chooses the database."), connection::select),
    row("quit", -1, AT_ONCE.and(Flags::NO_AUTH), K::NONE, "1.0.0", conn("Closes the connection."), connection::quit),
    row("reset", 1, AT_ONCE.and(Flags::NO_AUTH), K::NONE, "6.2.0", conn("Makes the connection as if new."), connection::reset),
    row("client", -2, ADMIN, K::NONE, "2.4.0", conn("Tells of and manages connections."), client::client),
    row("command", -1, Flags::SMALL, K::NONE, "2.8.13", admin("Tells of the commands."), command::command),
    row("config", -2, ADMIN, K::NONE, "2.0.0", admin("Reads and changes settings."), config::config),
    row("info", -1, Flags::SMALL, K::NONE, "1.0.0", admin("Tells the server's figures."), info::info),
    row("time", 1, CONNECTION, K::NONE, "2.6.0", admin("Tells the time."), server::time),
    row("save", 1, ADMIN.and(Flags::NO_MULTI), K::NONE, "1.0.0", admin("Makes everything durable."), server::save),
    row("bgsave", -1, ADMIN.and(Flags::NO_MULTI), K::NONE, "1.0.0", admin("Makes everything durable."), server::bgsave),
    row("lastsave", 1, CONNECTION, K::NONE, "1.0.0", admin("Tells when SAVE last succeeded."), server::lastsave),
    row("shutdown", -1, ADMIN.and(Flags::NO_MULTI), K::NONE, "1.0.0", admin("Stops the server."), server::shutdown),
    row("acl", -2, ADMIN, K::NONE, "6.0.0", admin("Tells who the client is."), server::acl),
];

/// Longest name in the table, in bytes.
const NAME_BYTES_MAX: usize = 16;
/// Slots of the lookup table: a power of two, several times the commands.
const SLOTS: usize = 512;

/// Indexes of [`COMMANDS`] by the hash of their names, with linear probing; `u8::MAX` is free.
static LOOKUP: LazyLock<[u8; SLOTS]> = LazyLock::new(|| {
    let mut slots = [u8::MAX; SLOTS];
    for (index, command) in COMMANDS.iter().enumerate() {
        let mut slot = hash(command.name.as_bytes());
        while slots[slot] != u8::MAX {
            slot = (slot + 1) % SLOTS;
        }
        slots[slot] = index as u8;
    }
    slots
});

const _: () = assert!(COMMANDS.len() < u8::MAX as usize);

/// The slot where a lower-case name is looked for first (FNV-1a).
#[inline]
fn hash(name: &[u8]) -> usize {
    let hash = name
        .iter()
        .fold(0x811c_9dc5_u32, |hash, &byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    (hash ^ (hash >> 16)) as usize % SLOTS
}

/// The index in [`COMMANDS`] of the command called `name`, in any case.
#[inline]
pub(crate) fn find(name: &[u8]) -> Option<usize> {
    let mut lower = [0_u8; NAME_BYTES_MAX];
    let lower = lower.get_mut(..name.len())?;
    lower.copy_from_slice(name);
    lower.make_ascii_lowercase();
    let mut slot = hash(lower);
    loop {
        let index = usize::from(LOOKUP[slot]);
        if COMMANDS.get(index)?.name.as_bytes() == lower {
            return Some(index);
        }
        slot = (slot + 1) % SLOTS;
    }
}

#[cfg(test)]
mod tests;
