//! Values are found by database and key, for any order in which keys were added.

use super::Known;

#[test]
fn a_value_is_found_under_its_own_key_alone() {
    let mut known = Known::default();
    for (db, key) in [(1, "b"), (0, "c"), (0, ""), (1, "b"), (0, "a"), (0, "absent")] {
        known.want(db, key.as_bytes());
    }
    known.sort();
    assert_eq!(known.len(), 5);
    assert_eq!(known.get(0, b"a"), None, "no value was read");
    for index in 0..known.len() {
        let (db, key, uses) = known.key(index).expect("a key");
        assert_eq!(uses, if key == b"b" { 2 } else { 1 });
        let value = format!("{db}-{}", key.escape_ascii());
        let is_absent = key == b"absent";
        known.set(index, (!is_absent).then_some(value.as_bytes()));
    }
    assert_eq!(known.get(0, b"a"), Some(Some(&b"0-a"[..])));
    assert_eq!(known.get(0, b""), Some(Some(&b"0-"[..])));
    assert_eq!(known.get(1, b"b"), Some(Some(&b"1-b"[..])));
    assert_eq!(known.get(0, b"absent"), Some(None));
    assert_eq!(known.get(0, b"b"), None, "the key of another database");
    assert_eq!(known.get(1, b"a"), None);
    known.forget_values();
    assert_eq!(known.get(1, b"b"), None);
    known.set(0, Some(b"again"));
    assert_eq!(known.get(0, b""), Some(Some(&b"again"[..])));
}
