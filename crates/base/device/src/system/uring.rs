//! A queue on an io_uring.
//!
//! 1. `submit` gives the request a slot, which owns file and buffer from then on, and puts an entry
//!    that points into the buffer on the ring. The kernel does not hear of it yet.
//! 2. `poll` and `wait` submit all entries to the kernel in one call, and look at every completion.
//! 3. A completion of a part puts the rest on the ring again; any other one frees the slot and
//!    hands the buffer back.
//!
//! Requests on files that are not the operating system's are done by their own blocking calls.
//!
//! # Invariants
//! - I1. From the moment when its entry is on the ring to the moment when its completion was taken
//!   off it, a slot keeps its buffer and its file, and touches neither.
//! - I2. Every slot in use has exactly one entry or completion under way, and there are no more
//!   slots than entries of the ring. So neither ring overflows.
//!
//! # Concurrency
//! A queue may move between threads but is used by one at a time (`&mut self`).
#![expect(unsafe_code, reason = "the kernel is handed pointers into buffers")]

#[cfg(test)]
mod tests;
mod transfer;

use std::any::Any;
use std::os::fd::{AsFd as _, AsRawFd};
use std::sync::Arc;

use io_uring::{IoUring, Probe, opcode, squeue, types};
use rustix::io::Errno;

use crate::blocking_queue::perform;
use crate::buffer::Buffer;
use crate::doorbell::Doorbell;
use crate::error::{Error, Operation, Result, is_out_of_files};
use crate::file::{File, SyncKind};
use crate::limit::sparing_io;
use crate::queue::{Completion, Queue, Request, Work};

use super::direct::{fits, window};
use super::file::SystemFile;
use transfer::{Next, Transfer};

/// Requests of the deepest queue: the most entries that the kernel gives a ring.
const DEPTH_MAX: usize = 32_768;

/// Reads, writes and syncs that the kernel does on its own time.
pub(super) struct UringQueue {
    ring: IoUring,
    slots: Vec<Option<Slot>>,
    free: Vec<u32>,
    /// Completions that did not go over the ring.
    ready: Vec<Completion>,
    depth: usize,
    /// Rung by the kernel for each completion, and by this queue for completions that do not pass
    /// over the ring.
    bell: Option<Arc<Doorbell>>,
}

/// A request under way.
struct Slot {
    tag: u64,
    file: Arc<SystemFile>,
    action: Action,
}

enum Action {
    Read {
        buffer: Buffer,
        transfer: Transfer,
    },
    /// A read that is not aligned. It goes through an aligned window, in which its bytes begin at
    /// `before`.
    Bounced {
        buffer: Buffer,
        window: Buffer,
        before: usize,
        transfer: Transfer,
    },
    Write {
        buffer: Buffer,
        transfer: Transfer,
    },
    Sync(SyncKind),
}

/// The state of a request after a completion.
enum Progress {
    Again,
    Whole(Result<()>),
}

/// Returns whether the kernel lets this process have a ring that can do the work of a queue. If
/// only a descriptor is missing, there may be one when a queue is made.
pub(super) fn is_available() -> bool {
    let ring = match build(1) {
        Ok(ring) => ring,
        Err(error) => return error.raw_os_error().is_some_and(is_out_of_files),
    };
    let mut probe = Probe::new();
    let needed = [opcode::Read::CODE, opcode::Write::CODE, opcode::Fsync::CODE];
    ring.submitter().register_probe(&mut probe).is_ok()
        && needed.iter().all(|&code| probe.is_supported(code))
}

fn build(entries: u32) -> std::io::Result<IoUring> {
    sparing_io(|| build_once(entries))
}

fn build_once(entries: u32) -> std::io::Result<IoUring> {
    // Completions are only looked at when the queue's thread comes by, so the kernel need not
    // interrupt it. Kernels before 5.19 do not know the flags.
    let mut lazy = IoUring::builder();
    lazy.setup_coop_taskrun().setup_taskrun_flag();
    lazy.build(entries).or_else(|error| match error.raw_os_error() {
        Some(code) if code == Errno::INVAL.raw_os_error() => IoUring::new(entries),
        _ => Err(error),
    })
}

