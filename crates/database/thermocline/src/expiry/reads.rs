//! Reads of one engine of a keyspace: its values without their trailers, and none that has expired.
//!
//! All reads for users go through here; [`KeyspaceInstance::engine`] itself has values in their
//! stored form. The clock is read first: a value that had expired at that moment had expired when
//! it was read [E1].

use std::ops::ControlFlow;
use std::sync::Arc;

use engine::{At, Cursor, Direction, KeyRange, Lookup, Pin, Result, TryNext, Visit};
use environment::Environment;

use super::format::Expiring;
use super::keyspace::ValueForm;
use crate::keyspace_entry::KeyspaceInstance;

/// A reading of the wall clock, by which values have expired or have not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClockReading {
    pub(crate) now_ms: u64,
}

impl ClockReading {
    pub(crate) fn now(environment: &Environment) -> Self {
        Self { now_ms: environment.wall_ms() }
    }

    /// Returns the value that is stored like this, unless it has expired.
    #[inline]
    pub(super) fn living(self, stored: &[u8]) -> Result<Option<Expiring<'_>>> {
        let whole = Expiring::decode(stored)?;
        Ok((!whole.is_expired(self.now_ms)).then_some(whole))
    }

    /// Takes the trailer off; `false` if the value has expired.
    #[inline]
    pub(crate) fn trim(self, stored: &mut Vec<u8>) -> Result<bool> {
        let Some(len) = self.living(stored)?.map(|whole| whole.value.len()) else {
            return Ok(false);
        };
        stored.truncate(len);
        Ok(true)
    }

    /// Returns the form in which a reader sees a value that is stored like this, if there is any.
    pub(crate) fn show(self, stored: Option<&[u8]>) -> Result<Option<&[u8]>> {
        let Some(stored) = stored else { return Ok(None) };
        Ok(self.living(stored)?.map(|whole| whole.value))
    }
}

impl KeyspaceInstance {
    /// Returns the present clock, if reads in this form depend on it.
    #[inline]
    pub(crate) fn moment(&self, form: ValueForm) -> Option<ClockReading> {
        match (&self.expiry, form) {
            (Some(expiry), ValueForm::Values) => Some(ClockReading::now(&expiry.environment)),
            _ => None,
        }
    }

    /// Returns `moment` if reads in this form depend on it.
    #[inline]
    fn judged_by(&self, form: ValueForm, moment: ClockReading) -> Option<ClockReading> {
        (self.expiry.is_some() && form == ValueForm::Values).then_some(moment)
    }

    /// Looks a key up, in its stored form. Never waits for the device.
    #[inline]
    pub(crate) fn lookup(&self, key: &[u8], at: At<'_>, into: &mut Vec<u8>) -> Result<Lookup> {
        self.placed(self.engine.lookup(key, at, into))
    }

    /// Reads the key's value in its stored form.
    #[inline]
    pub(crate) fn get_stored(&self, key: &[u8], at: At<'_>, into: &mut Vec<u8>) -> Result<bool> {
        match self.lookup(key, at, into)? {
            Lookup::Found => Ok(true),
            Lookup::Absent => Ok(false),
            pending @ Lookup::Pending(_) => self.placed(self.reads.complete(pending, into)),
        }
    }

    #[inline]
    pub(crate) fn get(&self, form: ValueForm, key: &[u8], into: &mut Vec<u8>) -> Result<bool> {
        let moment = self.moment(form);
        let is_there = self.get_stored(key, At::Newest, into)?;
        trimmed(moment, is_there, into)
    }

    /// Takes the expiry off a value that was read in its stored form, as the clock was at `moment`.
    /// Returns whether there is a value.
    pub(crate) fn trim_at(
        &self,
        form: ValueForm,
        moment: ClockReading,
        is_there: bool,
        stored: &mut Vec<u8>,
    ) -> Result<bool> {
        trimmed(self.judged_by(form, moment), is_there, stored)
    }

    /// Returns the value at a pin, for which the clock was read before.
    pub(crate) fn get_pinned(
        &self,
        form: ValueForm,
        (moment, pin): (ClockReading, &Pin),
        key: &[u8],
        into: &mut Vec<u8>,
    ) -> Result<bool> {
        let is_there = self.get_stored(key, At::Pin(pin), into)?;
        trimmed(self.judged_by(form, moment), is_there, into)
    }

    /// [`KeyspaceInstance::get`] if it needs no device, otherwise `None`.
    #[inline]
    pub(crate) fn try_get(
        &self,
        form: ValueForm,
        key: &[u8],
        into: &mut Vec<u8>,
    ) -> Result<Option<bool>> {
        self.try_get_by(self.moment(form), key, into)
    }

