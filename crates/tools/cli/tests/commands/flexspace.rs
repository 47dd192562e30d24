//! flexspace: the effects of its commands on a space on disk, and their exit codes.

use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::program::{Said, command, finish, run};

/// Runs `flexspace NAME FILE REST...` with `input` on standard input.
fn with_input(name: &str, file: &Path, rest: &[&str], input: &[u8]) -> Said {
    finish(command().args(["flexspace", name]).arg(file).args(rest), input)
}

fn on(name: &str, file: &Path, rest: &[&str]) -> Said {
    with_input(name, file, rest, b"")
}

#[test]
fn bytes_go_in_and_come_out() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("text");
    let made = with_input("create", &file, &["--from", "-"], b"the water");
    assert_eq!((made.code, made.err.as_str()), (0, "made a flexspace of 9 bytes\n"), "{made:?}");
    let put = with_input("insert", &file, &["4"], b"warm ");
    assert_eq!((put.code, put.err.as_str()), (0, "inserted 5 bytes at 4; now 14 bytes\n"));
    let put = with_input("insert", &file, &["end", "--quiet"], b" above the cold");
    assert_eq!((put.code, put.err.as_str()), (0, ""), "{put:?}");
    assert_eq!(on("cat", &file, &[]).out, "the warm water above the cold");
    assert_eq!(on("cat", &file, &["--offset", "4", "--length", "4"]).out, "warm");
    let gone = on("collapse", &file, &["14", "end", "--json"]).json();
    assert_eq!((&gone["removed"], &gone["len"]), (&15.into(), &14.into()));
    let gone = on("collapse", &file, &["0", "4"]);
    assert_eq!((gone.code, gone.err.as_str()), (0, "removed 4 bytes at 0; now 10 bytes\n"));
    assert_eq!(on("cat", &file, &[]).out, "warm water");
    let checked = on("check", &file, &[]);
    assert_eq!((checked.code, checked.out.ends_with("everything is whole\n")), (0, true));
    let stat = on("stat", &file, &["--json"]).json();
    assert_eq!((&stat["len"], &stat["segment_bytes"]), (&10.into(), &(4 << 20).into()));
    assert!(on("stat", &file, &[]).out.contains("bytes                10\n"));
}

#[test]
fn a_large_file_is_taken_in_cut_scattered_and_defragmented() {
    let dir = tempfile::tempdir().unwrap();
    let (file, input) = (dir.path().join("space"), dir.path().join("input"));
    let mut bytes: Vec<u8> = (0..3_000_000_u32).map(|number| (number / 7) as u8).collect();
    #[expect(clippy::disallowed_methods, reason = "makes what the test is about")]
    std::fs::write(&input, &bytes).unwrap();
    let from = input.to_str().unwrap();
    let made = on("create", &file, &["--from", from, "--segment", "64kb", "--json"]);
    assert_eq!((made.code, &made.json()["len"]), (0, &3_000_000.into()), "{made:?}");
    let more = vec![7; 1_500_000];
    let put = with_input("insert", &file, &["1000001", "--json"], &more).json();
    assert_eq!((&put["inserted"], &put["len"]), (&1_500_000.into(), &4_500_000.into()));
    bytes.splice(1_000_001..1_000_001, more);
    for offset in (1_000..200_000).step_by(9_973) {
        assert_eq!(on("collapse", &file, &[&offset.to_string(), "17"]).code, 0);
        bytes.drain(offset..offset + 17);
    }
    assert_eq!(on("cat", &file, &[]).bytes, bytes);
    for offset in 0..60 {
        assert_eq!(with_input("insert", &file, &[&(offset * 7).to_string()], b"x").code, 0);
        bytes.insert(offset * 7, b'x');
    }
    let defragmented = on("defrag", &file, &["--length", "1kb", "--json"]).json();
    let (before, after) = (&defragmented["extents_before"], &defragmented["extents"]);
    assert!(before.as_u64().unwrap() > after.as_u64().unwrap() + 50, "{defragmented}");
    assert_eq!(on("cat", &file, &[]).bytes, bytes);
    assert_eq!(on("check", &file, &[]).code, 0);
}

