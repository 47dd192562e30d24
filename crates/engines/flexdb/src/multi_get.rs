//! Reading many keys at once: what has to be read from the device is read beside each other.

use codec::SeqNo;
use engine::Result;

use crate::flights::{Began, Flights};
use crate::memtable::Found;
use crate::read::Sought;
use crate::store::Shared;

/// Intervals that are read at once.
const DEPTH: usize = 32;

impl Shared {
    /// The newest values of `keys`; `found` is called with each key's index, in any order.
    pub(crate) fn multi_get(
        &self,
        keys: &[&[u8]],
        found: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        let state = self.open_state()?;
        let mut flights: Flights<&[u8], usize> = Flights::new(DEPTH, &self.host.memory);
        let mut value = Vec::new();
        let mut failure = None;
        let mut tell = |index, version: Result<Option<Found>>, value: &[u8]| match version {
            Ok(version) => {
                let is_there = version.is_some_and(|version| version.is_value);
                found(index, is_there.then_some(value));
            }
            Err(error) => failure = Some(error),
        };
        for (index, &key) in keys.iter().enumerate() {
            let mut sought = self.find_in_memory(&state, key, SeqNo::MAX, &mut value)?;
            loop {
                let began = match sought {
                    Sought::Ended(version) => Began::Ended(version),
                    Sought::Cold(cold) => flights.begin(self, key, cold, index, &mut value)?,
                };
                match began {
                    Began::Ended(version) => tell(index, Ok(version), &value),
                    Began::Pending => {}
                    Began::Full => {
                        flights.complete(self, true, &mut |index, _, version, value| {
                            tell(index, version, value);
                        })?;
                        // What has come may have this key, too.
                        sought = self.find_in_memory(&state, key, SeqNo::MAX, &mut value)?;
                        continue;
                    }
                }
                break;
            }
        }
        while flights.pending() > 0 {
            flights.complete(self, true, &mut |index, _, version, value| {
                tell(index, version, value);
            })?;
        }
        failure.map_or(Ok(()), Err)
    }
}
