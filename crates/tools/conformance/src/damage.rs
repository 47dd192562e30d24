//! Every sector of every file is damaged, one at a time: right data or an error with the place.
//!
//! 1. A workload fills a store; it is closed in order and everything is synced.
//! 2. For each 512 bytes of each file a fresh copy of the disk gets one bit flipped there, and
//!    another copy gets zeros.
//! 3. Of the engine alone: it opens with the writes that it had flushed, or reports damage with its
//!    place. In an engine that flushes keys apart from each other, each key may also have a later
//!    value.
//! 4. Of the whole: opening may report the damage, with its place, and then the offline check must
//!    report something too. If it opens, every read must return the written value, or report
//!    damage.

use std::sync::Arc;

use device::{Device, Faults, Mode, SimulatedDisk, SyncKind, join};
use engine::{Direction, Engine, Error, KeyRange, NoJournal, Sequence};
use journal::Durability;
use reads::BlockingReads;

use crate::Fixture;
use crate::database::{self, Database};
use crate::draw::Draw;
use crate::failure::catch;
use crate::host;
use crate::model::{Model, Pair};
use crate::operation::{Generator, Profile};
use crate::sequential::{compare_pairs, describe};
use crate::text::Quoted;

const WRITES: usize = 30;
const SECTOR: u64 = 512;

/// A whole store and its content.
struct Whole {
    disk: Arc<SimulatedDisk>,
    model: Model,
    persisted: u64,
}

fn fill(fixture: &dyn Fixture, seed: u64) -> Result<Whole, String> {
    let disk = SimulatedDisk::new(seed, Faults::none());
    let device: Arc<dyn Device> = disk.clone();
    let mut model = Model::default();
    let database = Database::open(fixture, &device, seed).map_err(|error| error.to_string())?;
    let profile = Profile {
        keys_more: 0,
        ingests: false,
        ordered: false,
        deletes_ranges: database.opened.engine.capabilities().deletes_ranges,
        key_bytes_max: fixture.key_bytes_max(),
        value_bytes_max: 900,
        reopens: false,
    };
    let mut generator = Generator::new(seed, profile);
    for number in 1..=WRITES {
        let steps = generator.write();
        model.apply(&steps, number as u64);
        let written = database.write(&steps, Durability::Synced);
        written.map_err(|error| error.to_string())?;
        // Twice, so that both an old and a new state are on the disk; the rest in the journal.
        if number % 11 == 0 {
            database.flush().map_err(|error| error.to_string())?;
        }
    }
    let persisted = database.opened.engine.persisted().get();
    database.close().map_err(|error| error.to_string())?;
    sync_everything(&device, "").map_err(|error| error.to_string())?;
    Ok(Whole { disk, model, persisted })
}

fn sync_everything(device: &Arc<dyn Device>, dir: &str) -> device::Result<()> {
    for (name, is_dir) in entries(device, dir)? {
        match is_dir {
            true => sync_everything(device, &name)?,
            false => device.open(&name, Mode::Write)?.sync(SyncKind::All)?,
        }
    }
    device.sync_dir(dir)
}

fn entries(device: &Arc<dyn Device>, dir: &str) -> device::Result<Vec<(String, bool)>> {
    let entries = device.list(dir)?.into_iter();
    Ok(entries.map(|entry| (join(dir, &entry.name), entry.is_dir)).collect())
}

/// Returns all files below `dir` with their lengths.
fn files(device: &Arc<dyn Device>, dir: &str) -> device::Result<Vec<(String, u64)>> {
    let mut found = Vec::new();
    for (name, is_dir) in entries(device, dir)? {
        if is_dir {
            found.extend(files(device, &name)?);
        } else {
            let len = device.open(&name, Mode::Read)?.len()?;
            found.push((name, len));
        }
    }
    Ok(found)
}

/// Damage that a read reported rightly is no failure.
fn reported(error: &Error) -> Result<(), String> {
    match error {
        Error::Corruption(place) if !place.file.is_empty() => Ok(()),
        other => {
            Err(format!("a read of damaged data got {other:?}, expected Corruption with a place"))
        }
    }
}

