//! What attributes ask for.

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
