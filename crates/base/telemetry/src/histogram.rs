//! How a quantity is distributed, in buckets whose width grows with the value.
//!
//! 1. Values below [`SUB_BUCKETS`] have a bucket each.
//! 2. Above, every doubling is cut into [`SUB_BUCKETS`] equal buckets, so a bucket's bounds are
//!    within 1/16 of each other: quantiles are overstated by less than that.
//! 3. Recording is one addition to the bucket and one to the sum, in the thread's own shard, and a
//!    store to the maximum only when there is a new one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::shards::Shards;
use crate::snapshot::{Bucket, Distribution};

const SUB_BITS: u32 = 4;
const SUB_BUCKETS: u64 = 1 << SUB_BITS;
/// Values with their top bit at `SUB_BITS..64` have `SUB_BUCKETS` each, after the single ones.
const BUCKETS: usize = ((64 - SUB_BITS + 1) << SUB_BITS) as usize;

/// The unit of a histogram's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Times, recorded in nanoseconds and shown in seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// Things.
    Count,
}

/// A distribution of times, sizes or counts. Cheap to clone; clones record together.
///
/// It takes 8 KiB per processor (up to 16 processors).
#[derive(Clone, Debug)]
pub struct Histogram(Arc<Recorded>);

#[derive(Debug)]
struct Recorded {
    unit: Unit,
    shards: Shards<Shard>,
}

#[derive(Debug)]
struct Shard {
    buckets: Box<[AtomicU64]>,
    sum: AtomicU64,
    max: AtomicU64,
}

impl Shard {
    fn new() -> Self {
        Self {
            buckets: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect(),
            sum: AtomicU64::new(0),
            max: AtomicU64::new(0),
        }
    }
}

impl Histogram {
    /// A histogram that is in no registry.
    pub fn detached(unit: Unit) -> Self {
        Self(Arc::new(Recorded { unit, shards: Shards::new(Shard::new) }))
    }

    /// Records one value: nanoseconds, bytes or things, as the unit says.
    pub fn record(&self, value: u64) {
        let shard = self.0.shards.mine();
        shard.buckets[bucket_of(value)].fetch_add(1, Ordering::Relaxed);
        shard.sum.fetch_add(value, Ordering::Relaxed);
        if value > shard.max.load(Ordering::Relaxed) {
            shard.max.fetch_max(value, Ordering::Relaxed);
        }
    }

    /// Records a time, in nanoseconds.
    pub fn record_duration(&self, duration: Duration) {
        self.record(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Returns the unit of the values.
    pub fn unit(&self) -> Unit {
        self.0.unit
    }

    /// The values recorded so far, by bucket.
    pub fn distribution(&self) -> Distribution {
        let mut counts = vec![0_u64; BUCKETS];
        let (mut sum, mut max) = (0_u64, 0_u64);
        for shard in self.0.shards.iter() {
            for (count, bucket) in counts.iter_mut().zip(&shard.buckets) {
                *count += bucket.load(Ordering::Relaxed);
            }
            sum = sum.wrapping_add(shard.sum.load(Ordering::Relaxed));
            max = max.max(shard.max.load(Ordering::Relaxed));
        }
        let buckets: Vec<Bucket> = counts
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0)
            .map(|(index, count)| Bucket { upper: upper_bound(index), count: *count })
            .collect();
        let count = buckets.iter().map(|bucket| bucket.count).sum();
        Distribution { unit: self.0.unit, count, sum, max, buckets }
    }
}

/// The bucket that holds `value`.
fn bucket_of(value: u64) -> usize {
    if value < SUB_BUCKETS {
        return value as usize;
    }
    let top_bit = value.ilog2();
    let sub_bucket = (value >> (top_bit - SUB_BITS)) & (SUB_BUCKETS - 1);
    (((top_bit - SUB_BITS + 1) << SUB_BITS) as usize) + sub_bucket as usize
}

/// The largest value that bucket `index` holds.
fn upper_bound(index: usize) -> u64 {
    let index = index as u64;
    if index < SUB_BUCKETS {
        return index;
    }
    let shift = (index >> SUB_BITS) - 1;
    let lower = (SUB_BUCKETS + (index & (SUB_BUCKETS - 1))) << shift;
    lower + ((1 << shift) - 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_value_lies_in_its_bucket(value in any::<u64>(), shift in 0_u32..64) {
            let value = value >> shift;
            let bucket = bucket_of(value);
            prop_assert!(bucket < BUCKETS);
            prop_assert!(value <= upper_bound(bucket));
            prop_assert!(bucket == 0 || value > upper_bound(bucket - 1));
            prop_assert!(upper_bound(bucket) - value <= value / SUB_BUCKETS);
        }
    }

    #[test]
    fn the_buckets_cover_everything() {
        assert_eq!(upper_bound(BUCKETS - 1), u64::MAX);
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }
}
