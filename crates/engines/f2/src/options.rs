//! Options of a store, and the plan of its memory that follows from them.

use engine::{Error, Result};

use crate::checkpoint::{Identity, LogUnits};
use crate::cold_index::CHUNK_BYTES;
use crate::compaction::Work;
use crate::hash_index::BASE_BITS_MAX;
use crate::hybrid_log::{BLOCK_BYTES, Geometry, SCAN_PAGES, StoreParts};
use crate::read_cache::ReadCache;

/// Options of the engine `f2`. A store keeps the options that it was made with for one log or two,
/// pages, segments, chunks and the index; the others may change when it is opened again.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// One log for everything, as FASTER has it, instead of a hot and a cold one: the baseline that
    /// the F2 paper compares with. Every key takes index memory then. Default: no.
    pub single_log: bool,
    /// With a single log: compaction reads the whole log instead of looking each record up. It
    /// holds the records that it may have to copy in memory that is in no budget. This is the other
    /// baseline of the paper. Default: no.
    pub scan_compaction: bool,
    /// Bytes of memory that the hot log and the read cache take. Default: the budget without the
    /// other parts, and 256 MiB if the budget has no limit. Records that do not fit are read from
    /// disk.
    pub log_memory_bytes: Option<u64>,
    /// Bytes of memory for copies of records that were read from disk, taken out of the hot log's;
    /// less than four pages of 4 KiB are none. Default: a quarter of the hot log's memory. It is
    /// none if that is less than four of the log's pages and than 256 KiB, or leaves the log fewer
    /// pages than it needs. More pays if the records that are read often are seldom written.
    pub read_cache_bytes: Option<u64>,
    /// Whether the memory of hot log, read cache and digests moves between them as the load
    /// requires; the bytes above are the split at the beginning. Not if the cache's bytes are
    /// given. Default: yes.
    pub adaptive_split: bool,
    /// Whether memory may also go to digests of the cold index's chunks, which save cold keys one
    /// of their two reads and take about five bytes of a cold key. Only where the split is
    /// adaptive. Default: yes.
    pub chunk_digests: bool,
    /// Share of the hot log's memory that is updated in place; the rest is a second chance for
    /// records on their way to disk. Default: 0.9.
    pub mutable_share: f64,
    /// Bytes of a page, the unit of writes to disk and of eviction from memory: a power of two, 1
    /// GiB at most. The longest record takes a page. Default: a 128th of the logs' memory, or a
    /// 64th if that is 2 MiB or more, between 128 KiB and 32 MiB.
    pub page_bytes: Option<u64>,
    /// Bytes of a segment, the unit in which disk space is released: a power of two, at least a
    /// page, 1 TiB at most. The segments of all logs are smaller if memory is small: the cold log's
    /// are at most the logs' memory, the others' a quarter of it. Default: 64 MiB.
    pub segment_bytes: u64,
    /// Bytes of disk that the hot log should keep within, at least twice its memory: at four fifths
    /// of it the oldest three tenths move to the cold log. More is taken rather than a write
    /// refused, up to twice that if compaction fails. Default: four times the hot log's memory.
    /// With a single log: of that log; default none, see `cold_disk_bytes_max`.
    pub disk_bytes_max: Option<u64>,
    /// The same for the cold log, whose oldest tenth is compacted into itself while something of it
    /// is dead. Default: none; it is compacted as it grows, so that about two fifths of its oldest
    /// part are dead.
    pub cold_disk_bytes_max: Option<u64>,
    /// Most threads of the host's pool that a compaction of the hot or the cold log uses, and that
    /// opening uses; 1 to 64. They use threads that are free, each with a page of its own. With a
    /// single log only opening uses them. Default: 2.
    pub compaction_threads: usize,
    /// Bytes of a chunk of the cold index, 64 to 4096: smaller ones cost less to change, and more
    /// memory, 8 bytes each. Default: 256, half a byte of memory a key at most.
    pub chunk_bytes: u32,
    /// The hot index of a new store begins with 2 to this power buckets of 64 bytes, seven chains
    /// each. It doubles as it fills, ten times at most. Default: the number from which five
    /// doublings take a quarter of the budget; 14 (1 MiB) if the budget has no limit.
    pub index_bits: Option<u32>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            single_log: false,
            scan_compaction: false,
            log_memory_bytes: None,
            read_cache_bytes: None,
            adaptive_split: true,
            chunk_digests: true,
            mutable_share: 0.9,
            page_bytes: None,
            segment_bytes: 64 << 20,
            disk_bytes_max: None,
            cold_disk_bytes_max: None,
            compaction_threads: 2,
            chunk_bytes: 256,
            index_bits: None,
        }
    }
}

