//! Writes for which the store has no room: a thread waits for it, and no event loop does.

use std::io::Read as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use thermocline::environment::{Environment, JoinHandle};
use thermocline::{Db, EngineKind};

use super::client::{Client, encode};
use super::{MapStore, options, start};
use crate::gate::Gate;
use crate::{Options, Server};

/// A server of one loop, whose clients all wait for a command that blocks it, and a client of it.
/// Database 0 has the keys `n` and `s`, and no room.
fn serve() -> (Server, Arc<MapStore>, Client) {
    let (server, store) = start(Options { threads: 1, ..options() });
    let mut client = Client::connect(server.addr());
    for line in ["SET n 1", "SET s text", "SELECT 1", "SET s other"] {
        assert_eq!(client.run(line), "+OK");
    }
    assert_eq!(client.run("SELECT 0"), "+OK");
    store.room.fill(0);
    (server, store, client)
}

/// Sends lines, whose replies the caller reads.
fn send(client: &mut Client, lines: &str) {
    client.send(lines.split("; ").map(|line| format!("{line}\r\n")).collect::<String>().as_bytes());
}

/// Reads the replies of lines.
fn replies(client: &mut Client, lines: &str) -> Vec<String> {
    lines.split("; ").map(|_| client.reply()).collect()
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

/// Writes to database 0, with the last reply of each.
const WRITES: [(&str, &str); 22] = [
    ("SET new value", "+OK"),
    ("SET s value EX 100", "+OK"),
    ("SET s value XX GET", "\"text\""),
    ("SETNX new value", ":1"),
    ("SETEX s 100 value", "+OK"),
    ("PSETEX s 100000 value", "+OK"),
    ("GETSET s value", "\"text\""),
    ("GETDEL s", "\"text\""),
    ("GETEX s EX 100", "\"text\""),
    ("APPEND s more", ":8"),
    ("SETRANGE s 4 more", ":8"),
    ("INCR n", ":2"),
    ("DECRBY n 3", ":-2"),
    ("INCRBYFLOAT n 0.5", "\"1.5\""),
    ("DEL s", ":1"),
    ("EXPIRE s 100", ":1"),
    ("MSET n 2 s value", "+OK"),
    ("DEL n s none", ":2"),
    ("RENAME s new", "+OK"),
    ("MULTI; INCR n; APPEND s more; EXEC", "[:2, :8]"),
    ("WATCH n; MULTI; UNWATCH; SELECT 0; SET n 5; GET n; EXEC", "[+OK, +OK, +OK, \"5\"]"),
    ("SELECT 1; MULTI; SELECT 0; GETDEL s; EXEC", "[+OK, \"text\"]"),
];

#[test]
fn a_write_that_waits_for_room_holds_up_no_other_client() {
    for (lines, expected) in WRITES {
        let (server, store, mut other) = serve();
        let mut waits = Client::connect(server.addr());
        send(&mut waits, &format!("{lines}; PING"));
        store.room.await_waits(1);
        assert_eq!(other.run("SELECT 1"), "+OK");
        for round in 0..10 {
            assert_eq!(other.run("PING"), "+PONG", "{lines}");
            assert_eq!(other.run("GET s"), "\"other\"", "{lines}");
            assert_eq!(other.run(&format!("SET m {round}")), "+OK", "{lines}");
            send(&mut other, "MULTI; GET m; INCR m; EXEC");
            let exec = replies(&mut other, "MULTI; GET m; INCR m; EXEC").pop();
            assert_eq!(exec, Some(format!("[\"{round}\", :{}]", round + 1)), "{lines}");
        }
        assert_eq!(other.run("SELECT 0"), "+OK");
        assert_eq!([other.run("GET n"), other.run("GET s")], ["\"1\"", "\"text\""], "{lines}");
        store.room.make(0);
        assert_eq!(replies(&mut waits, lines).pop().as_deref(), Some(expected), "{lines}");
        assert_eq!(waits.reply(), "+PONG", "{lines}");
    }
}

#[test]
fn the_commands_of_a_client_keep_their_order_when_some_of_them_wait_for_room() {
    let (server, store, mut other) = serve();
    let mut waits = Client::connect(server.addr());
    let lines = "GET n; SET n 5; GET n; INCR n; ECHO now; MULTI; APPEND n 0; GET n; EXEC; \
                 DECR n; SELECT 1; GET s; SET s 1; SELECT 0; STRLEN n";
    send(&mut waits, lines);
    assert_eq!(waits.reply(), "\"1\"", "a read before the first write");
    store.room.await_waits(1);
    assert!(has_nothing(&mut waits, &mut other), "nothing overtakes a write that waits");
    store.room.make(0);
    let (_, rest) = lines.split_once("; ").expect("several");
    let want = [
        "+OK",
        "\"5\"",
        ":6",
        "\"now\"",
        "+OK",
        "+QUEUED",
        "+QUEUED",
        "[:2, \"60\"]",
        ":59",
        "+OK",
        "\"other\"",
        "+OK",
        "+OK",
        ":2",
    ];
    assert_eq!(replies(&mut waits, rest), want);
}

#[test]
fn an_update_whose_key_was_looked_up_waits_for_room_on_a_thread() {
    let (server, store, mut other) = serve();
    store.cold.freeze(&["n"]);
    let mut waits = Client::connect(server.addr());
    send(&mut waits, "INCR n; PING");
    store.cold.await_asked(1);
    store.cold.release("n");
    store.room.await_waits(1);
    assert!(has_nothing(&mut waits, &mut other));
    store.room.make(0);
    assert_eq!([waits.reply(), waits.reply()], [":2", "+PONG"]);
}

#[test]
fn many_writes_that_wait_for_room_share_a_thread_and_the_memory_of_the_clients() {
    const CLIENTS: usize = 40;
    const VALUE_BYTES: usize = 32 << 10;
    let (server, store, mut other) = serve();
    let value = vec![b'v'; VALUE_BYTES];
    let mut waiting: Vec<Client> = (0..CLIENTS)
        .map(|number| {
            let mut client = Client::connect(server.addr());
            client.send(&encode(&[b"SET", format!("of-{number}").as_bytes(), &value]));
            client
        })
        .collect();
    let is_charged = (0..500).any(|_| {
        Environment::real().sleep(Duration::from_millis(10));
        super::memory::figure(&mut other, "client_memory_bytes") >= (CLIENTS * VALUE_BYTES) as u64
    });
    assert!(is_charged, "the arguments of writes that wait are the clients' memory");
    store.room.await_waits(1);
    for client in &mut waiting {
        assert!(has_nothing(client, &mut other));
    }
    // The clients that left have written as well.
    let left = waiting.split_off(CLIENTS / 2);
    drop(left);
    store.room.make(0);
    waiting.iter_mut().for_each(|client| assert_eq!(client.reply(), "+OK"));
    let is_written = (0..500).any(|_| {
        Environment::real().sleep(Duration::from_millis(10));
        other.run("DBSIZE") == format!(":{}", CLIENTS + 2)
    });
    assert!(is_written, "each write that began to wait is done");
    assert_eq!(store.room.most_waiting(), 1, "they share a thread");
}

#[test]
fn a_write_that_waits_for_room_fails_when_the_store_does() {
    let (server, store, mut other) = serve();
    let mut waits = Client::connect(server.addr());
    send(&mut waits, "SET new value; GET new; MULTI; INCR n; EXEC");
    store.room.await_waits(1);
    store.refuses_writes.store(true, SeqCst);
    store.room.make(0);
    let refused = "-MISCONF no space left";
    let want = [refused, "nil", "+OK", "+QUEUED", refused];
    assert_eq!(replies(&mut waits, "SET; GET; MULTI; INCR; EXEC"), want);
    assert_eq!(other.run("GET n"), "\"1\"");
}

#[test]
fn a_server_stops_while_writes_wait_for_room() {
    let (server, store, _) = serve();
    let [mut runs, mut first, mut second] = [0; 3].map(|_| Client::connect(server.addr()));
    send(&mut runs, "INCR n");
    store.room.await_waits(1);
    send(&mut first, "INCR n");
    send(&mut second, "INCR n");
    server.stop();
    // Only the end of the event loop closes these connections: it runs no command after this.
    for client in [&mut first, &mut second] {
        assert_eq!(rest(client), b"", "a command that has not begun does not run");
    }
    // The command that a thread has begun ends.
    store.room.make(0);
    server.wait().expect("ends well");
    let rest = rest(&mut runs);
    assert!(rest.is_empty() || rest == b":2\r\n", "{:?}", rest.escape_ascii());
    let value = store.map.lock().get(&(0, b"n".to_vec())).cloned();
    let value = value.expect("it is there");
    assert!(value.starts_with(b"1") || value.starts_with(b"2"), "one INCR at most");
}

/// The bytes that a client receives before the server closes its connection.
fn rest(client: &mut Client) -> Vec<u8> {
    let mut rest = Vec::new();
    let _end_or_reset = client.stream.read_to_end(&mut rest);
    rest
}

#[test]
fn a_thread_that_writes_keeps_a_command_from_being_alone_and_no_loop_waits_for_it() {
    let gate = Arc::new(Gate::new(2, Default::default()));
    let entered = gate.enter_on_thread(Duration::ZERO).expect("the gate is open");
    let mut pass = gate.enter(0);
    assert_eq!(pass.alone(|| ()), None, "the loop does not wait");
    assert!(gate.is_open(), "writes of one key go on");
    drop(pass);
    let (reserved, reserving) = (Arc::clone(&gate), Arc::new(AtomicBool::new(false)));
    let is_alone = Arc::clone(&reserving);
    let alone = move || {
        let reservation = reserved.reserve();
        is_alone.store(true, SeqCst);
        // The thread of writes has something to do, and no loop has.
        let is_entered = reserved.enter_on_thread(Duration::ZERO).is_some();
        (is_entered, reservation.open())
    };
    let alone = Environment::real().spawn("alone", alone).expect("a thread");
    for _ in 0..1000 {
        std::thread::yield_now();
        assert!(gate.is_open(), "loops write until the thread has left");
    }
    assert!(!reserving.load(SeqCst), "a command is alone next to a write");
    drop(entered);
    assert_eq!(alone.join().expect("ends"), (false, vec![]));
    let entered = gate.enter_on_thread(Duration::ZERO);
    assert!(entered.is_some_and(|has_left| !*has_left), "it has caught up");
    assert_eq!(gate.enter(0).alone(|| 7), Some(7));
}

/// Holds the lock of a key on another thread, until the sender is dropped.
fn hold_key(db: &Db, key: &'static [u8]) -> (Sender<()>, JoinHandle<()>) {
    let keyspace = db.keyspaces().into_iter().find(|one| one.name() == "redis-0");
    let keyspace = keyspace.expect("it is there");
    let ((held, holding), (release, released)) = (channel(), channel::<()>());
    let holder = db.clone();
    let section = move || {
        let held = holder.atomically(&[(&keyspace, key)], |_| {
            held.send(()).expect("the test listens");
            let _until_the_test_ends = released.recv_timeout(Duration::from_secs(15));
            Ok::<(), thermocline::Error>(())
        });
        held.expect("holds the lock");
    };
    let section = Environment::real().spawn("section", section).expect("a thread");
    holding.recv().expect("the lock is held");
    (release, section)
}

/// The program that serves its own database holds the lock of a key.
#[test]
fn a_write_that_waits_for_a_lock_of_a_real_database_holds_up_no_other_client() {
    for &engine in EngineKind::ALL {
        for (lines, expected) in [
            ("SET n 7; GET n", "\"7\""),
            ("INCR n", ":2"),
            ("MULTI; INCR n; SET other 1; EXEC", "[:2, +OK]"),
            ("MSET n 7 other 1; GET n", "\"7\""),
        ] {
            let dir = tempfile::tempdir().expect("a directory");
            let db = Db::open(dir.path(), thermocline::Options::default()).expect("opens");
            let options = Options { threads: 1, engine, ..options() };
            let server = Server::start(&db, options, Environment::real()).expect("starts");
            let mut other = Client::connect(server.addr());
            assert_eq!(other.run("SET n 1"), "+OK");
            let (release, section) = hold_key(&db, b"n");
            let mut waits = Client::connect(server.addr());
            send(&mut waits, &format!("{lines}; PING"));
            // The loop has then run the first command.
            for _ in 0..10 {
                assert_eq!(other.run("PING"), "+PONG", "{engine}: {lines}");
            }
            assert!(has_nothing_but_queued(&mut waits), "{engine}: {lines}");
            drop(release);
            section.join().expect("ends");
            let reply = replies(&mut waits, lines).pop();
            assert_eq!(reply.as_deref(), Some(expected), "{engine}: {lines}");
            assert_eq!(waits.reply(), "+PONG", "{engine}: {lines}");
        }
    }
}

/// The removal of an expired value waits for a lock, as it may for room.
#[test]
fn a_removal_that_waits_holds_up_no_client() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = Db::open(dir.path(), thermocline::Options::default()).expect("opens");
    let options = Options { threads: 2, engine: EngineKind::Memory, ..options() };
    let server = Server::start(&db, options, Environment::real()).expect("starts");
    let mut others = [(); 2].map(|()| Client::connect(server.addr()));
    assert_eq!(others[0].run("SET ends 1 PX 200"), "+OK");
    let (release, section) = hold_key(&db, b"ends");
    while db.pause_expiry().try_hold().is_some() {
        std::thread::yield_now();
    }
    let mut alone = Client::connect(server.addr());
    send(&mut alone, "MSET a 1 b 2");
    for number in 0..20 {
        for other in &mut others {
            assert_eq!(other.run("PING"), "+PONG");
            assert_eq!(other.run(&format!("SET other {number}")), "+OK");
        }
    }
    assert!(!section.is_finished(), "the removal still waits");
    drop(release);
    section.join().expect("ends");
    assert_eq!(alone.reply(), "+OK");
}

/// Returns whether only replies of MULTI and of commands that it queues were received.
fn has_nothing_but_queued(client: &mut Client) -> bool {
    let stream = client.stream.get_mut();
    stream.set_nonblocking(true).expect("a mode is set");
    let mut bytes = [0; 256];
    let len = stream.peek(&mut bytes).unwrap_or(0);
    stream.set_nonblocking(false).expect("a mode is set");
    let text = String::from_utf8_lossy(bytes.get(..len).unwrap_or_default()).into_owned();
    ["", "+OK\r\n"].contains(&text.replace("+QUEUED\r\n", "").as_str())
}
