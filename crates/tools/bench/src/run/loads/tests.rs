//! Copies are whole, and their holes stay holes.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};

use super::copy::{directory, sync};
use super::words;

#[test]
fn copies_have_the_same_bytes_and_the_same_holes() {
    let from = tempfile::tempdir().unwrap();
    let to = tempfile::tempdir().unwrap();
    let (below, at) = (from.path().join("one/two"), 64 << 20);
    std::fs::create_dir_all(&below).unwrap();
    let sparse = File::create(below.join("sparse")).unwrap();
    sparse.write_all_at(b"begin", 0).unwrap();
    sparse.write_all_at(&[7; 3_000_000], at).unwrap();
    sparse.set_len(2 * at).unwrap();
    std::fs::write(from.path().join("empty"), b"").unwrap();
    std::fs::write(from.path().join("small"), b"small").unwrap();
    directory(from.path(), to.path()).unwrap();
    sync(to.path(), true).unwrap();
    let copy = File::open(to.path().join("one/two/sparse")).unwrap();
    let about = copy.metadata().unwrap();
    assert_eq!(about.len(), 2 * at);
    assert!(about.blocks() * 512 < 8 << 20, "{} blocks", about.blocks());
    let mut read = vec![0; 3_000_000];
    copy.read_exact_at(&mut read, at).unwrap();
    assert!(read.iter().all(|&byte| byte == 7));
    copy.read_exact_at(&mut read[..5], 0).unwrap();
    assert_eq!(&read[..5], b"begin");
    assert_eq!(std::fs::read(to.path().join("small")).unwrap(), b"small");
    assert_eq!(std::fs::read(to.path().join("empty")).unwrap(), b"");
}

#[test]
fn versions_of_another_number_of_keys_are_refused() {
    assert_eq!(words(&[1, 0, 0, 0, 0, 0, 0, 0], 1).unwrap(), [1]);
    assert!(words(&[0; 8], 2).is_err());
    assert!(words(&[0; 9], 1).is_err());
}
