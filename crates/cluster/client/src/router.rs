//! Sends requests to the owners of ranges, and repeats them.
//!
//! # Concurrency
//! Replies come on the thread of the node. One thread repeats requests, and another one calls the
//! coordinator, so that a coordinator which does not reply delays no request whose route is known.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::thread::current;
use std::time::Duration;

use coordinator::{Coordinator, RemoteStore};
use environment::{Environment, JoinHandle, Monotonic, Random};
use rand::Rng as _;
use sync::{Condvar, Mutex};
use wire::{Body, Node};

use crate::cluster::Options;
use crate::error::{Error, Result};
use crate::ids::Ids;
use crate::metrics::{OutcomeCounts, Reply};
use crate::pending::Pending;
use crate::protocol::{FailedKind, RangeReply, Refused, decode_range_reply};
use crate::routes::{Known, Routes};

/// Time that one attempt has.
const ATTEMPT: Duration = Duration::from_secs(3);
/// Ids that are taken from the coordinator together.
const IDS: u32 = 16;
/// Refusals of a busy owner after which the routes are read again.
const BUSY_MAX: u32 = 8;
/// Time between two calls of the coordinator, after one that has failed and otherwise.
const CALLS: (Duration, Duration) = (Duration::from_millis(200), Duration::from_millis(20));

/// Sends requests.
pub(crate) struct Router {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

struct Shared {
    node: Arc<Node>,
    store: Arc<RemoteStore>,
    coordinator: Coordinator,
    environment: Environment,
    counts: OutcomeCounts,
    state: Mutex<State>,
    /// There is work for the thread that repeats, or for the one that calls the coordinator.
    changed: Condvar,
}

struct State {
    routes: Routes,
    /// Calls of the coordinator that have returned routes.
    refreshes: u64,
    /// Whether the routes are to be read again, and ids are to be taken.
    wants_routes: bool,
    wants_ids: bool,
    ids: Ids,
    /// Writes without an id.
    without_id: VecDeque<Pending>,
    /// Requests that are repeated, with the times of their next attempts.
    repeats: Vec<(Monotonic, Pending)>,
    /// The cause of the last failure of the coordinator.
    cause: Option<String>,
    random: Random,
    is_stopped: bool,
}

/// The next step of a request after an attempt.
enum Next {
    Done(Result<RangeReply>),
    /// Another attempt after a pause; with new routes, or with another id.
    Again {
        pause: Option<Duration>,
        wants_routes: bool,
        wants_id: bool,
    },
}

impl Router {
    /// Starts the threads, and reads the routes.
    ///
    /// # Errors
    /// [`Error::Coordinator`], [`Error::Thread`].
    pub(crate) fn start(
        node: Arc<Node>,
        store: Arc<RemoteStore>,
        coordinator: Coordinator,
        Options { environment, telemetry, .. }: &Options,
    ) -> Result<Self> {
        let mut routes = Routes::default();
        routes.install(Known::read(&coordinator)?, &node);
        // After the routes, so that all ranges know the ids.
        let mut ids = Ids::default();
        ids.add(store.clients(IDS)?, IDS.into());
        let state = State {
            routes,
            refreshes: 0,
            wants_routes: false,
            wants_ids: false,
            ids,
            without_id: VecDeque::new(),
            repeats: Vec::new(),
            cause: None,
            random: environment.random("client"),
            is_stopped: false,
        };
        let shared = Arc::new(Shared {
            node,
            store,
            coordinator,
            environment: environment.clone(),
            counts: OutcomeCounts::new(telemetry),
            state: Mutex::new(state),
            changed: Condvar::new(),
        });
        let router = Self { shared: Arc::clone(&shared), threads: Mutex::default() };
        let of_caller = Arc::clone(&shared);
        router.spawn("client repeats", move || shared.repeat())?;
        router.spawn("client calls", move || of_caller.call_coordinator())?;
        Ok(router)
    }

    fn spawn(&self, name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
        let thread = self.shared.environment.spawn(name, work);
        let thread = thread.map_err(|error| Error::Thread(error.to_string()))?;
        self.threads.lock().push(thread);
        Ok(())
    }

    /// Sends a request, and does not wait.
    pub(crate) fn submit(&self, pending: Pending) {
        self.shared.submit(pending);
    }

