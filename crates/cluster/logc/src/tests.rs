//! The invariants L1 to L8, each with a test that fails without it.

mod crash;
mod memory;
mod random;

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use environment::Environment;
use proptest::prelude::*;
use stoc::{Kind, Listed, Request};

use crate::testing::{self, Behaviour, World};
use crate::{Error, Header, LogRecord, Member, Mode, Part, Segment};

const LOG: Kind = Kind::Log;

/// Appends a word at the end of a file.
fn append(log: &crate::Log, file: u64, word: &[u8]) -> crate::Result<()> {
    let length = log.files().iter().find(|(number, _)| *number == file).map_or(0, |file| file.1);
    log.append(file, length, word)
}

/// The StoCs of the segment that is appended to.
fn newest_ensemble(log: &crate::Log) -> Vec<u32> {
    let writer = log.lock();
    writer.active.as_ref().expect("a file was begun").segment.nodes().collect()
}

fn content(log: &crate::Log, file: u64) -> Vec<u8> {
    let length = log.files().iter().find(|(number, _)| *number == file).map_or(0, |file| file.1);
    log.read(file, 0, length).expect("enough StoCs are up")
}

#[test]
fn files_are_found_by_the_next_owner() {
    let world = World::new(3);
    let log = world.open(1);
    assert_eq!(log.files(), []);
    for file in [1, 2, 5] {
        log.begin_file(file).expect("all StoCs are up");
        for word in [&b"one"[..], b"", b"three"] {
            append(&log, file, word).expect("all StoCs are up");
        }
    }
    assert_eq!(log.files(), [(1, 8), (2, 8), (5, 8)]);
    assert_eq!(log.begin_file(5), Err(Error::NotAtEnd { file: 5, length: 8 }));
    assert_eq!(log.append(5, 7, b"x"), Err(Error::NotAtEnd { file: 5, length: 8 }));
    assert_eq!(log.append(2, 8, b"x"), Err(Error::NotAtEnd { file: 5, length: 8 }));
    let log = world.open(2);
    assert_eq!(log.files(), [(1, 8), (2, 8), (5, 8)]);
    assert_eq!(log.read(2, 2, 4), Ok(b"ethr".to_vec()));
    assert_eq!(log.read(2, 5, 4), Err(Error::NotAtEnd { file: 2, length: 8 }));
    assert_eq!(log.read(3, 0, 1), Err(Error::NoFile { file: 3 }));
    // Only the owner that began a file appends to it.
    assert_eq!(log.append(5, 8, b"x"), Err(Error::NotAtEnd { file: 5, length: 8 }));
    log.begin_file(6).expect("all StoCs are up");
}

/// A read that no StoC has served in time is sent again, and gets more time.
#[test]
fn a_read_waits_for_slow_stocs() {
    let world = World::new(3);
    let log = world.open(1);
    log.begin_file(1).expect("all StoCs are up");
    append(&log, 1, b"slow").expect("all StoCs are up");
    (1..=3).for_each(|node| world.set(node, Behaviour::Late));
    assert_eq!(content(&log, 1), b"slow");
    (1..=3).for_each(|node| world.set(node, Behaviour::Away));
    assert!(matches!(log.read(1, 0, 4), Err(Error::Lost { .. })));
}

/// L1: with one StoC of three away, appends are acknowledged. The next owner finds them, whichever
/// StoC is away then.
#[test]
fn l1_a_quorum_has_each_acknowledged_append() {
    for away in 1..=3 {
        for away_later in 1..=3 {
            let world = World::new(3);
            let log = world.open(1);
            log.begin_file(1).expect("all StoCs are up");
            append(&log, 1, b"first").expect("all StoCs are up");
            world.set(away, Behaviour::Away);
            append(&log, 1, b"second").expect("two StoCs are up");
            world.set(away, Behaviour::Up);
            world.set(away_later, Behaviour::Away);
            let log = world.open(2);
            assert_eq!(content(&log, 1), b"firstsecond", "{away}, {away_later}");
        }
    }
}

