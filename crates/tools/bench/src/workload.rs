//! The work of a run: workloads by name, their mixes, and the stream of operations of each thread.
//!
//! ```text
//! name                    operations
//! ycsb-a                  50 read, 50 update
//! ycsb-b                  95 read, 5 update
//! ycsb-c                  100 read
//! ycsb-d                  95 read of the latest, 5 insert
//! ycsb-e                  95 scan of 1 to 100, 5 insert
//! ycsb-f                  50 read, 50 read-modify-write
//! ycsb-w                  5 read, 95 update (F2's)
//! mixgraph-all            83 read, 14 update, 3 seek and scan
//! mixgraph-prefix         83 read, 14 update, 3 seek and scan
//! mixgraph-all-points     86 read, 14 update: the seeks are reads
//! mixgraph-prefix-points  86 read, 14 update: the seeks are reads
//! hashkv-p0               insert all keys
//! hashkv-p1 to hashkv-p3  one update a key on average, after the phases before
//! r100                    100 read (Nova-LSM's, as the next three)
//! rw50                    50 read, 50 update
//! sw50                    50 scan of 10, 50 update
//! w100                    100 update
//! s100                    100 scan of 50
//! flexdb-put              one put a key into an empty store, new and known keys
//!                         (FlexDB's; the next two, too)
//! flexdb-get              100 read, of keys loaded in order, then updates, a sixteenth in number
//! flexdb-scan             100 scan of 50, of the same keys
//! load                    insert all keys
//! trace:FILE              the operations of the file
//! ```

mod names;
mod stream;
#[cfg(test)]
mod tests;
mod trace;

pub use names::WorkloadError;
pub use stream::{Operation, Place, Stream, StreamOptions};
pub use trace::{Trace, TraceError, TraceOperation, TraceVerb, write_trace_key};

use crate::distribution::{Distribution, GeneralizedPareto};
use crate::shape::{KeyOrder, Shape};

/// A workload by its name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Workload {
    /// YCSB A to F, and F2's W, by their letter in lower case.
    Ycsb(char),
    /// MixGraph with hot keys anywhere; without seeks for stores that keep no order.
    MixGraphAll {
        /// Whether it seeks.
        seeks: bool,
    },
    /// MixGraph with hot key ranges; the same.
    MixGraphPrefix {
        /// Whether it seeks.
        seeks: bool,
    },
    /// HashKV's phase 0 (load) to 3.
    HashKv(u8),
    /// Nova-LSM's R100.
    R100,
    /// Nova-LSM's RW50.
    Rw50,
    /// Nova-LSM's SW50.
    Sw50,
    /// Nova-LSM's W100.
    W100,
    /// Scans alone.
    S100,
    /// FlexDB's micro-workload of puts into an empty store.
    FlexPut,
    /// FlexDB's of gets.
    FlexGet,
    /// FlexDB's of scans.
    FlexScan,
    /// Measures the insertion of all keys.
    Load,
    /// The operations of a file.
    Trace(String),
}

/// Shares of the verbs, in percent; they sum to 100.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mix {
    /// Point reads.
    pub read: u32,
    /// Blind writes of existing keys.
    pub update: u32,
    /// Writes of new keys.
    pub insert: u32,
    /// Atomic read-modify-writes.
    pub rmw: u32,
    /// Range reads.
    pub scan: u32,
}

/// How many pairs a scan asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ScanLength {
    /// Always this number.
    Fixed(u32),
    /// Uniformly 1 to this many.
    UpTo(u32),
    /// MixGraph's.
    Pareto(GeneralizedPareto),
}

/// The length of the measured phase, unless the options name another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// As long as `--seconds` says.
    Time,
    /// One operation for each key.
    Keys,
    /// The load itself, which is measured.
    LoadItself,
    /// To the end of the trace.
    Trace,
}

