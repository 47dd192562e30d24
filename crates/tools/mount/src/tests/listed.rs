//! Names, and the directories that they are.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use environment::Environment;
use rustix::fs::RenameFlags;
use rustix::io::Errno;

use crate::attributes;
use crate::listings::Listings;
use crate::names::Names;
use crate::node::Node;
use crate::refusal::Refusal;
use crate::source::Source;

const OWNER: (u32, u32) = (0, 0);

fn names(dir: &Path) -> Names {
    let source = Source::new(dir, 64 << 10).expect("a directory");
    source.remove_leftovers().expect("a directory");
    Names::new(source, Environment::real(), Box::new(|_| {}))
}

fn owner() -> (u32, u32) {
    (rustix::process::geteuid().as_raw(), OWNER.1)
}

fn make(names: &Names, name: &str, bytes: &[u8]) -> Arc<Node> {
    let node = names.create(OsStr::new(name), 0o640, owner()).expect("a new name");
    node.change(&names.environment, |file| file.write(None, bytes)).expect("room");
    node
}

fn bytes(node: &Node) -> Vec<u8> {
    node.with(|file| file.read(0, 1000)).expect("whole")
}

fn listed(names: &Names) -> Vec<String> {
    let list = names.list().expect("a directory");
    list.into_iter().map(|(name, _)| name.into_string().expect("text")).collect()
}

fn errno<T>(answer: Result<T, Refusal>) -> Option<Errno> {
    answer.err().map(|refusal| refusal.errno())
}

#[test]
fn files_are_made_renamed_replaced_and_removed() {
    let dir = tempfile::tempdir().unwrap();
    let names = names(dir.path());
    std::fs::create_dir(dir.path().join("no space")).unwrap();
    let (one, two) = (make(&names, "one of them", b"1"), make(&names, ".two", b"2"));
    assert_eq!(listed(&names), [".two", "one of them"]);
    assert_eq!(errno(names.create(OsStr::new(".two"), 0o600, owner())), Some(Errno::EXIST));
    assert_eq!(errno(names.create(OsStr::new("no space"), 0o600, owner())), Some(Errno::EXIST));
    assert_eq!(
        errno(names.create(OsStr::new(".thermocline-x"), 0o600, owner())),
        Some(Errno::PERM)
    );
    let long = "x".repeat(256);
    assert_eq!(errno(names.create(OsStr::new(&long), 0o600, owner())), Some(Errno::NAMETOOLONG));

    let plain = RenameFlags::empty();
    let rename =
        |from: &str, to: &str, flags| names.rename(OsStr::new(from), OsStr::new(to), flags);
    rename("one of them", "three", plain).expect("a new name");
    assert_eq!(names.lookup(OsStr::new("one of them")).err(), Some(Errno::NOENT));
    assert_eq!(names.lookup(OsStr::new("three")).expect("it is there").number, one.number);
    assert_eq!(errno(rename("three", ".two", RenameFlags::NOREPLACE)), Some(Errno::EXIST));
    rename("three", ".two", RenameFlags::EXCHANGE).expect("both are there");
    assert_eq!(bytes(&names.lookup(OsStr::new(".two")).expect("it is there")), b"1");
    assert_eq!(bytes(&two), b"2");
    rename(".two", ".two", plain).expect("nothing is to be done");

    // The one that is replaced can be read while it has a handle.
    two.opened().expect("it is there");
    rename(".two", "three", plain).expect("one replaces the other");
    assert_eq!(
        (listed(&names), bytes(&one), bytes(&two)),
        (vec!["three".into()], vec![b'1'], vec![b'2'])
    );
    two.change(&names.environment, |file| file.write(None, b"!")).expect("room");
    let hidden = two.dir();
    assert!(hidden.exists());
    names.release(&two).expect("it goes");
    assert!(!hidden.exists(), "nobody needs it");
    assert_eq!(errno(two.with(|file| file.read(0, 1))), Some(Errno::IO));
    names.remove(OsStr::new("three")).expect("it is there");
    assert_eq!(errno(names.remove(OsStr::new("three"))), Some(Errno::NOENT));
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "only what was no space: {left:?}");
}

