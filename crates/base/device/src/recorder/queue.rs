//! A queue that writes down the requests that succeed on it, in the order of the completions.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::doorbell::Doorbell;
use crate::error::Result;
use crate::file::SyncKind;
use crate::queue::{Completion, Queue, Request, Work};

use super::file::RecordedFile;
use super::recording::{Log, Recorded};

pub(super) struct RecordedQueue {
    inner: Box<dyn Queue>,
    log: Arc<Log>,
    /// Requests in flight, by the tag that the inner queue is given in place of the caller's; the
    /// caller's tags need not differ from each other.
    sent: BTreeMap<u64, Sent>,
    next: u64,
}

struct Sent {
    tag: u64,
    /// Nothing to write down if the file is not one of ours.
    file: Option<Arc<RecordedFile>>,
    what: What,
}

enum What {
    Read(u64),
    Write(u64),
    Sync(SyncKind),
}

impl RecordedQueue {
    pub(super) fn new(inner: Box<dyn Queue>, log: Arc<Log>) -> Self {
        Self { inner, log, sent: BTreeMap::new(), next: 0 }
    }

    /// Writes down the completions in `done`, and gives them the callers' tags.
    fn note(&mut self, done: &mut [Completion]) {
        for completion in done {
            let Some(sent) = self.sent.remove(&completion.tag) else { continue };
            completion.tag = sent.tag;
            let (Some(file), Ok(())) = (sent.file, &completion.result) else { continue };
            let (file, bytes) = (file.number, completion.buffer.as_deref().unwrap_or_default());
            self.log.push(match sent.what {
                What::Read(offset) => Recorded::Read { file, offset, len: bytes.len() },
                What::Write(offset) => Recorded::Write { file, offset, bytes: bytes.into() },
                What::Sync(kind) => Recorded::Sync { file, kind },
            });
        }
    }
}

impl Queue for RecordedQueue {
    fn submit(&mut self, request: Request) -> std::result::Result<(), Request> {
        let Request { tag, file, work } = request.on_open_file();
        let what = match &work {
            Work::Read { offset, .. } => What::Read(*offset),
            Work::Write { offset, .. } => What::Write(*offset),
            Work::Sync(kind) => What::Sync(*kind),
        };
        let any: Arc<dyn Any + Send + Sync> = file.clone();
        let ours = any.downcast::<RecordedFile>().ok();
        let inner = ours.as_ref().map_or_else(|| file.clone(), |ours| ours.inner.clone());
        match self.inner.submit(Request { tag: self.next, file: inner, work }) {
            Ok(()) => {
                self.sent.insert(self.next, Sent { tag, file: ours, what });
                self.next += 1;
                Ok(())
            }
            Err(back) => Err(Request { tag, file, work: back.work }),
        }
    }

    fn poll(&mut self, into: &mut Vec<Completion>) -> Result<usize> {
        let before = into.len();
        let count = self.inner.poll(into);
        self.note(&mut into[before..]);
        count
    }

    fn wait(&mut self, count: usize, into: &mut Vec<Completion>) -> Result<usize> {
        let before = into.len();
        let count = self.inner.wait(count, into);
        self.note(&mut into[before..]);
        count
    }

    fn in_flight(&self) -> usize {
        self.inner.in_flight()
    }

    fn ring(&mut self, bell: &Arc<Doorbell>) -> Result<()> {
        self.inner.ring(bell)
    }
}

impl Drop for RecordedQueue {
    fn drop(&mut self) {
        // Requests still in flight will be done; they are written down as the rest is.
        let mut rest = Vec::new();
        let _ = self.wait(usize::MAX, &mut rest);
    }
}
