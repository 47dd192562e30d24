//! The reply writer: RESP2 or RESP3 bytes, appended to a connection's output.

use crate::buffer::{self, capacity_with};

/// Appends replies to `out`, in the protocol version that the client chose.
#[derive(Debug)]
pub(crate) struct Reply<'a> {
    out: &'a mut Vec<u8>,
    resp3: bool,
}

/// How much an output holds, and how much memory it takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    pub(crate) len: usize,
    pub(crate) capacity: usize,
}

impl Extent {
    /// Returns the extent of `out`.
    pub(crate) fn of(out: &Vec<u8>) -> Self {
        Self { len: out.len(), capacity: out.capacity() }
    }

    /// Returns the extent after a string of `len` bytes was added.
    pub(crate) fn with_bulk(self, len: usize) -> Self {
        let more = len + FRAME_BYTES;
        Self { len: self.len + more, capacity: capacity_with(self.len, self.capacity, more) }
    }
}

/// Bytes around a string in a reply, at most: its kind, its length, two line ends.
pub(crate) const FRAME_BYTES: usize = 32;

impl<'a> Reply<'a> {
    /// Makes a writer that appends to `out`.
    pub(crate) fn new(out: &'a mut Vec<u8>, resp3: bool) -> Self {
        Self { out, resp3 }
    }

    /// A writer to the same output, for as long as this one waits.
    pub(crate) fn reborrow(&mut self) -> Reply<'_> {
        Reply { out: self.out, resp3: self.resp3 }
    }

    /// The same output, in the version that a `HELLO` has just chosen.
    pub(crate) fn set_resp3(&mut self, resp3: bool) {
        self.resp3 = resp3;
    }

    /// How many bytes of output there are: a place to [`Self::rewind`] to.
    pub(crate) fn mark(&self) -> usize {
        self.out.len()
    }

    /// Returns how much output there is, and the memory that it takes.
    pub(crate) fn extent(&self) -> Extent {
        Extent::of(self.out)
    }

    /// Drops the bytes written since `mark`.
    pub(crate) fn rewind(&mut self, mark: usize) {
        self.out.truncate(mark);
    }

    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        buffer::reserve(self.out, bytes.len());
        self.out.extend_from_slice(bytes);
    }

    /// Adds replies that are encoded already.
    pub(crate) fn encoded(&mut self, replies: &[u8]) {
        self.put(replies);
    }

    fn line(&mut self, kind: u8, text: &[u8]) {
        buffer::reserve(self.out, text.len() + 3);
        self.out.push(kind);
        self.out.extend_from_slice(text);
        self.out.extend_from_slice(b"\r\n");
    }

    fn count(&mut self, kind: u8, count: usize) {
        let mut digits = itoa::Buffer::new();
        self.line(kind, digits.format(count).as_bytes());
    }

    /// `+OK`.
    pub(crate) fn ok(&mut self) {
        self.put(b"+OK\r\n");
    }

    /// A status line; `text` holds no line break.
    pub(crate) fn simple(&mut self, text: &str) {
        self.line(b'+', text.as_bytes());
    }

    /// Writes an error, `CODE what is wrong`. Line breaks become spaces: the text may quote any
    /// bytes of a client.
    pub(crate) fn error(&mut self, text: &[u8]) {
        self.out.push(b'-');
        let is_break = |byte| byte == b'\r' || byte == b'\n';
        self.out.extend(text.iter().map(|&byte| if is_break(byte) { b' ' } else { byte }));
        self.out.extend_from_slice(b"\r\n");
    }

    /// An integer.
    pub(crate) fn integer(&mut self, value: i64) {
        let mut digits = itoa::Buffer::new();
        self.line(b':', digits.format(value).as_bytes());
    }

    /// A count as an integer.
    pub(crate) fn length(&mut self, value: usize) {
        self.integer(i64::try_from(value).unwrap_or(i64::MAX));
    }

    /// A string of bytes.
    pub(crate) fn bulk(&mut self, bytes: &[u8]) {
        buffer::reserve(self.out, bytes.len() + FRAME_BYTES);
        self.count(b'$', bytes.len());
        self.out.extend_from_slice(bytes);
        self.out.extend_from_slice(b"\r\n");
    }

    /// Text of several lines: a verbatim string in RESP3.
    pub(crate) fn text(&mut self, text: &str) {
        if !self.resp3 {
            return self.bulk(text.as_bytes());
        }
        buffer::reserve(self.out, text.len() + 4 + FRAME_BYTES);
        self.count(b'=', text.len() + 4);
        self.out.extend_from_slice(b"txt:");
        self.out.extend_from_slice(text.as_bytes());
        self.out.extend_from_slice(b"\r\n");
    }

    /// No value.
    pub(crate) fn nil(&mut self) {
        self.put(if self.resp3 { b"_\r\n" } else { b"$-1\r\n" });
    }

    /// Writes no array, the reply of an aborted EXEC.
    pub(crate) fn nil_array(&mut self) {
        self.put(if self.resp3 { b"_\r\n" } else { b"*-1\r\n" });
    }

    /// The head of an array of `count` replies, which follow.
    pub(crate) fn array(&mut self, count: usize) {
        self.count(b'*', count);
    }

    /// The head of a map of `count` pairs, which follow; in RESP2 a flat array.
    pub(crate) fn map(&mut self, count: usize) {
        if self.resp3 { self.count(b'%', count) } else { self.count(b'*', count * 2) }
    }

    /// The head of a set of `count` replies, which follow.
    pub(crate) fn set(&mut self, count: usize) {
        self.count(if self.resp3 { b'~' } else { b'*' }, count);
    }
}
