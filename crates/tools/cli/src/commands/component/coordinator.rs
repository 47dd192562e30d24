//! `thermocline coordinator`: the records of a cluster, in a database or in an etcd.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use coordinator::{
    Campaign, Coordinator, EtcdOptions, EtcdStore, EtcdTls, Leases, LocalStore, Store, StoreService,
};
use thermocline::Db;
use wire::Role;

use super::node::{Bound, Process, of_coordinator};
use crate::commands::{Context, serving};
use crate::failure::{Failure, Kind, Outcome};

/// Memory of the database.
const MEMORY_BYTES: u64 = 64 << 20;
/// Time after which a leader that etcd does not hear leads no more.
const LEASE: Duration = Duration::from_secs(5);
/// Time between two renewals of the lease, or attempts to lead.
const CAMPAIGN: Duration = Duration::from_secs(1);
/// Time that a call of etcd has.
const ETCD_CALL: Duration = Duration::from_secs(2);

pub(super) fn run(context: &Context) -> Outcome {
    let process = Process::new(context, Role::Coordinator)?;
    if process.member.address.port() == 0 {
        return Err(Failure::usage(
            "a coordinator needs a fixed port: give its address, like --address 127.0.0.1:7400",
        ));
    }
    match process.member.etcd.is_empty() {
        true => run_with_database(context, &process),
        false => run_with_etcd(context, &process),
    }
}

fn run_with_database(context: &Context, process: &Process) -> Outcome {
    // A port that another process has must leave no database behind.
    let bound = process.bind()?;
    let options = thermocline::Options {
        memory_bytes: MEMORY_BYTES,
        background_threads: 1,
        environment: process.environment.clone(),
        ..thermocline::Options::default()
    };
    let dir = &process.member.data_dir;
    let db = Db::open(dir, options).map_err(|error| Failure::opening(dir, error))?;
    let store = LocalStore::open(db.clone()).map_err(|error| Failure::opening(dir, error))?;
    let store: Arc<dyn Store> = Arc::new(store);
    let cluster = process.tls.who().cluster;
    let found = Coordinator::found(Arc::clone(&store), cluster);
    let served = match found {
        Ok(coordinator) => {
            let service = service_of(process, store)?;
            let leases = Leases::begin(
                Arc::new(coordinator),
                coordinator::LEASE,
                || true,
                &process.environment,
            );
            match leases {
                Ok(leases) => {
                    service.lead(Some(Arc::new(leases)));
                    serve(context, process, service, bound)
                }
                Err(error) => Err(of_coordinator(&error)),
            }
        }
        Err(error) => Err(of_coordinator(&error)),
    };
    db.close()?;
    served
}

fn run_with_etcd(context: &Context, process: &Process) -> Outcome {
    let bound = process.bind()?;
    let cluster = process.tls.who().cluster;
    let options = EtcdOptions {
        endpoints: process.member.etcd.clone(),
        tls: etcd_tls(process)?,
        cluster,
        lease: LEASE,
        call: ETCD_CALL,
        environment: process.environment.clone(),
    };
    let store = EtcdStore::new(&options);
    let store = Arc::new(store.map_err(|error| Failure::new(Kind::Error, error))?);
    let is_over = Arc::new(AtomicBool::new(false));
    let service = service_of(process, Arc::clone(&store) as _)?;
    let mut campaign = Campaign::new(
        (store, Arc::clone(&service)),
        (cluster, process.member.address.to_string()),
        coordinator::LEASE,
        &process.environment,
        Box::new(|line| eprintln!("thermocline: {line}")),
    );
    let (environment, ends) = (process.environment.clone(), Arc::clone(&is_over));
    let campaigning = process.environment.spawn("campaign", move || {
        while !ends.load(SeqCst) {
            campaign.step();
            environment.sleep(CAMPAIGN);
        }
        // Another coordinator leads without a pause.
        let _ = campaign.resign();
    });
    let campaigning = campaigning.map_err(|error| Failure::io("a thread", &error))?;
    let served = serve(context, process, service, bound);
    is_over.store(true, SeqCst);
    let _ended = campaigning.join();
    served
}

/// Reads the certificates for etcd.
fn etcd_tls(process: &Process) -> Result<Option<EtcdTls>, Failure> {
    let member = &process.member;
    let read = |path: &PathBuf| {
        let found = std::fs::read_to_string(path).map(String::into_bytes);
        found.map_err(|error| Failure::io(path.display(), &error))
    };
    let is_secret = member.etcd.iter().any(|url| url.starts_with("https://"));
    let Some(ca) = &member.etcd_ca else {
        return match is_secret {
            true => Err(Failure::usage("an etcd with https needs etcd-ca")),
            false => Ok(None),
        };
    };
    let client = match (&member.etcd_certificate, &member.etcd_key) {
        (Some(certificate), Some(key)) => Some((read(certificate)?, read(key)?)),
        (None, None) => None,
        _ => return Err(Failure::usage("etcd-certificate and etcd-key belong together")),
    };
    Ok(Some(EtcdTls { ca: read(ca)?, client }))
}

/// Returns the service of a store.
fn service_of(process: &Process, store: Arc<dyn Store>) -> Result<Arc<StoreService>, Failure> {
    let service = StoreService::new(store, &process.environment);
    Ok(Arc::new(service.map_err(|error| Failure::io("a thread", &error))?))
}

/// Serves until a signal.
fn serve(
    context: &Context,
    process: &Process,
    service: Arc<StoreService>,
    mut bound: Bound,
) -> Outcome {
    let mut signals = serving::take_signals()?;
    let (place, metrics) = (bound.place.clone(), bound.metrics.take());
    let node = process.server(bound, Arc::clone(&service) as _, process.identity())?;
    let shown = Arc::clone(&service);
    let metrics = process.serve_metrics(metrics, move || shown.metrics())?;
    process.announce(context, &place, metrics.as_ref())?;
    let ended = process.attend(&mut signals, || None);
    drop(metrics);
    node.stop();
    service.stop();
    ended
}
