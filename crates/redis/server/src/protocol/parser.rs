//! The request parser: in place, resumable at every byte, bounded.
//!
//! 1. The caller keeps the bytes of a command that is not whole yet, and gives them again with the
//!    bytes that follow. The parser keeps the spans of the arguments it has seen and continues at
//!    its last position, so a command arriving byte by byte costs no more than one arriving whole.
//! 2. Arguments are spans of those bytes; nothing is copied. (Inline requests, which must be
//!    unquoted, are the exception.)
//!
//! # Invariants
//! I1. Memory grows with the bytes that were received: a declared count or length reserves nothing.
//! I2. A request past one of its [`Bounds`] is refused when its declaration is read, before its
//!     bytes are kept.

use super::args::{Args, OwnedArgs, Span};
use super::inline;

/// The bounds of one request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Arguments, the command's name counted.
    pub(crate) args_max: usize,
    /// Bytes of one argument.
    pub(crate) arg_bytes_max: usize,
    /// Bytes of all of it.
    pub(crate) command_bytes_max: usize,
    /// Whether these are the bounds before authentication; only the wording of errors differs.
    pub(crate) unauthenticated: bool,
}

impl Bounds {
    /// The bounds before a client has authenticated.
    pub(crate) const UNAUTHENTICATED: Self = Self::new(10, 16 << 10, true);
    /// The bounds for the fuzzer and the benchmark.
    const GENEROUS: Self = Self::new(1 << 20, 64 << 20, false);
    /// Bytes of an inline request.
    pub(crate) const INLINE_BYTES_MAX: usize = 64 << 10;
    /// Bytes of one whole request at most; spans are 32 bits wide.
    pub(crate) const COMMAND_BYTES_MAX: usize = 1 << 30;
    /// Bytes of a line that holds a count or a length.
    const HEADER_BYTES_MAX: usize = 32;

    const fn new(args_max: usize, arg_bytes_max: usize, unauthenticated: bool) -> Self {
        let command_bytes_max = Self::COMMAND_BYTES_MAX;
        Self { args_max, arg_bytes_max, command_bytes_max, unauthenticated }
    }
}

/// The parser's result at the front of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A command that took `consumed` bytes; read it by [`Parser::args`].
    Command { consumed: usize },
    /// Nothing to execute (an empty line, an empty array) in `consumed` bytes.
    Nothing { consumed: usize },
    /// The command is not whole yet.
    Incomplete,
    /// Bytes that are no request. The connection cannot be used after them.
    Refused(Refusal),
}

/// The reason for which bytes are no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// A fixed text.
    Text(&'static str),
    /// An argument began with this byte instead of a dollar sign.
    NotAnArgument(u8),
}

impl Refusal {
    /// Returns the text that follows "Protocol error: ".
    pub(crate) fn text(self) -> Vec<u8> {
        match self {
            Self::Text(text) => text.into(),
            Self::NotAnArgument(byte) => [&b"expected '$', got '"[..], &[byte], b"'"].concat(),
        }
    }
}

/// The parser of one connection.
#[derive(Debug, Default)]
pub(crate) struct Parser {
    /// Arguments that the array at hand still lacks; 0 between commands.
    missing: usize,
    /// The place at which parsing continues, counted from the command's first byte.
    at: usize,
    spans: Vec<Span>,
    /// The unquoted words of an inline request.
    words: Vec<u8>,
    is_inline: bool,
}

/// A line `<type><number>\r\n` at some place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Header {
    Number { value: i64, end: usize },
    Incomplete,
    TooLong,
    Bad,
}

impl Parser {
    /// The arguments of the command that the last [`Step::Command`] reported. `bytes` are the ones
    /// given to that step.
    pub(crate) fn args<'a>(&'a self, bytes: &'a [u8]) -> Args<'a> {
        Args::new(if self.is_inline { &self.words } else { bytes }, &self.spans)
    }

    /// The same arguments, of a command that is no inline request, with `input`, of which it is the
    /// end.
    pub(crate) fn take_args(&mut self, input: Vec<u8>) -> OwnedArgs {
        let spans = std::mem::take(&mut self.spans);
        // The end of a line follows the last one.
        let len = spans.last().map_or(0, |last| last.start as usize + last.len as usize + 2);
        OwnedArgs::at_end(input, len, spans)
    }

