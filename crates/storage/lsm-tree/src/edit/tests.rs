//! The bytes of edits, and edits that do not fit the contents.

use codec::SeqNo;
use edits::Edit as _;

use super::*;
use crate::range_deletes::RangeDelete;
use crate::table::{Properties, Summary, TableId};

fn summary(number: u64) -> Summary {
    let properties = Properties {
        smallest: format!("from-{number}").into_bytes(),
        largest: format!("to-{number}").into_bytes(),
        entries: 3,
        oldest: SeqNo::new(1),
        newest: SeqNo::new(2),
        fragments: vec![10, 20],
        ..Properties::default()
    };
    let properties = Properties { smallest: b"a".to_vec(), ..properties };
    let ingested = (number % 2 == 1).then_some(SeqNo::new(2));
    let oldest = ingested.unwrap_or(properties.oldest);
    let properties = Properties { oldest, ..properties };
    let id = TableId { number, nonce: 7 };
    Summary { id, stored_bytes: 4096, ingested, properties }
}

fn adds(numbers: &[u64]) -> Edit {
    Edit {
        removed: Vec::new(),
        added: numbers.iter().map(|number| (1, summary(*number))).collect(),
        range_deletes: Vec::new(),
    }
}

fn deletes() -> Vec<Arc<RangeDelete>> {
    let delete = |start: &[u8], end: Option<&[u8]>| {
        let (start, end) = (start.to_vec(), end.map(<[u8]>::to_vec));
        Arc::new(RangeDelete { seqno: SeqNo::new(8), start, end })
    };
    vec![delete(b"", Some(b"m")), delete(b"x", None)]
}

#[test]
fn an_edit_has_one_encoding() {
    let edit = Edit {
        removed: vec![(1, 7), (6, u64::MAX)],
        added: vec![(2, summary(3)), (0, summary(4))],
        range_deletes: deletes(),
    };
    let bytes = edit.encode();
    assert_eq!(Edit::decode(&bytes), Ok(edit));
    for len in 0..bytes.len() {
        assert!(Edit::decode(&bytes[..len]).is_err(), "{len} bytes");
    }
    assert!(Edit::decode(&[bytes.as_slice(), &[0]].concat()).is_err(), "a byte too many");
}

#[test]
fn edits_add_up_to_the_contents() {
    let mut all = All::default();
    adds(&[1, 2]).apply(&mut all).expect("fits");
    let replaced =
        Edit { removed: vec![(1, 1)], added: vec![(2, summary(3))], range_deletes: deletes() };
    replaced.apply(&mut all).expect("fits");
    let contents = Edit::of_all(all);
    let added = vec![(1, summary(2)), (2, summary(3))];
    assert_eq!(contents, Edit { removed: Vec::new(), added, range_deletes: deletes() });
}

#[test]
fn edits_that_contradict_each_other_are_damage() {
    for second in [
        adds(&[1]),
        Edit { removed: vec![(2, 1)], ..Edit::default() },
        Edit { removed: vec![(1, 9)], ..Edit::default() },
    ] {
        let mut all = All::default();
        adds(&[1]).apply(&mut all).expect("fits");
        assert!(second.apply(&mut all).is_err());
    }
}
