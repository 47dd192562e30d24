//! get, put, del, scan, stats, check: results and exit codes.

use std::os::unix::fs::FileExt;

use crate::program::{command, finish, on, run};

#[test]
fn what_was_put_is_got_and_what_was_deleted_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    assert_eq!(on("put", &db, &["greeting", "hello"]).code, 0);
    let said = on("get", &db, &["greeting"]);
    assert_eq!((said.code, said.out.as_str()), (0, "hello\n"));
    assert_eq!(on("get", &db, &["greeting", "--json"]).json()["value"], "hello");

    let said = on("del", &db, &["greeting", "other", "greeting", "--json"]);
    assert_eq!(said.json()["deleted"], 1);
    let said = on("get", &db, &["greeting"]);
    assert_eq!(said.code, 4);
    assert_eq!(said.err, "thermocline: keyspace \"default\" has no key \"greeting\"\n");
    assert_eq!(on("del", &db, &["greeting"]).code, 4);
}

#[test]
fn bytes_that_are_no_text_go_in_and_come_out() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    let value: Vec<u8> = (0..=255).collect();
    let put = finish(command().arg("put").arg(&db).args(["\\x00k", "-"]), &value);
    assert_eq!(put.code, 0, "{put:?}");
    assert_eq!(on("get", &db, &["006b", "--encoding", "hex", "--raw"]).bytes, value);
    let shown = on("get", &db, &["\\x00k"]).out;
    let again = on("put", &db, &["copy", shown.trim_end()]);
    assert_eq!(again.code, 0, "{again:?}");
    assert_eq!(on("get", &db, &["copy", "--raw"]).bytes, value);
    assert_eq!(on("get", &db, &["\\q"]).code, 2);
}

#[test]
fn scans_obey_their_range_direction_and_limit() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    for (key, value) in [("a", "1"), ("b1", "2"), ("b2", "3"), ("c", "4")] {
        assert_eq!(on("put", &db, &[key, value]).code, 0);
    }
    let scan = |options: &[&str]| on("scan", &db, options).out;
    assert_eq!(scan(&[]), "a\t1\nb1\t2\nb2\t3\nc\t4\n");
    assert_eq!(scan(&["--prefix", "b"]), "b1\t2\nb2\t3\n");
    assert_eq!(scan(&["--start", "b1", "--end", "c", "--keys-only"]), "b1\nb2\n");
    assert_eq!(scan(&["--reverse", "--limit", "2"]), "c\t4\nb2\t3\n");
    assert_eq!(scan(&["--limit", "1", "--json"]), "{\"key\":\"a\",\"value\":\"1\"}\n");
    assert_eq!(scan(&["--limit", "0"]), "");
    assert_eq!(on("scan", &db, &["--prefix", "b", "--start", "a"]).code, 2);
}

#[test]
fn keyspaces_are_apart_and_one_that_is_missing_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    assert_eq!(on("put", &db, &["k", "one", "-k", "first"]).code, 0);
    assert_eq!(on("put", &db, &["k", "two", "-k", "second"]).code, 0);
    assert_eq!(on("get", &db, &["k", "-k", "first"]).out, "one\n");
    assert_eq!(on("get", &db, &["k", "-k", "second"]).out, "two\n");
    let said = on("get", &db, &["k", "-k", "third"]);
    assert_eq!(said.code, 4);
    let there = "there is no keyspace \"third\"; there are: first, second (--keyspace chooses)";
    assert_eq!(said.err, format!("thermocline: {there}\n"));
    for name in ["scan", "dump"] {
        let said = on(name, &db, &["-k", "third"]);
        assert_eq!((said.code, said.err.contains(there)), (4, true), "{said:?}");
    }
    let stats = on("stats", &db, &["--json"]).json();
    let names: Vec<_> =
        stats["keyspaces"].as_array().unwrap().iter().map(|keyspace| &keyspace["name"]).collect();
    assert_eq!(names, ["first", "second"]);
    assert!(on("stats", &db, &[]).out.contains("keyspace             second"));
    let one = on("stats", &db, &["-k", "second", "--json"]).json();
    assert_eq!(one["keyspaces"].as_array().unwrap().len(), 1, "{one}");
    assert_eq!(one["keyspaces"][0], stats["keyspaces"][1]);
    let said = on("stats", &db, &["-k", "third"]);
    assert_eq!((said.code, said.err.contains(there)), (4, true), "{said:?}");
}

