//! A cluster of processes on loopback: an etcd, a coordinator, StoCs, LTCs and a gateway.
#![expect(clippy::disallowed_methods, reason = "settings of processes are no files of a database")]

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use rand::RngExt;
use serde_json::Value;

use crate::Outcome;
use crate::plan::Plan;
use crate::process::{self, Process};

/// Ports of processes, below those of outgoing connections.
const PORTS: std::ops::Range<u16> = 20_000..32_000;
/// Time that a process has to serve, and a command of an operator to end.
const LIMIT: Duration = Duration::from_secs(60);
/// The keyspace of the Redis database 0.
const REDIS_KEYSPACE: &str = "redis-0";
/// The keyspace of the benchmark, and the first keys of its ranges but one. Keys are spread evenly
/// over their first bytes, so each of the four ranges has about a quarter of them.
const BENCH_KEYSPACE: &str = "bench";
const BENCH_SPLITS: [&str; 3] = ["@", "\u{7f}", "\u{80}"];

/// Settings of a component, as its TOML has them: keys and values.
pub(crate) type Settings = Vec<(&'static str, String)>;

/// The processes of a cluster, and their settings.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) stocs: u32,
    pub(crate) ltcs: u32,
    pub(crate) has_gateway: bool,
    pub(crate) stoc: Settings,
    pub(crate) ltc: Settings,
    /// Options of the benchmark's keyspace.
    pub(crate) keyspace: Vec<&'static str>,
}

/// A range, as the coordinator shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) number: u64,
    pub(crate) epoch: u64,
    pub(crate) owner: Option<u64>,
    pub(crate) is_served: bool,
}

/// A running cluster. Dropping it kills its processes and removes its files.
pub(crate) struct Cluster<'a> {
    plan: &'a Plan,
    dir: PathBuf,

    coordinator: String,
    /// Options of the benchmark's keyspace.
    keyspace: Vec<&'static str>,
    gateway: Option<SocketAddr>,
    stocs: Vec<Process>,
    ltcs: Vec<Process>,
    others: Vec<Process>,
}

/// Returns a port that is free now.
pub(crate) fn free_port(plan: &Plan) -> u16 {
    let mut random = environment::Seed::from_entropy().stream("ports");
    loop {
        let port = random.random_range(PORTS);
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() || plan.is_interrupted() {
            return port;
        }
    }
}

impl Shape {
    /// Returns a cluster of three StoCs and one LTC, which has `memory`.
    pub(crate) fn new(memory: &str) -> Self {
        let ltc = vec![("memory", memory.to_owned())];
        let (stoc, keyspace) = Default::default();
        Self { stocs: 3, ltcs: 1, has_gateway: false, stoc, ltc, keyspace }
    }

    /// Adds a setting of LTCs.
    pub(crate) fn ltc(mut self, key: &'static str, value: &str) -> Self {
        self.ltc.push((key, value.to_owned()));
        self
    }

    /// Adds a setting of StoCs.
    pub(crate) fn stoc(mut self, key: &'static str, value: &str) -> Self {
        self.stoc.push((key, value.to_owned()));
        self
    }

    /// Has the benchmark's keyspace another mode of logs.
    pub(crate) fn log(mut self, mode: &'static str) -> Self {
        self.keyspace.extend(["--log", mode]);
        self
    }

    /// Returns why the program refuses the settings; none if it takes them.
    pub(crate) fn refusal(&self, plan: &Plan) -> Outcome<Option<String>> {
        for (role, settings) in [("stoc", &self.stoc), ("ltc", &self.ltc)] {
            let path = plan.dir.join(format!("{role}.toml"));
            fs::write(&path, toml(settings))?;
            let path = path.display().to_string();
            if let Some(message) = refusal(plan, &[role, "--config", &path])? {
                return Ok(Some(message.replace(&format!("{path}: "), "")));
            }
        }
        refusal(plan, &[&["cluster", "keyspace", BENCH_KEYSPACE], &self.keyspace[..]].concat())
    }
}

/// Returns why the program refuses a command, whose settings it only prints; none if it takes it.
fn refusal(plan: &Plan, words: &[&str]) -> Outcome<Option<String>> {
    let output = Command::new(&plan.program).args(words).arg("--print-config").output()?;
    let message = String::from_utf8_lossy(&output.stderr);
    let message = message.lines().next().unwrap_or("no reason is given");
    let message = message.trim_start_matches("thermocline: ").trim_start_matches("error: ");
    Ok((!output.status.success()).then(|| message.to_owned()))
}

