//! SCAN, KEYS, RANDOMKEY and DBSIZE: commands that find and count keys, a slice at a time.

use super::walk::Flow;
use super::{Call, Failure, Outcome};
use crate::glob;
use crate::protocol::number::{parse_i64, parse_u64};
use crate::store::walks::{From, SLICE_KEYS, Slice};

/// The request that SCAN's options make.
struct Wanted<'a> {
    count: usize,
    pattern: Option<&'a [u8]>,
    /// Whether the request includes strings, the only type there is.
    strings: bool,
}

/// Keys that one SCAN looks at at most, with any COUNT ...
const LOOKED_AT_PER_CALL: usize = 100_000;
/// ... and bytes of keys after which it stops, so that its reply stays small.
const BYTES_PER_CALL: usize = 1 << 20;
/// Keys of expired values that one SCAN passes over at most: a slice stays short even in the midst
/// of a million of them.
const EXPIRED_PER_CALL: usize = 1000;
/// Keys among which RANDOMKEY looks for one that is not expired, at first.
const RANDOM_KEYS: usize = 8;

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
    let db = call.session.db;
    let begin = |call: &mut Call<'_>| {
        call.walking().request.keys_max = wanted.count;
        if cursor == 0 {
            return Ok(From::Begin);
        }
        let position = call.shared.keys.cursors.position(db, cursor);
        position.map(From::Key).ok_or(Failure::Text(
            "ERR invalid cursor: this scan is not known any more, begin again with 0",
        ))
    };
    call.walk(begin, |call, slice| {
        let next = scan_slice(call, &wanted, slice);
        call.check_walk_room()?;
        match next {
            Next::Slice(key) => {
                call.walking().request.from = From::Key(key);
                call.walking().request.keys_max = wanted.count - call.walking().count as usize;
                return Ok(Flow::More);
            }
            Next::Cursor(key) => {
                let cursor = key.map_or(0, |key| call.shared.keys.cursors.cursor(db, &key));
                call.reply.array(2);
                call.reply.bulk(itoa::Buffer::new().format(cursor).as_bytes());
            }
        }
        call.reply_keys();
        Ok(Flow::Done)
    })
}

/// How a scan continues.
enum Next {
    /// The same call reads on at this key.
    Slice(Vec<u8>),
    /// The next call begins at this key, or there is none.
    Cursor(Option<Vec<u8>>),
}

/// Shows the keys of a slice that are wanted.
fn scan_slice(call: &mut Call<'_>, wanted: &Wanted<'_>, slice: &Slice) -> Next {
    for (key, expiry_ms) in &slice.keys {
        if is_enough(call, wanted) {
            return Next::Cursor(Some(key.clone()));
        }
        if !is_live(*expiry_ms, call.now_ms) {
            call.walking().expired += 1;
            continue;
        }
        call.walking().count += 1;
        if wanted.strings && wanted.pattern.is_none_or(|glob| glob::matches(glob, key, false)) {
            call.walking().show(key);
        }
    }
    match &slice.next {
        Some(key) if !is_enough(call, wanted) => Next::Slice(key.clone()),
        next => Next::Cursor(next.clone()),
    }
}

/// Whether one call has looked at enough keys.
fn is_enough(call: &mut Call<'_>, wanted: &Wanted<'_>) -> bool {
    let walk = call.walking();
    walk.count >= wanted.count as u64
        || walk.expired >= EXPIRED_PER_CALL
        || walk.keys.len() > BYTES_PER_CALL
}

