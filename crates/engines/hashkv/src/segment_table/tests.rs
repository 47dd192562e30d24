//! Tests of edits of the segment table.

use codec::SeqNo;
use edits::Edit as _;

use super::{All, Described, Edit, Geometry, Range, State};
use crate::key_hash::Secret;
use crate::volumes::Place;

fn geometry() -> Geometry {
    Geometry { store: 3, secret: Secret([4, 5]), segment_bytes: 1 << 20 }
}

fn segment(number: u64, first: u32) -> Described {
    let place = Place { volume: 1, first, count: 1 };
    let state = State::Open { durable_bytes: 4096 };
    Described { number, range: Range { first: 1 << 63, bits: 1 }, place, state }
}

fn open(number: u64, first: u32) -> Described {
    Described { state: State::Open { durable_bytes: 0 }, ..segment(number, first) }
}

fn sealed(number: u64, first: u32) -> Described {
    let newest = SeqNo::new(300);
    let state = State::Sealed { records_bytes: 8192, entries: 200, newest, is_base: false };
    Described { state, ..segment(number, first) }
}

fn first_edit() -> Edit {
    Edit {
        geometry: Some(geometry()),
        floor: Some(1000),
        ranges: Some(Range::all(1)),
        has_index: false,
        removed: Vec::new(),
        put: vec![segment(7, 0), sealed(8, 1)],
    }
}

fn after(edits: impl IntoIterator<Item = Edit>) -> Result<All, codec::Corruption> {
    let mut all = All::default();
    edits.into_iter().try_for_each(|edit| edit.apply(&mut all))?;
    Ok(all)
}

#[test]
fn an_edit_comes_back_as_it_went() {
    let change = Edit { removed: vec![8], put: vec![sealed(7, 0)], ..Edit::default() };
    let base = match sealed(9, 3) {
        Described { state: State::Sealed { records_bytes, entries, newest, .. }, .. } => {
            let state = State::Sealed { records_bytes, entries, newest, is_base: true };
            Edit { put: vec![Described { state, ..sealed(9, 3) }], ..Edit::default() }
        }
        other => panic!("{other:?}"),
    };
    for edit in [Edit::default(), first_edit(), change, base] {
        let bytes = edit.encode();
        assert_eq!(Edit::decode(&bytes), Ok(edit));
        for end in 0..bytes.len() {
            assert!(Edit::decode(&bytes[..end]).is_err(), "{end} of {} bytes", bytes.len());
        }
    }
    // `docs/formats/hashkv-table.md`.
    let bytes = Edit { removed: vec![8], put: vec![sealed(7, 0)], ..Edit::default() }.encode();
    assert_eq!(bytes, [0, 1, 8, 1, 7, 1, 1, 1, 0, 1, 1, 0x80, 0x40, 0xc8, 1, 0xac, 2]);
}

#[test]
fn edits_add_up_and_so_does_one_of_all() {
    let change =
        Edit { removed: vec![8], put: vec![sealed(7, 0)], has_index: true, ..Edit::default() };
    let all = after([first_edit(), change]).expect("they fit");
    assert_eq!(all.segments.values().copied().collect::<Vec<_>>(), [sealed(7, 0)]);
    assert_eq!((all.geometry, all.floor), (Some(geometry()), 1000));
    let again = after([all.as_edit()]).expect("it fits");
    assert!(all.has_index && again.has_index);
    assert_eq!((again.segments, again.ranges), (all.segments, all.ranges));
    // A store that a crash has left before its geometry.
    assert!(after([All::default().as_edit()]).is_ok());
}

#[test]
fn an_edit_that_does_not_fit_is_damage() {
    let put = |put: Described| Edit { put: vec![put], ..Edit::default() };
    let newest = SeqNo::new(300);
    let fewer = State::Sealed { records_bytes: 8192, entries: 199, newest, is_base: false };
    let bad = [
        Edit { removed: vec![9], ..Edit::default() },
        // Open with other bytes, sealed twice, elsewhere, shorter, and above the floor.
        put(segment(8, 1)),
        put(sealed(8, 1)),
        put(Described { state: fewer, ..sealed(8, 1) }),
        put(open(7, 0)),
        put(sealed(7, 5)),
        put(segment(1000, 5)),
        Edit { floor: Some(999), ..Edit::default() },
        Edit { geometry: Some(Geometry { store: 4, ..geometry() }), ..Edit::default() },
        Edit { ranges: Some(Vec::new()), ..Edit::default() },
        Edit { ranges: Some(vec![Range { first: 0, bits: 1 }]), ..Edit::default() },
    ];
    for bad in bad {
        assert!(after([first_edit(), bad.clone()]).is_err(), "{bad:?}");
    }
    let state = State::Open { durable_bytes: 8192 };
    let longer = Described { state, ..segment(7, 0) };
    let state = State::Open { durable_bytes: 8192 };
    let without_footer = Described { state, ..sealed(8, 1) };
    for good in [segment(7, 0), sealed(7, 0), longer, without_footer] {
        assert!(after([first_edit(), put(good)]).is_ok(), "{good:?}");
    }
}

#[test]
fn ranges_cover_all_positions() {
    for bits in [0, 1, 5] {
        let ranges = Range::all(bits);
        assert_eq!(ranges.len(), 1 << bits);
        for position in [0, 1, 1 << 40, u64::MAX / 3, u64::MAX] {
            let has = ranges.iter().filter(|range| range.contains(position)).count();
            assert_eq!(has, 1, "{position} of {bits} bits");
        }
    }
}
