//! Methods of a keyspace handle for expiring values.

use std::borrow::Cow;
use std::time::Duration;

use codec::SeqNo;
use engine::{At, Op};

use super::format::{Expiring, expiry_of};
use super::operators::{Deciding, ExpiringChange, SetExpiry};
use super::reads::ClockReading;
use super::stats::ExpiryStats;
use crate::compare_and_swap::Swap;
use crate::error::{Error, Result};
use crate::keyspace::Keyspace;

/// How a handle shows and takes the values of a keyspace whose values may expire. For another
/// keyspace it makes no difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueForm {
    /// In the form that users know, without expired values.
    Values,
    /// In their stored form, expired or not.
    Stored,
}

/// The operations of a keyspace whose values may expire, with the expiry; see
/// [`Keyspace::expiring`]. Cheap to copy.
#[derive(Clone, Copy, Debug)]
pub struct ExpiringKeyspace<'k>(pub(super) &'k Keyspace);

impl Keyspace {
    /// Returns the operations of this handle that take or return the expiry of a value. All of them
    /// but [`ExpiringKeyspace::raw`] and [`ExpiringKeyspace::stats`] return [`Error::NotExpiring`]
    /// for a keyspace that was made without [`crate::KeyspaceOptions::expiring`]. Costs nothing.
    pub fn expiring(&self) -> ExpiringKeyspace<'_> {
        ExpiringKeyspace(self)
    }
}

