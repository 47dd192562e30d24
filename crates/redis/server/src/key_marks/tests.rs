//! A key is never reported as idle for longer than it was, nor with the encoding of another key.

use super::uses::SLOTS;
use super::{ENCODING_SLOTS, Encoding, KeyMarks};

const START_MS: u64 = 1_700_000_000_000;

#[test]
fn a_key_is_idle_since_its_last_use() {
    let marks = KeyMarks::new(START_MS);
    assert_eq!(marks.idle_s(0, b"k", START_MS), 0);
    assert_eq!(marks.idle_s(0, b"k", START_MS + 5000), 5, "since the start");
    marks.note_use(0, b"k", START_MS + 5000);
    assert_eq!(marks.idle_s(0, b"k", START_MS + 5999), 0);
    assert_eq!(marks.idle_s(0, b"k", START_MS + 9000), 4);
    assert_eq!(marks.idle_s(1, b"k", START_MS + 9000), 9, "another database's");
    // A clock that was set back makes a key seem used.
    assert_eq!(marks.idle_s(0, b"k", START_MS - 9000), 0);
    marks.note_value(0, b"k", START_MS + 10_000, Encoding::Shortest);
    assert_eq!(marks.idle_s(0, b"k", START_MS + 13_000), 3);
}

#[test]
fn an_encoding_is_known_until_the_next_value() {
    let marks = KeyMarks::new(START_MS);
    assert_eq!(marks.encoding(0, b"k"), Encoding::Shortest);
    for encoding in [Encoding::Raw, Encoding::Text, Encoding::Shortest] {
        marks.note_value(0, b"k", START_MS, encoding);
        marks.note_use(0, b"k", START_MS + 3000);
        assert_eq!(marks.encoding(0, b"k"), encoding);
        assert_eq!(marks.encoding(1, b"k"), Encoding::Shortest);
    }
}

#[test]
fn a_new_second_forgets_no_use() {
    let marks = KeyMarks::new(START_MS);
    let key = |number: u64| format!("key:{number}").into_bytes();
    for second in 1..200 {
        marks.note_use(0, &key(second), START_MS + second * 1000);
        for before in 1..=second {
            let idle_s = u64::from(marks.idle_s(0, &key(before), START_MS + second * 1000));
            assert!(idle_s <= second - before, "{idle_s} s after {before} and {second}");
        }
    }
    assert_eq!(marks.idle_s(0, &key(1), START_MS + 200_000), 199);
}

#[test]
fn threads_that_share_a_table_lose_no_use() {
    let marks = KeyMarks::new(START_MS);
    std::thread::scope(|scope| {
        for number in 0..8_u64 {
            let marks = &marks;
            scope.spawn(move || {
                let key = format!("key:{number}").into_bytes();
                for second in 1..2000 {
                    let now_ms = START_MS + second * 1000;
                    marks.note_use(0, &key, now_ms);
                    assert_eq!(marks.idle_s(0, &key, now_ms), 0, "{number} in {second}");
                }
            });
        }
    });
}

#[test]
fn keys_that_share_a_slot_seem_used() {
    let marks = KeyMarks::new(START_MS);
    let key = |number: usize| format!("key:{number}").into_bytes();
    (1..100 * SLOTS).for_each(|number| marks.note_use(0, &key(number), START_MS + 60_000));
    assert_eq!(marks.idle_s(0, &key(0), START_MS + 90_000), 30);
}

#[test]
fn keys_that_share_a_slot_never_have_each_others_encoding() {
    let marks = KeyMarks::new(START_MS);
    let key = |number: usize| format!("key:{number}").into_bytes();
    let is_raw = |number: &usize| marks.encoding(0, &key(*number)) == Encoding::Raw;
    marks.note_value(0, &key(0), START_MS, Encoding::Raw);
    // Values of other keys leave it in place.
    let keys = 4 * ENCODING_SLOTS;
    (1..keys).for_each(|number| marks.note_value(0, &key(number), START_MS, Encoding::Shortest));
    assert_eq!((0..keys).filter(is_raw).collect::<Vec<_>>(), [0]);
    (0..keys).for_each(|number| marks.note_value(0, &key(number), START_MS, Encoding::Raw));
    assert!((0..keys).filter(is_raw).count() <= ENCODING_SLOTS);
}
