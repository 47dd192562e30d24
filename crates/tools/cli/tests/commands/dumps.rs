//! dump and load: a copy through a stream, and the result of a damaged stream.

use std::path::Path;

use thermocline::{
    Change, Db, EngineKind, Error, KeyspaceOptions, MergeOperators, Options, Settings, f2, flexdb,
    lsm,
};

use crate::program::{command, finish, on};

fn filled(db: &Path) {
    for (keyspace, key, value) in
        [("users", "ada", "analyst"), ("users", "bob", ""), ("words", "\\x00\\xff", "bytes")]
    {
        assert_eq!(on("put", db, &[key, value, "-k", keyspace]).code, 0);
    }
}

fn dump(db: &Path) -> Vec<u8> {
    let said = on("dump", db, &["--quiet"]);
    assert_eq!((said.code, said.err.as_str()), (0, ""), "{said:?}");
    said.bytes
}

fn load(db: &Path, bytes: &[u8]) -> crate::program::Said {
    finish(command().arg("load").arg(db).arg("--json"), bytes)
}

#[test]
fn a_database_comes_back_from_its_dump() {
    let dir = tempfile::tempdir().unwrap();
    let (db, copy) = (dir.path().join("db"), dir.path().join("copy"));
    filled(&db);
    let bytes = dump(&db);
    let loaded = load(&copy, &bytes);
    assert_eq!(loaded.code, 0, "{loaded:?}");
    assert_eq!((&loaded.json()["pairs"], &loaded.json()["keyspaces"]), (&3.into(), &2.into()));
    for keyspace in ["users", "words"] {
        assert_eq!(
            on("scan", &copy, &["-k", keyspace]).out,
            on("scan", &db, &["-k", keyspace]).out
        );
    }
    assert_eq!(dump(&copy), bytes, "a dump of the copy is the same dump");
    assert_eq!(on("check", &copy, &[]).code, 0);
}

/// Keyspaces of every engine, with settings, shares of the memory, ends and operators.
fn of_all_kinds() -> [(&'static str, KeyspaceOptions); 5] {
    let of = |engine| KeyspaceOptions { engine, ..KeyspaceOptions::default() };
    let (journaled, expiring) = (false, true);
    let f2 = f2::Options { chunk_bytes: 128, disk_bytes_max: Some(1 << 30), ..Default::default() };
    let lsm = lsm::Options {
        compression: vec![lsm::Compression::Zstd],
        filter: lsm::FilterKind::Ribbon,
        block_bytes: 16 << 10,
        ..Default::default()
    };
    let flexdb = flexdb::Options { interval_pairs: 7, ..Default::default() };
    let merge = Some("add".parse().unwrap());
    let (small, large) = (Some(32 << 20), Some(48 << 20));
    [
        ("a", KeyspaceOptions { journaled, memory_bytes: small, merge, ..of(EngineKind::F2) }),
        (
            "b",
            KeyspaceOptions {
                memory_bytes: large,
                settings: Some(lsm.into()),
                ..of(EngineKind::Lsm)
            },
        ),
        ("c", KeyspaceOptions { journaled, expiring, merge, ..of(EngineKind::Memory) }),
        ("d", KeyspaceOptions { expiring, settings: Some(f2.into()), ..of(EngineKind::F2) }),
        ("e", KeyspaceOptions { settings: Some(flexdb.into()), merge, ..of(EngineKind::FlexDb) }),
    ]
}

/// The operator `add`: bytes are added behind the value.
fn adding() -> MergeOperators {
    MergeOperators::new().with("add".parse().unwrap(), |_, value, operand| {
        Ok(Change::Put([value.unwrap_or_default(), operand].concat()))
    })
}

#[test]
fn every_keyspace_keeps_its_options() {
    let dir = tempfile::tempdir().unwrap();
    let (db, copy) = (dir.path().join("db"), dir.path().join("copy"));
    let all = of_all_kinds();
    let knowing = || Options { merge_operators: adding(), ..Options::default() };
    let made = Db::open(&db, knowing()).unwrap();
    for (name, options) in all {
        made.keyspace(name, options).unwrap().put(b"k", name.as_bytes()).unwrap();
    }
    made.close().unwrap();
    let bytes = dump(&db);
    let said = load(&copy, &bytes);
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!(dump(&copy), bytes, "a dump of the copy is the same dump");
    // A program that does not know the operator can read and write nevertheless.
    let loaded = Db::open(&copy, Options::default()).unwrap();
    for (name, options) in all {
        let space = loaded.existing_keyspace(name).unwrap();
        assert_eq!(space.options(), options, "{name}");
        assert_eq!(space.get(b"k").unwrap().as_deref(), Some(name.as_bytes()));
        space.put(b"l", b"m").unwrap();
        let refused = space.merge(b"k", b"+").unwrap_err();
        let is_right = match options.merge {
            Some(_) => matches!(refused, Error::UnknownMergeOperator { .. }),
            None => matches!(refused, Error::NoMergeOperator { .. }),
        };
        assert!(is_right, "{name}: {refused}");
    }
    loaded.close().unwrap();
    let loaded = Db::open(&copy, knowing()).unwrap();
    for (name, _) in all.iter().filter(|(_, options)| options.merge.is_some()) {
        let space = loaded.existing_keyspace(name).unwrap();
        space.merge(b"k", b"+").unwrap();
        assert_eq!(space.get(b"k").unwrap(), Some(format!("{name}+").into_bytes()));
    }
}

/// Options of another engine have no effect there.
#[test]
fn a_tuning_stays_with_its_engine() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    let all = of_all_kinds();
    let made = Db::open(&db, Options { merge_operators: adding(), ..Options::default() }).unwrap();
    for (name, options) in all {
        made.keyspace(name, options).unwrap();
    }
    made.close().unwrap();
    let bytes = dump(&db);
    for &engine in EngineKind::ALL {
        let copy = dir.path().join(engine.name());
        let said =
            finish(command().arg("load").arg(&copy).args(["--engine", engine.name()]), &bytes);
        assert_eq!(said.code, 0, "{said:?}");
        let loaded = Db::open(&copy, Options::default()).unwrap();
        for (name, options) in all {
            let is_of_engine = |of: &Settings| of.engine() == engine.name();
            let settings = options.settings.filter(is_of_engine);
            let found = loaded.existing_keyspace(name).unwrap().options();
            assert_eq!(found, KeyspaceOptions { engine, settings, ..options }, "{name}");
        }
        loaded.close().unwrap();
    }
}

