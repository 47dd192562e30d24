//! The surroundings of the logs of a range, and the making of segments.

use std::sync::Arc;
use std::time::Duration;

use environment::Environment;
use stoc::{Epoch, Kind, Link, RangeId, Request, Response, call, call_all};

use crate::closing::Closing;
use crate::error::{Error, Result};
use crate::record::{Member, Mode, Segment};
use crate::registry::{Registry, Stocs};

/// The surroundings of the logs of a range, and how they are replicated.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The range.
    pub range: RangeId,
    /// The epoch of the owner.
    pub epoch: Epoch,
    /// The coordinator's record of the logs.
    pub registry: Arc<dyn Registry>,
    /// The StoCs.
    pub stocs: Arc<dyn Stocs>,
    /// E: the StoCs of a segment.
    pub ensemble: usize,
    /// Qa: the StoCs that have to acknowledge an append; more than half of E.
    pub quorum: usize,
    /// The place where StoCs keep new segments of the write log. The manifest log is durable.
    pub mode: Mode,
    /// Time after which a StoC without a reply has failed.
    pub slow: Duration,
    /// Bytes that a StoC may be behind the others.
    pub backlog_bytes: u64,
    /// Whether the owner abandons the write log, whose bytes are lost. It begins again, empty.
    pub gives_up_log: bool,
    /// The clock and the source of nonces.
    pub environment: Environment,
    /// Closes the logs.
    pub closing: Closing,
}

impl Setup {
    /// Returns the time within which replies are expected, and the clock.
    pub(crate) fn timing(&self) -> (Duration, &Environment) {
        (self.slow, &self.environment)
    }

    pub(crate) fn fenced(&self) -> Error {
        Error::Fenced { range: self.range, epoch: self.epoch }
    }

    /// Returns the place where StoCs keep new segments of a log.
    pub(crate) fn mode_of(&self, kind: Kind) -> Mode {
        if kind == Kind::Log { self.mode } else { Mode::Durable }
    }

    /// Returns the links to the StoCs of a segment that have the registered storage, and for a
    /// segment in memory are the registered starts.
    pub(crate) fn present(&self, segment: &Segment) -> Vec<(u32, Arc<dyn Link>)> {
        let link = |member: &Member| {
            let link = self.stocs.link(member.node)?;
            let is_present = segment.is_of(member, &Member::of(link.identity()));
            is_present.then_some((member.node, link))
        };
        segment.ensemble.iter().filter_map(link).collect()
    }

    /// Makes the log files of a new segment on StoCs that are not in `avoid`. The segment can be
    /// used if it [has a quorum](Self::has_quorum).
    ///
    /// # Errors
    /// [`Error::Fenced`].
    pub(crate) fn create_segment(
        &self,
        kind: Kind,
        (index, nonce): (u64, u64),
        avoid: &[u32],
    ) -> Result<Segment> {
        let mut avoid = avoid.to_vec();
        let mut ensemble: Vec<Member> = Vec::new();
        let mode = self.mode_of(kind);
        let (epoch, in_memory) = (self.epoch, mode == Mode::Memory);
        loop {
            let wanted = self.ensemble - ensemble.len();
            let links = self.stocs.choose(wanted, &avoid);
            // Without a quorum the files would be of no use.
            if links.is_empty() || ensemble.len() + links.len() < self.quorum {
                break;
            }
            let mut segment = Segment { index, nonce, mode, ensemble, part: None, sealed: None };
            let name = segment.name(self.range, kind);
            let request = Request::CreateLog { name, epoch, in_memory };
            let replies = call_all(&links, &request, self.timing());
            for (link, reply) in links.iter().zip(replies) {
                // A reply brings the present start of the StoC, if another one was known before.
                let member = Member::of(link.identity());
                avoid.push(member.node);
                match reply {
                    // An earlier attempt of this owner may have made it, and has not written to it.
                    Ok(_) | Err(stoc::Error::Exists { .. }) => segment.ensemble.push(member),
                    Err(stoc::Error::Fenced { .. }) => return Err(self.fenced()),
                    Err(_) => {}
                }
            }
            ensemble = segment.ensemble;
            if ensemble.len() >= self.ensemble {
                break;
            }
        }
        Ok(Segment { index, nonce, mode, ensemble, part: None, sealed: None })
    }

    /// Returns whether enough StoCs have a segment for appends to it.
    pub(crate) fn has_quorum(&self, segment: &Segment) -> bool {
        segment.ensemble.len() >= self.quorum
    }

    /// Sends a request to one StoC, and waits for the reply, but not longer than `slow`.
    pub(crate) fn call(
        &self,
        link: &Arc<dyn Link>,
        request: &Request,
    ) -> std::result::Result<Response, stoc::Error> {
        call(link, request, self.timing())
    }

    /// Sends a request to the StoCs of a segment, and does not wait for replies.
    pub(crate) fn send_to_ensemble(&self, segment: &Segment, request: &Request) {
        for link in segment.nodes().filter_map(|node| self.stocs.link(node)) {
            link.send(request.clone(), Box::new(|_| ()));
        }
    }
}
