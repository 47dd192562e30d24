//! An etcd of the simulation: records with revisions, and an election by a lease.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use coordinator::{Compare, Election, Revision, Store, StoreError, Versioned, Write};
use environment::{Environment, Monotonic, Random};
use rand::RngExt;
use sync::Mutex;

/// Time that a call has.
const CALL_MAX: Duration = Duration::from_secs(2);
/// The longest time of a call that reaches etcd.
const LATENCY_MAX: Duration = Duration::from_millis(3);
/// Time after which a silent leader leads no more.
const LEASE: Duration = Duration::from_secs(5);

#[derive(Debug)]
struct Leader {
    made: Revision,
    until: Monotonic,
}

#[derive(Debug, Default)]
struct State {
    records: BTreeMap<String, Versioned>,
    revision: u64,
    leader: Option<Leader>,
}

/// The etcd.
#[derive(Debug)]
pub(crate) struct Etcd {
    state: Mutex<State>,
    environment: Environment,
}

/// The leadership that a coordinator has won.
#[derive(Clone, Copy, Debug)]
struct Leadership {
    made: Revision,
    /// The end of the lease by our clock, a tenth early.
    until: Monotonic,
}

/// The etcd, as one coordinator reaches it.
#[derive(Debug)]
pub(crate) struct EtcdClient {
    etcd: Arc<Etcd>,
    environment: Environment,
    leadership: Mutex<Option<Leadership>>,
    random: Mutex<Random>,
    /// Whether the coordinator does not reach it.
    is_away: Arc<AtomicBool>,
}

impl Etcd {
    pub(crate) fn new(environment: Environment) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), environment })
    }

    /// Returns the way of a coordinator to it.
    pub(crate) fn client(
        self: &Arc<Self>,
        environment: &Environment,
        is_away: Arc<AtomicBool>,
    ) -> EtcdClient {
        let random = Mutex::new(environment.random("etcd"));
        let (etcd, environment) = (Arc::clone(self), environment.clone());
        EtcdClient { etcd, environment, leadership: Mutex::default(), random, is_away }
    }
}

impl State {
    /// Forgets a leader whose lease is over.
    fn expire(&mut self, now: Monotonic) {
        if self.leader.as_ref().is_some_and(|leader| leader.until <= now) {
            self.leader = None;
        }
    }

    fn made(&self) -> Option<Revision> {
        self.leader.as_ref().map(|leader| leader.made)
    }

    fn next_revision(&mut self) -> Revision {
        self.revision += 1;
        Revision(self.revision)
    }

    fn holds(&self, Compare { key, revision }: &Compare) -> bool {
        self.records.get(key).map(|record| record.revision) == *revision
    }

    fn write(&mut self, writes: &[Write]) {
        let revision = self.next_revision();
        for Write { key, value } in writes {
            match value.clone() {
                Some(value) => _ = self.records.insert(key.clone(), Versioned { value, revision }),
                None => _ = self.records.remove(key),
            }
        }
    }
}

impl EtcdClient {
    /// Makes a call, which takes time before and after it. One that does not reach etcd may
    /// nevertheless be made.
    fn call<T>(&self, call: impl FnOnce(&mut State, Monotonic) -> T) -> Result<T, StoreError> {
        let (before, after, is_made) = {
            let mut random = self.random.lock();
            let mut nanos = || random.random_range(0..LATENCY_MAX.as_nanos() as u64);
            let (before, after) = (nanos(), nanos());
            (before, after, random.random_bool(0.5))
        };
        self.environment.sleep(Duration::from_nanos(before));
        if self.is_away.load(SeqCst) && !is_made {
            self.environment.sleep(CALL_MAX);
            return Err(StoreError::Unavailable("etcd is away".to_owned()));
        }
        let result = {
            let now = self.etcd.environment.now();
            let mut state = self.etcd.state.lock();
            state.expire(now);
            call(&mut state, now)
        };
        self.environment.sleep(Duration::from_nanos(after));
        if self.is_away.load(SeqCst) {
            self.environment.sleep(CALL_MAX);
            return Err(StoreError::Unavailable("etcd is away".to_owned()));
        }
        Ok(result)
    }
}

impl Store for EtcdClient {
    fn get(&self, key: &str) -> Result<Option<Versioned>, StoreError> {
        self.call(|state, _| state.records.get(key).cloned())
    }

    fn list(&self, prefix: &str) -> Result<Vec<(String, Versioned)>, StoreError> {
        self.call(|state, _| {
            let records = state.records.range(prefix.to_owned()..);
            let records = records.take_while(|(key, _)| key.starts_with(prefix));
            records.map(|(key, record)| (key.clone(), record.clone())).collect()
        })
    }

    fn commit(&self, compares: &[Compare], writes: &[Write]) -> Result<bool, StoreError> {
        let Some(Leadership { made, .. }) = *self.leadership.lock() else {
            return Err(StoreError::NotLeader);
        };
        let committed = self.call(|state, _| {
            if state.made() != Some(made) {
                return Err(StoreError::NotLeader);
            }
            let holds = compares.iter().all(|compare| state.holds(compare));
            if holds {
                state.write(writes);
            }
            Ok(holds)
        })?;
        if committed == Err(StoreError::NotLeader) {
            *self.leadership.lock() = None;
        }
        committed
    }
}

impl Election for EtcdClient {
    fn campaign(&self, _name: &str) -> Result<Option<Revision>, StoreError> {
        let present = *self.leadership.lock();
        // The lease counts from before the call.
        let until = self.environment.now() + LEASE * 9 / 10;
        let made = self.call(|state, now| {
            let end = now + LEASE;
            match (&mut state.leader, present) {
                (Some(leader), Some(present)) if leader.made == present.made => {
                    leader.until = end;
                    Some(present.made)
                }
                (Some(_), _) => None,
                (None, _) => {
                    let made = state.next_revision();
                    state.leader = Some(Leader { made, until: end });
                    Some(made)
                }
            }
        })?;
        *self.leadership.lock() = made.map(|made| Leadership { made, until });
        Ok(made)
    }

    fn leads(&self) -> bool {
        let leadership = self.leadership.lock();
        leadership.is_some_and(|leadership| self.environment.now() < leadership.until)
    }

    fn resign(&self) -> Result<(), StoreError> {
        let Some(Leadership { made, .. }) = self.leadership.lock().take() else { return Ok(()) };
        self.call(|state, _| {
            if state.made() == Some(made) {
                state.leader = None;
            }
        })
    }
}
