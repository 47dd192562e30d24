//! Opening: prove what is on the device, rebuild the index, begin.
//!
//! 1. An empty directory gets a superblock that names empty logs.
//! 2. The superblock is read, and the hot log that it names, whole: every checksum is verified, and
//!    the hot index is rebuilt. The snapshot of the cold index's directory is read, and the part of
//!    the chunk log that is not in it. If no snapshot is sound, the whole chunk log is read. Of the
//!    cold log the segments' heads are read. So far no file was changed, and none is changed if any
//!    of the data is damaged.
//! 3. A crash, or an opening that found no room, leaves segments behind the parts that the
//!    superblock names. They are removed first, which frees their room. If other files are outside
//!    of these parts, the superblock is made durable, since it may be in the page cache alone, and
//!    then they are removed. Otherwise the superblock is made durable later: by the first commit,
//!    or when the host asks for it ([K7] of `checkpoint.rs`). Room for that may come from the
//!    ballast.
//! 4. Each log continues in a new segment. The host replays its journal above `persisted`.

use std::sync::Arc;
use std::time::Duration;

use codec::Corruption;
use device::{Ballast, Device};
use engine::{BackgroundErrors, DeviceReads, Health, Host, Result, Superblock};
use environment::Environment;
use rand::Rng;
use sync::epoch::Epochs;
use workers::{Group, Stopped};

use crate::address::LogAddress;
use crate::admission::Admission;
use crate::checkpoint::recover::rebuild;
use crate::checkpoint::{
    Checkpointer, Checkpoints, Committed, Identity, LogUnits, OfEach, SUPERBLOCK, SUPERBLOCK_KIND,
    Span,
};
use crate::cold::{Cold, LiveBytes, Unnamed};
use crate::cold_index::{self, CHUNKS, ColdIndex, Directory};
use crate::compaction::{Compactions, DeadBytes, usual_bytes};
use crate::hash_index::{BASE_BITS_MAX, HashIndex};
use crate::held_room::HeldRoom;
use crate::hot::Hot;
use crate::hybrid_log::{Geometry, HybridLog, RecordReads, Segments, StoreParts};
use crate::memory_use::StoreMemory;
use crate::ops::disk_lookup::reads::LookupReads;
use crate::options::{BACKGROUND_PAGES, MemoryPlan, Options};
use crate::store::{Background, Recovery, Shared, Store};
use crate::upkeep::Upkeep;

/// Names that the files of each log begin with.
pub(crate) const HOT_LOG: &str = "log";
pub(crate) const COLD_LOG: &str = "cold";

/// Share of its memory that a log keeps mutable if its records are never changed in place.
const MUTABLE_SHARE_IN_BACKGROUND: f64 = 0.25;

/// A log as found on the device.
pub(crate) struct StoredLog {
    pub(crate) geometry: Geometry,
    pub(crate) segments: Segments,
    pub(crate) span: Span,
}

impl StoredLog {
    /// Opens the segments of the log `name`. Reads the head of each.
    ///
    /// # Errors
    /// A missing or damaged segment, with its place.
    pub(crate) fn open(
        device: &Arc<dyn Device>,
        environment: &Environment,
        name: &'static str,
        span: Span,
        geometry: Geometry,
    ) -> Result<Self> {
        let salts = environment.random(name);
        let (begin, end) = (span.begin, span.end);
        let segments = Segments::open(Arc::clone(device), name, geometry, begin, end, salts)?;
        Ok(Self { geometry, segments, span })
    }

    /// Returns the address at which it continues: in a segment of its own.
    fn tail(&self) -> LogAddress {
        let next = self.span.end.get().div_ceil(self.geometry.segment_bytes());
        self.geometry.segment_begin(next)
    }

    /// Removes the segments that a crash left behind its end.
    fn remove_behind(&self) -> Result<()> {
        self.segments.remove_behind(self.span.end)
    }

    /// Returns whether a crash has left files outside of it.
    fn leaves_files(&self) -> Result<bool> {
        self.segments.has_outside(self.span.begin, self.span.end)
    }