#[test]
fn a_directory_that_is_no_database_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing");
    for name in ["scan", "stats", "check", "dump"] {
        let said = on(name, &missing, &[]);
        assert_eq!(said.code, 4, "{name}: {said:?}");
        assert!(!missing.exists(), "{name} made it");
    }
    let said = on("get", &missing, &["k", "--json"]);
    let error: serde_json::Value = serde_json::from_str(&said.err).unwrap();
    assert_eq!(error["exit_code"], 4);
    #[expect(clippy::disallowed_methods, reason = "makes what the test is about")]
    std::fs::write(dir.path().join("letter.txt"), "dear").unwrap();
    let said = on("put", dir.path(), &["k", "v"]);
    assert_eq!(said.code, 4, "{said:?}");
    assert!(said.err.contains("letter.txt"), "{said:?}");
    for name in ["scan", "stats", "check", "dump"] {
        let said = on(name, &dir.path().join("letter.txt"), &[]);
        let why = "letter.txt is not a directory";
        assert_eq!((said.code, said.err.contains(why)), (4, true), "{name}: {said:?}");
    }
}

#[test]
fn what_the_system_refuses_names_the_database() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    assert_eq!(on("put", &db, &["k", "v"]).code, 0);
    #[expect(clippy::disallowed_methods, reason = "makes what the system refuses to open")]
    std::fs::remove_file(db.join("LOCK")).unwrap();
    std::fs::create_dir(db.join("LOCK")).unwrap();
    for said in [
        on("put", "/proc/none".as_ref(), &["k", "v"]),
        run(["serve", "--port=0", "--dir=/proc/none"]),
    ] {
        let why = "thermocline: database /proc/none: it cannot be made there\n";
        assert_eq!((said.code, said.err.as_str()), (1, why));
    }
    let place = format!("database {}: ", db.display());
    for (name, rest) in [("put", &["k", "v"][..]), ("del", &["k"]), ("drop", &["default"])] {
        let said = on(name, &db, rest);
        assert_eq!((said.code, said.err.contains(&place)), (1, true), "{name}: {said:?}");
        assert!(said.err.contains("LOCK"), "{said:?}");
    }
}

#[test]
fn reading_writes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    assert_eq!(on("put", &db, &["k", "v"]).code, 0);
    let files = || {
        let mut found = Vec::new();
        let mut dirs = vec![db.clone()];
        while let Some(dir) = dirs.pop() {
            for entry in std::fs::read_dir(dir).unwrap() {
                let entry = entry.unwrap();
                let metadata = entry.metadata().unwrap();
                if metadata.is_dir() {
                    dirs.push(entry.path());
                } else {
                    found.push((entry.path(), metadata.len(), metadata.modified().unwrap()));
                }
            }
        }
        found.sort();
        found
    };
    let before = files();
    for (name, rest) in [("get", &["k"][..]), ("scan", &[]), ("stats", &[]), ("dump", &[])] {
        assert_eq!(on(name, &db, rest).code, 0, "{name}");
        assert_eq!(files(), before, "{name}");
    }
}

#[test]
fn a_run_that_is_impossible_is_a_wrong_command_line() {
    let nowhere = "/proc/thermocline";
    for wrong in [
        ["--threads=0", ""],
        ["--seconds=0", "--seconds"],
        ["--seconds=1e30", "--seconds"],
        ["--warmup=NaN", "--warmup"],
        ["--rate=1e-300", "--rate"],
        ["--scan-length=0", "--scan-length"],
        ["--memory=2", "at least 8 MiB"],
        ["--engine=none", "this version has"],
        ["--engine=nova", "the engine nova needs"],
        ["--engine=memory:single-log", "snapshot_block_bytes"],
        ["--engine=f2:none", "single_log"],
        ["--engine=f2,--workload=s100", "s100 scans, and engine f2 keeps no order"],
    ] {
        for command in ["run", "prepare"] {
            let [wrong, why] = wrong;
            let mut words = vec!["bench", command, "--dir", nowhere, "--loads", nowhere];
            for (name, usual) in
                [("--engine=", "--engine=memory"), ("--workload=", "--workload=r100")]
            {
                words.extend((!wrong.contains(name)).then_some(usual));
            }
            words.extend(wrong.split(','));
            let said = run(words);
            assert_eq!((said.code, said.err.contains(why)), (2, true), "{wrong}: {said:?}");
        }
    }
    let compare = ["bench", "compare", "--rounds=1", "--workload=r100,s100"];
    for wrong in [["--engine=none", "--with=memory"], ["--engine=memory", "--with=lsm,f2"]] {
        let said = run(compare.iter().chain(&wrong));
        assert_eq!((said.code, said.out.as_str()), (2, ""), "{said:?}");
    }
    let said = run(["bench", "record", "--out", "x", "--seconds=NaN"]);
    assert_eq!(said.code, 2, "{said:?}");
}

