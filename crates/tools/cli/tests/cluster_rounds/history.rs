//! Recorded operations on a key, and whether some order explains all of them.

use std::collections::HashSet;
use std::fmt;

use conformance::linearizable::{self, Action, Call, Value};
use serde_json::json;

/// An operation on a key, with its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// Saw this value.
    Get { saw: Value },
    /// Wrote this value.
    Put { value: u64 },
    /// Removed the key. The reply may say whether there was one.
    Delete { had: Option<bool> },
    /// Wrote `new` if the value was `expected`.
    Swap { expected: Value, new: Value, is_done: bool },
    /// Added one. A reply has the value after that.
    Increment { result: Option<u64> },
}

/// An operation that a client has begun.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    /// The place of the key among those of the round.
    pub(crate) key: usize,
    pub(crate) client: usize,
    /// When it began, on the clock of all clients.
    pub(crate) invoked: u64,
    /// When its reply came. None if it may have happened, or may still happen.
    pub(crate) returned: Option<u64>,
    pub(crate) operation: Operation,
}

impl Operation {
    /// Returns its effect in the checker's terms.
    fn action(self) -> Action {
        match self {
            Self::Get { saw } => Action::Read(saw),
            Self::Put { value } => Action::Write(Some(value)),
            Self::Delete { had: Some(false) } => Action::Read(None),
            Self::Delete { .. } => Action::Write(None),
            Self::Swap { expected, new, is_done: true } => Action::Rmw { saw: expected, left: new },
            Self::Swap { expected, is_done: false, .. } => Action::Unequal(expected),
            Self::Increment { result: None } => Action::Add(1),
            Self::Increment { result: Some(result) } => {
                // An absent key counts as 0, and no operation leaves 0.
                let saw = result.checked_sub(1).filter(|saw| *saw > 0);
                Action::Rmw { saw, left: Some(result) }
            }
        }
    }
}

impl Event {
    /// Returns it in the checker's terms.
    pub(crate) fn call(&self) -> Call {
        let Self { client, invoked, returned, operation, .. } = *self;
        Call { client, invoked, returned, action: operation.action() }
    }

    /// Returns it as a line of JSON, for checkers in other languages. A result that is not known is
    /// null.
    pub(crate) fn line(&self, key: &str) -> String {
        let Self { client, invoked, returned, operation, .. } = *self;
        let known = |is_done: bool| returned.is_some().then_some(is_done);
        let mut line = match operation {
            Operation::Get { saw } => json!({ "op": "get", "value": saw }),
            Operation::Put { value } => json!({ "op": "put", "value": value }),
            Operation::Delete { had } => json!({ "op": "delete", "done": had }),
            Operation::Swap { expected, new, is_done } => {
                let done = known(is_done);
                json!({ "op": "cas", "expected": expected, "value": new, "done": done })
            }
            Operation::Increment { result } => json!({ "op": "incr", "value": result }),
        };
        line["key"] = json!(key);
        line["client"] = json!(client);
        line["call"] = json!(invoked);
        line["return"] = json!(returned);
        format!("{line}\n")
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { client, invoked, returned, operation, .. } = self;
        let returned = returned.map_or("never".to_owned(), |at| at.to_string());
        write!(f, "client {client}, {invoked} to {returned}: {operation:?}")
    }
}

/// Checks that some order explains the calls on a key, which had the value `initial` before them.
///
/// A write without a reply, whose value no call has seen, may as well not have happened. A first
/// search leaves it out: the search for an order is short then. Only if there is no such order, all
/// calls are searched.
///
/// # Errors
/// The calls that no order explains, with their neighbours.
pub(crate) fn check(calls: &[Call], initial: Value) -> Result<(), String> {
    let seen = |call: &Call| match call.action {
        Action::Read(saw) | Action::Rmw { saw, .. } => Some(saw),
        _ => None,
    };
    let seen: HashSet<Value> = calls.iter().filter_map(seen).collect();
    let is_needed = |call: &&Call| match (call.returned, call.action) {
        (None, Action::Write(left) | Action::Rmw { left, .. }) => seen.contains(&left),
        _ => true,
    };
    let needed: Vec<Call> = calls.iter().filter(is_needed).copied().collect();
    if linearizable::check(&needed, initial).is_ok() {
        return Ok(());
    }
    linearizable::check(calls, initial).map_err(|stuck| {
        let lines: Vec<String> = stuck.iter().map(Call::to_string).collect();
        format!("no order of the calls explains these:\n  {}", lines.join("\n  "))
    })
}

/// Returns the events of a key, in the order in which they began.
pub(crate) fn of_key(events: &[Event], key: usize) -> Vec<Event> {
    let mut found: Vec<Event> = events.iter().filter(|event| event.key == key).copied().collect();
    found.sort_by_key(|event| event.invoked);
    found
}
