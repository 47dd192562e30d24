//! Every command's replies and errors, as Redis words them.

use std::sync::atomic::Ordering::SeqCst;

use super::client::Client;
use super::{options, serve, start};

/// Runs lines and compares replies.
fn check(client: &mut Client, script: &[(&str, &str)]) {
    for (line, want) in script {
        assert_eq!(client.run(line), *want, "{line}");
    }
}

/// Commands in the table that are not subcommands.
fn top_level_commands() -> usize {
    crate::commands::COMMANDS.iter().filter(|command| !command.name.contains('|')).count()
}

#[test]
fn strings() {
    let (_server, mut client) = serve();
    check(
        &mut client,
        &[
            ("SET k v", "+OK"),
            ("get k", "\"v\""),
            ("GET none", "nil"),
            ("SETNX k w", ":0"),
            ("SETNX new w", ":1"),
            ("GETSET k w", "\"v\""),
            ("GETSET none2 x", "nil"),
            ("GETDEL none2", "\"x\""),
            ("GETDEL none2", "nil"),
            ("APPEND k xyz", ":4"),
            ("STRLEN k", ":4"),
            ("STRLEN none", ":0"),
            ("GETRANGE k 1 2", "\"xy\""),
            ("GETRANGE k -3 -2", "\"xy\""),
            ("GETRANGE k 0 -1", "\"wxyz\""),
            ("GETRANGE k 5 9", "\"\""),
            ("GETRANGE k -1 -5", "\"\""),
            ("GETRANGE k 3 1", "\"\""),
            ("GETRANGE k -100 1", "\"wx\""),
            ("GETRANGE none 0 -1", "\"\""),
            ("SUBSTR k 0 0", "\"w\""),
            ("SETRANGE k 2 AB", ":4"),
            ("GET k", "\"wxAB\""),
            ("SETRANGE pad 3 x", ":4"),
            ("GET pad", "\"\\x00\\x00\\x00x\""),
            ("SETRANGE none3 0 ''", ":0"),
            ("EXISTS none3", ":0"),
            ("SETRANGE k -1 x", "-ERR offset is out of range"),
            (
                "SETRANGE k 536870912 x",
                "-ERR string exceeds maximum allowed size (proto-max-bulk-len)",
            ),
            ("MSET a 1 b 2", "+OK"),
            ("MGET a none b", "[\"1\", nil, \"2\"]"),
            ("MSETNX c 3 a 9", ":0"),
            ("EXISTS c", ":0"),
            ("MSETNX c 3 d 4", ":1"),
            ("MSET a 1 b", "-ERR wrong number of arguments for 'mset' command"),
            ("MSETNX a 1 b", "-ERR wrong number of arguments for 'msetnx' command"),
            ("GET", "-ERR wrong number of arguments for 'get' command"),
            ("GET a b", "-ERR wrong number of arguments for 'get' command"),
        ],
    );
}