/// The hot log's memory if neither options nor budget limit it.
const LOG_MEMORY_BYTES: u64 = 256 << 20;
/// The read cache's share of the hot log's memory, as a divisor, and the least memory for which a
/// cache is worth having: in pages, or in bytes if pages are long.
const READ_CACHE_SHARE: u64 = 4;
const READ_CACHE_PAGES_MIN: u64 = 4;
const READ_CACHE_BYTES_MIN: u64 = 4 * (64 << 10);
const PAGE_BYTES_MIN: u64 = 128 << 10;
const PAGE_BYTES_MAX: u64 = 32 << 20;
/// The chunk log's pages are not larger: it needs few of them in memory.
const CHUNK_PAGE_BYTES_MAX: u64 = 256 << 10;
/// Pages in memory, about, if the store chooses the size of a page.
const PAGES: u64 = 128;
/// Bytes of a page from which on pages are twice as long, for the sake of long records.
const LONG_PAGE_BYTES: u64 = 1 << 20;
/// Segments of the hot log, about. There are several so that its disk space is released in small
/// pieces.
const HOT_SEGMENTS: u64 = 16;
/// The hot log on disk, as a multiple of its memory.
const HOT_DISK_SHARE: u64 = 4;
const HOT_DISK_SHARE_MIN: u64 = 2;
/// Buffers of a page of each log: one is flushed, the others are read by compaction.
const BUFFER_PAGES: u64 = 1 + SCAN_PAGES as u64;
/// The share of the logs' memory that compactions work with, as a divisor.
const WORK_SHARE: u64 = 12;

/// Threads of one compaction at most.
const THREADS_MAX: usize = 64;

/// Bytes of memory of parts of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Memory {
    pub(crate) hot: u64,
    pub(crate) read_cache: u64,
    /// Memory that compactions work with.
    pub(crate) work: u64,
    /// Pages on their way to disk and back.
    pub(crate) buffers: u64,
}

/// How hot log and read cache get their memory.
#[derive(Clone, Debug)]
pub(crate) struct MemoryPlan {
    pub(crate) options: Options,
    pub(crate) identity: Identity,
    /// How it begins.
    pub(crate) begin: Memory,
    /// Whether it moves between them.
    pub(crate) is_adaptive: bool,
    /// The budget that it begins with, and the largest one that it has a use for.
    limit: u64,
    limit_max: u64,
    /// Bytes of the hot index's share; the part that the index leaves is theirs, too.
    index_share: u64,
}

/// Largest budget, as a multiple of the budget at opening. Addresses are reserved for that
/// multiple.
const GROWTH_MAX: u64 = 4;

impl MemoryPlan {
    /// The plan of a store that begins with a budget of `limit` bytes.
    pub(crate) fn new(options: Options, identity: Identity, limit: u64) -> Self {
        let options = Options { single_log: !identity.has_cold_log(), ..options };
        let begin = options.memory(limit, &identity);
        let is_adaptive =
            options.adaptive_split && options.read_cache_bytes.is_none() && begin.read_cache > 0;
        let is_bound = options.log_memory_bytes.is_none() && limit != u64::MAX;
        let index_share = if is_bound { Self::index_share(limit) } else { 0 };
        // If the options choose the split, they have chosen its sizes, too, so these do not grow;
        // and a single log is for comparisons.
        let may_grow = is_bound
            && options.adaptive_split
            && options.read_cache_bytes.is_none()
            && !options.single_log;
        let limit_max = if may_grow { limit.saturating_mul(GROWTH_MAX) } else { limit };
        Self { options, identity, begin, is_adaptive, limit, limit_max, index_share }
    }

