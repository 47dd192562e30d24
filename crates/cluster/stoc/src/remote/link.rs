//! The link to a StoC of another process.

use std::time::Duration;

use wire::{Address, Channel, Class, Node, Role};

use super::messages::{decode_response, encode_request};
use crate::catalogue::Identity;
use crate::error::Error;
use crate::link::{Link, OnReply};
use crate::request::Request;

/// Time after which the reply to a read, or to a look at the files, has no use.
const READ_MAX: Duration = Duration::from_secs(10);

/// Bytes of a reply without a list.
const REPLY_BYTES: u32 = 4 << 10;
/// Bytes of a list of files.
const LIST_BYTES: u32 = 8 << 20;

/// A link to a StoC of another process. It leads to one storage: a StoC with another cookie cannot
/// be reached by it. (S5)
///
/// Requests for one range of one class ([`RemoteLink::class_of`]) are served in the order in which
/// they were sent.
#[derive(Debug)]
pub struct RemoteLink {
    identity: Identity,
    control: Channel,
    log: Channel,
    bulk: Channel,
    read: Channel,
}

impl RemoteLink {
    /// Returns a link to the StoC that the coordinator knows by this identity, and that listens at
    /// `place`.
    pub fn new(node: &Node, identity: Identity, place: &str) -> Self {
        let channel = |class| {
            let address = Address {
                role: Role::Stoc,
                node: Some(identity.node),
                cookie: Some(identity.cookie),
                place: place.to_owned(),
            };
            node.channel(address, class)
        };
        Self {
            identity,
            control: channel(Class::Control),
            log: channel(Class::Log),
            bulk: channel(Class::Bulk),
            read: channel(Class::Read),
        }
    }

    /// Returns the class of a request: all that changes one file has one class.
    pub fn class_of(request: &Request) -> Class {
        match request {
            Request::Fence { .. }
            | Request::CreateLog { .. }
            | Request::Append { .. }
            | Request::Seal { .. } => Class::Log,
            Request::Release { name, .. } if name.kind.is_log() => Class::Log,
            Request::CreateTable { .. }
            | Request::Write { .. }
            | Request::Finish { .. }
            | Request::Release { .. }
            | Request::AddReferences { .. } => Class::Bulk,
            Request::Read { .. } => Class::Read,
            Request::List { .. } | Request::Verify { .. } | Request::Stats => Class::Control,
        }
    }

    /// Returns the time after which a reply has no use.
    fn limit_of(request: &Request) -> Option<Duration> {
        let is_brief =
            matches!(request, Request::Read { .. } | Request::List { .. } | Request::Stats);
        is_brief.then_some(READ_MAX)
    }

    /// Returns the bytes that the reply may have.
    fn reply_bytes_of(request: &Request) -> u32 {
        match request {
            Request::Read { bytes, .. } => {
                u32::try_from(*bytes).unwrap_or(u32::MAX).saturating_add(REPLY_BYTES)
            }
            Request::Fence { .. } | Request::List { .. } => LIST_BYTES,
            _ => REPLY_BYTES,
        }
    }

    fn channel(&self, class: Class) -> &Channel {
        match class {
            Class::Control => &self.control,
            Class::Log => &self.log,
            Class::Bulk => &self.bulk,
            Class::Read => &self.read,
        }
    }
}

impl Link for RemoteLink {
    fn identity(&self) -> Identity {
        let all = [&self.control, &self.log, &self.bulk, &self.read];
        let seen = all.into_iter().filter_map(|channel| channel.peer());
        let incarnation = seen.map(|peer| peer.incarnation).max().unwrap_or(0);
        let incarnation = incarnation.max(self.identity.incarnation);
        Identity { incarnation, ..self.identity }
    }

    fn send(&self, request: Request, on_reply: OnReply) {
        let (kind, body) = encode_request(&request);
        let limits = (Self::limit_of(&request), Self::reply_bytes_of(&request));
        let node = self.identity.node;
        let react = move |reply: wire::Result<Vec<u8>>| {
            let response = reply.map(|body| decode_response(kind, &body));
            on_reply(match response {
                Ok(Ok(response)) => response,
                // Whether the request was served is unknown.
                Ok(Err(_)) | Err(_) => Err(Error::Unreachable { node }),
            });
        };
        self.channel(Self::class_of(&request)).send(kind, body, limits, Box::new(react));
    }
}
