//! The server from outside, over loopback sockets.
//!
//! It runs on a plain map, to test the server alone, and on a real database, to test the two
//! together.

mod as_redis;
mod clearing;
mod client;
mod cold;
mod commands;
mod database;
mod figures;
mod gateways;
mod limits;
pub(crate) mod map_store;
mod memory;
mod model;
mod numbers;
mod poisoned;
mod ranges;
mod room;
mod saving;
mod subcommands;
mod threads;
mod transactions;
mod turns;
mod unordered;
mod waits;
mod walks;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use thermocline::Db;
use thermocline::environment::Environment;

use crate::{Bound, Options, Server};
use client::Client;
use map_store::MapStore;

/// Options that listen on a free loopback port.
fn options() -> Options {
    Options { listen: SocketAddr::from(([127, 0, 0, 1], 0)), threads: 2, ..Options::default() }
}

/// A server on an empty map, and the map.
fn start(options: Options) -> (Server, Arc<MapStore>) {
    let store = Arc::new(MapStore::default());
    let registry = thermocline::telemetry::Registry::default();
    let bound = Bound::new(options).expect("the ports are free");
    let server = bound.serve_on(store.clone(), Environment::real(), registry).expect("starts");
    (server, store)
}

/// A server on a new database in `dir`, and the database.
fn start_on_database(dir: &Path) -> (Server, Db) {
    let db = Db::open(dir, thermocline::Options::default()).expect("opens");
    let server = Server::start(&db, options(), Environment::real()).expect("starts");
    (server, db)
}

/// A server and a client of it.
fn serve() -> (Server, Client) {
    let (server, _) = start(options());
    let client = Client::connect(server.addr());
    (server, client)
}
