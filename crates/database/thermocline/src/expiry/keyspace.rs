//! What a handle to a keyspace offers about ends.

use std::borrow::Cow;
use std::time::Duration;

use codec::SeqNo;
use engine::Op;

use super::format::{WithEnd, end_of};
use super::operators::{ChangeWithEnd, Deciding, SetEnd};
use super::reads::Moment;
use super::stats::ExpiryStats;
use crate::compare_and_swap::Swap;
use crate::error::{Error, Result};
use crate::keyspace::Keyspace;

/// How a handle shows and takes the values of a keyspace whose values may end. Of another one there is no
/// difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// As its users know them, without what has ended.
    Values,
    /// As they are stored, ended or not.
    Stored,
}

impl Keyspace {
    /// Gives `key` the value `value` until the wall clock says `end_ms`, in milliseconds since the Unix
    /// epoch: from then on no read shows it, and some time later it is removed. When this returns it is
    /// visible and has reached this handle's durability.
    ///
    /// A moment that is not after now makes it a [`Keyspace::delete`]. A [`Keyspace::put`] afterwards gives
    /// the key a value that does not end.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// use std::time::{Duration, SystemTime, UNIX_EPOCH};
    /// use thermocline::{Db, KeyspaceOptions, Options};
    /// let db = Db::open(dir.path(), Options::default())?;
    /// let options = KeyspaceOptions { values_end: true, ..Default::default() };
    /// let sessions = db.keyspace("sessions", options)?;
    /// let hour = SystemTime::now() + Duration::from_secs(3600);
    /// let hour_ms = hour.duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
    /// sessions.put_until(b"ada", b"logged in", hour_ms)?;
    /// sessions.put_for(b"bob", b"logged in", Duration::from_millis(1))?;
    /// std::thread::sleep(Duration::from_millis(5));
    /// assert_eq!(sessions.get_with_end(b"ada")?, Some((b"logged in".to_vec(), Some(hour_ms))));
    /// assert_eq!(sessions.get(b"bob")?, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NoEnds`] from a keyspace that was made without [`crate::KeyspaceOptions::values_end`];
    /// otherwise as [`Keyspace::put`].
    pub fn put_until(&self, key: &[u8], value: &[u8], end_ms: u64) -> Result<SeqNo> {
        let stored = self.stored_until(value, end_ms)?;
        self.inner.write_one(&self.slot, self.put_op(key, &stored), self.durability)
    }

    /// The same for `time` from now on. Longer than 64 bits of milliseconds is as long as they go.
    ///
    /// # Errors
    /// As [`Keyspace::put_until`].
    pub fn put_for(&self, key: &[u8], value: &[u8], time: Duration) -> Result<SeqNo> {
        self.put_until(key, value, self.end_after(time))
    }

    /// When it is `time` from now on.
    pub(crate) fn end_after(&self, time: Duration) -> u64 {
        let time_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.inner.options.environment.wall_ms().saturating_add(time_ms)
    }

    /// The key's present value, and when it ends, as in [`WithEnd::end_ms`]. Costs what a
    /// [`Keyspace::get`] does.
    ///
    /// # Errors
    /// [`Error::NoEnds`]; otherwise as [`Keyspace::get`].
    pub fn get_with_end(&self, key: &[u8]) -> Result<Option<(Vec<u8>, Option<u64>)>> {
        self.check_ends()?;
        self.inner.check_open()?;
        let generation = self.slot.current()?;
        // Before the engine is asked [E1].
        let now_ms = self.inner.options.environment.wall_ms();
        let mut stored = Vec::new();
        if !generation.engine.get(key, &mut stored)? {
            return Ok(None);
        }
        let WithEnd { value, end_ms } = WithEnd::decode(&stored)?;
        if end_ms.is_some_and(|end_ms| end_ms <= now_ms) {
            return Ok(None);
        }
        let len = value.len();
        stored.truncate(len);
        Ok(Some((stored, end_ms)))
    }

