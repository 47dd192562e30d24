//! Plans: pressed levels are served, jobs are disjoint, and Level 0 gives its oldest tables first.

use proptest::prelude::*;

use super::*;
const JOBS_MAX: usize = 4;
use crate::testing::Yard;
use crate::version::Change;

const USUAL: Shape = Shape {
    level0_tables: 4,
    level0_tables_slow: 36,
    level1_bytes: 64 << 20,
    level_ratio: 10,
    block_bytes: 4096,
};

fn shape() -> Shape {
    Shape { level0_tables: 2, level1_bytes: 10_000, level_ratio: 2, ..USUAL }
}

/// A version of tables with these keys in these levels, numbered in their order.
fn version(yard: &Yard, tables: &[(usize, &[&str])]) -> Version {
    let table = |(index, (level, keys)): (usize, &(usize, &[&str]))| {
        (*level, yard.of_keys(1 + index as u64, keys))
    };
    let added = tables.iter().enumerate().map(table).collect();
    Version::default().after(&Change { removed: Vec::new(), added })
}

/// The numbers of a job's tables.
fn numbers(tables: &[Arc<Table>]) -> Vec<u64> {
    tables.iter().map(|table| table.summary().id.number).collect()
}

#[test]
fn nothing_is_planned_below_the_measures() {
    let yard = Yard::new();
    let version = version(&yard, &[(0, &["a", "z"]), (1, &["a", "z"])]);
    assert!(plan(&version, &shape(), u64::MAX, &[], JOBS_MAX).is_empty());
}

#[test]
fn level_0_falls_apart_into_groups() {
    let yard = Yard::new();
    let version = version(
        &yard,
        &[(0, &["a", "c"]), (0, &["m", "p"]), (0, &["b", "d"]), (0, &["p", "q"]), (1, &["c", "e"])],
    );
    let jobs = plan(&version, &shape(), u64::MAX, &[], JOBS_MAX);
    assert_eq!(jobs.len(), 2);
    assert_eq!((numbers(&jobs[0].upper), numbers(&jobs[0].lower)), (vec![1, 3], vec![5]));
    assert_eq!((numbers(&jobs[1].upper), numbers(&jobs[1].lower)), (vec![2, 4], vec![]));
}

