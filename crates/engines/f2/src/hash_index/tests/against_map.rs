//! Random operations, each compared with a map of chains.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::{at, walk};
use crate::address::LogAddress;
use crate::hash_index::chain::Chain;
use crate::hash_index::{ChainId, HashIndex};
use crate::key_hash::{KeyHash, TAG_BITS};

#[derive(Clone, Debug)]
enum Operation {
    Find(u64, u16),
    Create(u64, u16),
    Link(u64, u16),
    Restore(u64, u16, u64),
    Retire(u64, u16, u64),
    Scrub(u64),
    Grow,
    Split(usize),
    Walk,
}

const BASE_BITS: u32 = 1;

/// Few buckets and few tags, which differ in low and in high bits.
fn chain() -> impl Strategy<Value = (u64, u16)> {
    let tag = prop_oneof![0..40_u16, (0..8_u16).prop_map(|high| high << (TAG_BITS - 3))];
    (0..1_u64 << BASE_BITS, tag)
}

fn operation() -> impl Strategy<Value = Operation> {
    use Operation::*;
    prop_oneof![
        4 => chain().prop_map(|(bucket, tag)| Find(bucket, tag)),
        4 => chain().prop_map(|(bucket, tag)| Create(bucket, tag)),
        10 => chain().prop_map(|(bucket, tag)| Link(bucket, tag)),
        3 => (chain(), 0..400_u64).prop_map(|((bucket, tag), to)| Restore(bucket, tag, to)),
        2 => (chain(), 0..400_u64).prop_map(|((bucket, tag), begin)| Retire(bucket, tag, begin)),
        1 => (0..200_u64).prop_map(Scrub),
        1 => Just(Grow),
        3 => (1..6_usize).prop_map(Split),
        1 => Just(Walk),
    ]
}

/// The chains in the order of a walk.
type Model = BTreeMap<ChainId, LogAddress>;

fn id(hash: KeyHash) -> ChainId {
    Chain::of(hash, BASE_BITS).id()
}

fn apply(index: &HashIndex, model: &mut Model, operation: Operation, newest: u64) {
    let hash = KeyHash::from_parts;
    match operation {
        Operation::Find(bucket, tag) => {
            let hash = hash(bucket, tag);
            let found = index.find(hash).map(|slot| slot.address());
            assert_eq!(found, model.get(&id(hash)).copied());
        }
        Operation::Create(bucket, tag) => {
            let hash = hash(bucket, tag);
            let expected = *model.entry(id(hash)).or_default();
            assert_eq!(index.find_or_create(hash).address(), expected);
        }
        Operation::Link(bucket, tag) => {
            let hash = hash(bucket, tag);
            let slot = index.find_or_create(hash);
            slot.compare_exchange(at(newest)).expect("there is one thread");
            model.insert(id(hash), at(newest));
        }
        Operation::Restore(bucket, tag, to) => {
            let hash = hash(bucket, tag);
            index.restore(hash, at(to));
            let address = model.entry(id(hash)).or_default();
            *address = at(to).max(*address);
        }
        Operation::Retire(bucket, tag, begin) => {
            let hash = hash(bucket, tag);
            let retired = index.find(hash).is_some_and(|slot| index.retire(hash, slot, at(begin)));
            let expected = model.get(&id(hash)).is_some_and(|address| *address < at(begin));
            assert_eq!(retired, expected);
            if expected {
                model.remove(&id(hash));
            }
        }
        Operation::Scrub(begin) => {
            let mut from = Some(0);
            while let Some(bucket) = from {
                from = index.scrub(at(begin), bucket, 3);
            }
            model.retain(|_, address| *address >= at(begin));
        }
        Operation::Grow => {
            let can = !index.is_growing() && index.level() < super::LEVEL_MAX;
            assert_eq!(index.grow(), can);
        }
        Operation::Split(count) => assert_eq!(index.split_some(count), index.is_growing()),
        Operation::Walk => assert_eq!(walk(index), model.clone().into_iter().collect::<Vec<_>>()),
    }
    assert_eq!(index.figures().entries, model.len() as u64);
}

proptest! {
    #[test]
    fn the_index_is_a_map_of_chains(operations in vec(operation(), 1..300)) {
        let index = HashIndex::new(BASE_BITS);
        let mut model = Model::new();
        for (newest, operation) in operations.into_iter().enumerate() {
            apply(&index, &mut model, operation, 64 + newest as u64);
        }
        apply(&index, &mut model, Operation::Walk, 0);
    }
}
