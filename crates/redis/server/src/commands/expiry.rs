//! EXPIRE, TTL and their relatives: when keys expire.

use thermocline::Expiring;

use super::{Call, Failure, Outcome};
use crate::protocol::number::parse_i64;
use crate::store::Change;

/// How a command spells a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Seconds,
    Milliseconds,
    SecondsAt,
    MillisecondsAt,
}

/// Returns the moment that `number` names, in milliseconds since the epoch (perhaps before it), or
/// `None` if that is beyond 64 bits.
pub(crate) fn expiry_ms(number: i64, unit: Unit, now_ms: u64) -> Option<i64> {
    let now_ms = i64::try_from(now_ms).ok()?;
    match unit {
        Unit::Seconds => number.checked_mul(1000)?.checked_add(now_ms),
        Unit::Milliseconds => number.checked_add(now_ms),
        Unit::SecondsAt => number.checked_mul(1000),
        Unit::MillisecondsAt => Some(number),
    }
}

/// NX, XX, GT and LT of EXPIRE.
#[derive(Clone, Copy, Debug, Default)]
struct Conditions {
    if_none: bool,
    if_some: bool,
    if_later: bool,
    if_sooner: bool,
}

impl Conditions {
    fn parse(call: &Call<'_>) -> Result<Self, Failure> {
        let mut conditions = Self::default();
        for index in 3..call.args.len() {
            match () {
                () if call.args.is(index, "NX") => conditions.if_none = true,
                () if call.args.is(index, "XX") => conditions.if_some = true,
                () if call.args.is(index, "GT") => conditions.if_later = true,
                () if call.args.is(index, "LT") => conditions.if_sooner = true,
                () => {
                    let option = call.args.at(index);
                    return Err(Failure::quoting("ERR Unsupported option ", option, ""));
                }
            }
        }
        let Self { if_none, if_some, if_later, if_sooner } = conditions;
        if if_none && (if_some || if_later || if_sooner) {
            return Err(Failure::Text(
                "ERR NX and XX, GT or LT options at the same time are not compatible",
            ));
        }
        if if_later && if_sooner {
            return Err(Failure::Text("ERR GT and LT options at the same time are not compatible"));
        }
        Ok(conditions)
    }

    /// Whether an expiry may replace `old`; no expiry counts as infinitely late.
    fn allow(self, old: Option<u64>, new_ms: i64) -> bool {
        let old = old.map(|old| i64::try_from(old).unwrap_or(i64::MAX));
        !(self.if_none && old.is_some()
            || self.if_some && old.is_none()
            || self.if_later && old.is_none_or(|old| new_ms <= old)
            || self.if_sooner && old.is_some_and(|old| new_ms >= old))
    }
}

fn set_expiry(call: &mut Call<'_>, unit: Unit) -> Outcome {
    let conditions = Conditions::parse(call)?;
    let number = parse_i64(call.args.at(2)).ok_or(Failure::NOT_AN_INTEGER)?;
    let new_ms = expiry_ms(number, unit, call.now_ms);
    let new_ms = new_ms.ok_or_else(|| Failure::expire_time(call.name()))?;
    let now_ms = call.now_ms;
    let set = call.change_expiry(call.args.at(1), |stored| {
        let Some(stored) = stored.filter(|stored| conditions.allow(stored.expiry_ms, new_ms))
        else {
            return Ok((Change::Keep, 0));
        };
        // A moment before the epoch is long past, as 0 is.
        let expiry_ms = u64::try_from(new_ms).unwrap_or(0);
        let new = Expiring { expiry_ms: Some(expiry_ms), value: stored.value };
        let change =
            if new.is_expired(now_ms) { Change::Delete } else { Change::Put(new.to_stored()) };
        Ok((change, 1))
    })?;
    call.reply.integer(set);
    Ok(())
}

pub(crate) fn expire(call: &mut Call<'_>) -> Outcome {
    set_expiry(call, Unit::Seconds)
}

pub(crate) fn pexpire(call: &mut Call<'_>) -> Outcome {
    set_expiry(call, Unit::Milliseconds)
}

pub(crate) fn expireat(call: &mut Call<'_>) -> Outcome {
    set_expiry(call, Unit::SecondsAt)
}

pub(crate) fn pexpireat(call: &mut Call<'_>) -> Outcome {
    set_expiry(call, Unit::MillisecondsAt)
}

pub(crate) fn persist(call: &mut Call<'_>) -> Outcome {
    let changed = call.change_expiry(call.args.at(1), |stored| {
        Ok(match stored.filter(|stored| stored.expiry_ms.is_some()) {
            Some(stored) => {
                let new = Expiring { value: stored.value, expiry_ms: None };
                (Change::Put(new.to_stored()), 1)
            }
            None => (Change::Keep, 0),
        })
    })?;
    call.reply.integer(changed);
    Ok(())
}

/// Replies with the result of `show` for the key's expiry; -1 without one, -2 without a key.
fn answer_expiry(call: &mut Call<'_>, show: impl FnOnce(u64) -> u64) -> Outcome {
    let answer =
        call.read_quietly(call.args.at(1), |stored, _| match stored.map(|s| s.expiry_ms) {
            None => -2,
            Some(None) => -1,
            Some(Some(expiry_ms)) => i64::try_from(show(expiry_ms)).unwrap_or(i64::MAX),
        })?;
    call.reply.integer(answer);
    Ok(())
}

pub(crate) fn ttl(call: &mut Call<'_>) -> Outcome {
    let now_ms = call.now_ms;
    answer_expiry(call, |expiry_ms| expiry_ms.saturating_sub(now_ms).saturating_add(500) / 1000)
}

pub(crate) fn pttl(call: &mut Call<'_>) -> Outcome {
    let now_ms = call.now_ms;
    answer_expiry(call, |expiry_ms| expiry_ms.saturating_sub(now_ms))
}

pub(crate) fn expiretime(call: &mut Call<'_>) -> Outcome {
    answer_expiry(call, |expiry_ms| expiry_ms.saturating_add(500) / 1000)
}

pub(crate) fn pexpiretime(call: &mut Call<'_>) -> Outcome {
    answer_expiry(call, |expiry_ms| expiry_ms)
}
