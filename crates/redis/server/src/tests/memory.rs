//! Limits on the memory that an authenticated client can make the server keep.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use thermocline::Expiring;
use thermocline::environment::Environment;

use super::client::{Client, encode};
use super::{options, start};
use crate::store::Store as _;
use crate::{Options, Server};

const MIB: usize = 1 << 20;

fn with_budget(client_memory_bytes: usize) -> Options {
    Options { client_memory_bytes, ..options() }
}

/// The figure `name` of INFO.
pub(super) fn figure(client: &mut Client, name: &str) -> u64 {
    let info = client.run("INFO everything");
    let line = info.split("\\r\\n").find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let line = line.unwrap_or_else(|| panic!("no {name} in {info}"));
    line.trim_end_matches('"').parse().expect("a number")
}

/// Asks for the figure until it is `want`.
fn becomes(client: &mut Client, name: &str, want: u64) -> bool {
    (0..500).any(|_| {
        Environment::real().sleep(Duration::from_millis(20));
        figure(client, name) == want
    })
}

/// Asks for the figure until it is above `old`.
fn grows(client: &mut Client, name: &str, old: u64) -> bool {
    (0..500).any(|_| {
        Environment::real().sleep(Duration::from_millis(20));
        figure(client, name) > old
    })
}

/// Sends without minding that the server no longer listens.
fn push(client: &mut Client, bytes: &[u8]) {
    use std::io::Write as _;
    // Some tests want the refusal to take more.
    let _ = client.stream.get_mut().write_all(bytes);
}

fn put_big(server: &Server, bytes: usize) -> Client {
    let mut client = Client::connect(server.addr());
    assert_eq!(client.call(&[b"SET", b"big", &vec![b'x'; bytes]]), "+OK");
    client
}

#[test]
fn a_reply_of_many_values_stops_at_the_output_limit() {
    let (server, _) = start(Options { output_bytes_max: 8 * MIB, ..options() });
    let mut witness = put_big(&server, MIB);
    let mut many = vec![&b"big"[..]; 400];
    many[0] = b"MGET";
    let refused =
        "-ERR reply refused: it is larger than the 8388608 bytes that a client may leave unread";
    let mut greedy = Client::connect(server.addr());
    assert_eq!(greedy.call(&many), refused);
    let read = figure(&mut witness, "keyspace_hits");
    assert!(read < 20, "{read} values were read for a reply that could hold 8");
    // The same in a transaction, of which nothing must be left.
    greedy.send(b"MULTI\r\nSET trace 1\r\n");
    (0..400).for_each(|_| greedy.send(&encode(&[b"GET", b"big"])));
    greedy.send(b"EXEC\r\n");
    assert_eq!(greedy.reply(), "+OK");
    (0..401).for_each(|_| assert_eq!(greedy.reply(), "+QUEUED"));
    assert_eq!(greedy.reply(), refused);
    assert_eq!(witness.run("EXISTS trace"), ":0");
    assert!(figure(&mut witness, "keyspace_hits") < 40);
    assert_eq!(figure(&mut witness, "client_output_buffer_limit_disconnections"), 0);
}

