//! Tests of the tree by itself, and of a sparse index made of it.

mod sparse_index;

use super::leaf::Leaf;
use super::node::{NodeId, Total};
use super::search::last_at_most;
use crate::Extent;

fn check_search<const N: usize>() {
    for used in 1..=N {
        let mut sorted = [u64::MAX; N];
        for (index, number) in sorted[..used].iter_mut().enumerate() {
            *number = 10 * index as u64;
        }
        for x in 0..10 * used as u64 {
            let expected = sorted[..used].partition_point(|number| *number <= x) - 1;
            assert_eq!(last_at_most(&sorted, x), expected, "{x} among {used} of {N}");
        }
        assert_eq!(last_at_most(&sorted, u64::MAX - 1), used - 1);
    }
}

#[test]
fn a_search_finds_the_last_that_is_not_greater() {
    check_search::<4>();
    check_search::<15>();
    check_search::<16>();
    check_search::<17>();
    check_search::<80>();
    check_search::<128>();
    assert_eq!(last_at_most(&[5, 7], 3), 0, "nothing is that small");
}

/// Every way to replace some of five entries by up to three.
#[test]
fn a_splice_is_that_of_a_vector() {
    fn splice<const N: usize>(from: usize, to: usize) {
        let entry = |number: u32| Extent::at(u64::from(number)).expect("48 bits");
        let mut leaf = Leaf::<Extent, 8>::empty(NodeId(1), &Total::default());
        let mut model = Vec::new();
        for number in 0..5 {
            let new = (number + 1, entry(number));
            leaf.splice(leaf.count(), leaf.count(), [new]);
            model.push(new);
        }
        let with = std::array::from_fn(|index| (100 + index as u32, entry(50 + index as u32)));
        leaf.splice::<N>(from, to, with);
        model.splice(from..to, with);
        leaf.check().expect("it is sound");
        let found: Vec<_> =
            (0..leaf.count()).map(|index| (leaf.length(index), *leaf.entry(index))).collect();
        assert_eq!(found, model, "{from}..{to} by {N}");
        assert_eq!(leaf.span(), model.iter().map(|(length, _)| length).sum::<u32>());
    }
    for from in 0..=5 {
        for to in from..=5 {
            splice::<0>(from, to);
            splice::<1>(from, to);
            splice::<2>(from, to);
            splice::<3>(from, to);
        }
    }
}
