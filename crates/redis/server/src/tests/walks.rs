//! Commands that walk over keys: no other client waits for them, and no call reads over a slice.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use thermocline::environment::Environment;

use super::client::{Client, encode};
use super::{MapStore, options};
use crate::{Bound, Options, Server};

const KEYS: usize = 25_000;

/// A server of one loop, so that every client waits for a command that blocks it.
fn serve(store: MapStore) -> (Server, Arc<MapStore>) {
    let store = Arc::new(store);
    let bound = Bound::new(Options { threads: 1, ..options() }).expect("the ports are free");
    let registry = thermocline::telemetry::Registry::default();
    let server = bound.serve_on(store.clone(), Environment::real(), registry).expect("starts");
    (server, store)
}

fn fill(client: &mut Client, count: usize) {
    let keys: Vec<Vec<u8>> = (0..count).map(|key| format!("k{key}").into_bytes()).collect();
    for part in keys.chunks(10_000) {
        let mut args: Vec<&[u8]> = vec![b"MSET"];
        part.iter().for_each(|key| args.extend([key.as_slice(), b"v"]));
        assert_eq!(client.call(&args), "+OK");
    }
}

fn number(reply: &str) -> usize {
    reply.trim_start_matches(':').parse().expect("a number")
}

#[test]
fn a_walk_that_waits_for_the_device_holds_up_no_other_client() {
    let (server, store) = serve(MapStore::hashed());
    let mut other = Client::connect(server.addr());
    fill(&mut other, 100);
    for (line, expected) in [
        ("DBSIZE", ":100"),
        ("KEYS k7", "[\"k7\"]"),
        ("SCAN 0 COUNT 1000 MATCH k7", "[\"0\", [\"k7\"]]"),
        ("RANDOMKEY", "\"k"),
    ] {
        let mut walks = Client::connect(server.addr());
        let device = store.walking.lock();
        walks.send(format!("{line}\r\nPING\r\n").as_bytes());
        for round in 0..10 {
            assert_eq!(other.run("PING"), "+PONG", "{line}");
            assert_eq!(other.run(&format!("SET n {round}")), "+OK", "{line}");
            assert_eq!(other.run("GET n"), format!("\"{round}\""), "{line}");
        }
        assert_eq!(other.run("DEL n"), ":1");
        drop(device);
        assert!(walks.reply().starts_with(expected), "{line}");
        assert_eq!(walks.reply(), "+PONG", "what follows a walk waits for it");
    }
}

#[test]
fn no_call_of_a_walk_meets_more_than_a_slice() {
    for store in [MapStore::default(), MapStore::hashed()] {
        let (server, store) = serve(store);
        let mut client = Client::connect(server.addr());
        fill(&mut client, KEYS);
        assert_eq!(client.run("KEYS *").matches("\"k").count(), KEYS);
        let reply = client.run("SCAN 0 COUNT 100000");
        assert!(reply.starts_with("[\"0\", "), "one call is enough");
        assert_eq!(reply.matches("\"k").count(), KEYS);
        let reply = client.run("SCAN 0 COUNT 2500");
        assert_eq!(reply.matches("\"k").count(), 2500);
        assert!(client.run("RANDOMKEY").starts_with("\"k"));
        client.run("DBSIZE");
        let most = store.met_by_one.load(SeqCst);
        assert!(most <= 1001, "one walk has met {most} pairs");
    }
}

/// The thread that runs such commands is held, so a loop that copied the keys would reply.
#[test]
fn no_loop_copies_the_keys_of_a_large_reply() {
    let (server, store) = serve(MapStore::default());
    let (mut other, mut saves) = (Client::connect(server.addr()), Client::connect(server.addr()));
    let keys: Vec<Vec<u8>> = (0..3_000).map(|key| format!("{key:0>1000}").into_bytes()).collect();
    for part in keys.chunks(500) {
        let mut args: Vec<&[u8]> = vec![b"MSET"];
        part.iter().for_each(|key| args.extend([key.as_slice(), b"v"]));
        assert_eq!(other.call(&args), "+OK");
    }
    let saving = store.saving.lock();
    saves.send(b"SAVE\r\n");
    let mut walks = Client::connect(server.addr());
    walks.send(b"KEYS *\r\nPING\r\n");
    let all_are_met = (0..500).any(|_| {
        Environment::real().sleep(std::time::Duration::from_millis(10));
        store.met.load(SeqCst) >= keys.len() as u64
    });
    assert!(all_are_met);
    for _ in 0..10 {
        assert_eq!(other.run("PING"), "+PONG");
        assert!(
            other.run("KEYS *99").matches("99\"").count() > 20,
            "a small reply needs no thread"
        );
    }
    walks.stream.get_mut().set_nonblocking(true).expect("a mode is set");
    assert!(walks.stream.get_mut().peek(&mut [0]).is_err(), "a loop has made the reply");
    walks.stream.get_mut().set_nonblocking(false).expect("a mode is set");
    drop(saving);
    assert_eq!(saves.reply(), "+OK");
    let reply = walks.reply();
    assert_eq!(reply.matches("\"0").count(), keys.len());
    assert_eq!(walks.reply(), "+PONG", "what follows a walk waits for it");
    let used = super::memory::figure(&mut other, "client_memory_bytes");
    assert!(used < 1 << 20, "{used} bytes are charged");
}