impl UringQueue {
    /// A ring with room for `depth` requests, of which there are at least one.
    pub(super) fn new(depth: usize) -> Result<Self> {
        let depth = depth.clamp(1, DEPTH_MAX);
        // Below DEPTH_MAX, so it fits.
        let ring = build(depth as u32).map_err(ring_error)?;
        let slots = std::iter::repeat_with(|| None).take(depth).collect();
        let free = (0..depth as u32).rev().collect();
        Ok(Self { ring, slots, free, ready: Vec::new(), depth, bell: None })
    }

    /// Puts the rest of a slot's work on the ring.
    fn push(&mut self, index: u32) {
        let Some(Some(slot)) = self.slots.get_mut(index as usize) else { return };
        let entry = slot.entry().user_data(u64::from(index));
        // SAFETY: the entry points into the slot's buffer and names the slot's descriptor; by I1
        // neither moves until the completion was taken off the ring.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        // By I2 there is room: the ring has an entry for every slot.
        assert!(pushed.is_ok(), "the submission ring has room for every slot");
    }

    /// Submits the entries to the kernel, and waits until at least `count` completions are there.
    fn enter(&mut self, count: usize) -> Result<()> {
        loop {
            match self.ring.submit_and_wait(count) {
                Ok(_) => return Ok(()),
                Err(error) => match Errno::from_io_error(&error) {
                    Some(Errno::INTR) => {}
                    // The kernel is short of memory for requests, and will have it back when some
                    // of them complete.
                    Some(Errno::AGAIN | Errno::BUSY) if self.has_completions() => return Ok(()),
                    Some(Errno::AGAIN | Errno::BUSY) => rustix::thread::sched_yield(),
                    _ => return Err(ring_error(error)),
                },
            }
        }
    }

    fn has_completions(&mut self) -> bool {
        !self.ring.completion().is_empty()
    }

    /// Takes the completions off the ring; whole ones go to `into`.
    fn reap(&mut self, into: &mut Vec<Completion>) {
        let mut again = Vec::new();
        for entry in self.ring.completion() {
            // Only indices of slots were put on the ring.
            let index = entry.user_data() as u32;
            let Some(place) = self.slots.get_mut(index as usize) else { continue };
            let Some(slot) = place else { continue };
            match slot.progress(entry.result()) {
                Progress::Again => again.push(index),
                Progress::Whole(result) => {
                    into.extend(place.take().map(|slot| slot.complete(result)));
                    self.free.push(index);
                }
            }
        }
        for index in again {
            self.push(index);
        }
    }

    fn on_ring(&self) -> usize {
        self.depth - self.free.len()
    }

    /// Hands over the completions, and waits until there are at least `count` or nothing is under
    /// way.
    fn collect(&mut self, count: usize, into: &mut Vec<Completion>) -> Result<usize> {
        let before = into.len();
        into.append(&mut self.ready);
        self.reap(into);
        let mut steps = Collecting { queue: self, wanted: before.saturating_add(count), into };
        collect_all(&mut steps)?;
        Ok(into.len() - before)
    }

    /// Takes a request on one of our files to the ring.
    fn start(&mut self, index: u32, tag: u64, file: Arc<SystemFile>, work: Work) {
        let action = match work {
            Work::Read { offset, buffer } => Action::read(&file, offset, buffer),
            Work::Write { offset, buffer } => {
                file.accounting().wrote(buffer.len());
                let transfer = Transfer::new(offset, buffer.len(), buffer.len(), 1);
                Action::Write { buffer, transfer }
            }
            Work::Sync(kind) => {
                file.accounting().synced();
                Action::Sync(kind)
            }
        };
        if let Some(place) = self.slots.get_mut(index as usize) {
            *place = Some(Slot { tag, file, action });
            self.push(index);
        }
    }
}

