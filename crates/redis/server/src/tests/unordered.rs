//! The server over `f2`, a store that keeps no order and does not count its keys.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rand::Rng as _;
use thermocline::environment::{Environment, Random};
use thermocline::{Db, EngineKind};

use super::client::{Client, encode};
use super::{model, options};
use crate::{Options, Server};

fn serve(path: &std::path::Path) -> (Db, Server) {
    serve_in(path, 64 << 20)
}

fn serve_in(path: &std::path::Path, memory_bytes: u64) -> (Db, Server) {
    let database = thermocline::Options { memory_bytes, ..Default::default() };
    let db = Db::open(path, database).expect("opens");
    let options = Options { engine: EngineKind::F2, ..options() };
    let server = Server::start(&db, options, Environment::real()).expect("starts");
    (db, server)
}

fn stop(db: &Db, server: &Server) {
    server.stop();
    server.wait().expect("ends well");
    db.close().expect("closes");
}

/// The elements of a reply of plain words.
fn words(reply: &str) -> Vec<String> {
    let inner = reply.trim_start_matches('[').trim_end_matches(']');
    let words = inner.split(", ").filter(|word| !word.is_empty());
    words.map(|word| word.trim_matches('"').to_owned()).collect()
}

/// Does a whole scan in slices; a key that comes twice fails.
fn scan(client: &mut Client, options: &str, mut between: impl FnMut(&mut Client)) -> Vec<String> {
    let (mut cursor, mut keys) = ("0".to_owned(), Vec::new());
    loop {
        let reply = client.run(&format!("SCAN {cursor} {options}"));
        let (next, found) = reply.split_once("\", ").expect("a cursor and keys");
        cursor = next.trim_start_matches("[\"").to_owned();
        keys.extend(words(found.strip_suffix(']').expect("ends")));
        if cursor == "0" {
            break;
        }
        between(client);
    }
    let unique: BTreeSet<&String> = keys.iter().collect();
    assert_eq!(unique.len(), keys.len(), "a key came twice");
    keys
}

#[test]
fn random_commands_answer_as_the_model_does() {
    let dir = tempfile::tempdir().expect("a directory");
    let (db, server) = serve(dir.path());
    let mut clients: Vec<Client> = (0..3).map(|_| Client::connect(server.addr())).collect();
    model::compare(&mut clients, model::seed(), 1500);
    stop(&db, &server);
}

#[test]
fn keys_are_found_counted_and_swept_without_an_order() {
    let dir = tempfile::tempdir().expect("a directory");
    let (db, server) = serve(dir.path());
    let mut client = Client::connect(server.addr());
    for index in 0..500 {
        client.run(&format!("SET stay:{index} v"));
    }
    assert_eq!(client.run("DBSIZE"), ":500");
    assert_eq!(scan(&mut client, "COUNT 1000", |_| {}).len(), 500);
    let mut round = 0;
    let stayed = scan(&mut client, "COUNT 7 MATCH stay:*", |client| {
        client.run(&format!("SET come:{round} v"));
        client.run(&format!("DEL come:{}", round - 3));
        client.run(&format!("APPEND stay:{} more", round * 7 % 500));
        round += 1;
    });
    assert_eq!(stayed.len(), 500);
    let mut found = words(&client.run("KEYS stay:49?"));
    found.sort();
    assert_eq!(found, (490..500).map(|index| format!("stay:{index}")).collect::<Vec<_>>());
    let picked: BTreeSet<String> = (0..100).map(|_| client.run("RANDOMKEY")).collect();
    assert!(picked.len() > 30, "always the same few: {picked:?}");
    // The empty key has some position like any other.
    client.run("SET \"\" empty");
    assert!(words(&client.run("SCAN 0 COUNT 1000")).len() > 500);
    assert_eq!(client.run("GET \"\""), "\"empty\"");

    client.run("SELECT 3");
    assert_eq!(client.run("RANDOMKEY"), "nil");
    assert_eq!(client.run("DBSIZE"), ":0");
    for index in 0..50 {
        client.run(&format!("SET gone:{index} v PX 1"));
    }
    client.run("SET left v");
    // DBSIZE counts stored keys: the expired are not counted once they are removed, and then it is
    // known how many there are, too.
    let waits = (0..300).take_while(|_| {
        Environment::real().sleep(Duration::from_millis(100));
        client.run("DBSIZE") != ":1" || !client.run("INFO keyspace").contains("db3:keys=1,")
    });
    assert!(waits.count() < 300, "{}", client.run("INFO keyspace"));
    assert_eq!(client.run("RANDOMKEY"), "\"left\"");
    stop(&db, &server);

    let (db, server) = serve(dir.path());
    assert!(db.keyspaces().iter().all(|keyspace| keyspace.options().engine == EngineKind::F2));
    let mut client = Client::connect(server.addr());
    assert_eq!(client.run("GET stay:499"), "\"v\"");
    assert_eq!(client.run("FLUSHDB"), "+OK");
    assert_eq!(client.run("KEYS *"), "[]");
    client.run("SELECT 3");
    assert_eq!(client.run("KEYS *"), "[\"left\"]");
    stop(&db, &server);
}

