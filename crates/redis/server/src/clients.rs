//! The connected clients, as CLIENT LIST shows them and CLIENT KILL finds them.

mod shown;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU64, AtomicUsize};

use thermocline::environment::Monotonic;
use thermocline::sync::locks::Mutex;

use crate::client_memory::ClientMemory;

use shown::ShownSession;

/// The part of a connection's state that others may know. The owning loop stores, anyone loads.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) id: u64,
    pub(crate) peer: SocketAddr,
    pub(crate) local: SocketAddr,
    pub(crate) since: Monotonic,
    /// The loop that owns it, and its token there.
    pub(crate) loop_index: usize,
    pub(crate) token: usize,
    pub(crate) last_active: AtomicU64,
    pub(crate) shown: ShownSession,
    pub(crate) memory_bytes: AtomicUsize,
    pub(crate) names: Mutex<Names>,
}

/// The names that a client gives itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    pub(crate) name: Vec<u8>,
    pub(crate) library: Vec<u8>,
    pub(crate) library_version: Vec<u8>,
}

impl Client {
    /// A client that has just connected.
    pub(crate) fn new(
        id: u64,
        (peer, local): (SocketAddr, SocketAddr),
        since: Monotonic,
        (loop_index, token): (usize, usize),
    ) -> Self {
        Self {
            id,
            peer,
            local,
            since,
            loop_index,
            token,
            last_active: AtomicU64::new(since.as_nanos()),
            shown: ShownSession::new(),
            memory_bytes: AtomicUsize::new(0),
            names: Mutex::default(),
        }
    }

    /// Its line in CLIENT LIST, without a line's end.
    pub(crate) fn describe(&self, now: Monotonic) -> String {
        let names = self.names.lock().clone();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let idle = now - Monotonic::from_nanos(self.last_active.load(Relaxed));
        let shown = &self.shown;
        let multi = shown.multi();
        let memory = self.memory_bytes.load(Relaxed);
        let mut line = String::new();
        // Writing to a string cannot fail.
        let _ = write!(
            line,
            "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={} db={} sub=0 psub=0 \
             ssub=0 multi={multi} qbuf=0 qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0 \
             oll=0 omem=0 tot-mem={memory} events=r cmd={} user=default redir=-1 resp={} \
             lib-name={} lib-ver={}",
            self.id,
            self.peer,
            self.local,
            self.token,
            text(&names.name),
            (now - self.since).as_secs(),
            idle.as_secs(),
            if multi >= 0 { "x" } else { "N" },
            shown.db.load(Relaxed),
            shown.command_name(),
            if shown.resp3.load(Relaxed) { 3 } else { 2 },
            text(&names.library),
            text(&names.library_version),
        );
        line
    }
}

/// All clients, by id, and the memory of their buffers.
#[derive(Debug)]
pub(crate) struct Clients {
    pub(crate) memory: ClientMemory,
    by_id: Mutex<BTreeMap<u64, Arc<Client>>>,
    last_id: AtomicU64,
    count: AtomicUsize,
}

impl Clients {
    /// No clients, with a budget of `memory_bytes` for their buffers.
    pub(crate) fn new(memory_bytes: usize) -> Self {
        Self {
            memory: ClientMemory::new(memory_bytes),
            by_id: Mutex::default(),
            last_id: AtomicU64::new(0),
            count: AtomicUsize::new(0),
        }
    }

    /// An id that no client had before.
    pub(crate) fn next_id(&self) -> u64 {
        self.last_id.fetch_add(1, Relaxed) + 1
    }

    /// Counts one client more, unless there are `max`.
    pub(crate) fn admit(&self, max: usize) -> bool {
        let more = |count| (count < max).then_some(count + 1);
        self.count.fetch_update(Relaxed, Relaxed, more).is_ok()
    }

    /// Takes back one [`Self::admit`] of a client that was never added.
    pub(crate) fn forget_admitted(&self) {
        self.count.fetch_sub(1, Relaxed);
    }

    /// Shows an admitted client to others.
    pub(crate) fn add(&self, client: &Arc<Client>) {
        self.by_id.lock().insert(client.id, Arc::clone(client));
    }

    /// Removes a client that was added.
    pub(crate) fn remove(&self, id: u64) {
        if self.by_id.lock().remove(&id).is_some() {
            self.forget_admitted();
        }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Relaxed)
    }

    /// All of them, oldest first.
    pub(crate) fn all(&self) -> Vec<Arc<Client>> {
        self.by_id.lock().values().cloned().collect()
    }
}
