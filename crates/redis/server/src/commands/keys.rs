//! DEL, EXISTS, TYPE, RENAME and other commands on keys with any value.

use std::collections::HashSet;

use thermocline::Expiring;

use super::access::SLICE_KEYS;
use super::{Call, Failure, Outcome, ReadMode};
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
        found += i64::from(call.read_quietly(call.args.at(1), |stored, _| stored.is_some())?);
    } else {
        call.read_many(call.args.from(1), |stored, _| {
            found += i64::from(stored.is_some());
            Ok(())
        })?;
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
    let copy = |stored: Option<Expiring<'_>>| stored.map(|s| (s.expiry_ms, s.value.to_vec()));
    let (value, _) = call.peek(from, |stored, _| copy(stored))?;
    let (expiry_ms, payload) = value.ok_or(Failure::Text("ERR no such key"))?;
    if !replaces && call.peek(to, |stored, _| stored.is_some())?.0 {
        return Ok(false);
    }
    if from != to {
        let encoding = call.encoding(from);
        call.delete(from)?;
        call.put(to, expiry_ms, &payload)?;
        call.note_value(to, encoding);
    }
    Ok(true)
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
    let mut dbs: Vec<DbIndex> = dbs.collect();
    if let Some(remote) = call.shared.store.remote() {
        // An absent one costs several calls of the cluster.
        let present = remote.databases()?;
        dbs.retain(|db| present.contains(db));
    }
    for db in dbs.iter().copied() {
        // One that is damaged is refused, before any other is cleared.
        call.store.get(db, b"", call.scratch)?;
    }
    if let ReadMode::Alone(alone) = call.read_mode {
        alone.close();
    }
    for db in dbs {
        // Only watched keys that exist change by being flushed.
        for keys in call.shared.keys.watches.keys(db).chunks(SLICE_KEYS) {
            let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
            call.store.multi_get(db, &keys, &mut |index, value| {
                if let Some(key) = keys.get(index).filter(|_| value.is_some()) {
                    call.shared.keys.watches.touch(db, key);
                }
            })?;
        }
        let seqno = call.store.clear(db)?;
        call.written.note(seqno);
    }
    call.reply.ok();
    Ok(())
}

/// Counts as EXISTS does. It is a use of the keys also for a client with CLIENT NO-TOUCH.
pub(crate) fn touch(call: &mut Call<'_>) -> Outcome {
    exists(call)?;
    for key in call.args.from(1) {
        call.shared.keys.marks.note_use(call.session.db, key, call.now_ms);
    }
    Ok(())
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
    super::apart::check_other(call, to_db)?;
    if from == to && own_db == to_db {
        return Err(Failure::Text("ERR source and destination objects are the same"));
    }
    let copy = |stored: Option<Expiring<'_>>| stored.map(|s| (s.expiry_ms, s.value.to_vec()));
    let (value, _) = call.peek(from, |stored, _| copy(stored))?;
    let Some((expiry_ms, payload)) = value else {
        call.reply.integer(0);
        return Ok(());
    };
    let encoding = call.encoding(from);
    call.session.db = to_db;
    let result = call.update(to, |stored| {
        if stored.is_some() && !replaces {
            return Ok((Change::Keep, 0));
        }
        Ok((Change::Put(Expiring { value: &payload, expiry_ms }.to_stored()), 1))
    });
    if let Ok(1) = &result {
        call.note_value(to, encoding);
    }
    call.session.db = own_db;
    call.reply.integer(result?);
    Ok(())
}
