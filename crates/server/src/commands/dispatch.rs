//! From arguments to a reply.
//!
//! 1. The command is found, and its arity checked.
//! 2. It is refused if the client has not authenticated, or if the clients' memory is used up.
//! 3. It is queued if a MULTI is open.
//! 4. It runs: beside others if it touches one key, alone if several, and as one atomic write if
//!    it writes several.
//! 5. If it failed, what it wrote of a reply is taken back and the error stands there instead.

use super::call::Call;
use super::command::Command;
use super::flags::Flags;
use super::{COMMANDS, Failure, Outcome, table};
use crate::gate::Pass;
use crate::session::ReplyMode;
use crate::store::transaction::Transaction;

/// Executes one command and writes its reply; whether the connection may go on.
pub(crate) fn dispatch(call: &mut Call<'_>, pass: &mut Pass<'_>) -> bool {
    let mark = call.reply.mark();
    let found = table::find(call.args.at(0));
    call.tally.executed += 1;
    let outcome = match found {
        None => Err(unknown(call)),
        Some(index) => admit(call, index)
            .and_then(|queued| if queued { Ok(()) } else { timed(call, index, pass) }),
    };
    if let Err(failure) = &outcome {
        call.reply.rewind(mark);
        failure.answer(&mut call.reply);
        call.tally.errors += 1;
        if let Some(index) = found {
            call.tally.command(index).failed += 1;
        }
    }
    match call.session.reply_mode {
        ReplyMode::On => {}
        ReplyMode::Off => call.reply.rewind(mark),
        ReplyMode::SkipNext => call.session.reply_mode = ReplyMode::Skip,
        ReplyMode::Skip => {
            call.reply.rewind(mark);
            call.session.reply_mode = ReplyMode::On;
        }
    }
    outcome != Err(Failure::OutputLimit)
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
    let took = call.shared.environment.now() - begun;
    call.shared.stats.command(index).latency.record_duration(took);
    outcome
}

/// Steps 1 to 3: whether the command was queued; an error if it may not run.
fn admit(call: &mut Call<'_>, index: usize) -> Result<bool, Failure> {
    let command = &COMMANDS[index];
    let checked = check(call, command);
    let queues = call.session.queue.is_some() && !command.flags.has(Flags::NOT_QUEUED);
    if let Err(failure) = checked {
        call.tally.command(index).rejected += 1;
        if let Some(queue) = &mut call.session.queue {
            queue.is_broken |= !command.flags.has(Flags::NOT_QUEUED) || failure.is_arity();
        }
        return Err(failure);
    }
    if queues {
        let args = call.args;
        if let Some(queue) = &mut call.session.queue {
            queue.push(index, args);
        }
        call.reply.simple("QUEUED");
    }
    Ok(queues)
}

fn check(call: &Call<'_>, command: &Command) -> Outcome {
    if !command.takes(call.args.len()) {
        return Err(Failure::arity(command.name));
    }
    if !call.session.authenticated && !command.flags.has(Flags::NO_AUTH) {
        return Err(Failure::Text("NOAUTH Authentication required."));
    }
    if call.shared.client_memory.is_exhausted() && !command.flags.has(Flags::SMALL) {
        return Err(Failure::Quoted(format!(
            "OOM command not allowed: the clients' memory of {} bytes is used up",
            call.shared.client_memory.limit()
        )));
    }
    if call.session.queue.is_some() && command.flags.has(Flags::NO_MULTI) {
        return Err(Failure::Text("ERR Command not allowed inside a transaction"));
    }
    Ok(())
}

/// Step 4.
#[inline]
fn run(call: &mut Call<'_>, command: &Command, pass: &mut Pass<'_>) -> Outcome {
    if command.flags.has(Flags::ALONE) {
        return pass.alone(|| (command.handler)(call));
    }
    if !command.keys.is_several(call.args.len()) {
        return (command.handler)(call);
    }
    if command.flags.has(Flags::WRITE) {
        return pass.alone(|| atomically(call, |call| (command.handler)(call)));
    }
    pass.alone(|| (command.handler)(call))
}

/// Runs `work` on a transaction and commits it; on an error nothing was written. The caller is
/// alone in the gate.
pub(crate) fn atomically(
    call: &mut Call<'_>,
    work: impl FnOnce(&mut Call<'_>) -> Outcome,
) -> Outcome {
    let shared = call.shared;
    let transaction = Transaction::new(&*shared.store);
    let args = call.args;
    let mut inner = call.within(&transaction, args);
    work(&mut inner)?;
    if let Some(seqno) = transaction.commit()? {
        call.written.note(seqno);
    }
    Ok(())
}

/// The error for a command that does not exist, with what it came with.
fn unknown(call: &mut Call<'_>) -> Failure {
    const SHOWN_BYTES: usize = 128;
    if let Some(queue) = &mut call.session.queue {
        queue.is_broken = true;
    }
    let clip = |arg: &[u8], bytes: usize| {
        String::from_utf8_lossy(arg.get(..arg.len().min(bytes)).unwrap_or_default()).into_owned()
    };
    if !call.session.authenticated {
        return Failure::Text("NOAUTH Authentication required.");
    }
    let mut shown = String::new();
    for arg in call.args.from(1) {
        if shown.len() >= SHOWN_BYTES {
            break;
        }
        shown.push_str(&format!("'{}' ", clip(arg, SHOWN_BYTES - shown.len())));
    }
    let name = clip(call.args.at(0), SHOWN_BYTES);
    Failure::Quoted(format!("ERR unknown command '{name}', with args beginning with: {shown}"))
}
