//! The errors with which commands reply, in Redis's words.

use std::borrow::Cow;

use crate::protocol::Args;
use crate::store::StoreError;
use crate::store::session::Purpose;

/// A handler's result: its reply is written, or it failed and the error is to be.
pub(crate) type Outcome = Result<(), Failure>;

/// The codes with which error replies begin, in the order in which they are counted.
pub(crate) const ERROR_CODES: [&str; 7] =
    ["ERR", "EXECABORT", "MISCONF", "NOAUTH", "NOPROTO", "OOM", "WRONGPASS"];

/// Returns the place in [`ERROR_CODES`] of the code with which an error's text begins.
pub(crate) fn error_code(text: &[u8]) -> usize {
    let code = text.split(|&byte| byte == b' ').next().unwrap_or_default();
    // A text without a known code is a plain error.
    ERROR_CODES.iter().position(|known| known.as_bytes() == code).unwrap_or(0)
}

/// Bytes of an argument that an error quotes.
pub(crate) const QUOTED_BYTES: usize = 128;

/// Returns the part of an argument that an error quotes: at most `most` bytes, and as in Redis none
/// from a zero byte on.
pub(crate) fn quoted(argument: &[u8], most: usize) -> &[u8] {
    let front = argument.get(..argument.len().min(most)).unwrap_or_default();
    front.split(|&byte| byte == 0).next().unwrap_or_default()
}

/// An error reply.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Failure {
    /// A fixed text, its code included.
    Text(&'static str),
    /// A text that was made for the occasion. It may quote any bytes of the client.
    Made(Vec<u8>),
    /// The store refused.
    Store(StoreError),
    /// The reply is more than the `limit` bytes that a client may leave unread.
    OutputLimit { limit: usize },
    /// The reply, or the set of watched keys, is more than the clients' memory of `limit` bytes has
    /// room for.
    NoRoom { limit: usize },
    /// No error: memory does not know the key, which has to be looked up before the command runs
    /// again; or a thread is to run it, since it waits or has much to do. It has changed nothing.
    Parked(Purpose),
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

    /// Returns a failure whose text was made for the occasion, its code included.
    pub(crate) fn made(text: String) -> Self {
        Self::Made(text.into_bytes())
    }

    /// Returns a failure that quotes the first bytes of an argument, unchanged, between two texts.
    pub(crate) fn quoting(before: &str, argument: &[u8], after: &str) -> Self {
        Self::Made([before.as_bytes(), quoted(argument, QUOTED_BYTES), after.as_bytes()].concat())
    }

    /// Wrong count of arguments for `name`.
    pub(crate) fn arity(name: &str) -> Self {
        Self::made(format!("ERR wrong number of arguments for '{name}' command"))
    }

    /// Returns whether a transaction in which it happens cannot continue: its changes or its
    /// replies have become too many.
    pub(crate) fn ends_transaction(&self) -> bool {
        matches!(self, Self::Store(StoreError::Full(_))) || self.is_no_room()
    }

    /// Whether there is no room for the reply.
    pub(crate) fn is_no_room(&self) -> bool {
        matches!(self, Self::OutputLimit { .. } | Self::NoRoom { .. })
    }

    /// A command that does not exist, with the first of its arguments.
    pub(crate) fn unknown_command(args: Args<'_>) -> Self {
        let mut shown = Vec::new();
        for arg in args.from(1) {
            if shown.len() >= QUOTED_BYTES {
                break;
            }
            let arg = quoted(arg, QUOTED_BYTES - shown.len());
            shown.extend_from_slice(&[b"'", arg, b"' "].concat());
        }
        let name = quoted(args.at(0), QUOTED_BYTES);
        let text = [b"ERR unknown command '", name, b"', with args beginning with: ", &shown];
        Self::Made(text.concat())
    }

    /// A subcommand that `command` does not have.
    pub(crate) fn subcommand(command: &str, word: &[u8]) -> Self {
        Self::quoting("ERR unknown subcommand '", word, &format!("'. Try {command} HELP."))
    }

    /// An expiry that is zero, negative or too far away.
    pub(crate) fn expire_time(command: &str) -> Self {
        Self::made(format!("ERR invalid expire time in '{command}' command"))
    }

    /// Returns the text of the reply, which begins with its code.
    pub(crate) fn text(&self) -> Cow<'_, [u8]> {
        match self {
            Self::Text(text) => Cow::Borrowed(text.as_bytes()),
            Self::Made(text) => Cow::Borrowed(text),
            Self::Store(error) => store_error(error).into_bytes().into(),
            // No client gets this one.
            Self::Parked(_) => Cow::Borrowed(b"ERR the device is read"),
            Self::OutputLimit { limit } => format!(
                "ERR reply refused: it is larger than the {limit} bytes that a client may leave \
                 unread"
            )
            .into_bytes()
            .into(),
            Self::NoRoom { limit } => {
                format!("OOM command refused: the clients' memory of {limit} bytes is used up")
                    .into_bytes()
                    .into()
            }
        }
    }
}

/// A store's error as a reply.
pub(crate) fn store_error(error: &StoreError) -> String {
    match error {
        StoreError::ReadOnly(cause) => format!("MISCONF {cause}"),
        StoreError::Full(cause) => format!("OOM {cause}"),
        StoreError::Refused(cause) => format!("ERR {cause}"),
        StoreError::NoDatabase | StoreError::MustWait => format!("ERR {error}"),
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::NoDatabase => Self::Parked(Purpose::ThreadAlone),
            StoreError::MustWait => Self::Parked(Purpose::Write),
            error => Self::Store(error),
        }
    }
}
