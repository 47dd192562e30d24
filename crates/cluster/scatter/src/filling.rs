//! A table that is being written.

use std::mem;
use std::sync::Arc;

use logc::Member;
use stoc::Link;
use sync::Mutex;

use crate::changes::{CopyPlace, Placement};
use crate::copy::{Copy, SLOW_MAX};
use crate::place::{Failure, Place};
use crate::stripes::Stripes;
use crate::table::Table;

/// A table that is being written. Its bytes are kept until it is finished, so that another StoC can
/// take the place of one that fails.
#[derive(Debug)]
pub(crate) struct Filling {
    number: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    length: u64,
    fragments: Vec<FillingFragment>,
}

/// A fragment that is being written.
#[derive(Debug)]
struct FillingFragment {
    number: (u64, u16),
    chunks: Vec<Arc<[u8]>>,
    length: u64,
    /// Copies that get the chunks as they come.
    copies: Vec<Copy>,
}

impl Filling {
    /// Begins a table.
    pub(crate) fn new(number: u64) -> Self {
        Self { number, state: Mutex::default() }
    }

    pub(crate) fn length(&self) -> u64 {
        self.state.lock().length
    }

    /// Appends bytes, if `offset` is the end. They are on their way to the StoCs when this returns.
    /// Returns whether it did.
    ///
    /// # Errors
    /// [`Failure::Full`] if no StoC had room for the bytes before.
    pub(crate) fn append(
        &self,
        place: &Arc<Place>,
        offset: u64,
        bytes: &[u8],
    ) -> Result<bool, Failure> {
        let mut state = self.state.lock();
        if offset != state.length {
            return Ok(false);
        }
        if state.fragments.iter().any(FillingFragment::is_full) {
            return Err(Failure::Full);
        }
        let mut rest = bytes;
        for part in Stripes::new(place.rho).parts(offset, bytes.len() as u64) {
            let (first, others) = rest.split_at(part.bytes as usize);
            rest = others;
            if part.fragment == state.fragments.len() {
                state.begin_fragment(place, self.number);
            }
            if let Some(fragment) = state.fragments.get_mut(part.fragment) {
                fragment.append(first.into());
            }
        }
        state.length += bytes.len() as u64;
        Ok(true)
    }

    /// Fills `into` from `offset`, which is below the end.
    pub(crate) fn read(&self, place: &Place, offset: u64, into: &mut [u8]) {
        let state = self.state.lock();
        let mut rest = into;
        for part in Stripes::new(place.rho).parts(offset, rest.len() as u64) {
            let (first, others) = rest.split_at_mut(part.bytes as usize);
            rest = others;
            if let Some(fragment) = state.fragments.get(part.fragment) {
                fragment.read(part.offset, first);
            }
        }
    }

    /// Finishes the table: durable on all its StoCs on return. One thread at a time calls it.
    ///
    /// # Errors
    /// [`Failure::Full`] if no StoC has room. The range belongs to another owner, or the device is
    /// closed.
    pub(crate) fn finish(&self, place: &Arc<Place>) -> Result<Table, Failure> {
        let (length, copies) = {
            let mut state = self.state.lock();
            if state.fragments.is_empty() {
                state.begin_fragment(place, self.number);
            }
            let fragments = state.fragments.iter_mut();
            let copies: Vec<_> = fragments.map(FillingFragment::send_finish).collect();
            (state.length, copies)
        };
        let mut fragments = Vec::new();
        for (number, copies) in copies.into_iter().enumerate() {
            fragments.push(self.await_finish(place, number, copies)?);
        }
        let fragments = fragments.into_iter().map(|copies| copies.into_iter().map(keep).collect());
        let (fragments, stripes) = (fragments.collect(), Stripes::new(place.rho));
        let placement = Placement { number: self.number, length, stripes, fragments };
        Ok(Table::new(place, placement))
    }

