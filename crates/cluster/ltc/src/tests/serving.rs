//! LTCs that serve clients, behind a network that is cut.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use client::{Cluster, Outcome, Pair, Write};
use coordinator::RangeState;
use logc::Closing;
use rand::RngExt;
use stoc::RangeId;
use thermocline::{Change, Direction, Expiring, KeyRange, SharedParts};
use wire::{Cut, Identity, Role};

use super::world::{CLUSTER, LEASE, Process, World, identity, process};
use super::*;
use crate::{Beats, Ltc, RangeOptions, RangeService, RemoteStocs, ServeOptions, StocChoice};

/// An LTC that serves the ranges which the coordinator gives it.
pub(super) struct LtcProcess {
    pub(super) process: Process,
    service: Arc<RangeService>,
    pub(super) beats: Beats,
    closing: Closing,
}

/// A client.
pub(super) struct ClientProcess {
    process: Process,
    pub(super) cluster: Cluster,
}

pub(super) fn start_ltc(world: &World, number: u32) -> LtcProcess {
    let environment = Environment::real();
    let owner = world.local_coordinator().begin_ltc(number).expect("the store is open");
    let service = Arc::new(RangeService::new(8, &environment).expect("there are threads"));
    let named = Identity { incarnation: owner.start, ..identity(Role::Ltc, number) };
    let process = process(&world.network, named, Some(Arc::clone(&service) as _));
    let coordinator = world.coordinator(&process.node);
    let node = Arc::clone(&process.node);
    let choice = StocChoice::default();
    let stocs = RemoteStocs::new(Arc::clone(&coordinator), node, choice, environment.clone());
    let stocs = Arc::new(stocs.expect("it can be reached"));
    let closing = Closing::default();
    let ranges = RangeOptions { slow: Duration::from_millis(300), ..RangeOptions::default() };
    let ltc = Ltc::new(
        Arc::clone(&coordinator),
        Arc::clone(&stocs) as _,
        owner,
        ranges,
        environment.clone(),
        closing.clone(),
    );
    coordinator.complete_ltc(owner, &process.place).expect("it can be reached");
    let database =
        thermocline::Options { background_threads: 1, ..thermocline::Options::default() };
    let options =
        ServeOptions { memory_bytes: 512 << 20, database, shared: SharedParts::default() };
    let store = world.store(&process.node);
    let of_coordinator = (store, coordinator);
    let parts = (Arc::new(ltc), stocs);
    let beats = Beats::start(parts, of_coordinator, Arc::clone(&service), options, &environment);
    LtcProcess { process, service, beats: beats.expect("there are threads"), closing }
}

pub(super) fn client(world: &World, number: u32) -> ClientProcess {
    let process = process(&world.network, identity(Role::Client, number), None);
    let place = world.coordinator.place.clone();
    let mut options = client::Options::new(CLUSTER, vec![place]);
    options.limit = Duration::from_secs(20);
    let cluster = Cluster::connect(Arc::clone(&process.node), &options);
    ClientProcess { process, cluster: cluster.expect("it can be reached") }
}

impl LtcProcess {
    /// Ends it as a killed process ends.
    pub(super) fn kill(self) {
        self.closing.close();
        self.process.node.stop();
        self.service.stop();
        drop(self.beats);
    }

    /// Ends it in order.
    pub(super) fn stop(self) {
        self.beats.stop(Duration::from_secs(10));
        self.process.node.stop();
        self.service.stop();
    }
}

pub(super) fn await_that(what: &str, is_so: impl Fn() -> bool) {
    let done = (0..3000).any(|_| {
        let is_so = is_so();
        if !is_so {
            Environment::real().sleep(Duration::from_millis(5));
        }
        is_so
    });
    assert!(done, "{what}");
}

/// Returns a key with the stored form of its value.
fn stored(key: &[u8], value: &[u8]) -> Pair {
    let value = Some(Expiring { value, expiry_ms: None }.to_stored());
    Pair { key: key.to_vec(), value }
}

fn splits() -> Vec<Vec<u8>> {
    [b"g", b"n", b"t"].map(|split| split.to_vec()).to_vec()
}

