//! Commands that a thread runs: no event loop waits for them, and each still takes effect at one
//! moment.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use thermocline::environment::Environment;
use thermocline::{Db, EngineKind};

use super::client::{Client, encode};
use super::{MapStore, options, start};
use crate::protocol::{Bounds, Parser, Step};
use crate::session::Queue;
use crate::{Options, Server};

/// Keys of a command that an event loop runs, at most.
const KEYS_MAX: u64 = crate::commands::plan::KEYS_MAX as u64;
const MIB: usize = 1 << 20;

/// A server of one loop, whose clients all wait for a command that blocks it, and a client of it.
/// The keys `a`, `b` and `c` are on the device.
fn serve() -> (Server, Arc<MapStore>, Client) {
    let (server, store) = start(Options { threads: 1, ..options() });
    let mut client = Client::connect(server.addr());
    for key in ["a", "b", "c", "warm"] {
        assert_eq!(client.run(&format!("SET {key} of-{key}")), "+OK");
    }
    store.cold.freeze(&["a", "b", "c"]);
    (server, store, client)
}

/// Sends lines and returns the last reply, which the caller reads.
fn send(client: &mut Client, lines: &str) {
    client.send(lines.split("; ").map(|line| format!("{line}\r\n")).collect::<String>().as_bytes());
}

/// Reads replies until the last one of `lines`, and returns that.
fn last(client: &mut Client, lines: &str) -> String {
    let count = lines.split("; ").count();
    (0..count).map(|_| client.reply()).last().expect("a reply")
}

/// Whether no reply comes. The loop takes turns meanwhile.
fn has_nothing(client: &mut Client, other: &mut Client) -> bool {
    (0..3).for_each(|_| assert_eq!(other.run("PING"), "+PONG"));
    let stream = client.stream.get_mut();
    stream.set_nonblocking(true).expect("a mode is set");
    let nothing = stream.peek(&mut [0]).is_err();
    stream.set_nonblocking(false).expect("a mode is set");
    nothing
}

/// Waits until only `count` clients are left.
fn await_clients(client: &mut Client, count: usize) {
    let is_so = (0..500).any(|_| {
        Environment::real().sleep(Duration::from_millis(20));
        client.run("INFO clients").contains(&format!("connected_clients:{count}\\r"))
    });
    assert!(is_so, "{count} clients are left");
}

/// A pipeline and its last reply. Other clients read and write while its keys are read.
const READS: [(&str, &str); 9] = [
    ("MULTI; GET a; SET x 1; GET b; EXEC", "[\"of-a\", +OK, \"of-b\"]"),
    ("MULTI; SELECT 1; GET a; SELECT 0; STRLEN a; EXEC", "[+OK, nil, +OK, :4]"),
    ("MULTI; SET a 1 NX; INCR n; EXEC", "[nil, :1]"),
    ("WATCH a", "+OK"),
    ("WATCH warm b; MULTI; GET b; EXEC", "[\"of-b\"]"),
    ("RENAME a x", "+OK"),
    ("RENAMENX warm c", ":0"),
    ("COPY a x", ":1"),
    ("MGET a warm none", "[\"of-a\", \"of-warm\", nil]"),
];

#[test]
fn a_command_that_reads_the_device_holds_up_no_other_client() {
    for (lines, expected) in READS {
        let (server, store, mut other) = serve();
        let mut waits = Client::connect(server.addr());
        let device = store.walking.lock();
        send(&mut waits, &format!("{lines}; PING"));
        for round in 0..10 {
            assert_eq!(other.run("PING"), "+PONG", "{lines}");
            assert_eq!(other.run(&format!("SET m {round}")), "+OK", "{lines}");
            assert_eq!(other.run("GET m"), format!("\"{round}\""), "{lines}");
            let short = "MULTI; INCR short; GET warm; EXEC";
            send(&mut other, short);
            assert!(last(&mut other, short).starts_with("[:"), "{lines}");
            assert_eq!(other.run("DEL m none"), ":1", "{lines}");
        }
        drop(device);
        assert_eq!(last(&mut waits, lines), expected, "{lines}");
        assert_eq!(waits.reply(), "+PONG", "{lines}");
    }
}

