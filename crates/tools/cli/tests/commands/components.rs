//! Processes of a cluster: `coordinator`, `stoc`, `ltc`, `serve --cluster`, and the commands of
//! `cluster`.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::slice;
use std::time::Duration;

use serde_json::Value;

use crate::etcd::{Member, free_port};
use crate::program::{Said, run};
use crate::serving::Served;

/// The address of the metrics of a process.
const METRICS: [&str; 2] = ["--metrics", "127.0.0.1:0"];

/// A cluster below a directory.
pub(crate) struct Cluster<'d> {
    dir: &'d Path,
    certs: String,
    coordinator: String,
}

impl<'d> Cluster<'d> {
    pub(crate) fn new(dir: &'d Path) -> Self {
        let certs = dir.join("certs").display().to_string();
        let said = run(["cluster", "certs", &certs]);
        assert_eq!(said.code, 0, "{said:?}");
        assert!(said.out.contains("stoc.pem") && said.out.contains("ca-key.pem"), "{said:?}");
        Self { dir, certs, coordinator: format!("127.0.0.1:{}", free_port()) }
    }

    pub(crate) fn options(&self) -> [&str; 5] {
        ["--json", "--certificates", &self.certs, "--coordinators", &self.coordinator]
    }

    pub(crate) fn coordinator(&self) -> Served {
        let mut options = self.options().to_vec();
        options.extend(["--address", &self.coordinator]);
        options.extend(METRICS);
        let data = self.dir.join("coordinator");
        let mut served = Served::start_command(&["coordinator", "--data-dir"], &data, &options);
        assert_eq!(served.addr(), self.coordinator);
        served
    }

    pub(crate) fn stoc(&self, node: &str) -> Served {
        self.stoc_with(node, &[])
    }

    fn stoc_with(&self, node: &str, more: &[&str]) -> Served {
        let mut options = self.options().to_vec();
        options.extend(["--node", node]);
        options.extend(METRICS);
        options.extend(more);
        let data = self.dir.join(format!("stoc-{node}"));
        let mut served = Served::start_command(&["stoc", "--data-dir"], &data, &options);
        served.addr();
        served
    }

    pub(crate) fn ltc(&self, node: &str) -> Served {
        let mut options = self.options().to_vec();
        options.extend(["--memory", "128mb"]);
        options.extend(METRICS);
        let mut served = Served::start_command(&["ltc", "--node"], node.as_ref(), &options);
        served.addr();
        served
    }

    /// Starts a gateway. Returns it and its address.
    pub(crate) fn gateway(&self) -> (Served, String) {
        let mut options = vec!["--json", "--certificates", &self.certs, "--port", "0"];
        options.extend(METRICS);
        let coordinator = Path::new(&self.coordinator);
        let mut served = Served::start_command(&["serve", "--cluster"], coordinator, &options);
        let addr = served.addr();
        (served, addr)
    }

    pub(crate) fn status(&self) -> Value {
        let said = run([&["cluster", "status"], &self.options()[..]].concat());
        assert_eq!(said.code, 0, "{said:?}");
        said.json()
    }

    /// Runs a command that is refused.
    pub(crate) fn refused(&self, command: &[&str]) -> Said {
        let said = run([command, &self.options()[..]].concat());
        assert!(said.code > 0, "{said:?}");
        said
    }
}

/// A connection of a Redis client.
pub(crate) struct Client(BufReader<TcpStream>);

impl Client {
    pub(crate) fn connect(addr: &str) -> Self {
        let stream = TcpStream::connect(addr).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        Self(BufReader::new(stream))
    }

    /// Executes a command whose reply is one value.
    pub(crate) fn run(&mut self, command: &str) -> String {
        self.0.get_mut().write_all(format!("{command}\r\n").as_bytes()).unwrap();
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        if line.starts_with('$') && line.trim_end() != "$-1" {
            line.clear();
            self.0.read_line(&mut line).unwrap();
        }
        line.trim_end().to_owned()
    }
}

/// Stops a process, and returns its messages.
pub(crate) fn stop(served: Served) -> String {
    let (code, messages) = served.interrupt();
    assert_eq!(code, Some(0), "{messages}");
    messages
}

