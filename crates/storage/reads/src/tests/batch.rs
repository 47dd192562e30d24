//! Read batches: joined ranges, their limits, and their failures.

use std::collections::BTreeMap;

use super::*;
use crate::{Batch, RangeBytes, RangeRead, RangeReader};

const NEAR: Batch = Batch { gap: 0, span_bytes_max: 8 * BLOCK, bytes_max: 16 * BLOCK };

/// A reader of ranges of blocks, each a first block and a number of blocks.
struct Blocks<'a> {
    disk: &'a Disk,
    source: Arc<dyn ReadSource>,
    ranges: Vec<(usize, usize)>,
    next: usize,
    /// Blocks of ranges that were returned and whose bytes are missing, and the most of them.
    asked: usize,
    asked_max: usize,
    /// The result of each range.
    taken: BTreeMap<usize, Result<Vec<u8>>>,
    /// A range that turns out one block longer. It is read again if that block did not come.
    longer: Option<usize>,
    /// A range whose bytes end the batch with an error, or with a panic.
    ends: Option<usize>,
    panics: Option<usize>,
    /// A range that cannot be named.
    unnamed: Option<usize>,
}

impl<'a> Blocks<'a> {
    fn new(disk: &'a Arc<Disk>, ranges: &[(usize, usize)]) -> Self {
        let source: Arc<dyn ReadSource> = Arc::new(Source(Arc::clone(disk)));
        let (taken, longer, ends, panics, unnamed) = Default::default();
        let (ranges, next, asked, asked_max) = (ranges.to_vec(), 0, 0, 0);
        Self { disk, source, ranges, next, asked, asked_max, taken, longer, ends, panics, unnamed }
    }

    fn range(&self, payload: usize) -> Option<RangeRead<usize>> {
        let (block, count) = *self.ranges.get(payload)?;
        let file = Arc::clone(&self.disk.file);
        Some(RangeRead { file, offset: (block * BLOCK) as u64, len: count * BLOCK, payload })
    }

    /// Reads all, and returns the number of reads.
    fn read(&mut self, pool: &ReadPool, batch: Batch) -> Result<usize> {
        let before = self.disk.device.accounting().counts().read_ops as usize;
        let source = Arc::clone(&self.source);
        pool.read_batch(&source, batch, self)?;
        Ok(self.disk.device.accounting().counts().read_ops as usize - before)
    }

    /// Asserts that each range has the bytes of its blocks.
    fn assert_whole(&self) {
        assert_eq!(self.taken.len(), self.ranges.len());
        for (index, taken) in &self.taken {
            let (block, count) = self.ranges[*index];
            let blocks = (block..block + count).flat_map(|block| [block as u8; BLOCK]);
            assert_eq!(taken.as_deref(), Ok(&blocks.collect::<Vec<u8>>()[..]), "{index}");
        }
    }
}

impl RangeReader<usize> for Blocks<'_> {
    fn next_range(&mut self) -> Result<Option<RangeRead<usize>>> {
        if self.unnamed == Some(self.next) {
            return Err(Error::Closed);
        }
        let range = self.range(self.next);
        if range.is_some() {
            self.asked += self.ranges[self.next].1;
            self.asked_max = self.asked_max.max(self.asked);
            self.next += 1;
        }
        Ok(range)
    }

    fn take_bytes(
        &mut self,
        index: usize,
        bytes: Result<RangeBytes<'_>>,
    ) -> Result<Option<RangeRead<usize>>> {
        assert_ne!(self.panics, Some(index), "as the test wants it");
        if self.ends == Some(index) {
            return Err(Error::Closed);
        }
        let mut bytes = bytes.map(|bytes| (bytes.range, bytes.and_more));
        if self.longer.take_if(|longer| *longer == index).is_some() {
            self.ranges[index].1 += 1;
            self.asked += 1;
            let len = self.ranges[index].1 * BLOCK;
            match bytes.as_mut().map(|(range, and_more)| (range, and_more.get(..len))) {
                Ok((range, Some(all))) => *range = all,
                _ => return Ok(self.range(index)),
            }
        }
        self.asked -= self.ranges[index].1;
        let before = self.taken.insert(index, bytes.map(|(range, _)| range.to_vec()));
        assert!(before.is_none(), "{index} came twice");
        Ok(None)
    }
}

