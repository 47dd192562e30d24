//! The Redis protocol: a gateway of a cluster against the server of one database.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use std::time::Duration;

use crate::Outcome;
use crate::cluster::{Cluster, Shape, free_port};
use crate::figures::{Goal, Spread};
use crate::page::{NOTHING, Table};
use crate::plan::Plan;
use crate::process::Process;
use crate::redis;

/// Time that the server has until it serves.
const LIMIT: Duration = Duration::from_secs(60);
/// Commands, and how many of them a connection sends together.
const TESTS: [(&str, u32); 4] = [("set", 1), ("set", 16), ("get", 1), ("get", 16)];
const GOAL: Goal = Goal::AtLeast(0.25);

/// A way to serve Redis clients.
#[derive(Clone, Copy, Debug)]
enum Door {
    Gateway,
    Server,
}

pub(super) fn measure(plan: &Plan) -> Outcome<String> {
    if !redis::has_benchmark() {
        return Ok("Not measured: redis-benchmark is not installed.\n".to_owned());
    }
    let doors = [Door::Gateway, Door::Server];
    let rates = plan.take_turns(&doors, |door| format!("{door:?}"), |door| door.rates(plan))?;
    let mut table =
        Table::new(&["command", "pipeline", "gateway, ops/s", "server, ops/s", "ratio", "goal"]);
    for (index, (test, pipeline)) in TESTS.into_iter().enumerate() {
        let of_test = rates.iter().map(|rounds| rounds.iter().map(|round| round[index]).collect());
        let of_test: Vec<Vec<f64>> = of_test.collect();
        let [gateway, server] = of_test.as_slice() else { return Err("two doors".into()) };
        let ratio = Spread::of_ratios(gateway, server);
        let goal = if test == "get" { GOAL.judge(ratio.median) } else { NOTHING.to_owned() };
        let [gateway, server] = [gateway, server].map(|rounds| Spread::of(rounds.clone()).rate());
        let (test, pipeline) = (test.to_uppercase(), pipeline.to_string());
        table.row(&[&test, &pipeline, &gateway, &server, &ratio.digits(2), &goal]);
    }
    let (keys, bytes, connections) = (redis::KEYS, redis::VALUE_BYTES, redis::CONNECTIONS);
    Ok(format!(
        "`redis-benchmark` with {connections} connections, {keys} keys and values of {bytes} bytes, all in memory. The gateway is in front of one LTC
and three StoCs, each a process. It replies to a SET when two StoCs have synced it. The server is `thermocline serve --engine lsm
--durability synced`.

{}",
        table.text()
    ))
}

impl Door {
    /// Returns the operations a second of each test.
    fn rates(self, plan: &Plan) -> Outcome<Vec<f64>> {
        match self {
            Self::Gateway => {
                let shape = Shape { has_gateway: true, ..Shape::new("1gb") };
                let mut cluster = Cluster::start(plan, &shape)?;
                cluster.make_redis_range()?;
                let rates = rates_at(plan, cluster.gateway()?)?;
                cluster.check()?;
                Ok(rates)
            }
            Self::Server => {
                let dir = plan.dir.join("server");
                let port = free_port(plan);
                let mut command = Command::new(&plan.program);
                command.args(["serve", "--json", "--engine", "lsm", "--durability", "synced"]);
                command.args(["--memory", "512mb", "--port", &port.to_string(), "--dir"]).arg(&dir);
                let mut server = Process::start("server", command, &plan.dir)?;
                plan.wait_for(("the server serves", LIMIT), || {
                    server.check()?;
                    Ok(server.is_announced().then_some(()))
                })?;
                let rates = rates_at(plan, SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
                server.kill()?;
                std::fs::remove_dir_all(&dir)?;
                Ok(rates)
            }
        }
    }
}

fn rates_at(plan: &Plan, address: SocketAddr) -> Outcome<Vec<f64>> {
    redis::fill(address)?;
    TESTS.iter().map(|test| redis::measure(plan, address, *test)).collect()
}
