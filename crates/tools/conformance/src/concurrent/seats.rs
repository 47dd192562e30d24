//! Read-modify-writes on a seat, many pending at the same time.
//! They are done as by a host that keeps the writes of a key apart: no lock is held while an old
//! value is looked up.

use engine::{BegunOld, Change, Listener, Old, Operator, Seat};

use super::shared::{Recorder, Shared, failed};

/// A key, and the change to be made to it.
pub(super) type Update<'a> = (Vec<u8>, &'a mut dyn Operator);

impl Shared {
    /// Does all of `updates`; those whose keys are pending overlap.
    pub(super) fn rmw_pending(&self, updates: &mut [Update<'_>]) -> Result<(), String> {
        let mut seat = self.opened.engine.seat(updates.len()).map_err(failed)?;
        for at in 0..updates.len() {
            self.begin(&mut seat, at, updates)?;
        }
        while let Some(some) = &mut seat
            && some.pending() > 0
        {
            let mut ended = Ended { shared: self, updates, overtaken: Vec::new(), wrong: Ok(()) };
            if some.complete(true, &mut ended).map_err(failed)? == 0 {
                return Err("a seat waits, and tells of nothing".to_owned());
            }
            let Ended { overtaken, wrong, .. } = ended;
            wrong?;
            for at in overtaken {
                self.begin(&mut seat, at, updates)?;
            }
        }
        Ok(())
    }

    /// One of them, up to its end or to where it is pending.
    fn begin(
        &self,
        seat: &mut Option<Box<dyn Seat>>,
        at: usize,
        updates: &mut [Update<'_>],
    ) -> Result<(), String> {
        let (key, operator) = &mut updates[at];
        loop {
            if self.rmw_at_once(key, *operator)? {
                return Ok(());
            }
            let Some(seat) = seat else {
                return Err("an engine without seats would have to wait".to_owned());
            };
            match seat.begin_old(at as u64, key).map_err(failed)? {
                BegunOld::AtOnce => {}
                BegunOld::Pending => return Ok(()),
                BegunOld::Full => return Err("a seat is full before its depth".to_owned()),
            }
        }
    }

    /// Continues with an old value. Returns `false` if another write came first.
    fn rmw_of_old(&self, old: &Old<'_>, operator: &mut dyn Operator) -> Result<bool, String> {
        let _lock = self.lock_one(old.key);
        if !old.is_newest() {
            return Ok(false);
        }
        let mut recorder = Recorder::new(operator);
        let change = recorder.update(old.value);
        if change != Change::Keep {
            self.apply(vec![recorder.step(old.key)?])?;
        }
        Ok(true)
    }
}

/// Continues with the lookups that end.
struct Ended<'a, 'u> {
    shared: &'a Shared,
    updates: &'a mut [Update<'u>],
    overtaken: Vec<usize>,
    wrong: Result<(), String>,
}

impl Listener for Ended<'_, '_> {
    fn value(&mut self, _tag: u64, _value: engine::Result<Option<&[u8]>>) {
        self.wrong = Err("a seat tells of a get that nobody began".to_owned());
    }

    fn old(&mut self, tag: u64, old: engine::Result<Old<'_>>) {
        let at = tag as usize;
        let operator = &mut *self.updates[at].1;
        match old.map_err(failed).and_then(|old| self.shared.rmw_of_old(&old, operator)) {
            Ok(true) => {}
            Ok(false) => self.overtaken.push(at),
            Err(wrong) => self.wrong = Err(wrong),
        }
    }
}
