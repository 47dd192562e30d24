//! A close of data that no journal holds.

use tempfile::TempDir;

use crate::{Db, KeyspaceOptions, Options};

#[test]
fn an_unjournaled_keyspace_lasts_through_a_clean_close() {
    let dir = TempDir::new().unwrap();
    let open = || Db::open(dir.path(), Options::default()).unwrap();
    let db = open();
    let options = KeyspaceOptions { journaled: false, ..KeyspaceOptions::default() };
    let space = db.keyspace("a", options).unwrap();
    space.put(b"k", b"v").unwrap();
    assert_eq!(db.stats().journal.records, 0);
    db.close().unwrap();
    drop((db, space));
    let space = open().keyspace("a", options).unwrap();
    assert_eq!(space.get(b"k").unwrap().as_deref(), Some(&b"v"[..]));
}
