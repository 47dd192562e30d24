//! Models of the skip list.
//!
//! In models a node is on two levels half of the time, and a chunk has room for two or three.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::kept::Kept;
use sync::thread::spawn;
use thermocline_arena::skip_list::{Entry, SkipList};

/// Key, number, value.
type Copied = (Vec<u8>, u64, Vec<u8>);

fn insert(list: &SkipList, key: u8) -> bool {
    list.insert(&[key], 1, Some(&[key]))
}

fn copied(entry: Entry<'_>) -> Copied {
    let (mut key, mut value) = (Vec::new(), Vec::new());
    entry.read_key(&mut key);
    entry.read_value(&mut value);
    (key, entry.number(), value)
}

/// Checks an entry: a reader finds every entry whole.
fn check_whole((key, number, value): &Copied) {
    assert!(key.len() == 1 && *number == 1 && key == value, "half an entry: {key:?} {value:?}");
}

fn check_all(list: &SkipList, keys: &[u8]) {
    let all: Vec<Copied> = list.iter().map(copied).collect();
    all.iter().for_each(check_whole);
    let found: Vec<u8> = all.iter().map(|(key, ..)| key[0]).collect();
    assert_eq!(found, keys, "entries lost, out of order or twice");
    for key in keys {
        let found = list.seek(&[*key], 1).map(copied).expect("an entry lost to searches");
        assert_eq!(found.0, [*key], "an entry lost to searches");
    }
    assert_eq!(list.len(), keys.len());
}

/// One thread inserts, and one looks for older entries, and for entries that may be new.
///
/// The first thread is the one that inserts. Loom tries a load before an exchange of another thread
/// if the load came after it. It does not try the reverse if that thread has loaded the same
/// before.
pub fn a_reader_beside_a_writer() {
    let list = Arc::new(SkipList::new());
    // Every other entry of a list is on two levels: here 9, and 3.
    [1, 9, 5].iter().for_each(|key| assert!(insert(&list, *key)));
    let theirs = Arc::clone(&list);
    let reader = spawn(move || {
        let of = |found: Option<Entry<'_>>| {
            let found = found.map(copied).expect("an entry lost to searches");
            check_whole(&found);
            found.0[0]
        };
        assert_eq!(of(theirs.seek(&[4], 1)), 5, "an entry lost to searches");
        assert!([2, 3, 5].contains(&of(theirs.seek(&[2], 1))), "an entry lost to searches");
        assert_eq!(of(theirs.seek_before(&[9], 1)), 5, "an entry lost to searches");
    });
    assert!(insert(&list, 3));
    assert!(insert(&list, 2));
    reader.join().expect("it does not panic");
    check_all(&list, &[1, 2, 3, 5, 9]);
}

/// A reader that finds a node finds its value, which is apart from it.
pub fn a_value_apart_from_its_node() {
    const APART: [u8; 16] = [7; 16];
    let list = Arc::new(SkipList::new());
    let theirs = Arc::clone(&list);
    let reader = spawn(move || {
        let found = theirs.first().map(copied);
        assert!(found.is_none_or(|found| found.2 == APART), "half an entry");
    });
    assert!(list.insert(&[5], 1, Some(&APART)));
    reader.join().expect("it does not panic");
    assert_eq!(list.first().map(copied), Some((vec![5], 1, APART.to_vec())));
}

/// Two insert at the same place.
pub fn two_writers() {
    let list = Arc::new(SkipList::new());
    assert!(insert(&list, 9));
    let theirs = Arc::clone(&list);
    let writer = spawn(move || assert!(insert(&theirs, 5)));
    assert!(insert(&list, 4));
    writer.join().expect("it does not panic");
    check_all(&list, &[4, 5, 9]);
}

/// Two insert the same.
pub fn two_writers_of_the_same() {
    let list = Arc::new(SkipList::new());
    let theirs = Arc::clone(&list);
    let writer = spawn(move || insert(&theirs, 5));
    let is_ours = insert(&list, 5);
    let is_theirs = writer.join().expect("it does not panic");
    assert!(is_ours != is_theirs, "entries lost, out of order or twice");
    check_all(&list, &[5]);
}

