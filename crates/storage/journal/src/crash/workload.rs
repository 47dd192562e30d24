//! Drives a journal on a simulated disk, and keeps the promises of each moment.

use std::sync::Arc;

use codec::SeqNo;
use device::SimulatedDisk;

use super::oracle::{self, Known, Record};
use super::{Mode, Run};
use crate::{Durability, Error, Journal, OpenError};

/// The knowledge about the journal from each moment on.
pub(super) struct Course {
    /// With the disk's count of operations at that moment; ascending.
    moments: Vec<(u64, Known)>,
    /// Lives that ended by a failed write or sync.
    pub(super) stopped: u64,
}

impl Course {
    /// Returns the knowledge after `operation` operations.
    pub(super) fn at(&self, operation: u64) -> Known {
        let later = self.moments.partition_point(|(from, _)| *from <= operation);
        self.moments[..later].last().map(|(_, known)| known.clone()).unwrap_or_default()
    }
}

/// A journal being driven.
struct Drive<'a> {
    run: &'a mut Run,
    disk: &'a Arc<SimulatedDisk>,
    journal: Journal,
    known: Known,
    course: Course,
    /// Whether a write or sync has failed on this disk, so that the kernel may have forgotten
    /// written bytes.
    failed: bool,
}

/// How a life ended.
enum End {
    /// The journal can be driven on.
    Not,
    /// A write or sync failed.
    Stopped,
    /// Even opening fails; the round is over.
    Over,
}

/// Opens the journal on the disk, about which `known` is known, and takes `steps` random steps.
/// `Err` names the broken promise.
pub(super) fn drive(
    run: &mut Run,
    disk: &Arc<SimulatedDisk>,
    known: Known,
    steps: u64,
) -> Result<Course, String> {
    let mut course = Course { moments: vec![(0, known.clone())], stopped: 0 };
    let opened = oracle::compare(run, disk.clone(), &known)?;
    let Some((journal, recovery)) = tolerated(run, opened)? else {
        course.stopped += 1;
        return Ok(course);
    };
    let last = recovery.last.get();
    if last.max(known.persisted) < known.acknowledged && run.mode != Mode::Silent {
        return Err(format!("{} was durable, now {last} is the last", known.acknowledged));
    }
    let known = known.resolved(last);
    course.moments.push((disk.operations(), known.clone()));
    let mut drive = Drive { run, disk, journal, known, course, failed: false };
    for _ in 0..steps {
        match drive.step()? {
            End::Not => {}
            End::Stopped => {
                drive.course.stopped += 1;
                drive.stays_stopped()?;
                drive.failed = true;
                if !drive.reopen()? {
                    break;
                }
            }
            End::Over => break,
        }
    }
    Ok(drive.course)
}

/// An error that the faults of this mode explain is no broken promise.
fn tolerated<T>(run: &Run, opened: Result<T, OpenError>) -> Result<Option<T>, String> {
    match opened {
        Ok(opened) => Ok(Some(opened)),
        Err(OpenError::Device(_)) if run.mode == Mode::Loud => Ok(None),
        Err(OpenError::Damaged(_) | OpenError::Missing { .. }) if run.mode == Mode::Silent => {
            Ok(None)
        }
        Err(error) => Err(format!("the journal cannot be opened: {error}")),
    }
}

