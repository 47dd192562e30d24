//! A get as a future, for any executor.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use engine::{At, Lookup};

use super::async_reader::{Answer, Outcome, Request};
use crate::async_keyspace::AsyncKeyspace;
use crate::error::{Error, Result};
use crate::expiry::ClockReading;
use crate::keyspace::Keyspace;
use crate::keyspace_entry::KeyspaceInstance;

/// A get under way; see [`AsyncKeyspace::get`].
#[must_use = "a future does nothing unless it is polled"]
pub struct AsyncGet {
    keyspace: Keyspace,
    key: Vec<u8>,
    /// The place of the answer, the value in its stored form, once the lookup was handed in.
    answer: Option<Arc<Answer>>,
    /// The engine that was asked. The reference is weak: otherwise a future that is not polled
    /// would keep the files of a keyspace that was cleared.
    asked: Weak<KeyspaceInstance>,
    /// The clock when it was asked, if the answer depends on it.
    moment: Option<ClockReading>,
}

impl AsyncKeyspace<'_> {
    /// The key's value, as a future that needs no particular executor. If memory knows the value,
    /// the first poll returns it. Otherwise a thread of the database reads it together with the
    /// values that other futures ask for, and wakes the task that polled last. Each keyspace has
    /// one such thread, which is started when it is first needed. A lookup that is handed in while
    /// that thread waits for the device is begun with the next completion.
    ///
    /// A future that is dropped cancels its read. A future that is under way while the keyspace is
    /// cleared returns the value from before or from after the clear.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// use std::{pin::pin, sync::Arc, task::{Context, Poll, Wake, Waker}, thread};
    /// use thermocline::{Db, EngineKind, KeyspaceOptions, Options};
    ///
    /// // The smallest executor there is; any other does as well.
    /// struct Unpark(thread::Thread);
    /// impl Wake for Unpark {
    ///     fn wake(self: Arc<Self>) {
    ///         self.0.unpark();
    ///     }
    /// }
    /// fn block_on<F: Future>(future: F) -> F::Output {
    ///     let waker = Waker::from(Arc::new(Unpark(thread::current())));
    ///     let mut future = pin!(future);
    ///     loop {
    ///         match future.as_mut().poll(&mut Context::from_waker(&waker)) {
    ///             Poll::Ready(output) => return output,
    ///             Poll::Pending => thread::park(),
    ///         }
    ///     }
    /// }
    ///
    /// let db = Db::open(dir.path(), Options::default())?;
    /// let options = KeyspaceOptions { engine: EngineKind::F2, ..Default::default() };
    /// let years = db.keyspace("years", options)?;
    /// years.put(b"ada", b"1815")?;
    /// block_on(async {
    ///     assert_eq!(years.futures().get(b"ada").await?.as_deref(), Some(&b"1815"[..]));
    ///     assert_eq!(years.futures().get(b"bob").await?, None);
    ///     Ok::<(), thermocline::Error>(())
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Keyspace::get`]; [`crate::Error::Closed`] also if the database is closed meanwhile, or
    /// the thread ends in a panic. A panic of a waker does not end it.
    pub fn get(&self, key: &[u8]) -> AsyncGet {
        let (answer, asked, moment) = (None, Weak::new(), None);
        AsyncGet { keyspace: self.0.clone(), key: key.to_vec(), answer, asked, moment }
    }
}

impl AsyncGet {
    fn begin(&mut self, context: &Context<'_>) -> Result<Poll<Option<Vec<u8>>>> {
        let inner = &self.keyspace.inner;
        inner.lifecycle.check_open()?;
        let instance = self.keyspace.entry.current()?;
        let mut value = Vec::new();
        self.moment = instance.moment(self.keyspace.form);
        let lookup = match instance.lookup(&self.key, At::Newest, &mut value)? {
            Lookup::Found => return Ok(Poll::Ready(self.shown(Some(value))?)),
            Lookup::Absent => return Ok(Poll::Ready(None)),
            Lookup::Pending(lookup) => lookup,
        };
        let answer = Arc::new(Answer::default());
        // Before it is handed in, so that the waker is known.
        let none_yet = answer.take(context.waker());
        debug_assert!(none_yet.is_none(), "the lookup is not handed in yet");
        let request = Request::new(lookup, Arc::clone(&answer));
        let budget = instance.reads.budget();
        instance.async_reader.ask(&inner.options.environment, budget, request)?;
        self.answer = Some(answer);
        self.asked = Arc::downgrade(&instance);
        Ok(Poll::Pending)
    }

    /// Returns whether the engine that was asked does not fill the keyspace any more.
    fn is_outdated(&self) -> bool {
        let current = self.keyspace.entry.current();
        !current.is_ok_and(|current| std::ptr::eq(Arc::as_ptr(&current), self.asked.as_ptr()))
    }

    /// Returns the value without its expiry, or none if it has expired; `stored` is its stored
    /// form.
    fn shown(&self, stored: Option<Vec<u8>>) -> Outcome {
        let Some(moment) = self.moment else { return Ok(stored) };
        let Some(mut value) = stored else { return Ok(None) };
        Ok(moment.trim(&mut value)?.then_some(value))
    }
}

impl Future for AsyncGet {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        // Before the answer's lock.
        if let Err(forked) = self.keyspace.inner.lifecycle.check_process() {
            return Poll::Ready(Err(forked));
        }
        if let Some(answer) = &self.answer {
            let Some(outcome) = answer.take(context.waker()) else { return Poll::Pending };
            self.answer = None;
            // An engine that was cleared away is closed, but the keyspace is not.
            if outcome != Err(Error::Closed) || !self.is_outdated() {
                let outcome = outcome.map_err(|error| match self.asked.upgrade() {
                    Some(asked) => error.in_dir(&asked.files.dir),
                    None => error,
                });
                return Poll::Ready(outcome.and_then(|stored| self.shown(stored)));
            }
        }
        match self.begin(context) {
            Ok(Poll::Ready(value)) => Poll::Ready(Ok(value)),
            Ok(Poll::Pending) => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}

impl fmt::Debug for AsyncGet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncGet")
            .field("is_pending", &self.answer.is_some())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