    /// Has the key's value end at `end_ms`, whatever its end was; a moment that is not after now removes
    /// it. Whether there was a value. Costs what a [`Keyspace::rmw`] does.
    ///
    /// # Errors
    /// [`Error::NoEnds`]; otherwise as [`Keyspace::rmw`].
    pub fn expire_at(&self, key: &[u8], end_ms: u64) -> Result<bool> {
        self.set_end(key, Some(end_ms)).map(|old| old.is_some())
    }

    /// Has the key's value stay until it is replaced or deleted. Whether there was one that had an end.
    ///
    /// # Errors
    /// As [`Keyspace::expire_at`].
    pub fn persist(&self, key: &[u8]) -> Result<bool> {
        self.set_end(key, None).map(|old| old.flatten().is_some())
    }

    fn set_end(&self, key: &[u8], end_ms: Option<u64>) -> Result<Option<Option<u64>>> {
        self.check_ends()?;
        let mut operator = SetEnd::new(&self.inner.options.environment, end_ms);
        let done = self.inner.rmw(&self.slot, Form::Stored, key, &mut operator, self.durability);
        operator.outcome(done)
    }

    /// [`Keyspace::rmw`] with the end: `update` is told the present value with its end, and says what
    /// becomes of both. ([`Keyspace::rmw`] itself leaves the end as it is.)
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// use thermocline::{ChangeWithEnd, Db, KeyspaceOptions, Options};
    /// let db = Db::open(dir.path(), Options::default())?;
    /// let options = KeyspaceOptions { values_end: true, ..Default::default() };
    /// let leases = db.keyspace("leases", options)?;
    /// let now_ms = db.now_ms();
    /// // Takes a lease that is free, or one's own for longer.
    /// let take = |who: &[u8]| {
    ///     leases.rmw_with_end(b"leader", |lease| match lease {
    ///         Some(lease) if lease.value != who => ChangeWithEnd::Keep,
    ///         _ => ChangeWithEnd::Put { value: who.to_vec(), end_ms: Some(now_ms + 10_000) },
    ///     })
    /// };
    /// assert!(take(b"ada")?.is_some());
    /// assert!(take(b"bob")?.is_none());
    /// assert_eq!(leases.get(b"leader")?.as_deref(), Some(&b"ada"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NoEnds`]; otherwise as [`Keyspace::rmw`].
    pub fn rmw_with_end(
        &self,
        key: &[u8],
        update: impl FnMut(Option<WithEnd<'_>>) -> ChangeWithEnd,
    ) -> Result<Option<SeqNo>> {
        self.check_ends()?;
        let mut operator = Deciding::new(&self.inner.options.environment, update);
        let done = self.inner.rmw(&self.slot, Form::Stored, key, &mut operator, self.durability);
        operator.outcome(done)
    }

    /// [`Keyspace::compare_and_swap`] whose new value ends at `end_ms`: a lease is taken with no
    /// expected value, and renewed with one's own. (That one leaves the end as it is.)
    ///
    /// # Errors
    /// [`Error::NoEnds`]; otherwise as [`Keyspace::rmw`].
    pub fn compare_and_swap_until(
        &self,
        key: &[u8],
        expected: Option<&[u8]>,
        new: &[u8],
        end_ms: u64,
    ) -> Result<Swap> {
        let mut other = None;
        let seqno = self.rmw_with_end(key, |old| {
            let present = old.map(|old| old.value);
            other = (present != expected).then(|| present.map(<[u8]>::to_vec));
            match other {
                Some(_) => ChangeWithEnd::Keep,
                None => ChangeWithEnd::Put { value: new.to_vec(), end_ms: Some(end_ms) },
            }
        })?;
        Ok(match other {
            Some(present) => Swap::Refused { present },
            None => Swap::Done { seqno },
        })
    }

    /// The same keyspace by a handle that shows and takes values as they are stored, which is a
    /// [`WithEnd`]: for whoever wants the ends of scans, batches and transactions too, and judges for
    /// himself what has ended. Reads show what has ended as long as nobody has removed it, and what is put
    /// is refused if it is none ([`Error::NotStored`]). Of a keyspace whose values do not end it is no
    /// other handle.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// use thermocline::{Db, KeyRange, KeyspaceOptions, Options, WithEnd};
    /// let db = Db::open(dir.path(), Options::default())?;
    /// let options = KeyspaceOptions { values_end: true, ..Default::default() };
    /// let leases = db.keyspace("leases", options)?;
    /// let end_ms = db.now_ms() + 10_000;
    /// leases.put_until(b"leader", b"ada", end_ms)?;
    /// for pair in leases.as_stored().scan(KeyRange::all())? {
    ///     let (_, stored) = pair?;
    ///     let lease = WithEnd::decode(&stored)?;
    ///     assert_eq!(lease, WithEnd { value: b"ada", end_ms: Some(end_ms) });
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn as_stored(&self) -> Self {
        Self { form: Form::Stored, ..self.clone() }
    }

    /// What is known of the ends; `None` of a keyspace whose values do not end. A few loads.
    pub fn expiry_stats(&self) -> Result<Option<ExpiryStats>> {
        self.inner.check_process()?;
        Ok(self.slot.current()?.expiry.as_ref().map(|expiry| expiry.stats()))
    }

    /// Refuses where values do not end.
    pub(crate) fn check_ends(&self) -> Result<()> {
        if self.slot.options.values_end {
            return Ok(());
        }
        Err(Error::NoEnds { keyspace: self.name().to_owned() })
    }

    /// Whether what its users see is not what is stored.
    pub(crate) fn hides_ends(&self) -> bool {
        self.slot.options.values_end && self.form == Form::Values
    }

    /// What is stored for a value that is given to this handle and does not end.
    ///
    /// # Errors
    /// [`Error::NotStored`].
    pub(crate) fn stored<'v>(&self, value: &'v [u8]) -> Result<Cow<'v, [u8]>> {
        if self.hides_ends() {
            return Ok(Cow::Owned(WithEnd { value, end_ms: None }.to_stored()));
        }
        self.check_stored(value)?;
        Ok(Cow::Borrowed(value))
    }

    /// What is stored for a value that ends, which is always given as a user knows it.
    ///
    /// # Errors
    /// [`Error::NoEnds`].
    pub(crate) fn stored_until(&self, value: &[u8], end_ms: u64) -> Result<Vec<u8>> {
        self.check_ends()?;
        Ok(WithEnd { value, end_ms: Some(end_ms) }.to_stored())
    }

    /// Refuses what cannot be stored here.
    ///
    /// # Errors
    /// [`Error::NotStored`].
    pub(crate) fn check_stored(&self, stored: &[u8]) -> Result<()> {
        if self.slot.options.values_end {
            WithEnd::decode(stored).map_err(Error::NotStored)?;
        }
        Ok(())
    }

    /// A put of what is stored, or a delete if that has ended by now.
    pub(crate) fn put_op<'a>(&self, key: &'a [u8], stored: &'a [u8]) -> Op<'a> {
        self.op_unless(key, stored, |end_ms| end_ms <= self.inner.options.environment.wall_ms())
    }

    /// The same with the clock at `moment`.
    pub(crate) fn put_op_at<'a>(&self, moment: Moment, key: &'a [u8], stored: &'a [u8]) -> Op<'a> {
        self.op_unless(key, stored, |end_ms| end_ms <= moment.now_ms)
    }

    fn op_unless<'a>(
        &self,
        key: &'a [u8],
        stored: &'a [u8],
        is_past: impl FnOnce(u64) -> bool,
    ) -> Op<'a> {
        let end_ms = if self.slot.options.values_end { end_of(stored) } else { None };
        match end_ms.is_some_and(is_past) {
            true => Op::Delete { key },
            false => Op::Put { key, value: stored },
        }
    }

    /// What this handle shows of a value that is stored so and has not ended.
    pub(crate) fn shown<'a>(&self, stored: &'a [u8]) -> &'a [u8] {
        match WithEnd::decode(stored) {
            Ok(whole) if self.hides_ends() => whole.value,
            _ => stored,
        }
    }
}