#[test]
fn what_is_wrong_is_told_with_its_exit_code_and_nothing_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("space");
    for name in ["cat", "stat", "defrag", "check"] {
        let said = on(name, &file, &[]);
        assert_eq!((said.code, file.exists()), (4, false), "{name}: {said:?}");
    }
    assert_eq!(on("insert", &file, &["0"]).code, 4);
    let plain = dir.path().join("plain");
    #[expect(clippy::disallowed_methods, reason = "makes what the test is about")]
    std::fs::write(&plain, "bytes").unwrap();
    let said = on("cat", &plain, &[]);
    assert_eq!((said.code, said.err.contains("is not a directory")), (4, true), "{said:?}");
    let said = on("cat", dir.path(), &[]);
    assert_eq!((said.code, said.err.contains("is no flexspace")), (4, true), "{said:?}");
    assert_eq!(on("create", dir.path(), &[]).code, 2, "it is not empty");
    for segment in ["3mb", "8kb", "2gb", "much"] {
        let said = on("create", &file, &["--segment", segment]);
        assert_eq!((said.code, file.exists()), (2, false), "{segment}: {said:?}");
    }
    let missing = on("create", &file, &["--from", "/nowhere/at/all"]);
    assert_eq!((missing.code, file.exists()), (1, false), "{missing:?}");
    // A file or link of that name, and the link's target, is unchanged afterwards.
    let (led_to, link, broken) =
        (dir.path().join("led to"), dir.path().join("link"), dir.path().join("broken"));
    std::fs::create_dir(&led_to).unwrap();
    std::os::unix::fs::symlink(&led_to, &link).unwrap();
    std::os::unix::fs::symlink("nowhere", &broken).unwrap();
    let said = on("create", &link, &["--from", dir.path().to_str().unwrap()]);
    let left = std::fs::read_dir(&led_to).unwrap().count();
    assert_eq!((said.code, link.is_symlink(), left), (1, true, 0), "{said:?}");
    let said = on("create", &broken, &[]);
    assert_eq!((said.code, broken.is_symlink()), (2, true), "{said:?}");
    let said = on("create", Path::new("/proc/space"), &[]);
    assert_eq!((said.code, said.err.contains("cannot be made there")), (1, true), "{said:?}");

    assert_eq!(with_input("create", &file, &["--from", "-"], b"0123").code, 0);
    assert_eq!(on("create", &file, &[]).code, 2);
    for (name, rest) in [
        ("insert", &["5"][..]),
        ("insert", &["many"]),
        ("collapse", &["3", "2"]),
        ("collapse", &["5", "end"]),
        ("cat", &["--offset", "2", "--length", "3"]),
        ("cat", &["--offset", "5"]),
        ("defrag", &["--offset", "5"]),
    ] {
        let said = on(name, &file, rest);
        assert_eq!((said.code, said.out.as_str()), (2, ""), "{name} {rest:?}: {said:?}");
    }
    let error: serde_json::Value =
        serde_json::from_str(&on("insert", &file, &["5", "--json"]).err).unwrap();
    assert_eq!(error["exit_code"], 2);
    assert_eq!(on("insert", &file, &["0", dir.path().to_str().unwrap()]).code, 1, "a directory");
    assert_eq!(on("cat", &file, &[]).out, "0123");
}

/// The only directory in another one.
fn only_dir_in(dir: &Path) -> PathBuf {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let dirs: Vec<PathBuf> = entries.filter(|path| path.is_dir()).collect();
    assert_eq!(dirs.len(), 1, "{dirs:?}");
    dirs.into_iter().next().unwrap()
}