    /// The largest budget that it has a use for, if it follows the budget at all.
    pub(crate) fn limit_max(&self) -> Option<u64> {
        (self.limit_max > self.limit).then_some(self.limit_max)
    }

    /// The least budget that the store can be opened with.
    pub(crate) fn limit_min(&self) -> u64 {
        Options::limit_for(self.identity.hot, self.identity.chunks)
    }

    /// Returns the memory and the threads that compactions may have.
    pub(crate) fn work(&self) -> Work {
        Work::of(self.begin.work, self.options.threads())
    }

    /// Returns the hot log's geometry in memory.
    pub(crate) fn hot_geometry(&self) -> Geometry {
        let begin = &self.begin;
        let least = Geometry::FRAMES_MIN_TO_RESERVE as u64 * self.identity.hot.page_bytes;
        let geometry = self.identity.hot.geometry(begin.hot.max(least), self.options.mutable_share);
        match self.side_bytes_max() {
            Some(bytes) => geometry.growing_to(bytes),
            None => geometry,
        }
    }

    /// The share of a budget of `limit` bytes that the hot index may take; the logs have the rest.
    pub(crate) const fn index_share(limit: u64) -> u64 {
        limit / INDEX_SHARE
    }

    /// Returns the most bytes that the hot log or the read cache may have with the budget at
    /// opening.
    fn side_bytes(&self) -> u64 {
        self.begin.hot + self.begin.read_cache + self.index_share
    }

    /// Returns the most bytes that digests of chunks may have.
    pub(crate) fn digest_bytes_max(&self) -> u64 {
        if self.is_adaptive && self.options.chunk_digests { self.side_bytes() } else { 0 }
    }

    /// Returns the most bytes that either may have, if that is not always the same.
    fn side_bytes_max(&self) -> Option<u64> {
        let is_fixed = !self.is_adaptive && self.limit_max().is_none();
        (!is_fixed).then(|| self.side_bytes() + (self.limit_max - self.limit))
    }

    /// The read cache.
    pub(crate) fn read_cache(&self, parts: &StoreParts) -> ReadCache {
        let bytes = self.begin.read_cache;
        let usual = if self.is_adaptive { self.side_bytes() } else { bytes };
        let bytes_max = self.side_bytes_max().unwrap_or(bytes);
        let Identity { hot, hash_seed, .. } = self.identity;
        ReadCache::new([bytes, usual, bytes_max], hot.page_bytes, hash_seed, parts)
    }

    /// Bytes of disk that the hot log should keep within: the same, whatever way the memory is
    /// split later.
    pub(crate) fn hot_disk(&self) -> Option<u64> {
        let geometry = self.hot_geometry();
        let bytes = |pages: u64| pages * geometry.page_bytes();
        let begin = bytes(geometry.frames as u64);
        let usual = if self.is_adaptive { self.side_bytes() } else { begin };
        let usual = bytes(usual / geometry.page_bytes()).max(begin);
        self.options.hot_disk(begin, usual)
    }

    /// Returns the same for a log whose memory has grown to `hot_memory` bytes.
    pub(crate) fn hot_disk_min(&self, hot_memory: u64) -> u64 {
        if self.options.single_log { 0 } else { HOT_DISK_SHARE_MIN * hot_memory }
    }

    /// Returns the bytes that both may have together, out of a budget of `limit` bytes of which the
    /// hot index takes `index` and others take `others`. If the options name the bytes, it returns
    /// those.
    pub(crate) fn split_bytes(&self, limit: u64, index: u64, others: u64) -> u64 {
        let Memory { hot, read_cache, work, .. } = self.options.memory(limit, &self.identity);
        if self.options.log_memory_bytes.is_some() {
            return hot + read_cache;
        }
        let index_share = if limit == u64::MAX { index } else { Self::index_share(limit) };
        // The memory that compactions work with was reserved when the store was opened.
        (hot + read_cache + work + index_share).saturating_sub(index + others + self.begin.work)
    }
}

