//! Many look-ups under way on one queue of the device, each at a step of its own.
//!
//! A completed read resumes its look-up at once, and the next read that it wants goes to the queue
//! with the others': the device has something to do as long as there is a look-up.
//!
//! # Invariants
//! - F1. A look-up in flight has exactly one read, whose tag is its place: on the queue, or, where those
//!   there are long, waiting for room among them; one is on the queue if there is any. A completion is
//!   kept until it was taken in, and a place is free before anybody is told of its look-up: so neither
//!   an error of the queue nor a panic of who is told leaves one behind that nothing completes.
//! - F2. The budget knows of every buffer, also of those with the device.
//! - F3. Dropping a flight waits for the reads that are with the device, and gives up the look-ups:
//!   none of them has changed anything.

use std::collections::VecDeque;
use std::sync::Arc;

use device::{Buffer, Completion, Doorbell, Queue, Request, Work};
use engine::Result;

use super::{LookUp, Progress};
use crate::store::Shared;

/// Longer buffers are not kept.
use memory_budget::Account;
const SPARE_BYTES_MAX: usize = 16 << 10;
/// Reads are held back, to be handed to the device together, until they are this share of those under
/// way: a read that is alone does not wait, and where many are under way few calls are made.
const HELD_BACK_SHARE: usize = 8;

/// Bytes of reads on the queue at once, or one read that is longer.
const BYTES_MAX: usize = 4 << 20;

/// Buffers that a queue keeps which nobody uses.
const IDLE_BUFFERS_MAX: usize = 32;

/// Memory of a buffer of so many bytes.
fn taken_by(len: usize) -> u64 {
    (len + Buffer::ALIGNMENT - 1) as u64
}

/// A queue of the device and buffers for it.
pub(crate) struct Fetcher {
    queue: Box<dyn Queue>,
    depth: usize,
    spare: Vec<Buffer>,
    completions: Vec<Completion>,
    /// Reads that the device may not have heard of.
    held_back: usize,
    /// Bytes of reads on the queue.
    flying_bytes: usize,
    buffer_bytes: u64,
    charge: Account,
}

/// A buffer that comes back however its use ends. [F2]
struct Lent<'a> {
    fetcher: &'a mut Fetcher,
    /// Always there before the drop.
    buffer: Option<Buffer>,
}

impl Lent<'_> {
    fn bytes(&self) -> &[u8] {
        self.buffer.as_deref().unwrap_or_default()
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        if let Some(buffer) = self.buffer.take() {
            self.fetcher.keep(buffer);
        }
    }
}

/// Look-ups under way, each with what it is for.
pub(crate) struct Flight<T> {
    fetcher: Fetcher,
    flying: Vec<Option<(LookUp, T)>>,
    free: Vec<usize>,
    /// Whose reads wait for room, the first to come first.
    waiting: VecDeque<usize>,
    scratch: Vec<u8>,
}

/// What a look-up is for.
pub(crate) trait Purpose: Sized {
    /// The key that is looked up.
    fn key(&self) -> &[u8];
}

/// Told of each look-up that has ended; answers another one, which wants a read, if it goes on.
pub(crate) type Ended<'a, T> = dyn FnMut(T, Result<Option<&[u8]>>) -> Option<(LookUp, T)> + 'a;

impl Fetcher {
    pub(crate) fn new(queue: Box<dyn Queue>, depth: usize, charge: Account) -> Self {
        let (spare, completions) = Default::default();
        let (held_back, flying_bytes, buffer_bytes) = Default::default();
        Self { queue, depth, spare, completions, held_back, flying_bytes, buffer_bytes, charge }
    }

    /// Whether a read of so many bytes may go to the queue now.
    fn has_room_for(&self, bytes: usize) -> bool {
        self.flying_bytes == 0 || self.flying_bytes + bytes <= BYTES_MAX
    }

    fn submit(&mut self, tag: usize, look_up: &LookUp) {
        let read = look_up.read();
        let len = read.len();
        let spare = self.spare.iter().rposition(|buffer| buffer.len() == len);
        let buffer = match spare {
            Some(index) => self.spare.swap_remove(index),
            None => {
                self.buffer_bytes += taken_by(len);
                self.charge.set(self.buffer_bytes);
                Buffer::zeroed(len)
            }
        };
        let work = Work::Read { offset: read.offset(), buffer };
        let request = Request { tag: tag as u64, file: read.file(), work };
        let submitted = self.queue.submit(request);
        assert!(submitted.is_ok(), "no more is submitted than the queue has room for");
        self.held_back += 1;
        self.flying_bytes += len;
    }

    /// Hands what was held back to the device.
    fn hand_over(&mut self) -> Result<()> {
        self.queue.poll(&mut self.completions)?;
        self.held_back = 0;
        Ok(())
    }

    fn keep(&mut self, buffer: Buffer) {
        if buffer.len() <= SPARE_BYTES_MAX && self.spare.len() < self.depth {
            self.spare.push(buffer);
        } else {
            self.buffer_bytes -= taken_by(buffer.len());
            self.charge.set(self.buffer_bytes);
        }
    }

    /// Keeps little while nobody uses it.
    fn rest(&mut self) {
        self.spare.truncate(IDLE_BUFFERS_MAX);
        self.buffer_bytes = self.spare.iter().map(|buffer| taken_by(buffer.len())).sum();
        self.charge.set(self.buffer_bytes);
    }
}

