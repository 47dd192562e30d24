//! Replies in corners that clients and frameworks meet, as redis-server 7.0.15 gives them.

use std::io::BufRead as _;
use std::time::Duration;

use thermocline::environment::Environment;

use super::client::Client;
use super::serve;

fn check(client: &mut Client, script: &[(&str, &str)]) {
    for (line, want) in script {
        assert_eq!(client.run(line), *want, "{line}");
    }
}

#[test]
fn an_exec_that_is_refused_discards_the_transaction() {
    let (server, mut client) = serve();
    let aborted = "-EXECABORT Transaction discarded because of: wrong number of arguments for \
                   'exec' command";
    check(
        &mut client,
        &[
            ("WATCH a", "+OK"),
            ("MULTI", "+OK"),
            ("SET a 1", "+QUEUED"),
            ("EXEC x", aborted),
            ("PING", "+PONG"),
            ("EXEC", "-ERR EXEC without MULTI"),
            ("EXISTS a", ":0"),
            ("EXEC x", aborted),
            ("MULTI", "+OK"),
            ("MULTI", "-ERR MULTI calls can not be nested"),
            ("WATCH a", "-ERR WATCH inside MULTI is not allowed"),
            ("EXEC", "[]"),
            ("MULTI", "+OK"),
            ("DISCARD x", "-ERR wrong number of arguments for 'discard' command"),
            ("EXEC", "-EXECABORT Transaction discarded because of previous errors."),
        ],
    );
    // The keys are watched no more.
    let mut other = Client::connect(server.addr());
    client.run("WATCH a");
    client.run("EXEC x");
    other.run("SET a 2");
    check(&mut client, &[("MULTI", "+OK"), ("GET a", "+QUEUED"), ("EXEC", "[\"2\"]")]);
}

#[test]
fn hello_and_bgsave_can_be_queued() {
    let (_server, mut client) = serve();
    check(
        &mut client,
        &[
            ("MULTI", "+OK"),
            ("GET none", "+QUEUED"),
            ("HELLO 3", "+QUEUED"),
            ("CONFIG GET databases", "+QUEUED"),
            ("HELLO 2", "+QUEUED"),
            ("CONFIG GET databases", "+QUEUED"),
        ],
    );
    let replies = client.run("EXEC");
    assert!(replies.starts_with("[nil, {\"server\": \"redis\", "), "{replies}");
    assert!(replies.contains("}, {\"databases\": \"16\"}, [\"server\", "), "{replies}");
    assert!(replies.ends_with(", [\"databases\", \"16\"]]"), "{replies}");
    check(
        &mut client,
        &[
            ("MULTI", "+OK"),
            ("BGSAVE", "+QUEUED"),
            ("SET a 1", "+QUEUED"),
            ("EXEC", "[+Background saving scheduled, +OK]"),
            ("MULTI", "+OK"),
            ("SAVE", "-ERR Command not allowed inside a transaction"),
            ("EXEC", "-EXECABORT Transaction discarded because of previous errors."),
        ],
    );
    // The save came after the commit of the transaction.
    assert!(client.run("INFO persistence").contains("rdb_changes_since_last_save:0\\r\\n"));
}

#[test]
fn a_change_in_place_makes_a_raw_value() {
    let (_server, mut client) = serve();
    let (int, embstr, raw) = ("\"int\"", "\"embstr\"", "\"raw\"");
    check(
        &mut client,
        &[
            ("SET k 1234", "+OK"),
            ("OBJECT ENCODING k", int),
            ("SETRANGE k 0 2", ":4"),
            ("OBJECT ENCODING k", raw),
            ("EXPIRE k 100", ":1"),
            ("GETEX k PERSIST", "\"2234\""),
            ("PERSIST k", ":0"),
            ("OBJECT ENCODING k", raw),
            ("RENAME k l", "+OK"),
            ("OBJECT ENCODING l", raw),
            ("COPY l m", ":1"),
            ("OBJECT ENCODING m", raw),
            ("COPY l m DB 3", ":1"),
            ("SELECT 3", "+OK"),
            ("OBJECT ENCODING m", raw),
            ("SELECT 0", "+OK"),
            ("INCR l", ":2235"),
            ("OBJECT ENCODING l", int),
            ("SET m 5", "+OK"),
            ("OBJECT ENCODING m", int),
            ("SET j abc", "+OK"),
            ("OBJECT ENCODING j", embstr),
            ("SETRANGE j 0 ''", ":3"),
            ("OBJECT ENCODING j", embstr),
            ("APPEND j d", ":4"),
            ("OBJECT ENCODING j", raw),
            ("GETSET j 12", "\"abcd\""),
            ("OBJECT ENCODING j", int),
            ("APPEND j ''", ":2"),
            ("OBJECT ENCODING j", raw),
            // The first bytes of an absent key are no change in place for APPEND.
            ("APPEND n 12", ":2"),
            ("OBJECT ENCODING n", int),
            ("SETRANGE o 0 12", ":2"),
            ("OBJECT ENCODING o", raw),
            ("DEL o", ":1"),
            ("APPEND o 12", ":2"),
            ("OBJECT ENCODING o", int),
            ("INCRBYFLOAT f 1.5", "\"1.5\""),
            ("OBJECT ENCODING f", embstr),
            ("INCRBYFLOAT f 1.5", "\"3\""),
            ("OBJECT ENCODING f", embstr),
            ("SET f 3", "+OK"),
            ("OBJECT ENCODING f", int),
        ],
    );
}

