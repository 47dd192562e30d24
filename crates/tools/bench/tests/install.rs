//! `peers/install.sh` takes RocksDB's library by its checksum, or says what to do without one.
#![expect(clippy::disallowed_methods, reason = "the files of a script")]

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../peers/install.sh");
/// Programs that the script uses before it looks for Maven.
const TOOLS: [&str; 10] =
    ["bash", "sha256sum", "cut", "dirname", "mkdir", "cp", "mv", "rm", "uname", "mktemp"];

/// Runs the script with its library below `dir`, and no programs but a few.
fn install(dir: &Path, change: impl FnOnce(&mut Command)) -> (Output, String) {
    let tools = dir.join("tools");
    if !tools.is_dir() {
        std::fs::create_dir(&tools).expect("a new directory");
        let path = std::env::var_os("PATH").expect("a path of programs");
        for tool in TOOLS {
            let found = std::env::split_paths(&path).map(|dir| dir.join(tool));
            let found: Vec<PathBuf> = found.filter(|file| file.is_file()).collect();
            symlink(&found[0], tools.join(tool)).expect("a new link");
        }
    }
    let mut command = Command::new(tools.join("bash"));
    command.env_clear().env("PATH", &tools).env("PEERS_LIB", dir.join("lib")).arg(SCRIPT);
    change(&mut command);
    let output = command.output().expect("the script runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output, said)
}

#[test]
fn a_library_with_another_checksum_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let library = dir.path().join("library");
    std::fs::write(&library, b"not RocksDB").unwrap();
    let (output, said) = install(dir.path(), |command| {
        command.env("ROCKSDB_LIBRARY", &library);
    });
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("is not RocksDB 11.8.1: its SHA-256 is "), "{said}");
    assert!(said.contains("want 265c656af5c6502cb8d71db1a74858509f706cc47f1a5b6f603c736d11ce677d"));
    assert!(!dir.path().join("lib").exists(), "nothing was installed");
}

#[test]
fn a_library_in_place_with_another_checksum_is_not_kept() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("lib")).unwrap();
    std::fs::write(dir.path().join("lib/librocksdbjni-linux64.so"), b"of an older version")
        .unwrap();
    let (output, said) = install(dir.path(), |_| {});
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("no mvn here"), "{said}");
}

#[test]
fn one_line_says_what_to_do_where_the_registry_cannot_be_reached() {
    let dir = tempfile::tempdir().unwrap();
    let (output, said) = install(dir.path(), |_| {});
    assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1), "{said}");
    let advice =
        "get librocksdbjni-linux64.so out of the Maven package org.rocksdb:rocksdbjni:11.8.1";
    assert!(said.contains(advice) && said.contains("ROCKSDB_LIBRARY"), "{said}");
    // A client that finds no registry.
    symlink("/bin/false", dir.path().join("tools/mvn")).unwrap();
    let (output, said) = install(dir.path(), |_| {});
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("the registry cannot be reached") && said.contains(advice), "{said}");
    assert!(!dir.path().join("lib").exists());
}
