//! `thermocline cluster status`: the processes and the ranges of a cluster.

use std::sync::Arc;
use std::time::Duration;

use coordinator::{Coordinator, Descriptor, LtcRecord, StocRecord};
use serde_json::json;
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

pub(super) fn run(context: &Context) -> Outcome {
    let process = Process::new(context, Role::Admin)?;
    let node = process.client()?;
    let coordinator = Coordinator::join(process.store(&node), process.tls.who().cluster);
    let coordinator = coordinator.map_err(|error| of_coordinator(&error))?;
    let stocs = coordinator.stocs().map_err(|error| of_coordinator(&error))?;
    let shown = stocs.into_iter().map(|(number, record)| {
        let stats = ask(&process, &node, number, &record);
        Shown { node: number, record, stats }
    });
    let stocs: Vec<Shown> = shown.collect();
    let ranges = coordinator.ranges().map_err(|error| of_coordinator(&error))?;
    let ltcs = coordinator.ltcs().map_err(|error| of_coordinator(&error))?;
    let cluster = format!("{:016x}", process.tls.who().cluster);
    match context.shared.json {
        true => as_json(&cluster, (&stocs, &ltcs), &ranges),
        false => as_text(&cluster, (&stocs, &ltcs), &ranges),
    }
}

/// Asks a StoC for its figures.
fn ask(process: &Process, node: &Node, number: u32, record: &StocRecord) -> Result<Stats, String> {
    let (Some(cookie), Some(place)) = (record.cookie, &record.place) else {
        return Err("it has not started yet".to_owned());
    };
    let incarnation = record.completed.unwrap_or(0);
    let cluster = process.tls.who().cluster;
    let identity = Identity { cluster, node: number, cookie, incarnation };
    let link: Arc<dyn Link> = Arc::new(RemoteLink::new(node, identity, place));
    match stoc::call(&link, &Request::Stats, (SLOW, &process.environment)) {
        Ok(Response::Stats(stats)) => Ok(stats),
        Ok(_) => Err("the reply is for another request".to_owned()),
        Err(stoc::Error::Unreachable { .. }) => Err("it cannot be reached".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

fn as_json(
    cluster: &str,
    (stocs, ltcs): (&[Shown], &[(u32, LtcRecord)]),
    ranges: &[Descriptor],
) -> Outcome {
    let ltcs = ltcs.iter().map(|(node, record)| {
        let LtcRecord { given, place, is_draining } = record;
        json!({ "node": node, "address": place, "start": given, "draining": is_draining })
    });
    let ltcs = ltcs.collect::<Vec<_>>();
    let stocs = stocs.iter().map(|Shown { node, record, stats }| {
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
    });
    let ranges = ranges.iter().map(|range| {
        let owner = range.owner.map(|owner| owner.ltc);
        json!({
            "range": range.id.0, "keyspace": range.keyspace, "epoch": range.epoch.0,
            "owner": owner, "state": format!("{:?}", range.state),
        })
    });
    let (stocs, ranges) = (stocs.collect::<Vec<_>>(), ranges.collect::<Vec<_>>());
    output::json_line(
        &json!({ "cluster": cluster, "stocs": stocs, "ltcs": ltcs, "ranges": ranges }),
    )
}

fn as_text(
    cluster: &str,
    (stocs, ltcs): (&[Shown], &[(u32, LtcRecord)]),
    ranges: &[Descriptor],
) -> Outcome {
    output::line(&format!("cluster {cluster}"))?;
    for Shown { node, record, stats } in stocs {
        let place = record.place.as_deref().unwrap_or("no address");
        let state = match stats {
            Ok(Stats { files, bytes, damaged_files, free_bytes }) => {
                let damaged = match damaged_files {
                    0 => String::new(),
                    count => format!(", {count} damaged"),
                };
                format!("{files} files of {bytes} bytes{damaged}, {free_bytes} bytes free")
            }
            Err(error) => error.clone(),
        };
        let domain = record.domain.iter().map(|domain| format!(", domain {domain}"));
        let domain = domain.collect::<String>();
        output::line(&format!("StoC {node} at {place}{domain}: {state}"))?;
    }
    for (node, LtcRecord { place, is_draining, .. }) in ltcs {
        let place = place.as_deref().unwrap_or("no address");
        let count = ranges.iter().filter(|range| range.owner.is_some_and(|it| it.ltc == *node));
        let draining = if *is_draining { ", draining" } else { "" };
        output::line(&format!("LTC {node} at {place}: {} ranges{draining}", count.count()))?;
    }
    for range in ranges {
        let owner = range.owner.map_or("no LTC".to_owned(), |owner| format!("LTC {}", owner.ltc));
        let (id, keyspace, state) = (range.id, &range.keyspace, range.state);
        let start = range.start.escape_ascii();
        output::line(&format!(
            "range {id} of keyspace {keyspace}, from \"{start}\": {state:?} at {owner}, epoch {}",
            range.epoch
        ))?;
    }
    Ok(())
}
