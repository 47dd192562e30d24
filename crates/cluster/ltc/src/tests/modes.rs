//! Keyspaces whose write logs are in memory, or nowhere.

use std::time::Duration;

use client::LogMode;
use coordinator::Owner;
use logc::{Closing, Mode, Segment};
use stoc::RangeId;
use wire::{Cut, Identity, Role};

use super::serving::{await_that, client, start_ltc};
use super::world::{STOCS, World, identity, process};
use super::*;
use crate::{Ltc, RangeOptions, RemoteStocs, StocChoice};

/// The range of the keyspace of a test. The world has another one.
const RANGE: RangeId = RangeId(2);

/// The segments of the write log.
fn segments(world: &World) -> Vec<Segment> {
    let range = world.local_coordinator().range(RANGE).expect("the store is open");
    range.log.segments
}

/// Whether three StoCs have each segment of the write log in memory, in their present starts.
fn is_whole(world: &World) -> bool {
    let stocs = world.local_coordinator().stocs().expect("the store is open");
    let is_present = |node: u32, incarnation: u64| {
        stocs
            .iter()
            .any(|(number, record)| *number == node && record.completed == Some(incarnation))
    };
    segments(world).iter().all(|segment| {
        let mut ensemble = segment.ensemble.iter();
        segment.mode == Mode::Memory
            && segment.ensemble.len() == 3
            && ensemble.all(|member| is_present(member.node, member.incarnation))
    })
}

/// R7: acknowledged writes survive the loss of each StoC in turn, though each loss takes a replica
/// of the log away. They survive the owner's end as well, also right after such a loss.
#[test]
fn r7_memories_are_lost_one_at_a_time() {
    let mut world = World::new();
    let mut ltc = start_ltc(&world, 1);
    let client = client(&world, 1);
    let made = client.cluster.make_keyspace_with_log("memory", &[], LogMode::Memory);
    let data = made.expect("it is new");
    for number in 1..=STOCS {
        for key in 0..40 {
            data.put(&[number as u8, key], &[key; 100]).expect("two StoCs of three are up");
        }
        world.stop_stoc(number);
        world.start_stoc(number);
        if number % 2 == 0 {
            ltc.kill();
            ltc = start_ltc(&world, 1 + number);
            assert_eq!(data.get(&[number as u8, 39]), Ok(Some(vec![39; 100])));
        }
        await_that("the log is whole again", || is_whole(&world));
    }
    ltc.kill();
    let last = start_ltc(&world, 9);
    for (number, key) in (1..=STOCS as u8).flat_map(|number| (0..40).map(move |key| (number, key)))
    {
        assert_eq!(data.get(&[number, key]), Ok(Some(vec![key; 100])), "{number}, {key}");
    }
    last.stop();
}

/// Two memories of three are lost together, with the owner. The range is not served, since nothing
/// says that its log was empty. Once the loss is accepted, the range is served with the data of its
/// tables.
#[test]
fn two_lost_memories_are_no_silent_loss() {
    let mut world = World::new();
    let ltc = start_ltc(&world, 1);
    let client = client(&world, 1);
    let made = client.cluster.make_keyspace_with_log("memory", &[], LogMode::Memory);
    let data = made.expect("it is new");
    for key in 0..100_u8 {
        data.put(&[key], &[key; 100]).expect("all StoCs are up");
    }
    // The loss of one memory has all writes flushed.
    let segment = segments(&world).into_iter().next().expect("it has a log");
    let first = segment.ensemble.first().map(|member| member.node).expect("it has StoCs");
    world.stop_stoc(first);
    world.start_stoc(first);
    await_that("the log is whole again", || is_whole(&world));
    data.put(b"key", b"value").expect("all StoCs are up");
    let open = segments(&world).into_iter().find(|segment| segment.sealed.is_none());
    let nodes = open.iter().flat_map(|segment| &segment.ensemble).map(|member| member.node);
    let lost: Vec<u32> = nodes.take(2).collect();
    ltc.kill();
    for node in lost {
        world.stop_stoc(node);
        world.start_stoc(node);
    }
    let refused = try_open(&world, thermocline::Options::default()).err();
    let is_reported = |error: &crate::Error| match error {
        crate::Error::Files { cause, .. } => {
            matches!(cause, scatter::Error::Log(logc::Error::TooFewReplies { have: 1, .. }))
        }
        _ => false,
    };
    assert!(refused.as_ref().is_some_and(is_reported), "{refused:?}");
    world.local_coordinator().give_up_log(RANGE).expect("it is not served");
    let mut ltc = start_ltc(&world, 2);
    for (number, key, value) in [(3, b"later".as_slice(), b"1"), (4, b"last", b"2")] {
        let present = (0..100_u8).map(|key| data.get(&[key]).expect("the range is served"));
        assert!(present.zip(0..).all(|(found, key)| found == Some(vec![key; 100])));
        assert_eq!(data.get(b"key"), Ok(None));
        data.put(key, value).expect("all StoCs are up");
        ltc.kill();
        ltc = start_ltc(&world, number);
        assert_eq!(data.get(key), Ok(Some(value.to_vec())));
    }
    ltc.stop();
}

