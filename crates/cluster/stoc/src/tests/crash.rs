//! Power cuts at every operation of a run, each followed by another one during the opening.

use std::sync::Arc;

use device::{Device, Faults, SimulatedDisk};

use super::{RANGE, bytes, log, options, table};
use crate::{Epoch, Error, RangeId, Result, Stoc};

/// The changes that were acknowledged before a moment.
#[derive(Clone, Debug, Default)]
struct Acknowledged {
    promise: u64,
    log: Option<u64>,
    finished: Vec<u64>,
    /// Files of which a release of the last reference has begun.
    released: Vec<u64>,
    /// Files of which the last reference was released.
    gone: Vec<u64>,
    seal: Option<u64>,
    has_references: bool,
    incarnation: u64,
}

const TABLE_BYTES: usize = 9_000;

/// A run: each step is acknowledged, or fails since the power was cut.
fn run(device: &Arc<dyn Device>, mut note: impl FnMut(&Acknowledged)) -> Result<()> {
    let mut done = Acknowledged::default();
    let stream = bytes(1, 20_000);
    for incarnation in 1..4_u64 {
        let stoc = Stoc::open(Arc::clone(device), &options(incarnation))?;
        done.incarnation = incarnation;
        note(&done);
        let epoch = incarnation;
        stoc.fence(RANGE, Epoch(epoch))?;
        done.promise = epoch;
        note(&done);
        if done.log.is_none() {
            stoc.create_log(log(1), Epoch(epoch))?;
            done.log = Some(0);
            note(&done);
        }
        for count in [10_u64, 3_000, 1] {
            let from = done.log.unwrap_or(0);
            let part = stream.get(from as usize..(from + count) as usize).unwrap_or_default();
            stoc.append(&log(1), Epoch(epoch), from, part)?;
            done.log = Some(from + count);
            note(&done);
        }
        let number = incarnation;
        stoc.create_table(table(number), Epoch(epoch), 0)?;
        stoc.write(&table(number), Epoch(epoch), 0, &bytes(number, TABLE_BYTES))?;
        stoc.finish(&table(number), Epoch(epoch), TABLE_BYTES as u64)?;
        done.finished.push(number);
        note(&done);
        match incarnation {
            2 => {
                stoc.add_references(RANGE, Epoch(epoch), &[RangeId(8)])?;
                done.has_references = true;
                note(&done);
                // From here on it may be gone.
                done.released.push(2);
                note(&done);
                stoc.release(&table(2), RANGE, Epoch(epoch))?;
                stoc.release(&table(2), RangeId(8), Epoch(epoch))?;
                done.gone.push(2);
                note(&done);
            }
            3 => {
                stoc.seal(&log(1), Epoch(epoch), 9_000)?;
                done.seal = Some(9_000);
                note(&done);
                // A larger length changes nothing.
                stoc.seal(&log(1), Epoch(epoch), 9_010)?;
                note(&done);
            }
            _ => {}
        }
    }
    Ok(())
}

/// Compares an opened StoC with the changes that were acknowledged.
fn compare(stoc: &Stoc, done: &Acknowledged) -> std::result::Result<(), String> {
    let show = |what: &str| format!("{what}: {done:?}, {:?}", stoc.list(RANGE));
    if done.promise > 0 {
        let old = stoc.fence(RANGE, Epoch(done.promise - 1));
        if !matches!(old, Err(Error::Fenced { .. })) && done.promise > 1 {
            return Err(show("the promise is lost"));
        }
    }
    if let Some(length) = done.log {
        let listed = stoc.list(RANGE);
        let found = listed.iter().find(|file| file.name == log(1)).and_then(|file| file.length);
        let Some(found) = found.filter(|found| *found >= length.min(9_000)) else {
            return Err(show("acknowledged bytes of the log are lost"));
        };
        if done.seal.is_some_and(|seal| found != seal) {
            return Err(show("the seal is lost"));
        }
        let stream = bytes(1, 20_000);
        let read = stoc.read(&log(1), 0, found);
        if read.as_deref() != Ok(stream.get(..found as usize).unwrap_or_default()) {
            return Err(show("the log has other bytes"));
        }
    }
    for number in &done.finished {
        let read = stoc.read(&table(*number), 0, TABLE_BYTES as u64);
        let may_be_gone = done.released.contains(number);
        match read {
            Ok(_) if done.gone.contains(number) => return Err(show("a released file is back")),
            Ok(content) if content == bytes(*number, TABLE_BYTES) => {}
            Err(Error::NoFile { .. }) if may_be_gone => {}
            _ => return Err(show("a finished file is lost")),
        }
    }
    for file in stoc.list(RANGE) {
        stoc.verify(&file.name).map_err(|error| show(&error.to_string()))?;
        let has_child = file.references.contains(&RangeId(8));
        let is_older = done.has_references && file.name == table(1);
        if is_older && !has_child {
            return Err(show("a reference is lost"));
        }
    }
    Ok(())
}

#[test]
fn acknowledged_changes_survive_a_power_cut_at_each_operation() {
    let disk = SimulatedDisk::new(1, Faults::none());
    disk.keep_history();
    let device: Arc<dyn Device> = Arc::<SimulatedDisk>::clone(&disk);
    let mut moments = Vec::new();
    run(&device, |done| moments.push((disk.operations(), done.clone()))).expect("no fault is set");
    let last = disk.operations();
    assert!(last > 100, "{last} operations");
    let history = disk.history();
    for seed in 0..3 {
        let mut replay = history.replay();
        for cut in 0..=last {
            replay.advance_to(cut);
            let before = moments.iter().rev().find(|(at, _)| *at <= cut);
            let done = before.map(|(_, done)| done.clone()).unwrap_or_default();
            let image = replay.crash(seed * 1_000 + cut);
            // The power is cut again while the image is opened.
            let again = cut % 20;
            image.power_cut_at(image.operations() + again);
            let number = 10 + cut;
            let of = |number| crate::Options {
                last_incarnation: (done.incarnation > 0).then_some(done.incarnation),
                ..options(number)
            };
            let opened = Stoc::open(Arc::clone(&image) as Arc<dyn Device>, &of(number));
            if let Ok(stoc) = &opened {
                // An image of which nothing was acknowledged may be new.
                let _ = stoc.fence(RANGE, Epoch(50));
            }
            drop(opened);
            let image = image.crash(seed);
            let stoc = Stoc::open(Arc::clone(&image) as Arc<dyn Device>, &of(number + 1))
                .unwrap_or_else(|error| panic!("seed {seed}, operation {cut}: {error}"));
            let found = compare(&stoc, &done);
            assert_eq!(found, Ok(()), "seed {seed}, operation {cut}");
        }
    }
}
