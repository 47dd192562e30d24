//! Cases of the server: the same commands go to `thermocline serve` and to `redis-server`.
//!
//! A case of the table is right if both servers reply the same. The other cases say what they want.

mod client;
mod server;

use std::time::Duration;

use client::Client;
use server::Server;

use crate::place::Place;
use crate::verdict::{Outcome, Verdict};

pub(crate) const CASES: &[(&str, fn(&Place) -> Outcome)] = &[
    ("redis_float_digits", |place| float(place, FLOAT_DIGITS, "9007199254740993.0000001")),
    ("redis_float_tenths", |place| float(place, FLOAT_TENTHS, "0.3")),
    ("redis_float_large", |place| float(place, FLOAT_LARGE, "10000000000000001")),
    ("redis_float_small", |place| float(place, FLOAT_SMALL, "0")),
    ("redis_multi_subcommand", |place| same(place, MULTI_SUBCOMMAND)),
    ("redis_exec_argument", |place| same(place, EXEC_ARGUMENT)),
    ("redis_multi_refusals", |place| same(place, MULTI_REFUSALS)),
    ("redis_protocol_error", protocol_error),
    ("redis_getex_missing", |place| same(place, GETEX_MISSING)),
    ("redis_repeated_options", |place| same(place, REPEATED_OPTIONS)),
    ("redis_command_filter", |place| same(place, COMMAND_FILTER)),
    ("redis_command_subcommand", command_subcommand),
    ("redis_errorstats", errorstats),
    ("redis_idletime", idletime),
    ("redis_client_info", client_info),
    ("redis_memory_usage", |place| same(place, MEMORY_USAGE)),
    ("redis_client_unblock", |place| same(place, CLIENT_UNBLOCK)),
    ("redis_config_twice", |place| same(place, CONFIG_TWICE)),
    ("redis_encoding", |place| same(place, ENCODING)),
    ("redis_reset_library", reset_library),
    ("redis_bytes_in_error", |place| same(place, BYTES_IN_ERROR)),
    ("redis_config_get", config_get),
    ("redis_large_value", large_value),
];

const FLOAT_DIGITS: &[&str] = &["SET k 9007199254740993", "INCRBYFLOAT k 1e-7"];
const FLOAT_TENTHS: &[&str] =
    &["SET k 0", "INCRBYFLOAT k 1e-1", "INCRBYFLOAT k 1e-1", "INCRBYFLOAT k 1e-1"];
const FLOAT_LARGE: &[&str] = &["SET k 1", "INCRBYFLOAT k 1e16"];
const FLOAT_SMALL: &[&str] = &["SET k 0", "INCRBYFLOAT k 5e-324"];
const MULTI_SUBCOMMAND: &[&str] = &["MULTI", "CONFIG BAD", "SET a 1", "EXEC"];
const EXEC_ARGUMENT: &[&str] = &["MULTI", "SET a 1", "EXEC x", "PING"];
const MULTI_REFUSALS: &[&str] = &["MULTI", "HELLO 3", "DISCARD", "MULTI", "BGSAVE", "DISCARD"];
const GETEX_MISSING: &[&str] = &["GETEX nokey EX 0"];
const REPEATED_OPTIONS: &[&str] =
    &["SET k v EX 10 EX 20", "SET k v KEEPTTL KEEPTTL", "GETEX k PERSIST PERSIST"];
const COMMAND_FILTER: &[&str] = &["COMMAND LIST FILTERBY foo bar"];
const MEMORY_USAGE: &[&str] =
    &["SET k v", "MEMORY USAGE k SAMPLES abc", "MEMORY USAGE k SAMPLES -1", "MEMORY USAGE"];
const CLIENT_UNBLOCK: &[&str] = &["CLIENT UNBLOCK 99 foo"];
const CONFIG_TWICE: &[&str] = &["CONFIG SET timeout 0 timeout 0"];
const ENCODING: &[&str] = &[
    "SET k 1234",
    "SETRANGE k 0 2",
    "OBJECT ENCODING k",
    "SET j abc",
    "APPEND j d",
    "OBJECT ENCODING j",
];
const BYTES_IN_ERROR: &[&str] = &["FOO \u{ff}"];

