//! Blocks against a map that the same pairs were put into.

use std::collections::BTreeMap;

use memory_budget::{Account, MemoryBudget};
use proptest::prelude::*;

use std::sync::Arc;

use super::*;

fn memory() -> BlockMemory {
    BlockMemory::new(Arc::new(Account::new(&Arc::new(MemoryBudget::new(1 << 20)))))
}

fn encode(pairs: &[(Vec<u8>, Option<Vec<u8>>)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (key, value) in pairs {
        Pair { key, value: value.as_deref() }.encode(&mut bytes);
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn the_last_pair_of_a_key_counts(
        pairs in prop::collection::vec(
            (prop::collection::vec(0..4_u8, 0..3), prop::option::of(prop::collection::vec(any::<u8>(), 0..4))),
            0..120,
        ),
    ) {
        let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        for (key, value) in &pairs {
            match value {
                Some(value) => drop(model.insert(key.clone(), value.clone())),
                None => drop(model.remove(key)),
            }
        }
        let block = Block::decode(&encode(&pairs), &memory()).expect("it was encoded just now");
        prop_assert_eq!(block.len(), model.len());
        for (index, (key, value)) in model.iter().enumerate() {
            prop_assert_eq!(block.key(index), Some(&key[..]));
            prop_assert_eq!(block.value(index), Some(&value[..]));
            prop_assert_eq!(block.find(key), Some(&value[..]));
            prop_assert_eq!((block.lower_bound(key), block.upper_bound(key)), (index, index + 1));
            let pair = Pair { key, value: Some(value) };
            let mut bytes = Vec::new();
            pair.encode(&mut bytes);
            prop_assert_eq!(block.pair(index), Some(&bytes[..]));
        }
        for (key, _) in &pairs {
            prop_assert_eq!(block.find(key), model.get(key).map(Vec::as_slice));
        }
        prop_assert_eq!(block.find(b"none"), None);
        let sorted: Vec<_> = model.into_iter().map(|(key, value)| (key, Some(value))).collect();
        prop_assert_eq!(block.is_plain(), sorted == pairs);
    }
}

#[test]
fn long_blocks_are_searched_by_halves() {
    let pairs: Vec<_> = (0..200_u8).map(|n| (vec![n], Some(vec![n, n]))).collect();
    let block = Block::decode(&encode(&pairs), &memory()).expect("it was encoded just now");
    assert!(block.len() > FEW_PAIRS && block.is_plain());
    assert_eq!(block.find(&[7]), Some(&[7, 7][..]));
    assert_eq!(block.find(&[7, 0]), None);
    assert_eq!(block.find(&[255]), None);
}

#[test]
fn the_tally_counts_a_block_until_it_is_gone() {
    let budget = Arc::new(MemoryBudget::new(1 << 20));
    let memory = BlockMemory::new(Arc::new(Account::new(&budget)));
    let block = Block::decode(&encode(&[(vec![1; 100], Some(vec![2; 1000]))]), &memory);
    let block = block.expect("it was encoded just now");
    assert_eq!(budget.used(), block.memory_bytes());
    assert_eq!(memory.bytes(), block.memory_bytes());
    assert!(block.memory_bytes() > 1100);
    drop(block);
    assert_eq!((budget.used(), memory.bytes()), (0, 0));
    assert_eq!((memory.resident(), memory.release(0)), (4096, 4096));
    assert_eq!(memory.resident(), 0);
}
