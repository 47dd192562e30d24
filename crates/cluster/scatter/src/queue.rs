//! A queue over files of a range: reads of tables overlap.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use device::{
    Accounting, Buffer, Completion, Doorbell, FailedOperation, File, Queue, Request, Result, Work,
};
use sync::{Condvar, Mutex};

use crate::device::error_of;
use crate::file::RangeFile;
use crate::place::Failure;
use crate::reading::Reading;
use crate::table::Table;

/// A queue.
pub(crate) struct RangeQueue {
    shared: Arc<Shared>,
    in_flight: usize,
    depth: usize,
    accounting: Arc<Accounting>,
    /// Reads of tables that may be under way.
    readings: Vec<Arc<Reading>>,
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

impl RangeQueue {
    pub(crate) fn new(depth: usize, accounting: &Arc<Accounting>) -> Self {
        let accounting = Arc::clone(accounting);
        let (shared, readings) = Default::default();
        Self { shared, in_flight: 0, depth: depth.max(1), accounting, readings }
    }

    /// Asks other copies for reads whose replies are late. Returns the time until the next look,
    /// and none if there is nothing to look for.
    fn look(&mut self) -> Option<Duration> {
        let mut next: Option<Duration> = None;
        self.readings.retain(|reading| {
            let left = reading.look(reading.late_after());
            next = next.into_iter().chain(left).min();
            left.is_some()
        });
        next
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

/// Returns the completion of a read.
fn completion(
    tag: u64,
    file: &dyn File,
    mut buffer: Buffer,
    outcome: std::result::Result<Vec<u8>, Failure>,
) -> Completion {
    let result = match outcome {
        Ok(bytes) => {
            buffer.copy_from_slice(&bytes);
            Ok(())
        }
        Err(failure) => Err(error_of(failure, FailedOperation::Read, file.name())),
    };
    Completion { tag, buffer: Some(buffer), result }
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
        match (table, request) {
            (Some(table), Request { tag, file, work: Work::Read { offset, buffer } }) => {
                let bytes = buffer.len();
                self.accounting.read(bytes);
                let on_end =
                    move |outcome| shared.complete(completion(tag, &*file, buffer, outcome));
                let on_end = Box::new(on_end);
                table.begin_read((offset, bytes as u64), on_end, &mut self.readings);
            }
            (_, request) => shared.complete(device::perform(request)),
        }
        Ok(())
    }

    fn poll(&mut self, into: &mut Vec<Completion>) -> Result<usize> {
        self.look();
        Ok(self.take(into))
    }

    fn wait(&mut self, count: usize, into: &mut Vec<Completion>) -> Result<usize> {
        let wanted = count.min(self.in_flight);
        loop {
            let next = self.look();
            let mut done = self.shared.done.lock();
            if done.completions.len() >= wanted {
                drop(done);
                return Ok(self.take(into));
            }
            match next {
                Some(next) => _ = self.shared.changed.wait_for(&mut done, next),
                None => self.shared.changed.wait(&mut done),
            }
        }
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
