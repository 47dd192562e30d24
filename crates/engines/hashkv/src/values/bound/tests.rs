//! Tests of the bound: promises are enough.

use environment::Seed;
use rand::RngExt;

use super::*;

#[test]
fn each_user_has_a_limit_of_its_own() {
    let bound = Bound::new(64 << 10, 2);
    let segment = 64 << 10;
    bound.set_limit(16 * segment);
    assert!(bound.try_take(10 * segment, User::Grows));
    assert!(!bound.try_take(1, User::Grows));
    assert_eq!(bound.missing(5, User::Grows), 5);
    assert!(bound.try_take(2 * segment, User::Replaces));
    assert!(!bound.try_take(1, User::Replaces));
    assert_eq!(bound.take_for_job(100), JOB_SEGMENTS);
    assert_eq!(bound.allocated(), 16 * segment);
    bound.release(12 * segment);
    assert_eq!(bound.take_for_job(100), 6, "a job leaves the segments of writes");
}

#[test]
fn promises_count_until_they_are_withdrawn() {
    let bound = Bound::new(64 << 10, 1);
    bound.set_limit(8 << 20);
    assert!(bound.promise(0, 1 << 20, Some(User::Grows)));
    assert_eq!((bound.allocated(), bound.promised()), (0, 1 << 20));
    assert!(!bound.promise(1 << 20, 9 << 20, Some(User::Grows)));
    assert!(bound.promise(1 << 20, 9 << 20, None), "a replay passes the limit");
    assert!(bound.promise(9 << 20, 0, Some(User::Grows)));
    assert_eq!((bound.allocated(), bound.promised()), (0, 0));
}

/// Invariant B2, for records of random lengths in segments of all sizes: an append that begins a
/// segment had it promised, and no append needs more promises than there were.
#[test]
fn appends_need_no_more_than_was_promised() {
    let mut random = Seed::from(3).stream("hashkv bound");
    for round in 0..2000 {
        let segment_bytes = 8_u64 << 10 << random.random_range(0..8_u32);
        let longest = segment_bytes / 2;
        let records: Vec<u64> = (0..random.random_range(1..40))
            .map(|_| charge(random.random_range(1..=longest) as usize))
            .collect();
        let mut free = random.random_range(0..=segment_bytes);
        let mut reserved: u64 = records.iter().sum();
        let mut promised = segments_for(reserved, free, segment_bytes);
        for charged in records {
            // A record may take less than its charge.
            let taken = random.random_range(1..=charged);
            reserved -= charged;
            let mut begun = 0;
            if taken > free || random.random_bool(0.2) && charged > free {
                (free, begun) = (segment_bytes, 1);
            }
            free -= taken;
            let needed = segments_for(reserved, free, segment_bytes);
            assert!(needed + begun <= promised, "round {round}: {needed} + {begun} > {promised}");
            promised = needed;
        }
        assert_eq!(promised, 0);
    }
}
