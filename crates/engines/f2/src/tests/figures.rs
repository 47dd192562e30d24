//! Figures of a store: its sizes if it was only opened, and the work that it did while it runs.

use std::sync::Arc;

use device::{Device, FaultDevice, Mode, OperationKind};
use engine::{Engine, Stats};
use sync::locks::Mutex;

use super::interleaving::at_each;
use super::stores::{Bench, key, value};
use super::two_logs::{KEYS, cold_store, push_out, small_cold, small_hot};

fn figure(stats: &Stats, name: &str) -> u64 {
    let found = stats.detail.iter().find(|(known, _)| *known == name);
    found.unwrap_or_else(|| panic!("there is no {name}")).1
}

#[test]
fn a_store_that_was_only_opened_tells_sizes_and_counts_nothing() {
    let bench = cold_store(small_cold());
    let running = bench.store.stats();
    for name in running.running {
        figure(&running, name);
    }
    for name in ["lookups", "appended_bytes", "compactions", "write_amplification_permille"] {
        assert!(running.running.contains(&name), "{name}");
    }
    let opened = bench.reopen(small_cold()).store.stats();
    let counts = ["lookups", "lookup_reads", "appended_bytes", "log_written_bytes"];
    for name in counts {
        assert_eq!(figure(&opened, name), 0, "{name}");
    }
    let sizes = [
        "log_bytes",
        "log_disk_bytes",
        "cold_log_bytes",
        "cold_log_disk_bytes",
        "chunk_log_bytes",
        "chunk_log_disk_bytes",
        "cold_index_directory_bytes",
        "cold_index_entries",
        "index_bytes",
        "memory_per_key_millibytes",
        "memory_per_cold_key_millibytes",
    ];
    for name in sizes {
        assert!(figure(&opened, name) > 0, "{name}");
        assert!(!opened.running.contains(&name), "{name}");
    }
    let disk = [
        "log_disk_bytes",
        "cold_log_disk_bytes",
        "chunk_log_disk_bytes",
        "cold_index_directory_disk_bytes",
        "ballast_bytes",
    ];
    let disk: u64 = disk.into_iter().map(|name| figure(&opened, name)).sum();
    assert_eq!(opened.disk_bytes, disk + engine::Superblock::FILE_BYTES);
    assert_eq!(
        figure(&opened, "memory_per_cold_key_millibytes"),
        figure(&opened, "cold_index_directory_bytes") * 1000
            / figure(&opened, "cold_index_entries")
    );
}

#[test]
fn reads_and_writes_are_told_with_what_they_cost() {
    let bench = cold_store(small_cold());
    let before = bench.store.stats();
    let reads = bench.device.accounting().counts().read_ops;
    // Neither the oldest, which a round may just have copied, nor the youngest.
    for number in 500..600 {
        assert_eq!(bench.get(&key(number)), Some(value(number, 0, 8)));
    }
    let after = bench.store.stats();
    let more = |name| figure(&after, name) - figure(&before, name);
    assert!(more("lookups") > 50, "{}", more("lookups"));
    assert!(more("lookup_reads") >= more("lookups"));
    assert!(more("lookup_reads") <= bench.device.accounting().counts().read_ops - reads);
    assert_eq!(more("lookup_read_bytes") % 4096, 0);
    assert!(more("appended_bytes") < 4096, "a round that ends fills its sector, no more");
    for number in 0..KEYS {
        bench.put(&key(number), &value(number, 1, 8));
    }
    push_out(&bench);
    let last = bench.store.stats();
    assert!(figure(&last, "appended_bytes") >= figure(&after, "appended_bytes") + KEYS * 96);
    let written =
        ["log", "cold_log", "chunk_log"].map(|log| figure(&last, &format!("{log}_written_bytes")));
    assert!(written.iter().all(|bytes| *bytes > 0), "{written:?}");
    let told = figure(&last, "write_amplification_permille");
    assert_eq!(told, written.iter().sum::<u64>() * 1000 / figure(&last, "appended_bytes"));
    assert!(told > 1000, "what is cold was written twice: {told}");
}

