//! Serves other processes: the store, and the reports of LTCs.

use std::io;
use std::sync::Arc;

use codec::Corruption;
use environment::Environment;
use sync::Mutex;
use thermocline::Registry;
use thermocline::telemetry::Snapshot;
use wire::{Handler, Kind, Lanes, Refusal, Request, Responder};

use super::messages::{
    LeaderReply, MakeKeyspace, StoreReply, StoreRequest, decode_beat, decode_clients,
    decode_keyspace, decode_store_request, encode_leader_reply, encode_store_reply,
};
use crate::error::Error;
use crate::leases::Leases;
use crate::store::{Store, StoreError};

/// Threads of calls: a commit waits for a sync.
const THREADS: usize = 4;

/// A store that other processes use, with the leases of LTCs while this coordinator leads.
#[derive(Debug)]
pub struct StoreService {
    store: Arc<dyn Store>,
    leases: Arc<Mutex<Option<Arc<Leases>>>>,
    threads: Lanes<()>,
    /// The threads of calls that only the leader serves.
    of_leader: Lanes<()>,
    environment: Environment,
}

impl StoreService {
    /// Starts threads.
    ///
    /// # Errors
    /// The operating system has no thread.
    pub fn new(store: Arc<dyn Store>, environment: &Environment) -> io::Result<Self> {
        let threads = Lanes::new("coordinator", THREADS, environment)?;
        let of_leader = Lanes::new("coordinator leases", THREADS, environment)?;
        let (leases, environment) = (Arc::default(), environment.clone());
        Ok(Self { store, leases, threads, of_leader, environment })
    }

    /// Gives leases from now on, or none: this coordinator leads, or does not lead.
    pub fn lead(&self, leases: Option<Arc<Leases>>) {
        *self.leases.lock() = leases;
    }

    /// Returns whether this coordinator gives leases.
    pub fn leads(&self) -> bool {
        self.leases.lock().is_some()
    }

    /// Returns the present metrics of the coordinator. The leader reads its records for them.
    pub fn metrics(&self) -> Snapshot {
        let present = Registry::default();
        let leases = self.leases.lock().clone();
        let leads = u64::from(leases.is_some());
        let help = "1 for the coordinator that leads, 0 for a stand-by.";
        present.set_gauges(&[("coordinator_leads", help, leads)]);
        if let Some(leases) = leases {
            // Without its store it does not know more.
            let _ = leases.show(&present);
        }
        present.snapshot()
    }

    /// Drops the calls that have not begun, and waits for the end of the others.
    pub fn stop(&self) {
        self.threads.stop();
        self.of_leader.stop();
    }
}

/// Makes a call.
fn serve(store: &dyn Store, request: StoreRequest) -> Result<StoreReply, StoreError> {
    match request {
        StoreRequest::Get { key } => store.get(&key).map(StoreReply::Record),
        StoreRequest::List { prefix } => store.list(&prefix).map(StoreReply::Records),
        StoreRequest::Commit { compares, writes } => {
            store.commit(&compares, &writes).map(StoreReply::Committed)
        }
    }
}

/// Makes a call that only the leader serves.
fn lead(leases: &Mutex<Option<Arc<Leases>>>, request: &Request) -> crate::Result<LeaderReply> {
    let leases = leases.lock().clone();
    let leases = leases.ok_or(StoreError::NotLeader)?;
    let rejected = |damage: Corruption| Error::Rejected(damage.to_string());
    match request.kind {
        Kind::Beat => {
            let beat = decode_beat(&request.body).map_err(rejected)?;
            // Its certificate names the LTC.
            if beat.owner.ltc != request.from.node {
                return Err(Error::NoLtc(beat.owner.ltc));
            }
            leases.beat(&beat).map(LeaderReply::Beat)
        }
        Kind::Clients => {
            let count = decode_clients(&request.body).map_err(rejected)?;
            leases.coordinator().next_clients(count.into()).map(LeaderReply::Clients)
        }
        Kind::Leases => leases.report().map(LeaderReply::Leases),
        _ => {
            let made = decode_keyspace(&request.body).map_err(rejected)?;
            let MakeKeyspace { name, options, splits } = made;
            leases.coordinator().create_keyspace(&name, &options, &splits)?;
            Ok(LeaderReply::Done)
        }
    }
}

impl Handler for StoreService {
    fn handle(&self, request: Request, responder: Responder) {
        let (store, environment) = (Arc::clone(&self.store), self.environment.clone());
        let leases = Arc::clone(&self.leases);
        let is_of_leader =
            matches!(request.kind, Kind::Beat | Kind::Clients | Kind::MakeKeyspace | Kind::Leases);
        // Reports wait for each other, and must not hold up the store.
        let threads = if is_of_leader { &self.of_leader } else { &self.threads };
        // Commits compare revisions, so their order does not matter.
        threads.add(None, move || {
            if request.is_dropped() {
                return;
            }
            if request.is_late(environment.now()) {
                return responder.refuse(Refusal::Late);
            }
            if is_of_leader {
                let reply = encode_leader_reply(&lead(&leases, &request));
                return responder.reply(reply.into());
            }
            let reply = match decode_store_request(request.kind, &request.body) {
                Ok(request) => serve(&*store, request),
                Err(damage) => Err(StoreError::Unavailable(damage.to_string())),
            };
            responder.reply(encode_store_reply(&reply).into());
        });
    }
}
