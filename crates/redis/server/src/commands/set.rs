//! SET with its options, SETEX, PSETEX, GETEX: commands that set a value and its expiry together.

use thermocline::Expiring;

use super::expiry::{Unit, expiry_ms};
use super::flags::Access;
use super::strings::{answer_copy, copy_for_reply};
use super::{Call, Failure, Outcome};
use crate::protocol::Args;
use crate::store::Change;

/// The option about expiry. One that is repeated counts as given last; two different ones are an
/// error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Expiry {
    #[default]
    Unsaid,
    Keep,
    Persist,
    /// A time in this unit, in the argument with this index.
    Timed(Unit, usize),
}

/// The condition on the present value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Condition {
    #[default]
    Always,
    IfAbsent,
    IfPresent,
}

pub(crate) fn set(call: &mut Call<'_>) -> Outcome {
    let (key, value) = (call.args.at(1), call.args.at(2));
    if call.args.len() == 3 {
        call.put(key, None, value)?;
        call.reply.ok();
        return Ok(());
    }
    let (mut condition, mut returns_old) = (Condition::Always, false);
    let mut expiry = Expiry::Unsaid;
    let mut at = 3;
    while at < call.args.len() {
        if call.args.is(at, "NX") && condition != Condition::IfPresent {
            condition = Condition::IfAbsent;
        } else if call.args.is(at, "XX") && condition != Condition::IfAbsent {
            condition = Condition::IfPresent;
        } else if call.args.is(at, "GET") {
            returns_old = true;
        } else if call.args.is(at, "KEEPTTL") && matches!(expiry, Expiry::Unsaid | Expiry::Keep) {
            expiry = Expiry::Keep;
        } else {
            expiry = timed_option(call, &mut at, expiry)?;
        }
        at += 1;
    }
    let new_expiry = match expiry {
        Expiry::Timed(unit, index) => NewExpiry::At(positive_expiry(call, index, unit, "set")?),
        Expiry::Keep => NewExpiry::Keep,
        Expiry::Unsaid | Expiry::Persist => NewExpiry::Never,
    };
    set_if(call, key, value, condition, returns_old, new_expiry)
}

/// Returns the access of SET to its key: it reads the value only with the option GET.
pub(crate) fn access(args: Args<'_>) -> Access {
    let returns_old = (3..args.len()).any(|at| args.is(at, "GET"));
    if returns_old { &["RW", "access", "update"] } else { &["OW", "update"] }
}

/// Whether a command that overwrites its keys depends on the old values after all: SET with some
/// options.
pub(crate) fn depends_on_old(args: Args<'_>) -> bool {
    let reads = |at| ["NX", "XX", "GET", "KEEPTTL"].iter().any(|option| args.is(at, option));
    args.is(0, "set") && (3..args.len()).any(reads)
}

/// The expiry of the value that SET writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NewExpiry {
    Never,
    /// The old value's.
    Keep,
    At(u64),
}

/// Reads `EX s`, `PX ms`, `EXAT s` or `PXAT ms` at `at`, and leaves `at` on its number.
fn timed_option(call: &Call<'_>, at: &mut usize, so_far: Expiry) -> Result<Expiry, Failure> {
    let unit = match () {
        () if call.args.is(*at, "EX") => Unit::Seconds,
        () if call.args.is(*at, "PX") => Unit::Milliseconds,
        () if call.args.is(*at, "EXAT") => Unit::SecondsAt,
        () if call.args.is(*at, "PXAT") => Unit::MillisecondsAt,
        () => return Err(Failure::SYNTAX),
    };
    let is_free = match so_far {
        Expiry::Unsaid => true,
        Expiry::Timed(earlier, _) => earlier == unit,
        Expiry::Keep | Expiry::Persist => false,
    };
    if !is_free || *at + 1 >= call.args.len() {
        return Err(Failure::SYNTAX);
    }
    *at += 1;
    Ok(Expiry::Timed(unit, *at))
}

