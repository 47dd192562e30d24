//! `thermocline cluster status`: the processes and the ranges of a cluster.

use std::sync::Arc;
use std::time::Duration;

use coordinator::{
    Coordinator, Descriptor, LeaseReport, LtcLease, LtcRecord, RangeLease, StocRecord,
};
use serde_json::{Value, json};
use stoc::{Identity, Link, RemoteLink, Request, Response, Stats};
use wire::{Node, Role};

use super::node::{Process, of_coordinator};
use crate::commands::Context;
use crate::failure::Outcome;
use crate::output;

/// Time after which a StoC without a reply is shown as such.
const SLOW: Duration = Duration::from_secs(2);

/// A StoC with its figures.
struct Shown {
    node: u32,
    record: StocRecord,
    stats: Result<Stats, String>,
}

/// All that is shown.
struct Status {
    cluster: String,
    stocs: Vec<Shown>,
    ltcs: Vec<(u32, LtcRecord)>,
    ranges: Vec<Descriptor>,
    /// The leases, or why they are unknown.
    leases: Result<LeaseReport, String>,
}

pub(super) fn run(context: &Context) -> Outcome {
    let process = Process::new(context, Role::Admin)?;
    let node = process.client()?;
    let store = process.store(&node);
    let cluster = process.tls.who().cluster;
    let coordinator = Coordinator::join(Arc::clone(&store) as _, cluster);
    let read = coordinator.and_then(|coordinator| {
        Ok((coordinator.stocs()?, coordinator.ltcs()?, coordinator.ranges()?))
    });
    let (stocs, ltcs, ranges) = read.map_err(|error| of_coordinator(&error))?;
    let status = Status {
        cluster: format!("{cluster:016x}"),
        stocs: ask(&process, &node, stocs),
        ltcs,
        ranges,
        leases: store.leases().map_err(|error| error.to_string()),
    };
    if context.shared.json { output::json_line(&status.to_json()) } else { status.print() }
}