impl ExpiringKeyspace<'_> {
    /// Gives `key` the value `value` until the wall clock reaches `expiry_ms`, in milliseconds
    /// since the Unix epoch: from then on no read shows it, and some time later it is removed. When
    /// this returns the value is visible and has reached this handle's durability.
    ///
    /// A moment that is not after now makes it a [`Keyspace::delete`]. A [`Keyspace::put`]
    /// afterwards gives the key a value that does not expire.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// use std::time::{Duration, SystemTime, UNIX_EPOCH};
    /// use thermocline::{Db, KeyspaceOptions, Options};
    /// let db = Db::open(dir.path(), Options::default())?;
    /// let options = KeyspaceOptions { expiring: true, ..Default::default() };
    /// let sessions = db.keyspace("sessions", options)?;
    /// let hour = SystemTime::now() + Duration::from_secs(3600);
    /// let hour_ms = hour.duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
    /// sessions.expiring().put(b"ada", b"logged in", hour_ms)?;
    /// sessions.expiring().put_with_ttl(b"bob", b"logged in", Duration::from_millis(1))?;
    /// std::thread::sleep(Duration::from_millis(5));
    /// assert_eq!(sessions.expiring().get(b"ada")?, Some((b"logged in".to_vec(), Some(hour_ms))));
    /// assert_eq!(sessions.get(b"bob")?, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NotExpiring`] from a keyspace that was made without
    /// [`crate::KeyspaceOptions::expiring`]; otherwise as [`Keyspace::put`].
    pub fn put(&self, key: &[u8], value: &[u8], expiry_ms: u64) -> Result<SeqNo> {
        let stored = self.0.stored_with_expiry(value, expiry_ms)?;
        self.0.inner.write_one(&self.0.entry, self.0.put_op(key, &stored), self.0.durability)
    }

    /// The same for `time` from now on. Longer than 64 bits of milliseconds is as long as they go.
    ///
    /// # Errors
    /// As [`ExpiringKeyspace::put`].
    pub fn put_with_ttl(&self, key: &[u8], value: &[u8], time: Duration) -> Result<SeqNo> {
        self.put(key, value, self.0.expiry_after(time))
    }

    /// Returns the key's present value and its expiry, as in [`Expiring::expiry_ms`]. Costs the
    /// same as a [`Keyspace::get`].
    ///
    /// # Errors
    /// [`Error::NotExpiring`]; otherwise as [`Keyspace::get`].
    pub fn get(&self, key: &[u8]) -> Result<Option<(Vec<u8>, Option<u64>)>> {
        self.0.check_expiring()?;
        self.0.inner.lifecycle.check_open()?;
        let instance = self.0.entry.current()?;
        // Before the engine is called [E1].
        let now_ms = self.0.inner.options.environment.wall_ms();
        let mut stored = Vec::new();
        if !instance.get_stored(key, At::Newest, &mut stored)? {
            return Ok(None);
        }
        let Expiring { value, expiry_ms } = Expiring::decode(&stored)?;
        if expiry_ms.is_some_and(|expiry_ms| expiry_ms <= now_ms) {
            return Ok(None);
        }
        let len = value.len();
        stored.truncate(len);
        Ok(Some((stored, expiry_ms)))
    }

    /// Sets the expiry of the key's value to `expiry_ms`, whatever its expiry was; a moment that is
    /// not after now removes the value. Returns whether there was a value. Costs the same as a
    /// [`Keyspace::rmw`].
    ///
    /// # Errors
    /// [`Error::NotExpiring`]; otherwise as [`Keyspace::rmw`].
    pub fn expire_at(&self, key: &[u8], expiry_ms: u64) -> Result<bool> {
        self.set_expiry(key, Some(expiry_ms)).map(|old| old.is_some())
    }

    /// Removes the expiry of the key's value, so that it stays until it is replaced or deleted.
    /// Returns whether there was a value with an expiry.
    ///
    /// # Errors
    /// As [`ExpiringKeyspace::expire_at`].
    pub fn persist(&self, key: &[u8]) -> Result<bool> {
        self.set_expiry(key, None).map(|old| old.flatten().is_some())
    }

    fn set_expiry(&self, key: &[u8], expiry_ms: Option<u64>) -> Result<Option<Option<u64>>> {
        self.0.check_expiring()?;
        let mut operator = SetExpiry::new(&self.0.inner.options.environment, expiry_ms);
        let done = self.0.inner.rmw(
            &self.0.entry,
            ValueForm::Stored,
            key,
            &mut operator,
            self.0.durability,
        );
        operator.outcome(done)
    }

    /// [`Keyspace::rmw`] with the expiry: `update` gets the present value with its expiry, and
    /// returns the change of both. ([`Keyspace::rmw`] itself keeps the expiry.)
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// use thermocline::{ExpiringChange, Db, KeyspaceOptions, Options};
    /// let db = Db::open(dir.path(), Options::default())?;
    /// let options = KeyspaceOptions { expiring: true, ..Default::default() };
    /// let leases = db.keyspace("leases", options)?;
    /// let now_ms = db.now_ms();
    /// // Takes a lease that is free, or one's own for longer.
    /// let take = |name: &[u8]| {
    ///     leases.expiring().rmw(b"leader", |lease| match lease {
    ///         Some(lease) if lease.value != name => ExpiringChange::Keep,
    ///         _ => ExpiringChange::Put { value: name.to_vec(), expiry_ms: Some(now_ms + 10_000) },
    ///     })
    /// };
    /// assert!(take(b"ada")?.is_some());
    /// assert!(take(b"bob")?.is_none());
    /// assert_eq!(leases.get(b"leader")?.as_deref(), Some(&b"ada"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NotExpiring`]; otherwise as [`Keyspace::rmw`].
    pub fn rmw(
        &self,
        key: &[u8],
        update: impl FnMut(Option<Expiring<'_>>) -> ExpiringChange,
    ) -> Result<Option<SeqNo>> {
        self.0.check_expiring()?;
        let mut operator = Deciding::new(&self.0.inner.options.environment, update);
        let done = self.0.inner.rmw(
            &self.0.entry,
            ValueForm::Stored,
            key,
            &mut operator,
            self.0.durability,
        );
        operator.outcome(done)
    }

    /// [`Keyspace::compare_and_swap`] whose new value expires at `expiry_ms`: a lease is taken with
    /// no expected value, and renewed with one's own. (That method itself keeps the expiry.)
    ///
    /// # Errors
    /// [`Error::NotExpiring`]; otherwise as [`Keyspace::rmw`].
    pub fn compare_and_swap(
        &self,
        key: &[u8],
        expected: Option<&[u8]>,
        new: &[u8],
        expiry_ms: u64,
    ) -> Result<Swap> {
        let mut other = None;
        let seqno = self.rmw(key, |old| {
            let present = old.map(|old| old.value);
            other = (present != expected).then(|| present.map(<[u8]>::to_vec));
            match other {
                Some(_) => ExpiringChange::Keep,
                None => ExpiringChange::Put { value: new.to_vec(), expiry_ms: Some(expiry_ms) },
            }
        })?;
        Ok(match other {
            Some(present) => Swap::Refused { present },
            None => Swap::Done { seqno },
        })
    }

    /// Returns the same keyspace by a handle that shows and takes values in their stored form, a
    /// [`Expiring`]. It is for a caller that wants the expiry in scans, batches and transactions
    /// too, and decides itself which values have expired. Reads show an expired value until it is
    /// removed. A put of bytes that are no stored value is refused ([`Error::NotStored`]). For a
    /// keyspace whose values do not expire, this handle is no different.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// use thermocline::{Db, KeyRange, KeyspaceOptions, Options, Expiring};
    /// let db = Db::open(dir.path(), Options::default())?;
    /// let options = KeyspaceOptions { expiring: true, ..Default::default() };
    /// let leases = db.keyspace("leases", options)?;
    /// let expiry_ms = db.now_ms() + 10_000;
    /// leases.expiring().put(b"leader", b"ada", expiry_ms)?;
    /// for pair in leases.expiring().raw().scan(KeyRange::all())? {
    ///     let (_, stored) = pair?;
    ///     let lease = Expiring::decode(&stored)?;
    ///     assert_eq!(lease, Expiring { value: b"ada", expiry_ms: Some(expiry_ms) });
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn raw(&self) -> Keyspace {
        Keyspace { form: ValueForm::Stored, ..self.0.clone() }
    }

    /// Returns counts of expiring values and of removed keys; `None` for a keyspace whose values do
    /// not expire. Costs a few loads.
    pub fn stats(&self) -> Result<Option<ExpiryStats>> {
        self.0.inner.lifecycle.check_process()?;
        Ok(self.0.entry.current()?.expiry.as_ref().map(|expiry| expiry.stats()))
    }
}

