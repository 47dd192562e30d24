//! A range that serves clients.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Weak};

use client::{FailedKind, Pair, RangeReply, RangeRequest, Refused, RequestId};
use coordinator::{Descriptor, LogMode};
use environment::Environment;
use stoc::{Epoch, RangeId};
use sync::RwLock;
use thermocline::{
    DatabaseMetrics, Db, Direction, Durability, EngineKind, ErrorKind, Keyspace, KeyspaceOptions,
    Registry,
};
use wire::Lanes;

use crate::acks::Acks;
use crate::error::Result;
use crate::get::Get;
use crate::lease::Lease;
use crate::results::{Executed, FORGET, Results, data_key, data_range, key_of};

/// The keyspace of the database of a range.
const KEYSPACE: &str = "range";
/// The pause of a client when the range has no room.
const NO_ROOM_MS: u32 = 5;
/// Pairs and bytes of one piece of a scan, at most.
const PAIRS_MAX: u32 = 10_000;
const BYTES_MAX: u32 = 4 << 20;

/// The reply to a request of a client.
pub(crate) type Reply = std::result::Result<RangeReply, Refused>;

/// Gives a reply.
pub(crate) type Give = Box<dyn FnOnce(Reply) + Send>;

/// The keys of a range.
#[derive(Debug)]
struct Bounds {
    start: Vec<u8>,
    end: Option<Vec<u8>>,
}

/// A range that serves clients.
#[derive(Debug)]
pub(crate) struct Served {
    id: RangeId,
    epoch: Epoch,
    bounds: Bounds,
    range: Keyspace,
    results: Results,
    acks: Acks,
    lease: Arc<Lease>,
    /// Whether the lease covers the range.
    is_covered: AtomicBool,
    is_closing: AtomicBool,
    /// Requests share it while they run. The end of the service has it alone.
    turn: RwLock<()>,
    waits: Arc<Waits>,
    db: Db,
}

/// The threads of an LTC that wait for room.
#[derive(Debug)]
pub(crate) struct Waits {
    count: AtomicUsize,
    /// The most that may wait.
    most: usize,
}

impl Waits {
    pub(crate) fn new(most: usize) -> Self {
        Self { count: AtomicUsize::new(0), most }
    }

    /// Returns whether another thread may wait, which is counted then.
    fn begin(&self) -> bool {
        let may_wait = self.count.fetch_add(1, SeqCst) < self.most;
        if !may_wait {
            self.end();
        }
        may_wait
    }

    fn end(&self) {
        self.count.fetch_sub(1, SeqCst);
    }
}

/// Returns the refusal for an error of the database.
pub(crate) fn refusal(error: &thermocline::Error) -> Refused {
    let kind = match error.kind() {
        ErrorKind::OutOfMemory | ErrorKind::NoSpace => FailedKind::Full,
        ErrorKind::InvalidInput | ErrorKind::Unsupported | ErrorKind::Corruption => {
            FailedKind::Rejected
        }
        // A write may have reached the log. A database that takes no writes is closed, and opened
        // again.
        _ => return Refused::Lost,
    };
    Refused::Failed { kind, text: error.to_string() }
}

impl Served {
    /// Opens the service of a range whose database is open.
    ///
    /// # Errors
    /// The database's; [`crate::Error::Thread`].
    pub(crate) fn open(
        (descriptor, log): (&Descriptor, LogMode),
        db: &Db,
        (lease, waits): (Arc<Lease>, Arc<Waits>),
        environment: &Environment,
    ) -> Result<Self> {
        let Descriptor { id, epoch, start, end, clients, .. } = descriptor;
        let db = db.durability(Durability::Buffered);
        let options = KeyspaceOptions {
            engine: EngineKind::Lsm,
            // Without a journal the write log has no write, and memtables acknowledge.
            journaled: log != LogMode::None,
            expiring: true,
            ..KeyspaceOptions::default()
        };
        let range = db.keyspace(KEYSPACE, options)?.durability(Durability::Buffered);
        let range = range.expiring().raw();
        let results = Results::open(&db, &range, *clients, environment)?;
        Ok(Self {
            id: *id,
            epoch: *epoch,
            bounds: Bounds { start: start.clone(), end: end.clone() },
            range,
            results,
            acks: Acks::new(db.clone(), environment)?,
            db,
            lease,
            is_covered: AtomicBool::new(true),
            is_closing: AtomicBool::new(false),
            turn: RwLock::default(),
            waits,
        })
    }

