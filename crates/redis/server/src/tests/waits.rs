//! Commands that wait for the device.
//!
//! No other command waits, replies keep their order, and commands that depend on the order within a
//! connection are right.

use std::io::Read as _;
use std::sync::Arc;
use std::time::Duration;

use thermocline::environment::Environment;

use super::client::Client;
use super::memory::figure;
use super::{MapStore, model, options, start};
use crate::{Options, Server};

/// Returns a server of one loop, so that a blocked loop blocks every client; `cold` are the cold
/// keys.
fn serve(cold: &[&str]) -> (Server, Arc<MapStore>) {
    let (server, store) = start(Options { threads: 1, ..options() });
    let mut client = Client::connect(server.addr());
    for key in cold.iter().chain(&["warm", "other"]) {
        assert_eq!(client.run(&format!("SET {key} of-{key}")), "+OK");
    }
    store.cold.freeze(cold);
    (server, store)
}

/// Sends lines without waiting for replies.
fn send(client: &mut Client, lines: &[&str]) {
    client.send(lines.iter().map(|line| format!("{line}\r\n")).collect::<String>().as_bytes());
}

fn replies<const COUNT: usize>(client: &mut Client) -> [String; COUNT] {
    std::array::from_fn(|_| client.reply())
}

/// Returns whether no reply was received yet. The loop has taken a turn since the test's last step.
fn has_nothing(client: &mut Client, other: &mut Client) -> bool {
    assert_eq!(other.run("PING"), "+PONG");
    assert_eq!(other.run("PING"), "+PONG");
    let stream = client.stream.get_mut();
    stream.set_nonblocking(true).expect("a mode is set");
    let nothing = stream.peek(&mut [0]).is_err();
    stream.set_nonblocking(false).expect("a mode is set");
    nothing
}

#[test]
fn a_read_that_waits_holds_nobody_up() {
    let (server, store) = serve(&["a", "b"]);
    let mut waits = Client::connect(server.addr());
    let mut goes_on = Client::connect(server.addr());
    send(&mut waits, &["GET a"]);
    store.cold.await_asked(1);
    for line in 0..100 {
        assert_eq!(goes_on.run("GET warm"), "\"of-warm\"");
        assert_eq!(goes_on.run(&format!("SET other {line}")), "+OK");
    }
    assert!(has_nothing(&mut waits, &mut goes_on));
    send(&mut goes_on, &["GET b"]);
    store.cold.await_asked(2);
    store.cold.release("b");
    assert_eq!(goes_on.reply(), "\"of-b\"", "though it was asked later");
    store.cold.release("a");
    assert_eq!(waits.reply(), "\"of-a\"");
    assert!(goes_on.run("INFO stats").contains("waited_commands:2\\r"));
}

#[test]
fn reads_of_one_pipeline_wait_beside_each_other_and_are_answered_in_order() {
    let (server, store) = serve(&["a", "b", "c"]);
    let mut client = Client::connect(server.addr());
    let mut other = Client::connect(server.addr());
    let lines =
        ["GET a", "GET warm", "STRLEN b", "NOPE x", "TTL warm", "EXISTS c", "GETRANGE warm 0 1"];
    send(&mut client, &lines[..3]);
    assert_eq!(store.cold.await_asked(2), ["a", "b"]);
    store.cold.release("b");
    assert!(has_nothing(&mut client, &mut other), "the first still waits");
    send(&mut client, &lines[3..]);
    store.cold.release("a");
    let wanted = ["\"of-a\"", "\"of-warm\"", ":4"];
    assert_eq!(replies(&mut client), wanted);
    assert!(client.reply().starts_with("-ERR unknown command 'NOPE'"));
    assert_eq!(client.reply(), ":-1");
    store.cold.await_asked(3);
    store.cold.release("c");
    assert_eq!(replies(&mut client), [":1", "\"of\""]);
}

