//! How models are explored under shuttle: by random schedules, and by those of PCT.

use std::any::Any;
use std::fmt::Debug;
use std::hash::{BuildHasher, RandomState};

use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, FailurePersistence, Runner};

use crate::planted::model_must_find;

/// Schedules of each kind: in which a planted bug must be found, and in which the same model passes
/// without it.
const TO_FIND: Schedules = Schedules::new(5_000);
const WITHOUT: Schedules = Schedules::new(20);
/// Room on each stack for whole operations of a store.
const STACK_BYTES: usize = 1 << 20;

/// In how many schedules a model is explored.
#[derive(Clone, Copy, Debug)]
pub struct Schedules {
    /// Number of random schedules, and equally of PCT schedules.
    pub count: usize,
    /// PCT finds bugs of up to this many ordering constraints with a known chance a schedule.
    pub depth: usize,
}

impl Schedules {
    /// Makes `count` schedules of each kind, for bugs of up to three constraints.
    pub const fn new(count: usize) -> Self {
        Self { count, depth: 3 }
    }

    /// Explores a model that must not fail, by other schedules each time, and prints how to have
    /// the same again.
    ///
    /// # Panics
    /// The model fails.
    pub fn check(self, name: &str, model: impl Fn() + Clone + Send + Sync + 'static) {
        let seed = RandomState::new().hash_one(name);
        println!("{name}: seed {seed}; to replay, SHUTTLE_RANDOM_SEED={seed} and this test's name");
        self.explore(seed, Config::new().failure_persistence, model);
    }

    fn explore(
        self,
        seed: u64,
        persistence: FailurePersistence,
        model: impl Fn() + Clone + Send + Sync + 'static,
    ) {
        let mut config = Config::new();
        config.silence_warnings = true;
        config.stack_size = STACK_BYTES;
        config.failure_persistence = persistence;
        let pct = PctScheduler::new_from_seed(seed, self.depth, self.count);
        Runner::new(pct, config.clone()).run(model.clone());
        Runner::new(RandomScheduler::new_from_seed(seed, self.count), config).run(model);
    }
}

/// Explores a model, by the same schedules each time, with a planted bug that it must find, and of
/// which it says `how`.
///
/// # Panics
/// The model does not fail, says something else, or fails without the bug, too.
pub fn finds<B: Any + Debug>(bug: B, how: &str, model: impl Fn() + Clone + Send + Sync + 'static) {
    let explore = |schedules: Schedules| {
        schedules.explore(1, FailurePersistence::None, model.clone());
    };
    // A model that fails by itself, or that shuttle refuses, finds nothing.
    explore(WITHOUT);
    model_must_find(bug, how, || explore(TO_FIND));
}
