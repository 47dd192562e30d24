//! Random commands against a model: a map of strings and expiries.
//!
//! The model follows the Redis documentation. Several clients take turns, so that all loops and
//! both RESP versions reply.
//!
//! `SERVER_MODEL_SEED=<seed> cargo test -p thermocline-server model` replays a failure.

use std::collections::BTreeMap;

use rand::Rng as _;
use thermocline::environment::{Environment, Random, Seed};

use super::client::Client;
use super::{options, start};

const STEPS: usize = 4000;

/// The model: values, and whether they have an expiry (in a far future, so it does not come).
#[derive(Debug, Default)]
struct Model {
    keys: BTreeMap<String, (Vec<u8>, bool)>,
}

/// Only the text that an integer prints as is one.
fn integer(bytes: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(bytes).ok()?;
    text.parse().ok().filter(|number: &i64| number.to_string() == text)
}

fn shown(value: Option<&[u8]>) -> String {
    value.map_or("nil".to_owned(), |value| format!("\"{}\"", value.escape_ascii()))
}

impl Model {
    fn value(&self, key: &str) -> Option<&[u8]> {
        self.keys.get(key).map(|(value, _)| value.as_slice())
    }

    fn put(&mut self, key: &str, value: &[u8], expires: bool) -> String {
        self.keys.insert(key.to_owned(), (value.to_vec(), expires));
        "+OK".to_owned()
    }

    fn add(&mut self, key: &str, amount: i64) -> String {
        let (value, expires) = self.keys.get(key).cloned().unwrap_or((b"0".to_vec(), false));
        let Some(number) = integer(&value) else {
            return "-ERR value is not an integer or out of range".to_owned();
        };
        let sum = number + amount;
        self.put(key, sum.to_string().as_bytes(), expires);
        format!(":{sum}")
    }

    /// The reply that is right, having made the change.
    fn run(&mut self, words: &[&str]) -> String {
        let count = |yes: bool| format!(":{}", u8::from(yes));
        match *words {
            ["GET", key] => shown(self.value(key)),
            ["SET", key, value] => self.put(key, value.as_bytes(), false),
            ["SET", key, value, "EX", _] => self.put(key, value.as_bytes(), true),
            ["SET", key, value, "KEEPTTL"] => {
                let expires = self.keys.get(key).is_some_and(|(_, expires)| *expires);
                self.put(key, value.as_bytes(), expires)
            }
            ["SET", key, value, "NX"] if self.value(key).is_none() => {
                self.put(key, value.as_bytes(), false)
            }
            ["SET", key, value, "XX"] if self.value(key).is_some() => {
                self.put(key, value.as_bytes(), false)
            }
            ["SET", _, _, "NX" | "XX"] => "nil".to_owned(),
            ["GETDEL", key] => shown(self.keys.remove(key).map(|(value, _)| value).as_deref()),
            ["DEL", key] => count(self.keys.remove(key).is_some()),
            ["DEL", one, two] => {
                let gone = [one, two].map(|key| u8::from(self.keys.remove(key).is_some()));
                format!(":{}", gone[0] + gone[1])
            }
            ["INCR", key] => self.add(key, 1),
            ["DECRBY", key, amount] => self.add(key, -amount.parse::<i64>().expect("a number")),
            ["APPEND", key, tail] => {
                let (mut value, expires) = self.keys.get(key).cloned().unwrap_or_default();
                value.extend_from_slice(tail.as_bytes());
                self.put(key, &value, expires);
                format!(":{}", value.len())
            }
            ["STRLEN", key] => format!(":{}", self.value(key).map_or(0, <[u8]>::len)),
            ["EXPIRE", key, _] => match self.keys.get_mut(key) {
                Some((_, expires)) => {
                    *expires = true;
                    ":1".to_owned()
                }
                None => ":0".to_owned(),
            },
            ["PERSIST", key] => match self.keys.get_mut(key) {
                Some((_, expires)) => count(std::mem::take(expires)),
                None => ":0".to_owned(),
            },
            ["TTL", key] => match self.keys.get(key) {
                None => ":-2".to_owned(),
                Some((_, false)) => ":-1".to_owned(),
                Some((_, true)) => ":some".to_owned(),
            },
            ["MSET", one, value, two, other] => {
                self.put(one, value.as_bytes(), false);
                self.put(two, other.as_bytes(), false)
            }
            ["MGET", one, two] => {
                format!("[{}, {}]", shown(self.value(one)), shown(self.value(two)))
            }
            ["KEYS", "*"] => {
                let keys: Vec<String> = self.keys.keys().map(|key| format!("\"{key}\"")).collect();
                format!("[{}]", keys.join(", "))
            }
            ["DBSIZE"] => format!(":{}", self.keys.len()),
            ["FLUSHDB"] => {
                self.keys.clear();
                "+OK".to_owned()
            }
            _ => panic!("the model does not know {words:?}"),
        }
    }
}