#[test]
fn a_write_does_not_overtake_a_read_before_it() {
    let (server, store) = serve(&["a", "b"]);
    let mut client = Client::connect(server.addr());
    let mut other = Client::connect(server.addr());
    send(&mut client, &["GET a", "GET b", "SET a new", "GET a", "GET warm"]);
    store.cold.await_asked(2);
    store.cold.release("b");
    assert!(has_nothing(&mut client, &mut other));
    assert_eq!(other.run("SET warm new"), "+OK", "nobody else waits for it");
    let place = (0, b"a".to_vec());
    assert_eq!(store.map.lock().get(&place).expect("it is there")[..4], *b"of-a");
    store.cold.release("a");
    assert_eq!(replies(&mut client), ["\"of-a\"", "\"of-b\"", "+OK"]);
    assert_eq!(store.cold.await_asked(3), ["a", "b", "a"]);
    store.cold.release("a");
    assert_eq!(replies(&mut client), ["\"new\"", "\"new\""]);
}

#[test]
fn a_later_read_of_a_key_shows_nothing_older() {
    let (server, store) = serve(&["a"]);
    let mut client = Client::connect(server.addr());
    let mut other = Client::connect(server.addr());
    send(&mut client, &["GET a", "STRLEN a", "GET a"]);
    store.cold.await_asked(1);
    // Acknowledged before the others of the pipeline are looked up.
    assert_eq!(other.run("SET a longer-than-before"), "+OK");
    store.cold.release("a");
    assert_eq!(client.reply(), "\"of-a\"");
    assert_eq!(store.cold.await_asked(2).len(), 2, "one at a time");
    store.cold.release("a");
    assert_eq!(client.reply(), ":18");
    store.cold.await_asked(3);
    store.cold.release("a");
    assert_eq!(client.reply(), "\"longer-than-before\"");
}

#[test]
fn a_read_from_memory_does_not_overtake_one_of_the_same_key() {
    let (server, store) = serve(&["a", "b"]);
    let mut client = Client::connect(server.addr());
    let mut other = Client::connect(server.addr());
    send(&mut client, &["GET a"]);
    store.cold.await_asked(1);
    store.cold.thaw("a");
    send(&mut client, &["GET a", "GET b"]);
    store.cold.await_asked(2);
    // The first may show this, so the second must.
    assert_eq!(other.run("SET a new"), "+OK");
    store.cold.release("a");
    assert_eq!(replies(&mut client), ["\"new\"", "\"new\""]);
    store.cold.release("b");
    assert_eq!(client.reply(), "\"of-b\"");
}

#[test]
fn updates_wait_without_a_lock_and_begin_again_when_they_are_overtaken() {
    let (server, store) = serve(&["n"]);
    let mut one = Client::connect(server.addr());
    let mut two = Client::connect(server.addr());
    assert_eq!(one.run("SET n 10"), "+OK", "a write needs no lookup");
    send(&mut one, &["INCR n", "GET warm"]);
    send(&mut two, &["INCRBY n 5"]);
    store.cold.await_asked(2);
    assert_eq!(Client::connect(server.addr()).run("SET warm changed"), "+OK");
    store.cold.release("n");
    // One of them came first; the other one's value is not the newest any more.
    assert_eq!(store.cold.await_asked(3).len(), 3);
    store.cold.release("n");
    let mut sums = [one.reply(), two.reply()];
    assert_eq!(one.reply(), "\"changed\"", "read behind its update");
    sums.sort();
    assert!(sums == [":11", ":16"] || sums == [":15", ":16"], "{sums:?}");
    let stored = store.map.lock().get(&(0, b"n".to_vec())).cloned();
    assert_eq!(stored.expect("it is there")[..2], *b"16");
}

