//! Which side of a copy has failed: the directory that is copied, or the one that is written.

use std::fmt;
use std::sync::Arc;

use device::{Device, ObservedDevice};

use crate::error::{Error, Result};

/// A side of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopySide {
    /// The directory that is copied.
    Source,
    /// The directory that is written.
    Target,
}

impl fmt::Display for CopySide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Source => "the source",
            Self::Target => "the target",
        })
    }
}

impl CopySide {
    /// Returns the failure of this side, which is `place`. Only failures of the storage, and
    /// damage, are of a side.
    pub(crate) fn fail(self, place: &str, cause: Error) -> Error {
        let is_of_a_side = cause.device_cause().is_some() || cause.corruption().is_some();
        if !is_of_a_side || matches!(cause, Error::Copy { .. }) {
            return cause;
        }
        Error::Copy { side: self, place: place.to_owned(), cause: Arc::new(cause) }
    }
}

/// The target of a copy. It distinguishes its own failures from failures of the source.
#[derive(Debug)]
pub(crate) struct CopyTarget {
    device: Arc<ObservedDevice>,
    place: String,
}

impl CopyTarget {
    pub(crate) fn new(device: Arc<dyn Device>, place: &str) -> Self {
        Self { device: ObservedDevice::new(device), place: place.to_owned() }
    }

    /// Returns the device to write to.
    pub(crate) fn device(&self) -> Arc<dyn Device> {
        Arc::clone(&self.device) as Arc<dyn Device>
    }

    /// The same outcome; a failure names its side, of which `source` is the other one.
    pub(crate) fn attribute<T>(&self, outcome: Result<T>, source: &str) -> Result<T> {
        outcome.map_err(|error| {
            let cause = error.device_cause();
            let is_here = cause.is_some_and(|cause| self.device.has_failed_by(cause));
            let (side, place) = match is_here {
                true => (CopySide::Target, self.place.as_str()),
                false => (CopySide::Source, source),
            };
            side.fail(place, error)
        })
    }
}
