//! Merged walks against one sorted list.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::table::{Reading, TableCursor};
use crate::tests::tables::{Versioned, Yard, compare_walks, in_order};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn a_merge_is_what_sorting_gives(
        entries in prop::collection::vec((0..20_u8, 1..50_u64, any::<bool>(), 0..4_usize), 1..120),
        places in prop::collection::vec((0..21_u8, 0..51_u64), 1..10),
    ) {
        let all = in_order(
            entries.iter().map(|(key, seqno, _, _)| (vec![*key], *seqno, Some(vec![9]))).collect(),
        );
        let mut parts: [Vec<Versioned>; 4] = Default::default();
        for (index, entry) in all.iter().enumerate() {
            parts[entries[index % entries.len()].3].push(entry.clone());
        }
        let yard = Yard::new();
        let mut sources: Vec<Box<dyn EntryCursor>> = Vec::new();
        for (index, part) in parts.iter().enumerate().filter(|(_, part)| !part.is_empty()) {
            let table = yard.build(1 + index as u64, part);
            sources.push(Box::new(TableCursor::new(Arc::clone(&table), Reading::Cached)));
        }
        let places: Vec<_> = places.into_iter().map(|(key, seqno)| (vec![key], seqno)).collect();
        compare_walks(&mut Merged::new(sources), &all, &places);
    }
}
