//! SCAN, KEYS and RANDOMKEY: finding keys without naming them.

use std::ops::ControlFlow::{self, Break, Continue};

use thermocline::WithEnd;

use super::{Call, Failure, Outcome};
use crate::glob;
use crate::protocol::number::{parse_i64, parse_u64};
use crate::store::StoreError;

/// What SCAN's options ask for.
struct Wanted<'a> {
    count: usize,
    pattern: Option<&'a [u8]>,
    /// Whether strings, the only type there is, are asked for.
    strings: bool,
}

/// Keys that one SCAN looks at at most, whatever COUNT says ...
const LOOKED_AT_PER_CALL: usize = 100_000;
/// ... and bytes of keys after which it stops, so that its reply stays small.
const BYTES_PER_CALL: usize = 1 << 20;
/// Keys of expired values that one SCAN passes over at most: a slice stays short even in the midst
/// of a million of them.
const EXPIRED_PER_CALL: usize = 1000;

impl<'a> Wanted<'a> {
    fn parse(call: &Call<'a>) -> Result<Self, Failure> {
        let mut wanted = Self { count: 10, pattern: None, strings: true };
        let mut at = 2;
        while at < call.args.len() {
            let value = call.args.get(at + 1).ok_or(Failure::SYNTAX)?;
            if call.args.is(at, "COUNT") {
                let count = parse_i64(value).ok_or(Failure::NOT_AN_INTEGER)?;
                wanted.count = usize::try_from(count).unwrap_or(0).min(LOOKED_AT_PER_CALL);
                if wanted.count == 0 {
                    return Err(Failure::SYNTAX);
                }
            } else if call.args.is(at, "MATCH") {
                wanted.pattern = Some(value);
            } else if call.args.is(at, "TYPE") {
                wanted.strings = value.eq_ignore_ascii_case(b"string");
            } else {
                return Err(Failure::SYNTAX);
            }
            at += 2;
        }
        Ok(wanted)
    }
}

pub(crate) fn scan(call: &mut Call<'_>) -> Outcome {
    let cursor = parse_u64(call.args.at(1)).ok_or(Failure::Text("ERR invalid cursor"))?;
    let wanted = Wanted::parse(call)?;
    let (db, now_ms) = (call.session.db, call.now_ms);
    let from = match cursor {
        0 => None,
        _ => Some(call.shared.cursors.position(db, cursor).ok_or(Failure::Text(
            "ERR invalid cursor: this scan is not known any more, begin again with 0",
        ))?),
    };
    let (mark, mut count) = (call.reply.mark(), 0);
    let (mut next, mut seen, mut expired) = (None, 0, 0);
    let reply = &mut call.reply;
    call.store.walk(db, from.as_deref(), &mut |key, value| {
        let is_long = reply.mark() - mark > BYTES_PER_CALL;
        if seen >= wanted.count || expired >= EXPIRED_PER_CALL || is_long {
            next = Some(key.to_vec());
            return Break(());
        }
        if !is_live(value, now_ms) {
            expired += 1;
            return Continue(());
        }
        seen += 1;
        if wanted.strings && wanted.pattern.is_none_or(|glob| glob::matches(glob, key, false)) {
            reply.bulk(key);
            count += 1;
        }
        Continue(())
    })?;
    let cursor = next.map_or(0, |key| call.shared.cursors.cursor(db, &key));
    call.reply.insert(mark, |head| {
        head.array(2);
        head.bulk(itoa::Buffer::new().format(cursor).as_bytes());
        head.array(count);
    });
    Ok(())
}

pub(crate) fn keys(call: &mut Call<'_>) -> Outcome {
    let pattern = call.args.at(1);
    let (db, now_ms) = (call.session.db, call.now_ms);
    // Keys with one beginning lie together where there is an order.
    let prefix = call.store.is_ordered(db).then(|| glob::literal_prefix(pattern));
    let (mark, mut count, mut room) = (call.reply.mark(), 0, Ok(()));
    let reply = &mut call.reply;
    call.store.walk(db, prefix, &mut |key, value| {
        if prefix.is_some_and(|prefix| !key.starts_with(prefix)) {
            return Break(());
        }
        if is_live(value, now_ms) && glob::matches(pattern, key, false) {
            reply.bulk(key);
            count += 1;
            room = call.room.check(reply.extent());
        }
        if room.is_ok() { Continue(()) } else { Break(()) }
    })?;
    room?;
    call.reply.insert(mark, |head| head.array(count));
    Ok(())
}

fn is_live(value: &[u8], now_ms: u64) -> bool {
    // Damaged values count as live: whoever reads them is told.
    WithEnd::decode(value).map_or(true, |stored| !stored.has_ended(now_ms))
}

pub(crate) fn randomkey(call: &mut Call<'_>) -> Outcome {
    let target = match call.store.is_ordered(call.session.db) {
        true => random_key_prefix(call)?,
        // Without an order, a key of random bytes lies anywhere.
        false => (0..16).filter_map(|_| u8::try_from(call.session.pick(256)).ok()).collect(),
    };
    let mut found = first_live(call, Some(&target))?;
    if found.is_none() {
        found = first_live(call, None)?;
    }
    super::strings::answer_copy(found, &mut call.reply);
    Ok(())
}

fn first_live(call: &Call<'_>, from: Option<&[u8]>) -> Result<Option<Vec<u8>>, StoreError> {
    let mut found = None;
    call.store.walk(call.session.db, from, &mut |key, value| {
        if is_live(value, call.now_ms) {
            found = Some(key.to_vec());
            return Break(());
        }
        Continue(())
    })?;
    Ok(found)
}

/// A random place among the keys of an ordered store: a walk down the alphabet that the keys really use, one byte at a
/// time, so that common prefixes do not make it always the first or the last.
fn random_key_prefix(call: &mut Call<'_>) -> Result<Vec<u8>, StoreError> {
    const DEPTH_MAX: usize = 32;
    const CHILDREN_MAX: usize = 256;
    let mut prefix = Vec::new();
    while prefix.len() < DEPTH_MAX {
        let children = children(call, &prefix, CHILDREN_MAX)?;
        let Some(&child) = children.get(call.session.pick(children.len())) else { break };
        prefix.push(child);
    }
    Ok(prefix)
}

/// The bytes that follow `prefix` in some key.
fn children(call: &Call<'_>, prefix: &[u8], max: usize) -> Result<Vec<u8>, StoreError> {
    let mut bytes = Vec::new();
    let mut from = prefix.to_vec();
    while bytes.len() < max {
        let mut next = None;
        call.store.walk(call.session.db, Some(&from), &mut |key, _| -> ControlFlow<()> {
            if key == prefix {
                // The prefix itself is a key; its children lie behind it.
                return Continue(());
            }
            next = key.strip_prefix(prefix).and_then(|rest| rest.first()).copied();
            Break(())
        })?;
        let Some(byte) = next else { break };
        bytes.push(byte);
        let Some(after) = byte.checked_add(1) else { break };
        from = [prefix, &[after]].concat();
    }
    Ok(bytes)
}