#[test]
fn a_command_that_syncs_or_clears_holds_up_no_loop() {
    for lines in [
        "SAVE",
        "BGSAVE",
        "INFO",
        "FLUSHDB",
        "FLUSHALL",
        "MULTI; FLUSHDB; EXEC",
        "MULTI; BGSAVE; EXEC",
        "MULTI; KEYS *; EXEC",
    ] {
        let (server, store) = start(Options { threads: 1, ..options() });
        let mut other = Client::connect(server.addr());
        let mut waits = Client::connect(server.addr());
        assert_eq!(other.run("SET key value"), "+OK");
        let device = store.walking.lock();
        send(&mut waits, &format!("{lines}; PING"));
        for _ in 0..10 {
            assert_eq!(other.run("PING"), "+PONG", "{lines}");
            assert_eq!(other.run("CLIENT GETNAME"), "nil", "{lines}");
        }
        assert!(has_nothing(&mut waits, &mut other) || lines.contains("MULTI"), "{lines}");
        drop(device);
        let reply = last(&mut waits, lines);
        assert!(!reply.starts_with('-'), "{lines}: {reply}");
        assert_eq!(waits.reply(), "+PONG", "{lines}");
        assert_eq!(other.run("SET key value"), "+OK", "{lines}");
    }
}

#[test]
fn while_a_long_transaction_reads_the_device_others_read_and_writes_wait() {
    let (server, store, mut other) = serve();
    let mut waits = Client::connect(server.addr());
    let mut writes = Client::connect(server.addr());
    let device = store.walking.lock();
    let lines = "MULTI; SET x 1; KEYS *; SET y 2; EXEC";
    send(&mut waits, lines);
    // Until the thread has reserved the gate.
    let is_reserved = (0..500).any(|_| {
        Environment::real().sleep(Duration::from_millis(10));
        !server.shared.gate.is_open()
    });
    assert!(is_reserved);
    send(&mut writes, "SET z 3; GET x; PING");
    for _ in 0..10 {
        assert_eq!(other.run("GET warm"), "\"of-warm\"");
        assert_eq!(other.run("GET x"), "nil", "nothing is written yet");
    }
    assert!(has_nothing(&mut writes, &mut other), "a write waits");
    assert_eq!(store.map.lock().get(&(0, b"z".to_vec())), None);
    drop(device);
    let keys = "[+OK, [\"a\", \"b\", \"c\", \"warm\", \"x\"], +OK]";
    assert_eq!(last(&mut waits, lines), keys, "without the key that was written meanwhile");
    assert_eq!([writes.reply(), writes.reply(), writes.reply()], ["+OK", "\"1\"", "+PONG"]);
    assert!(server.shared.gate.is_open());
}

#[test]
fn no_client_reads_while_a_thread_writes_and_no_loop_waits() {
    let (server, store, mut other) = serve();
    let mut waits = Client::connect(server.addr());
    let mut reads = Client::connect(server.addr());
    let writing = store.writing.lock();
    let lines = "MULTI; GET a; SET x 1; SET y 2; EXEC";
    send(&mut waits, lines);
    let is_written = (0..500).any(|_| {
        Environment::real().sleep(Duration::from_millis(10));
        store.map.lock().contains_key(&(0, b"x".to_vec()))
    });
    assert!(is_written, "the first of two keys");
    send(&mut reads, "PING; GET x; GET y");
    assert_eq!(reads.reply(), "+PONG");
    assert!(has_nothing(&mut reads, &mut other), "half of a transaction");
    drop(writing);
    assert_eq!(last(&mut waits, lines), "[\"of-a\", +OK, +OK]");
    assert_eq!([reads.reply(), reads.reply()], ["\"1\"", "\"2\""]);
}

#[test]
fn a_key_that_is_written_after_a_thread_has_read_it_is_read_again() {
    let (server, store, mut other) = serve();
    let mut waits = Client::connect(server.addr());
    for (round, lines) in
        [(0, "MULTI; GET a; GET b; EXEC"), (1, "MGET a b"), (2, "MULTI; GET a; INCR b; EXEC")]
    {
        let reads = store.reads.count();
        store.reads.let_end(Some(reads));
        send(&mut waits, lines);
        store.reads.wait_for(reads + 1);
        assert_eq!(other.run(&format!("SET b {round}")), "+OK");
        store.reads.let_end(None);
        let b = if round == 2 { ":3".to_owned() } else { format!("\"{round}\"") };
        assert_eq!(last(&mut waits, lines), format!("[\"of-a\", {b}]"));
        assert_eq!(store.reads.count() - reads, 2);
    }
    assert!(server.shared.keys.watches.keys(0).is_empty(), "the keys are watched no more");
}

