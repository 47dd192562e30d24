//! Many threads at the same time: numbers in order, one sync for many.
//! No thread gets its acknowledgement before time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use codec::SeqNo;
use environment::Environment;
use thermocline_journal::{Durability, Journal, Options, read};

const THREADS: u64 = 8;
const RECORDS: u64 = 300;

fn run(options: Options, durability: impl Fn(u64) -> Durability + Send + Copy + 'static) {
    let device = device::memory();
    let environment = Environment::real();
    let opened = Journal::open(
        device.clone(),
        "journal",
        options,
        &environment,
        SeqNo::ZERO,
        &mut |_, _| Ok(()),
    );
    let journal = Arc::new(opened.expect("an empty directory").0);
    let next = Arc::new(AtomicU64::new(1));
    let threads: Vec<_> = (0..THREADS)
        .map(|thread| {
            let (journal, next) = (journal.clone(), next.clone());
            let work = move || {
                for round in 0..RECORDS {
                    let number = || SeqNo::new(next.fetch_add(1, Ordering::Relaxed));
                    let write = |seqno: SeqNo, bytes: &mut Vec<u8>| {
                        bytes.extend_from_slice(&seqno.get().to_le_bytes());
                    };
                    let seqno = journal.append(number, write).expect("memory does not fail");
                    let durability = durability(thread + round);
                    journal.wait(seqno, durability).expect("memory does not fail");
                    match durability {
                        Durability::Buffered => assert!(journal.last() >= seqno),
                        Durability::Flushed => assert!(journal.flushed() >= seqno),
                        Durability::Synced => assert!(journal.synced() >= seqno),
                    }
                    if round % 100 == 99 {
                        journal.trim(SeqNo::ZERO).expect("memory does not fail");
                    }
                }
            };
            environment.spawn("appender", work).expect("there are few threads")
        })
        .collect();
    for thread in threads {
        thread.join().expect("no thread panics");
    }
    journal.close().expect("memory does not fail");
    let mut expected = 1;
    read(&*device, "journal", SeqNo::ZERO, &mut |seqno, payload| {
        assert_eq!(seqno.get(), expected);
        assert_eq!(payload, expected.to_le_bytes());
        expected += 1;
        Ok(())
    })
    .expect("the journal was closed");
    assert_eq!(expected, THREADS * RECORDS + 1);
    let stats = journal.stats();
    assert_eq!(stats.records, THREADS * RECORDS);
    assert_eq!(stats.synced_records, stats.records);
    // A close syncs twice.
    assert!(stats.syncs <= stats.records + 2, "{stats:?}");
}

#[test]
fn all_wait_for_a_sync() {
    run(Options::default(), |_| Durability::Synced);
}

#[test]
fn durabilities_mix_over_small_segments() {
    let options = Options { segment_bytes: 2048, buffer_bytes: 200, ..Options::default() };
    run(options, |turn| match turn % 3 {
        0 => Durability::Buffered,
        1 => Durability::Flushed,
        _ => Durability::Synced,
    });
}