#[test]
fn transactions_and_endings_come_after_what_waits() {
    let (server, store) = serve(&["a", "b"]);
    let mut client = Client::connect(server.addr());
    send(&mut client, &["GET a", "MULTI", "GET b", "SET a new", "EXEC", "GET warm", "QUIT"]);
    send(&mut client, &["SET warm never"]);
    store.cold.await_asked(1);
    store.cold.release("a");
    let wanted = ["\"of-a\"", "+OK", "+QUEUED", "+QUEUED", "[\"of-b\", +OK]", "\"of-warm\"", "+OK"];
    assert_eq!(replies(&mut client), wanted);
    assert!(client.is_closed());
    // A watched key that changes while its watcher waits.
    let mut watcher = Client::connect(server.addr());
    let mut other = Client::connect(server.addr());
    assert_eq!(watcher.run("WATCH warm"), "+OK");
    send(&mut watcher, &["GET b", "MULTI", "SET won yes", "EXEC"]);
    store.cold.await_asked(2);
    assert_eq!(other.run("SET warm changed"), "+OK");
    store.cold.release("b");
    assert_eq!(replies(&mut watcher), ["\"of-b\"", "+OK", "+QUEUED", "nil"]);
    // A client that sends no more still gets its replies.
    send(&mut other, &["GET b", "GET warm"]);
    other.stream.get_mut().shutdown(std::net::Shutdown::Write).expect("shuts down");
    store.cold.await_asked(3);
    store.cold.release("b");
    assert_eq!(replies(&mut other), ["\"of-b\"", "\"changed\""]);
    assert!(other.is_closed());
}

#[test]
fn the_lookup_of_a_killed_client_replies_to_no_other_client() {
    let (server, store) = serve(&["a", "b"]);
    let mut killer = Client::connect(server.addr());
    let mut victim = Client::connect(server.addr());
    let id = victim.run("CLIENT ID");
    send(&mut victim, &["GET a", "INCR n"]);
    store.cold.await_asked(1);
    assert_eq!(killer.run(&format!("CLIENT KILL ID {}", &id[1..])), ":1");
    assert!(victim.is_closed());
    // It has the victim's token.
    let mut heir = Client::connect(server.addr());
    send(&mut heir, &["GET b"]);
    store.cold.await_asked(2);
    store.cold.release("a");
    assert!(has_nothing(&mut heir, &mut killer));
    store.cold.release("b");
    assert_eq!(heir.reply(), "\"of-b\"");
    assert_eq!(killer.run("EXISTS n"), ":0", "what waited behind the read was never executed");
}

#[test]
fn no_more_is_looked_up_at_once_than_there_is_memory_for() {
    let keys: Vec<String> = (0..300).map(|key| format!("key-{key}")).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let (server, store) = serve(&keys);
    let mut client = Client::connect(server.addr());
    let mut other = Client::connect(server.addr());
    let lines: Vec<String> = keys.iter().map(|key| format!("GET {key}")).collect();
    send(&mut client, &lines.iter().map(String::as_str).collect::<Vec<_>>());
    for (at, key) in keys.iter().enumerate() {
        store.cold.await_asked(at + 1);
        if at == 100 {
            assert_eq!(other.run("GET warm"), "\"of-warm\"");
            let held = other.run("INFO clients");
            let held = held.split("client_memory_bytes:").nth(1).expect("a figure");
            let held: usize = held.split("\\r").next().expect("a number").parse().expect("one");
            assert!(held > 64 * 100, "commands that wait are counted: {held}");
        }
        store.cold.release(key);
        assert_eq!(client.reply(), format!("\"of-{key}\""));
    }
    assert_eq!(store.cold.most_under_way(), 8, "the least depth: the map has no memory");
}

#[test]
fn a_long_pipeline_holds_up_no_short_one() {
    let keys: Vec<String> = (0..100).map(|key| format!("key-{key}")).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let (server, store) = serve(&keys);
    store.cold.freeze(&["warm"]);
    let mut long = Client::connect(server.addr());
    let mut short = Client::connect(server.addr());
    let mut other = Client::connect(server.addr());
    let lines: Vec<String> = keys.iter().map(|key| format!("GET {key}")).collect();
    send(&mut long, &lines.iter().map(String::as_str).collect::<Vec<_>>());
    store.cold.await_asked(8);
    send(&mut short, &["GET warm"]);
    assert!(has_nothing(&mut short, &mut other));
    store.cold.release("key-0");
    store.cold.await_asked(9);
    store.cold.release("key-1");
    let asked = store.cold.await_asked(10);
    assert!(asked.contains(&"warm".to_owned()), "{asked:?}");
    store.cold.release("warm");
    assert_eq!(short.reply(), "\"of-warm\"");
}

