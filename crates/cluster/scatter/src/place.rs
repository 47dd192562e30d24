//! The surroundings of a range's files.

use std::sync::Arc;
use std::time::Duration;

use codec::Corruption;
use environment::Environment;
use logc::{Closing, Member, Stocs};
use stoc::{Epoch, FileName, Link, RangeId, Request, Response, call};

/// Time between two attempts to find a StoC for a table.
const PAUSE: Duration = Duration::from_millis(20);

/// The range, its owner, and the StoCs.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) range: RangeId,
    pub(crate) epoch: Epoch,
    pub(crate) stocs: Arc<dyn Stocs>,
    /// Copies of a table.
    pub(crate) copies: usize,
    /// Time after which a StoC without a reply has failed.
    pub(crate) slow: Duration,
    pub(crate) environment: Environment,
    pub(crate) closing: Closing,
}

/// A failure of a range's file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Failure {
    /// Another owner has the range.
    Fenced,
    /// The device was closed.
    Closed,
    /// No StoC with the bytes can be reached.
    Unavailable,
    /// All copies that can be reached are damaged.
    Damaged(Corruption),
}

impl Place {
    /// Returns the link to a StoC that can be reached, and has the storage that it had.
    pub(crate) fn link_to(&self, member: &Member) -> Option<Arc<dyn Link>> {
        let link = self.stocs.link(member.node)?;
        (link.identity().cookie == member.cookie).then_some(link)
    }

    /// Calls a StoC, and waits for the reply, but not longer than `slow`.
    pub(crate) fn call(
        &self,
        link: &Arc<dyn Link>,
        request: &Request,
    ) -> Result<Response, stoc::Error> {
        call(link, request, (self.slow, &self.environment))
    }

    /// Waits before another attempt.
    ///
    /// # Errors
    /// [`Failure::Closed`].
    pub(crate) fn pause(&self) -> Result<(), Failure> {
        if self.closing.is_closed() {
            return Err(Failure::Closed);
        }
        self.environment.sleep(PAUSE);
        Ok(())
    }

    /// Releases a file on one StoC, without waiting for it.
    pub(crate) fn release(&self, name: &FileName, link: &dyn Link) {
        let (range, epoch) = (self.range, self.epoch);
        let request = Request::Release { name: *name, by: range, epoch };
        link.send(request, Box::new(|_| ()));
    }
}
