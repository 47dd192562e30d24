//! Redis commands as operations on keys.

use std::io::{self, Write};

use super::{Item, Message};
use crate::workload::write_trace_key;

/// How a command uses its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    /// Reads one key and returns its value.
    Get,
    /// Reads each key and returns their values.
    GetMany,
    /// Looks at one key.
    Look,
    /// Looks at each key.
    LookMany,
    /// Writes the key the value in this argument.
    Put(usize),
    /// Writes keys and values in turn.
    PutMany,
    /// Reads one key and writes it again, with the size of this argument if there is one.
    Change(Option<usize>),
    /// Removes each key.
    DeleteMany,
    /// Has nothing to do with keys, or is not known here.
    Other,
    /// After it, replies no longer belong to commands.
    Unfollowable,
}

fn use_of(name: &[u8]) -> Use {
    match name.to_ascii_lowercase().as_slice() {
        b"get" => Use::Get,
        b"mget" => Use::GetMany,
        b"strlen" | b"ttl" | b"pttl" | b"type" | b"getrange" => Use::Look,
        b"exists" | b"touch" => Use::LookMany,
        b"set" => Use::Put(2),
        b"setex" | b"psetex" => Use::Put(3),
        b"mset" | b"msetnx" => Use::PutMany,
        b"setnx" | b"getset" | b"append" => Use::Change(Some(2)),
        b"incr" | b"decr" | b"incrby" | b"decrby" | b"incrbyfloat" | b"setrange" | b"getex"
        | b"expire" | b"pexpire" | b"persist" => Use::Change(None),
        b"del" | b"unlink" | b"getdel" => Use::DeleteMany,
        b"subscribe" | b"psubscribe" | b"ssubscribe" | b"monitor" | b"sync" | b"psync" => {
            Use::Unfollowable
        }
        _ => Use::Other,
    }
}

/// Whether replies can no longer be matched to commands after this one.
pub(super) fn ends_tracing(command: &Message) -> bool {
    let name = command.items.first().map(|item| item.head.as_slice());
    name.is_some_and(|name| use_of(name) == Use::Unfollowable)
}

/// Writes the trace lines of a command that was answered by `reply`. An error reply, and a command
/// that is not known to touch keys, give none.
///
/// # Errors
/// The writer's errors.
pub fn trace_lines(command: &Message, reply: &Message, out: &mut impl Write) -> io::Result<()> {
    let Some((name, arguments)) = command.items.split_first() else {
        return Ok(());
    };
    if matches!(reply.kind, b'-' | b'!') {
        return Ok(());
    }
    let size = |index: usize| command.items.get(index).and_then(|item| item.bytes);
    let mut line = |verb: &str, key: &Item, size: Option<u64>| -> io::Result<()> {
        write!(out, "{verb} ")?;
        write_trace_key(&key.head, out)?;
        match size {
            Some(size) => writeln!(out, " {size}"),
            None => writeln!(out),
        }
    };
    match use_of(&name.head) {
        Use::Get | Use::GetMany => arguments.iter().enumerate().try_for_each(|(index, key)| {
            // Inside MULTI the reply is `QUEUED`, and contains no result.
            let found = reply.items.get(index).map(|item| item.bytes.unwrap_or(0));
            line("get", key, found)
        }),
        Use::Look => arguments.iter().take(1).try_for_each(|key| line("get", key, None)),
        Use::LookMany => arguments.iter().try_for_each(|key| line("get", key, None)),
        Use::Put(value) => {
            arguments.iter().take(1).try_for_each(|key| line("put", key, size(value)))
        }
        Use::PutMany => arguments.chunks_exact(2).try_for_each(|pair| match pair {
            [key, value] => line("put", key, value.bytes),
            _ => Ok(()),
        }),
        Use::Change(value) => {
            let size = value.and_then(size);
            arguments.iter().take(1).try_for_each(|key| line("rmw", key, size))
        }
        Use::DeleteMany => arguments.iter().try_for_each(|key| line("del", key, None)),
        Use::Other | Use::Unfollowable => Ok(()),
    }
}
