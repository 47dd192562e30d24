//! Places: as low as nothing is in the way, and no lower than the tree goes.

use std::sync::Arc;

use super::*;
use crate::plan::compaction::Job;
use crate::testing::Yard;
use crate::version::{Change, LEVELS};

const USUAL: Shape = Shape {
    level0_tables: 4,
    level0_tables_slow: 36,
    level1_bytes: 64 << 20,
    level_ratio: 10,
    block_bytes: 4096,
};

fn shape() -> Shape {
    Shape { level1_bytes: 10_000, level_ratio: 2, ..USUAL }
}

fn version(yard: &Yard, tables: &[(usize, &[&str])]) -> Version {
    let table = |(index, (level, keys)): (usize, &(usize, &[&str]))| {
        (*level, yard.of_keys(1 + index as u64, keys))
    };
    let added = tables.iter().enumerate().map(table).collect();
    Version::default().after(&Change { removed: Vec::new(), added })
}

/// Returns the level that a table of these keys goes to.
fn level(yard: &Yard, version: &Version, claims: &[CompactionClaim], keys: &[&str]) -> usize {
    let table = yard.of_keys(99, keys);
    let places = plan_ingest(version, &shape(), claims, &[table.summary().clone()]);
    yard.store.remove(99).expect("memory removes");
    let [place] = places.as_slice() else { panic!("one place for one table") };
    assert_eq!(place.claim.is_some(), place.level > 0);
    place.level
}

#[test]
fn what_overlaps_keeps_it_above() {
    let yard = Yard::new();
    let version =
        version(&yard, &[(0, &["a", "c"]), (1, &["e", "g"]), (3, &["i", "k"]), (4, &["x", "z"])]);
    for (keys, expected) in [
        (["b", "b1"], 0),
        (["c", "d"], 0),
        (["f", "f1"], 0),
        (["g", "h"], 0),
        (["j", "l"], 2),
        (["a", "z"], 0),
        (["d", "d1"], 4),
        (["l", "m"], 4),
    ] {
        assert_eq!(level(&yard, &version, &[], &keys), expected, "{keys:?}");
    }
}

#[test]
fn it_goes_no_lower_than_a_tree_of_its_size() {
    let yard = Yard::new();
    let empty = Version::default();
    let table = yard.of_keys(1, &["a", "b"]).summary().clone();
    let levels = |count: usize| {
        let tables = vec![table.clone(); count];
        let places = plan_ingest(&empty, &shape(), &[], &tables);
        places.iter().map(|place| place.level).max()
    };
    let bytes = table.stored_bytes as usize;
    assert_eq!(levels(1), Some(1));
    assert_eq!(levels(10_000 / bytes + 1), Some(2));
    assert_eq!(levels(40_000 / bytes + 1), Some(4));
    assert_eq!(levels(10_000_000 / bytes), Some(LEVELS - 1));
}

/// A job may put a table anywhere between its bounds, and into no other level than its own.
#[test]
fn it_keeps_out_of_the_way_of_jobs() {
    let yard = Yard::new();
    let tables: [(usize, &[&str]); 3] = [(2, &["a", "c"]), (2, &["m", "p"]), (4, &["x", "z"])];
    let version = version(&yard, &tables);
    let upper: Vec<Arc<_>> = version.level(2).to_vec();
    let claims = [Job::new(&version, 2, upper).claim()];
    assert_eq!(level(&yard, &version, &[], &["e", "f"]), 4);
    assert_eq!(level(&yard, &version, &claims, &["e", "f"]), 1);
    assert_eq!(level(&yard, &version, &claims, &["q", "r"]), 4, "behind it");
    let table = yard.of_keys(98, &["e", "f"]).summary().clone();
    let places = plan_ingest(&version, &shape(), &claims, &[table]);
    let claim = places[0].claim.clone().expect("Level 1 is claimed");
    assert!(!claims[0].meets(&claim));
    let meets = |from| CompactionClaim::of(from..=from + 1, b"a", b"e1").meets(&claim);
    assert_eq!([0, 1, 2].map(meets), [true, true, false]);
}
