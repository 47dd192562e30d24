//! A node: this process in the cluster, with its connections.

use std::fmt;
use std::sync::Arc;
use std::thread::current;
use std::time::Duration;

use environment::{Environment, JoinHandle};
use sync::locks::Mutex;

use crate::channel::{Channel, ChannelHandle, Sending};
use crate::driver::Driver;
use crate::error::{Error, Result};
use crate::hello::Refused;
use crate::kind::Kind;
use crate::message::Body;
use crate::network::{ConnectionId, Endpoint, Wake};
use crate::peer::{Address, Class, Identity};
use crate::request::Handler;

/// How a node works.
#[derive(Clone, Debug)]
pub struct Options {
    /// How it names itself.
    pub identity: Identity,
    /// Serves the requests of other nodes; none if the node refuses them all.
    pub handler: Option<Arc<dyn Handler>>,
    /// Bytes of requests of one connection that may be without a reply.
    pub credit_bytes: u64,
    /// Connections that it accepts, at most.
    pub connections_max: usize,
    /// Time after which a silent connection is closed.
    pub silence: Duration,
    /// The source of time and threads.
    pub environment: Environment,
}

impl Options {
    /// Returns the options of a node that serves nothing.
    pub fn new(identity: Identity, environment: Environment) -> Self {
        Self {
            identity,
            handler: None,
            credit_bytes: 16 << 20,
            connections_max: 512,
            silence: Duration::from_secs(6),
            environment,
        }
    }
}

/// Work of other threads for the thread of a node.
#[derive(Default)]
struct Inbox {
    channels: Vec<Arc<ChannelHandle>>,
    sends: Vec<(u64, Sending)>,
    replies: Vec<Reply>,
    /// Channels that no handle leads to any more.
    ended: Vec<u64>,
    next_channel: u64,
    is_stopped: bool,
}

/// The work that the thread of a node takes.
pub(crate) struct Taken {
    pub(crate) channels: Vec<Arc<ChannelHandle>>,
    pub(crate) sends: Vec<(u64, Sending)>,
    pub(crate) replies: Vec<Reply>,
    pub(crate) ended: Vec<u64>,
    pub(crate) is_stopped: bool,
}

/// A reply that a handler gives.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) connection: ConnectionId,
    pub(crate) kind: Kind,
    pub(crate) request: u64,
    /// Bytes that the request counts for.
    pub(crate) bytes: usize,
    /// Bytes that the reply may have.
    pub(crate) reply_bytes: u32,
    pub(crate) body: std::result::Result<Body, Refused>,
}

/// The part of a node that all threads have.
pub(crate) struct Shared {
    inbox: Mutex<Inbox>,
    identity: Identity,
    waker: Arc<dyn Wake>,
    pub(crate) environment: Environment,
}

/// This process in a cluster. Dropping it ends its connections and its thread.
pub struct Node {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Node {
    /// Starts the thread of a node. An endpoint that listens accepts connections from now on.
    ///
    /// # Errors
    /// [`Error::System`]: there is no thread.
    pub fn start(endpoint: impl Endpoint + 'static, options: Options) -> Result<Self> {
        let shared = Arc::new(Shared {
            inbox: Mutex::default(),
            identity: options.identity,
            waker: endpoint.waker(),
            environment: options.environment.clone(),
        });
        let environment = options.environment.clone();
        let driver = Driver::new(Arc::clone(&shared), Box::new(endpoint), options);
        let thread = environment.spawn("wire", move || driver.run());
        let thread = thread.map_err(|error| Error::System {
            what: "start a thread".to_owned(),
            cause: error.to_string(),
        })?;
        Ok(Self { shared, thread: Mutex::new(Some(thread)) })
    }

    /// Returns a channel to another node. Nothing is sent before the first request.
    pub fn channel(&self, to: Address, class: Class) -> Channel {
        let mut inbox = self.shared.inbox.lock();
        inbox.next_channel += 1;
        let handle = Arc::new(ChannelHandle::new(inbox.next_channel, to, class));
        inbox.channels.push(Arc::clone(&handle));
        Channel::new(Arc::clone(&self.shared), handle)
    }

    /// Returns how it names itself.
    pub fn identity(&self) -> Identity {
        self.shared.identity()
    }

    /// Ends all connections and the thread. Requests without a reply end with
    /// [`Error::Stopped`].
    pub fn stop(&self) {
        self.shared.inbox.lock().is_stopped = true;
        self.shared.waker.wake();
        let thread = self.thread.lock().take();
        // A reaction to a reply runs on the thread itself, and may drop the node.
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != current().id()) {
            let _ended = thread.join();
        }
    }
}

impl Shared {
    pub(crate) fn identity(&self) -> Identity {
        self.identity
    }

    /// Refuses later requests, and ends the requests that the thread has not taken. The thread
    /// calls it at its end.
    pub(crate) fn stop(&self) {
        let sends = {
            let mut inbox = self.inbox.lock();
            inbox.is_stopped = true;
            std::mem::take(&mut inbox.sends)
        };
        for (_, sending) in sends {
            (sending.on_reply)(Err(Error::Stopped));
        }
    }

    /// Hands a request to the thread, or returns it if the node was stopped.
    pub(crate) fn send(&self, channel: u64, sending: Sending) -> std::result::Result<(), Sending> {
        let is_first = {
            let mut inbox = self.inbox.lock();
            if inbox.is_stopped {
                return Err(sending);
            }
            inbox.sends.push((channel, sending));
            inbox.sends.len() == 1
        };
        if is_first {
            self.waker.wake();
        }
        Ok(())
    }

    /// Hands a reply to the thread.
    pub(crate) fn reply(&self, reply: Reply) {
        let is_first = {
            let mut inbox = self.inbox.lock();
            if inbox.is_stopped {
                return;
            }
            inbox.replies.push(reply);
            inbox.replies.len() == 1
        };
        if is_first {
            self.waker.wake();
        }
    }

    /// Notes that no handle leads to a channel any more.
    pub(crate) fn end(&self, channel: u64) {
        self.inbox.lock().ended.push(channel);
        self.waker.wake();
    }

    /// Takes what the other threads have handed over.
    pub(crate) fn take(&self) -> Taken {
        let mut inbox = self.inbox.lock();
        Taken {
            channels: std::mem::take(&mut inbox.channels),
            sends: std::mem::take(&mut inbox.sends),
            replies: std::mem::take(&mut inbox.replies),
            ended: std::mem::take(&mut inbox.ended),
            is_stopped: inbox.is_stopped,
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.stop();
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node").field("identity", &self.identity()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("identity", &self.identity()).finish_non_exhaustive()
    }
}
