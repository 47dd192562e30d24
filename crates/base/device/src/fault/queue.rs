//! A queue whose requests fail when a test asks for it.
//!
//! A request that is to fail never reaches the inner queue: its completion is made here and waits
//! to be collected. All others continue with the inner file in place of the wrapper.

use std::any::Any;
use std::sync::Arc;

use crate::doorbell::Doorbell;
use crate::error::Result;
use crate::file::File;
use crate::queue::{Completion, Queue, Request, Work};

use super::file::FaultFile;
use super::plan::{OperationKind, Plan};

pub(super) struct FaultQueue {
    inner: Box<dyn Queue>,
    plan: Arc<Plan>,
    depth: usize,
    failed: Vec<Completion>,
    bell: Option<Arc<Doorbell>>,
}

impl FaultQueue {
    pub(super) fn new(inner: Box<dyn Queue>, plan: Arc<Plan>, depth: usize) -> Self {
        Self { inner, plan, depth: depth.max(1), failed: Vec::new(), bell: None }
    }

    /// Decides over a request on one of our files: its completion if it fails.
    fn strike(
        &self,
        file: &FaultFile,
        tag: u64,
        work: Work,
    ) -> std::result::Result<Work, Completion> {
        let kind = match &work {
            Work::Read { .. } => OperationKind::Read,
            Work::Write { .. } => OperationKind::Write,
            Work::Sync(_) => OperationKind::Sync,
        };
        let Some(struck) = self.plan.strike(kind, file.name()) else { return Ok(work) };
        let (buffer, result) = match work {
            Work::Read { offset, mut buffer } => {
                let result = file.fail_read(struck, offset, &mut buffer);
                (Some(buffer), result)
            }
            Work::Write { offset, buffer } => {
                let result = file.fail_write(struck, offset, &buffer);
                (Some(buffer), result)
            }
            Work::Sync(_) => (None, file.device.accounting().ended(Err(struck.1))),
        };
        Err(Completion { tag, buffer, result })
    }
}

impl Queue for FaultQueue {
    fn submit(&mut self, request: Request) -> std::result::Result<(), Request> {
        if self.in_flight() == self.depth {
            return Err(request);
        }
        let Request { tag, file, work } = request.on_open_file();
        let any: &dyn Any = &*file;
        let Some(ours) = any.downcast_ref::<FaultFile>() else {
            return self.inner.submit(Request { tag, file, work });
        };
        match self.strike(ours, tag, work) {
            Ok(work) => {
                let request = Request { tag, file: ours.inner.clone(), work };
                self.inner.submit(request).map_err(|back| Request { file, ..back })
            }
            Err(completion) => {
                self.failed.push(completion);
                self.bell.iter().for_each(|bell| bell.ring());
                Ok(())
            }
        }
    }

    fn poll(&mut self, into: &mut Vec<Completion>) -> Result<usize> {
        let failed = self.failed.len();
        into.append(&mut self.failed);
        Ok(failed + self.inner.poll(into)?)
    }

    fn wait(&mut self, count: usize, into: &mut Vec<Completion>) -> Result<usize> {
        let failed = self.failed.len();
        into.append(&mut self.failed);
        Ok(failed + self.inner.wait(count.saturating_sub(failed), into)?)
    }

    fn in_flight(&self) -> usize {
        self.inner.in_flight() + self.failed.len()
    }

    fn ring(&mut self, bell: &Arc<Doorbell>) -> Result<()> {
        self.bell = Some(Arc::clone(bell));
        self.inner.ring(bell)
    }
}
