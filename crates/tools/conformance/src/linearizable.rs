//! Whether a recorded history of one key can be explained by some order of its calls.
//!
//! A history is linearizable if each call can be given one moment between its invocation and its
//! return at which it takes effect. Every call must have seen the values that the moments before it
//! left.
//!
//! 1. Calls are sorted by invocation. A state of the search is which calls have had their moment
//!    (all before a frontier, and some beyond it) and the value they left.
//! 2. The calls that may be next are those invoked before any call still waiting has returned.
//! 3. A read that fits the present value is taken immediately: taking it later cannot help others.
//!    Otherwise each fitting call is tried; states that were seen before are not tried again.
//! 4. A call that never returned may take effect at any later time, or never.
//!
//! Found with Wing and Gong, *Testing and Verifying Concurrent Objects* (1993), and Lowe's memory
//! of seen states.

#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::fmt;

/// A value, by a number that no other write of the history wrote; `None` is absence.
pub type Value = Option<u64>;

/// The effect of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Saw this value.
    Read(Value),
    /// Left this value.
    Write(Value),
    /// Saw one value and left another, at one moment.
    Rmw {
        /// The value that it saw.
        saw: Value,
        /// The value that it left.
        left: Value,
    },
    /// Added this to the value, and saw nothing. An absent value counts as 0.
    Add(u64),
    /// Saw a value other than this one.
    Unequal(Value),
}

impl Action {
    /// Returns the value after the action, if it fits the value before.
    fn after(self, before: Value) -> Option<Value> {
        match self {
            Self::Read(saw) => (saw == before).then_some(before),
            Self::Write(left) => Some(left),
            Self::Rmw { saw, left } => (saw == before).then_some(left),
            Self::Add(number) => Some(Some(before.unwrap_or(0).saturating_add(number))),
            Self::Unequal(other) => (other != before).then_some(before),
        }
    }

    /// Returns whether it is a read that fits the present value.
    fn is_fitting_read(self, present: Value) -> bool {
        matches!(self, Self::Read(_) | Self::Unequal(_)) && self.after(present).is_some()
    }
}

/// One call of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The caller.
    pub client: usize,
    /// When, on a clock that all clients share.
    pub invoked: u64,
    /// When it returned; `None` if it never did, or with an error that leaves its effect open.
    pub returned: Option<u64>,
    /// The effect of the call.
    pub action: Action,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { client, invoked, action, .. } = self;
        let returned = self.returned.map_or("never".to_owned(), |at| at.to_string());
        write!(f, "client {client}, {invoked} to {returned}: {action:?}")
    }
}

/// The search's state: the calls that had their moment, and the value they left.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    /// All calls before this index are done.
    frontier: usize,
    /// Calls beyond the frontier that are done, ascending.
    beyond: Vec<usize>,
    value: Value,
}

impl State {
    fn is_done(&self, index: usize) -> bool {
        index < self.frontier || self.beyond.binary_search(&index).is_ok()
    }

    /// Returns the state after call `index` took effect.
    fn with(&self, index: usize, value: Value) -> Self {
        let mut next = Self { value, ..self.clone() };
        let at = next.beyond.partition_point(|done| *done < index);
        next.beyond.insert(at, index);
        while next.beyond.first() == Some(&next.frontier) {
            next.beyond.remove(0);
            next.frontier += 1;
        }
        next
    }

    fn done(&self) -> usize {
        self.frontier + self.beyond.len()
    }
}

/// Accepts a history of one key that begins with the value `initial`.
///
/// # Errors
/// The calls that the longest explanation could not place, with their neighbours: a handful that
/// shows the contradiction.
pub fn check(history: &[Call], initial: Value) -> Result<(), Vec<Call>> {
    let mut calls = history.to_vec();
    calls.sort_by_key(|call| call.invoked);
    let start = State { frontier: 0, beyond: Vec::new(), value: initial };
    let mut seen = HashSet::from([start.clone()]);
    let mut furthest = start.clone();
    let mut stack = vec![start];
    while let Some(state) = stack.pop() {
        let Some(ready) = ready(&calls, &state) else { return Ok(()) };
        if state.done() > furthest.done() {
            furthest = state.clone();
        }
        let fitting_read =
            ready.iter().find(|index| calls[**index].action.is_fitting_read(state.value));
        let tried = fitting_read.map_or(ready.as_slice(), std::slice::from_ref);
        for index in tried {
            let Some(value) = calls[*index].action.after(state.value) else { continue };
            let next = state.with(*index, value);
            if seen.insert(next.clone()) {
                stack.push(next);
            }
        }
    }
    Err(around(&calls, &furthest))
}

/// Returns the calls that may take effect next; `None` once every call that returned has had its
/// moment.
fn ready(calls: &[Call], state: &State) -> Option<Vec<usize>> {
    let mut first_return = u64::MAX;
    let mut waiting = false;
    let mut ready = Vec::new();
    for (index, call) in calls.iter().enumerate().skip(state.frontier) {
        if call.invoked > first_return {
            break;
        }
        if state.is_done(index) {
            continue;
        }
        if let Some(returned) = call.returned {
            waiting = true;
            first_return = first_return.min(returned);
        }
        ready.push(index);
    }
    // A call invoked after another's return is behind it, also if it was met first.
    ready.retain(|index| calls[*index].invoked <= first_return);
    waiting.then_some(ready)
}

/// Returns the calls near the point at which every explanation ended.
fn around(calls: &[Call], furthest: &State) -> Vec<Call> {
    const BESIDE: usize = 6;
    let from = furthest.frontier.saturating_sub(BESIDE);
    calls.iter().skip(from).take(2 * BESIDE).copied().collect()
}