impl Drive<'_> {
    fn step(&mut self) -> Result<End, String> {
        let outcome = match self.run.below(20) {
            0..10 => self.append(),
            10 | 11 => self.wait(Durability::Flushed),
            12..16 => self.wait(Durability::Synced),
            16 => self.trim(),
            17 => return self.close(),
            18 => return Ok(if self.reopen()? { End::Not } else { End::Over }),
            _ => self.append().and_then(|()| self.wait(Durability::Synced)),
        };
        self.outcome(outcome)
    }

    fn outcome(&self, outcome: Result<(), Error>) -> Result<End, String> {
        match outcome {
            Ok(()) => Ok(End::Not),
            Err(Error::Stopped { .. }) if self.run.mode == Mode::Loud => Ok(End::Stopped),
            // Nothing was done that counts, and the run continues.
            Err(Error::NoRoom { .. }) if self.run.mode == Mode::Loud => Ok(End::Not),
            Err(error) => Err(format!("on a disk that works: {error}")),
        }
    }

    /// Appends a few records. They may be found from now on, as far as an append writes.
    fn append(&mut self) -> Result<(), Error> {
        for _ in 0..=self.run.below(4) {
            let seqno = self.journal.last().get() + 1 + self.run.below(3);
            let choice = self.run.below(self.run.sizes.len() as u64);
            let bytes = self.run.sizes[choice as usize];
            self.known.id += 1;
            let record = Record { seqno, id: self.known.id, bytes };
            self.journal.append(|| SeqNo::new(seqno), |_, into| record.write(into))?;
            self.known.records.push(record);
            self.note();
        }
        Ok(())
    }

    fn wait(&mut self, durability: Durability) -> Result<(), Error> {
        // The awaited records may be found before the wait returns; records are known since the
        // append, so nothing has to be noted before.
        self.journal.wait(self.journal.last(), durability)?;
        self.known.acknowledge(self.known.acknowledged.max(self.journal.synced().get()));
        self.note();
        Ok(())
    }

    fn trim(&mut self) -> Result<(), Error> {
        let (from, synced) = (self.known.persisted, self.journal.synced().get());
        self.known.persisted = from + self.run.below(synced.saturating_sub(from) + 1);
        self.note();
        self.journal.trim(SeqNo::new(self.known.persisted))
    }

    fn close(&mut self) -> Result<End, String> {
        let last = self.journal.last();
        let closed = self.journal.close();
        let is_whole = closed.is_ok();
        match self.outcome(closed)? {
            End::Not => {}
            end => return Ok(end),
        }
        if is_whole {
            self.known.acknowledge(self.known.acknowledged.max(last.get()));
            self.note();
        }
        Ok(if self.reopen()? { End::Not } else { End::Over })
    }

    /// Kills the process and opens the journal again. Returns whether that worked.
    fn reopen(&mut self) -> Result<bool, String> {
        let flushed = self.journal.flushed().get();
        let opened = oracle::compare(self.run, self.disk.clone(), &self.known)?;
        let Some((journal, recovery)) = tolerated(self.run, opened)? else { return Ok(false) };
        let last = recovery.last.get().max(self.known.persisted);
        let promised = if self.failed { self.known.acknowledged } else { flushed };
        if last < promised && self.run.mode != Mode::Silent {
            return Err(format!("{promised} was flushed, the last one found is {last}"));
        }
        self.journal = journal;
        self.known = self.known.resolved(recovery.last.get());
        self.note();
        Ok(true)
    }

    /// After a failure every append and wait gives the same error.
    fn stays_stopped(&self) -> Result<(), String> {
        let number = || self.journal.last().next();
        let appended = self.journal.append(number, |_, _| {});
        let waited = self.journal.wait(SeqNo::MAX, Durability::Synced);
        let trimmed = self.journal.trim(SeqNo::ZERO);
        let all_synced = self.journal.synced() == self.journal.last();
        match (appended, waited, trimmed) {
            (Err(first), Err(second), Err(third)) if first == second && second == third => Ok(()),
            (Err(first), Ok(()), Err(third)) if all_synced && first == third => Ok(()),
            other => Err(format!("after a failure: {other:?}")),
        }
    }

    /// Notes that the present knowledge holds from the next operation on.
    fn note(&mut self) {
        let now = self.disk.operations();
        match self.course.moments.last_mut() {
            Some((from, known)) if *from == now => known.clone_from(&self.known),
            _ => self.course.moments.push((now, self.known.clone())),
        }
    }
}
