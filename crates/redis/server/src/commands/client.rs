//! The subcommands of CLIENT.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;

use super::{Call, Failure, Outcome};
use crate::clients::Client;
use crate::event_loop::Letter;
use crate::protocol::number::parse_i64;
use crate::session::ReplyMode;

pub(crate) fn id(call: &mut Call<'_>) -> Outcome {
    call.reply.integer(i64::try_from(call.session.client.id).unwrap_or(i64::MAX));
    Ok(())
}

pub(crate) fn info(call: &mut Call<'_>) -> Outcome {
    call.session.publish();
    let line = call.session.client.describe(call.shared.environment.now());
    call.reply.text(&(line + "\n"));
    Ok(())
}

/// Returns the number in argument `index`, which need not be that of a client.
fn client_id(call: &Call<'_>, index: usize) -> Result<i64, Failure> {
    parse_i64(call.args.at(index)).ok_or(Failure::Text("ERR Invalid client ID"))
}

/// Whether clients of the type that argument `index` names are ordinary ones, as all are here.
fn is_normal_type(call: &Call<'_>, index: usize) -> Result<bool, Failure> {
    let is_any = |words: &[&str]| words.iter().any(|word| call.args.is(index, word));
    if is_any(&["normal"]) {
        return Ok(true);
    }
    if is_any(&["master", "replica", "slave", "pubsub"]) {
        return Ok(false);
    }
    Err(Failure::quoting("ERR Unknown client type '", call.args.at(index), "'"))
}

pub(crate) fn list(call: &mut Call<'_>) -> Outcome {
    call.session.publish();
    let mut clients = call.shared.clients.all();
    if call.args.is(2, "TYPE") && call.args.len() == 4 {
        if !is_normal_type(call, 3)? {
            clients.clear();
        }
    } else if call.args.is(2, "ID") && call.args.len() > 3 {
        let ids: HashSet<i64> =
            (3..call.args.len()).map(|at| client_id(call, at)).collect::<Result<_, _>>()?;
        clients.retain(|client| i64::try_from(client.id).is_ok_and(|id| ids.contains(&id)));
    } else if call.args.len() != 2 {
        return Err(Failure::SYNTAX);
    }
    let now = call.shared.environment.now();
    let mut text = String::new();
    for client in clients {
        text.push_str(&client.describe(now));
        text.push('\n');
    }
    call.reply.text(&text);
    Ok(())
}

pub(crate) fn getname(call: &mut Call<'_>) -> Outcome {
    let name = call.session.client.names.lock().name.clone();
    if name.is_empty() {
        call.reply.nil()
    } else {
        call.reply.bulk(&name)
    }
    Ok(())
}

/// Longest name of a client or its library: names are charged to no client.
const NAME_BYTES_MAX: usize = 256;

/// A name that fits into a line of CLIENT LIST.
pub(crate) fn checked_name<'a>(name: &'a [u8], what: &str) -> Result<&'a [u8], Failure> {
    if name.len() > NAME_BYTES_MAX {
        return Err(Failure::made(format!(
            "ERR {what} cannot be longer than {NAME_BYTES_MAX} bytes."
        )));
    }
    if name.iter().all(u8::is_ascii_graphic) {
        return Ok(name);
    }
    Err(Failure::made(format!("ERR {what} cannot contain spaces, newlines or special characters.")))
}

pub(crate) fn setname(call: &mut Call<'_>) -> Outcome {
    let name = checked_name(call.args.at(2), "Client names")?;
    call.session.client.names.lock().name = name.to_vec();
    call.reply.ok();
    Ok(())
}

pub(crate) fn setinfo(call: &mut Call<'_>) -> Outcome {
    let value = call.args.at(3);
    let mut names = call.session.client.names.lock();
    if call.args.is(2, "LIB-NAME") {
        names.library = checked_name(value, "lib-name")?.to_vec();
    } else if call.args.is(2, "LIB-VER") {
        names.library_version = checked_name(value, "lib-ver")?.to_vec();
    } else {
        let word = call.args.at(2);
        return Err(Failure::quoting("ERR Unrecognized option '", word, "'"));
    }
    drop(names);
    call.reply.ok();
    Ok(())
}

/// Which clients CLIENT KILL means.
#[derive(Default)]
struct Filter {
    id: Option<u64>,
    peer: Option<SocketAddr>,
    local: Option<SocketAddr>,
    no_type: bool,
    no_user: bool,
    age_s: Option<u64>,
    spares_me: bool,
}

