//! Nodes over TCP with TLS, on loopback.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;

use tempfile::TempDir;

use super::*;
use crate::tls::{Authority, Files, Tls};
use crate::{Endpoint as _, SocketEndpoint};

struct World {
    dir: TempDir,
    authority: Authority,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("there is room");
        let authority = Authority::open(dir.path(), CLUSTER, &Environment::real());
        Self { authority: authority.expect("it can be made"), dir }
    }

    fn tls(&self, role: Role, node: Option<u32>) -> Tls {
        let files = self.authority.make(role, node).expect("it can be made");
        Tls::load(files).expect("it can be read")
    }

    fn ltc(&self) -> Node {
        node(self.tls(Role::Ltc, Some(1)), identity(Role::Ltc, 1, 1))
    }
}

fn node(tls: Tls, identity: Identity) -> Node {
    let endpoint = SocketEndpoint::new(tls, &Environment::real()).expect("there are descriptors");
    Node::start(endpoint, options(identity)).expect("there is a thread")
}

/// Starts a StoC, and returns where it listens.
fn serve_tls(tls: Tls, echo: &Arc<Echo>) -> (Address, Node) {
    let mut endpoint = SocketEndpoint::new(tls, &Environment::real()).expect("descriptors");
    let place = endpoint.listen("127.0.0.1:0").expect("loopback has a port");
    let mut options = options(identity(Role::Stoc, 3, 5));
    options.handler = Some(Arc::clone(echo) as _);
    let node = Node::start(endpoint, options).expect("there is a thread");
    (Address { place, ..address() }, node)
}

fn cause(reply: Result<Vec<u8>>) -> String {
    match reply {
        Err(Error::Unreachable { cause, .. }) => cause,
        other => panic!("{other:?}"),
    }
}

/// A process has the files of its number, and otherwise those of its role.
#[test]
fn a_process_takes_the_files_of_its_number_first() {
    let world = World::new();
    world.tls(Role::Stoc, None);
    world.tls(Role::Stoc, Some(3));
    for (node, certified) in [(3, Some(3)), (4, None)] {
        let files = Files::of_process(world.dir.path(), Role::Stoc, node);
        let tls = Tls::load(files).expect("it can be read");
        assert_eq!(tls.who(), Certified { cluster: CLUSTER, role: Role::Stoc, node: certified });
    }
}

#[test]
fn requests_pass_through_tls() {
    let world = World::new();
    let (address, _stoc) = serve_tls(world.tls(Role::Stoc, Some(3)), &Arc::default());
    let ltc = world.ltc();
    let channel = ltc.channel(address.clone(), Class::Bulk);
    let sent: Vec<_> = [0, 1, 70_000, 5 << 20, 30 << 20]
        .into_iter()
        .map(|length| (bytes(length as u64, length), length))
        .map(|(content, _)| (send(&channel, content.clone()), content))
        .collect();
    for (receiver, content) in sent {
        assert!(reply(&receiver) == Ok(content), "the reply has the bytes of the request");
    }
    // A name instead of an address: it may have another address first.
    let port = address.place.rsplit(':').next().unwrap_or_default().to_owned();
    let by_name = Address { place: format!("localhost:{port}"), ..address };
    assert_eq!(reply(&send(&ltc.channel(by_name, Class::Log), vec![1])), Ok(vec![1]));
}

#[test]
fn certificates_of_others_are_refused() {
    let (world, other) = (World::new(), World::new());
    let (address, _stoc) = serve_tls(world.tls(Role::Stoc, Some(3)), &Arc::default());
    let cause_of = |tls: Tls, of: Identity| {
        let node = node(tls, of);
        cause(reply(&send(&node.channel(address.clone(), Class::Log), vec![1])))
    };
    let ltc = identity(Role::Ltc, 1, 1);
    // Another authority: the client finds it.
    let found = cause_of(other.tls(Role::Ltc, Some(1)), ltc);
    assert!(found.contains("UnknownIssuer") || found.contains("BadSignature"), "{found}");
    // The certificate of another node.
    let found = cause_of(world.tls(Role::Ltc, Some(2)), ltc);
    assert!(found.contains("another node"), "{found}");
    let found = cause_of(world.tls(Role::Admin, None), ltc);
    assert!(found.contains("another node"), "{found}");
    // One whose time is over.
    let (then, clock) = Environment::simulated(1);
    clock.set_wall(Duration::from_secs(1_500_000_000));
    let old = Authority::open(world.dir.path(), CLUSTER, &then).expect("it is there");
    let files = old.make(Role::Ltc, Some(1)).expect("it can be made");
    let found = cause_of(Tls::load(files).expect("it can be read"), ltc);
    assert!(found.contains("Expired"), "{found}");
    // A server whose certificate is for another node.
    let (address, _stoc) = serve_tls(world.tls(Role::Stoc, Some(4)), &Arc::default());
    let node = world.ltc();
    let found = cause(reply(&send(&node.channel(address, Class::Log), vec![1])));
    assert!(found.contains("for another node"), "{found}");
}