#[test]
fn a_command_whose_keys_are_written_each_time_they_were_read_runs() {
    let (server, store, mut other) = serve();
    let mut waits = Client::connect(server.addr());
    store.reads.let_end(Some(0));
    send(&mut waits, "MGET a b");
    for attempt in 1..=3 {
        store.reads.wait_for(attempt);
        assert!(server.shared.gate.is_open());
        assert_eq!(other.run(&format!("SET b {attempt}")), "+OK");
        store.reads.let_end(Some(attempt));
    }
    // Now the thread reads in the gate, and writes wait.
    store.reads.wait_for(4);
    assert!(!server.shared.gate.is_open());
    assert!(server.shared.gate.lets_read());
    store.reads.let_end(None);
    assert_eq!(waits.reply(), "[\"of-a\", \"3\"]");
}

#[test]
fn no_turn_of_a_loop_touches_many_keys() {
    const COUNT: usize = 5_000;
    let (server, store) = start(Options { threads: 1, ..options() });
    let mut client = Client::connect(server.addr());
    let keys: Vec<Vec<u8>> = (0..COUNT).map(|key| format!("k{key}").into_bytes()).collect();
    let of = |name: &'static str, with_values: bool| {
        let mut args: Vec<&[u8]> = vec![name.as_bytes()];
        for key in &keys {
            args.push(key);
            args.extend(with_values.then_some(&b"v"[..]));
        }
        encode(&args)
    };
    let mut exec = b"MULTI\r\n".to_vec();
    keys.iter().for_each(|key| exec.extend(encode(&[b"GET", key])));
    exec.extend_from_slice(b"EXEC\r\n");
    for (name, bytes, replies) in [
        ("MSET", of("MSET", true), 1),
        ("MSETNX", of("MSETNX", true), 1),
        ("MGET", of("MGET", false), 1),
        ("EXISTS", of("EXISTS", false), 1),
        ("TOUCH", of("TOUCH", false), 1),
        ("WATCH", of("WATCH", false), 1),
        ("EXEC", exec, COUNT + 2),
        ("DEL", of("DEL", false), 1),
        ("UNLINK", of("UNLINK", false), 1),
    ] {
        let before = store.keys_on_loops.load(SeqCst);
        client.send(&bytes);
        (0..replies).for_each(|_| assert!(!client.reply().starts_with('-'), "{name}"));
        let touched = store.keys_on_loops.load(SeqCst) - before;
        assert!(touched <= KEYS_MAX, "{name}: a loop touched {touched} keys");
    }
    assert_eq!(client.run("DBSIZE"), ":0");
}

#[test]
fn no_turn_of_a_loop_copies_many_values() {
    let (server, store) = start(Options { threads: 1, ..options() });
    let mut client = Client::connect(server.addr());
    let value = vec![b'x'; MIB / 4];
    for key in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        assert_eq!(client.call(&[b"SET", key.as_bytes(), &value]), "+OK");
    }
    let gets = "MULTI; GET a; GET a; GET a; GET a; GET a; GET a; GET a; GET a; EXEC";
    for lines in ["MGET a b c d e f g h", gets, "MGET a a a a a a a a"] {
        let before = store.bytes_on_loops.load(SeqCst);
        send(&mut client, lines);
        assert!(last(&mut client, lines).len() > 8 * MIB / 4);
        let copied = store.bytes_on_loops.load(SeqCst) - before;
        assert!(copied <= (MIB + MIB / 2) as u64, "{lines}: a loop copied {copied} bytes");
    }
}

/// Transactions that make a value and use it so often that many bytes are copied.
const COPIES: [&str; 6] = [
    "SET big {V}; {64 GET big}",
    "APPEND big {V}; {64 GETRANGE big 0 -1}",
    "SET big {V}; {64 APPEND big x}",
    "SET big {V}; RENAME big other; {64 GET other}",
    "SETRANGE big 2000000 x",
    "{9 APPEND big {V}}",
];

