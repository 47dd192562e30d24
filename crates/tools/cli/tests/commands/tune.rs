//! `tune`: what it refuses, and that an interrupted search removes its directory.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use crate::program::{command, run};

#[test]
fn a_search_without_room_or_with_a_file_in_the_way_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().to_str().unwrap();
    let said = run(["tune", "--dir", at, "--data", "1000000tb"]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.err.contains("has no room"), "{said:?}");
    let file = dir.path().join("there.toml");
    #[expect(clippy::disallowed_methods, reason = "a file that is no database's")]
    std::fs::write(&file, "memory = \"1gb\"\n").unwrap();
    let said = run(["tune", "--dir", at, "--write", file.to_str().unwrap()]);
    assert_eq!(said.code, 2, "{said:?}");
    assert!(said.err.contains("the file exists"), "{said:?}");
    for (option, value) in [("--minutes", "0"), ("--data", "much"), ("--memory", "200%%")] {
        let said = run(["tune", "--dir", at, option, value]);
        assert_eq!((said.code, said.err.contains(option)), (2, true), "{said:?}");
    }
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn an_interrupted_search_removes_its_directory() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = command()
        .args(["tune", "--data", "16MiB", "--dir"])
        .arg(dir.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert_eq!(line, "pairs of 192 bytes, separated\n");
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(1));
    let mut printed = String::new();
    child.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
    // The head of the table, and no setting.
    assert_eq!(printed.lines().count(), 1, "{printed}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}
