//! MULTI, EXEC and WATCH, alone and against other clients.

use super::client::Client;
use super::{options, serve, start};
use crate::Server;

fn check(client: &mut Client, script: &[(&str, &str)]) {
    for (line, want) in script {
        assert_eq!(client.run(line), *want, "{line}");
    }
}

#[test]
fn a_transaction_executes_as_one() {
    let (_server, mut client) = serve();
    check(
        &mut client,
        &[
            ("EXEC", "-ERR EXEC without MULTI"),
            ("DISCARD", "-ERR DISCARD without MULTI"),
            ("MULTI", "+OK"),
            ("MULTI", "-ERR MULTI calls can not be nested"),
            ("SET a 1", "+QUEUED"),
            ("INCR a", "+QUEUED"),
            ("GET a", "+QUEUED"),
            ("MGET a none", "+QUEUED"),
            ("DBSIZE", "+QUEUED"),
            ("WATCH a", "-ERR WATCH inside MULTI is not allowed"),
            ("EXEC", "[+OK, :2, \"2\", [\"2\", nil], :1]"),
            ("MULTI", "+OK"),
            ("EXEC", "[]"),
            ("MULTI", "+OK"),
            ("SET a 5", "+QUEUED"),
            ("DISCARD", "+OK"),
            ("GET a", "\"2\""),
            ("MULTI", "+OK"),
            ("SET s x", "+QUEUED"),
            ("INCR s", "+QUEUED"),
            ("SET t y", "+QUEUED"),
            ("EXEC", "[+OK, -ERR value is not an integer or out of range, +OK]"),
            ("MULTI", "+OK"),
            ("SET a", "-ERR wrong number of arguments for 'set' command"),
            ("SET a 9", "+QUEUED"),
            ("EXEC", "-EXECABORT Transaction discarded because of previous errors."),
            ("MULTI", "+OK"),
            ("NOPE", "-ERR unknown command 'NOPE', with args beginning with: "),
            ("EXEC", "-EXECABORT Transaction discarded because of previous errors."),
            ("GET a", "\"2\""),
            ("MULTI", "+OK"),
            ("SET b 1", "+QUEUED"),
            ("FLUSHDB", "+QUEUED"),
            ("SET c 1", "+QUEUED"),
            ("KEYS *", "+QUEUED"),
            ("SCAN 0", "+QUEUED"),
            ("DBSIZE", "+QUEUED"),
            ("EXEC", "[+OK, +OK, +OK, [\"c\"], [\"0\", [\"c\"]], :1]"),
            ("KEYS *", "[\"c\"]"),
        ],
    );
}

#[test]
fn a_watched_key_that_changes_aborts() {
    let (server, mut client) = serve();
    let mut other = Client::connect(server.addr());
    for change in [
        "SET k 2",
        "DEL k",
        "APPEND k x",
        "INCR k",
        "EXPIRE k 100",
        "FLUSHALL",
        "FLUSHDB",
        "MSET k 1 l 2",
        "GETDEL k",
        "RENAME k l",
        "SETRANGE k 0 7",
        "PERSIST k",
        "EXPIRE k 0",
    ] {
        client.run("SET k 1 EX 1000");
        assert_eq!(client.run("WATCH k other"), "+OK");
        assert!(!other.run(change).starts_with('-'));
        client.run("MULTI");
        client.run("SET k mine");
        assert_eq!(client.run("EXEC"), "nil", "{change}");
    }
    for no_change in ["GET k", "SET l 1", "EXPIRE k 5 NX", "SETNX k 9", "SET k 2 NX", "EXISTS k"] {
        client.run("SET k 1 EX 1000");
        assert_eq!(client.run("WATCH k"), "+OK");
        other.run(no_change);
        client.run("MULTI");
        client.run("GET k");
        assert_eq!(client.run("EXEC"), "[\"1\"]", "{no_change}");
    }
    client.run("WATCH k");
    other.run("SET k 2");
    client.run("UNWATCH");
    client.run("MULTI");
    assert_eq!(client.run("EXEC"), "[]");
    client.run("WATCH k");
    other.run("SELECT 1");
    other.run("SET k 2");
    client.run("MULTI");
    assert_eq!(client.run("EXEC"), "[]", "the same key of another database");
}

