//! The table of commands and subcommands: names, arities, flags, keys, handlers. Dispatch, MULTI,
//! COMMAND and every HELP read it.

use std::ops::Range;

use super::call::Handler;
use super::command::Command;
use super::flags::{Access, Flags, KeyPlaces as K};
use super::{Failure, client, command, config, connection, counters, expiry, info, keys, scan};
use super::{object, server, set, strings, transactions};
use crate::protocol::Args;

const READ: Flags = Flags::READ.and(Flags::FAST);
const SLOW_READ: Flags = Flags::READ;
/// Reads that walk over keys.
const WALK: Flags = Flags::READ.and(Flags::WALKS);
/// Writes that make data smaller, or not larger by much.
const CHANGE: Flags = Flags::WRITE.and(Flags::FAST);
const SLOW_CHANGE: Flags = Flags::WRITE;
const GROW: Flags = Flags::WRITE.and(Flags::GROWS).and(Flags::FAST);
const SLOW_GROW: Flags = Flags::WRITE.and(Flags::GROWS);
const SLOW_PUT: Flags = SLOW_GROW.and(Flags::OVERWRITES);
const FLUSH: Flags =
    Flags::WRITE.and(Flags::ALONE).and(Flags::THREAD).and(Flags::KEYSPACE).and(Flags::DANGEROUS);
const CONNECTION: Flags = Flags::FAST.and(Flags::SMALL);
const GREETING: Flags = Flags::FAST.and(Flags::SMALL).and(Flags::NO_AUTH);
const IMMEDIATE: Flags = Flags::FAST.and(Flags::SMALL).and(Flags::NOT_QUEUED);
const SMALL: Flags = Flags::SMALL;
const ADMIN: Flags = Flags::ADMIN.and(Flags::SMALL).and(Flags::DANGEROUS);
/// Commands that a thread runs next to others.
const THREAD_ADMIN: Flags = ADMIN.and(Flags::THREAD);
const CONTAINER: Flags = Flags::CONTAINER.and(Flags::SMALL);

const READS: &[Access] = &[&["RO", "access"]];
const INSPECTS: &[Access] = &[&["RO"]];
const OVERWRITES: &[Access] = &[&["OW", "update"]];
const INSERTS: &[Access] = &[&["OW", "insert"]];
const EXCHANGES: &[Access] = &[&["RW", "access", "update"]];
const SETS: &[Access] = &[&["RW", "access", "update", "variable_flags"]];
const UPDATES: &[Access] = &[&["RW", "update"]];
const APPENDS: &[Access] = &[&["RW", "insert"]];
const TAKES: &[Access] = &[&["RW", "access", "delete"]];
const REMOVES: &[Access] = &[&["RM", "delete"]];
const MOVES: &[Access] = &[&["RW", "access", "delete"], &["OW", "update"]];
const MOVES_NEW: &[Access] = &[&["RW", "access", "delete"], &["OW", "insert"]];
const COPIES: &[Access] = &[&["RO", "access"], &["OW", "update"]];