#[test]
fn a_name_that_cannot_be_given_leaves_all_names_as_they_were() {
    let dir = tempfile::tempdir().unwrap();
    let names = names(dir.path());
    let (one, two) = (make(&names, "one", b"1"), make(&names, "two", b"2"));
    // The replaced file would get one of these names.
    let process = rustix::process::getpid();
    for number in 0..10 {
        std::fs::create_dir_all(dir.path().join(format!(".thermocline-{process}-{number}")))
            .unwrap();
    }
    let renamed = names.rename(OsStr::new("one"), OsStr::new("two"), RenameFlags::empty());
    assert_eq!(errno(renamed), Some(Errno::EXIST));
    for (name, node, expected) in [("one", &one, b"1"), ("two", &two, b"2")] {
        assert_eq!(names.lookup(OsStr::new(name)).expect("it is there").number, node.number);
        node.close_if_idle().expect("a device");
        assert_eq!(bytes(node), expected, "{name}");
    }
}

/// A program writes a file's new content next to the old file, and renames it to the old one's
/// name; the mount is killed.
#[test]
fn a_file_that_replaces_another_one_is_durable_without_a_sync() {
    for flags in [RenameFlags::empty(), RenameFlags::EXCHANGE] {
        let dir = tempfile::tempdir().unwrap();
        let mounted = names(dir.path());
        make(&mounted, "file", b"old").sync().expect("a device");
        make(&mounted, "file.new", b"new");
        let renamed = mounted.rename(OsStr::new("file.new"), OsStr::new("file"), flags);
        renamed.expect("both are there");
        // Nothing is stored any more.
        drop(mounted);
        let mounted = names(dir.path());
        let found = mounted.lookup(OsStr::new("file")).expect("it is there");
        assert_eq!(bytes(&found), b"new", "{flags:?}");
        if flags == RenameFlags::EXCHANGE {
            let other = mounted.lookup(OsStr::new("file.new")).expect("it is there");
            assert_eq!(bytes(&other), b"old");
        }
    }
}

/// A file that cannot be made durable replaces nothing.
#[test]
fn a_file_that_cannot_be_stored_leaves_the_one_it_would_replace() {
    let dir = tempfile::tempdir().unwrap();
    let names = names(dir.path());
    let (old, new) = (make(&names, "file", b"old"), make(&names, "file.new", b"new"));
    new.abandon();
    let renamed = names.rename(OsStr::new("file.new"), OsStr::new("file"), RenameFlags::empty());
    assert_eq!(errno(renamed), Some(Errno::IO));
    assert_eq!(listed(&names), ["file", "file.new"]);
    assert_eq!(bytes(&old), b"old");
}

#[test]
fn what_is_gone_is_not_opened() {
    let dir = tempfile::tempdir().unwrap();
    let names = names(dir.path());
    let (kept, removed) = (make(&names, "kept", b"1"), make(&names, "removed", b"2"));
    names.open(&kept).expect("it is there");
    names.remove(OsStr::new("kept")).expect("it is there");
    names.remove(OsStr::new("removed")).expect("it is there");
    assert_eq!(bytes(&kept), b"1", "somebody has it open");
    assert_eq!(errno(names.open(&removed)), Some(Errno::STALE));
    names.close().expect("a device");
    let made = names.create(OsStr::new("late"), 0o600, owner());
    assert_eq!(errno(made), Some(Errno::IO), "nobody would store it");
}

#[test]
fn attributes_and_bytes_are_there_after_the_next_mount() {
    let dir = tempfile::tempdir().unwrap();
    let before = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    {
        let names = names(dir.path());
        let node = make(&names, "file", b"0123456789");
        let (len, stored, about) = node.stat().expect("it is there");
        assert_eq!((len, stored, about.permissions), (10, 10, 0o640));
        node.set_modified(before).expect("a directory");
        assert_eq!(node.stat().expect("it is there").2.modified, before);
        names.close().expect("a device");
        assert_eq!(errno(node.with(|file| file.read(0, 1))), Some(Errno::IO), "the mount is over");
    }
    let names = names(dir.path());
    let node = names.lookup(OsStr::new("file")).expect("it is there");
    let (len, _, about) = node.stat().expect("it is there");
    assert_eq!((len, about.permissions, about.modified), (10, 0o640, before));
    assert!(!node.is_open(), "nobody asked for bytes");
    assert_eq!(bytes(&node), b"0123456789");
    assert_eq!(node.stat().expect("it is there").2.modified, before, "opening changes no bytes");
    node.change(&names.environment, |file| file.write(None, b"!")).expect("room");
    assert!(node.stat().expect("it is there").2.modified > before);
    attributes::set_permissions(&node.dir(), 0o444).expect("a directory");
    assert_eq!(node.stat().expect("it is there").2.permissions, 0o444);
}

