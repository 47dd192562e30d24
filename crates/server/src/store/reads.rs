//! Reads that a thread of its own does for the event loops, since they wait for the device.

use thermocline::WithEnd;

use super::walks::{Request, Slice, read_slice};
use super::{DbIndex, Store, StoreError};
use crate::client_memory::ClientMemory;

/// A read that a loop has another thread do.
#[derive(Clone, Debug)]
pub(crate) enum Wanted {
    Slice(Request),
    Values(Keys),
}

/// Keys whose values are wanted.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    pub(crate) db: DbIndex,
    pub(crate) keys: Vec<Vec<u8>>,
    /// Whether values are wanted; else only whether they are there, and when they end.
    pub(crate) shows_values: bool,
}

/// The result of a read.
#[derive(Debug)]
pub(crate) enum Done {
    Slice(Slice),
    Values(Values),
}

/// Stored values, in the order of their keys.
#[derive(Debug, Default)]
pub(crate) struct Values {
    pub(crate) values: Vec<Option<Vec<u8>>>,
    /// Bytes by which the clients' memory is charged for them.
    pub(crate) charged: usize,
}

/// Keys that are read together.
const TOGETHER: usize = 64;

/// Reads. Waits for the device.
///
/// # Errors
/// The store's; [`StoreError::Full`] if the clients' memory has no room for the values.
pub(crate) fn read(
    store: &dyn Store,
    memory: &ClientMemory,
    wanted: &Wanted,
) -> Result<Done, StoreError> {
    match wanted {
        Wanted::Slice(request) => read_slice(store, request).map(Done::Slice),
        Wanted::Values(keys) => {
            let mut values = Values::default();
            let read = read_values(store, memory, keys, &mut values);
            if read.is_err() {
                memory.recharge(&mut values.charged, 0);
            }
            read.map(|()| Done::Values(values))
        }
    }
}

fn read_values(
    store: &dyn Store,
    memory: &ClientMemory,
    wanted: &Keys,
    into: &mut Values,
) -> Result<(), StoreError> {
    let mut has_room = true;
    for part in wanted.keys.chunks(TOGETHER) {
        let begin = into.values.len();
        into.values.resize(begin + part.len(), None);
        let keys: Vec<&[u8]> = part.iter().map(Vec::as_slice).collect();
        store.multi_get(wanted.db, &keys, &mut |index, value| {
            let Some(value) = value.filter(|_| has_room) else { return };
            // A damaged value is shown as it is: its readers get the error.
            let value = match WithEnd::decode(value) {
                Ok(stored) if !wanted.shows_values => {
                    WithEnd { value: b"", end_ms: stored.end_ms }.to_stored()
                }
                _ => value.to_vec(),
            };
            has_room = memory.try_charge(&mut into.charged, value.len() + size_of::<Vec<u8>>());
            if let Some(place) = into.values.get_mut(begin + index) {
                *place = Some(value);
            }
        })?;
        if !has_room {
            let limit = memory.limit();
            return Err(StoreError::Full(format!(
                "command refused: the clients' memory of {limit} bytes is used up"
            )));
        }
    }
    Ok(())
}
