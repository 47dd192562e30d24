//! The state that all threads of a server share.

mod run;
mod threads;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use thermocline::environment::Environment;
use thermocline::sync::locks::RwLock;

use crate::clients::Clients;
use crate::gate::Gate;
use crate::key_marks::KeyMarks;
use crate::options::{Options, Secret};
use crate::protocol::Bounds;
use crate::retired::Retired;
use crate::saving::Saving;
use crate::scan_cursors::ScanCursors;
use crate::stats::Stats;
use crate::store::Durable;
use crate::watch::Watches;
use crate::write_status::WriteStatus;

pub(crate) use run::Run;
pub(crate) use threads::Threads;

/// The server behind its connections. One per [`crate::Server`].
pub(crate) struct Shared {
    pub(crate) store: Arc<dyn Durable>,
    /// Whether the data is in other processes ([`Durable::remote`]).
    pub(crate) is_gateway: bool,
    pub(crate) environment: Environment,
    /// The options at the server's start.
    pub(crate) options: Options,
    /// The part of them that CONFIG SET may change.
    pub(crate) settings: Settings,
    pub(crate) gate: Gate,
    pub(crate) keys: KeyTables,
    pub(crate) clients: Clients,
    pub(crate) stats: Stats,
    pub(crate) run: Run,
    pub(crate) saving: Arc<Saving>,
    pub(crate) threads: Threads,
    pub(crate) write_status: WriteStatus,
}

/// Tables about keys that the store does not keep: the clients that watch a key, the places of
/// scans, the uses and the encodings of keys.
pub(crate) struct KeyTables {
    pub(crate) watches: Watches,
    pub(crate) cursors: ScanCursors,
    pub(crate) marks: KeyMarks,
}

/// Bytes of output that a client may have with the reply that is being made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReplyLimits {
    /// The most that it may leave unread.
    pub(crate) unread_max: usize,
    /// The same of replies that must not leave before another one is made.
    pub(crate) ahead_max: usize,
    /// The largest value: a reply with one value always fits, next to any unread ones.
    pub(crate) value_max: usize,
}

/// Settings that change while the server runs.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) password: RwLock<Option<Secret>>,
    pub(crate) clients_max: AtomicUsize,
    pub(crate) idle_timeout_s: AtomicU64,
    pub(crate) value_bytes_max: AtomicUsize,
    pub(crate) output_bytes_max: AtomicUsize,
}

impl Settings {
    /// The settings that `options` begin with.
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            password: RwLock::new(options.password.clone()),
            clients_max: AtomicUsize::new(options.clients_max),
            idle_timeout_s: AtomicU64::new(options.idle_timeout_s),
            value_bytes_max: AtomicUsize::new(options.value_bytes_max),
            output_bytes_max: AtomicUsize::new(options.output_bytes_max),
        }
    }

    /// Whether clients must authenticate.
    pub(crate) fn needs_password(&self) -> bool {
        self.password.read().is_some()
    }
}

impl Shared {
    /// Returns the bytes of unsent output from which on a connection pauses. This is half of what
    /// its client may leave unread, a quarter of the clients' memory, or that memory less the
    /// largest value, whichever is least.
    pub(crate) fn pause_bytes(&self) -> usize {
        let output_max = self.settings.output_bytes_max.load(Relaxed);
        let memory = &self.clients.memory;
        let left_by_value = memory.chargeable().saturating_sub(self.value_bytes_max());
        (output_max / 2).min(memory.limit() / 4).min(left_by_value)
    }

    /// Returns how much output a client may have with the reply that is being made.
    pub(crate) fn reply_limits(&self) -> ReplyLimits {
        ReplyLimits {
            unread_max: self.settings.output_bytes_max.load(Relaxed),
            ahead_max: self.pause_bytes(),
            value_max: self.value_bytes_max(),
        }
    }

    /// Bytes that one request may take: all but an eighth of the clients' memory, which its buffer
    /// may have grown beyond it.
    pub(crate) fn request_bytes_max(&self) -> usize {
        let limit = self.clients.memory.limit();
        (limit - limit / 8).min(Bounds::COMMAND_BYTES_MAX)
    }

    /// Returns the largest argument, and so the largest value, in bytes: the setting, or three
    /// quarters of the clients' memory if that is less.
    pub(crate) fn value_bytes_max(&self) -> usize {
        self.settings.value_bytes_max.load(Relaxed).min(self.value_bytes_reachable())
    }

    /// The largest argument that the clients' memory has room for.
    pub(crate) fn value_bytes_reachable(&self) -> usize {
        self.clients.memory.limit() / 4 * 3
    }

    /// Returns the metrics in Prometheus's text format.
    pub(crate) fn render_metrics(&self) -> String {
        self.store.refresh_metrics();
        self.stats.render_prometheus(self.clients.count(), self.clients.memory.used())
    }

    /// Bytes of memory that data and clients take.
    pub(crate) fn memory_used(&self) -> u64 {
        self.store.memory().0 + self.clients.memory.used() as u64
    }

    /// Has a thread drop a thing that is used no more.
    pub(crate) fn retire(&self, thing: Retired) {
        self.clients.memory.recharge(&mut 0, thing.memory_bytes());
        self.threads.retired.lock().push(thing);
    }
}
