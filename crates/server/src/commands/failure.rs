//! Why a command answers an error, in Redis's words.

use crate::protocol::Reply;
use crate::store::StoreError;
use crate::store::seat::Purpose;

/// A handler's result: its reply is written, or it failed and the error is to be.
pub(crate) type Outcome = Result<(), Failure>;

/// An error reply.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Failure {
    /// A fixed text, its code included.
    Text(&'static str),
    /// A text that quotes something.
    Quoted(String),
    /// The store refused.
    Store(StoreError),
    /// The reply is more than the client may leave unread; its connection ends.
    OutputLimit,
    /// The reply, or what is watched, is more than the clients' memory of `limit` bytes has room for.
    NoRoom { limit: usize },
    /// No error: memory does not know the key, which has to be looked up before the command runs again.
    Waits(Purpose),
}

impl Failure {
    pub(crate) const SYNTAX: Self = Self::Text("ERR syntax error");
    pub(crate) const NOT_AN_INTEGER: Self =
        Self::Text("ERR value is not an integer or out of range");
    pub(crate) const NOT_A_FLOAT: Self = Self::Text("ERR value is not a valid float");
    pub(crate) const TOO_LONG: Self =
        Self::Text("ERR string exceeds maximum allowed size (proto-max-bulk-len)");
    pub(crate) const NO_PASSWORD_SET: Self = Self::Text(
        "ERR AUTH <password> called without any password configured for the default user. Are \
         you sure your configuration is correct?",
    );
    pub(crate) const WRONG_PASSWORD: Self =
        Self::Text("WRONGPASS invalid username-password pair or user is disabled.");

    /// Wrong count of arguments for `name`.
    pub(crate) fn arity(name: &str) -> Self {
        Self::Quoted(format!("ERR wrong number of arguments for '{name}' command"))
    }

    /// Whether it came from [`Self::arity`].
    pub(crate) fn is_arity(&self) -> bool {
        matches!(self, Self::Quoted(text) if text.starts_with("ERR wrong number of arguments"))
    }

    /// Whether a transaction in which it happens cannot go on: its changes or its replies have
    /// become too many.
    pub(crate) fn ends_transaction(&self) -> bool {
        matches!(self, Self::Store(StoreError::Full(_)) | Self::OutputLimit | Self::NoRoom { .. })
    }

    /// A subcommand that `command` does not have.
    pub(crate) fn subcommand(command: &str, word: &[u8]) -> Self {
        let word = String::from_utf8_lossy(word.get(..word.len().min(128)).unwrap_or_default());
        Self::Quoted(format!("ERR unknown subcommand '{word}'. Try {command} HELP."))
    }

    /// An expiry that is zero, negative or too far away.
    pub(crate) fn expire_time(command: &str) -> Self {
        Self::Quoted(format!("ERR invalid expire time in '{command}' command"))
    }

    /// Writes it as a reply.
    pub(crate) fn answer(&self, reply: &mut Reply<'_>) {
        match self {
            Self::Text(text) => reply.error(text),
            Self::Quoted(text) => reply.error(text),
            Self::Store(error) => reply.error(&store_error(error)),
            // Nobody will see these two.
            Self::Waits(_) => reply.error("ERR the device is read"),
            Self::OutputLimit => reply.error("ERR the reply is too large"),
            Self::NoRoom { limit } => reply.error(&format!(
                "OOM command refused: the clients' memory of {limit} bytes is used up"
            )),
        }
    }
}

/// A store's error as a reply.
pub(crate) fn store_error(error: &StoreError) -> String {
    match error {
        StoreError::ReadOnly(cause) => format!("MISCONF {cause}"),
        StoreError::Full(cause) => format!("OOM {cause}"),
        StoreError::Refused(cause) => format!("ERR {cause}"),
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}