pub(crate) fn keys(call: &mut Call<'_>) -> Outcome {
    let pattern = call.args.at(1);
    // Keys with one beginning are adjacent in a store with an order.
    let is_ordered = call.store.is_ordered(call.session.db);
    let prefix = is_ordered.then(|| glob::literal_prefix(pattern));
    let begin = |call: &mut Call<'_>| {
        call.walking().request.keys_max = SLICE_KEYS;
        Ok(prefix.map_or(From::Begin, |prefix| From::Key(prefix.to_vec())))
    };
    if call.walking().is_over {
        return call.end_walk();
    }
    call.walk(begin, |call, slice| {
        let is_behind = |key: &[u8]| prefix.is_some_and(|prefix| !key.starts_with(prefix));
        let mut next = slice.next.clone();
        for (key, expiry_ms) in &slice.keys {
            if is_behind(key) {
                next = None;
                break;
            }
            if is_live(*expiry_ms, call.now_ms) && glob::matches(pattern, key, false) {
                call.walking().show(key);
            }
        }
        call.check_walk_room()?;
        if let Some(key) = next {
            call.walking().request.from = From::Key(key);
            return Ok(Flow::More);
        }
        call.end_walk()?;
        Ok(Flow::Done)
    })
}

fn is_live(expiry_ms: Option<u64>, now_ms: u64) -> bool {
    expiry_ms.is_none_or(|expiry_ms| expiry_ms > now_ms)
}

pub(crate) fn randomkey(call: &mut Call<'_>) -> Outcome {
    let begin = |call: &mut Call<'_>| {
        call.walking().request.keys_max = RANDOM_KEYS;
        Ok(From::Random(call.session.pick(usize::MAX) as u64))
    };
    call.walk(begin, |call, slice| {
        let live = slice.keys.iter().find(|(_, expiry_ms)| is_live(*expiry_ms, call.now_ms));
        if let Some((key, _)) = live {
            call.reply.bulk(key);
            return Ok(Flow::Done);
        }
        // From the end the walk continues at the beginning, once.
        call.walking().request.keys_max = SLICE_KEYS;
        call.walking().request.from = match &slice.next {
            Some(key) => From::Key(key.clone()),
            None if call.walking().count == 0 => {
                call.walking().count = 1;
                From::Begin
            }
            None => {
                call.reply.nil();
                return Ok(Flow::Done);
            }
        };
        Ok(Flow::More)
    })
}

/// Keys that DBSIZE counts one by one if the store does not count; above that number it estimates.
const COUNTED_KEYS: u64 = 10_000;

pub(crate) fn dbsize(call: &mut Call<'_>) -> Outcome {
    let db = call.session.db;
    if let Some(count) = call.store.counted_keys(db)? {
        call.reply.integer(i64::try_from(count).unwrap_or(i64::MAX));
        return Ok(());
    }
    let begin = |call: &mut Call<'_>| {
        call.walking().request.keys_max = SLICE_KEYS;
        Ok(From::Begin)
    };
    call.walk(begin, |call, slice| {
        call.walking().count += slice.keys.len() as u64;
        let mut count = call.walking().count;
        if let Some(key) = &slice.next {
            let about = if count < COUNTED_KEYS { None } else { estimate(call, count, key)? };
            let Some(about) = about else {
                call.walking().request.from = From::Key(key.clone());
                return Ok(Flow::More);
            };
            count = about;
        }
        call.reply.integer(i64::try_from(count).unwrap_or(i64::MAX));
        Ok(Flow::Done)
    })
}

/// Returns about how many keys there are if `count` of them come before `key`.
fn estimate(call: &Call<'_>, count: u64, key: &[u8]) -> Result<Option<u64>, Failure> {
    let db = call.session.db;
    if call.store.is_ordered(db) {
        // The last whole walk of the expiry sweep has counted them.
        let known = call.store.expiry(db)?.filter(|known| known.passes > 0);
        return Ok(known.map(|known| known.keys).filter(|keys| *keys >= count));
    }
    // Positions are hashes, so the share of keys before one is the share of positions before it.
    let position = u128::from(call.store.position(db, key)?);
    let all = u128::from(count) << u64::BITS;
    Ok(all.checked_div(position).and_then(|keys| u64::try_from(keys).ok()))
}
