//! The figures in `docs/f2.md` match the code.

use engine::Engine;

use super::stores::Bench;
use super::two_logs::small_cold;
use crate::Options;
use crate::checkpoint::Identity;
use crate::options::{BACKGROUND_PAGES, Memory, MemoryPlan};

const PAGE: &str = include_str!("../../../../../docs/f2.md");

/// Returns the cells of each row of the table whose head begins with `head`.
fn rows(head: &str) -> Vec<Vec<&'static str>> {
    let (_, table) = PAGE.split_once(head).expect("the table is there");
    // Skips the rest of the head, and the line below it.
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

#[test]
fn the_page_tells_how_a_gibibyte_is_split() {
    let limit = 1 << 30;
    let options = Options::default();
    let [hot, cold, chunks] = options.units(limit);
    let (index_bits, chunk_bytes) = (options.index_bits(limit), options.chunk_bytes);
    let identity = Identity { hash_seed: 0, index_bits, chunk_bytes, hot, cold, chunks };
    let begin = MemoryPlan::new(options, identity, limit).begin;
    let Memory { hot: hot_log, read_cache, work, buffers } = begin;
    let background = BACKGROUND_PAGES * (cold.page_bytes + chunks.page_bytes);
    let wanted = [
        ("work memory of compactions", work),
        ("pages of the cold and the chunk log", background),
        ("buffers of flushes and scans", buffers),
        ("read cache", read_cache),
        ("hot log", hot_log),
    ];
    let told = rows("| part | takes |");
    for (part, bytes) in wanted {
        let row = told.iter().find(|row| row[0] == part).expect("the part is told of");
        assert_eq!(row[2], format!("{} MiB", (bytes + (1 << 19)) >> 20), "{part}");
    }
    let logs: u64 = wanted.iter().map(|(_, bytes)| bytes).sum();
    assert_eq!(logs, limit - MemoryPlan::index_share(limit));
}

#[test]
fn the_page_has_every_figure_once() {
    let stats = Bench::open(small_cold()).store.stats();
    let mut wanted: Vec<&str> = stats.detail.iter().map(|(name, _)| *name).collect();
    let rows = rows("| figure | says |");
    let mut told: Vec<&str> =
        rows.iter().flat_map(|row| row[0].split('`').skip(1).step_by(2)).collect();
    wanted.sort_unstable();
    told.sort_unstable();
    assert_eq!(told, wanted);
}