/// Returns `right` if both servers reply the same to each command.
fn same(place: &Place, commands: &[&str]) -> Outcome {
    let Some((ours, theirs)) = both(place)? else { return Ok(no_redis()) };
    let (mut our, mut their) = (ours.client()?, theirs.client()?);
    for command in commands {
        // A char above ASCII means the byte of its number.
        let words: Vec<Vec<u8>> = command
            .split(' ')
            .map(|word| word.chars().filter_map(|letter| u8::try_from(letter).ok()).collect())
            .collect();
        let (got, wanted) = (our.call_bytes(&words)?, their.call_bytes(&words)?);
        if got != wanted {
            let (wanted, got) = (format!("{command}: {wanted}"), format!("{command}: {got}"));
            return Ok(Verdict::wrong(wanted, got));
        }
    }
    Ok(Verdict::of(true, "", "the replies of redis-server"))
}

/// Returns `right` if the last reply is the exact decimal sum, or the reply of redis-server, which
/// rounds to the digits of a long double.
fn float(place: &Place, commands: &[&str], exact: &str) -> Outcome {
    let Some((ours, theirs)) = both(place)? else { return Ok(no_redis()) };
    let (mut our, mut their) = (ours.client()?, theirs.client()?);
    let (mut got, mut wanted) = (String::new(), String::new());
    for command in commands {
        (got, wanted) = (our.call(command)?, their.call(command)?);
    }
    let exact = format!("\"{exact}\"");
    let is_right = got == exact || got == wanted;
    Ok(Verdict::of(is_right, format!("{exact} or {wanted}"), got))
}

fn no_redis() -> Verdict {
    Verdict::skipped("redis-server is not installed")
}

/// Starts both servers, or returns none if there is no `redis-server`.
fn both(place: &Place) -> Result<Option<(Server, Server)>, Box<dyn std::error::Error>> {
    let Some(theirs) = Server::redis(place)? else { return Ok(None) };
    Ok(Some((Server::thermocline(place, "512mb")?, theirs)))
}

fn protocol_error(place: &Place) -> Outcome {
    let Some((ours, theirs)) = both(place)? else { return Ok(no_redis()) };
    let bad = b"*3\r\n$3\r\nSET\r\n$1\r\nx\r\nfooz\r\n";
    let (got, wanted) = (ours.client()?.send_raw(bad)?, theirs.client()?.send_raw(bad)?);
    Ok(Verdict::of(got == wanted, wanted, got))
}

/// Subcommands must be listed, and described by name.
fn command_subcommand(place: &Place) -> Outcome {
    let server = Server::thermocline(place, "512mb")?;
    let mut client = server.client()?;
    let list = client.call("COMMAND LIST FILTERBY PATTERN config|*")?;
    let info = client.call("COMMAND INFO config|get")?;
    let is_right = ["config|get", "config|set"].iter().all(|name| list.contains(name))
        && info.contains("config|get");
    let got = format!("list {list}, description {info}");
    Ok(Verdict::of(is_right, "config|get and config|set listed and described", got))
}

/// INFO must count errors by their first word.
fn errorstats(place: &Place) -> Outcome {
    let Some((ours, theirs)) = both(place)? else { return Ok(no_redis()) };
    let stats = |server: &Server| -> Result<Vec<String>, Box<dyn std::error::Error>> {
        let mut client = server.client()?;
        client.call("GET")?;
        client.call("SET k v")?;
        client.call("INCR k")?;
        let info = client.call("INFO errorstats")?;
        let lines = info.split("\\r\\n").filter(|line| line.contains("errorstat_"));
        Ok(lines.map(|line| line.trim_matches('"').to_owned()).collect())
    };
    let (got, wanted) = (stats(&ours)?, stats(&theirs)?);
    Ok(Verdict::of(got == wanted, format!("{wanted:?}"), format!("{got:?}")))
}