/// Checks that all readable pairs are the written ones.
fn read_everything(
    engine: &dyn Engine,
    sequence: &Arc<Sequence>,
    model: &Model,
    (upto, latest): (u64, u64),
) -> Result<(), String> {
    let is_right = |key: &[u8], seen: Option<&[u8]>| {
        (upto..=latest).any(|number| model.get_at(key, number) == seen)
    };
    let mut value = Vec::new();
    for key in model.keys() {
        let seen = match engine.get(key, &mut value) {
            Ok(found) => found.then_some(value.as_slice()),
            Err(error) => {
                reported(&error)?;
                continue;
            }
        };
        if !is_right(key, seen) {
            let (seen, expected) = (describe(seen), describe(model.get_at(key, upto)));
            return Err(format!("get {} gave {seen}, expected {expected}", Quoted(key)));
        }
    }
    if !engine.capabilities().ordered {
        return Ok(());
    }
    let expected = model.scan_at(&KeyRange::all(), Direction::Forward, upto);
    let mut seen = Vec::new();
    let mut cursor = match engine.scan(KeyRange::all(), Direction::Forward, sequence.pin()) {
        Ok(cursor) => cursor,
        Err(error) => return reported(&error),
    };
    loop {
        match cursor.next() {
            Ok(Some((key, value))) => {
                if latest > upto && !is_right(key, Some(value)) {
                    return Err(format!("a scan gave {} a wrong value", Quoted(key)));
                }
                if seen.last().is_some_and(|(last, _): &Pair| last.as_slice() >= key) {
                    return Err(format!("a scan gave {} out of order", Quoted(key)));
                }
                seen.push((key.to_vec(), value.to_vec()));
            }
            Ok(None) if latest > upto => {
                let is_given = |key: &[u8]| seen.iter().any(|(given, _)| given == key);
                let mut left_out = model.keys().filter(|key| !is_given(key));
                return match left_out.find(|key| !is_right(key, None)) {
                    Some(key) => Err(format!("a scan left {} out", Quoted(key))),
                    None => Ok(()),
                };
            }
            Ok(None) => return compare_pairs(&seen, &expected),
            Err(error) => {
                reported(&error)?;
                let after = cursor.next();
                if !matches!(after, Ok(None)) {
                    return Err(format!("after {error} the scan goes on: {after:?}"));
                }
                return compare_pairs(&seen, &expected[..seen.len().min(expected.len())]);
            }
        }
    }
}

/// Opens the engine alone on a damaged disk, as it would without a journal.
fn examine_engine(
    fixture: &dyn Fixture,
    damaged: &Arc<SimulatedDisk>,
    whole: &Whole,
) -> Result<(), String> {
    let dir = damaged.subdevice(database::ENGINE_DIR).map_err(|error| error.to_string())?;
    let opened = match host::open(fixture, &dir, Arc::new(NoJournal), 0) {
        Ok(opened) => opened,
        Err(error) => return reported(&error),
    };
    let persisted = opened.engine.persisted().get();
    if persisted != whole.persisted {
        let before = whole.persisted;
        return Err(format!("persisted() was {before}, and in silence became {persisted}"));
    }
    opened.recovered_to(persisted);
    let latest = if fixture.flushes_keys_apart() { whole.model.last() } else { persisted };
    let numbers = (persisted, latest);
    read_everything(opened.engine.as_ref(), &opened.sequence, &whole.model, numbers)
}

/// Opens a damaged disk and checks its results.
fn examine(
    fixture: &dyn Fixture,
    damaged: &Arc<SimulatedDisk>,
    whole: &Whole,
) -> Result<(), String> {
    let device: Arc<dyn Device> = damaged.clone();
    let checked = database::check(fixture, &device);
    let database = match Database::open(fixture, &device, 0) {
        Ok(database) => database,
        Err(error) if error.damage().is_none() => {
            return Err(format!("opening got {error:?}, expected damage with its place"));
        }
        Err(error) if checked.is_ok() => {
            return Err(format!("opening reports {error}, but the offline check found nothing"));
        }
        Err(_) => return Ok(()),
    };
    let (upto, last) = (database.recovered, whole.model.last());
    if upto != last {
        return Err(format!("opened in silence with writes up to {upto} of {last}"));
    }
    let opened = &database.opened;
    read_everything(opened.engine.as_ref(), &opened.sequence, &whole.model, (upto, upto))
}

/// Tries every damage to the store of `seed`. Returns their number.
pub(crate) fn damage(fixture: &dyn Fixture, seed: u64) -> Result<u64, String> {
    let whole = fill(fixture, seed)?;
    let mut draw = Draw::new(seed, "damage");
    let device: Arc<dyn Device> = whole.disk.clone();
    let mut damages = 0;
    let files = files(&device, "").map_err(|error| error.to_string())?;
    let is_segment = |name: &str| name.starts_with(database::JOURNAL_DIR);
    for (name, len) in &files {
        for sector in 0..len.div_ceil(SECTOR) {
            let within = (len - sector * SECTOR).min(SECTOR);
            let offset = sector * SECTOR + draw.below(within as usize) as u64;
            let bit = draw.below(8) as u8;
            let examine_one = |zeros: bool, alone: bool| {
                let copy = whole.disk.crash(damages);
                let damaged = match zeros {
                    true => copy.zero_sector(name, offset),
                    false => copy.flip_bit(name, offset, bit),
                };
                damaged.map_err(|error| error.to_string())?;
                let examined = catch(|| match alone {
                    true => examine_engine(fixture, &copy, &whole),
                    false => examine(fixture, &copy, &whole),
                });
                let what = if zeros { "the sector zeroed" } else { "a bit flipped" };
                examined.map_err(|why| format!("{what} at byte {offset} of {name}: {why}"))
            };
            for zeros in [false, true] {
                if !is_segment(name) {
                    examine_one(zeros, true)?;
                }
                examine_one(zeros, false)?;
            }
            damages += 2;
        }
    }
    Ok(damages)
}