    pub(crate) fn id(&self) -> RangeId {
        self.id
    }

    pub(crate) fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Brings the present figures of the range into `registry`.
    pub(crate) fn show(&self, registry: &Registry) {
        DatabaseMetrics::new(registry).refresh(&self.db.stats());
        let waiting = self.acks.waiting() as u64;
        registry.set_gauges(&[
            ("range_epoch", "The epoch of the range.", self.epoch.0),
            ("range_waiting_replies", "Replies that wait for the StoCs of the log.", waiting),
        ]);
    }

    /// Serves a request. `give` gets the reply: now, when StoCs have sent the value, or when writes
    /// are acknowledged. `threads` continue a get that waits for StoCs.
    pub(crate) fn serve(
        self: &Arc<Self>,
        request: &RangeRequest,
        threads: &Weak<Lanes<()>>,
        give: Give,
    ) {
        let _turn = self.turn.read();
        if self.is_closing.load(SeqCst) || !self.has_keys(request) {
            return give(Err(Refused::Moved));
        }
        let (reply, is_read) = match request {
            RangeRequest::Get { keys } if keys.len() == 1 => {
                let key = data_key(keys.first().map_or(&[], Vec::as_slice));
                return Get::begin(self, self.range.futures().get(&key), threads, give);
            }
            RangeRequest::Get { keys } => (self.get(keys), true),
            RangeRequest::Scan { start, end, is_reverse, pairs_max, bytes_max } => {
                let most = ((*pairs_max).min(PAIRS_MAX), (*bytes_max).min(BYTES_MAX));
                (self.scan((start, end.as_deref()), *is_reverse, most), true)
            }
            RangeRequest::Write { id, is_repeated, expects, steps } => {
                self.write((*id, *is_repeated), expects, steps)
            }
            RangeRequest::Clear { id } => self.clear(*id),
        };
        self.reply(reply, is_read, give);
    }

    /// Continues a request that did not end in its first turn.
    pub(crate) fn go_on(&self, work: impl FnOnce(), give: impl FnOnce() -> Option<Give>) {
        let _turn = self.turn.read();
        match self.is_closing.load(SeqCst) {
            false => work(),
            true => give().into_iter().for_each(|give| give(Err(Refused::Moved))),
        }
    }

    /// Gives the reply to a request, in its turn.
    pub(crate) fn reply(&self, reply: Reply, is_read: bool, give: Give) {
        let Ok(reply) = reply else { return give(reply) };
        // The value was read before the lease is checked. A valid lease that was extended by a
        // reply which does not cover the range is seen after the end of the cover. (R4)
        if is_read && !(self.lease.is_valid() && self.is_covered.load(SeqCst)) {
            return give(Err(Refused::Moved));
        }
        // Without a log no StoC refuses a write of an owner that has lost the range.
        let is_covered = self.lease.is_valid() && self.is_covered.load(SeqCst);
        if !is_covered && !self.range.options().journaled {
            return give(Err(Refused::Lost));
        }
        // A reply shows acknowledged writes alone. (R5)
        self.acks.when_acknowledged(move |is_acknowledged| {
            give(if is_acknowledged { Ok(reply) } else { Err(Refused::Lost) });
        });
    }

    /// Returns whether the range has all keys of a request. A scan may reach beyond it.
    fn has_keys(&self, request: &RangeRequest) -> bool {
        let has = |key: &[u8]| {
            key >= self.bounds.start.as_slice()
                && self.bounds.end.as_deref().is_none_or(|end| key < end)
        };
        match request {
            RangeRequest::Get { keys } => keys.iter().all(|key| has(key)),
            RangeRequest::Scan { start, is_reverse: false, .. } => has(start),
            RangeRequest::Scan { end, .. } => match (end, &self.bounds.end) {
                (None, own) => own.is_none(),
                (Some(end), own) => {
                    *end > self.bounds.start && own.as_ref().is_none_or(|own| end <= own)
                }
            },
            RangeRequest::Write { expects, steps, .. } => {
                expects.iter().chain(steps).all(|pair| has(&pair.key))
            }
            RangeRequest::Clear { .. } => true,
        }
    }