#[test]
fn many_keys_are_estimated_where_the_store_does_not_count() {
    let (server, store) = serve(MapStore::hashed());
    let mut client = Client::connect(server.addr());
    fill(&mut client, 9_900);
    assert_eq!(client.run("DBSIZE"), ":9900", "few are counted");
    fill(&mut client, KEYS);
    let before = store.met.load(SeqCst);
    let about = number(&client.run("DBSIZE"));
    let met = store.met.load(SeqCst) - before;
    assert!(met <= 11_000, "{met} pairs were read");
    assert!(about.abs_diff(KEYS) < KEYS / 5, "{about} of {KEYS}");
    // The same in a transaction.
    client.send(b"MULTI\r\nDBSIZE\r\nEXEC\r\n");
    assert_eq!([client.reply(), client.reply()], ["+OK", "+QUEUED"]);
    assert_eq!(client.reply(), format!("[:{about}]"));
}

#[test]
fn a_client_that_leaves_in_the_midst_of_a_walk_is_forgotten() {
    let (server, store) = serve(MapStore::hashed());
    let mut other = Client::connect(server.addr());
    fill(&mut other, 5_000);
    let device = store.walking.lock();
    let mut walks = Client::connect(server.addr());
    walks.send(&encode(&[b"KEYS", b"*"]));
    assert_eq!(other.run("PING"), "+PONG");
    drop(walks);
    drop(device);
    assert_eq!(other.run("DBSIZE"), ":5000");
    let clients = (0..500).any(|_| {
        Environment::real().sleep(std::time::Duration::from_millis(20));
        other.run("INFO clients").contains("connected_clients:1\\r")
    });
    assert!(clients, "the other one stays");
}

/// A store whose keys are all on the device, and a client that has written some.
fn cold() -> (Server, Arc<MapStore>, Client) {
    let (server, store) = serve(MapStore::default());
    let mut client = Client::connect(server.addr());
    for key in ["a", "b", "c"] {
        assert_eq!(client.run(&format!("SET {key} of-{key}")), "+OK");
    }
    store.cold.freeze(&["a", "b", "c"]);
    (server, store, client)
}

#[test]
fn a_command_over_several_keys_on_the_device_holds_up_no_other_client() {
    for (line, expected) in [
        ("MGET a x c", "[\"of-a\", nil, \"of-c\"]"),
        ("EXISTS a b x a", ":3"),
        ("TOUCH a x", ":1"),
        ("MSETNX x 1 c 2", ":0"),
        ("DEL a x b a", ":2"),
        ("UNLINK c c", ":1"),
    ] {
        let (server, store, mut other) = cold();
        let mut waits = Client::connect(server.addr());
        let device = store.walking.lock();
        waits.send(format!("{line}\r\nPING\r\n").as_bytes());
        for round in 0..10 {
            assert_eq!(other.run("PING"), "+PONG", "{line}");
            assert_eq!(other.run(&format!("SET n {round}")), "+OK", "{line}");
        }
        drop(device);
        assert_eq!(waits.reply(), expected, "{line}");
        assert_eq!(waits.reply(), "+PONG", "{line}");
    }
}

#[test]
fn a_command_over_several_keys_shows_one_moment_though_it_waits() {
    let (server, store, mut other) = cold();
    let mut waits = Client::connect(server.addr());
    let device = store.walking.lock();
    waits.send(b"MGET a b\r\n");
    assert_eq!(other.run("PING"), "+PONG");
    store.cold.thaw("a");
    assert_eq!(other.run("SET a new"), "+OK");
    drop(device);
    // Perhaps the values were read before it was written; they are read again then.
    assert_eq!(waits.reply(), "[\"new\", \"of-b\"]");
    // One that leaves watches nothing any more.
    let device = store.walking.lock();
    waits.send(b"DEL b c\r\n");
    assert_eq!(other.run("PING"), "+PONG");
    drop(waits);
    drop(device);
    let clients = (0..500).any(|_| {
        Environment::real().sleep(std::time::Duration::from_millis(20));
        other.run("INFO clients").contains("connected_clients:1\\r")
    });
    assert!(clients, "the other one stays");
    assert!(server.shared.keys.watches.keys(0).is_empty());
}

#[test]
fn values_of_several_keys_without_room_are_an_error() {
    const MIB: usize = 1 << 20;
    let store = Arc::new(MapStore::default());
    let limits = Options { threads: 1, client_memory_bytes: 4 * MIB, ..options() };
    let registry = thermocline::telemetry::Registry::default();
    let bound = Bound::new(limits).expect("the ports are free");
    let server = bound.serve_on(store.clone(), Environment::real(), registry).expect("starts");
    let mut client = Client::connect(server.addr());
    for key in ["a", "b"] {
        assert_eq!(client.call(&[b"SET", key.as_bytes(), &vec![b'x'; 2 * MIB]]), "+OK");
    }
    store.cold.freeze(&["a", "b"]);
    let refused = "-OOM command refused: the clients' memory of 4194304 bytes is used up";
    assert_eq!(client.run("MGET a b"), refused);
    assert_eq!(client.run("EXISTS a b"), ":2");
    assert_eq!(client.run("DEL a b"), ":2");
    assert!(super::memory::figure(&mut client, "client_memory_bytes") < MIB as u64);
}
