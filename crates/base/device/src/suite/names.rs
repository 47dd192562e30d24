//! Requirements for names on every device.

use std::sync::Arc;

use super::{BLOCK, numbered, read};
use crate::{Device, Entry, Error, Mode, SyncKind};

fn names(device: &Arc<dyn Device>, dir: &str) -> Vec<String> {
    device.list(dir).unwrap().into_iter().map(|entry| entry.name).collect()
}

#[track_caller]
fn is_missing<T: std::fmt::Debug>(outcome: crate::Result<T>, name: &str) {
    assert_eq!(outcome.unwrap_err(), Error::NotFound { name: name.to_owned() });
}

#[track_caller]
fn is_taken<T: std::fmt::Debug>(outcome: crate::Result<T>, name: &str) {
    assert_eq!(outcome.unwrap_err(), Error::AlreadyExists { name: name.to_owned() });
}

pub fn a_bad_name_is_refused(device: &Arc<dyn Device>) {
    for name in ["..", "../x", "/etc/passwd", "a/../b", "a//b", "a/", ".hidden", "sp ace", "n\0l"] {
        let bad = Error::BadName { name: name.to_owned() };
        assert_eq!(device.open(name, Mode::Create).unwrap_err(), bad);
        assert_eq!(device.create_dir(name).unwrap_err(), bad);
        assert_eq!(device.list(name).unwrap_err(), bad);
        assert_eq!(device.exists(name).unwrap_err(), bad);
        assert_eq!(device.rename(name, "x").unwrap_err(), bad);
        assert_eq!(device.rename("x", name).unwrap_err(), bad);
        assert_eq!(device.link(name, "x").unwrap_err(), bad);
        assert_eq!(device.link("x", name).unwrap_err(), bad);
        assert_eq!(device.remove(name).unwrap_err(), bad);
        assert_eq!(device.remove_dir(name).unwrap_err(), bad);
        assert_eq!(device.sync_dir(name).unwrap_err(), bad);
        assert_eq!(device.lock(name).unwrap_err(), bad);
        assert_eq!(device.subdevice(name).unwrap_err(), bad);
    }
    let root = Error::BadName { name: String::new() };
    assert_eq!(device.open("", Mode::Create).unwrap_err(), root);
    assert_eq!(device.remove_dir("").unwrap_err(), root);
    assert_eq!(device.list("").unwrap(), []);
}

pub fn create_new_refuses_an_old_name(device: &Arc<dyn Device>) {
    numbered(device, "a", 1);
    is_taken(device.open("a", Mode::CreateNew), "a");
    assert_eq!(device.open("a", Mode::Create).unwrap().len().unwrap(), BLOCK as u64);
}

pub fn missing_names_are_missing(device: &Arc<dyn Device>) {
    is_missing(device.open("a", Mode::Read), "a");
    is_missing(device.open("a", Mode::Write), "a");
    is_missing(device.open("d/a", Mode::Create), "d/a");
    is_missing(device.remove("a"), "a");
    is_missing(device.rename("a", "b"), "a");
    is_missing(device.link("a", "b"), "a");
    is_missing(device.list("d"), "d");
    is_missing(device.sync_dir("d"), "d");
    assert!(!device.exists("a").unwrap());
    assert!(!device.exists("d/a").unwrap());
    device.remove_dir("d").unwrap();
    device.remove_dir("d/e").unwrap();
}

pub fn directories_are_made_with_their_parents(device: &Arc<dyn Device>) {
    device.create_dir("a/b/c").unwrap();
    device.create_dir("a/b/c").unwrap();
    device.create_dir("").unwrap();
    assert!(device.exists("").unwrap());
    assert!(device.exists("a").unwrap());
    assert!(device.exists("a/b/c").unwrap());
    numbered(device, "a/b/c/file", 1);
    is_taken(device.create_dir("a/b/c/file"), "a/b/c/file");
    assert!(!device.exists("a/b/c/file/x").unwrap());
}

pub fn lists_are_sorted_and_typed(device: &Arc<dyn Device>) {
    for name in ["b", "a.1", "a-1", "A"] {
        numbered(device, name, 0);
    }
    device.create_dir("dir/inner").unwrap();
    numbered(device, "dir/file", 0);
    let entry = |name: &str, is_dir| Entry { name: name.to_owned(), is_dir };
    let all = [
        entry("A", false),
        entry("a-1", false),
        entry("a.1", false),
        entry("b", false),
        entry("dir", true),
    ];
    assert_eq!(device.list("").unwrap(), all);
    assert_eq!(device.list("dir").unwrap(), [entry("file", false), entry("inner", true)]);
    assert_eq!(device.list("dir/inner").unwrap(), []);
}

pub fn rename_replaces_a_file(device: &Arc<dyn Device>) {
    numbered(device, "new", 2);
    let old = numbered(device, "old", 1);
    device.rename("new", "old").unwrap();
    assert_eq!(names(device, ""), ["old"]);
    assert_eq!(device.open("old", Mode::Read).unwrap().len().unwrap(), 2 * BLOCK as u64);
    assert_eq!(old.len().unwrap(), BLOCK as u64, "the handle keeps the file that was replaced");
    device.rename("old", "old").unwrap();
    assert_eq!(names(device, ""), ["old"]);
}