/// L1 and L5: without a quorum nothing is acknowledged, and nothing is abandoned.
#[test]
fn l5_an_append_without_a_quorum_waits_for_one() {
    let world = World::new(3);
    let log = world.open(1);
    log.begin_file(1).expect("all StoCs are up");
    world.set(1, Behaviour::Away);
    world.set(2, Behaviour::Away);
    let appended = thread::scope(|scope| {
        let appends = scope.spawn(|| append(&log, 1, b"word"));
        Environment::real().sleep(Duration::from_millis(60));
        assert!(!appends.is_finished(), "one StoC acknowledges nothing");
        world.set(1, Behaviour::Up);
        appends.join().expect("it does not panic")
    });
    assert_eq!(appended, Ok(()));
    // A close ends it, with an unknown outcome.
    world.set(1, Behaviour::Away);
    let appended = thread::scope(|scope| {
        let appends = scope.spawn(|| append(&log, 1, b"more"));
        Environment::real().sleep(Duration::from_millis(30));
        log.close();
        appends.join().expect("it does not panic")
    });
    assert_eq!(appended, Err(Error::Closed));
    assert_eq!(append(&log, 1, b"later"), Err(Error::Closed));
    world.set(1, Behaviour::Up);
    world.set(2, Behaviour::Up);
    let found = content(&world.open(2), 1);
    assert!([&b"word"[..], b"wordmore"].contains(&found.as_slice()), "{found:?}");
}

/// L5 and L6: the owner before acknowledges nothing once another one has opened the log.
#[test]
fn l6_an_old_owner_acknowledges_nothing() {
    let world = World::new(4);
    let old = world.open(1);
    old.begin_file(1).expect("all StoCs are up");
    append(&old, 1, b"old").expect("all StoCs are up");
    let new = world.open(2);
    assert!(matches!(append(&old, 1, b"late"), Err(Error::Fenced { .. })));
    assert!(matches!(old.begin_file(2), Err(Error::Fenced { .. })));
    assert_eq!(content(&new, 1), b"old");
    assert!(matches!(world.try_open(1), Err(Error::Fenced { .. })));
    // An opening that has only fenced stops the owner, too.
    let epoch = stoc::Epoch(9);
    let fence = Request::Fence { range: testing::RANGE, epoch };
    new.begin_file(2).expect("all StoCs are up");
    (1..=4).for_each(|node| drop(world.stoc(node).serve(&fence)));
    assert!(matches!(append(&new, 2, b"late"), Err(Error::Fenced { .. })));
}

/// L3: bytes that one StoC has of a group that was sent again to another segment do not count
/// twice.
#[test]
fn l3_bytes_behind_the_end_of_a_segment_do_not_count() {
    for is_sealed in [true, false] {
        let world = World::new(6);
        let log = world.open(1);
        log.begin_file(1).expect("all StoCs are up");
        append(&log, 1, b"first").expect("all StoCs are up");
        append(&log, 1, b"second").expect("all StoCs are up");
        // One StoC syncs the next group. Its reply is lost, and so are the other requests.
        let active = newest_ensemble(&log);
        for (at, node) in active.iter().enumerate() {
            world.set(*node, if at == 0 { Behaviour::Mute } else { Behaviour::Away });
        }
        if !is_sealed {
            // Only the header of the next segment has the end of this one.
            world.registry.fail(100, false);
        }
        append(&log, 1, b"third").expect("three other StoCs are up");
        (1..=6).for_each(|node| world.set(node, Behaviour::Up));
        append(&log, 1, b"fourth").expect("all StoCs are up");
        assert_eq!(content(&log, 1), b"firstsecondthirdfourth");
        world.registry.fail(0, false);
        assert_eq!(content(&world.open(2), 1), b"firstsecondthirdfourth", "{is_sealed}");
    }
}

/// L4: while the coordinator is away the spare takes appends, and it is not left.
#[test]
fn l4_the_spare_takes_appends_while_the_coordinator_is_away() {
    let world = World::new(6);
    let log = world.open(1);
    log.begin_file(1).expect("all StoCs are up");
    append(&log, 1, b"first").expect("all StoCs are up");
    for is_made in [false, true] {
        let active = newest_ensemble(&log);
        world.registry.fail(100, is_made);
        active.iter().for_each(|node| world.set(*node, Behaviour::Away));
        append(&log, 1, b"+").expect("the spare is registered");
        append(&log, 1, b"-").expect("the spare is registered");
        active.iter().for_each(|node| world.set(*node, Behaviour::Up));
        let record = world.registry.record(LOG);
        assert!(record.open_segments().count() <= 2, "{record:?}");
        world.registry.fail(0, false);
        append(&log, 1, b".").expect("all StoCs are up");
    }
    log.begin_file(2).expect("the coordinator is back");
    assert_eq!(content(&log, 1), b"first+-.+-.");
    let log = world.open(2);
    assert_eq!(content(&log, 1), b"first+-.+-.");
}

