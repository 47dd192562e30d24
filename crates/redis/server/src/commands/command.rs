//! The definition of a command, and COMMAND, which describes commands to clients.

use super::call::Handler;
use super::flags::{Access, Flags, KeyPlaces};
use super::table::{COMMANDS, find, resolve, subcommands};
use super::{Call, Failure, Outcome, set};
use crate::gate::Gate;
use crate::glob;
use crate::protocol::Reply;

/// An entry of the table.
#[derive(Debug)]
pub(crate) struct Command {
    /// In lower case; a subcommand's is `container|subcommand`.
    pub(crate) name: &'static str,
    /// Arguments with the name; negative: that many or more.
    pub(crate) arity: i32,
    pub(crate) flags: Flags,
    pub(crate) keys: KeyPlaces,
    pub(crate) group: &'static str,
    /// The Redis version that brought it.
    pub(crate) since: &'static str,
    /// The arguments of a subcommand, as its container's HELP shows them.
    pub(crate) usage: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) handler: Handler,
}

impl Command {
    /// Whether it can be called with this many arguments, the name counted.
    #[inline]
    pub(crate) fn takes(&self, arg_count: usize) -> bool {
        let least = self.arity.unsigned_abs() as usize;
        if self.arity >= 0 { arg_count == least } else { arg_count >= least }
    }

    /// Whether, with this many arguments, it is about one key, and runs concurrently with others.
    #[inline]
    pub(crate) fn has_one_key(&self, arg_count: usize) -> bool {
        self.keys.first > 0 && !self.flags.has(Flags::ALONE) && !self.keys.is_several(arg_count)
    }

    /// Whether a store of other processes commits it: it writes, or its keys are to be read
    /// together.
    pub(crate) fn is_committed(&self, arg_count: usize) -> bool {
        let has_keys = self.flags.has(Flags::WRITE) || self.keys.is_several(arg_count);
        !self.flags.has(Flags::THREAD) && (has_keys || self.flags.has(Flags::ALONE))
    }

    /// Whether it may run while a command that is alone has reserved the gate, unless it has to be
    /// alone itself. A walk is read outside of the gate.
    pub(crate) fn may_pass(&self, gate: &Gate) -> bool {
        if self.flags.has(Flags::WRITE) {
            return gate.is_open();
        }
        !self.flags.has(Flags::READ) || self.flags.has(Flags::WALKS) || gate.lets_read()
    }

    /// Whether it puts the value of one key under another.
    pub(crate) fn moves(&self) -> bool {
        matches!(self.name, "rename" | "renamenx" | "copy")
    }

    fn is_subcommand(&self) -> bool {
        self.flags.has(Flags::SUBCOMMAND)
    }

    /// Returns the subcommand's own name.
    fn word(&self) -> &'static str {
        self.name.split_once('|').map_or(self.name, |(_, word)| word)
    }

    /// Returns the names of its categories.
    fn categories(&self) -> impl Iterator<Item = &'static str> + Clone {
        let has = |flags| self.flags.has(flags);
        // A container only finds its subcommands, which are in categories of their own.
        let acts = !has(Flags::CONTAINER);
        let of_keys = self.group == "generic" || has(Flags::KEYSPACE);
        [
            (acts && of_keys, "keyspace"),
            (has(Flags::READ), "read"),
            (has(Flags::WRITE), "write"),
            (self.group == "string", "string"),
            (has(Flags::ADMIN), "admin"),
            (has(Flags::FAST), "fast"),
            (!has(Flags::FAST), "slow"),
            (has(Flags::DANGEROUS), "dangerous"),
            (acts && self.group == "connection", "connection"),
            (self.group == "transactions", "transaction"),
        ]
        .into_iter()
        .filter_map(|(is_in, name)| is_in.then_some(name))
    }
}

/// The commands that are not subcommands, each with its index.
fn top_level() -> impl Iterator<Item = (usize, &'static Command)> + Clone {
    COMMANDS.iter().enumerate().filter(|(_, command)| !command.is_subcommand())
}

/// COMMAND without arguments.
pub(crate) fn all(call: &mut Call<'_>) -> Outcome {
    call.reply.array(top_level().count());
    for (index, _) in top_level() {
        describe(index, &mut call.reply);
        call.check_room()?;
    }
    Ok(())
}

/// Replies to a container without a subcommand. Its arity refuses that before.
pub(crate) fn container(call: &mut Call<'_>) -> Outcome {
    Err(Failure::arity(call.name()))
}

/// HELP of every container.
pub(crate) fn subcommand_help(call: &mut Call<'_>) -> Outcome {
    let container = find(call.args.at(0)).unwrap_or_default();
    let name = COMMANDS[container].name.to_ascii_uppercase();
    let lines = subcommands(container).flat_map(|index| {
        let command = &COMMANDS[index];
        let usage = format!("{} {}", command.word().to_ascii_uppercase(), command.usage);
        [usage.trim_end().to_owned(), format!("    {}", command.summary)]
    });
    let head = format!("{name} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:");
    let lines: Vec<String> = std::iter::once(head).chain(lines).collect();
    call.reply.array(lines.len());
    lines.iter().for_each(|line| call.reply.simple(line));
    Ok(())
}

pub(crate) fn count(call: &mut Call<'_>) -> Outcome {
    call.reply.length(top_level().count());
    Ok(())
}

