//! The log of an owner: appends, and the change from one segment to the next.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use environment::{Monotonic, Random};
use rand::Rng;
use stoc::{Kind, Request};
use sync::{Mutex, MutexGuard};

use crate::error::{Error, Result};
use crate::header::Header;
use crate::record::{LogRecord, Mode, Part, Segment};
use crate::registry::{Change, RegistryError};
use crate::replicas::{Replicas, Waited};
use crate::setup::Setup;
use crate::watched::Watched;

/// Time between two attempts to reach the coordinator or enough StoCs.
const PAUSE: Duration = Duration::from_millis(20);
/// Time between two attempts to find a better ensemble than one with a failed StoC.
const BETTER_PAUSE: Duration = Duration::from_secs(1);

/// One log of a range. Its methods may be called by many threads.
pub struct Log {
    pub(crate) setup: Setup,
    pub(crate) kind: Kind,
    writer: Mutex<Writer>,
    /// The segments, as other threads see them while an append waits.
    pub(crate) watched: Arc<Mutex<Watched>>,
}

/// The state of the log, of which one thread at a time changes something.
pub(crate) struct Writer {
    /// The record that was registered last.
    pub(crate) record: LogRecord,
    /// The segment that is appended to; none before the first file of this owner begins.
    pub(crate) active: Option<Active>,
    /// The segment that was left, until it is sealed in the record. (L4)
    pub(crate) left: Option<Left>,
    /// Records that a change of unknown outcome may have registered, or may still register. None
    /// of them is `record`.
    pub(crate) uncertain: Vec<LogRecord>,
    watched: Arc<Mutex<Watched>>,
    /// The number of the next segment.
    pub(crate) next_index: u64,
    random: Random,
    /// The time of the next search for a better ensemble.
    next_look: Monotonic,
    /// The error that ended the log.
    failure: Option<Error>,
}

/// The segment that is appended to.
pub(crate) struct Active {
    pub(crate) segment: Segment,
    pub(crate) part: Part,
    pub(crate) replicas: Replicas,
    /// The end of the bytes that are acknowledged, with the header.
    pub(crate) end: u64,
}

/// A segment that was left.
pub(crate) struct Left {
    pub(crate) index: u64,
    pub(crate) part: Part,
    pub(crate) end: u64,
}

impl Log {
    /// Returns the log of an owner that has registered `record`, with two open and empty segments.
    pub(crate) fn new(setup: Setup, kind: Kind, record: LogRecord) -> Self {
        let purpose = format!("log {kind:?} of range {} epoch {}", setup.range, setup.epoch);
        let watched = Arc::default();
        let writer = Writer {
            next_index: record.last_index() + 1,
            record,
            active: None,
            left: None,
            uncertain: Vec::new(),
            watched: Arc::clone(&watched),
            random: setup.environment.random(&purpose),
            next_look: setup.environment.now(),
            failure: None,
        };
        writer.watch();
        Self { setup, kind, writer: Mutex::new(writer), watched }
    }

    /// Begins a file, whose number is above those of all files before. On return Qa StoCs have the
    /// header of its first segment.
    ///
    /// # Errors
    /// [`Error::NotAtEnd`], [`Error::Fenced`], [`Error::Closed`].
    pub fn begin_file(&self, file: u64) -> Result<()> {
        let mut writer = self.writer.lock();
        self.check(&writer)?;
        let (newest, length) = writer.end();
        if file <= newest {
            return Err(Error::NotAtEnd { file: newest, length });
        }
        let begun = self.leave(&mut writer, Part { file, offset: 0 });
        writer.note(begun)
    }

    /// Appends bytes to the newest file, at its end. On return Qa StoCs have them as the mode of
    /// the log says. (L1)
    ///
    /// # Errors
    /// [`Error::NotAtEnd`]; [`Error::Fenced`] and [`Error::Closed`], after which it is unknown
    /// whether the log has the bytes. (L5)
    pub fn append(&self, file: u64, offset: u64, bytes: &[u8]) -> Result<()> {
        let mut writer = self.writer.lock();
        self.check(&writer)?;
        let (newest, length) = writer.end();
        if (file, offset) != (newest, length) || writer.active.is_none() {
            return Err(Error::NotAtEnd { file: newest, length });
        }
        let appended = self.append_to(&mut writer, Part { file, offset }, bytes.into());
        writer.note(appended)
    }

    /// Closes all logs of this owner, as [`Setup::closing`] does.
    pub fn close(&self) {
        self.setup.closing.close();
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock()
    }

    fn check(&self, writer: &Writer) -> Result<()> {
        match &writer.failure {
            Some(failure) => Err(failure.clone()),
            None if self.is_closed() => Err(Error::Closed),
            None => Ok(()),
        }
    }

