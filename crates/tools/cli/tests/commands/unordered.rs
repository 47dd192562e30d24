//! The data commands and the server on keyspaces of `f2`, which keeps no order.

use std::path::Path;

use crate::program::{Said, command, finish, on};

fn filled(db: &Path) {
    for (key, value) in [("ada", "analyst"), ("alan", "1912"), ("bob", ""), ("\\x00", "zero")] {
        assert_eq!(on("put", db, &[key, value, "-k", "h", "--engine", "f2"]).code, 0);
    }
}

fn lines(said: &Said) -> Vec<&str> {
    assert_eq!(said.code, 0, "{said:?}");
    let mut lines: Vec<&str> = said.out.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn a_keyspace_without_order_is_walked_and_its_ranges_refused() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path();
    filled(db);
    let all = on("scan", db, &["-k", "h"]);
    assert_eq!(lines(&all), ["\\x00\tzero", "ada\tanalyst", "alan\t1912", "bob\t"]);
    let some = on("scan", db, &["-k", "h", "--prefix", "a", "--keys-only"]);
    assert_eq!(lines(&some), ["ada", "alan"]);
    assert_eq!(lines(&on("scan", db, &["-k", "h", "--limit", "3"])).len(), 3);
    assert_eq!(lines(&on("scan", db, &["-k", "h", "--limit", "0"])).len(), 0);
    for wrong in [&["--start", "a"][..], &["--end", "b"], &["--reverse"]] {
        let said = on("scan", db, &[&["-k", "h"], wrong].concat());
        assert_eq!((said.code, said.out.as_str()), (2, ""), "{said:?}");
        assert!(said.err.contains("engine f2") && said.err.contains("no order"), "{said:?}");
    }
    // It keeps its engine for every writer; to ask for another is a mistake.
    assert_eq!(on("put", db, &["bob", "builder", "-k", "h"]).code, 0);
    assert_eq!(on("get", db, &["bob", "-k", "h"]).out, "builder\n");
    let said = on("put", db, &["bob", "x", "-k", "h", "--engine", "memory"]);
    assert!(said.code != 0 && said.err.contains("f2"), "{said:?}");
    assert_eq!(on("del", db, &["ada", "alan", "-k", "h", "--json"]).json()["deleted"], 2);
    let stats = on("stats", db, &[]);
    assert_eq!(stats.code, 0);
    assert!(stats.out.contains("not counted") && stats.out.contains("f2"), "{stats:?}");
    // Sizes, with their units; nothing that only a store counts which runs.
    assert!(stats.out.contains("    log_disk_bytes "), "{stats:?}");
    assert!(stats.out.contains("    recovery_us ") && stats.out.contains(" ms)\n"), "{stats:?}");
    assert!(!stats.out.contains("lookups") && stats.out.contains("INFO"), "{stats:?}");
    let h = &on("stats", db, &["--json"]).json()["keyspaces"][0];
    assert!(h["detail"]["log_bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{h}");
    assert!(h["detail"]["lookups"].is_null(), "{h}");
    let named = h["only_while_running"].as_array().unwrap();
    assert!(named.iter().any(|name| name == "lookups"), "{h}");
    let check = on("check", db, &[]);
    assert_eq!(check.code, 0);
    assert!(check.out.contains(" records, old versions and tombstones too; "), "{check:?}");
}

#[test]
fn a_dump_keeps_the_engine_or_changes_it_when_asked() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    filled(&db);
    assert_eq!(on("put", &db, &["k", "v", "-k", "ordered"]).code, 0);
    let dump = on("dump", &db, &["--quiet"]);
    assert_eq!(dump.code, 0, "{dump:?}");
    let all = on("scan", &db, &["-k", "h"]);
    for (name, flags, engines) in [
        ("same", &[][..], ["f2", "memory"]),
        ("memory", &["--engine", "memory"], ["memory", "memory"]),
        ("f2", &["--engine", "f2"], ["f2", "f2"]),
    ] {
        let copy = dir.path().join(name);
        let loaded = finish(command().arg("load").arg(&copy).args(flags), &dump.bytes);
        assert_eq!(loaded.code, 0, "{loaded:?}");
        assert_eq!(lines(&on("scan", &copy, &["-k", "h"])), lines(&all));
        assert_eq!(on("get", &copy, &["k", "-k", "ordered"]).out, "v\n");
        let stats = on("stats", &copy, &["--json"]).json();
        let kept = [0, 1].map(|at| stats["keyspaces"][at]["engine"].as_str().unwrap().to_owned());
        assert_eq!(kept, engines, "{name}");
    }
}
