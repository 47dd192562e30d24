//! A database's own figures as metrics.
//!
//! The device and the journal count for themselves; their counts since the last look are added to
//! counters here. Levels become gauges.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use telemetry::{Counter, Registry};

use crate::stats::{KeyspaceStats, Stats, WriterWaits};

/// A counter that follows one which is kept elsewhere and only grows.
#[derive(Debug)]
struct Followed {
    counter: Counter,
    shown: AtomicU64,
}

impl Followed {
    fn new(registry: &Registry, name: &str, help: &'static str) -> Self {
        Self { counter: registry.counter(name, help), shown: AtomicU64::new(0) }
    }

    fn follow(&self, count: u64) {
        self.counter.add(count.saturating_sub(self.shown.fetch_max(count, Relaxed)));
    }
}

/// Metrics of the figures of one database ([`Stats`]).
///
/// Make one for a database and keep it: two of one registry would count everything twice. Call
/// [`DatabaseMetrics::refresh`] before each snapshot of the registry.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// use thermocline::{DatabaseMetrics, Db, Options};
/// let db = Db::open(dir.path(), Options::default())?;
/// let metrics = DatabaseMetrics::new(db.telemetry());
/// db.keyspace("users", Default::default())?.put(b"ada", b"1815")?;
/// metrics.refresh(&db.stats());
/// let page = db.telemetry().snapshot().render_prometheus();
/// assert!(page.contains("journal_records_total 1"), "{page}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct DatabaseMetrics {
    registry: Registry,
    /// In the order of [`DatabaseMetrics::refresh`].
    counters: [Followed; 15],
}

impl DatabaseMetrics {
    /// Returns metrics in `registry`.
    pub fn new(registry: &Registry) -> Self {
        let counters = [
            ("device_read_ops_total", "Reads that reached the device."),
            ("device_read_bytes_total", "Bytes read from the device."),
            ("device_write_ops_total", "Writes that reached the device."),
            ("device_write_bytes_total", "Bytes written to the device."),
            ("device_syncs_total", "Syncs of files and directories."),
            ("journal_records_total", "Records appended to the journal."),
            ("journal_payload_bytes_total", "Bytes of payload appended to the journal."),
            ("journal_groups_total", "Groups written, one write call each."),
            ("journal_group_bytes_total", "Bytes of groups, with headers, seals and padding."),
            ("journal_syncs_total", "Syncs of the journal done for writers that waited."),
            ("journal_synced_records_total", "Records first made durable by those syncs."),
            ("journal_sync_microseconds_total", "Time spent in those syncs, in microseconds."),
            ("database_writes_total", "Writes since the database was made: its newest number."),
            ("memory_moves_total", "Steps of memory from keyspace to keyspace."),
            ("memory_moved_bytes_total", "Bytes of these steps."),
        ];
        let counters = counters.map(|(name, help)| Followed::new(registry, name, help));
        Self { registry: registry.clone(), counters }
    }

    /// Brings figures of the database into the registry.
    pub fn refresh(&self, stats: &Stats) {
        let (io, journal) = (&stats.io, &stats.journal);
        let counts = [
            io.read_ops,
            io.read_bytes,
            io.write_ops,
            io.write_bytes,
            io.syncs,
            journal.records,
            journal.payload_bytes,
            journal.groups,
            journal.group_bytes,
            journal.syncs,
            journal.synced_records,
            u64::try_from(journal.sync_time.as_micros()).unwrap_or(u64::MAX),
            stats.last.get(),
            stats.memory_moves.count,
            stats.memory_moves.bytes,
        ];
        self.counters.iter().zip(counts).for_each(|(counter, count)| counter.follow(count));
        let levels = [
            ("journal_segments", "Segment files of the journal.", journal.segments),
            ("journal_bytes", "Bytes of the journal, on disk and waiting.", journal.bytes),
            ("database_disk_bytes", "Bytes of files, journal included.", stats.disk_bytes()),
            ("database_memory_bytes", "Memory of data, in bytes.", stats.memory_used_bytes),
            ("database_memory_limit_bytes", "The most of it.", stats.memory_limit_bytes),
        ];
        self.registry.set_gauges(&levels);
        stats.writer_waits.iter().for_each(|waits| self.refresh_waits(waits));
        stats.keyspaces.iter().for_each(|keyspace| self.refresh_keyspace(keyspace));
    }

    fn refresh_waits(&self, waits: &WriterWaits) {
        let keyspace = waits.keyspace.as_deref().unwrap_or_default();
        let labels = [("cause", waits.cause), ("keyspace", keyspace)];
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.registry.with_labels(&labels).set_gauges(&[
            ("writer_waits", "Waits of writers of 5 ms or longer.", waits.counts.count),
            (
                "writer_waits_microseconds",
                "Time of the waits of writers of 5 ms or longer.",
                micros(waits.counts.total),
            ),
            (
                "writer_wait_longest_microseconds",
                "The longest wait of a writer.",
                micros(waits.counts.longest),
            ),
        ]);
    }

    fn refresh_keyspace(&self, keyspace: &KeyspaceStats) {
        let registry = self.registry.with_labels(&[("keyspace", &keyspace.name)]);
        let engine = &keyspace.engine;
        let persisted = keyspace.persisted.get();
        registry.set_gauges(&[
            ("keyspace_memory_bytes", "Memory of the engine, in bytes.", engine.memory_bytes),
            ("keyspace_disk_bytes", "Bytes of the engine's own files.", engine.disk_bytes),
            ("keyspace_persisted", "The newest write in the engine's own files.", persisted),
            (
                "keyspace_updates_written",
                "Values that updates wrote, since the opening.",
                keyspace.updates.written,
            ),
            (
                "keyspace_updates_written_bytes",
                "Bytes of values and keys that updates wrote, since the opening.",
                keyspace.updates.written_bytes,
            ),
            ("keyspace_merges", "Merges, since the opening.", keyspace.updates.merges),
            (
                "keyspace_merge_operand_bytes",
                "Bytes of the operands and keys of merges, since the opening.",
                keyspace.updates.operand_bytes,
            ),
        ]);
        if let Some(bytes) = keyspace.memory_share_bytes {
            let help = "The keyspace's share of the memory, in bytes.";
            registry.set_gauges(&[("keyspace_memory_share_bytes", help, bytes)]);
        }
        if let Some(keys) = engine.live_keys {
            let help = "Keys, unswept expired ones included.";
            registry.set_gauges(&[("keyspace_live_keys", help, keys)]);
        }
        if let Some(bytes) = engine.live_bytes {
            let help = "Bytes of live keys and values.";
            registry.set_gauges(&[("keyspace_live_bytes", help, bytes)]);
        }
        for (figure, value) in &engine.detail {
            let registry = registry.with_labels(&[("figure", figure)]);
            let help = "Figures that only the keyspace's engine has, by name.";
            registry.set_gauges(&[("keyspace_engine_figure", help, *value)]);
        }
    }
}
