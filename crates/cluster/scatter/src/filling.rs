//! A table that is being written.

use std::mem;
use std::sync::Arc;

use logc::Member;
use sync::Mutex;

use crate::changes::{CopyPlace, Placement};
use crate::copy::{Copy, SLOW_MAX};
use crate::place::{Failure, Place};
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
        if state.chunks.is_empty() {
            let links = place.stocs.choose(place.copies, &[]);
            let begin = |link| Copy::begin(place, self.number, link);
            state.copies = links.into_iter().map(begin).collect();
        }
        let is_full = |copy: &Copy| copy.is_done() == Err(Failure::Full);
        if !state.copies.is_empty() && state.copies.iter().all(is_full) {
            return Err(Failure::Full);
        }
        let bytes: Arc<[u8]> = bytes.into();
        state.copies.iter().for_each(|copy| copy.write(offset, Arc::clone(&bytes)));
        state.length += bytes.len() as u64;
        state.chunks.push(bytes);
        Ok(true)
    }

    /// Fills `into` from `offset`, which is below the end.
    pub(crate) fn read(&self, offset: u64, into: &mut [u8]) {
        let mut begin = 0;
        for chunk in &self.state.lock().chunks {
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

    /// Finishes the table: durable on all its StoCs on return. While a StoC is slow, another one
    /// begins a copy. One durable copy is enough if there are no more StoCs, and the others have
    /// failed or took far too long. One thread at a time calls it.
    ///
    /// # Errors
    /// [`Failure::Full`] if no StoC has room. The range belongs to another owner, or the device is
    /// closed.
    pub(crate) fn finish(&self, place: &Arc<Place>) -> Result<Table, Failure> {
        let (mut copies, length) = {
            let mut state = self.state.lock();
            (mem::take(&mut state.copies), state.length)
        };
        copies.iter().for_each(|copy| copy.finish(length));
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
                    copies.push(self.copy_again(place, link, length));
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
        let keep = |copy: Copy| {
            let member = Member::of(copy.link().identity());
            CopyPlace { member, nonce: copy.keep().nonce }
        };
        let copies = done.into_iter().map(keep).collect();
        let placement = Placement { number: self.number, length, copies };
        Ok(Table::new(Arc::clone(place), placement))
    }

    /// Writes all bytes to another StoC.
    fn copy_again(&self, place: &Arc<Place>, link: Arc<dyn stoc::Link>, length: u64) -> Copy {
        let copy = Copy::begin(place, self.number, link);
        let mut offset = 0;
        for chunk in &self.state.lock().chunks {
            copy.write(offset, Arc::clone(chunk));
            offset += chunk.len() as u64;
        }
        copy.finish(length);
        copy
    }
}
