//! Logs in the memories of StoCs.

use stoc::Epoch;

use super::*;
use crate::Setup;
use crate::testing::RANGE;

fn begin(log: &crate::Log, file: u64, word: &[u8]) {
    log.begin_file(file).expect("enough StoCs are up");
    append(log, file, word).expect("enough StoCs are up");
}

/// The open segments of the write log.
fn open_segments(world: &World) -> Vec<Segment> {
    world.registry.record(LOG).open_segments().cloned().collect()
}

/// L1 in memory: any one of three StoCs may lose its memory before the next owner comes.
#[test]
fn l1_one_memory_of_three_may_be_lost() {
    for lost in 1..=3 {
        for away in [None, Some(lost)] {
            let world = World::in_memory(3);
            let log = world.open(1);
            begin(&log, 1, b"first");
            if let Some(away) = away {
                world.set(away, Behaviour::Away);
            }
            append(&log, 1, b"second").expect("two StoCs are up");
            begin(&log, 2, b"third");
            world.set(lost, Behaviour::Up);
            world.restart(lost);
            let next = world.open(2);
            assert_eq!(content(&next, 1), b"firstsecond", "{lost}, {away:?}");
            assert_eq!(content(&next, 2), b"third", "{lost}, {away:?}");
        }
    }
}

/// No StoC has a file of the log. The manifest log is durable.
#[test]
fn the_manifest_log_is_durable() {
    let world = World::in_memory(3);
    let mut logs = crate::open(&world.setup(0), &[LOG, Kind::Manifest]).expect("all StoCs are up");
    let (manifest, log) = (logs.pop().expect("there are two"), logs.pop().expect("there are two"));
    for log in [&log, &manifest] {
        begin(log, 1, b"word");
    }
    let modes = |kind| world.registry.record(kind).segments.into_iter().map(|it| it.mode);
    assert!(modes(LOG).all(|mode| mode == Mode::Memory));
    assert!(modes(Kind::Manifest).all(|mode| mode == Mode::Durable));
    (1..=3).for_each(|node| world.restart(node));
    assert_eq!(content(&manifest, 1), b"word");
    assert!(matches!(log.read(1, 0, 4), Err(Error::Lost { .. })));
    assert_eq!(manifest.weak_segments(), []);
}

/// L6: two memories of three are lost. No opening takes the rest for the log, also if a late
/// request of the owner before has made logs of the same names.
#[test]
fn l6_lost_memories_are_never_taken_for_empty() {
    for is_made_again in [false, true] {
        let world = World::in_memory(3);
        let log = world.open(1);
        begin(&log, 1, b"acknowledged");
        for node in [1, 2] {
            world.restart(node);
            for segment in open_segments(&world).iter().filter(|_| is_made_again) {
                let made =
                    world.stoc(node).create_log_in_memory(segment.name(RANGE, LOG), Epoch(1));
                made.expect("there is room");
            }
        }
        let refused = world.try_open(2).err();
        let missing_two = |error: &Error| {
            matches!(error, Error::TooFewReplies { have: 1, need: 2, missing, .. }
                if *missing == [1, 2])
        };
        assert!(refused.as_ref().is_some_and(missing_two), "{is_made_again}: {refused:?}");
    }
}

/// L6: an owner can abandon a log whose memories are lost, but only once no earlier owner can
/// append.
#[test]
fn l6_a_lost_log_can_be_given_up() {
    let world = World::in_memory(3);
    let setup = |epoch| Setup { gives_up_log: true, ..world.setup(epoch) };
    let old = world.open(1);
    begin(&old, 1, b"acknowledged");
    (1..=2).for_each(|node| world.restart(node));
    let refused = world.try_open(2).err();
    let is_lost = |error: &Error| matches!(error, Error::TooFewReplies { is_lost: true, .. });
    assert!(refused.as_ref().is_some_and(is_lost), "{refused:?}");
    // Two StoCs that do not reply may let the owner before append.
    (2..=3).for_each(|node| world.set(node, Behaviour::Away));
    world.registry.raise(3);
    let refused = crate::open(&setup(3), &[LOG]).err();
    let is_lost = |error: &Error| matches!(error, Error::TooFewReplies { is_lost: false, .. });
    assert!(refused.as_ref().is_some_and(is_lost), "{refused:?}");
    world.set(2, Behaviour::Up);
    world.registry.raise(4);
    let refused = crate::open(&setup(4), &[LOG]).map(|_| ());
    world.set(3, Behaviour::Up);
    assert_eq!(refused, Ok(()));
    assert!(append(&old, 1, b"late").is_err());
    let next = world.open(5);
    assert_eq!(next.files(), []);
    begin(&next, 2, b"word");
    assert_eq!(content(&world.open(6), 2), b"word");
}