#[test]
fn engines_that_do_not_exist_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    for engine in ["sqlite", "nova"] {
        let said = on("put", &db, &["k", "v", "--engine", engine]);
        assert_eq!(said.code, 2, "{said:?}");
        assert!(said.err.contains(&format!("there is no engine \"{engine}\"")), "{said:?}");
    }
    assert!(!db.exists(), "nothing was made");
}

#[test]
fn damage_is_found_and_placed() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    for number in 0..50 {
        assert_eq!(on("put", &db, &[&format!("key{number}"), "a value of some bytes"]).code, 0);
    }
    let whole = on("check", &db, &[]);
    assert_eq!((whole.code, whole.out.ends_with("everything is whole\n")), (0, true), "{whole:?}");
    let json = on("check", &db, &["--json"]).json();
    assert_eq!((&json["whole"], &json["catalog"]["keyspaces"]), (&true.into(), &1.into()));
    let count = |value: &serde_json::Value| value.as_u64().unwrap();
    let (journal, keyspace) = (&json["journal"], &json["keyspaces"][0]);
    // Some close has flushed the first of them, lest the journal's files pile up.
    assert_eq!(count(&journal["records"]) + count(&keyspace["pairs"]), 50, "{json}");
    assert!(count(&journal["bytes"]) > 20 * count(&journal["records"]), "{json}");
    assert_eq!((&keyspace["name"], &keyspace["engine"]), (&"default".into(), &"memory".into()));
    assert_eq!(keyspace["persisted_seqno"], keyspace["pairs"]);

    let catalog = db.join("THERMOCLINE");
    #[expect(clippy::disallowed_methods, reason = "damages what the test is about")]
    let file = std::fs::OpenOptions::new().read(true).write(true).open(&catalog).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, 20).unwrap();
    file.write_all_at(&[byte[0] ^ 0x10], 20).unwrap();
    let said = on("check", &db, &[]);
    assert_eq!(said.code, 3, "{said:?}");
    assert!(said.out.contains("damaged  ") && said.out.contains("THERMOCLINE"), "{said:?}");
    let json = on("check", &db, &["--json"]);
    assert_eq!((json.code, &json.json()["whole"]), (3, &false.into()));
    assert_eq!(json.json()["damage"][0]["file"], "THERMOCLINE");
    assert_eq!(on("get", &db, &["key1"]).code, 3);
}

#[test]
fn usage_errors_exit_with_2_and_help_with_0() {
    assert_eq!(run(["get"]).code, 2);
    assert_eq!(run(["frobnicate"]).code, 2);
    assert_eq!(run::<&str>([]).code, 2);
    assert_eq!(run(["--help"]).code, 0);
    assert!(run(["--version"]).out.starts_with("thermocline 0."));
    assert!(run(["completions", "bash"]).out.contains("_thermocline"));
}

#[test]
fn output_to_nobody_ends_quietly() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    let value = "v".repeat(100_000);
    let put = finish(command().arg("put").arg(&db).args(["k", "-"]), value.as_bytes());
    assert_eq!(put.code, 0);
    let shell = format!("{} scan {} | head -c 1", env!("CARGO_BIN_EXE_thermocline"), db.display());
    let said =
        finish(std::process::Command::new("bash").args(["-o", "pipefail", "-c", &shell]), b"");
    assert_eq!((said.code, said.out.as_str(), said.err.as_str()), (0, "k", ""));
}

#[test]
fn shared_options_stand_before_the_command_or_behind_it() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    assert_eq!(on("put", &db, &["k", "v"]).code, 0);
    let db = db.to_str().unwrap();
    let behind = run(["get", db, "k", "--json"]);
    assert_eq!(behind.json()["value"], "v");
    assert_eq!(run(["--json", "get", db, "k"]).out, behind.out);
    let missing = run(["--json", "get", db, "other"]);
    let said: serde_json::Value = serde_json::from_str(&missing.err).unwrap();
    assert_eq!((missing.code, &said["exit_code"]), (4, &4.into()), "{missing:?}");

    for wrong in [&["--json", "get"][..], &["get", "--json"], &["--json", "frobnicate"]] {
        let said = run(wrong.iter());
        let error: serde_json::Value = serde_json::from_str(&said.err).unwrap();
        assert_eq!((said.code, &error["exit_code"]), (2, &2.into()), "{said:?}");
    }
    for before in [&["--json"][..], &["--quiet"], &["--config", "x"], &["--print-config"]] {
        let said = run(before.iter().chain(&[
            "bench",
            "run",
            "--engine",
            "memory",
            "--workload",
            "ycsb-c",
        ]));
        assert_eq!((said.code, said.err.contains("bench --help")), (2, true), "{said:?}");
    }
    let both = run(["--json", "get", db, "k", "--raw"]);
    assert_eq!((both.code, both.out.as_str()), (2, ""), "{both:?}");
}

