//! Tables: files that are written from the beginning to the end, and never change afterwards. Each
//! is stored on several StoCs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use logc::Member;
use stoc::{FileName, Link, Request, Response};
use sync::Mutex;

use crate::changes::{CopyPlace, Placement};
use crate::copy::Copy;
use crate::place::{Failure, Place};
use crate::upkeep::Stored;

/// Bytes that are copied with one request.
const COPY_BYTES: u64 = 1 << 20;

/// A table.
#[derive(Debug)]
pub(crate) struct Table {
    place: Arc<Place>,
    number: u64,
    pub(crate) length: u64,
    copies: Mutex<Vec<TableCopy>>,
    /// Whether its copies are released with its last reader.
    pub(crate) is_removed: AtomicBool,
}

/// A copy of a table.
#[derive(Clone, Copy, Debug)]
struct TableCopy {
    place: CopyPlace,
    /// A read has found it damaged or missing.
    is_damaged: bool,
}

/// The state of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Its StoC has it, or did not reply.
    There,
    /// Its StoC has lost it or found it damaged, or is another one now.
    Lost,
}

impl Table {
    pub(crate) fn new(place: Arc<Place>, placement: Placement) -> Self {
        let Placement { number, length, copies } = placement;
        let copies = copies.into_iter().map(|place| TableCopy { place, is_damaged: false });
        let copies: Vec<TableCopy> = copies.collect();
        copies.iter().for_each(|copy| place.live.insert(place.name_of(number, copy.place.nonce)));
        let copies = Mutex::new(copies);
        Self { place, number, length, copies, is_removed: AtomicBool::new(false) }
    }

    pub(crate) fn placement(&self) -> Placement {
        let copies = self.copies.lock().iter().map(|copy| copy.place).collect();
        Placement { number: self.number, length: self.length, copies }
    }

    /// Returns the names of its copies.
    pub(crate) fn names(&self) -> Vec<FileName> {
        let copies = self.copies.lock();
        copies.iter().map(|copy| self.name_of(&copy.place)).collect()
    }

    fn name_of(&self, copy: &CopyPlace) -> FileName {
        self.place.name_of(self.number, copy.nonce)
    }

    /// Returns the number of copies that reads have found damaged, or missing.
    pub(crate) fn damaged_copies(&self) -> usize {
        self.copies.lock().iter().filter(|copy| copy.is_damaged).count()
    }

    /// Returns its copies on StoCs that can be reached, damaged ones last.
    pub(crate) fn links(&self) -> Vec<(Arc<dyn Link>, FileName)> {
        let mut copies = self.copies.lock().clone();
        copies.sort_by_key(|copy| copy.is_damaged);
        let link = |copy: &TableCopy| {
            Some((self.place.link_to(&copy.place.member)?, self.name_of(&copy.place)))
        };
        copies.iter().filter_map(link).collect()
    }

    /// Notes what the error of a read says of a copy. Returns the failure.
    pub(crate) fn note_error(&self, name: &FileName, error: stoc::Error) -> Failure {
        let is_damage = match &error {
            stoc::Error::Damaged(_) | stoc::Error::NoFile { .. } | stoc::Error::PastEnd { .. } => {
                true
            }
            stoc::Error::Device(error) => !error.is_retryable(),
            stoc::Error::Failed { is_fatal, .. } => *is_fatal,
            _ => false,
        };
        if is_damage {
            let mut copies = self.copies.lock();
            let noted = copies.iter_mut().find(|copy| copy.place.nonce == name.nonce);
            noted.into_iter().for_each(|copy| copy.is_damaged = true);
        }
        match error {
            stoc::Error::Damaged(damage) => Failure::Damaged(damage),
            _ => Failure::Unavailable,
        }
    }