fn pool() -> (ReadPool, Arc<MemoryBudget>) {
    let budget = Arc::new(MemoryBudget::new(1 << 30));
    (ReadPool::new(&budget), budget)
}

#[test]
fn ranges_within_the_gap_are_one_read() {
    let (disk, (pool, _)) = (Disk::new(), pool());
    // Neighbours, an overlap, a range inside another one, and one before the last.
    let ranges = [(0, 1), (1, 2), (2, 3), (3, 1), (6, 1), (9, 1), (8, 1)];
    for (gap, reads) in [(0, 4), (1, 3), (2, 1)] {
        let mut blocks = Blocks::new(&disk, &ranges);
        let batch = Batch { gap: gap * BLOCK as u64, span_bytes_max: 64 * BLOCK, ..NEAR };
        assert_eq!(blocks.read(&pool, batch), Ok(reads), "a gap of {gap} blocks");
        blocks.assert_whole();
    }
    assert_eq!(disk.queues.load(Relaxed), 2, "one for each reader of several spans");
}

#[test]
fn spans_and_the_bytes_in_flight_have_limits() {
    let (disk, (pool, budget)) = (Disk::new(), pool());
    let ranges: Vec<(usize, usize)> = (0..100).map(|block| (block, 1)).collect();
    let mut blocks = Blocks::new(&disk, &ranges);
    assert_eq!(blocks.read(&pool, NEAR), Ok(13), "spans of 8 blocks");
    blocks.assert_whole();
    // Two spans in flight, a third one that waits, and the range after it.
    assert!(blocks.asked_max <= 25, "{} blocks", blocks.asked_max);
    // A range that is longer than both limits is read alone.
    let mut blocks = Blocks::new(&disk, &[(0, 40), (40, 40), (80, 1)]);
    assert_eq!(blocks.read(&pool, NEAR), Ok(3));
    blocks.assert_whole();
    pool.close();
    assert_eq!(budget.used(), 0);
}

#[test]
fn a_range_that_turns_out_longer_is_read_again() {
    let (disk, (pool, _)) = (Disk::new(), pool());
    let mut blocks = Blocks::new(&disk, &[(0, 1), (1, 1), (2, 1), (60, 1)]);
    blocks.longer = Some(2);
    assert_eq!(blocks.read(&pool, NEAR), Ok(3));
    blocks.assert_whole();
}

#[test]
fn a_range_that_turns_out_longer_may_be_in_its_span() {
    let (disk, (pool, _)) = (Disk::new(), pool());
    let mut blocks = Blocks::new(&disk, &[(0, 1), (1, 1), (2, 1), (60, 1)]);
    blocks.longer = Some(1);
    assert_eq!(blocks.read(&pool, NEAR), Ok(2));
    blocks.assert_whole();
}

/// Such a range needs no queue, and no table is made.
#[test]
fn a_batch_of_one_span_is_read_by_the_calling_thread() {
    let (disk, (pool, budget)) = (Disk::new(), pool());
    let mut blocks = Blocks::new(&disk, &[(0, 1), (1, 1)]);
    assert_eq!(blocks.read(&pool, NEAR), Ok(1));
    blocks.assert_whole();
    assert_eq!((disk.queues.load(Relaxed), budget.used()), (0, 0));
}

/// More spans than a table takes.
#[test]
fn a_batch_may_have_more_spans_than_a_table_takes() {
    let (disk, (pool, _)) = (Disk::new(), pool());
    let ranges: Vec<(usize, usize)> = (0..1000).map(|at| (at * 7 % BLOCKS, 1)).collect();
    let mut blocks = Blocks::new(&disk, &ranges);
    let alone = Batch { span_bytes_max: 0, bytes_max: usize::MAX, ..NEAR };
    assert_eq!(blocks.read(&pool, alone), Ok(1000));
    blocks.assert_whole();
}

