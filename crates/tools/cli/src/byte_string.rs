//! Keys and values as text: escaped or hexadecimal.
//!
//! Escaped text is literal, but for `\\`, `\n`, `\r`, `\t`, `\0` and `\xNN`. Bytes that are no
//! printable ASCII are shown as escapes, so that shown text can be given as an argument.

use std::fmt::Write as _;

/// How bytes are written as text, both ways.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Encoding {
    /// Text; bytes that are not printable ASCII are shown as \n, \r, \t or \xNN, a backslash as
    /// two. Arguments are written the same way.
    #[default]
    Escaped,
    /// Two hexadecimal digits for each byte.
    Hex,
}

impl Encoding {
    /// Returns the bytes that `text` means.
    pub(crate) fn parse(self, text: &str) -> Result<Vec<u8>, String> {
        match self {
            Self::Escaped => unescape(text),
            Self::Hex => from_hex(text),
        }
    }

    /// Returns the text that means `bytes`.
    pub(crate) fn show(self, bytes: &[u8]) -> String {
        let mut text = String::with_capacity(bytes.len() * 2);
        for &byte in bytes {
            match (self, byte) {
                (Self::Hex, _) => _ = write!(text, "{byte:02x}"),
                (_, b'\\') => text.push_str("\\\\"),
                (_, b'\n') => text.push_str("\\n"),
                (_, b'\r') => text.push_str("\\r"),
                (_, b'\t') => text.push_str("\\t"),
                (_, b' '..=b'~') => text.push(char::from(byte)),
                _ => _ = write!(text, "\\x{byte:02x}"),
            }
        }
        text
    }
}

fn unescape(text: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((plain, escape)) = rest.split_once('\\') {
        bytes.extend_from_slice(plain.as_bytes());
        let mut characters = escape.chars();
        let byte = match characters.next() {
            Some('\\') => b'\\',
            Some('n') => b'\n',
            Some('r') => b'\r',
            Some('t') => b'\t',
            Some('0') => 0,
            Some('x') => {
                let digits = escape.get(1..3).unwrap_or_default();
                characters = escape.get(3..).unwrap_or_default().chars();
                hex_byte(digits).ok_or_else(|| {
                    format!("\\x wants two hexadecimal digits after it, not {digits:?}")
                })?
            }
            other => {
                let found = other.map_or_else(|| "the end".to_owned(), |c| format!("{c:?}"));
                return Err(format!(
                    "after a backslash comes one of \\ n r t 0 x, not {found}; \
                     --encoding hex takes any bytes"
                ));
            }
        };
        bytes.push(byte);
        rest = characters.as_str();
    }
    bytes.extend_from_slice(rest.as_bytes());
    Ok(bytes)
}

fn from_hex(text: &str) -> Result<Vec<u8>, String> {
    if !text.len().is_multiple_of(2) {
        return Err(format!("{text:?} has an odd number of digits: a byte takes two"));
    }
    let byte = |start: usize| text.get(start..start + 2).and_then(hex_byte);
    (0..text.len())
        .step_by(2)
        .map(byte)
        .collect::<Option<_>>()
        .ok_or_else(|| format!("{text:?} is not hexadecimal: digits are 0-9 and a-f"))
}

fn hex_byte(digits: &str) -> Option<u8> {
    let both = digits.len() == 2 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    both.then(|| u8::from_str_radix(digits, 16).ok()).flatten()
}

#[cfg(test)]
mod tests;
