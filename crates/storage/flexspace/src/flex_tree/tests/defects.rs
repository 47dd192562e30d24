//! Defects of the paper's public code that a tree by itself can have, each as a test.
//! Each comment says what that code did, and the consequence.

use super::stored::Stored;
use super::{TinyTree, apart, at};
use crate::{Extent, FlexTree, Mapping};

fn all<const C: usize, const F: usize>(tree: &FlexTree<C, F>) -> Vec<Mapping> {
    tree.check().expect("the tree is sound");
    tree.query(0..tree.len()).collect()
}

fn assert_restores<const C: usize, const F: usize>(stored: &Stored, tree: &FlexTree<C, F>) {
    let restored: FlexTree<C, F> = stored.restore().expect("what was stored is a tree");
    assert_eq!(all(&restored), all(tree));
    assert_eq!(restored.len(), tree.len());
}

/// There, an append that did not split marked its leaf alone, and the checkpoint did not write the
/// parent: the header said 160192 bytes, and the extents were 160000.
#[test]
fn d1_an_append_that_does_not_split_is_in_the_next_checkpoint() {
    let mut tree: FlexTree = apart(20_000, 8);
    let mut stored = Stored::default();
    stored.checkpoint(&mut tree);
    let leaves = tree.check().expect("it is sound").leaves;
    for number in 0..10 {
        tree.append(19, at(number << 20)).expect("there is room");
        assert_eq!(tree.check().expect("it is sound").leaves, leaves, "a split hides the defect");
        stored.checkpoint(&mut tree);
        assert_restores(&stored, &tree);
    }
}

/// There, a parent of two children that lost one added up their stored places.
#[test]
fn d2_any_prefix_may_be_deleted_before_a_checkpoint() {
    for gone in 1..300 {
        let mut tree: TinyTree = apart(300, 4);
        let mut stored = Stored::default();
        stored.checkpoint(&mut tree);
        for _ in 0..gone {
            tree.collapse_range(0, 4).expect("within");
        }
        stored.checkpoint(&mut tree);
        assert_restores(&stored, &tree);
    }
}

/// There, the collector changed an address in a leaf and marked that leaf alone.
#[test]
fn d3_a_relocation_is_in_the_next_checkpoint() {
    let mut tree: TinyTree = apart(300, 4);
    let mut stored = Stored::default();
    stored.checkpoint(&mut tree);
    for number in (0..300).step_by(7) {
        tree.remap(number * 4, 4, (1 << 40) + number * 64).expect("within");
        stored.checkpoint(&mut tree);
        assert_restores(&stored, &tree);
    }
}

/// There, nodes that a collapse had freed were written over before the new header was there.
#[test]
fn nodes_of_the_last_checkpoint_stay_until_the_next_one_stands() {
    let mut tree: TinyTree = apart(300, 4);
    let mut stored = Stored::default();
    stored.checkpoint(&mut tree);
    for round in 0..50 {
        let before = all(&tree);
        tree.collapse_range(round * 5, 17).expect("within");
        tree.append(4, at(round << 20)).expect("there is room");
        let cut = tree.cut();
        let mut torn = stored.clone();
        let retired = torn.write(&cut);
        // Power fails before the root is switched: the old tree is whole.
        let old: TinyTree = torn.restore().expect("the old nodes are there");
        assert_eq!(all(&old), before, "round {round}");
        assert!(!retired.is_empty(), "the old path is retired");
        torn.root = cut.snapshot.root();
        torn.len = cut.snapshot.len();
        for id in retired {
            assert!(torn.nodes.remove(&id).is_some(), "{id:?} was not stored");
        }
        stored = torn;
        assert_restores(&stored, &tree);
        let nodes = tree.check().expect("it is sound");
        assert_eq!(stored.nodes.len(), nodes.leaves + nodes.inners, "nothing is left behind");
    }
}

/// There, after a restart with relocations replayed from the log, the next checkpoint lacked them.
#[test]
fn what_is_replayed_onto_a_restored_tree_is_in_the_next_checkpoint() {
    let mut tree: TinyTree = apart(300, 4);
    let mut stored = Stored::default();
    stored.checkpoint(&mut tree);
    let mut restored: TinyTree = stored.restore().expect("what was stored is a tree");
    restored.remap(400, 4, 1 << 40).expect("within");
    restored.insert_range(17, 3, at(1 << 41)).expect("there is room");
    stored.checkpoint(&mut restored);
    assert_restores(&stored, &restored);
    assert_eq!(restored.get(403).map(|piece| piece.extent), Some(at(1 << 40)));
}

/// There, an extent that lost its head lost its tag, and a tag was restored only if more than one
/// record was left (D8). Here a tag is removed only with the byte that had it.
#[test]
fn d8_a_tag_goes_with_its_byte_and_can_be_given_back() {
    let mut tree = TinyTree::with_join_window(1 << 63);
    for number in 0..100_u64 {
        tree.append(8, at(number * 8).with_tag(1)).expect("there is room");
    }
    for number in 0..100_u64 {
        // Seven of eight bytes go, the first one among them.
        tree.collapse_range(number, 7).expect("within");
        assert_eq!(tree.get(number).map(|piece| piece.extent.tag()), Some(0));
        tree.set_tag(number, 1).expect("within");
    }
    let pieces = all(&tree);
    assert_eq!(pieces.len(), 100, "each byte that is left is an extent of its own");
    assert!(pieces.iter().all(|piece| piece.extent.tag() == 1 && piece.length == 1));
}

/// There, leaves that were filled by appends stayed half full, and a tree of too many levels was
/// noticed one level too late.
#[test]
fn ascending_and_descending_inserts_keep_the_tree_low() {
    let mut ascending: FlexTree<8, 16> = apart(10_000, 2);
    let mut descending = FlexTree::<8, 16>::with_join_window(1 << 63);
    for number in 0..10_000 {
        descending.insert_range(0, 2, at(number * 4)).expect("there is room");
    }
    let (up, down) = (ascending.check(), descending.check());
    let (up, down) = (up.expect("it is sound"), down.expect("it is sound"));
    assert!(up.leaves < 10_000 / 6 && down.leaves < 10_000 / 3, "{up:?}, {down:?}");
    assert!(up.levels <= 5 && down.levels <= 5, "{up:?}, {down:?}");
    ascending.collapse_range(0, 20_000).expect("within");
    assert_eq!(ascending.get(0), None);
    assert_eq!(Extent::default(), Extent::HOLE);
}