/// Returns the moment that argument `index` names, which must be in the future of the epoch.
fn positive_expiry(
    call: &Call<'_>,
    index: usize,
    unit: Unit,
    command: &str,
) -> Result<u64, Failure> {
    let number = crate::protocol::number::parse_i64(call.args.at(index));
    let number = number.ok_or(Failure::NOT_AN_INTEGER)?;
    if number <= 0 {
        return Err(Failure::expire_time(command));
    }
    match expiry_ms(number, unit, call.now_ms) {
        Some(moment) => Ok(u64::try_from(moment).unwrap_or_default()),
        None => Err(Failure::expire_time(command)),
    }
}

/// Sets `key` under a condition, answering OK, the old value, or nothing.
fn set_if(
    call: &mut Call<'_>,
    key: &[u8],
    value: &[u8],
    condition: Condition,
    returns_old: bool,
    new_expiry: NewExpiry,
) -> Outcome {
    let now_ms = call.now_ms;
    if condition == Condition::Always && !returns_old && new_expiry != NewExpiry::Keep {
        let expiry_ms = if let NewExpiry::At(moment) = new_expiry { Some(moment) } else { None };
        call.put(key, expiry_ms, value)?;
        call.reply.ok();
        return Ok(());
    }
    let (reply, room) = (call.reply.extent(), call.room);
    let (set, old) = call.update(key, |stored| {
        let old = copy_for_reply(stored.filter(|_| returns_old), reply, room)?;
        let allowed = match condition {
            Condition::Always => true,
            Condition::IfAbsent => stored.is_none(),
            Condition::IfPresent => stored.is_some(),
        };
        if !allowed {
            return Ok((Change::Keep, (false, old)));
        }
        let expiry_ms = match new_expiry {
            NewExpiry::Never => None,
            NewExpiry::Keep => stored.and_then(|stored| stored.expiry_ms),
            NewExpiry::At(moment) => Some(moment),
        };
        let new = Expiring { value, expiry_ms };
        let change =
            if new.is_expired(now_ms) { Change::Delete } else { Change::Put(new.to_stored()) };
        Ok((change, (true, old)))
    })?;
    match (returns_old, set) {
        (true, _) => answer_copy(old, &mut call.reply),
        (false, true) => call.reply.ok(),
        (false, false) => call.reply.nil(),
    }
    Ok(())
}

pub(crate) fn setex(call: &mut Call<'_>) -> Outcome {
    set_for(call, Unit::Seconds, "setex")
}

pub(crate) fn psetex(call: &mut Call<'_>) -> Outcome {
    set_for(call, Unit::Milliseconds, "psetex")
}

fn set_for(call: &mut Call<'_>, unit: Unit, command: &str) -> Outcome {
    let moment = positive_expiry(call, 2, unit, command)?;
    call.put(call.args.at(1), Some(moment), call.args.at(3))?;
    call.reply.ok();
    Ok(())
}

pub(crate) fn getex(call: &mut Call<'_>) -> Outcome {
    let mut expiry = Expiry::Unsaid;
    let mut at = 2;
    while at < call.args.len() {
        if call.args.is(at, "PERSIST") && matches!(expiry, Expiry::Unsaid | Expiry::Persist) {
            expiry = Expiry::Persist;
        } else {
            expiry = timed_option(call, &mut at, expiry)?;
        }
        at += 1;
    }
    let expiry_ms = match expiry {
        Expiry::Unsaid => return super::strings::get(call),
        Expiry::Timed(unit, index) => positive_expiry(call, index, unit, "getex").map(Some),
        Expiry::Keep | Expiry::Persist => Ok(None),
    };
    let now_ms = call.now_ms;
    let (reply, room) = (call.reply.extent(), call.room);
    let old = call.change_expiry(call.args.at(1), |stored| {
        let old = copy_for_reply(stored, reply, room)?;
        // An absent key has no expiry to change, at any time.
        let Some(stored) = stored else { return Ok((Change::Keep, None)) };
        let expiry_ms = expiry_ms.clone()?;
        let new = Expiring { value: stored.value, expiry_ms };
        let change = match () {
            () if new.expiry_ms == stored.expiry_ms => Change::Keep,
            () if new.is_expired(now_ms) => Change::Delete,
            () => Change::Put(new.to_stored()),
        };
        Ok((change, old))
    })?;
    answer_copy(old, &mut call.reply);
    Ok(())
}
