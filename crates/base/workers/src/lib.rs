//! The pool that runs background work, and its hand-cranked twin for tests.
//!
//! An engine never starts a thread. It is handed a [`Pool`], takes a [`Group`] of its own from it
//! and submits its flushes, compactions and collections there:
//!
//! ```text
//! engine a -- Group a --+                     +-- worker-0
//! engine b -- Group b --+--> Pool (a queue  --+-- worker-1     Pool::start
//! journal  -- Group j --+    per class,       +-- ...
//!                            timers)          +-- HandCranked  Pool::hand_cranked
//! ```
//!
//! Under test nothing drives the pool but a [`HandCranked`], which runs one task at a time on the
//! thread that cranks it, in an order that follows from the environment's seed. For the engine
//! there is no difference.
//!
//! ```
//! use std::sync::atomic::{AtomicU32, Ordering};
//! use std::{sync::Arc, time::Duration};
//! use environment::Environment;
//! use thermocline_workers::{Class, Order, Pool};
//!
//! let (env, clock) = Environment::simulated(7);
//! let (pool, crank) = Pool::hand_cranked(&env, &telemetry::Registry::default(), Order::Random);
//!
//! // What an engine does, the same for a pool with threads.
//! let runs = Arc::new(AtomicU32::new(0));
//! let group = pool.group("users");
//! let counted = runs.clone();
//! group.every(Class::Collect, "collect", Duration::from_secs(1), move |_stop| {
//!     counted.fetch_add(1, Ordering::Relaxed);
//! })?;
//!
//! // What only the test does.
//! clock.advance(Duration::from_secs(1));
//! assert_eq!(crank.run_all(), 1);
//! assert!(group.stop().is_empty(), "no task panicked");
//! assert_eq!(runs.load(Ordering::Relaxed), 1);
//! # Ok::<(), thermocline_workers::Stopped>(())
//! ```
//!
//! # Invariants
//! - A task that was accepted runs exactly once, also if its group or its pool is stopped before it
//!   began: it then sees its [`StopToken`] and decides which work is still worth doing.
//! - A periodic task never runs concurrently with itself, never after its group's `stop` has
//!   returned, and never again after it panicked.
//! - When `stop` has returned, the tasks and everything they had captured are dropped.
//! - A panic ends its task, nothing else; the group's owner learns of it ([`Group::on_panic`]).
//!
//! # Concurrency
//! One mutex guards the queues. It is never held while a task, or the destructor of a value that a
//! task had captured, runs. So a task may use the pool, and locks of its own around it, as it
//! likes.

mod crank;
mod gate;
mod group;
mod locks;
#[doc(hidden)]
pub mod planted;
mod pool;
mod runner;
mod schedule;
mod task;

pub use crank::{HandCranked, Order, Ran};
pub use gate::Gate;
pub use group::{Group, WaitError};
pub use pool::Pool;
pub use task::{Class, Next, StopToken, Stopped, TaskPanic};