/// L4: a segment is not left before the one before it is sealed in the record.
#[test]
fn l4_two_segments_are_not_left_while_the_coordinator_is_away() {
    let world = World::new(9);
    let log = world.open(1);
    log.begin_file(1).expect("all StoCs are up");
    append(&log, 1, b"first").expect("all StoCs are up");
    let all_away = |log: &crate::Log| {
        let active = newest_ensemble(log);
        active.iter().for_each(|node| world.set(*node, Behaviour::Away));
    };
    append(&log, 1, b"second").expect("all StoCs are up");
    world.registry.fail(1_000_000, false);
    all_away(&log);
    append(&log, 1, b"third").expect("the spare is registered");
    all_away(&log);
    let appended = thread::scope(|scope| {
        let appends = scope.spawn(|| append(&log, 1, b"fourth"));
        Environment::real().sleep(Duration::from_millis(60));
        assert!(!appends.is_finished(), "there is no other segment");
        world.registry.fail(0, false);
        appends.join().expect("it does not panic")
    });
    assert_eq!(appended, Ok(()));
    (1..=9).for_each(|node| world.set(node, Behaviour::Up));
    assert_eq!(content(&world.open(2), 1), b"firstsecondthirdfourth");
}

/// L4: a change of unknown outcome may be made later. Until then no segment that it removes takes
/// appends.
#[test]
fn l4_a_change_that_is_made_later_loses_no_append() {
    let world = World::new(9);
    let log = world.open(1);
    log.begin_file(1).expect("all StoCs are up");
    append(&log, 1, b"first").expect("all StoCs are up");
    let record = world.registry.record(LOG);
    let set_all = |segment: Option<&Segment>, behaviour| {
        let nodes = segment.into_iter().flat_map(Segment::nodes);
        nodes.for_each(|node| world.set(node, behaviour));
    };
    let (active, spare) = (record.segments.first(), record.segments.last());
    [active, spare].into_iter().for_each(|segment| set_all(segment, Behaviour::Away));
    world.registry.hold();
    let appended = thread::scope(|scope| {
        let appends = scope.spawn(|| append(&log, 1, b"second"));
        // The change that replaces the spare is sent, and so is one that finds out its outcome.
        Environment::real().sleep(Duration::from_millis(100));
        set_all(spare, Behaviour::Up);
        Environment::real().sleep(Duration::from_millis(100));
        world.registry.make_held();
        appends.join().expect("it does not panic")
    });
    assert_eq!(appended, Ok(()));
    set_all(active, Behaviour::Up);
    assert_eq!(content(&world.open(2), 1), b"firstsecond");
}

/// L6: the longest replica is the segment, and it is copied until a quorum has it.
#[test]
fn l6_the_longest_replica_is_copied() {
    let world = World::new(3);
    let log = world.open(1);
    log.begin_file(1).expect("all StoCs are up");
    append(&log, 1, b"first").expect("all StoCs are up");
    world.set(2, Behaviour::Away);
    let long = vec![7; 3 << 20];
    append(&log, 1, &long).expect("two StoCs are up");
    world.set(2, Behaviour::Up);
    world.set(3, Behaviour::Away);
    // StoC 1 alone has the long word. After the opening StoC 2 has it as well.
    let log = world.open(2);
    world.set(3, Behaviour::Up);
    world.set(1, Behaviour::Away);
    assert_eq!(content(&log, 1).len(), 5 + long.len());
    let sealed = world.registry.record(LOG).segments.first().cloned();
    let nodes: Vec<u32> = sealed.iter().flat_map(Segment::nodes).collect();
    assert_eq!(nodes, [1, 2]);
}

/// L6: replies of lost storage do not count.
#[test]
fn l6_storage_that_was_lost_does_not_count() {
    let world = World::new(3);
    let log = world.open(1);
    log.begin_file(1).expect("all StoCs are up");
    append(&log, 1, b"word").expect("all StoCs are up");
    world.replace(1);
    // Two of three suffice, and the bytes are copied to no third StoC.
    let log = world.open(2);
    assert_eq!(content(&log, 1), b"word");
    log.begin_file(2).expect("three StoCs are up");
    append(&log, 2, b"more").expect("three StoCs are up");
    world.replace(2);
    world.replace(3);
    let refused = world.try_open(3).err();
    assert!(
        matches!(&refused, Some(Error::TooFewReplies { have: 1, need: 2, missing, .. })
        if *missing == [2, 3]),
        "{refused:?}"
    );
}

/// L6: a coordinator's store that went back in time is noticed.
#[test]
fn l6_an_old_record_is_refused() {
    let world = World::new(3);
    let log = world.open(1);
    let old = world.registry.record(LOG);
    for file in 1..=4 {
        log.begin_file(file).expect("all StoCs are up");
        append(&log, file, b"word").expect("all StoCs are up");
    }
    world.registry.set_record(LOG, old);
    let refused = world.try_open(2).err();
    assert!(matches!(refused, Some(Error::UnknownSegment { last: 2, .. })), "{refused:?}");
}