#[test]
fn a_reply_of_many_is_refused_when_the_clients_memory_is_used_up() {
    let (server, _) = start(with_budget(4 * MIB));
    let mut client = put_big(&server, MIB);
    let refused = "-OOM command refused: the clients' memory of 4194304 bytes is used up";
    let mut many = vec![&b"big"[..]; 30];
    many[0] = b"MGET";
    assert_eq!(client.call(&many), refused);
    let long = vec![b'k'; 60_000];
    for index in 0..200_u8 {
        assert_eq!(client.call(&[b"SET", &[&long[..], &[index]].concat(), b"v"]), "+OK");
    }
    assert_eq!(client.run("KEYS *"), refused);
    assert_eq!(client.run("KEYS big"), "[\"big\"]");
    let mut names = vec![&b"get"[..]; 40_000];
    (names[0], names[1]) = (b"COMMAND", b"INFO");
    assert_eq!(client.call(&names), refused);
    names[1] = b"DOCS";
    assert_eq!(client.call(&names), refused);
    assert_eq!(client.run("MULTI"), "+OK");
    assert_eq!(client.run("SELECT 3"), "+QUEUED");
    assert_eq!(client.run("SET trace 1"), "+QUEUED");
    assert_eq!(client.run("SELECT 0"), "+QUEUED");
    (0..30).for_each(|_| assert_eq!(client.run("GET big"), "+QUEUED"));
    assert_eq!(client.run("SELECT 3"), "+QUEUED");
    assert_eq!(client.run("EXEC"), refused);
    assert_eq!(client.run("STRLEN big"), format!(":{MIB}"), "another database is selected");
    client.run("SELECT 3");
    assert_eq!(client.run("EXISTS trace"), ":0");
    let kept = figure(&mut client, "client_memory_bytes");
    assert!(kept < MIB as u64, "{kept} bytes are still charged");
}

#[test]
fn a_scan_is_cut_into_slices_whatever_its_count() {
    let (server, _) = start(with_budget(8 * MIB));
    let mut client = Client::connect(server.addr());
    let long = vec![b'k'; 60_000];
    for index in 0..200_u8 {
        client.call(&[b"SET", &[&long[..], &[index]].concat(), b"v"]);
    }
    let (mut cursor, mut seen, mut slices) = ("0".to_owned(), 0, 0);
    loop {
        let reply = client.run(&format!("SCAN {cursor} COUNT 1000000000"));
        assert!(reply.len() < 2 * MIB, "a slice of {} bytes", reply.len());
        let (head, keys) = reply[1..].split_once(", ").expect("two parts");
        cursor = head.trim_matches('"').to_owned();
        seen += keys.matches("kkkk\\").count() + keys.matches(&"k".repeat(60_000)).count();
        slices += 1;
        if cursor == "0" {
            break;
        }
    }
    assert!(slices > 5, "{slices}");
    assert!(seen >= 200, "{seen}");
}

#[test]
fn what_a_transaction_changes_is_bounded() {
    let (server, store) = start(options());
    let mut client = Client::connect(server.addr());
    store.write_room.store(MIB as u64, SeqCst);
    let value = vec![b'x'; 300_000];
    let refused =
        format!("-OOM command not allowed: the transaction changes more than {MIB} bytes");
    assert_eq!(client.run("SET keep 1"), "+OK");
    client.run("MULTI");
    client.run("SELECT 2");
    for key in ["a", "b", "c", "d"] {
        assert_eq!(client.call(&[b"SET", key.as_bytes(), &value]), "+QUEUED");
    }
    client.run("DEL keep");
    assert_eq!(client.run("EXEC"), refused);
    assert_eq!(client.run("DBSIZE"), ":1", "database 0 has its one key, and is selected");
    assert_eq!(client.run("SELECT 2"), "+OK");
    assert_eq!(client.run("DBSIZE"), ":0");
    let pairs: Vec<&[u8]> = [&b"MSET"[..]]
        .into_iter()
        .chain([&b"a"[..], b"b", b"c", b"d"].map(|key| [key, &value]).concat())
        .collect();
    assert_eq!(client.call(&pairs), refused);
    assert_eq!(client.run("DBSIZE"), ":0");
    // A change that replaces an earlier one counts once.
    client.run("MULTI");
    (0..20).for_each(|_| assert_eq!(client.call(&[b"SET", b"a", &value]), "+QUEUED"));
    assert_eq!(client.run("EXEC"), format!("[{}]", ["+OK"; 20].join(", ")));
    // Deletions count as well.
    (0..10_000).for_each(|index| client.send(format!("SET key:{index} v\r\n").as_bytes()));
    (0..10_000).for_each(|_| assert_eq!(client.reply(), "+OK"));
    client.run("MULTI");
    client.run("FLUSHDB");
    assert_eq!(client.run("EXEC"), refused);
    assert_eq!(client.run("DBSIZE"), ":10001");
}