#[test]
fn no_turn_of_a_loop_copies_many_bytes_that_a_transaction_has_made() {
    let value = "v".repeat(MIB / 8);
    let run = |lines: &str| {
        let (server, store) = start(Options { threads: 1, ..options() });
        let mut client = Client::connect(server.addr());
        let mut queued = Vec::new();
        for line in lines.split("; ") {
            // {64 GET big} means 64 of these.
            let inner = line.strip_prefix('{').and_then(|line| line.strip_suffix('}'));
            let (count, line) = match inner.and_then(|inner| inner.split_once(' ')) {
                Some((count, line)) => (count.parse().expect("a count"), line),
                None => (1, line),
            };
            queued.extend((0..count).map(|_| line.replace("{V}", &value)));
        }
        let reads = store.reads.count();
        assert_eq!(client.run("MULTI"), "+OK");
        queued.iter().for_each(|line| assert_eq!(client.run(line), "+QUEUED"));
        assert!(client.run("EXEC").starts_with('['), "{lines}");
        store.reads.count() > reads
    };
    for lines in COPIES {
        // Only a thread reads several keys at the same time.
        assert!(run(&format!("GET none; {lines}")), "{lines}");
    }
    // A transaction that copies little stays on the loop.
    for lines in [
        "SET big {V}; GET big; STRLEN big",
        "{100 INCR n}; {100 SET n 5}; GET n",
        "SET big v; RENAME big other; GET big",
        "SETRANGE big 2000 x; GET big",
    ] {
        assert!(!run(&format!("GET none; {lines}")), "{lines}");
    }
}

#[test]
fn the_arguments_of_a_large_command_are_queued_without_a_copy() {
    let value = vec![b'v'; 2 * MIB];
    let mut input = encode(&[b"PING"]);
    let before = input.len();
    input.extend(encode(&[b"SET", b"key", &value]));
    let place = input.as_ptr_range();
    let bounds = Bounds {
        args_max: 10,
        arg_bytes_max: value.len(),
        command_bytes_max: input.len(),
        unauthenticated: false,
    };
    let mut parser = Parser::default();
    let command = input.get(before..).expect("it is there");
    assert!(matches!(parser.step(command, &bounds), Step::Command { .. }));
    let mut queue = Queue::default();
    queue.push(0, parser.args(command));
    assert!(queue.memory_bytes() < MIB);
    assert!(queue.lacks_args());
    queue.give_args(parser.take_args(input));
    assert!(!queue.lacks_args());
    assert!(queue.memory_bytes() > 2 * MIB);
    let (_, args) = queue.commands.first().expect("one command");
    assert_eq!(args.args().at(2), value);
    assert!(place.contains(&args.args().at(2).as_ptr()), "it lies where it was received");
}

#[test]
fn large_commands_are_queued_in_their_order() {
    let (server, _) = start(Options { threads: 1, ..options() });
    let mut client = Client::connect(server.addr());
    let large = vec![b'l'; 3 * MIB];
    let mut bytes = encode(&[b"MULTI"]);
    for args in [
        &[&b"SET"[..], b"a", &large][..],
        &[b"SET", b"b", b"small"],
        &[b"APPEND", b"a", &large],
        &[b"MSET", b"c", &large, b"d", b"small"],
        &[b"STRLEN", b"a"],
        &[b"STRLEN", b"c"],
        &[b"EXEC"],
        &[b"GET", b"b"],
    ] {
        bytes.extend(encode(args));
    }
    client.send(&bytes);
    assert_eq!(client.reply(), "+OK");
    (0..6).for_each(|_| assert_eq!(client.reply(), "+QUEUED"));
    let (one, two) = (3 * MIB, 6 * MIB);
    assert_eq!(client.reply(), format!("[+OK, +OK, :{two}, +OK, :{two}, :{one}]"));
    assert_eq!(client.reply(), "\"small\"");
    send(&mut client, "MULTI");
    client.send(&encode(&[b"SET", b"a", &large]));
    send(&mut client, "DISCARD; STRLEN a");
    assert_eq!(last(&mut client, "MULTI; SET; DISCARD; STRLEN"), format!(":{two}"));
    let used = super::memory::figure(&mut client, "client_memory_bytes");
    assert!(used < MIB as u64, "{used} bytes are charged");
}

