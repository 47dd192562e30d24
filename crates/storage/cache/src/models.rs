//! Models of gets concurrent with commits under shuttle: many random schedules of a few threads.
//!
//! ```text
//! RUSTFLAGS="--cfg shuttle" cargo test -p thermocline-pairs --profile models --lib models \
//!     --target-dir target/shuttle
//! ```
//!
//! One key is written to a memtable and committed to the data below, again and again. In every
//! schedule, the cache gives a get the pair that is below in the state that the get looks into.

use std::sync::Arc;

use memory_budget::{GhostTable, MemoryBudget};
use shuttle::thread::spawn;
use sync::Mutex;
use sync::schedules::{Schedules, finds};

use crate::{PART_MAX, Planted, RowCache};

const SCHEDULES: Schedules = Schedules::new(20_000);
const COMMITS: u64 = 3;
const GETS: usize = 3;
const KEY: &[u8] = b"k";
/// A text that is in the message of the failure that each planted bug causes.
const STALE: &str = "a stale pair for a reader of state";

/// A state: its number, the memtable's value, and the value below.
#[derive(Clone, Copy)]
struct State {
    number: u64,
    memtable: Option<u64>,
    below: u64,
}

struct Model {
    pairs: RowCache,
    state: Mutex<State>,
}

impl Model {
    fn new() -> Arc<Self> {
        let budget = Arc::new(MemoryBudget::new(16 << 20));
        let pairs = RowCache::new(GhostTable::new(64), &budget, PART_MAX);
        pairs.open(0);
        pairs.set_capacity(1 << 20);
        let state = State { number: 0, memtable: None, below: 0 };
        Arc::new(Self { pairs, state: Mutex::new(state) })
    }

    /// Writes, and commits what was written.
    fn write(&self, value: u64) {
        self.state.lock().memtable = Some(value);
        let changing = self.pairs.change();
        changing.forget(KEY);
        let number = {
            let mut state = self.state.lock();
            *state = State { number: state.number + 1, memtable: None, below: value };
            state.number
        };
        changing.done(number);
    }

    /// Gets what was written last.
    fn get(&self) -> u64 {
        let state = *self.state.lock();
        if let Some(value) = state.memtable {
            return value;
        }
        let mut value = Vec::new();
        if let Some(since) = self.pairs.get(KEY, state.number, &mut value) {
            assert!(since <= state.number, "a pair of a later state than {}", state.number);
            let below = state.below.to_le_bytes();
            assert_eq!(value, below, "{STALE} {}", state.number);
        } else {
            self.pairs.keep(state.number, KEY, state.number, &state.below.to_le_bytes());
        }
        state.below
    }
}

fn gets_beside_commits() {
    let model = Model::new();
    let writer = Arc::clone(&model);
    let mut threads = vec![spawn(move || (1..=COMMITS).for_each(|value| writer.write(value)))];
    for _ in 0..2 {
        let reader = Arc::clone(&model);
        threads.push(spawn(move || {
            let mut newest = 0;
            for _ in 0..GETS {
                let value = reader.get();
                assert!(value >= newest, "{value} after {newest}");
                newest = value;
            }
        }));
    }
    for thread in threads {
        thread.join().expect("no thread panics");
    }
    assert_eq!(model.get(), COMMITS);
}

#[test]
fn gets_beside_commits_are_given_nothing_stale() {
    SCHEDULES.check("gets_beside_commits_are_given_nothing_stale", gets_beside_commits);
}

#[test]
fn pairs_of_old_states_that_are_kept_are_found() {
    finds(Planted::OldKept, STALE, gets_beside_commits);
}

#[test]
fn pairs_that_are_kept_beside_a_commit_are_found() {
    finds(Planted::KeptBesideCommit, STALE, gets_beside_commits);
}
