//! The server over `f2`, a store that keeps no order and does not count its keys.

use std::collections::BTreeSet;
use std::time::Duration;

use environment::Environment;
use thermocline::{Db, EngineKind};

use super::client::Client;
use super::{model, options};
use crate::{Options, Server};

fn serve(path: &std::path::Path) -> (Db, Server) {
    let database = thermocline::Options { memory_bytes: 64 << 20, ..Default::default() };
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

/// A whole scan in slices; what comes twice fails.
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
    // The empty key lies somewhere like any other.
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
    // DBSIZE counts what is stored: the expired go once the sweeper has come by, and then it has
    // seen how many there are, too.
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
    // The scan that began inside goes on outside.
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