impl Action {
    fn read(file: &SystemFile, offset: u64, buffer: Buffer) -> Self {
        let (unit, len) = (file.alignment(), buffer.len());
        if fits(unit, offset, len) {
            file.accounting().read(len);
            return Self::Read { transfer: Transfer::new(offset, len, len, unit), buffer };
        }
        let (start, window_len) = window(unit, offset, len);
        let before = (offset - start) as usize;
        file.accounting().read(window_len);
        let transfer = Transfer::new(start, window_len, before + len, unit);
        Self::Bounced { buffer, window: Buffer::zeroed(window_len), before, transfer }
    }
}

impl Slot {
    /// Returns an entry for the rest of the work, as the kernel wants it.
    fn entry(&mut self) -> squeue::Entry {
        let fd = types::Fd(self.file.fd().as_raw_fd());
        match &mut self.action {
            Action::Read { buffer, transfer }
            | Action::Bounced { window: buffer, transfer, .. } => {
                let (offset, range) = transfer.rest();
                let rest = &mut buffer[range];
                opcode::Read::new(fd, rest.as_mut_ptr(), rest.len() as u32).offset(offset).build()
            }
            Action::Write { buffer, transfer } => {
                let (offset, range) = transfer.rest();
                let rest = &buffer[range];
                opcode::Write::new(fd, rest.as_ptr(), rest.len() as u32).offset(offset).build()
            }
            Action::Sync(kind) => {
                let flags = match kind {
                    SyncKind::Data => types::FsyncFlags::DATASYNC,
                    SyncKind::All => types::FsyncFlags::empty(),
                };
                opcode::Fsync::new(fd).flags(flags).build()
            }
        }
    }

    /// Takes in the kernel's result for the last entry.
    fn progress(&mut self, result: i32) -> Progress {
        let (operation, next, end) = match &mut self.action {
            Action::Read { transfer, buffer } => {
                let end = transfer.offset().saturating_add(buffer.len() as u64);
                (Operation::Read, transfer.advance(result), Some(end))
            }
            Action::Bounced { transfer, before, buffer, .. } => {
                let start = transfer.offset().saturating_add(*before as u64);
                let end = start.saturating_add(buffer.len() as u64);
                (Operation::Read, transfer.advance(result), Some(end))
            }
            Action::Write { transfer, .. } => (Operation::Write, transfer.advance(result), None),
            Action::Sync(_) => (Operation::Sync, transfer::sync_outcome(result), None),
        };
        let failed = self.file.failed(operation);
        match (next, end) {
            (Next::Again, _) => Progress::Again,
            (Next::Done, _) => Progress::Whole(Ok(())),
            (Next::End, Some(end)) => Progress::Whole(Err(self.file.ends_before(end))),
            (Next::End, None) => Progress::Whole(Err(failed(Errno::IO))),
            (Next::Failed(errno), _) => Progress::Whole(Err(failed(errno))),
        }
    }

    /// The end of the request.
    fn complete(self, result: Result<()>) -> Completion {
        let result = match self.action {
            Action::Read { .. } | Action::Bounced { .. } => result,
            Action::Write { .. } | Action::Sync(_) => self.file.accounting().ended(result),
        };
        let buffer = match self.action {
            Action::Read { buffer, .. } | Action::Write { buffer, .. } => Some(buffer),
            Action::Bounced { mut buffer, window, before, .. } => {
                if result.is_ok() {
                    let end = before + buffer.len();
                    buffer.copy_from_slice(&window[before..end]);
                }
                Some(buffer)
            }
            Action::Sync(_) => None,
        };
        Completion { tag: self.tag, buffer, result }
    }
}

impl Queue for UringQueue {
    fn submit(&mut self, request: Request) -> std::result::Result<(), Request> {
        if self.in_flight() == self.depth {
            return Err(request);
        }
        let any: Arc<dyn Any + Send + Sync> = request.file.clone();
        let ours = any.downcast::<SystemFile>().ok();
        match (ours, self.free.pop()) {
            (Some(file), Some(index)) if goes_on_ring(&file, &request.work) => {
                self.start(index, request.tag, file, request.work);
            }
            (_, index) => {
                self.free.extend(index);
                self.ready.push(perform(request));
                self.bell.iter().for_each(|bell| bell.ring());
            }
        }
        Ok(())
    }