#[test]
fn who_holds_more_than_its_part_of_a_used_up_budget_goes() {
    let (server, _) = start(with_budget(4 * MIB));
    let mut witness = Client::connect(server.addr());
    assert_eq!(witness.call(&[b"SET", b"mid", &vec![b'x'; 30_000]]), "+OK");
    // Each pauses with about 750 KiB that it does not read, the sockets' own buffers not counted.
    // Small commands are never refused; they must not be a way around.
    let hoarders: Vec<Client> = [&b"GET mid\r\n"[..], b"COMMAND\r\n"]
        .repeat(5)
        .into_iter()
        .map(|request| {
            let mut hoarder = Client::connect(server.addr());
            push(&mut hoarder, &request.repeat(4000));
            hoarder
        })
        .collect();
    assert!(grows(&mut witness, "evicted_clients", 0));
    assert_eq!(witness.run("GET other"), "nil", "there is room again");
    assert_eq!(Client::connect(server.addr()).run("PING"), "+PONG");
    drop(hoarders);
    assert!(becomes(&mut witness, "connected_clients", 1));
    let evicted = figure(&mut witness, "evicted_clients");
    // Nor are queued commands.
    let mut queuer = Client::connect(server.addr());
    push(&mut queuer, b"MULTI\r\n");
    let ping = encode(&[b"PING", &[b'x'; 30_000]]);
    (0..200).for_each(|_| push(&mut queuer, &ping));
    assert!(grows(&mut witness, "evicted_clients", evicted));
    assert_eq!(witness.run("GET other"), "nil");
}

#[test]
fn small_replies_that_nobody_reads_are_not_made_for_ever() {
    let (server, _) = start(Options { output_bytes_max: 2 * MIB, ..options() });
    let mut witness = Client::connect(server.addr());
    assert_eq!(witness.call(&[b"SET", b"small", &vec![b'x'; 32 << 10]]), "+OK");
    let mut lazy = Client::connect(server.addr());
    // Each request comes once the one before was executed, so that each turn adds one small reply.
    let mut sent = 0;
    let is_served = |witness: &mut Client, hits| {
        (0..200).any(|_| {
            let served = figure(witness, "keyspace_hits") >= hits;
            if !served {
                Environment::real().sleep(Duration::from_millis(1));
            }
            served
        })
    };
    while sent < 1500 {
        push(&mut lazy, b"GET small\r\n");
        sent += 1;
        if !is_served(&mut witness, sent) {
            break;
        }
    }
    let kept = figure(&mut witness, "client_memory_bytes");
    assert!(kept < 4 * MIB as u64, "{kept} bytes wait for a client that does not read");
    assert!(sent < 1500, "all replies were made");
    // It gets them all nevertheless, once it reads.
    for _ in 0..sent {
        assert_eq!(lazy.reply().len(), (32 << 10) + 2);
    }
}

#[test]
fn a_client_that_reads_gets_more_than_there_is_room_for() {
    let (server, _) = start(Options { output_bytes_max: 8 * MIB, ..with_budget(4 * MIB) });
    let mut client = put_big(&server, MIB);
    // Its replies are 60 times the clients' memory. It sends all requests first, and reads then.
    client.send(&b"GET big\r\nINCR n\r\n".repeat(240));
    for round in 1..=240 {
        assert_eq!(client.reply().len(), MIB + 2);
        assert_eq!(client.reply(), format!(":{round}"));
    }
    assert_eq!(client.run("PING"), "+PONG");
    assert_eq!(figure(&mut client, "evicted_clients"), 0);
    assert_eq!(figure(&mut client, "client_output_buffer_limit_disconnections"), 0);
}

