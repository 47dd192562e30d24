//! The store of coordinators in other processes.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc;
use std::time::Duration;

use wire::{Channel, Error, Refusal};

use super::messages::{StoreReply, StoreRequest, decode_store_reply, encode_store_request};
use crate::store::{Compare, Store, StoreError, Versioned, Write};

/// Time that a call has. The coordinator begins none that is later.
const CALL_MAX: Duration = Duration::from_secs(5);

/// Bytes of the records that a call may return.
const REPLY_BYTES: u32 = 8 << 20;

/// The store of coordinators in other processes. A thread that calls it waits for the reply.
///
/// A commit goes to the coordinator that leads. If the reply does not come, the commit is not
/// repeated, since it may have happened.
#[derive(Debug)]
pub struct RemoteStore {
    channels: Vec<Channel>,
    /// The coordinator that has replied last.
    present: AtomicUsize,
}

impl RemoteStore {
    /// Returns the store behind channels to coordinators.
    pub fn new(channels: Vec<Channel>) -> Self {
        Self { channels, present: AtomicUsize::new(0) }
    }

    fn call(&self, request: &StoreRequest) -> Result<StoreReply, StoreError> {
        let is_commit = matches!(request, StoreRequest::Commit { .. });
        let count = self.channels.len();
        let present = self.present.load(Relaxed);
        let mut failure = StoreError::Unavailable("no coordinator is given".to_owned());
        for attempt in 0..count {
            let at = (present + attempt) % count;
            let Some(channel) = self.channels.get(at) else { continue };
            match call(channel, request) {
                Err(StoreError::NotLeader) => failure = StoreError::NotLeader,
                Err(error) if is_commit => {
                    self.present.store(at + 1, Relaxed);
                    return Err(error);
                }
                Err(error) => failure = error,
                Ok(reply) => {
                    self.present.store(at, Relaxed);
                    return Ok(reply);
                }
            }
        }
        // A coordinator will lead soon: to the caller this is the same as one that is away.
        Err(match failure {
            StoreError::NotLeader => StoreError::Unavailable("no coordinator leads".to_owned()),
            other => other,
        })
    }
}

/// Calls one coordinator.
fn call(channel: &Channel, request: &StoreRequest) -> Result<StoreReply, StoreError> {
    let (kind, body) = encode_store_request(request);
    let (sender, receiver) = mpsc::channel();
    // Without a receiver the thread has waited long enough.
    let on_reply = move |reply| _ = sender.send(reply);
    channel.send(kind, body.into(), (Some(CALL_MAX), REPLY_BYTES), Box::new(on_reply));
    let unavailable = |cause: String| StoreError::Unavailable(cause);
    let reply = receiver.recv_timeout(CALL_MAX * 2);
    let reply = reply.unwrap_or_else(|_| {
        let peer = channel.to().to_string();
        Err(Error::Refused { peer, refusal: Refusal::NoReply })
    });
    let body = reply.map_err(|error| unavailable(error.to_string()))?;
    decode_store_reply(kind, &body).map_err(|damage| unavailable(damage.to_string()))?
}

/// The error of a reply to another call.
fn other_reply() -> StoreError {
    StoreError::Unavailable("the reply is for another call".to_owned())
}

impl Store for RemoteStore {
    fn get(&self, key: &str) -> Result<Option<Versioned>, StoreError> {
        match self.call(&StoreRequest::Get { key: key.to_owned() })? {
            StoreReply::Record(record) => Ok(record),
            _ => Err(other_reply()),
        }
    }

    fn list(&self, prefix: &str) -> Result<Vec<(String, Versioned)>, StoreError> {
        match self.call(&StoreRequest::List { prefix: prefix.to_owned() })? {
            StoreReply::Records(records) => Ok(records),
            _ => Err(other_reply()),
        }
    }

    fn commit(&self, compares: &[Compare], writes: &[Write]) -> Result<bool, StoreError> {
        let (compares, writes) = (compares.to_vec(), writes.to_vec());
        match self.call(&StoreRequest::Commit { compares, writes })? {
            StoreReply::Committed(is_done) => Ok(is_done),
            _ => Err(other_reply()),
        }
    }
}
