//! Forms of values: what goes in comes out, and what has expired or is damaged does not.

use super::{Shown, ValueForm};

const NOW_MS: u64 = 1_000;

#[test]
fn a_keyspace_of_the_server_is_known_by_its_name() {
    let served = ValueForm::Served { now_ms: NOW_MS };
    for (name, form) in [
        ("redis-0", served),
        ("redis-15", served),
        ("redis-16", ValueForm::Plain),
        ("redis-00", ValueForm::Plain),
        ("redis", ValueForm::Plain),
        ("default", ValueForm::Plain),
    ] {
        assert_eq!(ValueForm::of(name, false, NOW_MS), form, "{name}");
    }
    assert_eq!(ValueForm::of("redis-0", true, NOW_MS), ValueForm::ServedAsStored);
    assert_eq!(ValueForm::of("default", true, NOW_MS), ValueForm::Plain);
}

#[test]
fn values_come_back_and_expire_as_the_server_says() {
    let served = ValueForm::Served { now_ms: NOW_MS };
    let stored = served.stored(b"hi".to_vec()).unwrap();
    assert_eq!(stored, b"\x01hi");
    assert_eq!(served.show(&stored), Ok(Some(Shown { bytes: b"hi", expires_ms: None })));
    let ends = |at: u64| [&[2][..], &at.to_le_bytes(), b"hi"].concat();
    let later = Shown { bytes: b"hi", expires_ms: Some(NOW_MS + 1) };
    assert_eq!(served.show(&ends(NOW_MS + 1)), Ok(Some(later)));
    assert_eq!(served.show(&ends(NOW_MS)), Ok(None));
    let whole = ends(NOW_MS);
    let as_stored = Shown { bytes: &whole, expires_ms: None };
    assert_eq!(ValueForm::ServedAsStored.show(&whole), Ok(Some(as_stored)));
}

#[test]
fn what_the_server_could_not_read_is_neither_shown_nor_stored() {
    let served = ValueForm::Served { now_ms: NOW_MS };
    for bytes in [&b""[..], b"hello", b"\x02short"] {
        assert!(served.show(bytes).is_err(), "{bytes:?}");
        assert!(ValueForm::ServedAsStored.stored(bytes.to_vec()).is_err(), "{bytes:?}");
        assert_eq!(ValueForm::Plain.stored(bytes.to_vec()).as_deref(), Ok(bytes));
    }
}