#[test]
fn a_client_that_reads_slowly_is_not_cut_off() {
    use std::io::Read as _;
    let (server, _) = start(Options { output_bytes_max: 8 * MIB, ..options() });
    let mut witness = put_big(&server, MIB);
    let mut slow = Client::connect(server.addr());
    slow.send(&b"GET big\r\n".repeat(100));
    // Longer than one that does not read at all may stay, and too little for the kernel to report
    // room to the server again.
    let mut piece = vec![0; 50_000];
    for _ in 0..28 {
        slow.stream.read_exact(&mut piece).expect("the connection lasts");
        Environment::real().sleep(Duration::from_millis(500));
    }
    assert_eq!(figure(&mut witness, "client_output_buffer_limit_disconnections"), 0);
}

#[test]
fn a_client_that_closes_without_reading_does_not_stay() {
    let (server, _) = start(options());
    let mut witness = put_big(&server, MIB);
    let mut lazy = Client::connect(server.addr());
    lazy.send(&encode(&[b"GET", b"big"]).repeat(30));
    lazy.send(b"QUIT\r\n");
    assert!(becomes(&mut witness, "connected_clients", 2));
    assert!(becomes(&mut witness, "connected_clients", 1), "it is still there");
    drop(lazy);
}

#[test]
fn watching_is_bounded_and_charged() {
    let (server, _) = start(options());
    let mut client = Client::connect(server.addr());
    let watch = |keys: std::ops::Range<usize>| {
        let keys: Vec<Vec<u8>> = keys.map(|key| format!("key:{key}").into_bytes()).collect();
        let mut args = vec![&b"WATCH"[..]];
        args.extend(keys.iter().map(Vec::as_slice));
        encode(&args)
    };
    let charged = |client: &mut Client| {
        let line = client.run("CLIENT INFO");
        let rest = line.split("tot-mem=").nth(1).and_then(|rest| rest.split(' ').next());
        rest.expect("a figure").parse::<usize>().expect("a number")
    };
    let begun = Environment::real().now();
    for half in [0..8000, 8000..16_000, 0..384] {
        client.send(&watch(half));
        assert_eq!(client.reply(), "+OK");
    }
    let took = Environment::real().now() - begun;
    assert!(took < Duration::from_secs(5), "{took:?} for 16,384 keys");
    assert!(charged(&mut client) > 16_000 * 100);
    let mut other = Client::connect(server.addr());
    other.run("SET key:15999 1");
    client.run("MULTI");
    assert_eq!(client.run("EXEC"), "nil");
    assert!(charged(&mut client) < 100_000);
    client.send(&watch(0..16_385));
    assert_eq!(client.reply(), "-ERR too many watched keys: at most 16384 are allowed");
    client.run("MULTI");
    assert_eq!(client.run("EXEC"), "[]");
}

#[test]
fn watching_takes_no_more_than_there_is() {
    let (server, _) = start(with_budget(4 * MIB));
    let mut client = Client::connect(server.addr());
    let long = vec![b'k'; 60_000];
    let keys: Vec<Vec<u8>> = (0..50_u8).map(|index| [&long[..], &[index]].concat()).collect();
    let mut args = vec![&b"WATCH"[..]];
    args.extend(keys.iter().map(Vec::as_slice));
    let refused = "-OOM command refused: the clients' memory of 4194304 bytes is used up";
    assert_eq!(client.call(&args), refused);
    assert!(figure(&mut client, "client_memory_bytes") < MIB as u64);
    client.run("MULTI");
    assert_eq!(client.run("EXEC"), "nil", "it goes on as if the keys were watched");
    client.run("MULTI");
    assert_eq!(client.run("EXEC"), "[]");
}

