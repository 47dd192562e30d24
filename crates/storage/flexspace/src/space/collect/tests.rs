//! The collector: its choice of victims, the bytes that it keeps, and that it always proceeds.

use std::time::Duration;

use device::{Failure, Fault, Lasting, Mode, OperationKind};
use environment::Environment;
use workers::{Order, Pool};

use super::plan::{fewer, plan};
use super::victim_map::Note;
use super::{Collected, NOTED_FEW, Pace, Tracking, VictimMap};
use crate::data::{Geometry, SegmentView};
use crate::log::{Change, Piece};
use crate::space::{Error, FlexSpace, Options};
use crate::{Extent, FlexTree};

const PAYLOAD: u64 = 4 * 4092;

fn view(live: &[u64], available: u32) -> SegmentView {
    let closed = (0..).zip(live.iter().copied()).collect();
    let (is_device_full, is_beside_writes, is_thorough) = (false, false, false);
    let (demand, reserved, room, payload_bytes) = (0, 64, 64, PAYLOAD);
    SegmentView {
        closed,
        available,
        demand,
        is_device_full,
        is_beside_writes,
        is_thorough,
        reserved,
        room,
        payload_bytes,
    }
}

#[test]
fn the_emptiest_are_chosen_if_it_is_worth_it() {
    let (full, half, little) = (PAYLOAD, PAYLOAD / 2, PAYLOAD / 10);
    assert!(plan(&view(&[], 0)).is_empty());
    assert!(plan(&view(&[full, full, full], 0)).is_empty(), "nothing can be won");
    assert_eq!(plan(&view(&[full, little, half, little, half + 1], 1000)), [1, 2, 3]);
    let mostly_full = [full, full, full, full, full, full, little, little];
    assert!(plan(&view(&mostly_full, 1000)).is_empty(), "there is room");
    assert_eq!(plan(&view(&mostly_full, 10)), [6, 7], "there is none");
    assert!(plan(&view(&[little], 10)).is_empty(), "one makes one");
    let at_the_limit = vec![PAYLOAD / 32 * 30; 200];
    let victims = plan(&view(&at_the_limit, 0));
    assert!(victims.len() == 64, "{} victims of a full space", victims.len());
    let with_room = |room| plan(&SegmentView { room, ..view(&[half; 200], 0) }).len();
    assert_eq!([0, 1, 2, 10, 64].map(with_room), [0, 0, 3, 19, 64], "what has room is copied");
}

#[test]
fn beside_many_writes_more_may_be_dead_unless_room_is_short() {
    let (full, half) = (PAYLOAD, PAYLOAD / 2);
    let beside = |live: &[u64], available| {
        plan(&SegmentView { is_beside_writes: true, ..view(live, available) })
    };
    let third_dead = [full, half, half, half];
    assert_eq!(plan(&view(&third_dead, 1000)), [1, 2, 3]);
    assert!(beside(&third_dead, 1000).is_empty(), "they may come to be empty");
    assert_eq!(beside(&third_dead, 10), [1, 2, 3], "there is no room to wait for that");
    assert_eq!(beside(&[half, half, half], 1000), [0, 1, 2]);
}

#[test]
fn victims_with_very_many_extents_are_fewer_if_those_win_a_segment() {
    let (half, little) = (PAYLOAD / 2, PAYLOAD / 10);
    let view = view(&[half, little, half, little, half], 1000);
    let victims = [0, 1, 2, 3, 4];
    let extents = [500, 100, 500, 100, 500];
    assert_eq!(fewer(&view, &victims, &extents, 1_700), victims);
    assert_eq!(fewer(&view, &victims, &extents, 1_100), [0, 1, 3]);
    assert_eq!(fewer(&view, &victims, &extents, 200), [1, 3]);
    // One of them makes one: the fewest that win a segment are better than none.
    assert_eq!(fewer(&view, &victims, &extents, 199), [1, 3]);
    assert_eq!(fewer(&view, &victims, &extents, 0), [1, 3]);
}

