//! Fragments of tables, each with the same bytes on several StoCs.

use std::sync::Arc;

use logc::Member;
use stoc::{FileName, Link};
use sync::Mutex;

use crate::changes::CopyPlace;
use crate::copy::Copy;
use crate::place::{Failure, Place};
use crate::reading::Reading;
use crate::upkeep::Stored;

/// Bytes that are copied with one request.
const COPY_BYTES: u64 = 1 << 20;

/// A fragment.
#[derive(Debug)]
pub(crate) struct Fragment {
    pub(crate) place: Arc<Place>,
    /// The numbers of the table, and of the fragment in it.
    number: (u64, u16),
    length: u64,
    copies: Mutex<Vec<FragmentCopy>>,
}

/// A copy of a fragment.
#[derive(Clone, Copy, Debug)]
struct FragmentCopy {
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

impl Fragment {
    pub(crate) fn new(
        place: Arc<Place>,
        number: (u64, u16),
        length: u64,
        copies: Vec<CopyPlace>,
    ) -> Self {
        let copies = copies.into_iter().map(|place| FragmentCopy { place, is_damaged: false });
        let copies: Vec<FragmentCopy> = copies.collect();
        copies.iter().for_each(|copy| place.live.insert(place.name_of(number, copy.place.nonce)));
        Self { place, number, length, copies: Mutex::new(copies) }
    }

    /// Returns the places of its copies.
    pub(crate) fn places(&self) -> Vec<CopyPlace> {
        self.copies.lock().iter().map(|copy| copy.place).collect()
    }

    /// Returns the StoCs of its copies.
    pub(crate) fn nodes(&self) -> Vec<u32> {
        self.copies.lock().iter().map(|copy| copy.place.member.node).collect()
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
        let link = |copy: &FragmentCopy| {
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
    pub(crate) fn read(self: &Arc<Self>, offset: u64, into: &mut [u8]) -> Result<(), Failure> {
        let bytes = into.len() as u64;
        let late_after = self.place.latencies.late_after(bytes);
        let bytes = Reading::wait(self, (offset, bytes), late_after)?;
        into.copy_from_slice(&bytes);
        Ok(())
    }

    /// Copies the fragment to other StoCs, if too few have it: to StoCs that are not in `used`, as
    /// far as there are enough. `stored` has the files of all StoCs that have replied. Returns the
    /// copies that others have replaced; none if nothing changed.
    ///
    /// # Errors
    /// No copy can be read, or the range belongs to another owner.
    pub(crate) fn repair(
        self: &Arc<Self>,
        stored: &Stored,
        used: &[u32],
    ) -> Result<Option<Vec<CopyPlace>>, Failure> {
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
        for link in self.place.choose(missing, &avoid, used) {
            all.extend(self.copy_to(link)?);
        }
        if all.len() == known {
            return Ok(None);
        }
        // A lost copy is kept if there are still too few.
        let mut dropped = self.copies_in(State::Lost, stored);
        let kept = self.place.copies.saturating_sub(all.len()).min(dropped.len());
        all.extend(dropped.drain(..kept));
        let copies = all.into_iter().map(|place| FragmentCopy { place, is_damaged: false });
        *self.copies.lock() = copies.collect();
        Ok(Some(dropped))
    }

    /// Returns the number of copies that are missing.
    fn missing(&self, stored: &Stored) -> usize {
        self.place.copies.saturating_sub(self.copies_in(State::There, stored).len())
    }

    fn copies_in(&self, state: State, stored: &Stored) -> Vec<CopyPlace> {
        let state_of = |copy: &FragmentCopy| {
            let is_there = !copy.is_damaged
                && self.place.link_to(&copy.place.member).is_some()
                && stored.may_have(&copy.place.member, &self.name_of(&copy.place), self.length);
            if is_there { State::There } else { State::Lost }
        };
        let copies = self.copies.lock().clone();
        copies.iter().filter(|copy| state_of(copy) == state).map(|copy| copy.place).collect()
    }

    /// Writes the fragment to a StoC. Returns the copy if it is durable there.
    fn copy_to(self: &Arc<Self>, link: Arc<dyn Link>) -> Result<Option<CopyPlace>, Failure> {
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

    /// Reads the fragment from its beginning to its end, until `each` returns false. Returns
    /// whether it has read all.
    fn for_chunks(
        self: &Arc<Self>,
        mut each: impl FnMut(u64, Vec<u8>) -> bool,
    ) -> Result<bool, Failure> {
        let mut offset = 0;
        while offset < self.length {
            // Not hedged: the damage of a copy is noted before another one is read.
            let part = (offset, COPY_BYTES.min(self.length - offset));
            let bytes = Reading::wait(self, part, self.place.slow)?;
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
