//! The server on numbered databases that are apart, each a [`Db`] of its own.

use std::collections::BTreeMap;
use std::sync::Arc;

use thermocline::environment::Environment;
use thermocline::sync::locks::Mutex;
use thermocline::telemetry::Registry;
use thermocline::{Db, PauseExpiry, SharedParts};

use super::client::Client;
use super::{model, options};
use crate::{Bound, Databases, Server};

/// Databases in memory, on devices that stay.
#[derive(Default)]
struct InMemory {
    devices: Mutex<BTreeMap<u8, Arc<dyn thermocline::Device>>>,
    open: Mutex<BTreeMap<u8, Db>>,
    shared: SharedParts,
    /// Databases from this number on cannot be made.
    most: Option<u8>,
}

impl InMemory {
    fn open(&self, index: u8) -> Db {
        let mut devices = self.devices.lock();
        let device = devices.entry(index).or_insert_with(thermocline::device::memory);
        let database = index.to_string();
        let telemetry = self.shared.telemetry.with_labels(&[("range", &database)]);
        let shared = SharedParts { telemetry, ..self.shared.clone() };
        let options =
            thermocline::Options { shared: Some(shared), ..thermocline::Options::default() };
        Db::open_on(Arc::clone(device), &database, options).expect("memory takes it")
    }

    /// Closes all, as a process that ends, and opens them again.
    fn reopen(&self) {
        let mut open = self.open.lock();
        for (index, db) in open.iter_mut() {
            db.close().expect("memory takes it");
            *db = self.open(*index);
        }
    }
}

impl Databases for InMemory {
    fn existing(&self) -> Vec<(u8, Db)> {
        self.open.lock().iter().map(|(index, db)| (*index, db.clone())).collect()
    }

    fn make(&self, index: u8) -> Result<Db, String> {
        if self.most.is_some_and(|most| index >= most) {
            return Err("there is no memory for it".to_owned());
        }
        let mut open = self.open.lock();
        Ok(open.entry(index).or_insert_with(|| self.open(index)).clone())
    }

    fn pause_expiry(&self) -> PauseExpiry {
        self.shared.pause_expiry.clone()
    }

    fn memory_bytes(&self) -> (u64, u64) {
        let all = self.open.lock();
        let each = all.values().map(Db::memory_bytes);
        each.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }
}

fn serve(databases: &Arc<InMemory>, registry: &Registry) -> Server {
    let bound = Bound::new(options()).expect("there is a port");
    let databases = Arc::clone(databases) as Arc<dyn Databases>;
    let served = bound.serve_databases(databases, registry.clone(), Environment::real());
    served.expect("it starts")
}

#[test]
fn random_commands_get_the_replies_of_the_model() {
    let databases = Arc::new(InMemory::default());
    let server = serve(&databases, &databases.shared.telemetry);
    let mut clients: Vec<Client> = (0..3).map(|_| Client::connect(server.addr())).collect();
    model::compare(&mut clients, model::seed(), 1_500);
    server.stop();
    server.wait().expect("it ends well");
}

/// Each database keeps its keys over an end of the process, and one that is new has none.
#[test]
fn each_database_is_found_again() {
    let databases = Arc::new(InMemory::default());
    let server = serve(&databases, &databases.shared.telemetry);
    let mut client = Client::connect(server.addr());
    for index in [0, 3, 15] {
        client.run(&format!("SELECT {index}"));
        assert_eq!(client.run(&format!("SET key {index}")), "+OK");
    }
    server.stop();
    server.wait().expect("it ends well");
    databases.reopen();
    let server = serve(&databases, &databases.shared.telemetry);
    let mut client = Client::connect(server.addr());
    for (index, expected) in [(0, "\"0\""), (3, "\"3\""), (15, "\"15\""), (7, "nil")] {
        client.run(&format!("SELECT {index}"));
        assert_eq!(client.run("GET key"), expected, "{index}");
    }
    let keyspaces = client.run("INFO keyspace");
    for line in ["db0:keys=1", "db3:keys=1", "db15:keys=1"] {
        assert!(keyspaces.contains(line), "{keyspaces}");
    }
    client.run("FLUSHALL");
    for index in [0, 3, 15] {
        client.run(&format!("SELECT {index}"));
        assert_eq!(client.run("DBSIZE"), ":0");
    }
    server.stop();
    server.wait().expect("it ends well");
}

/// A command or a transaction that needs two databases is refused by their numbers, and changes
/// nothing.
#[test]
fn commands_over_two_databases_are_refused() {
    let databases = Arc::new(InMemory::default());
    let server = serve(&databases, &databases.shared.telemetry);
    let mut client = Client::connect(server.addr());
    client.run("SET key 1");
    let refused = client.run("COPY key other DB 2");
    assert!(refused.starts_with("-ERR databases 0 and 2 are two ranges"), "{refused}");
    for read in ["GET key", "SET key 2"] {
        for line in ["MULTI", "SET key 3", "SELECT 2", read] {
            client.run(line);
        }
        let refused = client.run("EXEC");
        assert!(refused.starts_with("-EXECABORT"), "{refused}");
        assert!(refused.contains("databases 0 and 2"), "{refused}");
        assert_eq!(client.run("GET key"), "\"1\"");
    }
    // One database, also another one than the selected, is fine.
    for line in ["MULTI", "SELECT 2", "SET key 4", "INCR key"] {
        client.run(line);
    }
    assert!(client.run("EXEC").contains('5'));
    assert_eq!(client.run("GET key"), "\"5\"");
    assert_eq!(client.run("COPY key other DB 2"), ":1");
    // FLUSHALL within a transaction changes two databases.
    for line in ["MULTI", "FLUSHALL"] {
        client.run(line);
    }
    let refused = client.run("EXEC");
    assert!(refused.contains("two ranges"), "{refused}");
    assert_eq!(client.run("GET other"), "\"5\"");
    server.stop();
    server.wait().expect("it ends well");
}

#[test]
fn a_database_that_cannot_be_made_refuses_its_writes() {
    let databases = Arc::new(InMemory { most: Some(1), ..InMemory::default() });
    let server = serve(&databases, &databases.shared.telemetry);
    let mut client = Client::connect(server.addr());
    assert_eq!(client.run("SET key 1"), "+OK");
    client.run("SELECT 1");
    let refused = client.run("SET key 1");
    assert!(refused.contains("there is no memory for it"), "{refused}");
    assert_eq!(client.run("GET key"), "nil");
    server.stop();
    server.wait().expect("it ends well");
}

/// The metrics of each database have its number.
#[test]
fn metrics_name_the_range() {
    let databases = Arc::new(InMemory::default());
    let registry = databases.shared.telemetry.clone();
    let server = serve(&databases, &registry);
    let mut client = Client::connect(server.addr());
    for index in [0, 3] {
        client.run(&format!("SELECT {index}"));
        client.run("SET key value");
    }
    client.run("INFO thermocline");
    let page = registry.snapshot().render_prometheus();
    for range in ["range=\"0\"", "range=\"3\""] {
        assert!(page.contains(range), "{page}");
    }
    server.stop();
    server.wait().expect("it ends well");
}
