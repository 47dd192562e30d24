//! Quantiles, stalls and the operating system's counts.

use super::*;

#[test]
fn merged_quantiles_are_those_of_all() {
    let (mut low, mut high) = (Latencies::default(), Latencies::default());
    for micros in 1..=990_u64 {
        low.record(micros * 1000);
    }
    for _ in 0..10 {
        high.record(5_000_000_000);
    }
    low.merge(&high);
    assert_eq!(low.len(), 1000);
    assert!((low.quantile_us(0.5) - 500.0).abs() < 1.0);
    assert!((low.quantile_us(0.99) - 990.0).abs() < 1.0);
    assert!((low.quantile_us(0.999) / 5e6 - 1.0).abs() < 0.001);
    assert!((low.max_us() / 5e6 - 1.0).abs() < 0.001);
}

#[test]
fn stalls_are_intervals_below_a_tenth_of_the_median() {
    let rates = [100.0, 9.0, 110.0, 0.0, 95.0, 11.0];
    let intervals: Vec<Interval> =
        (1..).zip(rates).map(|(at, ops_per_s)| Interval { at: f64::from(at), ops_per_s }).collect();
    assert_eq!(stalls(&intervals), Stalls { intervals: 2, seconds: 2.0 });
    assert_eq!(stalls(&[]), Stalls::default());
}

#[test]
fn the_process_has_used_time_and_memory() {
    let before = ProcessCounts::now();
    let mut sum = 0_u64;
    while ProcessCounts::now().cpu_ns < before.cpu_ns + 20_000_000 {
        sum = std::hint::black_box(sum + 1);
    }
    let after = ProcessCounts::now();
    assert!(after.user_ticks + after.system_ticks > 0);
    assert!(peak_rss() > 100_000);
    assert!(available_memory().unwrap() > 1 << 20);
}

#[test]
fn disk_bytes_counts_blocks_in_subdirectories() {
    let dir = tempfile::tempdir().unwrap();
    let sub = dir.path().join("sub");
    std::fs::create_dir(&sub).unwrap();
    let mut file = tempfile::NamedTempFile::new_in(&sub).unwrap();
    std::io::Write::write_all(&mut file, &[7; 100_000]).unwrap();
    file.as_file().sync_all().unwrap();
    assert!((100_000..200_000).contains(&disk_bytes(dir.path())));
}
