//! The server's counters, in the telemetry registry.
//!
//! # Concurrency
//! Loops count in plain numbers of their own ([`Tally`]) and add them here once per turn; readers
//! see figures that are at most a turn old.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use thermocline::environment::Monotonic;
use thermocline::telemetry::{Counter, Gauge, Histogram, Registry, Unit};

use crate::commands::COMMANDS;
use crate::commands::failure::{ERROR_CODES, error_code};
use crate::rates::{Counts, Rates};

/// Calls of a command for each one that a loop times; it times the first one, too. Reading the
/// clock for each would cost a few percent.
const LATENCY_SAMPLE: u64 = 16;

/// Calls of one command.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Calls {
    /// Calls that ran.
    pub(crate) calls: u64,
    /// Calls among these that replied with an error.
    pub(crate) failed: u64,
    /// Calls that were refused before they ran.
    pub(crate) rejected: u64,
}

/// Figures that a loop gathers for itself before it adds them to the others'.
#[derive(Debug)]
pub(crate) struct Tally {
    commands: Vec<Calls>,
    /// Calls of each command so far, to choose the calls that are timed.
    begun: Vec<u64>,
    /// Indexes of `commands` that changed.
    changed: Vec<usize>,
    pub(crate) executed: u64,
    pub(crate) input_bytes: u64,
    pub(crate) output_bytes: u64,
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    pub(crate) expired: u64,
    /// Error replies by their code.
    errors: [u64; ERROR_CODES.len()],
    /// Commands that had to wait for the device.
    pub(crate) waited: u64,
}

impl Tally {
    /// No figures yet.
    pub(crate) fn new() -> Self {
        Self {
            commands: vec![Calls::default(); COMMANDS.len()],
            begun: vec![0; COMMANDS.len()],
            changed: Vec::new(),
            executed: 0,
            input_bytes: 0,
            output_bytes: 0,
            hits: 0,
            misses: 0,
            expired: 0,
            errors: [0; ERROR_CODES.len()],
            waited: 0,
        }
    }

    /// Counts a call of command `index`; whether it is one to be timed.
    #[inline]
    pub(crate) fn begin(&mut self, index: usize) -> bool {
        self.command(index).calls += 1;
        let begun = self.begun[index];
        self.begun[index] += 1;
        begun.is_multiple_of(LATENCY_SAMPLE)
    }

    /// Counts an error reply with this place in [`ERROR_CODES`].
    pub(crate) fn error(&mut self, code: usize) {
        if let Some(count) = self.errors.get_mut(code) {
            *count += 1;
        }
    }

    /// The figures of command `index`, to be added to.
    #[inline]
    pub(crate) fn command(&mut self, index: usize) -> &mut Calls {
        let calls = &mut self.commands[index];
        if calls.calls == 0 && calls.rejected == 0 && calls.failed == 0 {
            self.changed.push(index);
        }
        calls
    }
}

/// A counter that CONFIG RESETSTAT resets for INFO, and that continues for `/metrics`.
#[derive(Debug)]
pub(crate) struct Total {
    counter: Counter,
    at_reset: AtomicU64,
}

impl Total {
    fn new(registry: &Registry, name: &str, help: &'static str) -> Self {
        Self { counter: registry.counter(name, help), at_reset: AtomicU64::new(0) }
    }

    /// Counts `n` more.
    pub(crate) fn add(&self, n: u64) {
        if n > 0 {
            self.counter.add(n);
        }
    }

    /// The count since the last reset.
    pub(crate) fn get(&self) -> u64 {
        self.counter.get().saturating_sub(self.at_reset.load(Relaxed))
    }

    fn reset(&self) {
        self.at_reset.store(self.counter.get(), Relaxed);
    }
}

/// One command's metrics, made when it is first called.
#[derive(Debug)]
pub(crate) struct CommandMetrics {
    pub(crate) calls: Total,
    pub(crate) failed: Total,
    pub(crate) rejected: Total,
    pub(crate) latency: Histogram,
}

/// The figures of the whole server.
#[derive(Debug)]
pub(crate) struct Stats {
    registry: Registry,
    commands: Vec<OnceLock<CommandMetrics>>,
    pub(crate) executed: Total,
    pub(crate) input_bytes: Total,
    pub(crate) output_bytes: Total,
    pub(crate) hits: Total,
    pub(crate) misses: Total,
    /// Keys removed by commands that met them, and by the database itself.
    pub(crate) expired: Total,
    pub(crate) removed: Total,
    /// Error replies by their code.
    errors: [Total; ERROR_CODES.len()],
    pub(crate) waited: Total,
    pub(crate) connections: Total,
    pub(crate) connections_refused: Total,
    pub(crate) output_limit_disconnects: Total,
    pub(crate) evicted: Total,
    pub(crate) auth_failures: Total,
    connected: Gauge,
    client_memory: Gauge,
    pub(crate) rates: Rates,
}