#[test]
fn a_keyspace_of_several_ranges_serves_all_operations() {
    let world = World::new();
    let _ltcs = [start_ltc(&world, 1), start_ltc(&world, 2)];
    let client = client(&world, 1);
    let users = client.cluster.make_keyspace("users", &splits()).expect("it is new");
    assert_eq!(users.ranges(), 4);
    let keys: Vec<Vec<u8>> = (b'a'..=b'z').map(|letter| vec![letter, letter]).collect();
    for key in &keys {
        users.put(key, &key.repeat(20)).expect("a range has it");
    }
    for key in &keys {
        assert_eq!(users.get(key), Ok(Some(key.repeat(20))));
    }
    assert_eq!(users.get(b"none"), Ok(None));
    let all: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let values = users.multi_get(&all).expect("the ranges are served");
    assert!(values.iter().zip(&keys).all(|(value, key)| *value == Some(key.repeat(20))));
    for direction in [Direction::Forward, Direction::Backward] {
        let found = users.scan_in(&KeyRange::all(), direction);
        let mut found: Vec<Vec<u8>> = found.map(|pair| pair.expect("it is served").0).collect();
        if direction == Direction::Backward {
            found.reverse();
        }
        assert_eq!(found, keys);
        let part = KeyRange::of(b"cc".to_vec()..b"tt".to_vec());
        let mut found: Vec<Vec<u8>> =
            users.scan_in(&part, direction).map(|pair| pair.expect("it is served").0).collect();
        found.sort();
        assert_eq!(Some(found.as_slice()), keys.get(2..19));
    }
    let in_pieces = users.scan(&KeyRange::all()).in_pieces(3);
    assert_eq!(in_pieces.filter(Result::is_ok).count(), keys.len());
    users.delete(b"bb").expect("a range has it");
    assert_eq!(users.get(b"bb"), Ok(None));
    assert_eq!(users.compare_and_swap(b"cc", Some(b"other"), None), Ok(false));
    assert_eq!(users.compare_and_swap(b"bb", None, Some(b"new")), Ok(true));
    assert_eq!(users.compare_and_swap(b"bb", Some(b"new"), None), Ok(true));
    users.put_with_ttl(b"dd", b"brief", Duration::from_millis(1)).expect("a range has it");
    await_that("the value expires", || users.get(b"dd") == Ok(None));
    let two = Write { steps: vec![stored(b"a1", b"1"), stored(b"a2", b"2")], ..Write::default() };
    assert_eq!(users.write(two.clone()), Ok(Outcome::Written));
    let late = Write { expects: vec![stored(b"a1", b"0")], ..two };
    assert_eq!(users.write(late), Ok(Outcome::Differs));
    let apart = Write { steps: vec![stored(b"a1", b"1"), stored(b"z1", b"2")], ..Write::default() };
    assert!(matches!(users.write(apart), Err(client::Error::SeveralRanges { .. })));
    users.clear().expect("the ranges are served");
    assert_eq!(users.scan(&KeyRange::all()).count(), 0);
    users.put(b"aa", b"again").expect("a range has it");
    assert_eq!(users.get(b"aa"), Ok(Some(b"again".to_vec())));
    let none = client.cluster.keyspace("none").err();
    assert_eq!(none, Some(client::Error::NoKeyspace("none".to_owned())));
}

/// A read of several keys of a range shows one moment. The keys are many, so that a read which
/// takes them one by one almost always meets a write.
#[test]
fn a_read_of_several_keys_sees_whole_writes() {
    const KEYS: u16 = 1024;
    let world = World::new();
    let _ltc = start_ltc(&world, 1);
    let (writer, reader) = (client(&world, 1), client(&world, 2));
    let data = writer.cluster.keyspace("data").expect("it is there");
    let read = reader.cluster.keyspace("data").expect("it is there");
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..100_u32 {
                let value = number.to_le_bytes();
                let steps = (0..KEYS).map(|key| stored(&key.to_be_bytes(), &value)).collect();
                let written = data.write(Write { steps, ..Write::default() });
                assert_eq!(written, Ok(Outcome::Written));
            }
            is_over.store(true, SeqCst);
        });
        let keys: Vec<[u8; 2]> = (0..KEYS).map(u16::to_be_bytes).collect();
        let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        while !is_over.load(SeqCst) {
            let values = read.multi_get(&keys).expect("the range is served");
            assert!(values.iter().all(|value| Some(value) == values.first()), "{values:?}");
        }
    });
}

/// R1 and R3: the ranges of an LTC that ends go to another one, with all acknowledged writes.
#[test]
fn ranges_survive_the_end_of_their_ltcs() {
    let world = World::new();
    let mut ltcs = vec![start_ltc(&world, 1), start_ltc(&world, 2)];
    let client = client(&world, 1);
    let users = client.cluster.make_keyspace("users", &splits()).expect("it is new");
    let key = |number: u32| vec![b'a' + (number % 26) as u8, (number / 26) as u8];
    let mut written = 0;
    for round in 0..4 {
        for number in written..written + 60 {
            users.put(&key(number), &number.to_le_bytes()).expect("one LTC is up");
        }
        written += 60;
        let ended = ltcs.remove(0);
        if round % 2 == 0 {
            ended.kill()
        } else {
            ended.stop()
        }
        for number in 0..written {
            let found = users.get(&key(number));
            assert_eq!(found, Ok(Some(number.to_le_bytes().to_vec())), "{round}: {number}");
        }
        ltcs.push(start_ltc(&world, 3 + round));
    }
}