    /// Waits for the copies of a fragment. While a StoC is slow, another one begins a copy. One
    /// durable copy is enough if there are no more StoCs, and the others have failed or took far
    /// too long.
    fn await_finish(
        &self,
        place: &Arc<Place>,
        fragment: usize,
        mut copies: Vec<Copy>,
    ) -> Result<Vec<Copy>, Failure> {
        let mut tried: Vec<u32> = copies.iter().map(|copy| copy.link().identity().node).collect();
        let begun = place.environment.now();
        let (mut last_begun, mut is_full) = (begun, false);
        loop {
            place.check_open()?;
            let mut done = 0;
            let mut failure = None;
            copies.retain(|copy| match copy.is_done() {
                Ok(is_done) => {
                    done += usize::from(is_done);
                    true
                }
                Err(error) => {
                    failure = Some(error);
                    false
                }
            });
            match failure {
                Some(Failure::Fenced) => return Err(Failure::Fenced),
                Some(failure) => is_full |= failure == Failure::Full,
                None => {}
            }
            let pending = copies.len() - done;
            let now = place.environment.now();
            let is_late = now >= begun + place.slow * SLOW_MAX;
            if done >= place.copies || (done > 0 && is_late) {
                break;
            }
            let is_slow = now >= last_begun + place.slow;
            if done + pending < place.copies || is_slow {
                if let Some(link) = place.stocs.choose(1, &tried).pop() {
                    tried.push(link.identity().node);
                    copies.extend(self.copy_again(place, link, fragment));
                    last_begun = now;
                    continue;
                }
                if pending == 0 && done > 0 {
                    break;
                }
                if pending == 0 && is_full {
                    return Err(Failure::Full);
                }
                if pending == 0 {
                    place.pause()?;
                    tried.clear();
                    continue;
                }
            }
            if let Some(copy) = copies.iter().find(|copy| copy.is_done() == Ok(false)) {
                copy.wait_a_moment();
            }
        }
        let (done, late): (Vec<Copy>, Vec<Copy>) =
            copies.into_iter().partition(|copy| copy.is_done() == Ok(true));
        drop(late);
        Ok(done)
    }

    /// Writes all bytes of a fragment to another StoC.
    fn copy_again(&self, place: &Arc<Place>, link: Arc<dyn Link>, fragment: usize) -> Option<Copy> {
        let state = self.state.lock();
        let fragment = state.fragments.get(fragment)?;
        let copy = Copy::begin(place, fragment.number, link);
        let mut offset = 0;
        for chunk in &fragment.chunks {
            copy.write(offset, Arc::clone(chunk));
            offset += chunk.len() as u64;
        }
        copy.finish(fragment.length);
        Some(copy)
    }
}

impl State {
    /// Begins the next fragment, on StoCs without another fragment as far as there are enough.
    fn begin_fragment(&mut self, place: &Arc<Place>, table: u64) {
        let number = (table, self.fragments.len() as u16);
        let copies = self.fragments.iter().flat_map(|fragment| &fragment.copies);
        let used: Vec<u32> = copies.map(|copy| copy.link().identity().node).collect();
        let links = place.choose(place.copies, &[], &used);
        let copies = links.into_iter().map(|link| Copy::begin(place, number, link)).collect();
        self.fragments.push(FillingFragment { number, chunks: Vec::new(), length: 0, copies });
    }
}

impl FillingFragment {
    /// Returns whether no StoC had room for the bytes so far.
    fn is_full(&self) -> bool {
        let is_full = |copy: &Copy| copy.is_done() == Err(Failure::Full);
        !self.copies.is_empty() && self.copies.iter().all(is_full)
    }

    fn append(&mut self, bytes: Arc<[u8]>) {
        let offset = self.length;
        self.copies.iter().for_each(|copy| copy.write(offset, Arc::clone(&bytes)));
        self.length += bytes.len() as u64;
        self.chunks.push(bytes);
    }

    /// Fills `into` from `offset`, which is below the end.
    fn read(&self, offset: u64, into: &mut [u8]) {
        let mut begin = 0;
        for chunk in &self.chunks {
            let end = begin + chunk.len() as u64;
            let from = offset.max(begin);
            let to = (offset + into.len() as u64).min(end);
            if from < to {
                let source = chunk.get((from - begin) as usize..(to - begin) as usize);
                let target = into.get_mut((from - offset) as usize..(to - offset) as usize);
                if let (Some(source), Some(target)) = (source, target) {
                    target.copy_from_slice(source);
                }
            }
            begin = end;
        }
    }

    /// Has the StoCs finish their copies. Returns the copies.
    fn send_finish(&mut self) -> Vec<Copy> {
        self.copies.iter().for_each(|copy| copy.finish(self.length));
        mem::take(&mut self.copies)
    }
}

/// Keeps a copy that is done. Returns its place.
fn keep(copy: Copy) -> CopyPlace {
    let member = Member::of(copy.link().identity());
    CopyPlace { member, nonce: copy.keep().nonce }
}
