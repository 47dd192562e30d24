//! A database that is cleared after commands have waited for the device there.

use std::path::Path;
use std::time::Duration;

use thermocline::environment::Environment;
use thermocline::{Db, EngineKind};

use super::client::{Client, encode};
use super::memory::figure;
use super::options;
use crate::{Options, Server};

/// Keys, more than memory has room for.
const KEYS: u64 = 2000;
const VALUE_BYTES: u64 = 10_000;

/// Nothing that compression makes shorter.
fn value(number: u64) -> Vec<u8> {
    let words = (0..VALUE_BYTES / 8).map(|word| thermocline::hash64(number, &word.to_le_bytes()));
    words.flat_map(u64::to_le_bytes).collect()
}

fn load(client: &mut Client, keys: u64) {
    for number in 0..keys {
        client.send(&encode(&[b"SET", format!("key:{number}").as_bytes(), &value(number)]));
        assert_eq!(client.reply(), "+OK");
    }
}

/// Engines of database 0 whose files are there.
fn engines(dir: &Path) -> usize {
    std::fs::read_dir(dir.join("keyspaces/redis-0")).expect("a directory").count()
}

/// Reads keys until one of them had to be waited for.
fn wait_for_the_device(client: &mut Client) {
    let before = figure(client, "waited_commands");
    let waited = (0..KEYS).step_by(7).any(|number| {
        assert_ne!(client.run(&format!("GET key:{number}")), "nil");
        figure(client, "waited_commands") > before
    });
    assert!(waited, "everything is in memory");
}

fn leaves_nothing_behind(engine: EngineKind) {
    let dir = tempfile::tempdir().expect("a directory");
    let database = thermocline::Options { memory_bytes: 16 << 20, ..Default::default() };
    let db = Db::open(dir.path(), database).expect("opens");
    let options = Options { engine, ..options() };
    let server = Server::start(&db, options, Environment::real()).expect("starts");
    // The loops take clients in turn.
    let mut clients: Vec<Client> = (0..4).map(|_| Client::connect(server.addr())).collect();
    load(&mut clients[0], KEYS);
    // Without store sessions a command is done immediately, however long that takes.
    for client in clients.iter_mut().filter(|_| engine != EngineKind::FlexDb) {
        wait_for_the_device(client);
    }
    assert_eq!(engines(dir.path()), 1);
    assert_eq!(clients[0].run("FLUSHDB"), "+OK");
    // No other command is executed meanwhile.
    let is_gone = (0..500).any(|_| {
        Environment::real().sleep(Duration::from_millis(20));
        engines(dir.path()) == 1
    });
    assert!(is_gone, "{} engines are there", engines(dir.path()));
    load(&mut clients[1], 100);
    let want = format!("\"{}\"", value(99).escape_ascii());
    assert_eq!(clients[2].run("GET key:99"), want);
    assert_eq!(clients[3].run("GET key:100"), "nil");
    server.stop();
    server.wait().expect("ends well");
    db.close().expect("closes");
}

#[test]
fn a_cleared_f2_database_is_given_back_by_all_loops() {
    leaves_nothing_behind(EngineKind::F2);
}

#[test]
fn a_cleared_lsm_database_is_given_back_by_all_loops() {
    leaves_nothing_behind(EngineKind::Lsm);
}

#[test]
fn a_cleared_flexdb_database_is_given_back_by_all_loops() {
    leaves_nothing_behind(EngineKind::FlexDb);
}

/// A damaged database may be salvaged, so no client clears it; all others are cleared one by one,
/// and by FLUSHALL only together.
#[test]
fn a_damaged_database_is_not_cleared_and_holds_no_other_up() {
    let dir = tempfile::tempdir().expect("a directory");
    let open = || Db::open(dir.path(), thermocline::Options::default()).expect("opens");
    let with_server = |work: &dyn Fn(&mut Client)| {
        let db = open();
        let server = Server::start(&db, options(), Environment::real()).expect("starts");
        work(&mut Client::connect(server.addr()));
        server.stop();
        server.wait().expect("ends well");
        db.close().expect("closes");
    };
    with_server(&|client| {
        for db in 0..3 {
            assert_eq!(client.run(&format!("SELECT {db}")), "+OK");
            assert_eq!(client.run("SET key value"), "+OK");
        }
    });
    let keyspace = dir.path().join("keyspaces/redis-1");
    let files = std::fs::read_dir(keyspace).expect("it is there").next().expect("one");
    let superblock = files.expect("its files").path().join("superblock");
    #[expect(clippy::disallowed_methods, reason = "damages what the test is about")]
    std::fs::write(superblock, [7; 100]).expect("written");
    with_server(&|client| {
        assert!(client.run("FLUSHALL").contains("\"redis-1\" is damaged"));
        assert_eq!(client.run("GET key"), "\"value\"");
        assert_eq!(client.run("FLUSHDB"), "+OK");
        assert_eq!(client.run("GET key"), "nil");
        client.run("SELECT 1");
        assert!(client.run("FLUSHDB").contains("\"redis-1\" is damaged"));
        client.run("SELECT 2");
        assert_eq!(client.run("GET key"), "\"value\"");
    });
}
