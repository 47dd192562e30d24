//! What the store tells about itself: sizes of a store that was only opened, and of one that runs what
//! it did.

use engine::{Engine, Stats};

use super::stores::{key, value};
use super::two_logs::{KEYS, cold_store, push_out, small_cold};

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
    for name in ["look_ups", "appended_bytes", "compactions", "write_amplification_permille"] {
        assert!(running.running.contains(&name), "{name}");
    }
    let opened = bench.reopen(small_cold()).store.stats();
    let counts = ["look_ups", "look_up_reads", "appended_bytes", "log_written_bytes"];
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
    let disk = ["log_disk_bytes", "cold_log_disk_bytes", "chunk_log_disk_bytes"];
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
    assert!(more("look_ups") > 50, "{}", more("look_ups"));
    assert!(more("look_up_reads") >= more("look_ups"));
    assert!(more("look_up_reads") <= bench.device.accounting().counts().read_ops - reads);
    assert_eq!(more("look_up_read_bytes") % 4096, 0);
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