    /// Removes the segments that a crash left.
    fn remove_outside(&self) -> Result<()> {
        self.segments.remove_outside(self.span.begin, self.span.end)
    }

    fn go_on(self, parts: &StoreParts) -> Arc<HybridLog> {
        let tail = self.tail();
        // The segment of an empty part has been removed.
        let is_empty = self.span.begin == self.span.end;
        let begin = if is_empty { tail } else { self.span.begin };
        HybridLog::new(self.geometry, self.segments, begin, tail, parts)
    }
}

impl LogUnits {
    /// Returns the geometry of a log with these units in `memory_bytes`, or in the fewest pages
    /// that it needs.
    pub(crate) fn geometry(self, memory_bytes: u64, mutable_share: f64) -> Geometry {
        let frames = ((memory_bytes / self.page_bytes) as usize).max(Geometry::FRAMES_MIN);
        Geometry::new(self.page_bytes, self.segment_bytes, frames, mutable_share)
    }

    /// The same of a log that only compaction writes.
    pub(crate) fn background_geometry(self) -> Geometry {
        self.geometry(BACKGROUND_PAGES * self.page_bytes, MUTABLE_SHARE_IN_BACKGROUND)
    }
}

/// The cold log, the chunk log, and the directory.
type StoredCold = (StoredLog, StoredLog, Directory);

/// The parts that a superblock names, read and verified.
struct Recovered {
    hot: StoredLog,
    index: HashIndex,
    /// Tombstones of the hot log.
    tombstones: u64,
    cold: Option<StoredCold>,
    hot_log_time: Duration,
    chunk_log_time: Duration,
}

impl Recovered {
    fn read(
        host: &Host,
        committed: &Committed,
        plan: &MemoryPlan,
        workers: &Group,
    ) -> Result<Self> {
        let identity = committed.identity;
        let begun = host.environment.now();
        let open = |name, span, geometry| {
            StoredLog::open(&host.device, &host.environment, name, span, geometry)
        };
        let hot = open(HOT_LOG, committed.hot, plan.hot_geometry())?;
        let index = HashIndex::new(identity.index_bits);
        let threads = plan.options.threads();
        let (index, hot, tombstones) = rebuild(index, identity.hash_seed, hot, workers, threads)?;
        let hot_log_read = host.environment.now();
        let cold = identity.has_cold_log().then(|| -> Result<_> {
            let cold = open(COLD_LOG, committed.cold, identity.cold.background_geometry())?;
            let chunks = open(CHUNKS, committed.chunks, identity.chunks.background_geometry())?;
            let StoredLog { segments, geometry, span } = &chunks;
            let (device, named) = (&*host.device, committed.directory);
            let span = (span.begin, span.end);
            let directory = cold_index::restore(device, named, segments, geometry, span)?;
            Ok((cold, chunks, directory))
        });
        let cold = cold.transpose()?;
        let chunk_log_time = host.environment.now() - hot_log_read;
        Ok(Self {
            hot,
            index,
            tombstones,
            cold,
            hot_log_time: hot_log_read - begun,
            chunk_log_time,
        })
    }

    /// Removes segments that a crash, or an opening without room, has left behind the logs' ends.
    fn remove_behind(&self) -> Result<()> {
        self.hot.remove_behind()?;
        self.cold.as_ref().map_or(Ok(()), |(cold, chunks, _)| {
            cold.remove_behind()?;
            chunks.remove_behind()
        })
    }

    /// Returns whether a crash has left files that [`Self::remove_what_is_left`] removes.
    fn leaves_files(&self, committed: &Committed, host: &Host) -> Result<bool> {
        if self.hot.leaves_files()? {
            return Ok(true);
        }
        let Some((cold, chunks, _)) = &self.cold else { return Ok(false) };
        Ok(cold.leaves_files()?
            || chunks.leaves_files()?
            || committed.directory.has_others(&*host.device)?)
    }

