//! DEL, EXISTS, TYPE, RENAME and what else treats keys whatever they hold.

use std::collections::HashSet;

use thermocline::WithEnd;

use super::access::SLICE_KEYS;
use super::{Call, Failure, Outcome};
use crate::store::{Change, DbIndex};

pub(crate) fn del(call: &mut Call<'_>) -> Outcome {
    let mut removed = 0;
    if call.args.len() == 2 {
        removed += i64::from(call.delete(call.args.at(1))?);
    } else {
        // A key that comes twice in one slice seems to be there twice.
        let (mut seen, mut gone) = (0_usize, HashSet::new());
        call.peek_many(call.args.from(1), |key, stored, call| {
            if seen.is_multiple_of(SLICE_KEYS) {
                gone.clear();
            }
            seen += 1;
            if stored.is_some() && gone.insert(key) {
                call.remove(key)?;
                removed += 1;
            }
            Ok(())
        })?;
    }
    call.reply.integer(removed);
    Ok(())
}

pub(crate) fn exists(call: &mut Call<'_>) -> Outcome {
    let mut found = 0;
    if call.args.len() == 2 {
        found += i64::from(call.read(call.args.at(1), |stored, _| stored.is_some())?);
    } else {
        call.read_many(call.args.from(1), |stored, _| found += i64::from(stored.is_some()))?;
    }
    call.reply.integer(found);
    Ok(())
}

pub(crate) fn key_type(call: &mut Call<'_>) -> Outcome {
    let exists = call.peek(call.args.at(1), |stored, _| stored.is_some())?.0;
    call.reply.simple(if exists { "string" } else { "none" });
    Ok(())
}

pub(crate) fn rename(call: &mut Call<'_>) -> Outcome {
    move_value(call, true)?;
    call.reply.ok();
    Ok(())
}

pub(crate) fn renamenx(call: &mut Call<'_>) -> Outcome {
    let moved = move_value(call, false)?;
    call.reply.integer(i64::from(moved));
    Ok(())
}

/// Moves a value and its expiry to another key; whether it did.
fn move_value(call: &mut Call<'_>, replaces: bool) -> Result<bool, Failure> {
    let (from, to) = (call.args.at(1), call.args.at(2));
    let copy = |stored: Option<WithEnd<'_>>| stored.map(|s| (s.end_ms, s.value.to_vec()));
    let (value, _) = call.peek(from, |stored, _| copy(stored))?;
    let (expiry_ms, payload) = value.ok_or(Failure::Text("ERR no such key"))?;
    if !replaces && call.peek(to, |stored, _| stored.is_some())?.0 {
        return Ok(false);
    }
    if from != to {
        call.delete(from)?;
        call.put(to, expiry_ms, &payload)?;
    }
    Ok(true)
}

pub(crate) fn dbsize(call: &mut Call<'_>) -> Outcome {
    let count = call.store.key_count(call.session.db)?;
    call.reply.integer(i64::try_from(count).unwrap_or(i64::MAX));
    Ok(())
}

pub(crate) fn flushdb(call: &mut Call<'_>) -> Outcome {
    let db = call.session.db;
    flush(call, db..db + 1)
}

pub(crate) fn flushall(call: &mut Call<'_>) -> Outcome {
    flush(call, 0..crate::store::DB_COUNT)
}

fn flush(call: &mut Call<'_>, dbs: std::ops::Range<DbIndex>) -> Outcome {
    if call.args.len() > 2
        || call.args.len() == 2 && !call.args.is(1, "ASYNC") && !call.args.is(1, "SYNC")
    {
        return Err(Failure::SYNTAX);
    }
    for db in dbs.clone() {
        // One that is damaged is refused, before any other is cleared.
        call.store.get(db, b"", call.scratch)?;
    }
    for db in dbs {
        // Only watched keys that exist change by being flushed.
        for key in call.shared.watches.keys(db) {
            if call.store.get(db, &key, call.scratch)? {
                call.shared.watches.touch(db, &key);
            }
        }
        let seqno = call.store.clear(db)?;
        call.written.note(seqno);
    }
    call.reply.ok();
    Ok(())
}