pub fn rename_moves_between_directories(device: &Arc<dyn Device>) {
    device.create_dir("from").unwrap();
    device.create_dir("to").unwrap();
    let file = numbered(device, "from/a", 2);
    device.rename("from/a", "to/b").unwrap();
    assert_eq!(names(device, "from"), [""; 0]);
    assert_eq!(names(device, "to"), ["b"]);
    assert_eq!(read(&file, BLOCK as u64, 1), [1]);
    is_missing(device.rename("to/b", "nowhere/b"), "nowhere/b");
    assert_eq!(names(device, "to"), ["b"]);
}

pub fn rename_of_a_directory_takes_all_along(device: &Arc<dyn Device>) {
    device.create_dir("a/inner").unwrap();
    numbered(device, "a/inner/file", 2);
    numbered(device, "ab", 1);
    device.rename("a", "b").unwrap();
    assert_eq!(names(device, ""), ["ab", "b"]);
    assert_eq!(names(device, "b/inner"), ["file"]);
    assert_eq!(read(&device.open("b/inner/file", Mode::Read).unwrap(), BLOCK as u64, 1), [1]);
    assert!(device.rename("b", "b/inner/b").is_err(), "a directory cannot go into itself");
    assert_eq!(names(device, "b"), ["inner"]);
}

pub fn a_link_shares_the_bytes(device: &Arc<dyn Device>) {
    device.create_dir("d").unwrap();
    let file = numbered(device, "a", 1);
    device.link("a", "d/b").unwrap();
    device.remove("a").unwrap();
    assert_eq!(names(device, ""), ["d"]);
    let linked = device.open("d/b", Mode::Write).unwrap();
    linked.write_at(0, &crate::Buffer::copy_of(&[7; BLOCK])).unwrap();
    assert_eq!(read(&file, 0, 1), [7]);
}

pub fn a_link_replaces_nothing(device: &Arc<dyn Device>) {
    numbered(device, "a", 1);
    numbered(device, "b", 2);
    is_taken(device.link("a", "b"), "b");
    assert_eq!(device.open("b", Mode::Read).unwrap().len().unwrap(), 2 * BLOCK as u64);
}

pub fn a_removed_file_stays_readable(device: &Arc<dyn Device>) {
    let file = numbered(device, "a", 2);
    device.remove("a").unwrap();
    assert!(!device.exists("a").unwrap());
    assert_eq!(read(&file, BLOCK as u64, 2), [1, 1]);
    numbered(device, "a", 1);
    assert_eq!(file.len().unwrap(), 2 * BLOCK as u64, "the new file is another one");
}

pub fn remove_dir_removes_all(device: &Arc<dyn Device>) {
    device.create_dir("d/e/f").unwrap();
    numbered(device, "d/a", 1);
    numbered(device, "d/e/b", 1);
    numbered(device, "da", 1);
    device.remove_dir("d").unwrap();
    assert_eq!(names(device, ""), ["da"]);
    assert!(device.remove_dir("da").is_err(), "it is a file");
    assert_eq!(names(device, ""), ["da"]);
}

pub fn sync_dir_counts_and_wants_a_directory(device: &Arc<dyn Device>) {
    device.create_dir("d").unwrap();
    let before = device.accounting().counts().syncs;
    device.sync_dir("").unwrap();
    device.sync_dir("d").unwrap();
    assert_eq!(device.accounting().counts().syncs, before + 2);
    numbered(device, "d/file", 1).sync(SyncKind::All).unwrap();
    assert!(device.sync_dir("d/file").is_err());
}

pub fn a_lock_excludes_a_second_handle(device: &Arc<dyn Device>) {
    let held = device.lock("LOCK").unwrap();
    let refused = Error::Locked { name: "LOCK".to_owned() };
    assert_eq!(device.lock("LOCK").unwrap_err(), refused);
    assert_eq!(device.subdevice("").unwrap().lock("LOCK").unwrap_err(), refused);
    device.open("LOCK", Mode::Read).unwrap();
    drop(held);
    let again = device.lock("LOCK").unwrap();
    assert_eq!(device.lock("LOCK").unwrap_err(), refused);
    drop(again);
}

pub fn a_subdevice_is_a_directory_of_its_device(device: &Arc<dyn Device>) {
    let sub = device.subdevice("d/e").unwrap();
    assert_eq!(names(&sub, ""), [""; 0]);
    let file = numbered(&sub, "a", 1);
    assert_eq!(file.name(), "a");
    assert_eq!(names(device, "d/e"), ["a"]);
    let inner = sub.subdevice("f").unwrap();
    numbered(&inner, "b", 1);
    assert_eq!(names(device, "d/e/f"), ["b"]);
    is_missing(inner.open("nothing", Mode::Read), "nothing");
    let writes = device.accounting().counts().write_ops;
    assert_eq!(sub.accounting().counts().write_ops, writes);
    assert_eq!(writes, 2);
    assert_eq!(sub.kind(), device.kind());
}

pub fn a_directory_is_no_file(device: &Arc<dyn Device>) {
    device.create_dir("d").unwrap();
    assert!(device.open("d", Mode::Write).is_err());
    assert!(device.open("d", Mode::Create).is_err());
    assert!(device.remove("d").is_err());
    assert!(device.link("d", "e").is_err());
    numbered(device, "a", 1);
    assert!(device.rename("a", "d").is_err());
    assert_eq!(names(device, ""), ["a", "d"]);
}

pub fn space_is_reported(device: &Arc<dyn Device>) {
    let space = device.space().unwrap();
    assert!(space.total > 0 && space.free <= space.total, "{space:?}");
}
