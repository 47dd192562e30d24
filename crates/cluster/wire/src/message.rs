//! Messages: requests and replies, each in one or several frames.
//!
//! The frames of a message follow each other on a connection. A request begins with the time that
//! it has left, in milliseconds (u32; 0 is no limit), and with the bytes that its reply may have
//! (u32). A reply begins with a byte: 0 for the reply of the handler, 1 for a refusal.

use std::sync::Arc;

use codec::{Corruption, Reader};

use crate::frame::{self, BODY_BYTES_MAX, Frame, MORE, REPLY};
use crate::hello::Refused;
use crate::kind::Kind;

/// Bytes of a message, at most.
pub(crate) const MESSAGE_BYTES_MAX: usize = 256 << 20;

/// Bytes that a request counts for, besides those of its body.
const REQUEST_BYTES: usize = 64;

/// The first byte of a reply of the handler.
const SERVED: u8 = 0;
/// The first byte of a refusal.
const REFUSED: u8 = 1;

/// The content of a request or of a reply: its own bytes, and bytes that it shares with others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Body {
    /// The first bytes.
    pub head: Vec<u8>,
    /// The bytes that follow.
    pub tail: Option<Arc<[u8]>>,
}

impl Body {
    /// Returns its length.
    pub fn len(&self) -> usize {
        self.head.len() + self.tail.as_ref().map_or(0, |tail| tail.len())
    }

    /// Returns whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn tail(&self) -> &[u8] {
        self.tail.as_deref().unwrap_or_default()
    }
}

impl From<Vec<u8>> for Body {
    fn from(head: Vec<u8>) -> Self {
        Self { head, tail: None }
    }
}

/// Returns the bytes that a request counts for against limits: its body, and the longest reply that
/// it allows.
pub(crate) fn cost(body_bytes: usize, reply_bytes: u32) -> usize {
    body_bytes + reply_bytes as usize + REQUEST_BYTES
}

/// Bytes before the body of a request.
pub(crate) const PREFIX_BYTES: usize = 8;

/// Appends the frames of a request.
pub(crate) fn encode_request(
    out: &mut Vec<u8>,
    (kind, version, request): (Kind, u8, u64),
    (left_ms, reply_bytes): (u32, u32),
    body: &Body,
) {
    let frame = Frame { kind: kind.code(), version, flags: 0, request, body: Vec::new() };
    let prefix = [left_ms.to_le_bytes(), reply_bytes.to_le_bytes()].concat();
    encode(out, frame, &prefix, body);
}

/// Appends the frames of a reply.
pub(crate) fn encode_reply(
    out: &mut Vec<u8>,
    (kind, version, request): (Kind, u8, u64),
    reply: &Result<Body, Refused>,
) {
    let frame = Frame { kind: kind.code(), version, flags: REPLY, request, body: Vec::new() };
    match reply {
        Ok(body) => encode(out, frame, &[SERVED], body),
        Err(refused) => encode(out, frame, &[REFUSED], &refused.encode().into()),
    }
}

/// Appends the frames of `first`, the head and the tail of a body.
fn encode(out: &mut Vec<u8>, mut frame: Frame, first: &[u8], body: &Body) {
    let mut head = first.to_vec();
    head.extend_from_slice(&body.head);
    let (mut head, mut tail) = (&head[..], body.tail());
    loop {
        let (now, later) = head.split_at_checked(BODY_BYTES_MAX).unwrap_or((head, &[]));
        let room = BODY_BYTES_MAX - now.len();
        let (tail_now, tail_later) = tail.split_at_checked(room).unwrap_or((tail, &[]));
        (head, tail) = (later, tail_later);
        let is_last = head.is_empty() && tail.is_empty();
        frame.flags = (frame.flags & !MORE) | if is_last { 0 } else { MORE };
        frame::encode(out, &frame, [now, tail_now]);
        if is_last {
            return;
        }
    }
}

/// A whole message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) kind: Kind,
    pub(crate) is_reply: bool,
    pub(crate) request: u64,
    pub(crate) content: Vec<u8>,
}

/// Joins the frames of messages.
#[derive(Debug, Default)]
pub(crate) struct Joiner {
    begun: Option<Message>,
}

impl Joiner {
    /// Returns the bytes of the message that has begun.
    pub(crate) fn begun_bytes(&self) -> usize {
        self.begun.as_ref().map_or(0, |begun| begun.content.len())
    }

    /// Adds a frame, and returns the message that it ends.
    ///
    /// # Errors
    /// The frame is of no kind, of another message than the one that has begun, or the message is
    /// too long.
    pub(crate) fn add(&mut self, frame: Frame) -> Result<Option<Message>, Corruption> {
        let damage = |what: String| Corruption::new(what, 0).at("wire", 0);
        let kind = Kind::of_code(frame.kind);
        let kind = kind.ok_or_else(|| damage(format!("{:#06x} is no kind", frame.kind)))?;
        let (is_reply, request) = (frame.flags & REPLY != 0, frame.request);
        let is_empty = frame.body.is_empty();
        let message = match self.begun.take() {
            None => Message { kind, is_reply, request, content: frame.body },
            Some(mut begun) => {
                if (begun.kind, begun.is_reply, begun.request) != (kind, is_reply, request) {
                    return Err(damage(
                        "a frame of another message is within a message".to_owned(),
                    ));
                }
                begun.content.extend_from_slice(&frame.body);
                begun
            }
        };
        let bytes = message.content.len();
        if bytes > MESSAGE_BYTES_MAX + PREFIX_BYTES {
            return Err(damage(format!("a message has more than {MESSAGE_BYTES_MAX} bytes")));
        }
        if frame.flags & MORE == 0 {
            return Ok(Some(message));
        }
        if is_empty {
            return Err(damage("a frame of a longer message has no bytes".to_owned()));
        }
        self.begun = Some(message);
        Ok(None)
    }
}

impl Message {
    /// Returns the time that a request has left in milliseconds (0 is no limit), the bytes that its
    /// reply may have, and its body.
    ///
    /// # Errors
    /// It is too short.
    pub(crate) fn request(mut self) -> Result<(u32, u32, Vec<u8>), Corruption> {
        let mut fields = Reader::new(&self.content);
        let (left_ms, reply_bytes) = (fields.take_u32()?, fields.take_u32()?);
        self.content.drain(..PREFIX_BYTES);
        Ok((left_ms, reply_bytes, self.content))
    }

    /// Returns the reply of the handler, or the refusal.
    ///
    /// # Errors
    /// It is no reply.
    pub(crate) fn reply(mut self) -> Result<Result<Vec<u8>, Refused>, Corruption> {
        let mut fields = Reader::new(&self.content);
        match fields.take_u8()? {
            SERVED => {
                self.content.drain(..1);
                Ok(Ok(self.content))
            }
            REFUSED => Refused::decode(fields.rest()).map(Err),
            code => Err(fields.corruption(format!("a reply begins with {code}"))),
        }
    }
}
