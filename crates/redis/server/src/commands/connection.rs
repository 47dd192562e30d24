//! PING, ECHO, HELLO, AUTH, SELECT, QUIT, RESET: the connection itself.

use super::transactions::forget_transaction;
use super::{Call, Failure, Outcome};
use crate::protocol::number::parse_i64;
use crate::session::ReplyMode;
use crate::store::{DB_COUNT, DbIndex};

/// The Redis version whose behaviour this server follows; frameworks refuse older ones.
pub(crate) const REDIS_VERSION: &str = "7.2.4";

pub(crate) fn ping(call: &mut Call<'_>) -> Outcome {
    match call.args.get(1) {
        Some(_) if call.args.len() > 2 => return Err(Failure::arity("ping")),
        Some(text) => return call.room.bulk(&mut call.reply, text),
        None => call.reply.simple("PONG"),
    }
    Ok(())
}

pub(crate) fn echo(call: &mut Call<'_>) -> Outcome {
    call.room.bulk(&mut call.reply, call.args.at(1))
}

pub(crate) fn quit(call: &mut Call<'_>) -> Outcome {
    call.session.closing = true;
    call.reply.ok();
    Ok(())
}

pub(crate) fn reset(call: &mut Call<'_>) -> Outcome {
    forget_transaction(call.shared, call.session);
    call.session.db = 0;
    call.session.resp3 = false;
    call.session.reply_mode = ReplyMode::On;
    call.session.authenticated = !call.shared.settings.needs_password();
    call.session.no_touch = false;
    // The connection is still the same library's.
    call.session.client.names.lock().name.clear();
    call.reply.set_resp3(false);
    call.reply.simple("RESET");
    Ok(())
}

/// The database that `text` names.
pub(crate) fn parse_db(text: &[u8]) -> Result<DbIndex, Failure> {
    let index = parse_i64(text).ok_or(Failure::NOT_AN_INTEGER)?;
    let index = i32::try_from(index).map_err(|_| {
        let (least, most) = (i32::MIN, i32::MAX);
        Failure::made(format!("ERR value is out of range, value must between {least} and {most}"))
    })?;
    let index = DbIndex::try_from(index).ok().filter(|&index| index < DB_COUNT);
    index.ok_or(Failure::Text("ERR DB index is out of range"))
}

pub(crate) fn select(call: &mut Call<'_>) -> Outcome {
    call.session.db = parse_db(call.args.at(1))?;
    call.reply.ok();
    Ok(())
}

pub(crate) fn auth(call: &mut Call<'_>) -> Outcome {
    match call.args.len() {
        2 => authenticate(call, b"default", call.args.at(1), true)?,
        3 => authenticate(call, call.args.at(1), call.args.at(2), false)?,
        _ => return Err(Failure::SYNTAX),
    }
    call.reply.ok();
    Ok(())
}

/// Lets the client in, or says why not. Without a password set, the default user may come with any.
fn authenticate(call: &mut Call<'_>, user: &[u8], password: &[u8], by_password: bool) -> Outcome {
    let known = call.shared.settings.password.read().clone();
    let matches = match &known {
        None if by_password => return Err(Failure::NO_PASSWORD_SET),
        None => true,
        Some(secret) => secret.is(password),
    };
    if !matches || user != b"default" {
        call.shared.stats.auth_failures.add(1);
        return Err(Failure::WRONG_PASSWORD);
    }
    call.session.authenticated = true;
    Ok(())
}

pub(crate) fn hello(call: &mut Call<'_>) -> Outcome {
    let mut resp3 = call.session.resp3;
    if let Some(version) = call.args.get(1) {
        let version = parse_i64(version)
            .ok_or(Failure::Text("ERR Protocol version is not an integer or out of range"))?;
        resp3 = match version {
            2 => false,
            3 => true,
            _ => return Err(Failure::Text("NOPROTO unsupported protocol version")),
        };
    }
    let mut name = None;
    let mut at = 2;
    while at < call.args.len() {
        if call.args.is(at, "AUTH") && at + 2 < call.args.len() {
            authenticate(call, call.args.at(at + 1), call.args.at(at + 2), false)?;
            at += 3;
        } else if call.args.is(at, "SETNAME") && at + 1 < call.args.len() {
            name = Some(super::client::checked_name(call.args.at(at + 1), "Client names")?);
            at += 2;
        } else {
            let option = call.args.at(at);
            return Err(Failure::quoting("ERR Syntax error in HELLO option '", option, "'"));
        }
    }
    if !call.session.authenticated {
        return Err(Failure::Text(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the \
             HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and \
             select the RESP protocol version at the same time",
        ));
    }
    if let Some(name) = name {
        call.session.client.names.lock().name = name.to_vec();
    }
    call.session.resp3 = resp3;
    call.reply.set_resp3(resp3);
    greet(call);
    Ok(())
}

fn greet(call: &mut Call<'_>) {
    let id = i64::try_from(call.session.client.id).unwrap_or(i64::MAX);
    let version = if call.session.resp3 { 3 } else { 2 };
    let reply = &mut call.reply;
    reply.map(7);
    for (name, value) in [("server", "redis"), ("version", REDIS_VERSION)] {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    }
    for (name, value) in [("proto", version), ("id", id)] {
        reply.bulk(name.as_bytes());
        reply.integer(value);
    }
    for (name, value) in [("mode", "standalone"), ("role", "master")] {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    }
    reply.bulk(b"modules");
    reply.array(0);
}
