//! `serve`: prints its address, takes the next free port with the flag for it, stops on a signal.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};

use crate::program::{command, on};

/// A server process, killed when dropped.
pub(crate) struct Served {
    child: Child,
    out: BufReader<ChildStdout>,
    /// The address of its metrics, if it has said that.
    metrics: Option<String>,
}

impl Served {
    pub(crate) fn start(dir: &Path, options: &[&str]) -> Self {
        Self::start_command(&["serve", "--dir"], dir, options)
    }

    /// Starts a command that serves a directory.
    pub(crate) fn start_command(name: &[&str], dir: &Path, options: &[&str]) -> Self {
        let mut child = command()
            .args(name)
            .arg(dir)
            .args(options)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Self { child, out, metrics: None }
    }

    /// Reads the next line that it prints.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Reads the address of a server that was started with `--json`.
    pub(crate) fn addr(&mut self) -> String {
        let line = self.line();
        let listening: serde_json::Value =
            serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
        self.metrics = listening["metrics"].as_str().map(str::to_owned);
        listening["listening"].as_str().unwrap().to_owned()
    }

    /// Returns its metrics page. Its address was read.
    pub(crate) fn metrics(&self) -> String {
        let addr = self.metrics.as_ref().unwrap();
        let page = ask(addr, "GET /metrics HTTP/1.0\r\n\r\n");
        assert!(page.starts_with("HTTP/1.1 200"), "{page}");
        page
    }

    /// Reads the next line of its messages.
    #[cfg(feature = "cluster")]
    pub(crate) fn message(&mut self) -> String {
        let err = self.child.stderr.as_mut().unwrap();
        let mut line = String::new();
        // A larger buffer would take bytes of later lines.
        BufReader::with_capacity(1, err).read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills it. Dropping it does so, too.
    pub(crate) fn kill(self) {}

    /// Asks it to stop, as Ctrl-C does. Returns its exit code and its messages at the end.
    pub(crate) fn interrupt(mut self) -> (Option<i32>, String) {
        let pid = self.child.id().to_string();
        let asked = std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap();
        assert!(asked.success());
        let mut err = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        (self.child.wait().unwrap().code(), err)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn ask(addr: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(addr).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn it_serves_until_it_is_interrupted_and_keeps_what_it_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    let options = ["--port", "0", "--metrics", "127.0.0.1:0", "--json"];
    let mut served = Served::start(&db, &options);
    let addr = served.addr();
    assert_eq!(ask(&addr, "SET greeting hello\r\nGET greeting\r\n"), "+OK\r\n$5\r\nhello\r\n");
    let metrics = served.metrics();
    assert!(metrics.contains("# TYPE "), "{metrics}");
    assert_eq!(served.interrupt().0, Some(0));

    let mut served = Served::start(&db, &["--port", "0", "--json"]);
    let told: serde_json::Value = serde_json::from_str(&served.line()).unwrap();
    assert_eq!(told["metrics"], serde_json::Value::Null);
    let addr = told["listening"].as_str().unwrap();
    assert_eq!(ask(addr, "GET greeting\r\n"), "$5\r\nhello\r\n");
}

#[test]
fn commands_say_what_to_do_while_a_server_has_the_database_open() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    let mut served = Served::start(&db, &["--port", "0", "--json"]);
    served.addr();
    let other = dir.path().join("other");
    let other = other.to_str().unwrap();
    let commands: [(&str, &[&str], &str); 12] = [
        ("stats", &[], "INFO thermocline"),
        ("stats", &["--json"], "GET /metrics"),
        ("get", &["a"], "redis-0"),
        ("put", &["a", "b"], "redis-0"),
        ("del", &["a"], "redis-0"),
        ("scan", &[], "redis-0"),
        ("backup", &[other], "BGSAVE"),
        ("dump", &[], "BGSAVE"),
        ("check", &[], "BGSAVE"),
        ("flush", &[], ""),
        ("salvage", &[other], ""),
        ("drop", &["redis-0"], ""),
    ];
    for (command, arguments, advice) in commands {
        let said = on(command, &db, arguments);
        assert_eq!(said.code, 5, "{command}: {said:?}");
        let common = "is open elsewhere: it can be open once to write, or any number of times to \
                      read; stop the process that has it open";
        assert!(said.err.contains(common) && said.err.contains(advice), "{command}: {said:?}");
    }
}

#[test]
fn a_taken_port_is_an_error_or_the_next_one_is_used_and_said() {
    let dir = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let said = on("serve", &dir.path().join("a"), &[]);
    assert_eq!(said.code, 2, "DIR is a flag of serve: {said:?}");

    let refused = Served::start(&dir.path().join("b"), &["--port", &port]);
    let mut err = String::new();
    let mut refused = refused;
    refused.child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert_eq!(refused.child.wait().unwrap().code(), Some(1));
    assert!(err.contains(&format!("cannot listen on 127.0.0.1:{port}")), "{err}");
    assert!(!dir.path().join("b").exists(), "a server that is refused makes no database");

    let mut served =
        Served::start(&dir.path().join("c"), &["--port", &port, "--next-free-port", "--hints"]);
    assert!(served.line().starts_with(&format!("port {port} is taken, so this is ")));
    let line = served.line();
    let addr = line.rsplit(' ').next().unwrap().to_owned();
    assert_eq!(ask(&addr, "PING\r\n"), "+PONG\r\n");
    let next_port = addr.rsplit(':').next().unwrap();
    assert_eq!(served.line(), "");
    assert!(served.line().starts_with("Connect with any Redis client"));
    assert_eq!(served.line(), format!("  redis-cli -p {next_port} set greeting hello"));
    let (code, err) = served.interrupt();
    assert_eq!(
        (code, err.as_str()),
        (Some(0), "stopped; everything acknowledged is on the device\n")
    );
}

#[test]
fn quietly_it_says_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut served = Served::start(dir.path(), &["--port", "0", "--quiet", "--hints"]);
    // From before the database is there it can be interrupted.
    while !dir.path().join("THERMOCLINE").exists() {
        assert_eq!(served.child.try_wait().unwrap(), None);
        std::thread::yield_now();
    }
    let pid = served.child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let mut said = String::new();
    served.out.read_to_string(&mut said).unwrap();
    served.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!((served.child.wait().unwrap().code(), said.as_str()), (Some(0), ""));
}

#[test]
fn an_address_for_everybody_wants_a_password() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    let open = Served::start(&db, &["--listen", "0.0.0.0", "--port", "0"]);
    let mut open = open;
    let mut err = String::new();
    open.child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert_eq!(open.child.wait().unwrap().code(), Some(2));
    assert!(err.contains("password"), "{err}");
    assert!(!db.exists(), "a server that is refused makes no database");

