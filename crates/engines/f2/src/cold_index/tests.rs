//! The index over a chunk log of its own with very little memory.

mod against_map;
mod chunks;
mod costs;
mod damage;
mod digests;
mod snapshot;
mod threads;

use std::sync::Arc;

use device::Device;
use engine::{DeviceReads, Health};
use environment::Environment;
use memory_budget::MemoryBudget;
use sync::epoch::Epochs;
use sync::thread::yield_now;
use telemetry::Registry;
use workers::{Pool, StopToken};

use super::{CHUNKS, Change, ColdIndex, Counts, Directory, NamedSnapshot, restore};
use crate::address::LogAddress;
use crate::hybrid_log::{Geometry, HybridLog, RecordReads, Segments, StoreParts};
use crate::position::Position;

/// Sizes of a chunk log.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    page_bytes: u64,
    segment_bytes: u64,
    chunk_bytes: u64,
    /// Bytes that the store may take, of which the directory has a share.
    memory_bytes: u64,
    /// Bytes that digests may take, from the beginning.
    digest_bytes: u64,
}

/// Four pages of 4 KiB in memory, segments of 16 KiB, eight entries a chunk.
const TINY: Sizes = Sizes {
    page_bytes: 4096,
    segment_bytes: 16_384,
    chunk_bytes: 64,
    memory_bytes: u64::MAX,
    digest_bytes: 0,
};

/// An index and its environment.
struct Bench {
    index: ColdIndex,
    log: Arc<HybridLog>,
    device: Arc<dyn Device>,
    sizes: Sizes,
    /// The address at which the log continued, and the address at which it had ended before.
    opened: (LogAddress, LogAddress),
    /// The snapshot that it is opened from.
    named: NamedSnapshot,
    _pool: Pool,
}

impl Bench {
    fn new(sizes: Sizes) -> Self {
        Self::on(device::memory(), sizes)
    }

    fn on(device: Arc<dyn Device>, sizes: Sizes) -> Self {
        Self::open(device, sizes, Default::default(), LogAddress::NONE, LogAddress::NONE)
    }

    /// Opens the index on a device.
    fn open(
        device: Arc<dyn Device>,
        sizes: Sizes,
        (named, counts): (NamedSnapshot, Counts),
        begin: LogAddress,
        end: LogAddress,
    ) -> Self {
        let environment = Environment::seeded(7);
        let pool = Pool::start(&environment, 1, &Registry::default()).expect("threads start");
        let frames = Geometry::FRAMES_MIN;
        let geometry = Geometry::new(sizes.page_bytes, sizes.segment_bytes, frames, 0.5);
        let salts = environment.random("segments");
        let segments = Segments::open(Arc::clone(&device), CHUNKS, geometry, begin, end, salts)
            .expect("opens");
        let directory = (begin < end).then(|| {
            restore(&*device, named, &segments, &geometry, (begin, end)).expect("it is whole")
        });
        segments.remove_outside(begin, end).expect("removes");
        let tail = geometry.segment_begin(end.get().div_ceil(geometry.segment_bytes()));
        let parts = StoreParts {
            record_reads: Arc::new(RecordReads::new(
                Arc::new(DeviceReads(Arc::clone(&device))),
                1 << 20,
            )),
            epochs: Epochs::new(),
            health: Arc::new(Health::default()),
            memory: Arc::new(MemoryBudget::new(sizes.memory_bytes)),
            workers: Arc::new(pool.group("f2")),
            ballast: Arc::new(
                device::Ballast::found(device::memory(), "ballast").expect("it is made"),
            ),
        };
        let log = HybridLog::new(geometry, segments, begin, tail, &parts);
        let directory = directory.unwrap_or_else(Directory::new);
        let index = {
            let (log, memory) = (Arc::clone(&log), Arc::clone(&parts.memory));
            let Sizes { chunk_bytes, digest_bytes, .. } = sizes;
            ColdIndex::restored(log, memory, chunk_bytes, directory, counts, digest_bytes)
        };
        index.digests.resize(sizes.digest_bytes);
        Self { index, log, device, sizes, opened: (tail, end), named, _pool: pool }
    }

    /// Makes everything durable, as a checkpoint does, and returns the end of the log.
    fn flush(&self) -> LogAddress {
        if self.log.is_at(self.opened.0) {
            return self.opened.1;
        }
        let guard = self.log.epochs.protect();
        let end = self.log.cut();
        drop(guard);
        while self.log.safe_read_only() < end {
            yield_now();
        }
        self.log.flush_until(end).expect("flushes");
        self.log.segments.sync().expect("syncs");
        self.log.segments.remove_below(self.log.begin()).expect("removes");
        end
    }

    /// Closes the index and reads it again.
    fn reopen(self) -> Self {
        let (begin, end) = (self.log.begin(), self.flush());
        self.log.segments.close();
        let kept = (self.named, self.index.counts());
        Self::open(Arc::clone(&self.device), self.sizes, kept, begin, end)
    }

    /// Writes a snapshot, from which it is opened the next time.
    fn snapshot(&mut self) {
        let number = self.named.number + 1;
        let named = self.index.write_snapshot(&*self.device, number).expect("it is written");
        self.named = named.expect("nothing doubles");
    }

    fn find(&self, position: Position) -> Vec<LogAddress> {
        let mut found = Vec::new();
        self.index.find(position, &mut found).expect("the lookup succeeds");
        found
    }

    fn apply(&self, mut changes: Vec<Change>) -> super::apply::Applied {
        self.index.apply(&mut changes, &go_on()).expect("the changes are taken")
    }

    /// Reads and writes of the device so far.
    fn operations(&self) -> (u64, u64) {
        let counts = self.device.accounting().counts();
        (counts.read_ops, counts.write_ops)
    }
}

fn go_on() -> StopToken {
    StopToken::default()
}

fn at(number: u64) -> LogAddress {
    LogAddress::new(number * 16)
}

/// Positions as hashes are: anywhere, always the same.
fn position(number: u64) -> Position {
    Position::of_number(codec::hash64(0, &number.to_le_bytes()) & !3)
}

fn put(number: u64, new: LogAddress) -> Change {
    Change { position: position(number), old: LogAddress::NONE, new }
}

fn take(number: u64, old: LogAddress) -> Change {
    Change { position: position(number), old, new: LogAddress::NONE }
}

fn replace(number: u64, old: LogAddress, new: LogAddress) -> Change {
    Change { position: position(number), old, new }
}
