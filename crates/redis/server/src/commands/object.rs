//! OBJECT and MEMORY USAGE: figures of a key's value besides its bytes.

use super::{Call, Failure, Outcome};
use crate::key_marks::Encoding;
use crate::protocol::number::parse_i64;

/// Bytes of the longest string that Redis keeps in one piece with its header.
const EMBEDDED_BYTES_MAX: usize = 44;
/// Bytes that a key costs besides its own and its value's, roughly.
const KEY_OVERHEAD_BYTES: usize = 56;

/// Returns the length of the value of the key in argument 2, and whether it spells an integer.
fn inspect(call: &mut Call<'_>) -> Result<Option<(usize, bool)>, Failure> {
    let found = call.peek(call.args.at(2), |stored, _| {
        stored.map(|stored| (stored.value.len(), parse_i64(stored.value).is_some()))
    })?;
    Ok(found.0)
}

pub(crate) fn encoding(call: &mut Call<'_>) -> Outcome {
    let Some((len, is_integer)) = inspect(call)? else {
        call.reply.nil();
        return Ok(());
    };
    let encoding = match call.encoding(call.args.at(2)) {
        Encoding::Raw => "raw",
        Encoding::Shortest if is_integer => "int",
        _ if len <= EMBEDDED_BYTES_MAX => "embstr",
        _ => "raw",
    };
    call.reply.bulk(encoding.as_bytes());
    Ok(())
}

pub(crate) fn refcount(call: &mut Call<'_>) -> Outcome {
    match inspect(call)? {
        Some(_) => call.reply.integer(1),
        None => call.reply.nil(),
    }
    Ok(())
}

pub(crate) fn idletime(call: &mut Call<'_>) -> Outcome {
    if inspect(call)?.is_none() {
        call.reply.nil();
        return Ok(());
    }
    let idle_s = call.shared.keys.marks.idle_s(call.session.db, call.args.at(2), call.now_ms);
    call.reply.integer(i64::from(idle_s));
    Ok(())
}

pub(crate) fn freq(call: &mut Call<'_>) -> Outcome {
    if inspect(call)?.is_none() {
        call.reply.nil();
        return Ok(());
    }
    Err(Failure::Text(
        "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note \
         that when switching between policies at runtime LRU and LFU data will take some time to \
         adjust.",
    ))
}

/// MEMORY USAGE. A string has no nested values to take samples of, so SAMPLES is only checked.
pub(crate) fn memory_usage(call: &mut Call<'_>) -> Outcome {
    let mut at = 3;
    while at < call.args.len() {
        if !call.args.is(at, "SAMPLES") || at + 1 >= call.args.len() {
            return Err(Failure::SYNTAX);
        }
        let samples = parse_i64(call.args.at(at + 1)).ok_or(Failure::NOT_AN_INTEGER)?;
        if samples < 0 {
            return Err(Failure::SYNTAX);
        }
        at += 2;
    }
    let key_len = call.args.at(2).len();
    match inspect(call)? {
        Some((len, _)) => call.reply.length(len + key_len + KEY_OVERHEAD_BYTES),
        None => call.reply.nil(),
    }
    Ok(())
}
