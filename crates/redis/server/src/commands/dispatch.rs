//! From arguments to a reply.
//!
//! 1. The command is found, and its arity checked.
//! 2. It is refused if the client has not authenticated, or if the clients' memory is used up.
//! 3. It is queued if a MULTI is open.
//! 4. It runs: next to others if it touches one key, alone if several, and as one atomic write if
//!    it writes several. A thread runs it if it waits for the device or has much to do ([`run`]).
//! 5. If it failed, its reply is removed from the output, and the error is put in its place.
//!
//! A command on one key that memory cannot answer ends with [`Failure::Parked`] in step 4, having
//! changed nothing. Its key is looked up, and the handler runs again with the value that was found
//! ([`resume`]), until it does not end so. A command that a thread runs ends in the same way, and
//! the thread runs its handler ([`run_on_thread`]).

use thermocline::environment::Monotonic;

use super::call::{Alone, Call, ReadMode};
use super::command::Command;
use super::flags::Flags;
use super::plan::{ARGS_MAX, ARGS_WITHOUT_KEYS_MAX, Plan};
use super::table::NotFound;
use super::{COMMANDS, Failure, Outcome, table, transactions};
use crate::gate::Pass;
use crate::protocol::Args;
use crate::session::ReplyMode;
use crate::store::StoreError;
use crate::store::session::Purpose;
use crate::store::transaction::Transaction;

/// The outcome of a dispatched command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dispatched {
    /// Its reply is written.
    Done,
    /// Its reply has no room before others are sent: it did nothing, and has to run again then.
    NoRoom,
    /// It has to have its key looked up, and then to run again by [`resume`]; or a thread is to run
    /// it.
    Parked(Parked),
    /// A command that runs alone on a thread holds it up: it did nothing, and has to run again when
    /// the gate is open.
    HeldUp,
}

/// The state that a command needs to run again after it has waited for the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parked {
    /// Its index in the table.
    pub(crate) command: usize,
    pub(crate) purpose: Purpose,
    /// Its reply will not be sent.
    pub(crate) is_muted: bool,
    /// When it began, if it is one of the calls that are timed.
    pub(crate) begun: Option<Monotonic>,
}

/// Executes one command and writes its reply.
pub(crate) fn dispatch(call: &mut Call<'_>, pass: &mut Pass<'_>) -> Dispatched {
    let mark = call.reply.mark();
    let found = table::resolve(call.args);
    if !call.shared.gate.is_open() && found.is_ok_and(|index| is_held_up(call, index)) {
        return Dispatched::HeldUp;
    }
    call.tally.executed += 1;
    // A command that is refused before it runs has not failed.
    let mut ran = None;
    let outcome = match found {
        Err(not_found) => Err(unknown(call, not_found)),
        Ok(index) => match admit(call, index) {
            Ok(true) => check_reply(call),
            Ok(false) => {
                ran = Some(index);
                timed(call, index, pass).and_then(|()| check_reply(call))
            }
            Err(failure) => Err(failure),
        },
    };
    // The usual end, in which the outcome is not moved: the processor would wait for all writes of
    // the command to reach its cache.
    if outcome.is_ok() && call.session.reply_mode == ReplyMode::On {
        return Dispatched::Done;
    }
    conclude(call, mark, ran, outcome)
}

/// Ends a command that has failed or whose reply the client does not want.
#[inline(never)]
fn conclude(call: &mut Call<'_>, mark: usize, ran: Option<usize>, outcome: Outcome) -> Dispatched {
    answer(call, mark, ran, &outcome);
    let is_muted = match call.session.reply_mode {
        ReplyMode::On => false,
        ReplyMode::Off => true,
        ReplyMode::SkipNext => {
            call.session.reply_mode = ReplyMode::Skip;
            false
        }
        ReplyMode::Skip => {
            call.session.reply_mode = ReplyMode::On;
            true
        }
    };
    if is_muted {
        call.reply.rewind(mark);
    }
    match (outcome, ran) {
        (Err(Failure::Parked(purpose)), Some(command)) => {
            Dispatched::Parked(Parked { command, purpose, is_muted, begun: call.begun })
        }
        (Err(failure), _) if waits_for_room(call, &failure) => Dispatched::NoRoom,
        _ => Dispatched::Done,
    }
}

/// Whether a command is not to run before the gate is open again. A command that has to be alone
/// goes to the thread that has reserved the gate.
#[cold]
fn is_held_up(call: &Call<'_>, index: usize) -> bool {
    let command = &COMMANDS[index];
    let is_queued = call.session.queue.is_some() && !command.flags.has(Flags::NOT_QUEUED);
    !is_queued && command.has_one_key(call.args.len()) && !command.may_pass(&call.shared.gate)
}

/// Runs a command again that has waited, now that its key was looked up.
pub(crate) fn resume(call: &mut Call<'_>, waited: Parked) -> Dispatched {
    let mark = call.reply.mark();
    let outcome = (COMMANDS[waited.command].handler)(call).and_then(|()| check_reply(call));
    if let Err(Failure::Parked(purpose)) = outcome {
        call.reply.rewind(mark);
        return Dispatched::Parked(Parked { purpose, ..waited });
    }
    end(call, mark, waited, &outcome)
}