/// The last range ends after the end of the file. Its failure fails the joined read, but no other
/// range.
#[test]
fn a_failure_concerns_only_the_ranges_that_have_it() {
    let (disk, (pool, _)) = (Disk::new(), pool());
    let ranges = [(BLOCKS - 3, 1), (BLOCKS - 2, 1), (BLOCKS - 1, 2), (0, 1)];
    let mut blocks = Blocks::new(&disk, &ranges);
    assert_eq!(blocks.read(&pool, NEAR), Ok(5));
    assert!(blocks.taken.remove(&2).expect("it came").is_err());
    blocks.ranges.remove(2);
    let last = blocks.taken.remove(&3).expect("it came");
    blocks.taken.insert(2, last);
    blocks.assert_whole();
}

#[test]
fn a_batch_without_a_queue_reads_one_by_one() {
    let (disk, (pool, _)) = (Disk::new(), pool());
    disk.makes_no_queue.store(true, Relaxed);
    let mut blocks = Blocks::new(&disk, &[(0, 1), (1, 1), (30, 2), (90, 1)]);
    blocks.longer = Some(3);
    assert_eq!(blocks.read(&pool, NEAR), Ok(4));
    blocks.assert_whole();
    assert_eq!(disk.queues.load(Relaxed), 0);
}

/// The reads in flight go with the batch, and their memory.
#[test]
fn an_error_of_the_reader_ends_the_batch() {
    let (disk, (pool, budget)) = (Disk::new(), pool());
    let ranges: Vec<(usize, usize)> = (0..50).map(|block| (2 * block, 1)).collect();
    let mut blocks = Blocks::new(&disk, &ranges);
    blocks.ends = Some(20);
    assert_eq!(blocks.read(&pool, NEAR), Err(Error::Closed));
    assert!(blocks.next < 50 && !blocks.taken.is_empty());
    assert_eq!(budget.used(), 0);
}

#[test]
fn a_range_that_cannot_be_named_ends_the_batch() {
    let (disk, (pool, budget)) = (Disk::new(), pool());
    let ranges: Vec<(usize, usize)> = (0..50).map(|block| (2 * block, 1)).collect();
    let mut blocks = Blocks::new(&disk, &ranges);
    blocks.unnamed = Some(40);
    assert_eq!(blocks.read(&pool, NEAR), Err(Error::Closed));
    assert_eq!(budget.used(), 0);
}

/// The reads in flight end, and the pool can be used.
#[test]
fn a_panic_of_the_reader_leaves_nothing_behind() {
    let (disk, (pool, budget)) = (Disk::new(), pool());
    let ranges: Vec<(usize, usize)> = (0..50).map(|block| (2 * block, 1)).collect();
    let mut blocks = Blocks::new(&disk, &ranges);
    blocks.panics = Some(20);
    let panicked = catch_unwind(AssertUnwindSafe(|| blocks.read(&pool, NEAR)));
    assert!(panicked.is_err());
    assert_eq!(budget.used(), 0);
    let mut blocks = Blocks::new(&disk, &ranges);
    assert_eq!(blocks.read(&pool, NEAR), Ok(50));
    blocks.assert_whole();
}

#[test]
fn a_closed_pool_keeps_no_table() {
    let (disk, (pool, budget)) = (Disk::new(), pool());
    pool.close();
    let mut blocks = Blocks::new(&disk, &[(0, 1), (10, 1)]);
    assert_eq!(blocks.read(&pool, NEAR), Ok(2));
    assert_eq!(budget.used(), 0);
}

/// A queue that fails while spans are in flight: the failure goes to each of their ranges.
#[test]
fn a_queue_that_fails_is_reported_to_each_range() {
    let (disk, (pool, _)) = (Disk::new(), pool());
    disk.fails.store(true, Relaxed);
    let mut blocks = Blocks::new(&disk, &[(0, 1), (1, 1), (30, 2), (90, 1)]);
    blocks.read(&pool, NEAR).expect("the reader takes the failures");
    assert_eq!(blocks.taken.len(), 4);
    assert!(blocks.taken.values().all(|taken| *taken == Err(Error::Device(broken()))));
}
