//! Several servers on one store of other processes: each is a gateway.

mod remote_map;

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;
use std::time::Duration;

use thermocline::environment::Environment;
use thermocline::telemetry::Registry;

use super::client::Client;
use super::{model, options};
use crate::store::Durable;
use crate::{Bound, Options, Server};
use remote_map::{RemoteMap, value_of};

/// Two servers on one map.
fn serve() -> [Server; 2] {
    serve_map(&Arc::default(), &Environment::real(), options())
}

/// The same, on a map and with a clock that the test has.
fn serve_map(store: &Arc<RemoteMap>, environment: &Environment, options: Options) -> [Server; 2] {
    store.map.absent.lock().extend(0..16);
    let start = || {
        let bound = Bound::new(options.clone()).expect("the ports are free");
        let store = Arc::clone(store) as Arc<dyn Durable>;
        bound.serve_on(store, environment.clone(), Registry::default()).expect("it starts")
    };
    [start(), start()]
}

#[test]
fn random_commands_get_the_replies_of_the_model() {
    let servers = serve();
    let mut clients: Vec<Client> =
        servers.iter().chain(&servers).map(|server| Client::connect(server.addr())).collect();
    model::compare(&mut clients, model::seed(), 1_500);
}

/// G1: commands of several servers on the same keys lose nothing.
#[test]
fn commands_of_two_gateways_take_effect_one_at_a_time() {
    let servers = serve();
    thread::scope(|scope| {
        for server in servers.iter().chain(&servers) {
            scope.spawn(move || {
                let mut client = Client::connect(server.addr());
                for number in 0..200 {
                    client.run("INCR a");
                    client.run("APPEND b x");
                    client.run(&format!("SETNX c{number} value"));
                    // A transaction that moves one from a count to another.
                    client.run("MULTI");
                    client.run("DECR d");
                    client.run("INCR e");
                    client.run("EXEC");
                    client.run("MULTI");
                    client.run("GET d");
                    client.run("GET e");
                    let shown = client.run("EXEC");
                    let counts: Vec<i64> = shown
                        .split(|letter: char| !letter.is_ascii_digit() && letter != '-')
                        .filter_map(|number| number.parse().ok())
                        .collect();
                    assert_eq!(counts.iter().sum::<i64>(), 0, "{shown}");
                }
            });
        }
    });
    let mut client = Client::connect(servers[0].addr());
    assert_eq!(client.run("GET a"), "\"800\"");
    assert_eq!(client.run("STRLEN b"), ":800");
    assert_eq!(client.run("GET e"), "\"800\"");
    assert_eq!(client.run("GET d"), "\"-800\"");
    assert_eq!(client.run("DBSIZE"), ":204");
}

/// G2: a change by the client of another server makes EXEC fail.
#[test]
fn a_watched_key_is_compared_over_all_gateways() {
    let [first, second] = serve();
    let mut watching = Client::connect(first.addr());
    let mut other = Client::connect(second.addr());
    for (change, result) in [("SET a 1", "nil"), ("GET a", "[+OK]"), ("DEL a", "nil")] {
        assert_eq!(watching.run("WATCH a b"), "+OK");
        // A second watch does not forget the value of the first.
        other.run(change);
        assert_eq!(watching.run("WATCH a"), "+OK");
        watching.run("MULTI");
        watching.run("SET b new");
        assert_eq!(watching.run("EXEC"), result, "{change}");
    }
    // Without a change the next transaction takes place.
    assert_eq!(watching.run("WATCH a"), "+OK");
    watching.run("MULTI");
    watching.run("SET a own");
    assert_eq!(watching.run("EXEC"), "[+OK]");
    assert_eq!(other.run("GET a"), "\"own\"");
}

#[test]
fn keys_at_several_places_are_counted_or_refused() {
    let [first, second] = serve();
    let mut client = Client::connect(first.addr());
    for key in ["a", "b", "x", "y"] {
        assert_eq!(client.run(&format!("SET {key} {key}")), "+OK");
    }
    let mut other = Client::connect(second.addr());
    assert_eq!(other.run("MGET a x none"), "[\"a\", \"x\", nil]");
    assert_eq!(other.run("EXISTS a x none"), ":2");
    assert_eq!(other.run("TOUCH a x none"), ":2");
    assert_eq!(other.run("MSET a 1 x 2"), "-ERR two places");
    assert_eq!(other.run("RENAME a x"), "-ERR two places");
    assert_eq!(other.run("MGET a x"), "[\"a\", \"x\"]");
    assert_eq!(other.run("DEL a none x zzz"), ":2");
    assert_eq!(other.run("UNLINK none zzz"), ":0");
    assert_eq!(client.run("DBSIZE"), ":2");
    // Commands with many keys, and errors of handlers.
    let many: Vec<String> = (0..500).map(|number| format!("k{number} v")).collect();
    assert_eq!(client.run(&format!("MSET {}", many.join(" "))), "+OK");
    assert_eq!(client.run("INCR k1"), "-ERR value is not an integer or out of range");
    assert_eq!(client.run("FLUSHALL"), "+OK");
    assert_eq!(other.run("DBSIZE"), ":0");
}

/// A transaction that is refused because of a watched key gets nil, also if its other keys change
/// again before the reply.
#[test]
fn a_loop_of_optimistic_updates_sees_nil_and_no_error() {
    let servers = serve();
    thread::scope(|scope| {
        for server in servers.iter().chain(&servers) {
            scope.spawn(move || {
                let mut client = Client::connect(server.addr());
                for _ in 0..100 {
                    loop {
                        assert_eq!(client.run("WATCH a b"), "+OK");
                        let shown = client.run("GET a");
                        let count: u64 = shown.trim_matches('"').parse().unwrap_or(0);
                        client.run("MULTI");
                        client.run(&format!("SET a {}", count + 1));
                        client.run("INCR b");
                        let reply = client.run("EXEC");
                        if reply != "nil" {
                            assert!(reply.starts_with("[+OK, :"), "{reply}");
                            break;
                        }
                    }
                }
            });
        }
    });
    let mut client = Client::connect(servers[0].addr());
    assert_eq!(client.run("MGET a b"), "[\"400\", \"400\"]");
}

