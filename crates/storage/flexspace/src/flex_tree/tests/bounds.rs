//! Refused operations, and the greatest numbers.

use super::{TinyTree, apart, at};
use crate::{Error, Extent, FlexTree};

const LENGTH_MAX: u64 = u32::MAX as u64;

#[test]
fn what_does_not_fit_is_refused_and_changes_nothing() {
    let mut tree: TinyTree = apart(10, 5);
    let (len, top) = (50, Extent::ADDRESS_MAX);
    let too_far = |address, length| Err(Error::AddressTooLarge { address, length });
    assert_eq!(Extent::at(top + 1).map(|_| ()), too_far(top + 1, 0));
    assert_eq!(tree.append(2, at(top)), too_far(top, 2));
    assert_eq!(tree.overwrite(3, 2, at(top)), too_far(top, 2));
    assert_eq!(tree.remap(0, 2, top), too_far(top, 2));
    assert_eq!(tree.remap(0, 2, u64::MAX), too_far(u64::MAX, 0));

    let more = u64::MAX - 50;
    assert_eq!(tree.append(more, Extent::HOLE), Err(Error::TooLong { len, more }));
    assert_eq!(tree.insert_range(more, 51, at(0)), Err(Error::TooLong { len, more: more + 1 }));
    assert_eq!(tree.overwrite(u64::MAX, 1, at(0)), Err(Error::TooLong { len, more }));
    assert_eq!(tree.overwrite(40, more, at(0)), Err(Error::TooLong { len, more: more - 10 }));

    let behind = |end| Err(Error::BehindTheEnd { end, len });
    assert_eq!(tree.collapse_range(49, 2), behind(51));
    assert_eq!(tree.collapse_range(u64::MAX, 2), behind(u64::MAX));
    assert_eq!(tree.punch(50, 1), behind(51));
    assert_eq!(tree.remap(0, 51, 7), behind(51));
    assert_eq!(tree.set_tag(50, 1), behind(51));

    assert_eq!(tree.check(), apart::<4, 6>(10, 5).check());
    assert_eq!(tree.len(), len);
    assert_eq!(tree.get(len), None);
    assert_eq!(tree.query(len..u64::MAX).count(), 0);
    assert_eq!(tree.query(7..7).count(), 0);
}

/// A hole up to that offset would take all memory: a leaf for each 4 GiB.
#[test]
fn a_far_offset_is_refused() {
    let far = TinyTree::GROWTH_MAX;
    let mut tree = TinyTree::with_join_window(1 << 63);
    let too_long = |more| Err(Error::TooLong { len: 0, more });
    assert_eq!(tree.insert_range(far, 1, at(0)), too_long(far + 1));
    assert_eq!(tree.append(far + 1, Extent::HOLE), too_long(far + 1));
    assert_eq!(tree.overwrite(1 << 62, 1, at(0)), too_long((1 << 62) + 1));
    assert!(tree.is_empty());
}

#[test]
fn nothing_may_be_done_to_no_bytes() {
    let mut tree: TinyTree = FlexTree::with_join_window(1);
    tree.insert_range(9, 0, at(1)).expect("nothing is put nowhere");
    tree.append(0, at(1)).expect("nothing is added");
    tree.collapse_range(0, 0).expect("nothing is taken out");
    tree.overwrite(4, 0, at(1)).expect("nothing is written");
    tree.remap(0, 0, 1).expect("nothing is moved");
    assert!(tree.is_empty());
    assert_eq!(tree.get(0), None);
    tree.check().expect("an empty tree is one");
    tree.append(9, at(1)).expect("there is room");
    tree.remap(4, 0, 100).expect("nothing is moved");
    assert_eq!(tree.query(0..9).count(), 1, "and nothing is divided");
}

/// Leaves' spans fit 32 bits, so each of these has to have one of its own, and any that is put
/// between pieces of another, too.
#[test]
fn extents_of_the_greatest_length_lie_beside_small_ones() {
    let mut tree: TinyTree = FlexTree::with_join_window(1 << 63);
    for number in 0..20 {
        tree.insert_range(number, LENGTH_MAX, at(number << 40)).expect("there is room");
        tree.check().unwrap_or_else(|fault| panic!("insert {number}: {fault}"));
    }
    assert_eq!(tree.len(), 20 * LENGTH_MAX);
    // Each but the last is one byte before the next, and the rest behind all of them.
    let heads: Vec<_> = tree.query(0..19).map(|piece| piece.extent.address()).collect();
    assert_eq!(heads, (0..19).map(|number| Some(number << 40)).collect::<Vec<_>>());
    let rest = tree.query(LENGTH_MAX + 19..LENGTH_MAX + 20).next().expect("it is there");
    assert_eq!(rest.extent.address(), Some((18 << 40) + 1));
    for _ in 0..19 {
        tree.collapse_range(1, LENGTH_MAX).expect("it is within");
        tree.check().unwrap_or_else(|fault| panic!("collapse: {fault}"));
    }
    assert_eq!(tree.len(), LENGTH_MAX);
}

#[test]
fn a_space_longer_than_48_bits_keeps_its_offsets() {
    let mut tree = FlexTree::new();
    tree.append(1, at(1)).expect("there is room");
    tree.insert_range(1 << 48, 1, at(7)).expect("a hole fills what lies between");
    assert_eq!(tree.len(), (1 << 48) + 1);
    tree.insert_range(0, 3, at(9)).expect("there is room");
    let last = tree.get((1 << 48) + 3).expect("the last byte");
    assert_eq!((last.offset, last.length, last.extent), ((1 << 48) + 3, 1, at(7)));
    assert_eq!(tree.get((1 << 48) + 4), None);
    tree.collapse_range(4, (1 << 48) - 1).expect("the hole goes");
    let pieces: Vec<_> = tree.query(0..9).map(|piece| piece.extent).collect();
    assert_eq!(pieces, [at(9), at(1), at(7)]);
    let shape = tree.check().expect("it is sound");
    assert_eq!((shape.leaves, shape.entries), (1, 3));
}
