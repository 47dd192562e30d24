//! The jobs that run while there are no writes, and their order.

use super::*;
use crate::testing::Yard;
use crate::version::Change;

/// A version of tables with these keys in these levels, numbered in their order.
fn version(tables: &[(usize, &[&str])]) -> Version {
    let yard = Yard::new();
    let table = |(index, (level, keys)): (usize, &(usize, &[&str]))| {
        (*level, yard.of_keys(1 + index as u64, keys))
    };
    let added = tables.iter().enumerate().map(table).collect();
    Version::default().after(&Change { removed: Vec::new(), added })
}

/// The tables of each job, those of Level 0 first.
fn planned(version: &Version, claims: &[CompactionClaim]) -> Vec<(Vec<u64>, Vec<u64>)> {
    let numbers = |tables: &[std::sync::Arc<crate::table::Table>]| -> Vec<u64> {
        tables.iter().map(|table| table.summary().id.number).collect()
    };
    let jobs = plan_idle(version, claims);
    assert!(jobs.iter().all(|job| (job.from, job.to, job.yields) == (0, 1, true)));
    jobs.iter().map(|job| (numbers(&job.upper), numbers(&job.lower))).collect()
}

#[test]
fn what_is_read_beside_nothing_stays() {
    assert_eq!(planned(&version(&[(0, &["a", "c"]), (0, &["d", "f"])]), &[]), []);
    assert_eq!(planned(&version(&[(0, &["a", "c"]), (1, &["d", "f"]), (2, &["a"])]), &[]), []);
    assert_eq!(planned(&version(&[(1, &["a", "c"]), (2, &["b"])]), &[]), []);
}

#[test]
fn a_single_table_goes_where_level_1_has_its_keys() {
    let over = version(&[(0, &["a", "c"]), (1, &["b"]), (1, &["x"])]);
    assert_eq!(planned(&over, &[]), [(vec![1], vec![2])]);
}

#[test]
fn what_spares_most_for_what_it_writes_comes_first() {
    let many: Vec<String> = (0..5000).map(|number| format!("m{number:04}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let version = version(&[
        (0, many.as_slice()),
        (0, many.as_slice()),
        (0, &["x", "z"]),
        (0, &["x", "y"]),
        (0, &["a", "c"]),
        (0, &["a", "c"]),
        (0, &["b", "d"]),
    ]);
    // Three small tables, two small ones, two large ones.
    let all = [(vec![5, 6, 7], vec![]), (vec![3, 4], vec![]), (vec![1, 2], vec![])];
    assert_eq!(planned(&version, &[]), all);
    let claim = CompactionClaim::of(0..=1, b"z", b"zz");
    assert_eq!(planned(&version, &[claim]), [all[0].clone(), all[2].clone()]);
    let below = CompactionClaim::of(1..=2, b"z", b"zz");
    assert_eq!(planned(&version, &[below]), [all[0].clone(), all[2].clone()]);
}
