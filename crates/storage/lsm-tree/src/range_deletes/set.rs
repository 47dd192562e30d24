//! A set of range deletes that never changes: tiers of fragments.

use std::collections::HashSet;
use std::sync::Arc;

use codec::SeqNo;
use memory_budget::{Account, MemoryBudget};

use super::RangeDelete;

/// Most range deletes in a tier. A fragment has the number of each range delete that covers it, so
/// a tier may take bytes in proportion to the square of this.
const TIER_MAX: usize = 256;

/// See the file's head.
#[derive(Clone, Debug, Default)]
pub struct RangeDeletes {
    tiers: Vec<Arc<Tier>>,
}

/// Some of them.
#[derive(Debug)]
struct Tier {
    /// By number, then by start.
    deletes: Vec<Arc<RangeDelete>>,
    /// In order; the first one begins with the first range.
    fragments: Vec<Fragment>,
    bytes: usize,
    _charge: Account,
}

/// The keys from `start` on, before the next fragment.
#[derive(Debug)]
struct Fragment {
    start: Vec<u8>,
    /// The numbers of the range deletes that cover it, ascending.
    numbers: Vec<SeqNo>,
}

impl Tier {
    fn of(mut deletes: Vec<Arc<RangeDelete>>, budget: &Arc<MemoryBudget>) -> Arc<Self> {
        deletes.sort_by(|a, b| (a.seqno, &a.start).cmp(&(b.seqno, &b.start)));
        let begin = deletes.iter().map(|delete| (delete.start.as_slice(), true, delete.seqno));
        let ends = deletes.iter().filter_map(|delete| Some((delete.end.as_deref()?, delete.seqno)));
        let mut edges: Vec<_> = begin.chain(ends.map(|(end, seqno)| (end, false, seqno))).collect();
        edges.sort_unstable();
        let mut fragments = Vec::new();
        // Ranges of one write may overlap: `covering` has its number once for each, and a fragment
        // once.
        let mut covering: Vec<SeqNo> = Vec::new();
        for edge in edges.chunk_by(|(one, ..), (other, ..)| one == other) {
            for (_, begins, seqno) in edge {
                let at = covering.partition_point(|number| number < seqno);
                if *begins {
                    covering.insert(at, *seqno);
                } else {
                    covering.remove(at);
                }
            }
            if let Some((start, ..)) = edge.first() {
                let mut numbers = covering.clone();
                numbers.dedup();
                numbers.shrink_to_fit();
                fragments.push(Fragment { start: start.to_vec(), numbers });
            }
        }
        let charge = Account::new(budget);
        let bytes = deletes.iter().map(|delete| delete.memory()).sum::<usize>()
            + fragments.iter().map(Fragment::memory).sum::<usize>();
        charge.set(bytes as u64);
        Arc::new(Self { deletes, fragments, bytes, _charge: charge })
    }

    /// Returns the numbers of the range deletes that cover `key`, ascending.
    fn covering(&self, key: &[u8]) -> &[SeqNo] {
        let behind = self.fragments.partition_point(|fragment| fragment.start.as_slice() <= key);
        let fragment = behind.checked_sub(1).and_then(|at| self.fragments.get(at));
        fragment.map_or(&[], |fragment| fragment.numbers.as_slice())
    }
}

impl Fragment {
    fn memory(&self) -> usize {
        size_of::<Self>() + self.start.capacity() + self.numbers.capacity() * size_of::<SeqNo>()
    }
}

impl RangeDeletes {
    /// Makes the set of these range deletes.
    pub fn of(deletes: &[Arc<RangeDelete>], budget: &Arc<MemoryBudget>) -> Self {
        let tiers = deletes.chunks(TIER_MAX).map(|some| Tier::of(some.to_vec(), budget));
        Self { tiers: tiers.collect() }
    }

    /// Returns the set with one more.
    pub fn with(&self, delete: Arc<RangeDelete>, budget: &Arc<MemoryBudget>) -> Self {
        let mut tiers = self.tiers.clone();
        let mut last = vec![delete];
        while let Some(tier) =
            tiers.pop_if(|tier| tier.deletes.len() <= last.len().min(TIER_MAX - last.len()))
        {
            last.extend(tier.deletes.iter().cloned());
        }
        tiers.push(Tier::of(last, budget));
        Self { tiers }
    }

    /// Returns the set without some.
    pub fn without(&self, over: &HashSet<*const RangeDelete>, budget: &Arc<MemoryBudget>) -> Self {
        let stays = |delete: &&Arc<RangeDelete>| !over.contains(&Arc::as_ptr(delete));
        let left: Vec<_> = self.iter().filter(stays).cloned().collect();
        Self::of(&left, budget)
    }

    /// Returns all of them.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<RangeDelete>> {
        self.tiers.iter().flat_map(|tier| &tier.deletes)
    }

    /// Returns the number of range deletes.
    pub fn len(&self) -> usize {
        self.tiers.iter().map(|tier| tier.deletes.len()).sum()
    }

    /// Returns the greatest number of any; zero if there is none.
    pub fn last(&self) -> SeqNo {
        let last = self.tiers.iter().filter_map(|tier| tier.deletes.last());
        last.map(|delete| delete.seqno).max().unwrap_or(SeqNo::ZERO)
    }

    /// Returns the bytes of memory.
    pub fn memory(&self) -> u64 {
        self.tiers.iter().map(|tier| tier.bytes as u64).sum()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.tiers.is_empty()
    }

    /// Returns whether this one is there.
    pub(super) fn has(&self, delete: &RangeDelete) -> bool {
        self.tiers.iter().any(|tier| {
            let from = tier.deletes.partition_point(|other| other.seqno < delete.seqno);
            let rest = tier.deletes.iter().skip(from);
            rest.take_while(|other| other.seqno == delete.seqno).any(|other| **other == *delete)
        })
    }

    /// Returns the greatest number up to `upto` of a range delete that covers `key`; zero if there
    /// is none. For a reader that sees writes up to `upto`, versions of the key with lower numbers
    /// are hidden.
    pub fn newest(&self, key: &[u8], upto: SeqNo) -> SeqNo {
        let newest = self.tiers.iter().filter_map(|tier| {
            let numbers = tier.covering(key);
            let upto = numbers.partition_point(|number| *number <= upto);
            upto.checked_sub(1).and_then(|at| numbers.get(at))
        });
        newest.max().copied().unwrap_or(SeqNo::ZERO)
    }

    /// Returns the least number above `seqno` of a range delete that covers `key`.
    pub fn next_above(&self, key: &[u8], seqno: SeqNo) -> Option<SeqNo> {
        let above = self.tiers.iter().filter_map(|tier| {
            let numbers = tier.covering(key);
            numbers.get(numbers.partition_point(|number| *number <= seqno))
        });
        above.min().copied()
    }
}
