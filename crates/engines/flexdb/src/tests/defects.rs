//! Defects of the paper's public code that a store can have, each as a test.
//!
//! The comment of a test names the action and the failure there. `docs/reliability/defects-flex.md`
//! lists the test of each defect.

use std::sync::Arc;

use codec::SeqNo;
use device::{FaultDevice, OperationKind};
use engine::{BlockingWrites, Change, Demand, Engine, Op, Operator, VALUE_BYTES_GUESSED, Wait};
use reads::BlockingReads;
use sync::Mutex;

use super::stores::{Bench, key};

fn seal(bench: &Bench) {
    let shared = &bench.store.shared;
    shared.seal(&Arc::clone(&shared.open_state().expect("it is open").active));
}

/// The journal's writes above what is persisted, once more and in their order.
fn replay(bench: &Bench, writes: &[(u64, &[u8])]) {
    for (number, value) in
        writes.iter().filter(|(number, _)| *number > bench.store.persisted().get())
    {
        let put = [Op::Put { key: b"key", value }];
        bench.store.write(&put, SeqNo::new(*number)).expect("taken");
    }
}

/// There, of two memtables' logs the older one was replayed last.
#[test]
fn d5_of_two_memtables_the_younger_ones_value_is_found_after_a_kill() {
    for commits in 0..3 {
        let bench = Bench::new();
        let old = bench.put(b"key", b"old").get();
        seal(&bench);
        let new = bench.put(b"key", b"new").get();
        match commits {
            0 => {}
            // The older one alone, or both.
            1 => _ = bench.crank.run_all(),
            _ => bench.flush(),
        }
        let device = Arc::clone(&bench.device);
        drop(bench);
        let bench = Bench::on(device).expect("opens");
        replay(&bench, &[(old, b"old"), (new, b"new")]);
        assert_eq!(bench.get(b"key"), Some(b"new".to_vec()), "{commits} commits");
        bench.flush();
        assert_eq!(bench.get(b"key"), Some(b"new".to_vec()), "{commits} commits");
    }
}

/// There, a flush that was requested while another one ran was forgotten when that one ended.
#[test]
fn d6_a_flush_beside_another_one_has_what_was_written_before_it() {
    let device = FaultDevice::new(device::memory());
    let bench = Bench::on(device.clone()).expect("opens");
    bench.put(b"first", b"value");
    let other: Arc<Mutex<Option<_>>> = Arc::default();
    std::thread::scope(|scope| {
        let (store, sequence, other) = (&bench.store, &bench.sequence, &other);
        let (begun, is_begun) = std::sync::mpsc::channel::<()>();
        // While the first flush syncs another thread writes, and asks for one.
        scope.spawn(move || {
            is_begun.recv().expect("the first flush syncs");
            let ticket = sequence.begin();
            let put = [Op::Put { key: b"beside", value: b"value" }];
            store.write(&put, ticket.seqno()).expect("taken");
            drop(ticket);
            *other.lock() = Some(store.flush());
        });
        device.interpose(OperationKind::Sync, move || begun.send(()).expect("somebody waits"));
        store.flush().expect("a device");
    });
    assert_eq!(other.lock().take(), Some(Ok(())));
    drop(bench);
    let bench = Bench::on(device).expect("opens");
    assert_eq!(bench.get(b"first"), Some(b"value".to_vec()));
    assert_eq!(bench.get(b"beside"), Some(b"value".to_vec()));
}

/// There, an interval whose first pair was deleted lost its tag. At the next opening many intervals
/// became one, which did not fit its buffer.
#[test]
fn d8_what_deletes_leave_of_intervals_is_found_again() {
    let mut bench = Bench::new();
    for number in 0..4_000 {
        bench.put(&key(number), &[number as u8; 8]);
    }
    bench.flush();
    (0..4_000).filter(|number| number % 8 != 7).for_each(|number| _ = bench.delete(&key(number)));
    for _ in 0..3 {
        bench.flush();
        let left = (0..4_000).filter(|number| number % 8 == 7);
        let expected: Vec<_> = left.map(|number| (key(number), vec![number as u8; 8])).collect();
        assert!(bench.pairs() == expected);
        bench = bench.reopen();
        assert!(bench.pairs() == expected);
        assert!(bench.intervals() > 40, "{} intervals", bench.intervals());
    }
}

struct More;

impl Operator for More {
    fn update(&mut self, old: Option<&[u8]>) -> Change {
        Change::Put([old.unwrap_or_default(), b"+"].concat())
    }
}

/// There, the value of a read-modify-write was not seen, and not counted: its memtable grew without
/// a limit.
#[test]
fn d9_a_read_modify_write_behind_a_flush_is_seen_and_counted() {
    let bench = Bench::new();
    bench.put(b"key", b"first");
    bench.flush();
    let rmw = |key: &[u8]| {
        bench
            .store
            .reserve(&Demand::Update { key, bytes_max: VALUE_BYTES_GUESSED }, Wait::Yes)
            .map(drop)
            .expect("there is room");
        let ticket = bench.sequence.begin();
        bench.store.rmw(key, &mut More, ticket.seqno()).expect("taken");
    };
    let before = bench.detail("memtable_bytes");
    rmw(b"key");
    assert_eq!(bench.get(b"key"), Some(b"first+".to_vec()));
    assert!(bench.detail("memtable_bytes") > before);
    (0..2000).for_each(|number| rmw(&key(number)));
    assert!(bench.detail("commits") > 1, "no memtable was full");
    rmw(b"key");
    let expected = b"first++".to_vec();
    assert_eq!(bench.get(b"key"), Some(expected.clone()));
    bench.flush();
    assert_eq!(bench.reopen().get(b"key"), Some(expected));
}
