//! Follows a stream of RESP2 or RESP3 values as it passes, in pieces of any size.
//!
//! It keeps no more than the first bytes of each string, so that passing a large value costs no
//! memory. Nothing is allocated from a length that was only declared, and nesting is counted, not
//! recursed into.

/// The longest line (a header, a simple string, an inline command).
const LINE_BYTES_MAX: usize = 64 << 10;
/// Strings of a message that are kept; the rest is skipped.
const ITEMS_MAX: usize = 1 << 16;
/// The deepest nesting.
const DEPTH_MAX: usize = 32;
/// The longest string and the largest count that a header may declare.
const DECLARED_MAX: i64 = 1 << 40;

/// A string in a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Its length in bytes; `None` for a null.
    pub bytes: Option<u64>,
    /// Its first bytes, up to the number that the parser keeps.
    pub head: Vec<u8>,
}

/// A whole value at the top of the stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// Its first byte: `*`, `$`, `+`, ...; for an inline command the command's own first byte.
    pub kind: u8,
    /// The strings and nulls in it, in order, at any nesting.
    pub items: Vec<Item>,
}

/// The stream is no RESP, or goes beyond the supported part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a Redis protocol stream that can be followed")]
pub struct ProtocolError;

/// The state of the parse of a stream.
#[derive(Debug)]
pub struct Parser {
    keep_bytes: usize,
    message: Message,
    /// Values still to come at each level of nesting.
    open: Vec<u64>,
    state: State,
    line: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Line,
    /// Bytes of a string still to come, and its end of line.
    Body {
        left: u64,
    },
}

impl Parser {
    /// A parser that keeps the first `keep_bytes` of each string.
    pub fn new(keep_bytes: usize) -> Self {
        let (message, open, line) = Default::default();
        Self { keep_bytes, message, open, state: State::Line, line }
    }

    /// Takes the next piece of the stream; calls `found` with each message that it completes.
    ///
    /// # Errors
    /// The stream cannot be followed; the parser is then of no more use.
    pub fn feed(
        &mut self,
        mut piece: &[u8],
        mut found: impl FnMut(Message),
    ) -> Result<(), ProtocolError> {
        while let Some(&byte) = piece.first() {
            match self.state {
                State::Line => {
                    piece = piece.get(1..).unwrap_or_default();
                    if byte != b'\n' {
                        self.line.push(byte);
                        if self.line.len() > LINE_BYTES_MAX {
                            return Err(ProtocolError);
                        }
                        continue;
                    }
                    let line = std::mem::take(&mut self.line);
                    self.take_line(line.strip_suffix(b"\r").unwrap_or(&line))?;
                    self.line = line;
                    self.line.clear();
                }
                State::Body { left } => {
                    let take = usize::try_from(left).unwrap_or(usize::MAX).min(piece.len());
                    let (body, rest) = piece.split_at(take);
                    self.take_body(left, body);
                    piece = rest;
                }
            }
            if matches!(self.state, State::Line) && self.open.is_empty() && self.message.kind != 0 {
                found(std::mem::take(&mut self.message));
            }
        }
        Ok(())
    }

    fn take_line(&mut self, line: &[u8]) -> Result<(), ProtocolError> {
        let Some((&kind, rest)) = line.split_first() else {
            // A blank line between inline commands.
            return if self.open.is_empty() { Ok(()) } else { Err(ProtocolError) };
        };
        if self.message.kind == 0 {
            self.message.kind = kind;
        }
        match kind {
            b'$' | b'=' | b'!' => match number(rest)? {
                None => self.value(Item { bytes: None, head: Vec::new() }),
                Some(bytes) => {
                    self.push(Item { bytes: Some(bytes), head: Vec::new() });
                    self.state = State::Body { left: bytes + 2 };
                }
            },
            b'*' | b'~' | b'>' | b'%' | b'|' => match number(rest)? {
                None => self.value(Item { bytes: None, head: Vec::new() }),
                Some(count) => {
                    let count = if matches!(kind, b'%' | b'|') { count * 2 } else { count };
                    // Attributes go before the value that they belong to.
                    let count = if kind == b'|' { count + 1 } else { count };
                    if self.open.len() >= DEPTH_MAX {
                        return Err(ProtocolError);
                    }
                    self.open.push(count);
                    self.close_finished();
                }
            },
            b'+' | b'-' | b':' | b',' | b'#' | b'(' => self.count_value(),
            b'_' => self.value(Item { bytes: None, head: Vec::new() }),
            _ if self.open.is_empty() => {
                // An inline command: words parted by spaces.
                for word in line.split(|&byte| byte == b' ').filter(|word| !word.is_empty()) {
                    let bytes = Some(word.len() as u64);
                    self.push(Item { bytes, head: word.to_vec() });
                }
            }
            _ => return Err(ProtocolError),
        }
        Ok(())
    }

    fn take_body(&mut self, left: u64, body: &[u8]) {
        // The last two bytes end the line and are no part of the string.
        let text = usize::try_from(left.saturating_sub(2)).unwrap_or(usize::MAX).min(body.len());
        let room = self.keep_bytes;
        if let Some(item) = self.message.items.last_mut() {
            let keep = room.saturating_sub(item.head.len()).min(text);
            item.head.extend_from_slice(body.get(..keep).unwrap_or_default());
        }
        let left = left - body.len() as u64;
        self.state = State::Body { left };
        if left == 0 {
            self.state = State::Line;
            self.count_value();
        }
    }

    fn value(&mut self, item: Item) {
        self.push(item);
        self.count_value();
    }

    fn push(&mut self, item: Item) {
        if self.message.items.len() < ITEMS_MAX {
            self.message.items.push(item);
        } else if let Some(last) = self.message.items.last_mut() {
            // The rest is skipped: its bytes must not be added to the kept ones.
            *last = item;
        }
    }

    /// One value of the innermost open one is complete.
    fn count_value(&mut self) {
        if let Some(left) = self.open.last_mut() {
            *left -= 1;
        }
        self.close_finished();
    }

    fn close_finished(&mut self) {
        while self.open.last() == Some(&0) {
            self.open.pop();
            if let Some(left) = self.open.last_mut() {
                *left -= 1;
            }
        }
    }
}

/// The number of a header; `None` for a negative one, which is a null.
fn number(digits: &[u8]) -> Result<Option<u64>, ProtocolError> {
    let text = str::from_utf8(digits).map_err(|_| ProtocolError)?;
    let number: i64 = text.parse().map_err(|_| ProtocolError)?;
    if number > DECLARED_MAX {
        return Err(ProtocolError);
    }
    Ok(u64::try_from(number).ok())
}