/// All files of a space, with their bytes.
#[expect(clippy::disallowed_methods, reason = "looks at what the test is about")]
fn files_of(space: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let paths = std::fs::read_dir(space).unwrap().map(|entry| entry.unwrap().path());
    paths.map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

#[test]
fn what_belongs_to_a_database_a_backup_or_a_store_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let [db, copies, mnt, copy] = ["db", "copies", "mnt", "copy"].map(|name| dir.path().join(name));
    std::fs::create_dir(&mnt).unwrap();
    let put = run(["put", db.to_str().unwrap(), "k", "v", "-k", "pairs", "--engine", "flexdb"]);
    assert_eq!(put.code, 0, "{put:?}");
    let made = run(["backup", db.to_str().unwrap(), copies.to_str().unwrap()]);
    assert_eq!(made.code, 0, "{made:?}");
    let keyspaces = db.join("keyspaces");
    let space = only_dir_in(&only_dir_in(&keyspaces));
    let backup = only_dir_in(&copies);
    let saved = only_dir_in(&only_dir_in(&backup.join("keyspaces")));
    std::fs::create_dir(&copy).unwrap();
    for (path, bytes) in files_of(&space) {
        #[expect(clippy::disallowed_methods, reason = "makes what the test is about")]
        std::fs::write(copy.join(path.file_name().unwrap()), bytes).unwrap();
    }
    let is_refused = |name: &str, file: &Path, rest: &[&str], owner: &str| {
        let said = with_input(name, file, rest, b"more");
        let is_reported = said.err.contains(&format!("belongs to the {owner} "));
        assert_eq!((said.code, is_reported, said.out.as_str()), (2, true, ""), "{name}: {said:?}");
    };
    for (file, owner) in [(&space, "database"), (&saved, "backup"), (&copy, "flexdb store")] {
        let before = files_of(file);
        let data = |files: &BTreeMap<PathBuf, Vec<u8>>| files[&file.join("data")].clone();
        let rest: [(&str, &[&str]); 5] = [
            ("insert", &["end"]),
            ("collapse", &["0", "1"]),
            ("cat", &[]),
            ("stat", &[]),
            ("defrag", &[]),
        ];
        rest.iter().for_each(|(name, rest)| is_refused(name, file, rest, owner));
        is_refused("mount", file, &[mnt.to_str().unwrap()], owner);
        let after = files_of(file);
        assert!(data(&after) == data(&before), "the bytes of {file:?} were changed");
        // A space that is known by its place is not even opened.
        assert!(owner == "flexdb store" || after == before, "files of {file:?} were changed");
        assert_eq!(on("check", file, &[]).code, 0, "it may be verified");
    }
    for (file, owner) in [(&db, "database"), (&keyspaces, "database"), (&backup, "backup")] {
        is_refused("mount", file, &[mnt.to_str().unwrap()], owner);
    }
    let new = keyspaces.join("new");
    is_refused("create", &new, &[], "database");
    assert!(!new.exists());
    let got = run(["get", db.to_str().unwrap(), "k", "-k", "pairs"]);
    assert_eq!((got.code, got.out.as_str()), (0, "v\n"), "{got:?}");
    let checked = run(["check", copies.to_str().unwrap()]);
    assert_eq!(checked.code, 0, "{checked:?}");
    // A space next to a database is the user's own.
    assert_eq!(on("create", &dir.path().join("mine"), &[]).code, 0);
}

#[test]
fn damage_is_placed_and_the_rest_can_be_read() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("space");
    let made = with_input("create", &file, &["--from", "-"], &[1; 300_000]);
    assert_eq!(made.code, 0, "{made:?}");
    #[expect(clippy::disallowed_methods, reason = "damages what the test is about")]
    let data = std::fs::OpenOptions::new().read(true).write(true).open(file.join("data")).unwrap();
    data.write_all_at(&[2], 9_000).unwrap();
    let said = on("check", &file, &[]);
    assert_eq!(said.code, 3, "{said:?}");
    assert!(said.out.contains("damaged  ") && said.out.contains("data"), "{said:?}");
    let json = on("check", &file, &["--json"]);
    assert_eq!((json.code, &json.json()["damage"][0]["offset"]), (3, &8192.into()), "{json:?}");
    assert_eq!(on("cat", &file, &[]).code, 3);
    let rest = on("cat", &file, &["--offset", "150000"]);
    assert_eq!((rest.code, rest.bytes.len()), (0, 150_000));
    // A directory with a superblock is a space, and a missing part is damage.
    #[expect(clippy::disallowed_methods, reason = "damages what the test is about")]
    std::fs::remove_file(file.join("tree")).unwrap();
    for name in ["check", "stat", "cat"] {
        let said = on(name, &file, &[]);
        assert_eq!((said.code, said.err.contains("tree is missing")), (3, true), "{said:?}");
    }
}

