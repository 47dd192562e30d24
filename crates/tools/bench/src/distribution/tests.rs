//! Frequencies against theory, bijectivity, and parsing.

use environment::Seed;

use super::*;

const SEED: u64 = 0x7e57;

fn random(purpose: &str) -> environment::Random {
    Seed::from(SEED).stream(purpose)
}

/// Pearson's statistic of `counts` against `expected` shares, which must stay below the value that
/// chance exceeds once in about a million times (normal approximation, five deviations).
fn assert_fits(what: &str, counts: &[u64], expected: &[f64]) {
    let draws: u64 = counts.iter().sum();
    let statistic: f64 = counts
        .iter()
        .zip(expected)
        .map(|(&count, share)| {
            let want = share * draws as f64;
            (count as f64 - want).powi(2) / want
        })
        .sum();
    let freedom = counts.len() as f64 - 1.0;
    let limit = freedom + 5.0 * (2.0 * freedom).sqrt();
    assert!(statistic < limit, "{what}: chi-square {statistic:.1} above {limit:.1}, seed {SEED}");
}

fn zipf_shares(n: u64, theta: f64) -> Vec<f64> {
    let weights: Vec<f64> = (1..=n).map(|rank| (rank as f64).powf(-theta)).collect();
    let total: f64 = weights.iter().sum();
    weights.iter().map(|weight| weight / total).collect()
}

#[test]
fn zipfian_frequencies_follow_the_law_for_every_exponent() {
    for theta in [0.0, 0.3, 0.8, 0.99, 1.0, 1.0 + 1e-12, 1.2, 2.0, 4.0] {
        for n in [1, 2, 7, 100] {
            let zipfian = Zipfian::new(n, theta);
            let mut random = random("zipf");
            let mut counts = vec![0; n as usize];
            for _ in 0..200_000 {
                counts[zipfian.draw(&mut random) as usize] += 1;
            }
            // Ranks that expect few draws are pooled, as the statistic wants.
            let shares = zipf_shares(n, theta);
            let head = shares.iter().take_while(|&&share| share * 200_000.0 >= 20.0).count();
            let mut pooled: Vec<u64> = counts[..head].to_vec();
            let mut expected = shares[..head].to_vec();
            if head < counts.len() && shares[head..].iter().sum::<f64>() * 200_000.0 >= 20.0 {
                pooled.push(counts[head..].iter().sum());
                expected.push(shares[head..].iter().sum());
            }
            if pooled.len() > 1 {
                assert_fits(&format!("theta {theta} n {n}"), &pooled, &expected);
            }
        }
    }
}

#[test]
fn zipfian_over_a_hundred_million_has_the_right_head() {
    let n = 100_000_000;
    for theta in [0.9, 0.99, 1.5] {
        // Euler-Maclaurin for the sum, far more exact than the test needs.
        let head: f64 = (1..1000).map(|rank| f64::from(rank).powf(-theta)).sum();
        let tail = ((n as f64).powf(1.0 - theta) - 1000_f64.powf(1.0 - theta)) / (1.0 - theta)
            + (1000_f64.powf(-theta) + (n as f64).powf(-theta)) / 2.0;
        let zeta = head + tail;
        let zipfian = Zipfian::new(n, theta);
        let mut random = random("large");
        let mut counts = [0_u64; 11];
        for _ in 0..500_000 {
            counts[zipfian.draw(&mut random).min(10) as usize] += 1;
        }
        let mut expected: Vec<f64> =
            (1..=10).map(|rank| f64::from(rank).powf(-theta) / zeta).collect();
        expected.push(1.0 - expected.iter().sum::<f64>());
        assert_fits(&format!("theta {theta}"), &counts, &expected);
    }
}

#[test]
fn permutation_is_a_bijection_that_scatters() {
    for n in [1, 2, 3, 5, 8, 100, 1000, 65_537] {
        let permutation = Permutation::new(n);
        let mut seen = vec![false; n as usize];
        for index in 0..n {
            let at = permutation.apply(index) as usize;
            assert!(!seen[at], "n {n}: {at} twice");
            seen[at] = true;
        }
    }
    // The hundred hottest of a million fall into many different hundredths of the domain.
    let permutation = Permutation::new(1_000_000);
    let mut parts: Vec<u64> = (0..100).map(|rank| permutation.apply(rank) / 10_000).collect();
    parts.sort_unstable();
    parts.dedup();
    assert!(parts.len() > 45, "only {} hundredths", parts.len());
}

#[test]
fn hotspot_gives_the_hot_set_its_share() {
    let hotspot = Hotspot::new(1000, 10.0, 90.0);
    let mut random = random("hotspot");
    let mut counts = [0_u64; 2];
    let mut hottest = 0;
    for _ in 0..100_000 {
        let rank = hotspot.draw(&mut random);
        hottest = hottest.max(rank);
        counts[usize::from(rank >= 100)] += 1;
    }
    assert_fits("hotspot", &counts, &[0.9, 0.1]);
    assert!(hottest > 990);
}