/// Documentation of a row: its group, the arguments of a subcommand, and a summary.
type Docs = (&'static str, &'static str, &'static str);

/// A row of the table.
const fn row(
    name: &'static str,
    arity: i32,
    flags: Flags,
    keys: K,
    since: &'static str,
    (group, usage, summary): Docs,
    handler: Handler,
) -> Command {
    Command { name, arity, flags, keys, group, since, usage, summary, handler }
}

/// A row of a subcommand.
const fn sub(
    name: &'static str,
    arity: i32,
    flags: Flags,
    keys: K,
    since: &'static str,
    docs: Docs,
    handler: Handler,
) -> Command {
    row(name, arity, flags.and(Flags::SUBCOMMAND), keys, since, docs, handler)
}

const fn string(summary: &'static str) -> Docs {
    ("string", "", summary)
}

const fn generic(summary: &'static str) -> Docs {
    ("generic", "", summary)
}

const fn conn(summary: &'static str) -> Docs {
    ("connection", "", summary)
}

const fn admin(summary: &'static str) -> Docs {
    ("server", "", summary)
}

const fn multi(summary: &'static str) -> Docs {
    ("transactions", "", summary)
}

const HELP: &str = "Prints this help.";

/// Every command and subcommand. A container's subcommands follow it. One line each, longer than
/// other code's lines, since it is read as a table.
#[rustfmt::skip]
pub(crate) static COMMANDS: &[Command] = &[
    row("get", 2, READ, K::one(READS), "1.0.0", string("Reads a value."), strings::get),
    row("set", -3, SLOW_PUT, K::one(SETS), "1.0.0", string("Writes a value, perhaps on a condition, perhaps with an expiry."), set::set),
    row("setnx", 3, GROW, K::one(INSERTS), "1.0.0", string("Writes a value if the key is absent."), strings::setnx),
    row("setex", 4, SLOW_PUT, K::one(OVERWRITES), "2.0.0", string("Writes a value that expires after some seconds."), set::setex),
    row("psetex", 4, SLOW_PUT, K::one(OVERWRITES), "2.6.0", string("Writes a value that expires after some milliseconds."), set::psetex),
    row("getset", 3, GROW, K::one(EXCHANGES), "1.0.0", string("Writes a value and returns the old one."), strings::getset),
    row("getdel", 2, CHANGE, K::one(TAKES), "6.2.0", string("Reads a value and removes its key."), strings::getdel),
    row("getex", -2, CHANGE, K::one(EXCHANGES), "6.2.0", string("Reads a value and changes its expiry."), set::getex),
    row("mget", -2, READ, K::all(READS), "1.0.0", string("Reads several values at one moment."), strings::mget),
    row("mset", -3, SLOW_PUT, K::pairs(OVERWRITES), "1.0.1", string("Writes several values atomically."), strings::mset),
    row("msetnx", -3, SLOW_GROW, K::pairs(INSERTS), "1.0.1", string("Writes several values atomically if all keys are absent."), strings::msetnx),
    row("strlen", 2, READ, K::one(INSPECTS), "2.2.0", string("Returns the length of a value."), strings::strlen),
    row("append", 3, GROW, K::one(APPENDS), "2.0.0", string("Appends bytes to a value."), strings::append),
    row("getrange", 4, SLOW_READ, K::one(READS), "2.4.0", string("Reads a part of a value."), strings::getrange),
    row("substr", 4, SLOW_READ, K::one(READS), "1.0.0", string("Reads a part of a value; the old name of GETRANGE."), strings::getrange),
    row("setrange", 4, SLOW_GROW, K::one(UPDATES), "2.2.0", string("Overwrites a part of a value."), strings::setrange),
    row("incr", 2, GROW, K::one(EXCHANGES), "1.0.0", string("Adds one to an integer."), counters::incr),
    row("decr", 2, GROW, K::one(EXCHANGES), "1.0.0", string("Subtracts one from an integer."), counters::decr),
    row("incrby", 3, GROW, K::one(EXCHANGES), "1.0.0", string("Adds to an integer."), counters::incrby),
    row("decrby", 3, GROW, K::one(EXCHANGES), "1.0.0", string("Subtracts from an integer."), counters::decrby),
    row("incrbyfloat", 3, GROW, K::one(EXCHANGES), "2.6.0", string("Adds to a decimal number."), counters::incrbyfloat),
    row("del", -2, SLOW_CHANGE, K::all(REMOVES), "1.0.0", generic("Removes keys."), keys::del),
    row("unlink", -2, CHANGE, K::all(REMOVES), "4.0.0", generic("Removes keys."), keys::del),
    row("exists", -2, READ, K::all(INSPECTS), "1.0.0", generic("Counts the keys that are present."), keys::exists),
    row("touch", -2, READ, K::all(INSPECTS), "3.2.1", generic("Counts the keys that are present, as a use of them."), keys::touch),
    row("type", 2, READ, K::one(INSPECTS), "1.0.0", generic("Returns the type of a key's value."), keys::key_type),
    row("rename", 3, SLOW_CHANGE, K::two(MOVES), "1.0.0", generic("Moves a value to another key."), keys::rename),
    row("renamenx", 3, CHANGE, K::two(MOVES_NEW), "1.0.0", generic("Moves a value to another key that is absent."), keys::renamenx),
    row("copy", -3, SLOW_GROW, K::two(COPIES), "6.2.0", generic("Copies a value to another key."), keys::copy),
    row("expire", -3, CHANGE, K::one(UPDATES), "1.0.0", generic("Lets a key expire after some seconds."), expiry::expire),
    row("pexpire", -3, CHANGE, K::one(UPDATES), "2.6.0", generic("Lets a key expire after some milliseconds."), expiry::pexpire),
    row("expireat", -3, CHANGE, K::one(UPDATES), "1.2.0", generic("Lets a key expire at a Unix time in seconds."), expiry::expireat),
    row("pexpireat", -3, CHANGE, K::one(UPDATES), "2.6.0", generic("Lets a key expire at a Unix time in milliseconds."), expiry::pexpireat),
    row("persist", 2, CHANGE, K::one(UPDATES), "2.2.0", generic("Removes the expiry of a key."), expiry::persist),
    row("ttl", 2, READ, K::one(READS), "1.0.0", generic("Returns the seconds until a key expires."), expiry::ttl),
    row("pttl", 2, READ, K::one(READS), "2.6.0", generic("Returns the milliseconds until a key expires."), expiry::pttl),
    row("expiretime", 2, READ, K::one(READS), "7.0.0", generic("Returns the Unix time in seconds at which a key expires."), expiry::expiretime),
    row("pexpiretime", 2, READ, K::one(READS), "7.0.0", generic("Returns the Unix time in milliseconds at which a key expires."), expiry::pexpiretime),
    row("scan", -2, WALK, K::NONE, "2.8.0", generic("Walks over the keys in steps."), scan::scan),
    row("keys", 2, WALK.and(Flags::DANGEROUS), K::NONE, "1.0.0", generic("Lists the keys that match a pattern."), scan::keys),
    row("randomkey", 1, WALK, K::NONE, "1.0.0", generic("Picks some key."), scan::randomkey),
    row("object", -2, Flags::CONTAINER, K::NONE, "2.2.3", generic("Container of commands that inspect a key's value."), command::container),
    sub("object|encoding", 3, SLOW_READ, K::second(INSPECTS), "2.2.3", ("generic", "<key>", "Returns the encoding that Redis would use for the value of <key>."), object::encoding),
    sub("object|freq", 3, SLOW_READ, K::second(INSPECTS), "4.0.0", ("generic", "<key>", "Returns an error, since access frequencies are not tracked."), object::freq),
    sub("object|idletime", 3, SLOW_READ, K::second(INSPECTS), "2.2.3", ("generic", "<key>", "Returns seconds for which <key> was not used, or fewer."), object::idletime),
    sub("object|refcount", 3, SLOW_READ, K::second(INSPECTS), "2.2.3", ("generic", "<key>", "Returns the number of references to the value of <key>, which is 1."), object::refcount),
    sub("object|help", 2, SMALL, K::NONE, "6.2.0", ("generic", "", HELP), command::subcommand_help),
    row("memory", -2, Flags::CONTAINER, K::NONE, "4.0.0", admin("Container of commands that inspect memory."), command::container),
    sub("memory|usage", -3, SLOW_READ, K::second(INSPECTS), "4.0.0", ("server", "<key> [SAMPLES <count>]", "Returns an estimate of the bytes that <key> and its value take."), object::memory_usage),
    sub("memory|help", 2, SMALL, K::NONE, "4.0.0", ("server", "", HELP), command::subcommand_help),
    row("dbsize", 1, WALK.and(Flags::FAST).and(Flags::KEYSPACE), K::NONE, "1.0.0", admin("Counts the keys of the database."), scan::dbsize),
    row("flushdb", -1, FLUSH, K::NONE, "1.0.0", admin("Removes all keys of the database."), keys::flushdb),
    row("flushall", -1, FLUSH, K::NONE, "1.0.0", admin("Removes all keys of all databases."), keys::flushall),
    row("multi", 1, IMMEDIATE, K::NONE, "1.2.0", multi("Begins a transaction."), transactions::multi),
    row("exec", 1, SMALL.and(Flags::NOT_QUEUED).and(Flags::ALONE), K::NONE, "1.2.0", multi("Executes the queued commands atomically."), transactions::exec),
    row("discard", 1, IMMEDIATE, K::NONE, "2.0.0", multi("Drops the queued commands."), transactions::discard),
    row("watch", -2, Flags::FAST.and(Flags::NOT_QUEUED).and(Flags::ALONE), K::all(INSPECTS), "2.2.0", multi("Makes the next EXEC depend on keys that stay as they are."), transactions::watch),
    row("unwatch", 1, CONNECTION, K::NONE, "2.2.0", multi("Forgets all watched keys."), transactions::unwatch),
    row("ping", -1, CONNECTION, K::NONE, "1.0.0", conn("Answers."), connection::ping),
    row("echo", 2, Flags::FAST, K::NONE, "1.0.0", conn("Returns its argument."), connection::echo),
    row("hello", -1, GREETING, K::NONE, "6.0.0", conn("Chooses the protocol, perhaps authenticates."), connection::hello),
    row("auth", -2, GREETING, K::NONE, "1.0.0", conn("Authenticates."), connection::auth),
    row("select", 2, CONNECTION, K::NONE, "1.0.0", conn("Chooses the database."), connection::select),
    row("quit", -1, IMMEDIATE.and(Flags::NO_AUTH), K::NONE, "1.0.0", conn("Closes the connection."), connection::quit),
    row("reset", 1, IMMEDIATE.and(Flags::NO_AUTH), K::NONE, "6.2.0", conn("Makes the connection as if new."), connection::reset),
    row("client", -2, CONTAINER, K::NONE, "2.4.0", conn("Container of commands on connections."), command::container),
    sub("client|getname", 2, SMALL, K::NONE, "2.6.9", ("connection", "", "Returns the name of the current connection."), client::getname),
    sub("client|getredir", 2, SMALL, K::NONE, "6.0.0", ("connection", "", "Returns -1, since there is no client side caching."), client::getredir),
    sub("client|id", 2, SMALL, K::NONE, "5.0.0", ("connection", "", "Returns the number of the current connection."), client::id),
    sub("client|info", 2, SMALL, K::NONE, "6.2.0", ("connection", "", "Describes the current connection."), client::info),
    sub("client|kill", -3, THREAD_ADMIN, K::NONE, "2.4.0", ("connection", "<addr> | [ID <id>] [ADDR <addr>] [LADDR <addr>] [TYPE <type>] [USER <user>] [SKIPME yes|no] [MAXAGE <seconds>]", "Closes connections."), client::kill),
    sub("client|list", -2, THREAD_ADMIN, K::NONE, "2.4.0", ("connection", "[TYPE <type> | ID <id> [<id> ...]]", "Describes connections."), client::list),
    sub("client|no-evict", 3, ADMIN, K::NONE, "7.0.0", ("connection", "ON|OFF", "Is accepted and changes nothing."), client::no_evict),
    sub("client|no-touch", 3, SMALL, K::NONE, "7.2.0", ("connection", "ON|OFF", "Chooses whether reads of this connection count as uses of keys."), client::no_touch),
    sub("client|reply", 3, SMALL, K::NONE, "3.2.0", ("connection", "ON|OFF|SKIP", "Chooses whether this connection gets replies."), client::reply),
    sub("client|setinfo", 4, SMALL, K::NONE, "7.2.0", ("connection", "LIB-NAME|LIB-VER <value>", "Notes the library of the current connection."), client::setinfo),
    sub("client|setname", 3, SMALL, K::NONE, "2.6.9", ("connection", "<name>", "Names the current connection."), client::setname),
    sub("client|trackinginfo", 2, SMALL, K::NONE, "6.2.0", ("connection", "", "Reports that there is no client side caching."), client::trackinginfo),
    sub("client|unblock", -3, ADMIN, K::NONE, "5.0.0", ("connection", "<id> [TIMEOUT|ERROR]", "Returns 0, since no command blocks."), client::unblock),
    sub("client|help", 2, SMALL, K::NONE, "5.0.0", ("connection", "", HELP), command::subcommand_help),
    row("command", -1, CONTAINER, K::NONE, "2.8.13", admin("Describes the commands."), command::all),
    sub("command|count", 2, SMALL, K::NONE, "2.8.13", ("server", "", "Returns the number of commands."), command::count),
    sub("command|docs", -2, SMALL, K::NONE, "7.0.0", ("server", "[<command-name> ...]", "Returns documentation of commands."), command::docs),
    sub("command|getkeys", -3, SMALL, K::NONE, "2.8.13", ("server", "<full-command>", "Returns the keys of a command."), command::getkeys),
    sub("command|getkeysandflags", -3, SMALL, K::NONE, "7.0.0", ("server", "<full-command>", "Returns the keys of a command, and its access to each."), command::getkeysandflags),
    sub("command|info", -2, SMALL, K::NONE, "2.8.13", ("server", "[<command-name> ...]", "Describes commands."), command::info),
    sub("command|list", -2, SMALL, K::NONE, "7.0.0", ("server", "[FILTERBY MODULE <module> | ACLCAT <category> | PATTERN <pattern>]", "Returns the names of commands."), command::list),
    sub("command|help", 2, SMALL, K::NONE, "5.0.0", ("server", "", HELP), command::subcommand_help),
    row("config", -2, CONTAINER, K::NONE, "2.0.0", admin("Container of commands on settings."), command::container),
    sub("config|get", -3, ADMIN, K::NONE, "2.0.0", ("server", "<pattern> [<pattern> ...]", "Returns settings whose names match, and their values."), config::get),
    sub("config|resetstat", 2, ADMIN, K::NONE, "2.0.0", ("server", "", "Sets the counters of INFO to zero."), config::resetstat),
    sub("config|rewrite", 2, ADMIN, K::NONE, "2.8.0", ("server", "", "Returns an error, since there is no file to write."), config::rewrite),
    sub("config|set", -4, ADMIN, K::NONE, "2.0.0", ("server", "<name> <value> [<name> <value> ...]", "Changes settings."), config::set),
    sub("config|help", 2, SMALL, K::NONE, "5.0.0", ("server", "", HELP), command::subcommand_help),
    row("info", -1, Flags::SMALL.and(Flags::DANGEROUS).and(Flags::THREAD), K::NONE, "1.0.0", admin("Returns the server's figures."), info::info),
    row("time", 1, CONNECTION, K::NONE, "2.6.0", admin("Returns the time."), server::time),
    row("save", 1, THREAD_ADMIN.and(Flags::NO_MULTI), K::NONE, "1.0.0", admin("Makes everything durable."), server::save),
    row("bgsave", -1, THREAD_ADMIN, K::NONE, "1.0.0", admin("Makes everything durable, or begins a backup."), server::bgsave),
    row("lastsave", 1, CONNECTION.and(Flags::DANGEROUS), K::NONE, "1.0.0", admin("Returns the time of the last successful SAVE."), server::lastsave),
    row("shutdown", -1, THREAD_ADMIN.and(Flags::NO_MULTI), K::NONE, "1.0.0", admin("Stops the server."), server::shutdown),
    row("acl", -2, CONTAINER, K::NONE, "6.0.0", admin("Container of commands on users."), command::container),
    sub("acl|users", 2, ADMIN, K::NONE, "6.0.0", ("server", "", "Lists the users."), server::acl_users),
    sub("acl|whoami", 2, SMALL, K::NONE, "6.0.0", ("server", "", "Returns the user of the current connection."), server::acl_whoami),
    sub("acl|help", 2, SMALL, K::NONE, "6.0.0", ("server", "", HELP), command::subcommand_help),
];

/// Bytes of the longest name in the table.
const NAME_BYTES_MAX: usize = 24;
/// Slots of the lookup table: a power of two, several times the commands.
const SLOTS: usize = 1 << SLOT_BITS;
const SLOT_BITS: u32 = 9;
/// Bytes of the longest name that [`Word`] holds whole.
const WORD_BYTES: usize = 8;

/// A name as numbers, so that one comparison covers all its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Word {
    /// The first and the last bytes in lower case, which overlap in a short name.
    bytes: u64,
    len: usize,
}

