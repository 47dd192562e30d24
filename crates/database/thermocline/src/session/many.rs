//! Many gets as one future.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use super::future::AsyncGet;
use crate::async_keyspace::AsyncKeyspace;
use crate::error::Result;

/// Many gets under way; see [`AsyncKeyspace::multi_get`].
#[must_use = "a future does nothing unless it is polled"]
pub struct AsyncMultiGet {
    /// The gets that have no answer yet, with the places of their keys. The first one wakes the
    /// task.
    left: VecDeque<(usize, AsyncGet)>,
    values: Vec<Option<Vec<u8>>>,
    is_begun: bool,
}

impl AsyncKeyspace<'_> {
    /// [`crate::Keyspace::multi_get`] as a future: the keys' values in the order of the keys. The
    /// first poll begins all gets, each as [`AsyncKeyspace::get`] does. It reads the values that
    /// memory knows, and the reads of the other ones overlap. The future is ready when all gets
    /// are, and wakes its task as few times as it can.
    ///
    /// # Errors
    /// As [`AsyncKeyspace::get`], of any of them. The other gets are cancelled then, and so they
    /// are when the future is dropped.
    pub fn multi_get(&self, keys: &[&[u8]]) -> AsyncMultiGet {
        let left = keys.iter().map(|key| self.get(key)).enumerate().collect();
        AsyncMultiGet { left, values: vec![None; keys.len()], is_begun: false }
    }
}

impl AsyncMultiGet {
    fn begin(&mut self) -> Result<()> {
        // No waker yet: the task waits for one get at a time, in the order of the keys.
        let mut context = Context::from_waker(Waker::noop());
        for (at, mut get) in mem::take(&mut self.left) {
            match Pin::new(&mut get).poll(&mut context) {
                Poll::Ready(value) => self.values[at] = value?,
                Poll::Pending => self.left.push_back((at, get)),
            }
        }
        Ok(())
    }
}

impl Future for AsyncMultiGet {
    type Output = Result<Vec<Option<Vec<u8>>>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if !mem::replace(&mut self.is_begun, true) {
            self.begin()?;
        }
        while let Some((at, get)) = self.left.front_mut() {
            let at = *at;
            match Pin::new(get).poll(context) {
                Poll::Ready(value) => self.values[at] = value?,
                Poll::Pending => return Poll::Pending,
            }
            self.left.pop_front();
        }
        Poll::Ready(Ok(mem::take(&mut self.values)))
    }
}

impl fmt::Debug for AsyncMultiGet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncMultiGet").field("left", &self.left.len()).finish_non_exhaustive()
    }
}