    /// Reads the routes again, and returns after that.
    ///
    /// # Errors
    /// [`Error::Unavailable`], [`Error::Stopped`].
    pub(crate) fn refresh(&self) -> Result<()> {
        let mut state = self.shared.state.lock();
        // A call that is under way may have read the records already.
        let before = state.refreshes;
        (state.wants_routes, state.cause) = (true, None);
        self.shared.changed.notify_all();
        loop {
            if state.is_stopped {
                return Err(Error::Stopped);
            }
            if state.refreshes > before + 1 {
                return Ok(());
            }
            if state.refreshes > before {
                state.wants_routes = true;
                self.shared.changed.notify_all();
            }
            if let Some(cause) = &state.cause {
                return Err(Error::Unavailable(cause.clone()));
            }
            self.shared.changed.wait(&mut state);
        }
    }

    /// Calls `look` with the routes.
    pub(crate) fn look<R>(&self, look: impl FnOnce(&Routes) -> R) -> R {
        look(&self.shared.state.lock().routes)
    }

    pub(crate) fn store(&self) -> &RemoteStore {
        &self.shared.store
    }

    pub(crate) fn environment(&self) -> &Environment {
        &self.shared.environment
    }

    /// Ends the threads. Requests that are repeated end with an error; the node ends the others.
    pub(crate) fn stop(&self) {
        let left: Vec<Pending> = {
            let mut state = self.shared.state.lock();
            state.is_stopped = true;
            let without_id = std::mem::take(&mut state.without_id).into_iter();
            let repeats = std::mem::take(&mut state.repeats).into_iter();
            without_id.chain(repeats.map(|(_, pending)| pending)).collect()
        };
        self.shared.changed.notify_all();
        left.into_iter().for_each(|pending| self.shared.give_up(pending));
        for thread in std::mem::take(&mut *self.threads.lock()) {
            // A reaction to the end of a request may drop the last handle.
            if thread.thread().id() != current().id() {
                let _ended = thread.join();
            }
        }
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn submit(self: &Arc<Self>, mut pending: Pending) {
        let now = self.environment.now();
        if pending.deadline <= now {
            return self.end(pending);
        }
        let mut state = self.state.lock();
        if state.is_stopped {
            drop(state);
            return self.give_up(pending);
        }
        if pending.needs_id() {
            match state.ids.take() {
                Some(id) => pending.set_id(id),
                None => {
                    state.without_id.push_back(pending);
                    state.wants_ids = true;
                    drop(state);
                    return self.changed.notify_all();
                }
            }
        }
        let routes = &state.routes;
        let route = match (pending.is_before, pending.key.is_empty()) {
            (true, true) => routes.last(&pending.keyspace),
            (is_before, _) => routes.find(&pending.keyspace, &pending.key, is_before),
        };
        let to = route.and_then(|route| Some((route.range, routes.channel(route)?)));
        let Some((range, channel)) = to else {
            if !routes.has(&pending.keyspace) {
                // A read of the routes that is under way may be older than the keyspace.
                let since = *pending.missing_since.get_or_insert(state.refreshes);
                if state.refreshes > since + 1 {
                    drop(state);
                    let error = Error::NoKeyspace(pending.keyspace.to_string());
                    return self.step(pending, Next::Done(Err(error)));
                }
            }
            pending.cause = "the range has no owner".to_owned();
            state.wants_routes = true;
            let pause = pending.pause(random_of(&mut state.random));
            state.repeats.push((now + pause, pending));
            drop(state);
            return self.changed.notify_all();
        };
        let ranges = pending.other_keys().map(|key| routes.find(&pending.keyspace, key, false));
        let other = ranges.flatten().map(|route| route.range).find(|other| *other != range);
        drop(state);
        if let Some(other) = other {
            // The keys were divided before the routes were known.
            let error = match pending.is_write() && pending.may_have_run {
                // The keyspace was dropped, and made with other ranges.
                true => pending.last_error(),
                false => Error::SeveralRanges { first: range, other },
            };
            return self.step(pending, Next::Done(Err(error)));
        }
        let kind = pending.request.kind();
        let body = Body { head: range.0.to_le_bytes().to_vec(), tail: Some(pending.encoded()) };
        let limits = (Some(ATTEMPT.min(pending.deadline - now)), pending.reply_bytes);
        let shared = Arc::clone(self);
        let on_reply = move |reply: wire::Result<Vec<u8>>| {
            let reply = reply.map(|body| decode_range_reply(kind, &body));
            shared.counts.add_attempt(&reply);
            let next = judge(&mut pending, reply);
            shared.step(pending, next);
        };
        channel.send(kind, body, limits, Box::new(on_reply));
    }

    /// Takes the next step of a request.
    fn step(self: &Arc<Self>, mut pending: Pending, next: Next) {
        let (pause, wants_routes, wants_id) = match next {
            Next::Done(reply) => {
                self.release(&pending);
                return self.finish(pending, reply);
            }
            Next::Again { pause, wants_routes, wants_id } => (pause, wants_routes, wants_id),
        };
        let mut state = self.state.lock();
        if wants_id && let Some(id) = pending.id() {
            state.ids.retire(id);
            state.ids.end(id);
            pending.has_id = false;
        }
        if state.is_stopped {
            drop(state);
            return self.give_up(pending);
        }
        state.wants_routes |= wants_routes;
        let own = pending.pause(random_of(&mut state.random));
        let at = self.environment.now() + pause.unwrap_or(own);
        state.repeats.push((at, pending));
        drop(state);
        self.changed.notify_all();
    }

    /// Ends a request whose time is over.
    fn end(&self, pending: Pending) {
        self.release(&pending);
        self.give_up(pending);
    }

    /// Ends a request without a reply. (Q3)
    fn give_up(&self, pending: Pending) {
        let error = pending.last_error();
        self.finish(pending, Err(error));
    }

    /// Ends a request.
    fn finish(&self, pending: Pending, result: Result<RangeReply>) {
        self.counts.add_request(&result);
        (pending.on_done)(result);
    }

    /// Returns the id of a write.
    fn release(self: &Shared, pending: &Pending) {
        let Some(id) = pending.id().filter(|_| pending.has_id) else { return };
        let mut state = self.state.lock();
        state.ids.end(id);
        if !state.without_id.is_empty() {
            drop(state);
            self.changed.notify_all();
        }
    }

    /// The work of the thread that repeats requests.
    fn repeat(self: &Arc<Self>) {
        let mut state = self.state.lock();
        while !state.is_stopped {
            let now = self.environment.now();
            let due = take_due(&mut state, now);
            if !due.is_empty() {
                drop(state);
                due.into_iter().for_each(|pending| self.submit(pending));
                state = self.state.lock();
                continue;
            }
            let first = state.repeats.iter().map(|(at, _)| *at);
            let first = first.chain(state.without_id.iter().map(|pending| pending.deadline)).min();
            match first {
                Some(first) => _ = self.changed.wait_for(&mut state, first - now),
                None => self.changed.wait(&mut state),
            }
        }
    }

    /// The work of the thread that calls the coordinator.
    fn call_coordinator(self: &Arc<Self>) {
        let mut state = self.state.lock();
        while !state.is_stopped {
            let (wants_routes, wants_ids) = (state.wants_routes, state.wants_ids);
            if !wants_routes && !wants_ids {
                self.changed.wait(&mut state);
                continue;
            }
            (state.wants_routes, state.wants_ids) = (false, false);
            drop(state);
            let known = wants_routes.then(|| Known::read(&self.coordinator));
            let first = wants_ids.then(|| self.store.clients(IDS));
            state = self.state.lock();
            let mut cause = None;
            match known {
                Some(Ok(known)) => {
                    if state.routes.install(known, &self.node) {
                        state.ids.retire_all();
                    }
                    state.refreshes += 1;
                }
                Some(Err(error)) => cause = Some(error.to_string()),
                None => {}
            }
            match first {
                Some(Ok(first)) => state.ids.add(first, IDS.into()),
                Some(Err(error)) => {
                    state.wants_ids = true;
                    cause = Some(error.to_string());
                }
                None => {}
            }
            let pause = if cause.is_some() { CALLS.0 } else { CALLS.1 };
            state.cause = cause;
            self.changed.notify_all();
            // Requests that miss their owner ask for routes together.
            let end = self.environment.now() + pause;
            while !state.is_stopped && self.environment.now() < end {
                self.changed.wait_for(&mut state, end - self.environment.now());
            }
        }
    }
}

/// Takes the requests that are to be sent now.
fn take_due(state: &mut State, now: Monotonic) -> Vec<Pending> {
    let mut due = Vec::new();
    let (now_due, later): (Vec<_>, Vec<_>) =
        std::mem::take(&mut state.repeats).into_iter().partition(|(at, _)| *at <= now);
    state.repeats = later;
    due.extend(now_due.into_iter().map(|(_, pending)| pending));
    while state.without_id.front().is_some_and(|pending| pending.deadline <= now) {
        due.extend(state.without_id.pop_front());
    }
    while !state.without_id.is_empty() {
        let Some(id) = state.ids.take() else { break };
        if let Some(mut pending) = state.without_id.pop_front() {
            pending.set_id(id);
            due.push(pending);
        }
    }
    due
}

fn random_of(random: &mut Random) -> u32 {
    (random.next_u64() % 100) as u32
}

/// Decides what follows an attempt.
fn judge(pending: &mut Pending, reply: Reply) -> Next {
    let again = |wants_routes| Next::Again { pause: None, wants_routes, wants_id: false };
    let reply = match reply {
        Ok(Ok(reply)) => reply,
        Ok(Err(damage)) => {
            pending.note_may_have_run();
            pending.cause = damage.to_string();
            return again(false);
        }
        Err(error) => return judge_failure(pending, &error),
    };
    match reply {
        Ok(reply) => Next::Done(Ok(reply)),
        Err(Refused::Moved) => {
            pending.cause = "the range has moved".to_owned();
            again(true)
        }
        Err(Refused::Busy { pause_ms }) => {
            pending.cause = "the owner is busy".to_owned();
            let pause = Some(Duration::from_millis(pause_ms.into()));
            // An owner that stays busy may have lost the range.
            pending.busy += 1;
            let wants_routes = pending.busy.is_multiple_of(BUSY_MAX);
            Next::Again { pause, wants_routes, wants_id: false }
        }
        Err(Refused::Lost) => {
            pending.note_may_have_run();
            pending.cause = "the owner has lost the range".to_owned();
            again(true)
        }
        Err(Refused::Forgotten) if pending.may_have_run => {
            let cause = "the range has forgotten the client".to_owned();
            Next::Done(Err(Error::Unknown(cause)))
        }
        Err(Refused::Forgotten) => {
            pending.cause = "the range has forgotten the client".to_owned();
            Next::Again { pause: Some(Duration::ZERO), wants_routes: false, wants_id: true }
        }
        Err(Refused::Failed { kind, text }) => Next::Done(Err(match kind {
            _ if pending.may_have_run => Error::Unknown(text),
            FailedKind::Full => Error::Full(text),
            FailedKind::Rejected => Error::Rejected(text),
        })),
    }
}

/// Decides what follows an attempt without a reply of the LTC.
fn judge_failure(pending: &mut Pending, error: &wire::Error) -> Next {
    use wire::Refusal;
    pending.cause = error.to_string();
    match error {
        wire::Error::Stopped => {
            return Next::Done(Err(match pending.is_write() && pending.may_have_run {
                true => Error::Unknown(error.to_string()),
                false => Error::Stopped,
            }));
        }
        wire::Error::TooLong { .. } => return Next::Done(Err(Error::Rejected(error.to_string()))),
        // Nothing was sent, and the route is not the reason.
        wire::Error::QueueFull { .. } => {
            return Next::Again { pause: None, wants_routes: false, wants_id: false };
        }
        wire::Error::Expired => {}
        wire::Error::Refused { refusal: Refusal::TooLong, .. } => {
            return match pending.allow_longer() {
                true => Next::Again {
                    pause: Some(Duration::ZERO),
                    wants_routes: false,
                    wants_id: false,
                },
                false => Next::Done(Err(Error::Rejected(error.to_string()))),
            };
        }
        wire::Error::Refused { refusal: Refusal::Late | Refusal::Full, .. } => {}
        _ => pending.note_may_have_run(),
    }
    Next::Again { pause: None, wants_routes: true, wants_id: false }
}

impl fmt::Debug for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Router").field("node", &self.shared.node).finish_non_exhaustive()
    }
}
