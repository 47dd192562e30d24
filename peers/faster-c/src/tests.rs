//! One thread, and two, against the written values.

use crate::{Begun, Session, Store};

const KEYS: u64 = 5_000;
/// A table of these keys, and the smallest log.
const MEMORY_BYTES: u64 = 200 << 20;

#[test]
fn pairs_are_read_exchanged_and_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), KEYS, MEMORY_BYTES).unwrap();
    let mut session = Session::new(&store, 32);
    assert_eq!(session.get(7).unwrap(), None);
    session.put(7, b"seven").unwrap();
    assert_eq!(session.get(7).unwrap(), Some(&b"seven"[..]));
    session.put(7, b"a longer seven").unwrap();
    assert_eq!(session.exchange(7, b"7").unwrap(), Some(&b"a longer seven"[..]));
    assert_eq!(session.get(7).unwrap(), Some(&b"7"[..]));
    assert_eq!(session.exchange(8, b"eight").unwrap(), None);
    session.delete(7).unwrap();
    assert_eq!(session.get(7).unwrap(), None);
    assert!(session.put(9, &vec![0; crate::VALUE_BYTES_MAX + 1]).is_err());
}

#[test]
fn what_went_to_the_disk_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), KEYS, MEMORY_BYTES).unwrap();
    let value = |key: u64| key.to_le_bytes().repeat(VALUE_WORDS);
    const VALUE_WORDS: usize = 7_500;
    let mut session = Session::new(&store, 32);
    for key in 0..KEYS {
        session.put(key, &value(key)).unwrap();
    }
    let mut pending = 0;
    for key in 0..32 {
        pending += u32::from(session.begin_get(key, key) == Begun::Pending);
    }
    assert_eq!(session.begin_get(32, 32), Begun::Full);
    assert!(pending > 0, "300 MB of pairs are in 192 MiB of log");
    let mut done = 0;
    while done < pending {
        for tag in session.complete(true) {
            assert_eq!(session.outcome(tag).unwrap(), Some(&*value(tag)));
            done += 1;
        }
    }
    if session.begin_exchange(0, 100, b"new").unwrap() == Begun::Pending {
        assert_eq!(session.complete(true), [0]);
    }
    assert_eq!(session.outcome(0).unwrap(), Some(&*value(100)));
    assert_eq!(session.get(100).unwrap(), Some(&b"new"[..]));
}

#[test]
fn no_exchange_of_two_threads_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), KEYS, MEMORY_BYTES).unwrap();
    const EACH: u64 = 20_000;
    // Exactly one exchange returns each value but the last.
    let told: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..2)
            .map(|thread| {
                let store = &store;
                scope.spawn(move || {
                    let mut session = Session::new(store, 1);
                    let numbers = (0..EACH).map(|number| 2 * number + thread + 1);
                    numbers
                        .map(|number| {
                            let old = session.exchange(1, &number.to_le_bytes()).unwrap();
                            old.map_or(0, |old| u64::from_le_bytes(old.try_into().unwrap()))
                        })
                        .sum::<u64>()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    let mut session = Session::new(&store, 32);
    let last = u64::from_le_bytes(session.get(1).unwrap().unwrap().try_into().unwrap());
    assert_eq!(told + last, (1..=2 * EACH).sum());
}

#[test]
fn too_little_memory_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let refused = Store::open(dir.path(), KEYS, 100 << 20).err().unwrap().to_string();
    assert!(refused.contains("at least 193 MiB"), "{refused}");
}