/// Runs a command on a thread: as `alone` has it, or next to others.
pub(crate) fn run_on_thread(call: &mut Call<'_>, waited: Parked, alone: Option<Alone<'_>>) {
    let mark = call.reply.mark();
    let command = &COMMANDS[waited.command];
    let outcome = match alone {
        Some(alone) => run_alone(call, command, alone),
        None => {
            call.read_mode = ReadMode::Blocking;
            (command.handler)(call)
        }
    };
    let outcome = match outcome.and_then(|()| check_reply(call)) {
        // A client without a reply would wait for ever.
        Err(Failure::Parked(_)) => Err(Failure::Text("ERR the command cannot wait here")),
        outcome => outcome,
    };
    end(call, mark, waited, &outcome);
}

/// Replies to a command whose lookup has failed.
pub(crate) fn fail(call: &mut Call<'_>, waited: Parked, error: StoreError) -> Dispatched {
    let mark = call.reply.mark();
    end(call, mark, waited, &Err(error.into()))
}

/// Checks the room of a whole reply. A command that has changed something has checked its own.
fn check_reply(call: &Call<'_>) -> Outcome {
    if call.written.any { Ok(()) } else { call.check_room() }
}

/// Whether a command that failed is to run again once there is room for its reply.
fn waits_for_room(call: &Call<'_>, failure: &Failure) -> bool {
    call.waits_for_room && failure.is_no_room()
}

fn end(call: &mut Call<'_>, mark: usize, waited: Parked, outcome: &Outcome) -> Dispatched {
    answer(call, mark, Some(waited.command), outcome);
    if waited.is_muted {
        call.reply.rewind(mark);
    }
    if let Some(begun) = waited.begun {
        let took = call.shared.environment.now() - begun;
        call.shared.stats.command(waited.command).latency.record_duration(took);
    }
    match outcome {
        Err(failure) if waits_for_room(call, failure) => Dispatched::NoRoom,
        _ => Dispatched::Done,
    }
}

/// Step 5.
fn answer(call: &mut Call<'_>, mark: usize, command: Option<usize>, outcome: &Outcome) {
    let Err(failure) = outcome else { return };
    call.reply.rewind(mark);
    if matches!(failure, Failure::Parked(_)) || waits_for_room(call, failure) {
        return;
    }
    call.fail(command, failure);
}

/// The key that `args` read without changing anything, if it is one alone: such a command may be
/// under way next to others of its client.
#[inline]
pub(crate) fn reads_one_key<'a>(args: Args<'a>) -> Option<&'a [u8]> {
    let command = &COMMANDS[table::resolve(args).ok()?];
    let reads = command.flags.has(Flags::READ) && command.has_one_key(args.len());
    if reads && args.len() <= ARGS_MAX { args.get(command.keys.first as usize) } else { None }
}

/// Runs a command.
fn timed(call: &mut Call<'_>, index: usize, pass: &mut Pass<'_>) -> Outcome {
    call.session.last_command = index as u16;
    counted(call, index, |call| run(call, &COMMANDS[index], pass))
}

