//! Cost of lookups and of groups of changes, in figures that repeat exactly: reads, writes, memory.

use environment::Environment;
use telemetry::Registry;
use workers::Pool;

use crate::cold_index::read::Lookup;

use super::{Bench, Sizes, TINY, at, go_on, position, put, replace};

/// Pages of a small store, chunks of the default size.
const USUAL: Sizes =
    Sizes { page_bytes: 64 << 10, segment_bytes: 1 << 20, chunk_bytes: 256, ..TINY };
const KEYS: u64 = 200_000;

fn filled() -> Bench {
    let bench = Bench::new(USUAL);
    let applied = bench.apply((0..KEYS).map(|key| put(key, at(key + 1))).collect());
    assert_eq!(applied.put, KEYS);
    bench.flush();
    bench
}

#[test]
fn a_key_takes_less_than_a_byte_of_memory() {
    let figures = filled().index.figures();
    assert_eq!(figures.entries, KEYS);
    assert!(figures.directory_bytes < KEYS, "{figures:?}");
    assert!(figures.directory_bytes * 4 > KEYS, "chunks are not as long as they are meant to be");
}

#[test]
fn chunks_get_longer_where_the_directory_has_no_memory() {
    let before = Bench::new(USUAL).index.figures();
    let bench = Bench::new(Sizes { memory_bytes: 4 * before.directory_bytes, ..USUAL });
    // Chunks get sixteen times their meant length, and then the directory doubles nevertheless.
    let most = before.chunks * 4096 / 8;
    for (from, until, chunks) in [(0, most, before.chunks), (most, most + 1, 2 * before.chunks)] {
        let applied = bench.apply((from..until).map(|key| put(key, at(key + 1))).collect());
        assert_eq!(applied.put, until - from);
        assert_eq!(bench.index.figures().chunks, chunks);
    }
    let bench = bench.reopen();
    assert_eq!(bench.index.figures().chunks, 2 * before.chunks);
    for key in (0..=most).step_by(997) {
        assert!(bench.find(position(key)).contains(&at(key + 1)), "key {key}");
    }
}

#[test]
fn finding_takes_one_read_of_the_device() {
    let bench = filled();
    let (before, _) = bench.operations();
    let cold = (0..500).map(|key| key * 31 % KEYS).collect::<Vec<_>>();
    for key in &cold {
        assert!(bench.find(position(*key)).contains(&at(key + 1)));
    }
    let absent = KEYS..KEYS + 100;
    absent.for_each(|key| drop(bench.find(position(key))));
    let reads = bench.operations().0 - before;
    // Some chunks are in memory still; none takes two reads, since words know lengths.
    assert!((500..=600).contains(&reads), "{reads} reads for 600 lookups");
}

#[test]
fn a_lookup_hands_its_read_over() {
    let bench = filled();
    let (before, _) = bench.operations();
    let (mut found, mut reads) = (Vec::new(), 0);
    for key in (0..KEYS).step_by(1_000) {
        if let Lookup::OnDisk(read) = bench.index.look(position(key), &mut found).expect("open") {
            let address = read.address();
            let checked = bench.index.log.read_stored(read.wanted(), |stored| {
                bench.index.addresses_in(position(key), address, stored, &mut found)
            });
            checked.expect("it is read").expect("it is there").expect("it is sound");
            reads += 1;
        }
        assert!(found.contains(&at(key + 1)));
    }
    assert!(reads > 150);
    assert_eq!(bench.operations().0 - before, reads);
}

#[test]
fn a_group_reads_and_writes_each_chunk_once_in_long_pieces() {
    let bench = filled();
    let log_bytes = bench.index.figures().log_bytes;
    let (reads, writes) = bench.operations();
    let changes = (0..KEYS).map(|key| replace(key, at(key + 1), at(KEYS + key + 1)));
    let applied = bench.apply(changes.collect());
    let end = bench.flush();
    let (reads_now, writes_now) = bench.operations();
    let (reads, writes) = (reads_now - reads, writes_now - writes);
    assert_eq!(applied.replaced, KEYS);
    let figures = bench.index.figures();
    assert_eq!(applied.chunks_written, figures.chunks, "each chunk once");
    let pages = end.get() / USUAL.page_bytes;
    assert!(figures.log_bytes <= 2 * log_bytes + USUAL.page_bytes, "{figures:?}");
    assert!(reads <= pages, "{reads} reads of a log of {pages} pages");
    // A page each, and the segments' headers.
    assert!(writes <= pages, "{writes} writes of a log of {pages} pages");
}

#[test]
fn a_small_group_over_a_large_index_reads_little_more_than_its_chunks() {
    let bench = filled();
    let before = bench.device.accounting().counts();
    let changes = (0..100).map(|n| n * 1_999).map(|key| replace(key, at(key + 1), at(KEYS + key)));
    let applied = bench.apply(changes.collect());
    assert_eq!(applied.replaced, 100);
    assert!((90..=100).contains(&applied.chunks_written), "{applied:?}");
    let counts = bench.device.accounting().counts();
    assert!(counts.read_ops - before.read_ops <= 100);
    // A hundred chunks in two megabytes are nearer than the gap that is read for nothing.
    assert!(counts.read_bytes - before.read_bytes <= 3 << 20);
}

#[test]
fn what_changes_nothing_writes_nothing() {
    let bench = filled();
    let tail = bench.log.tail();
    let applied = bench.apply((0..KEYS).map(|key| put(key, at(key + 1))).collect());
    assert_eq!((applied.put, applied.chunks_written), (0, 0));
    let missing = replace(1, at(7 * KEYS), at(8 * KEYS));
    let applied = bench.apply(vec![missing]);
    assert_eq!((applied.missed, applied.chunks_written), (vec![missing], 0));
    assert_eq!(bench.log.tail(), tail);
}

#[test]
fn what_is_stopped_tells_so_and_can_be_done_again() {
    let bench = filled();
    let pool = Pool::start(&Environment::seeded(1), 1, &Registry::default());
    let pool = pool.expect("threads start");
    let group = pool.group("stopped");
    let (sender, receiver) = std::sync::mpsc::channel();
    let queued = group.submit(workers::Class::Compact, "token", move |stop| {
        sender.send(stop.clone()).expect("somebody waits");
    });
    queued.expect("it is taken");
    let stop = receiver.recv().expect("it runs");
    let panics = group.stop();
    assert!(panics.is_empty(), "{panics:?}");
    let mut changes: Vec<_> = (0..KEYS).map(|key| put(key, at(KEYS + key + 1))).collect();
    assert!(bench.index.apply(&mut changes, &stop).expect("it stops").stopped);
    assert!(!bench.index.compact(bench.log.flushed(), &stop, &|_| ()).expect("it stops"));
    assert!(
        !bench.index.visit(&mut [(position(1), ())], &stop, &mut |(), _| Ok(())).expect("ends")
    );
    let applied = bench.index.apply(&mut changes, &go_on()).expect("they are taken");
    assert!(!applied.stopped);
    assert_eq!(bench.index.figures().entries, 2 * KEYS);
}