    #[inline]
    fn try_get_by(
        &self,
        moment: Option<ClockReading>,
        key: &[u8],
        into: &mut Vec<u8>,
    ) -> Result<Option<bool>> {
        match self.lookup(key, At::Newest, into)? {
            Lookup::Found => trimmed(moment, true, into).map(Some),
            Lookup::Absent => Ok(Some(false)),
            Lookup::Pending(_) => Ok(None),
        }
    }

    pub(crate) fn multi_get(
        &self,
        form: ValueForm,
        keys: &[&[u8]],
        found: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        self.multi_get_by(self.moment(form), keys, found)
    }

    /// The same as the clock was at `moment`.
    pub(crate) fn multi_get_at(
        &self,
        form: ValueForm,
        moment: ClockReading,
        keys: &[&[u8]],
        found: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        self.multi_get_by(self.judged_by(form, moment), keys, found)
    }

    fn multi_get_by(
        &self,
        moment: Option<ClockReading>,
        keys: &[&[u8]],
        found: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        let read = |found: &mut reads::Found<'_>| {
            self.placed(self.reads.multi_get(&*self.engine, keys, At::Newest, found))
        };
        let Some(moment) = moment else { return read(found) };
        let mut damage = Ok(());
        read(&mut |index, stored| match moment.show(stored) {
            Ok(value) => found(index, value),
            Err(error) => damage = Err(error),
        })?;
        damage
    }

    pub(crate) fn walk(
        &self,
        form: ValueForm,
        from: Option<&[u8]>,
        visit: &mut Visit<'_>,
    ) -> Result<()> {
        let Some(moment) = self.moment(form) else { return self.engine.walk(from, visit) };
        let mut damage = Ok(());
        self.engine.walk(from, &mut |key, stored| match moment.living(stored) {
            Ok(Some(living)) => visit(key, living.value),
            Ok(None) => ControlFlow::Continue(()),
            Err(error) => {
                damage = Err(error);
                ControlFlow::Break(())
            }
        })?;
        damage
    }

    /// Returns the pairs of `range` at `pin`, for which the clock was read before.
    pub(crate) fn scan(
        &self,
        form: ValueForm,
        (moment, pin): (ClockReading, Arc<Pin>),
        range: KeyRange,
        direction: Direction,
    ) -> Result<Box<dyn Cursor>> {
        let cursor = self.engine.scan(range, direction, pin)?;
        let Some(moment) = self.judged_by(form, moment) else { return Ok(cursor) };
        let (key, value) = Default::default();
        let (has_ended, has_failed) = (false, false);
        Ok(Box::new(LivingCursor { cursor, moment, key, value, has_ended, has_failed }))
    }
}

#[inline]
fn trimmed(moment: Option<ClockReading>, is_there: bool, into: &mut Vec<u8>) -> Result<bool> {
    match moment {
        Some(moment) if is_there => moment.trim(into),
        _ => Ok(is_there),
    }
}

/// A cursor without the pairs whose values have expired.
struct LivingCursor {
    cursor: Box<dyn Cursor>,
    moment: ClockReading,
    /// The pair that was returned last: a copy, since the cursor's own is valid only until the
    /// next one is requested.
    key: Vec<u8>,
    value: Vec<u8>,
    /// Set at the end, and by an error.
    has_ended: bool,
    /// Set by an error, after which no seek continues the scan.
    has_failed: bool,
}

impl LivingCursor {
    /// Returns the next pair that has not expired, and waits for the device if it may.
    fn next_living(&mut self, may_wait: bool) -> Result<TryNext<'_>> {
        if self.has_ended {
            return Ok(TryNext::End);
        }
        // Set until the cursor has returned.
        (self.has_ended, self.has_failed) = (true, true);
        loop {
            let found = match may_wait {
                true => self.cursor.next().map(TryNext::known),
                false => self.cursor.try_next(),
            };
            match found? {
                TryNext::Pair(key, stored) => {
                    let Some(living) = self.moment.living(stored)? else { continue };
                    self.key.clear();
                    self.key.extend_from_slice(key);
                    self.value.clear();
                    self.value.extend_from_slice(living.value);
                    (self.has_ended, self.has_failed) = (false, false);
                    return Ok(TryNext::Pair(&self.key, &self.value));
                }
                TryNext::End => {
                    self.has_failed = false;
                    return Ok(TryNext::End);
                }
                TryNext::WouldBlock => {
                    (self.has_ended, self.has_failed) = (false, false);
                    return Ok(TryNext::WouldBlock);
                }
            }
        }
    }
}

impl Cursor for LivingCursor {
    fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        match self.next_living(true)? {
            TryNext::Pair(key, value) => Ok(Some((key, value))),
            TryNext::End | TryNext::WouldBlock => Ok(None),
        }
    }

    fn try_next(&mut self) -> Result<TryNext<'_>> {
        self.next_living(false)
    }

    fn seek(&mut self, key: &[u8]) {
        if self.has_failed {
            return;
        }
        self.cursor.seek(key);
        self.has_ended = false;
    }
}