    /// Fills `into` from `offset`, from any StoC that has the bytes. StoCs verify what they return.
    ///
    /// # Errors
    /// No StoC can return them.
    pub(crate) fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), Failure> {
        let mut failure = Failure::Unavailable;
        for (link, name) in self.links() {
            let bytes = into.len() as u64;
            let read = Request::Read { name, offset, bytes };
            match self.place.call(&link, &read) {
                Ok(Response::Bytes(bytes)) if bytes.len() == into.len() => {
                    into.copy_from_slice(&bytes);
                    return Ok(());
                }
                Ok(_) => {}
                Err(error) => {
                    if let damaged @ Failure::Damaged(_) = self.note_error(&name, error) {
                        failure = damaged;
                    }
                }
            }
        }
        Err(failure)
    }

    /// Copies the table to other StoCs, if too few have it. `stored` has the files of all StoCs
    /// that have replied. Returns the copies that others have replaced; none if nothing changed.
    ///
    /// # Errors
    /// No copy can be read, or the range belongs to another owner.
    pub(crate) fn repair(&self, stored: &Stored) -> Result<Option<Vec<CopyPlace>>, Failure> {
        if self.missing(stored) == 0 {
            return Ok(None);
        }
        // A read may find more damage.
        self.for_chunks(|_, _| true)?;
        let there = self.copies_in(State::There, stored);
        let missing = self.place.copies.saturating_sub(there.len());
        let avoid: Vec<u32> = there.iter().map(|copy| copy.member.node).collect();
        let mut all = there;
        let known = all.len();
        for link in self.place.stocs.choose(missing, &avoid) {
            all.extend(self.copy_to(link)?);
        }
        if all.len() == known {
            return Ok(None);
        }
        // A lost copy is kept if there are still too few.
        let mut dropped = self.copies_in(State::Lost, stored);
        let kept = self.place.copies.saturating_sub(all.len()).min(dropped.len());
        all.extend(dropped.drain(..kept));
        let copies = all.into_iter().map(|place| TableCopy { place, is_damaged: false });
        *self.copies.lock() = copies.collect();
        Ok(Some(dropped))
    }

    /// Returns the number of copies that are missing.
    fn missing(&self, stored: &Stored) -> usize {
        self.place.copies.saturating_sub(self.copies_in(State::There, stored).len())
    }

    fn copies_in(&self, state: State, stored: &Stored) -> Vec<CopyPlace> {
        let state_of = |copy: &TableCopy| {
            let is_there = !copy.is_damaged
                && self.place.link_to(&copy.place.member).is_some()
                && stored.may_have(&copy.place.member, &self.name_of(&copy.place), self.length);
            if is_there { State::There } else { State::Lost }
        };
        let copies = self.copies.lock().clone();
        copies.iter().filter(|copy| state_of(copy) == state).map(|copy| copy.place).collect()
    }

    /// Writes the table to a StoC. Returns the copy if it is durable there.
    fn copy_to(&self, link: Arc<dyn Link>) -> Result<Option<CopyPlace>, Failure> {
        let member = Member::of(link.identity());
        let copy = Copy::begin(&self.place, self.number, link);
        let is_whole = self.for_chunks(|offset, bytes| {
            copy.write(offset, bytes.into());
            copy.wait().is_ok()
        })?;
        if is_whole {
            copy.finish(self.length);
        }
        match copy.wait() {
            Ok(()) if is_whole => Ok(Some(CopyPlace { member, nonce: copy.keep().nonce })),
            Err(Failure::Fenced) => Err(Failure::Fenced),
            _ => self.place.check_open().map(|()| None),
        }
    }

    /// Reads the table from its beginning to its end, until `each` returns false. Returns whether
    /// it has read all.
    fn for_chunks(&self, mut each: impl FnMut(u64, Vec<u8>) -> bool) -> Result<bool, Failure> {
        let mut offset = 0;
        while offset < self.length {
            let mut bytes = vec![0; COPY_BYTES.min(self.length - offset) as usize];
            self.read(offset, &mut bytes)?;
            let length = bytes.len() as u64;
            if !each(offset, bytes) {
                return Ok(false);
            }
            offset += length;
        }
        Ok(true)
    }

    /// Releases copies.
    pub(crate) fn release(&self, copies: &[CopyPlace]) {
        for copy in copies {
            let link = self.place.link_to(&copy.member);
            self.place.release(&self.name_of(copy), link.as_deref());
        }
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        if self.is_removed.load(SeqCst) {
            self.release(&self.placement().copies);
        }
    }
}
