//! The thread that writes for the futures of one keyspace.
//!
//! A turn has these steps:
//! 1. The thread takes the requests that were handed in, and skips each one whose future was
//!    dropped. It does puts, deletes and batches as a blocking call does them, which waits if an
//!    engine has no room.
//! 2. It begins updates on a session. If memory knows the old value, the update is done
//!    immediately. The lookups of old values on disk overlap, up to [`DEPTH`] of them. If the
//!    session has no room for an update, that request and the ones after it wait for another turn,
//!    and the thread takes no new ones.
//! 3. It continues the updates whose old values have arrived. If the turn has done nothing yet, it
//!    waits for the first of them.
//! 4. It waits for the durability of everything that it has done: once for each durability that a
//!    future wants, the weakest first. After each wait it completes the futures that wanted it.
//!
//! # Invariants
//! - S1. A pending update has changed nothing. A write that was done gets its result in the same
//!   turn.
//! - S2. An operator that panics is not called again, and changes nothing: its future panics, and
//!   no other one does. A waker that panics makes no other future wait longer.
//! - S3. With nothing pending the thread holds no engine (T4 of [`crate::session`]).

use std::collections::{HashMap, VecDeque};
use std::ops::RangeFrom;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use codec::SeqNo;
use engine::{Change, Op, Operator};
use journal::Durability;

use super::Updating;
use super::async_writer::{Instead, Leaving, Promise, Request, Shared, Update, Waiting, Work};
use crate::batch::Batch;
use crate::database::Inner;
use crate::error::Result;
use crate::expiry::ValueForm;
use crate::keyspace_entry::KeyspaceEntry;
use crate::session::{Completed, Session, SessionRmw, Target};

/// Lookups of old values that are under way at the same time.
const DEPTH: usize = 128;
/// Requests that the thread takes at most for one turn. They share a wait for the journal.
const TURN_MAX: usize = 1024;

/// Does the work of an async writer's thread, until the async writer is dismissed.
pub(super) fn serve(shared: &Shared, inner: Arc<Inner>, entry: Arc<KeyspaceEntry>) {
    let _leaving = Leaving(shared);
    // It waits for durabilities itself.
    let durability = Durability::Buffered;
    let mut thread = Thread::new(Target { inner, entry, durability, form: ValueForm::Values });
    while let Some(requests) = shared.next(thread.room(), thread.is_idle()) {
        thread.turn(requests);
    }
}

/// The state of the thread: the requests that it has taken, and the session for their lookups.
struct Thread {
    target: Target,
    /// None until it is needed.
    session: Option<Session>,
    tags: RangeFrom<u64>,
    /// The futures of the updates whose old values are looked up, by their tags.
    pending: HashMap<u64, Waiting>,
    /// Not begun yet.
    taken: VecDeque<Request>,
    /// Done, or refused, and not answered yet.
    over: Vec<(Waiting, Result<Option<SeqNo>>)>,
}

impl Thread {
    fn new(target: Target) -> Self {
        let (session, pending, taken, over) = Default::default();
        Self { target, session, tags: 0.., pending, taken, over }
    }

    fn room(&self) -> usize {
        if self.taken.is_empty() { TURN_MAX } else { 0 }
    }

    fn is_idle(&self) -> bool {
        self.taken.is_empty() && self.pending.is_empty()
    }

    fn turn(&mut self, requests: Vec<Request>) {
        self.taken.extend(requests);
        while let Some(request) = self.taken.pop_front() {
            if request.waiting.is_given_up() {
                continue;
            }
            if let Some(request) = self.begin(request) {
                self.taken.push_front(request);
                break;
            }
        }
        self.go_on();
        self.wait_durable();
    }

    /// Steps 1 and 2. Hands back what waits for a place on the session.
    fn begin(&mut self, request: Request) -> Option<Request> {
        let Request { work, waiting } = request;
        let Target { inner, entry, durability, .. } = &self.target;
        let written = match work {
            Work::Put { key, stored } => {
                let op = Op::Put { key: &key, value: &stored };
                inner.write_one(entry, op, *durability).map(Some)
            }
            Work::Delete { key } => {
                inner.write_one(entry, Op::Delete { key: &key }, *durability).map(Some)
            }
            Work::Batch(batch) => self.write_batch(&batch, &waiting),
            Work::Update(update) => return self.begin_update(update, waiting),
        };
        self.over.push((waiting, written));
        None
    }