#[test]
fn a_request_beyond_the_clients_memory_is_told_so() {
    let (server, _) = start(with_budget(4 * MIB));
    let mut client = Client::connect(server.addr());
    assert_eq!(
        client.run("CONFIG GET proto-max-bulk-len"),
        "[\"proto-max-bulk-len\", \"3145728\"]"
    );
    let refused = client.run("CONFIG SET proto-max-bulk-len 4194304");
    assert!(refused.contains("must be between 1048576 and 3145728"), "{refused}");
    // The promised size is accepted.
    assert_eq!(client.call(&[b"SET", b"k", &vec![b'x'; 3 * MIB]]), "+OK");
    assert_eq!(client.run("STRLEN k"), ":3145728");
    for (request, error) in [
        (encode(&[b"SET", b"k", &vec![b'x'; 3 * MIB + 1]]), "invalid bulk length"),
        (encode(&[b"SET", b"k", &vec![b'x'; 60 * MIB]]), "invalid bulk length"),
        (
            encode(&[b"MSET", b"k", &vec![b'x'; 2 * MIB], b"l", &vec![b'y'; 2 * MIB]]),
            "too big request",
        ),
    ] {
        let mut client = Client::connect(server.addr());
        // All of it is sent before the reply is read, as ordinary clients do.
        client.send(&request);
        assert_eq!(client.reply(), format!("-ERR Protocol error: {error}"));
        assert!(client.is_closed());
    }
    // Several together are more than there is: some get the error, none simply loses its
    // connection.
    let mut clients: Vec<Client> = (0..3).map(|_| Client::connect(server.addr())).collect();
    let request = encode(&[b"SET", b"k", &vec![b'x'; 2 * MIB]]);
    let (most, rest) = request.split_at(request.len() - 10);
    clients.iter_mut().for_each(|client| client.send(most));
    let replies: Vec<String> = clients
        .iter_mut()
        .map(|client| {
            push(client, rest);
            client.reply()
        })
        .collect();
    let told = |reply: &String| reply == "+OK" || reply.starts_with("-OOM request refused");
    assert!(replies.iter().all(told), "{replies:?}");
}

#[test]
fn names_are_short() {
    let (server, _) = start(options());
    let mut client = Client::connect(server.addr());
    let long = "n".repeat(257);
    let refused = client.run(&format!("CLIENT SETNAME {long}"));
    assert_eq!(refused, "-ERR Client names cannot be longer than 256 bytes.");
    assert!(client.run(&format!("CLIENT SETINFO LIB-NAME {long}")).starts_with("-ERR lib-name"));
    assert!(client.run(&format!("HELLO 3 SETNAME {long}")).starts_with("-ERR Client names"));
}

/// Length of the string that `reply` shows.
fn shown(reply: &str) -> usize {
    reply.matches('x').count()
}

#[test]
fn each_value_that_is_accepted_can_be_read() {
    let (server, _) = start(with_budget(4 * MIB));
    let mut client = Client::connect(server.addr());
    let max = 3 * MIB;
    for len in [MIB, 2 * MIB - 20, 2 * MIB, 2 * MIB + MIB / 2, max - 1, max] {
        let value = vec![b'x'; len];
        assert_eq!(client.call(&[b"SET", b"k", &value]), "+OK");
        for read in ["GET k", "GETRANGE k 0 -1", "GETEX k PERSIST", "GETEX k EX 1000", "MGET k"] {
            assert_eq!(shown(&client.run(read)), len, "{read} of {len} bytes");
        }
        assert_eq!(client.run("MULTI"), "+OK");
        assert_eq!(client.run("GET k"), "+QUEUED");
        assert_eq!(shown(&client.run("EXEC")), len, "EXEC of {len} bytes");
        assert_eq!(shown(&client.run("SET k s GET")), len, "SET GET of {len} bytes");
        assert_eq!(client.call(&[b"SET", b"k", &value]), "+OK");
        assert_eq!(shown(&client.run("GETSET k s")), len, "GETSET of {len} bytes");
        assert_eq!(client.call(&[b"SET", b"k", &value]), "+OK");
        assert_eq!(shown(&client.run("GETDEL k")), len, "GETDEL of {len} bytes");
    }
    // Values that grow have the same limit.
    let half = vec![b'x'; max / 2];
    assert_eq!(client.call(&[b"APPEND", b"k", &half]), format!(":{}", max / 2));
    assert_eq!(client.call(&[b"APPEND", b"k", &half]), format!(":{max}"));
    assert!(client.run("APPEND k x").contains("(proto-max-bulk-len)"));
    assert_eq!(shown(&client.run("GET k")), max);
    let offset = (max / 2).to_string();
    let patch = client.call(&[b"SETRANGE", b"k", offset.as_bytes(), &half]);
    assert_eq!(patch, format!(":{max}"));
    assert!(client.run(&format!("SETRANGE k {max} x")).contains("(proto-max-bulk-len)"));
    assert_eq!(shown(&client.run("GET k")), max);
    assert_eq!(figure(&mut client, "evicted_clients"), 0);
}

