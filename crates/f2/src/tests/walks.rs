//! Walks beside truncations: what moves behind a walk's back, between two of its reads, is met.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use device::{Device, FaultDevice, OperationKind};
use engine::Engine;

use super::stores::{Bench, fill, key, two_of_a_chain, value};
use super::two_logs::small_cold;
use crate::Options;

/// Of two keys of one chain that is on disk, the older is at the chain's end. A walk reads the newer one's
/// record; before it has it, `meanwhile` is done, and the log truncated beyond both. What the walk has met
/// of the older key.
fn walk_past(options: Options, meanwhile: fn(&Bench, &[u8])) -> Vec<Vec<u8>> {
    let device = FaultDevice::new(device::memory());
    let bench = Bench::open_on(Arc::clone(&device) as Arc<dyn Device>, options);
    let bench = Arc::new(bench);
    let (older, newer) = two_of_a_chain(&bench);
    let (older, newer) = (key(older), key(newer));
    bench.put(&older, &value(1, 0, 8));
    bench.put(&newer, &value(2, 0, 8));
    let log = Arc::clone(&bench.store.shared.log);
    let tail = log.tail();
    fill(&bench, &|| log.head() > tail);
    assert!(log.begin() < tail, "both are on disk still");
    let was_truncated = Arc::new(AtomicBool::new(false));
    let beside = (Arc::clone(&bench), older.clone(), Arc::clone(&was_truncated));
    device.interpose(OperationKind::Read, move || {
        let (bench, older, was_truncated) = beside;
        assert!(bench.store.shared.log.begin() < tail, "nothing has moved yet");
        meanwhile(&bench, &older);
        fill(&bench, &|| bench.store.shared.log.begin() > tail);
        was_truncated.store(true, SeqCst);
    });
    let mut met = Vec::new();
    let walked = bench.store.walk(Some(&older), &mut |key, value| {
        if key == older {
            met.push(value.to_vec());
        }
        ControlFlow::Continue(())
    });
    walked.expect("the walk is made");
    assert!(was_truncated.load(SeqCst), "the walk has read what is on disk");
    met
}

/// Compaction leaves the older record behind, because a newer one of its key stands above what the walk
/// has searched.
#[test]
fn a_walk_meets_what_was_left_behind_for_a_newer_record() {
    let rewrite = |bench: &Bench, older: &[u8]| bench.put(older, &value(1, 1, 8));
    let options = Options { read_cache_bytes: Some(0), ..small_cold() };
    assert_eq!(walk_past(options, rewrite), [value(1, 1, 8)]);
}

/// Compaction copies the older record to the tail of the same log, behind the walk.
#[test]
fn a_walk_over_a_single_log_meets_what_was_copied_to_its_tail() {
    let options = Options { read_cache_bytes: Some(0), single_log: true, ..small_cold() };
    assert_eq!(walk_past(options, |_, _| ()), [value(1, 0, 8)]);
}