#[test]
fn peers_without_tls_are_refused() {
    let world = World::new();
    let (address, _stoc) = serve_tls(world.tls(Role::Stoc, Some(3)), &Arc::default());
    let mut plain = TcpStream::connect(&address.place).expect("it listens");
    plain.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("it takes bytes");
    let mut rest = Vec::new();
    // The end may be a reset.
    let _ = plain.read_to_end(&mut rest);
    assert!(!rest.windows(4).any(|bytes| bytes == b"HTTP"), "only an alert may come");
    // A coordinator's address that speaks HTTP.
    let http = TcpListener::bind("127.0.0.1:0").expect("loopback has a port");
    let place = http.local_addr().expect("it is bound").to_string();
    let thread = Environment::real().spawn("http", move || {
        let (mut stream, _) = http.accept().expect("the node dials");
        let mut first = [0; 16];
        let _ = stream.read(&mut first);
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
    });
    let ltc = world.ltc();
    let channel = ltc.channel(Address { place, ..address }, Class::Log);
    let found = cause(reply(&send(&channel, vec![1])));
    assert_eq!(found, "the peer does not speak TLS");
    assert!(thread.expect("there is a thread").join().is_ok());
    // Nothing listens.
    let free = TcpListener::bind("127.0.0.1:0").and_then(|bound| bound.local_addr());
    let place = free.expect("loopback has a port").to_string();
    let nobody = Address { place, ..self::address() };
    let found = cause(reply(&send(&ltc.channel(nobody, Class::Log), vec![1])));
    assert!(found.contains("refused"), "{found}");
}

#[test]
fn certificates_are_read_again() {
    let world = World::new();
    let tls = world.tls(Role::Stoc, Some(3));
    let before = Arc::as_ptr(&tls.server());
    assert_eq!(tls.reload(), Ok(()));
    assert_ne!(Arc::as_ptr(&tls.server()), before);
    // Another node's files in the place of ours.
    let dir = world.dir.path();
    let others = world.authority.make(Role::Stoc, Some(4)).expect("it can be made");
    let ours = Files::of(dir, &certified(Role::Stoc, 3));
    copy(&others.certificate, &ours.certificate);
    copy(&others.key, &ours.key);
    match tls.reload() {
        Err(Error::System { what, cause }) => {
            assert!(what.ends_with("stoc-3.pem") && cause.contains("stoc/4"), "{what}: {cause}");
        }
        other => panic!("{other:?}"),
    }
    for (name, content, part) in [
        ("stoc-3.pem", "", "no certificate"),
        ("stoc-3-key.pem", "", "stoc-3-key.pem"),
        ("ca.pem", "x", "no certificate"),
    ] {
        let tls = world.tls(Role::Stoc, Some(3));
        #[expect(clippy::disallowed_methods, reason = "damages a file")]
        std::fs::write(dir.join(name), content).expect("there is room");
        let found = tls.reload().expect_err("the file is damaged").to_string();
        assert!(found.contains(part) && found.contains(name), "{found}");
        if name == "ca.pem" {
            return;
        }
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::copy(from, to).expect("there is room");
}

/// Connections that begin no handshake end, and do not prevent others.
#[test]
fn unfinished_handshakes_have_a_limit() {
    let world = World::new();
    let (address, _stoc) = serve_tls(world.tls(Role::Stoc, Some(3)), &Arc::default());
    let silent: Vec<TcpStream> =
        (0..140).map(|_| TcpStream::connect(&address.place).expect("it listens")).collect();
    let ltc = world.ltc();
    let channel = ltc.channel(address, Class::Log);
    assert!(eventually(|| reply(&send(&channel, vec![1])) == Ok(vec![1])));
    for mut stream in silent {
        stream.set_read_timeout(Some(LONG)).expect("it is a time");
        let mut rest = Vec::new();
        // The end may be a reset.
        match stream.read_to_end(&mut rest) {
            Ok(_) => {}
            Err(error) => assert_ne!(error.kind(), std::io::ErrorKind::WouldBlock),
        }
        assert_eq!(rest, Vec::<u8>::new());
    }
}

/// The keys of a cluster are for their owner alone.
#[test]
fn keys_are_readable_by_their_owner_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let world = World::new();
    let files = world.authority.make(Role::Client, None).expect("it can be made");
    for key in [files.key.as_path(), &world.dir.path().join("ca-key.pem")] {
        let mode = key.metadata().expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{}", key.display());
    }
    let again = Authority::open(world.dir.path(), 99, &Environment::real()).expect("it is there");
    assert_eq!(again.cluster(), CLUSTER, "the directory says which cluster it is");
}
