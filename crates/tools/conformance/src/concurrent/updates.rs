//! Read-modify-writes as a host does them: no lock is held while the lookup of an old value is
//! pending.

use engine::{At, Change, Demand, Lookup, Operator, PendingLookup, Reservation, Updated, Wait};
use reads::InFlightReads;

use super::shared::{Recorder, Shared, decide, failed};
use crate::operation::Step;

/// A key, and the change to be made to it.
pub(super) type Update<'a> = (Vec<u8>, &'a mut dyn Operator);

impl Shared {
    /// Reads, modifies and writes one key, and waits for the device.
    pub(super) fn rmw(&self, key: &[u8], operator: &mut dyn Operator) -> Result<(), String> {
        let mut value = Vec::new();
        while let Some(lookup) = self.advance(key, operator)? {
            let completed = self.reads.complete_pending(lookup, &mut value);
            let (is_found, lookup) = completed.map_err(failed)?;
            let old = is_found.then_some(value.as_slice());
            if self.update_with(key, old, &*lookup, operator)? {
                break;
            }
        }
        Ok(())
    }

    /// Does all of `updates`; those whose keys are pending overlap.
    pub(super) fn rmw_pending(&self, updates: &mut [Update<'_>]) -> Result<(), String> {
        let mut reads = InFlightReads::new(updates.len(), self.reads.budget());
        let mut begun_again: Vec<usize> = (0..updates.len()).collect();
        loop {
            for at in begun_again.drain(..) {
                let (key, operator) = &mut updates[at];
                if let Some(lookup) = self.advance(key, *operator)?
                    && reads.start(lookup, at).is_err()
                {
                    return Err("a table is full before its depth".to_owned());
                }
            }
            if reads.is_empty() {
                return Ok(());
            }
            // Other threads may write the keys while the lookups are pending.
            std::thread::yield_now();
            let mut wrong = Ok(());
            let count = reads.complete(true, &mut |at: usize, done| {
                let (key, operator) = &mut updates[at];
                let updated = done.value.map_err(failed).and_then(|value| {
                    let value = value.map(|value| value.as_slice());
                    self.update_with(key, value, &*done.lookup, *operator)
                });
                match updated {
                    Ok(true) => {}
                    Ok(false) => begun_again.push(at),
                    Err(what) => wrong = Err(what),
                }
            });
            wrong?;
            if count == 0 {
                return Err("a table waits, and reports nothing".to_owned());
            }
        }
    }

    /// Does an update up to its end, or returns the lookup of its old value.
    fn advance(
        &self,
        key: &[u8],
        operator: &mut dyn Operator,
    ) -> Result<Option<Box<dyn PendingLookup>>, String> {
        let engine = &self.opened.engine;
        let (mut value, mut bytes_max) = (Vec::new(), engine::VALUE_BYTES_GUESSED);
        loop {
            let mut room = self.reserve_to_update(key, bytes_max)?;
            let lock = self.lock_one(key);
            if let Some(updates) = engine.updates() {
                let ticket = self.opened.sequence.begin();
                let mut recorder = Recorder::new(operator);
                let updated = updates.try_update(key, &mut recorder, ticket.seqno(), &mut room);
                match updated.map_err(failed)? {
                    Updated::Done => {
                        if !recorder.has_kept() {
                            self.note(ticket.seqno(), vec![recorder.step(key)?]);
                        }
                        return Ok(None);
                    }
                    Updated::NeedsRoom { bytes } => {
                        bytes_max = bytes;
                        continue;
                    }
                    Updated::NeedsRead => {}
                }
                drop((ticket, lock));
                match engine.lookup(key, At::ForUpdate, &mut value).map_err(failed)? {
                    Lookup::Pending(lookup) => return Ok(Some(lookup)),
                    Lookup::Found | Lookup::Absent => continue,
                }
            }
            let is_found = match engine.lookup(key, At::ForUpdate, &mut value).map_err(failed)? {
                Lookup::Found => true,
                Lookup::Absent => false,
                Lookup::Pending(lookup) => return Ok(Some(lookup)),
            };
            let mut recorder = Recorder::new(operator);
            if decide(&mut recorder, is_found.then_some(&mut value)) == Change::Keep {
                return Ok(None);
            }
            match self.commit(recorder.step(key)?, room, bytes_max)? {
                None => return Ok(None),
                Some(wanted) => bytes_max = wanted,
            }
        }
    }

    fn reserve_to_update(&self, key: &[u8], bytes_max: u64) -> Result<Reservation<'_>, String> {
        let demand = Demand::Update { key, bytes_max };
        let room = self.opened.engine.reserve(&demand, Wait::Yes).map_err(failed)?;
        Ok(room.ok_or("there is no room")?)
    }

    /// Applies a step whose key is locked. Returns the bytes of its value if there is no room for
    /// it.
    fn commit(
        &self,
        step: Step,
        room: Reservation<'_>,
        bytes_max: u64,
    ) -> Result<Option<u64>, String> {
        let bytes = step.op().value().map_or(0, <[u8]>::len) as u64;
        let room = match bytes <= bytes_max {
            true => Some(room),
            false => {
                drop(room);
                self.reserve(std::slice::from_ref(&step), Wait::No)?
            }
        };
        let Some(room) = room else { return Ok(Some(bytes)) };
        self.apply(vec![step], room).map(|()| None)
    }

    /// Continues with an old value. Returns `false` if another write came first.
    fn update_with(
        &self,
        key: &[u8],
        value: Option<&[u8]>,
        lookup: &dyn PendingLookup,
        operator: &mut dyn Operator,
    ) -> Result<bool, String> {
        let mut bytes_max = engine::VALUE_BYTES_GUESSED;
        loop {
            let room = self.reserve_to_update(key, bytes_max)?;
            let _lock = self.lock_one(key);
            if !lookup.is_newest() {
                return Ok(false);
            }
            let mut recorder = Recorder::new(operator);
            if recorder.update(value) == Change::Keep {
                return Ok(true);
            }
            match self.commit(recorder.step(key)?, room, bytes_max)? {
                None => return Ok(true),
                Some(wanted) => bytes_max = wanted,
            }
        }
    }
}
