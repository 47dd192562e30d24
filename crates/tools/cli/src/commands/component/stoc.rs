//! `thermocline stoc`: a StoC in a directory.

use std::sync::Arc;
use std::time::Duration;

use coordinator::Coordinator;
use stoc::{Limits, Stoc, StocService};
use wire::{Identity, Role};

use super::node::Process;
use crate::commands::{Context, serving};
use crate::failure::{Failure, Kind, Outcome};

/// The file that a running StoC has locked.
const LOCK: &str = "LOCK";
/// Time after which a request that is under way ends the process. (S6)
const STALL_MAX: Duration = Duration::from_secs(20);
/// Threads of changes, and of reads.
const THREADS: usize = 8;

pub(super) fn run(context: &Context) -> Outcome {
    let process = Process::new(context, Role::Stoc)?;
    let mut signals = serving::take_signals()?;
    let bound = process.bind()?;
    let dir = process.member.data_dir.display().to_string();
    let of_device = |error: device::Error| match error {
        device::Error::Locked { .. } => {
            Failure::new(Kind::InUse, format_args!("StoC {dir}: another process has it open"))
        }
        error => Failure::new(Kind::Error, format_args!("StoC {dir}: {error}")),
    };
    let device = device::open(&process.member.data_dir, device::Options::default());
    let device = device.map_err(of_device)?;
    let _lock = device.lock(LOCK).map_err(of_device)?;
    let client = process.client()?;
    let (cluster, number) = (process.tls.who().cluster, process.member.node);
    let join = || Coordinator::join(process.store(&client), cluster);
    let Some(coordinator) = process.reach(&mut signals, join)? else { return Ok(()) };
    let begin = || coordinator.begin_stoc(number);
    let Some(start) = process.reach(&mut signals, begin)? else { return Ok(()) };
    let options = stoc::Options {
        cluster,
        node: number,
        incarnation: start.incarnation,
        last_incarnation: start.last_incarnation,
        limits: Limits::default(),
        environment: process.environment.clone(),
    };
    let of_stoc = |error: stoc::Error| {
        let kind = match error {
            stoc::Error::Damaged(_) => Kind::Damaged,
            stoc::Error::Newer(_) => Kind::NewerVersion,
            _ => Kind::Error,
        };
        Failure::new(kind, format_args!("StoC {dir}: {error}"))
    };
    let stoc = Arc::new(Stoc::open(device, &options).map_err(of_stoc)?);
    let service = StocService::new(Arc::clone(&stoc), THREADS, &process.environment);
    let service = service.map_err(|error| Failure::io("a thread", &error))?;
    let service = Arc::new(service);
    let place = bound.place.clone();
    let identity = stoc.identity();
    let (cookie, incarnation) = (identity.cookie, identity.incarnation);
    let named = Identity { cookie, incarnation, ..process.identity() };
    let node = process.server(bound, Arc::clone(&service) as _, named)?;
    // It can be reached from now on.
    let complete = || coordinator.complete_stoc(identity, Some(&place));
    let Some(is_other) = process.reach(&mut signals, complete)? else { return Ok(()) };
    if is_other {
        eprintln!("thermocline: this StoC has lost its files: the others have them");
    }
    process.announce(context, &place)?;
    let ended = process.attend(&mut signals, || {
        if service.longest_run() > STALL_MAX {
            // A thread that waits for the device may never end, so nothing is joined.
            eprintln!(
                "thermocline: StoC {dir}: the device has not completed a request for {STALL_MAX:?}"
            );
            std::process::exit(Kind::Error as i32);
        }
        stoc.stopped().cloned().map(of_stoc)
    });
    node.stop();
    service.stop();
    ended
}