/// R6: increments are executed once, though replies are lost, LTCs end and ranges move.
#[test]
fn increments_are_executed_once_under_faults() {
    let mut random = Environment::seeded(7).random("increments");
    let world = World::new();
    let mut ltcs = vec![start_ltc(&world, 1), start_ltc(&world, 2), start_ltc(&world, 3)];
    let clients = [client(&world, 1), client(&world, 2)];
    let [first, second] = &clients;
    let made = first.cluster.make_keyspace("counts", &splits()).expect("it is new");
    let (done, unknown, is_over) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let keys = [b"a", b"h", b"o", b"u"];
    thread::scope(|scope| {
        for client in &clients {
            let (done, unknown, is_over) = (&done, &unknown, &is_over);
            scope.spawn(move || {
                let counts = client.cluster.keyspace("counts").expect("it is there");
                while !is_over.load(SeqCst) {
                    for key in keys {
                        let add = |old: Option<&[u8]>| {
                            let old = old.and_then(|old| old.try_into().ok());
                            Change::Put(
                                (old.map_or(0, u64::from_le_bytes) + 1).to_le_bytes().into(),
                            )
                        };
                        match counts.rmw(key, add) {
                            Ok(()) => _ = done.fetch_add(1, SeqCst),
                            Err(client::Error::Unknown(_)) => _ = unknown.fetch_add(1, SeqCst),
                            Err(error) => panic!("{error}"),
                        }
                    }
                }
            });
        }
        for round in 0..12 {
            Environment::real().sleep(Duration::from_millis(150));
            let at = random.random_range(0..ltcs.len());
            match random.random_range(0..4) {
                0 => {
                    ltcs.swap_remove(at).kill();
                    ltcs.push(start_ltc(&world, 4 + round));
                }
                1 => {
                    let range = RangeId(random.random_range(2..6));
                    let target = world.local_coordinator().ltcs().expect("the store is open");
                    if let Some((target, _)) = target.get(at) {
                        let _ = world.local_coordinator().move_range(range, *target);
                    }
                }
                fault => {
                    let cut = if fault == 2 { Cut::Reset } else { Cut::Silent };
                    let client = if at % 2 == 0 { first } else { second };
                    let Some(ltc) = ltcs.get(at) else { continue };
                    let ends = (client.process.endpoint, ltc.process.endpoint);
                    world.network.cut(ends.0, ends.1, Some(cut));
                    Environment::real().sleep(Duration::from_millis(300));
                    world.network.cut(ends.0, ends.1, None);
                }
            }
        }
        is_over.store(true, SeqCst);
    });
    let mut sum = 0;
    for key in keys {
        let found = made.get(key).expect("the ranges are served").unwrap_or_default();
        sum += found.try_into().map_or(0, u64::from_le_bytes);
    }
    let (done, unknown) = (done.load(SeqCst), unknown.load(SeqCst));
    assert!(done > 40, "{done}");
    assert!((done..=done + unknown).contains(&sum), "{sum} of {done} and {unknown} unknown");
}

/// R4: an LTC that is cut off from the coordinator serves no read after its lease. It acknowledges
/// no write after another one has its range, and closes it then.
#[test]
fn an_ltc_without_a_lease_serves_no_reads() {
    let world = World::new();
    let first = start_ltc(&world, 1);
    let clients = [client(&world, 1), client(&world, 2), client(&world, 4)];
    let keyspaces = clients.each_ref().map(|client| client.cluster.keyspace("data"));
    let [early, late, compares] = keyspaces.map(|found| found.expect("it is there"));
    early.put(b"key", b"old").expect("the range is served");
    // The clients know the first LTC.
    for client in [&late, &compares] {
        assert_eq!(client.get(b"key"), Ok(Some(b"old".to_vec())));
    }
    let second = start_ltc(&world, 2);
    world.network.cut(first.process.endpoint, world.coordinator.endpoint, Some(Cut::Silent));
    await_that("the second LTC serves the range", || second.beats.served() == [RangeId(1)]);
    // A client that knows the second LTC.
    let new = client(&world, 3);
    let data = new.cluster.keyspace("data").expect("it is there");
    data.put(b"key", b"new").expect("the range is served");
    assert_eq!(first.beats.served(), [RangeId(1)], "it does not know that it has lost the range");
    // A comparison alone is a read.
    let old = vec![stored(b"key", b"old")];
    let compared = compares.write(Write { expects: old, steps: Vec::new() });
    assert_eq!(compared, Ok(Outcome::Differs));
    assert_eq!(late.get(b"key"), Ok(Some(b"new".to_vec())));
    // Its logs refuse the write, and the client finds the second LTC.
    early.put(b"key", b"newer").expect("the range is served");
    await_that("the first LTC closes the range", || first.beats.served().is_empty());
    assert_eq!(data.get(b"key"), Ok(Some(b"newer".to_vec())));
    world.network.cut(first.process.endpoint, world.coordinator.endpoint, None);
    assert_eq!(late.get(b"key"), Ok(Some(b"newer".to_vec())));
}