impl Filter {
    fn parse(call: &Call<'_>) -> Result<Self, Failure> {
        let mut filter = Self { spares_me: true, ..Self::default() };
        // An address that is none names no client.
        let nobody = SocketAddr::from(([0, 0, 0, 0], 0));
        let address = |at: usize| {
            let text = std::str::from_utf8(call.args.at(at)).ok();
            Some(text.and_then(|text| text.parse().ok()).unwrap_or(nobody))
        };
        if call.args.len() == 3 {
            return Ok(Self { peer: address(2), spares_me: false, ..filter });
        }
        for at in (2..call.args.len()).step_by(2) {
            let value = at + 1;
            if value >= call.args.len() {
                return Err(Failure::SYNTAX);
            }
            match () {
                () if call.args.is(at, "ID") => filter.id = Some(kill_id(call, value)?),
                () if call.args.is(at, "ADDR") => filter.peer = address(value),
                () if call.args.is(at, "LADDR") => filter.local = address(value),
                () if call.args.is(at, "TYPE") => filter.no_type = !is_normal_type(call, value)?,
                () if call.args.is(at, "USER") => {
                    filter.no_user = call.args.at(value) != b"default";
                    if filter.no_user {
                        let user = call.args.at(value);
                        return Err(Failure::quoting("ERR No such user '", user, "'"));
                    }
                }
                () if call.args.is(at, "MAXAGE") => {
                    let age = parse_i64(call.args.at(value)).ok_or(Failure::NOT_AN_INTEGER)?;
                    filter.age_s = Some(u64::try_from(age).unwrap_or(0));
                }
                () if call.args.is(at, "SKIPME") => {
                    filter.spares_me = match () {
                        () if call.args.is(value, "yes") => true,
                        () if call.args.is(value, "no") => false,
                        () => return Err(Failure::SYNTAX),
                    };
                }
                () => return Err(Failure::SYNTAX),
            }
        }
        Ok(filter)
    }

    fn matches(&self, client: &Client, age_s: u64) -> bool {
        !self.no_type
            && self.id.is_none_or(|id| id == client.id)
            && self.peer.is_none_or(|peer| peer == client.peer)
            && self.local.is_none_or(|local| local == client.local)
            && self.age_s.is_none_or(|least| age_s >= least)
    }
}

fn kill_id(call: &Call<'_>, index: usize) -> Result<u64, Failure> {
    let id = parse_i64(call.args.at(index)).and_then(|id| u64::try_from(id).ok());
    id.filter(|&id| id > 0).ok_or(Failure::Text("ERR client-id should be greater than 0"))
}

pub(crate) fn kill(call: &mut Call<'_>) -> Outcome {
    let filter = Filter::parse(call)?;
    let now = call.shared.environment.now();
    let own_id = call.session.client.id;
    let mut killed = 0;
    for client in call.shared.clients.all() {
        let age_s = (now - client.since).as_secs();
        if !filter.matches(&client, age_s) || filter.spares_me && client.id == own_id {
            continue;
        }
        killed += 1;
        if client.id == own_id {
            call.session.closing = true;
        } else {
            disconnect(call, &client);
        }
    }
    match (call.args.len(), killed) {
        (3, 0) => return Err(Failure::Text("ERR No such client")),
        (3, _) => call.reply.ok(),
        _ => call.reply.integer(killed),
    }
    Ok(())
}

fn disconnect(call: &Call<'_>, client: &Arc<Client>) {
    // A client that has the reply no longer finds it, whenever its loop reads the letter.
    call.shared.clients.remove(client.id);
    let letter = Letter::Disconnect { token: client.token, id: client.id };
    call.shared.threads.send(client.loop_index, letter);
}

pub(crate) fn reply(call: &mut Call<'_>) -> Outcome {
    call.session.reply_mode = match () {
        () if call.args.is(2, "ON") => ReplyMode::On,
        () if call.args.is(2, "OFF") => ReplyMode::Off,
        () if call.args.is(2, "SKIP") && call.session.reply_mode == ReplyMode::Off => {
            ReplyMode::Off
        }
        () if call.args.is(2, "SKIP") => ReplyMode::SkipNext,
        () => return Err(Failure::SYNTAX),
    };
    if call.session.reply_mode == ReplyMode::On {
        call.reply.ok();
    }
    Ok(())
}

/// Whether argument 2 is ON, and not OFF.
fn is_on(call: &Call<'_>) -> Result<bool, Failure> {
    match () {
        () if call.args.is(2, "on") => Ok(true),
        () if call.args.is(2, "off") => Ok(false),
        () => Err(Failure::SYNTAX),
    }
}

/// A client that could leave the bounds of the clients' memory would take the memory of others, so
/// there is nothing to switch.
pub(crate) fn no_evict(call: &mut Call<'_>) -> Outcome {
    is_on(call)?;
    call.reply.ok();
    Ok(())
}

pub(crate) fn no_touch(call: &mut Call<'_>) -> Outcome {
    call.session.no_touch = is_on(call)?;
    call.reply.ok();
    Ok(())
}

pub(crate) fn getredir(call: &mut Call<'_>) -> Outcome {
    call.reply.integer(-1);
    Ok(())
}

pub(crate) fn trackinginfo(call: &mut Call<'_>) -> Outcome {
    call.reply.map(3);
    call.reply.bulk(b"flags");
    call.reply.set(1);
    call.reply.bulk(b"off");
    call.reply.bulk(b"redirect");
    call.reply.integer(-1);
    call.reply.bulk(b"prefixes");
    call.reply.array(0);
    Ok(())
}

/// No command blocks, so no client is ever unblocked.
pub(crate) fn unblock(call: &mut Call<'_>) -> Outcome {
    if call.args.len() > 4 {
        return Err(Failure::Text(
            "ERR unknown subcommand or wrong number of arguments for 'UNBLOCK'. Try CLIENT HELP.",
        ));
    }
    if call.args.len() == 4 && !call.args.is(3, "TIMEOUT") && !call.args.is(3, "ERROR") {
        return Err(Failure::Text("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR"));
    }
    client_id(call, 2).map_err(|_| Failure::NOT_AN_INTEGER)?;
    call.reply.integer(0);
    Ok(())
}
