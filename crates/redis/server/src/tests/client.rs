//! A Redis client as small as can be: sends commands, prints replies as text.
//!
//! Replies print in one line each: `+OK`, `-ERR ...`, `:1`, `"bulk"`, `nil`, `[a, b]`, `{a: b}`.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A connection to a server under test.
pub(super) struct Client {
    pub(super) stream: BufReader<TcpStream>,
}

/// The bytes of a command.
pub(super) fn encode(args: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        bytes.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        bytes.extend_from_slice(arg);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

impl Client {
    /// Connects; a reply that takes ten seconds fails the test.
    pub(super) fn connect(addr: SocketAddr) -> Self {
        let stream = TcpStream::connect(addr).expect("connects");
        stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout is set");
        stream.set_nodelay(true).expect("an option is set");
        Self { stream: BufReader::new(stream) }
    }

    /// Sends bytes unchanged.
    pub(super) fn send(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).expect("sends");
    }

    /// Executes the words of `line`, parted by single spaces; `''` is an empty word.
    pub(super) fn run(&mut self, line: &str) -> String {
        let words: Vec<&[u8]> = line
            .split(' ')
            .map(|word| if word == "''" { &b""[..] } else { word.as_bytes() })
            .collect();
        self.call(&words)
    }

    /// Executes a command.
    pub(super) fn call(&mut self, args: &[&[u8]]) -> String {
        self.send(&encode(args));
        self.reply()
    }

    /// Whether the server has closed the connection; waits for it.
    pub(super) fn is_closed(&mut self) -> bool {
        matches!(self.stream.read(&mut [0; 1]), Ok(0) | Err(_))
    }

    fn line(&mut self) -> String {
        // An error may quote any bytes.
        let mut line = Vec::new();
        self.stream.read_until(b'\n', &mut line).expect("a reply comes");
        let line = String::from_utf8_lossy(&line);
        assert!(line.ends_with("\r\n"), "the connection ended in {line:?}");
        line.trim_end_matches("\r\n").to_owned()
    }

    fn bulk(&mut self, len: &str) -> Vec<u8> {
        let mut bytes = vec![0; len.parse::<usize>().expect("a length") + 2];
        self.stream.read_exact(&mut bytes).expect("a whole string");
        bytes.truncate(bytes.len() - 2);
        bytes
    }

    fn many(&mut self, count: &str) -> Vec<String> {
        let count: usize = count.parse().expect("a count");
        (0..count).map(|_| self.reply()).collect()
    }

    /// The next reply.
    pub(super) fn reply(&mut self) -> String {
        let line = self.line();
        let (kind, rest) = line.split_at(1);
        match kind {
            "+" | "-" | ":" | "," | "#" => line,
            "_" => "nil".to_owned(),
            "$" | "*" if rest == "-1" => "nil".to_owned(),
            "$" => format!("\"{}\"", self.bulk(rest).escape_ascii()),
            "=" => format!("text \"{}\"", self.bulk(rest).escape_ascii()),
            "*" => format!("[{}]", self.many(rest).join(", ")),
            "~" => format!("~[{}]", self.many(rest).join(", ")),
            "%" => {
                let count: usize = rest.parse().expect("a count");
                let pairs: Vec<String> =
                    (0..count).map(|_| format!("{}: {}", self.reply(), self.reply())).collect();
                format!("{{{}}}", pairs.join(", "))
            }
            _ => panic!("no reply begins like {line:?}"),
        }
    }
}