/// R5: without an acknowledgement of StoCs no write is acknowledged, and no value shown.
#[test]
fn a_write_that_no_stoc_has_is_not_acknowledged() {
    let world = World::new();
    let ltc = start_ltc(&world, 1);
    let (writer, reader) = (client(&world, 1), client(&world, 2));
    let data = writer.cluster.keyspace("data").expect("it is there");
    data.put(b"key", b"old").expect("the range is served");
    let stocs: Vec<usize> =
        world.stocs.values().filter_map(|stoc| Some(stoc.running.as_ref()?.0.endpoint)).collect();
    let cut = |cut| stocs.iter().for_each(|to| world.network.cut(ltc.process.endpoint, *to, cut));
    cut(Some(Cut::Silent));
    let brief = writer.cluster.with_limit(Duration::from_secs(1)).keyspace("data");
    let brief = brief.expect("it is there");
    assert!(matches!(brief.put(b"key", b"new"), Err(client::Error::Unknown(_))));
    let reads = reader.cluster.with_limit(Duration::from_secs(1)).keyspace("data");
    let shown = reads.expect("it is there").get(b"key");
    assert!(matches!(shown, Err(client::Error::Unavailable(_))), "{shown:?}");
    cut(None);
    let shown = data.get(b"key").expect("the StoCs are back");
    assert!(shown == Some(b"old".to_vec()) || shown == Some(b"new".to_vec()), "{shown:?}");
}

/// A range moves under load, and no client sees an error.
#[test]
fn a_range_moves_under_load() {
    let world = World::new();
    let ltcs = [start_ltc(&world, 1), start_ltc(&world, 2)];
    let client = client(&world, 1);
    let data = client.cluster.keyspace("data").expect("it is there");
    data.put(b"key", b"0").expect("the range is served");
    let coordinator = world.local_coordinator();
    let range = RangeId(1);
    let is_over = AtomicBool::new(false);
    let owners = thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut count = 0_u64;
            while !is_over.load(SeqCst) {
                count += 1;
                data.put(b"key", &count.to_le_bytes()).expect("the client tries again");
                assert_eq!(data.get(b"key"), Ok(Some(count.to_le_bytes().to_vec())));
            }
            count
        });
        let mut owners = BTreeSet::new();
        for _ in 0..4 {
            let found = coordinator.range(range).expect("the store is open");
            let owner = found.owner.map_or(0, |owner| owner.ltc);
            owners.insert(owner);
            coordinator.move_range(range, 3 - owner).expect("it serves");
            await_that("the range has moved", || {
                let found = coordinator.range(range).expect("the store is open");
                let present = found.owner.map(|owner| owner.ltc);
                found.state == RangeState::Serving && present == Some(3 - owner)
            });
        }
        is_over.store(true, SeqCst);
        assert!(writer.join().expect("no error") > 4);
        owners
    });
    assert_eq!(owners, BTreeSet::from([1, 2]));
    drop(ltcs);
}

/// A later start of an LTC ends the earlier one.
#[test]
fn the_same_ltc_started_twice() {
    let world = World::new();
    let first = start_ltc(&world, 1);
    let client = client(&world, 1);
    let data = client.cluster.keyspace("data").expect("it is there");
    data.put(b"key", b"value").expect("the range is served");
    let second = start_ltc(&world, 1);
    await_that("the earlier start ends", || first.beats.failure().is_some());
    first.kill();
    assert_eq!(data.get(b"key"), Ok(Some(b"value".to_vec())));
    assert!(second.beats.failure().is_none());
}

/// A change of the leader disturbs no client, and the new leader gives ranges away after a lease.
#[test]
fn another_leader_takes_over() {
    let world = World::new();
    let ltcs = [start_ltc(&world, 1), start_ltc(&world, 2)];
    let client = client(&world, 1);
    let users = client.cluster.make_keyspace("users", &splits()).expect("it is new");
    users.put(b"aa", b"1").expect("the ranges are served");
    world.service.lead(None);
    Environment::real().sleep(LEASE / 2);
    world.lead();
    users.put(b"aa", b"2").expect("the ranges are served");
    let [first, second] = ltcs;
    first.kill();
    for key in [b"aa", b"hh", b"oo", b"uu"] {
        users.put(key, b"3").expect("the ranges are served");
    }
    assert_eq!(second.beats.served().len(), 5);
}
