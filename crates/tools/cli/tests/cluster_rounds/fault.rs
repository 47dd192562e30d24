//! The faults of rounds: killed and paused processes, links that are cut, and ranges that move.

use std::fmt;
use std::ops;
use std::time::Duration;

use coordinator::LEASE;
use environment::Random;
use rand::RngExt;
use serde_json::Value;

use crate::cluster::{Cluster, KEYSPACE, Part, ProcessId};
use crate::time::{await_that, sleep};

/// Milliseconds for which a killed process is away, and a link is cut.
const AWAY_MS: ops::Range<u64> = 100..8_000;
const CUT_MS: ops::Range<u64> = 500..12_000;
/// Milliseconds that a pause is longer than a lease.
const PAUSE_MS: ops::Range<u64> = 500..4_000;
/// Moves of one round, and milliseconds between two of them.
const MOVES: usize = 3;
const MOVES_MS: ops::Range<u64> = 0..1_000;

/// The process that has a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Victim {
    /// Any process of a kind.
    Any(Part),
    /// The member of etcd that leads.
    EtcdLeader,
}

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// SIGKILL, and another start later.
    Kill(Victim),
    /// SIGSTOP for longer than a lease, and SIGCONT then.
    Pause(Victim),
    /// The link is down for some time.
    Cut(Part),
    /// Ranges move to other LTCs.
    Move,
}

impl Fault {
    /// Returns all faults that there can be.
    pub(crate) fn all(can_cut: bool) -> Vec<Self> {
        let parts = [Part::Etcd, Part::Coordinator, Part::Stoc, Part::Ltc, Part::Gateway];
        let victims = || parts.into_iter().map(Victim::Any).chain([Victim::EtcdLeader]);
        let cuts = [Part::Stoc, Part::Ltc].into_iter().filter(|_| can_cut);
        let stopped = victims().map(Self::Kill).chain(victims().map(Self::Pause));
        stopped.chain(cuts.map(Self::Cut)).chain([Self::Move]).collect()
    }

    /// Lets the fault happen and end. Afterwards the cluster has all processes and links again.
    /// Returns its particulars.
    ///
    /// # Errors
    /// A process that does not start again, or a move that does not take place.
    pub(crate) fn run(self, cluster: &mut Cluster, random: &mut Random) -> Result<String, String> {
        let (id, time) = match self {
            Self::Move => return move_ranges(cluster, random),
            Self::Kill(victim) => {
                let (id, time) = (victim.draw(cluster, random)?, millis(random, AWAY_MS));
                cluster.process(id).kill();
                sleep(time);
                cluster.start_again(id)?;
                (id, time)
            }
            Self::Pause(victim) => {
                let id = victim.draw(cluster, random)?;
                let time = LEASE + millis(random, PAUSE_MS);
                cluster.process(id).signal("-STOP");
                sleep(time);
                cluster.process(id).signal("-CONT");
                (id, time)
            }
            Self::Cut(part) => {
                let (id, time) = (draw(part, random), millis(random, CUT_MS));
                cluster.set_link(id, false);
                sleep(time);
                cluster.set_link(id, true);
                (id, time)
            }
        };
        Ok(format!("{} for {time:?}", cluster.process(id).name))
    }
}

impl Victim {
    fn draw(self, cluster: &Cluster, random: &mut Random) -> Result<ProcessId, String> {
        match self {
            Self::Any(part) => Ok(draw(part, random)),
            Self::EtcdLeader => cluster.etcd_leader(),
        }
    }
}

fn draw(part: Part, random: &mut Random) -> ProcessId {
    (part, random.random_range(1..=part.count()))
}

fn millis(random: &mut Random, range: ops::Range<u64>) -> Duration {
    Duration::from_millis(random.random_range(range))
}

/// A range of the keyspace.
#[derive(Clone, Copy, Debug)]
struct Range {
    number: u64,
    /// Each owner has an epoch of its own.
    epoch: u64,
    owner: Option<u64>,
    is_served: bool,
}

/// Returns the ranges of the keyspace, or none if the coordinator does not reply.
fn ranges(cluster: &Cluster) -> Vec<Range> {
    let shown = cluster.administer(&["cluster", "status"]).unwrap_or_default();
    let all = shown["ranges"].as_array().cloned().unwrap_or_default();
    let of_keyspace = all.iter().filter(|range| range["keyspace"] == KEYSPACE);
    let read = |range: &Value| {
        let number = |name: &str| range[name].as_u64();
        Some(Range {
            number: number("range")?,
            epoch: number("epoch")?,
            owner: number("owner"),
            is_served: range["state"] == "Serving",
        })
    };
    of_keyspace.filter_map(read).collect()
}

/// Moves some ranges, each one once the move before it has ended.
fn move_ranges(cluster: &Cluster, random: &mut Random) -> Result<String, String> {
    let mut moves = Vec::new();
    for _ in 0..MOVES {
        sleep(millis(random, MOVES_MS));
        let (moved, target) = begin_move(cluster, random)?;
        await_that(&format!("range {} moves to LTC {target}", moved.number), || {
            let is_moved =
                |range: &Range| range.number == moved.number && range.epoch > moved.epoch;
            Ok(ranges(cluster).iter().any(|range| is_moved(range) && range.is_served))
        })?;
        moves.push(format!("{} to {target}", moved.number));
    }
    Ok(format!("ranges {}", moves.join(", ")))
}

/// Begins a move of a range to another LTC. Returns the range before that, and the LTC. A range
/// that is being opened cannot move yet.
fn begin_move(cluster: &Cluster, random: &mut Random) -> Result<(Range, u64), String> {
    let mut begun = None;
    await_that("a range begins to move", || {
        let served: Vec<Range> = ranges(cluster).into_iter().filter(|it| it.is_served).collect();
        if served.is_empty() {
            return Ok(false);
        }
        let range = served[random.random_range(0..served.len())];
        let others = (1..=u64::from(Part::Ltc.count())).filter(|ltc| Some(*ltc) != range.owner);
        let others: Vec<u64> = others.collect();
        let target = others[random.random_range(0..others.len())];
        let (number, to) = (range.number.to_string(), target.to_string());
        let moved = cluster.administer(&["cluster", "move", &number, "--to", &to]);
        begun = moved.is_ok().then_some((range, target));
        Ok(begun.is_some())
    })?;
    Ok(begun.unwrap())
}

impl fmt::Display for Victim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Any(part) => one_of(*part),
            Self::EtcdLeader => "the leader of etcd",
        })
    }
}

fn one_of(part: Part) -> &'static str {
    match part {
        Part::Etcd => "a member of etcd",
        Part::Coordinator => "a coordinator",
        Part::Stoc => "a StoC",
        Part::Ltc => "an LTC",
        Part::Gateway => "a gateway",
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kill(victim) => write!(f, "kill -9 of {victim}"),
            Self::Pause(victim) => write!(f, "pause of {victim}"),
            Self::Cut(part) => write!(f, "cut link of {}", one_of(*part)),
            Self::Move => f.write_str("moves of ranges"),
        }
    }
}
