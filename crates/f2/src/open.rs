//! Opening: prove what is on the device, rebuild the index, begin.
//!
//! 1. An empty directory gets a superblock that names an empty log.
//! 2. The superblock is read, and the log that it names, whole: every checksum is verified, and the
//!    index is rebuilt. Nothing was changed so far, and nothing is if any of it is damaged.
//! 3. The superblock is settled: it may be in the page cache alone. Segments outside the log that
//!    it names are what a crash left; they go.
//! 4. The log goes on in a new segment. The host replays its journal above `persisted`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use codec::Corruption;
use device::Device;
use engine::{Health, Host, Result, Superblock};
use parking_lot::Mutex;
use rand::Rng;
use sync::epoch::Epochs;
use workers::Stopped;

use crate::address::LogAddress;
use crate::checkpoint::recover::rebuild;
use crate::checkpoint::{Checkpointer, Identity, SUPERBLOCK, SUPERBLOCK_KIND, Standing};
use crate::compaction::CompactionFigures;
use crate::hash_index::{BASE_BITS_MAX, HashIndex};
use crate::hybrid_log::{Geometry, HybridLog, Segments};
use crate::options::Options;
use crate::store::{Shared, Store};

/// What the files of the log are named after.
pub(crate) const LOG: &str = "log";

impl Store {
    /// Opens the store in the host's directory, and makes it if there is none. Reads the log
    /// whole; its time grows with the log.
    ///
    /// # Errors
    /// [`engine::Error::Corruption`] if anything is not what was written; then no file is changed.
    ///
    /// # Panics
    /// If the options' sizes of a page and a segment are no powers of two, or a page has less than
    /// 4 KiB.
    pub fn open(host: Host, options: Options) -> Result<Self> {
        let device = &*host.device;
        let limit = host.memory.limit();
        let superblock = open_superblock(&host, &options)?;
        let standing = decode_standing(&superblock)?;
        let Identity { page_bytes, segment_bytes, index_bits, hash_seed } = standing.identity;
        let frames = options.log_memory(limit) / page_bytes;
        let frames = (frames as usize).max(Geometry::FRAMES_MIN);
        let geometry = Geometry::new(page_bytes, segment_bytes, frames, options.mutable_share);
        let salts = host.environment.random("f2 segments");
        let (begin, end) = (standing.begin, standing.end);
        let segments = Segments::open(Arc::clone(&host.device), LOG, geometry, begin, end, salts)?;
        let index = HashIndex::new(index_bits);
        rebuild(&index, hash_seed, &segments, &geometry, begin, end)?;
        let superblock = superblock.settle(device, SUPERBLOCK)?;
        segments.remove_outside(begin, end)?;
        let epochs = Epochs::new();
        let health = Arc::new(Health::default());
        let group = Arc::new(host.workers.group("f2"));
        let tail = geometry.segment_begin(standing.end.get().div_ceil(geometry.segment_bytes()));
        let log = HybridLog::new(
            geometry,
            segments,
            begin,
            tail,
            epochs.clone(),
            Arc::clone(&health),
            Arc::clone(&host.memory),
            Arc::clone(&group),
        );
        let shared = Arc::new(Shared {
            health,
            epochs,
            index,
            log,
            hash_seed,
            is_index_full: AtomicBool::new(false),
            truncations: AtomicU64::new(0),
            fetchers: Mutex::default(),
            compacting: Mutex::default(),
            compaction_figures: CompactionFigures::new(tail),
            disk_bytes_max: options.disk_bytes_max,
            workers: group,
            persisted: AtomicU64::new(standing.persisted.get()),
            checkpointer: Mutex::new(Checkpointer::new(superblock, standing, tail)),
            host,
        });
        let store = Self { shared };
        // A pool that is stopping does no upkeep; nothing depends on it but time and space.
        let _: std::result::Result<(), Stopped> = store.start_upkeep();
        Ok(store)
    }
}

/// The least memory, in bytes of a host's budget, that the store in this directory is opened with:
/// four of its pages are within the log's share of it. Costs one small read.
///
/// # Errors
/// [`engine::Error::Corruption`] if its superblock is damaged; device errors.
pub fn memory_bytes_min(device: &dyn Device) -> Result<u64> {
    let superblock = Superblock::open(device, SUPERBLOCK, SUPERBLOCK_KIND)?;
    let page_bytes = decode_standing(&superblock)?.identity.page_bytes;
    Ok(Options::limit_for_log(page_bytes.saturating_mul(Geometry::FRAMES_MIN as u64)))
}

fn open_superblock(host: &Host, options: &Options) -> Result<Superblock> {
    let device = &*host.device;
    if device.exists(SUPERBLOCK)? {
        return Superblock::open(device, SUPERBLOCK, SUPERBLOCK_KIND);
    }
    let is_segment = |name: &str| name.starts_with(LOG);
    if device.list("")?.iter().any(|entry| is_segment(&entry.name)) {
        let what = "the superblock is missing beside segments of a log";
        return Err(Corruption::new(what, 0).at(SUPERBLOCK, 0).into());
    }
    let page_bytes = options.page(host.memory.limit());
    // Options that make no sense end here, before there is a file that says so.
    let segment_bytes = options.segment_bytes.max(page_bytes);
    let _: Geometry = Geometry::new(page_bytes, segment_bytes, Geometry::FRAMES_MIN, 0.5);
    let identity = Identity {
        hash_seed: host.environment.random("f2 hash").next_u64(),
        page_bytes,
        segment_bytes,
        index_bits: options.index_bits(host.memory.limit()).clamp(1, BASE_BITS_MAX),
    };
    let nothing = Standing {
        identity,
        begin: LogAddress::NONE,
        end: LogAddress::NONE,
        persisted: codec::SeqNo::new(0),
    };
    Superblock::create(device, SUPERBLOCK, SUPERBLOCK_KIND, &nothing.encode())
}

/// What a superblock says.
pub(crate) fn decode_standing(superblock: &Superblock) -> Result<Standing> {
    Ok(Standing::decode(superblock.payload()).map_err(|damage| damage.at(SUPERBLOCK, 0))?)
}
