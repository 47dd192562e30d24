//! Forms of values: ended or damaged values are not shown.

use thermocline::Expiring;

use super::{Shown, ValueForm};

const NOW_MS: u64 = 1_000;

#[test]
fn values_are_shown_until_their_ends() {
    let ending = ValueForm::Ending { now_ms: NOW_MS };
    let stored = |expiry_ms| Expiring { value: b"hi", expiry_ms }.to_stored();
    let shown = |expires_ms| Ok(Some(Shown { bytes: b"hi", expires_ms }));
    assert_eq!(ending.show(&stored(None)), shown(None));
    assert_eq!(ending.show(&stored(Some(NOW_MS + 1))), shown(Some(NOW_MS + 1)));
    assert_eq!(ending.show(&stored(Some(NOW_MS))), Ok(None));
    let whole = stored(Some(NOW_MS));
    let raw = Shown { bytes: &whole, expires_ms: None };
    assert_eq!(ValueForm::Stored.show(&whole), Ok(Some(raw)));
}

#[test]
fn what_is_no_stored_value_is_not_shown() {
    for bytes in [&b""[..], b"hello", b"short\x02"] {
        assert!(ValueForm::Ending { now_ms: NOW_MS }.show(bytes).is_err(), "{bytes:?}");
    }
}
