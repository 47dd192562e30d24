//! A child of a fork leaves values of its parent alone.

use std::cell::Cell;
use std::sync::Barrier;
use std::thread;

use sync::locks::Mutex;

use super::testing::Child;
use super::*;
use crate::{Error, open};

struct Loud<'a>(&'a Cell<u32>);

impl Drop for Loud<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}

#[test]
fn a_child_forgets_a_value_of_its_parent() {
    let parent = Process::current();
    let drops = Cell::new(0);
    let value = OfProcess::new(Loud(&drops));
    let child = Child::fork(|_| {
        let is_other = !parent.is_current() && parent.forked().opened_by == parent.id;
        drop(value);
        let own = OfProcess::new(Loud(&drops));
        drop(own);
        format!("{is_other} {}", drops.get())
    });
    assert_eq!(child.join(), "true 1", "the child drops only its own value");
    assert!(parent.is_current());
}

#[test]
fn a_child_does_not_unlock_its_parents_file() {
    let dir = tempfile::tempdir().unwrap();
    let device = open(dir.path(), crate::Options::default()).unwrap();
    let mut lock = Some(device.lock("LOCK").unwrap());
    let child = Child::fork(|_| {
        drop(lock.take());
        let other = open(dir.path(), crate::Options::default()).unwrap();
        format!("{:?}", other.lock("LOCK").map(drop))
    });
    let refused = Err::<(), _>(Error::Locked { name: "LOCK".to_owned() });
    assert_eq!(child.join(), format!("{refused:?}"));
    let other = open(dir.path(), crate::Options::default()).unwrap();
    assert!(matches!(other.lock("LOCK"), Err(Error::Locked { .. })), "it is locked still");
}

/// After a fork, a lock that another thread held stays locked in the child. Nothing that a child
/// needs may be so.
#[test]
fn a_child_makes_statics_again() {
    static LOCKED: PerProcess<Mutex<Vec<u32>>> = PerProcess::new(Mutex::default);
    let mut held = LOCKED.lock();
    held.push(1);
    let child = Child::fork(|_| {
        LOCKED.lock().push(2);
        format!("{:?}", *LOCKED.lock())
    });
    assert_eq!(child.join(), "[2]", "the child has a value of its own");
    assert_eq!(*held, [1]);
}

#[test]
fn threads_share_a_static_of_their_process() {
    static COUNT: PerProcess<AtomicU32> = PerProcess::new(AtomicU32::default);
    const THREADS: u32 = 4;
    let start = Barrier::new(THREADS as usize);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                start.wait();
                COUNT.fetch_add(1, Relaxed);
            });
        }
    });
    assert_eq!(COUNT.load(Relaxed), THREADS);
}
