//! The operating system's devices against the shared suite, and their guard of the root.

mod named;
mod refused;

use std::sync::Arc;

use rustix::fs::FileType;

use super::*;

fn device(io: Io, uring: bool) -> (Arc<dyn Device>, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    (open(dir.path(), Options { io, uring }).unwrap(), dir)
}

fn buffered() -> (Arc<dyn Device>, tempfile::TempDir) {
    device(Io::Buffered, false)
}

fn without_openat2() -> (Arc<dyn Device>, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::open(dir.path()).unwrap().without_openat2();
    let accounting = Arc::default();
    (
        Arc::new(SystemDevice {
            root,
            alignment: None,
            io: Io::Buffered,
            uring: false,
            accounting,
        }),
        dir,
    )
}

crate::device_suite!(positional_buffered, || super::device(crate::Io::Buffered, false));
crate::device_suite!(positional_direct, || super::device(crate::Io::Direct, false));
crate::device_suite!(uring_buffered, || super::device(crate::Io::Buffered, true));
crate::device_suite!(uring_direct, || super::device(crate::Io::Direct, true));
crate::device_suite!(parts_walked, super::without_openat2);

#[test]
fn symbolic_links_are_not_followed() {
    let outside = tempfile::tempdir().unwrap();
    for (device, dir) in [buffered(), without_openat2()] {
        device.create_dir("inside").unwrap();
        std::os::unix::fs::symlink(outside.path(), dir.path().join("out")).unwrap();
        let secret = outside.path().join("secret");
        rustix::fs::open(&secret, OFlags::CREATE, 0o600.into()).unwrap();
        std::os::unix::fs::symlink(&secret, dir.path().join("file")).unwrap();
        std::os::unix::fs::symlink("inside", dir.path().join("round")).unwrap();

        let is_named = |error: Option<Error>| matches!(error, Some(Error::SymbolicLink { .. }));
        for name in ["out/secret", "file", "round/new"] {
            assert!(is_named(device.open(name, Mode::Read).err()), "{name}");
            assert!(is_named(device.open(name, Mode::Create).err()), "{name}");
        }
        for name in ["out", "round"] {
            assert!(is_named(device.list(name).err()), "{name}");
            assert!(is_named(device.sync_dir(name).err()), "{name}");
            assert!(is_named(device.create_dir(&format!("{name}/d")).err()), "{name}");
            assert!(is_named(device.subdevice(name).err()), "{name}");
            assert!(device.remove_dir(name).is_err(), "{name}");
        }
        assert!(device.rename("inside", "out/inside").is_err());
        assert!(device.link("out/secret", "secret").is_err());
        assert!(device.remove("out/secret").is_err());
        device.create_dir("doomed").unwrap();
        std::os::unix::fs::symlink(outside.path(), dir.path().join("doomed/out")).unwrap();
        device.remove_dir("doomed").unwrap();
        assert!(secret.exists(), "what lies outside is untouched");
    }
}

#[test]
fn a_link_without_a_target_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let link = dir.path().join("link");
    std::os::unix::fs::symlink("nowhere", &link).unwrap();
    let error = crate::open(&link, Options::default()).err();
    assert_eq!(error, Some(Error::DanglingLink { name: link.display().to_string() }));
    std::fs::create_dir(dir.path().join("nowhere")).unwrap();
    assert!(crate::open(&link, Options::default()).is_ok(), "a link to a directory is followed");
}

#[test]
fn nothing_waits_for_the_other_end_of_a_pipe() {
    for (device, dir) in [buffered(), without_openat2()] {
        let pipe = dir.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, 0o600.into(), 0).unwrap();
        for mode in [Mode::Read, Mode::Write, Mode::Create] {
            let read = device.open("pipe", mode).and_then(|file| file.read_at(0, &mut [0; 16]));
            assert!(matches!(read, Err(Error::Io { .. })), "{mode:?}: {read:?}");
        }
    }
}

#[test]
fn an_error_about_the_directory_itself_names_it() {
    let error = explain(Operation::Metadata, "", rustix::io::Errno::ACCESS);
    assert_eq!(
        error.to_string(),
        "Metadata of the directory failed: Permission denied (os error 13)"
    );
}

#[test]
fn foreign_names_are_passed_over() {
    let (device, dir) = buffered();
    for name in [".hidden", "with space", "ok"] {
        std::fs::create_dir(dir.path().join(name)).unwrap();
    }
    assert_eq!(device.list("").unwrap(), [Entry { name: "ok".to_owned(), is_dir: true }]);
}

/// A child has all descriptors until it executes its program.
#[test]
fn a_lock_ends_with_its_file_though_a_child_has_a_copy() {
    let (_, dir) = buffered();
    let device = SystemDevice {
        root: Root::open(dir.path()).unwrap(),
        alignment: None,
        io: Io::Buffered,
        uring: false,
        accounting: Arc::default(),
    };
    let mut file = device.open_file("LOCK", Mode::Create, None).unwrap();
    file.flock(FlockOperation::NonBlockingLockExclusive).unwrap();
    let _copy = rustix::io::dup(file.fd()).unwrap();
    assert!(matches!(device.lock("LOCK"), Err(Error::Locked { .. })));
    drop(file);
    device.lock("LOCK").unwrap();
}
