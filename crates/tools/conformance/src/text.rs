//! The notation for byte strings in printed operations: `"key\x00"`, or `"v17"+'.'*4000` where a
//! byte repeats at the end.

use std::fmt::{self, Write as _};

/// A trailing run shorter than this is printed unchanged.
const RUN_BYTES_MIN: usize = 12;

/// Prints bytes so that [`Scanner::bytes`] reads them back.
#[derive(Debug)]
pub(crate) struct Quoted<'a>(pub(crate) &'a [u8]);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = self.0.last().copied().unwrap_or_default();
        let run = self.0.iter().rev().take_while(|byte| **byte == last).count();
        if run < RUN_BYTES_MIN {
            return write!(f, "\"{}\"", self.0.escape_ascii());
        }
        let head = &self.0[..self.0.len() - run];
        write!(f, "\"{}\"+'{}'*{run}", head.escape_ascii(), [last].escape_ascii())
    }
}

/// Reads the pieces of a printed line, front to back.
#[derive(Debug)]
pub(crate) struct Scanner<'a> {
    rest: &'a str,
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(line: &'a str) -> Self {
        Self { rest: line.trim() }
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    /// Takes `token` if it is next.
    pub(crate) fn eat(&mut self, token: &str) -> bool {
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest.trim_start();
                true
            }
            None => false,
        }
    }

    /// Returns the next word of letters.
    pub(crate) fn word(&mut self) -> Result<&'a str, String> {
        self.span(|c| c.is_ascii_alphabetic() || c == '-', "a word")
    }

    /// Returns the next decimal number.
    pub(crate) fn number(&mut self) -> Result<usize, String> {
        let digits = self.span(|c| c.is_ascii_digit(), "a number")?;
        digits.parse().map_err(|error| format!("{digits}: {error}"))
    }

    fn span(&mut self, of: impl Fn(char) -> bool, what: &str) -> Result<&'a str, String> {
        let end = self.rest.find(|c| !of(c)).unwrap_or(self.rest.len());
        if end == 0 {
            return Err(format!("{what} is wanted at {:?}", self.rest));
        }
        let (found, rest) = self.rest.split_at(end);
        self.rest = rest.trim_start();
        Ok(found)
    }

    /// Returns the next byte string.
    pub(crate) fn bytes(&mut self) -> Result<Vec<u8>, String> {
        let mut bytes = self.enclosed('"')?;
        if self.eat("+") {
            let byte = self.enclosed('\'')?;
            let [byte] = byte.as_slice() else {
                return Err("one byte is wanted between ''".to_owned());
            };
            if !self.eat("*") {
                return Err("'*' is wanted after a repeated byte".to_owned());
            }
            let run = self.number()?;
            bytes.resize(bytes.len() + run, *byte);
        }
        Ok(bytes)
    }

    fn enclosed(&mut self, quote: char) -> Result<Vec<u8>, String> {
        let Some(body) = self.rest.strip_prefix(quote) else {
            return Err(format!("{quote} is wanted at {:?}", self.rest));
        };
        let mut bytes = Vec::new();
        let mut chars = body.char_indices();
        while let Some((at, c)) = chars.next() {
            if c == quote {
                self.rest = body[at + 1..].trim_start();
                return Ok(bytes);
            }
            if c != '\\' {
                bytes.push(u8::try_from(c).map_err(|error| error.to_string())?);
                continue;
            }
            bytes.push(match chars.next().map(|(_, escaped)| escaped) {
                Some('n') => b'\n',
                Some('r') => b'\r',
                Some('t') => b'\t',
                Some('x') => {
                    let mut hex = String::new();
                    let digits = chars.by_ref().take(2).map(|(_, digit)| digit);
                    digits.for_each(|digit| hex.write_char(digit).unwrap_or_default());
                    u8::from_str_radix(&hex, 16).map_err(|error| error.to_string())?
                }
                Some(plain) => u8::try_from(plain).map_err(|error| error.to_string())?,
                None => break,
            });
        }
        Err(format!("{quote} is missing at the end"))
    }
}