pub(crate) fn object(call: &mut Call<'_>) -> Outcome {
    /// Redis keeps strings up to this long in one piece with their header.
    const EMBEDDED_BYTES_MAX: usize = 44;
    if call.args.is(1, "HELP") {
        call.reply.array(2);
        call.reply.simple("OBJECT <ENCODING|REFCOUNT|IDLETIME> <key>: how a key is kept.");
        call.reply.simple("HELP: this text.");
        return Ok(());
    }
    let known = ["ENCODING", "REFCOUNT", "IDLETIME", "FREQ"];
    if !known.iter().any(|word| call.args.is(1, word)) {
        return Err(Failure::subcommand("OBJECT", call.args.at(1)));
    }
    if call.args.len() != 3 {
        let word = call.args.word(1);
        return Err(Failure::arity(&format!("object|{word}")));
    }
    let encoding = |stored: WithEnd<'_>| match () {
        () if crate::protocol::number::parse_i64(stored.value).is_some() => "int",
        () if stored.value.len() <= EMBEDDED_BYTES_MAX => "embstr",
        () => "raw",
    };
    let (found, _) = call.peek(call.args.at(2), |stored, _| stored.map(encoding))?;
    match found {
        None => call.reply.nil(),
        Some(encoding) if call.args.is(1, "ENCODING") => call.reply.bulk(encoding.as_bytes()),
        Some(_) if call.args.is(1, "REFCOUNT") => call.reply.integer(1),
        Some(_) if call.args.is(1, "IDLETIME") => call.reply.integer(0),
        Some(_) => {
            return Err(Failure::Text(
                "ERR An LFU maxmemory policy is not selected, access frequency not tracked.",
            ));
        }
    }
    Ok(())
}

pub(crate) fn memory(call: &mut Call<'_>) -> Outcome {
    /// What a key costs beside its bytes, roughly.
    const OVERHEAD_BYTES: usize = 56;
    if !call.args.is(1, "USAGE") {
        return Err(Failure::subcommand("MEMORY", call.args.at(1)));
    }
    let samples_asked = call.args.len() == 5 && call.args.is(3, "SAMPLES");
    if call.args.len() != 3 && !samples_asked {
        return Err(Failure::SYNTAX);
    }
    let key = call.args.at(2);
    let (bytes, _) = call.peek(key, |stored, _| stored.map(|stored| stored.value.len()))?;
    match bytes {
        Some(bytes) => call.reply.length(bytes + key.len() + OVERHEAD_BYTES),
        None => call.reply.nil(),
    }
    Ok(())
}

/// Puts `key` back as it was if it is there; what TOUCH counts.
pub(crate) fn touch(call: &mut Call<'_>) -> Outcome {
    exists(call)
}

/// COPY source destination [DB n] [REPLACE].
pub(crate) fn copy(call: &mut Call<'_>) -> Outcome {
    let (from, to) = (call.args.at(1), call.args.at(2));
    let (own_db, mut to_db, mut replaces) = (call.session.db, call.session.db, false);
    let mut at = 3;
    while at < call.args.len() {
        if call.args.is(at, "REPLACE") {
            replaces = true;
        } else if call.args.is(at, "DB") && at + 1 < call.args.len() {
            at += 1;
            to_db = super::connection::parse_db(call.args.at(at))?;
        } else {
            return Err(Failure::SYNTAX);
        }
        at += 1;
    }
    if from == to && own_db == to_db {
        return Err(Failure::Text("ERR source and destination objects are the same"));
    }
    let copy = |stored: Option<WithEnd<'_>>| stored.map(|s| (s.end_ms, s.value.to_vec()));
    let (value, _) = call.peek(from, |stored, _| copy(stored))?;
    let Some((expiry_ms, payload)) = value else {
        call.reply.integer(0);
        return Ok(());
    };
    call.session.db = to_db;
    let result = call.update(to, |stored| {
        if stored.is_some() && !replaces {
            return Ok((Change::Keep, 0));
        }
        Ok((Change::Put(WithEnd { value: &payload, end_ms: expiry_ms }.to_stored()), 1))
    });
    call.session.db = own_db;
    call.reply.integer(result?);
    Ok(())
}