#[test]
fn popular_items_are_neighbours_where_they_are_ordered_and_scattered_where_not() {
    let first_tenth = |distribution| {
        let mut random = random("ordered");
        let mut choice = Choice::new(distribution, 1000, 0.99, 0);
        (0..10_000).filter(|_| choice.draw(0, &mut random) < 100).count()
    };
    // The hundred most popular of a thousand take seven tenths; a hundred that are not chosen by
    // popularity take the share that they happen to hold.
    assert!(first_tenth(Distribution::ZipfianOrdered) > 6500);
    assert!(first_tenth(Distribution::Zipfian) < 4500);
}

#[test]
fn composite_has_zipfian_thousandths_and_uniform_rests() {
    let composite = Composite::new(10_000, 0.99);
    let mut random = random("composite");
    let mut prefixes = vec![0_u64; 1000];
    let mut rests = [0_u64; 10];
    for _ in 0..400_000 {
        let item = composite.draw(&mut random);
        prefixes[(item / 10) as usize] += 1;
        rests[(item % 10) as usize] += 1;
    }
    assert_fits("rest", &rests, &[0.1; 10]);
    prefixes.sort_unstable_by(|a, b| b.cmp(a));
    let shares = zipf_shares(1000, 0.99);
    assert_fits("prefix", &prefixes[..20], &renormalised(&shares[..20]));
}

fn renormalised(shares: &[f64]) -> Vec<f64> {
    let total: f64 = shares.iter().sum();
    shares.iter().map(|share| share / total).collect()
}

#[test]
fn latest_draws_the_newest_most() {
    let mut choice = Choice::new(Distribution::Latest, 1000, 0.99, 0);
    let mut random = random("latest");
    let mut ages = vec![0_u64; 1000];
    for _ in 0..200_000 {
        ages[(1499 - choice.draw(500, &mut random)) as usize] += 1;
    }
    assert_fits("latest", &ages, &zipf_shares(1000, 0.99));
}

#[test]
fn sequential_walks_and_wraps() {
    let mut choice = Choice::new(Distribution::Sequential, 4, 0.0, 2);
    let mut random = random("sequential");
    let walk: Vec<u64> = (0..6).map(|_| choice.draw(0, &mut random)).collect();
    assert_eq!(walk, [2, 3, 0, 1, 2, 3]);
}

#[test]
fn pareto_quantiles_invert_the_law_and_stop_at_the_maximum() {
    let sizes = GeneralizedPareto::VALUE_SIZES;
    for u in [0.0, 0.1, 0.5, 0.9, 0.999] {
        let x = sizes.quantile(u);
        assert!((sizes.cumulative(x) - u * sizes.cumulative(1024.0)).abs() < 1e-9);
    }
    assert!(sizes.quantile(1.0) <= 1024.0 + 1e-6);
    // Uncut the mean is sigma / (1 - k) = 34.46; the cut takes little of it.
    assert!((33.0..34.6).contains(&sizes.mean()), "{}", sizes.mean());
}

#[test]
fn mixgraph_hotness_follows_its_power_law() {
    let power = HotKeyPower::mixgraph();
    let mut random = random("power");
    let mut counts = [0_u64; 4];
    let bounds = [1_000, 100_000, 10_000_000];
    for _ in 0..100_000 {
        let rank = power.draw(&mut random);
        counts[bounds.partition_point(|&bound| bound <= rank)] += 1;
    }
    let shares: Vec<f64> =
        bounds.iter().map(|&bound| 0.002_312 * (bound as f64).powf(0.346_7)).collect();
    let expected = [shares[0], shares[1] - shares[0], shares[2] - shares[1], 1.0 - shares[2]];
    assert_fits("power", &counts, &expected);
}

#[test]
fn mixgraph_ranges_cover_the_domain_by_weight() {
    let ranges = PrefixRanges::mixgraph(3000);
    let mut random = random("ranges");
    let mut counts = vec![0_u64; 30];
    for _ in 0..100_000 {
        let item = ranges.draw_item(below(&mut random, 1 << 40), &mut random);
        counts[(item / 100) as usize] += 1;
    }
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let weights: Vec<f64> = (1..=30)
        .map(|i: i32| {
            14.18 * (-2.917 * f64::from(i)).exp() + 0.0164 * (-0.080_82 * f64::from(i)).exp()
        })
        .collect();
    assert_fits("ranges", &counts[..8], &renormalised(&weights[..8]));
}

#[test]
fn names_parse_and_print_alike() {
    let names = [
        "zipfian",
        "zipfian-ordered",
        "uniform",
        "latest",
        "hotspot:10:90",
        "composite",
        "sequential",
    ];
    for name in names {
        assert_eq!(name.parse::<Distribution>().unwrap().to_string(), name);
    }
    for name in ["", "zipf", "hotspot", "hotspot:10", "hotspot:0:90", "hotspot:10:101"] {
        assert!(name.parse::<Distribution>().is_err(), "{name:?}");
    }
    assert!((theta_from_alpha(100.0).unwrap() - 0.99).abs() < 1e-12);
    assert!(theta_from_alpha(0.5).is_err() && theta_from_alpha(f64::NAN).is_err());
}
