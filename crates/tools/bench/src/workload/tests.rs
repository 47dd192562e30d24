//! Proportions, determinism, names, and traces good and bad.

use std::collections::HashMap;
use std::sync::Arc;

use super::*;
use crate::distribution::Distribution;

fn options(workload: &str, keys: u64) -> StreamOptions {
    let workload: Workload = workload.parse().unwrap();
    StreamOptions {
        distribution: workload.distribution(),
        workload,
        trace: None,
        keys,
        theta: 0.99,
        scan_length: None,
        seed: 42,
    }
}

fn place(thread: usize, threads: usize) -> Place {
    Place { thread, threads }
}

const NAMES: [&str; 24] = [
    "ycsb-a",
    "ycsb-b",
    "ycsb-c",
    "ycsb-d",
    "ycsb-e",
    "ycsb-f",
    "ycsb-w",
    "mixgraph-all",
    "mixgraph-all-points",
    "mixgraph-prefix",
    "mixgraph-prefix-points",
    "hashkv-p0",
    "hashkv-p1",
    "hashkv-p2",
    "hashkv-p3",
    "r100",
    "rw50",
    "sw50",
    "w100",
    "s100",
    "flexdb-put",
    "flexdb-get",
    "flexdb-scan",
    "load",
];

#[test]
fn names_parse_and_print_alike() {
    for name in NAMES {
        assert_eq!(name.parse::<Workload>().unwrap().to_string(), name);
    }
    assert_eq!("trace:a b".parse::<Workload>().unwrap().to_string(), "trace:a b");
    for name in ["", "ycsb", "ycsb-", "ycsb-g", "ycsb-aa", "hashkv-p4", "trace:", "YCSB-A"] {
        assert!(name.parse::<Workload>().is_err(), "{name:?}");
    }
}

#[test]
fn mixes_sum_to_a_hundred() {
    for name in NAMES {
        let Mix { read, update, insert, rmw, scan } = name.parse::<Workload>().unwrap().mix();
        let sum = read + update + insert + rmw + scan;
        assert!(sum == 100 || (name == "load" && sum == 0), "{name}: {sum}");
    }
}

