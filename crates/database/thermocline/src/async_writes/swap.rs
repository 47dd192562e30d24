//! A compare-and-swap as a future: an update whose operator notes the value that it found, if that
//! is not the expected one.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use sync::locks::Mutex;

use super::{AsyncUpdate, Writing};
use crate::async_keyspace::AsyncKeyspace;
use crate::compare_and_swap::{LaterSwap, Swap};
use crate::error::Result;
use crate::expiry::ExpiringChange;

/// A compare-and-swap under way: its outcome. See [`AsyncKeyspace::compare_and_swap`].
#[must_use = "a future does nothing unless it is polled"]
pub struct AsyncSwap {
    update: Writing,
    /// The value that the last call of the operator found, if that is not the expected one.
    other: Other,
}

/// The value that an operator found instead of the expected one. The outer `None` means that it
/// found the expected one, the inner `None` that the key has no value.
pub(crate) type Other = Arc<Mutex<Option<Option<Vec<u8>>>>>;

impl AsyncKeyspace<'_> {
    /// [`crate::Keyspace::compare_and_swap`] as a future. It costs, and takes place, as
    /// [`AsyncKeyspace::rmw`], and can be dropped as [`AsyncKeyspace::put`] says.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// use futures::executor::block_on; use thermocline::{Db, Options, Swap}; let db =
    /// Db::open(dir.path(), Options::default())?; let leases = db.keyspace("leases",
    /// Default::default())?; block_on(async { assert!(leases.futures().compare_and_swap(b"leader",
    /// None, Some(b"ada")).await?.is_done()); let refused =
    /// leases.futures().compare_and_swap(b"leader", None, Some(b"bob")).await?; assert_eq!(refused,
    /// Swap::Refused { present: Some(b"ada".to_vec()) }); Ok::<(), thermocline::Error>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`crate::Keyspace::compare_and_swap`]; [`crate::Error::Closed`] as
    /// [`AsyncKeyspace::put`].
    pub fn compare_and_swap(
        &self,
        key: &[u8],
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> AsyncSwap {
        let other = Other::default();
        let operator = LaterSwap::new(expected, new, &other);
        let AsyncUpdate(update) = self.rmw_with(key, operator);
        AsyncSwap { update, other }
    }

    /// [`crate::ExpiringKeyspace::compare_and_swap`] as a future, in the same way.
    ///
    /// # Errors
    /// As [`crate::ExpiringKeyspace::compare_and_swap`]; [`crate::Error::Closed`] as
    /// [`AsyncKeyspace::put`].
    pub fn compare_and_swap_with_expiry(
        &self,
        key: &[u8],
        expected: Option<&[u8]>,
        new: &[u8],
        expiry_ms: u64,
    ) -> AsyncSwap {
        let other = Other::default();
        let (found, expected) = (Arc::clone(&other), expected.map(<[u8]>::to_vec));
        let new = new.to_vec();
        let AsyncUpdate(update) = self.rmw_with_expiry(key, move |old| {
            let present = old.map(|old| old.value);
            let is_other = present != expected.as_deref();
            *found.lock() = is_other.then(|| present.map(<[u8]>::to_vec));
            match is_other {
                true => ExpiringChange::Keep,
                false => ExpiringChange::Put { value: new.clone(), expiry_ms: Some(expiry_ms) },
            }
        });
        AsyncSwap { update, other }
    }
}

impl Future for AsyncSwap {
    type Output = Result<Swap>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<Swap>> {
        let polled = self.update.poll(context);
        // Ready: nothing else uses the operator's lock.
        polled.map_ok(|seqno| match self.other.lock().take() {
            Some(present) => Swap::Refused { present },
            None => Swap::Done { seqno },
        })
    }
}

impl fmt::Debug for AsyncSwap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.update.fmt("AsyncSwap", f)
    }
}
