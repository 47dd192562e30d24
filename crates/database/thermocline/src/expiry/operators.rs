//! Operators of read-modify-writes on values in their stored form.
//!
//! Each reads the clock when it is called, while no other write of the key can take place [E1]. A
//! read-modify-write keeps the expiry of the value, unless it sets another one. A put whose expiry
//! is past is a delete.

use codec::Corruption;
use engine::{Change, Operator};
use environment::Environment;

use super::format::{Expiring, push_trailer, replace_expiry};
use super::keyspace::ValueForm;
use super::reads::ClockReading;
use crate::error::{Error, Result};

/// The change by a read-modify-write that also concerns the expiry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExpiringChange {
    /// The key has this value from now on.
    Put {
        /// The value.
        value: Vec<u8>,
        /// When it expires; as in [`Expiring::expiry_ms`].
        expiry_ms: Option<u64>,
    },
    /// The key is absent from now on. If it has only an expired value, nothing changes, and the
    /// expiry sweep removes that value.
    Delete,
    /// Nothing changes.
    Keep,
}

/// Decodes a stored value. Returns `None` if there is none or it has expired.
fn living<'a>(
    stored: Option<&'a [u8]>,
    moment: ClockReading,
) -> std::result::Result<Option<Expiring<'a>>, Corruption> {
    let whole = stored.map(Expiring::decode).transpose()?;
    Ok(whole.filter(|whole| !whole.is_expired(moment.now_ms)))
}

/// Returns the stored form that replaces `stored` if `update` changes the value, with the clock at
/// `moment`. The expiry does not change.
pub(crate) fn change_living(
    moment: ClockReading,
    stored: Option<&[u8]>,
    update: impl FnOnce(Option<&[u8]>) -> Result<Change>,
) -> Result<Change> {
    let old = living(stored, moment)?;
    Ok(match update(old.map(|old| old.value))? {
        Change::Put(mut value) => {
            push_trailer(&mut value, old.and_then(|old| old.expiry_ms));
            Change::Put(value)
        }
        // An expired value counts as absent, and is left to the expiry sweep.
        Change::Delete if old.is_none() => Change::Keep,
        change => change,
    })
}

/// A user's operator, applied to values in their stored form.
pub(crate) struct OnStored<'a> {
    operator: &'a mut dyn Operator,
    form: ValueForm,
    environment: &'a Environment,
    /// Of the last call: then it has changed nothing.
    failure: Option<Error>,
}

impl<'a> OnStored<'a> {
    pub(crate) fn new(
        operator: &'a mut dyn Operator,
        form: ValueForm,
        environment: &'a Environment,
    ) -> Self {
        Self { operator, form, environment, failure: None }
    }

    /// Returns the outcome of the read-modify-write, which is `done` as far as the engine knows.
    pub(crate) fn outcome<T>(self, done: Result<T>) -> Result<T> {
        self.failure.map_or(done, Err)
    }

    fn update_living(&mut self, stored: Option<&[u8]>) -> Result<Change> {
        let moment = ClockReading::now(self.environment);
        change_living(moment, stored, |value| Ok(self.operator.update(value)))
    }

    fn update_stored(&mut self, stored: Option<&[u8]>) -> Result<Change> {
        let change = self.operator.update(stored);
        if let Change::Put(stored) = &change {
            Expiring::decode(stored).map_err(Error::NotStored)?;
        }
        Ok(change)
    }
}

impl Operator for OnStored<'_> {
    fn update_in_place(&mut self, stored: &mut [u8]) -> bool {
        self.failure = None;
        if self.form == ValueForm::Stored {
            // The operator might change the trailer, and only its call would show it.
            return false;
        }
        let moment = ClockReading::now(self.environment);
        let Ok(Some(old)) = living(Some(&*stored), moment) else { return false };
        let len = old.value.len();
        self.operator.update_in_place(&mut stored[..len])
    }

    fn update(&mut self, stored: Option<&[u8]>) -> Change {
        let change = match self.form {
            ValueForm::Values => self.update_living(stored),
            ValueForm::Stored => self.update_stored(stored),
        };
        match change {
            Ok(change) => {
                self.failure = None;
                change
            }
            Err(error) => {
                self.failure = Some(error);
                Change::Keep
            }
        }
    }
}

/// A user's decision about a value and its expiry.
pub(super) struct Deciding<'a, F> {
    decide: F,
    environment: &'a Environment,
    damage: Option<Corruption>,
}