/// Three threads insert, on both levels and beyond a chunk; each finds its own entry immediately.
pub fn many_writers() {
    let list = Arc::new(SkipList::new());
    let write = |list: Arc<SkipList>, keys: [u8; 3]| {
        spawn(move || {
            for key in keys {
                assert!(insert(&list, key));
                let found = list.seek(&[key], 1).map(copied).expect("an entry lost to searches");
                assert_eq!(found.0, [key], "an entry lost to searches");
            }
        })
    };
    let writers = [[1, 8, 5], [7, 2, 4], [6, 3, 9]].map(|keys| write(Arc::clone(&list), keys));
    writers.into_iter().for_each(|writer| writer.join().expect("it does not panic"));
    check_all(&list, &[1, 2, 3, 4, 5, 6, 7, 8, 9]);
}

/// Two insert into memory that another list has left, and one begins a chunk that both may bring.
pub fn two_writers_in_memory_that_was_left() {
    let kept = Arc::new(Kept::default());
    let before = SkipList::reusing(Arc::clone(&kept) as _);
    [9, 5, 3, 7].iter().for_each(|key| assert!(insert(&before, *key)));
    drop(before);
    let list = Arc::new(SkipList::reusing(Arc::clone(&kept) as _));
    assert!(insert(&list, 6));
    let theirs = Arc::clone(&list);
    let writer = spawn(move || assert!(insert(&theirs, 4)));
    assert!(insert(&list, 8));
    writer.join().expect("it does not panic");
    check_all(&list, &[4, 6, 8]);
    drop(list);
    let (found, filled) = (&kept.found, &kept.filled);
    assert_eq!(found.load(Relaxed), filled.load(Relaxed), "what was taken is told of, once");
}

/// Puts an entry of the one key whose bytes say of which number it is, and that is of another
/// length than the others.
fn put(list: &SkipList, number: u8) {
    list.put(&[5], u64::from(number), Some(&bytes_of(number)), |_| true);
}

fn bytes_of(number: u8) -> Vec<u8> {
    // Two words, two, and three.
    vec![number; [0, 10, 16, 20][usize::from(number)]]
}

/// The number of the one key's newest entry, which is whole.
fn newest_of(list: &SkipList) -> u64 {
    let newest = list.seek(&[5], u64::MAX).expect("an entry lost to searches");
    let mut value = Vec::new();
    let (number, has_value) = newest.append_version(&mut value);
    assert!(has_value && value == bytes_of(number as u8), "half an entry: {number} {value:?}");
    number
}

/// One thread replaces an entry in place, and one reads it.
pub fn a_reader_beside_one_who_replaces() {
    let list = Arc::new(SkipList::new());
    put(&list, 1);
    let theirs = Arc::clone(&list);
    let reader = spawn(move || {
        let first = newest_of(&theirs);
        assert!(first <= newest_of(&theirs), "an older one than before");
    });
    put(&list, 2);
    assert_eq!((newest_of(&list), list.len()), (2, 1));
    reader.join().expect("it does not panic");
}

/// The same, and replaces it by one that it has no room for, and that one in its turn; there are
/// others.
pub fn a_reader_beside_one_who_puts_longer() {
    let list = Arc::new(SkipList::new());
    put(&list, 1);
    assert!(insert(&list, 6));
    let theirs = Arc::clone(&list);
    let reader = spawn(move || {
        let first = newest_of(&theirs);
        assert!(first <= newest_of(&theirs), "an older one than before");
    });
    put(&list, 3);
    reader.join().expect("it does not panic");
    assert_eq!((newest_of(&list), list.len()), (3, 3));
    let key = list.seek_after(&[5], 1).map(|entry| copied(entry).0);
    assert_eq!(key, Some(vec![6]), "entries lost, out of order or twice");
}

/// Two put, each a key of their own; one reads.
pub fn a_reader_beside_two_who_put() {
    let list = Arc::new(SkipList::new());
    let theirs = Arc::clone(&list);
    let other = spawn(move || {
        for number in 1..4 {
            theirs.put(&[4], number, Some(&[4; 9]), |_| true);
        }
    });
    let theirs = Arc::clone(&list);
    put(&list, 1);
    let reader = spawn(move || {
        let numbers = [(); 3].map(|()| newest_of(&theirs));
        assert!(numbers.is_sorted(), "an older one than before");
    });
    (2..4).for_each(|number| put(&list, number));
    other.join().expect("it does not panic");
    reader.join().expect("it does not panic");
    assert_eq!((newest_of(&list), list.len()), (3, 3));
    let first = list.first().map(|entry| copied(entry).1);
    assert_eq!(first, Some(3), "entries lost, out of order or twice");
}