/// Opens the range as its owner does.
fn try_open(world: &World, options: thermocline::Options) -> crate::Result<Ltc> {
    let named = Identity { incarnation: 7, ..identity(Role::Ltc, 7) };
    let process = process(&world.network, named, None);
    let coordinator = world.coordinator(&process.node);
    let (environment, node) = (Environment::real(), Arc::clone(&process.node));
    let choice = StocChoice::default();
    let stocs = RemoteStocs::new(Arc::clone(&coordinator), node, choice, environment.clone())?;
    let owner = Owner { ltc: 7, start: 7 };
    let ranges = RangeOptions { slow: Duration::from_millis(300), ..RangeOptions::default() };
    let ltc =
        Ltc::new(coordinator, Arc::new(stocs), owner, ranges, environment, Closing::default());
    ltc.open(RANGE, thermocline::Options { memory_bytes: 64 << 20, ..options })?;
    ltc.close()?;
    Ok(ltc)
}

/// Writes cannot be synced where the log is on no device.
#[test]
fn synced_needs_a_durable_log() {
    for mode in [LogMode::Durable, LogMode::Memory, LogMode::None] {
        let world = World::new();
        let client = client(&world, 1);
        let name = "modes".to_owned();
        client.cluster.make_keyspace_with_log(&name, &[], mode).expect("it is new");
        let synced = thermocline::Options {
            durability: Durability::Synced,
            ..thermocline::Options::default()
        };
        let opened = try_open(&world, synced);
        let is_refused = matches!(
            &opened,
            Err(crate::Error::NotSynced { keyspace, mode: found })
                if *keyspace == name && *found == mode
        );
        assert_eq!(is_refused, mode != LogMode::Durable, "{opened:?}");
        assert!(try_open(&world, thermocline::Options::default()).is_ok(), "{mode}");
    }
}

/// With mode none a write needs no StoC. An end in order keeps it.
#[test]
fn a_write_without_a_log_needs_no_stoc() {
    let world = World::new();
    let ltc = start_ltc(&world, 1);
    let client = client(&world, 1);
    let made = client.cluster.make_keyspace_with_log("none", &[], LogMode::None);
    let data = made.expect("it is new");
    data.put(b"early", b"1").expect("the range is served");
    let stocs: Vec<usize> =
        world.stocs.values().filter_map(|stoc| Some(stoc.running.as_ref()?.0.endpoint)).collect();
    let cut = |cut| stocs.iter().for_each(|to| world.network.cut(ltc.process.endpoint, *to, cut));
    cut(Some(Cut::Silent));
    data.put(b"key", b"2").expect("it needs no StoC");
    assert_eq!(data.get(b"key"), Ok(Some(b"2".to_vec())));
    cut(None);
    ltc.stop();
    let next = start_ltc(&world, 2);
    for (key, value) in [(b"early".as_slice(), b"1"), (b"key", b"2")] {
        assert_eq!(data.get(key), Ok(Some(value.to_vec())));
    }
    next.stop();
}
