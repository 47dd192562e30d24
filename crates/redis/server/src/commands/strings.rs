//! GET and its relatives: reading and writing whole strings and parts of them. (SET has its own
//! file.)

use thermocline::Expiring;

use super::{Call, Failure, Outcome, Room};
use crate::key_marks::Encoding;
use crate::protocol::number::parse_i64;
use crate::protocol::{Extent, Reply};
use crate::store::Change;

/// Replies with a value.
///
/// # Errors
/// The failures of [`Room::check`]; then nothing was written.
fn answer(stored: Option<Expiring<'_>>, reply: &mut Reply<'_>, room: &Room<'_>) -> Outcome {
    match stored {
        Some(stored) => return room.bulk(reply, stored.value),
        None => reply.nil(),
    }
    Ok(())
}

/// Copies a value that the reply will have, before anything changes.
///
/// # Errors
/// The failures of [`Room::check`].
pub(crate) fn copy_for_reply(
    stored: Option<Expiring<'_>>,
    reply: Extent,
    room: &Room<'_>,
) -> Result<Option<Vec<u8>>, Failure> {
    let Some(stored) = stored else { return Ok(None) };
    room.check_value(reply, stored.value.len())?;
    Ok(Some(stored.value.to_vec()))
}

/// Replies with a value that was copied out of the store.
pub(crate) fn answer_copy(old: Option<Vec<u8>>, reply: &mut Reply<'_>) {
    match old {
        Some(old) => reply.bulk(&old),
        None => reply.nil(),
    }
}

pub(crate) fn get(call: &mut Call<'_>) -> Outcome {
    let room = call.room;
    call.read(call.args.at(1), |stored, reply| answer(stored, reply, room))?
}

pub(crate) fn mget(call: &mut Call<'_>) -> Outcome {
    call.reply.array(call.args.len() - 1);
    if call.args.len() == 2 {
        return get(call);
    }
    call.args.from(1).for_each(|key| call.note_use(key));
    let room = call.room;
    call.read_many(call.args.from(1), |stored, reply| answer(stored, reply, room))
}

pub(crate) fn strlen(call: &mut Call<'_>) -> Outcome {
    let len = call.read(call.args.at(1), |stored, _| stored.map_or(0, |s| s.value.len()))?;
    call.reply.length(len);
    Ok(())
}

pub(crate) fn getset(call: &mut Call<'_>) -> Outcome {
    let value = call.args.at(2);
    let (reply, room) = (call.reply.extent(), call.room);
    let old = call.update(call.args.at(1), |stored| {
        let old = copy_for_reply(stored, reply, room)?;
        Ok((Change::Put(Expiring { value, expiry_ms: None }.to_stored()), old))
    })?;
    answer_copy(old, &mut call.reply);
    Ok(())
}

pub(crate) fn getdel(call: &mut Call<'_>) -> Outcome {
    let (reply, room) = (call.reply.extent(), call.room);
    let old = call.update(call.args.at(1), |stored| {
        Ok((Change::Delete, copy_for_reply(stored, reply, room)?))
    })?;
    answer_copy(old, &mut call.reply);
    Ok(())
}

pub(crate) fn setnx(call: &mut Call<'_>) -> Outcome {
    let value = call.args.at(2);
    let set = call.update(call.args.at(1), |stored| {
        let new = Expiring { value, expiry_ms: None };
        Ok(match stored {
            Some(_) => (Change::Keep, 0),
            None => (Change::Put(new.to_stored()), 1),
        })
    })?;
    call.reply.integer(set);
    Ok(())
}

pub(crate) fn mset(call: &mut Call<'_>) -> Outcome {
    check_pairs(call)?;
    set_pairs(call)?;
    call.reply.ok();
    Ok(())
}

pub(crate) fn msetnx(call: &mut Call<'_>) -> Outcome {
    check_pairs(call)?;
    if call.args.len() == 3 {
        return setnx(call);
    }
    let mut is_any_there = false;
    call.peek_many(call.args.from(1).step_by(2), |_, stored, _| {
        is_any_there |= stored.is_some();
        Ok(())
    })?;
    if is_any_there {
        call.reply.integer(0);
        return Ok(());
    }
    set_pairs(call)?;
    call.reply.integer(1);
    Ok(())
}

fn check_pairs(call: &Call<'_>) -> Outcome {
    if call.args.len().is_multiple_of(2) { Err(Failure::arity(call.name())) } else { Ok(()) }
}

fn set_pairs(call: &mut Call<'_>) -> Outcome {
    let args = call.args;
    for pair in (1..args.len()).step_by(2) {
        call.put(args.at(pair), None, args.at(pair + 1))?;
    }
    Ok(())
}

pub(crate) fn append(call: &mut Call<'_>) -> Outcome {
    let (tail, max) = (call.args.at(2), call.value_bytes_max());
    let (len, existed) = call.update(call.args.at(1), |stored| {
        let old = stored.unwrap_or(Expiring { value: b"", expiry_ms: None });
        let len = old.value.len() + tail.len();
        if len > max {
            return Err(Failure::TOO_LONG);
        }
        let whole = [old.value, tail].concat();
        let new = Expiring { value: &whole, expiry_ms: old.expiry_ms };
        Ok((Change::Put(new.to_stored()), (len, stored.is_some())))
    })?;
    // The first bytes of an absent key are no change.
    call.note_value(call.args.at(1), if existed { Encoding::Raw } else { Encoding::Shortest });
    call.reply.length(len);
    Ok(())
}

pub(crate) fn getrange(call: &mut Call<'_>) -> Outcome {
    let bound = |index| parse_i64(call.args.at(index)).ok_or(Failure::NOT_AN_INTEGER);
    let (start, end) = (bound(2)?, bound(3)?);
    let room = call.room;
    call.read(call.args.at(1), |stored, reply| {
        let payload = stored.map_or(&b""[..], |stored| stored.value);
        let len = payload.len() as i64;
        if start < 0 && end < 0 && start > end {
            return room.bulk(reply, b"");
        }
        // Negative places count from the end; places outside the value are clipped.
        let place = |at: i64| (if at < 0 { at.saturating_add(len) } else { at }).max(0);
        let (start, end) = (place(start), place(end).min(len - 1));
        let range = start as usize..(end + 1).max(0) as usize;
        room.bulk(reply, payload.get(range).unwrap_or_default())
    })?
}

pub(crate) fn setrange(call: &mut Call<'_>) -> Outcome {
    let offset = parse_i64(call.args.at(2)).ok_or(Failure::NOT_AN_INTEGER)?;
    let (patch, max) = (call.args.at(3), call.value_bytes_max());
    let offset =
        usize::try_from(offset).map_err(|_| Failure::Text("ERR offset is out of range"))?;
    let len = call.update(call.args.at(1), |stored| {
        let old = stored.unwrap_or(Expiring { value: b"", expiry_ms: None });
        if patch.is_empty() {
            return Ok((Change::Keep, old.value.len()));
        }
        let end = offset.checked_add(patch.len()).filter(|&end| end <= max);
        let end = end.ok_or(Failure::TOO_LONG)?;
        let mut payload = old.value.to_vec();
        payload.resize(payload.len().max(end), 0);
        payload[offset..end].copy_from_slice(patch);
        let new = Expiring { value: &payload, expiry_ms: old.expiry_ms };
        Ok((Change::Put(new.to_stored()), payload.len()))
    })?;
    if !patch.is_empty() {
        call.note_value(call.args.at(1), Encoding::Raw);
    }
    call.reply.length(len);
    Ok(())
}