/// The hot index's share of the budget, as a divisor.
const INDEX_SHARE: u64 = 4;
/// Doublings after which the index has its share of the budget.
const DOUBLINGS: u32 = 5;
const BUCKET_BYTES: u64 = 64;
const INDEX_BITS: u32 = 14;

/// Pages in memory of a log that only compaction writes.
pub(crate) const BACKGROUND_PAGES: u64 = Geometry::FRAMES_MIN as u64;

impl Options {
    /// The least memory, in bytes of the host's budget, that a new store is made with; less is
    /// exceeded, and this is by the buffers of a page or two of each log.
    pub const MEMORY_BYTES_MIN: u64 = Self::limit_for(
        LogUnits { page_bytes: PAGE_BYTES_MIN, segment_bytes: 0 },
        LogUnits { page_bytes: PAGE_BYTES_MIN / 2, segment_bytes: 0 },
    );

    /// Whether each makes sense.
    ///
    /// # Errors
    /// [`Error::BadOption`].
    pub(crate) fn check(&self) -> Result<()> {
        // The numbers in a superblock must pass the same check.
        let is_unit = |bytes: u64, most: u64| {
            bytes.is_power_of_two() && (BLOCK_BYTES..=most).contains(&bytes)
        };
        let is_page = |bytes: u64| is_unit(bytes, LogUnits::PAGE_BYTES_MAX);
        let rules = [
            ((0.0..=1.0).contains(&self.mutable_share), "mutable_share", "from 0 to 1"),
            (
                self.page_bytes.is_none_or(is_page),
                "page_bytes",
                "a power of two, from 4096 to 1 GiB",
            ),
            (
                is_unit(self.segment_bytes, LogUnits::SEGMENT_BYTES_MAX),
                "segment_bytes",
                "a power of two, from 4096 to 1 TiB",
            ),
            (
                CHUNK_BYTES.contains(&u64::from(self.chunk_bytes)),
                "chunk_bytes",
                "between 64 and 4096",
            ),
            (
                (1..=THREADS_MAX).contains(&self.compaction_threads),
                "compaction_threads",
                "between 1 and 64",
            ),
            (
                self.index_bits.is_none_or(|bits| (1..=BASE_BITS_MAX).contains(&bits)),
                "index_bits",
                "between 1 and 30",
            ),
        ];
        rules.into_iter().try_for_each(|(is_met, option, allowed)| match is_met {
            true => Ok(()),
            false => Err(Error::BadOption { engine: "f2", option, allowed }),
        })
    }

    /// Base bits of the index of a new store.
    pub(crate) fn index_bits(&self, limit: u64) -> u32 {
        self.index_bits.unwrap_or_else(|| {
            let buckets = (MemoryPlan::index_share(limit) / BUCKET_BYTES).max(1);
            if limit == u64::MAX {
                INDEX_BITS
            } else {
                buckets.ilog2().saturating_sub(DOUBLINGS).max(1)
            }
        })
    }

    /// Threads of one compaction.
    pub(crate) fn threads(&self) -> usize {
        self.compaction_threads.clamp(1, THREADS_MAX)
    }

    /// Bytes of memory for all logs, given the budget's limit.
    fn logs_memory(limit: u64) -> u64 {
        if limit == u64::MAX { LOG_MEMORY_BYTES } else { limit / INDEX_SHARE * (INDEX_SHARE - 1) }
    }