#[test]
fn replies_behind_a_slow_read_are_so_many_and_no_more() {
    const BEHIND_MAX: usize = 512;
    let keys: Vec<String> = (0..600).map(|key| format!("key-{key}")).collect();
    let cold: Vec<&str> = ["slow"].into_iter().chain(keys.iter().map(String::as_str)).collect();
    let (server, store) = serve(&cold);
    let mut client = Client::connect(server.addr());
    let mut other = Client::connect(server.addr());
    let lines: Vec<String> = cold.iter().map(|key| format!("GET {key}")).collect();
    send(&mut client, &lines.iter().map(String::as_str).collect::<Vec<_>>());
    for (at, key) in cold.iter().enumerate().take(BEHIND_MAX).skip(1) {
        store.cold.await_asked(at + 1);
        store.cold.release(key);
    }
    assert!(has_nothing(&mut client, &mut other));
    assert_eq!(store.cold.asked_count(), BEHIND_MAX);
    store.cold.release("slow");
    for (at, key) in cold.iter().enumerate().skip(BEHIND_MAX) {
        store.cold.await_asked(at + 1);
        store.cold.release(key);
    }
    for key in cold {
        assert_eq!(client.reply(), format!("\"of-{key}\""));
    }
}

#[test]
fn a_client_that_does_not_read_has_little_looked_up() {
    const MIB: usize = 1 << 20;
    // More than the sockets' own buffers have room for.
    const VALUES: u8 = 40;
    let limits = Options { threads: 1, output_bytes_max: 4 * MIB, ..options() };
    let (server, store) = start(limits);
    let mut client = Client::connect(server.addr());
    let mut other = Client::connect(server.addr());
    for number in 0..VALUES {
        let key = format!("big-{number}");
        assert_eq!(client.call(&[b"SET", key.as_bytes(), &vec![number; MIB]]), "+OK");
    }
    store.cold.freeze_all();
    let lines: Vec<String> = (0..VALUES).map(|number| format!("GET big-{number}")).collect();
    send(&mut client, &lines.iter().map(String::as_str).collect::<Vec<_>>());
    store.cold.await_asked(8);
    // Each takes a turn, in which eight could be looked up.
    let held = (0..100).map(|_| figure(&mut other, "client_memory_bytes")).max();
    let held = held.expect("it was asked for");
    assert!(held < 12 * MIB as u64, "{held} bytes wait for a client that does not read");
    let mut reply = vec![0; MIB + "$1048576\r\n\r\n".len()];
    for number in 0..VALUES {
        client.stream.read_exact(&mut reply).expect("the reply comes");
        let value = &reply["$1048576\r\n".len()..][..MIB];
        assert!(value.iter().all(|byte| *byte == number), "value {number}");
    }
    assert_eq!(other.run("PING"), "+PONG");
    assert_eq!(figure(&mut other, "client_output_buffer_limit_disconnections"), 0);
}

#[test]
fn a_large_reply_behind_one_that_waits_is_made_when_its_turn_comes() {
    const MIB: usize = 1 << 20;
    let limits = Options { threads: 1, client_memory_bytes: 4 * MIB, ..options() };
    let (server, store) = start(limits);
    let mut client = Client::connect(server.addr());
    assert_eq!(client.run("SET a of-a"), "+OK");
    for key in [&b"warm"[..], b"cold"] {
        assert_eq!(client.call(&[b"SET", key, &vec![b'x'; 3 * MIB]]), "+OK");
    }
    store.cold.freeze(&["a", "cold"]);
    let mut other = Client::connect(server.addr());
    send(&mut client, &["GET a", "GET warm"]);
    store.cold.await_asked(1);
    assert!(has_nothing(&mut client, &mut other));
    store.cold.release("a");
    assert_eq!(client.reply(), "\"of-a\"");
    assert_eq!(client.reply().len(), 3 * MIB + 2);
    // A large one that is found too early is looked up again.
    send(&mut client, &["GET a", "GET cold"]);
    store.cold.await_asked(3);
    store.cold.release("cold");
    assert!(has_nothing(&mut client, &mut other));
    store.cold.release("a");
    assert_eq!(client.reply(), "\"of-a\"");
    store.cold.await_asked(4);
    store.cold.release("cold");
    assert_eq!(client.reply().len(), 3 * MIB + 2);
    assert_eq!(figure(&mut other, "evicted_clients"), 0);
}

