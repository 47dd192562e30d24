//! salvage: its output, its exit codes, and that only the new database opens.

use std::os::unix::fs::FileExt;
use std::path::Path;

use thermocline::{Db, EngineKind, KeyspaceOptions, Options};

use crate::program::{Small, on, run};

/// A database of engine `f2` with fifty keys, all of them in its own files.
fn made(path: &Path) {
    let db = Db::open(path, Options::default()).unwrap();
    let options = KeyspaceOptions { engine: EngineKind::F2, ..KeyspaceOptions::default() };
    let keyspace = db.keyspace("default", options).unwrap();
    for number in 0..50 {
        keyspace.put(format!("key{number}").as_bytes(), b"a value of some bytes").unwrap();
    }
    keyspace.put(b"key7", b"one that is damaged").unwrap();
    db.flush().unwrap();
    db.close().unwrap();
}

/// Changes a bit in the value of each record of a file.
#[expect(clippy::disallowed_methods, reason = "damages what the test is about")]
fn damage(file: &Path, value: &[u8]) -> usize {
    let bytes = std::fs::read(file).unwrap();
    let places = bytes.windows(value.len()).enumerate().filter(|(_, at)| *at == value);
    let places: Vec<usize> = places.map(|(at, _)| at).collect();
    let file = std::fs::OpenOptions::new().write(true).open(file).unwrap();
    for at in &places {
        file.write_all_at(&[bytes[*at] ^ 1], *at as u64).unwrap();
    }
    places.len()
}

#[test]
fn a_whole_database_is_copied() {
    let dir = tempfile::tempdir().unwrap();
    let (db, new) = (dir.path().join("db"), dir.path().join("new"));
    made(&db);
    let into = new.to_str().unwrap();
    let said = on("salvage", &db, &[into]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.out.contains("copied   keyspace default (f2)"), "{said:?}");
    assert!(said.out.contains("everything was whole"), "{said:?}");
    assert_eq!(on("get", &new, &["key7"]).out, "one that is damaged\n");
    let again = on("salvage", &db, &[into]);
    assert_eq!(again.code, 2, "the place is taken: {again:?}");
    assert_eq!(run(["salvage", "/nowhere/at/all", into]).code, 4);
}

#[test]
fn what_is_sound_is_taken_from_a_database_that_does_not_open() {
    let dir = tempfile::tempdir().unwrap();
    let (db, new) = (dir.path().join("db"), dir.path().join("new"));
    made(&db);
    let keyspace = db.join("keyspaces/default/1");
    let mut damaged = 0;
    for entry in std::fs::read_dir(keyspace).unwrap() {
        damaged += damage(&entry.unwrap().path(), b"one that is damaged");
    }
    assert_eq!(damaged, 1);
    let said = on("get", &db, &["key1"]);
    assert_eq!(said.code, 3, "it does not open: {said:?}");
    assert!(said.err.contains("keyspace \"default\" is damaged"), "{said:?}");
    assert!(said.err.contains("keyspaces/default/1/"), "{said:?}");
    // Another keyspace continues, and figures report the background error.
    assert_eq!(on("put", &db, &["--keyspace", "other", "key", "value"]).code, 0);
    assert_eq!(on("get", &db, &["--keyspace", "other", "key"]).out, "value\n");
    let said = on("stats", &db, &[]);
    assert!(said.out.contains("opening it has failed once (writes are refused)"), "{said:?}");
    assert_eq!(on("dump", &db, &["--quiet"]).code, 3, "no dump leaves it out");
    let said = on("salvage", &db, &["--json", new.to_str().unwrap()]);
    assert_eq!(said.code, 3, "{said:?}");
    let json = said.json();
    assert_eq!(
        (&json["damage_count"], &json["keyspaces"][0]["outcome"]),
        (&1.into(), &"rewritten".into())
    );
    assert!(
        json["damage"][0]["file"].as_str().unwrap().starts_with("keyspaces/default/1/"),
        "{json}"
    );
    // The value before it may have been changed in place; no other key is touched.
    for number in (0..50).filter(|number| *number != 7) {
        let said = on("get", &new, &[&format!("key{number}")]);
        assert_eq!((said.code, &*said.out), (0, "a value of some bytes\n"), "{number}");
    }
    assert_eq!(on("check", &new, &[]).code, 0);
    assert_eq!(on("check", &db, &[]).code, 3);
    assert_eq!(on("drop", &db, &["nothing"]).code, 4);
    assert_eq!(on("drop", &db, &["default"]).code, 0);
    assert_eq!(on("check", &db, &[]).code, 0);
    assert_eq!(on("get", &db, &["--keyspace", "other", "key"]).out, "value\n");
}

#[test]
fn a_new_place_that_is_full_is_not_taken_for_the_old_one() {
    let dir = tempfile::tempdir().unwrap();
    let (db, small) = (dir.path().join("db"), dir.path().join("small"));
    made(&db);
    std::fs::create_dir(&small).unwrap();
    let Some(_mounted) = Small::mount(&small, "16k") else { return };
    let into = small.join("new");
    let said = on("salvage", &db, &[into.to_str().unwrap()]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.err.contains(&format!("{}: ", into.display())), "{said:?}");
    assert!(!said.err.contains("once there is room"), "{said:?}");
    assert_eq!(on("get", &db, &["key7"]).out, "one that is damaged\n");
}
