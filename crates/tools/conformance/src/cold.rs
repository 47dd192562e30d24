//! Lookups of keys that only the device has, and tests of them that are the same for several
//! engines.

use engine::{At, Engine, Error};
use reads::BlockingReads;

use crate::bench::{Cranked, key};
use crate::in_flight::{Ended, InFlight, LookupStart};

/// Keys that are put.
const KEYS: u64 = 500;

/// Puts 500 keys, and deletes every third one. Flushes in between if `flushes` says so.
///
/// # Panics
/// If a call fails.
pub fn fill<S: Engine>(bench: &Cranked<S>, flushes: bool) {
    (0..KEYS).for_each(|number| _ = bench.put(&key(number), &[number as u8; 50]));
    if flushes {
        bench.store.flush().expect("memory takes it");
    }
    (0..KEYS).step_by(3).for_each(|number| _ = bench.delete(&key(number)));
    bench.store.flush().expect("memory takes it");
}

/// Returns the value of a key after [`fill`].
pub fn expected(number: u64) -> Option<Vec<u8>> {
    (number < KEYS && !number.is_multiple_of(3)).then(|| vec![number as u8; 50])
}

/// Returns the end of a lookup of a key after [`fill`].
pub fn ended(number: u64, is_newest: bool) -> Option<Ended> {
    Some(Ended { value: Ok(expected(number)), is_newest })
}

/// Gets many keys by one call, one of which is in memory.
///
/// # Panics
/// If a value is wrong, or is returned twice.
pub fn check_multi_get<S: Engine>(bench: &Cranked<S>) {
    bench.put(&key(7), b"in memory");
    let numbers: Vec<u64> = (0..600).map(|at| at * 7 % 510).collect();
    let keys: Vec<Vec<u8>> = numbers.iter().map(|number| key(*number)).collect();
    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let mut found = vec![None; keys.len()];
    let mut each = |index: usize, value: Option<&[u8]>| {
        assert!(found[index].is_none(), "key {index} twice");
        found[index] = Some(value.map(<[u8]>::to_vec));
    };
    bench.store.multi_get(&keys, &mut each).expect("nothing is damaged");
    for (number, found) in numbers.iter().zip(found) {
        let expected = if *number == 7 { Some(b"in memory".to_vec()) } else { expected(*number) };
        assert_eq!(found, Some(expected), "{number}");
    }
}

/// Looks up all keys with room for four lookups in flight.
///
/// # Panics
/// If a value is wrong, or more or fewer lookups are in flight.
pub fn check_depth<S: Engine>(bench: &Cranked<S>) {
    let mut reads = bench.in_flight(4);
    let mut most = 0;
    for number in 0..KEYS {
        loop {
            match reads.begin(number, &key(number), At::Newest).expect("nothing is damaged") {
                LookupStart::Found(value) => assert_eq!(expected(number), Some(value)),
                LookupStart::Absent => assert_eq!(expected(number), None),
                LookupStart::Pending => {}
                LookupStart::Full => {
                    assert_eq!(reads.pending(), 4);
                    reads.complete(true);
                    continue;
                }
            }
            break;
        }
        most = most.max(reads.pending());
    }
    reads.finish();
    assert_eq!(most, 4);
    assert!(reads.ended.len() > 50, "{} had to be read", reads.ended.len());
    for (number, end) in &reads.ended {
        assert_eq!(end.value, Ok(expected(*number)), "{number}");
    }
}

/// Closes the store while a lookup is in flight.
///
/// # Panics
/// If a lookup does not end with [`Error::Closed`].
pub fn check_close<S: Engine>(bench: &Cranked<S>) {
    let mut reads = bench.in_flight(4);
    assert_eq!(reads.begin(1, &key(1), At::Newest), Ok(LookupStart::Pending));
    bench.store.close().expect("closes");
    assert_eq!(reads.begin(2, &key(1), At::Newest), Err(Error::Closed));
    assert_eq!(reads.begin(2, b"k", At::ForUpdate), Err(Error::Closed));
    reads.finish();
    assert_eq!(reads.ended[&1].value, Err(Error::Closed));
}

impl<S: Engine> Cranked<S> {
    /// Makes room for `depth` lookups in flight.
    pub fn in_flight(&self, depth: usize) -> InFlight<'_> {
        InFlight::new(&self.store, depth, &self.budget)
    }
}