#[test]
fn an_unused_session_is_released() {
    let (server, store) = serve(&["a"]);
    let mut client = Client::connect(server.addr());
    for round in 1..=2 {
        send(&mut client, &["GET a"]);
        store.cold.await_asked(round);
        assert_eq!(store.cold.store_sessions(), 1);
        store.cold.release("a");
        assert_eq!(client.reply(), "\"of-a\"");
        let is_given_back = (0..500).any(|_| {
            Environment::real().sleep(Duration::from_millis(20));
            store.cold.store_sessions() == 0
        });
        assert!(is_given_back);
    }
}

#[test]
fn others_see_what_a_client_does_after_it_has_waited() {
    let (server, store) = serve(&["a"]);
    let mut client = Client::connect(server.addr());
    let mut other = Client::connect(server.addr());
    send(&mut client, &["GET a", "SELECT 3"]);
    store.cold.await_asked(1);
    store.cold.release("a");
    assert_eq!(replies(&mut client), ["\"of-a\"", "+OK"]);
    let clients = other.run("CLIENT LIST");
    assert!(clients.contains("db=3 "), "{clients}");
}

#[test]
fn a_reply_that_nobody_wants_is_not_sent() {
    let (server, store) = serve(&["a"]);
    let mut client = Client::connect(server.addr());
    send(&mut client, &["CLIENT REPLY SKIP", "GET a", "GET warm"]);
    store.cold.await_asked(1);
    store.cold.release("a");
    assert_eq!(client.reply(), "\"of-warm\"");
}

#[test]
fn a_lookup_that_fails_fails_its_command_alone() {
    let (server, store) = serve(&["a", "b", "c"]);
    let mut client = Client::connect(server.addr());
    send(&mut client, &["GET a", "GET warm"]);
    store.cold.await_asked(1);
    store.cold.fail();
    store.cold.release("a");
    assert_eq!(replies(&mut client), ["-ERR cannot read", "\"of-warm\""]);

    let (server, store) = serve(&["a", "b", "c"]);
    let mut client = Client::connect(server.addr());
    send(&mut client, &["GET a", "GET b", "GET warm"]);
    store.cold.await_asked(2);
    store.cold.break_sessions();
    let broke = "-ERR the queue broke";
    assert_eq!(replies(&mut client), [broke, broke, "\"of-warm\""]);
    // Another queue is made.
    send(&mut client, &["GET c"]);
    store.cold.await_asked(3);
    store.cold.release("c");
    assert_eq!(client.reply(), "\"of-c\"");

    let (server, store) = serve(&["a"]);
    store.cold.refuse_sessions();
    assert_eq!(Client::connect(server.addr()).run("GET a"), "\"of-a\"", "it waits then");
}

#[test]
fn a_server_stops_while_reads_are_under_way() {
    let (server, store) = serve(&["a"]);
    let mut client = Client::connect(server.addr());
    send(&mut client, &["GET a"]);
    store.cold.await_asked(1);
    server.stop();
    server.wait().expect("ends well");
    let mut rest = Vec::new();
    assert_eq!(client.stream.read_to_end(&mut rest).unwrap_or(0), 0, "{rest:?}");
}

#[test]
fn pipelines_of_commands_that_wait_answer_as_the_model_does() {
    let (server, store) = start(options());
    store.cold.freeze_all();
    let mut clients: Vec<Client> = (0..3).map(|_| Client::connect(server.addr())).collect();
    model::compare_pipelines(&mut clients, model::seed(), 1000, 8);
    let waited = clients[0].run("INFO stats");
    assert!(!waited.contains("waited_commands:0\\r"), "{waited}");
}
