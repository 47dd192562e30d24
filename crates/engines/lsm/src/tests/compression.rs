//! Stores whose levels are compressed in their own ways, and in other ways after an opening.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::Engine;

use super::stores::{Bench, key, small};
use crate::Options;
use lsm_tree::table::{BlockCursor, Compression, Table};

use Compression::{Lz4, None, Zstd};
use lsm_tree::entry::Target;

/// A value that all of them but none make shorter, zstd more than LZ4.
fn value(number: u64) -> Vec<u8> {
    let text = format!("{{\"id\":{number},\"lake\":\"trout\",\"depth\":{}}}", number % 40);
    [text.as_bytes(), &[b'.'; 60]].concat()
}

/// How the blocks of a table are compressed.
fn ways(table: &Arc<Table>) -> Vec<Compression> {
    let metadata = table.metadata().expect("whole");
    let mut index = table.index_at(&metadata, Target::START).expect("whole").expect("a block");
    let way = |index: &BlockCursor| {
        let handle = table.handle(index).expect("whole");
        let mut stored = vec![0; handle.len as usize];
        table.source().read(handle.fragment, handle.offset, &mut stored).expect("memory reads");
        Compression::of_byte(stored[stored.len() - 5]).expect("a known way")
    };
    let mut ways = vec![way(&index)];
    while index.next().expect("whole") {
        ways.push(way(&index));
    }
    ways
}

impl Bench {
    /// How the blocks of a level are compressed: the one way, or none if it is empty.
    fn way_of(&self, level: usize) -> Option<Compression> {
        let state = self.store.shared.state.load_full();
        let mut ways: Vec<_> = state.version.level(level).iter().flat_map(ways).collect();
        ways.dedup();
        assert!(ways.len() < 2, "level {level}: {ways:?}");
        ways.pop()
    }

    /// Writes 300 pairs, in an order such that all tables overlap and none only moves.
    fn fill(&self) {
        for number in 0..300 {
            self.put(&key(7 * number % 300), &value(number));
        }
        self.store.flush().expect("memory takes it");
    }
}

/// A flush compresses like Level 0, a compaction like the level that it writes to; the store counts
/// the bytes saved.
#[test]
fn each_level_is_compressed_in_its_own_way() {
    for (compression, expected) in [
        (vec![], [Lz4, Lz4]),
        (vec![None], [None, None]),
        (vec![Zstd], [Zstd, Zstd]),
        (vec![None, Zstd], [None, Zstd]),
        (vec![Lz4, Zstd], [Lz4, Zstd]),
        (vec![Zstd, None], [Zstd, None]),
    ] {
        let bench = Bench::of(Options { compression: compression.clone(), ..small() });
        bench.fill();
        assert_eq!(bench.way_of(0), Some(expected[0]), "{compression:?}");
        bench.fill();
        bench.crank.run_all();
        let below: Vec<_> = (1..Options::LEVELS).filter_map(|level| bench.way_of(level)).collect();
        assert!(!below.is_empty() && below.iter().all(|way| *way == expected[1]), "{below:?}");
        let [all, stored] = ["block_bytes", "block_bytes_stored"].map(|name| bench.detail(name));
        assert!(all > 300 * 60);
        match expected {
            [None, None] => assert_eq!(all, stored),
            [Lz4 | Zstd, Lz4 | Zstd] => assert!(stored < all * 3 / 4, "{stored} of {all}"),
            _ => assert!(stored < all, "{stored} of {all}"),
        }
        assert_eq!(bench.detail("zstd_mistakes"), 0);
    }
}

#[test]
fn what_was_written_is_read_whatever_is_chosen_later() {
    let mut device = device::memory();
    let mut expected = BTreeMap::new();
    for (round, compression) in
        [vec![Zstd], vec![None], vec![Lz4], vec![None, Zstd], vec![Lz4]].into_iter().enumerate()
    {
        let options = Options { compression, ..small() };
        let barrier = Arc::new(engine::NoJournal);
        let bench = Bench::with_options(device, barrier, 1 << 20, options).expect("opens");
        assert_eq!(bench.pairs(), expected.clone().into_iter().collect::<Vec<_>>());
        for number in 0..400 {
            if (number + round as u64).is_multiple_of(3) {
                bench.put(&key(number), &value(number + round as u64));
                expected.insert(key(number), value(number + round as u64));
            }
        }
        bench.store.flush().expect("memory takes it");
        if round % 2 == 1 {
            bench.crank.run_all();
        }
        assert_eq!(bench.pairs(), expected.clone().into_iter().collect::<Vec<_>>());
        bench.store.close().expect("closes");
        let report = crate::check(&bench.device).expect("memory reads");
        assert_eq!((report.damage, report.leftover), (Vec::new(), Vec::new()));
        device = bench.0.device;
    }
}