#[test]
fn every_file_counts() {
    let bench = cold_store(small_cold());
    bench.store.flush().expect("flushes");
    bench.store.close().expect("closes");
    let device = Arc::clone(&bench.device);
    let bytes = || {
        let files = device.list("").expect("lists").into_iter();
        let bytes = |name: &str| device.open(name, Mode::Read).and_then(|file| file.len());
        files.map(|file| bytes(&file.name).expect("a length")).sum::<u64>()
    };
    let opened = || Bench::open_by_hand(Arc::clone(&device), small_cold(), 1);
    let directory = |stats: &Stats| figure(stats, "cold_index_directory_disk_bytes");
    let before = opened();
    assert_eq!(before.store.stats().disk_bytes, bytes());
    let cold = before.store.shared.cold.as_ref().expect("two logs");
    cold.index.snapshot_always();
    before.put(&key(1), &value(1, 1, 8));
    before.store.flush().expect("flushes");
    let stats = before.store.stats();
    assert_eq!(stats.disk_bytes, bytes());
    assert!(directory(&stats) >= 8 * figure(&stats, "cold_index_chunks"));
    before.store.close().expect("closes");
    let after = opened().store.stats();
    assert_eq!((after.disk_bytes, directory(&after)), (bytes(), directory(&stats)));
}

/// Bytes of the rounds under way of the three logs, and how much of them is done.
type Rounds = [(u64, u64); 3];

/// Returns the figures of these rounds that the store reports.
fn rounds(bench: &Bench) -> Rounds {
    let stats = bench.store.stats();
    ["compaction", "cold_compaction", "chunk_compaction"].map(|round| {
        let name = |what: &str| format!("{round}_round_{what}");
        (figure(&stats, &name("bytes")), figure(&stats, &name("done_permille")))
    })
}

/// The progress of the rounds of all three logs is visible at the reads that the rounds themselves
/// do.
#[test]
fn rounds_tell_how_far_they_came() {
    let seen: Arc<Mutex<Vec<Rounds>>> = Arc::default();
    // A cold log with a bound is copied all the time, and every chunk is written again because of
    // that: so no chunk is left to be copied. Without a bound there are some.
    for options in [small_cold(), small_hot()] {
        let device = FaultDevice::new(device::memory());
        let beneath = Arc::clone(&device) as Arc<dyn Device>;
        let bench = Arc::new(Bench::open_by_hand(beneath, options, 1));
        assert_eq!(rounds(&bench), [(0, 0); 3]);
        let (beside, notes) = (Arc::downgrade(&bench), Arc::clone(&seen));
        let action: Arc<dyn Fn() + Send + Sync> = Arc::new(move || {
            if let Some(bench) = beside.upgrade() {
                notes.lock().push(rounds(&bench));
            }
        });
        at_each(&device, &[OperationKind::Read], &action);
        for version in 0..8 {
            for number in 0..if version == 0 { 4 * KEYS } else { KEYS } {
                bench.put(&key(number), &value(number, version, 8));
                if number % 20 == 0 {
                    bench.advance();
                }
            }
        }
        assert_eq!(rounds(&bench), [(0, 0); 3], "all have ended");
    }
    let seen = seen.lock();
    for (round, name) in ["hot", "cold", "chunk"].into_iter().enumerate() {
        let of_round = || seen.iter().map(|all| all[round]).filter(|(bytes, _)| *bytes > 0);
        println!("{name} log: {} looks", of_round().count());
        assert!(of_round().count() > 10, "the {name} log is compacted");
        assert!(of_round().all(|(_, done)| done <= 1000), "{name}");
        assert!(of_round().any(|(_, done)| done > 0), "the {name} log's rounds came somewhere");
    }
}