#[test]
fn a_pipeline_that_writes_and_reads_the_largest_value_gets_it() {
    let (server, _) = start(with_budget(4 * MIB));
    let mut client = Client::connect(server.addr());
    let max = 3 * MIB;
    let set = encode(&[b"SET", b"k", &vec![b'x'; max]]);
    let half = encode(&[b"SET", b"half", &vec![b'x'; max / 4]]);
    client.send(&[&set[..], b"GET k\r\n", &half, b"GET half\r\nGET k\r\nGET k\r\n"].concat());
    assert_eq!(client.reply(), "+OK");
    assert_eq!(shown(&client.reply()), max);
    assert_eq!(client.reply(), "+OK");
    assert_eq!(shown(&client.reply()), max / 4);
    assert_eq!(shown(&client.reply()), max);
    assert_eq!(shown(&client.reply()), max);
    assert_eq!(figure(&mut client, "evicted_clients"), 0);
}

#[test]
fn a_reply_of_one_value_passes_the_output_limit() {
    let (server, _) = start(Options { output_bytes_max: 4096, ..options() });
    let mut client = put_big(&server, 2 * MIB);
    client.send(b"GET big\r\nGET big\r\n");
    assert_eq!(shown(&client.reply()), 2 * MIB);
    assert_eq!(shown(&client.reply()), 2 * MIB);
    assert_eq!(client.run("PING"), "+PONG");
}

#[test]
fn a_reply_that_cannot_be_made_is_an_error_and_changes_nothing() {
    let (server, store) = start(with_budget(4 * MIB));
    let mut client = Client::connect(server.addr());
    let value = Expiring { value: &vec![b'x'; 5 * MIB], expiry_ms: None }.to_stored();
    store.put(0, b"k", &value).expect("a map takes everything");
    let refused = "-OOM command refused: the clients' memory of 4194304 bytes is used up";
    let reads = ["GET k", "GETRANGE k 0 -1", "MGET k", "GETEX k EX 1000", "GETSET k s"];
    for line in reads.into_iter().chain(["SET k s GET", "SET k s NX GET", "GETDEL k"]) {
        assert_eq!(client.run(line), refused, "{line}");
    }
    assert_eq!(client.run("MULTI"), "+OK");
    assert_eq!(client.run("GETDEL k"), "+QUEUED");
    assert_eq!(client.run("EXEC"), refused);
    let echo = client.call(&[b"ECHO", &vec![b'x'; 3 * MIB]]);
    assert_eq!(echo, refused);
    assert_eq!(client.run("STRLEN k"), format!(":{}", 5 * MIB));
    assert_eq!(client.run("TTL k"), ":-1");
    assert_eq!(shown(&client.run("GETRANGE k 0 2999999")), 3_000_000);
    assert!(figure(&mut client, "client_memory_bytes") < MIB as u64);
    assert_eq!(figure(&mut client, "evicted_clients"), 0);
}