#[test]
fn a_client_that_leaves_while_a_thread_has_its_state_is_forgotten() {
    let (server, store, mut other) = serve();
    let device = store.walking.lock();
    for lines in ["WATCH warm a", "MULTI; GET a; SET left 1; EXEC", "DEL b c"] {
        let mut leaves = Client::connect(server.addr());
        send(&mut leaves, lines);
        assert_eq!(other.run("PING"), "+PONG");
        drop(leaves);
    }
    drop(device);
    await_clients(&mut other, 1);
    assert_eq!(other.run("MGET left b c"), "[\"1\", nil, nil]", "each command runs to its end");
    assert!(server.shared.keys.watches.keys(0).is_empty());
    let used = super::memory::figure(&mut other, "client_memory_bytes");
    assert!(used < MIB as u64, "{used} bytes are charged");
}

#[test]
fn a_server_stops_while_a_thread_runs_a_command() {
    let (server, store, mut other) = serve();
    let device = store.walking.lock();
    send(&mut other, "MULTI; GET a; KEYS *; EXEC; SAVE");
    Environment::real().sleep(Duration::from_millis(50));
    server.stop();
    drop(device);
    server.wait().expect("ends well");
}

#[test]
fn a_write_of_a_thread_that_fails_is_an_error() {
    let (server, store, mut client) = serve();
    store.broken.store(true, SeqCst);
    let error = "-MISCONF the store is read-only: no space";
    let lines = "MULTI; SET x 1; GET a; EXEC";
    send(&mut client, lines);
    assert_eq!(last(&mut client, lines), error);
    assert_eq!(client.run("DEL a b"), error);
    assert_eq!(client.run("MGET a b"), "[\"of-a\", \"of-b\"]");
    assert_eq!(client.run("SAVE"), error);
    server.stop();
    assert!(server.wait().is_err(), "a write failed");
}

#[test]
fn a_large_watch_ends_with_its_connection() {
    const COUNT: usize = 3_000;
    let (server, _) = start(Options { threads: 1, ..options() });
    let mut other = Client::connect(server.addr());
    let keys: Vec<Vec<u8>> = (0..COUNT).map(|key| format!("k{key}").into_bytes()).collect();
    let mut args: Vec<&[u8]> = vec![b"WATCH"];
    args.extend(keys.iter().map(Vec::as_slice));
    for ends in ["UNWATCH", "MULTI; DISCARD", "MULTI; EXEC", "RESET", "QUIT"] {
        let mut client = Client::connect(server.addr());
        assert_eq!(client.call(&args), "+OK");
        assert_eq!(server.shared.keys.watches.keys(0).len(), COUNT);
        send(&mut client, ends);
        assert!(!last(&mut client, ends).starts_with('-'), "{ends}");
        let is_forgotten = (0..500).any(|_| {
            Environment::real().sleep(Duration::from_millis(10));
            server.shared.keys.watches.keys(0).is_empty()
        });
        assert!(is_forgotten, "{ends}");
        if ends != "QUIT" {
            // A key that was watched before changes nothing any more.
            assert_eq!(other.run("SET k1 new"), "+OK");
            send(&mut client, "MULTI; EXEC");
            assert_eq!(last(&mut client, "MULTI; EXEC"), "[]", "{ends}");
        }
    }
}

#[test]
fn a_command_of_a_thread_waits_for_no_lookup() {
    let (server, store, mut other) = serve();
    let cold: Vec<String> = (0..100).map(|key| format!("cold-{key}")).collect();
    let cold: Vec<&str> = cold.iter().map(String::as_str).collect();
    store.cold.freeze(&cold);
    let mut waits = Client::connect(server.addr());
    send(&mut waits, &cold.iter().map(|key| format!("GET {key}")).collect::<Vec<_>>().join("; "));
    // More are not looked up at the same time.
    store.cold.await_asked(8);
    assert!(other.run("INFO clients").contains("connected_clients:2"));
    assert_eq!(other.run("MGET a warm"), "[\"of-a\", \"of-warm\"]");
    assert_eq!(other.run("KEYS warm"), "[\"warm\"]");
    cold.iter().enumerate().for_each(|(at, key)| {
        store.cold.await_asked(at + 1);
        store.cold.release(key);
        assert_eq!(waits.reply(), "nil");
    });
}

