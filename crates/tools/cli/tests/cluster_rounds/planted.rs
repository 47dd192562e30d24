//! A lost write that is planted in a history, which the check must reject.

use crate::history::{Event, Operation};

/// Returns the events of a key, changed: its last read sees a value that a later write has
/// replaced. None if the key was not put twice. The events are in the order in which they began.
pub(crate) fn with_lost_write(events: &[Event]) -> Option<Vec<Event>> {
    let puts = || events.iter().filter(|event| matches!(event.operation, Operation::Put { .. }));
    let first = puts().find(|event| event.returned.is_some())?;
    let is_later = |event: &&Event, before: &Event| {
        before.returned.is_some_and(|returned| event.invoked > returned)
    };
    let second = puts().find(|event| event.returned.is_some() && is_later(event, first))?;
    let is_read = |event: &&Event| matches!(event.operation, Operation::Get { .. });
    let last = events.iter().rposition(|event| is_read(&event) && is_later(&event, second))?;
    let Operation::Put { value } = first.operation else { return None };
    let mut changed = events.to_vec();
    changed[last].operation = Operation::Get { saw: Some(value) };
    Some(changed)
}
