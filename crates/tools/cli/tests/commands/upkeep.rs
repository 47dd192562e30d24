//! The commands flush and compact: the bytes that stay on disk, and the arguments that they refuse.

use std::path::Path;

use crate::program::{command, finish, on};

/// A value that does not compress, put into a keyspace of an engine.
fn put(db: &Path, keyspace: &str, engine: &str, key: &str) {
    let mut state = 1_u64;
    let word = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 32).to_le_bytes()
    };
    let value: Vec<u8> = (0..40_000).flat_map(word).collect();
    let place = [key, "-", "-k", keyspace, "--engine", engine];
    let said = finish(command().arg("put").arg(db).args(place), &value);
    assert_eq!(said.code, 0, "{said:?}");
}

fn keyspace_bytes(db: &Path, keyspace: &str) -> u64 {
    let stats = on("stats", db, &["-k", keyspace, "--json"]).json();
    stats["keyspaces"][0]["disk_bytes"].as_u64().unwrap()
}

#[test]
fn a_flush_writes_what_is_in_memory_to_the_engines_files() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path();
    put(db, "one", "lsm", "k");
    put(db, "two", "lsm", "k");
    let (one, two) = (keyspace_bytes(db, "one"), keyspace_bytes(db, "two"));
    assert!(one < 200_000, "the journal has it");
    let said = on("flush", db, &["-k", "one", "--json"]);
    assert_eq!((said.code, said.json()["flushed"][0].as_str()), (0, Some("one")));
    assert!(keyspace_bytes(db, "one") > 200_000 && keyspace_bytes(db, "two") == two);
    let said = on("flush", db, &[]);
    assert_eq!((said.code, said.out.as_str()), (0, ""));
    assert!(keyspace_bytes(db, "two") > 200_000);
    assert_eq!(on("flush", db, &["-k", "three"]).code, 4);
    assert_eq!(on("flush", &db.join("none"), &[]).code, 4);
}

#[test]
fn a_compaction_leaves_nothing_that_was_deleted() {
    // The segments of flexdb are larger than this: `thermocline/tests/reclaim.rs` has it.
    for engine in ["memory", "lsm"] {
        let dir = tempfile::tempdir().unwrap();
        let db = dir.path();
        for key in ["a1", "a2", "b1"] {
            put(db, "data", engine, key);
        }
        assert_eq!(on("flush", db, &[]).code, 0);
        assert_eq!(on("del", db, &["a1", "a2", "-k", "data"]).code, 0);
        let said = on("compact", db, &["-k", "data", "--prefix", "a", "--json"]).json();
        assert_eq!(said["compacted"][0], "data");
        let bytes = |name: &str| said[name].as_u64().unwrap();
        assert!(bytes("disk_bytes") + 400_000 < bytes("disk_bytes_before"), "{engine}: {said}");
        let left = keyspace_bytes(db, "data");
        assert_eq!(on("del", db, &["b1", "-k", "data"]).code, 0);
        let said = on("compact", db, &[]);
        assert_eq!(said.code, 0, "{said:?}");
        assert!(said.out.contains(" on disk, ") && said.out.ends_with(" before\n"), "{said:?}");
        assert!(keyspace_bytes(db, "data") + 200_000 < left, "{engine}");
        assert_eq!(on("compact", db, &["--quiet"]).out, "");
    }
}

#[test]
fn a_compaction_of_a_range_needs_a_keyspace_with_an_order() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path();
    put(db, "hash", "f2", "k");
    let said = on("compact", db, &["--prefix", "k"]);
    assert_eq!((said.code, said.err.contains("--keyspace")), (2, true), "{said:?}");
    let said = on("compact", db, &["-k", "hash", "--start", "a"]);
    assert_eq!((said.code, said.err.contains("engine f2")), (2, true), "{said:?}");
    let said = on("compact", db, &["-k", "hash", "--start", "\\q"]);
    assert_eq!((said.code, said.err.contains("--start")), (2, true), "{said:?}");
    assert_eq!(on("compact", db, &["-k", "hash"]).code, 0);
    assert_eq!(on("compact", db, &["-k", "none"]).code, 4);
}