impl Word {
    /// The word of no name.
    const NONE: Self = Self { bytes: 0, len: 0 };

    /// Returns the word of `name`, in lower case.
    #[inline]
    const fn of(name: &[u8]) -> Self {
        let bytes = match (name.first_chunk(), name.last_chunk()) {
            (Some(first), Some(last)) => {
                u32::from_le_bytes(*first) as u64 | (u32::from_le_bytes(*last) as u64) << 32
            }
            _ => match (name.first_chunk(), name.last_chunk()) {
                (Some(first), Some(last)) => {
                    u16::from_le_bytes(*first) as u64 | (u16::from_le_bytes(*last) as u64) << 16
                }
                _ => 0,
            },
        };
        Self { bytes: lower_case(bytes), len: name.len() }
    }

    /// The first slot of the name.
    #[inline]
    const fn slot(self) -> usize {
        let mixed = (self.bytes ^ self.len as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> (u64::BITS - SLOT_BITS)) as usize
    }
}

/// Makes each byte of `bytes` that is an upper-case letter of ASCII a lower-case one.
#[inline]
const fn lower_case(bytes: u64) -> u64 {
    const EACH: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x80 * EACH;
    // Each byte has its highest bit set if it is at or above `A`, or above `Z`.
    let low = bytes & !HIGH;
    let from_a = low + (0x80 - b'A' as u64) * EACH;
    let above_z = low + (0x7f - b'Z' as u64) * EACH;
    let is_upper = (from_a ^ above_z) & !bytes & HIGH;
    bytes | is_upper >> 2
}