/// Either it has grown as large as the data it rewrites, or readers have searched it in vain for
/// that number of bytes, or it has too many tables.
#[test]
fn a_group_waits_until_it_is_worth_what_it_rewrites() {
    let level1: Vec<[String; 2]> = (0..9).map(|at| [format!("b{at}"), format!("b{at}z")]).collect();
    let level1: Vec<Vec<&str>> =
        level1.iter().map(|keys| keys.iter().map(String::as_str).collect()).collect();
    let level1: Vec<(usize, &[&str])> = level1.iter().map(|keys| (1, keys.as_slice())).collect();
    let of = |groups: &[(usize, &[&str])]| version(&Yard::new(), &[groups, &level1].concat());
    let shape = Shape { level1_bytes: 1 << 20, ..shape() };
    let jobs = |version: &Version| {
        let jobs = plan(version, &shape, u64::MAX, &[], JOBS_MAX);
        jobs.iter().map(|job| (job.upper.len(), job.lower.len())).collect::<Vec<_>>()
    };

    let two = of(&[(0, &["a", "c"][..]); 2]);
    assert_eq!(jobs(&two), []);
    let below: u64 = (0..9).map(|at| two.level(1)[at].summary().stored_bytes).sum();
    let visits = below.div_ceil(shape.block_bytes as u64);
    for visit in 0..visits {
        assert_eq!(jobs(&two), [], "after {visit} of {visits}");
        two.level(0)[visit as usize % 2].visit();
    }
    assert_eq!(jobs(&two), [(2, 9)]);

    let many: Vec<String> = (0..9000).map(|number| format!("a{number:04}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).chain(["c"]).collect();
    let large = of(&[(0, many.as_slice()), (0, &["a", "c"])]);
    assert!(large.level_bytes(0) > large.level_bytes(1), "as the keys were chosen");
    assert_eq!(jobs(&large), [(2, 9)]);

    let most = LEVEL0_GROUP_TIMES * shape.level0_tables;
    assert_eq!(jobs(&of(&vec![(0, &["a", "c"][..]); most - 1])), []);
    assert_eq!(jobs(&of(&vec![(0, &["a", "c"][..]); most])), [(most, 9)]);
}

/// The tables of Level 1 with the keys between are rewritten for the first group alone.
#[test]
fn groups_within_the_keys_of_a_job_come_along() {
    let jobs = |level1: &[(usize, &[&str])], level0: &[(usize, &[&str])]| {
        let version = version(&Yard::new(), &[level0, level1].concat());
        plan(&version, &shape(), u64::MAX, &[], JOBS_MAX)
    };
    let narrow: &[(usize, &[&str])] = &[(1, &["a", "f"]), (1, &["g", "k"])];
    let wide: &[(usize, &[&str])] = &[(1, &["a", "x"])];
    let groups: &[(usize, &[&str])] = &[(0, &["d", "e"]), (0, &["d"]), (0, &["g"]), (0, &["y"])];
    let upper = |jobs: Vec<Job>| {
        assert_eq!((jobs.len(), jobs[0].lower.len()), (1, 1));
        numbers(&jobs[0].upper)
    };
    assert_eq!(upper(jobs(narrow, groups)), [1, 2], "the others lie outside");
    assert_eq!(upper(jobs(wide, groups)), [1, 2, 3]);
    let many = vec![(0, &["d", "e"][..]); LEVEL0_JOB_TABLES_MAX];
    let full = upper(jobs(wide, &[many.as_slice(), &[(0, &["g"])]].concat()));
    assert_eq!(full.len(), LEVEL0_JOB_TABLES_MAX, "no more than one merge opens at once");
}

#[test]
fn level_1_may_hold_as_much_as_level_0() {
    let shape = Shape { level0_tables: 9, level1_bytes: 1, ..shape() };
    let is_planned = |level0: usize| {
        let mut tables: Vec<(usize, &[&str])> = vec![(0, &["a", "b"]); level0];
        tables.extend([(1, &["c", "d"][..]), (1, &["e", "f"])]);
        let version = version(&Yard::new(), &tables);
        !plan(&version, &shape, u64::MAX, &[], JOBS_MAX).is_empty()
    };
    assert!(is_planned(1), "Level 1 has twice as much");
    assert!(!is_planned(3));
}

#[test]
fn single_tables_go_where_there_is_too_much_of_them() {
    let yard = Yard::new();
    let keys: Vec<String> = (0..3).map(|number| format!("k{number}")).collect();
    let tables: Vec<Vec<&str>> = keys.iter().map(|key| vec![key.as_str()]).collect();
    let tables: Vec<(usize, &[&str])> = tables.iter().map(|keys| (0, keys.as_slice())).collect();
    let version = version(&yard, &tables);
    let jobs = |bytes| plan(&version, &shape(), bytes, &[], JOBS_MAX).len();
    assert_eq!(jobs(version.level_bytes(0) + 1), 0, "they do not overlap");
    assert_eq!(jobs(version.level_bytes(0)), 3);
}

#[test]
fn a_group_is_due_before_writers_wait_for_it() {
    let yard = Yard::new();
    let version = version(&yard, &[(0, &["a", "z"]), (0, &["a", "z"])]);
    let shape = Shape { level0_tables: 30, level0_tables_slow: 2, ..shape() };
    assert_eq!(plan(&version, &shape, u64::MAX, &[], JOBS_MAX).len(), 1);
}

/// However pressed the other levels are: writers wait for Level 0 alone.
#[test]
fn one_job_is_of_level_0_where_it_slows_writers_down() {
    let yard = Yard::new();
    let tables: &[(usize, &[&str])] =
        &[(0, &["a", "b"]), (0, &["a", "b"]), (1, &["c"]), (2, &["d"]), (3, &["e"]), (4, &["f"])];
    let version = version(&yard, tables);
    let jobs_max = 3;
    let shape = Shape { level1_bytes: 1, level0_tables_slow: 12, ..shape() };
    let level0_bytes = |times| version.level_bytes(0) / times;
    let levels = |level0_bytes, claims: &[CompactionClaim]| -> Vec<usize> {
        let jobs = plan(&version, &shape, level0_bytes, claims, jobs_max);
        let mut levels: Vec<usize> = jobs.iter().map(|job| job.from).collect();
        levels.sort_unstable();
        levels
    };
    assert_eq!(levels(level0_bytes(5), &[]), [2, 3, 4], "writers are not slowed down");
    assert_eq!(levels(level0_bytes(7), &[]), [0, 2, 3]);
    let claim = CompactionClaim { from: 0, to: 1, smallest: b"x".to_vec(), largest: b"z".to_vec() };
    assert_eq!(levels(level0_bytes(7), &[claim]), [2, 3, 4], "it has one");
    assert_eq!(levels(1, &[]), [0, 2, 3], "by its bytes it is the most pressed");
}

#[test]
fn a_group_that_is_too_large_gives_up_its_youngest() {
    let yard = Yard::new();
    let many = LEVEL0_JOB_TABLES_MAX + 3;
    let tables: Vec<(usize, &[&str])> = (0..many).map(|_| (0, &["a", "z"][..])).collect();
    let jobs = plan(&version(&yard, &tables), &shape(), u64::MAX, &[], JOBS_MAX);
    assert_eq!(jobs.len(), 1);
    let oldest: Vec<u64> = (1..=LEVEL0_JOB_TABLES_MAX as u64).collect();
    assert_eq!(numbers(&jobs[0].upper), oldest);
}

#[test]
fn what_meets_a_job_under_way_waits() {
    let yard = Yard::new();
    let version =
        version(&yard, &[(0, &["a", "c"]), (0, &["b", "d"]), (0, &["x", "z"]), (0, &["y"])]);
    let claim = |smallest: &[u8], largest: &[u8], from| CompactionClaim {
        from,
        to: from + 1,
        smallest: smallest.to_vec(),
        largest: largest.to_vec(),
    };
    let uppers = |claims: &[CompactionClaim]| -> Vec<Vec<u64>> {
        plan(&version, &shape(), u64::MAX, claims, JOBS_MAX)
            .iter()
            .map(|job| numbers(&job.upper))
            .collect()
    };
    assert_eq!(uppers(&[]), [[1, 2], [3, 4]]);
    assert_eq!(uppers(&[claim(b"d", b"e", 1)]), [[3, 4]], "Level 1 is shared");
    assert_eq!(uppers(&[claim(b"d", b"e", 2)]), [[1, 2], [3, 4]], "no level is shared");
}

#[test]
fn of_a_level_the_table_goes_that_costs_least() {
    let yard = Yard::new();
    let tables: &[(usize, &[&str])] = &[
        (1, &["a", "c"]),
        (1, &["d", "f"]),
        (1, &["g", "i"]),
        (2, &["a"]),
        (2, &["b"]),
        (2, &["g"]),
    ];
    let jobs = plan(&version(&yard, tables), &shape(), u64::MAX, &[], JOBS_MAX);
    assert_eq!(jobs.len(), 1);
    assert_eq!((jobs[0].from, jobs[0].to, numbers(&jobs[0].upper)), (1, 2, vec![2]));
    assert!(jobs[0].moves().is_some(), "nothing is below it");
}

#[test]
fn a_table_with_tombstones_does_not_just_move() {
    let yard = Yard::new();
    let table = yard.build(1, &[(b"k".to_vec(), 1, None)]);
    let version =
        Version::default().after(&Change { removed: Vec::new(), added: vec![(1, table)] });
    assert!(Job::new(&version, 1, version.level(1).to_vec()).moves().is_none());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// P1 and P2, over random versions.
    #[test]
    fn jobs_are_disjoint_and_closed_in_age(
        level0 in prop::collection::vec((0..40_u8, 0..12_u8), 0..30),
        cuts in prop::collection::vec(prop::collection::btree_set(0..60_u8, 0..12), 3),
    ) {
        let yard = Yard::new();
        let mut number = 0;
        let mut table = |smallest: u8, largest: u8| {
            number += 1;
            let key = |byte: u8| (vec![byte], number, Some(vec![0; 30]));
            let mut entries = vec![key(smallest)];
            if largest > smallest {
                entries.push(key(largest));
            }
            yard.build(number, &entries)
        };
        let mut added: Vec<(usize, Arc<Table>)> =
            level0.iter().map(|(from, len)| (0, table(*from, from + len))).collect();
        for (level, cuts) in cuts.iter().enumerate() {
            let cuts: Vec<u8> = cuts.iter().copied().collect();
            added.extend(cuts.windows(2).map(|pair| (level + 1, table(pair[0], pair[1] - 1))));
        }
        let version = Version::default().after(&Change { removed: Vec::new(), added });
        let jobs = plan(&version, &shape(), u64::MAX, &[], JOBS_MAX);
        prop_assert!(jobs.len() <= JOBS_MAX);
        for (index, job) in jobs.iter().enumerate() {
            for other in &jobs[..index] {
                prop_assert!(!job.claim().meets(&other.claim()), "P2");
            }
            if job.from > 0 {
                continue;
            }
            for young in &job.upper {
                let properties = &young.summary().properties;
                let older = version.overlapping(0, &properties.smallest, &properties.largest);
                for old in older {
                    let is_older =
                        old.summary().properties.last_memtable < properties.last_memtable;
                    let is_in = numbers(&job.upper).contains(&old.summary().id.number);
                    prop_assert!(!is_older || is_in, "P1");
                }
            }
        }
    }
}
