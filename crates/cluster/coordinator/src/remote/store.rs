//! The store of coordinators in other processes.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use wire::{Channel, Error, Kind, Refusal};

use super::messages::{
    LeaderReply, MakeKeyspace, StoreReply, StoreRequest, decode_leader_reply, decode_store_reply,
    encode_beat, encode_clients, encode_keyspace, encode_store_request,
};
use crate::leases::{Beat, BeatReply, LeaseReport};
use crate::store::{Compare, Store, StoreError, Versioned, Write};

/// Time that a call has. The coordinator begins none that is later.
const CALL_MAX: Duration = Duration::from_secs(5);

/// The same for a report: the next one follows soon.
const BEAT_MAX: Duration = Duration::from_millis(1500);

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

    /// Reports the ranges of an LTC to the leader.
    ///
    /// # Errors
    /// [`crate::Error::OldStart`], [`crate::Error::Replaced`], [`StoreError::Unavailable`].
    pub fn beat(&self, beat: &Beat) -> crate::Result<BeatReply> {
        match self.ask(Kind::Beat, &encode_beat(beat), BEAT_MAX)? {
            LeaderReply::Beat(reply) => Ok(reply),
            _ => Err(other_reply().into()),
        }
    }

    /// Returns the first of `count` ids for clients, which no other client gets.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub fn clients(&self, count: u32) -> crate::Result<u64> {
        match self.ask(Kind::Clients, &encode_clients(count), CALL_MAX)? {
            LeaderReply::Clients(first) => Ok(first),
            _ => Err(other_reply().into()),
        }
    }

    /// Makes a keyspace, unless there is one with the same options.
    ///
    /// # Errors
    /// [`crate::Error::Rejected`], [`StoreError::Unavailable`].
    pub fn make_keyspace(&self, keyspace: &MakeKeyspace) -> crate::Result<()> {
        self.ask(Kind::MakeKeyspace, &encode_keyspace(keyspace), CALL_MAX).map(drop)
    }

    /// Returns the leases of LTCs, as the leader knows them.
    ///
    /// # Errors
    /// [`crate::Error::Rejected`], [`StoreError::Unavailable`].
    pub fn leases(&self) -> crate::Result<LeaseReport> {
        match self.ask(Kind::Leases, &[], CALL_MAX)? {
            LeaderReply::Leases(report) => Ok(report),
            _ => Err(other_reply().into()),
        }
    }

    /// Makes a call of the leader that may be made twice.
    fn ask(&self, kind: Kind, body: &[u8], limit: Duration) -> crate::Result<LeaderReply> {
        let count = self.channels.len();
        let present = self.present.load(Relaxed);
        let mut failure = no_leader();
        for attempt in 0..count {
            let at = (present + attempt) % count;
            let Some(channel) = self.channels.get(at) else { continue };
            let called = call(channel, kind, body.to_vec(), limit);
            if let (Err(_), Some(Refusal::OldStart { newest })) = (&called, channel.refused()) {
                return Err(crate::Error::Replaced { last: newest });
            }
            let reply = called.map_err(unavailable).and_then(|body| {
                let reply = decode_leader_reply(kind, &body);
                reply.map_err(unavailable)
            });
            match reply {
                Ok(Err(crate::Error::Store(StoreError::NotLeader))) => {}
                Ok(Err(crate::Error::Store(error))) | Err(error) => failure = error,
                Ok(reply) => {
                    self.present.store(at, Relaxed);
                    return reply;
                }
            }
        }
        self.present.store(present + 1, Relaxed);
        Err(failure.into())
    }

    fn call(&self, request: &StoreRequest) -> Result<StoreReply, StoreError> {
        let is_commit = matches!(request, StoreRequest::Commit { .. });
        let count = self.channels.len();
        let present = self.present.load(Relaxed);
        let mut failure = StoreError::Unavailable("no coordinator is given".to_owned());
        for attempt in 0..count {
            let at = (present + attempt) % count;
            let Some(channel) = self.channels.get(at) else { continue };
            match call_store(channel, request) {
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
            StoreError::NotLeader => no_leader(),
            other => other,
        })
    }
}

fn no_leader() -> StoreError {
    StoreError::Unavailable("no coordinator leads".to_owned())
}

/// Makes a call of the store of one coordinator.
fn call_store(channel: &Channel, request: &StoreRequest) -> Result<StoreReply, StoreError> {
    let (kind, body) = encode_store_request(request);
    let body = call(channel, kind, body, CALL_MAX).map_err(unavailable)?;
    decode_store_reply(kind, &body).map_err(unavailable)?
}

fn unavailable(cause: impl ToString) -> StoreError {
    StoreError::Unavailable(cause.to_string())
}

/// Calls one coordinator, and waits for the reply.
fn call(channel: &Channel, kind: Kind, body: Vec<u8>, limit: Duration) -> Result<Vec<u8>, Error> {
    let (sender, receiver) = sync::channel::channel();
    // Without a receiver the thread has waited long enough.
    let on_reply = move |reply| sender.send(reply);
    channel.send(kind, body.into(), (Some(limit), REPLY_BYTES), Box::new(on_reply));
    let reply = receiver.recv_timeout(limit * 2);
    reply.unwrap_or_else(|_| {
        let peer = channel.to().to_string();
        Err(Error::Refused { peer, refusal: Refusal::NoReply })
    })
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
