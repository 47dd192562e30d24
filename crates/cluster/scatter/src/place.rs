//! The surroundings of a range's files.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use codec::Corruption;
use environment::{Environment, Random};
use logc::{Closing, Member, Stocs};
use rand::Rng;
use stoc::{Epoch, FileName, Kind, Link, RangeId, Request, Response, call};
use sync::Mutex;

use crate::reading::Latencies;

/// Time between two attempts to find a StoC for a table.
const PAUSE: Duration = Duration::from_millis(20);

/// The range, its owner, and the StoCs.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) range: RangeId,
    pub(crate) epoch: Epoch,
    pub(crate) stocs: Arc<dyn Stocs>,
    /// Copies of a fragment.
    pub(crate) copies: usize,
    /// The most fragments of a table.
    pub(crate) rho: u32,
    /// Time after which a StoC without a reply is too slow.
    pub(crate) slow: Duration,
    pub(crate) environment: Environment,
    pub(crate) closing: Closing,
    /// The latencies of reads of tables.
    pub(crate) latencies: Latencies,
    pub(crate) live: Live,
}

/// The names of all copies that this process writes, or that tables of the range have. Each copy
/// has a nonce of its own, so no two copies have one name.
#[derive(Debug)]
pub(crate) struct Live {
    names: Mutex<BTreeSet<FileName>>,
    random: Mutex<Random>,
}

/// A failure of a range's file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Failure {
    /// Another owner has the range.
    Fenced,
    /// The device was closed.
    Closed,
    /// No StoC has room.
    Full,
    /// No StoC with the bytes can be reached.
    Unavailable,
    /// All copies that can be reached are damaged.
    Damaged(Corruption),
}

impl Live {
    pub(crate) fn new(random: Random) -> Self {
        Self { names: Mutex::default(), random: Mutex::new(random) }
    }

    /// Adds the name of a copy that exists.
    pub(crate) fn insert(&self, name: FileName) {
        self.names.lock().insert(name);
    }

    /// Removes a name: the copy is an orphan from now on, if a StoC still has it.
    pub(crate) fn remove(&self, name: &FileName) {
        self.names.lock().remove(name);
    }

    /// Removes all names but these.
    pub(crate) fn set(&self, names: impl Iterator<Item = FileName>) {
        *self.names.lock() = names.collect();
    }

    pub(crate) fn contains(&self, name: &FileName) -> bool {
        self.names.lock().contains(name)
    }
}

impl Place {
    /// Returns the name of a copy of a fragment, by the numbers of the table and of the fragment.
    pub(crate) fn name_of(&self, (number, part): (u64, u16), nonce: u64) -> FileName {
        FileName { range: self.range, kind: Kind::Data, number, nonce, part }
    }

    /// Returns the name of a new copy of a fragment, which is live from now on.
    pub(crate) fn new_copy(&self, number: (u64, u16)) -> FileName {
        let nonce = self.live.random.lock().next_u64();
        let name = self.name_of(number, nonce);
        self.live.insert(name);
        name
    }

    /// Returns at most `count` StoCs that are not in `avoid`, and not in `used` as far as there are
    /// enough.
    pub(crate) fn choose(&self, count: usize, avoid: &[u32], used: &[u32]) -> Vec<Arc<dyn Link>> {
        let mut avoided = [avoid, used].concat();
        let mut chosen = self.stocs.choose(count, &avoided);
        if chosen.len() < count && !used.is_empty() {
            avoided = avoid.to_vec();
            avoided.extend(chosen.iter().map(|link| link.identity().node));
            chosen.extend(self.stocs.choose(count - chosen.len(), &avoided));
        }
        chosen
    }

    /// Returns the link to a StoC that has the storage that it had.
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
    /// [`Failure::Closed`], [`Failure::Full`].
    pub(crate) fn pause(&self) -> Result<(), Failure> {
        self.check_open()?;
        self.environment.sleep(PAUSE);
        Ok(())
    }

    /// Refuses a device that was closed.
    ///
    /// # Errors
    /// [`Failure::Closed`], [`Failure::Full`].
    pub(crate) fn check_open(&self) -> Result<(), Failure> {
        if self.closing.is_closed() { Err(self.closed()) } else { Ok(()) }
    }

    /// Returns the failure of a call after the device was closed.
    pub(crate) fn closed(&self) -> Failure {
        if self.closing.is_full() { Failure::Full } else { Failure::Closed }
    }

    /// Returns the failure of a call of a log.
    pub(crate) fn failure_of(&self, error: logc::Error) -> Failure {
        match error {
            logc::Error::Fenced { .. } => Failure::Fenced,
            logc::Error::Damaged(damage) => Failure::Damaged(damage),
            logc::Error::Closed => self.closed(),
            // A repetition cannot help.
            error @ (logc::Error::NoFile { .. }
            | logc::Error::NotAtEnd { .. }
            | logc::Error::Lost { .. }) => Failure::Damaged(Corruption::new(error.to_string(), 0)),
            _ => Failure::Unavailable,
        }
    }

    /// Releases a copy on one StoC, without waiting for it. It is an orphan from now on.
    pub(crate) fn release(&self, name: &FileName, link: Option<&dyn Link>) {
        if let Some(link) = link {
            let (range, epoch) = (self.range, self.epoch);
            let request = Request::Release { name: *name, by: range, epoch };
            link.send(request, Box::new(|_| ()));
        }
        self.live.remove(name);
    }
}