#[test]
fn a_coordinator_and_stocs_start_again_and_are_shown() {
    let dir = tempfile::tempdir().unwrap();
    let cluster = Cluster::new(dir.path());
    let coordinator = cluster.coordinator();
    let config = dir.path().join("stoc.toml").display().to_string();
    #[expect(clippy::disallowed_methods, reason = "writes what the test reads")]
    std::fs::write(&config, "domain = \"rack-1\"\n").unwrap();
    let (first, second) = (cluster.stoc_with("1", &["--config", &config]), cluster.stoc("2"));
    let shown = cluster.status();
    let stocs = shown["stocs"].as_array().unwrap();
    assert_eq!(stocs.len(), 2, "{shown}");
    for (node, stoc) in (1..).zip(stocs) {
        assert_eq!((&stoc["node"], &stoc["files"]), (&Value::from(node), &Value::from(0)));
        assert!(stoc["free_bytes"].as_u64().unwrap() > 0, "{shown}");
    }
    assert_eq!((&stocs[0]["domain"], &stocs[1]["domain"]), (&"rack-1".into(), &Value::Null));
    // A killed StoC, and then a killed coordinator.
    second.kill();
    let shown = cluster.status();
    assert!(shown["stocs"][1]["error"].as_str().unwrap().contains("cannot be reached"), "{shown}");
    coordinator.kill();
    let coordinator = cluster.coordinator();
    let second = cluster.stoc("2");
    let shown = cluster.status();
    assert!(shown["stocs"].as_array().unwrap().iter().all(|stoc| stoc["files"] == 0), "{shown}");
    for process in [first, second, coordinator] {
        assert_eq!(stop(process), "");
    }
}

/// A StoC whose directory is lost is another one. One that went back in time is refused.
#[test]
fn directories_of_stocs_are_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let cluster = Cluster::new(dir.path());
    let _coordinator = cluster.coordinator();
    stop(cluster.stoc("1"));
    let data = dir.path().join("stoc-1");
    let old = dir.path().join("old");
    copy(&data, &old);
    stop(cluster.stoc("1"));
    std::fs::remove_dir_all(&data).unwrap();
    copy(&old, &data);
    let path = data.display().to_string();
    let said = cluster.refused(&["stoc", "--data-dir", &path]);
    assert!(said.err.contains("it is an old copy"), "{said:?}");
    // An empty directory in the place of its own, such as that of a disk that is not mounted.
    std::fs::remove_dir_all(&data).unwrap();
    let said = cluster.refused(&["stoc", "--data-dir", &path]);
    assert!(said.err.contains("--start-empty"), "{said:?}");
    let options = [&cluster.options()[..], &["--start-empty"]].concat();
    let mut served = Served::start_command(&["stoc", "--data-dir"], &data, &options);
    served.addr();
    let messages = stop(served);
    assert!(messages.contains("has started without the files that it had"), "{messages}");
    // Another number, and a second process.
    let said = cluster.refused(&["stoc", "--node", "2", "--data-dir", &path]);
    assert!(said.err.contains("the directory is of StoC 1"), "{said:?}");
    let _running = cluster.stoc("1");
    // Neither a refused start nor a second process has taken a number.
    assert_eq!(cluster.status()["stocs"].as_array().map(Vec::len), Some(1));
    let said = cluster.refused(&["stoc", "--data-dir", dir.path().to_str().unwrap()]);
    assert!(said.code == 2 && said.err.contains("it is not empty"), "{said:?}");
    let said = cluster.refused(&["stoc", "--data-dir", &path]);
    assert!(said.code == 5 && said.err.contains("another process has it open"), "{said:?}");
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &target),
            false => _ = std::fs::copy(entry.path(), target).unwrap(),
        }
    }
}

/// A coordinator without its records: no number of attempts gets a StoC past the check.
#[test]
fn a_coordinator_that_lost_its_records_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let cluster = Cluster::new(dir.path());
    let coordinator = cluster.coordinator();
    stop(cluster.stoc("1"));
    stop(cluster.stoc("1"));
    stop(coordinator);
    std::fs::remove_dir_all(dir.path().join("coordinator")).unwrap();
    let _coordinator = cluster.coordinator();
    let path = dir.path().join("stoc-1").display().to_string();
    for _ in 0..4 {
        let said = cluster.refused(&["stoc", "--data-dir", &path]);
        assert!(said.err.contains("the records of the coordinator were lost"), "{said:?}");
    }
}