    fn is_closed(&self) -> bool {
        self.setup.closing.is_closed()
    }

    fn append_to(&self, writer: &mut Writer, at: Part, bytes: Arc<[u8]>) -> Result<()> {
        self.improve(writer, at)?;
        while let Some(active) = &mut writer.active {
            let end = active.end + bytes.len() as u64;
            match self.send(active, Arc::clone(&bytes)) {
                Waited::Acknowledged => {
                    active.end = end;
                    break;
                }
                Waited::Fenced => return Err(self.setup.fenced()),
                Waited::Closed => return Err(Error::Closed),
                // The bytes go to the next segment. (L3)
                Waited::Lost => self.leave(writer, at)?,
            }
        }
        Ok(())
    }

    /// Sends bytes to the replicas of the active segment, and waits.
    fn send(&self, active: &Active, bytes: Arc<[u8]>) -> Waited {
        let Setup { range, epoch, .. } = self.setup;
        let (name, offset) = (active.segment.name(range, self.kind), active.end);
        let end = offset + bytes.len() as u64;
        active.replicas.append((name, epoch), offset, &bytes);
        active.replicas.wait(end, self.setup.timing(), || self.is_closed())
    }

    /// Leaves a segment with failed StoCs if the next one has more healthy ones, or can have. The
    /// next one has the bytes of the file from `at` on.
    fn improve(&self, writer: &mut Writer, at: Part) -> Result<()> {
        let Some(active) = &writer.active else { return Ok(()) };
        let healthy = active.replicas.healthy(active.end, self.setup.backlog_bytes);
        let now = self.setup.environment.now();
        if healthy >= self.setup.ensemble || now < writer.next_look {
            return Ok(());
        }
        writer.next_look = now + BETTER_PAUSE;
        let failed = active.replicas.failed_nodes();
        if writer.left.is_some() && !self.seal_left(writer)? {
            return Ok(());
        }
        let is_better = |segment: &Segment| {
            let present = self.setup.present(segment).into_iter();
            present.filter(|(node, _)| !failed.contains(node)).count() > healthy
        };
        let Some(spare) = writer.spare().cloned() else { return Ok(()) };
        let others = self.setup.stocs.choose(self.setup.ensemble, &failed).len();
        if !is_better(&spare) && others <= healthy {
            return Ok(());
        }
        if is_better(&spare) || self.replace(writer, &spare, &failed, is_better)? {
            self.leave(writer, at)?;
        }
        Ok(())
    }

    /// Leaves the active segment, if there is one, for the next one, whose first bytes are those of
    /// the file at `part`. Returns once Qa StoCs have the header of the next segment.
    fn leave(&self, writer: &mut Writer, part: Part) -> Result<()> {
        let failed = writer.failed_nodes();
        while !self.try_to_leave(writer, part, &failed)? {
            if self.is_closed() {
                return Err(Error::Closed);
            }
            self.setup.environment.sleep(PAUSE);
        }
        writer.watch();
        // While the coordinator cannot be reached, the next segment takes appends unsealed.
        self.seal_left(writer).map(|_| ())
    }

    /// Does one attempt to leave. Returns whether the next segment is active.
    fn try_to_leave(&self, writer: &mut Writer, part: Part, failed: &[u32]) -> Result<bool> {
        if !self.seal_left(writer)? {
            return Ok(false);
        }
        if writer.spare().is_none() && !self.add_spare(writer, failed)? {
            return Ok(false);
        }
        let Some(spare) = self.whole_spare(writer, failed)? else { return Ok(false) };
        let Some(active) = self.activate(writer, &spare, part)? else {
            self.replace(writer, &spare, failed, |_| true)?;
            return Ok(false);
        };
        writer.left = writer.active.replace(active).map(Left::of);
        Ok(true)
    }

    /// Returns the segment to go to. A spare in memory that has lost replicas is replaced first, if
    /// a better one can be made and registered.
    fn whole_spare(&self, writer: &mut Writer, failed: &[u32]) -> Result<Option<Segment>> {
        let Some(spare) = writer.spare().cloned() else { return Ok(None) };
        let present = self.setup.present(&spare).len();
        if spare.mode == Mode::Durable || present >= self.setup.ensemble {
            return Ok(Some(spare));
        }
        // If the outcome of the change were unknown, no append could use the spare. Without the
        // coordinator the weak spare takes appends.
        let is_enough = present >= self.setup.quorum;
        if is_enough && self.setup.registry.load(self.kind).is_err() {
            return Ok(Some(spare));
        }
        let is_better = |other: &Segment| self.setup.present(other).len() > present;
        self.replace(writer, &spare, failed, is_better)?;
        Ok(writer.spare().cloned())
    }

