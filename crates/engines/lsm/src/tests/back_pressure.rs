//! Writers while compactions are behind: the store slows them down in proportion to their bytes and
//! to the height of Level 0 above its mark, each for a moment.
//! It does not slow them down while Level 0 is below the mark. Only at twice the mark they wait for
//! a compaction.

use engine::{BlockingWrites, Demand, Engine, Op, Wait};

use super::dranges::install;
use super::stores::{Bench, key, small};
use crate::Options;

/// Tables of Level 0 above which writers are slowed down. None of them is due below that.
const MARK: usize = 4;
const WRITES: u64 = 500;
const VALUE: [u8; 1000] = [7; 1000];
/// Nanoseconds that each table above the mark adds to the time of a byte.
const NANOS: u64 = 20;
/// Time is owed until it is as long as this.
const OWED: u64 = 1_000_000;

fn bench() -> Bench {
    Bench::of(Options { level0_tables: 100, level0_tables_slow: MARK, ..small() })
}

/// Adds one table that covers all keys. Nothing is compacted unless a writer waits for it.
fn add_table(bench: &Bench) {
    for number in 0..10 {
        let ticket = bench.sequence.begin();
        let op = Op::Put { key: &key(number), value: b"old" };
        bench.store.write(&[op], ticket.seqno()).expect("there is room");
    }
    bench.store.flush().expect("memory takes it");
}

fn slowed(bench: &Bench) -> u64 {
    bench.detail("slowed_nanos")
}

/// Admits writes. Returns the time that they took in all, and the longest time of one of them.
fn admit(bench: &Bench) -> [u64; 2] {
    let (began, mut longest) = (slowed(bench), 0);
    for _ in 0..WRITES {
        let before = slowed(bench);
        bench
            .store
            .reserve(&Demand::Ops(&[Op::Put { key: b"k", value: &VALUE }]), Wait::Yes)
            .map(drop)
            .expect("there is room");
        longest = longest.max(slowed(bench) - before);
    }
    [slowed(bench) - began, longest]
}

/// Returns the time that writes of `bytes` bytes owe with `above` tables above the mark.
fn owed(bytes: u64, above: u64) -> u64 {
    bytes * NANOS * above
}

const BYTES: u64 = WRITES * (1 + VALUE.len() as u64);

#[test]
fn writers_are_slowed_by_how_far_compactions_are_behind_and_no_more_than_a_moment_each() {
    let bench = bench();
    let mut tables = 0;
    for above in 0..=MARK as u64 {
        while tables < MARK as u64 + above {
            add_table(&bench);
            tables += 1;
        }
        let [all, longest] = admit(&bench);
        let owed = owed(BYTES, above);
        // The debt left over, here and from before, is less than a writer waits for in one wait.
        assert!(all <= owed + OWED && owed <= all + OWED, "{all} ns {above} above, not {owed}");
        assert!(longest <= OWED + owed / WRITES, "{longest} ns at once, {above} above");
    }
    assert_eq!((bench.detail("stalls"), bench.detail("compactions")), (0, 0));
    // One more is twice the mark.
    add_table(&bench);
    bench
        .store
        .reserve(&Demand::Ops(&[Op::Put { key: b"k", value: &VALUE }]), Wait::Yes)
        .map(drop)
        .expect("there is room");
    assert!(bench.detail("stalls") == 1 && bench.detail("compactions") > 0);
    bench.crank.run_all();
    assert_eq!(admit(&bench), [0, 0], "there is nothing to wait for any more");
    assert_eq!(bench.pairs().len(), 10);
}

/// A writer that must not wait gets no room while others are slowed down.
#[test]
fn a_write_that_must_not_wait_gets_no_room_while_compactions_are_behind() {
    let bench = bench();
    (0..MARK).for_each(|_| add_table(&bench));
    let has_room = || {
        let op = Op::Put { key: b"k", value: &VALUE };
        let room = bench.store.reserve(&Demand::Ops(&[op]), Wait::No);
        room.expect("it is no refusal").is_some()
    };
    assert!(has_room());
    add_table(&bench);
    assert!(!has_room());
    assert_eq!(slowed(&bench), 0);
}

/// A reorganisation seals memtables that nothing was written to. A flush of them gives no memory
/// back.
#[test]
fn a_write_above_the_share_waits_for_no_flush_of_an_empty_memtable() {
    let bench = Bench::of(Options { slots_max: 2, ..small() });
    install(&bench, &[(b"", 1), (b"m", 1)]);
    let shared = &bench.store.shared;
    assert_eq!((shared.memtables.memory().bytes(), shared.state.load().due()), (0, 1));
    let value = vec![7; shared.memory_split().memtables_bytes as usize];
    // The flush is queued, and runs only if the write waits for it.
    bench.put(b"k", &value);
    assert_eq!(shared.state.load().due(), 1, "the flush has not run");
    assert_eq!(bench.get(b"k"), Some(value));
    bench.run_background();
    assert_eq!(shared.state.load().due(), 0);
}
