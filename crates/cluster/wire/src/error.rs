//! Errors of connections, by the sender's reaction to them.

use codec::Corruption;

/// The result of this crate's calls.
pub type Result<T> = std::result::Result<T, Error>;

/// A typed failure of a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The peer cannot be reached now, or the connection was lost. Whether the request was served
    /// is unknown.
    #[error("{peer} cannot be reached: {cause}")]
    Unreachable {
        /// The peer.
        peer: String,
        /// The cause.
        cause: String,
    },
    /// The peer refuses. After [`Refusal::NoReply`] and [`Refusal::TooLong`] the sender does not
    /// know whether the request was served. After the others it was not.
    #[error("{peer} refuses: {refusal}")]
    Refused {
        /// The peer.
        peer: String,
        /// The reason.
        refusal: Refusal,
    },
    /// Too many bytes wait for the peer. The request was not sent.
    #[error("{bytes} bytes wait for {peer}, and no more may wait")]
    QueueFull {
        /// The peer.
        peer: String,
        /// The bytes that wait.
        bytes: usize,
    },
    /// The time of the request was over before it was sent. It was not served.
    #[error("the time of the request was over before it was sent")]
    Expired,
    /// The node was stopped.
    #[error("the node was stopped")]
    Stopped,
    /// The message is longer than a message may be. It was not sent.
    #[error("the message has {bytes} bytes, and at most {most} are allowed")]
    TooLong {
        /// Its bytes.
        bytes: usize,
        /// The limit.
        most: usize,
    },
    /// Bytes that were received are no frames, or no message.
    #[error(transparent)]
    Damaged(#[from] Corruption),
    /// The operating system refused: an address cannot be used, say.
    #[error("{what}: {cause}")]
    System {
        /// The call.
        what: String,
        /// The cause.
        cause: String,
    },
}

/// The reason for which a node refuses a connection or a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No version of the protocol is common.
    #[error("it speaks versions {oldest} to {newest} of the protocol")]
    Version {
        /// The oldest version that it speaks.
        oldest: u8,
        /// The newest one.
        newest: u8,
    },
    /// The node belongs to another cluster.
    #[error("it belongs to cluster {cluster:016x}")]
    Cluster {
        /// Its cluster.
        cluster: u64,
    },
    /// The certificate does not cover the name in the hello.
    #[error("the certificate is for another node")]
    Certificate,
    /// The node has no start, and a node of its role needs one here.
    #[error("it has not registered with the coordinator")]
    NoStart,
    /// A later start of the peer was seen.
    #[error("start {newest} of this node was seen")]
    OldStart {
        /// The latest start.
        newest: u64,
    },
    /// A later connection has taken the place of this one.
    #[error("a later connection has taken the place of this one")]
    OldConnection,
    /// The role may not send the request.
    #[error("this role may not send such a request")]
    Role,
    /// The request was late, and was not served.
    #[error("the request came too late")]
    Late,
    /// The handler gave no reply, by a fault of the program.
    #[error("the request got no reply")]
    NoReply,
    /// The reply is longer than a message may be.
    #[error("the reply is too long")]
    TooLong,
    /// Too many bytes of requests wait.
    #[error("too many bytes of requests wait")]
    Full,
    /// Too many connections are open.
    #[error("too many connections are open")]
    Connections,
}