impl<'a, F: FnMut(Option<Expiring<'_>>) -> ExpiringChange> Deciding<'a, F> {
    pub(super) fn new(environment: &'a Environment, decide: F) -> Self {
        Self { decide, environment, damage: None }
    }

    pub(super) fn outcome<T>(self, done: Result<T>) -> Result<T> {
        self.damage.map_or(done, |damage| Err(damage.into()))
    }
}

impl<F: FnMut(Option<Expiring<'_>>) -> ExpiringChange> Operator for Deciding<'_, F> {
    fn update(&mut self, stored: Option<&[u8]>) -> Change {
        let moment = ClockReading::now(self.environment);
        let old = match living(stored, moment) {
            Ok(old) => old,
            Err(damage) => {
                self.damage = Some(damage);
                return Change::Keep;
            }
        };
        self.damage = None;
        let (was_there, had_value) = (old.is_some(), stored.is_some());
        match (self.decide)(old) {
            ExpiringChange::Put { value, expiry_ms } => {
                let new = Expiring { value: &value, expiry_ms };
                if new.is_expired(moment.now_ms) {
                    return if had_value { Change::Delete } else { Change::Keep };
                }
                let mut value = value;
                push_trailer(&mut value, expiry_ms);
                Change::Put(value)
            }
            ExpiringChange::Delete if was_there => Change::Delete,
            ExpiringChange::Delete | ExpiringChange::Keep => Change::Keep,
        }
    }
}

/// The same for a decision on another thread later.
pub(crate) struct LaterDeciding<F> {
    decide: F,
    environment: Environment,
    /// Of the last call: then it has changed nothing.
    pub(crate) damage: Option<Corruption>,
}

impl<F: FnMut(Option<Expiring<'_>>) -> ExpiringChange> LaterDeciding<F> {
    pub(crate) fn new(environment: &Environment, decide: F) -> Self {
        Self { decide, environment: environment.clone(), damage: None }
    }
}

impl<F: FnMut(Option<Expiring<'_>>) -> ExpiringChange> Operator for LaterDeciding<F> {
    fn update(&mut self, stored: Option<&[u8]>) -> Change {
        let mut deciding = Deciding::new(&self.environment, &mut self.decide);
        let change = deciding.update(stored);
        self.damage = deciding.damage;
        change
    }
}

/// Gives a value another expiry, or none.
pub(super) struct SetExpiry<'a> {
    expiry_ms: Option<u64>,
    environment: &'a Environment,
    /// The expiry of the value before, if there was a value.
    old: Result<Option<Option<u64>>>,
}

impl<'a> SetExpiry<'a> {
    pub(super) fn new(environment: &'a Environment, expiry_ms: Option<u64>) -> Self {
        Self { expiry_ms, environment, old: Ok(None) }
    }

    /// Returns the expiry that the value had before, if there was a value, now that this is `done`.
    pub(super) fn outcome<T>(self, done: Result<T>) -> Result<Option<Option<u64>>> {
        done.and(self.old)
    }
}

impl Operator for SetExpiry<'_> {
    fn update_in_place(&mut self, stored: &mut [u8]) -> bool {
        let moment = ClockReading::now(self.environment);
        let (Ok(Some(old)), Some(expiry_ms)) = (living(Some(&*stored), moment), self.expiry_ms)
        else {
            return false;
        };
        self.old = Ok(Some(old.expiry_ms));
        expiry_ms > moment.now_ms && replace_expiry(stored, expiry_ms)
    }

    fn update(&mut self, stored: Option<&[u8]>) -> Change {
        let moment = ClockReading::now(self.environment);
        let old = living(stored, moment);
        self.old = match &old {
            Ok(old) => Ok(old.map(|old| old.expiry_ms)),
            Err(damage) => Err(damage.clone().into()),
        };
        let Ok(Some(old)) = old else { return Change::Keep };
        let new = Expiring { expiry_ms: self.expiry_ms, ..old };
        match () {
            () if new == old => Change::Keep,
            () if new.is_expired(moment.now_ms) => Change::Delete,
            () => Change::Put(new.to_stored()),
        }
    }
}

/// Removes a value that has expired; anything else stays.
pub(super) struct RemoveExpired<'a> {
    pub(super) environment: &'a Environment,
}

impl Operator for RemoveExpired<'_> {
    fn update(&mut self, stored: Option<&[u8]>) -> Change {
        let now_ms = self.environment.wall_ms();
        let whole = stored.and_then(|stored| Expiring::decode(stored).ok());
        match whole {
            Some(whole) if whole.is_expired(now_ms) => Change::Delete,
            _ => Change::Keep,
        }
    }
}
