//! Changes that attributes request.

use std::ffi::OsStr;

use rustix::io::Errno;

use crate::shift::Shift;

fn parse<'a>(name: &str, value: &'a [u8]) -> Result<Shift<'a>, Errno> {
    Shift::parse(OsStr::new(name), value)
}

#[test]
fn attributes_ask_for_insertions_and_removals() {
    let (insert, collapse) = ("user.flexspace.insert", "user.flexspace.collapse");
    assert_eq!(parse(collapse, b"7 9"), Ok(Shift::Collapse { offset: 7, length: 9 }));
    assert_eq!(parse(collapse, b" 7\t 9\n"), Ok(Shift::Collapse { offset: 7, length: 9 }));
    let max = u64::MAX;
    let value = format!("0 {max}");
    let zeros = Shift::InsertZeros { offset: 0, length: max };
    assert_eq!(parse(insert, value.as_bytes()), Ok(zeros));
    let bytes = Shift::Insert { offset: 12, bytes: b"1 2" };
    assert_eq!(parse("user.flexspace.insert@12", b"1 2"), Ok(bytes));
}

#[test]
fn what_asks_for_nothing_is_refused() {
    for name in ["user.flexspace", "user.flexspace.inserts", "user.other", "security.capability"] {
        assert_eq!(parse(name, b"1 2"), Err(Errno::OPNOTSUPP), "{name}");
    }
    let values: [&[u8]; 9] = [
        b"",
        b"1",
        b"1 2 3",
        b"1 0",
        b"-1 2",
        b"+1 2",
        b"1 x",
        b"1 18446744073709551616",
        b"\xff 1",
    ];
    for value in values {
        for name in ["user.flexspace.insert", "user.flexspace.collapse"] {
            assert_eq!(parse(name, value), Err(Errno::INVAL), "{name} {value:?}");
        }
    }
    for name in ["user.flexspace.insert@", "user.flexspace.insert@1x", "user.flexspace.insert@ 1"] {
        assert_eq!(parse(name, b"x"), Err(Errno::INVAL), "{name}");
    }
}

/// A user may have set the attribute on a file without a mount, as documents describe the request.
#[test]
#[expect(clippy::disallowed_methods, reason = "a file that is of no space")]
fn a_plain_file_is_refused_even_if_it_has_the_attribute() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("plain");
    std::fs::write(&path, b"some bytes").expect("a file");
    for attribute in ["user.flexspace.collapse", "user.flexspace.insert@0"] {
        // Some file systems keep none; then there is nothing to be replaced either.
        let _ = rustix::fs::setxattr(&path, attribute, b"0 4", rustix::fs::XattrFlags::empty());
    }
    let refused = [crate::collapse(&path, 0, 4), crate::insert(&path, 0, b"x")];
    for refused in refused {
        let kind = refused.expect_err("it is no file of a mount").kind();
        assert_eq!(kind, std::io::ErrorKind::Unsupported);
    }
}
