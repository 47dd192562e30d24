//! The space's failures as errors for the users of the store.

use std::sync::Arc;

use codec::Corruption;
use engine::Error;
use flexspace::space;

/// The file that holds the pairs.
pub(crate) const DATA: &str = "data";

/// The file without which there is no space.
pub(crate) const SUPERBLOCK: &str = engine::Superblock::NAME;

/// The same failure in the engines' words.
pub(crate) fn from_space(error: space::Error) -> Error {
    match error {
        space::Error::Corruption(damage) => Error::Corruption(damage.at(DATA, 0)),
        space::Error::NewerVersion(newer) => Error::NewerVersion(newer),
        space::Error::Device(error) => Error::Device(error),
        space::Error::Closed => Error::Closed,
        space::Error::ReadOnly { cause } => {
            Error::ReadOnly { cause: Arc::new(from_space((*cause).clone())) }
        }
        space::Error::NoSpace { .. } | space::Error::Uncollected => {
            Error::Device(device::Error::NoSpace { name: DATA.to_owned() })
        }
        other => Error::Corruption(Corruption::new(other.to_string(), 0).at(DATA, 0)),
    }
}