/// Returns the text of a file with settings.
fn toml(settings: &Settings) -> String {
    settings.iter().map(|(key, value)| format!("{key} = {value:?}\n")).collect()
}

impl<'a> Cluster<'a> {
    /// Starts a cluster.
    pub(crate) fn start(plan: &'a Plan, shape: &Shape) -> Outcome<Self> {
        let dir = plan.dir.join("cluster");
        if dir.exists() {
            fs::remove_dir_all(&dir)?;
        }
        fs::create_dir_all(&dir)?;
        for (role, settings) in [("stoc", &shape.stoc), ("ltc", &shape.ltc)] {
            fs::write(dir.join(format!("{role}.toml")), toml(settings))?;
        }
        let coordinator = format!("{}:{}", Ipv4Addr::LOCALHOST, free_port(plan));
        let mut cluster = Self {
            plan,
            dir,

            coordinator,
            keyspace: shape.keyspace.clone(),
            gateway: None,
            stocs: Vec::new(),
            ltcs: Vec::new(),
            others: Vec::new(),
        };
        cluster.run(&["cluster", "certs"], |command| command.arg("certs"))?;
        let etcd = cluster.start_etcd()?;
        let mut command = cluster.member("coordinator", 1);
        command.args(["--address", &cluster.coordinator, "--etcd", &etcd]);
        let started = cluster.serve("coordinator", command)?;
        cluster.others.push(started);
        for number in 1..=shape.stocs {
            let stoc = cluster.serve(&format!("stoc-{number}"), cluster.member("stoc", number))?;
            cluster.stocs.push(stoc);
        }
        for number in 1..=shape.ltcs {
            let ltc = cluster.serve(&format!("ltc-{number}"), cluster.member("ltc", number))?;
            cluster.ltcs.push(ltc);
        }
        if shape.has_gateway {
            cluster.start_gateway()?;
        }
        Ok(cluster)
    }

