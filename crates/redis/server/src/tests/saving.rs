//! BGSAVE with a directory of backups.

use std::path::Path;
use std::time::Duration;

use thermocline::environment::Environment;
use thermocline::{Backups, Db, Progress};

use super::client::Client;
use super::options;
use crate::{Options, Server};

fn serve(db: &Db, backups: &Path) -> (Server, Client) {
    let options = Options { backups: Some(backups.to_owned()), ..options() };
    let server = Server::start(db, options, Environment::real()).expect("starts");
    let client = Client::connect(server.addr());
    (server, client)
}

/// The status of the last backup, once it is over.
fn status(client: &mut Client) -> String {
    for _ in 0..500 {
        let info = client.run("INFO persistence");
        if info.contains("rdb_bgsave_in_progress:0") {
            let status = info.split("rdb_last_bgsave_status:").nth(1).expect("it is told");
            return status.chars().take_while(char::is_ascii_alphabetic).collect();
        }
        Environment::real().sleep(Duration::from_millis(20));
    }
    panic!("the backup never ends");
}

#[test]
fn bgsave_adds_backups_that_can_be_restored() {
    let dir = tempfile::tempdir().expect("a directory");
    let (path, copies) = (dir.path().join("db"), dir.path().join("copies"));
    let db = Db::open(path, thermocline::Options::default()).expect("opens");
    let (server, mut client) = serve(&db, &copies);
    for value in ["one", "two"] {
        assert_eq!(client.run(&format!("SET greeting {value}")), "+OK");
        assert_eq!(client.run("BGSAVE"), "+Background saving started");
        assert_eq!(status(&mut client), "ok");
    }
    // The end waits for the one that is being made.
    assert_eq!(client.run("BGSAVE SCHEDULE"), "+Background saving started");
    server.stop();
    server.wait().expect("ends well");
    let backups = Backups::open(&copies).expect("backups");
    assert_eq!(backups.numbers().expect("a list"), [1, 2, 3]);
    for (number, value) in [(1, "one"), (3, "two")] {
        let restored = dir.path().join(value);
        backups.restore(Some(number), &restored, &Progress::default()).expect("restored");
        let other = Db::open(&restored, thermocline::Options::default()).expect("opens");
        let (_server, mut client) = serve(&other, &copies);
        assert_eq!(client.run("GET greeting"), format!("{value:?}"));
    }
}

#[test]
fn a_backup_that_fails_is_reported() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = Db::open(dir.path().join("db"), thermocline::Options::default()).expect("opens");
    // It holds the database, and is no directory of backups.
    let (_server, mut client) = serve(&db, dir.path());
    assert_eq!(status(&mut client), "ok", "none was made");
    assert_eq!(client.run("BGSAVE"), "+Background saving started");
    assert_eq!(status(&mut client), "err");
    assert_eq!(client.run("SAVE"), "+OK");
    assert_eq!(client.run("SET greeting hello"), "+OK");
}
