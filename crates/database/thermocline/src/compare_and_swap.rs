//! Writing a key's value only if it is the one that was expected.

use std::sync::Arc;

use codec::SeqNo;
use engine::{Change, Operator};

use crate::async_writes::Other;
use crate::error::Result;
use crate::keyspace::Keyspace;

/// The outcome of [`Keyspace::compare_and_swap`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Swap {
    /// The value was the expected one, and now is the new one.
    Done {
        /// The write's number; `None` if there was no value, and the new one is none either.
        seqno: Option<SeqNo>,
    },
    /// It was another one, and still is.
    Refused {
        /// The key's value instead; `None` if it had no value.
        present: Option<Vec<u8>>,
    },
}

impl Swap {
    /// Returns whether the new value is there.
    pub fn is_done(&self) -> bool {
        matches!(self, Self::Done { .. })
    }
}

/// Of the calls for one write the last one counts.
struct CompareAndSwap<'a> {
    expected: Option<&'a [u8]>,
    new: Option<&'a [u8]>,
    /// The key's value, if it was not the expected one.
    other: Option<Option<Vec<u8>>>,
}

impl Operator for CompareAndSwap<'_> {
    fn update_in_place(&mut self, value: &mut [u8]) -> bool {
        self.other = None;
        match self.new {
            Some(new) if new.len() == value.len() && self.expected == Some(&*value) => {
                value.copy_from_slice(new);
                true
            }
            _ => false,
        }
    }

    fn update(&mut self, value: Option<&[u8]>) -> Change {
        self.other = (value != self.expected).then(|| value.map(<[u8]>::to_vec));
        match self.new {
            _ if self.other.is_some() => Change::Keep,
            Some(new) => Change::Put(new.to_vec()),
            None => Change::Delete,
        }
    }
}

/// The same for a thread that does it later.
pub(crate) struct LaterSwap {
    expected: Option<Vec<u8>>,
    new: Option<Vec<u8>>,
    other: Other,
}

impl LaterSwap {
    pub(crate) fn new(expected: Option<&[u8]>, new: Option<&[u8]>, other: &Other) -> Self {
        let [expected, new] = [expected, new].map(|value| value.map(<[u8]>::to_vec));
        Self { expected, new, other: Arc::clone(other) }
    }

    fn ask<T>(&mut self, ask: impl FnOnce(&mut CompareAndSwap<'_>) -> T) -> T {
        let (expected, new) = (self.expected.as_deref(), self.new.as_deref());
        let mut once = CompareAndSwap { expected, new, other: None };
        let answer = ask(&mut once);
        *self.other.lock() = once.other;
        answer
    }
}

impl Operator for LaterSwap {
    fn update_in_place(&mut self, value: &mut [u8]) -> bool {
        self.ask(|once| once.update_in_place(value))
    }

    fn update(&mut self, value: Option<&[u8]>) -> Change {
        self.ask(|once| once.update(value))
    }
}

impl Keyspace {
    /// Atomically gives `key` the value `new` if it has the value `expected`; `None` is no value,
    /// for either. When this returns a swap that was done is visible and has reached this handle's
    /// durability. Costs the same as a [`Keyspace::rmw`].
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// use thermocline::{Db, Options, Swap};
    /// let db = Db::open(dir.path(), Options::default())?;
    /// let leases = db.keyspace("leases", Default::default())?;
    /// assert!(leases.compare_and_swap(b"leader", None, Some(b"ada"))?.is_done());
    /// let refused = leases.compare_and_swap(b"leader", None, Some(b"bob"))?;
    /// assert_eq!(refused, Swap::Refused { present: Some(b"ada".to_vec()) });
    /// assert!(leases.compare_and_swap(b"leader", Some(b"ada"), None)?.is_done());
    /// assert_eq!(leases.get(b"leader")?, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Keyspace::rmw`].
    pub fn compare_and_swap(
        &self,
        key: &[u8],
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<Swap> {
        let mut operator = CompareAndSwap { expected, new, other: None };
        let seqno = self.rmw_with(key, &mut operator)?;
        Ok(match operator.other {
            Some(present) => Swap::Refused { present },
            None => Swap::Done { seqno },
        })
    }
}
