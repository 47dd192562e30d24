//! What a keyspace's values look like to a user: as they are stored, or, in the keyspaces that the
//! server answers Redis clients from, without the tag and the expiry that it stores them with.
//!
//! So `put` and a client's SET write the same bytes, and `get` and a client's GET show the same.

use server::Stored;

/// How the values of one keyspace are written and read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueForm {
    /// As they are.
    Plain,
    /// As the server's.
    Served {
        /// The wall clock, in milliseconds since the Unix epoch: what has expired is not there.
        now_ms: u64,
    },
    /// As the server stores them, shown and taken with tag and expiry.
    ServedAsStored,
}

/// A value as a user sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shown<'a> {
    pub(crate) bytes: &'a [u8],
    /// When it ends, in milliseconds since the Unix epoch.
    pub(crate) expires_ms: Option<u64>,
}

impl ValueForm {
    /// The form of the values of `keyspace`.
    pub(crate) fn of(keyspace: &str, as_stored: bool, now_ms: u64) -> Self {
        match (server::is_database_name(keyspace), as_stored) {
            (false, _) => Self::Plain,
            (true, false) => Self::Served { now_ms },
            (true, true) => Self::ServedAsStored,
        }
    }

    /// What a user sees of the stored value; `None` if it has expired.
    ///
    /// # Errors
    /// It is no value of the server's, in words.
    pub(crate) fn show(self, stored: &[u8]) -> Result<Option<Shown<'_>>, String> {
        let Self::Served { now_ms } = self else {
            return Ok(Some(Shown { bytes: stored, expires_ms: None }));
        };
        let value = Stored::decode(stored).map_err(|damage| damage.what)?;
        let shown = Shown { bytes: value.payload, expires_ms: value.expiry_ms };
        Ok((!value.is_expired(now_ms)).then_some(shown))
    }

    /// The bytes to store for the value that a user gave. In a served keyspace it never expires.
    ///
    /// # Errors
    /// It was to be stored as it is, and the server could not read it.
    pub(crate) fn stored(self, given: Vec<u8>) -> Result<Vec<u8>, String> {
        match self {
            Self::Plain => Ok(given),
            Self::Served { .. } => Ok(Stored { expiry_ms: None, payload: &given }.to_bytes()),
            Self::ServedAsStored => match Stored::decode(&given) {
                Ok(_) => Ok(given),
                Err(damage) => Err(damage.what),
            },
        }
    }
}

#[cfg(test)]
mod tests;