    let file = dir.path().join("password");
    #[expect(clippy::disallowed_methods, reason = "writes what the test reads")]
    std::fs::write(&file, "s3cret\n").unwrap();
    let options = ["--port", "0", "--json", "--password-file", file.to_str().unwrap()];
    let mut served = Served::start(&db, &options);
    let told: serde_json::Value = serde_json::from_str(&served.line()).unwrap();
    let addr = told["listening"].as_str().unwrap();
    assert!(ask(addr, "GET k\r\n").starts_with("-NOAUTH"));
    assert_eq!(ask(addr, "AUTH s3cret\r\nGET k\r\n"), "+OK\r\n$-1\r\n");
}

/// Runs `request` against a server of `db` that is stopped afterwards.
fn served(db: &Path, request: &str) -> String {
    let mut served = Served::start(db, &["--port", "0", "--json"]);
    let told: serde_json::Value = serde_json::from_str(&served.line()).unwrap();
    let answer = ask(told["listening"].as_str().unwrap(), request);
    assert_eq!(served.interrupt().0, Some(0));
    answer
}

#[test]
fn clients_and_commands_see_the_same_values() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    let set = "SET a 1\r\nSET later 2 PXAT 99999999999999\r\nSET soon 3 PX 1\r\nPING\r\n";
    assert_eq!(served(&db, set), "+OK\r\n+OK\r\n+OK\r\n+PONG\r\n");
    let spot = |name: &str, rest: &[&str]| on(name, &db, &[rest, &["-k", "redis-0"]].concat());

    assert_eq!(spot("get", &["a"]).out, "1\n");
    assert_eq!(spot("get", &["a", "--raw"]).out, "1");
    assert_eq!(spot("get", &["a", "--raw-values"]).out, "1\\x01\n");
    let later = spot("get", &["later", "--json"]).json();
    let expected = serde_json::json!(
        { "key": "later", "value": "2", "expires_ms": 99_999_999_999_999_u64 });
    assert_eq!(later, expected);
    assert_eq!(spot("get", &["soon"]).code, 4, "it has expired");
    assert_eq!(spot("scan", &[]).out, "a\t1\nlater\t2\n");
    assert_eq!(spot("scan", &["--keys-only", "--limit", "5"]).out, "a\nlater\n");

    assert_eq!(spot("put", &["b", "from the shell"]).code, 0);
    assert_eq!(spot("put", &["later", "4"]).code, 0, "as SET: it expires no more");
    assert_eq!(spot("del", &["a", "soon", "--json"]).json()["deleted"], 1);
    let get = "GET a\r\nGET b\r\nTTL later\r\nGET later\r\n";
    assert_eq!(served(&db, get), "$-1\r\n$14\r\nfrom the shell\r\n:-1\r\n$1\r\n4\r\n");
}

