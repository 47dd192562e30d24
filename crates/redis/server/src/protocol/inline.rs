//! Inline requests: a line of words, quoted as in a shell, for people with a terminal.

use super::args::Span;

/// Quotes in an inline request that do not close, or close in the middle of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnbalancedQuotes;

/// Splits `line` into words; their bytes go to `bytes`, their places to `spans`.
///
/// Words are parted by white space. `"..."` understands `\n \r \t \b \a \xHH` and `\` before any
/// other byte; `'...'` understands `\'` alone.
pub(crate) fn split(
    line: &[u8],
    bytes: &mut Vec<u8>,
    spans: &mut Vec<Span>,
) -> Result<(), UnbalancedQuotes> {
    bytes.clear();
    spans.clear();
    let mut rest = line;
    loop {
        rest = rest.trim_ascii_start();
        if rest.is_empty() {
            return Ok(());
        }
        let start = bytes.len();
        rest = word(rest, bytes)?;
        spans.push(Span { start: start as u32, len: (bytes.len() - start) as u32 });
    }
}

/// Takes one word off `rest`.
fn word<'a>(mut rest: &'a [u8], out: &mut Vec<u8>) -> Result<&'a [u8], UnbalancedQuotes> {
    while let [byte, tail @ ..] = rest {
        match byte {
            b'"' => return closed(double_quoted(tail, out)?),
            b'\'' => return closed(single_quoted(tail, out)?),
            byte if byte.is_ascii_whitespace() || *byte == 0 => return Ok(tail),
            byte => out.push(*byte),
        }
        rest = tail;
    }
    Ok(rest)
}

/// A closing quote must end its word.
fn closed(rest: &[u8]) -> Result<&[u8], UnbalancedQuotes> {
    match rest.first() {
        Some(byte) if !byte.is_ascii_whitespace() => Err(UnbalancedQuotes),
        _ => Ok(rest),
    }
}

fn single_quoted<'a>(mut rest: &'a [u8], out: &mut Vec<u8>) -> Result<&'a [u8], UnbalancedQuotes> {
    loop {
        rest = match rest {
            [b'\\', b'\'', tail @ ..] => {
                out.push(b'\'');
                tail
            }
            [b'\'', tail @ ..] => return Ok(tail),
            [byte, tail @ ..] => {
                out.push(*byte);
                tail
            }
            [] => return Err(UnbalancedQuotes),
        };
    }
}

fn double_quoted<'a>(mut rest: &'a [u8], out: &mut Vec<u8>) -> Result<&'a [u8], UnbalancedQuotes> {
    loop {
        rest = match rest {
            [b'\\', b'x', high, low, tail @ ..]
                if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                out.push(hex(*high) << 4 | hex(*low));
                tail
            }
            [b'\\', byte, tail @ ..] => {
                out.push(match byte {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'a' => 7,
                    other => *other,
                });
                tail
            }
            [b'"', tail @ ..] => return Ok(tail),
            [byte, tail @ ..] => {
                out.push(*byte);
                tail
            }
            [] => return Err(UnbalancedQuotes),
        };
    }
}

/// The value of a hexadecimal digit.
fn hex(digit: u8) -> u8 {
    char::from(digit).to_digit(16).unwrap_or_default() as u8
}
