//! The invariants T1 and T2 of the results of writes.

use std::time::Duration;

use client::{Pair, RequestId, WINDOW};
use thermocline::{Db, Durability, EngineKind, Expiring, Keyspace, KeyspaceOptions};

use super::*;
use crate::results::{Executed, Results, data_key};

/// A database of a range, on a device that stays.
struct Range {
    device: Arc<dyn Device>,
    db: Db,
    keyspace: Keyspace,
    results: Results,
}

impl Range {
    fn open(device: Arc<dyn Device>, clients_before: u64) -> Self {
        let options = thermocline::Options {
            memory_bytes: 32 << 20,
            background_threads: 1,
            ..thermocline::Options::default()
        };
        let db = Db::open_on(Arc::clone(&device), "range", options).expect("memory takes it");
        let db = db.durability(Durability::Buffered);
        let engine = KeyspaceOptions {
            engine: EngineKind::Lsm,
            expiring: true,
            ..KeyspaceOptions::default()
        };
        let keyspace = db.keyspace("range", engine).expect("memory takes it").expiring().raw();
        let results = Results::open(&db, &keyspace, clients_before, &Environment::real());
        Self { device, db, keyspace, results: results.expect("memory takes it") }
    }

    /// Ends it, and opens it as its next owner.
    fn next_owner(self) -> Self {
        self.db.close().expect("memory takes it");
        Self::open(self.device, 1)
    }

    fn write(&self, id: RequestId, is_repeated: bool, from: Option<u64>, to: u64) -> Executed {
        let expects: Vec<Pair> = from.map(|from| pair(Some(from))).into_iter().collect();
        let written = self.results.write((id, is_repeated), &expects, &[pair(Some(to))], || true);
        written.expect("memory takes it")
    }

    fn value(&self) -> Option<Vec<u8>> {
        self.keyspace.get(&data_key(b"key")).expect("memory takes it")
    }
}

fn stored(number: u64) -> Vec<u8> {
    Expiring { value: &number.to_le_bytes(), expiry_ms: None }.to_stored()
}

fn pair(number: Option<u64>) -> Pair {
    Pair { key: b"key".to_vec(), value: number.map(stored) }
}

fn id(client: u64, number: u64) -> RequestId {
    RequestId { client, number }
}

/// T1: a repeated write is executed once, also by the next owner.
#[test]
fn t1_a_repeated_write_is_executed_once() {
    let range = Range::open(device::memory(), 1);
    assert_eq!(range.write(id(5, 1), false, None, 1), Executed::Written);
    assert_eq!(range.write(id(6, 1), false, Some(1), 2), Executed::Written);
    // The first write again: another one came after it.
    assert_eq!(range.write(id(5, 1), true, None, 1), Executed::Written);
    assert_eq!(range.value(), Some(stored(2)));
    let range = range.next_owner();
    assert_eq!(range.write(id(5, 1), true, None, 1), Executed::Written);
    assert_eq!(range.write(id(6, 1), true, Some(1), 2), Executed::Written);
    assert_eq!(range.value(), Some(stored(2)));
    assert_eq!(range.write(id(5, 2), false, Some(2), 3), Executed::Written);
    assert_eq!(range.value(), Some(stored(3)));
}

/// T1: after a repetition has found another value, an earlier attempt is not executed.
#[test]
fn t1_a_write_that_was_refused_stays_refused() {
    let range = Range::open(device::memory(), 1);
    assert_eq!(range.write(id(5, 1), false, None, 1), Executed::Written);
    // A first attempt leaves nothing behind.
    assert_eq!(range.write(id(6, 1), false, Some(9), 2), Executed::Differs);
    assert_eq!(range.write(id(6, 2), true, Some(9), 2), Executed::Differs);
    assert_eq!(range.write(id(5, 2), false, None, 9), Executed::Written);
    // The attempt before the repetition comes late.
    assert_eq!(range.write(id(6, 2), false, Some(9), 2), Executed::Differs);
    assert_eq!(range.value(), Some(stored(9)));
}

/// T2: a write whose result may be gone is refused.
#[test]
fn t2_a_write_without_its_result_is_refused() {
    let range = Range::open(device::memory(), 5);
    // Clients from before the range.
    assert_eq!(range.write(id(4, 1), false, None, 1), Executed::Forgotten);
    for number in 1..=WINDOW + 1 {
        assert_eq!(range.write(id(5, number), false, None, number), Executed::Written);
    }
    // The first number has lost its slot to a later one.
    assert_eq!(range.write(id(5, 1), true, None, 1), Executed::Forgotten);
    assert_eq!(range.write(id(5, 2), true, None, 2), Executed::Written);
    assert_eq!(range.write(id(7, 1), false, None, 7), Executed::Written);
    let idle = Duration::from_secs(3600);
    assert_eq!(range.results.forget(idle).expect("memory takes it"), 0);
    assert_eq!(range.results.forget(Duration::ZERO).expect("memory takes it"), 2);
    for client in [5, 6, 7] {
        assert_eq!(range.write(id(client, 9), true, None, 9), Executed::Forgotten);
    }
    let range = range.next_owner();
    assert_eq!(range.write(id(7, 1), true, None, 9), Executed::Forgotten);
    assert_eq!(range.value(), Some(stored(7)));
    assert_eq!(range.write(id(8, 1), false, None, 8), Executed::Written);
}

/// T1: a repeated removal of all keys removes nothing that came after it.
#[test]
fn t1_a_repeated_clear_is_executed_once() {
    let range = Range::open(device::memory(), 1);
    assert_eq!(range.write(id(5, 1), false, None, 1), Executed::Written);
    let clear = |range: &Range, id| range.results.clear(id).expect("memory takes it");
    assert_eq!(clear(&range, id(6, 1)), Executed::Written);
    assert_eq!(range.value(), None);
    assert_eq!(range.write(id(5, 2), false, None, 2), Executed::Written);
    assert_eq!(clear(&range, id(6, 1)), Executed::Written);
    assert_eq!(range.value(), Some(stored(2)));
    // Results are no data.
    assert_eq!(range.write(id(5, 1), true, None, 1), Executed::Written);
    assert_eq!(range.value(), Some(stored(2)));
}
