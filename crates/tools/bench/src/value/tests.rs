//! Values prove their key, version and wholeness; the table knows which versions may be read.

use std::sync::Arc;

use environment::Environment;
use sync::locks::Mutex;

use super::*;

fn value(key: u64, version: u32, bytes: usize) -> Vec<u8> {
    let mut value = vec![0; bytes];
    fill(key, version, &mut value);
    value
}

#[test]
fn a_whole_value_names_its_version() {
    for bytes in [8, 9, 15, 16, 43, 100, 1000] {
        for version in [1, 2, 1 << 20, u32::MAX] {
            assert_eq!(verify(77, &value(77, version, bytes)), Ok(version));
        }
    }
}

#[test]
fn every_flipped_bit_and_every_cut_is_seen() {
    let whole = value(5, 3, 43);
    for bit in 0..whole.len() * 8 {
        let mut bad = whole.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(verify(5, &bad).is_err(), "bit {bit}");
    }
    for bytes in 0..whole.len() {
        assert!(verify(5, &whole[..bytes]).is_err(), "cut to {bytes}");
    }
    assert_eq!(verify(6, &whole), Err(Fault::WrongKey));
}

#[test]
fn any_mixture_of_two_versions_is_seen() {
    let (old, new) = (value(5, 3, 100), value(5, 4, 100));
    for at in 1..100 {
        let mixed = [&new[..at], &old[at..]].concat();
        assert!(verify(5, &mixed).is_err(), "torn at {at}");
        let mixed = [&old[..at], &new[at..]].concat();
        assert!(verify(5, &mixed).is_err(), "torn at {at}");
    }
}

#[test]
fn values_do_not_repeat_bytes() {
    let value = value(1, 1, 1 << 16);
    let mut counts = [0_u32; 256];
    for &byte in &value {
        counts[usize::from(byte)] += 1;
    }
    assert!(counts.iter().all(|&count| (150..370).contains(&count)), "{counts:?}");
}

#[test]
fn a_lone_write_becomes_the_floor() {
    let versions = Versions::new(1, 1, 1);
    let before = versions.before(0);
    assert_eq!(versions.check(0, before, None), Ok(()));
    for _ in 0..3 {
        let write = versions.begin(0, 0, false);
        versions.acknowledge(0, write);
    }
    let before = versions.before(0);
    assert_eq!(versions.check(0, before, Some(3)), Ok(()));
    assert_eq!(versions.check(0, before, Some(2)), Err(Fault::Stale { version: 2, floor: 3 }));
    assert_eq!(versions.check(0, before, Some(4)), Err(Fault::Unwritten { version: 4, newest: 3 }));
    assert_eq!(versions.check(0, before, None), Err(Fault::Lost { floor: 3 }));
}

#[test]
fn a_write_in_flight_may_be_read_or_not() {
    let versions = Versions::new(1, 1, 2);
    let write = versions.begin(0, 0, false);
    versions.acknowledge(0, write);
    let before = versions.before(0);
    let write = versions.begin(1, 0, false);
    for version in [1, 2] {
        assert_eq!(versions.check(0, before, Some(version)), Ok(()));
    }
    versions.acknowledge(1, write);
    assert_eq!(versions.check(0, before, Some(1)), Ok(()), "the read began before");
    assert!(versions.check(0, versions.before(0), Some(1)).is_err());
}

#[test]
fn of_overlapping_writes_either_may_be_last() {
    let versions = Versions::new(1, 1, 2);
    let first = versions.begin(0, 0, false);
    let second = versions.begin(1, 0, false);
    versions.acknowledge(1, second);
    versions.acknowledge(0, first);
    let before = versions.before(0);
    assert_eq!(versions.check(0, before, Some(1)), Ok(()));
    assert_eq!(versions.check(0, before, Some(2)), Ok(()));
    let third = versions.begin(0, 0, false);
    versions.acknowledge(0, third);
    assert!(versions.check(0, versions.before(0), Some(2)).is_err());
}

