//! Power cuts while several threads write and flush concurrently.
//!
//! Each thread writes keys of its own and notes its writes' numbers. Afterwards the numbers give
//! the one order of all writes, hence the model that every image of the disk is compared with.

use std::sync::{Arc, Barrier};

use device::{Device, Faults, SimulatedDisk};
use journal::Durability;

use super::recover::{Expected, recover};
use crate::Fixture;
use crate::concurrent::{join, spawn};
use crate::database::Database;
use crate::draw::Draw;
use crate::model::Model;
use crate::operation::Step;

const WRITERS: usize = 4;
const WRITES: u64 = 24;
const KEYS: usize = 5;
const IMAGES: usize = 24;

/// A write as its thread saw it.
struct Written {
    seqno: u64,
    steps: Vec<Step>,
    /// The disk's operation count after it was acknowledged at `Synced`.
    durable_at: Option<u64>,
}

/// Returns a batch over keys of one writer.
fn batch(writer: usize, number: u64, draw: &mut Draw) -> Vec<Step> {
    let step = |draw: &mut Draw| {
        let key = format!("writer{writer}-{}", draw.below(KEYS)).into_bytes();
        match draw.once_in(4) {
            true => Step::Delete { key },
            false => {
                let mut value = format!("{writer}.{number}").into_bytes();
                value.resize(value.len() + draw.below(200), b'.');
                Step::Put { key, value }
            }
        }
    };
    (0..1 + draw.below(4)).map(|_| step(draw)).collect()
}

fn write(
    writer: usize,
    database: &Database,
    disk: &SimulatedDisk,
    draw: &mut Draw,
) -> Result<Vec<Written>, String> {
    let mut written = Vec::new();
    for number in 0..WRITES {
        if draw.once_in(10) {
            database.flush().map_err(|error| format!("a flush failed: {error}"))?;
        }
        let durability =
            *draw.pick(&[Durability::Buffered, Durability::Flushed, Durability::Synced]);
        let steps = batch(writer, number, draw);
        let seqno = database.write(&steps, durability).map_err(|error| error.to_string())?;
        let durable_at = (durability == Durability::Synced).then(|| disk.operations());
        written.push(Written { seqno, steps, durable_at });
    }
    Ok(written)
}

/// Runs one life of many threads, and checks the images after power cuts.
pub(crate) fn crowd(fixture: &dyn Fixture, seed: u64) -> Result<(), String> {
    let disk = SimulatedDisk::new(seed, Faults::none());
    disk.keep_history();
    let device: Arc<dyn Device> = disk.clone();
    let database = Database::open_threaded(fixture, &device, seed).map_err(|e| e.to_string())?;
    let database = Arc::new(database);
    let start = Arc::new(Barrier::new(WRITERS));
    let mut writers = Vec::new();
    for writer in 0..WRITERS {
        let (database, disk) = (Arc::clone(&database), Arc::clone(&disk));
        let start = Arc::clone(&start);
        let mut draw = Draw::new(seed, &format!("writer {writer}"));
        writers.push(spawn(&format!("writer-{writer}"), move || {
            start.wait();
            write(writer, &database, &disk, &mut draw)
        })?);
    }
    let done: Vec<_> = writers.into_iter().map(join).collect();
    let mut written = Vec::new();
    for done in done {
        written.extend(done?);
    }
    drop(database);
    written.sort_by_key(|write| write.seqno);
    let mut model = Model::default();
    written.iter().for_each(|write| model.apply(&write.steps, write.seqno));
    let mut draw = Draw::new(seed, "crowd");
    let history = disk.history();
    let end = history.last_operation();
    let mut cuts: Vec<u64> = (0..IMAGES).map(|_| draw.below(end as usize + 1) as u64).collect();
    cuts.sort_unstable();
    let mut replay = history.replay();
    for cut in cuts {
        replay.advance_to(cut);
        let is_durable = |write: &&Written| write.durable_at.is_some_and(|at| at <= cut);
        let durable = written.iter().filter(is_durable).map(|write| write.seqno).max();
        let expected = Expected { model: &model, durable: durable.unwrap_or(0) };
        let image_seed = draw.below(usize::MAX) as u64;
        recover(fixture, &replay.crash(image_seed), &expected, &mut draw).map_err(|what| {
            let durable = expected.durable;
            format!(
                "power cut at operation {cut} of {end} (image {image_seed}), write {durable} \
                 durable: {what}"
            )
        })?;
    }
    Ok(())
}
