//! Commands of threads that meet the turns of event loops.
//!
//! 1. No command of a thread misses a transaction of a loop.
//! 2. Each loop executes the commands that it left for later before the thread runs its next one.

use thermocline::environment::Environment;
use thermocline::sync::locks::MutexGuard;

use super::client::Client;
use super::map_store::MapStore;
use super::{options, start};

/// Waits until `is_so`. Fails the test if that takes too long.
#[track_caller]
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let is_so = (0..2_000).any(|_| {
        Environment::real().sleep(std::time::Duration::from_millis(5));
        is_so()
    });
    assert!(is_so, "{what}");
}

/// Sends commands, one a line, and reads no reply.
fn send(client: &mut Client, lines: &[impl AsRef<str>]) {
    lines.iter().for_each(|line| client.send(format!("{}\r\n", line.as_ref()).as_bytes()));
}

/// Begins a transaction of a client, which stops after it has written `key`.
fn begin_transaction<'a>(
    store: &'a MapStore,
    client: &mut Client,
    lines: &[impl AsRef<str>],
    key: &str,
) -> MutexGuard<'a, ()> {
    let writing = store.writing.lock();
    send(client, lines);
    wait_until("the transaction writes", || {
        store.map.lock().contains_key(&(0, key.as_bytes().to_vec()))
    });
    writing
}

/// A transaction on a loop touches its keys, and writes them later. A thread begins to watch one of
/// them in between. No touch says then that the key has changed, so the thread must not read it
/// yet.
#[test]
fn a_thread_misses_no_transaction_that_has_touched_its_keys() {
    let (server, store) = start(options());
    let mut clients = [(); 2].map(|()| Client::connect(server.addr()));
    assert_eq!(clients[0].run("SET c old"), "+OK");
    // The thread waits for the device before it watches the keys: it makes a database.
    store.absent.lock().insert(7);
    let device = store.walking.lock();
    let [on_loop, on_thread] = &mut clients;
    send(on_thread, &["MULTI", "GET c", "INCR n", "SELECT 7", "SET x 1", "EXEC"]);
    wait_until("the thread has the command", || on_loop.run("CLIENT LIST").contains("cmd=exec"));
    let writing =
        begin_transaction(&store, on_loop, &["MULTI", "SET a new", "SET c new", "EXEC"], "a");
    assert!(store.map.lock()[&(0, b"c".to_vec())].starts_with(b"old"), "it writes the key later");
    let (reads, waits) = (store.reads.count(), server.shared.gate.turn_waits());
    drop(device);
    wait_until("the thread waits for the turns of the loops, or has read", || {
        store.reads.count() > reads || server.shared.gate.turn_waits() > waits
    });
    drop(writing);
    let replies: Vec<String> = (0..6).map(|_| on_thread.reply()).collect();
    assert_eq!(replies[5], "[\"new\", :1, +OK, +OK]");
    let replies: Vec<String> = (0..4).map(|_| on_loop.reply()).collect();
    assert_eq!(replies[3], "[+OK, +OK]");
}

/// When a transaction of a thread opens the gate, the next ones wait already. The writes that it
/// has held up come before them.
#[test]
fn a_write_that_was_held_up_comes_before_the_next_transaction_of_a_thread() {
    const TRANSACTIONS: usize = 8;
    let (server, store) = start(options());
    let gate = &server.shared.gate;
    gate.wait_long();
    // One of each loop.
    let mut writers = [(); 2].map(|()| Client::connect(server.addr()));
    assert_eq!(writers[0].run("SET cold value"), "+OK");
    store.cold.freeze(&["cold"]);
    let lines = |number: usize| -> Vec<String> {
        let lines = ["MULTI", "GET cold", &format!("SET last {number}"), "SET y 1", "EXEC"];
        lines.map(str::to_owned).into()
    };
    let mut clients: Vec<_> = (0..TRANSACTIONS).map(|_| Client::connect(server.addr())).collect();
    let writing = begin_transaction(&store, &mut clients[0], &lines(0), "last");
    clients.iter_mut().enumerate().skip(1).for_each(|(number, it)| send(it, &lines(number)));
    wait_until("the transactions wait", || {
        writers[0].run("CLIENT LIST").matches("cmd=exec").count() == TRANSACTIONS
    });
    writers.iter_mut().for_each(|writer| send(writer, &["SET last w GET"]));
    wait_until("the writes are held up", || gate.left_count() == writers.len());
    drop(writing);
    for client in &mut clients {
        let replies: Vec<String> = (0..5).map(|_| client.reply()).collect();
        assert_eq!(replies[4], "[\"value\", +OK, +OK]");
    }
    let mut found = writers.map(|mut writer| writer.reply());
    found.sort();
    assert_eq!(found, ["\"0\"", "\"w\""], "the values that the writes replaced");
}