#[test]
fn operations_come_in_the_proportions_of_the_mix() {
    const DRAWS: usize = 100_000;
    for name in NAMES {
        let options = options(name, 1000);
        if options.workload.mix() == Mix::default() {
            continue;
        }
        let mut counts = [0_u32; 4];
        for operation in Stream::new(&options, place(0, 1)).take(DRAWS) {
            match operation {
                Operation::Read(_) => counts[0] += 1,
                Operation::Put(..) => counts[1] += 1,
                Operation::Rmw(..) => counts[2] += 1,
                Operation::Scan(..) => counts[3] += 1,
                Operation::Delete(_) => panic!("no mix deletes"),
            }
        }
        let Mix { read, update, insert, rmw, scan } = options.workload.mix();
        for (count, percent) in counts.into_iter().zip([read, update + insert, rmw, scan]) {
            // Five standard deviations of a binomial count.
            let p = f64::from(percent) / 100.0;
            let room = 5.0 * (DRAWS as f64 * p * (1.0 - p)).sqrt();
            let off = (f64::from(count) - DRAWS as f64 * p).abs();
            assert!(off <= room, "{name}: {counts:?}");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_stream_and_another_does_not() {
    for name in NAMES {
        let options = options(name, 1000);
        if options.workload.mix() == Mix::default() {
            continue;
        }
        let take = |options: &StreamOptions, thread| -> Vec<Operation> {
            Stream::new(options, place(thread, 3)).take(1000).collect()
        };
        assert_eq!(take(&options, 1), take(&options, 1), "{name}");
        assert_ne!(take(&options, 1), take(&options, 2), "{name}");
        let other = StreamOptions { seed: 43, ..options.clone() };
        assert_ne!(take(&options, 1), take(&other, 1), "{name}");
    }
}

/// Should this change, old seeds no longer replay.
#[test]
fn the_stream_of_seed_42_stays() {
    let stream = Stream::new(&options("ycsb-e", 100), place(0, 2)).take(6);
    let text: Vec<String> = stream.map(|operation| format!("{operation:?}")).collect();
    let want = "Scan(7, 63) Scan(66, 74) Put(100, None) Scan(13, 34) Scan(7, 74) Scan(10, 15)";
    assert_eq!(text.join(" "), want);
}

#[test]
fn threads_insert_distinct_keys_and_read_only_what_they_know() {
    let options = options("ycsb-d", 1000);
    let mut all = HashMap::new();
    for thread in 0..4 {
        let mut known = 0;
        for operation in Stream::new(&options, place(thread, 4)).take(20_000) {
            match operation {
                Operation::Put(number, _) => {
                    assert_eq!(number, 1000 + known * 4 + thread as u64);
                    known += 1;
                    assert!(all.insert(number, thread).is_none());
                }
                Operation::Read(number) if number >= 1000 => {
                    assert_eq!(all.get(&number), Some(&thread), "reads another's insert");
                }
                _ => {}
            }
        }
        assert!(known > 800);
    }
}

#[test]
fn scans_have_the_lengths_asked_for() {
    let lengths = |options: &StreamOptions| -> Vec<u32> {
        let stream = Stream::new(options, place(0, 1)).take(20_000);
        stream
            .filter_map(|op| if let Operation::Scan(_, n) = op { Some(n) } else { None })
            .collect()
    };
    let ycsb = lengths(&options("ycsb-e", 100));
    assert_eq!((ycsb.iter().min(), ycsb.iter().max()), (Some(&1), Some(&100)));
    assert!(lengths(&options("sw50", 100)).iter().all(|&pairs| pairs == 10));
    for name in ["s100", "flexdb-scan"] {
        let all = lengths(&options(name, 100));
        assert!(all.len() == 20_000 && all.iter().all(|&pairs| pairs == 50), "{name}");
    }
    let fixed = StreamOptions { scan_length: Some(50), ..options("ycsb-e", 100) };
    assert!(lengths(&fixed).iter().all(|&pairs| pairs == 50));
    assert!(lengths(&options("mixgraph-all", 100)).iter().all(|&pairs| pairs <= 10_000));
}

#[test]
fn sequential_threads_start_apart() {
    let sequential =
        StreamOptions { distribution: Distribution::Sequential, ..options("r100", 100) };
    let first = Stream::new(&sequential, place(1, 2)).next();
    assert_eq!(first, Some(Operation::Read(50)));
}

#[test]
fn sequential_puts_of_all_threads_write_each_key_once() {
    let sequential =
        StreamOptions { distribution: Distribution::Sequential, ..options("flexdb-put", 100) };
    let mut written = [0; 100];
    for thread in 0..4 {
        for operation in Stream::new(&sequential, place(thread, 4)).take(25) {
            let Operation::Put(number, None) = operation else { panic!("{operation:?}") };
            assert_eq!(number / 25, thread as u64, "a range of its own");
            written[number as usize] += 1;
        }
    }
    assert!(written.iter().all(|&times| times == 1));
}

#[test]
fn loads_are_scattered_unless_order_is_what_is_wanted() {
    let scattered = |name: &str, distribution| {
        let workload: Workload = name.parse().unwrap();
        workload.load_is_scattered(distribution)
    };
    assert!(scattered("ycsb-a", Distribution::Composite));
    assert!(scattered("w100", Distribution::ZipfianOrdered));
    assert!(!scattered("w100", Distribution::Zipfian), "hashed keys are in no order anyhow");
    assert!(!scattered("r100", Distribution::Sequential));
    for distribution in [Distribution::Zipfian, Distribution::Composite, Distribution::Sequential] {
        assert!(!scattered("flexdb-get", distribution), "aged by updates instead");
    }
}

const TRACE: &str = "# a comment\n\nput a 10\nget a 10\nget b%20c 33\nget gone 0\nrmw d\n\
                     del e\nscan a 5\nscan z\nput b%20c\n";

#[test]
fn a_trace_gives_its_operations_and_what_it_presumes() {
    let trace = Trace::read(TRACE.as_bytes()).unwrap();
    let keys: Vec<&[u8]> = trace.keys().iter().map(|key| &**key).collect();
    assert_eq!(keys, [&b"a"[..], b"b c", b"gone", b"d", b"e", b"z"]);
    assert_eq!(trace.loads(), [(1, Some(33)), (3, None), (4, None)]);
    assert!(trace.scans());
    let options = StreamOptions { trace: Some(Arc::new(trace)), ..options("trace:x", 0) };
    let all: Vec<Operation> = Stream::new(&options, place(0, 1)).collect();
    assert_eq!(all.len(), 9);
    assert_eq!(all[0], Operation::Put(0, Some(10)));
    assert_eq!(all[6], Operation::Scan(0, 5));
    let dealt: usize = (0..3).map(|t| Stream::new(&options, place(t, 3)).count()).sum();
    assert_eq!(dealt, 9);
}

#[test]
fn bad_trace_lines_are_named() {
    for (text, want) in [
        ("get a\nfetch b", "trace line 2: unknown verb \"fetch\""),
        ("get", "trace line 1: no key"),
        ("put a ten", "trace line 1: \"ten\" is no number"),
        ("put a -1", "trace line 1: \"-1\" is no number"),
        ("put a 99999999999", "trace line 1: \"99999999999\" is no number"),
        ("get a%2", "trace line 1: the key has a %"),
        ("get a%zz", "trace line 1: the key has a %"),
        ("put a 1 2", "trace line 1: more than"),
        ("# nothing\n", "no operation"),
        ("", "no operation"),
    ] {
        let error = Trace::read(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(want), "{text:?}: {error}");
    }
}

#[test]
fn trace_keys_survive_writing_and_reading() {
    let key: Vec<u8> = (0..=255).collect();
    let mut line = b"get ".to_vec();
    write_trace_key(&key, &mut line).unwrap();
    let trace = Trace::read(&line[..]).unwrap();
    assert_eq!(*trace.keys()[0], *key);
}
