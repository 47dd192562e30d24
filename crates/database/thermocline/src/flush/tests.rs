//! The part of the journal that a flush of one keyspace leaves for the others.

use device::{Faults, SimulatedDisk};

use crate::{Db, Durability, KeyspaceOptions, Options};

#[test]
fn what_is_not_flushed_stays_in_the_journal_whatever_others_flush() {
    let disk = SimulatedDisk::new(1, Faults::none());
    let options = || Options { durability: Durability::Synced, ..Options::default() };
    let db = Db::open_on(disk.clone(), "disk", options()).unwrap();
    let made = |name: &str| db.keyspace(name, KeyspaceOptions::default()).unwrap();
    let (little, much) = (made("little"), made("much"));
    little.put(b"k", b"v").unwrap();
    // Enough that a segment of the journal is worth ending.
    for _ in 0..20 {
        much.put(b"k", &[7; 1 << 20]).unwrap();
    }
    much.flush().unwrap();
    made("none");
    // The journal's part of it is freed immediately.
    db.drop_keyspace("none").unwrap();
    let left = Db::open_on(disk.crash(1), "image", options()).unwrap();
    let found = left.existing_keyspace("little").unwrap().get(b"k").unwrap();
    assert_eq!(found.as_deref(), Some(&b"v"[..]));
    // And it is freed, if no keyspace needs it.
    let before = db.stats().journal.bytes;
    little.flush().unwrap();
    made("none");
    db.drop_keyspace("none").unwrap();
    assert!(db.stats().journal.bytes < before, "{:?}", db.stats());
    // A keyspace that is made now asks for none of it.
    made("late").put(b"k", b"v").unwrap();
    let left = Db::open_on(disk.crash(2), "image", options()).unwrap();
    let found = left.existing_keyspace("late").unwrap().get(b"k").unwrap();
    assert_eq!(found.as_deref(), Some(&b"v"[..]));
}