    /// Removes files that a crash has left behind.
    fn remove_what_is_left(&self, committed: &Committed, host: &Host) -> Result<()> {
        self.hot.remove_outside()?;
        if let Some((cold, chunks, _)) = &self.cold {
            cold.remove_outside()?;
            chunks.remove_outside()?;
            // A file that stays does no harm.
            let _are_gone: Result<()> = committed.directory.remove_others(&*host.device);
        }
        Ok(())
    }

    /// Returns the tail of each log.
    fn tails(&self) -> OfEach<LogAddress> {
        let cold = self.cold.as_ref();
        let [cold, chunks] =
            cold.map_or([LogAddress::NONE; 2], |(cold, chunks, _)| [cold.tail(), chunks.tail()]);
        [self.hot.tail(), cold, chunks]
    }
}

/// Continues the cold half at its end.
fn go_on_cold(
    (cold, chunks, directory): StoredCold,
    device: &dyn Device,
    committed: &Committed,
    plan: &MemoryPlan,
    parts: &StoreParts,
) -> Cold {
    let (log, chunk_log) = (cold.go_on(parts), chunks.go_on(parts));
    let (chunk_bytes, counts) = (u64::from(committed.identity.chunk_bytes), committed.counts);
    let (chunks, memory) = (Arc::clone(&chunk_log), Arc::clone(&parts.memory));
    let digests = plan.digest_bytes_max();
    let index = ColdIndex::restored(chunks, memory, chunk_bytes, directory, counts, digests);
    index.note_snapshot(committed.directory, device);
    let live =
        LiveBytes::restored(log.geometry, &log.gaps, committed.cold, committed.cold_live_bytes);
    Cold { log, index, chunk_log, unnamed_from: Unnamed::default(), live }
}

/// Returns the parts that the logs of a store share.
fn parts(host: &Host, plan: &MemoryPlan, ballast: Arc<Ballast>) -> StoreParts {
    let health: Arc<Health> = Arc::default();
    let source = Arc::new(DeviceReads(Arc::clone(&host.device)));
    StoreParts {
        epochs: Epochs::new(),
        memory: Arc::clone(&host.memory),
        workers: Arc::new(host.tasks("f2", &health)),
        health,
        record_reads: Arc::new(RecordReads::new(source, plan.work().flight)),
        ballast,
    }
}

impl Store {
    /// Opens the store in the host's directory, and makes it if there is none. Reads the whole hot
    /// log, on the number of threads that compaction has, and the part of the chunk log that was
    /// appended since the directory's last snapshot. Its time grows with these, not with the cold
    /// log.
    ///
    /// # Errors
    /// [`engine::Error::BadOption`]; [`engine::Error::Corruption`] if any data differs from the
    /// data written; then no file is changed.
    pub fn open(host: Host, options: Options) -> Result<Self> {
        options.check()?;
        let begun = host.environment.now();
        let superblock = open_superblock(&host, &options)?;
        let committed = decode_committed(&superblock)?;
        let identity = committed.identity;
        let plan = MemoryPlan::new(options, identity, host.memory.limit());
        let room = HeldRoom::found(&host.device)?;
        let parts = parts(&host, &plan, Arc::clone(&room.ballast));
        let recovered = Recovered::read(&host, &committed, &plan, &parts.workers)?;
        recovered.remove_behind()?;
        let mut superblock = superblock;
        if recovered.leaves_files(&committed, &host)? {
            HeldRoom::make_durable(&room.ballast, &mut superblock, &*host.device)?;
            recovered.remove_what_is_left(&committed, &host)?;
        }
        let tails = recovered.tails();
        let Recovered { hot, index, tombstones, cold, hot_log_time, chunk_log_time } = recovered;
        if !host.barrier.is_journaled() {
            // Without a journal, each write from now on is newer than all writes in the files.
            host.sequence.found(committed.persisted);
        }
        let dead = dead_bytes(tombstones, &index, &committed);
        let cold = cold.map(|cold| go_on_cold(cold, &*host.device, &committed, &plan, &parts));
        let compactions = Compactions::new(&plan, dead, tails);
        let checkpointer = Checkpointer::new(superblock, committed, tails);
        let hot = Hot::new(index, hot.go_on(&parts), identity.hash_seed);
        let cache = plan.read_cache(&parts);
        let recovery = Recovery {
            checkpoint: committed.checkpoint(),
            time: host.environment.now() - begun,
            hot_log_time,
            chunk_log_time,
        };
        let shared = Arc::new(Shared {
            health: Arc::clone(&parts.health),
            hot,
            cold,
            cache,
            background: Background {
                workers: Arc::clone(&parts.workers),
                upkeep: Upkeep::default(),
                errors: BackgroundErrors::default(),
            },
            epochs: parts.epochs,
            admission: Admission::new(room, &host.environment),
            compactions,
            checkpoints: Checkpoints::new(checkpointer, &committed, recovery),
            lookups: LookupReads::new(&host),
            memory: StoreMemory::new(plan, &host.memory),
            host,
        });
        shared.charge_own_memory();
        shared.hold_first_room()?;
        let store = Self { shared };
        // A pool that is stopping does no upkeep; nothing depends on it but time and space.
        let _: std::result::Result<(), Stopped> = store.start_upkeep();
        Ok(store)
    }
}

