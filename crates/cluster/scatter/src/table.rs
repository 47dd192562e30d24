//! Tables: files that are written from the beginning to the end, and never change afterwards. Each
//! is divided into fragments, and each fragment is stored on several StoCs.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, atomic::AtomicUsize};

use stoc::FileName;
use sync::Mutex;

use crate::changes::{CopyPlace, Placement};
use crate::fragment::Fragment;
use crate::place::{Failure, Place};
use crate::reading::{OnEnd, Reading};
use crate::stripes::Stripes;
use crate::upkeep::Stored;

/// A table.
#[derive(Debug)]
pub(crate) struct Table {
    number: u64,
    pub(crate) length: u64,
    stripes: Stripes,
    fragments: Vec<Arc<Fragment>>,
    /// Whether its copies are released with its last reader.
    pub(crate) is_removed: AtomicBool,
}

/// A read of bytes of several fragments.
struct Gathering {
    /// The bytes so far, or the failure of a part.
    bytes: Mutex<Result<Vec<u8>, Failure>>,
    /// Parts without an outcome.
    left: AtomicUsize,
    on_end: Mutex<Option<OnEnd>>,
}

impl Table {
    pub(crate) fn new(place: &Arc<Place>, placement: Placement) -> Self {
        let Placement { number, length, stripes, fragments } = placement;
        let fragment = |(part, copies): (usize, Vec<CopyPlace>)| {
            let length = stripes.length_of(part, length);
            Arc::new(Fragment::new(Arc::clone(place), (number, part as u16), length, copies))
        };
        let fragments = fragments.into_iter().enumerate().map(fragment).collect();
        Self { number, length, stripes, fragments, is_removed: AtomicBool::new(false) }
    }

    pub(crate) fn placement(&self) -> Placement {
        let fragments = self.fragments.iter().map(|fragment| fragment.places()).collect();
        let Self { number, length, stripes, .. } = *self;
        Placement { number, length, stripes, fragments }
    }

    /// Returns the names of its copies.
    pub(crate) fn names(&self) -> Vec<FileName> {
        self.fragments.iter().flat_map(|fragment| fragment.names()).collect()
    }

    /// Returns the number of copies of fragments that reads have found damaged, or missing.
    pub(crate) fn damaged_copies(&self) -> usize {
        self.fragments.iter().map(|fragment| fragment.damaged_copies()).sum()
    }

    /// Fills `into` from `offset`, from any StoCs that have the bytes. StoCs verify what they
    /// return.
    ///
    /// # Errors
    /// No StoC can return them.
    pub(crate) fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), Failure> {
        let mut rest = into;
        for part in self.stripes.parts(offset, rest.len() as u64) {
            let (first, others) = rest.split_at_mut(part.bytes as usize);
            self.fragment(part.fragment)?.read(part.offset, first)?;
            rest = others;
        }
        Ok(())
    }

    /// Begins a read. `on_end` is called once, maybe within this call. Adds the reads of fragments
    /// that may be under way to `readings`.
    pub(crate) fn begin_read(
        &self,
        (offset, bytes): (u64, u64),
        on_end: OnEnd,
        readings: &mut Vec<Arc<Reading>>,
    ) {
        let mut parts = self.stripes.parts(offset, bytes);
        // Nearly all reads are within one stripe.
        if let (Some(part), None) = (parts.next(), parts.next()) {
            match self.fragment(part.fragment) {
                Ok(fragment) => {
                    readings.push(Reading::begin(fragment, part.offset, bytes, on_end));
                }
                Err(failure) => on_end(Err(failure)),
            }
            return;
        }
        let parts: Vec<_> = self.stripes.parts(offset, bytes).collect();
        let gathering = Arc::new(Gathering {
            bytes: Mutex::new(Ok(vec![0; bytes as usize])),
            // One for this call.
            left: AtomicUsize::new(parts.len() + 1),
            on_end: Mutex::new(Some(on_end)),
        });
        for part in parts {
            let gathers = Arc::clone(&gathering);
            let at = (part.of_table - offset) as usize;
            match self.fragment(part.fragment) {
                Ok(fragment) => {
                    let on_end = Box::new(move |outcome| gathers.add(at, outcome));
                    readings.push(Reading::begin(fragment, part.offset, part.bytes, on_end));
                }
                Err(failure) => gathers.add(at, Err(failure)),
            }
        }
        gathering.end_one();
    }

    fn fragment(&self, number: usize) -> Result<&Arc<Fragment>, Failure> {
        self.fragments.get(number).ok_or(Failure::Unavailable)
    }

    /// Copies fragments to other StoCs, if too few have them. `stored` has the files of all StoCs
    /// that have replied. Returns whether a fragment was copied, and the copies that others have
    /// replaced. It stays so if the repair of another fragment fails.
    pub(crate) fn repair(&self, stored: &Stored) -> (bool, Vec<Dropped>, Option<Failure>) {
        let (mut is_changed, mut dropped, mut failure) = (false, Vec::new(), None);
        for fragment in &self.fragments {
            let others = self.fragments.iter().filter(|other| !Arc::ptr_eq(other, fragment));
            let used: Vec<u32> = others.flat_map(|other| other.nodes()).collect();
            match fragment.repair(stored, &used) {
                Ok(None) => {}
                Ok(Some(copies)) => {
                    is_changed = true;
                    dropped.push(Dropped { fragment: Arc::clone(fragment), copies });
                }
                Err(other) => failure = Some(other),
            }
        }
        (is_changed, dropped, failure)
    }
}

/// Copies of a fragment that others have replaced.
#[derive(Debug)]
pub(crate) struct Dropped {
    fragment: Arc<Fragment>,
    copies: Vec<CopyPlace>,
}

impl Dropped {
    /// Releases the copies.
    pub(crate) fn release(&self) {
        self.fragment.release(&self.copies);
    }
}

impl Gathering {
    /// Takes the outcome of a part, whose bytes begin at `at`.
    fn add(&self, at: usize, outcome: Result<Vec<u8>, Failure>) {
        let mut bytes = self.bytes.lock();
        match (&mut *bytes, outcome) {
            (Ok(bytes), Ok(read)) => {
                if let Some(place) = bytes.get_mut(at..at + read.len()) {
                    place.copy_from_slice(&read);
                }
            }
            (bytes @ Ok(_), Err(failure)) => *bytes = Err(failure),
            (Err(_), _) => {}
        }
        drop(bytes);
        self.end_one();
    }

    /// Ends the read with the last of its parts.
    fn end_one(&self) {
        if self.left.fetch_sub(1, SeqCst) > 1 {
            return;
        }
        let outcome = std::mem::replace(&mut *self.bytes.lock(), Ok(Vec::new()));
        let on_end = self.on_end.lock().take();
        if let Some(on_end) = on_end {
            on_end(outcome);
        }
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        if self.is_removed.load(SeqCst) {
            self.fragments.iter().for_each(|fragment| fragment.release(&fragment.places()));
        }
    }
}