impl Keyspace {
    /// Returns the moment that is `time` from now on.
    pub(crate) fn expiry_after(&self, time: Duration) -> u64 {
        let time_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.inner.options.environment.wall_ms().saturating_add(time_ms)
    }

    /// Returns an error if the keyspace was not made for expiring values.
    pub(crate) fn check_expiring(&self) -> Result<()> {
        if self.entry.options.expiring {
            return Ok(());
        }
        Err(Error::NotExpiring { keyspace: self.name().to_owned() })
    }

    /// Returns whether the form that its users see differs from the stored form.
    pub(crate) fn hides_expiry(&self) -> bool {
        self.entry.options.expiring && self.form == ValueForm::Values
    }

    /// Returns the stored form of a value that is given to this handle and does not expire.
    ///
    /// # Errors
    /// [`Error::NotStored`].
    pub(crate) fn stored<'v>(&self, value: &'v [u8]) -> Result<Cow<'v, [u8]>> {
        if self.hides_expiry() {
            return Ok(Cow::Owned(Expiring { value, expiry_ms: None }.to_stored()));
        }
        self.check_stored(value)?;
        Ok(Cow::Borrowed(value))
    }

    /// Returns the stored form of a value that expires. Such a value is always given in the form
    /// that users know.
    ///
    /// # Errors
    /// [`Error::NotExpiring`].
    pub(crate) fn stored_with_expiry(&self, value: &[u8], expiry_ms: u64) -> Result<Vec<u8>> {
        self.check_expiring()?;
        Ok(Expiring { value, expiry_ms: Some(expiry_ms) }.to_stored())
    }

    /// Refuses a value that cannot be stored here.
    ///
    /// # Errors
    /// [`Error::NotStored`].
    pub(crate) fn check_stored(&self, stored: &[u8]) -> Result<()> {
        if self.entry.options.expiring {
            Expiring::decode(stored).map_err(Error::NotStored)?;
        }
        Ok(())
    }

    /// Returns a put of `stored`, or a delete if that value has already expired.
    pub(crate) fn put_op<'a>(&self, key: &'a [u8], stored: &'a [u8]) -> Op<'a> {
        self.op_unless(key, stored, |expiry_ms| {
            expiry_ms <= self.inner.options.environment.wall_ms()
        })
    }

    /// The same with the clock at `moment`.
    pub(crate) fn put_op_at<'a>(
        &self,
        moment: ClockReading,
        key: &'a [u8],
        stored: &'a [u8],
    ) -> Op<'a> {
        self.op_unless(key, stored, |expiry_ms| expiry_ms <= moment.now_ms)
    }

    fn op_unless<'a>(
        &self,
        key: &'a [u8],
        stored: &'a [u8],
        is_past: impl FnOnce(u64) -> bool,
    ) -> Op<'a> {
        let expiry_ms = if self.entry.options.expiring { expiry_of(stored) } else { None };
        match expiry_ms.is_some_and(is_past) {
            true => Op::Delete { key },
            false => Op::Put { key, value: stored },
        }
    }

    /// Returns the form in which this handle shows a value that is stored like this and has not
    /// expired.
    pub(crate) fn shown<'a>(&self, stored: &'a [u8]) -> &'a [u8] {
        match Expiring::decode(stored) {
            Ok(whole) if self.hides_expiry() => whole.value,
            _ => stored,
        }
    }
}