impl Stats {
    /// Metrics in `registry`.
    pub(crate) fn new(registry: Registry) -> Self {
        let total = |name: &str, help| Total::new(&registry, &format!("server_{name}"), help);
        Self {
            commands: COMMANDS.iter().map(|_| OnceLock::new()).collect(),
            executed: total("commands_total", "Commands received."),
            input_bytes: total("input_bytes_total", "Bytes received from clients."),
            output_bytes: total("output_bytes_total", "Bytes sent to clients."),
            hits: total("keyspace_hits_total", "Reads that found a key."),
            misses: total("keyspace_misses_total", "Reads that found no key."),
            expired: total(
                "expired_keys_total",
                "Expired keys removed by commands that found them.",
            ),
            removed: Total::new(
                &registry,
                "removed_keys_total",
                "Keys removed in the background because their values had expired.",
            ),
            errors: ERROR_CODES.map(|code| {
                let registry = registry.with_labels(&[("code", code)]);
                Total::new(&registry, "server_error_replies_total", "Error replies.")
            }),
            waited: total(
                "waited_commands_total",
                "Commands on one key that waited for the device while other commands ran.",
            ),
            connections: total("connections_total", "Connections accepted or refused."),
            connections_refused: total("connections_refused_total", "Connections refused."),
            output_limit_disconnects: total(
                "output_limit_disconnects_total",
                "Connections closed because their client did not read.",
            ),
            evicted: total(
                "evicted_clients_total",
                "Connections closed because the clients' memory was used up.",
            ),
            auth_failures: total("auth_failures_total", "Wrong passwords."),
            connected: registry.gauge("server_connected_clients", "Clients connected."),
            client_memory: registry
                .gauge("server_client_memory_bytes", "Memory of clients' buffers, in bytes."),
            rates: Rates::default(),
            registry,
        }
    }

    /// Takes a sample of the figures that INFO shows per second, with the bytes of memory that data
    /// and clients take.
    pub(crate) fn sample_rates(&self, now: Monotonic, memory_bytes: u64) {
        let counts = Counts {
            executed: self.executed.get(),
            input_bytes: self.input_bytes.get(),
            output_bytes: self.output_bytes.get(),
        };
        self.rates.sample(now, counts, memory_bytes);
    }

    /// Counts an error reply that no command made.
    pub(crate) fn error(&self, text: &[u8]) {
        if let Some(total) = self.errors.get(error_code(text)) {
            total.add(1);
        }
    }

    /// Returns the codes of error replies, each with the number of replies.
    pub(crate) fn errors(&self) -> impl Iterator<Item = (&'static str, u64)> {
        ERROR_CODES.into_iter().zip(&self.errors).map(|(code, total)| (code, total.get()))
    }

    /// The metrics of command `index`.
    pub(crate) fn command(&self, index: usize) -> &CommandMetrics {
        self.commands[index].get_or_init(|| {
            let registry = self.registry.with_labels(&[("command", COMMANDS[index].name)]);
            let total = |name: &str, help| Total::new(&registry, name, help);
            CommandMetrics {
                calls: total("server_command_calls_total", "Calls that ran."),
                failed: total("server_command_failures_total", "Calls that failed."),
                rejected: total("server_command_rejections_total", "Calls refused unrun."),
                latency: registry.histogram(
                    "server_command_seconds",
                    "Time to the reply, of a thread's first call and one in 16 after it.",
                    Unit::Seconds,
                ),
            }
        })
    }

    /// The commands that have been called, by index.
    pub(crate) fn called(&self) -> impl Iterator<Item = (usize, &CommandMetrics)> {
        self.commands.iter().enumerate().filter_map(|(index, of)| Some((index, of.get()?)))
    }

    /// Adds the counts of a loop, and sets its tally back to zero.
    pub(crate) fn add(&self, tally: &mut Tally) {
        for index in tally.changed.drain(..) {
            let Calls { calls, failed, rejected } = std::mem::take(&mut tally.commands[index]);
            let to = self.command(index);
            to.calls.add(calls);
            to.failed.add(failed);
            to.rejected.add(rejected);
        }
        for (to, from) in [
            (&self.executed, &mut tally.executed),
            (&self.input_bytes, &mut tally.input_bytes),
            (&self.output_bytes, &mut tally.output_bytes),
            (&self.hits, &mut tally.hits),
            (&self.misses, &mut tally.misses),
            (&self.expired, &mut tally.expired),
            (&self.waited, &mut tally.waited),
        ] {
            to.add(std::mem::take(from));
        }
        for (to, from) in self.errors.iter().zip(&mut tally.errors) {
            to.add(std::mem::take(from));
        }
    }

    /// Sets INFO's counts to zero.
    pub(crate) fn reset(&self) {
        for (_, command) in self.called() {
            [&command.calls, &command.failed, &command.rejected].into_iter().for_each(Total::reset);
        }
        [
            &self.executed,
            &self.input_bytes,
            &self.output_bytes,
            &self.hits,
            &self.misses,
            &self.expired,
            &self.removed,
            &self.waited,
            &self.connections,
            &self.connections_refused,
            &self.output_limit_disconnects,
            &self.evicted,
            &self.auth_failures,
        ]
        .into_iter()
        .chain(&self.errors)
        .for_each(Total::reset);
    }

    /// The Prometheus text of the registry, with the levels that are kept elsewhere brought up to
    /// date.
    pub(crate) fn render_prometheus(&self, connected: usize, client_memory: usize) -> String {
        let level = |value: usize| i64::try_from(value).unwrap_or(i64::MAX);
        self.connected.set(level(connected));
        self.client_memory.set(level(client_memory));
        self.registry.snapshot().render_prometheus()
    }
}