/// L7: segments leave the record before their files are released.
#[test]
fn l7_files_are_removed_after_they_left_the_record() {
    let world = World::new(3);
    let log = world.open(1);
    for file in 1..=4 {
        log.begin_file(file).expect("all StoCs are up");
        append(&log, file, b"word").expect("all StoCs are up");
    }
    let files = world.file_count();
    world.registry.fail(1, false);
    assert!(matches!(log.remove_before(3), Err(Error::Unavailable(_))));
    assert_eq!((world.file_count(), log.files().len()), (files, 4));
    log.remove_before(3).expect("the coordinator is back");
    assert_eq!((world.file_count(), log.files().len()), (files - 6, 2));
    // The newest file stays.
    log.remove_before(9).expect("the coordinator is there");
    assert_eq!(log.files(), [(4, 4)]);
    assert_eq!(world.open(2).files(), [(4, 4)]);
}

/// The files of the write log that StoCs have.
fn listed(world: &World, stocs: u32) -> Vec<(u32, Listed)> {
    let files = |node: u32| {
        let files = world.stoc(node).list(testing::RANGE).into_iter();
        files.filter(|file| file.name.kind == LOG).map(move |file| (node, file))
    };
    (1..=stocs).flat_map(files).collect()
}

fn is_registered(record: &LogRecord, file: &Listed) -> bool {
    record.segments.iter().any(|segment| segment.name(testing::RANGE, LOG) == file.name)
}

/// L8: files that no record names are orphans. A segment that is being registered is none.
#[test]
fn l8_files_without_a_segment_are_orphans() {
    let world = World::new(3);
    let log = Arc::new(world.open(1));
    let begin = |file| log.begin_file(file).expect("two StoCs are up");
    begin(1);
    // One StoC makes files, and its replies are lost. Another one is not asked to release files.
    world.set(1, Behaviour::Mute);
    (2..=5).for_each(begin);
    world.set(1, Behaviour::Up);
    world.set(2, Behaviour::Away);
    log.remove_before(5).expect("the coordinator is there");
    world.set(2, Behaviour::Up);
    let record = world.registry.record(LOG);
    let mut orphans = Vec::new();
    for (node, file) in listed(&world, 3) {
        assert_eq!(log.is_orphan(&file), !is_registered(&record, &file), "{node}: {file:?}");
        orphans.extend(log.is_orphan(&file).then_some(node));
    }
    assert!(orphans.contains(&1) && orphans.contains(&2), "{orphans:?}");
    let (weak, stocs) = (Arc::downgrade(&log), world.clone());
    world.registry.on_change(move |_, record| {
        let Some(log) = weak.upgrade() else { return };
        for (node, file) in listed(&stocs, 3) {
            let is_registered = is_registered(&record, &file);
            assert!(!is_registered || !log.is_orphan(&file), "{node}: {file:?}");
        }
    });
    begin(6);
    // An owner finds the files of owners before it, and no files of later ones.
    let next = world.open(2);
    next.begin_file(7).expect("all StoCs are up");
    let record = world.registry.record(LOG);
    for (node, file) in listed(&world, 3) {
        assert_eq!(next.is_orphan(&file), !is_registered(&record, &file), "{node}: {file:?}");
        assert!(file.epoch.0 == 1 || !log.is_orphan(&file), "{node}: {file:?}");
    }
}

/// Attempts to make a segment leave no files while too few StoCs are up.
#[test]
fn l8_a_segment_without_a_quorum_has_no_files() {
    let world = World::new(5);
    let log = world.open(1);
    log.begin_file(1).expect("all StoCs are up");
    // One StoC of five makes the files of a segment. No other one can be reached.
    (2..=5).for_each(|node| world.set(node, Behaviour::Away));
    let appended = thread::scope(|scope| {
        let appends = scope.spawn(|| append(&log, 1, b"word"));
        Environment::real().sleep(Duration::from_millis(100));
        (2..=5).for_each(|node| world.set(node, Behaviour::Up));
        appends.join().expect("it does not panic")
    });
    assert_eq!(appended, Ok(()));
    let record = world.registry.record(LOG);
    for (node, file) in listed(&world, 5) {
        assert!(is_registered(&record, &file), "{node}: {file:?}");
    }
}

