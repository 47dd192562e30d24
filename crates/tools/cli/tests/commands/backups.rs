//! backup, restore and check of backups: copies of a whole directory, and refusals.

use std::path::Path;
use std::process::Command;

use thermocline::EngineKind;

use crate::program::{Said, Small, finish, on};

fn put(db: &Path, keyspace: &str, engine: &str, value: &str) {
    let said = on("put", db, &["k", value, "-k", keyspace, "--engine", engine]);
    assert_eq!(said.code, 0, "{said:?}");
}

fn get(db: &Path, keyspace: &str) -> String {
    on("get", db, &["k", "-k", keyspace]).out
}

fn backup(db: &Path, copies: &Path, rest: &[&str]) -> Said {
    on("backup", db, &[&[copies.to_str().unwrap()], rest].concat())
}

fn restore(db: &Path, copies: &Path, rest: &[&str]) -> Said {
    on("restore", db, &[&[copies.to_str().unwrap()], rest].concat())
}

#[test]
fn databases_come_back_from_their_backups() {
    let dir = tempfile::tempdir().unwrap();
    let (db, copies, copy) = (dir.path().join("db"), dir.path().join("b"), dir.path().join("c"));
    for (number, value) in [(1, "one"), (2, "two"), (3, "three")] {
        for engine in ["memory", "f2", "lsm"] {
            put(&db, engine, engine, value);
        }
        let said = backup(&db, &copies, &["--json", "--keep", "2"]);
        assert_eq!((said.code, said.err.as_str()), (0, ""), "{said:?}");
        assert_eq!(
            (&said.json()["backup"], &said.json()["keyspaces"]),
            (&number.into(), &3.into())
        );
    }
    let said = on("check", &copies, &[]);
    let lines: Vec<_> = said.out.lines().collect();
    assert_eq!((said.code, lines.len(), lines[2]), (0, 3, "everything is whole"), "{said:?}");
    assert!(lines[0].starts_with("checked  backup 2: 3 keyspaces, "), "{said:?}");

    let said = restore(&copy, &copies, &[]);
    assert_eq!((said.code, said.out.as_str()), (0, ""), "{said:?}");
    assert!(said.err.starts_with("restored and verified backup 3: "), "{said:?}");
    let older = dir.path().join("older");
    assert_eq!(restore(&older, &copies, &["--backup", "2", "--json"]).json()["backup"], 2);
    for engine in ["memory", "f2", "lsm"] {
        assert_eq!((get(&copy, engine), get(&older, engine)), ("three\n".into(), "two\n".into()));
    }
    assert_eq!(on("check", &copy, &[]).code, 0);

    let said = restore(&copy, &copies, &[]);
    assert_eq!((said.code, said.err.contains("is not empty")), (2, true), "{said:?}");
    let said = restore(&dir.path().join("d"), &copies, &["--backup", "1"]);
    assert_eq!((said.code, said.err.contains("holds no backup 1")), (4, true), "{said:?}");
    assert!(!dir.path().join("d").exists());
}

#[test]
fn what_is_damaged_cut_off_or_no_backup_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (db, copies, copy) = (dir.path().join("db"), dir.path().join("b"), dir.path().join("c"));
    put(&db, "words", "memory", "one");
    assert_eq!(backup(&db, &copies, &["-q"]).code, 0);
    let journal = std::fs::read_dir(copies.join("backup-000001/journal")).unwrap();
    let journal = journal.map(|entry| entry.unwrap().path()).next().unwrap();
    #[expect(clippy::disallowed_methods, reason = "makes what the test is about")]
    let file = std::fs::OpenOptions::new().write(true).open(&journal).unwrap();
    file.set_len(file.metadata().unwrap().len() - 1).unwrap();
    for said in [restore(&copy, &copies, &[]), on("check", &copies, &[])] {
        let told = format!("{}{}", said.out, said.err);
        assert_eq!((said.code, told.contains("backup-000001/journal/")), (3, true), "{said:?}");
    }
    std::fs::remove_dir_all(&copies).unwrap();
    std::fs::create_dir_all(copies.join("backup-000001.unfinished/journal")).unwrap();
    let said = restore(&copy, &copies, &[]);
    let told = said.err.contains("backup-000001.unfinished is there, but was cut off");
    assert_eq!((said.code, told), (4, true), "{said:?}");

    let said = backup(&db, dir.path(), &[]);
    assert_eq!((said.code, said.err.contains("which is no backup")), (2, true), "{said:?}");
    let other = dir.path().join("other");
    put(&other, "words", "memory", "one");
    assert_eq!(backup(&db, &copies, &["-q"]).code, 0);
    let said = backup(&other, &copies, &[]);
    assert_eq!((said.code, said.err.contains("another database's")), (2, true), "{said:?}");
}