#[test]
fn the_arguments_of_a_large_command_reach_the_thread() {
    let (server, _) = start(Options { threads: 1, ..options() });
    let mut client = Client::connect(server.addr());
    let value = |at: u8| vec![b'a' + at; MIB / 2];
    let keys: Vec<Vec<u8>> = (0..8).map(|key| vec![b'k', b'0' + key]).collect();
    for before in ["", "PING; SET k0 old"] {
        let mut args: Vec<&[u8]> = vec![b"MSET"];
        let values: Vec<Vec<u8>> = (0..8).map(value).collect();
        keys.iter().zip(&values).for_each(|(key, value)| args.extend([&key[..], value]));
        send(&mut client, before);
        client.send(&encode(&args));
        send(&mut client, "STRLEN k7; MSET k7 x k6 y; GET k7");
        if !before.is_empty() {
            assert_eq!([client.reply(), client.reply()], ["+PONG", "+OK"]);
        }
        let replies: Vec<String> = (0..4).map(|_| client.reply()).collect();
        assert_eq!(replies, ["+OK", &format!(":{}", MIB / 2), "+OK", "\"x\""]);
        let want = format!("\"{}\"", value(3).escape_ascii());
        assert_eq!(client.run("GET k3"), want);
    }
    let used = super::memory::figure(&mut client, "client_memory_bytes");
    assert!(used < MIB as u64, "{used} bytes are charged");
}

#[test]
fn the_first_write_to_a_database_holds_up_no_other_client() {
    for (write, expected) in [
        ("SET key value", "+OK"),
        ("INCR n", ":1"),
        ("MSET x 1 y 2", "+OK"),
        ("MULTI; SET x 1; GET x; EXEC", "[+OK, \"1\"]"),
        ("EXPIRE none 7", ":0"),
    ] {
        let (server, store, mut other) = serve();
        store.absent.lock().insert(7);
        let mut waits = Client::connect(server.addr());
        let device = store.walking.lock();
        send(&mut waits, &format!("SELECT 7; GET x; {write}; DBSIZE"));
        for _ in 0..10 {
            assert_eq!(other.run("PING"), "+PONG", "{write}");
            assert_eq!(other.run("SET warm 1"), "+OK", "{write}");
            assert_eq!(other.run("GET warm"), "\"1\"", "{write}");
        }
        drop(device);
        assert_eq!([waits.reply(), waits.reply()], ["+OK", "nil"], "{write}");
        assert_eq!(last(&mut waits, write), expected, "{write}");
        assert!(waits.reply().starts_with(':'), "{write}");
    }
}

#[test]
fn a_loop_without_a_queue_of_the_device_leaves_its_lookups_to_threads() {
    let (server, store, mut other) = serve();
    store.cold.refuse_sessions();
    for (line, expected) in [("GET a", "\"of-a\""), ("APPEND b x", ":5"), ("GETDEL c", "\"of-c\"")]
    {
        let mut waits = Client::connect(server.addr());
        let device = store.walking.lock();
        send(&mut waits, &format!("{line}; PING"));
        (0..10).for_each(|_| assert_eq!(other.run("PING"), "+PONG", "{line}"));
        drop(device);
        assert_eq!([waits.reply(), waits.reply()], [expected, "+PONG"], "{line}");
    }
}

#[test]
fn a_command_of_a_client_that_has_left_is_charged_until_it_has_run() {
    let (server, store, mut other) = serve();
    let device = store.walking.lock();
    let value = vec![b'x'; MIB];
    let mut killed: Vec<Client> = (0..3).map(|_| Client::connect(server.addr())).collect();
    for client in &mut killed {
        client.send(&encode(&[b"MSETNX", b"a", &value, b"new", &value]));
        assert_eq!(other.run("PING"), "+PONG");
    }
    // Until the commands are whole.
    let is_sent = (0..500).any(|_| {
        Environment::real().sleep(Duration::from_millis(10));
        other.run("CLIENT LIST").matches("cmd=msetnx").count() == 3
    });
    assert!(is_sent);
    assert_eq!(other.run("CLIENT KILL TYPE normal"), ":3");
    assert!(killed.iter_mut().all(Client::is_closed));
    let held = server.shared.clients.memory.used();
    assert!(held >= 6 * MIB, "{held} bytes are charged");
    drop(device);
    let is_given_back = (0..500).any(|_| {
        Environment::real().sleep(Duration::from_millis(20));
        server.shared.clients.memory.used() < MIB
    });
    assert!(is_given_back);
    assert_eq!(other.run("EXISTS a new"), ":1");
}

/// Nothing that compression makes shorter.
fn value(number: u64) -> Vec<u8> {
    let words = (0..1000_u64).map(|word| thermocline::hash64(number, &word.to_le_bytes()));
    words.flat_map(u64::to_le_bytes).collect()
}

