//! CONFIG: requests for Redis's settings, answered from ours.

use std::sync::atomic::Ordering::Relaxed;

use super::{Call, Failure, Outcome};
use crate::event_loop::KEEPALIVE;
use crate::glob;
use crate::open_files;
use crate::options::{Durability, Secret};
use crate::protocol::number::{parse_i64, parse_u64};
use crate::shared::Shared;
use crate::store::DB_COUNT;

/// Every parameter that is shown. Passwords are not among them.
fn parameters(shared: &Shared) -> Vec<(&'static str, String)> {
    let (options, settings) = (&shared.options, &shared.settings);
    let (_, memory_limit) = shared.store.memory();
    let synced = options.durability == Durability::Synced;
    let output_max = settings.output_bytes_max.load(Relaxed);
    vec![
        ("appendfsync", if synced { "always" } else { "everysec" }.into()),
        ("appendonly", "yes".into()),
        ("bind", shared.run.addr.ip().to_string()),
        ("client-output-buffer-limit", format!("normal {output_max} 0 0")),
        ("databases", DB_COUNT.to_string()),
        ("io-threads", options.threads.to_string()),
        ("maxclients", settings.clients_max.load(Relaxed).to_string()),
        ("maxmemory", memory_limit.to_string()),
        ("maxmemory-clients", shared.clients.memory.limit().to_string()),
        ("maxmemory-policy", "noeviction".into()),
        ("notify-keyspace-events", String::new()),
        ("port", shared.run.addr.port().to_string()),
        ("proto-max-bulk-len", shared.value_bytes_max().to_string()),
        ("protected-mode", "yes".into()),
        ("save", String::new()),
        ("tcp-keepalive", KEEPALIVE.as_secs().to_string()),
        ("timeout", settings.idle_timeout_s.load(Relaxed).to_string()),
    ]
}

pub(crate) fn get(call: &mut Call<'_>) -> Outcome {
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

pub(crate) fn set(call: &mut Call<'_>) -> Outcome {
    if !call.args.len().is_multiple_of(2) {
        return Err(Failure::SYNTAX);
    }
    // All names are checked before any value, as in Redis.
    let mut names: Vec<String> = Vec::new();
    for at in (2..call.args.len()).step_by(2) {
        let name = checked_name(call, at)?;
        if names.contains(&name) {
            return Err(refused(&name, "duplicate parameter"));
        }
        names.push(name);
    }
    let values = call.args.from(3).step_by(2);
    let settings: Vec<Setting> = names
        .iter()
        .zip(values)
        .map(|(n, value)| checked(call, n, value))
        .collect::<Result<_, _>>()?;
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

/// Returns the failure to set `name`.
fn refused(name: &str, why: &str) -> Failure {
    Failure::made(format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {why}"))
}

/// Returns the name of a setting in argument `at`, in lower case.
fn checked_name(call: &Call<'_>, at: usize) -> Result<String, Failure> {
    let name = call.args.word(at);
    let is_known = parameters(call.shared).iter().any(|(known, _)| *known == name);
    if is_known || name == "requirepass" {
        return Ok(name);
    }
    let unknown = "ERR Unknown option or number of arguments for CONFIG SET - '";
    Err(Failure::quoting(unknown, call.args.at(at), "'"))
}

/// Returns the number of bytes that `text` spells, perhaps with one of Redis's units.
fn parse_bytes(text: &[u8]) -> Option<u64> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, unit) = text.split_at_checked(digits)?;
    let bytes = match unit.to_ascii_lowercase().as_slice() {
        b"" | b"b" => 1,
        b"k" => 1000,
        b"kb" => 1 << 10,
        b"m" => 1_000_000,
        b"mb" => 1 << 20,
        b"g" => 1_000_000_000,
        b"gb" => 1 << 30,
        _ => return None,
    };
    parse_u64(number)?.checked_mul(bytes)
}

/// Returns the change to the setting `name` that `value` asks for.
fn checked(call: &Call<'_>, name: &str, value: &[u8]) -> Result<Setting, Failure> {
    let refused = |why: &str| refused(name, why);
    let within = |number: u64, least: u64, most: u64| {
        let is_within = (least..=most).contains(&number);
        is_within.then_some(number).ok_or_else(|| {
            refused(&format!("argument must be between {least} and {most} inclusive"))
        })
    };
    let number = |least: u64, most: u64| {
        let number = parse_i64(value)
            .ok_or_else(|| refused("argument couldn't be parsed into an integer"))?;
        // A negative number is below every `least`.
        within(u64::try_from(number).unwrap_or(u64::MAX), least, most)
    };
    match name {
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
            let bytes = parse_bytes(value);
            let bytes = bytes.ok_or_else(|| refused("argument must be a memory value"))?;
            let bytes = within(bytes, most.min(1 << 20), most)?;
            Ok(Setting::ValueBytesMax(bytes as usize))
        }
        "requirepass" if value.is_empty() && !call.shared.run.addr.ip().is_loopback() => {
            Err(refused("a server that is not on loopback keeps a password"))
        }
        "requirepass" => match std::str::from_utf8(value) {
            Ok("") => Ok(Setting::Password(None)),
            Ok(text) => Ok(Setting::Password(Some(Secret::new(text)))),
            Err(_) => Err(refused("a password is UTF-8 text")),
        },
        _ => {
            let parameters = parameters(call.shared);
            let present = parameters.iter().find(|(known, _)| *known == name);
            match present {
                Some((_, present)) if present.as_bytes().eq_ignore_ascii_case(value) => {
                    Ok(Setting::Same)
                }
                _ => Err(refused("can't set immutable config")),
            }
        }
    }
}

pub(crate) fn resetstat(call: &mut Call<'_>) -> Outcome {
    call.shared.stats.reset();
    call.reply.ok();
    Ok(())
}

pub(crate) fn rewrite(_call: &mut Call<'_>) -> Outcome {
    Err(Failure::Text("ERR The server is running without a config file"))
}