#[test]
fn a_backup_is_made_of_a_database_where_nothing_can_be_written() {
    let dir = tempfile::tempdir().unwrap();
    let (mount, copies, copy) =
        (dir.path().join("mount"), dir.path().join("b"), dir.path().join("c"));
    std::fs::create_dir(&mount).unwrap();
    let Some(_small) = Small::mount(&mount, "64m") else { return };
    let db = mount.join("db");
    for engine in EngineKind::ALL.iter().map(|engine| engine.name()) {
        put(&db, engine, engine, "value");
    }
    let mut remount = std::process::Command::new("mount");
    let said = finish(remount.args(["-o", "remount,ro"]).arg(&mount), b"");
    assert_eq!(said.code, 0, "{said:?}");
    let said = backup(&db, &copies, &[]);
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!(restore(&copy, &copies, &[]).code, 0);
    for engine in EngineKind::ALL.iter().map(|engine| engine.name()) {
        assert_eq!(get(&copy, engine), "value\n");
    }
}

/// Another user's databases, and one from before copies had a file to lock.
#[test]
#[expect(clippy::disallowed_methods, reason = "removes a file of a database that is not open")]
fn another_user_reads_what_a_user_has_restored() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    use std::os::unix::process::CommandExt as _;
    const NOBODY: u32 = 65_534;
    let dir = tempfile::tempdir().unwrap();
    if std::fs::metadata(dir.path()).unwrap().uid() != 0 {
        return;
    }
    let [db, copies, copy] = ["db", "b", "c"].map(|name| dir.path().join(name));
    put(&db, "lsm", "lsm", "one");
    assert_eq!(backup(&db, &copies, &["-q"]).code, 0);
    assert_eq!(restore(&copy, &copies, &["-q"]).code, 0);
    assert!(copy.join("LOCK").exists());
    // The directory of the program may be closed to other users.
    let program = dir.path().join("thermocline");
    std::fs::copy(env!("CARGO_BIN_EXE_thermocline"), &program).unwrap();
    let opened = Command::new("chmod").args(["-R", "a+rX"]).arg(dir.path()).status().unwrap();
    assert!(opened.success());
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let theirs = dir.path().join("theirs");
    std::fs::create_dir(&theirs).unwrap();
    std::fs::set_permissions(&theirs, std::fs::Permissions::from_mode(0o777)).unwrap();
    let as_nobody = |name: &str, rest: &[&str]| {
        let mut command = Command::new(&program);
        command.uid(NOBODY).gid(NOBODY).arg(name).arg(&copy).args(rest);
        finish(&mut command, b"")
    };
    for has_lock in [true, false] {
        if !has_lock {
            std::fs::remove_file(copy.join("LOCK")).unwrap();
        }
        let said = as_nobody("get", &["k", "-k", "lsm"]);
        assert_eq!((said.code, said.out.as_str()), (0, "one\n"), "{has_lock}: {said:?}");
        for command in [&["check"][..], &["scan", "-k", "lsm"], &["dump"], &["stats"]] {
            let said = as_nobody(command[0], &command[1..]);
            assert_eq!(said.code, 0, "{has_lock}: {said:?}");
        }
        let theirs = theirs.join(has_lock.to_string());
        let said = as_nobody("backup", &[theirs.to_str().unwrap()]);
        assert_eq!(said.code, 0, "{has_lock}: {said:?}");
        let said = as_nobody("put", &["k", "other", "-k", "lsm"]);
        assert_ne!(said.code, 0, "{has_lock}: {said:?}");
        assert_eq!(copy.join("LOCK").exists(), has_lock);
    }
}