#[test]
fn an_older_dump_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let copy = dir.path().join("copy");
    let version = 3;
    let header = codec::FileHeader { magic: *b"TCDUMPED", version, flags: 0 }.encode();
    let said = load(&copy, &header);
    assert_eq!((said.code, copy.exists()), (3, false), "{said:?}");
    let told = "standard input: the dump has format version 3, this release reads 4 alone";
    assert!(said.err.contains(told), "{said:?}");
}

#[test]
fn dumps_go_to_new_files_only_and_may_be_of_some_keyspaces() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    filled(&db);
    let file = dir.path().join("users.dump");
    let file_name = file.to_str().unwrap();
    let said = on("dump", &db, &["-o", file_name, "-k", "users", "--json"]);
    assert_eq!(said.json()["pairs"], 2);
    assert_eq!(std::fs::metadata(&file).unwrap().len(), said.json()["bytes"].as_u64().unwrap());
    let again = on("dump", &db, &["-o", file_name]);
    assert_eq!((again.code, again.err.contains("exists already")), (2, true), "{again:?}");
    let copy = dir.path().join("copy");
    let loaded = finish(command().arg("load").arg(&copy).arg(&file), b"");
    assert_eq!((loaded.code, loaded.err.as_str()), (0, "loaded 2 pairs of 1 keyspaces\n"));
    assert_eq!(on("get", &copy, &["ada", "-k", "users"]).out, "analyst\n");
}

#[test]
fn a_damaged_or_cut_dump_leaves_no_database() {
    let dir = tempfile::tempdir().unwrap();
    let (db, copy) = (dir.path().join("db"), dir.path().join("copy"));
    filled(&db);
    let bytes = dump(&db);
    let mut flipped = bytes.clone();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 1;
    for damaged in [&flipped[..], &bytes[..bytes.len() - 1], b"not a dump at all", b""] {
        let said = load(&copy, damaged);
        assert_eq!(said.code, 3, "{said:?}");
    }
    assert!(load(&copy, b"").err.contains("standard input: "));
    let apart = tempfile::tempdir().unwrap();
    let file = apart.path().join("cut.dump");
    #[expect(clippy::disallowed_methods, reason = "makes what the test is about")]
    std::fs::write(&file, &bytes[..bytes.len() - 1]).unwrap();
    let said = on("load", &copy, &[file.to_str().unwrap()]);
    let named = said.err.contains(&format!("{}: damaged dump: ", file.display()));
    assert_eq!((said.code, named), (3, true), "{said:?}");
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "only the first database: {left:?}");
}

#[test]
fn load_does_not_touch_what_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    filled(&db);
    let said = load(&db, &dump(&db));
    assert_eq!((said.code, said.err.contains("exists already")), (2, true), "{said:?}");
    let copy = dir.path().join("copy");
    std::fs::create_dir(dir.path().join("copy.loading")).unwrap();
    let said = load(&copy, &dump(&db));
    assert_eq!((said.code, copy.exists()), (2, false), "{said:?}");
    assert!(said.err.contains("copy.loading exists: what an interrupted load left"), "{said:?}");
    assert_eq!(on("get", &db, &["ada", "-k", "users"]).out, "analyst\n");
}