#[test]
fn a_transaction_sees_its_own_keys_among_the_others() {
    let dir = tempfile::tempdir().expect("a directory");
    let (db, server) = serve(dir.path());
    let mut client = Client::connect(server.addr());
    for index in 0..100 {
        client.run(&format!("SET old:{index} v"));
    }
    client.run("MULTI");
    for index in 0..100 {
        client.run(&format!("SET new:{index} v"));
        client.run(&format!("DEL old:{}", index * 2));
    }
    client.run("DBSIZE");
    client.run("SCAN 0 COUNT 20");
    let reply = client.run("EXEC");
    assert!(reply.contains(":150, "), "{reply}");
    // The scan that began inside continues outside.
    let (_, inside) = reply.split_once(":150, [\"").expect("the scan is the last");
    let (mut cursor, mut keys) = {
        let (cursor, found) = inside.split_once("\", ").expect("a cursor and keys");
        (cursor.to_owned(), words(found.trim_end_matches(']')))
    };
    assert_eq!(keys.len(), 20);
    while cursor != "0" {
        let reply = client.run(&format!("SCAN {cursor} COUNT 20"));
        let (next, found) = reply.split_once("\", ").expect("a cursor and keys");
        cursor = next.trim_start_matches("[\"").to_owned();
        keys.extend(words(found.trim_end_matches(']')));
    }
    assert_eq!(keys.len(), 150);
    assert_eq!(keys.iter().collect::<BTreeSet<_>>().len(), 150, "a key came twice");
    client.run("MULTI");
    client.run("FLUSHDB");
    client.run("SET only v");
    client.run("KEYS *");
    assert_eq!(client.run("EXEC"), "[+OK, +OK, [\"only\"]]");
    assert_eq!(client.run("KEYS *"), "[\"only\"]");
    stop(&db, &server);
}

/// A random command on the keys of one client, and its reply.
fn command(
    random: &mut Random,
    keys: &mut BTreeMap<String, Vec<u8>>,
    of: usize,
) -> (String, String) {
    let mut pick = |count: u64| random.next_u64() % count;
    let key = format!("c{of}:{}", pick(COLD_KEYS));
    let value = keys.get(&key).cloned();
    let shown = |value: &[u8]| format!("\"{}\"", value.escape_ascii());
    let shown_or_nil = |value: Option<&[u8]>| value.map_or("nil".to_owned(), shown);
    let len = value.as_ref().map_or(0, Vec::len);
    match pick(12) {
        0..6 => (format!("GET {key}"), shown_or_nil(value.as_deref())),
        6 => (format!("STRLEN {key}"), format!(":{len}")),
        7 => (format!("EXISTS {key}"), format!(":{}", u8::from(value.is_some()))),
        8 => {
            let other = format!("c{of}:{}", pick(COLD_KEYS));
            let values = [value.as_deref(), keys.get(&other).map(Vec::as_slice)];
            (format!("MGET {key} {other}"), format!("[{}]", values.map(shown_or_nil).join(", ")))
        }
        9 => {
            let new = vec![b'a' + pick(26) as u8; 900 + pick(200) as usize];
            let line = format!("SET {key} {}", String::from_utf8_lossy(&new));
            keys.insert(key, new);
            (line, "+OK".to_owned())
        }
        10 => {
            keys.entry(key.clone()).or_default().extend_from_slice(b"more");
            (format!("APPEND {key} more"), format!(":{}", len + 4))
        }
        _ => {
            keys.remove(&key);
            (format!("DEL {key}"), format!(":{}", u8::from(value.is_some())))
        }
    }
}

/// Keys of each client, of some 1,000 bytes each.
const COLD_KEYS: u64 = 9_000;

#[test]
fn pipelines_over_more_than_memory_answer_as_the_model_does() {
    let dir = tempfile::tempdir().expect("a directory");
    let (db, server) = serve_in(dir.path(), 16 << 20);
    let seed = model::seed();
    let mut random = Environment::seeded(seed).random("cold pipelines");
    let mut clients: Vec<(Client, BTreeMap<String, Vec<u8>>)> =
        (0..3).map(|_| (Client::connect(server.addr()), BTreeMap::new())).collect();
    for (of, (client, keys)) in clients.iter_mut().enumerate() {
        for number in 0..COLD_KEYS {
            let (key, value) = (format!("c{of}:{number}"), vec![b'x'; 1000]);
            client.send(&encode(&[b"SET", key.as_bytes(), &value]));
            keys.insert(key, value);
            if number % 100 == 99 {
                (0..100).for_each(|_| assert_eq!(client.reply(), "+OK"));
            }
        }
    }
    for round in 0..3 {
        // All of them at the same time: the wait of one overlaps the work of the others.
        let mut wanted = Vec::new();
        for (of, (client, keys)) in clients.iter_mut().enumerate() {
            let commands: Vec<_> = (0..1000).map(|_| command(&mut random, keys, of)).collect();
            let lines: String = commands.iter().map(|(line, _)| format!("{line}\r\n")).collect();
            client.send(lines.as_bytes());
            wanted.push(commands);
        }
        for ((client, _), commands) in clients.iter_mut().zip(wanted) {
            for (step, (line, want)) in commands.into_iter().enumerate() {
                let got = client.reply();
                assert_eq!(
                    got, want,
                    "round {round}, step {step}: {line:.40}; replay: SERVER_MODEL_SEED={seed} cargo \
                     test -p thermocline-server pipelines"
                );
            }
        }
    }
    let info = clients[0].0.run("INFO stats");
    let waited = info.split("waited_commands:").nth(1).and_then(|rest| rest.split("\\r").next());
    let waited: u64 = waited.expect("a figure").parse().expect("a number");
    assert!(waited > 3000, "{waited} of 9,000 commands waited for the device");
    stop(&db, &server);
}
