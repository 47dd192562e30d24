//! The choice of StoCs for new tables and segments of logs, over a network.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use device::{FaultDevice, OperationKind, RoomDevice};
use logc::Stocs as _;

use super::remote::Serving;
use super::world::{STOCS, World};
use super::*;
use crate::RemoteStocs;

/// Time after which a StoC without a reply has failed, in tests in which none fails.
const PATIENT: Duration = Duration::from_secs(30);

/// Puts some keys and writes them to a table.
fn flush(serving: &Serving, keys: std::ops::Range<u32>) {
    put(&serving.keyspace, keys);
    serving.keyspace.flush().expect("enough StoCs are up");
}

/// Returns the tables of which a StoC has a copy, or the beginning of one.
fn tables(world: &World, number: u32) -> BTreeSet<String> {
    let device = &world.stocs.get(&number).expect("it is one of the StoCs").device;
    let files = files_below(&**device, "files").into_iter();
    let table = |path: String| {
        path.split("/data-").nth(1).and_then(|name| name.get(..16)).map(str::to_owned)
    };
    files.filter_map(table).collect()
}

fn choose(stocs: &RemoteStocs, count: usize, avoid: &[u32]) -> Vec<u32> {
    stocs.choose(count, avoid).iter().map(|link| link.identity().node).collect()
}

/// Returns whether any of many choices has a StoC. A StoC with a request under way is chosen after
/// the reply.
fn is_chosen(stocs: &RemoteStocs, number: u32) -> bool {
    (0..20).any(|look| {
        if look > 0 {
            Environment::real().sleep(Duration::from_millis(5));
        }
        (0..50).any(|_| choose(stocs, 2, &[]).contains(&number))
    })
}

/// Waits until a StoC is chosen. `before` is done before each look.
fn until_chosen(stocs: &RemoteStocs, number: u32, before: impl Fn()) {
    let is_chosen = (0..200).any(|_| {
        before();
        is_chosen(stocs, number)
    });
    assert!(is_chosen, "StoC {number}");
}

/// Two copies over four StoCs in two failure domains.
#[test]
fn copies_of_a_table_are_in_distinct_domains() {
    let world = World::with_domains(&[Some("a"), Some("a"), Some("b"), Some("b")]);
    let domain_of = |number: u32| if number <= 2 { "a" } else { "b" };
    let serving = world.serve_with((1, 1), PATIENT, Environment::real());
    let serving = serving.expect("all StoCs are up");
    for part in 0..12 {
        flush(&serving, part * 50..(part + 1) * 50);
    }
    let mut domains: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for number in 1..=4 {
        for table in tables(&world, number) {
            domains.entry(table).or_default().push(domain_of(number));
        }
    }
    assert!(domains.len() >= 3, "{domains:?}");
    for (table, domains) in domains {
        assert_eq!(domains, ["a", "b"], "table {table}");
    }
    // Segments of logs, and copies next to others.
    for _ in 0..50 {
        let three: BTreeSet<&str> =
            choose(&serving.stocs, 3, &[]).into_iter().map(domain_of).collect();
        assert_eq!(three.len(), 2);
        assert!(choose(&serving.stocs, 1, &[2]).iter().all(|number| *number > 2));
        // There is no other domain.
        assert_eq!(choose(&serving.stocs, 2, &[1, 2]).len(), 2);
    }
    check(&serving.keyspace, 0..600);
}

/// A StoC that is slow gets nothing new, also after it has caught up. Later it does.
#[test]
fn a_slow_stoc_gets_no_new_tables() {
    let mut world = World::new();
    let devices: Vec<_> = (1..=STOCS).map(|number| world.wrap(number, FaultDevice::new)).collect();
    let (environment, clock) = Environment::simulated(7);
    let serving = world.serve_with((1, 1), PATIENT, environment).expect("all StoCs are up");
    put(&serving.keyspace, 0..10);
    // One of the three StoCs that have the log.
    let writes = |device: &FaultDevice| device.count(Some(OperationKind::Write));
    let before: Vec<u64> = devices.iter().map(|device| writes(device)).collect();
    put(&serving.keyspace, 10..20);
    let grown = devices.iter().zip(before).position(|(device, before)| writes(device) > before);
    let at = grown.expect("three StoCs have the log");
    let (slow, number) = (devices.get(at).expect("it is a position"), at as u32 + 1);
    until_chosen(&serving.stocs, number, || ());
    slow.park();
    for second in 0..12 {
        put(&serving.keyspace, 20 + second..21 + second);
        clock.advance(Duration::from_secs(1));
        assert_eq!(choose(&serving.stocs, 2, &[]).len(), 2);
    }
    slow.go_on();
    let had = tables(&world, number);
    for part in 1..=10 {
        flush(&serving, part * 50..(part + 1) * 50);
    }
    assert!(!is_chosen(&serving.stocs, number));
    assert!(tables(&world, number).is_subset(&had));
    // There are too few others.
    assert!(choose(&serving.stocs, STOCS as usize, &[]).contains(&number));
    // Its last replies may be under way, and they are late.
    until_chosen(&serving.stocs, number, || clock.advance(Duration::from_secs(31)));
}

/// A StoC without room gets nothing new for some time.
#[test]
fn a_full_stoc_gets_no_new_tables() {
    let mut world = World::new();
    let room = world.wrap(3, |device| RoomDevice::new(device, 512 << 20).expect("it is small"));
    let (environment, clock) = Environment::simulated(8);
    let serving = world.serve_with((1, 1), PATIENT, environment).expect("all StoCs are up");
    flush(&serving, 0..50);
    room.fill();
    let mut part = 1;
    while is_chosen(&serving.stocs, 3) {
        flush(&serving, part * 50..(part + 1) * 50);
        part += 1;
        assert!(part < 200, "a copy on it has failed");
    }
    let had = tables(&world, 3);
    for _ in 0..5 {
        flush(&serving, part * 50..(part + 1) * 50);
        part += 1;
    }
    assert!(tables(&world, 3).is_subset(&had));
    assert!(!is_chosen(&serving.stocs, 3));
    clock.advance(Duration::from_secs(11));
    until_chosen(&serving.stocs, 3, || ());
    check(&serving.keyspace, 0..part * 50);
}
