//! Look-ups that wait for the device, many beside each other on one queue.
//!
//! 1. A look-up goes on until it has ended or needs a piece of a table that the cache does not
//!    have.
//! 2. The piece is asked for on the queue. When it comes it is verified, the cache has it, and the
//!    look-up goes on.
//!
//! # Invariants
//! - F1. Each look-up that waits has exactly one read, whose tag is its place: on the queue, or,
//!   where those there are long, held up until there is room among them. One is on the queue if
//!   there is any, and no more wait than the queue has room for.
//! - F2. The budget knows of every buffer that is read into.

use std::collections::VecDeque;
use std::sync::Arc;

use device::{Buffer, Completion, Doorbell, Queue, Request, Work};
use engine::Result;
use memory_budget::{Account, MemoryBudget};

use crate::cache::Cached;
use crate::entry::Found;
use crate::search::{Progress, Search};
use crate::store::Shared;
use crate::table::{Piece, Span, Table};

/// Bytes of reads on the queue at once, or one read that is longer.
const BYTES_MAX: usize = 4 << 20;
/// Memory for values that is kept from call to call.
const VALUE_BYTES_KEPT: usize = 64 << 10;

/// How a look-up began.
#[derive(Debug)]
pub(crate) enum Began {
    /// It has ended; a value was copied.
    Ended(Option<Found>),
    Pending,
    /// As many wait as may: nothing was begun.
    Full,
}

/// Who is told of a look-up that has ended: what it was begun with, its key, what was found, and
/// the value.
pub(crate) type Tell<'a, T> = dyn FnMut(T, &[u8], Result<Option<Found>>, &[u8]) + 'a;

/// The look-ups of one thread, each with a `T` that says whose it is.
pub(crate) struct Flights<K, T> {
    depth: usize,
    queue: Option<Box<dyn Queue>>,
    bell: Option<Arc<Doorbell>>,
    waiting: Vec<Option<Waiting<K, T>>>,
    pending: usize,
    /// Whose reads wait for room on the queue, the first to come first.
    held_up: VecDeque<usize>,
    /// Bytes of reads on the queue.
    flying_bytes: usize,
    /// The device may not have heard of the last reads.
    is_held_back: bool,
    completions: Vec<Completion>,
    value: Vec<u8>,
    /// Behind the queue, which is dropped first and waits for its buffers.
    charge: Account,
}

/// A look-up that waits for a piece.
struct Waiting<K, T> {
    search: Search<K>,
    whose: T,
    wanted: Wanted,
}

/// A piece of a table, and where it is to be read.
struct Wanted {
    table: Arc<Table>,
    piece: Piece,
    span: Span,
}

/// How far a look-up has come.
enum Step {
    Ended(Option<Found>),
    Waits(Wanted),
}

impl<K: AsRef<[u8]>, T> Flights<K, T> {
    /// None yet; at most `depth` wait at once. Their buffers are charged to `memory`.
    pub(crate) fn new(depth: usize, memory: &Arc<MemoryBudget>) -> Self {
        Self {
            depth: depth.max(1),
            queue: None,
            bell: None,
            waiting: Vec::new(),
            pending: 0,
            held_up: VecDeque::new(),
            flying_bytes: 0,
            is_held_back: false,
            completions: Vec::new(),
            value: Vec::new(),
            charge: Account::new(memory),
        }
    }

    /// How many wait.
    pub(crate) fn pending(&self) -> usize {
        self.pending
    }

    /// Has `bell` rung when [`Flights::complete`] has something to do.
    pub(crate) fn ring(&mut self, bell: &Arc<Doorbell>) -> Result<()> {
        if let Some(queue) = &mut self.queue {
            queue.ring(bell)?;
        }
        self.bell = Some(Arc::clone(bell));
        Ok(())
    }

    /// Begins a look-up. Does not wait for the device.
    pub(crate) fn begin(
        &mut self,
        shared: &Shared,
        mut search: Search<K>,
        whose: T,
        into: &mut Vec<u8>,
    ) -> Result<Began> {
        match go_on(shared, &mut search, None, into)? {
            Step::Ended(found) => Ok(Began::Ended(found)),
            Step::Waits(_) if self.pending == self.depth => Ok(Began::Full),
            Step::Waits(wanted) => {
                self.open_queue(shared)?;
                self.fly(Waiting { search, whose, wanted });
                Ok(Began::Pending)
            }
        }
    }

