//! The reports of an LTC to the coordinator, and the ranges that it opens and closes for it.
//!
//! 1. A thread reports the ranges of this LTC, and gets a lease and orders.
//! 2. Threads open, move and close ranges, the steps of one range in order.
//! 3. A range is reported from its order on until it is closed, and the coordinator has noted that.
//!
//! A range moves so: the owner flushes it while it serves, notes that it leaves the range, takes no
//! more requests, closes it, and notes that. Then the coordinator orders the next owner to open it.

mod metrics;

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use coordinator::Error as ReportError;
use coordinator::{Beat, BeatReply, Coordinator, Order, Owner, RangeState, RemoteStore};
use environment::{Environment, JoinHandle, Monotonic};
use logc::Closing;
use stoc::{Epoch, RangeId};
use sync::{Condvar, Mutex};
use thermocline::{Registry, SharedMemory, SharedParts};
use wire::Lanes;

use crate::error::{Error, Result};
use crate::lease::Lease;
use crate::ltc::Ltc;
use crate::memory;
use crate::metrics::RangeCounts;
use crate::remote_stocs::RemoteStocs;
use crate::served::{Served, Waits};
use crate::service::RangeService;

/// Threads that open, move and close ranges.
const THREADS: usize = 16;
/// Time after which a close waits for no StoC any more.
const CLOSE_MAX: Duration = Duration::from_secs(10);
/// Threads of requests that may wait for room.
const WAITS_MAX: usize = 4;
/// Flushes of a range before it moves. Each one leaves less for the next.
const FLUSHES: usize = 2;
/// Time between two looks at tables and StoCs.
const UPKEEP: Duration = Duration::from_secs(10);
/// Time between two looks at write logs in memory.
const WEAK_LOOK: Duration = Duration::from_secs(1);
/// Time between two attempts to reach the coordinator.
const RETRY: Duration = Duration::from_millis(200);

/// How ranges are opened for clients.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// Memory of all ranges in bytes: 4 MiB for each at least. A range begins with at most an
    /// eighth of it. Then memory moves to the ranges that save most with it.
    pub memory_bytes: u64,
    /// How the database of a range is opened, but for its memory and its shared parts.
    pub database: thermocline::Options,
    /// The parts that all ranges share. If `shared.memory` is none, it is made of `memory_bytes`.
    pub shared: SharedParts,
}

/// The state of a range in this process.
#[derive(Debug)]
enum Held {
    Opening,
    Serving(Arc<Served>),
    /// It is flushed, and leaves then.
    Moving(Arc<Served>),
    Closing,
}

/// A range in this process.
#[derive(Debug)]
struct Holding {
    held: Held,
    /// Ends its calls that wait for StoCs.
    closing: Closing,
    /// The time at which it began to close.
    since: Option<Monotonic>,
}

/// The reports of an LTC.
pub struct Beats {
    shared: Arc<Shared>,
    jobs: Arc<Lanes<RangeId>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// The parts of the LTC.
struct Parts {
    ltc: Arc<Ltc>,
    stocs: Arc<RemoteStocs>,
    service: Arc<RangeService>,
}

/// The ways to the coordinator.
struct Records {
    store: Arc<RemoteStore>,
    coordinator: Arc<Coordinator>,
}

struct Shared {
    parts: Parts,
    records: Records,
    owner: Owner,
    lease: Arc<Lease>,
    waits: Arc<Waits>,
    options: ServeOptions,
    environment: Environment,
    ranges: Mutex<BTreeMap<RangeId, Holding>>,
    control: Mutex<Control>,
    changed: Condvar,
    /// Why this LTC serves no more: a later start has reported.
    failure: Mutex<Option<Error>>,
    is_stopping: AtomicBool,
}

#[derive(Debug, Default)]
struct Control {
    /// The next report is due.
    is_due: bool,
    is_stopped: bool,
}

impl Beats {
    /// Starts to report, and to serve ranges by orders of the coordinator.
    ///
    /// # Errors
    /// [`Error::Thread`].
    pub fn start(
        (ltc, stocs): (Arc<Ltc>, Arc<RemoteStocs>),
        (store, coordinator): (Arc<RemoteStore>, Arc<Coordinator>),
        service: Arc<RangeService>,
        mut options: ServeOptions,
        environment: &Environment,
    ) -> Result<Self> {
        let owner = ltc.owner();
        let bytes = options.memory_bytes;
        options.shared.memory.get_or_insert_with(|| SharedMemory::new(bytes));
        let shared = Arc::new(Shared {
            parts: Parts { ltc, stocs, service },
            records: Records { store, coordinator },
            owner,
            lease: Arc::new(Lease::new(environment)),
            waits: Arc::new(Waits::new(WAITS_MAX)),
            options,
            environment: environment.clone(),
            ranges: Mutex::default(),
            control: Mutex::default(),
            changed: Condvar::new(),
            failure: Mutex::default(),
            is_stopping: AtomicBool::new(false),
        });
        let jobs = Lanes::new("ltc ranges", THREADS, environment);
        let jobs = Arc::new(jobs.map_err(|error| Error::Thread(error.to_string()))?);
        let beats = Self { shared: Arc::clone(&shared), jobs, threads: Mutex::default() };
        let (of_beats, jobs) = (Arc::clone(&shared), Arc::clone(&beats.jobs));
        beats.spawn("ltc beats", move || of_beats.report(&jobs))?;
        beats.spawn("ltc upkeep", move || shared.keep_up())?;
        Ok(beats)
    }

