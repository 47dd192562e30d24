//! The tables that move on for their tombstones.

use super::*;
use crate::testing::Yard;
use crate::version::Change;

/// A table of these keys, of which the ones with a `-` are deleted.
fn table(yard: &Yard, number: u64, keys: &[&str]) -> Arc<Table> {
    let entry = |key: &&str| {
        let name = key.trim_start_matches('-');
        let value = (*key == name).then(|| b"value".to_vec());
        (name.as_bytes().to_vec(), number, value)
    };
    yard.build(number, &keys.iter().map(entry).collect::<Vec<_>>())
}

fn version(tables: &[(usize, &[&str])]) -> Version {
    let yard = Yard::new();
    let built = |(index, (level, keys)): (usize, &(usize, &[&str]))| {
        (*level, table(&yard, 1 + index as u64, keys))
    };
    let added = tables.iter().enumerate().map(built).collect();
    Version::default().after(&Change { removed: Vec::new(), added })
}

/// Levels and numbers of the upper and the lower tables of the job.
fn planned(version: &Version, horizon: u64) -> Option<(usize, usize, Vec<u64>, Vec<u64>)> {
    let numbers = |tables: &[Arc<Table>]| tables.iter().map(|it| it.summary().id.number).collect();
    let job = plan_tombstones(version, SeqNo::new(horizon), &[])?;
    Some((job.from, job.to, numbers(&job.upper), numbers(&job.lower)))
}

#[test]
fn what_is_half_deleted_goes_down_and_then_out() {
    let over = version(&[(1, &["-a", "b"]), (2, &["a", "c"])]);
    assert_eq!(planned(&over, 9), Some((1, 2, vec![1], vec![2])));
    let lowest = version(&[(2, &["-a", "b"])]);
    assert_eq!(planned(&lowest, 9), Some((2, 2, vec![1], vec![])));
    let few = version(&[(1, &["-a", "b", "c"]), (2, &["a", "b", "c", "d", "e", "f", "g", "h"])]);
    assert_eq!(planned(&few, 9), None);
}

/// One tombstone of three entries is enough if it hides half of the entries below.
#[test]
fn tombstones_that_hide_a_quarter_of_the_bytes_go_down() {
    let over = version(&[(1, &["-a", "b", "c"]), (2, &["a", "c"])]);
    assert_eq!(planned(&over, 9), Some((1, 2, vec![1], vec![2])));
    let further_down = version(&[(1, &["-a", "b", "c"]), (4, &["a", "c"])]);
    assert_eq!(planned(&further_down, 9), Some((1, 2, vec![1], vec![])));
}

/// The next level has nothing below the tombstone, but a deeper level has: without the tombstone
/// that entry would be visible again.
#[test]
fn nothing_goes_out_above_what_it_hides() {
    let over = version(&[(1, &["-a"]), (3, &["a", "c"])]);
    assert_eq!(planned(&over, 9), Some((1, 2, vec![1], vec![])));
}

#[test]
fn a_group_of_level_0_goes_as_one() {
    let group = version(&[(0, &["a", "b"]), (0, &["-a", "-b"]), (0, &["x"])]);
    assert_eq!(planned(&group, 9), Some((0, 1, vec![1, 2], vec![])));
}

#[test]
fn what_has_most_tombstones_comes_first_unless_somebody_works_on_it() {
    let version = version(&[(1, &["-a"]), (1, &["-m", "-n"])]);
    assert_eq!(planned(&version, 9), Some((1, 1, vec![2], vec![])));
    let claim = CompactionClaim::of(1..=2, b"n", b"z");
    let job = plan_tombstones(&version, SeqNo::new(9), &[claim]).expect("the other one is free");
    assert_eq!(job.upper[0].summary().id.number, 1);
}

#[test]
fn what_a_snapshot_may_be_older_than_stays() {
    let version = version(&[(1, &["a"]), (2, &["-m"])]);
    assert_eq!(planned(&version, 1), None, "the tombstone is of write 2");
    assert_eq!(planned(&version, 2), Some((2, 2, vec![2], vec![])));
}
