//! `thermocline ltc`: an LTC, which serves the ranges that the coordinator gives it.

use std::sync::Arc;
use std::time::Duration;

use coordinator::Coordinator;
use ltc::{Beats, Closing, Ltc, RangeService, RemoteStocs, ServeOptions};
use thermocline::SharedParts;
use wire::{Identity, Role};

use super::node::Process;
use crate::commands::{Context, serving};
use crate::failure::{Failure, Kind, Outcome};

/// Settings of databases in a directory. The log and the tables of an LTC are on StoCs.
const OF_DIRECTORIES: [&str; 4] = ["durability", "sync-interval", "engine", "io"];
/// Threads of requests.
const THREADS: usize = 16;
/// Time that the ranges have to be closed at the end.
const STOP_MAX: Duration = Duration::from_secs(20);

pub(super) fn run(context: &Context) -> Outcome {
    let process = Process::new(context, Role::Ltc)?;
    let database = context.settings.database().map_err(Failure::usage)?;
    let ranges = context.settings.ranges().map_err(Failure::usage)?;
    context.settings.refuse_flags(&OF_DIRECTORIES, "an LTC").map_err(Failure::usage)?;
    let mut signals = serving::take_signals()?;
    let (cluster, number) = (process.tls.who().cluster, process.member.node);
    let environment = process.environment.clone();
    let mut bound = process.bind()?;
    let (place, metrics) = (bound.place.clone(), bound.metrics.take());
    let owner = {
        let client = process.client()?;
        let join = || Coordinator::join(process.store(&client), cluster);
        let Some(coordinator) = process.reach(&mut signals, join)? else { return Ok(()) };
        let begin = || coordinator.begin_ltc(number);
        let Some(owner) = process.reach(&mut signals, begin)? else { return Ok(()) };
        owner
    };
    let of_thread = |error: std::io::Error| Failure::io("a thread", &error);
    let service = Arc::new(RangeService::new(THREADS, &environment).map_err(of_thread)?);
    let named = Identity { incarnation: owner.start, ..process.identity() };
    let node = Arc::new(process.server(bound, Arc::clone(&service) as _, named)?);
    let store = process.store(&node);
    let join = || Coordinator::join(Arc::clone(&store) as _, cluster);
    let Some(coordinator) = process.reach(&mut signals, join)? else { return Ok(()) };
    let coordinator = Arc::new(coordinator);
    let list = || {
        let (coordinator, node) = (Arc::clone(&coordinator), Arc::clone(&node));
        let choice = process.member.stoc_choice;
        let stocs = RemoteStocs::new(coordinator, node, choice, environment.clone());
        stocs.map_err(|error| match error {
            ltc::Error::Coordinator(error) => error,
            error => coordinator::Error::Rejected(error.to_string()),
        })
    };
    let Some(stocs) = process.reach(&mut signals, list)? else { return Ok(()) };
    let stocs = Arc::new(stocs);
    // It can be reached from now on.
    let complete = || coordinator.complete_ltc(owner, &place);
    let Some(()) = process.reach(&mut signals, complete)? else { return Ok(()) };
    let ltc = Ltc::new(
        Arc::clone(&coordinator),
        Arc::clone(&stocs) as _,
        owner,
        ranges,
        environment.clone(),
        Closing::default(),
    );
    let memory_bytes = database.memory_bytes;
    let options = ServeOptions { memory_bytes, database, shared: SharedParts::default() };
    let (parts, of_coordinator) = ((Arc::new(ltc), stocs), (store, coordinator));
    let beats = Beats::start(parts, of_coordinator, Arc::clone(&service), options, &environment);
    let beats = Arc::new(beats.map_err(|error| Failure::new(Kind::Error, error))?);
    let shown = Arc::clone(&beats);
    let metrics = process.serve_metrics(metrics, move || shown.metrics())?;
    process.announce(context, &place, metrics.as_ref())?;
    let ended = process.attend(&mut signals, || {
        beats
            .failure()
            .map(|error| Failure::new(Kind::Error, format_args!("LTC {number}: {error}")))
    });
    drop(metrics);
    // Other LTCs can open its ranges without a wait for the end of a lease.
    beats.stop(STOP_MAX);
    node.stop();
    service.stop();
    ended
}
