//! Merges of memtables that drop a put that the journal has, together with a tombstone above it
//! that the journal does not have yet.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use codec::SeqNo;
use engine::{Barrier, Engine, Error, Op, Reservation, Result, Ticket};

use super::dranges::install;
use super::stores::{Bench, small};
use crate::Options;

/// A journal that can make writes durable up to a number, and fails for all above it.
#[derive(Debug, Default)]
struct Journal {
    end: AtomicU64,
}

impl Barrier for Journal {
    fn reach(&self, seqno: SeqNo) -> Result<SeqNo> {
        match seqno.get() <= self.end.load(SeqCst) {
            true => Ok(seqno),
            false => Err(Error::of_journal(Error::Closed)),
        }
    }
    fn is_journaled(&self) -> bool {
        true
    }
}

/// A store with the Dranges of the keys below `z` and of the others, and its journal.
fn open() -> (Bench, Arc<Journal>) {
    let journal = Arc::new(Journal::default());
    let options = Options { slots_max: 4, merging: true, ..small() };
    let opened = Bench::with_options(device::memory(), journal.clone(), 1 << 20, options);
    let bench = opened.expect("an empty device opens");
    install(&bench, &[(b"", 1), (b"z", 1)]);
    // The memtable of the Drange from before is empty.
    bench.crank.run_all();
    assert!(bench.store.shared.state.load().sealed.is_empty());
    (bench, journal)
}

/// Puts `k`, and seals its memtable. A writer that still has the old state deletes `k`: the number
/// of the delete is above the floor of the successor. The journal ends at the put. Then the
/// memtable is merged. Returns the ticket of the delete, and the memtable's id.
fn put_and_delete<'a>(bench: &'a Bench, journal: &Journal) -> (Ticket<'a>, u64) {
    let shared = &bench.store.shared;
    let put = bench.put(b"k", b"1");
    journal.end.store(put.get(), SeqCst);
    let state = shared.state.load_full();
    let (old, _) = state.active(b"k", SeqNo::MAX).expect("it is open");
    let new = old.successor(bench.sequence.visible());
    assert_eq!(new.floor(), put);
    shared.state.store(Arc::new(state.with_actives(&[old.id()], &[new])));
    // As a flush does, so that the other Drange holds nothing back.
    for active in &shared.state.load().actives {
        active.lift_if_empty(|| bench.sequence.visible());
    }
    let delete = bench.sequence.begin();
    assert!(delete.seqno() > put);
    let entered = old.enter().expect("it is not sealed yet");
    let op = Op::Delete { key: b"k" };
    entered.insert(&op, delete.seqno(), &mut Reservation::uncounted());
    drop(entered);
    shared.memtables.note_applied(delete.seqno());
    old.seal();
    assert!(shared.flush_next(0).expect("memory takes it"));
    assert_eq!(bench.detail("memtable_merges"), 1, "nothing was written");
    assert_eq!(bench.get(b"k"), None);
    (delete, old.id())
}

/// Flushes fail until the journal has the delete, and nothing is persisted meanwhile; then they
/// succeed.
fn must_wait_for_the_journal(
    bench: &Bench,
    journal: &Journal,
    delete: SeqNo,
    flush: &dyn Fn() -> Result<()>,
) {
    let lacking = flush();
    assert_eq!(bench.store.persisted(), SeqNo::ZERO, "the put would be lost by a power cut");
    assert_eq!(lacking, Err(Error::of_journal(Error::Closed)));
    journal.end.store(delete.get(), SeqCst);
    assert_eq!(flush(), Ok(()), "the store goes on once the journal does");
    assert_eq!(bench.store.persisted().next(), delete);
}

/// The merge keeps another key, and the merged memtable is flushed.
#[test]
fn a_flush_of_what_a_merge_kept_reaches_the_tombstones_that_it_dropped() {
    let (bench, journal) = open();
    bench.put(b"a", b"1");
    let (delete, merged) = put_and_delete(&bench, &journal);
    assert_eq!(bench.detail("memtable_entries"), 1);
    let flush = || bench.store.shared.flush_next(merged).map(|_| ());
    must_wait_for_the_journal(&bench, &journal, delete.seqno(), &flush);
}

/// The merge keeps nothing, and the memtable of another Drange is flushed.
#[test]
fn a_flush_reaches_the_tombstones_that_merges_dropped() {
    let (bench, journal) = open();
    bench.put(b"zz", b"1");
    let (delete, _) = put_and_delete(&bench, &journal);
    let shared = &bench.store.shared;
    let state = shared.seal_where(&|active| !active.is_empty());
    let [other] = &state.sealed[..] else { panic!("only one memtable holds something") };
    assert_eq!(other.len(), 1);
    let flush = || shared.flush_next(other.id()).map(|_| ());
    must_wait_for_the_journal(&bench, &journal, delete.seqno(), &flush);
}

/// The merge keeps nothing, and no memtable is left to be flushed.
#[test]
fn an_empty_flush_reaches_the_tombstones_that_merges_dropped() {
    let (bench, journal) = open();
    let (delete, _) = put_and_delete(&bench, &journal);
    assert_eq!(bench.detail("memtable_entries"), 0);
    let flush = || bench.store.flush();
    must_wait_for_the_journal(&bench, &journal, delete.seqno(), &flush);
}
