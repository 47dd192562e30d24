//! Just enough of a Redis client: commands as arrays of bulk strings, the replies to them.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A connection.
pub(crate) struct Client {
    out: TcpStream,
    input: BufReader<TcpStream>,
}

/// A reply.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// A simple string, an integer, or another reply of one line.
    Line(String),
    /// An error's text.
    Error(String),
    /// A bulk string, or none.
    Bulk(Option<Vec<u8>>),
    /// An array, or none.
    Array(Option<Vec<Reply>>),
}

impl Client {
    pub(crate) fn connect(addr: SocketAddr) -> io::Result<Self> {
        let out = TcpStream::connect(addr)?;
        out.set_nodelay(true)?;
        out.set_read_timeout(Some(Duration::from_secs(30)))?;
        let input = BufReader::new(out.try_clone()?);
        Ok(Self { out, input })
    }

    pub(crate) fn send(&mut self, commands: &[u8]) -> io::Result<()> {
        self.out.write_all(commands)
    }

    pub(crate) fn reply(&mut self) -> io::Result<Reply> {
        let mut line = String::new();
        if self.input.read_line(&mut line)? == 0 || !line.ends_with('\n') {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let line = line.trim_end();
        let (kind, rest) = line.split_at_checked(1).ok_or(io::ErrorKind::InvalidData)?;
        match kind {
            "$" => {
                let Ok(length) = rest.parse::<usize>() else { return Ok(Reply::Bulk(None)) };
                let mut bytes = vec![0; length + 2];
                self.input.read_exact(&mut bytes)?;
                bytes.truncate(length);
                Ok(Reply::Bulk(Some(bytes)))
            }
            "*" => {
                let Ok(length) = rest.parse::<usize>() else { return Ok(Reply::Array(None)) };
                let elements = (0..length).map(|_| self.reply()).collect::<io::Result<Vec<_>>>()?;
                Ok(Reply::Array(Some(elements)))
            }
            "-" => Ok(Reply::Error(rest.to_owned())),
            _ => Ok(Reply::Line(rest.to_owned())),
        }
    }
}

/// Appends a command to `out`.
pub(crate) fn command(out: &mut Vec<u8>, arguments: &[&[u8]]) {
    out.extend_from_slice(format!("*{}\r\n", arguments.len()).as_bytes());
    for argument in arguments {
        out.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
        out.extend_from_slice(argument);
        out.extend_from_slice(b"\r\n");
    }
}