#[test]
fn a_watched_key_that_expires_aborts_and_one_that_had_expired_does_not() {
    let (server, mut client) = serve();
    let environment = thermocline::environment::Environment::real();
    let mut other = Client::connect(server.addr());
    // In one piece, so that the value has not expired yet when it is watched.
    client.send(b"SET k 1 PX 20\r\nWATCH k\r\n");
    assert_eq!([client.reply(), client.reply()], ["+OK", "+OK"]);
    environment.sleep(std::time::Duration::from_millis(40));
    client.run("MULTI");
    assert_eq!(client.run("EXEC"), "nil");
    other.run("SET k 1 PX 1");
    environment.sleep(std::time::Duration::from_millis(10));
    client.run("WATCH k");
    assert_eq!(other.run("GET k"), "nil");
    client.run("MULTI");
    assert_eq!(client.run("EXEC"), "[]");
}

/// Money moves between accounts in transactions and single commands, from several clients on
/// several loops, while others look: no client ever sees a sum that is wrong.
fn shows_whole_transactions(server: &Server) {
    let addr = server.addr();
    Client::connect(addr).run("MSET a 500 b 500");
    let environment = thermocline::environment::Environment::real();
    let movers: Vec<_> = (0..3)
        .map(|mover| {
            let work = move || {
                let mut client = Client::connect(addr);
                for round in 0..300 {
                    let amount = round % 7 + mover;
                    // Many together, so that they execute while others do.
                    let one =
                        format!("MULTI\r\nDECRBY a {amount}\r\nINCRBY b {amount}\r\nEXEC\r\n");
                    client.send(one.repeat(20).as_bytes());
                    (0..20 * 4).for_each(|_| drop(client.reply()));
                }
            };
            environment.spawn("mover", work).expect("a thread")
        })
        .collect();
    let mut looker = Client::connect(addr);
    while movers.iter().any(|mover| !mover.is_finished()) {
        // Keys between the two give the movers time to come in between.
        let seen = looker.run(&format!("MGET a {}b", "none ".repeat(500)));
        let sum: i64 = seen
            .trim_matches(['[', ']'])
            .split(", ")
            .filter(|value| *value != "nil")
            .map(|number| number.trim_matches('"').parse::<i64>().expect("a number"))
            .sum();
        assert_eq!(sum, 1000, "{seen}");
    }
    movers.into_iter().for_each(|mover| mover.join().expect("moves"));
}

/// Clients count by WATCH, GET, MULTI, SET, EXEC, and try again when aborted: no count is lost.
fn counts_optimistically(server: &Server) {
    let addr = server.addr();
    let mut client = Client::connect(addr);
    client.run("SET n 0");
    let environment = thermocline::environment::Environment::real();
    let count = move || {
        let mut client = Client::connect(addr);
        let mut done = 0;
        while done < 100 {
            client.run("WATCH n");
            let n: i64 = client.run("GET n").trim_matches('"').parse().expect("a number");
            client.run("MULTI");
            client.run(&format!("SET n {}", n + 1));
            done += i32::from(client.run("EXEC") != "nil");
        }
    };
    let counters: Vec<_> =
        (0..4).map(|_| environment.spawn("counter", count).expect("a thread")).collect();
    counters.into_iter().for_each(|counter| counter.join().expect("counts"));
    assert_eq!(client.run("GET n"), "\"400\"");
}

#[test]
fn others_never_see_half_a_transaction() {
    let (server, _client) = serve();
    shows_whole_transactions(&server);
}

#[test]
fn optimistic_counting_loses_nothing() {
    let (server, _client) = serve();
    counts_optimistically(&server);
}

/// A server whose keys are all on the device, so that a thread runs transactions.
fn serve_from_the_device() -> Server {
    let (server, store) = start(options());
    store.cold.freeze_all();
    server
}

#[test]
fn others_never_see_half_a_transaction_of_a_thread() {
    shows_whole_transactions(&serve_from_the_device());
}

#[test]
fn optimistic_counting_on_a_thread_loses_nothing() {
    counts_optimistically(&serve_from_the_device());
}