    fn spawn(&self, name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
        let thread = self.shared.environment.spawn(name, work);
        let thread = thread.map_err(|error| Error::Thread(error.to_string()))?;
        self.threads.lock().push(thread);
        Ok(())
    }

    /// Returns why this LTC serves no more, if so.
    pub fn failure(&self) -> Option<Error> {
        self.shared.failure.lock().clone()
    }

    /// Returns the ranges that serve clients.
    pub fn served(&self) -> Vec<RangeId> {
        let ranges = self.shared.ranges.lock();
        let served = ranges.iter().filter(|(_, holding)| holding.served().is_some());
        served.map(|(range, _)| *range).collect()
    }

    /// Closes all ranges, and notes that, so that other LTCs can open them. Waits at most `limit`
    /// for that. Then the reports end.
    pub fn stop(&self, limit: Duration) {
        let Shared { environment, ranges, .. } = &*self.shared;
        self.shared.is_stopping.store(true, SeqCst);
        let deadline = environment.now() + limit;
        loop {
            // An order that came before the end is followed, and closed here.
            let all: Vec<RangeId> = ranges.lock().keys().copied().collect();
            if all.is_empty() || environment.now() >= deadline {
                break;
            }
            all.into_iter().for_each(|range| self.shared.close(&self.jobs, range));
            environment.sleep(Duration::from_millis(5));
        }
        self.shared.control.lock().is_stopped = true;
        self.shared.changed.notify_all();
        self.shared.parts.ltc.abandon();
        for thread in std::mem::take(&mut *self.threads.lock()) {
            let _ended = thread.join();
        }
        self.jobs.stop();
    }
}

impl Drop for Beats {
    fn drop(&mut self) {
        self.shared.parts.ltc.abandon();
        self.stop(Duration::ZERO);
    }
}

impl Holding {
    fn served(&self) -> Option<&Arc<Served>> {
        match &self.held {
            Held::Serving(served) | Held::Moving(served) => Some(served),
            Held::Opening | Held::Closing => None,
        }
    }
}

impl Shared {
    /// The work of the thread that reports.
    fn report(self: &Arc<Self>, jobs: &Arc<Lanes<RangeId>>) {
        let (mut number, mut term) = (0, 0);
        loop {
            number += 1;
            let is_ending = self.is_stopping.load(SeqCst);
            let ranges = self.ranges.lock().keys().copied().collect();
            let beat = Beat { owner: self.owner, number, term, is_ending, ranges };
            let sent = self.environment.now();
            let next = match self.records.store.beat(&beat) {
                Ok(reply) => {
                    // The lease does not cover the ranges that are to be closed. [R4]
                    reply.close.iter().for_each(|range| self.close(jobs, *range));
                    self.lease.extend(sent + reply.lease * 9 / 10);
                    let next = reply.next;
                    term = reply.term;
                    self.follow(jobs, reply);
                    next
                }
                Err(error @ (ReportError::OldStart { .. } | ReportError::Replaced { .. })) => {
                    *self.failure.lock() = Some(error.into());
                    RETRY
                }
                Err(_) => RETRY,
            };
            self.close_lost(jobs);
            self.hurry_closes();
            let mut control = self.control.lock();
            let end = self.environment.now() + next;
            while !control.is_stopped && !control.is_due && self.environment.now() < end {
                self.changed.wait_for(&mut control, end - self.environment.now());
            }
            control.is_due = false;
            if control.is_stopped {
                return;
            }
        }
    }

    /// Has the next report follow now.
    fn ring(&self) {
        self.control.lock().is_due = true;
        self.changed.notify_all();
    }

    /// Ends the calls of closes that have waited for StoCs for too long. (R2)
    fn hurry_closes(&self) {
        let now = self.environment.now();
        let ranges = self.ranges.lock();
        let is_late = |holding: &&Holding| holding.since.is_some_and(|at| now - at > CLOSE_MAX);
        ranges.values().filter(is_late).for_each(|holding| holding.closing.close());
    }

