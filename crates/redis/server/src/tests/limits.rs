//! Acts that a client is refused, before and after it has authenticated.

use std::net::SocketAddr;
use std::time::Duration;

use thermocline::environment::Environment;

use super::client::{Client, encode};
use super::figures::page;
use super::{MapStore, options, start};
use crate::{Bound, Error, Options, Secret};

fn with_password() -> Options {
    Options { password: Some(Secret::new("sesame")), ..options() }
}

#[test]
fn nothing_happens_before_authentication() {
    let (server, _) = start(with_password());
    let mut client = Client::connect(server.addr());
    let no_auth = "-NOAUTH Authentication required.";
    for line in ["GET a", "SET a 1", "PING", "INFO", "CONFIG GET *", "CLIENT LIST", "NOPE"] {
        assert_eq!(client.run(line), no_auth, "{line}");
    }
    let wrong = "-WRONGPASS invalid username-password pair or user is disabled.";
    assert_eq!(client.run("AUTH wrong"), wrong);
    assert_eq!(client.run("AUTH sesam"), wrong);
    assert_eq!(client.run("AUTH somebody sesame"), wrong);
    assert!(client.run("HELLO 3").starts_with("-NOAUTH HELLO must be called"));
    assert_eq!(client.run("AUTH sesame"), "+OK");
    assert_eq!(client.run("SET a 1"), "+OK");
    let mut other = Client::connect(server.addr());
    assert!(other.run("HELLO 3 AUTH default sesame").contains("\"proto\": :3"));
    for line in ["CONFIG GET *", "INFO everything", "CLIENT LIST"] {
        assert!(!other.run(line).contains("sesame"), "{line} tells the password");
    }
    assert!(!format!("{:?}", with_password()).contains("sesame"));
}

#[test]
fn the_password_can_be_changed_and_taken_away_on_loopback() {
    let (server, _) = start(with_password());
    let mut client = Client::connect(server.addr());
    assert_eq!(client.run("AUTH sesame"), "+OK");
    assert_eq!(client.run("CONFIG SET requirepass other"), "+OK");
    let mut second = Client::connect(server.addr());
    assert_eq!(second.run("AUTH other"), "+OK");
    assert_eq!(client.run("CONFIG SET requirepass ''"), "+OK");
    assert_eq!(Client::connect(server.addr()).run("PING"), "+PONG");
}

#[test]
fn a_stranger_gets_little_room_and_little_time() {
    let deadline = Duration::from_millis(300);
    let (server, _) = start(Options { auth_deadline: deadline, ..with_password() });
    for (request, error) in [
        (&b"*11\r\n"[..], "-ERR Protocol error: unauthenticated multibulk length"),
        (b"*1\r\n$16385\r\n", "-ERR Protocol error: unauthenticated bulk length"),
    ] {
        let mut client = Client::connect(server.addr());
        client.send(request);
        assert_eq!(client.reply(), error);
        assert!(client.is_closed());
    }
    let mut idle = Client::connect(server.addr());
    let begun = Environment::real().now();
    assert!(idle.is_closed());
    assert!(Environment::real().now() - begun >= deadline);
}

#[test]
fn another_address_wants_a_password() {
    let store = || std::sync::Arc::new(MapStore::default());
    let begin = |options| {
        let registry = thermocline::telemetry::Registry::default();
        Bound::new(options)?.serve_on(store(), Environment::real(), registry)
    };
    let anywhere = SocketAddr::from(([0, 0, 0, 0], 0));
    let refused = begin(Options { listen: anywhere, ..options() }).err();
    assert!(matches!(refused, Some(Error::NoPassword { .. })), "{refused:?}");
    let refused = begin(Options { password: Some(Secret::new("")), ..options() }).err();
    assert!(matches!(refused, Some(Error::EmptyPassword)), "{refused:?}");
    let server = begin(Options { listen: anywhere, ..with_password() }).expect("starts");
    let port = server.addr().port();
    let mut client = Client::connect(SocketAddr::from(([127, 0, 0, 1], port)));
    assert_eq!(client.run("AUTH sesame"), "+OK");
    let kept = client.run("CONFIG SET requirepass ''");
    assert!(kept.contains("keeps a password"), "{kept}");
}

