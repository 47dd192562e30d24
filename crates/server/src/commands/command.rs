//! What a command is, and COMMAND, which tells clients so.

use super::call::Handler;
use super::flags::{Flags, KeyPlaces};
use super::table::{COMMANDS, find};
use super::{Call, Failure, Outcome};
use crate::glob;
use crate::protocol::Reply;

/// An entry of the table.
#[derive(Debug)]
pub(crate) struct Command {
    /// In lower case.
    pub(crate) name: &'static str,
    /// Arguments with the name; negative: that many or more.
    pub(crate) arity: i32,
    pub(crate) flags: Flags,
    pub(crate) keys: KeyPlaces,
    pub(crate) group: &'static str,
    /// The Redis version that brought it.
    pub(crate) since: &'static str,
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

    /// Whether, with this many arguments, it is about one key, and runs beside others.
    #[inline]
    pub(crate) fn has_one_key(&self, arg_count: usize) -> bool {
        self.keys.first > 0 && !self.flags.has(Flags::ALONE) && !self.keys.is_several(arg_count)
    }
}

pub(crate) fn command(call: &mut Call<'_>) -> Outcome {
    let count = call.args.len();
    if count == 1 {
        call.reply.array(COMMANDS.len());
        COMMANDS.iter().for_each(|command| describe(command, &mut call.reply));
        return Ok(());
    }
    let word = call.args.word(1);
    let expected = match word.as_str() {
        "count" | "help" => count == 2,
        "getkeys" => count >= 3,
        "info" | "docs" | "list" => true,
        _ => return Err(Failure::subcommand("COMMAND", call.args.at(1))),
    };
    if !expected {
        return Err(Failure::arity(&format!("command|{word}")));
    }
    match word.as_str() {
        "count" => call.reply.length(COMMANDS.len()),
        "info" => return info(call),
        "docs" => return docs(call),
        "list" => return list(call),
        "getkeys" => return getkeys(call),
        _ => {
            call.reply.array(2);
            call.reply.simple("COMMAND [COUNT | INFO name ... | DOCS name ... | LIST [FILTERBY");
            call.reply.simple("PATTERN glob] | GETKEYS command ...]: what there is.");
        }
    }
    Ok(())
}

/// The entry of COMMAND INFO.
fn describe(command: &Command, reply: &mut Reply<'_>) {
    reply.array(10);
    reply.bulk(command.name.as_bytes());
    reply.integer(i64::from(command.arity));
    let flags: Vec<&str> = command.flags.names().collect();
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.simple(flag));
    for place in [command.keys.first, command.keys.last, command.keys.step] {
        reply.integer(i64::from(place));
    }
    let categories = [
        (command.flags.has(Flags::READ), "@read"),
        (command.flags.has(Flags::WRITE), "@write"),
        (command.flags.has(Flags::ADMIN), "@admin"),
        (command.flags.has(Flags::FAST), "@fast"),
        (!command.flags.has(Flags::FAST), "@slow"),
        (command.group == "string", "@string"),
        (command.group == "connection", "@connection"),
        (command.group == "transactions", "@transaction"),
        (command.group == "generic", "@keyspace"),
    ];
    let categories = categories.iter().filter(|(has, _)| *has);
    reply.set(categories.clone().count());
    categories.for_each(|(_, name)| reply.simple(name));
    // Tips, key specifications and subcommands: none are told.
    (0..3).for_each(|_| reply.array(0));
}

fn info(call: &mut Call<'_>) -> Outcome {
    if call.args.len() == 2 {
        call.reply.array(COMMANDS.len());
        COMMANDS.iter().for_each(|command| describe(command, &mut call.reply));
        return Ok(());
    }
    call.reply.array(call.args.len() - 2);
    for name in call.args.from(2) {
        match find(name) {
            Some(index) => describe(&COMMANDS[index], &mut call.reply),
            None => call.reply.nil_array(),
        }
        call.check_room()?;
    }
    Ok(())
}

fn docs(call: &mut Call<'_>) -> Outcome {
    let asked: Vec<&Command> = match call.args.len() {
        2 => COMMANDS.iter().collect(),
        _ => call.args.from(2).filter_map(find).map(|index| &COMMANDS[index]).collect(),
    };
    call.reply.map(asked.len());
    for command in asked {
        call.reply.bulk(command.name.as_bytes());
        call.reply.map(3);
        for (name, text) in
            [("summary", command.summary), ("since", command.since), ("group", command.group)]
        {
            call.reply.bulk(name.as_bytes());
            call.reply.bulk(text.as_bytes());
        }
        call.check_room()?;
    }
    Ok(())
}

fn list(call: &mut Call<'_>) -> Outcome {
    let names = COMMANDS.iter().map(|command| command.name);
    let names: Vec<&str> = match call.args.len() {
        2 => names.collect(),
        5 if call.args.is(2, "FILTERBY") && call.args.is(3, "PATTERN") => {
            names.filter(|name| glob::matches(call.args.at(4), name.as_bytes(), true)).collect()
        }
        5 if call.args.is(2, "FILTERBY") => Vec::new(),
        _ => return Err(Failure::SYNTAX),
    };
    call.reply.array(names.len());
    names.iter().for_each(|name| call.reply.bulk(name.as_bytes()));
    Ok(())
}

fn getkeys(call: &mut Call<'_>) -> Outcome {
    let command = find(call.args.at(2)).map(|index| &COMMANDS[index]);
    let command = command.ok_or(Failure::Text("ERR Invalid command specified"))?;
    let arg_count = call.args.len() - 2;
    if !command.takes(arg_count) {
        return Err(Failure::Text("ERR Invalid number of arguments specified for command"));
    }
    if command.keys == KeyPlaces::NONE {
        return Err(Failure::Text("ERR The command has no key arguments"));
    }
    let places: Vec<usize> = command.keys.places(arg_count).collect();
    call.reply.array(places.len());
    places.iter().for_each(|place| call.reply.bulk(call.args.at(place + 2)));
    Ok(())
}