/// A random command.
fn command(random: &mut Random) -> String {
    let mut pick = |count: u64| random.next_u64() % count;
    let (one, two) = (format!("k{}", pick(12)), format!("k{}", pick(12)));
    let number = pick(1000);
    match pick(24) {
        0..4 => format!("GET {one}"),
        4..6 => format!("SET {one} {number}"),
        6 => format!("SET {one} word{number}"),
        7 => format!("SET {one} {number} EX 100000"),
        8 => format!("SET {one} {number} KEEPTTL"),
        9 => format!("SET {one} {number} NX"),
        10 => format!("SET {one} {number} XX"),
        11 => format!("GETDEL {one}"),
        12 => format!("DEL {one}"),
        13 => format!("DEL {one} {two}"),
        14 => format!("INCR {one}"),
        15 => format!("DECRBY {one} {number}"),
        16 => format!("APPEND {one} {number}"),
        17 => format!("STRLEN {one}"),
        18 => format!("EXPIRE {one} 100000"),
        19 => format!("PERSIST {one}"),
        20 => format!("TTL {one}"),
        21 => format!("MSET {one} {number} {two} x{number}"),
        22 => format!("MGET {one} {two}"),
        _ => ["KEYS *", "DBSIZE", "FLUSHDB"][usize::from(number < 500) + usize::from(number < 20)]
            .to_owned(),
    }
}

pub(super) fn seed() -> u64 {
    let given = std::env::var("SERVER_MODEL_SEED").ok();
    given.map_or_else(|| Seed::from_entropy().get(), |seed| seed.parse().expect("a number"))
}

/// Returns the reply in the form of the model.
fn normal(line: &str, got: String) -> String {
    if line.starts_with("TTL") && !got.starts_with(":-") {
        return ":some".to_owned();
    }
    if line != "KEYS *" {
        return got;
    }
    // In any order of the store.
    let keys = got.trim_start_matches('[').trim_end_matches(']');
    let mut keys: Vec<&str> = keys.split(", ").collect();
    keys.sort_unstable();
    format!("[{}]", keys.join(", "))
}

/// Compares the replies to `rounds` pipelines of `steps` random commands each, through `clients` in
/// turn.
pub(super) fn compare_pipelines(clients: &mut [Client], seed: u64, steps: usize, rounds: usize) {
    let mut random = Environment::seeded(seed).random("server model");
    let mut model = Model::default();
    for round in 0..rounds {
        let lines: Vec<String> = (0..steps).map(|_| command(&mut random)).collect();
        let count = clients.len();
        let client = &mut clients[round % count];
        client.send(lines.iter().map(|line| format!("{line}\r\n")).collect::<String>().as_bytes());
        for (step, line) in lines.iter().enumerate() {
            let want = model.run(&line.split(' ').collect::<Vec<_>>());
            assert_eq!(
                normal(line, client.reply()),
                want,
                "round {round}, step {step}: {line}; replay: SERVER_MODEL_SEED={seed} cargo test -p \
                 thermocline-server"
            );
        }
    }
}

/// Compares `steps` random replies, through `clients` in turn.
pub(super) fn compare(clients: &mut [Client], seed: u64, steps: usize) {
    let mut random = Environment::seeded(seed).random("server model");
    let mut model = Model::default();
    for step in 0..steps {
        let line = command(&mut random);
        let words: Vec<&str> = line.split(' ').collect();
        let want = model.run(&words);
        let count = clients.len();
        let got = normal(&line, clients[step % count].run(&line));
        assert_eq!(
            got, want,
            "step {step}: {line}; replay: SERVER_MODEL_SEED={seed} cargo test -p \
             thermocline-server model"
        );
    }
}

#[test]
fn random_commands_answer_as_the_model_does() {
    let (server, _) = start(options());
    let mut clients: Vec<Client> = (0..3).map(|_| Client::connect(server.addr())).collect();
    clients[1].run("HELLO 3");
    compare(&mut clients, seed(), STEPS);
}