    /// Tells of the look-ups that have ended, and where `waits`, not before there was one, if any
    /// is pending. Answers how many there were: no more than were on the queue at once, unless it
    /// waits for the first.
    pub(crate) fn complete(
        &mut self,
        shared: &Shared,
        waits: bool,
        tell: &mut Tell<'_, T>,
    ) -> Result<usize> {
        let mut ended = 0;
        // Also what a panic of who was told has left (F1).
        self.fly_on();
        while self.pending > 0 {
            let Some(queue) = &mut self.queue else { break };
            if waits && self.completions.is_empty() {
                queue.wait(1, &mut self.completions)?;
            } else {
                queue.poll(&mut self.completions)?;
            }
            self.is_held_back = false;
            while let Some(completion) = self.completions.pop() {
                ended += usize::from(self.land(shared, completion, tell));
            }
            self.fly_on();
            if !waits || ended > 0 {
                break;
            }
        }
        if self.is_held_back
            && let Some(queue) = &mut self.queue
        {
            queue.poll(&mut self.completions)?;
            self.is_held_back = false;
        }
        self.value.clear();
        self.value.shrink_to(VALUE_BYTES_KEPT);
        Ok(ended)
    }

    /// Goes on with the look-up whose piece has come; answers whether it has ended.
    fn land(&mut self, shared: &Shared, completion: Completion, tell: &mut Tell<'_, T>) -> bool {
        let slot = self.waiting.get_mut(completion.tag as usize);
        let Some(mut waiting) = slot.and_then(Option::take) else { return false };
        self.pending -= 1;
        let Wanted { table, piece, span } = &waiting.wanted;
        self.flying_bytes -= span.read_len;
        let given = completion.result.map_err(engine::Error::from).and_then(|()| {
            let buffer = completion.buffer.as_deref().unwrap_or_default();
            let wanted = buffer.get(span.skipped..span.skipped + span.len);
            table.keep(*piece, wanted.unwrap_or_default())
        });
        drop(completion.buffer);
        self.charge.set(self.flying_bytes as u64);
        let value = &mut self.value;
        let step = given.and_then(|given| go_on(shared, &mut waiting.search, Some(given), value));
        let found = match step {
            Ok(Step::Waits(wanted)) => {
                waiting.wanted = wanted;
                self.fly(waiting);
                return false;
            }
            Ok(Step::Ended(found)) => Ok(found),
            Err(error) => Err(error),
        };
        tell(waiting.whose, waiting.search.key(), found, &self.value);
        true
    }

    /// Makes the queue if there is none yet.
    fn open_queue(&mut self, shared: &Shared) -> Result<()> {
        if self.queue.is_none() {
            let mut queue = shared.host.device.queue(self.depth)?;
            if let Some(bell) = &self.bell {
                queue.ring(bell)?;
            }
            self.queue = Some(queue);
        }
        Ok(())
    }

    /// Has a look-up's piece read as soon as there is room for it. There is a queue, and a place.
    fn fly(&mut self, waiting: Waiting<K, T>) {
        let free = self.waiting.iter().position(Option::is_none);
        let place = free.unwrap_or(self.waiting.len());
        match self.waiting.get_mut(place) {
            Some(slot) => *slot = Some(waiting),
            None => self.waiting.push(Some(waiting)),
        }
        self.pending += 1;
        self.held_up.push_back(place);
        self.fly_on();
    }

    /// Has the pieces read that there is room for.
    fn fly_on(&mut self) {
        let Some(queue) = &mut self.queue else { return };
        while let Some(&place) = self.held_up.front()
            && let Some(Some(waiting)) = self.waiting.get(place)
        {
            let Span { file, offset, read_len, .. } = &waiting.wanted.span;
            if self.flying_bytes > 0 && self.flying_bytes + read_len > BYTES_MAX {
                break;
            }
            self.held_up.pop_front();
            self.flying_bytes += read_len;
            self.charge.set(self.flying_bytes as u64);
            let work = Work::Read { offset: *offset, buffer: Buffer::zeroed(*read_len) };
            let request = Request { tag: place as u64, file: Arc::clone(file), work };
            let submitted = queue.submit(request);
            assert!(submitted.is_ok(), "fewer are in flight than the queue has room for");
            self.is_held_back = true;
        }
    }
}

/// Goes on with a look-up until it has ended, or needs what a file has.
fn go_on<K: AsRef<[u8]>>(
    shared: &Shared,
    search: &mut Search<K>,
    mut given: Option<Cached>,
    into: &mut Vec<u8>,
) -> Result<Step> {
    let cached = |table: &Table, piece| Ok(table.cached(piece));
    loop {
        let with = (&shared.lookups, &*shared.cache);
        let (table, piece) = match search.advance(given.take(), into, with, &cached)? {
            Progress::Found(found) => return Ok(Step::Ended(Some(found))),
            Progress::Absent => return Ok(Step::Ended(None)),
            Progress::Waits(table, piece) => (table, piece),
        };
        let Some(span) = table.span(piece)? else {
            given = Some(table.piece(piece)?);
            continue;
        };
        return Ok(Step::Waits(Wanted { table, piece, span }));
    }
}
