//! A client of the Redis protocol that returns replies as text.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Time for one reply.
const REPLY_MAX: Duration = Duration::from_secs(20);

/// A connection.
pub(super) struct Client {
    stream: BufReader<TcpStream>,
}

impl Client {
    pub(super) fn connect(port: u16) -> Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(REPLY_MAX))?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// Sends a command whose words are parted by blanks, and returns the reply.
    pub(super) fn call(&mut self, command: &str) -> Result<String> {
        let words: Vec<Vec<u8>> = command.split(' ').map(|word| word.as_bytes().to_vec()).collect();
        self.call_bytes(&words)
    }

    pub(super) fn call_bytes(&mut self, words: &[Vec<u8>]) -> Result<String> {
        self.send(words)?;
        self.reply()
    }

    /// Sends a command and returns the length of a reply that is a string, or none for another one.
    pub(super) fn bulk_length(&mut self, words: &[Vec<u8>]) -> Result<Option<usize>> {
        self.send(words)?;
        let line = self.line()?;
        let Some(length) = line.strip_prefix('$').and_then(|length| length.parse().ok()) else {
            return Ok(None);
        };
        let mut value = vec![0; length];
        self.stream.read_exact(&mut value)?;
        Ok(Some(length))
    }

    /// Sends bytes unchanged, and returns the first line of the reply.
    pub(super) fn send_raw(&mut self, bytes: &[u8]) -> Result<String> {
        self.stream.get_mut().write_all(bytes)?;
        self.line()
    }

    fn send(&mut self, words: &[Vec<u8>]) -> Result<()> {
        let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            bytes.extend(format!("${}\r\n", word.len()).bytes());
            bytes.extend(word);
            bytes.extend(b"\r\n");
        }
        Ok(self.stream.get_mut().write_all(&bytes)?)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = Vec::new();
        self.stream.read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Err("the connection was closed".into());
        }
        Ok(escaped(line.strip_suffix(b"\r\n").unwrap_or(&line)))
    }

    fn reply(&mut self) -> Result<String> {
        let line = self.line()?;
        let count = |digits: &str| digits.parse::<usize>().ok();
        if let Some(digits) = line.strip_prefix('$') {
            let Some(length) = count(digits) else { return Ok("nil".to_owned()) };
            let mut value = vec![0; length + 2];
            self.stream.read_exact(&mut value)?;
            value.truncate(length);
            return Ok(format!("\"{}\"", escaped(&value)));
        }
        if let Some(digits) = line.strip_prefix(['*', '~']) {
            let Some(length) = count(digits) else { return Ok("nil".to_owned()) };
            let parts: Result<Vec<String>> = (0..length).map(|_| self.reply()).collect();
            return Ok(format!("[{}]", parts?.join(", ")));
        }
        Ok(line)
    }
}

fn escaped(bytes: &[u8]) -> String {
    let escape = |byte: &u8| match byte {
        b'\r' => "\\r".to_owned(),
        b'\n' => "\\n".to_owned(),
        0x20..=0x7e => char::from(*byte).to_string(),
        _ => format!("\\x{byte:02x}"),
    };
    bytes.iter().map(escape).collect()
}
