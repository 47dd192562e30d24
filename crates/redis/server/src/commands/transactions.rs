//! MULTI, EXEC, DISCARD, WATCH, UNWATCH.
//!
//! EXEC runs alone in the gate, on a transaction that is committed as one write: others see all of
//! it or nothing, and so does a crash. A command that fails within it does not undo the others, as
//! in Redis, except if its changes or its replies become too many: then EXEC fails, and nothing was
//! changed. An event loop runs a short one, a thread a long one ([`super::plan`]).

use std::mem::take;
use std::sync::atomic::Ordering::Relaxed;

use super::dispatch::{atomically, counted};
use super::plan::KEYS_MAX;
use super::{COMMANDS, Call, Failure, Outcome};
use crate::options::WATCHED_KEYS_MAX;
use crate::retired::Retired;
use crate::session::{Queue, Session, Watched};
use crate::shared::Shared;
use crate::watch::Changed;

pub(crate) fn multi(call: &mut Call<'_>) -> Outcome {
    if call.session.queue.is_some() {
        return Err(Failure::Text("ERR MULTI calls can not be nested"));
    }
    call.session.queue = Some(Queue::default());
    call.reply.ok();
    Ok(())
}

pub(crate) fn discard(call: &mut Call<'_>) -> Outcome {
    if call.session.queue.is_none() {
        return Err(Failure::Text("ERR DISCARD without MULTI"));
    }
    forget_transaction(call.shared, call.session);
    call.reply.ok();
    Ok(())
}

pub(crate) fn exec(call: &mut Call<'_>) -> Outcome {
    let queue = call.session.queue.as_ref();
    let is_broken = queue.ok_or(Failure::Text("ERR EXEC without MULTI"))?.is_broken;
    let changed = a_watched_key_changed(call);
    if is_broken || changed {
        forget_transaction(call.shared, call.session);
    }
    if is_broken {
        return Err(Failure::Text("EXECABORT Transaction discarded because of previous errors."));
    }
    if changed {
        call.reply.nil_array();
        return Ok(());
    }
    let queue = call.session.queue.take().unwrap_or_default();
    if let Err(failure) = super::apart::check_queue(call, &queue) {
        return Err(abort(call, &failure));
    }
    let has_watches = call.session.watched.len() > 0;
    let watches =
        has_watches.then(|| (take(&mut call.session.watched), take(&mut call.session.changed)));
    let (db, resp3) = (call.session.db, call.session.resp3);
    call.session.in_exec = true;
    let outcome = atomically(call, |call| {
        call.reply.array(queue.commands.len());
        for (index, args) in &queue.commands {
            let command = &COMMANDS[*index];
            let store = call.store;
            let mut inner = call.within(store, args.args());
            let mark = inner.reply.mark();
            let outcome = counted(&mut inner, *index, command.handler);
            if let Err(failure) = outcome.and_then(|()| inner.check_room()) {
                if failure.ends_transaction() {
                    return Err(failure);
                }
                inner.reply.rewind(mark);
                inner.fail(Some(*index), &failure);
            }
            // A HELLO may have changed the protocol.
            let resp3 = call.session.resp3;
            call.reply.set_resp3(resp3);
        }
        Ok(())
    });
    call.session.in_exec = false;
    let saves = take(&mut call.session.saves_after_exec);
    if outcome.is_err() {
        (call.session.db, call.session.resp3) = (db, resp3);
        call.reply.set_resp3(resp3);
    }
    if matches!(outcome, Err(Failure::Parked(_))) || call.commits_later() {
        // It may run again. Until here the command was alone, so only its own changes, which were
        // not written, have touched keys that the client watches; or the commit compares them.
        if let Some((watched, changed)) = watches {
            changed.store(false, Relaxed);
            (call.session.watched, call.session.changed) = (watched, changed);
        }
        call.session.queue = Some(queue);
        return outcome;
    }
    if let Some((watched, changed)) = watches {
        end_watches(call.shared, watched, changed);
    }
    if outcome.is_ok() && saves {
        // The reply is written already: INFO shows whether the save failed.
        let _ = super::server::begin_saving(call);
    }
    outcome
}

/// Drops the transaction of an EXEC that is refused for `cause`, and returns the error for it.
pub(crate) fn abort(call: &mut Call<'_>, cause: &Failure) -> Failure {
    forget_transaction(call.shared, call.session);
    let text = cause.text();
    let cause = text.strip_prefix(b"ERR ").unwrap_or(&text);
    Failure::Made([b"EXECABORT Transaction discarded because of: ", cause].concat())
}

/// Returns whether a key changed, or expired, since it was watched.
fn a_watched_key_changed(call: &Call<'_>) -> bool {
    // By the present clock: a key that the store has removed in the meantime had expired by that.
    let now_ms = call.shared.environment.wall_ms();
    call.session.changed.load(Relaxed) || call.session.watched.is_expired(now_ms)
}

pub(crate) fn watch(call: &mut Call<'_>) -> Outcome {
    if call.session.queue.is_some() {
        return Err(Failure::Text("ERR WATCH inside MULTI is not allowed"));
    }
    if call.session.watched.len() + call.args.len() - 1 > WATCHED_KEYS_MAX {
        return Err(Failure::made(format!(
            "ERR too many watched keys: at most {WATCHED_KEYS_MAX} are allowed"
        )));
    }
    atomically(call, watch_keys)?;
    call.reply.ok();
    Ok(())
}

fn watch_keys(call: &mut Call<'_>) -> Outcome {
    let db = call.session.db;
    for key in call.args.from(1) {
        let charged = call.session.watched.memory_bytes();
        if !call.session.watched.insert(db, key) {
            continue;
        }
        if let Err(failure) = call.room.hold(call.session.watched.memory_bytes() - charged) {
            // Nothing is watched any more, so no EXEC may take place as if it were.
            forget_watches(call.shared, call.session);
            call.session.changed.store(true, Relaxed);
            return Err(failure);
        }
        // A key that has expired already counts as absent, not as one that will change.
        let expiry = call.peek(key, |stored, _| stored.and_then(|stored| stored.expiry_ms));
        call.shared.keys.watches.add(db, key, &call.session.changed);
        let Ok((expiry_ms, _)) = expiry else {
            // A value that cannot be read may be another one by EXEC.
            call.session.changed.store(true, Relaxed);
            continue;
        };
        call.session.watched.note_expiry(db, key, expiry_ms);
    }
    Ok(())
}

pub(crate) fn unwatch(call: &mut Call<'_>) -> Outcome {
    forget_watches(call.shared, call.session);
    call.reply.ok();
    Ok(())
}

/// Ends a connection's queue and its watches.
pub(crate) fn forget_transaction(shared: &Shared, session: &mut Session) {
    if let Some(queue) = session.queue.take().filter(|queue| queue.commands.len() > KEYS_MAX) {
        shared.retire(Retired::Queue(queue));
    }
    forget_watches(shared, session);
}

/// Ends all watches of a connection.
pub(crate) fn forget_watches(shared: &Shared, session: &mut Session) {
    if session.watched.len() > 0 {
        let (watched, changed) = (take(&mut session.watched), take(&mut session.changed));
        return end_watches(shared, watched, changed);
    }
    session.changed.store(false, Relaxed);
}

/// Ends watches that a connection has dropped, with the flag of their changes. Many of them end
/// later.
fn end_watches(shared: &Shared, mut watched: Watched, changed: Changed) {
    if watched.len() > KEYS_MAX {
        return shared.retire(Retired::Watched(watched, changed));
    }
    watched.forget(&shared.keys.watches, &changed);
}