#[test]
fn damage_holds_up_neither_what_else_is_scattered_nor_other_spaces() {
    let dir = tempfile::tempdir().unwrap();
    let (file, other) = (dir.path().join("space"), dir.path().join("other"));
    let input: Vec<u8> = (0..200_000_u32).map(|number| (number / 9) as u8).collect();
    let made = with_input("create", &file, &["--from", "-", "--segment", "16kb"], &input);
    assert_eq!(made.code, 0, "{made:?}");
    let mut bytes = input;
    for offset in (100..8_000).step_by(150) {
        assert_eq!(on("collapse", &file, &[&offset.to_string(), "7"]).code, 0);
        bytes.drain(offset..offset + 7);
    }
    #[expect(clippy::disallowed_methods, reason = "damages what the test is about")]
    let data = std::fs::OpenOptions::new().write(true).open(file.join("data")).unwrap();
    data.write_all_at(&[255; 3], 1_000).unwrap();
    let said = on("defrag", &file, &["--length", "1kb"]);
    assert_eq!((said.code, said.err.contains("in data at byte 0")), (3, true), "{said:?}");
    // The first block is damaged, and the bytes behind it are in fewer pieces.
    let before = on("stat", &file, &["--json"]).json()["extents"].as_u64().unwrap();
    let said = on("defrag", &file, &["--length", "8kb", "--json"]);
    assert_eq!(said.code, 3, "{said:?}");
    let after = said.json()["extents"].as_u64().unwrap();
    assert!(after + 15 < before, "{before} extents before, {after} after");
    assert_eq!(on("cat", &file, &["--offset", "50000"]).bytes, bytes[50_000..]);

    assert_eq!(on("create", &other, &[]).code, 0);
    let nothing = dir.path().join("nothing");
    let checked = on("check", &nothing, &[other.to_str().unwrap()]);
    assert_eq!((checked.code, checked.out.contains("other: 0 bytes")), (4, true), "{checked:?}");
    assert!(checked.err.contains("1 of 2 could not be verified"), "{checked:?}");
}

/// Waits until a process waits itself, for longer than it takes for anything but another process.
fn wait_until_asleep(id: u32) {
    let mut asleep = 0;
    while asleep < 20 {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
        let state = stat.rsplit_once(") ").expect("a state").1.chars().next();
        asleep = if state == Some('S') { asleep + 1 } else { 0 };
        #[expect(clippy::disallowed_methods, reason = "waits for another process")]
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

#[test]
fn a_creation_that_comes_too_late_leaves_what_another_one_has_made() {
    let dir = tempfile::tempdir().unwrap();
    let (file, input) = (dir.path().join("space"), dir.path().join("input"));
    assert!(std::process::Command::new("mkfifo").arg(&input).status().unwrap().success());
    // It has found that the name is free, and waits for a writer of its input.
    let mut late = command();
    late.args(["flexspace", "create"]).arg(&file).arg("--from").arg(&input);
    let late = late.stderr(std::process::Stdio::piped()).spawn().unwrap();
    wait_until_asleep(late.id());
    assert_eq!(with_input("create", &file, &["--from", "-"], b"first").code, 0);
    #[expect(clippy::disallowed_methods, reason = "lets it go on")]
    drop(std::fs::OpenOptions::new().write(true).open(&input).unwrap());
    let late = late.wait_with_output().unwrap();
    assert_eq!(late.status.code(), Some(2), "{late:?}");
    assert_eq!(on("cat", &file, &[]).out, "first");
}

#[test]
fn a_space_is_open_in_one_process() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("space");
    assert_eq!(on("create", &file, &[]).code, 0);
    let lock = device::open(&file, device::Options::default()).unwrap().lock("lock").unwrap();
    for name in ["cat", "stat", "defrag", "check"] {
        let said = on(name, &file, &[]);
        assert_eq!((said.code, said.err.contains("another process")), (5, true), "{said:?}");
    }
    drop(lock);
    // A program that another test has just begun has the lock until it is that program.
    let codes: Vec<i32> =
        (0..100).map(|_| on("stat", &file, &[]).code).take_while(|code| *code == 5).collect();
    assert!(codes.len() < 100, "it is open for good");
    assert_eq!(on("stat", &file, &[]).code, 0);
}

#[test]
fn a_reader_that_goes_away_ends_it_quietly() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("space");
    assert_eq!(with_input("create", &file, &["--from", "-"], &[b'v'; 3_000_000]).code, 0);
    let program = env!("CARGO_BIN_EXE_thermocline");
    let shell = format!("{program} flexspace cat {} | head -c 1", file.display());
    let said =
        finish(std::process::Command::new("bash").args(["-o", "pipefail", "-c", &shell]), b"");
    assert_eq!((said.code, said.out.as_str(), said.err.as_str()), (0, "v", ""));
    assert_eq!(on("check", &file, &[]).code, 0);
    assert_eq!(run(["flexspace"]).code, 2);
}