#[test]
fn a_long_write_holds_the_floor_and_lets_it_go() {
    let versions = Versions::new(1, 1, 2);
    let slow = versions.begin(0, 0, false);
    for _ in 0..10 {
        let write = versions.begin(1, 0, false);
        versions.acknowledge(1, write);
    }
    assert_eq!(versions.check(0, versions.before(0), Some(1)), Ok(()), "the slow one may be last");
    versions.acknowledge(0, slow);
    let write = versions.begin(1, 0, false);
    versions.acknowledge(1, write);
    assert!(versions.check(0, versions.before(0), Some(11)).is_err());
}

#[test]
fn a_deleted_key_may_be_absent_until_it_is_written_again() {
    let versions = Versions::new(1, 1, 1);
    let write = versions.begin(0, 0, false);
    versions.acknowledge(0, write);
    let delete = versions.begin(0, 0, true);
    versions.acknowledge(0, delete);
    let before = versions.before(0);
    assert_eq!(versions.check(0, before, None), Ok(()));
    assert!(versions.check(0, before, Some(1)).is_err(), "a deleted value came back");
    let write = versions.begin(0, 0, false);
    versions.acknowledge(0, write);
    assert!(versions.check(0, versions.before(0), None).is_err());
    assert_eq!(versions.check(0, before, None), Ok(()), "the read began while it was deleted");
}

#[test]
fn a_table_goes_on_where_another_ended() {
    let first = Versions::new(3, 3, 2);
    let write = first.begin(0, 0, false);
    first.acknowledge(0, write);
    let (one, two) = (first.begin(0, 1, false), first.begin(1, 1, false));
    first.acknowledge(1, two);
    first.acknowledge(0, one);
    assert_eq!(first.written(3), 2);
    let second = Versions::new(3, 3, 1);
    second.restore(&first.words(3).unwrap());
    assert_eq!(second.written(3), 2);
    assert!(second.check(0, second.before(0), None).is_err(), "it was written");
    assert!(second.check(0, second.before(0), Some(2)).is_err(), "it was written once");
    for either in [1, 2] {
        assert_eq!(second.check(1, second.before(1), Some(either)), Ok(()), "either was last");
    }
    assert_eq!(second.check(2, second.before(2), None), Ok(()));
    let write = second.begin(0, 0, false);
    assert_eq!(write.version, 2);
    assert_eq!(Versions::content_only(1).words(3), None);
}

/// Threads hammer three keys of a store that is right: no result may be called wrong. Then the same
/// against a store that sometimes serves the value before the last: that must be seen.
#[test]
fn concurrent_writers_and_readers_agree_with_the_table() {
    assert_eq!(hammer(false), 0);
    assert!(hammer(true) > 0);
}

fn hammer(stale: bool) -> u64 {
    const THREADS: usize = 4;
    let env = Environment::seeded(11);
    let versions = Arc::new(Versions::new(3, 3, THREADS));
    let store = Arc::new([(); 3].map(|()| Mutex::new([0_u32; 2])));
    let threads: Vec<_> = (0..THREADS)
        .map(|thread| {
            let (versions, store) = (versions.clone(), store.clone());
            let mut random = env.random(&format!("thread {thread}"));
            env.spawn("hammer", move || {
                let mut wrong = 0;
                for step in 0..30_000_u32 {
                    let number = crate::distribution::below(&mut random, 3);
                    let cell = &store[number as usize];
                    if step % 2 == 0 {
                        let write = versions.begin(thread, number, false);
                        let mut held = cell.lock();
                        *held = [write.version, held[0]];
                        drop(held);
                        versions.acknowledge(thread, write);
                    } else {
                        let before = versions.before(number);
                        let held = *cell.lock();
                        let read = held[usize::from(stale && step % 7 == 0)];
                        let read = (read > 0).then_some(read);
                        wrong += u64::from(versions.check(number, before, read).is_err());
                    }
                }
                wrong
            })
            .unwrap()
        })
        .collect();
    threads.into_iter().map(|thread| thread.join().unwrap()).sum()
}
