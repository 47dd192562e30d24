//! The agreement of the two sides of a connection: hellos and welcomes. (W1, W5)

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::{Cause, Driver};
use crate::channel::State;
use crate::connection::{Accepted, Side};
use crate::error::Refusal;
use crate::hello::{Hello, NEWEST, OLDEST, Refused, Welcome};
use crate::kind::Kind;
use crate::network::ConnectionId;
use crate::peer::{Certified, Identity, Role};

/// A channel of another node: its role and number, its process, and the number of the channel.
pub(crate) type SessionKey = (Role, u32, u64, u64);

/// The connection of a channel of another node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Session {
    incarnation: u64,
    dial: u64,
    pub(super) connection: ConnectionId,
}

impl Driver {
    pub(super) fn on_hello(&mut self, id: ConnectionId, body: &[u8]) -> Result<(), Cause> {
        let hello = Hello::decode(body).map_err(|damage| damage.to_string())?;
        let Some(connection) = self.connections.get(&id) else { return Ok(()) };
        let (Side::Unknown, Some(certified)) = (&connection.side, connection.certified) else {
            return Err("a hello came to the side that has dialled".to_owned());
        };
        match self.judge(&hello, &certified) {
            Err(refusal) => {
                let cause = format!("{} is refused: {refusal}", hello.from);
                self.send_frame(id, Kind::Refused, 0, Refused(refusal).encode());
                Err(cause)
            }
            Ok(version) => {
                self.admit(id, &hello, version);
                let (from, credit) = (self.shared.identity(), self.options.credit_bytes);
                let welcome = Welcome { version, from, credit };
                self.send_frame(id, Kind::Welcome, 0, welcome.encode());
                Ok(())
            }
        }
    }

    /// Returns the version of the protocol for a peer.
    ///
    /// # Errors
    /// The peer is refused.
    fn judge(&mut self, hello: &Hello, certified: &Certified) -> Result<u8, Refusal> {
        let version = hello.common_version();
        let version = version.ok_or(Refusal::Version { oldest: OLDEST, newest: NEWEST })?;
        let Identity { cluster, role, .. } = self.shared.identity();
        let from = &hello.from;
        if from.cluster != cluster {
            return Err(Refusal::Cluster { cluster });
        }
        if !certified.covers(from) {
            return Err(Refusal::Certificate);
        }
        if !Kind::may_connect(from.role, role) {
            return Err(Refusal::Role);
        }
        // Only a start tells an earlier process of a node from a later one.
        if (from.role, role) == (Role::Ltc, Role::Stoc) && from.incarnation == 0 {
            return Err(Refusal::NoStart);
        }
        self.see(from).map_err(|newest| Refusal::OldStart { newest })?;
        match self.sessions.get(&session_key(hello)) {
            Some(session) if session.dial > hello.dial => Err(Refusal::OldConnection),
            None if self.sessions.len() >= self.options.connections_max => {
                Err(Refusal::Connections)
            }
            _ => Ok(version),
        }
    }

    /// Notes the start of a node, and ends the connections of earlier ones. (W5)
    ///
    /// # Errors
    /// A later start was seen.
    fn see(&mut self, peer: &Identity) -> Result<(), u64> {
        let Identity { role, node, incarnation, .. } = *peer;
        let newest = self.newest.get(&(role, node)).copied().unwrap_or(0);
        if incarnation == 0 || incarnation == newest {
            return Ok(());
        }
        if incarnation < newest {
            return Err(newest);
        }
        self.newest.insert((role, node), incarnation);
        let earlier = self.sessions.iter().filter(|((of, number, ..), session)| {
            (*of, *number) == (role, node) && session.incarnation < incarnation
        });
        let earlier: Vec<ConnectionId> = earlier.map(|(_, session)| session.connection).collect();
        for connection in earlier {
            self.close(connection, format!("start {incarnation} of the node was seen"));
        }
        Ok(())
    }

    /// Serves a peer from now on. Ends the earlier connection of the channel. (W2)
    fn admit(&mut self, id: ConnectionId, hello: &Hello, version: u8) {
        let Hello { from, class, dial, .. } = *hello;
        let session = Session { incarnation: from.incarnation, dial, connection: id };
        if let Some(earlier) = self.sessions.insert(session_key(hello), session) {
            self.close(earlier.connection, Refusal::OldConnection.to_string());
        }
        let now = self.now();
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.side = Side::Accepted(Accepted {
                from,
                class,
                session: session_key(hello),
                has_ended: Arc::new(AtomicBool::new(false)),
                open_bytes: 0,
            });
            connection.open(version, now);
        }
    }

    pub(super) fn on_welcome(&mut self, id: ConnectionId, body: &[u8]) -> Result<(), Cause> {
        let Welcome { version, from, credit } =
            Welcome::decode(body).map_err(|damage| damage.to_string())?;
        let cluster = self.shared.identity().cluster;
        let Some(connection) = self.connections.get(&id) else { return Ok(()) };
        let (Side::Dialled(channel), Some(certified)) = (&connection.side, connection.certified)
        else {
            return Err("a welcome came to the side that was dialled".to_owned());
        };
        let channel = *channel;
        let Some(to) = self.channels.get(&channel).map(|channel| &channel.handle.to) else {
            return Ok(());
        };
        let is_other = from.role != to.role || to.node.is_some_and(|node| node != from.node);
        if is_other || from.cluster != cluster {
            return Err(format!("there is {from}"));
        }
        if to.cookie.is_some_and(|cookie| cookie != from.cookie) {
            return Err("it has other storage than before".to_owned());
        }
        if !certified.covers(&from) {
            return Err(format!("the certificate of {from} is for another node"));
        }
        self.see(&from).map_err(|newest| format!("start {newest} of {from} was seen"))?;
        let now = self.now();
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.open(version, now);
        }
        if let Some(channel) = self.channels.get_mut(&channel) {
            *channel.handle.peer.lock() = Some(from);
            *channel.handle.refused.lock() = None;
            channel.state = State::Open(id, version);
            (channel.credit, channel.failures) = (credit.max(1), 0);
        }
        self.pump(channel, now);
        Ok(())
    }
}

/// Returns the key of the channel that a hello names.
fn session_key(hello: &Hello) -> SessionKey {
    (hello.from.role, hello.from.node, hello.process, hello.channel)
}
