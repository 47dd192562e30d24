//! How models are run: under loom every execution that the memory model allows, within a bound on
//! how often a thread is interrupted; under shuttle very many random schedules.

pub(crate) mod small_store;

use std::sync::Arc;

use sync::planted::model_must_find;
#[cfg(all(shuttle, not(loom)))]
use sync::schedules::Schedules;
use sync::thread::{JoinHandle, spawn};

use crate::planted::Planted;

/// Which of two parts of a model is begun first.
///
/// Loom runs the first thread as far as it can and then looks which steps of the others could have
/// been earlier. For that it remembers a place's last access only: a load is forgotten once the
/// thread that is going to store has loaded the place itself. An execution that one order misses is
/// seen in the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Written,
    Reversed,
}

/// Does `work` on `shared` in a thread of its own.
pub(crate) fn run<S: Send + Sync + 'static, T: Send + 'static>(
    shared: &Arc<S>,
    work: impl FnOnce(&S) -> T + Send + 'static,
) -> JoinHandle<T> {
    let shared = Arc::clone(shared);
    spawn(move || work(&shared))
}

/// Runs both concurrently, until both have ended.
pub(crate) fn together<S: Send + Sync + 'static, A: Send + 'static, B: Send + 'static>(
    order: Order,
    shared: &Arc<S>,
    first: impl FnOnce(&S) -> A + Send + 'static,
    second: impl FnOnce(&S) -> B + Send + 'static,
) -> (A, B) {
    match order {
        Order::Written => {
            let other = run(shared, second);
            let first = first(shared);
            (first, other.join().expect("ends"))
        }
        Order::Reversed => {
            let other = run(shared, first);
            let second = second(shared);
            (other.join().expect("ends"), second)
        }
    }
}

/// Explores `model` in both orders.
pub(crate) fn explore_orders(name: &str, interruptions: usize, model: fn(Order)) {
    for order in [Order::Written, Order::Reversed] {
        explore(&format!("{name}, {order:?}"), interruptions, move || model(order));
    }
}

/// Random schedules of a model of a few steps, and of one with whole operations of a store. Each
/// run explores others.
#[cfg(all(shuttle, not(loom)))]
const SCHEDULES: Schedules = Schedules::new(5_000);
#[cfg(all(shuttle, not(loom)))]
const STORE_SCHEDULES: Schedules = Schedules::new(2_500);

/// Explores `model` with at most `interruptions` switches away from a thread that could continue.
#[cfg(loom)]
pub(crate) fn explore(
    name: &str,
    interruptions: usize,
    model: impl Fn() + Clone + Send + Sync + 'static,
) {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(interruptions);
    builder.max_branches = 50_000;
    let executions = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&executions);
    builder.check(move || {
        counted.fetch_add(1, Relaxed);
        model();
    });
    println!("{name}: {} executions", executions.load(Relaxed));
}

/// Runs `model` under random schedules, and under schedules that find bugs of few ordering
/// constraints.
#[cfg(all(shuttle, not(loom)))]
pub(crate) fn explore(
    name: &str,
    _interruptions: usize,
    model: impl Fn() + Clone + Send + Sync + 'static,
) {
    SCHEDULES.check(name, model);
}

/// Explores a model of whole operations of a store, in both orders.
pub(crate) fn explore_store(name: &str, interruptions: usize, model: fn(Order)) {
    explore_store_as_written(name, interruptions, model);
    if cfg!(loom) {
        explore_store_in(Order::Reversed, name, interruptions, model);
    }
}

/// The same in one order.
pub(crate) fn explore_store_as_written(name: &str, interruptions: usize, model: fn(Order)) {
    explore_store_in(Order::Written, name, interruptions, model);
}

#[cfg(loom)]
fn explore_store_in(order: Order, name: &str, interruptions: usize, model: fn(Order)) {
    // Such operations take more of the stack than loom gives its first thread.
    let deep = move || spawn(move || model(order)).join().expect("ends");
    explore(&format!("{name}, {order:?}"), interruptions, deep);
}

#[cfg(all(shuttle, not(loom)))]
fn explore_store_in(order: Order, name: &str, _interruptions: usize, model: fn(Order)) {
    STORE_SCHEDULES.check(name, move || model(order));
}

/// Number of searches for a bug: loom explores the same each time, shuttle has another seed.
const TURNS: usize = if cfg!(loom) { 1 } else { 20 };

/// Checks that the executions that `explored` explores fail with the bug planted, with the message
/// `how`.
pub(crate) fn must_be_found(bug: Planted, how: &str, explored: impl Fn()) {
    model_must_find(bug, how, || (0..TURNS).for_each(|_| explored()));
}
