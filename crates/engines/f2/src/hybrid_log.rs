//! The hybrid log: one address space over memory and disk, whose newest part is changed in place.
//!
//! ```text
//!      BEGIN            HEAD      SAFE_READ_ONLY   READ_ONLY              TAIL
//!        |   on disk      |   read-only   |  fuzzy     |     mutable        |
//!  ------+----------------+---------------+------------+--------------------+---->
//!        |    segments    |            pages in memory, in a ring           |
//! ```
//!
//! A record is appended at the tail (`allocate`) and changed in place while it is in the mutable
//! region. It is written to its segment once it is read-only (`flush`). After its page's memory is
//! released for a new page (`advance`), it is only there. The number of pages in memory, the log's
//! *frames*, may change at any time (`resize`).
//!
//! # Invariants
//! - H1. `BEGIN <= HEAD <= flushed <= SAFE_READ_ONLY <= READ_ONLY <= TAIL`, but for `BEGIN`, which
//!   a truncation may move further. Each only grows.
//! - H2. A thread that is protected and read `READ_ONLY` at or below an address may change the
//!   record there in place. The address is flushed only when `SAFE_READ_ONLY` has passed it, which
//!   waits for every thread that may have read the older `READ_ONLY`.
//! - H3. A thread that is protected and read `HEAD` at or below an address may read the record
//!   there: its page's memory is released only just before `SAFE_HEAD` passes it, which waits in
//!   the same way.
//! - H4. No thread waits or touches the disk while protected. So the waiting of H2 and H3 is short.
//! - H5. Every allocated piece holds a record or a filler with its length before its allocator is
//!   no longer protected. So a page that may be flushed has no holes.
//! - H6. A block of the disk is written once. The flushed part ends at a multiple of
//!   [`BLOCK_BYTES`], and after a restart the log continues in a new segment.
//! - H7. Along a chain addresses fall: a record that lost the race to be linked is abandoned and
//!   written again at the tail, never linked behind one with a higher address.
//! - H8. A checkpoint that ends at a *cut* has, with any write, all that had ended before that one
//!   began: nothing is changed in place while the log is cut (`read_only`).
//! - H9. The number of pages from `SAFE_HEAD` to the tail's is at most that of frames. A page below
//!   has memory only while the number of frames equals that of slots, and then the next page takes
//!   it over. After the frames became fewer this holds again once the log is *within its limit*.
//!
//! # Concurrency
//! Allocation is one fetch-and-add. One thread at a time flushes, under `flusher`; flushing is a
//! background task, and a thread that waits for room helps.

mod advance;
mod allocate;
mod flush;
mod frames;
mod gaps;
mod geometry;
mod inspect;
mod length_guess;
mod miss_reach;
#[cfg(all(test, any(loom, shuttle)))]
mod models;
mod read;
mod read_only;
mod read_records;
mod reserve;
mod resize;
mod scan;
mod segments;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

use std::sync::Arc;

use device::Ballast;
use engine::{Error, Health};
use memory_budget::MemoryBudget;
use sync::CachePadded;
use sync::atomic::{AtomicU64, Ordering};
use sync::epoch::Epochs;
use workers::Group;

use crate::address::LogAddress;
use crate::record::Live;

pub(crate) use allocate::PageFull;
use flush::Flushes;
use frames::Frames;
pub(crate) use gaps::Gaps;
pub(crate) use geometry::{BLOCK_BYTES, Geometry};
pub(crate) use inspect::{Met, inspect};
use length_guess::LengthGuess;
pub(crate) use miss_reach::ReachHits;
use read::DiskReads;
pub(crate) use read::{ReadOutcome, RecordRead};
use read_only::ReadOnly;
pub(crate) use read_records::{CopiedFrom, RecordCopy, RecordReads, Wanted};
pub(crate) use scan::{FRAMES as SCAN_PAGES, Scan, Stretch, stretches};
pub(crate) use segments::{FORMAT, HeldSegments, SegmentHeader, Segments};

/// The log. See the module's documentation.
pub(crate) struct HybridLog {
    pub(crate) geometry: Geometry,
    frames: Frames,
    tail: CachePadded<AtomicU64>,
    regions: CachePadded<Regions>,
    /// Room that writes have reserved.
    granted: reserve::Granted,
    flushes: Flushes,
    reads: DiskReads,
    misses: miss_reach::MissReach,
    /// The gaps: ranges of its addresses between two lives.
    pub(crate) gaps: Gaps,
    pub(crate) segments: Segments,
    pub(crate) epochs: Epochs,
    health: Arc<Health>,
}

/// The parts that all logs of a store share.
#[derive(Clone)]
pub(crate) struct StoreParts {
    pub(crate) epochs: Epochs,
    pub(crate) health: Arc<Health>,
    pub(crate) memory: Arc<MemoryBudget>,
    pub(crate) workers: Arc<Group>,
    pub(crate) record_reads: Arc<RecordReads>,
    pub(crate) ballast: Arc<Ballast>,
}