/// Writes the entry of COMMAND INFO.
fn describe(index: usize, reply: &mut Reply<'_>) {
    let command = &COMMANDS[index];
    reply.array(10);
    reply.bulk(command.name.as_bytes());
    reply.integer(i64::from(command.arity));
    let flags: Vec<&str> = command.flags.names().collect();
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.simple(flag));
    for place in [command.keys.first, command.keys.last, command.keys.step] {
        reply.integer(i64::from(place));
    }
    reply.set(command.categories().count());
    command.categories().for_each(|name| reply.simple(&format!("@{name}")));
    // There are no tips.
    reply.array(0);
    let specifications = command.keys.specifications();
    reply.array(specifications.len());
    for (first, last, step, access) in specifications {
        specify(reply, first, (last, step), access);
    }
    let subcommands = subcommands(index);
    reply.array(subcommands.len());
    subcommands.for_each(|index| describe(index, reply));
}

/// Writes a key specification.
fn specify(reply: &mut Reply<'_>, first: i32, (last, step): (i32, i32), access: Access) {
    let number = |reply: &mut Reply<'_>, name: &str, value: i32| {
        reply.bulk(name.as_bytes());
        reply.integer(i64::from(value));
    };
    let kind = |reply: &mut Reply<'_>, name: &str, kind: &str, fields: usize| {
        reply.bulk(name.as_bytes());
        reply.map(2);
        reply.bulk(b"type");
        reply.bulk(kind.as_bytes());
        reply.bulk(b"spec");
        reply.map(fields);
    };
    reply.map(3);
    reply.bulk(b"flags");
    flags(reply, access);
    kind(reply, "begin_search", "index", 1);
    number(reply, "index", first);
    kind(reply, "find_keys", "range", 3);
    number(reply, "lastkey", last);
    number(reply, "keystep", step);
    number(reply, "limit", 0);
}

fn flags(reply: &mut Reply<'_>, access: Access) {
    reply.set(access.len());
    access.iter().for_each(|flag| reply.simple(flag));
}

pub(crate) fn info(call: &mut Call<'_>) -> Outcome {
    if call.args.len() == 2 {
        return all(call);
    }
    call.reply.array(call.args.len() - 2);
    for name in call.args.from(2) {
        match find(name) {
            Some(index) => describe(index, &mut call.reply),
            None => call.reply.nil_array(),
        }
        call.check_room()?;
    }
    Ok(())
}

pub(crate) fn docs(call: &mut Call<'_>) -> Outcome {
    let asked: Vec<usize> = match call.args.len() {
        2 => top_level().map(|(index, _)| index).collect(),
        _ => call.args.from(2).filter_map(find).collect(),
    };
    call.reply.map(asked.len());
    for index in asked {
        document(index, &mut call.reply);
        call.check_room()?;
    }
    Ok(())
}

/// Writes the name and the entry of COMMAND DOCS.
fn document(index: usize, reply: &mut Reply<'_>) {
    let command = &COMMANDS[index];
    let subcommands = subcommands(index);
    reply.bulk(command.name.as_bytes());
    reply.map(3 + usize::from(!subcommands.is_empty()));
    for (name, text) in
        [("summary", command.summary), ("since", command.since), ("group", command.group)]
    {
        reply.bulk(name.as_bytes());
        reply.bulk(text.as_bytes());
    }
    if !subcommands.is_empty() {
        reply.bulk(b"subcommands");
        reply.map(subcommands.len());
        subcommands.for_each(|index| document(index, reply));
    }
}

pub(crate) fn list(call: &mut Call<'_>) -> Outcome {
    let filter = call.args.at(4);
    let is_shown: &dyn Fn(&Command) -> bool = match call.args.len() {
        2 => &|_| true,
        5 if !call.args.is(2, "FILTERBY") => return Err(Failure::SYNTAX),
        5 if call.args.is(3, "PATTERN") => {
            &|command| glob::matches(filter, command.name.as_bytes(), true)
        }
        5 if call.args.is(3, "ACLCAT") => {
            &|command| command.categories().any(|name| filter.eq_ignore_ascii_case(name.as_bytes()))
        }
        // There are no modules, so no command is one's.
        5 if call.args.is(3, "MODULE") => &|_| false,
        _ => return Err(Failure::SYNTAX),
    };
    let names: Vec<&str> =
        COMMANDS.iter().filter(|command| is_shown(command)).map(|command| command.name).collect();
    call.reply.array(names.len());
    names.iter().for_each(|name| call.reply.bulk(name.as_bytes()));
    Ok(())
}

/// Returns the keys of the command that is the third argument and the arguments behind it, each
/// with its access.
fn keys_of<'a>(call: &Call<'a>) -> Result<Vec<(&'a [u8], Access)>, Failure> {
    let args = call.args.behind(2);
    let index = resolve(args).map_err(|_| Failure::Text("ERR Invalid command specified"))?;
    let command = &COMMANDS[index];
    if command.keys == KeyPlaces::NONE {
        return Err(Failure::Text("ERR The command has no key arguments"));
    }
    if !command.takes(args.len()) {
        return Err(Failure::Text("ERR Invalid number of arguments specified for command"));
    }
    let keys = command.keys.places(args.len()).enumerate().map(|(number, place)| {
        let access = command.keys.access_to(number);
        // SET is the one command whose access depends on its options.
        let access = if access.contains(&"variable_flags") { set::access(args) } else { access };
        (args.at(place), access)
    });
    Ok(keys.collect())
}

pub(crate) fn getkeys(call: &mut Call<'_>) -> Outcome {
    let keys = keys_of(call)?;
    call.reply.array(keys.len());
    keys.iter().for_each(|(key, _)| call.reply.bulk(key));
    Ok(())
}

pub(crate) fn getkeysandflags(call: &mut Call<'_>) -> Outcome {
    let keys = keys_of(call)?;
    call.reply.array(keys.len());
    for (key, access) in keys {
        call.reply.array(2);
        call.reply.bulk(key);
        flags(&mut call.reply, access);
        call.check_room()?;
    }
    Ok(())
}