#[test]
fn memory_that_is_too_small_is_refused_with_what_would_do() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    let said = on("put", &db, &["k", "v", "--memory", "1"]);
    assert_eq!((said.code, db.exists()), (2, false), "{said:?}");
    assert!(said.err.contains("--memory: \"1\" is too little memory: at least 8mb"), "{said:?}");

    let value = "v".repeat(6 << 20);
    for key in ["a", "b", "c"] {
        let put = finish(command().arg("put").arg(&db).args([key, "-"]), value.as_bytes());
        assert_eq!(put.code, 0, "{put:?}");
    }
    let advised = |said: &crate::program::Said| {
        assert_eq!(said.code, 2, "{said:?}");
        let (_, advice) = said.err.split_once("--memory ").expect("what would do");
        advice.split(' ').next().unwrap().to_owned()
    };
    let memory = advised(&on("get", &db, &["a", "--memory", "8mb"]));
    assert_eq!(on("get", &db, &["a", "--raw", "--memory", &memory]).bytes.len(), value.len());
    let dir = db.to_str().unwrap();
    let refused = run(["serve", "--port", "0", "--memory", "11mb", "--dir", dir]);
    assert!(advised(&refused).trim_end_matches("mb").parse::<u64>().unwrap() >= 24, "{refused:?}");
}

#[test]
fn stats_show_what_a_keyspace_has_of_its_own() {
    use thermocline::{Db, EngineKind, KeyspaceOptions, Options, lsm};
    let dir = tempfile::tempdir().unwrap();
    let made = Db::open(dir.path(), Options::default()).unwrap();
    let own = lsm::Options {
        compression: vec![lsm::Compression::Zstd],
        block_bytes: 8192,
        ..Default::default()
    };
    let engine = EngineKind::Lsm;
    let options = KeyspaceOptions { engine, settings: Some(own.into()), ..Default::default() };
    made.keyspace("own", options).unwrap();
    made.keyspace("plain", KeyspaceOptions { engine, ..Default::default() }).unwrap();
    made.close().unwrap();
    drop(made);
    let said = on("stats", dir.path(), &[]).out;
    let own = "  its own options    compression=zstd block_bytes=8192\n";
    assert_eq!((said.matches(own).count(), said.matches("its own").count()), (1, 1), "{said}");
    let json = on("stats", dir.path(), &["--json"]).json();
    let shown = serde_json::json!({ "compression": "zstd", "block_bytes": "8192" });
    assert_eq!(json["keyspaces"][0]["own_options"], shown);
    assert_eq!(json["keyspaces"][1]["own_options"], serde_json::json!({}));
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the test moves files of the database")]
fn links_inside_a_database_and_links_without_a_target_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let (db, other) = (dir.path().join("db"), dir.path().join("other"));
    assert_eq!(on("put", &db, &["k", "v"]).code, 0);
    std::fs::rename(db.join("journal"), &other).unwrap();
    std::os::unix::fs::symlink(&other, db.join("journal")).unwrap();
    for (command, rest) in [("get", &["k"][..]), ("put", &["k", "v"]), ("check", &[])] {
        let said = on(command, &db, rest);
        let is_named = format!("{}{}", said.out, said.err).contains("journal is a symbolic link");
        assert!(said.code != 0 && is_named, "{command}: {said:?}");
    }
    let dangling = dir.path().join("dangling");
    std::os::unix::fs::symlink("nowhere", &dangling).unwrap();
    let said = on("put", &dangling, &["k", "v"]);
    let is_named = said.err.contains("dangling is a symbolic link whose target does not exist");
    assert!(said.code != 0 && is_named, "{said:?}");
    std::fs::create_dir(dir.path().join("nowhere")).unwrap();
    assert_eq!(on("put", &dangling, &["k", "v"]).code, 0, "a link to a directory is followed");
}
