//! Snapshots read by other threads while the tree is changed.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

use rand::RngExt;

use super::{TinyTree, apart, at};
use crate::seed::seed;
use crate::{Extent, FlexSnapshot, FlexTree};

#[test]
fn a_snapshot_shows_what_was_there() {
    let mut tree: TinyTree = apart(100, 4);
    let before: Vec<_> = tree.query(0..u64::MAX).collect();
    let snapshot = tree.snapshot();
    tree.collapse_range(3, 300).expect("within");
    tree.insert_range(1, 9, at(1 << 40)).expect("there is room");
    tree.remap(0, 50, 1 << 41).expect("within");
    tree.set_tag(7, 7).expect("within");
    assert_eq!(snapshot.query(0..u64::MAX).collect::<Vec<_>>(), before);
    assert_eq!((snapshot.len(), tree.len()), (400, 109));
    let copy = snapshot.clone();
    drop((snapshot, tree));
    assert_eq!(copy.get(399), before.last().copied());
}

/// Every state of the space holds the same extents of one byte each, in some order, and has its
/// number in its first one. A reader that saw parts of two states would miss some or see them
/// twice.
#[test]
fn readers_see_one_state_while_the_writer_goes_on() {
    const EXTENTS: u64 = 500;
    const STATES: u64 = 3_000;
    let mut random = seed("readers_see_one_state_while_the_writer_goes_on", "").stream("snapshots");
    let mut tree: FlexTree<6, 8> = FlexTree::with_join_window(1);
    tree.append(1, at(0)).expect("there is room");
    for number in 0..EXTENTS {
        tree.append(1, at(1000 + 2 * number)).expect("there is room");
    }
    let shared = Mutex::new(tree.snapshot());
    let seen = AtomicU64::new(0);
    let take = || -> FlexSnapshot<6, 8> { shared.lock().expect("nobody panics").clone() };
    let read = || {
        let mut newest = 0;
        while newest < STATES {
            let snapshot = take();
            let address = |extent: Extent| extent.address().expect("there are no holes");
            let mut addresses: Vec<_> =
                snapshot.query(0..u64::MAX).map(|piece| address(piece.extent)).collect();
            let number = addresses.remove(0);
            assert!(number >= newest, "state {number} after {newest}");
            newest = number;
            addresses.sort_unstable();
            let expected: Vec<_> = (0..EXTENTS).map(|number| 1000 + 2 * number).collect();
            assert_eq!(addresses, expected, "state {number}");
            seen.fetch_add(1, Relaxed);
        }
    };
    thread::scope(|scope| {
        scope.spawn(read);
        scope.spawn(read);
        for number in 1..=STATES {
            for _ in 0..5 {
                // One extent moves to another place.
                let from = random.random_range(1..=EXTENTS);
                let extent = tree.get(from).expect("it is there").extent;
                tree.collapse_range(from, 1).expect("within");
                let to = random.random_range(1..=EXTENTS);
                tree.insert_range(to, 1, extent).expect("there is room");
            }
            tree.overwrite(0, 1, at(number % 1000 + number / 1000 * 1_000_000)).expect("within");
            tree.remap(0, 1, number).expect("within");
            *shared.lock().expect("nobody panics") = tree.snapshot();
        }
    });
    assert!(seen.load(Relaxed) > 1, "readers read");
    tree.check().expect("the tree is sound");
}

/// A node is counted once for as long as any tree, snapshot or cut holds it, whichever made it.
#[test]
fn nodes_are_counted_until_nobody_holds_them() {
    let mut random = seed("nodes_are_counted_until_nobody_holds_them", "").stream("nodes");
    let mut tree = TinyTree::with_join_window(1 << 63);
    let empty = tree.node_bytes();
    let mut kept = Vec::new();
    for round in 0..3000_u64 {
        let offset = random.random_range(0..=tree.len());
        if random.random_range(0..5) > 0 || tree.is_empty() {
            let extent = Extent::at(100 * round).expect("48 bits");
            tree.insert_range(offset, 10, extent).expect("it fits");
        } else {
            let length = random.random_range(0..=(tree.len() - offset).min(100));
            tree.collapse_range(offset, length).expect("bytes that are there");
        }
        if round % 500 == 250 {
            kept.push(tree.snapshot());
        }
        let shape = tree.check().expect("it is sound");
        let others = tree.node_bytes() - shape.bytes as u64;
        assert!(others == 0 || !kept.is_empty(), "{others} bytes too many in round {round}");
        assert!(others > 0 || round < 300, "{others} bytes of old snapshots in round {round}");
    }
    kept.clear();
    assert_eq!(tree.node_bytes(), tree.check().expect("it is sound").bytes as u64);
    let len = tree.len();
    tree.collapse_range(0, len).expect("all of it");
    assert_eq!(tree.node_bytes(), empty);
}