    /// Bytes of memory held.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.spans.capacity() * size_of::<Span>() + self.words.capacity()
    }

    /// Releases the memory that an unusually long command took. Only between commands.
    pub(crate) fn shrink(&mut self) {
        const SPANS_KEPT: usize = 64;
        if self.missing == 0 && self.spans.capacity() > SPANS_KEPT {
            self.spans = Vec::new();
        }
        self.words = Vec::new();
    }

    /// Looks at `bytes`, which begin with the command at hand.
    #[inline]
    pub(crate) fn step(&mut self, bytes: &[u8], bounds: &Bounds) -> Step {
        if self.missing == 0 {
            self.spans.clear();
            match bytes.first() {
                None => return Step::Incomplete,
                Some(b'*') => {}
                Some(_) => return self.inline(bytes, bounds),
            }
            self.is_inline = false;
            match self.open(bytes, bounds) {
                Step::Command { .. } => {}
                other => return other,
            }
        }
        while self.missing > 0 {
            match self.argument(bytes, bounds) {
                Step::Command { .. } => {}
                other => return other,
            }
        }
        Step::Command { consumed: std::mem::take(&mut self.at) }
    }

    /// Reads `*<count>\r\n`.
    fn open(&mut self, bytes: &[u8], bounds: &Bounds) -> Step {
        match header(bytes, 0) {
            Header::Incomplete => Step::Incomplete,
            Header::TooLong => Step::Refused(Refusal::Text("too big mbulk count string")),
            Header::Bad => Step::Refused(Refusal::Text("invalid multibulk length")),
            Header::Number { value, end } if value <= 0 => Step::Nothing { consumed: end },
            Header::Number { value, end } => match usize::try_from(value) {
                Ok(count) if count <= bounds.args_max => {
                    self.missing = count;
                    self.at = end;
                    Step::Command { consumed: end }
                }
                _ if bounds.unauthenticated => {
                    Step::Refused(Refusal::Text("unauthenticated multibulk length"))
                }
                _ => Step::Refused(Refusal::Text("invalid multibulk length")),
            },
        }
    }

    /// Reads `$<length>\r\n<bytes>\r\n`.
    #[inline]
    fn argument(&mut self, bytes: &[u8], bounds: &Bounds) -> Step {
        match bytes.get(self.at) {
            None => return Step::Incomplete,
            Some(b'$') => {}
            Some(&byte) => return Step::Refused(Refusal::NotAnArgument(byte)),
        }
        let (value, start) = match header(bytes, self.at) {
            Header::Incomplete => return Step::Incomplete,
            Header::TooLong => return Step::Refused(Refusal::Text("too big bulk count string")),
            Header::Bad => return Step::Refused(Refusal::Text("invalid bulk length")),
            Header::Number { value, end } => (value, end),
        };
        let len = match usize::try_from(value) {
            Ok(len) if len <= bounds.arg_bytes_max => len,
            Ok(_) if bounds.unauthenticated => {
                return Step::Refused(Refusal::Text("unauthenticated bulk length"));
            }
            _ => return Step::Refused(Refusal::Text("invalid bulk length")),
        };
        if start + len + 2 > bounds.command_bytes_max {
            return Step::Refused(Refusal::Text("too big request"));
        }
        match bytes.get(start + len..start + len + 2) {
            None => return Step::Incomplete,
            Some(b"\r\n") => {}
            Some(_) => return Step::Refused(Refusal::Text("expected CRLF after an argument")),
        }
        // Both fit: they are below COMMAND_BYTES_MAX.
        self.spans.push(Span { start: start as u32, len: len as u32 });
        self.missing -= 1;
        self.at = start + len + 2;
        Step::Command { consumed: self.at }
    }

    /// Reads a line of words.
    fn inline(&mut self, bytes: &[u8], bounds: &Bounds) -> Step {
        // `at` remembers how far the search for the line's end has reached.
        let searched = self.at;
        let found = bytes.get(searched..).and_then(|rest| memchr::memchr(b'\n', rest));
        let end = found.map_or(bytes.len(), |found| searched + found);
        if end > Bounds::INLINE_BYTES_MAX {
            return Step::Refused(Refusal::Text("too big inline request"));
        }
        if found.is_none() {
            self.at = bytes.len();
            return Step::Incomplete;
        }
        self.at = 0;
        self.is_inline = true;
        let line = bytes.get(..end).unwrap_or_default();
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if inline::split(line, &mut self.words, &mut self.spans).is_err() {
            return Step::Refused(Refusal::Text("unbalanced quotes in request"));
        }
        match self.spans.len() {
            0 => Step::Nothing { consumed: end + 1 },
            count if count > bounds.args_max => {
                Step::Refused(Refusal::Text("unauthenticated multibulk length"))
            }
            _ => Step::Command { consumed: end + 1 },
        }
    }
}