/// The log's borders, as addresses. [H1]
struct Regions {
    begin: AtomicU64,
    head: AtomicU64,
    safe_head: AtomicU64,
    flushed: AtomicU64,
    safe_read_only: AtomicU64,
    read_only: ReadOnly,
}

/// The place of a record.
pub(crate) enum Place<'a> {
    Memory(Live<'a>),
    Disk,
    Truncated,
}

impl HybridLog {
    /// A log whose records from `begin` on are in `segments`, and which continues at `tail`, the
    /// beginning of a page.
    pub(crate) fn new(
        geometry: Geometry,
        segments: Segments,
        begin: LogAddress,
        tail: LogAddress,
        store: &StoreParts,
    ) -> Arc<Self> {
        let StoreParts { epochs, health, memory, workers, record_reads, ballast } = store.clone();
        assert_eq!(geometry.offset(tail), 0, "a log goes on at the beginning of a page");
        let at = || AtomicU64::new(tail.get());
        let log = Arc::new(Self {
            frames: Frames::new(&geometry, memory),
            tail: CachePadded::new(AtomicU64::new(geometry.tail_word(geometry.page(tail), 0))),
            regions: CachePadded::new(Regions {
                begin: AtomicU64::new(begin.get()),
                head: at(),
                safe_head: at(),
                flushed: at(),
                safe_read_only: at(),
                read_only: ReadOnly::new(tail),
            }),
            granted: reserve::Granted::default(),
            flushes: Flushes::new(workers, ballast),
            reads: DiskReads::new(record_reads),
            misses: miss_reach::MissReach::default(),
            gaps: segments.gaps(tail),
            geometry,
            segments,
            epochs,
            health,
        });
        if log.geometry.is_last(log.geometry.page(tail)) {
            log.health.fail(&Error::LogEnded);
        }
        log.frames.ring.take(log.geometry.page(tail));
        log.reserve_none();
        log
    }

    /// The address 0 is no record's: a log that begins there begins with a filler.
    fn reserve_none(&self) {
        if self.tail() == LogAddress::NONE {
            let bytes = Self::FIRST.get();
            let at = self.try_allocate(bytes).unwrap_or_default();
            self.live(at).write_filler(bytes);
        }
    }

    /// The address of the first record of a new log.
    const FIRST: LogAddress = LogAddress::new(geometry::FIRST_BYTES);

    /// Returns the place of a record that may be in memory or on disk. The caller is protected, and
    /// stays so while it uses the result. [H3]
    pub(crate) fn place(&self, address: LogAddress) -> Place<'_> {
        if address >= self.head() {
            Place::Memory(self.live(address))
        } else if address >= self.begin() {
            Place::Disk
        } else {
            Place::Truncated
        }
    }

    /// The record at an address in memory.
    #[inline]
    pub(crate) fn live(&self, address: LogAddress) -> Live<'_> {
        Live::new(self.frames.ring.words(address.get()))
    }

    /// The beginning of the log; everything below was removed.
    pub(crate) fn begin(&self) -> LogAddress {
        LogAddress::new(self.regions.begin.load(Ordering::Acquire))
    }

    /// The address below which records are on disk alone.
    pub(crate) fn head(&self) -> LogAddress {
        LogAddress::new(self.regions.head.load(Ordering::Acquire))
    }

    /// The address below which records are read-only, immediately for a thread that reads it now.
    pub(crate) fn read_only(&self) -> LogAddress {
        self.regions.read_only.get()
    }

    /// The address from which on records may be changed in place: none may, while the log is cut.
    #[inline]
    pub(crate) fn mutable_from(&self) -> LogAddress {
        self.regions.read_only.mutable_from()
    }

    /// The address below which nothing changes again.
    pub(crate) fn safe_read_only(&self) -> LogAddress {
        LogAddress::new(self.regions.safe_read_only.load(Ordering::Acquire))
    }

    /// The address below which everything is in its segment, though perhaps not synced.
    pub(crate) fn flushed(&self) -> LogAddress {
        LogAddress::new(self.regions.flushed.load(Ordering::Acquire))
    }

    /// Whether nothing was appended since the tail was there.
    pub(crate) fn is_at(&self, tail: LogAddress) -> bool {
        let now = self.tail();
        now == tail || (tail == LogAddress::NONE && now == Self::FIRST)
    }

    /// Bytes from the beginning to the tail: the log takes them on disk once it is flushed and the
    /// files below the beginning are removed.
    pub(crate) fn bytes(&self) -> u64 {
        // It may turn over in between.
        let tail = self.tail();
        self.gaps.bytes_between(self.begin(), tail)
    }

    /// Bytes that a record takes on average, as of the page that was flushed last.
    pub(crate) fn record_bytes(&self) -> u64 {
        self.flushes.record_bytes() as u64
    }

    /// Bytes of memory in use.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.frames.ring.bytes()
    }
}
