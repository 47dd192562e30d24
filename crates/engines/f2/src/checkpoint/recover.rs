//! Rebuilding the index from the log.
//!
//! The entry of each record's chain is to lead to the chain's last record: along a chain addresses
//! fall [H7 of the log], so that is its head. Several threads do it, each with a page of its own:
//!
//! 1. A thread takes the next page, of which some are read ahead, and verifies its records one by
//!    one.
//! 2. The buckets of some chains are loaded together, and then the chains led to the records,
//!    unless they lead to later ones: the order in which pages are processed means nothing.
//! 3. If the index is full, one thread doubles it, while the others continue.
//!
//! Pages are handed out in the order of the log, and a thread that has a page finishes it, whatever
//! the others find. So the first damage in the log is found, and it is the one that is reported.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use engine::{Error, Result};
use sync::locks::Mutex;
use workers::Group;

use crate::address::LogAddress;
use crate::compaction::together;
use crate::hash_index::HashIndex;
use crate::hybrid_log::{Scan, Stretch};
use crate::key_hash::KeyHash;
use crate::open::StoredLog;

/// Buckets that are loaded together: each is a miss of the processor's caches.
const LOADED_PER_TURN: usize = 16;

/// State that the threads share.
struct Rebuild {
    index: HashIndex,
    hash_seed: u64,
    log: StoredLog,
    scan: Mutex<Scan>,
    tombstones: AtomicU64,
    /// The first failure in the order of the log, and the beginning of its page.
    failed: Mutex<Option<(LogAddress, Error)>>,
}

/// Reads and verifies the log, enters every record into `index`, and counts tombstones. Runs on
/// this thread and on free threads of the pool, up to `threads` in all. Each has a page in memory,
/// and some pages are read ahead.
///
/// # Errors
/// Damage with its place; the storage's.
pub(crate) fn rebuild(
    index: HashIndex,
    hash_seed: u64,
    log: StoredLog,
    workers: &Group,
    threads: usize,
) -> Result<(HashIndex, StoredLog, u64)> {
    let (begin, end) = (log.span.begin, log.span.end);
    let scan = Mutex::new(Scan::new(&log.geometry, begin, end));
    // No help is requested if there is nothing to do.
    let pages = end.get().div_ceil(log.geometry.page_bytes()) - log.geometry.page(begin);
    let others = threads.min(pages as usize).saturating_sub(1);
    let (tombstones, failed) = Default::default();
    let rebuild = Arc::new(Rebuild { index, hash_seed, log, scan, tombstones, failed });
    let shared = Arc::clone(&rebuild);
    let work: Arc<dyn Fn() + Send + Sync> = Arc::new(move || shared.run());
    together(workers, "help to open", others, &work);
    drop(work);
    let rebuilt = Arc::into_inner(rebuild).expect("all workers have ended");
    match rebuilt.failed.into_inner() {
        Some((_, error)) => Err(error),
        None => Ok((rebuilt.index, rebuilt.log, rebuilt.tombstones.into_inner())),
    }
}

impl Rebuild {
    /// The work of each thread.
    fn run(&self) {
        while let Some(stretch) = self.next_stretch() {
            if let Err(error) = self.enter(&stretch) {
                self.fail(stretch.begin(), error);
            }
            // A thread that is too late to double it leaves the splitting to the thread that did.
            while self.index.should_grow() && self.index.grow() {
                self.index.split_some(usize::MAX);
            }
        }
    }

    /// The next page; none at the end, and when something has failed.
    fn next_stretch(&self) -> Option<Stretch> {
        let mut scan = self.scan.lock();
        if self.failed.lock().is_some() {
            return None;
        }
        scan.next(&self.log.segments).unwrap_or_else(|error| {
            // All pages that were handed out are before it.
            self.fail(self.log.span.end, error);
            None
        })
    }

    fn fail(&self, at: LogAddress, error: Error) {
        let mut failed = self.failed.lock();
        if failed.as_ref().is_none_or(|(first, _)| at < *first) {
            *failed = Some((at, error));
        }
    }

    fn enter(&self, stretch: &Stretch) -> Result<()> {
        let (mut heads, mut tombstones) = (Vec::with_capacity(LOADED_PER_TURN), 0);
        stretch.records(&mut |address, stored| {
            if !stored.header.is_invalid() {
                tombstones += u64::from(stored.value.is_none());
                heads.push((KeyHash::of(stored.key, self.hash_seed), address));
            }
            if heads.len() == LOADED_PER_TURN {
                self.lead(&heads);
                heads.clear();
            }
            Ok(())
        })?;
        self.lead(&heads);
        self.tombstones.fetch_add(tombstones, Relaxed);
        Ok(())
    }

    /// Leads chains to these records, unless they lead to later ones.
    fn lead(&self, heads: &[(KeyHash, LogAddress)]) {
        let loaded = heads.iter().fold(0, |loaded, (hash, _)| loaded ^ self.index.prefetch(*hash));
        black_box(loaded);
        for (hash, address) in heads {
            self.index.restore(*hash, *address);
        }
    }
}
