//! A task: its class, its work, its token, and how it can end.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The purpose of a task, which decides the order of tasks. If the pool has more than one thread,
/// one is kept free of everything but [`Class::Flush`], so that no writer waits for a compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Memory to disk: writers wait for it. Short.
    Flush,
    /// Merging or copying forward: readers and space wait for it.
    Compact,
    /// Reclaiming, statistics, checks: no user waits for it. It runs when nothing above is queued.
    Collect,
}

impl Class {
    pub(crate) const ALL: [Self; 3] = [Self::Flush, Self::Compact, Self::Collect];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Flush => "flush",
            Self::Compact => "compact",
            Self::Collect => "collect",
        }
    }
}

/// Shows a task that its group is stopping. A long task looks at it between steps and returns as
/// soon as its work so far is consistent.
#[derive(Clone, Debug, Default)]
pub struct StopToken(Arc<AtomicBool>);

impl StopToken {
    /// Whether the group is stopping. It never becomes false again.
    pub fn is_stopping(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    pub(crate) fn stop(&self) {
        self.0.store(true, Ordering::Release);
    }
}

/// The group or its pool is stopping or stopped: the task was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the workers are stopped, no task is accepted")]
pub struct Stopped;

/// A task that panicked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("background task {task} of {group} panicked: {message}")]
pub struct TaskPanic {
    /// The group it belongs to.
    pub group: String,
    /// Its name.
    pub task: &'static str,
    /// The panic's message.
    pub message: String,
}

/// A callback for a panic, called by the thread on which the task ran.
#[derive(Clone)]
pub(crate) struct OnPanic(pub(crate) Arc<dyn Fn(&TaskPanic) + Send + Sync>);

impl fmt::Debug for OnPanic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnPanic")
    }
}

/// Names a group within its pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GroupId(pub(crate) u64);

/// A task that waits for its turn.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) group: GroupId,
    pub(crate) class: Class,
    pub(crate) name: &'static str,
    pub(crate) work: Work,
}

/// Part of its interval by which a periodic task may run too early.
const EARLY_PARTS: u32 = 8;

type Once = Box<dyn FnOnce(&StopToken) + Send>;
type Repeated = Box<dyn FnMut(&StopToken) -> Next + Send>;

/// When a periodic task runs again, after a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// After the interval that it has.
    AsBefore,
    /// After this interval, which it has from then on.
    After(Duration),
    /// Not at all: the task has ended, as a one-time task does.
    Never,
}

pub(crate) enum Work {
    Once(Once),
    Periodic(Periodic),
}

pub(crate) struct Periodic {
    pub(crate) interval: Duration,
    pub(crate) work: Repeated,
}

impl Work {
    pub(crate) fn is_periodic(&self) -> bool {
        matches!(self, Self::Periodic(_))
    }

    /// Returns how much too early a periodic task may run, if another one runs then.
    pub(crate) fn may_be_early_by(&self) -> Duration {
        match self {
            Self::Once(_) => Duration::ZERO,
            Self::Periodic(periodic) => periodic.interval / EARLY_PARTS,
        }
    }

    /// Runs the task, and returns the work that must run again. The values that a one-time task had
    /// captured are dropped on return, also after a panic. An error is the panic's message.
    pub(crate) fn run(self, token: &StopToken) -> Result<Option<Periodic>, String> {
        match self {
            Self::Once(work) => contain(|| work(token)).map(|()| None),
            Self::Periodic(mut periodic) => {
                let mut next = Next::AsBefore;
                match contain(|| next = (periodic.work)(token)) {
                    Ok(()) => {
                        match next {
                            Next::AsBefore => {}
                            Next::After(interval) => periodic.interval = interval,
                            Next::Never => return contain(|| drop(periodic)).map(|()| None),
                        }
                        Ok(Some(periodic))
                    }
                    Err(message) => {
                        // The task's own panic says more than one of its destructor.
                        let _ = contain(|| drop(periodic));
                        Err(message)
                    }
                }
            }
        }
    }
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Once(_) => f.write_str("Once"),
            Self::Periodic(periodic) => write!(f, "Periodic({:?})", periodic.interval),
        }
    }
}

/// Runs `work`; a panic becomes its message.
pub(crate) fn contain(work: impl FnOnce()) -> Result<(), String> {
    // State that the closure shares with others is theirs to keep consistent: they learn of the
    // panic.
    catch_unwind(AssertUnwindSafe(work)).map_err(|payload| message_of(&*payload))
}

fn message_of(payload: &(dyn Any + Send)) -> String {
    if let Some(text) = payload.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "a panic without a message".to_owned()
    }
}
