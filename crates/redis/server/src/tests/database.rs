//! The server on a real database: the same replies, also after a kill.

use std::io::Read as _;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use thermocline::Db;
use thermocline::environment::Environment;

use super::client::Client;
use super::{model, options};
use crate::Server;

fn serve(path: &std::path::Path) -> (Db, Server) {
    // A process that another test is just starting may hold the directory's lock for a moment.
    let mut opened = Db::open(path, thermocline::Options::default());
    for _ in 0..100 {
        if !matches!(opened, Err(thermocline::Error::InUse { .. })) {
            break;
        }
        Environment::real().sleep(std::time::Duration::from_millis(10));
        opened = Db::open(path, thermocline::Options::default());
    }
    let db = opened.expect("opens");
    let server = Server::start(&db, options(), Environment::real()).expect("starts");
    (db, server)
}

#[test]
fn random_commands_on_a_database_answer_as_the_model_does() {
    let dir = tempfile::tempdir().expect("a directory");
    let (db, server) = serve(dir.path());
    let mut clients: Vec<Client> = (0..3).map(|_| Client::connect(server.addr())).collect();
    model::compare(&mut clients, model::seed(), 1500);
    server.stop();
    server.wait().expect("ends well");
    db.close().expect("closes");
}

#[test]
fn a_restart_keeps_values_and_expiries() {
    let dir = tempfile::tempdir().expect("a directory");
    let (db, server) = serve(dir.path());
    let mut client = Client::connect(server.addr());
    for line in ["SET a 1", "SET b 2 PXAT 4102444800123", "SET c 3 PX 1", "SELECT 9", "SET d 4"] {
        assert_eq!(client.run(line), "+OK");
    }
    client.send(b"SHUTDOWN\r\n");
    server.wait().expect("ends well");
    db.close().expect("closes");
    drop((server, db));
    let (_db, server) = serve(dir.path());
    let mut client = Client::connect(server.addr());
    assert_eq!(client.run("MGET a b c"), "[\"1\", \"2\", nil]");
    assert_eq!(client.run("PEXPIRETIME b"), ":4102444800123");
    client.run("SELECT 9");
    assert_eq!(client.run("GET d"), "\"4\"");
    assert!(client.run("INFO keyspace").contains("db9:keys=1"));
    assert_eq!(client.run("FLUSHALL"), "+OK");
    assert_eq!(client.run("DBSIZE"), ":0");
}

/// Set for the process that is to be killed: the directory that it serves.
const VICTIM: &str = "THERMOCLINE_TEST_VICTIM";

/// Not a test: the code of the process that is killed. It prints its address and serves until it is
/// killed.
#[test]
fn victim() {
    let Ok(path) = std::env::var(VICTIM) else { return };
    let (_db, server) = serve(path.as_ref());
    println!("\naddress={} ", server.addr());
    server.wait().expect("is killed before");
}

/// Kills the process when the test ends, however it ends.
struct Victim(Child);

impl Drop for Victim {
    fn drop(&mut self) {
        // It may be dead already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start_victim(path: &std::path::Path) -> (Victim, SocketAddr) {
    let mut child = Command::new(std::env::current_exe().expect("a path"))
        .args(["--exact", "--nocapture", "tests::database::victim"])
        .env(VICTIM, path)
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut output = child.stdout.take().expect("its output is piped");
    let victim = Victim(child);
    let mut said = String::new();
    loop {
        let mut byte = [0];
        output.read_exact(&mut byte).expect("it says its address");
        said.push(char::from(byte[0]));
        let address = said.split("address=").nth(1).and_then(|rest| rest.strip_suffix(' '));
        if let Some(address) = address {
            return (victim, address.parse().expect("an address"));
        }
    }
}

#[test]
fn a_killed_server_has_lost_nothing_that_it_acknowledged() {
    let dir = tempfile::tempdir().expect("a directory");
    for round in 0..5_u32 {
        let (mut victim, addr) = start_victim(dir.path());
        let mut client = Client::connect(addr);
        let mut acknowledged = 0;
        assert_eq!(client.run(&format!("SET round:{round} v PXAT 4102444800123")), "+OK");
        for number in 0..200 + 37 * round {
            // One half as transactions, which must be whole.
            client.run("MULTI");
            client.run(&format!("SET left {number}"));
            client.run(&format!("SET right {number}"));
            assert_eq!(client.run("EXEC"), "[+OK, +OK]");
            assert_eq!(client.run(&format!("SET single {number}")), "+OK");
            acknowledged = number;
        }
        // One more that the test does not wait for: it may be there or not, but whole.
        client.send(b"MULTI\r\nSET left last\r\nSET right last\r\nEXEC\r\n");
        victim.0.kill().expect("is killed");
        victim.0.wait().expect("is dead");

        let (db, server) = serve(dir.path());
        let mut client = Client::connect(server.addr());
        assert_eq!(client.run("GET single"), format!("\"{acknowledged}\""));
        let (left, right) = (client.run("GET left"), client.run("GET right"));
        assert_eq!(left, right, "half a transaction");
        assert!(left == "\"last\"" || left == format!("\"{acknowledged}\""), "{left}");
        assert_eq!(client.run(&format!("PEXPIRETIME round:{round}")), ":4102444800123");
        server.stop();
        server.wait().expect("ends well");
        db.close().expect("closes");
    }
}