    /// Starts a member of an etcd. Returns its address.
    fn start_etcd(&mut self) -> Outcome<String> {
        let [client, peer] = [free_port(self.plan), free_port(self.plan)]
            .map(|port| format!("http://{}:{port}", Ipv4Addr::LOCALHOST));
        let mut command = Command::new("etcd");
        command
            .args(["--data-dir", "etcd", "--listen-client-urls", &client])
            .args(["--advertise-client-urls", &client, "--listen-peer-urls", &peer])
            .args(["--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &format!("default={peer}")])
            .current_dir(&self.dir);
        self.others.push(Process::start("etcd", command, &self.dir)?);
        Ok(client)
    }

    fn start_gateway(&mut self) -> Outcome<()> {
        let port = free_port(self.plan);
        let mut command = self.command(&["serve", "--json", "--certificates", "certs"]);
        command.args(["--cluster", &self.coordinator, "--port", &port.to_string()]);
        let gateway = self.serve("gateway", command)?;
        self.others.push(gateway);
        self.gateway = Some(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        Ok(())
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.plan.program);
        command.args(words).current_dir(&self.dir);
        command
    }

    /// Returns the command of a process that takes part in the cluster.
    fn member(&self, role: &str, number: u32) -> Command {
        let mut command = self.command(&[role, "--json", "--certificates", "certs"]);
        command.args(["--coordinators", &self.coordinator, "--node", &number.to_string()]);
        if role != "coordinator" {
            command.args(["--config", &format!("{role}.toml")]);
        }
        command
    }

    /// Starts a process, and waits until it serves.
    fn serve(&self, name: &str, command: Command) -> Outcome<Process> {
        let mut process = Process::start(name, command, &self.dir)?;
        self.plan.wait_for((&format!("{name} serves"), LIMIT), || {
            process.check()?;
            Ok(process.is_announced().then_some(()))
        })?;
        Ok(process)
    }

    fn run(
        &self,
        words: &[&str],
        with: impl FnOnce(&mut Command) -> &mut Command,
    ) -> Outcome<String> {
        let mut command = self.command(words);
        with(&mut command);
        process::run(self.plan, "command", command, LIMIT)
    }

    /// Runs a command of an operator.
    pub(crate) fn administer(&self, words: &[&str]) -> Outcome<Value> {
        let options = ["--json", "--certificates", "certs", "--coordinators", &self.coordinator];
        let output = self.run(words, |command| command.args(options))?;
        Ok(serde_json::from_str(&output)?)
    }

    /// Makes the keyspace of the benchmark.
    pub(crate) fn make_bench_ranges(&self) -> Outcome<()> {
        let splits = BENCH_SPLITS.iter().flat_map(|split| ["--split-at", *split]);
        let words = ["cluster", "keyspace", BENCH_KEYSPACE].into_iter();
        let words = words.chain(self.keyspace.iter().copied()).chain(splits);
        self.administer(&words.collect::<Vec<_>>()).map(drop)
    }

    /// Makes the keyspace of the Redis database 0 with one range, and waits until it is served.
    pub(crate) fn make_redis_range(&self) -> Outcome<Range> {
        self.administer(&["cluster", "keyspace", REDIS_KEYSPACE])?;
        self.await_redis_range(|range| range.is_served)
    }

    /// Returns the range of the Redis database 0, once it is as `is_wanted` says.
    pub(crate) fn await_redis_range(&self, is_wanted: impl Fn(&Range) -> bool) -> Outcome<Range> {
        self.plan.wait_for(("the range is served", LIMIT), || {
            // The coordinator may have no leader for a moment.
            Ok(self.redis_range().ok().filter(&is_wanted))
        })
    }

    /// Returns the range of the Redis database 0.
    pub(crate) fn redis_range(&self) -> Outcome<Range> {
        let shown = self.administer(&["cluster", "status"])?;
        let ranges = shown.get("ranges").and_then(Value::as_array).into_iter().flatten();
        let mut of_keyspace =
            ranges.filter(|range| range.get("keyspace").is_some_and(|name| name == REDIS_KEYSPACE));
        let range = of_keyspace.next().ok_or("the cluster has no range of the keyspace")?;
        let number = |name: &str| range.get(name).and_then(Value::as_u64);
        Ok(Range {
            number: number("range").ok_or("a range without a number")?,
            epoch: number("epoch").ok_or("a range without an epoch")?,
            owner: number("owner"),
            is_served: range.get("state").is_some_and(|state| state == "Serving"),
        })
    }

    /// Has the range of the Redis database 0 move.
    pub(crate) fn begin_move(&self, range: &Range, to: u64) -> Outcome<()> {
        let (number, to) = (range.number.to_string(), to.to_string());
        self.administer(&["cluster", "move", &number, "--to", &to]).map(drop)
    }

    /// Returns the options of a benchmark that is a client of the cluster.
    pub(crate) fn client_options(&self) -> [String; 4] {
        let certificates = self.dir.join("certs").display().to_string();
        ["--cluster".into(), self.coordinator.clone(), "--certificates".into(), certificates]
    }

    pub(crate) fn gateway(&self) -> Outcome<SocketAddr> {
        Ok(self.gateway.ok_or("the cluster has no gateway")?)
    }

    /// Kills an LTC.
    pub(crate) fn kill_ltc(&mut self, number: u64) -> Outcome<()> {
        self.ltc_mut(number)?.kill()
    }

    /// Starts an LTC that was killed.
    pub(crate) fn start_ltc(&mut self, number: u64) -> Outcome<()> {
        let member = self.member("ltc", u32::try_from(number)?);
        *self.ltc_mut(number)? = self.serve(&format!("ltc-{number}"), member)?;
        Ok(())
    }

    fn ltc_mut(&mut self, number: u64) -> Outcome<&mut Process> {
        let index = usize::try_from(number)?.wrapping_sub(1);
        Ok(self.ltcs.get_mut(index).ok_or_else(|| format!("there is no LTC {number}"))?)
    }

    /// Returns the bytes that all StoCs have written to devices so far.
    pub(crate) fn written_bytes(&self) -> Outcome<u64> {
        self.stocs.iter().map(Process::written_bytes).sum()
    }

    /// Returns the bytes of the write logs that the StoC 1 has.
    pub(crate) fn log_bytes(&self) -> Outcome<u64> {
        let mut bytes = 0;
        for range in fs::read_dir(self.dir.join("stoc-1/files"))? {
            for file in fs::read_dir(range?.path())? {
                let file = file?;
                if file.file_name().to_string_lossy().starts_with("log-") {
                    bytes += file.metadata()?.len();
                }
            }
        }
        Ok(bytes)
    }

    /// Checks that all processes run.
    pub(crate) fn check(&mut self) -> Outcome<()> {
        let mut processes = self.stocs.iter_mut().chain(&mut self.ltcs).chain(&mut self.others);
        processes.try_for_each(Process::check)
    }
}

impl Drop for Cluster<'_> {
    fn drop(&mut self) {
        let ended = [&mut self.ltcs, &mut self.stocs, &mut self.others];
        ended.into_iter().for_each(Vec::clear);
        let _ = fs::remove_dir_all(&self.dir);
    }
}
