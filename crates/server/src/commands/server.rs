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

/// Makes everything durable now.
fn save_all(call: &Call<'_>) -> Outcome {
    call.shared.store.save()?;
    call.shared.saving.note(&call.shared.environment);
    Ok(())
}

pub(crate) fn save(call: &mut Call<'_>) -> Outcome {
    save_all(call)?;
    call.reply.ok();
    Ok(())
}

/// Everything is in the journal already; what SAVE has to do takes so little that BGSAVE does it
/// before it answers. Where there is a directory for them, it begins a backup.
pub(crate) fn bgsave(call: &mut Call<'_>) -> Outcome {
    if call.args.len() > 2 || call.args.len() == 2 && !call.args.is(1, "SCHEDULE") {
        return Err(Failure::SYNTAX);
    }
    let shared = call.shared;
    match shared.options.backups.clone() {
        None => save_all(call)?,
        Some(into) => match shared.saving.begin(&shared.store, &shared.environment, into) {
            Ok(true) => {}
            Ok(false) => return Err(Failure::Text("ERR Background save already in progress")),
            Err(error) => {
                return Err(Failure::Quoted(format!("ERR no thread for a backup: {error}")));
            }
        },
    }
    call.reply.simple("Background saving started");
    Ok(())
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
    // As in Redis the connection's end is the answer.
    call.session.closing = true;
    call.shared.ask_to_stop();
    Ok(())
}

/// ACL WHOAMI and the rest of ACL that makes sense with one user.
pub(crate) fn acl(call: &mut Call<'_>) -> Outcome {
    match () {
        () if call.args.is(1, "WHOAMI") && call.args.len() == 2 => call.reply.bulk(b"default"),
        () if call.args.is(1, "USERS") && call.args.len() == 2 => {
            call.reply.array(1);
            call.reply.bulk(b"default");
        }
        () => return Err(Failure::subcommand("ACL", call.args.at(1))),
    }
    Ok(())
}
