//! The names that are made durable, and their order.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use super::super::named::{make, sync_name};

#[test]
fn each_directory_that_is_made_has_its_name_before_there_is_anything_in_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a/b/c");
    let mut named: Vec<PathBuf> = Vec::new();
    let mut note = |made: &std::path::Path| {
        assert_eq!(std::fs::read_dir(made)?.count(), 0, "{}", made.display());
        named.push(made.to_owned());
        Ok(())
    };
    make(&path, &mut note).unwrap();
    assert!(path.is_dir());
    make(&path, &mut note).unwrap();
    make(&dir.path().join("a/d"), &mut note).unwrap();
    let expected: Vec<_> = ["a", "a/b", "a/b/c", "a/d"].map(|name| dir.path().join(name)).into();
    assert_eq!(named, expected);
}

#[test]
fn a_name_that_is_not_made_durable_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a/b");
    let refused = make(&path, &mut |_| Err(std::io::ErrorKind::StorageFull.into())).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::StorageFull);
    assert!(!path.exists());
}

#[test]
fn names_are_synced_wherever_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let inner = dir.path().join("outer/inner");
    std::fs::create_dir_all(&inner).unwrap();
    for path in [&*inner, ".".as_ref(), "/".as_ref(), "..".as_ref()] {
        sync_name(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
    let outer = dir.path().join("outer");
    // Root can read it nevertheless.
    std::fs::set_permissions(&outer, PermissionsExt::from_mode(0o300)).unwrap();
    sync_name(&inner).unwrap();
    std::fs::set_permissions(&outer, PermissionsExt::from_mode(0o700)).unwrap();
    let missing = sync_name(&dir.path().join("missing")).unwrap_err();
    assert_eq!(missing.kind(), std::io::ErrorKind::NotFound);
}
