//! The paper's figures, and the effect of each operation on extents, tags and nodes.

use super::stored::Stored;
use super::{apart, at};
use crate::{Extent, FlexTree};

fn pieces<const C: usize, const F: usize>(tree: &FlexTree<C, F>) -> Vec<(u64, u32, Extent)> {
    tree.check().expect("the tree is sound");
    tree.query(0..tree.len()).map(|piece| (piece.offset, piece.length, piece.extent)).collect()
}

/// One leaf holds all that these tests make: extents in two leaves are not joined.
type SmallTree = FlexTree<16, 16>;

fn filled(extents: &[(u64, u64)]) -> SmallTree {
    let mut tree = FlexTree::with_join_window(1 << 63);
    for (length, address) in extents {
        tree.append(*length, at(*address)).expect("there is room");
    }
    tree
}

/// Figures 4, 6 and 7 of the paper.
#[test]
fn the_papers_example_is_answered_as_in_the_paper() {
    let mut tree =
        filled(&[(9, 0), (8, 31), (13, 70), (9, 12), (3, 39), (9, 50), (7, 42), (5, 60)]);
    tree.insert_range(0, 3, at(89)).expect("figure 4");
    let found: Vec<_> =
        tree.query(36..55).map(|piece| (piece.extent.address(), piece.length)).collect();
    assert_eq!(found, [(Some(15), 6), (Some(39), 3), (Some(50), 9), (Some(42), 1)], "figure 6");
    tree.collapse_range(33, 9).expect("figure 7");
    let after = tree.get(33).expect("there are more bytes");
    assert_eq!((after.offset, after.length, after.extent), (33, 3, at(39)));
}

#[test]
fn bytes_in_the_middle_of_an_extent_split_it_and_their_removal_heals_it() {
    let mut tree = filled(&[(10, 100)]);
    tree.insert_range(4, 2, at(500)).expect("there is room");
    assert_eq!(pieces(&tree), [(0, 4, at(100)), (4, 2, at(500)), (6, 6, at(104))]);
    tree.collapse_range(4, 2).expect("they are there");
    assert_eq!(pieces(&tree), [(0, 10, at(100))]);
    tree.collapse_range(3, 4).expect("they are there");
    assert_eq!(pieces(&tree), [(0, 3, at(100)), (3, 3, at(107))]);
    tree.insert_range(3, 4, at(103)).expect("there is room");
    assert_eq!(pieces(&tree), [(0, 10, at(100))], "joined on both sides");
}

#[test]
fn contiguous_appends_are_one_extent_within_the_window() {
    let mut tree: SmallTree = FlexTree::with_join_window(16);
    for byte in 0..40 {
        tree.append(1, at(8 + byte)).expect("there is room");
    }
    assert_eq!(pieces(&tree), [(0, 8, at(8)), (8, 16, at(16)), (24, 16, at(32))]);
    // A piece that crosses the window's end by itself is not joined.
    tree.append(20, at(8)).expect("there is room");
    tree.append(1, at(28)).expect("there is room");
    assert_eq!(pieces(&tree)[3..], [(40, 20, at(8)), (60, 1, at(28))]);
}

#[test]
fn holes_are_entries_that_join_and_are_filled() {
    let mut tree: SmallTree = FlexTree::with_join_window(1 << 63);
    tree.insert_range(10, 5, at(1)).expect("behind the end");
    assert_eq!(pieces(&tree), [(0, 10, Extent::HOLE), (10, 5, at(1))]);
    tree.punch(8, 4).expect("within");
    assert_eq!(pieces(&tree), [(0, 12, Extent::HOLE), (12, 3, at(3))]);
    tree.overwrite(2, 3, at(40)).expect("within");
    tree.overwrite(14, 4, at(60)).expect("over the end");
    tree.overwrite(20, 1, at(80)).expect("behind the end");
    let hole = Extent::HOLE;
    let expected = [
        (0, 2, hole),
        (2, 3, at(40)),
        (5, 7, hole),
        (12, 2, at(3)),
        (14, 4, at(60)),
        (18, 2, hole),
        (20, 1, at(80)),
    ];
    assert_eq!(pieces(&tree), expected);
}

#[test]
fn a_tag_stays_with_the_byte_it_was_given_to() {
    let mut tree = filled(&[(10, 100)]);
    tree.set_tag(4, 7).expect("within");
    assert_eq!(pieces(&tree), [(0, 4, at(100)), (4, 6, at(104).with_tag(7))]);
    tree.insert_range(6, 1, at(0)).expect("there is room");
    let expected = [(0, 4, at(100)), (4, 2, at(104).with_tag(7)), (6, 1, at(0)), (7, 4, at(106))];
    assert_eq!(pieces(&tree), expected);
    tree.remap(2, 9, 300).expect("within");
    assert_eq!(pieces(&tree), [(0, 2, at(100)), (2, 2, at(300)), (4, 7, at(302).with_tag(7))]);
    tree.collapse_range(4, 1).expect("within");
    assert_eq!(pieces(&tree), [(0, 2, at(100)), (2, 2, at(300)), (4, 6, at(303))], "it is gone");
    tree.set_tag(4, 1).expect("within");
    tree.set_tag(4, 0).expect("within");
    tree.set_tag(2, 3).expect("within");
    tree.set_tag(2, 0).expect("within");
    assert_eq!(pieces(&tree).len(), 3, "what is no run of bytes is not joined");
}