/// The parts of a command are all made, whether the client wants the reply or not.
#[test]
fn a_removal_without_a_reply_removes_keys_of_all_places() {
    let [server, _other] = serve();
    let mut client = Client::connect(server.addr());
    for key in ["a", "b", "x", "y"] {
        assert_eq!(client.run(&format!("SET {key} {key}")), "+OK");
    }
    client.send(b"CLIENT REPLY SKIP\r\nDEL a x\r\nDBSIZE\r\n");
    assert_eq!(client.reply(), ":2");
    client.send(b"CLIENT REPLY OFF\r\nUNLINK b y\r\nCLIENT REPLY ON\r\n");
    assert_eq!(client.reply(), "+OK");
    assert_eq!(client.run("DBSIZE"), ":0");
}

/// A transaction has the keys that it names, of one database.
#[test]
fn a_transaction_over_all_keys_or_two_databases_is_refused() {
    let [server, _other] = serve();
    let mut client = Client::connect(server.addr());
    assert_eq!(client.run("SET a kept"), "+OK");
    for command in ["FLUSHALL", "FLUSHDB", "KEYS *", "SCAN 0", "RANDOMKEY", "DBSIZE"] {
        client.run("MULTI");
        client.run("SET a lost");
        client.run(command);
        let reply = client.run("EXEC");
        assert!(reply.starts_with("-EXECABORT"), "{command}: {reply}");
        assert!(reply.contains("uses all keys"), "{command}: {reply}");
    }
    assert_eq!(client.run("WATCH a"), "+OK");
    assert_eq!(client.run("SELECT 1"), "+OK");
    client.run("MULTI");
    client.run("GET b");
    let reply = client.run("EXEC");
    assert!(reply.contains("databases 0 and 1 are two ranges"), "{reply}");
    // The watch has ended with the transaction.
    client.run("MULTI");
    client.run("GET b");
    assert_eq!(client.run("EXEC"), "[nil]");
    client.run("SELECT 0");
    assert_eq!(client.run("GET a"), "\"kept\"");
}

/// A watch that has failed guards its transaction.
#[test]
fn a_transaction_after_a_failed_watch_is_refused() {
    let store = Arc::new(RemoteMap::default());
    let [server, _other] = serve_map(&store, &Environment::real(), options());
    let mut client = Client::connect(server.addr());
    assert_eq!(client.run("SET a old"), "+OK");
    store.is_away.store(true, SeqCst);
    assert_eq!(client.run("WATCH a"), "-ERR the cluster is away");
    store.is_away.store(false, SeqCst);
    client.run("MULTI");
    client.run("SET a new");
    assert_eq!(client.run("EXEC"), "nil");
    assert_eq!(client.run("GET a"), "\"old\"");
}

/// Each command is one commit, and only the first one of a database makes it.
#[test]
fn a_command_with_many_keys_is_one_commit() {
    let store = Arc::new(RemoteMap::default());
    let [server, _other] = serve_map(&store, &Environment::real(), options());
    let mut client = Client::connect(server.addr());
    assert_eq!(client.run("SET first value"), "+OK");
    let before = (store.commits.load(SeqCst), store.makes.load(SeqCst));
    let many: Vec<String> = (0..500).map(|number| format!("k{number} v")).collect();
    assert_eq!(client.run(&format!("MSET {}", many.join(" "))), "+OK");
    assert_eq!(client.run("INCR count"), ":1");
    let after = (store.commits.load(SeqCst), store.makes.load(SeqCst));
    assert_eq!((after.0 - before.0, after.1 - before.1), (2, 0));
}

/// A command that waits for its turn for too long has no effect.
#[test]
fn commands_that_wait_too_long_for_a_key_fail() {
    let store = Arc::new(RemoteMap::default());
    let (environment, clock) = Environment::simulated(1);
    let [server, _other] = serve_map(&store, &environment, Options { threads: 1, ..options() });
    let mut clients: Vec<Client> = (0..3).map(|_| Client::connect(server.addr())).collect();
    assert_eq!(clients[0].run("INCR a"), ":1");
    store.holds.store(true, SeqCst);
    let incr = b"*2\r\n$4\r\nINCR\r\n$1\r\na\r\n";
    clients[0].send(incr);
    while store.held.lock().is_empty() {
        thread::yield_now();
    }
    clients[1].send(incr);
    // The loop takes commands in their order, and so does the thread. So a read of another key
    // shows that the thread has this command.
    assert_eq!(clients[2].run("PING"), "+PONG");
    let probe = b"*2\r\n$4\r\nINCR\r\n$5\r\nother\r\n";
    clients[2].send(probe);
    while store.held.lock().len() < 2 {
        thread::yield_now();
    }
    clock.advance(Duration::from_secs(11));
    store.holds.store(false, SeqCst);
    let held = std::mem::take(&mut *store.held.lock());
    let values = [&b"a"[..], b"other"].map(|key| value_of(&store.map, 0, key));
    for (on_read, value) in held.into_iter().zip(values) {
        on_read(Ok(vec![value]));
    }
    assert_eq!(clients[0].reply(), ":2");
    let late = clients[1].reply();
    assert!(late.contains("have not ended for ten seconds"), "{late}");
    assert_eq!(clients[2].reply(), ":1");
    assert_eq!(clients[1].run("INCR a"), ":3");
}