impl Workload {
    /// The shares of its verbs; none for a load or a trace.
    pub fn mix(&self) -> Mix {
        let none = Mix::default();
        match self {
            Self::Ycsb('a') | Self::Rw50 => Mix { read: 50, update: 50, ..none },
            Self::Ycsb('b') => Mix { read: 95, update: 5, ..none },
            Self::Ycsb('c') | Self::R100 | Self::FlexGet => Mix { read: 100, ..none },
            Self::Ycsb('d') => Mix { read: 95, insert: 5, ..none },
            Self::Ycsb('e') => Mix { scan: 95, insert: 5, ..none },
            Self::Ycsb('f') => Mix { read: 50, rmw: 50, ..none },
            Self::Ycsb(_) => Mix { read: 5, update: 95, ..none },
            Self::MixGraphAll { seeks } | Self::MixGraphPrefix { seeks } => match seeks {
                true => Mix { read: 83, update: 14, scan: 3, ..none },
                false => Mix { read: 86, update: 14, ..none },
            },
            Self::HashKv(_) | Self::W100 | Self::FlexPut => Mix { update: 100, ..none },
            Self::S100 | Self::FlexScan => Mix { scan: 100, ..none },
            Self::Sw50 => Mix { scan: 50, update: 50, ..none },
            Self::Load | Self::Trace(_) => none,
        }
    }

    /// How long its scans are.
    pub fn scan_length(&self) -> ScanLength {
        match self {
            Self::Sw50 => ScanLength::Fixed(10),
            Self::S100 | Self::FlexScan => ScanLength::Fixed(50),
            Self::MixGraphAll { .. } | Self::MixGraphPrefix { .. } => {
                ScanLength::Pareto(GeneralizedPareto::SCAN_LENGTHS)
            }
            _ => ScanLength::UpTo(100),
        }
    }

    /// Returns its key distribution, unless the options name another.
    pub fn distribution(&self) -> Distribution {
        match self {
            Self::Ycsb('d') => Distribution::Latest,
            _ => Distribution::Zipfian,
        }
    }

    /// Returns its shape, unless the options name another.
    pub fn shape(&self) -> Shape {
        match self {
            Self::MixGraphAll { .. } | Self::MixGraphPrefix { .. } => Shape::MIXGRAPH,
            Self::HashKv(_) | Self::R100 | Self::Rw50 | Self::Sw50 | Self::W100 => Shape::NOVA,
            Self::S100 | Self::FlexPut | Self::FlexGet | Self::FlexScan => Shape::UDB,
            Self::Ycsb(_) | Self::Load | Self::Trace(_) => Shape::F2,
        }
    }

    /// Returns how its keys sort under `distribution`: by number if skew belongs to stretches of
    /// the key space.
    pub fn key_order(&self, distribution: Distribution) -> KeyOrder {
        match (self, distribution) {
            (Self::MixGraphAll { .. } | Self::MixGraphPrefix { .. }, _)
            | (Self::FlexPut | Self::FlexGet | Self::FlexScan, _)
            | (
                _,
                Distribution::Composite | Distribution::Sequential | Distribution::ZipfianOrdered,
            ) => KeyOrder::ByNumber,
            _ => KeyOrder::Hashed,
        }
    }

    /// How much its measured phase does.
    pub fn extent(&self) -> Extent {
        match self {
            Self::Load | Self::HashKv(0) => Extent::LoadItself,
            Self::HashKv(_) | Self::FlexPut => Extent::Keys,
            Self::Trace(_) => Extent::Trace,
            _ => Extent::Time,
        }
    }

    /// Returns the number of update phases, each with one operation for each key, that run before
    /// the measured one.
    pub fn phases_before(&self) -> u8 {
        match self {
            Self::HashKv(phase) => phase.saturating_sub(1),
            _ => 0,
        }
    }

    /// Whether nothing is loaded before it.
    pub fn starts_empty(&self) -> bool {
        *self == Self::FlexPut
    }

    /// Returns whether each thread loads its keys in their order, and Zipfian updates, a sixteenth
    /// of the keys in number, then undo the order in which the store has laid them out.
    pub fn is_aged(&self) -> bool {
        matches!(self, Self::FlexGet | Self::FlexScan)
    }

    /// Returns whether keys that sort by their numbers are loaded in a scattered order: a store is
    /// not to be handed its sorted files, unless the workload wants that.
    pub fn load_is_scattered(&self, distribution: Distribution) -> bool {
        let is_ordered = self.key_order(distribution) == KeyOrder::ByNumber;
        is_ordered && distribution != Distribution::Sequential && !self.is_aged()
    }

    /// Whether its measured phase writes nothing.
    pub fn is_read_only(&self) -> bool {
        let Mix { read, update, insert, rmw, scan } = self.mix();
        read + scan > 0 && update + insert + rmw == 0
    }

    /// Whether it needs a store that can scan.
    pub fn scans(&self) -> bool {
        self.mix().scan > 0
    }
}
