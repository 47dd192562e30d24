//! A queue of values from many threads to one.
//!
//! The standard library has the same. A wait on this one is a wait on the locks of this crate, so a
//! simulation can take it over.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::locks::{Condvar, Mutex};

#[derive(Debug)]
struct Queue<T> {
    values: VecDeque<T>,
    senders: usize,
    has_receiver: bool,
}

#[derive(Debug)]
struct Shared<T> {
    queue: Mutex<Queue<T>>,
    changed: Condvar,
}

/// Adds values to a queue.
#[derive(Debug)]
pub struct Sender<T>(Arc<Shared<T>>);

/// Takes values from a queue.
#[derive(Debug)]
pub struct Receiver<T>(Arc<Shared<T>>);

/// Why no value was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoValue {
    /// The time is over.
    TimedOut,
    /// The queue is empty, and no sender is left.
    Closed,
}

/// Returns the two ends of a queue without a bound.
///
/// ```
/// let (sender, receiver) = thermocline_sync::channel::channel();
/// sender.send(1);
/// sender.clone().send(2);
/// drop(sender);
/// assert_eq!(receiver.into_iter().collect::<Vec<_>>(), [1, 2]);
/// ```
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let queue = Queue { values: VecDeque::new(), senders: 1, has_receiver: true };
    let shared = Arc::new(Shared { queue: Mutex::new(queue), changed: Condvar::new() });
    (Sender(Arc::clone(&shared)), Receiver(shared))
}

impl<T> Sender<T> {
    /// Adds a value. It is dropped if there is no receiver any more.
    pub fn send(&self, value: T) {
        let mut queue = self.0.queue.lock();
        if queue.has_receiver {
            queue.values.push_back(value);
            self.0.changed.notify_one();
        }
    }
}

impl<T> Receiver<T> {
    /// Waits for a value.
    ///
    /// # Errors
    /// [`NoValue::Closed`].
    pub fn recv(&self) -> Result<T, NoValue> {
        let mut queue = self.0.queue.lock();
        loop {
            if let Some(value) = queue.values.pop_front() {
                return Ok(value);
            }
            if queue.senders == 0 {
                return Err(NoValue::Closed);
            }
            self.0.changed.wait(&mut queue);
        }
    }

    /// The same, for at most `timeout`.
    ///
    /// # Errors
    /// [`NoValue`].
    pub fn recv_timeout(&self, timeout: Duration) -> Result<T, NoValue> {
        let mut queue = self.0.queue.lock();
        let is_empty = |queue: &mut Queue<T>| queue.values.is_empty() && queue.senders > 0;
        self.0.changed.wait_while_for(&mut queue, is_empty, timeout);
        match queue.values.pop_front() {
            Some(value) => Ok(value),
            None if queue.senders == 0 => Err(NoValue::Closed),
            None => Err(NoValue::TimedOut),
        }
    }
}

/// Takes values until no sender is left.
impl<T> IntoIterator for Receiver<T> {
    type Item = T;
    type IntoIter = Values<T>;

    fn into_iter(self) -> Values<T> {
        Values(self)
    }
}

/// The values of a [`Receiver`].
#[derive(Debug)]
pub struct Values<T>(Receiver<T>);

impl<T> Iterator for Values<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.0.recv().ok()
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.0.queue.lock().senders += 1;
        Self(Arc::clone(&self.0))
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut queue = self.0.queue.lock();
        queue.senders -= 1;
        if queue.senders == 0 {
            self.0.changed.notify_one();
        }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let values = {
            let mut queue = self.0.queue.lock();
            queue.has_receiver = false;
            std::mem::take(&mut queue.values)
        };
        // Their destructors may use the queue.
        drop(values);
    }
}