/// Ranges on two LTCs behind two gateways. LTCs and a StoC are killed, a range moves, and an LTC is
/// drained: no acknowledged write is lost, and no client sees an error.
#[test]
fn gateways_serve_a_cluster_whose_processes_end() {
    let dir = tempfile::tempdir().unwrap();
    let cluster = Cluster::new(dir.path());
    let coordinator = cluster.coordinator();
    let mut stocs: Vec<Served> = ["1", "2", "3", "4"].map(|node| cluster.stoc(node)).into();
    let (first, second) = (cluster.ltc("1"), cluster.ltc("2"));
    let admin = |command: &[&str]| {
        let said = run([command, &cluster.options()[..]].concat());
        assert_eq!(said.code, 0, "{said:?}");
    };
    admin(&["cluster", "keyspace", "redis-1", "--split-at", "g", "--split-at", "p"]);
    for (name, mode) in [("redis-2", "memory"), ("redis-3", "none")] {
        admin(&["cluster", "keyspace", name, "--log", mode]);
        // The mode does not change.
        let again = run([&["cluster", "keyspace", name], &cluster.options()[..]].concat());
        assert!(again.code != 0 && again.err.contains("with other options"), "{again:?}");
    }
    let gateways = [cluster.gateway(), cluster.gateway()];
    let [mut one, mut other] = gateways.each_ref().map(|(_, addr)| Client::connect(addr));
    for client in [&mut one, &mut other] {
        assert_eq!(client.run("SELECT 1"), "+OK");
    }
    let keys = ["apple", "grape", "plum"];
    let write = |client: &mut Client, round: u32| {
        for key in keys {
            assert_eq!(client.run(&format!("INCR {key}")), format!(":{round}"), "{key}");
        }
    };
    write(&mut one, 1);
    write(&mut other, 2);
    first.kill();
    write(&mut one, 3);
    let first = cluster.ltc("1");
    second.kill();
    write(&mut other, 4);
    let second = cluster.ltc("2");
    stocs.remove(0).kill();
    write(&mut one, 5);
    let range = cluster.status()["ranges"][0].clone();
    let target = if range["owner"] == 1 { "2" } else { "1" };
    admin(&["cluster", "move", &range["range"].to_string(), "--to", target]);
    write(&mut other, 6);
    admin(&["cluster", "drain", "1"]);
    let is_drained =
        |shown: &Value| shown["ranges"].as_array().unwrap().iter().all(|range| range["owner"] == 2);
    let drained = (0..300).any(|_| {
        environment::Environment::real().sleep(Duration::from_millis(20));
        is_drained(&cluster.status())
    });
    assert!(drained, "{}", cluster.status());
    write(&mut one, 7);
    assert_eq!(one.run("EXISTS apple grape plum none"), ":3");
    for database in [2, 3] {
        assert_eq!(other.run(&format!("SELECT {database}")), "+OK");
        for count in 1..=3 {
            assert_eq!(other.run("INCR count"), format!(":{count}"), "{database}");
        }
    }
    assert!(one.run("MSET apple 1 plum 2").contains("are in ranges"));
    let [(one, _), (other, _)] = gateways;
    for process in [one, other, first, second, coordinator] {
        stop(process);
    }
    // A wrong range, and LTCs that are not there.
    let _coordinator = cluster.coordinator();
    let refused = cluster.refused(&["cluster", "move", "99", "--to", "1"]);
    assert!(refused.err.contains("there is no range 99"), "{refused:?}");
    let refused = cluster.refused(&["cluster", "move", "1", "--to", "9"]);
    assert!(refused.err.contains("there is no LTC 9"), "{refused:?}");
    let refused = cluster.refused(&["cluster", "drain", "9"]);
    assert!(refused.err.contains("there is no LTC 9"), "{refused:?}");
}

/// A benchmark verifies what it reads from a cluster, and says that it does not know the memory of
/// the cluster. A second run begins with the keyspace of the first one, which is empty.
#[test]
fn a_benchmark_runs_on_a_cluster() {
    let dir = tempfile::tempdir().unwrap();
    let cluster = Cluster::new(dir.path());
    let _coordinator = cluster.coordinator();
    let _stocs = ["1", "2", "3"].map(|node| cluster.stoc(node));
    let _ltcs = ["1", "2"].map(|node| cluster.ltc(node));
    let path = dir.path().join("out.json").display().to_string();
    let bench = |engine: &str, workload: &str| {
        let store = ["bench", "run", "--engine", engine, "--workload", workload, "--json", &path];
        let of_cluster = ["--cluster", &cluster.coordinator, "--certificates", &cluster.certs];
        let work = ["--keys", "300", "--ops", "600", "--shape", "12+40", "--warmup", "0"];
        run([&store[..], &of_cluster[..], &work[..]].concat())
    };
    for workload in ["ycsb-f", "ycsb-e"] {
        let said = bench("nova:ranges=4", workload);
        assert_eq!(said.code, 0, "{said:?}");
        assert!(said.out.contains("the store is in other processes"), "{said:?}");
        let report = std::fs::read_to_string(&path).unwrap();
        let report: Value = serde_json::from_str(&report).unwrap();
        for (name, figure) in
            [("ops", 600), ("wrong_reads", 0), ("misses", 0), ("memory_budget_bytes", 0)]
        {
            assert_eq!(report[name], figure, "{name}: {report}");
        }
        assert_eq!(report["figures"]["ranges"], 4, "{report}");
        assert!(report["is_elsewhere"] == true && report["device_source"] == "none", "{report}");
    }
    let said = bench("nova:ranges=2", "ycsb-f");
    assert!(said.code == 1 && said.err.contains("has 4 ranges, and not 2"), "{said:?}");
}

