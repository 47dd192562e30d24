//! The form in which a user sees a keyspace's values.
//!
//! It is the stored form, or, if values may expire, the values without their expiry and without
//! values that have expired. So `get` and a client's GET show the same.

use thermocline::Expiring;

/// How the values of one keyspace are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueForm {
    /// In their stored form.
    Stored,
    /// Without their ends.
    Ending {
        /// The wall clock, in milliseconds since the Unix epoch: values that have expired are not
        /// there.
        now_ms: u64,
    },
}

/// A value as a user sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shown<'a> {
    pub(crate) bytes: &'a [u8],
    /// When it ends, in milliseconds since the Unix epoch.
    pub(crate) expires_ms: Option<u64>,
}

impl ValueForm {
    /// Returns the stored value as a user sees it; `None` if it has expired.
    ///
    /// # Errors
    /// It is no stored value, in words.
    pub(crate) fn show(self, stored: &[u8]) -> Result<Option<Shown<'_>>, String> {
        let Self::Ending { now_ms } = self else {
            return Ok(Some(Shown { bytes: stored, expires_ms: None }));
        };
        let whole = Expiring::decode(stored).map_err(|damage| damage.what)?;
        let shown = Shown { bytes: whole.value, expires_ms: whole.expiry_ms };
        Ok((!whole.is_expired(now_ms)).then_some(shown))
    }
}

#[cfg(test)]
mod tests;