#[test]
fn protocol_errors_end_the_connection() {
    let (server, _) = start(options());
    for (request, error) in [
        (&b"*1048577\r\n"[..], "-ERR Protocol error: invalid multibulk length"),
        (b"*2\r\nGET\r\n", "-ERR Protocol error: expected '$', got 'G'"),
        (b"*1\r\n$67108865\r\n", "-ERR Protocol error: invalid bulk length"),
        (b"\"abc\r\n", "-ERR Protocol error: unbalanced quotes in request"),
    ] {
        let mut client = Client::connect(server.addr());
        client.send(b"PING\r\n");
        client.send(request);
        client.send(b"PING\r\n");
        assert_eq!(client.reply(), "+PONG");
        assert_eq!(client.reply(), error);
        assert!(client.is_closed());
    }
    let mut browser = Client::connect(server.addr());
    browser.send(b"POST / HTTP/1.1\r\nHost: localhost\r\n\r\nSET a 1\r\n");
    assert!(browser.is_closed());
    assert_eq!(Client::connect(server.addr()).run("EXISTS a"), ":0");
}

#[test]
fn there_are_so_many_clients_and_no_more() {
    let (server, _) = start(Options { clients_max: 3, ..options() });
    let mut clients: Vec<Client> = (0..3).map(|_| Client::connect(server.addr())).collect();
    clients.iter_mut().for_each(|client| assert_eq!(client.run("PING"), "+PONG"));
    let mut fourth = Client::connect(server.addr());
    assert_eq!(fourth.reply(), "-ERR max number of clients reached");
    assert!(fourth.is_closed());
    assert_eq!(clients[0].run("QUIT"), "+OK");
    assert!(clients.remove(0).is_closed());
    assert_eq!(Client::connect(server.addr()).run("PING"), "+PONG");
}

#[test]
fn an_idle_client_is_disconnected() {
    let (server, _) = start(Options { idle_timeout_s: 1, ..options() });
    let mut client = Client::connect(server.addr());
    assert_eq!(client.run("PING"), "+PONG");
    assert!(client.is_closed());
}

#[test]
fn a_client_that_reads_slowly_is_not_idle() {
    use std::io::Read as _;
    const MIB: usize = 1 << 20;
    let (server, _) = start(Options { idle_timeout_s: 1, ..options() });
    let mut client = Client::connect(server.addr());
    assert_eq!(client.call(&[b"SET", b"big", &vec![b'x'; MIB]]), "+OK");
    client.send(&encode(&[b"GET", b"big"]).repeat(40));
    let mut piece = vec![0; MIB];
    for _ in 0..40 {
        client.stream.read_exact(&mut piece).expect("the connection lasts");
        Environment::real().sleep(Duration::from_millis(80));
    }
}

#[test]
fn a_number_of_clients_that_cannot_come_in_is_refused() {
    let (server, _) = start(options());
    let mut client = Client::connect(server.addr());
    assert_eq!(client.run("CONFIG SET maxclients 100"), "+OK");
    assert_eq!(client.run("CONFIG GET maxclients"), "[\"maxclients\", \"100\"]");
    let fitting = crate::open_files::fit_clients(1 << 20);
    let answer = client.run("CONFIG SET maxclients 1048576");
    if fitting < 1 << 20 {
        assert!(answer.contains(&format!("room for {fitting} clients")), "{answer}");
        assert_eq!(client.run("CONFIG GET maxclients"), "[\"maxclients\", \"100\"]");
    } else {
        assert_eq!(answer, "+OK");
    }
}

#[test]
fn errors_quote_no_more_than_the_front_of_what_was_wrong() {
    let (server, _) = start(options());
    let mut client = Client::connect(server.addr());
    let long = vec![0xff; 1 << 20];
    for command in [
        vec![&b"HELLO"[..], b"3", &long],
        vec![b"EXPIRE", b"k", b"1", &long],
        vec![b"CLIENT", &long],
        vec![b"CLIENT", b"SETINFO", &long, b"v"],
        vec![b"CLIENT", b"KILL", b"USER", &long],
        vec![b"CLIENT", b"KILL", b"TYPE", &long],
        vec![b"CONFIG", b"SET", &long, b"v"],
        vec![b"COMMAND", &long],
        vec![b"OBJECT", &long, b"k"],
        vec![&long, &long],
    ] {
        let answer = client.call(&command);
        assert!(answer.starts_with("-ERR "), "{answer}");
        assert!(answer.len() < 2000, "{} bytes of error", answer.len());
    }
}