#[test]
fn set_with_options() {
    let (_server, mut client) = serve();
    let expire = "-ERR invalid expire time in 'set' command";
    check(
        &mut client,
        &[
            ("SET k v XX", "nil"),
            ("SET k v NX", "+OK"),
            ("SET k w NX", "nil"),
            ("SET k w XX", "+OK"),
            ("SET k x GET", "\"w\""),
            ("SET fresh x GET", "nil"),
            ("SET k y NX GET", "\"x\""),
            ("GET k", "\"x\""),
            ("SET k v EX 100", "+OK"),
            ("TTL k", ":100"),
            ("SET k w KEEPTTL", "+OK"),
            ("TTL k", ":100"),
            ("SET k w", "+OK"),
            ("TTL k", ":-1"),
            ("SET k v PX 100000", "+OK"),
            ("TTL k", ":100"),
            ("SET k v EXAT 4102444800", "+OK"),
            ("EXPIRETIME k", ":4102444800"),
            ("SET k v PXAT 4102444800123", "+OK"),
            ("PEXPIRETIME k", ":4102444800123"),
            ("SET k v PXAT 1", "+OK"),
            ("GET k", "nil"),
            ("SET k v EX 0", expire),
            ("SET k v PX -5", expire),
            ("SET k v EX 9223372036854775807", expire),
            ("SET k v EX x", "-ERR value is not an integer or out of range"),
            ("SET k v EX", "-ERR syntax error"),
            ("SET k v EX 1 PX 1", "-ERR syntax error"),
            ("SET k v NX XX", "-ERR syntax error"),
            ("SET k v KEEPTTL EX 5", "-ERR syntax error"),
            ("SET k v BOGUS", "-ERR syntax error"),
            ("SETEX k 0 v", "-ERR invalid expire time in 'setex' command"),
            ("SETEX k 50 v", "+OK"),
            ("TTL k", ":50"),
            ("PSETEX k 50000 v", "+OK"),
            ("PSETEX k -1 v", "-ERR invalid expire time in 'psetex' command"),
            ("GETEX k PERSIST", "\"v\""),
            ("TTL k", ":-1"),
            ("GETEX k EX 70", "\"v\""),
            ("TTL k", ":70"),
            ("GETEX k", "\"v\""),
            ("TTL k", ":70"),
            ("GETEX k EX 0", "-ERR invalid expire time in 'getex' command"),
            ("GETEX k PERSIST EX 1", "-ERR syntax error"),
            ("GETEX none EX 1", "nil"),
            // An option that is repeated counts as given last; two different ones are an error.
            ("SET k v EX 10 EX 20", "+OK"),
            ("TTL k", ":20"),
            ("SET k v EX x EX 30", "+OK"),
            ("TTL k", ":30"),
            ("SET k v EX 5 EX 0", expire),
            ("SET k v EX 5 EX", "-ERR syntax error"),
            ("SET k v KEEPTTL KEEPTTL", "+OK"),
            ("TTL k", ":30"),
            ("SET k v XX XX GET GET", "\"v\""),
            ("SET k v EX 10 KEEPTTL", "-ERR syntax error"),
            ("SET k v PERSIST", "-ERR syntax error"),
            ("GETEX k EX 5 EX 90", "\"v\""),
            ("TTL k", ":90"),
            ("GETEX k EX 5 PERSIST", "-ERR syntax error"),
            ("GETEX k PX 5 EX 5", "-ERR syntax error"),
            ("GETEX k PERSIST PERSIST", "\"v\""),
            ("TTL k", ":-1"),
            ("GETEX k KEEPTTL", "-ERR syntax error"),
            // An absent key has no expiry to change, at any time.
            ("GETEX none EX 0", "nil"),
            ("GETEX none EX abc", "nil"),
            ("GETEX none EX 1 PX 1", "-ERR syntax error"),
        ],
    );
}

#[test]
fn counters() {
    let (_server, mut client) = serve();
    let not_integer = "-ERR value is not an integer or out of range";
    check(
        &mut client,
        &[
            ("INCR n", ":1"),
            ("INCRBY n 41", ":42"),
            ("DECR n", ":41"),
            ("DECRBY n 50", ":-9"),
            ("GET n", "\"-9\""),
            ("SET n 9223372036854775807", "+OK"),
            ("INCR n", "-ERR increment or decrement would overflow"),
            ("DECRBY n -9223372036854775808", "-ERR decrement would overflow"),
            ("SET s abc", "+OK"),
            ("INCR s", not_integer),
            ("INCRBY n x", not_integer),
            ("SET n 10 EX 100", "+OK"),
            ("INCR n", ":11"),
            ("TTL n", ":100"),
            ("SET f 10.50", "+OK"),
            ("INCRBYFLOAT f 0.1", "\"10.6\""),
            ("INCRBYFLOAT f -5", "\"5.6\""),
            ("SET f 5.0e3", "+OK"),
            ("INCRBYFLOAT f 2.0e2", "\"5200\""),
            ("SET f 9007199254740993", "+OK"),
            ("INCRBYFLOAT f 1e-7", "\"9007199254740993.0000001\""),
            ("SET f 1", "+OK"),
            ("INCRBYFLOAT f 1e16", "\"10000000000000001\""),
            ("INCRBYFLOAT tenths 1e-1", "\"0.1\""),
            ("INCRBYFLOAT tenths 1e-1", "\"0.2\""),
            ("INCRBYFLOAT tenths 1e-1", "\"0.3\""),
            ("INCRBYFLOAT tiny 5e-324", "\"0\""),
            ("INCRBYFLOAT tiny 1e5000", "-ERR value is not a valid float"),
            ("INCRBYFLOAT s 1", "-ERR value is not a valid float"),
            ("INCRBYFLOAT f x", "-ERR value is not a valid float"),
            ("INCRBYFLOAT f inf", "-ERR increment would produce NaN or Infinity"),
        ],
    );
}