    /// Writes the header of a segment. Returns no segment if too few of its StoCs have taken it.
    fn activate(&self, writer: &Writer, next: &Segment, part: Part) -> Result<Option<Active>> {
        let sealed = || {
            let sealed = writer.record.segments.iter().rev();
            sealed.filter_map(|segment| Some((segment.index, segment.sealed?))).next()
        };
        let active = writer.active.as_ref().map(|active| (active.segment.index, active.end));
        let (previous, previous_end) = active.or_else(sealed).unwrap_or_default();
        let header = Header { part, previous, previous_end }.encode();
        let replicas = Replicas::new(next, &*self.setup.stocs, self.setup.quorum);
        let mut active = Active { segment: next.clone(), part, replicas, end: 0 };
        match self.send(&active, header.into()) {
            Waited::Acknowledged => {
                active.end = Header::BYTES as u64;
                Ok(Some(active))
            }
            Waited::Lost => Ok(None),
            Waited::Fenced => Err(self.setup.fenced()),
            Waited::Closed => Err(Error::Closed),
        }
    }

    /// Seals the segment that was left in the record, and registers another spare. Returns whether
    /// this is done.
    fn seal_left(&self, writer: &mut Writer) -> Result<bool> {
        if writer.left.is_some() && !self.settle(writer)? {
            return Ok(false);
        }
        let Some(Left { index, part, end }) = writer.left else { return Ok(true) };
        let mut after = writer.record.clone();
        let Some(left) = after.segments.iter_mut().find(|segment| segment.index == index) else {
            return Ok(true);
        };
        (left.part, left.sealed) = (Some(part), Some(end));
        let left = left.clone();
        let failed = writer.failed_nodes();
        after.segments.extend(self.create(writer, &failed)?);
        let is_done = self.change(writer, after)?;
        if is_done {
            let Setup { range, epoch, .. } = self.setup;
            let name = left.name(range, self.kind);
            self.setup.send_to_ensemble(&left, &Request::Seal { name, epoch, length: end });
        }
        Ok(is_done)
    }

    /// Finds out which record is registered after changes of unknown outcome. Returns whether that
    /// is known now.
    fn settle(&self, writer: &mut Writer) -> Result<bool> {
        if !writer.uncertain.is_empty() {
            let same = writer.record.clone();
            self.change(writer, same)?;
        }
        Ok(writer.uncertain.is_empty())
    }

    /// Makes the log files of a segment. Returns none if there are too few StoCs.
    fn create(&self, writer: &mut Writer, failed: &[u32]) -> Result<Option<Segment>> {
        let place = writer.next_place();
        let segment = self.setup.create_segment(self.kind, place, failed)?;
        if self.setup.has_quorum(&segment) {
            return Ok(Some(segment));
        }
        // It was never registered, and no later segment has its number.
        self.release(&segment);
        Ok(None)
    }

    /// Registers a spare if the record has none. Returns whether it has one now.
    fn add_spare(&self, writer: &mut Writer, failed: &[u32]) -> Result<bool> {
        if !self.settle(writer)? {
            return Ok(false);
        }
        if writer.spare().is_some() {
            return Ok(true);
        }
        let Some(spare) = self.create(writer, failed)? else { return Ok(false) };
        let mut after = writer.record.clone();
        after.segments.push(spare);
        self.change(writer, after)
    }

    /// Registers another spare in the place of `spare`, if there is one that `is_better`. Returns
    /// whether it did. StoCs that have failed are avoided if there are others.
    fn replace(
        &self,
        writer: &mut Writer,
        spare: &Segment,
        failed: &[u32],
        is_better: impl Fn(&Segment) -> bool,
    ) -> Result<bool> {
        let Some(other) = self.create(writer, failed)? else { return Ok(false) };
        let is_replaced = is_better(&other) && {
            let mut after = writer.record.clone();
            after.segments.retain(|segment| segment.index != spare.index);
            after.segments.push(other.clone());
            self.change(writer, after)?
        };
        let unused = if is_replaced { spare } else { &other };
        if is_replaced || !writer.may_be_registered(unused) {
            self.release(unused);
        }
        Ok(is_replaced)
    }

    /// Releases the log files of a segment that the record does not name.
    pub(crate) fn release(&self, segment: &Segment) {
        let Setup { range, epoch, .. } = self.setup;
        let name = segment.name(range, self.kind);
        self.setup.send_to_ensemble(segment, &Request::Release { name, by: range, epoch });
    }

