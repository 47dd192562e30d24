//! A queue over files of a range: reads of tables overlap.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;

use device::{
    Accounting, Completion, Doorbell, FailedOperation, File, Queue, Request, Result, Work,
};
use stoc::{FileName, Link, Request as StocRequest, Response};
use sync::{Condvar, Mutex};

use crate::device::error_of;
use crate::file::RangeFile;
use crate::place::Failure;
use crate::table::Table;

/// A queue.
pub(crate) struct RangeQueue {
    shared: Arc<Shared>,
    in_flight: usize,
    depth: usize,
    accounting: Arc<Accounting>,
}

#[derive(Default)]
struct Shared {
    done: Mutex<Done>,
    changed: Condvar,
}

#[derive(Default)]
struct Done {
    completions: VecDeque<Completion>,
    bell: Option<Arc<Doorbell>>,
}

/// A read of a table that is under way.
struct Read {
    shared: Arc<Shared>,
    table: Arc<Table>,
    request: Request,
    /// The StoCs that have not been asked yet.
    links: VecDeque<(Arc<dyn Link>, FileName)>,
    failure: Failure,
}

impl RangeQueue {
    pub(crate) fn new(depth: usize, accounting: &Arc<Accounting>) -> Self {
        let accounting = Arc::clone(accounting);
        Self { shared: Arc::default(), in_flight: 0, depth: depth.max(1), accounting }
    }

    fn take(&mut self, into: &mut Vec<Completion>) -> usize {
        let mut done = self.shared.done.lock();
        let count = done.completions.len();
        into.extend(done.completions.drain(..));
        drop(done);
        self.in_flight -= count;
        count
    }
}

impl Shared {
    fn complete(&self, completion: Completion) {
        let mut done = self.done.lock();
        done.completions.push_back(completion);
        let bell = done.bell.clone();
        drop(done);
        self.changed.notify_all();
        bell.iter().for_each(|bell| bell.ring());
    }
}

impl Read {
    /// Asks the next StoC, or completes the read with its failure.
    fn go_on(mut self) {
        let Request { tag, file, work } = self.request;
        let Work::Read { offset, buffer } = work else { return };
        let Some((link, name)) = self.links.pop_front() else {
            let error = error_of(self.failure, FailedOperation::Read, file.name());
            self.shared.complete(Completion { tag, buffer: Some(buffer), result: Err(error) });
            return;
        };
        let bytes = buffer.len() as u64;
        self.request = Request { tag, file, work: Work::Read { offset, buffer } };
        let read = StocRequest::Read { name, offset, bytes };
        link.send(read, Box::new(move |reply| self.end(&name, reply)));
    }

    fn end(mut self, name: &FileName, reply: std::result::Result<Response, stoc::Error>) {
        if let (Work::Read { buffer, .. }, Ok(Response::Bytes(bytes))) =
            (&mut self.request.work, &reply)
            && bytes.len() == buffer.len()
        {
            buffer.copy_from_slice(bytes);
            let Request { tag, work, .. } = self.request;
            let buffer = if let Work::Read { buffer, .. } = work { Some(buffer) } else { None };
            self.shared.complete(Completion { tag, buffer, result: Ok(()) });
            return;
        }
        if let Err(error) = reply
            && let damaged @ Failure::Damaged(_) = self.table.note_error(name, error)
        {
            self.failure = damaged;
        }
        self.go_on();
    }
}

/// Returns the table that a request reads.
fn table_of(file: &Arc<dyn File>) -> Option<Arc<Table>> {
    let file: &dyn Any = &**file;
    file.downcast_ref::<RangeFile>()?.table()
}

impl Queue for RangeQueue {
    fn submit(&mut self, request: Request) -> std::result::Result<(), Request> {
        if self.in_flight >= self.depth {
            return Err(request);
        }
        self.in_flight += 1;
        let request = request.on_open_file();
        let table = table_of(&request.file).filter(|table| match &request.work {
            Work::Read { offset, buffer } => {
                offset.saturating_add(buffer.len() as u64) <= table.length
            }
            Work::Write { .. } | Work::Sync(_) => false,
        });
        let shared = Arc::clone(&self.shared);
        match table {
            Some(table) => {
                if let Work::Read { buffer, .. } = &request.work {
                    self.accounting.read(buffer.len());
                }
                let (links, failure) = (table.links().into(), Failure::Unavailable);
                Read { shared, table, request, links, failure }.go_on();
            }
            None => shared.complete(device::perform(request)),
        }
        Ok(())
    }

    fn poll(&mut self, into: &mut Vec<Completion>) -> Result<usize> {
        Ok(self.take(into))
    }

    fn wait(&mut self, count: usize, into: &mut Vec<Completion>) -> Result<usize> {
        let wanted = count.min(self.in_flight);
        let mut done = self.shared.done.lock();
        while done.completions.len() < wanted {
            self.shared.changed.wait(&mut done);
        }
        drop(done);
        Ok(self.take(into))
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }

    fn ring(&mut self, bell: &Arc<Doorbell>) -> Result<()> {
        self.shared.done.lock().bell = Some(Arc::clone(bell));
        Ok(())
    }
}

impl Drop for RangeQueue {
    fn drop(&mut self) {
        let mut done = self.shared.done.lock();
        while done.completions.len() < self.in_flight {
            self.shared.changed.wait(&mut done);
        }
    }
}
