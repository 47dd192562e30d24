//! A store that fails: no write without durability is acknowledged, and reads continue.

use std::sync::atomic::Ordering::SeqCst;

use super::client::Client;
use super::{options, start};
use crate::store::StoreError;

#[test]
fn a_write_that_is_not_durable_is_not_acknowledged() {
    let (server, store) = start(options());
    let mut client = Client::connect(server.addr());
    assert_eq!(client.run("SET a 1"), "+OK");
    store.broken.store(true, SeqCst);
    client.send(b"GET a\r\nSET a 2\r\nPING\r\nINCR n\r\nMGET a b\r\nSET b 3\r\n");
    let replies: Vec<String> = (0..6).map(|_| client.reply()).collect();
    let error = "-MISCONF the store is read-only: no space";
    assert_eq!(replies[0], "\"1\"");
    assert_eq!(replies[1], error);
    assert_eq!(replies[2], "+PONG");
    assert_eq!(replies[3], error);
    assert!(replies[4].starts_with('['), "{}", replies[4]);
    assert_eq!(replies[5], error);
    // From now on writes are refused immediately, and reads answered.
    assert_eq!(client.run("SET a 3"), error);
    assert_eq!(client.run("GET a"), "\"2\"");
    client.run("MULTI");
    client.run("SET a 4");
    assert_eq!(client.run("EXEC"), error);
    assert_eq!(client.run("SAVE"), error);
    server.stop();
    assert!(server.wait().is_err(), "the store could not be saved at the end");
}

#[test]
fn a_write_that_failed_shows_in_info_and_at_the_end() {
    let (server, store) = start(options());
    let mut client = Client::connect(server.addr());
    assert_eq!(client.run("SET a 1"), "+OK");
    assert!(client.run("INFO persistence").contains("aof_last_write_status:ok\\r"));
    store.refuses_writes.store(true, SeqCst);
    let refused = "-MISCONF no space left";
    assert_eq!(client.run("SET a 2"), refused);
    let info = client.run("INFO");
    for line in [
        "aof_last_write_status:err\\r",
        "first_write_failure:no space left\\r",
        "errorstat_MISCONF:count=1\\r",
    ] {
        assert!(info.contains(line), "{line} in {info}");
    }
    // A read is no write that succeeds.
    assert_eq!(client.run("GET a"), "\"1\"");
    assert!(client.run("INFO persistence").contains("aof_last_write_status:err\\r"));
    store.refuses_writes.store(false, SeqCst);
    assert_eq!(client.run("SET a 3"), "+OK");
    let info = client.run("INFO persistence");
    assert!(info.contains("aof_last_write_status:ok\\r"), "{info}");
    assert!(info.contains("first_write_failure:no space left\\r"), "{info}");
    // The data can be saved, but an operator has to see that a write failed.
    server.stop();
    let ended = server.wait().expect_err("a write failed").to_string();
    assert_eq!(ended, "writes failed while the server ran, first because of: no space left");
}

#[test]
fn a_scheduled_save_that_fails_shows_in_info() {
    let (server, store) = start(options());
    let mut client = Client::connect(server.addr());
    assert_eq!(client.run("BGSAVE"), "+Background saving started");
    assert!(client.run("INFO persistence").contains("rdb_last_bgsave_status:ok\\r"));
    store.broken.store(true, SeqCst);
    for line in ["MULTI", "SET a 1", "BGSAVE"] {
        client.run(line);
    }
    assert!(client.run("EXEC").starts_with("-MISCONF"));
    assert!(client.run("INFO persistence").contains("rdb_last_bgsave_status:err\\r"));
    server.stop();
    assert!(server.wait().is_err());
}

#[test]
fn a_promise_that_is_broken_is_counted() {
    let (server, store) = start(options());
    let mut client = Client::connect(server.addr());
    store.broken.store(true, SeqCst);
    client.send(b"SET a 1\r\nSET b 1\r\n");
    assert!(client.reply().starts_with("-MISCONF") && client.reply().starts_with("-MISCONF"));
    let info = client.run("INFO");
    assert!(info.contains("errorstat_MISCONF:count=2\\r"), "{info}");
    assert!(info.contains("aof_last_write_status:err\\r"), "{info}");
    server.stop();
    assert!(server.wait().is_err());
}

#[test]
fn every_reply_waits_for_the_last_write() {
    let (server, store) = start(options());
    let mut client = Client::connect(server.addr());
    for round in 1..=20 {
        assert_eq!(client.run("INCR n"), format!(":{round}"));
        assert!(store.waited.load(SeqCst) >= round);
    }
}

#[test]
fn an_update_that_has_waited_is_not_acknowledged_before_it_is_durable() {
    let (server, store) = start(options());
    let mut client = Client::connect(server.addr());
    let mut other = Client::connect(server.addr());
    assert_eq!(client.run("MSET n 1 b 2"), "+OK");
    store.cold.freeze(&["n", "b"]);
    store.broken.store(true, SeqCst);
    client.send(b"INCR n\r\n");
    other.send(b"GET b\r\n");
    store.cold.await_asked(2);
    store.cold.release("n");
    let error = "-MISCONF the store is read-only: no space";
    assert_eq!(client.reply(), error);
    store.cold.release("b");
    assert_eq!(other.reply(), "\"2\"");
    // Now it is refused when it continues.
    client.send(b"INCR n\r\n");
    store.cold.await_asked(3);
    store.cold.release("n");
    assert_eq!(client.reply(), error);
    server.stop();
    assert!(server.wait().is_err(), "the store could not be saved at the end");
}

#[test]
fn a_journal_that_fails_has_stopped_all_writes() {
    let failed = thermocline::Error::Journal(thermocline::error::Journal::Closed);
    assert!(matches!(StoreError::from(failed), StoreError::ReadOnly(_)));
}
