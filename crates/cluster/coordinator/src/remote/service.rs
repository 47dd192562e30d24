//! Serves the store to other processes.

use std::io;
use std::sync::Arc;

use environment::Environment;
use wire::{Handler, Lanes, Refusal, Request, Responder};

use super::messages::{StoreReply, StoreRequest, decode_store_request, encode_store_reply};
use crate::store::{Store, StoreError};

/// Threads of calls: a commit waits for a sync.
const THREADS: usize = 4;

/// A store that other processes use.
#[derive(Debug)]
pub struct StoreService {
    store: Arc<dyn Store>,
    threads: Lanes<()>,
    environment: Environment,
}

impl StoreService {
    /// Starts threads.
    ///
    /// # Errors
    /// The operating system has no thread.
    pub fn new(store: Arc<dyn Store>, environment: &Environment) -> io::Result<Self> {
        let threads = Lanes::new("coordinator", THREADS, environment)?;
        Ok(Self { store, threads, environment: environment.clone() })
    }

    /// Drops the calls that have not begun, and waits for the end of the others.
    pub fn stop(&self) {
        self.threads.stop();
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

impl Handler for StoreService {
    fn handle(&self, request: Request, responder: Responder) {
        let (store, environment) = (Arc::clone(&self.store), self.environment.clone());
        // Commits compare revisions, so their order does not matter.
        self.threads.add(None, move || {
            if request.is_dropped() {
                return;
            }
            if request.is_late(environment.now()) {
                return responder.refuse(Refusal::Late);
            }
            let reply = match decode_store_request(request.kind, &request.body) {
                Ok(request) => serve(&*store, request),
                Err(damage) => Err(StoreError::Unavailable(damage.to_string())),
            };
            responder.reply(encode_store_reply(&reply).into());
        });
    }
}