#[test]
fn values_that_the_server_could_not_read_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    let spot = |name: &str, rest: &[&str]| on(name, &db, &[rest, &["-k", "redis-3"]].concat());
    let refused = spot("put", &["k", "hello", "--raw-values"]);
    assert_eq!((refused.code, db.exists()), (2, false), "{refused:?}");
    assert!(refused.err.contains("unknown tag 0x6f"), "{refused:?}");
    assert_eq!(spot("put", &["k", "hello\\x01", "--raw-values"]).code, 0);
    assert_eq!(spot("get", &["k"]).out, "hello\n");
    assert_eq!(spot("put", &["k", "bye"]).code, 0);
    assert_eq!(spot("get", &["k"]).out, "bye\n");
}

#[test]
fn databases_of_an_engine_without_order_are_served_and_read_from_the_shell() {
    let dir = tempfile::tempdir().unwrap();
    let options = ["--port", "0", "--json", "--engine", "f2", "--memory", "64mb"];
    let mut served = Served::start(dir.path(), &options);
    let told: serde_json::Value = serde_json::from_str(&served.line()).unwrap();
    let addr = told["listening"].as_str().unwrap();
    let said = ask(addr, "SET a 1\r\nSET b 2\r\nSELECT 5\r\nINCR c\r\nSELECT 0\r\nDBSIZE\r\n");
    assert_eq!(said, "+OK\r\n+OK\r\n+OK\r\n:1\r\n+OK\r\n:2\r\n");
    assert_eq!(served.interrupt().0, Some(0));
    let scanned = on("scan", dir.path(), &["-k", "redis-0"]);
    let mut lines: Vec<&str> = scanned.out.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["a\t1", "b\t2"], "{scanned:?}");
    assert_eq!(on("get", dir.path(), &["c", "-k", "redis-5"]).out, "1\n");
    assert!(on("stats", dir.path(), &[]).out.contains("f2"));
}

#[test]
fn a_value_may_be_put_for_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    let spot = |name: &str, rest: &[&str]| on(name, &db, &[rest, &["-k", "leases"]].concat());
    assert_eq!(spot("put", &["a", "long", "--ttl", "1h"]).code, 0);
    assert_eq!(spot("put", &["b", "short", "--ttl", "1ms"]).code, 0);
    let shown = spot("get", &["a", "--json"]).json();
    assert!(shown["expires_ms"].as_u64().is_some_and(|expiry_ms| expiry_ms > 1_700_000_000_000));
    assert_eq!(spot("get", &["b"]).code, 4, "it has expired");
    assert_eq!(spot("put", &["a", "stays"]).code, 0);
    assert_eq!(spot("get", &["a", "--json"]).json()["expires_ms"], serde_json::Value::Null);
    assert_eq!(spot("put", &["c", "v", "--ttl", "soon"]).code, 2);
    assert_eq!(on("put", &db, &["k", "v"]).code, 0);
    let refused = on("put", &db, &["k", "v", "--ttl", "1s"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.err.contains("without values that expire"), "{refused:?}");
    assert!(refused.err.contains("--ttl with --keyspace"), "{refused:?}");
    assert!(!refused.err.contains("::"), "it speaks of commands: {refused:?}");
    let ends = |name: &str| {
        let stats = on("stats", &db, &["-k", name, "--json"]).json();
        stats["keyspaces"][0]["expiring"].clone()
    };
    assert_eq!((ends("leases"), ends("default")), (true.into(), false.into()));
    assert!(spot("stats", &[]).out.contains("values may expire  yes"));
}

#[test]
fn a_recording_that_is_interrupted_has_what_was_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("trace");
    let mut served = Served::start(&dir.path().join("db"), &["--port", "0", "--json"]);
    let told: serde_json::Value = serde_json::from_str(&served.line()).unwrap();
    let mut recorder = command()
        .args(["bench", "record", "--listen", "127.0.0.1:0", "--to"])
        .arg(told["listening"].as_str().unwrap())
        .arg("--out")
        .arg(&trace)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(recorder.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    let addr = line.split(' ').nth(1).unwrap();
    let mut client = TcpStream::connect(addr).unwrap();
    client.write_all(b"SET a 1\r\n").unwrap();
    let mut answer = [0; 5];
    client.read_exact(&mut answer).unwrap();
    // The client stays.
    let pid = recorder.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    line.clear();
    said.read_to_string(&mut line).unwrap();
    assert_eq!(recorder.wait().unwrap().code(), Some(0), "{line}");
    assert!(line.starts_with("1 commands"), "{line}");
    assert_eq!(std::fs::read_to_string(&trace).unwrap(), "put a 1\n");
    let missing = on("bench", std::path::Path::new("record"), &["--out", "/proc/none/trace"]);
    assert_eq!((missing.code, missing.err.contains("/proc/none/trace")), (1, true), "{missing:?}");
}