    /// A batch may ask operators of merges [S2].
    fn write_batch(&self, batch: &Batch, waiting: &Waiting) -> Result<Option<SeqNo>> {
        let write = || self.target.inner.write_batch(batch, || {});
        catch_unwind(AssertUnwindSafe(write)).unwrap_or_else(|panic| {
            waiting.panicked(panic);
            Ok(None)
        })
    }

    fn begin_update(&mut self, mut update: Update, waiting: Waiting) -> Option<Request> {
        let tag = self.tags.next().unwrap_or_default();
        let Some(session) = self.session() else {
            // No session can be made, or the keyspace no longer exists, and this call reports it.
            let Target { inner, entry, durability, .. } = &self.target;
            let Update { key, form, operator } = &mut update;
            let done = inner.rmw(entry, *form, key, &mut **operator, *durability);
            self.over.push((waiting, done));
            return None;
        };
        let Update { key, form, operator } = update;
        match session.begin_not_durable(tag, &key, form, operator) {
            Ok(SessionRmw::Done(seqno)) => self.over.push((waiting, Ok(seqno))),
            Ok(SessionRmw::Pending) => drop(self.pending.insert(tag, waiting)),
            Ok(SessionRmw::Full(operator)) => {
                let work = Work::Update(Update { key, form, operator });
                return Some(Request { work, waiting });
            }
            Err(error) => self.over.push((waiting, Err(error))),
        }
        None
    }

    fn session(&mut self) -> Option<&mut Session> {
        if self.session.is_none() {
            self.session = Session::unheld(self.target.clone(), DEPTH).ok();
        }
        self.session.as_mut()
    }

    /// Step 3.
    fn go_on(&mut self) {
        let Self { session: Some(session), pending, over, .. } = self else { return };
        let waits = over.is_empty();
        let completed = session.complete(waits, &mut |tag, outcome| {
            let Some(waiting) = pending.remove(&tag) else { return };
            let updated = outcome.map(|completed| match completed {
                Completed::Updated(seqno) => seqno,
                other => unreachable!("{other:?} of an update"),
            });
            over.push((waiting, updated));
        });
        if let Err(error) = completed {
            // The session cannot complete any more lookups. The updates that it had completed are
            // in `over`.
            over.extend(pending.drain().map(|(_, waiting)| (waiting, Err(error.clone()))));
            self.session = None;
        }
    }

    /// Step 4.
    fn wait_durable(&mut self) {
        for durability in [Durability::Buffered, Durability::Flushed, Durability::Synced] {
            let is_due = |(waiting, _): &mut (Waiting, _)| waiting.durability == durability;
            let due: Vec<_> = self.over.extract_if(.., is_due).collect();
            let numbers = due.iter().filter_map(|(_, done)| *done.as_ref().ok()?);
            let Target { inner, entry, .. } = &self.target;
            let durable = inner.wait_rmw_durable(entry, numbers.max(), durability);
            for (waiting, done) in due {
                let done = match (&durable, done) {
                    (Err(error), Ok(Some(seqno))) => Err(error.clone().of_applied(seqno)),
                    (_, done) => done,
                };
                // A panic of the waker ends there (A3 of `session/async_reader.rs`). [S2]
                waiting.answer(done);
            }
        }
    }
}

/// An operator that is asked as long as its future is there, and whose panics are its future's
/// [S2].
pub(super) struct Watched {
    pub(super) operator: Box<dyn Updating>,
    pub(super) promise: Arc<Promise>,
}

impl Watched {
    fn ask<T>(&mut self, nothing: T, ask: impl FnOnce(&mut dyn Updating) -> T) -> T {
        if self.promise.is_given_up() || self.promise.has_panicked() {
            return nothing;
        }
        let (answer, instead) = match catch_unwind(AssertUnwindSafe(|| ask(&mut *self.operator))) {
            Ok(answer) => (answer, self.operator.refusal().map(Instead::Refused)),
            Err(panic) => (nothing, Some(Instead::Panicked(panic))),
        };
        self.promise.note(instead);
        answer
    }
}

impl Operator for Watched {
    fn update_in_place(&mut self, value: &mut [u8]) -> bool {
        self.ask(false, |operator| operator.update_in_place(value))
    }

    fn update(&mut self, value: Option<&[u8]>) -> Change {
        self.ask(Change::Keep, |operator| operator.update(value))
    }
}
