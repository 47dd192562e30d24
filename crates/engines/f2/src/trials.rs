//! Stores of small parts, for tests over every engine.

use engine::{Trial, Trials};

use crate::options::Options;

pub(crate) static TRIALS: Trials = Trials {
    crashed: &[
        // A record fits a page, also if its value was made of several appended ones.
        Trial {
            key_bytes_max: 4000,
            takes_memory_in_units: true,
            ..Trial::new("f2", || Kind::Fixed.options().into())
        },
        of_short_pages("f2-adaptive", 1, || Kind::Adaptive.options().into()),
        // A single log is compacted by lookups or by scans, and is the same otherwise.
        of_short_pages("f2-single-log", 2, || Kind::SingleLog.options().into()),
        of_short_pages("f2-scanned", 2, || Kind::Scanned.options().into()),
    ],
    killed: || {
        let options = Options {
            log_memory_bytes: Some(512 << 10),
            read_cache_bytes: Some(128 << 10),
            page_bytes: Some(16 << 10),
            segment_bytes: 64 << 10,
            disk_bytes_max: Some(1 << 20),
            cold_disk_bytes_max: Some(3 << 20),
            index_bits: Some(4),
            ..Options::default()
        };
        options.into()
    },
    work: &["compactions", "cold_compactions"],
};

/// Returns a store whose long lives make records cold, move memory, and compact a single log.
const fn of_short_pages(
    name: &'static str,
    variants: u64,
    settings: fn() -> engine::Settings,
) -> Trial {
    Trial {
        key_bytes_max: 900,
        value_bytes_max: 700,
        long_life_writes: 800,
        variants,
        takes_memory_in_units: true,
        ..Trial::new(name, settings)
    }
}

/// The kinds of stores that there are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The split of its memory never changes.
    Fixed,
    /// The default: hot log and read cache take memory from each other, and the rest is lent to
    /// digests of chunks.
    Adaptive,
    /// One log, compacted by lookups.
    SingleLog,
    /// One log, compacted by scans.
    Scanned,
}

impl Kind {
    /// Returns options with four small pages of each log in memory, and so little disk that all
    /// logs are compacted all the time. A store whose memory moves has enough pages for a cache
    /// too. These are the shortest pages, so that the hot log still has little disk. A single log
    /// has more disk, or writers would wait because of the live records.
    fn options(self) -> Options {
        let (pages, page_bytes) = match self {
            Self::Fixed => (5, 16_384),
            Self::Adaptive => (20, 4096),
            Self::SingleLog | Self::Scanned => (6, 4096),
        };
        let single_log = matches!(self, Self::SingleLog | Self::Scanned);
        Options {
            single_log,
            scan_compaction: self == Self::Scanned,
            log_memory_bytes: Some(pages * page_bytes),
            read_cache_bytes: (self != Self::Adaptive).then_some(page_bytes),
            page_bytes: Some(page_bytes),
            segment_bytes: 2 * page_bytes,
            disk_bytes_max: Some(if single_log { 48 } else { 4 } * page_bytes),
            cold_disk_bytes_max: (!single_log).then_some(8 * page_bytes),
            chunk_bytes: 64,
            index_bits: Some(1),
            ..Options::default()
        }
    }
}