/// Two coordinators over an etcd: the second one takes over when the first one is killed.
#[test]
fn a_second_coordinator_takes_over() {
    let dir = tempfile::tempdir().unwrap();
    let etcd = Etcd::start(&dir.path().join("etcd"));
    let mut cluster = Cluster::new(dir.path());
    let places = [free_port(), free_port()].map(|port| format!("127.0.0.1:{port}"));
    cluster.coordinator = places.join(",");
    let start = |number: usize| {
        let mut options = cluster.options().to_vec();
        options.extend(["--address", &places[number], "--etcd", &etcd.client, "--node"]);
        let number = (number + 1).to_string();
        options.push(&number);
        let mut served =
            Served::start_command(&["coordinator", "--data-dir"], dir.path(), &options);
        served.addr();
        served
    };
    let first = start(0);
    let stoc = cluster.stoc("1");
    let second = start(1);
    first.kill();
    let shown = cluster.status();
    assert_eq!(shown["stocs"][0]["files"], 0, "reads need no leader: {shown}");
    // A start of a StoC needs one, and waits until the lease of the first one is over.
    let another = cluster.stoc("2");
    assert_eq!(cluster.status()["stocs"].as_array().unwrap().len(), 2);
    stop(stoc);
    stop(another);
    let messages = stop(second);
    assert!(messages.contains("this coordinator leads"), "{messages}");
}

/// An etcd of one member, killed when dropped.
struct Etcd {
    process: Child,
    client: String,
}

impl Etcd {
    fn start(dir: &Path) -> Self {
        let member = Member::new("default");
        let process = member
            .command(slice::from_ref(&member), dir)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program etcd is installed: apt-get install etcd-server");
        Self { process, client: member.client }
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn mistakes_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let cluster = Cluster::new(dir.path());
    let data = dir.path().join("data").display().to_string();
    let cases = [
        (vec!["stoc", "--node", "0"], "is no number of a process"),
        (vec!["stoc", "--address", "0.0.0.0:1"], "others need one of them"),
        (vec!["stoc", "--address", "localhost"], "is no address with a port"),
        (vec!["coordinator", "--data-dir", &data], "a coordinator needs a fixed port"),
        (vec!["coordinator", "--port", "1"], "--port"),
        (vec!["stoc", "--throttle-mb-per-s", "0"], "is no count: a whole number above 0, or off"),
        (vec!["ltc", "--copies", "4"], "is no number of copies: 1 to 3"),
        (vec!["ltc", "--log-ensemble", "2"], "is no number of StoCs of a log: 1 or 3"),
    ];
    for (command, part) in cases {
        let said = cluster.refused(&command);
        assert!(said.code == 2 && said.err.contains(part), "{command:?}: {said:?}");
    }
    // The key of another certificate for etcd, and etcd without what https needs.
    let file = |name: &str| format!("{}/{name}", cluster.certs);
    let (ca, certificate, key) = (file("ca.pem"), file("stoc.pem"), file("ltc-key.pem"));
    let address = format!("127.0.0.1:{}", free_port());
    let https = ["coordinator", "--address", &address, "--etcd", "https://127.0.0.1:1"];
    let said = cluster.refused(&https);
    assert!(said.code == 2 && said.err.contains("needs etcd-ca"), "{said:?}");
    let pair = ["--etcd-ca", &ca, "--etcd-certificate", &certificate, "--etcd-key", &key];
    let said = cluster.refused(&[&https[..], &pair].concat());
    assert!(said.err.contains("the certificate and the key for etcd"), "{said:?}");
    let said = run(["stoc", "--certificates", "/nonexistent"]);
    assert!(said.code == 1 && said.err.contains("/nonexistent/ca.pem"), "{said:?}");
    // The certificates of another cluster.
    let _coordinator = cluster.coordinator();
    let other = dir.path().join("other");
    let others =
        Cluster { certs: other.join("certs").display().to_string(), ..Cluster::new(&other) };
    let address = cluster.coordinator.clone();
    let options =
        ["--certificates", &others.certs, "--coordinators", &address, "--data-dir", &data];
    let mut waiting = Served::start_command(&["stoc", "--node"], Path::new("1"), &options);
    let waits = waiting.message();
    let said =
        run(["cluster", "status", "--certificates", &others.certs, "--coordinators", &address]);
    assert!(said.code == 1 && said.err.contains("cannot be reached"), "{said:?}");
    assert!(waits.contains("waiting for the coordinator"), "{waits}");
    assert!(waits.contains("certificate"), "{waits}");
}