/// A log leaves an ensemble with a failed StoC for a better one.
#[test]
fn a_failed_stoc_is_replaced_by_another_one() {
    let world = World::new(4);
    let log = world.open(1);
    log.begin_file(1).expect("all StoCs are up");
    let failed = newest_ensemble(&log).first().copied().expect("it has StoCs");
    world.set(failed, Behaviour::Away);
    append(&log, 1, b"noticed").expect("two StoCs are up");
    append(&log, 1, b"left").expect("three StoCs are up");
    let ensemble = newest_ensemble(&log);
    assert_eq!(ensemble.len(), 3);
    assert!(!ensemble.contains(&failed), "{ensemble:?}");
}

#[test]
fn too_few_stocs_are_refused() {
    let world = World::new(1);
    let refused = world.try_open(1).err();
    assert!(matches!(refused, Some(Error::TooFewStocs { have: 1, need: 2 })), "{refused:?}");
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of `docs/formats/logc.md`.
#[test]
fn a_header_and_a_record_keep_their_bytes() {
    let (part, previous, previous_end) = (Part { file: 3, offset: 1_000 }, 6, 1_052);
    assert_eq!(
        hex(&Header { part, previous, previous_end }.encode()),
        "54434c4f4743534701000000774cad300300000000000000e80300000000000006000000000000001c04000000000000a30ffdae"
    );
    let member = |node| Member { node, cookie: 0xfeed, incarnation: 9 };
    let sealed = Segment {
        index: 6,
        nonce: 0x1122_3344_5566_7788,
        mode: Mode::Durable,
        ensemble: vec![member(1), member(2)],
        part: Some(part),
        sealed: Some(previous_end),
    };
    let open = Segment { index: 7, part: None, sealed: None, ..sealed.clone() };
    let in_memory = Segment { mode: Mode::Memory, ..open.clone() };
    let record = LogRecord { segments: vec![sealed, open] };
    assert_eq!(
        hex(&record.encode()),
        "0102030688776655443322110201edfe0000000000000902edfe0000000000000903e8079c08000788776655443322110201edfe0000000000000902edfe00000000000009"
    );
    assert_eq!(LogRecord::decode(&record.encode()), Ok(record));
    let record = LogRecord { segments: vec![in_memory] };
    assert_eq!(
        hex(&record.encode()),
        "0101040788776655443322110201edfe0000000000000902edfe00000000000009"
    );
    assert_eq!(LogRecord::decode(&record.encode()), Ok(record));
}

fn segments() -> impl Strategy<Value = LogRecord> {
    let member = (any::<u32>(), any::<u64>(), any::<u64>())
        .prop_map(|(node, cookie, incarnation)| Member { node, cookie, incarnation });
    let part = proptest::option::of((any::<u64>(), any::<u64>()));
    let ensemble = proptest::collection::vec(member, 0..4);
    let (nonce, sealed) = (any::<(u64, bool)>(), proptest::option::of(any::<u64>()));
    let segment = (1..1_000_u64, nonce, ensemble, part, sealed);
    proptest::collection::vec(segment, 0..5).prop_map(|parts| {
        let mut index = 0;
        let segments =
            parts.into_iter().map(|(more, (nonce, is_durable), ensemble, part, sealed)| {
                index += more;
                let part = part.map(|(file, offset)| Part { file, offset });
                let mode = if is_durable { Mode::Durable } else { Mode::Memory };
                Segment { index, nonce, mode, ensemble, part, sealed }
            });
        LogRecord { segments: segments.collect() }
    })
}

proptest! {
    #[test]
    fn a_record_is_decoded_as_it_was_encoded(record in segments()) {
        prop_assert_eq!(LogRecord::decode(&record.encode()), Ok(record));
    }

    #[test]
    fn a_damaged_record_does_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _is_damaged = LogRecord::decode(&bytes);
        let _is_damaged = Header::decode(&bytes);
    }

    #[test]
    fn a_flipped_bit_of_a_header_is_found(at in 0..Header::BYTES * 8, file: u64, offset: u64) {
        let header = Header { part: Part { file, offset }, previous: 3, previous_end: 77 };
        let mut bytes = header.encode();
        prop_assert_eq!(bytes.len(), Header::BYTES);
        prop_assert_eq!(Header::decode(&bytes), Ok(header));
        if let Some(byte) = bytes.get_mut(at / 8) {
            *byte ^= 1 << (at % 8);
        }
        prop_assert!(Header::decode(&bytes).is_err());
    }
}

/// Keeps the links of a thread alive in tests with `ThreadLink`.
#[test]
fn links_with_threads_of_their_own_work() {
    let world = World::with_threads(3);
    let log = Arc::new(world.open(1));
    log.begin_file(1).expect("all StoCs are up");
    for _ in 0..50 {
        append(&log, 1, b"word").expect("all StoCs are up");
    }
    assert_eq!(content(&world.open(2), 1), b"word".repeat(50));
}