#[test]
fn object_tells_how_long_a_key_was_not_used() {
    let (_server, mut client) = serve();
    assert_eq!(client.run("SET it 1"), "+OK");
    assert_eq!(client.run("SET other 1"), "+OK");
    let idle = |client: &mut Client| -> u64 {
        let reply = client.run("OBJECT IDLETIME it");
        reply.trim_start_matches(':').parse().expect("seconds")
    };
    assert!(idle(&mut client) < 2);
    Environment::real().sleep(Duration::from_millis(2100));
    // None of these is a use.
    for line in ["TTL it", "EXISTS it", "TYPE it", "OBJECT ENCODING it", "STRLEN other"] {
        client.run(line);
    }
    client.run("CLIENT NO-TOUCH on");
    client.run("GET it");
    let seconds = idle(&mut client);
    assert!(seconds >= 2, "{seconds}");
    client.run("TOUCH it");
    assert!(idle(&mut client) < seconds);
    assert_eq!(client.run("OBJECT IDLETIME none"), "nil");
    assert!(client.run("OBJECT FREQ it").starts_with("-ERR An LFU maxmemory policy is not"));
}

/// The next line that the server sends, as bytes.
fn line(client: &mut Client) -> Vec<u8> {
    let mut line = Vec::new();
    client.stream.read_until(b'\n', &mut line).expect("a reply comes");
    line
}

#[test]
fn errors_quote_bytes_as_they_are() {
    let (server, mut client) = serve();
    let long = [b'a'; 200];
    let cases: &[(&[&[u8]], &[u8])] = &[
        (
            &[b"FOO", b"\xff\xfe", b"b\r\nc"],
            b"-ERR unknown command 'FOO', with args beginning with: '\xff\xfe' 'b  c' \r\n",
        ),
        (
            &[b"\xff\x01\r\n", b"a\0b"],
            b"-ERR unknown command '\xff\x01  ', with args beginning with: 'a' \r\n",
        ),
        (&[b"CONFIG", b"\xff\n"], b"-ERR unknown subcommand '\xff '. Try CONFIG HELP.\r\n"),
        (
            &[b"CONFIG", b"SET", b"\xffA", b"1"],
            b"-ERR Unknown option or number of arguments for CONFIG SET - '\xffA'\r\n",
        ),
        (&[b"EXPIRE", b"a", b"1", b"\xff"], b"-ERR Unsupported option \xff\r\n"),
        (&[b"CLIENT", b"LIST", b"TYPE", b"\xff"], b"-ERR Unknown client type '\xff'\r\n"),
        (&[b"HELLO", b"3", b"\xff"], b"-ERR Syntax error in HELLO option '\xff'\r\n"),
        (&[b"CLIENT", b"KILL", b"USER", b"\xff"], b"-ERR No such user '\xff'\r\n"),
        (&[b"CLIENT", b"SETINFO", b"\xff", b"x"], b"-ERR Unrecognized option '\xff'\r\n"),
    ];
    for (args, want) in cases {
        client.send(&super::client::encode(args));
        assert_eq!(line(&mut client).escape_ascii().to_string(), want.escape_ascii().to_string());
    }
    client.send(&super::client::encode(&[b"FOO", &long, b"x"]));
    let text = String::from_utf8(line(&mut client)).expect("text");
    assert!(text.ends_with(&format!(": '{}' \r\n", "a".repeat(128))), "{text}");
    for (bytes, want) in [
        (&b"*1\r\nfooz\r\n"[..], &b"-ERR Protocol error: expected '$', got 'f'\r\n"[..]),
        (b"*1\r\n\xff\r\n", b"-ERR Protocol error: expected '$', got '\xff'\r\n"),
        (b"*1\r\n\r\n", b"-ERR Protocol error: expected '$', got ' '\r\n"),
    ] {
        let mut client = Client::connect(server.addr());
        client.send(bytes);
        assert_eq!(line(&mut client).escape_ascii().to_string(), want.escape_ascii().to_string());
        assert!(client.is_closed());
    }
}