#[test]
fn an_empty_directory_is_loaded_into_and_a_full_one_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let (db, copy) = (dir.path().join("db"), dir.path().join("copy"));
    filled(&db);
    std::fs::create_dir(&copy).unwrap();
    let said = load(&copy, &dump(&db));
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!(on("get", &copy, &["ada", "-k", "users"]).out, "analyst\n");
    let full = dir.path().join("full");
    std::fs::create_dir_all(full.join("inside")).unwrap();
    let said = load(&full, &dump(&db));
    assert_eq!((said.code, full.join("inside").exists()), (2, true), "{said:?}");
    let dangling = dir.path().join("dangling");
    std::os::unix::fs::symlink("nowhere", &dangling).unwrap();
    let said = load(&dangling, &dump(&db));
    assert_eq!((said.code, dangling.is_symlink()), (2, true), "{said:?}");
    assert!(said.err.contains("a symbolic link whose target does not exist"), "{said:?}");
}

/// Loaded pairs have the requested compression, and are read with any setting.
#[test]
fn a_dump_is_loaded_with_the_compression_that_is_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    let source = Db::open(&db, Options::default()).unwrap();
    let lsm = KeyspaceOptions { engine: EngineKind::Lsm, ..KeyspaceOptions::default() };
    let tree = source.keyspace("default", lsm).unwrap();
    for number in 0..3000_u32 {
        let name = (u64::from(number) * 2_654_435_761) % (1 << 32);
        let value = format!("{{\"id\":{number},\"name\":\"{name:x}\",\"lake\":\"trout, brown\"}}");
        tree.put(&number.to_be_bytes(), value.as_bytes()).unwrap();
    }
    source.close().unwrap();
    let bytes = dump(&db);
    let sizes = ["none", "lz4", "zstd"].map(|name| {
        let copy = dir.path().join(name);
        let said = finish(command().arg("load").arg(&copy).args(["--compression", name]), &bytes);
        assert_eq!(said.code, 0, "{said:?}");
        let said = on("check", &copy, &[]);
        assert_eq!((said.code, said.out.ends_with("everything is whole\n")), (0, true), "{said:?}");
        assert!(on("get", &copy, &["\\x00\\x00\\x00\\x07"]).out.starts_with("{\"id\":7,"));
        assert!(dump(&copy) == bytes, "what is read of {name}");
        let stats = on("stats", &copy, &["--json"]).json();
        let detail = &stats["keyspaces"][0]["detail"];
        (0..7).map(|level| detail[format!("level{level}_bytes")].as_u64().unwrap()).sum::<u64>()
    });
    assert!(sizes[2] < sizes[1] && sizes[1] < sizes[0], "{sizes:?}");
}

#[test]
fn a_dump_is_loaded_into_the_engine_that_any_layer_asks_for() {
    let dir = tempfile::tempdir().unwrap();
    let (db, file) = (dir.path().join("db"), dir.path().join("t.toml"));
    filled(&db);
    let bytes = dump(&db);
    #[expect(clippy::disallowed_methods, reason = "writes what the test reads")]
    std::fs::write(&file, "engine = \"lsm\"\n").unwrap();
    let engines = |copy: &str, set: &dyn Fn(&mut std::process::Command)| {
        let copy = dir.path().join(copy);
        let mut load = command();
        load.arg("load").arg(&copy);
        set(&mut load);
        let loaded = finish(&mut load, &bytes);
        assert_eq!(loaded.code, 0, "{loaded:?}");
        let stats = on("stats", &copy, &["--json"]).json();
        let engine = |keyspace: &serde_json::Value| keyspace["engine"].as_str().unwrap().to_owned();
        stats["keyspaces"].as_array().unwrap().iter().map(engine).collect::<Vec<_>>()
    };
    assert_eq!(engines("dumped", &|_| ()), ["memory", "memory"]);
    let by_variable = |load: &mut std::process::Command| {
        load.env("THERMOCLINE_ENGINE", "flexdb");
    };
    assert_eq!(engines("variable", &by_variable), ["flexdb", "flexdb"]);
    let by_file = |load: &mut std::process::Command| {
        load.arg("--config").arg(&file);
    };
    assert_eq!(engines("file", &by_file), ["lsm", "lsm"]);
    let by_flag = |load: &mut std::process::Command| {
        load.env("THERMOCLINE_ENGINE", "flexdb").args(["--engine", "f2"]);
    };
    assert_eq!(engines("flag", &by_flag), ["f2", "f2"]);
}
