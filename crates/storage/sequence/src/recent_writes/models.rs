//! Models of validation next to writers under shuttle: very many random schedules of a few threads.
//!
//! ```text
//! RUSTFLAGS="--cfg shuttle" cargo test -p thermocline-sequence --profile models \
//!   --lib models --target-dir target/shuttle
//! ```
//!
//! Keys are words that hold the number of their newest write, each behind the lock that orders its
//! writes. Transactions read words as an engine without snapshots returns them. Two laws hold in
//! every schedule. Data that a transaction may use was of the moment that it pinned, and the data
//! by which it commits is still the keys' content.

use std::sync::Arc;

use codec::SeqNo;
use shuttle::sync::atomic::{AtomicU64, Ordering::SeqCst};
use shuttle::sync::{Mutex, MutexGuard};
use shuttle::thread::spawn;
use sync::schedules::Schedules;

use super::RecentWrites;
use crate::KeyRange;
use crate::Sequence;

const SCHEDULES: Schedules = Schedules { depth: 4, ..Schedules::new(20_000) };
const KEYS: [&[u8]; 2] = [b"a", b"b"];
const SPACE: u32 = 1;

#[derive(Default)]
struct Word {
    lock: Mutex<()>,
    newest: AtomicU64,
}

struct Model {
    sequence: Arc<Sequence>,
    recent: Arc<RecentWrites>,
    words: [Word; KEYS.len()],
    commits: AtomicU64,
}

impl Model {
    fn new(bytes_max: u64) -> Arc<Self> {
        Arc::new(Self {
            sequence: Arc::new(Sequence::new()),
            recent: Arc::new(RecentWrites::new(bytes_max)),
            words: Default::default(),
            commits: AtomicU64::new(0),
        })
    }

    /// The word's lock is held.
    fn write(&self, at: usize) {
        let ticket = self.sequence.begin();
        if self.recent.is_watched() {
            self.recent.note(SPACE, KEYS[at], ticket.seqno());
        }
        let before = self.words[at].newest.swap(ticket.seqno().get(), SeqCst);
        assert!(before < ticket.seqno().get(), "the locks order a key's writes");
    }

    fn locked(&self, at: usize) -> MutexGuard<'_, ()> {
        self.words[at].lock.lock().expect("a model that panicked has ended")
    }

    fn plain_write(&self, at: usize) {
        let _held = self.locked(at);
        self.write(at);
    }

    /// Returns the word as of `moment`, if it still holds that.
    fn read(&self, at: usize, moment: SeqNo) -> Option<u64> {
        let value = self.words[at].newest.load(SeqCst);
        self.recent.check_key(SPACE, KEYS[at], moment).ok()?;
        assert!(value <= moment.get(), "W1: read {value} as of {moment}");
        Some(value)
    }

    /// Reads both words, and writes one of them by that.
    fn transaction(&self, target: usize, by_range: bool) {
        let watch = self.recent.watch(&self.sequence);
        let pin = self.sequence.pin();
        let moment = pin.seqno();
        let Some(read) = self.read(0, moment).zip(self.read(1, moment)) else { return };
        let held = (self.locked(0), self.locked(1));
        let unchanged = match by_range {
            true => self.recent.check_range(SPACE, &KeyRange::all(), moment).is_ok(),
            false => KEYS.iter().all(|key| self.recent.check_key(SPACE, key, moment).is_ok()),
        };
        if !unchanged {
            return;
        }
        let present = (self.words[0].newest.load(SeqCst), self.words[1].newest.load(SeqCst));
        assert_eq!(read, present, "W2: committed after a read was overwritten, as of {moment}");
        let outlived = watch.end();
        self.write(target);
        drop(held);
        drop(outlived);
        self.commits.fetch_add(1, SeqCst);
    }
}

fn run(bytes_max: u64) {
    let model = Model::new(bytes_max);
    let threads = [0_usize, 1, 2].map(|who| {
        let model = Arc::clone(&model);
        spawn(move || {
            for round in 0..2 {
                match who {
                    0 => model.plain_write(round),
                    _ => model.transaction(who - 1, round == 0),
                }
            }
        })
    });
    for thread in threads {
        thread.join().expect("a model thread fails by panicking");
    }
    assert!(!model.recent.is_watched());
    let before = model.commits.load(SeqCst);
    model.transaction(0, true);
    assert_eq!(model.commits.load(SeqCst), before + 1, "no concurrent writer, so it commits");
    assert_eq!(model.recent.bytes(), 0, "notes outlived every watch");
}

#[test]
fn what_is_committed_was_read_as_it_stands_on_every_schedule_tried() {
    SCHEDULES.check("transactions", || run(1 << 20));
}

/// With room for one note.
#[test]
fn the_same_where_notes_are_forgotten() {
    SCHEDULES.check("transactions, forgetful", || run(super::NOTE_BYTES as u64 + 1));
}