/// Words and indexes in [`COMMANDS`] by the hash of their names, with linear probing.
static LOOKUP: [(Word, usize); SLOTS] = {
    let mut slots = [(Word::NONE, usize::MAX); SLOTS];
    let mut index = 0;
    while index < COMMANDS.len() {
        let word = Word::of(COMMANDS[index].name.as_bytes());
        let mut slot = word.slot();
        while slots[slot].1 != usize::MAX {
            slot = (slot + 1) % SLOTS;
        }
        slots[slot] = (word, index);
        index += 1;
    }
    slots
};

const _: () = assert!(COMMANDS.len() < SLOTS / 2);

/// Returns the index in [`COMMANDS`] of the command or subcommand called `name`, in upper or lower
/// case. The name of a subcommand is `container|subcommand`.
#[inline]
pub(crate) fn find(name: &[u8]) -> Option<usize> {
    let word = Word::of(name);
    let mut slot = word.slot();
    loop {
        let (found, index) = LOOKUP[slot % SLOTS];
        if index == usize::MAX {
            return None;
        }
        if found == word && (name.len() <= WORD_BYTES || is_name(index, name)) {
            return Some(index);
        }
        slot += 1;
    }
}

/// Returns whether the command at `index` has the name `name`, in upper or lower case.
fn is_name(index: usize, name: &[u8]) -> bool {
    COMMANDS[index].name.as_bytes().eq_ignore_ascii_case(name)
}

