//! No more seats than there may be, and the way out where there is none.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

use device::Doorbell;
use engine::{Begun, BegunOld, Error, Listener, Result, Seat};

use super::{SEATS_MAX, SPARE_MAX, SeatPool};

/// A seat that is counted while it is there.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

impl Seat for Counted {
    fn begin_get(&mut self, _: u64, _: &[u8], _: &mut Vec<u8>) -> Result<Begun> {
        Ok(Begun::Absent)
    }

    fn begin_old(&mut self, _: u64, _: &[u8]) -> Result<BegunOld> {
        Ok(BegunOld::AtOnce)
    }

    fn complete(&mut self, _: bool, _: &mut dyn Listener) -> Result<usize> {
        Ok(0)
    }

    fn pending(&self) -> usize {
        0
    }

    fn ring(&mut self, _: &Arc<Doorbell>) -> Result<()> {
        Ok(())
    }
}

#[test]
fn who_finds_all_seats_lent_waits_for_one() {
    let (pool, there) = (SeatPool::default(), Arc::new(AtomicUsize::new(0)));
    let make = || {
        assert!(there.fetch_add(1, SeqCst) < SEATS_MAX, "one too many");
        Ok(Some(Box::new(Counted(Arc::clone(&there))) as Box<dyn Seat>))
    };
    std::thread::scope(|scope| {
        for _ in 0..2 * SEATS_MAX {
            scope.spawn(|| {
                for _ in 0..200 {
                    let mut lent = pool.lend(make).expect("there is one in the end");
                    std::thread::yield_now();
                    assert_eq!(lent.get().pending(), 0);
                }
            });
        }
    });
    let left = there.load(SeqCst);
    assert!((1..=SPARE_MAX).contains(&left), "{left} seats are kept");
    // No seat was lost on the way.
    let all: Vec<_> = (0..SEATS_MAX).map(|_| pool.lend(make).expect("one of all")).collect();
    drop(all);
    assert_eq!(there.load(SeqCst), SPARE_MAX);
}

#[test]
fn who_cannot_make_one_waits_for_anothers_or_goes_without() {
    let (pool, there) = (SeatPool::default(), Arc::new(AtomicUsize::new(0)));
    let fails = AtomicBool::new(true);
    let make = || match fails.load(SeqCst) {
        true => Err(Error::Closed),
        false => {
            there.fetch_add(1, SeqCst);
            Ok(Some(Box::new(Counted(Arc::clone(&there))) as Box<dyn Seat>))
        }
    };
    assert!(pool.lend(make).is_none(), "there is none");
    assert!(pool.lend(|| Ok(None)).is_none(), "nor from an engine without seats");
    fails.store(false, SeqCst);
    let only = pool.lend(make).expect("it is made");
    fails.store(true, SeqCst);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| pool.lend(make).is_some());
        drop(only);
        assert!(waiting.join().expect("it does not panic"), "it was given back");
    });
    assert_eq!(there.load(SeqCst), 1);
}
