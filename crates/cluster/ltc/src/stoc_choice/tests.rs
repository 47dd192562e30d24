//! Choices, counted.

use std::collections::{BTreeMap, BTreeSet};

use environment::Environment;

use super::*;

/// Returns ready StoCs without a load, numbered from 1, in these domains.
fn candidates(domains: &[Option<&str>]) -> Vec<Candidate> {
    let candidate = |(node, name): (u32, &Option<&str>)| Candidate {
        node,
        domain: Domain::of(node, name.map(str::to_owned)),
        standing: Standing::Ready,
        wait: 0.0,
    };
    (1..).zip(domains).map(candidate).collect()
}

/// Returns how often each StoC is chosen.
fn counts(
    choice: StocChoice,
    candidates: &[Candidate],
    count: usize,
    times: usize,
) -> BTreeMap<u32, usize> {
    let mut random = Environment::seeded(5).random("choices");
    let mut counts = BTreeMap::new();
    for _ in 0..times {
        for node in choose(choice, candidates.to_vec(), count, [], &mut random) {
            *counts.entry(node).or_default() += 1;
        }
    }
    counts
}

#[test]
fn stocs_without_a_load_get_equal_shares() {
    for choice in [StocChoice::PowerOfTwo, StocChoice::Random] {
        let counts = counts(choice, &candidates(&[None; 10]), 3, 2_000);
        assert_eq!(counts.len(), 10);
        let is_fair = |count: &usize| (500..700).contains(count);
        assert!(counts.values().all(is_fair), "{counts:?}");
    }
}

/// Of two that are compared, the one with the longer wait is left out.
#[test]
fn the_shortest_wait_of_two_is_chosen() {
    let mut loaded = candidates(&[None; 10]);
    for (wait, candidate) in (0..).map(f64::from).zip(&mut loaded) {
        candidate.wait = wait;
    }
    let by_load = counts(StocChoice::PowerOfTwo, &loaded, 1, 4_500);
    // Of the 45 pairs, 9 have the StoC with the shortest wait, and none chooses the last one.
    assert_eq!(by_load.get(&10), None);
    for (node, pairs) in (1..10).zip((1..10).rev()) {
        let count = by_load.get(&node).copied().unwrap_or(0);
        assert!(count.abs_diff(pairs * 100) < 100, "StoC {node}: {count} of {}", pairs * 100);
    }
    let randomly = counts(StocChoice::Random, &loaded, 1, 4_500);
    assert!(randomly.values().all(|count| count.abs_diff(450) < 100), "{randomly:?}");
}

/// Parts are in distinct domains as far as there are enough, whatever the load is.
#[test]
fn parts_are_in_distinct_domains() {
    let mut random = Environment::seeded(6).random("domains");
    let (a, b, c) = (Some("a"), Some("b"), Some("c"));
    // One of twelve StoCs is in another domain, and has a long wait.
    let mut mixed = candidates(&[a, a, a, a, a, a, a, a, a, a, a, b]);
    mixed.iter_mut().filter(|it| it.node == 12).for_each(|it| it.wait = 9.0);
    let three = candidates(&[a, a, b, b, c, c]);
    for choice in [StocChoice::PowerOfTwo, StocChoice::Random] {
        for _ in 0..200 {
            let mut choose = |candidates: &[Candidate], count, taken: &[&str]| {
                let taken = taken.iter().map(|name| Domain::Named((*name).to_owned()));
                let chosen = choose(choice, candidates.to_vec(), count, taken, &mut random);
                let unique: BTreeSet<u32> = chosen.iter().copied().collect();
                assert_eq!(unique.len(), chosen.len(), "{chosen:?}");
                chosen
            };
            assert!(choose(&mixed, 2, &[]).contains(&12));
            // Two of three are in one domain.
            let chosen = choose(&mixed, 3, &[]);
            assert!(chosen.len() == 3 && chosen.contains(&12));
            assert_eq!(choose(&mixed, 1, &["a"]), [12]);
            assert_eq!(choose(&mixed, usize::MAX, &[]).len(), 12);
            let chosen = choose(&three, 3, &[]);
            let domains: BTreeSet<u32> = chosen.iter().map(|node| (node - 1) / 2).collect();
            assert_eq!(domains.len(), 3, "{chosen:?}");
            let chosen = choose(&three, 2, &["b"]);
            assert!(chosen.iter().all(|node| ![3, 4].contains(node)), "{chosen:?}");
        }
    }
}

/// Slow StoCs are chosen if there are too few others, and failed ones last.
#[test]
fn slow_and_failed_stocs_are_chosen_last() {
    let mut mixed = candidates(&[None; 6]);
    for (standing, candidate) in [Standing::Failed, Standing::Slow].into_iter().zip(&mut mixed) {
        candidate.standing = standing;
    }
    let mut random = Environment::seeded(7).random("standings");
    for _ in 0..200 {
        let mut choose = |choice, count| choose(choice, mixed.clone(), count, [], &mut random);
        let chosen = choose(StocChoice::PowerOfTwo, 4);
        assert!(chosen.iter().all(|node| *node > 2), "{chosen:?}");
        let chosen = choose(StocChoice::PowerOfTwo, 6);
        assert_eq!(chosen.get(4..), Some(&[2, 1][..]), "{chosen:?}");
        let chosen = choose(StocChoice::Random, 6);
        assert_eq!(chosen.last(), Some(&1), "{chosen:?}");
    }
    assert!(counts(StocChoice::Random, &mixed, 2, 200).contains_key(&2));
}
