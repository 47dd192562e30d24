//! The entries that are kept, against a model that asks every snapshot.

use std::sync::Arc;

use memory_budget::MemoryBudget;
use proptest::prelude::*;

use super::*;
use crate::range_deletes::{RangeDelete, RangeDeletes};

/// The kept ones of some versions of one key, the newest first, `None` being a tombstone.
fn kept(versions: &[(u64, Option<u8>)], pins: &[u64], below: bool) -> Vec<(u64, Option<u8>)> {
    kept_beside(&[], versions, pins, below)
}

/// The same if all keys were deleted by writes of these numbers.
fn kept_beside(
    deletes: &[u64],
    versions: &[(u64, Option<u8>)],
    pins: &[u64],
    below: bool,
) -> Vec<(u64, Option<u8>)> {
    let is_seen = |older: SeqNo, newer: SeqNo| {
        pins.iter().any(|pin| older.get() <= *pin && *pin < newer.get())
    };
    let is_below = |_: &[u8]| below;
    let budget = Arc::new(MemoryBudget::new(0));
    let delete = |seqno: &u64| {
        Arc::new(RangeDelete { seqno: SeqNo::new(*seqno), start: Vec::new(), end: None })
    };
    let deletes: Vec<_> = deletes.iter().map(delete).collect();
    let sweep = Sweep { deletes: RangeDeletes::of(&deletes, &budget), upto: SeqNo::MAX };
    let mut retention = Retention::new(&is_seen, &is_below, &sweep);
    let mut out = Vec::new();
    for (seqno, value) in versions {
        let bytes = value.map(|value| [value]);
        let value = bytes.as_ref().map(<[u8; 1]>::as_slice);
        let entry = Entry { key: b"k", seqno: SeqNo::new(*seqno), value };
        let mut keep = |entry: &Entry<'_>| {
            out.push((entry.seqno.get(), entry.value.map(|value| value[0])));
            Ok(())
        };
        retention.offer(&entry, &mut keep).expect("keeping does not fail");
    }
    out
}

/// The version that a snapshot shows.
fn shown(versions: &[(u64, Option<u8>)], deletes: &[u64], pin: u64) -> Option<u8> {
    let hidden = deletes.iter().copied().filter(|number| *number <= pin).max().unwrap_or(0);
    let newest = versions.iter().find(|(seqno, _)| *seqno <= pin);
    newest.filter(|(seqno, _)| *seqno >= hidden).and_then(|(_, value)| *value)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn every_snapshot_shows_what_it_showed(
        seqnos in prop::collection::btree_set(1..30_u64, 0..8),
        values in prop::collection::vec(prop::option::of(any::<u8>()), 8),
        pins in prop::collection::vec(0..30_u64, 0..4),
        below in any::<bool>(),
    ) {
        let versions: Vec<_> = seqnos.into_iter().rev().zip(values).collect();
        let kept = kept(&versions, &pins, below);
        for pin in pins.iter().copied().chain([u64::MAX]) {
            prop_assert_eq!(
                shown(&kept, &[], pin),
                shown(&versions, &[], pin),
                "at {}, of {:?}", pin, kept
            );
            if below {
                // An entry that hides something below still hides it.
                let hides = |all: &[(u64, Option<u8>)]| all.iter().any(|(seqno, _)| *seqno <= pin);
                prop_assert_eq!(hides(&kept), hides(&versions));
            }
        }
        prop_assert!(kept.len() <= pins.len() + 1, "one for each snapshot, and the newest");
    }

    /// Older versions may be below, which the range deletes hide, too, as long as there are any.
    #[test]
    fn range_deletes_change_what_is_kept_and_not_what_is_shown(
        seqnos in prop::collection::btree_set(1..30_u64, 0..8),
        values in prop::collection::vec(prop::option::of(any::<u8>()), 8),
        deletes in prop::collection::vec(1..30_u64, 0..4),
        pins in prop::collection::vec(0..30_u64, 0..4),
        older in prop::option::of(any::<u8>()),
    ) {
        let versions: Vec<_> = seqnos.into_iter().rev().zip(values).collect();
        let kept = kept_beside(&deletes, &versions, &pins, older.is_some());
        let with_older = |versions: &[(u64, Option<u8>)]| {
            let below = older.map(|value| (0, Some(value)));
            versions.iter().copied().chain(below).collect::<Vec<_>>()
        };
        for pin in pins.iter().copied().chain([u64::MAX]) {
            prop_assert_eq!(
                shown(&with_older(&kept), &deletes, pin),
                shown(&with_older(&versions), &deletes, pin),
                "at {}, of {:?}", pin, kept
            );
        }
        for (seqno, _) in &kept {
            let hider = deletes.iter().filter(|number| *number > seqno).min();
            let is_shown = |hider: &u64| pins.iter().any(|pin| seqno <= pin && pin < hider);
            prop_assert!(hider.is_none_or(is_shown), "{} is kept for nobody", seqno);
        }
    }
}

#[test]
fn a_tombstone_goes_with_all_that_it_hides() {
    assert_eq!(kept(&[(5, None), (3, Some(1))], &[], false), []);
    assert_eq!(kept(&[(5, None), (3, Some(1))], &[], true), [(5, None)]);
    assert_eq!(kept(&[(5, None), (3, Some(1))], &[4], false), [(5, None), (3, Some(1))]);
    assert_eq!(kept(&[(5, None)], &[5], false), []);
}

#[test]
fn keys_do_not_mix() {
    let is_seen = |_: SeqNo, _: SeqNo| false;
    let is_below = |_: &[u8]| false;
    let sweep = Sweep::default();
    let mut retention = Retention::new(&is_seen, &is_below, &sweep);
    let mut out = Vec::new();
    for (key, seqno, value) in [
        (&b"a"[..], 5, None),
        (b"b", 4, Some(&b"x"[..])),
        (b"b", 3, None),
        (b"c", 2, None),
        (b"d", 9, Some(b"y")),
    ] {
        let entry = Entry { key, seqno: SeqNo::new(seqno), value };
        let mut keep = |entry: &Entry<'_>| {
            out.push((entry.key.to_vec(), entry.seqno.get()));
            Ok(())
        };
        retention.offer(&entry, &mut keep).expect("keeping does not fail");
    }
    assert_eq!(out, [(b"b".to_vec(), 4), (b"d".to_vec(), 9)]);
}
