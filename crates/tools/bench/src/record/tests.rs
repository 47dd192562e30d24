//! Streams are followed in pieces of any size; commands become lines; the proxy passes all on.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use environment::Environment;

use super::*;
use crate::workload::Trace;

fn messages(stream: &[u8], piece_bytes: usize) -> Result<Vec<Message>, ProtocolError> {
    let mut parser = Parser::new(100);
    let mut found = Vec::new();
    for piece in stream.chunks(piece_bytes) {
        parser.feed(piece, |message| found.push(message))?;
    }
    Ok(found)
}

fn texts(message: &Message) -> Vec<Option<String>> {
    let text = |item: &Item| String::from_utf8_lossy(&item.head).into_owned();
    message.items.iter().map(|item| item.bytes.map(|_| text(item))).collect()
}

const STREAM: &[u8] =
    b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nva\r\nl\r\n+OK\r\n$-1\r\n\r\nGET  key\r\n\
    *2\r\n*1\r\n:5\r\n$0\r\n\r\n%1\r\n+a\r\n_\r\n*0\r\n>2\r\n+x\r\n$1\r\ny\r\n";

#[test]
fn a_stream_is_the_same_in_pieces_of_any_size() {
    let whole = messages(STREAM, STREAM.len()).unwrap();
    let kinds: Vec<char> = whole.iter().map(|message| char::from(message.kind)).collect();
    assert_eq!(kinds, ['*', '+', '$', 'G', '*', '%', '*', '>']);
    assert_eq!(texts(&whole[0]), ["SET", "k", "va\r\nl"].map(|text| Some(text.to_owned())));
    assert_eq!(texts(&whole[2]), [None]);
    assert_eq!(texts(&whole[3]), ["GET", "key"].map(|text| Some(text.to_owned())));
    for piece_bytes in 1..STREAM.len() {
        assert_eq!(messages(STREAM, piece_bytes).unwrap(), whole, "pieces of {piece_bytes}");
    }
}

#[test]
fn long_strings_are_counted_and_not_kept() {
    let mut stream = b"*2\r\n$3\r\nGET\r\n$1000\r\n".to_vec();
    stream.extend_from_slice(&[b'x'; 1000]);
    stream.extend_from_slice(b"\r\n");
    let message = &messages(&stream, 7).unwrap()[0];
    assert_eq!(message.items[1].bytes, Some(1000));
    assert_eq!(message.items[1].head.len(), 100);
}

#[test]
fn what_is_no_protocol_is_refused() {
    let deep = b"*1\r\n".repeat(100);
    let long = vec![b'a'; 1 << 20];
    for stream in [&b"*x\r\n"[..], b"*1\r\nfoo\r\n", b"$99999999999999\r\n", &deep, &long] {
        assert_eq!(messages(stream, 1000), Err(ProtocolError));
    }
}

/// The trace lines of one command line and one reply.
fn lines(command: &str, reply: &str) -> String {
    let command = messages(format!("{command}\r\n").as_bytes(), 100).unwrap();
    let reply = messages(reply.as_bytes(), 100).unwrap();
    let mut out = Vec::new();
    trace_lines(&command[0], &reply[0], &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn commands_become_lines() {
    for (command, reply, want) in [
        ("get a", "$5\r\nabcde\r\n", "get a 5\n"),
        ("GET a", "$-1\r\n", "get a 0\n"),
        ("get a", "_\r\n", "get a 0\n"),
        ("get a", "+QUEUED\r\n", "get a\n"),
        ("mget a b", "*2\r\n$1\r\nx\r\n$-1\r\n", "get a 1\nget b 0\n"),
        ("set a 12345 EX 5", "+OK\r\n", "put a 5\n"),
        ("setex a 10 123", "+OK\r\n", "put a 3\n"),
        ("mset a 1 b 22", "+OK\r\n", "put a 1\nput b 2\n"),
        ("incr n", ":1\r\n", "rmw n\n"),
        ("append n xyz", ":3\r\n", "rmw n 3\n"),
        ("del a b", ":2\r\n", "del a\ndel b\n"),
        ("set a 1", "-ERR no\r\n", ""),
        ("ping", "+PONG\r\n", ""),
    ] {
        assert_eq!(lines(command, reply), want, "{command}");
    }
}

/// Starts a server that replies to every read with the given replies, in turn.
fn serve(replies: &'static [&'static [u8]]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let serve = move || {
        let (mut socket, _) = listener.accept().unwrap();
        let mut buffer = [0; 4096];
        for reply in replies {
            if socket.read(&mut buffer).unwrap() == 0 {
                break;
            }
            socket.write_all(reply).unwrap();
        }
    };
    // It ends with its connection.
    drop(Environment::real().spawn("server", serve).unwrap());
    address
}

#[test]
fn the_proxy_passes_all_on_and_writes_a_trace_that_reads_back() {
    let env = Environment::real();
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("trace");
    #[expect(clippy::disallowed_methods, reason = "the trace that the test reads")]
    let file = std::fs::File::create(&out).unwrap();
    let server = serve(&[b"+OK\r\n$3\r\nabc\r\n", b"$-1\r\n"]);
    let recorder = Recorder::start("127.0.0.1:0", &server, file, &env).unwrap();
    let mut client = TcpStream::connect(recorder.address()).unwrap();
    let mut buffer = [0; 100];
    client
        .write_all(b"*3\r\n$3\r\nSET\r\n$3\r\na b\r\n$3\r\nabc\r\n*2\r\n$3\r\nGET\r\n$3\r\na b\r\n")
        .unwrap();
    let mut answer = Vec::new();
    while answer.len() < 14 {
        let bytes = client.read(&mut buffer).unwrap();
        assert!(bytes > 0);
        answer.extend_from_slice(&buffer[..bytes]);
    }
    assert_eq!(answer, b"+OK\r\n$3\r\nabc\r\n");
    client.write_all(b"GET gone\r\n").unwrap();
    let bytes = client.read(&mut buffer).unwrap();
    assert_eq!(&buffer[..bytes], b"$-1\r\n");
    drop(client);
    recorder.stop().unwrap();
    let text = std::fs::read_to_string(&out).unwrap();
    assert_eq!(text, "put a%20b 3\nget a%20b 3\nget gone 0\n");
    let trace = Trace::read(text.as_bytes()).unwrap();
    assert_eq!(trace.operations().len(), 3);
    assert!(trace.loads().is_empty());
}