/// OBJECT IDLETIME must grow.
fn idletime(place: &Place) -> Outcome {
    let server = Server::thermocline(place, "512mb")?;
    let mut client = server.client()?;
    client.call("SET k v")?;
    std::thread::sleep(Duration::from_secs(3));
    let got = client.call("OBJECT IDLETIME k")?;
    let is_right = ["1", "2", "3", "4"].iter().any(|seconds| got == format!(":{seconds}"));
    Ok(Verdict::of(is_right, "1 to 4 seconds after 3 seconds", got))
}

/// CLIENT INFO must name the subcommand that runs.
fn client_info(place: &Place) -> Outcome {
    let Some((ours, theirs)) = both(place)? else { return Ok(no_redis()) };
    let field = |server: &Server| -> Result<String, Box<dyn std::error::Error>> {
        let info = server.client()?.call("CLIENT INFO")?;
        let found = info.split([' ', '"', '\\']).find(|word| word.starts_with("cmd="));
        Ok(found.unwrap_or("no cmd=").to_owned())
    };
    let (got, wanted) = (field(&ours)?, field(&theirs)?);
    Ok(Verdict::of(got == wanted, wanted, got))
}

/// RESET must keep the name of the client's library, as Redis 7.2 does.
fn reset_library(place: &Place) -> Outcome {
    let server = Server::thermocline(place, "512mb")?;
    let mut client = server.client()?;
    client.call("CLIENT SETINFO LIB-NAME mine")?;
    client.call("RESET")?;
    let info = client.call("CLIENT INFO")?;
    let got = info.split(' ').find(|word| word.starts_with("lib-name=")).unwrap_or("no lib-name");
    Ok(Verdict::of(got == "lib-name=mine", "lib-name=mine", got))
}

/// CONFIG GET must know the settings that frameworks ask for.
fn config_get(place: &Place) -> Outcome {
    let server = Server::thermocline(place, "512mb")?;
    let mut client = server.client()?;
    let mut missing = Vec::new();
    for name in [
        "save",
        "appendonly",
        "maxmemory",
        "maxmemory-policy",
        "notify-keyspace-events",
        "databases",
        "timeout",
        "proto-max-bulk-len",
    ] {
        if !client.call(&format!("CONFIG GET {name}"))?.contains(name) {
            missing.push(name);
        }
    }
    let wanted = "a value for each setting";
    let got = if missing.is_empty() { wanted.into() } else { format!("none for {missing:?}") };
    Ok(Verdict::of(missing.is_empty(), wanted, got))
}

/// A value that SET accepts must be read by GET, and `proto-max-bulk-len` must be the limit of
/// both.
fn large_value(place: &Place) -> Outcome {
    const BYTES: usize = 40 << 20;
    let server = Server::thermocline(place, "256mb")?;
    let mut client = server.client()?;
    let limit = client.call("CONFIG GET proto-max-bulk-len")?;
    let digits =
        limit.rsplit(|letter: char| !letter.is_ascii_digit()).find(|part| !part.is_empty());
    let limit: usize = digits.and_then(|digits| digits.parse().ok()).unwrap_or(0);
    let value = vec![b'v'; BYTES];
    let set = client.call_bytes(&[b"SET".to_vec(), b"big".to_vec(), value]);
    let is_taken = set.as_ref().is_ok_and(|reply| reply == "+OK");
    let read = server.client()?.bulk_length(&[b"GET".to_vec(), b"big".to_vec()]);
    let set = set.map_or_else(|error| error.to_string(), |reply| reply.chars().take(80).collect());
    let got = format!("limit {limit}, SET {set}, GET {read:?}");
    let is_right = match is_taken {
        true => read.is_ok_and(|read| read == Some(BYTES)) && BYTES <= limit,
        false => limit < BYTES,
    };
    Ok(Verdict::of(is_right, "one limit for SET and GET", got))
}