#[test]
fn who_does_not_read_is_disconnected() {
    let (server, _) = start(Options { output_bytes_max: 1 << 20, ..options() });
    let mut client = Client::connect(server.addr());
    client.call(&[b"SET", b"big", &vec![b'x'; 1 << 19]]);
    let request = encode(&[b"GET", b"big"]).repeat(200);
    client.send(&request);
    let mut other = Client::connect(server.addr());
    let gone = (0..1000).any(|_| {
        Environment::real().sleep(Duration::from_millis(20));
        other.run("INFO stats").contains("client_output_buffer_limit_disconnections:1")
    });
    assert!(gone, "{}", other.run("INFO stats"));
}

#[test]
fn thousands_of_clients() {
    const CLIENTS: usize = 3000;
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let hard = getrlimit(Resource::Nofile).maximum;
    let wanted = Rlimit { current: hard, maximum: hard };
    setrlimit(Resource::Nofile, wanted).expect("the limit on open files is raised");
    assert!(hard.is_none_or(|hard| hard > 2 * CLIENTS as u64 + 100), "{hard:?} files are too few");
    let (server, _) = start(options());
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| Client::connect(server.addr())).collect();
    for round in 0..3 {
        for (index, client) in clients.iter_mut().enumerate() {
            client.send(&encode(&[b"INCRBY", b"sum", index.to_string().as_bytes()]));
            client.send(&encode(&[b"ECHO", format!("{round}:{index}").as_bytes()]));
        }
        for (index, client) in clients.iter_mut().enumerate() {
            assert!(client.reply().starts_with(':'));
            assert_eq!(client.reply(), format!("\"{round}:{index}\""));
        }
    }
    let want = 3 * CLIENTS * (CLIENTS - 1) / 2;
    assert_eq!(clients[0].run("GET sum"), format!("\"{want}\""));
    assert!(clients[0].run("INFO clients").contains(&format!("connected_clients:{CLIENTS}")));
}

#[test]
fn large_values_and_many_arguments() {
    let (server, _) = start(options());
    let mut client = Client::connect(server.addr());
    let value: Vec<u8> = (0..(20 << 20)).map(|index| (index % 251) as u8).collect();
    assert_eq!(client.call(&[b"SET", b"large", &value]), "+OK");
    assert_eq!(client.run("STRLEN large"), format!(":{}", value.len()));
    assert_eq!(client.call(&[b"GET", b"large"]).len(), value.escape_ascii().count() + 2);
    let keys: Vec<Vec<u8>> = (0..100_000).map(|key| format!("k{key}").into_bytes()).collect();
    let mut args: Vec<&[u8]> = vec![b"MSET"];
    keys.iter().for_each(|key| args.extend([key.as_slice(), b"v"]));
    assert_eq!(client.call(&args), "+OK");
    assert_eq!(client.run("DBSIZE"), ":100001");
}

#[test]
fn metrics_are_served() {
    let metrics = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    let (server, _) = start(Options { metrics, ..options() });
    let mut client = Client::connect(server.addr());
    for _ in 0..40 {
        client.run("SET a 1");
    }
    client.run("GET a b");
    let get = |path: &str| page(&server, path);
    let found = (0..50).any(|_| {
        Environment::real().sleep(Duration::from_millis(20));
        let page = get("/metrics");
        page.starts_with("HTTP/1.1 200 OK\r\n")
            && page.contains("server_command_calls_total{command=\"set\"} 40\n")
            && page.contains("server_command_rejections_total{command=\"get\"} 1\n")
            && page.contains("server_connected_clients 1\n")
    });
    assert!(found, "{}", get("/metrics"));
    assert!(get("/").starts_with("HTTP/1.1 404 "));
}