#[test]
fn reset_keeps_the_name_of_the_library() {
    let (_server, mut client) = serve();
    client.run("CLIENT SETINFO LIB-NAME lib");
    client.run("CLIENT SETINFO LIB-VER 1.2");
    client.run("CLIENT SETNAME me");
    assert_eq!(client.run("RESET"), "+RESET");
    assert_eq!(client.run("CLIENT GETNAME"), "nil");
    let info = client.run("CLIENT INFO");
    assert!(info.contains(" lib-name=lib lib-ver=1.2"), "{info}");
}

#[test]
fn config_set_refuses_as_redis_does() {
    let (_server, mut client) = serve();
    let failed = |name: &str, why: &str| {
        format!("-ERR CONFIG SET failed (possibly related to argument '{name}') - {why}")
    };
    let unknown = "-ERR Unknown option or number of arguments for CONFIG SET - 'nope'";
    let duplicate = failed("timeout", "duplicate parameter");
    let no_integer = failed("timeout", "argument couldn't be parsed into an integer");
    let range = failed("timeout", "argument must be between 0 and 2147483647 inclusive");
    check(
        &mut client,
        &[
            ("CONFIG SET timeout 0 timeout 0", &duplicate),
            ("CONFIG SET timeout 0 TIMEOUT 0", &duplicate),
            ("CONFIG SET nope 1", unknown),
            ("CONFIG SET timeout 5 nope 1", unknown),
            // Names are checked before values.
            ("CONFIG SET timeout abc nope 1", unknown),
            ("CONFIG SET timeout abc", &no_integer),
            ("CONFIG SET timeout 5 maxclients 0", &{
                failed("maxclients", "argument must be between 1 and 1048576 inclusive")
            }),
            ("CONFIG SET timeout -1", &range),
            ("CONFIG SET timeout 2147483648", &range),
            ("CONFIG GET timeout", "[\"timeout\", \"0\"]"),
            ("CONFIG SET timeout", "-ERR wrong number of arguments for 'config|set' command"),
            ("CONFIG SET timeout 0 timeout", "-ERR syntax error"),
            ("CONFIG SET databases 12", &failed("databases", "can't set immutable config")),
            ("CONFIG SET proto-max-bulk-len 1x", &{
                failed("proto-max-bulk-len", "argument must be a memory value")
            }),
            ("CONFIG SET proto-max-bulk-len 2mb", "+OK"),
            ("CONFIG GET proto-max-bulk-len", "[\"proto-max-bulk-len\", \"2097152\"]"),
            ("CONFIG REWRITE", "-ERR The server is running without a config file"),
        ],
    );
}

#[test]
fn config_get_knows_what_frameworks_ask_for() {
    let dir = tempfile::tempdir().expect("a directory");
    let (server, db) = super::start_on_database(dir.path());
    let mut client = Client::connect(server.addr());
    let memory = db.memory_bytes().1.to_string();
    for (name, want) in [
        ("save", ""),
        ("appendonly", "yes"),
        ("maxmemory", memory.as_str()),
        ("maxmemory-policy", "noeviction"),
        ("notify-keyspace-events", ""),
        ("databases", "16"),
        ("timeout", "0"),
    ] {
        let found = client.run(&format!("CONFIG GET {name}"));
        assert_eq!(found, format!("[\"{name}\", \"{want}\"]"));
        // A setting can be set to the value that it has.
        let value = if want.is_empty() { "''" } else { want };
        assert_eq!(client.run(&format!("CONFIG SET {name} {value}")), "+OK", "{name}");
    }
    let bulk = client.run("CONFIG GET proto-max-bulk-len");
    let bytes = bulk.trim_end_matches("\"]").rsplit('"').next().and_then(|b| b.parse().ok());
    assert_eq!(bytes, Some(server.shared.value_bytes_max()), "{bulk}");
    assert_eq!(client.run("CONFIG GET s?ve save"), "[\"save\", \"\"]");
}

#[test]
fn commands_that_are_not_built_are_refused_and_listed() {
    let (_server, mut client) = serve();
    let listed = include_str!("../../../../../docs/redis.md");
    let words: Vec<&str> = listed.split(|one: char| !one.is_ascii_alphanumeric()).collect();
    for name in ["MOVE", "SWAPDB", "ROLE", "WAIT", "LCS", "SLOWLOG", "LATENCY", "LOLWUT"] {
        let want = format!("-ERR unknown command '{name}', with args beginning with: 'a' 'b' ");
        assert_eq!(client.run(&format!("{name} a b")), want);
        assert!(words.contains(&name), "{name}");
    }
    for name in ["CLIENT PAUSE", "CLIENT UNPAUSE", "CLIENT TRACKING", "CLIENT CACHING"] {
        let word = name.trim_start_matches("CLIENT ");
        let want = format!("-ERR unknown subcommand '{word}'. Try CLIENT HELP.");
        assert_eq!(client.run(&format!("{name} 1")), want);
        assert!(words.contains(&word), "{name}");
    }
}
