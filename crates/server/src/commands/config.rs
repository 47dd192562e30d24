//! CONFIG: what clients ask of Redis's settings, answered from ours.

use std::sync::atomic::Ordering::Relaxed;

use super::{Call, Failure, Outcome};
use crate::event_loop::KEEPALIVE;
use crate::glob;
use crate::open_files;
use crate::options::{Durability, Secret};
use crate::protocol::number::parse_u64;
use crate::shared::Shared;
use crate::store::DB_COUNT;

pub(crate) fn config(call: &mut Call<'_>) -> Outcome {
    let word = call.args.word(1);
    let count = call.args.len();
    let (expected, handler): (bool, super::call::Handler) = match word.as_str() {
        "get" => (count >= 3, get),
        "set" => (count >= 4 && count.is_multiple_of(2), set),
        "resetstat" => (count == 2, resetstat),
        "rewrite" => (count == 2, rewrite),
        "help" => (count == 2, help),
        _ => return Err(Failure::subcommand("CONFIG", call.args.at(1))),
    };
    if !expected {
        return Err(Failure::arity(&format!("config|{word}")));
    }
    handler(call)
}

/// Every parameter that is shown. Passwords are not among them.
fn parameters(shared: &Shared) -> Vec<(&'static str, String)> {
    let (options, settings) = (&shared.options, &shared.settings);
    let (_, memory_limit) = shared.store.memory();
    let synced = options.durability == Durability::Synced;
    let output_max = settings.output_bytes_max.load(Relaxed);
    vec![
        ("appendfsync", if synced { "always" } else { "everysec" }.into()),
        ("appendonly", "yes".into()),
        ("bind", shared.addr.ip().to_string()),
        ("client-output-buffer-limit", format!("normal {output_max} 0 0")),
        ("databases", DB_COUNT.to_string()),
        ("io-threads", options.threads.to_string()),
        ("maxclients", settings.clients_max.load(Relaxed).to_string()),
        ("maxmemory", memory_limit.to_string()),
        ("maxmemory-clients", shared.client_memory.limit().to_string()),
        ("maxmemory-policy", "noeviction".into()),
        ("notify-keyspace-events", String::new()),
        ("port", shared.addr.port().to_string()),
        ("proto-max-bulk-len", shared.value_bytes_max().to_string()),
        ("protected-mode", "yes".into()),
        ("save", String::new()),
        ("tcp-keepalive", KEEPALIVE.as_secs().to_string()),
        ("timeout", settings.idle_timeout_s.load(Relaxed).to_string()),
    ]
}

fn get(call: &mut Call<'_>) -> Outcome {
    let mut shown = parameters(call.shared);
    shown.retain(|(name, _)| {
        call.args.from(2).any(|pattern| glob::matches(pattern, name.as_bytes(), true))
    });
    call.reply.map(shown.len());
    for (name, value) in shown {
        call.reply.bulk(name.as_bytes());
        call.reply.bulk(value.as_bytes());
    }
    Ok(())
}

/// A change that has been checked.
enum Setting {
    IdleTimeout(u64),
    ClientsMax(usize),
    ValueBytesMax(usize),
    Password(Option<Secret>),
    /// It has this value already.
    Same,
}

fn set(call: &mut Call<'_>) -> Outcome {
    let mut settings = Vec::new();
    for at in (2..call.args.len()).step_by(2) {
        settings.push(checked(call, at)?);
    }
    let to = &call.shared.settings;
    for setting in settings {
        match setting {
            Setting::IdleTimeout(seconds) => to.idle_timeout_s.store(seconds, Relaxed),
            Setting::ClientsMax(count) => to.clients_max.store(count, Relaxed),
            Setting::ValueBytesMax(bytes) => to.value_bytes_max.store(bytes, Relaxed),
            Setting::Password(password) => *to.password.write() = password,
            Setting::Same => {}
        }
    }
    call.reply.ok();
    Ok(())
}

/// What the pair at argument `at` asks for.
fn checked(call: &Call<'_>, at: usize) -> Result<Setting, Failure> {
    let name = call.args.word(at);
    let value = call.args.at(at + 1);
    let refused = |why: &str| {
        Failure::Quoted(format!(
            "ERR CONFIG SET failed (possibly related to argument '{name}') - {why}"
        ))
    };
    let number = |least: u64, most: u64| {
        parse_u64(value).filter(|number| (least..=most).contains(number)).ok_or_else(|| {
            refused(&format!("argument must be between {least} and {most} inclusive"))
        })
    };
    match name.as_str() {
        "timeout" => number(0, i32::MAX as u64).map(Setting::IdleTimeout),
        "maxclients" => {
            let count = number(1, 1 << 20)? as usize;
            let fitting = open_files::fit_clients(count);
            if fitting < count {
                return Err(refused(&format!(
                    "the limit on open files has room for {fitting} clients"
                )));
            }
            Ok(Setting::ClientsMax(count))
        }
        "proto-max-bulk-len" => {
            let most = (512 << 20).min(call.shared.value_bytes_reachable() as u64);
            number(most.min(1 << 20), most).map(|bytes| Setting::ValueBytesMax(bytes as usize))
        }
        "requirepass" if value.is_empty() && !call.shared.addr.ip().is_loopback() => {
            Err(refused("a server that is not on loopback keeps a password"))
        }
        "requirepass" => match std::str::from_utf8(value) {
            Ok("") => Ok(Setting::Password(None)),
            Ok(text) => Ok(Setting::Password(Some(Secret::new(text)))),
            Err(_) => Err(refused("a password is UTF-8 text")),
        },
        _ => match parameters(call.shared).iter().find(|(known, _)| *known == name) {
            Some((_, present)) if present.as_bytes().eq_ignore_ascii_case(value) => {
                Ok(Setting::Same)
            }
            Some(_) => Err(refused("can't set immutable config")),
            None => Err(Failure::Quoted(format!(
                "ERR Unknown option or number of arguments for CONFIG SET - '{name}'"
            ))),
        },
    }
}

fn resetstat(call: &mut Call<'_>) -> Outcome {
    call.shared.stats.reset();
    call.reply.ok();
    Ok(())
}

fn rewrite(_call: &mut Call<'_>) -> Outcome {
    Err(Failure::Text("ERR The server is running without a config file"))
}

fn help(call: &mut Call<'_>) -> Outcome {
    call.reply.array(3);
    call.reply.simple("CONFIG GET pattern ...: parameters whose names match.");
    call.reply.simple("CONFIG SET name value ...: timeout, maxclients, requirepass and more.");
    call.reply.simple("CONFIG RESETSTAT: counters back to zero.");
    Ok(())
}