/// An append that a StoC of another start gets does not count, and the log goes to other StoCs.
#[test]
fn l1_another_start_acknowledges_nothing() {
    let world = World::in_memory(5);
    let log = world.open(1);
    begin(&log, 1, b"first");
    let before = newest_ensemble(&log);
    let lost = before.first().copied().expect("it has StoCs");
    world.restart(lost);
    append(&log, 1, b"second").expect("two StoCs have it");
    append(&log, 1, b"third").expect("there are other StoCs");
    let writer = log.lock();
    let segment = writer.active.as_ref().map(|active| active.segment.clone());
    drop(writer);
    let segment = segment.expect("a file was begun");
    assert_eq!(world.setup(1).present(&segment).len(), 3, "{segment:?}");
    assert_eq!(content(&log, 1), b"firstsecondthird");
}

/// A segment is weak from the loss of a replica on, whatever its state is. It is weak until its
/// file is removed.
#[test]
fn a_segment_that_loses_a_replica_is_weak() {
    let world = World::in_memory(4);
    let log = world.open(1);
    begin(&log, 1, b"sealed");
    begin(&log, 2, b"active");
    assert_eq!(log.weak_segments(), []);
    let lost = newest_ensemble(&log).first().copied().expect("it has StoCs");
    world.restart(lost);
    let of_lost = |segment: &Segment| segment.nodes().any(|node| node == lost);
    let all = world.registry.record(LOG).segments;
    let expected: Vec<u64> =
        all.iter().filter(|it| of_lost(it)).map(|segment| segment.index).collect();
    assert!(expected.len() > 1, "{all:?}");
    assert_eq!(log.weak_segments(), expected);
    // The spare is replaced as well, before it is used.
    begin(&log, 3, b"newest");
    log.remove_before(3).expect("the coordinator is there");
    let after = log.weak_segments();
    begin(&log, 4, b"newest");
    log.remove_before(4).expect("the coordinator is there");
    assert_eq!((after, log.weak_segments()), (Vec::new(), Vec::new()));
}

/// While the coordinator is away, a spare that has lost a replica takes appends.
#[test]
fn a_weak_spare_is_used_while_the_coordinator_is_away() {
    let world = World::in_memory(6);
    let log = world.open(1);
    begin(&log, 1, b"first");
    let record = world.registry.record(LOG);
    let [active, spare] = record.segments.as_slice() else { panic!("there are two: {record:?}") };
    world.restart(spare.nodes().next().expect("it has StoCs"));
    active.nodes().for_each(|node| world.set(node, Behaviour::Away));
    world.registry.fail(20, false);
    append(&log, 1, b"second").expect("two memories have the spare");
    let index = log.lock().active.as_ref().map(|active| active.segment.index);
    assert_eq!(index, Some(spare.index));
    active.nodes().for_each(|node| world.set(node, Behaviour::Up));
    assert_eq!(content(&log, 1), b"firstsecond");
}

/// A replica that misses bytes is as good as lost, and one that catches up is not.
#[test]
fn a_replica_that_misses_bytes_is_weak() {
    let world = World::in_memory(3);
    let log = world.open(1);
    begin(&log, 1, b"first");
    world.set(2, Behaviour::Away);
    append(&log, 1, b"second").expect("two StoCs are up");
    world.set(2, Behaviour::Up);
    assert_eq!(log.weak_segments().len(), 1);
    begin(&log, 2, b"third");
    // Sealed, it still is.
    assert_eq!(log.weak_segments().len(), 1);
    log.remove_before(2).expect("the coordinator is there");
    assert_eq!(log.weak_segments(), []);
}

/// An opening copies a segment in memory to the memories of other StoCs.
#[test]
fn l6_a_segment_in_memory_is_copied_to_memories() {
    let world = World::in_memory(4);
    let log = world.open(1);
    begin(&log, 1, b"word");
    let ensemble = newest_ensemble(&log);
    let [lost, kept, ..] = ensemble.as_slice() else { panic!("it has StoCs: {ensemble:?}") };
    world.restart(*lost);
    world.set(*kept, Behaviour::Away);
    let refused = world.try_open(2).err();
    assert!(matches!(refused, Some(Error::TooFewReplies { .. })), "{refused:?}");
    world.set(*kept, Behaviour::Up);
    let next = world.open(3);
    let sealed = world.registry.record(LOG).segments.first().cloned().expect("it has bytes");
    assert_eq!((sealed.mode, sealed.ensemble.len()), (Mode::Memory, 2));
    assert_eq!(next.weak_segments(), [sealed.index]);
    world.restart(*kept);
    assert_eq!(content(&next, 1), b"word");
}