/// Loads more than memory has room for, and has threads read, change and remove it.
fn runs_long_commands(engine: EngineKind) {
    const COUNT: u64 = 3_000;
    let dir = tempfile::tempdir().expect("a directory");
    let database = thermocline::Options { memory_bytes: 16 << 20, ..Default::default() };
    let db = Db::open(dir.path(), database).expect("opens");
    let server = Server::start(&db, Options { engine, ..options() }, Environment::real());
    let server = server.expect("starts");
    let mut client = Client::connect(server.addr());
    let keys: Vec<Vec<u8>> = (0..COUNT).map(|key| format!("key:{key}").into_bytes()).collect();
    for (key, number) in keys.iter().zip(0..) {
        assert_eq!(client.call(&[b"SET", key, &value(number)]), "+OK");
    }
    let shown = |number: u64| format!("\"{}\"", value(number).escape_ascii());
    let of = |name: &'static str, keys: &[Vec<u8>]| {
        let mut args: Vec<&[u8]> = vec![name.as_bytes()];
        args.extend(keys.iter().map(Vec::as_slice));
        encode(&args)
    };
    client.send(&of("MGET", &keys[..300]));
    let values: Vec<String> = (0..300).map(shown).collect();
    assert_eq!(client.reply(), format!("[{}]", values.join(", ")));
    client.send(b"MULTI\r\n");
    for key in [7, 1500, 2999] {
        client.send(&encode(&[b"GETRANGE", &keys[key], b"0", b"1"]));
        client.send(&encode(&[b"SETRANGE", &keys[key], b"0", b"##"]));
        client.send(&encode(&[b"RENAME", &keys[key], format!("new:{key}").as_bytes()]));
    }
    client.send(b"EXISTS new:7 new:1500 new:2999 key:7\r\nEXEC\r\n");
    (0..11).for_each(|_| assert!(!client.reply().starts_with('-')));
    let reply = client.reply();
    assert!(reply.starts_with("[\"") && reply.ends_with(", :3]"), "{reply}");
    assert_eq!(client.run("GETRANGE new:1500 0 1"), "\"##\"");
    assert_eq!(client.run("COPY key:8 copied"), ":1");
    assert_eq!(client.run("GET copied"), shown(8));
    client.send(&of("DEL", &keys));
    assert_eq!(client.reply(), format!(":{}", COUNT - 3));
    assert_eq!(client.run("DBSIZE"), ":4");
    assert_eq!(client.run("FLUSHALL"), "+OK");
    assert_eq!(client.run("DBSIZE"), ":0");
    server.stop();
    server.wait().expect("ends well");
    db.close().expect("closes");
}

#[test]
fn threads_run_commands_over_an_f2_database_larger_than_memory() {
    runs_long_commands(EngineKind::F2);
}

#[test]
fn threads_run_commands_over_an_lsm_database_larger_than_memory() {
    runs_long_commands(EngineKind::Lsm);
}

#[test]
fn threads_run_commands_over_a_flexdb_database_larger_than_memory() {
    runs_long_commands(EngineKind::FlexDb);
}

#[test]
fn no_other_client_waits_for_a_command_that_waits_for_a_backup() {
    let dir = tempfile::tempdir().expect("a directory");
    let backups = Some(dir.path().to_owned());
    let (server, store) = start(Options { threads: 1, backups, ..options() });
    let mut other = Client::connect(server.addr());
    let device = store.walking.lock();
    store.absent.lock().insert(7);
    assert_eq!(other.run("BGSAVE"), "+Background saving started");
    let lines = ["FLUSHDB", "FLUSHALL", "SELECT 7; SET key value"];
    let mut waits: Vec<Client> = lines.iter().map(|_| Client::connect(server.addr())).collect();
    waits.iter_mut().zip(lines).for_each(|(client, lines)| send(client, lines));
    // Longer than a command that is not short.
    let many = format!("MSET{}", " k v".repeat(2000));
    for round in 0..10 {
        assert_eq!(other.run(&many), "+OK");
        assert_eq!(other.run(&format!("SET m {round}")), "+OK");
        assert_eq!(other.run("GET m"), format!("\"{round}\""));
    }
    drop(device);
    waits.iter_mut().zip(lines).for_each(|(client, lines)| assert_eq!(last(client, lines), "+OK"));
}