    fn poll(&mut self, into: &mut Vec<Completion>) -> Result<usize> {
        self.collect(0, into)
    }

    fn wait(&mut self, count: usize, into: &mut Vec<Completion>) -> Result<usize> {
        self.collect(count, into)
    }

    fn in_flight(&self) -> usize {
        self.on_ring() + self.ready.len()
    }

    fn ring(&mut self, bell: &Arc<Doorbell>) -> Result<()> {
        let descriptor = bell.as_fd().as_raw_fd();
        self.ring.submitter().register_eventfd(descriptor).map_err(ring_error)?;
        self.bell = Some(Arc::clone(bell));
        Ok(())
    }
}

/// The work of a thread that collects completions.
trait Collect {
    /// Returns the number of completions that the thread waits for.
    fn missing(&self) -> usize;

    /// Returns whether there are entries that the kernel does not have yet.
    fn has_entries(&mut self) -> bool;

    /// Returns whether the kernel has flagged completions that it has not put on the ring.
    fn is_flagged(&mut self) -> bool;

    /// Submits the entries, waits for `count` completions, and takes them off the ring.
    fn enter(&mut self, count: usize) -> Result<()>;
}

/// Enters the kernel until nothing is missing and it has all entries.
///
/// The flag alone is worth one entry, which runs all completions of this thread. The flag may stay
/// set after that: a completion of a request that another thread has submitted is run by that
/// thread. Or a completion was run just before the kernel set the flag, which then stays set until
/// the next completion. A thread that entered until the flag is clear would never return.
fn collect_all(steps: &mut impl Collect) -> Result<()> {
    let mut has_entered = false;
    loop {
        let missing = steps.missing();
        let is_due = missing > 0 || steps.has_entries() || !has_entered && steps.is_flagged();
        if !is_due {
            return Ok(());
        }
        steps.enter(missing)?;
        has_entered = true;
    }
}

/// A queue from which a thread collects.
struct Collecting<'a> {
    queue: &'a mut UringQueue,
    /// The length of `into` once nothing is missing.
    wanted: usize,
    into: &'a mut Vec<Completion>,
}

impl Collect for Collecting<'_> {
    fn missing(&self) -> usize {
        self.wanted.saturating_sub(self.into.len()).min(self.queue.on_ring())
    }

    fn has_entries(&mut self) -> bool {
        !self.queue.ring.submission().is_empty()
    }

    fn is_flagged(&mut self) -> bool {
        self.queue.ring.submission().taskrun()
    }

    fn enter(&mut self, count: usize) -> Result<()> {
        self.queue.enter(count)?;
        self.queue.reap(self.into);
        Ok(())
    }
}

/// Returns whether there is anything for the kernel to do: an empty transfer and one that is
/// refused complete immediately. An offset of all ones would mean the descriptor's own position to
/// it.
fn goes_on_ring(file: &SystemFile, work: &Work) -> bool {
    let in_range = |offset: u64| i64::try_from(offset).is_ok();
    match work {
        Work::Read { offset, buffer } => in_range(*offset) && !buffer.is_empty(),
        Work::Write { offset, buffer } => {
            in_range(*offset)
                && !buffer.is_empty()
                && file.check_write(*offset, buffer.len()).is_ok()
        }
        Work::Sync(_) => true,
    }
}

impl Drop for UringQueue {
    fn drop(&mut self) {
        let mut done = Vec::new();
        while self.on_ring() > 0 {
            if self.collect(1, &mut done).is_err() {
                // The kernel may still use the buffers and can no longer be asked: it keeps them.
                self.slots.drain(..).for_each(std::mem::forget);
                return;
            }
            done.clear();
        }
    }
}

fn ring_error(error: std::io::Error) -> Error {
    let code = error.raw_os_error().unwrap_or(Errno::IO.raw_os_error());
    Error::Io { operation: Operation::Queue, name: "io_uring".to_owned(), code }
}