    /// Registers a record. Returns whether it is registered. If not, the coordinator cannot be
    /// reached, or an earlier change has happened after all; the caller begins again.
    ///
    /// # Errors
    /// [`Error::Fenced`].
    pub(crate) fn change(&self, writer: &mut Writer, after: LogRecord) -> Result<bool> {
        let before = writer.record.clone();
        let change = Change { kind: self.kind, before, after };
        let registry = &self.setup.registry;
        let changed = registry.change(self.setup.epoch, std::slice::from_ref(&change));
        let after = change.after;
        match changed {
            Ok(()) => {
                writer.adopt(after);
                return Ok(true);
            }
            Err(RegistryError::Unavailable(_)) if after == writer.record => {}
            Err(RegistryError::Unavailable(_)) => writer.uncertain.push(after.clone()),
            // An earlier change of unknown outcome may have happened.
            Err(RegistryError::Fenced) if writer.uncertain.is_empty() => {
                return Err(self.setup.fenced());
            }
            Err(RegistryError::Fenced) => {}
        }
        let is_fenced = changed.is_err_and(|error| error == RegistryError::Fenced);
        match registry.load(self.kind) {
            // Other changes compare the record before this one, so they fail. If the store still
            // has the present record, a change may be on its way, and the outcome stays unknown.
            Ok(now) if writer.uncertain.contains(&now) => {
                let is_done = now == after;
                writer.adopt(now);
                Ok(is_done)
            }
            Ok(_) if is_fenced => Err(self.setup.fenced()),
            Ok(_) | Err(_) => Ok(false),
        }
    }
}

impl Writer {
    /// Returns the newest file and its length; 0 and 0 if this owner has begun none.
    pub(crate) fn end(&self) -> (u64, u64) {
        match &self.active {
            Some(Active { part, end, .. }) => (part.file, part.offset + end - HEADER_BYTES),
            None => self.sealed_end(),
        }
    }

    fn sealed_end(&self) -> (u64, u64) {
        let sealed = self.record.segments.iter().rev();
        let mut ends = sealed.filter_map(|segment| {
            let (part, end) = (segment.part?, segment.sealed?);
            Some((part.file, part.offset + end.saturating_sub(HEADER_BYTES)))
        });
        ends.next().unwrap_or_default()
    }

    /// Returns the segment that is appended to after the active one. It is in the record, whatever
    /// the outcome of changes is.
    fn spare(&self) -> Option<&Segment> {
        let active = self.active.as_ref().map(|active| active.segment.index);
        let left = self.left.as_ref().map(|left| left.index);
        let mut open = self.record.open_segments();
        let spare = open.find(|segment| ![active, left].contains(&Some(segment.index)))?;
        let is_certain = self.uncertain.iter().all(|record| record.segments.contains(spare));
        is_certain.then_some(spare)
    }

    /// Returns the StoCs of the active segment that have failed.
    fn failed_nodes(&self) -> Vec<u32> {
        self.active.as_ref().map_or_else(Vec::new, |active| active.replicas.failed_nodes())
    }

    /// Returns the number and the nonce of another segment.
    fn next_place(&mut self) -> (u64, u64) {
        self.next_index += 1;
        (self.next_index - 1, self.random.next_u64())
    }

    /// Notes the record that is registered now.
    fn adopt(&mut self, record: LogRecord) {
        let is_sealed = |index: u64| {
            let mut segments = record.segments.iter();
            segments.any(|segment| segment.index == index && segment.sealed.is_some())
        };
        if self.left.as_ref().is_some_and(|left| is_sealed(left.index)) {
            self.left = None;
        }
        self.record = record;
        self.uncertain.clear();
        self.watch();
    }

    /// Shows the segments to other threads.
    fn watch(&self) {
        *self.watched.lock() = Watched::of(self);
    }

    /// Returns whether the record has the segment, or may have it after a change of unknown
    /// outcome.
    fn may_be_registered(&self, segment: &Segment) -> bool {
        let mut records = self.uncertain.iter().chain([&self.record]);
        records.any(|record| record.segments.contains(segment))
    }

    /// Notes an error that ends the log.
    fn note<T>(&mut self, done: Result<T>) -> Result<T> {
        if let Err(error @ (Error::Fenced { .. } | Error::Closed)) = &done {
            self.failure.get_or_insert_with(|| error.clone());
        }
        done
    }
}

/// Bytes of a segment before those of its part.
pub(crate) const HEADER_BYTES: u64 = Header::BYTES as u64;

impl Left {
    fn of(active: Active) -> Self {
        let Active { segment, part, end, .. } = active;
        Self { index: segment.index, part, end }
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Setup { range, epoch, .. } = &self.setup;
        f.debug_struct("Log")
            .field("range", range)
            .field("epoch", epoch)
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}