/// Asks all StoCs for their figures at the same time.
fn ask(process: &Process, node: &Node, stocs: Vec<(u32, StocRecord)>) -> Vec<Shown> {
    let cluster = process.tls.who().cluster;
    let link = |(number, record): &(u32, StocRecord)| -> Option<Arc<dyn Link>> {
        let (cookie, incarnation) = (record.cookie?, record.completed.unwrap_or(0));
        let identity = Identity { cluster, node: *number, cookie, incarnation };
        Some(Arc::new(RemoteLink::new(node, identity, record.place.as_ref()?)))
    };
    let links: Vec<_> = stocs.iter().filter_map(link).collect();
    let replies = stoc::call_all(&links, &Request::Stats, (SLOW, &process.environment));
    let stats = |number: u32| {
        let mut replies = links.iter().zip(&replies);
        match replies.find(|(link, _)| link.identity().node == number).map(|(_, reply)| reply) {
            None => Err("it has not started yet".to_owned()),
            Some(Ok(Response::Stats(stats))) => Ok(*stats),
            Some(Ok(_)) => Err("the reply is for another request".to_owned()),
            Some(Err(stoc::Error::Unreachable { .. })) => Err("it cannot be reached".to_owned()),
            Some(Err(error)) => Err(error.to_string()),
        }
    };
    let shown = stocs.into_iter().map(|(number, record)| {
        let stats = stats(number);
        Shown { node: number, record, stats }
    });
    shown.collect()
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl Shown {
    fn to_json(&self) -> Value {
        let Self { node, record, stats } = self;
        let (place, domain) = (&record.place, &record.domain);
        match stats {
            Ok(Stats { files, bytes, damaged_files, free_bytes }) => json!({
                "node": node, "address": place, "domain": domain, "files": files, "bytes": bytes,
                "damaged_files": damaged_files, "free_bytes": free_bytes,
            }),
            Err(error) => {
                json!({ "node": node, "address": place, "domain": domain, "error": error })
            }
        }
    }

    fn to_text(&self) -> String {
        let place = self.record.place.as_deref().unwrap_or("no address");
        let state = match &self.stats {
            Ok(Stats { files, bytes, damaged_files, free_bytes }) => {
                let damaged = match damaged_files {
                    0 => String::new(),
                    count => format!(", {count} damaged"),
                };
                format!("{files} files of {bytes} bytes{damaged}, {free_bytes} bytes free")
            }
            Err(error) => error.clone(),
        };
        let domain = self.record.domain.iter().map(|domain| format!(", domain {domain}"));
        let domain = domain.collect::<String>();
        format!("StoC {} at {place}{domain}: {state}", self.node)
    }
}

impl Status {
    /// Returns the lease of an LTC that has reported to the leader.
    fn lease_of(&self, ltc: u32) -> Option<&LtcLease> {
        self.leases.iter().flat_map(|report| &report.ltcs).find(|lease| lease.owner.ltc == ltc)
    }

    /// Returns the cover of a range.
    fn cover_of(&self, range: &Descriptor) -> Option<&RangeLease> {
        let mut all = self.leases.iter().flat_map(|report| &report.ranges);
        all.find(|cover| cover.range == range.id)
    }

    /// Returns why a range is not served, or does not move, if that is known.
    fn trouble_of(&self, range: &Descriptor) -> Option<String> {
        let cover = self.cover_of(range)?;
        if let Some(ltc) = cover.ordered {
            return Some(format!("LTC {ltc} has the order to open it"));
        }
        if let Some(target) = range.state.target()
            && self.lease_of(target).is_none_or(|lease| lease.left.is_zero())
        {
            return Some(format!("LTC {target} has no lease, so the move waits"));
        }
        match (range.owner, cover.is_covered) {
            (Some(owner), false) => Some(format!("LTC {} has no lease for it", owner.ltc)),
            _ => None,
        }
    }

    fn to_json(&self) -> Value {
        let ltcs = self.ltcs.iter().map(|(node, record)| {
            let LtcRecord { given, place, is_draining } = record;
            let lease = self.lease_of(*node);
            json!({
                "node": node, "address": place, "start": given, "draining": is_draining,
                "lease_ms": lease.map(|lease| milliseconds(lease.left)),
                "silent_ms": lease.map(|lease| milliseconds(lease.silent)),
            })
        });
        let ranges = self.ranges.iter().map(|range| {
            let cover = self.cover_of(range);
            json!({
                "range": range.id.0, "keyspace": range.keyspace, "epoch": range.epoch.0,
                "owner": range.owner.map(|owner| owner.ltc), "state": range.state.name(),
                "target": range.state.target(),
                "covered": cover.map(|cover| cover.is_covered),
                "ordered": cover.and_then(|cover| cover.ordered),
                "trouble": self.trouble_of(range),
            })
        });
        let (ltcs, ranges) = (ltcs.collect::<Vec<_>>(), ranges.collect::<Vec<_>>());
        json!({
            "cluster": self.cluster,
            "leadership": self.leases.as_ref().ok().map(|report| report.term),
            "leases_error": self.leases.as_ref().err(),
            "stocs": self.stocs.iter().map(Shown::to_json).collect::<Vec<_>>(),
            "ltcs": ltcs,
            "ranges": ranges,
        })
    }

    fn print(&self) -> Outcome {
        output::line(&format!("cluster {}", self.cluster))?;
        if let Err(error) = &self.leases {
            output::line(&format!("leases are unknown: {error}"))?;
        }
        self.stocs.iter().try_for_each(|stoc| output::line(&stoc.to_text()))?;
        for (node, LtcRecord { place, is_draining, .. }) in &self.ltcs {
            let place = place.as_deref().unwrap_or("no address");
            let ranges = self.ranges.iter();
            let owned = ranges.filter(|range| range.owner.is_some_and(|it| it.ltc == *node));
            let lease = match self.lease_of(*node) {
                Some(LtcLease { left, .. }) if !left.is_zero() => {
                    format!(", lease for {:.1} s", left.as_secs_f64())
                }
                Some(LtcLease { silent, .. }) => {
                    format!(", no lease: silent for {:.0} s", silent.as_secs_f64())
                }
                None if self.leases.is_ok() => ", no lease".to_owned(),
                None => String::new(),
            };
            let draining = if *is_draining { ", draining" } else { "" };
            let count = owned.count();
            output::line(&format!("LTC {node} at {place}: {count} ranges{lease}{draining}"))?;
        }
        self.ranges.iter().try_for_each(|range| output::line(&self.line_of(range)))
    }

    fn line_of(&self, range: &Descriptor) -> String {
        let owner = range.owner.map_or("no LTC".to_owned(), |owner| format!("LTC {}", owner.ltc));
        let (id, keyspace, epoch) = (range.id, &range.keyspace, range.epoch);
        let (start, state) = (range.start.escape_ascii(), range.state.name());
        let target = range.state.target().map(|target| format!(" to LTC {target}"));
        let trouble = self.trouble_of(range).map(|trouble| format!("; {trouble}"));
        format!(
            "range {id} of keyspace {keyspace}, from \"{start}\": {state} at {owner}{}, epoch \
             {epoch}{}",
            target.unwrap_or_default(),
            trouble.unwrap_or_default()
        )
    }
}
