//! Look-ups that wait for the device, many beside each other on one queue.
//!
//! 1. A look-up goes on until it has ended or needs a piece of a table that the cache does not
//!    have.
//! 2. The piece is asked for on the queue. When it comes it is verified, the cache has it, and the
//!    look-up goes on.
//!
//! # Invariants
//! - F1. As many look-ups wait as requests are in flight, and no more than the queue has room for.

use std::sync::Arc;

use device::{Buffer, Completion, Doorbell, Queue, Request, Work};
use engine::Result;

use crate::cache::Cached;
use crate::entry::Found;
use crate::search::{Progress, Search};
use crate::store::Shared;
use crate::table::{Piece, Span, Table};

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
    completions: Vec<Completion>,
    value: Vec<u8>,
}

/// A look-up that waits for a piece.
struct Waiting<K, T> {
    search: Search<K>,
    whose: T,
    wanted: Wanted,
}

/// A piece of a table: so many bytes, behind so many others of what is read.
struct Wanted {
    table: Arc<Table>,
    piece: Piece,
    skipped: usize,
    len: usize,
}

/// How far a look-up has come.
enum Step {
    Ended(Option<Found>),
    Waits(Wanted, Request),
}

impl<K: AsRef<[u8]>, T> Flights<K, T> {
    /// None yet; at most `depth` wait at once.
    pub(crate) fn new(depth: usize) -> Self {
        Self {
            depth: depth.max(1),
            queue: None,
            bell: None,
            waiting: Vec::new(),
            pending: 0,
            completions: Vec::new(),
            value: Vec::new(),
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
            Step::Waits(..) if self.pending == self.depth => Ok(Began::Full),
            Step::Waits(wanted, request) => {
                self.submit(shared, Waiting { search, whose, wanted }, request)?;
                Ok(Began::Pending)
            }
        }
    }

    /// Tells of the look-ups that have ended, and where `waits`, not before there was one, if any
    /// is pending. Answers how many there were.
    pub(crate) fn complete(
        &mut self,
        shared: &Shared,
        waits: bool,
        tell: &mut Tell<'_, T>,
    ) -> Result<usize> {
        let mut ended = 0;
        while self.pending > 0 {
            let Some(queue) = &mut self.queue else { break };
            if waits && ended == 0 {
                queue.wait(1, &mut self.completions)?;
            } else {
                queue.poll(&mut self.completions)?;
            }
            if self.completions.is_empty() {
                break;
            }
            while let Some(completion) = self.completions.pop() {
                ended += usize::from(self.land(shared, completion, tell)?);
            }
        }
        Ok(ended)
    }

    /// Goes on with the look-up whose piece has come; answers whether it has ended.
    fn land(
        &mut self,
        shared: &Shared,
        completion: Completion,
        tell: &mut Tell<'_, T>,
    ) -> Result<bool> {
        let slot = self.waiting.get_mut(completion.tag as usize);
        let Some(mut waiting) = slot.and_then(Option::take) else { return Ok(false) };
        self.pending -= 1;
        let Wanted { table, piece, skipped, len } = &waiting.wanted;
        let given = completion.result.map_err(engine::Error::from).and_then(|()| {
            let buffer = completion.buffer.as_deref().unwrap_or_default();
            table.keep(*piece, buffer.get(*skipped..skipped + len).unwrap_or_default())
        });
        let value = &mut self.value;
        let step = given.and_then(|given| go_on(shared, &mut waiting.search, Some(given), value));
        let found = match step {
            Ok(Step::Waits(wanted, request)) => {
                waiting.wanted = wanted;
                self.submit(shared, waiting, request)?;
                return Ok(false);
            }
            Ok(Step::Ended(found)) => Ok(found),
            Err(error) => Err(error),
        };
        tell(waiting.whose, waiting.search.key(), found, &self.value);
        Ok(true)
    }

    /// Has a piece read (F1).
    fn submit(
        &mut self,
        shared: &Shared,
        waiting: Waiting<K, T>,
        mut request: Request,
    ) -> Result<()> {
        let queue = match &mut self.queue {
            Some(queue) => queue,
            none => {
                let mut queue = shared.host.device.queue(self.depth)?;
                if let Some(bell) = &self.bell {
                    queue.ring(bell)?;
                }
                none.insert(queue)
            }
        };
        let free = self.waiting.iter().position(Option::is_none);
        request.tag = free.unwrap_or(self.waiting.len()) as u64;
        let submitted = queue.submit(request);
        assert!(submitted.is_ok(), "fewer are in flight than the queue has room for");
        match free.and_then(|free| self.waiting.get_mut(free)) {
            Some(slot) => *slot = Some(waiting),
            None => self.waiting.push(Some(waiting)),
        }
        self.pending += 1;
        Ok(())
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
        let (table, piece) = match search.advance(given.take(), into, &shared.lookups, &cached)? {
            Progress::Found(found) => return Ok(Step::Ended(Some(found))),
            Progress::Absent => return Ok(Step::Ended(None)),
            Progress::Waits(table, piece) => (table, piece),
        };
        let Some(Span { file, offset, read_len, skipped, len }) = table.span(piece)? else {
            given = Some(table.piece(piece)?);
            continue;
        };
        let work = Work::Read { offset, buffer: Buffer::zeroed(read_len) };
        let request = Request { tag: 0, file, work };
        return Ok(Step::Waits(Wanted { table, piece, skipped, len }, request));
    }
}