#[test]
fn spaces_that_nobody_needs_are_closed() {
    let dir = tempfile::tempdir().unwrap();
    let names = names(dir.path());
    let nodes: Vec<Arc<Node>> =
        (0..30).map(|number| make(&names, &format!("{number:02}"), &[number])).collect();
    nodes[0].opened().expect("it is there");
    names.close_idle();
    let open = nodes.iter().filter(|node| node.is_open()).count();
    assert_eq!((open, nodes[0].is_open()), (17, true));
    for (number, node) in nodes.iter().enumerate() {
        assert_eq!(node.stat().expect("it is there").0, 1);
        assert_eq!(bytes(node), [number as u8]);
    }
    nodes[5].looked_up();
    nodes[5].looked_up();
    names.forget(nodes[5].number, 1);
    assert!(nodes[5].is_open());
    names.forget(nodes[5].number, 1);
    assert!(!nodes[5].is_open());
    assert_eq!(names.node(nodes[5].number).err(), Some(Errno::STALE));
    assert_eq!(bytes(&names.lookup(OsStr::new("05")).expect("it is there")), [5]);
}

#[test]
fn who_reads_the_names_misses_none_because_others_go() {
    let dir = tempfile::tempdir().unwrap();
    let names = names(dir.path());
    ["a", "b", "c", "d"].iter().for_each(|name| _ = make(&names, name, b"bytes"));
    let listings = Listings::default();
    let read = |reader: u64, is_first: bool| {
        let listed = listings.read(reader, is_first, || names.list()).expect("a directory");
        listed.iter().map(|(name, _)| name.to_str().expect("text").to_owned()).collect::<String>()
    };
    let (one, other) = (listings.begin(), listings.begin());
    assert_eq!(read(one, true), "abcd");
    names.remove(OsStr::new("a")).expect("it is there");
    names.remove(OsStr::new("b")).expect("it is there");
    assert_eq!((read(one, false), read(other, true)), ("abcd".into(), "cd".into()));
    assert_eq!(read(one, true), "cd", "from the first on");
    names.remove(OsStr::new("c")).expect("it is there");
    listings.end(one);
    assert_eq!((read(one, false), read(other, false)), ("d".into(), "cd".into()));
}

#[test]
fn one_space_is_a_directory_with_one_file() {
    let dir = tempfile::tempdir().unwrap();
    {
        let names = names(dir.path());
        make(&names, "a", b"a");
        make(&names, "b", b"b");
        names.close().expect("a device");
    }
    let names = names(&dir.path().join("a"));
    assert_eq!(listed(&names), ["a"]);
    assert_eq!(names.lookup(OsStr::new("b")).err(), Some(Errno::NOENT));
    let node = names.lookup(OsStr::new("a")).expect("it is there");
    node.change(&names.environment, |file| file.write(None, b"!")).expect("room");
    assert_eq!(bytes(&node), b"a!");
    let to = OsStr::new("c");
    assert_eq!(errno(names.create(to, 0o600, owner())), Some(Errno::PERM));
    assert_eq!(errno(names.remove(OsStr::new("a"))), Some(Errno::PERM));
    let renamed = names.rename(OsStr::new("a"), to, RenameFlags::empty());
    assert_eq!(errno(renamed), Some(Errno::PERM));
}

#[test]
fn what_a_crash_left_is_removed_and_a_directory_is_mounted_once() {
    let dir = tempfile::tempdir().unwrap();
    let names = names(dir.path());
    make(&names, "kept", b"kept");
    assert_eq!(Source::new(dir.path(), 64 << 10).err(), Some(Errno::WOULDBLOCK));
    let node = make(&names, "removed", b"x");
    node.opened().expect("it is there");
    names.remove(OsStr::new("removed")).expect("it is there");
    let hidden = node.dir();
    names.close().expect("a device");
    drop((names, node));
    assert!(hidden.exists(), "it was still open");
    let looking = Source::new(dir.path(), 64 << 10).expect("nobody has it mounted");
    assert!(hidden.exists(), "who only looks removes nothing");
    drop(looking);
    let names = self::names(dir.path());
    assert!(!hidden.exists());
    assert_eq!(listed(&names), ["kept"]);
}

#[test]
fn what_is_not_shown_and_somebody_elses_is_not_removed() {
    let dir = tempfile::tempdir().unwrap();
    let theirs =
        [".thermocline-notes", ".thermocline-1-", ".thermocline-1-2-3", ".thermocline-1-2"]
            .map(|name| dir.path().join(name));
    for path in &theirs {
        std::fs::create_dir_all(path.join("inside")).unwrap();
    }
    for path in &theirs[..3] {
        std::fs::remove_dir(path.join("inside")).unwrap();
    }
    let names = names(dir.path());
    assert_eq!(listed(&names), Vec::<String>::new());
    theirs.iter().for_each(|path| assert!(path.exists(), "{} is gone", path.display()));
}
