//! `thermocline stoc`: a StoC in a directory.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use coordinator::{Coordinator, StocRecord};
use device::{Device, File};
use stoc::{Limits, Stoc, StocService, Throttle};
use wire::{Identity, Role};

use super::node::Process;
use super::releases::Releases;
use crate::commands::{Context, serving};
use crate::failure::{Failure, Kind, Outcome};

/// The file that a running StoC has locked.
const LOCK: &str = "LOCK";
/// Time after which a request that is under way ends the process. (S6)
const STALL_MAX: Duration = Duration::from_secs(20);
/// The way out if the files of a StoC cannot be used.
const OTHERS: &str = ". If the directory that was used last is lost, remove this one and start with \
                      --start-empty: the other StoCs have copies of its files";
/// Threads of changes, and of reads.
const THREADS: usize = 8;

pub(super) fn run(context: &Context, start_empty: bool) -> Outcome {
    let process = Process::new(context, Role::Stoc)?;
    let throttle = context.settings.throttle().map_err(Failure::usage)?;
    let mut signals = serving::take_signals()?;
    let dir = process.member.data_dir.display().to_string();
    let of_stoc = |error: stoc::Error| of_stoc(&dir, &error);
    let (cluster, number) = (process.tls.who().cluster, process.member.node);
    // The directory is judged before the start gets a number.
    let directory = open_directory(&process.member.data_dir, (cluster, number))?;
    let mut bound = process.bind()?;
    let client = process.client()?;
    let join = || Coordinator::join(process.store(&client), cluster);
    let Some(coordinator) = process.reach(&mut signals, join)? else { return Ok(()) };
    let known = || Ok(coordinator.stocs()?.into_iter().find(|(node, _)| *node == number));
    let Some(known) = process.reach(&mut signals, known)? else { return Ok(()) };
    let known = known.map(|(_, record)| record);
    check_directory(directory.stored, known.as_ref(), (number, &dir), start_empty)?;
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
    let stoc = Arc::new(Stoc::open(Arc::clone(&directory.device), &options).map_err(of_stoc)?);
    let service = StocService::new(Arc::clone(&stoc), THREADS, &process.environment);
    let service = service.map_err(|error| Failure::io("a thread", &error))?;
    let service = Arc::new(match throttle {
        Some(options) => service.with_throttle(Throttle::new(options, &process.environment)),
        None => service,
    });
    let (place, metrics) = (bound.place.clone(), bound.metrics.take());
    let identity = stoc.identity();
    let (cookie, incarnation) = (identity.cookie, identity.incarnation);
    let named = Identity { cookie, incarnation, ..process.identity() };
    let node = process.server(bound, Arc::clone(&service) as _, named)?;
    // It can be reached from now on.
    let domain = process.member.domain.as_deref();
    let complete = || coordinator.complete_stoc(identity, Some(&place), domain);
    let Some(is_other) = process.reach(&mut signals, complete)? else { return Ok(()) };
    if is_other {
        eprintln!("thermocline: this StoC has started without the files that it had");
    }
    let shown = Arc::clone(&service);
    let metrics = process.serve_metrics(metrics, move || shown.metrics())?;
    process.announce(context, &place, metrics.as_ref())?;
    let releases = Releases::start(Arc::clone(&stoc), coordinator, &process.environment)?;
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
    drop(metrics);
    // It ends a call of the coordinator.
    client.stop();
    releases.stop();
    node.stop();
    service.stop();
    ended
}

/// The directory of a StoC, which stays locked.
struct Directory {
    device: Arc<dyn Device>,
    _lock: Arc<dyn File>,
    /// The StoC and its last start; none if the directory was empty.
    stored: Option<stoc::Identity>,
}

/// Compares the directory with the coordinator's record of the StoC.
///
/// # Errors
/// The record is older than the directory, or the directory is not the one that the StoC has.
fn check_directory(
    stored: Option<stoc::Identity>,
    known: Option<&StocRecord>,
    (number, dir): (u32, &str),
    start_empty: bool,
) -> Outcome {
    let has_storage = known.is_some_and(|record| record.cookie.is_some());
    let given = known.map_or(0, |record| record.given);
    if let Some(stored) = stored.filter(|stored| stored.incarnation > given) {
        let stored = stored.incarnation;
        return Err(Failure::new(
            Kind::Error,
            format_args!(
                "StoC {dir}: the directory is of start {stored}, and the last one that the \
                 coordinator has on record is {given}: the records of the coordinator were lost, or \
                 are an old copy. Start the coordinator with its last records"
            ),
        ));
    }
    if stored.is_none() && has_storage && !start_empty {
        return Err(Failure::new(
            Kind::Error,
            format_args!(
                "StoC {number} has a directory, and {dir} is empty: start it with the directory \
                 that it has. If that one is lost for good, --start-empty starts it without its \
                 files. The other StoCs have copies of them, and the old directory can never be \
                 used again"
            ),
        ));
    }
    Ok(())
}

/// Opens and locks the directory of a StoC.
///
/// # Errors
/// Another process has it, or it belongs to something else.
fn open_directory(dir: &Path, (cluster, node): (u64, u32)) -> Result<Directory, Failure> {
    let name = dir.display().to_string();
    let of_device = |error: device::Error| match error {
        device::Error::Locked { .. } => {
            Failure::new(Kind::InUse, format_args!("StoC {name}: another process has it open"))
        }
        error => Failure::new(Kind::Error, format_args!("StoC {name}: {error}")),
    };
    let device = device::open(dir, device::Options::default()).map_err(of_device)?;
    let entries = device.list("").map_err(of_device)?;
    let lock = device.lock(LOCK).map_err(of_device)?;
    let stored = stoc::identity(&*device).map_err(|error| of_stoc(&name, &error))?;
    match stored {
        Some(stored) if (stored.cluster, stored.node) != (cluster, node) => {
            let (found_cluster, found_node) = (stored.cluster, stored.node);
            Err(of_stoc(&name, &stoc::Error::OtherOwner { found_cluster, found_node }))
        }
        None if entries.iter().any(|entry| entry.name != LOCK) => Err(Failure::usage(
            format_args!("{name} is not the directory of a StoC, and it is not empty"),
        )),
        stored => Ok(Directory { device, _lock: lock, stored }),
    }
}

/// Returns the failure of a StoC.
fn of_stoc(dir: &str, error: &stoc::Error) -> Failure {
    let (kind, way_out) = match error {
        stoc::Error::Damaged(_) => (Kind::Damaged, OTHERS),
        stoc::Error::Newer(_) => (Kind::NewerVersion, ""),
        stoc::Error::OldCopy { .. } => (Kind::Error, OTHERS),
        _ => (Kind::Error, ""),
    };
    Failure::new(kind, format_args!("StoC {dir}: {error}{way_out}"))
}