/// Counts a call of command `index` that `run` executes, and times some.
#[inline]
pub(crate) fn counted(
    call: &mut Call<'_>,
    index: usize,
    run: impl FnOnce(&mut Call<'_>) -> Outcome,
) -> Outcome {
    if !call.tally.begin(index) {
        return run(call);
    }
    let begun = call.shared.environment.now();
    let outcome = run(call);
    if matches!(outcome, Err(Failure::Parked(_))) {
        call.begun = Some(begun);
        return outcome;
    }
    let took = call.shared.environment.now() - begun;
    call.shared.stats.command(index).latency.record_duration(took);
    outcome
}

/// Steps 1 to 3: whether the command was queued; an error if it may not run.
fn admit(call: &mut Call<'_>, index: usize) -> Result<bool, Failure> {
    let command = &COMMANDS[index];
    if let Err(failure) = check(call, command) {
        call.tally.command(index).rejected += 1;
        break_queue(call);
        if command.name == "exec" {
            return Err(transactions::abort(call, &failure));
        }
        return Err(failure);
    }
    let queues = call.session.queue.is_some() && !command.flags.has(Flags::NOT_QUEUED);
    if queues {
        let args = call.args;
        if let Some(queue) = &mut call.session.queue {
            queue.push(index, args);
        }
        call.reply.simple("QUEUED");
    }
    Ok(queues)
}

/// Notes that a command was refused before it ran or was queued: the EXEC of an open MULTI fails.
fn break_queue(call: &mut Call<'_>) {
    if let Some(queue) = &mut call.session.queue {
        queue.is_broken = true;
    }
}

fn check(call: &Call<'_>, command: &Command) -> Outcome {
    if !command.takes(call.args.len()) {
        return Err(Failure::arity(command.name));
    }
    if !call.session.authenticated && !command.flags.has(Flags::NO_AUTH) {
        return Err(Failure::Text("NOAUTH Authentication required."));
    }
    if call.shared.clients.memory.is_exhausted() && !command.flags.has(Flags::SMALL) {
        return Err(Failure::made(format!(
            "OOM command not allowed: the clients' memory of {} bytes is used up",
            call.shared.clients.memory.limit()
        )));
    }
    if call.session.queue.is_some() && command.flags.has(Flags::NO_MULTI) {
        return Err(Failure::Text("ERR Command not allowed inside a transaction"));
    }
    Ok(())
}

/// Step 4. A command runs here if it touches one key, or none, or only a few that memory has.
#[inline]
fn run(call: &mut Call<'_>, command: &Command, pass: &mut Pass<'_>) -> Outcome {
    let arg_count = call.args.len();
    if call.shared.is_gateway {
        if command.is_committed(arg_count) {
            return Err(Failure::Parked(Purpose::Commit));
        }
        if command.flags.has(Flags::THREAD.and(Flags::ALONE)) {
            // The gate of one server does not order the commands of others.
            return Err(Failure::Parked(Purpose::Thread));
        }
    }
    let is_alone = command.flags.has(Flags::ALONE) || command.keys.is_several(arg_count);
    let args_max = if command.keys.first > 0 { ARGS_MAX } else { ARGS_WITHOUT_KEYS_MAX };
    if !is_alone && !command.flags.has(Flags::THREAD) && arg_count <= args_max {
        return (command.handler)(call);
    }
    run_short(call, command, is_alone, pass)
}

/// Runs a command that is to be alone, if it is short.
///
/// # Errors
/// [`Failure::Parked`] for a thread if it is not.
fn run_short(
    call: &mut Call<'_>,
    command: &Command,
    is_alone: bool,
    pass: &mut Pass<'_>,
) -> Outcome {
    if !is_alone && !command.has_one_key(call.args.len()) {
        return Err(Failure::Parked(Purpose::Thread));
    }
    let long = Err(Failure::Parked(Purpose::ThreadAlone));
    if !is_alone || command.flags.has(Flags::THREAD) || call.args.len() > ARGS_MAX {
        return long;
    }
    let mut plan = Plan::of(command, call.args, call.session, true);
    if !plan.is_short() {
        return long;
    }
    let ran = pass.alone(|| {
        if !plan.try_read(call.store, call.scratch)? {
            return Err(Failure::Parked(Purpose::ThreadAlone));
        }
        run_alone(call, command, Alone { known: &plan.known, reservation: None, commit: None })
    });
    ran.unwrap_or(long)
}

/// Runs a command while it is alone.
fn run_alone(call: &mut Call<'_>, command: &Command, alone: Alone<'_>) -> Outcome {
    let (shared, store, args) = (call.shared, call.store, call.args);
    let mut inner = call.with(store, args, ReadMode::Alone(alone));
    let outcome = if command.flags.has(Flags::ALONE) {
        // EXEC and the like make their own transactions.
        (command.handler)(&mut inner)
    } else if command.has_one_key(args.len()) && alone.commit.is_none() {
        // It is one write already.
        alone.close();
        if command.flags.has(Flags::WRITE) {
            shared.store.make(inner.session.db)?;
        }
        (command.handler)(&mut inner)
    } else {
        atomically(&mut inner, |call| (command.handler)(call))
    };
    call.written = inner.written;
    outcome
}

/// Runs `work` on a transaction and commits it; on an error nothing was written. The caller is
/// alone in the gate.
///
/// # Errors
/// The errors of `work` and the store; [`Failure::Parked`] on a loop if the commit would have to
/// wait.
pub(crate) fn atomically(
    call: &mut Call<'_>,
    work: impl FnOnce(&mut Call<'_>) -> Outcome,
) -> Outcome {
    let shared = call.shared;
    let alone = if let ReadMode::Alone(alone) = call.read_mode { Some(alone) } else { None };
    let transaction = Transaction::new(&*shared.store, alone.map(|alone| alone.known));
    let args = call.args;
    work(&mut call.within(&transaction, args))?;
    if transaction.is_empty() {
        return Ok(());
    }
    if let Some(commit) = alone.and_then(|alone| alone.commit) {
        commit.replace(Some(transaction.into_steps()));
        return Ok(());
    }
    // Others read until the store has room. A loop must not wait for it.
    let close = || alone.iter().for_each(Alone::close);
    let may_wait = alone.is_none_or(|alone| alone.reservation.is_some());
    match transaction.commit(may_wait.then_some(&close as &dyn Fn())) {
        Err(StoreError::MustWait) => return Err(Failure::Parked(Purpose::ThreadAlone)),
        Ok(Some(seqno)) => call.written.note(seqno),
        Ok(None) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

/// Returns the error for a command or subcommand that does not exist.
fn unknown(call: &mut Call<'_>, not_found: NotFound) -> Failure {
    break_queue(call);
    if !call.session.authenticated {
        return Failure::Text("NOAUTH Authentication required.");
    }
    not_found.failure(call.args)
}