/// Extents of a victim in the order of the space are read in windows, and not one by one.
#[test]
fn extents_that_lie_beside_each_other_are_read_at_once() {
    let device = device::memory();
    let space = FlexSpace::create(device.clone(), options(300)).expect("an empty device");
    for number in 0..1000_u64 {
        // Tagged, they stay apart.
        space.splice(number * 100, 0, &[number as u8; 100], 1).expect("room");
    }
    (0..500).for_each(|number| space.collapse(number * 100, 100).expect("bytes"));
    space.sync().expect("room");
    let before = device.accounting().counts().read_ops;
    let done = space.collect().expect("reads");
    let reads = device.accounting().counts().read_ops - before;
    assert!(done.remapped > 200 && done.damage.is_none(), "{done:?}");
    assert!(5 * reads < done.remapped, "{reads} reads of {} extents", done.remapped);
    let expected: Vec<u8> = (0..500_u64).flat_map(|number| [(2 * number + 1) as u8; 100]).collect();
    assert_eq!(space.snapshot().expect("open").read(0, space.len()).expect("sound"), expected);
    space.close().expect("closes");
}

#[test]
fn a_trail_follows_what_is_done_while_it_is_made_and_after() {
    let geometry = Geometry::new(16 << 10).expect("a size of segments");
    let extent = |segment, inside| Extent::at(geometry.address(segment, inside)).expect("one");
    let mut tree = FlexTree::new();
    for segment in 0..4 {
        tree.append(100, extent(segment, 0)).expect("room");
    }
    let mut tracking = Tracking::default();
    let splice = |offset, removed, length| {
        let pieces = vec![Piece { address: geometry.address(9, 0), length }];
        Change::Splice { offset, removed, tag: 0, pieces }
    };
    tracking.note(&splice(0, 0, 1));
    tracking.begin(2);
    let mut victim_map =
        VictimMap::of(&tree.snapshot(), geometry, &[1, 3], 2).expect("two extents");
    assert!(VictimMap::of(&tree.snapshot(), geometry, &[1, 3], 1).is_none());
    // Meanwhile: ten bytes are inserted before all, and the middle of the first victim is replaced.
    let changes = [splice(0, 0, 10), splice(140, 20, 30)];
    changes.iter().for_each(|change| tracking.note(change));
    tracking.note(&Change::SetTag { offset: 7, tag: 1 });
    let noted = tracking.take_noted().expect("just as many as may be noted");
    assert_eq!(noted, changes.each_ref().map(|change| Note::of(change).expect("one")));
    noted.into_iter().for_each(|note| victim_map.follow(note));
    tracking.follow(victim_map);
    tracking.note(&Change::SetTag { offset: 0, tag: 3 });
    tracking.note(&splice(0, 5, 1));
    let found = tracking.next(10);
    let found: Vec<_> = found.iter().map(|at| (at.offset, at.length, at.extent)).collect();
    let expected = [(106, 30, extent(1, 0)), (166, 50, extent(1, 50)), (316, 100, extent(3, 0))];
    assert_eq!(found, expected);
    assert_eq!(tracking.next(1).len(), 1);
    // Extents that are relocated, or stay, are not looked for again.
    let piece = Piece { address: geometry.address(9, 0), length: 30 };
    tracking.note(&Change::Relocate { offset: 106, piece });
    tracking.forget(166, 50);
    assert_eq!(tracking.next(10).iter().map(|at| at.offset).collect::<Vec<_>>(), [316]);
    tracking.end();
    assert!(tracking.next(10).is_empty());
}

/// A writer that keeps its lock for long, as a commit of a store does, has no more noted than may
/// be: the collector looks for the victims' bytes once more.
#[test]
fn more_changes_than_are_noted_while_a_trail_is_made_are_followed_all_the_same() {
    let (space, mut model) = half_full(device::memory());
    let shared = &space.shared;
    let (victims, snapshot) = {
        let mut writer = shared.writer_for_change().expect("open");
        let victims = shared.victims_with_room(&mut writer, Pace::AtEase).expect("a device");
        writer.tracking.begin(NOTED_FEW);
        (victims, shared.snapshot())
    };
    let victim_map = VictimMap::of(snapshot.tree(), shared.data.geometry, &victims, u64::MAX);
    let victim_map = victim_map.expect("however many extents there are");
    for number in 0..2 * NOTED_FEW {
        let at = number * 613 % (model.len() - 600);
        space.splice(at as u64, 600, &[5; 77], 0).expect("room");
        model.splice(at..at + 600, [5; 77]);
        if let Tracking::Noting { noted, .. } = &shared.writer.lock().tracking {
            assert!(noted.len() <= NOTED_FEW, "{} changes are noted", noted.len());
        }
    }
    let done = shared.collect_victims(&victims, victim_map, snapshot, &|| false).expect("a device");
    shared.writer.lock().tracking.end();
    assert!(done.segments > 10 && done.remapped > 10, "{done:?}");
    assert_eq!(space.read(0, space.len()), Ok(model));
    space.check().expect("sound");
}

