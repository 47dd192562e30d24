//! Locks that put writes to one key in one order.
//!
//! A write holds its keys' locks from before it takes its number until it is applied. So per key,
//! numbers, journal and engine agree on the order (law L6 of the engine contract), and a
//! read-modify-write sees the value that its own will follow.
//!
//! If no journal must agree, and the engine orders the writes of a key itself, single writes hold
//! the lock *shared*: they run at the same time. They are kept out only by sections that read and
//! then write keys ([`crate::Db::atomically`]), by batches, and by operations that end or replace
//! an engine. The keys that a transaction has read are shared the other way: between transactions
//! that only need them to stay unchanged.
//!
//! A range that is deleted may have any key, so all stripes are locked for it. It costs other
//! writers a moment, for which the engine only notes the range; the engine `memory` removes its
//! keys one by one.
//!
//! # Concurrency
//! Lock order: ascending stripe, all of a write's stripes before its number. Nothing else is locked
//! before a stripe by a thread that then waits for one. With a stripe locked no thread waits for
//! compactions. Otherwise one writer whose engine is behind would hold up all others, through a
//! thread that locks all stripes (I4 of [`crate::write`]).

use std::time::Duration;

use crossbeam_utils::CachePadded;
use environment::{Environment, LongWaits, WaitCounts};
use rand::Rng;
use sync::locks::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use sync::scheduler;

/// Stripes; a power of two, well above the number of threads that write at the same time.
const STRIPES: usize = 1024;

#[derive(Debug)]
pub(crate) struct KeyLocks {
    stripes: Box<[CachePadded<RwLock<()>>]>,
    seed: u64,
    environment: Environment,
    waits: LongWaits,
}

