//! The logs of one range, as their owner changes them.

use std::sync::Arc;

use logc::{Change, LogRecord, Registry, RegistryError};
use stoc::{Epoch, Kind, RangeId};

use crate::coordinator::Coordinator;
use crate::descriptor::Refusal;
use crate::error::Error;

/// The records of the logs of one range.
#[derive(Clone, Debug)]
pub struct RangeLogs {
    coordinator: Arc<Coordinator>,
    range: RangeId,
}

impl RangeLogs {
    /// Returns those of `range`.
    pub fn new(coordinator: Arc<Coordinator>, range: RangeId) -> Self {
        Self { coordinator, range }
    }
}

/// A missing range, and one with another epoch, belongs to another owner.
fn refusal(error: Error) -> RegistryError {
    match error {
        Error::NoRange(_) | Error::Refused { .. } => RegistryError::Fenced,
        other => RegistryError::Unavailable(other.to_string()),
    }
}

impl Registry for RangeLogs {
    fn load(&self, kind: Kind) -> Result<LogRecord, RegistryError> {
        let descriptor = self.coordinator.range(self.range).map_err(refusal)?;
        Ok(descriptor.log_of(kind).clone())
    }

    fn change(&self, epoch: Epoch, changes: &[Change]) -> Result<(), RegistryError> {
        let changed = self.coordinator.change_range(self.range, |descriptor| {
            descriptor.check_epoch(epoch)?;
            for Change { kind, before, after } in changes {
                let record = descriptor.log_of_mut(*kind);
                if *record != *before {
                    return Err(Refusal::OtherLog);
                }
                *record = after.clone();
            }
            Ok(())
        });
        changed.map(|_| ()).map_err(refusal)
    }
}