/// Reads the number between the type byte at `at` and its CRLF.
#[inline(always)]
fn header(bytes: &[u8], at: usize) -> Header {
    let digit = |byte: u8| i64::from(byte - b'0');
    match bytes.get(at + 1..) {
        Some(&[ones @ b'0'..=b'9', b'\r', b'\n', ..]) => {
            Header::Number { value: digit(ones), end: at + 4 }
        }
        Some(&[tens @ b'1'..=b'9', ones @ b'0'..=b'9', b'\r', b'\n', ..]) => {
            Header::Number { value: digit(tens) * 10 + digit(ones), end: at + 5 }
        }
        _ => any_header(bytes, at),
    }
}

/// [`header`] of a number of any length.
#[inline(never)]
fn any_header(bytes: &[u8], at: usize) -> Header {
    let rest = bytes.get(at + 1..).unwrap_or_default();
    let (negative, digits) = match rest {
        [b'-', tail @ ..] => (true, tail),
        _ => (false, rest),
    };
    let mut value = 0_i64;
    for (index, &byte) in digits.iter().enumerate() {
        if byte.is_ascii_digit() && index < 18 {
            value = value * 10 + i64::from(byte - b'0');
            continue;
        }
        // Numbers are strict, as those in arguments are: no leading zeros, no "-0".
        let is_strict = digits.first() != Some(&b'0') || index == 1 && !negative;
        if byte != b'\r' || index == 0 || !is_strict {
            return Header::Bad;
        }
        return match digits.get(index + 1) {
            None => Header::Incomplete,
            Some(b'\n') => Header::Number {
                value: if negative { -value } else { value },
                end: at + 1 + usize::from(negative) + index + 2,
            },
            Some(_) => Header::Bad,
        };
    }
    if rest.len() > Bounds::HEADER_BYTES_MAX { Header::TooLong } else { Header::Incomplete }
}

/// How many whole commands `data` begins with. For the benchmark.
#[doc(hidden)]
pub fn count_commands(data: &[u8]) -> usize {
    let mut parser = Parser::default();
    let (mut rest, mut count) = (data, 0);
    while let Step::Command { consumed } = parser.step(rest, &Bounds::GENEROUS) {
        count += usize::from(parser.args(rest).len() > 0);
        rest = rest.get(consumed..).unwrap_or_default();
    }
    count
}

/// Feeds `data` to a parser in the pieces that `cuts` names, and returns the commands it found and
/// whether it refused the rest. For the fuzzer and the tests: two ways to cut the same bytes must
/// give the same commands.
#[doc(hidden)]
pub fn parse_in_pieces(data: &[u8], cuts: &[usize]) -> (Vec<Vec<Vec<u8>>>, bool) {
    let mut parser = Parser::default();
    let (mut commands, mut start) = (Vec::new(), 0);
    let ends = cuts.iter().copied().filter(|&cut| cut <= data.len()).chain([data.len()]);
    for end in ends {
        while start <= end {
            let bytes = data.get(start..end).unwrap_or_default();
            match parser.step(bytes, &Bounds::GENEROUS) {
                Step::Incomplete => break,
                Step::Refused(_) => return (commands, true),
                Step::Nothing { consumed } => start += consumed,
                Step::Command { consumed } => {
                    commands.push(parser.args(bytes).from(0).map(<[u8]>::to_vec).collect());
                    start += consumed;
                }
            }
        }
    }
    (commands, false)
}

#[cfg(test)]
mod tests;