#[test]
fn keys_and_expiry() {
    let (_server, mut client) = serve();
    check(
        &mut client,
        &[
            ("MSET a 1 b 2 c 3", "+OK"),
            ("EXISTS a a none", ":2"),
            ("TOUCH a none", ":1"),
            ("TYPE a", "+string"),
            ("TYPE none", "+none"),
            ("DBSIZE", ":3"),
            ("DEL a none", ":1"),
            ("UNLINK b", ":1"),
            ("KEYS *", "[\"c\"]"),
            ("RANDOMKEY", "\"c\""),
            ("EXPIRE c 100", ":1"),
            ("EXPIRE none 100", ":0"),
            ("EXPIRE c 50 GT", ":0"),
            ("EXPIRE c 200 GT", ":1"),
            ("EXPIRE c 300 LT", ":0"),
            ("EXPIRE c 100 LT", ":1"),
            ("EXPIRE c 100 NX", ":0"),
            ("EXPIRE c 150 XX", ":1"),
            ("TTL c", ":150"),
            ("PERSIST c", ":1"),
            ("PERSIST c", ":0"),
            ("TTL c", ":-1"),
            ("PTTL c", ":-1"),
            ("TTL none", ":-2"),
            ("PTTL none", ":-2"),
            ("EXPIRETIME c", ":-1"),
            ("PEXPIRETIME none", ":-2"),
            ("EXPIRE c 10 XX", ":0"),
            ("EXPIRE c 10 GT", ":0"),
            ("EXPIRE c 10 LT", ":1"),
            (
                "EXPIRE c 10 NX XX",
                "-ERR NX and XX, GT or LT options at the same time are not compatible",
            ),
            ("EXPIRE c 10 GT LT", "-ERR GT and LT options at the same time are not compatible"),
            ("EXPIRE c 10 AB", "-ERR Unsupported option AB"),
            ("EXPIRE c x", "-ERR value is not an integer or out of range"),
            ("EXPIRE c 9223372036854775807", "-ERR invalid expire time in 'expire' command"),
            ("PEXPIRE c 9223372036854775807", "-ERR invalid expire time in 'pexpire' command"),
            ("PEXPIREAT c 4102444800123", ":1"),
            ("PEXPIRETIME c", ":4102444800123"),
            ("EXPIREAT c 4102444800", ":1"),
            ("EXPIRETIME c", ":4102444800"),
            ("EXPIRE c -1", ":1"),
            ("EXISTS c", ":0"),
            ("SET c 1", "+OK"),
            ("EXPIREAT c 1", ":1"),
            ("DBSIZE", ":0"),
            ("RANDOMKEY", "nil"),
            ("SET a 1 EX 100", "+OK"),
            ("RENAME a b", "+OK"),
            ("TTL b", ":100"),
            ("RENAME none x", "-ERR no such key"),
            ("SET x 1", "+OK"),
            ("RENAMENX b x", ":0"),
            ("COPY b y", ":1"),
            ("COPY b x", ":0"),
            ("COPY b x REPLACE", ":1"),
            ("COPY b b", "-ERR source and destination objects are the same"),
            ("COPY b y DB 1", ":1"),
            ("OBJECT ENCODING x", "\"int\""),
            ("OBJECT REFCOUNT none", "nil"),
            ("MEMORY USAGE x", ":58"),
            ("SELECT 1", "+OK"),
            ("KEYS *", "[\"y\"]"),
            ("SELECT 16", "-ERR DB index is out of range"),
            ("SELECT x", "-ERR value is not an integer or out of range"),
            ("FLUSHDB", "+OK"),
            ("DBSIZE", ":0"),
            ("SELECT 0", "+OK"),
            ("DBSIZE", ":3"),
            ("FLUSHALL ASYNC", "+OK"),
            ("FLUSHALL NOW", "-ERR syntax error"),
            ("DBSIZE", ":0"),
        ],
    );
}

