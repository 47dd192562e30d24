//! Merged walks against one sorted list.

use std::cell::RefCell;
use std::sync::Arc;

use codec::SeqNo;
use proptest::prelude::*;

use super::*;
use crate::table::{Reading, TableCursor};
use crate::testing::{Versioned, Yard, compare_walks, entry_of, in_order};

/// Reads each piece with the blocks after it, by one read.
fn read_all(missing: &[Missing]) {
    for it in missing {
        let span = it.span().expect("nothing is damaged");
        let mut bytes = vec![0; span.read_len];
        span.file.read_at(span.offset, &mut bytes).expect("memory reads");
        let kept = it.keep(&bytes[span.skipped..span.skipped + span.len]);
        assert_eq!(kept, 1 + it.after.len() as u64, "nothing was cached or is damaged");
    }
}

/// A seek over several tables does its reads in two batches: the metadata of all, then a block of
/// each.
#[test]
fn tables_are_read_together() {
    let yard = Yard::new();
    let tables: Vec<_> = (1..=5)
        .map(|number| {
            let key = |at: u64| format!("{:05}", at * 5 + number).into_bytes();
            let entries = (0..100).map(|at| (key(at), number, Some(vec![7; 40])));
            yard.build(number, &entries.collect::<Vec<Versioned>>())
        })
        .collect();
    for aim in [Aim::At(Target::first_of(b"00250")), Aim::Before(Some(Target::first_of(b"00120")))]
    {
        let sources = tables.iter().map(|table| {
            Box::new(TableCursor::new(Arc::clone(table), Reading::Cached { level: 1 }))
                as Box<dyn EntryCursor>
        });
        let mut merged = Merged::new(sources.collect());
        let goes = RefCell::new(Vec::new());
        let noted = |missing: &[Missing]| {
            goes.borrow_mut().push(missing.len());
            read_all(missing);
        };
        merged.go_to(aim, &noted).expect("nothing is damaged");
        assert!(merged.entry().is_some());
        let is_first = matches!(aim, Aim::At(_));
        assert_eq!(goes.into_inner(), if is_first { vec![5, 5] } else { vec![5] });
    }
}

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
            sources.push(Box::new(TableCursor::new(Arc::clone(&table), Reading::Cached { level: 1 })));
        }
        let places: Vec<_> = places.into_iter().map(|(key, seqno)| (vec![key], seqno)).collect();
        let mut merged = Merged::new(sources);
        compare_walks(&mut merged, &all, &places);
        for (key, seqno) in &places {
            let to = Target { key, seqno: SeqNo::new(*seqno) };
            let at = all.partition_point(|entry| entry_of(entry).target() < to);
            merged.go_to(Aim::At(to), &|missing| read_all(missing)).expect("nothing is damaged");
            prop_assert_eq!(merged.entry(), all.get(at).map(entry_of));
            merged.go_to(Aim::Before(Some(to)), &|_| {}).expect("nothing is damaged");
            prop_assert_eq!(merged.entry(), at.checked_sub(1).and_then(|at| all.get(at)).map(entry_of));
        }
    }
}
