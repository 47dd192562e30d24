//! Views next to writers: a view shows whole batches only, and always the same ones.
//! It shows everything acknowledged before it was taken, also to gets that wait for the device.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use engine::{At, Direction, Engine, KeyRange, Pin};
use reads::{BlockingReads, View};

use super::shared::{Shared, join_all, spawn};
use super::value;
use crate::Fixture;
use crate::draw::Draw;
use crate::host::Opened;
use crate::in_flight::{InFlight, LookupStart};
use crate::model::Pair;
use crate::operation::Step;
use crate::sequential::collect;

const WRITERS: usize = 2;
const SCANNERS: usize = 2;
/// Views that each scanner looks at.
const LOOKS: usize = 20;
/// Keys of one writer; each of its batches writes them all.
const KEYS: usize = 6;
/// Gets of a view that are in flight at the same time.
const IN_FLIGHT: usize = 4;

/// A writer's keys are between the other's, so that a scan passes from one to the other.
fn key(writer: usize, index: usize) -> Vec<u8> {
    format!("pair{index}-{writer}").into_bytes()
}

/// The number of the last batch that was acknowledged, per writer.
type Acknowledged = Arc<[AtomicU64; WRITERS]>;

/// Writes batch `number`: every key has it or, in some batches, none is there.
fn write(shared: &Shared, writer: usize, number: u64) -> Result<(), String> {
    let deletes_ranges = shared.opened.engine.capabilities().deletes_ranges;
    let step = |index| {
        let key = key(writer, index);
        if deletes_ranges && number.is_multiple_of(14) {
            // The other writer's keys are behind it.
            let end = Some([key.as_slice(), b"\0"].concat());
            Step::DeleteRange { start: key, end }
        } else if number.is_multiple_of(7) {
            Step::Delete { key }
        } else {
            Step::Put { key, value: value::encode(number) }
        }
    };
    shared.write((0..KEYS).map(step).collect())
}

fn scan(view: &View<'_, dyn Engine>, direction: Direction) -> Result<Vec<Pair>, String> {
    let cursor = view.scan(KeyRange::all(), direction);
    cursor.and_then(|mut cursor| collect(cursor.as_mut(), usize::MAX)).map_err(|e| e.to_string())
}

fn look(shared: &Shared, acknowledged: &Acknowledged, draw: &mut Draw) -> Result<(), String> {
    let before: Vec<u64> = acknowledged.iter().map(|number| number.load(SeqCst)).collect();
    let pin = shared.opened.sequence.pin();
    let view = shared.opened.engine.view(Arc::clone(&pin));
    let pairs = scan(&view, Direction::Forward)?;
    for (writer, before) in before.iter().enumerate() {
        let of_writer = |(key, _): &&Pair| key.ends_with(format!("-{writer}").as_bytes());
        let numbers: Vec<u64> = pairs
            .iter()
            .filter(of_writer)
            .map(|(_, stored)| value::decode(stored))
            .collect::<Result<_, _>>()?;
        let whole = numbers.is_empty() || numbers.len() == KEYS;
        if !whole || numbers.iter().any(|number| *number != numbers[0]) {
            return Err(format!("a view shows part of a batch of writer {writer}: {numbers:?}"));
        }
        if numbers.first().is_some_and(|number| number < before) {
            let shown = numbers[0];
            return Err(format!("a view shows batch {shown}, {before} was acknowledged before it"));
        }
    }
    std::thread::yield_now();
    let again = match draw.once_in(2) {
        true => scan(&view, Direction::Forward)?,
        false => scan(&view, Direction::Backward)?.into_iter().rev().collect(),
    };
    if again != pairs {
        return Err("a view scanned twice shows two things".to_owned());
    }
    if draw.once_in(2) {
        drop(view);
        return get_all(shared, &pin, &pairs);
    }
    let mut stored = Vec::new();
    for (key, expected) in &pairs {
        let found = view.get(key, &mut stored).map_err(|error| error.to_string())?;
        if !found || stored != *expected {
            let key = key.escape_ascii();
            return Err(format!("a view's get of {key} differs from its scan"));
        }
    }
    Ok(())
}

/// Gets the pairs of a pin, with several lookups in flight while writers and flushes continue.
fn get_all(shared: &Shared, pin: &Pin, pairs: &[Pair]) -> Result<(), String> {
    let Opened { engine, memory, .. } = &shared.opened;
    let mut gets = InFlight::new(engine.as_ref(), IN_FLIGHT, memory);
    let mut found = BTreeMap::new();
    for (tag, (key, _)) in (0..).zip(pairs) {
        loop {
            let begun = gets.begin(tag, key, At::Pin(pin)).map_err(|error| error.to_string())?;
            match begun {
                LookupStart::Found(value) => drop(found.insert(tag, Some(value))),
                LookupStart::Absent => drop(found.insert(tag, None)),
                LookupStart::Pending => {}
                LookupStart::Full => {
                    std::thread::yield_now();
                    gets.complete(true);
                    continue;
                }
            }
            break;
        }
    }
    std::thread::yield_now();
    gets.finish();
    for (tag, ended) in std::mem::take(&mut gets.ended) {
        found.insert(tag, ended.value.map_err(|error| error.to_string())?);
    }
    for (tag, (key, expected)) in (0..).zip(pairs) {
        if found.get(&tag).and_then(Option::as_ref) != Some(expected) {
            let key = key.escape_ascii();
            return Err(format!("a get of {key} at a pin differs from the scan"));
        }
    }
    Ok(())
}

/// Runs writers, scanners and upkeep concurrently. Engines without order have no views to check.
pub(crate) fn snapshots(fixture: &dyn Fixture, seed: u64) -> Result<(), String> {
    let shared = Shared::open(fixture, SCANNERS)?;
    if !shared.opened.engine.capabilities().ordered {
        return Ok(());
    }
    let acknowledged: Acknowledged = Arc::new([const { AtomicU64::new(0) }; WRITERS]);
    let mut scanners = Vec::new();
    for scanner in 0..SCANNERS {
        let (shared, acknowledged) = (Arc::clone(&shared), Arc::clone(&acknowledged));
        let mut draw = Draw::new(seed, &format!("scanner {scanner}"));
        scanners.push(spawn(&format!("scanner-{scanner}"), move || {
            shared.start.wait();
            (0..LOOKS).try_for_each(|_| look(&shared, &acknowledged, &mut draw))
        })?);
    }
    let mut beside = Vec::new();
    for writer in 0..WRITERS {
        let (shared, acknowledged) = (Arc::clone(&shared), Arc::clone(&acknowledged));
        beside.push(spawn(&format!("writer-{writer}"), move || {
            let mut number = 0;
            while !shared.over.load(SeqCst) {
                number += 1;
                write(&shared, writer, number)?;
                acknowledged[writer].store(number, SeqCst);
            }
            Ok(())
        })?);
    }
    let upkeep = Arc::clone(&shared);
    beside.push(spawn("upkeep", move || upkeep.upkeep())?);
    join_all(&shared, scanners, beside)?;
    let keys: Vec<Vec<u8>> =
        (0..WRITERS).flat_map(|writer| (0..KEYS).map(move |index| key(writer, index))).collect();
    shared.reopen_and_compare(fixture, &keys)
}