    /// Does a job of a range. One that ends by a fault of the program leaves the range to others.
    fn run(&self, range: RangeId, job: impl FnOnce()) {
        if catch_unwind(AssertUnwindSafe(job)).is_err() {
            self.parts.service.remove(range);
            self.parts.ltc.close_device(range);
            let mut ranges = self.ranges.lock();
            // No lease that is extended after this covers it. [R4]
            ranges.get(&range).and_then(Holding::served).into_iter().for_each(|it| it.uncover());
            self.forget(&mut ranges, range);
        }
    }

    /// Ends the holding of a range, and its metrics.
    fn forget(&self, ranges: &mut BTreeMap<RangeId, Holding>, range: RangeId) {
        self.registry_of(range).forget();
        ranges.remove(&range);
    }

    /// Returns the registry of the metrics of a range.
    fn registry_of(&self, range: RangeId) -> Registry {
        let number = range.to_string();
        self.options.shared.telemetry.with_labels(&[("range", &number)])
    }

    /// Does what the coordinator wants.
    fn follow(self: &Arc<Self>, jobs: &Arc<Lanes<RangeId>>, reply: BeatReply) {
        for range in reply.moving {
            let mut ranges = self.ranges.lock();
            let Some(holding) = ranges.get_mut(&range) else { continue };
            if let Held::Serving(served) = &holding.held {
                let served = Arc::clone(served);
                holding.held = Held::Moving(Arc::clone(&served));
                let shared = Arc::clone(self);
                jobs.add(Some(range), move || shared.run(range, || shared.move_away(&served)));
            }
        }
        if self.is_stopping.load(SeqCst) {
            return;
        }
        for order in reply.open {
            let mut ranges = self.ranges.lock();
            if ranges.contains_key(&order.range) {
                continue;
            }
            let (memory_bytes, open) = (self.options.memory_bytes, ranges.len());
            if !memory::has_room(memory_bytes, open) {
                let error = Error::NoMemory { memory_bytes, open };
                eprintln!("thermocline: range {} is not opened: {error}", order.range);
                continue;
            }
            let closing = self.parts.ltc.closing().child();
            let holding = Holding { held: Held::Opening, closing: closing.clone(), since: None };
            ranges.insert(order.range, holding);
            self.parts.service.begin(order.range);
            let shared = Arc::clone(self);
            jobs.add(Some(order.range), move || {
                shared.run(order.range, || shared.open(order, closing));
            });
        }
    }

    /// Opens a range, and serves it.
    fn open(&self, order: Order, closing: Closing) {
        let range = order.range;
        let opened = self.try_open(order, closing);
        let mut ranges = self.ranges.lock();
        // A close that was wanted meanwhile follows as the next job.
        let holding = ranges.get_mut(&range).filter(|it| matches!(it.held, Held::Opening));
        match (opened, holding) {
            (Ok(served), Some(holding)) => {
                let served = Arc::new(served);
                holding.held = Held::Serving(Arc::clone(&served));
                self.parts.service.add(served, RangeCounts::new(&self.registry_of(range)));
            }
            (Ok(served), None) => {
                drop(ranges);
                served.end();
            }
            (Err(error), holding) => {
                let is_ours = holding.is_some();
                if is_ours {
                    self.parts.service.remove(range);
                    self.forget(&mut ranges, range);
                }
                drop(ranges);
                eprintln!("thermocline: range {range} was not opened: {error}");
            }
        }
    }

    fn try_open(&self, order: Order, closing: Closing) -> Result<Served> {
        let ServeOptions { database, shared, .. } = &self.options;
        let shared = SharedParts {
            telemetry: self.registry_of(order.range),
            pause_expiry: shared.pause_expiry.clone(),
            memory: shared.memory.clone(),
        };
        let memory_bytes = memory::of_range(self.options.memory_bytes);
        let options =
            thermocline::Options { memory_bytes, shared: Some(shared), ..database.clone() };
        self.parts.stocs.refresh()?;
        let (descriptor, log, db) = self.parts.ltc.open_ordered(order, options, closing)?;
        let of_ltc = (Arc::clone(&self.lease), Arc::clone(&self.waits));
        let served = Served::open((&descriptor, log), &db, of_ltc, &self.environment);
        if served.is_err() {
            let _ = self.parts.ltc.close_range(order.range);
        }
        served
    }