#[test]
fn a_scan_returns_every_key_that_is_there_all_the_time() {
    let (_server, mut client) = serve();
    for index in 0..500 {
        client.run(&format!("SET stay:{index} v"));
    }
    let (mut cursor, mut seen, mut round) = ("0".to_owned(), Vec::new(), 0);
    loop {
        let reply = client.run(&format!("SCAN {cursor} COUNT 7 MATCH stay:*"));
        let (head, keys) = reply[1..].split_once(", ").expect("two parts");
        cursor = head.trim_matches('"').to_owned();
        seen.extend(keys.matches("stay:").map(|_| ()));
        // Others come and go meanwhile.
        client.run(&format!("SET go:{round} v"));
        client.run(&format!("DEL go:{}", round - 3));
        round += 1;
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(seen.len(), 500);
    let mut check = |line: &str, want: &str| assert_eq!(client.run(line), want, "{line}");
    check("SCAN 12345", "-ERR invalid cursor: this scan is not known any more, begin again with 0");
    check("SCAN x", "-ERR invalid cursor");
    check("SCAN 0 COUNT 0", "-ERR syntax error");
    check("SCAN 0 COUNT x", "-ERR value is not an integer or out of range");
    check("SCAN 0 TYPE list COUNT 1000", "[\"0\", []]");
    check("SCAN 0 MATCH stay:499 COUNT 1000 TYPE string", "[\"0\", [\"stay:499\"]]");
    check(
        "KEYS stay:49?",
        &format!("[{}]", {
            (490..500).map(|n| format!("\"stay:{n}\"")).collect::<Vec<_>>().join(", ")
        }),
    );
}

#[test]
fn keys_end_when_their_time_has_come_and_are_removed() {
    let dir = tempfile::tempdir().expect("a directory");
    let (server, db) = super::start_on_database(dir.path());
    let mut client = Client::connect(server.addr());
    for index in 0..1000 {
        client.run(&format!("SET short:{index} v PX 30"));
    }
    client.run("SET long v PX 100000");
    thermocline::environment::Environment::real().sleep(std::time::Duration::from_millis(60));
    assert_eq!(client.run("GET short:1"), "nil");
    assert_eq!(client.run("KEYS *"), "[\"long\"]");
    assert_eq!(client.run("SCAN 0 COUNT 5000"), "[\"0\", [\"long\"]]");
    assert_eq!(client.run("RANDOMKEY"), "\"long\"");
    let keys = db.existing_keyspace("redis-0").expect("is there");
    let counted = (0..100).find(|_| {
        thermocline::environment::Environment::real().sleep(std::time::Duration::from_millis(50));
        keys.live_keys() == Ok(Some(1))
    });
    assert!(counted.is_some(), "{:?} keys are left", keys.live_keys());
    let info = client.run("INFO keyspace");
    assert!(info.contains("db0:keys=1,expires="), "{info}");
}

#[test]
fn the_connection_commands() {
    let (_server, mut client) = serve();
    check(
        &mut client,
        &[
            ("PING", "+PONG"),
            ("PING hi", "\"hi\""),
            ("PING a b", "-ERR wrong number of arguments for 'ping' command"),
            ("ECHO hi", "\"hi\""),
            ("NOPE a b", "-ERR unknown command 'NOPE', with args beginning with: 'a' 'b' "),
            ("LPUSH k v", "-ERR unknown command 'LPUSH', with args beginning with: 'k' 'v' "),
            ("CLIENT NOPE", "-ERR unknown subcommand 'NOPE'. Try CLIENT HELP."),
            ("CLIENT SETINFO LIB-NAME me", "+OK"),
            ("CLIENT SETINFO lib-ver 1.0", "+OK"),
            ("CLIENT SETINFO colour red", "-ERR Unrecognized option 'colour'"),
            ("CLIENT GETNAME", "nil"),
            ("CLIENT SETNAME bob", "+OK"),
            ("CLIENT GETNAME", "\"bob\""),
            ("CLIENT ID", ":1"),
            ("CLIENT NO-EVICT on", "+OK"),
            ("CLIENT NO-TOUCH maybe", "-ERR syntax error"),
            ("CLIENT KILL 1.2.3.4:5", "-ERR No such client"),
            ("CLIENT KILL ID 99", ":0"),
            (
                "AUTH x",
                "-ERR AUTH <password> called without any password configured for the default \
                    user. Are you sure your configuration is correct?",
            ),
            ("AUTH default x", "+OK"),
            ("AUTH bob x", "-WRONGPASS invalid username-password pair or user is disabled."),
            ("HELLO 4", "-NOPROTO unsupported protocol version"),
            ("HELLO x", "-ERR Protocol version is not an integer or out of range"),
            ("HELLO 2 NOPE", "-ERR Syntax error in HELLO option 'NOPE'"),
            (
                "HELLO 2",
                "[\"server\", \"redis\", \"version\", \"7.2.4\", \"proto\", :2, \"id\", :1, \
                     \"mode\", \"standalone\", \"role\", \"master\", \"modules\", []]",
            ),
            (
                "HELLO 3 SETNAME al",
                "{\"server\": \"redis\", \"version\": \"7.2.4\", \"proto\": :3, \
                     \"id\": :1, \"mode\": \"standalone\", \"role\": \"master\", \"modules\": []}",
            ),
            ("CLIENT GETNAME", "\"al\""),
            ("GET none", "nil"),
            ("RESET", "+RESET"),
            ("CLIENT GETNAME", "nil"),
            ("COMMAND COUNT", &format!(":{}", top_level_commands())),
            ("COMMAND GETKEYS MSET a 1 b 2", "[\"a\", \"b\"]"),
            ("COMMAND GETKEYS PING", "-ERR The command has no key arguments"),
            ("COMMAND INFO nope", "[nil]"),
            ("CONFIG GET save", "[\"save\", \"\"]"),
            ("CONFIG GET requirepass", "[]"),
            ("CONFIG SET timeout 70", "+OK"),
            ("CONFIG GET TIME*", "[\"timeout\", \"70\"]"),
            ("CONFIG SET appendonly yes", "+OK"),
            (
                "CONFIG SET appendonly no",
                "-ERR CONFIG SET failed (possibly related to argument \
                                      'appendonly') - can't set immutable config",
            ),
            (
                "CONFIG SET nope 1",
                "-ERR Unknown option or number of arguments for CONFIG SET - 'nope'",
            ),
            ("CONFIG RESETSTAT", "+OK"),
            ("SAVE", "+OK"),
            ("BGSAVE", "+Background saving started"),
            ("ACL WHOAMI", "\"default\""),
            (
                "DEBUG SLEEP 1",
                "-ERR unknown command 'DEBUG', with args beginning with: 'SLEEP' '1' ",
            ),
            ("QUIT", "+OK"),
        ],
    );
    assert!(client.is_closed());
}

#[test]
fn resp3_nulls_and_texts() {
    let (_server, mut client) = serve();
    client.run("HELLO 3");
    client.send(b"GET none\r\n");
    let mut line = [0; 3];
    std::io::Read::read_exact(&mut client.stream, &mut line).expect("a null");
    assert_eq!(&line, b"_\r\n");
    assert!(client.run("INFO server").starts_with("text \"txt:# Server\\r\\nredis_version:7.2.4"));
    assert!(client.run("CLIENT INFO").starts_with("text \"txt:id=1 addr=127.0.0.1:"));
    assert!(client.run("CONFIG GET databases").starts_with("{\"databases\": \"16\"}"));
    assert!(client.run("COMMAND DOCS get").starts_with("{\"get\": {\"summary\": "));
    assert_eq!(
        client.run("COMMAND INFO get"),
        "[[\"get\", :2, ~[+readonly, +fast], :1, :1, :1, ~[+@read, +@string, +@fast], [], \
         [{\"flags\": ~[+RO, +access], \"begin_search\": {\"type\": \"index\", \"spec\": \
         {\"index\": :1}}, \"find_keys\": {\"type\": \"range\", \"spec\": {\"lastkey\": :0, \
         \"keystep\": :1, \"limit\": :0}}}], []]]"
    );
}

#[test]
fn replies_keep_their_order_whatever_fails_among_them() {
    let (_server, mut client) = serve();
    client.send(
        b"SET a 1\r\nCLIENT FOO\r\n*2\r\n$3\r\nGET\r\n$1\r\na\r\nNOPE\r\n\r\nINCR a\r\nPING\r\n",
    );
    let replies: Vec<String> = (0..6).map(|_| client.reply()).collect();
    assert_eq!(
        replies,
        [
            "+OK",
            "-ERR unknown subcommand 'FOO'. Try CLIENT HELP.",
            "\"1\"",
            "-ERR unknown command 'NOPE', with args beginning with: ",
            ":2",
            "+PONG",
        ]
    );
}

#[test]
fn a_client_that_has_said_all_gets_all_replies() {
    const MIB: usize = 1 << 20;
    let (_server, mut client) = serve();
    assert_eq!(client.call(&[b"SET", b"big", &vec![b'x'; MIB]]), "+OK");
    client.send(&b"GET big\r\n".repeat(40));
    client.stream.get_mut().shutdown(std::net::Shutdown::Write).expect("closes one direction");
    (0..40).for_each(|_| assert_eq!(client.reply().len(), MIB + 2));
    assert!(client.is_closed());
}

#[test]
fn client_reply_can_be_switched_off() {
    let (_server, mut client) = serve();
    client.send(b"CLIENT REPLY OFF\r\nSET a 1\r\nNOPE\r\nCLIENT REPLY ON\r\n");
    assert_eq!(client.reply(), "+OK");
    client.send(b"CLIENT REPLY SKIP\r\nGET a\r\nECHO x\r\n");
    assert_eq!(client.reply(), "\"x\"");
}

#[test]
fn a_client_can_be_listed_and_killed() {
    let (server, mut client) = serve();
    let mut other = Client::connect(server.addr());
    assert_eq!(other.run("CLIENT SETNAME other"), "+OK");
    let list = client.run("CLIENT LIST");
    assert!(list.contains("name=other") && list.matches("id=").count() >= 2, "{list}");
    assert_eq!(client.run("CLIENT KILL ID 2"), ":1");
    assert!(other.is_closed());
    let list = client.run("CLIENT LIST");
    assert!(!list.contains("name=other"), "{list}");
}

#[test]
fn who_was_killed_is_in_no_list_when_the_reply_comes() {
    let (server, mut client) = serve();
    for round in 0..200 {
        let mut other = Client::connect(server.addr());
        let id = other.run("CLIENT ID");
        let id = id.trim_start_matches(':');
        client.send(format!("CLIENT KILL ID {id}\r\nCLIENT LIST ID {id}\r\n").as_bytes());
        assert_eq!(
            (client.reply(), client.reply()),
            (":1".to_owned(), "\"\"".to_owned()),
            "{round}"
        );
        assert!(other.is_closed());
    }
    assert_eq!(client.run("CLIENT LIST").matches("addr=").count(), 2, "addr= and laddr=");
}

#[test]
fn shutdown_stops_the_server() {
    let (server, mut client) = serve();
    client.send(b"SHUTDOWN\r\n");
    assert!(client.is_closed());
    server.wait().expect("ends well");
}

#[test]
fn commands_of_several_keys_ask_for_them_at_once() {
    let asked = |lines: &[&str], wanted: &[&str]| {
        let (server, store) = start(options());
        let mut client = Client::connect(server.addr());
        for key in 0..10 {
            client.run(&format!("SET k{key} v{key}"));
        }
        client.run("SET expired v PX 1");
        while client.run("EXISTS expired") == ":1" {}
        // Memory has none of them.
        store.cold.freeze_all();
        let got: Vec<String> = lines.iter().map(|line| client.run(line)).collect();
        assert_eq!(got, wanted);
        store.asked_at_once.load(SeqCst)
    };
    assert_eq!(asked(&["MGET k0 none k2 expired k0"], &["[\"v0\", nil, \"v2\", nil, \"v0\"]"]), 4);
    assert_eq!(asked(&["EXISTS k0 none k0 k1"], &[":3"]), 3);
    assert_eq!(asked(&["TOUCH k0 none"], &[":1"]), 2);
    assert_eq!(asked(&["DEL k0 none k0 k1 expired", "EXISTS k0 k1"], &[":2", ":0"]), 4);
    assert_eq!(asked(&["MSETNX a 1 k0 2 b 3", "EXISTS a b"], &[":0", ":0"]), 3);
    let transaction = ["MULTI", "DEL k1", "SET n 1", "MGET k0 k1 n", "EXEC"];
    let replies = ["+OK", "+QUEUED", "+QUEUED", "+QUEUED", "[:1, +OK, [\"v0\", nil, \"1\"]]"];
    assert_eq!(asked(&transaction, &replies), 3, "the keys of all commands together");
    let blind = ["MULTI", "SET k0 1", "SETEX k1 100 1", "MSET k2 1 k3 1", "EXEC"];
    let replies = ["+OK", "+QUEUED", "+QUEUED", "+QUEUED", "[+OK, +OK, +OK]"];
    assert_eq!(asked(&blind, &replies), 0, "no old value is wanted");
    assert_eq!(asked(&["WATCH k0 k1 k2", "MULTI", "EXEC"], &["+OK", "+OK", "[]"]), 3);
    let many: Vec<String> = (0..300).map(|key| format!("k{key}")).collect();
    let line = format!("DEL {}", many.join(" "));
    assert_eq!(asked(&[&line], &[":10"]), 64, "a slice at a time");
}