/// The locks of one write, held.
#[derive(Debug)]
pub(crate) enum Held<'a> {
    One { _guard: RwLockWriteGuard<'a, ()> },
    Shared { _guard: RwLockReadGuard<'a, ()> },
    Many { _guards: Vec<RwLockWriteGuard<'a, ()>> },
    Mixed { _alone: Vec<RwLockWriteGuard<'a, ()>>, _shared: Vec<RwLockReadGuard<'a, ()>> },
}

/// How a key is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Hold {
    /// Together with others that lock it so.
    Shared,
    /// Against all others.
    Alone,
}

impl KeyLocks {
    pub(crate) fn new(environment: &Environment) -> Self {
        let stripes = (0..STRIPES).map(|_| CachePadded::new(RwLock::new(()))).collect();
        let seed = environment.random("key locks").next_u64();
        Self { stripes, seed, environment: environment.clone(), waits: LongWaits::default() }
    }

    /// Returns the long waits for locks, of writers and of calls that lock every key.
    pub(crate) fn long_waits(&self) -> WaitCounts {
        self.waits.counts()
    }

    /// Locks stripes by `lock`, and counts a long wait.
    fn wait<'a>(&'a self, lock: impl FnOnce() -> Held<'a>) -> Held<'a> {
        self.waits.time(&self.environment, lock)
    }

    fn stripe(&self, keyspace: u32, key: &[u8]) -> usize {
        let hash = codec::hash64(self.seed ^ u64::from(keyspace), key);
        hash as usize % STRIPES
    }

    /// Locks one key.
    pub(crate) fn one(&self, keyspace: u32, key: &[u8]) -> Held<'_> {
        let stripe = &self.stripes[self.stripe(keyspace, key)];
        scheduler::pass();
        let guard = stripe.try_write().map(|guard| Held::One { _guard: guard });
        guard.unwrap_or_else(|| self.wait(|| Held::One { _guard: stripe.write() }))
    }

    /// Locks one key, together with others that lock it so.
    pub(crate) fn shared(&self, keyspace: u32, key: &[u8]) -> Held<'_> {
        let stripe = &self.stripes[self.stripe(keyspace, key)];
        scheduler::pass();
        let guard = stripe.try_read().map(|guard| Held::Shared { _guard: guard });
        guard.unwrap_or_else(|| self.wait(|| Held::Shared { _guard: stripe.read() }))
    }

    /// Locks one key, if that takes no longer than `wait`.
    #[inline]
    pub(crate) fn try_one(&self, keyspace: u32, key: &[u8], wait: Duration) -> Option<Held<'_>> {
        let stripe = &self.stripes[self.stripe(keyspace, key)];
        Some(Held::One { _guard: try_write(stripe, wait)? })
    }

    /// The same, shared.
    #[inline]
    pub(crate) fn try_shared(&self, keyspace: u32, key: &[u8], wait: Duration) -> Option<Held<'_>> {
        let stripe = &self.stripes[self.stripe(keyspace, key)];
        let guard = stripe.try_read();
        let guard =
            if wait.is_zero() { guard } else { guard.or_else(|| stripe.try_read_for(wait)) };
        Some(Held::Shared { _guard: guard? })
    }

    /// Locks many keys.
    pub(crate) fn many<'k>(&self, keys: impl Iterator<Item = (u32, &'k [u8])>) -> Held<'_> {
        let wanted = self.stripes_of(keys).into_iter();
        self.wait(|| Held::Many { _guards: wanted.map(|at| self.stripes[at].write()).collect() })
    }

    /// The same, if that takes no longer than `wait` for one of them, and no time for all others.
    pub(crate) fn try_many<'k>(
        &self,
        keys: impl Iterator<Item = (u32, &'k [u8])>,
        wait: Duration,
    ) -> Option<Held<'_>> {
        let mut left = wait;
        let mut lock = |at: usize| {
            self.stripes[at].try_write().or_else(|| {
                try_write(&self.stripes[at], std::mem::replace(&mut left, Duration::ZERO))
            })
        };
        let guards: Option<_> = self.stripes_of(keys).into_iter().map(&mut lock).collect();
        Some(Held::Many { _guards: guards? })
    }

    /// Returns each stripe once, ascending.
    fn stripes_of<'k>(&self, keys: impl Iterator<Item = (u32, &'k [u8])>) -> Vec<usize> {
        let mut wanted: Vec<usize> = keys.map(|(id, key)| self.stripe(id, key)).collect();
        wanted.sort_unstable();
        wanted.dedup();
        wanted
    }

    /// Locks many keys, each in the way of its `Hold`.
    pub(crate) fn these<'k>(&self, keys: impl Iterator<Item = (u32, &'k [u8], Hold)>) -> Held<'_> {
        let mut wanted: Vec<(usize, Hold)> =
            keys.map(|(id, key, hold)| (self.stripe(id, key), hold)).collect();
        wanted.sort_unstable();
        // Of one stripe's holds the strongest is the last.
        wanted.dedup_by(|later, kept| {
            let is_same = later.0 == kept.0;
            if is_same {
                kept.1 = later.1;
            }
            is_same
        });
        self.wait(|| {
            let (mut alone, mut shared) = (Vec::new(), Vec::new());
            for (stripe, hold) in wanted {
                match hold {
                    Hold::Alone => alone.push(self.stripes[stripe].write()),
                    Hold::Shared => shared.push(self.stripes[stripe].read()),
                }
            }
            Held::Mixed { _alone: alone, _shared: shared }
        })
    }

    /// Locks every key of every keyspace: a thousand locks, each waited for.
    pub(crate) fn all(&self) -> Held<'_> {
        self.wait(|| Held::Many {
            _guards: self.stripes.iter().map(|stripe| stripe.write()).collect(),
        })
    }
}

/// Locks a stripe, if that takes no longer than `wait`.
#[inline]
fn try_write(stripe: &RwLock<()>, wait: Duration) -> Option<RwLockWriteGuard<'_, ()>> {
    let guard = stripe.try_write();
    if wait.is_zero() { guard } else { guard.or_else(|| stripe.try_write_for(wait)) }
}
