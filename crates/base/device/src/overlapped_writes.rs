//! Writes of which several are on their way to the device.

use std::sync::Arc;

use crate::buffer::Buffer;
use crate::error::Result;
use crate::queue::{Completion, Queue, Request, Work};
use crate::{Device, File};

/// Writes to files of a device, so that the device works while the caller fills the next buffer.
///
/// Dropping it waits for the writes in flight.
///
/// # Errors
/// After a failure each call returns the same error. Other writes may have reached the device.
pub struct OverlappedWrites {
    queue: Box<dyn Queue>,
    writes_max: usize,
    bytes_max: usize,
    bytes_in_flight: usize,
    completions: Vec<Completion>,
    /// Buffers that came back.
    spare: Vec<Buffer>,
    /// Bytes of all buffers that were handed out and not dropped.
    buffer_bytes: usize,
    failure: Option<crate::Error>,
}

impl OverlappedWrites {
    /// Returns an object with no write in flight. Later there are at most `writes_max` of them,
    /// with `bytes_max` bytes in total. A longer write is in flight alone.
    ///
    /// # Errors
    /// As [`Device::queue`].
    pub fn new(device: &dyn Device, writes_max: usize, bytes_max: usize) -> Result<Self> {
        Ok(Self {
            queue: device.queue(writes_max)?,
            writes_max,
            bytes_max,
            bytes_in_flight: 0,
            completions: Vec::new(),
            spare: Vec::new(),
            buffer_bytes: 0,
            failure: None,
        })
    }

    /// Waits until the limits allow a write of `len` bytes, and returns a buffer for it, with any
    /// content. `ended` is called with the tag of each write that has succeeded since the last
    /// call.
    ///
    /// # Errors
    /// The first failure of any write so far.
    pub fn buffer(&mut self, len: usize, ended: &mut dyn FnMut(u64)) -> Result<Buffer> {
        self.check()?;
        while self.in_flight() >= self.writes_max
            || self.bytes_in_flight > 0 && self.bytes_in_flight + len > self.bytes_max
        {
            self.wait(1, ended)?;
            self.check()?;
        }
        // Most have the same length.
        while let Some(buffer) = self.spare.pop() {
            if buffer.len() == len {
                return Ok(buffer);
            }
            self.buffer_bytes -= buffer.len();
        }
        self.buffer_bytes += len;
        Ok(Buffer::zeroed(len))
    }

    /// Bytes of all buffers of [`Self::buffer`], in flight or not.
    pub fn buffer_bytes(&self) -> usize {
        self.buffer_bytes
    }

    /// Begins the write of the buffer that [`Self::buffer`] has returned. `ended` is called as
    /// there.
    ///
    /// # Errors
    /// The first failure of any write so far.
    ///
    /// # Panics
    /// If more than one buffer was taken, and the queue has no room for the second one.
    pub fn begin(
        &mut self,
        tag: u64,
        (file, offset): (&Arc<dyn File>, u64),
        buffer: Buffer,
        ended: &mut dyn FnMut(u64),
    ) -> Result<()> {
        self.bytes_in_flight += buffer.len();
        let request = Request { tag, file: Arc::clone(file), work: Work::Write { offset, buffer } };
        let submitted = self.queue.submit(request);
        submitted.expect("fewer are in flight than the queue has room for");
        // The queue may hold the request back until it is polled.
        self.wait(0, ended)?;
        self.check()
    }

    /// Returns the number of writes in flight.
    pub fn in_flight(&self) -> usize {
        self.queue.in_flight()
    }

    /// Waits until no write is in flight. `ended` is called as by [`Self::begin`].
    ///
    /// # Errors
    /// The first failure of any write so far.
    pub fn finish(&mut self, ended: &mut dyn FnMut(u64)) -> Result<()> {
        // A failed write does not end the wait for the others, but a failed queue does.
        while self.in_flight() > 0 && self.wait(1, ended).is_ok() {}
        self.check()
    }

    /// Takes what has ended, and waits for `count` writes at least. Fails only if the queue does.
    fn wait(&mut self, count: usize, ended: &mut dyn FnMut(u64)) -> Result<()> {
        let mut completions = std::mem::take(&mut self.completions);
        let waited = match count {
            0 => self.queue.poll(&mut completions),
            _ => self.queue.wait(count, &mut completions),
        };
        for completion in completions.drain(..) {
            let bytes = completion.buffer.as_ref().map_or(0, |buffer| buffer.len());
            self.bytes_in_flight = self.bytes_in_flight.saturating_sub(bytes);
            self.spare.extend(completion.buffer);
            match completion.result {
                Ok(()) => ended(completion.tag),
                Err(error) => _ = self.failure.get_or_insert(error),
            }
        }
        self.completions = completions;
        if let Err(error) = waited {
            self.failure.get_or_insert(error.clone());
            return Err(error);
        }
        Ok(())
    }

    fn check(&self) -> Result<()> {
        self.failure.clone().map_or(Ok(()), Err)
    }
}

impl std::fmt::Debug for OverlappedWrites {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "OverlappedWrites({} in flight)", self.in_flight())
    }
}

#[cfg(test)]
mod tests;