#[test]
fn appends_fill_leaves() {
    let tree: FlexTree = apart(100_000, 4096);
    let shape = tree.check().expect("it is sound");
    assert!(shape.bytes <= 24 * shape.entries, "at most 24 bytes an extent: {shape:?}");
    assert!(shape.entries > (crate::LEAF - 2) * shape.leaves, "whole leaves: {shape:?}");
}

/// Leaves that appends have filled stay whole where nothing is added to them.
#[test]
fn a_relocation_of_whole_extents_splits_no_leaf() {
    let mut tree: FlexTree = apart(10_000, 4096);
    let before = tree.check().expect("it is sound");
    for number in 0..10_000 {
        tree.remap(number * 4096, 4096, (1 << 40) + number * 8192).expect("within");
    }
    let after = tree.check().expect("it is sound");
    assert_eq!((after.leaves, after.entries), (before.leaves, before.entries));
    // A head and a tail keep their addresses, and the bytes between them become one extent.
    tree.remap(4096 * 500 + 1, 4095 + 4096 + 7, 1 << 41).expect("within");
    assert_eq!(tree.check().expect("it is sound").entries, before.entries);
    let moved = tree.get(4096 * 501).expect("within");
    assert_eq!((moved.offset, moved.length), (4096 * 500 + 1, 4095 + 4096 + 7));
}

#[test]
fn an_insertion_between_two_extents_takes_the_last_slot_of_a_leaf() {
    let mut tree: FlexTree<8, 8> = apart(7, 4);
    tree.insert_range(12, 4, at(1 << 40)).expect("there is room");
    let full = tree.check().expect("it is sound");
    assert_eq!((full.leaves, full.entries), (1, 8));
    let mut tree: FlexTree<8, 8> = apart(7, 4);
    tree.insert_range(13, 4, at(1 << 40)).expect("there is room");
    let split = tree.check().expect("it is sound");
    assert_eq!((split.leaves, split.entries), (2, 9), "an extent within another makes two more");
}

/// An insertion changes the nodes of one path, and no others, whatever number of extents is behind
/// it.
#[test]
fn an_insertion_changes_one_node_a_level() {
    let mut tree: FlexTree<8, 8> = apart(10_000, 2);
    let mut stored = Stored::default();
    // Leaves that were filled by appends are split first, by bytes that are put within an extent.
    for number in 0..500 {
        tree.insert_range(number * 26 + 1, 2, at(number << 30)).expect("there is room");
    }
    stored.checkpoint(&mut tree);
    let levels = tree.check().expect("it is sound").levels;
    let mut split_count = 0;
    for number in 0..500 {
        tree.insert_range(number * 28, 2, at(number << 31)).expect("there is room");
        stored.checkpoint(&mut tree);
        split_count += usize::from(stored.written > levels);
        assert!(stored.written >= levels && stored.written <= 4 * levels, "{}", stored.written);
    }
    assert!(split_count < 250, "{split_count} of 500 inserts split nodes");
}

#[test]
fn a_collapse_changes_two_paths_whatever_its_length() {
    for (from, to) in [(1, 19_999), (5_000, 15_000), (1, 3), (7_777, 7_779), (0, 19_999)] {
        let mut tree: FlexTree<8, 8> = apart(10_000, 2);
        let levels = tree.check().expect("it is sound").levels;
        let mut stored = Stored::default();
        stored.checkpoint(&mut tree);
        tree.collapse_range(from, to - from).expect("within");
        assert_eq!(tree.len(), 20_000 - (to - from));
        tree.check().expect("it is sound");
        stored.checkpoint(&mut tree);
        assert!(stored.written <= 3 * levels, "{} nodes for {from}..{to}", stored.written);
    }
}

/// The C code only unlinks empty nodes, so that sparse leaves live for ever.
#[test]
fn what_is_sparse_is_merged() {
    let mut tree: FlexTree<8, 8> = apart(10_000, 2);
    let full = tree.check().expect("it is sound");
    for number in 0..9_000 {
        // Nine of ten extents go, one here and one there.
        tree.collapse_range(number / 9 * 2, 2).expect("within");
    }
    let sparse = tree.check().expect("it is sound");
    assert_eq!(sparse.entries, 1_000);
    assert!(sparse.leaves * 5 < full.leaves, "{} leaves, once {}", sparse.leaves, full.leaves);
    assert!(sparse.levels < full.levels, "{} levels", sparse.levels);
    tree.collapse_range(0, tree.len()).expect("within");
    let empty = tree.check().expect("it is sound");
    assert_eq!((empty.leaves, empty.inners, empty.entries), (1, 1, 0));
}