    fn get(&self, keys: &[Vec<u8>]) -> Reply {
        let keys: Vec<Vec<u8>> = keys.iter().map(|key| data_key(key)).collect();
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        // All values are of one moment.
        let read = self.db.begin().and_then(|moment| moment.multi_get(&self.range, &keys));
        Ok(RangeReply::Values(read.map_err(|error| refusal(&error))?))
    }

    fn scan(
        &self,
        (start, end): (&[u8], Option<&[u8]>),
        is_reverse: bool,
        (pairs_max, bytes_max): (u32, u32),
    ) -> Reply {
        // The part that this range has.
        let first = start.max(&self.bounds.start);
        let ends = [end, self.bounds.end.as_deref()].into_iter().flatten();
        let last = ends.min();
        let direction = if is_reverse { Direction::Backward } else { Direction::Forward };
        let scan = self.range.scan_in(data_range(first, last), direction);
        let scan = scan.map_err(|error| refusal(&error))?;
        let (mut pairs, mut bytes, mut next) = (Vec::new(), 0, None);
        for pair in scan {
            let (stored, value) = pair.map_err(|error| refusal(&error))?;
            let key = key_of(&stored).to_vec();
            bytes += key.len() + value.len();
            let is_full = pairs.len() >= pairs_max as usize || bytes > bytes_max as usize;
            if is_full && !pairs.is_empty() {
                // In reverse the end is exclusive, so the last pair that was added is the end.
                next = match is_reverse {
                    true => pairs.last().map(|(last, _): &(Vec<u8>, Vec<u8>)| last.clone()),
                    false => Some(key),
                };
                break;
            }
            pairs.push((key, value));
        }
        // Other ranges have the rest.
        let beyond = match is_reverse {
            true => (start < self.bounds.start.as_slice()).then(|| self.bounds.start.clone()),
            false => match (&self.bounds.end, end) {
                (Some(own), Some(end)) => (own.as_slice() < end).then(|| own.clone()),
                (own, _) => own.clone(),
            },
        };
        Ok(RangeReply::Pairs { pairs, next: next.or(beyond) })
    }

    fn clear(&self, id: RequestId) -> (Reply, bool) {
        if self.acks.is_full() || !self.waits.begin() {
            return (Err(Refused::Busy { pause_ms: NO_ROOM_MS }), false);
        }
        let executed = self.results.clear(id);
        self.waits.end();
        self.judge(executed)
    }

    fn write(&self, id: (RequestId, bool), expects: &[Pair], steps: &[Pair]) -> (Reply, bool) {
        if self.acks.is_full() {
            return (Err(Refused::Busy { pause_ms: NO_ROOM_MS }), false);
        }
        let mut waits = false;
        let may_wait = || {
            waits = self.waits.begin();
            waits
        };
        let executed = self.results.write(id, expects, steps, may_wait);
        if waits {
            self.waits.end();
        }
        let (reply, is_read) = self.judge(executed);
        // Without steps it has only compared present values.
        (reply, is_read || steps.is_empty())
    }

    /// Returns the reply for the outcome of a write, and whether it is one of a read.
    fn judge(&self, executed: thermocline::Result<Executed>) -> (Reply, bool) {
        match executed {
            Ok(Executed::Written) => (Ok(RangeReply::Written), false),
            // It shows the present value of a key.
            Ok(Executed::Differs) => (Ok(RangeReply::Differs), true),
            Ok(Executed::Forgotten) => (Err(Refused::Forgotten), false),
            Ok(Executed::Busy) => (Err(Refused::Busy { pause_ms: NO_ROOM_MS }), false),
            Err(error) => (Err(refusal(&error)), false),
        }
    }

    /// The lease covers the range no more.
    pub(crate) fn uncover(&self) {
        self.is_covered.store(false, SeqCst);
    }

    /// Ends the service: takes no more requests, and gives all replies.
    pub(crate) fn end(&self) {
        self.uncover();
        self.is_closing.store(true, SeqCst);
        drop(self.turn.write());
        self.acks.stop();
    }

    /// Returns whether the range has another owner, its log was closed, or its database takes no
    /// writes.
    pub(crate) fn is_lost(&self) -> bool {
        self.acks.is_lost() || self.db.failure().is_some()
    }

    /// Forgets clients that have not written for long.
    pub(crate) fn forget_clients(&self) {
        // The next call forgets the clients that this one could not.
        let _ = self.results.forget(FORGET);
    }
}
