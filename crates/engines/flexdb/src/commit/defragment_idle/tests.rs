//! The choice of a slice, and the treatment of a slice that was changed.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::{Direction, KeyRange};

use super::*;
use crate::Options;
use crate::tests::stores::{Bench, key, scan, small};

const KEYS: u64 = 2_000;

/// Pairs of 80 bytes in intervals of 16, put in the order of `place` by commits of some memtables
/// of 8 KiB.
fn loaded(place: impl Fn(u64) -> u64) -> Bench {
    let options = Options { interval_pairs: 16, tail_pairs_max: 8, ..small() };
    let bench = Bench::of(1 << 20, options);
    for number in 0..KEYS {
        bench.put(&key(place(number)), &[1; 64]);
    }
    bench.flush();
    bench
}

fn limits() -> Limits {
    Limits { slice: 16 << 10, piece: 2 << 10, together: 4 << 10, interval: 16 << 10 }
}

fn base(bench: &Bench) -> Arc<Base> {
    Arc::clone(&bench.store.shared.open_state().expect("it is open").base)
}

/// The slices of a whole pass: where each begins, its bytes and its pieces.
fn slices(base: &Base, limits: &Limits) -> Vec<(u64, u64, u64)> {
    let (mut all, mut from) = (Vec::new(), Key::default());
    loop {
        let slice = next_slice(base, &from, limits);
        if let Some(first) = slice.members.first() {
            all.push((first.offset, slice.bytes, slice.pieces));
        }
        let Some(next) = slice.next else { return all };
        assert!(next > from, "it comes further");
        from = next;
    }
}

#[test]
fn slices_are_neighbours_in_short_pieces_and_no_longer_than_one_may_be() {
    let bench = loaded(|number| number * 1_237 % KEYS);
    let base = base(&bench);
    let slices = slices(&base, &limits());
    let bytes: u64 = slices.iter().map(|(_, bytes, _)| bytes).sum();
    assert!(bytes > base.index.len() / 2, "{bytes} of {}", base.index.len());
    let mut end = 0;
    for (begin, bytes, pieces) in &slices {
        assert!(*begin >= end && *bytes <= 16 << 10, "{begin} {bytes}");
        assert!(*pieces > 1 && bytes / pieces < 2 << 10, "{bytes} in {pieces} pieces");
        let reading = base.space.begin_read(begin + StoreHeader::BYTES as u64, *bytes);
        let wanted = reading.expect("it is open").wanted().len();
        assert!(wanted as u64 <= *pieces, "{wanted} reads, {pieces} pieces");
        end = begin + bytes;
    }
}

#[test]
fn what_lies_together_is_no_slice_and_none_has_it_in_its_middle() {
    let bench = loaded(|number| number);
    // Data with which one commit has ended and the next has continued are in two pieces of 2,000
    // bytes.
    assert_eq!(slices(&base(&bench), &Limits { piece: 1 << 10, ..limits() }), []);
    // Some of it in the middle is then in pieces.
    for number in (800..1_000).step_by(3) {
        bench.put(&key(number), &[2; 64]);
    }
    bench.flush();
    let base = base(&bench);
    // A commit of the load has written more than this contiguously.
    let slices = slices(&base, &Limits { together: 2 << 10, ..limits() });
    assert!(!slices.is_empty(), "what was put lies in pieces");
    let first = index::find(&base.index, &key(760)).expect("there are pairs").offset;
    let last = index::find(&base.index, &key(1_040)).expect("there are pairs").offset;
    for (begin, bytes, _) in slices {
        assert!(begin >= first && begin + bytes <= last, "{first}..{last}: {begin} {bytes}");
    }
}

#[test]
fn an_interval_that_is_changed_while_it_is_read_keeps_its_changes() {
    let bench = loaded(|number| number * 1_237 % KEYS);
    let (shared, base) = (&bench.store.shared, base(&bench));
    let slice = next_slice(&base, &Key::default(), &limits());
    let read = shared.read_slice(&base, &slice).expect("it can be read");
    let (members, next) = (slice.members.len() as u64, slice.next.clone().expect("more"));
    assert!(members > 4, "{members} intervals");
    // The first two, and one behind the slice.
    bench.put(&key(0), b"changed");
    bench.put(&key(20), b"changed");
    bench.flush();
    bench.store.shared.write_slice(read).expect("there is room").expect("no commit runs");
    bench.check();
    let defragmented = bench.detail("intervals_defragmented");
    assert!(defragmented < members && defragmented + 4 > members, "{defragmented} of {members}");
    let mut model: BTreeMap<_, _> = (0..KEYS).map(|it| (key(it), vec![1; 64])).collect();
    model.insert(key(0), b"changed".to_vec());
    model.insert(key(20), b"changed".to_vec());
    let found = scan(&bench.view(), KeyRange::all(), Direction::Forward);
    assert_eq!(found, model.into_iter().collect::<Vec<_>>());
    assert!(*next > key(20)[..]);
}
