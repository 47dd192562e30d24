//! TIME, SAVE, SHUTDOWN and the like: the server as a whole.

use super::{Call, Failure, Outcome};

pub(crate) fn time(call: &mut Call<'_>) -> Outcome {
    let now = call.shared.environment.wall();
    call.reply.array(2);
    for number in [now.as_secs(), u64::from(now.subsec_micros())] {
        call.reply.bulk(itoa::Buffer::new().format(number).as_bytes());
    }
    Ok(())
}

const SAVES_ALREADY: Failure = Failure::Text("ERR Background save already in progress");

/// Makes everything durable now.
fn save_all(call: &Call<'_>) -> Outcome {
    let shared = call.shared;
    let last = shared.store.last();
    shared.store.save()?;
    shared.saving.note(&shared.environment, last);
    Ok(())
}

pub(crate) fn save(call: &mut Call<'_>) -> Outcome {
    save_all(call)?;
    call.reply.ok();
    Ok(())
}

/// Begins a save, or schedules it for the end of the EXEC that the command is part of.
pub(crate) fn bgsave(call: &mut Call<'_>) -> Outcome {
    if call.args.len() > 2 || call.args.len() == 2 && !call.args.is(1, "SCHEDULE") {
        return Err(Failure::SYNTAX);
    }
    if call.session.in_exec {
        if call.shared.saving.is_running() {
            return Err(SAVES_ALREADY);
        }
        call.session.saves_after_exec = true;
        call.reply.simple("Background saving scheduled");
        return Ok(());
    }
    begin_saving(call)?;
    call.reply.simple("Background saving started");
    Ok(())
}

/// Begins a backup if there is a directory for backups. Otherwise syncs the journal before it
/// returns: that takes little time, since the journal has everything already.
pub(crate) fn begin_saving(call: &Call<'_>) -> Outcome {
    let shared = call.shared;
    let Some(into) = shared.options.backups.clone() else {
        let saved = save_all(call);
        shared.saving.note_outcome(saved.is_ok());
        return saved;
    };
    match shared.saving.begin(&shared.store, &shared.environment, into) {
        Ok(true) => Ok(()),
        Ok(false) => Err(SAVES_ALREADY),
        Err(error) => Err(Failure::made(format!("ERR no thread for a backup: {error}"))),
    }
}

pub(crate) fn lastsave(call: &mut Call<'_>) -> Outcome {
    let seconds = call.shared.saving.last_s();
    call.reply.integer(i64::try_from(seconds).unwrap_or(i64::MAX));
    Ok(())
}

pub(crate) fn shutdown(call: &mut Call<'_>) -> Outcome {
    let (mut saves, mut forced) = (true, false);
    for at in 1..call.args.len() {
        match () {
            () if call.args.is(at, "NOSAVE") => saves = false,
            () if call.args.is(at, "SAVE") => saves = true,
            () if call.args.is(at, "FORCE") => forced = true,
            () if call.args.is(at, "NOW") => {}
            () if call.args.is(at, "ABORT") => {
                return Err(Failure::Text("ERR No shutdown in progress."));
            }
            () => return Err(Failure::SYNTAX),
        }
    }
    if saves && !forced {
        save_all(call)?;
    }
    // As in Redis the connection's end is the reply.
    call.session.closing = true;
    call.shared.threads.ask_to_stop();
    Ok(())
}

/// ACL WHOAMI: there is one user.
pub(crate) fn acl_whoami(call: &mut Call<'_>) -> Outcome {
    call.reply.bulk(b"default");
    Ok(())
}

pub(crate) fn acl_users(call: &mut Call<'_>) -> Outcome {
    call.reply.array(1);
    call.reply.bulk(b"default");
    Ok(())
}