/// The reason for which arguments name no command.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NotFound {
    Command,
    /// The container that does not have the subcommand.
    Subcommand(&'static Command),
}

impl NotFound {
    /// Returns the failure for `args`.
    pub(crate) fn failure(self, args: Args<'_>) -> Failure {
        match self {
            Self::Command => Failure::unknown_command(args),
            Self::Subcommand(container) => {
                Failure::subcommand(&container.name.to_ascii_uppercase(), args.at(1))
            }
        }
    }
}

/// Returns the index in [`COMMANDS`] of the command that `args` call: a subcommand if the first
/// argument is a container and there is a second one.
#[inline]
pub(crate) fn resolve(args: Args<'_>) -> Result<usize, NotFound> {
    let index = find(args.at(0)).ok_or(NotFound::Command)?;
    let command = &COMMANDS[index];
    if command.flags.has(Flags::CONTAINER) && args.len() > 1 {
        return resolve_subcommand(command, args.at(1));
    }
    if command.flags.has(Flags::SUBCOMMAND) { Err(NotFound::Command) } else { Ok(index) }
}

#[cold]
fn resolve_subcommand(container: &'static Command, word: &[u8]) -> Result<usize, NotFound> {
    // An argument may be large: only the bytes that a name can have are copied.
    let front = word.get(..word.len().min(NAME_BYTES_MAX)).unwrap_or_default();
    let name = [container.name.as_bytes(), b"|", front].concat();
    find(&name).ok_or(NotFound::Subcommand(container))
}

/// Returns the indexes of the subcommands of the command at `index`.
pub(crate) fn subcommands(index: usize) -> Range<usize> {
    let begin = index + 1;
    if !COMMANDS[index].flags.has(Flags::CONTAINER) {
        return begin..begin;
    }
    let following = COMMANDS.iter().skip(begin);
    begin..begin + following.take_while(|command| command.flags.has(Flags::SUBCOMMAND)).count()
}

#[cfg(test)]
mod tests;