fn options(segments: u64) -> Options {
    Options {
        segment_bytes: 16 << 10,
        capacity_bytes: segments * (16 << 10),
        reserved_segments: 64,
        ..Options::default()
    }
}

/// Returns a space of 100 segments, of each of which about half lives.
fn half_full(device: std::sync::Arc<dyn device::Device>) -> (FlexSpace, Vec<u8>) {
    let space = FlexSpace::create(device, options(1000)).expect("a device");
    let mut model = Vec::new();
    for number in 0..3100_u32 {
        space.append(&[number as u8; 512]).expect("room");
        if number % 2 == 0 {
            space.collapse(space.len() - 512, 512).expect("a range");
        } else {
            model.extend([number as u8; 512]);
        }
    }
    space.sync().expect("a device");
    (space, model)
}

/// Next to writes that will empty segments, the collector leaves segments that a calm store has
/// moved; but not if half of the bytes are dead.
#[test]
fn a_space_that_is_written_to_leaves_more_of_it_dead() {
    let space = FlexSpace::create(device::memory(), options(1000)).expect("a device");
    (0..3100).for_each(|number| space.append(&[number as u8; 512]).expect("room"));
    // The second half of each of two segments of three is dead.
    let segment = PAYLOAD / 512;
    let dead = (0..3100 / segment).filter(|number| number % 3 > 0).rev();
    for number in dead {
        let at = (number * segment + segment / 2) * 512;
        space.collapse(at, (segment - segment / 2) * 512).expect("a range");
    }
    space.sync().expect("a device");
    assert_eq!(space.collect_beside_writes(), Ok(Collected::default()));
    let done = space.collect().expect("a device");
    assert!(done.segments > 10, "{done:?}");
    let (space, model) = half_full(device::memory());
    let done = space.collect_beside_writes().expect("a device");
    assert!(done.segments > 10, "{done:?}");
    assert_eq!(space.read(0, space.len()), Ok(model));
}

/// Makes the device full at the `nth` request for room from now on, and the ballast release none.
fn fail_resizing(device: &device::FaultDevice, nth: u64) {
    let kind = Some(OperationKind::Resize);
    for more in 0..2 {
        let nth = device.count(kind) + nth + more;
        device.fail(Fault { kind, nth, failure: Failure::NoSpace, lasting: Lasting::Once });
    }
}

#[test]
fn with_little_room_on_the_device_fewer_segments_are_emptied_and_as_many_as_is_reported() {
    let device = device::FaultDevice::new(device::memory());
    let (space, model) = half_full(device.clone());
    let before = space.stats();
    // Room for ten segments.
    fail_resizing(&device, 11);
    let done = space.collect().expect("a device");
    assert_eq!(device.failed(), 2);
    let after = space.stats();
    assert!(done.segments > 15, "{done:?}");
    assert_eq!(before.used_segments + 10 - after.used_segments, done.segments);
    assert_eq!(space.read(0, space.len()), Ok(model));
    space.check().expect("sound");
}

/// From some read of a collection on all reads fail temporarily: nothing is taken for damage, and
/// the next collection does the work.
#[test]
fn a_read_that_fails_temporarily_ends_the_collection_alone() {
    let kind = Some(OperationKind::Read);
    for nth in 1.. {
        let device = device::FaultDevice::new(device::memory());
        let (space, model) = half_full(device.clone());
        let (failure, lasting) = (Failure::Unavailable, Lasting::ForGood);
        device.fail(Fault { kind, nth: device.count(kind) + nth, failure, lasting });
        let ended = space.collect();
        device.heal();
        if device.failed() == 0 {
            assert!(nth > 3, "a collection reads each victim: {ended:?}");
            break;
        }
        assert!(ended.as_ref().is_err_and(Error::is_retryable), "read {nth}: {ended:?}");
        assert_eq!(space.stats().unreadable_segments, 0, "read {nth}");
        let done = space.collect().expect("the device reads again");
        assert!(done.segments > 10 && done.damage.is_none(), "read {nth}: {done:?}");
        assert_eq!(space.read(0, space.len()).as_ref(), Ok(&model));
        space.check().expect("sound");
    }
}