/// Estimates dead bytes by the tombstones of the hot log.
fn dead_bytes(tombstones: u64, index: &HashIndex, committed: &Committed) -> DeadBytes {
    let bytes = committed.hot.bytes() + committed.cold_live_bytes;
    let keys = index.figures().entries + committed.counts.entries;
    DeadBytes::found(tombstones, usual_bytes(bytes, keys))
}

/// The least memory, in bytes of a host's budget, that the store in this directory is opened with:
/// the fewest pages of each log are within the logs' share of it. Costs one small read.
///
/// # Errors
/// [`engine::Error::Corruption`] if its superblock is damaged; device errors.
pub fn memory_bytes_min(device: &dyn Device) -> Result<u64> {
    let superblock = Superblock::open(device, SUPERBLOCK, SUPERBLOCK_KIND)?;
    let identity = decode_committed(&superblock)?.identity;
    Ok(Options::limit_for(identity.hot, identity.chunks))
}

fn open_superblock(host: &Host, options: &Options) -> Result<Superblock> {
    let device = &*host.device;
    if let Some(superblock) = found_superblock(device)? {
        return Ok(superblock);
    }
    let limit = host.memory.limit();
    let [hot, cold, chunks] = options.units(limit);
    let identity = Identity {
        hash_seed: host.environment.random("f2 hash").next_u64(),
        index_bits: options.index_bits(limit).clamp(1, BASE_BITS_MAX),
        chunk_bytes: if options.single_log { 0 } else { options.chunk_bytes },
        hot,
        cold,
        chunks,
    };
    let nothing = Committed::empty(identity);
    Superblock::create(device, SUPERBLOCK, SUPERBLOCK_KIND, &nothing.encode())
}

/// The superblock of the store on `device`, if there is a store.
///
/// # Errors
/// Damage, a missing superblock next to segments included.
pub(crate) fn found_superblock(device: &dyn Device) -> Result<Option<Superblock>> {
    if device.exists(SUPERBLOCK)? {
        return Superblock::open(device, SUPERBLOCK, SUPERBLOCK_KIND).map(Some);
    }
    let is_segment =
        |name: &str| [HOT_LOG, COLD_LOG, CHUNKS].iter().any(|log| name.starts_with(log));
    if device.list("")?.iter().any(|entry| is_segment(&entry.name)) {
        let what = "the superblock is missing, but the store has log segments";
        return Err(Corruption::new(what, 0).at(SUPERBLOCK, 0).into());
    }
    Ok(None)
}

/// Decodes a superblock.
pub(crate) fn decode_committed(superblock: &Superblock) -> Result<Committed> {
    Ok(Committed::decode(superblock.payload()).map_err(|damage| damage.at(SUPERBLOCK, 0))?)
}
