//! Ranges over StoCs and a coordinator of other processes, behind a network that is cut.

use std::time::Duration;

use coordinator::Owner;
use logc::Closing;
use rand::RngExt;
use stoc::RangeId;
use wire::{Cut, Identity, Role};

use super::world::{Process, STOCS, StocProcess, World, identity, process};
use super::*;
use crate::{Ltc, RangeOptions, RemoteStocs, StocChoice};

/// An LTC that serves one range.
pub(super) struct Serving {
    process: Process,
    ltc: Ltc,
    pub(super) stocs: Arc<RemoteStocs>,
    pub(super) keyspace: Keyspace,
    closing: Closing,
}

impl World {
    /// Has an LTC take the range, whether another one has it or not.
    fn serve(&self, ltc: u32, start: u64) -> crate::Result<Serving> {
        self.serve_with((ltc, start), Duration::from_millis(300), Environment::real())
    }

    /// Does the same. A StoC without a reply for `slow` has failed, and `of_loads` has the clock of
    /// the load of StoCs.
    pub(super) fn serve_with(
        &self,
        (ltc, start): (u32, u64),
        slow: Duration,
        of_loads: Environment,
    ) -> crate::Result<Serving> {
        let named = Identity { incarnation: start, ..identity(Role::Ltc, ltc) };
        let process = process(&self.network, named, None);
        let coordinator = self.coordinator(&process.node);
        let environment = Environment::real();
        let node = Arc::clone(&process.node);
        let choice = StocChoice::default();
        let stocs = RemoteStocs::new(Arc::clone(&coordinator), node, choice, of_loads)?;
        let stocs = Arc::new(stocs);
        let (owner, closing) = (Owner { ltc, start }, Closing::default());
        let ranges = RangeOptions { slow, ..RangeOptions::default() };
        let served = Ltc::new(
            coordinator,
            Arc::clone(&stocs) as _,
            owner,
            ranges,
            environment,
            closing.clone(),
        );
        let options = thermocline::Options {
            memory_bytes: 64 << 20,
            background_threads: 1,
            ..thermocline::Options::default()
        };
        let db = served.open(RangeId(1), options)?;
        let engine = KeyspaceOptions { engine: EngineKind::Lsm, ..KeyspaceOptions::default() };
        let keyspace = db.keyspace("data", engine)?.durability(Durability::Flushed);
        Ok(Serving { process, ltc: served, stocs, keyspace, closing })
    }

    /// Cuts an LTC off from a StoC, or ends the cut.
    fn cut(&self, serving: &Serving, number: u32, cut: Option<Cut>) {
        let running = self.stocs.get(&number).and_then(|stoc| stoc.running.as_ref());
        let Some((process, _)) = running else { return };
        self.network.cut(serving.process.endpoint, process.endpoint, cut);
    }
}

impl Serving {
    /// Ends it without a close.
    fn kill(self) {
        self.closing.close();
        self.process.node.stop();
        drop(self.ltc.close());
    }
}

#[test]
fn a_range_survives_the_end_of_stocs_and_of_its_owner() {
    let mut world = World::new();
    let first = world.serve(1, 1).expect("all StoCs are up");
    put(&first.keyspace, 0..200);
    first.keyspace.flush().expect("all StoCs are up");
    world.stop_stoc(2);
    put(&first.keyspace, 200..400);
    check(&first.keyspace, 0..400);
    world.start_stoc(2);
    assert!(first.stocs.refresh().is_ok());
    world.stop_stoc(3);
    put(&first.keyspace, 400..500);
    first.keyspace.flush().expect("four StoCs are up");
    put(&first.keyspace, 500..600);
    world.start_stoc(3);
    first.kill();
    let second = world.serve(2, 1).expect("all StoCs are up");
    check(&second.keyspace, 0..600);
    put(&second.keyspace, 600..700);
    second.ltc.close().expect("all StoCs are up");
    let third = world.serve(1, 2).expect("all StoCs are up");
    check(&third.keyspace, 0..700);
}

/// R1: an LTC that has lost its range without noticing acknowledges nothing any more.
#[test]
fn an_old_owner_acknowledges_nothing() {
    let world = World::new();
    let first = world.serve(1, 1).expect("all StoCs are up");
    put(&first.keyspace, 0..100);
    let second = world.serve(2, 1).expect("all StoCs are up");
    for key in 100..110_u32 {
        assert!(first.keyspace.put(&key.to_be_bytes(), b"late").is_err(), "{key}");
    }
    check(&second.keyspace, 0..100);
    assert_eq!(second.keyspace.get(&100_u32.to_be_bytes()).expect("it is open"), None);
    put(&second.keyspace, 100..200);
    first.kill();
    check(&second.keyspace, 0..200);
}

/// Owners, StoCs and connections that end at random. Two of five StoCs at a time are away.
#[test]
fn acknowledged_writes_survive_random_faults() {
    for seed in 0..4 {
        let mut random = Environment::seeded(seed).random("remote ranges");
        let mut world = World::new();
        let mut serving = world.serve(1, 1).expect("all StoCs are up");
        let mut acknowledged = 0;
        for step in 1..=12_u64 {
            let away = [random.random_range(1..=STOCS), random.random_range(1..=STOCS)];
            for (number, fault) in away.into_iter().zip([random.random_range(0..3), 0]) {
                match fault {
                    0 => world.stop_stoc(number),
                    1 => world.cut(&serving, number, Some(Cut::Reset)),
                    _ => world.cut(&serving, number, Some(Cut::Silent)),
                }
            }
            put(&serving.keyspace, acknowledged..acknowledged + 20);
            acknowledged += 20;
            if random.random() {
                serving.keyspace.flush().expect("three StoCs are up");
            }
            for number in away {
                world.cut(&serving, number, None);
                let is_stopped = |stoc: &StocProcess| stoc.running.is_none();
                if world.stocs.get(&number).is_some_and(is_stopped) {
                    world.start_stoc(number);
                }
            }
            assert!(serving.stocs.refresh().is_ok());
            if step % 3 == 0 {
                let next = world.serve(step as u32 % 2 + 1, step + 1);
                let next = next.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
                check(&next.keyspace, 0..acknowledged);
                std::mem::replace(&mut serving, next).kill();
            }
        }
    }
}