#[test]
fn a_block_that_cannot_be_read_stays_and_stops_nothing() {
    let device = device::memory();
    let (space, model) = half_full(device.clone());
    let data = device.open("data", Mode::Write).expect("a device");
    // The second block of the third segment, which is among the victims.
    let at = 2 * (16 << 10) + (4 << 10);
    let mut block = [0; 4096];
    data.read_at(at, &mut block).expect("a device");
    data.write_at(at, &[0; 4096]).expect("a device");
    let is_damaged = || matches!(space.read(0, space.len()), Err(Error::Corruption(_)));
    assert!(is_damaged());
    let mut found = Vec::new();
    loop {
        let done = space.collect().expect("what cannot be read is no failure");
        found.extend(done.damage);
        if done.segments == 0 {
            break;
        }
    }
    let [Error::Corruption(damage)] = &found[..] else { panic!("{found:?}") };
    assert_eq!((&*damage.file, damage.offset), ("data", at));
    let stats = space.stats();
    assert_eq!(stats.unreadable_segments, 1);
    assert!(stats.used_segments < 80, "{stats:?}");
    assert!(is_damaged(), "what is damaged is nothing else now");
    data.write_at(at, &block).expect("a device");
    assert_eq!(space.read(0, space.len()), Ok(model), "it stayed where it was");
    // When nothing lives in it, it is a segment like others.
    space.collapse(0, space.len()).expect("a range");
    space.sync().expect("a device");
    assert_eq!(space.stats().unreadable_segments, 0);
    space.check().expect("sound");
}

#[test]
fn nothing_is_copied_that_wins_no_segment() {
    let device = device::FaultDevice::new(device::memory());
    let space = FlexSpace::create(device.clone(), options(128)).expect("a device");
    for number in 0..60 * 31_u32 {
        space.append(&[number as u8; 512]).expect("room");
        if number % 31 < 3 {
            space.collapse(space.len() - 512, 512).expect("a range");
        }
    }
    space.sync().expect("a device");
    // With room for one copy no segment is won; the secured room is released.
    fail_resizing(&device, 2);
    let before = device.count(Some(OperationKind::Resize));
    assert_eq!(space.collect(), Ok(Collected::default()));
    assert_eq!(
        device.count(Some(OperationKind::Resize)) - before,
        5,
        "two tries, the ballast, both back"
    );
    let snapshot = space.snapshot().expect("open");
    let mut told = 0;
    loop {
        let done = space.collect().expect("a device");
        told += done.segments;
        if done.segments == 0 {
            assert_eq!(done.moved_bytes, 0, "a copy that wins nothing");
            break;
        }
    }
    assert_eq!((told > 0, space.stats().held_segments), (true, told));
    drop(snapshot);
    space.check().expect("sound");
}

#[test]
fn a_change_that_wants_many_segments_has_them_made_before_any_is_begun() {
    let space = FlexSpace::create(device::memory(), options(1064)).expect("a device");
    let extent = [7; 512];
    // One extent of each segment is removed, and of some a second one.
    for segment in 0..975_u64 {
        (0..31).for_each(|_| space.append(&extent).expect("room"));
        let gone = if segment % 3 == 0 { 1024 } else { 512 };
        space.collapse(space.len() - gone, gone).expect("a range");
    }
    space.sync().expect("a device");
    let stats = space.stats();
    let large = vec![8; 27 * 31 * 512];
    assert!(stats.live_bytes + (large.len() as u64) < stats.limit_bytes, "it may live");
    assert!(1000 - stats.used_segments > 16, "{stats:?}: enough for small changes");
    assert_eq!(space.collect().map(|done| done.segments), Ok(0), "nobody wants anything");
    let is_refused = || space.append(&large) == Err(Error::Uncollected);
    assert!(is_refused());
    let after = space.stats();
    assert_eq!((after.used_segments, after.pending_bytes), (stats.used_segments, 0));
    while is_refused() {
        assert!(space.collect().expect("a device").segments > 0, "the collector finds none");
    }
    assert_eq!(space.read(stats.len, large.len() as u64), Ok(large));
}

#[test]
fn at_the_limit_the_collector_always_gets_on() {
    // The fewest segments that may be, and some more.
    [128, 164].into_iter().for_each(gets_on_at_the_limit);
}