impl<T: Purpose> Flight<T> {
    pub(crate) fn new(fetcher: Fetcher) -> Self {
        let (flying, free, waiting, scratch) = Default::default();
        Self { fetcher, flying, free, waiting, scratch }
    }

    /// The queue, for another flight; none if it still has something to do.
    pub(crate) fn into_fetcher(mut self) -> Option<Fetcher> {
        if self.len() > 0 {
            return None;
        }
        self.fetcher.rest();
        Some(self.fetcher)
    }

    /// Has `bell` rung when [`Flight::complete`] has something to do.
    pub(crate) fn ring(&mut self, bell: &Arc<Doorbell>) -> Result<()> {
        Ok(self.fetcher.queue.ring(bell)?)
    }

    /// Look-ups under way.
    pub(crate) fn len(&self) -> usize {
        self.flying.len() - self.free.len()
    }

    /// Whether it takes no more.
    pub(crate) fn is_full(&self) -> bool {
        self.len() == self.fetcher.depth
    }

    /// Takes a look-up that wants a read. There is room. What goes wrong with the queue is told by the
    /// next completion.
    pub(crate) fn begin(&mut self, look_up: LookUp, purpose: T) {
        assert!(!self.is_full(), "a flight has room for so many look-ups");
        let tag = self.free.pop().unwrap_or_else(|| {
            self.flying.push(None);
            self.flying.len() - 1
        });
        self.fly(tag, look_up, purpose);
        if self.fetcher.held_back * HELD_BACK_SHARE >= self.len() {
            let _ = self.fetcher.hand_over();
        }
    }

    /// Has a look-up's read done as soon as there is room for it.
    fn fly(&mut self, tag: usize, look_up: LookUp, purpose: T) {
        if self.waiting.is_empty() && self.fetcher.has_room_for(look_up.read().len()) {
            self.fetcher.submit(tag, &look_up);
        } else {
            self.waiting.push_back(tag);
        }
        self.flying[tag] = Some((look_up, purpose));
    }

    /// Has the reads done that there is room for by now.
    fn fly_on(&mut self) {
        while let Some(tag) = self.waiting.front().copied()
            && let Some((look_up, _)) = &self.flying[tag]
            && self.fetcher.has_room_for(look_up.read().len())
        {
            self.fetcher.submit(tag, look_up);
            self.waiting.pop_front();
        }
    }

    /// Resumes the look-ups whose reads are there, and tells `ended` of those that know their
    /// answer. Where `waits`, until there is one, if any is under way. Answers how many there were.
    ///
    /// # Errors
    /// The queue's. What goes wrong with a look-up is told of it alone.
    pub(crate) fn complete(
        &mut self,
        shared: &Shared,
        waits: bool,
        ended: &mut Ended<'_, T>,
    ) -> Result<usize> {
        let mut count = 0;
        loop {
            let Fetcher { queue, completions, .. } = &mut self.fetcher;
            if waits && count == 0 && completions.is_empty() {
                queue.wait(1, completions)?;
            } else {
                queue.poll(completions)?;
            }
            self.fetcher.held_back = 0;
            // [F1]
            while let Some(completion) = self.fetcher.completions.pop() {
                count += usize::from(self.take_in(shared, completion, ended));
            }
            self.fly_on();
            if !waits || count > 0 || self.len() == 0 {
                break;
            }
        }
        if self.fetcher.held_back > 0 {
            self.fetcher.hand_over()?;
        }
        Ok(count)
    }

    /// Goes on with one look-up. Whether it has ended.
    fn take_in(
        &mut self,
        shared: &Shared,
        completion: Completion,
        ended: &mut Ended<'_, T>,
    ) -> bool {
        let tag = completion.tag as usize;
        let flying = self.flying.get_mut(tag).and_then(Option::take);
        let (Some((mut look_up, purpose)), Some(buffer)) = (flying, completion.buffer) else {
            unreachable!("a completion answers a read that was submitted")
        };
        self.fetcher.flying_bytes -= buffer.len();
        shared.look_up_reads.note_read(buffer.len());
        let lent = Lent { fetcher: &mut self.fetcher, buffer: Some(buffer) };
        let key = purpose.key();
        let progress = match completion.result {
            // What is in memory would answer a closed store's look-ups now and then.
            Ok(()) => (shared.health.check_open())
                .and_then(|()| look_up.resume(shared, key, lent.bytes(), &mut self.scratch)),
            Err(error) => Err(error.into()),
        };
        // [F1]
        self.free.push(tag);
        if !matches!(progress, Ok(Progress::Read)) {
            shared.look_up_reads.note_end();
            shared.wake_upkeep();
        }
        let next = match progress {
            Ok(Progress::Read) => Some((look_up, purpose)),
            Ok(Progress::Value(value)) => ended(purpose, Ok(Some(value))),
            Ok(Progress::Absent) => ended(purpose, Ok(None)),
            Err(error) => ended(purpose, Err(error)),
        };
        drop(lent);
        let Some((look_up, purpose)) = next else { return true };
        self.free.pop();
        self.fly(tag, look_up, purpose);
        false
    }
}
