//! Traces: the operations of a real system, one line an operation.
//!
//! # Format
//! Text, one operation a line: `get|put|del|rmw|scan KEY [size|count]`, fields parted by spaces.
//! `#` starts a comment line. A key is its bytes; a space, `%`, a control byte or a byte above 126
//! in it is written `%XX`. The number is a count of pairs for `scan` (1 if left out), and a value's
//! size in bytes for `get`, `put` and `rmw`. For a `get` it is the size of the value that was
//! found, or 0 if there was none.
//!
//! Keys that the trace reads before it writes them existed before it: they are loaded first, with
//! the size that the line names or else the shape's, unless a `get` says 0.

use std::collections::HashMap;
use std::io::{self, BufRead, Write};

/// The most pairs or bytes that a line may name.
const AMOUNT_MAX: u32 = 1 << 30;

/// The operation of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceVerb {
    /// `get`
    Get,
    /// `put`
    Put,
    /// `del`
    Delete,
    /// `rmw`
    Rmw,
    /// `scan`
    Scan,
}

/// One line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceOperation {
    /// Its operation.
    pub verb: TraceVerb,
    /// Its key, as an index into [`Trace::keys`].
    pub number: u64,
    /// A size in bytes or a count of pairs, if named.
    pub amount: Option<u32>,
}

/// A trace in memory.
#[derive(Debug, Default)]
pub struct Trace {
    keys: Vec<Box<[u8]>>,
    operations: Vec<TraceOperation>,
    loads: Vec<(u64, Option<u32>)>,
}

/// A line that is no operation.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file cannot be read.
    #[error("reading the trace: {0}")]
    Read(#[from] io::Error),
    /// A line cannot be understood.
    #[error("trace line {line}: {problem}")]
    Line {
        /// From 1.
        line: usize,
        /// The mistake in it.
        problem: String,
    },
    /// Nothing to do.
    #[error("the trace has no operation")]
    Empty,
}

impl Trace {
    /// Reads a whole trace.
    ///
    /// # Errors
    /// The reader fails, a line is malformed, or there is no operation at all.
    pub fn read(mut reader: impl BufRead) -> Result<Self, TraceError> {
        let mut trace = Self::default();
        let mut numbers: HashMap<Box<[u8]>, u64> = HashMap::new();
        let mut text = Vec::new();
        for line in 1.. {
            text.clear();
            if reader.read_until(b'\n', &mut text)? == 0 {
                break;
            }
            let at = |problem: String| TraceError::Line { line, problem };
            let Some((verb, key, amount)) = parse_line(&text).map_err(at)? else {
                continue;
            };
            let next = trace.keys.len() as u64;
            let number = *numbers.entry(key).or_insert_with_key(|key| {
                trace.keys.push(key.clone());
                next
            });
            if number == next && verb.reads() && amount != Some(0) {
                trace.loads.push((number, amount.filter(|_| verb != TraceVerb::Scan)));
            }
            trace.operations.push(TraceOperation { verb, number, amount });
        }
        if trace.operations.is_empty() {
            return Err(TraceError::Empty);
        }
        Ok(trace)
    }

    /// Its distinct keys, in order of appearance.
    pub fn keys(&self) -> &[Box<[u8]>] {
        &self.keys
    }

    /// Its operations.
    pub fn operations(&self) -> &[TraceOperation] {
        &self.operations
    }

    /// Returns keys that must be there before it starts, with their values' sizes if it names them.
    pub fn loads(&self) -> &[(u64, Option<u32>)] {
        &self.loads
    }

    /// Whether it scans.
    pub fn scans(&self) -> bool {
        self.operations.iter().any(|operation| operation.verb == TraceVerb::Scan)
    }

    /// Bytes that it holds in memory, about.
    pub fn bytes(&self) -> u64 {
        let keys: usize = self.keys.iter().map(|key| key.len() + 16).sum();
        (keys + self.operations.len() * size_of::<TraceOperation>()) as u64
    }
}

impl TraceVerb {
    /// Whether the first operation of a key, being this, says that the key existed before.
    fn reads(self) -> bool {
        matches!(self, Self::Get | Self::Rmw | Self::Delete)
    }
}

type Line = (TraceVerb, Box<[u8]>, Option<u32>);

/// The operation of a line; `None` for a blank line or a comment.
fn parse_line(text: &[u8]) -> Result<Option<Line>, String> {
    let text = text.trim_ascii();
    let mut fields = text.split(|byte| byte.is_ascii_whitespace()).filter(|f| !f.is_empty());
    let verb = match fields.next() {
        None => return Ok(None),
        Some(comment) if comment.starts_with(b"#") => return Ok(None),
        Some(b"get") => TraceVerb::Get,
        Some(b"put") => TraceVerb::Put,
        Some(b"del") => TraceVerb::Delete,
        Some(b"rmw") => TraceVerb::Rmw,
        Some(b"scan") => TraceVerb::Scan,
        Some(other) => {
            let shown = String::from_utf8_lossy(other);
            return Err(format!("unknown verb {shown:?}: want get, put, del, rmw or scan"));
        }
    };
    let key = fields.next().ok_or("no key")?;
    let key = unescape(key).ok_or("the key has a % that two hex digits do not follow")?;
    let amount = match fields.next() {
        None => None,
        Some(digits) => {
            let number = str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
            Some(number.filter(|&number| number <= AMOUNT_MAX).ok_or_else(|| {
                let shown = String::from_utf8_lossy(digits);
                format!("{shown:?} is no number of bytes or pairs up to {AMOUNT_MAX}")
            })?)
        }
    };
    if fields.next().is_some() {
        return Err("more than a verb, a key and a number".to_owned());
    }
    Ok(Some((verb, key.into(), amount)))
}

fn unescape(key: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = key.iter();
    let mut out = Vec::with_capacity(key.len());
    while let Some(&byte) = bytes.next() {
        if byte == b'%' {
            let high = char::from(*bytes.next()?).to_digit(16)?;
            let low = char::from(*bytes.next()?).to_digit(16)?;
            out.push((high * 16 + low) as u8);
        } else {
            out.push(byte);
        }
    }
    Some(out)
}

/// Writes a key in the form of a trace line.
///
/// # Errors
/// The writer's errors.
pub fn write_trace_key(key: &[u8], out: &mut impl Write) -> io::Result<()> {
    for &byte in key {
        if byte.is_ascii_graphic() && byte != b'%' {
            out.write_all(&[byte])?;
        } else {
            write!(out, "%{byte:02x}")?;
        }
    }
    Ok(())
}