fn gets_on_at_the_limit(segments: u64) {
    let space = FlexSpace::create(device::memory(), options(segments)).expect("a device");
    let mut model = Vec::new();
    let mut number = 0_u64;
    let mut was_stuck = false;
    loop {
        let data = [number as u8; 301];
        let offset = number * 7919 % (model.len() as u64 + 1);
        match space.insert(offset, &data) {
            Ok(()) => {}
            Err(Error::NoSpace { live_bytes, limit_bytes, more_bytes }) => {
                assert!(live_bytes + more_bytes > limit_bytes && live_bytes <= limit_bytes);
                break;
            }
            Err(Error::Uncollected) => {
                // Its commits may free segments, too.
                let is_stuck = space.collect().expect("a device").segments == 0;
                assert!(!is_stuck || !was_stuck, "room, but the collector finds none");
                was_stuck = is_stuck;
                continue;
            }
            Err(error) => panic!("{error}"),
        }
        model.splice(offset as usize..offset as usize, data);
        number += 1;
        was_stuck = false;
    }
    assert_eq!(space.read(0, space.len()).as_deref(), Ok(&model[..]), "a refusal changes nothing");
    let mut collections = 0;
    for round in 0..8_000_u64 {
        let at = (round * 104_729 % (model.len() as u64 / 301)) * 301;
        let data = [round as u8; 301];
        let mut was_stuck = false;
        let replaced = loop {
            match space.pwrite(at, &data) {
                Err(Error::Uncollected) => {
                    let done = space.collect().expect("a device");
                    collections += done.segments.min(1);
                    assert!(done.segments > 0 || !was_stuck, "round {round}: {:?}", space.stats());
                    was_stuck = done.segments == 0;
                }
                replaced => break replaced,
            }
        };
        replaced.expect("no more than before");
        model[at as usize..at as usize + 301].copy_from_slice(&data);
    }
    assert!(collections > 5, "{collections} collections");
    assert_eq!(space.read(0, space.len()), Ok(model));
    space.check().expect("sound");
}

#[test]
fn what_is_written_while_a_collection_copies_is_kept() {
    let inner = device::memory();
    let device = device::FaultDevice::new(inner.clone());
    let space = FlexSpace::create(device.clone(), options(1000)).expect("a device");
    let mut model: Vec<u8> = (0..200_000_u32).map(|number| (number / 300) as u8).collect();
    for chunk in model.chunks(300) {
        space.append(chunk).expect("room");
    }
    space.set_tag(300, 5).expect("an offset");
    // Three of four extents go, so that segments are worth their copy.
    for offset in (0..48_000).step_by(300) {
        space.collapse(offset, 900).expect("a range");
        model.drain(offset as usize..offset as usize + 900);
    }
    space.sync().expect("a device");
    let other = space.clone();
    // Before the collector's first write: its victim map is made, and nothing is remapped.
    device.interpose(device::OperationKind::Write, move || {
        other.insert(1000, &[1; 700]).expect("room");
        other.collapse(5_000, 1_234).expect("a range");
        other.pwrite(9_000, &[2; 450]).expect("room");
        other.set_tag(20_000, 9).expect("an offset");
        other.collapse(0, 10).expect("a range");
    });
    let done = space.collect().expect("a device");
    assert!(done.segments > 3 && done.moved_bytes > 10_000 && done.remapped > 10, "{done:?}");
    model.splice(1000..1000, [1; 700]);
    model.drain(5_000..6_234);
    model[9_000..9_450].fill(2);
    model.drain(0..10);
    assert_eq!(space.read(0, space.len()).as_deref(), Ok(&model[..]));
    let tagged = space.read_extent(19_990, 0).expect("an extent");
    assert_eq!((tagged.offset, tagged.tag), (19_990, 9));
    space.check().expect("sound");
    space.sync().expect("a device");
    drop(space);
    let space = FlexSpace::open(inner, options(1000)).expect("a device");
    assert_eq!(space.read(0, space.len()), Ok(model));
    space.check().expect("sound");
}

#[test]
fn a_group_of_workers_runs_it() {
    let (env, clock) = Environment::simulated(3);
    let (pool, crank) = Pool::hand_cranked(&env, &telemetry::Registry::default(), Order::InOrder);
    let group = pool.group("space");
    let space = FlexSpace::create(device::memory(), options(1000)).expect("a device");
    space.collect_in(&group, Duration::from_secs(1)).expect("a group that runs");
    for _ in 0..10 {
        space.append(&[3; 16_000]).expect("room");
    }
    for offset in (0..40_000).step_by(500) {
        space.collapse(offset, 1_500).expect("a range");
    }
    space.sync().expect("a device");
    let before = space.stats().used_segments;
    clock.advance(Duration::from_secs(1));
    crank.run_all();
    let stats = space.stats();
    assert!(stats.used_segments + 3 < before, "{} of {before} segments", stats.used_segments);
    assert_eq!(space.read(0, space.len()), Ok(vec![3; 40_000]));
    space.close().expect("a device");
    clock.advance(Duration::from_secs(1));
    crank.run_all();
    assert!(group.stop().is_empty(), "no task panicked");
}