    /// How a budget of `limit` bytes is split among the parts that can use any amount.
    fn memory(&self, limit: u64, identity: &Identity) -> Memory {
        let all = self.log_memory_bytes.unwrap_or(Self::logs_memory(limit));
        let work = all / WORK_SHARE;
        let (cold, chunks) = (identity.cold.page_bytes, identity.chunks.page_bytes);
        let background = if self.single_log { 0 } else { BACKGROUND_PAGES * (cold + chunks) };
        let others = if self.single_log { 0 } else { cold + chunks };
        // Each thread of a compaction of the hot or the cold log has a page of its own.
        let threads = self.threads() as u64 - 1;
        let own = identity.hot.page_bytes + if self.single_log { 0 } else { cold };
        let buffers = BUFFER_PAGES * (identity.hot.page_bytes + others) + threads * own;
        let is_chosen = self.log_memory_bytes.is_some();
        let others = if is_chosen { 0 } else { background + work + buffers };
        let hot = all.saturating_sub(others);
        let read_cache = self.read_cache_bytes.unwrap_or_else(|| {
            let share = hot / READ_CACHE_SHARE;
            let page_bytes = identity.hot.page_bytes;
            let least = Geometry::FRAMES_MIN_TO_RESERVE as u64 * page_bytes;
            let least_cache = READ_CACHE_BYTES_MIN.min(READ_CACHE_PAGES_MIN * page_bytes);
            if share < least_cache || hot - share < least { 0 } else { share }
        });
        Memory { hot: hot.saturating_sub(read_cache), read_cache, work, buffers }
    }

    /// Bytes of disk that the hot log should keep within, which has this memory at first, and at
    /// most: the same, whatever way the memory is split later.
    fn hot_disk(&self, hot_memory: u64, hot_memory_max: u64) -> Option<u64> {
        match self.single_log {
            true => self.disk_bytes_max,
            // Only records that are on disk can move, so the log is always longer than its memory.
            false => {
                let wanted = self.disk_bytes_max.unwrap_or(HOT_DISK_SHARE * hot_memory);
                Some(wanted.max(HOT_DISK_SHARE_MIN * hot_memory_max))
            }
        }
    }

    /// The budget's limit that has room for the fewest pages of logs with these: the opposite of
    /// [`Options::memory`].
    pub(crate) const fn limit_for(hot: LogUnits, chunks: LogUnits) -> u64 {
        let least_hot = (Geometry::FRAMES_MIN_TO_RESERVE as u64).saturating_mul(hot.page_bytes);
        let others = BACKGROUND_PAGES.saturating_mul(hot.page_bytes + chunks.page_bytes);
        let least = least_hot.saturating_add(others);
        (least + least.div_ceil(WORK_SHARE - 1)).div_ceil(3).saturating_mul(4)
    }

    /// Units of the hot, the cold and the chunk log of a new store.
    pub(crate) fn units(&self, limit: u64) -> [LogUnits; 3] {
        let memory = self.log_memory_bytes.unwrap_or(Self::logs_memory(limit));
        let power = |bytes: u64| 1u64 << bytes.max(1).ilog2();
        let page_bytes = self.page_bytes.unwrap_or_else(|| {
            let share = power(memory / PAGES);
            let wanted = if share < LONG_PAGE_BYTES { share } else { 2 * share };
            wanted.clamp(PAGE_BYTES_MIN, PAGE_BYTES_MAX)
        });
        let segment_bytes = self.segment_bytes.max(page_bytes);
        let hot_segment = power(memory * HOT_DISK_SHARE / HOT_SEGMENTS);
        let hot_segment = hot_segment.clamp(page_bytes, segment_bytes);
        // Without a budget of disk space the cold log is compacted once it has a number of
        // segments. So a small store's segments are small, too.
        let cold_segment = power(memory).clamp(hot_segment, segment_bytes);
        let chunk_page = (page_bytes / 2).clamp(BLOCK_BYTES, CHUNK_PAGE_BYTES_MAX);
        let hot_segment = if self.single_log { segment_bytes } else { hot_segment };
        [
            LogUnits { page_bytes, segment_bytes: hot_segment },
            LogUnits { page_bytes, segment_bytes: cold_segment },
            LogUnits { page_bytes: chunk_page, segment_bytes: hot_segment.max(chunk_page) },
        ]
    }
}