    /// Flushes a range while it serves, and leaves it then.
    fn move_away(&self, served: &Arc<Served>) {
        let range = served.id();
        for _ in 0..FLUSHES {
            // Without a flush the next owner has more to replay.
            let _ = self.parts.ltc.flush(range);
        }
        let leaves = self.records.coordinator.leave(range, served.epoch()).is_ok();
        let is_moving = {
            let mut ranges = self.ranges.lock();
            let holding = ranges.get_mut(&range).filter(|it| matches!(it.held, Held::Moving(_)));
            match holding {
                Some(holding) if leaves => {
                    // No lease that is extended after this covers it. [R4]
                    served.uncover();
                    (holding.held, holding.since) = (Held::Closing, Some(self.environment.now()));
                    true
                }
                Some(holding) => {
                    // It is to stay, or the coordinator cannot be reached: the next report says so.
                    holding.held = Held::Serving(Arc::clone(served));
                    false
                }
                // A close that was wanted meanwhile follows as the next job.
                None => false,
            }
        };
        if is_moving {
            self.finish(range, Some(served));
        }
        self.ring();
    }

    /// Closes a range.
    fn close(self: &Arc<Self>, jobs: &Arc<Lanes<RangeId>>, range: RangeId) {
        let mut ranges = self.ranges.lock();
        let Some(holding) = ranges.get_mut(&range) else { return };
        let served = match &holding.held {
            Held::Closing => return,
            // It is not to wait for StoCs any more.
            Held::Opening => {
                holding.closing.close();
                None
            }
            Held::Serving(served) | Held::Moving(served) => Some(Arc::clone(served)),
        };
        (holding.held, holding.since) = (Held::Closing, Some(self.environment.now()));
        // No lease that is extended after this covers it. [R4]
        served.iter().for_each(|served| served.uncover());
        self.parts.service.remove(range);
        drop(ranges);
        let shared = Arc::clone(self);
        jobs.add(Some(range), move || {
            shared.run(range, || shared.finish(range, served.as_ref()));
            shared.ring();
        });
    }

    /// Closes the ranges that have another owner.
    fn close_lost(self: &Arc<Self>, jobs: &Arc<Lanes<RangeId>>) {
        let lost: Vec<RangeId> = {
            let ranges = self.ranges.lock();
            let is_lost = |holding: &Holding| holding.served().is_some_and(|it| it.is_lost());
            ranges.iter().filter(|(_, it)| is_lost(it)).map(|(range, _)| *range).collect()
        };
        lost.into_iter().for_each(|range| self.close(jobs, range));
    }

    /// Ends the service of a range, closes it and notes that. Then the range is reported no more.
    fn finish(&self, range: RangeId, served: Option<&Arc<Served>>) {
        self.parts.service.remove(range);
        if let Some(served) = served {
            if served.is_lost() {
                // Nothing can be written: calls that wait for StoCs end.
                self.parts.ltc.close_device(range);
            }
            served.end();
        }
        if let Err(error) = self.parts.ltc.close_range(range) {
            eprintln!("thermocline: range {range} was closed with an error: {error}");
        }
        self.note_closed(range, served.map(|served| served.epoch()));
        self.forget(&mut self.ranges.lock(), range);
    }

    /// Notes that a range is closed, if this LTC is its owner.
    fn note_closed(&self, range: RangeId, epoch: Option<Epoch>) {
        while !self.control.lock().is_stopped {
            let is_noted = match self.records.coordinator.range(range) {
                Ok(found) => {
                    let is_ours = found.owner == Some(self.owner)
                        && epoch.is_none_or(|epoch| epoch == found.epoch)
                        && found.state != RangeState::Dropped;
                    !is_ours || self.records.coordinator.left(range, found.epoch).is_ok()
                }
                Err(coordinator::Error::NoRange(_)) => true,
                Err(_) => false,
            };
            if is_noted {
                return;
            }
            self.environment.sleep(RETRY);
        }
    }

    /// The work of the thread that looks after tables and StoCs.
    fn keep_up(&self) {
        let mut at = self.environment.now() + UPKEEP;
        let mut weak_at = self.environment.now() + WEAK_LOOK;
        loop {
            {
                let mut control = self.control.lock();
                if control.is_stopped {
                    return;
                }
                self.changed.wait_for(&mut control, Duration::from_millis(100));
            }
            if self.environment.now() >= weak_at {
                self.parts.ltc.renew_weak();
                weak_at = self.environment.now() + WEAK_LOOK;
            }
            if self.environment.now() < at {
                continue;
            }
            at = self.environment.now() + UPKEEP;
            // A StoC that has another address, and a table that has too few copies, are found
            // again at the next look.
            let _ = self.parts.stocs.refresh();
            let _ = self.parts.ltc.repair();
            let served: Vec<Arc<Served>> = {
                let ranges = self.ranges.lock();
                ranges.values().filter_map(|holding| holding.served().cloned()).collect()
            };
            served.iter().for_each(|served| served.forget_clients());
        }
    }
}

impl fmt::Debug for Beats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Beats").field("owner", &self.shared.owner).finish_non_exhaustive()
    }
}
