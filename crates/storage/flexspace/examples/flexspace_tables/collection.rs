//! Costs of the collector: a space written over at random, with more and with less room.

use flexspace::space::{FlexSpace, Options};
use rand::RngExt;

use crate::spaces::Refused;
use crate::{Outcome, Plan};

const WRITE_BYTES: u64 = 4096;
/// Segments that the live bytes would fill, so that the collector has a choice.
const LIVE_SEGMENTS: u64 = 128;
const RESERVED_SEGMENTS: u32 = 64;
/// A hot part of the space, and the share of the writes that go to it, of a hundred.
const HOT_PARTS: u64 = 10;
const HOT_SHARE: u32 = 90;

/// One run.
pub(crate) struct Row {
    /// The share of the room that is filled, of a hundred; none if there is room without end.
    utilisation: Option<u64>,
    is_hot: bool,
    write: f64,
    amplification: f64,
    moved: f64,
    collections: u64,
    longest_ms: f64,
}

pub(crate) fn measure(plan: &Plan) -> Outcome<Vec<Row>> {
    let mut rows = Vec::new();
    for is_hot in [false, true] {
        for utilisation in [None, Some(50), Some(85)] {
            rows.push(run(plan, utilisation, is_hot)?);
        }
    }
    Ok(rows)
}

fn run(plan: &Plan, utilisation: Option<u64>, is_hot: bool) -> Outcome<Row> {
    let live = plan.mib << 19;
    let segment_bytes = (live / LIVE_SEGMENTS).next_power_of_two().min(4 << 20);
    let room = utilisation.map(|share| live * 100 / share);
    let usable = room.map(|room| room.div_ceil(segment_bytes) * segment_bytes);
    let reserved = u64::from(RESERVED_SEGMENTS) * segment_bytes;
    let capacity_bytes = usable.map_or(Options::default().capacity_bytes, |room| room + reserved);
    let segment_bytes = segment_bytes as u32;
    let reserved_segments = RESERVED_SEGMENTS;
    let options =
        Options { segment_bytes, capacity_bytes, reserved_segments, ..Options::default() };
    let dir = plan.dir.join("collected");
    let device = device::open(&dir, device::Options::default())?;
    let space = FlexSpace::create(device.clone(), options)?;
    let mut random = plan.environment.random("overwrites");
    let mut data = vec![0; WRITE_BYTES as usize];
    random.fill(&mut data[..]);
    let pieces = live / WRITE_BYTES;
    (0..pieces).try_for_each(|_| space.append(&data))?;
    space.sync()?;
    let before = device.accounting().counts().write_bytes;
    let (mut moved, mut collections, mut longest) = (0, 0, 0.0_f64);
    // Twice the live bytes, as in the paper: after that the layout is as old as it gets.
    let writes = 2 * pieces;
    let (took, ()) = plan.seconds(|| {
        for _ in 0..writes {
            let in_hot_part = is_hot && random.random_range(0..100) < HOT_SHARE;
            let pieces = if in_hot_part { pieces / HOT_PARTS } else { pieces };
            let offset = random.random_range(0..pieces) * WRITE_BYTES;
            let (took, ()) = plan.seconds(|| {
                while let Err(error) = space.pwrite(offset, &data) {
                    if error != Refused::Uncollected {
                        return Err(error.into());
                    }
                    let done = space.collect()?;
                    moved += done.moved_bytes;
                    collections += 1;
                }
                Ok(())
            })?;
            longest = longest.max(took);
        }
        Ok(space.sync()?)
    })?;
    let written = device.accounting().counts().write_bytes - before;
    space.close()?;
    drop((space, device));
    std::fs::remove_dir_all(dir)?;
    let bytes = (writes * WRITE_BYTES) as f64;
    Ok(Row {
        utilisation,
        is_hot,
        write: bytes / 1e6 / took,
        amplification: written as f64 / bytes,
        moved: moved as f64 / bytes,
        collections,
        longest_ms: longest * 1e3,
    })
}

pub(crate) fn table(rows: &[Row]) -> String {
    let mut text = String::from(
        "## The collector

Half the bytes of table 2 are written over twice at random, in pieces of 4 KiB, by one thread. The thread runs the collector itself
when no segment is free. So the time has the whole cost of the collector, and the longest write has a collection.

- *Room*: the share of live bytes in the segments outside the reserve.
- *Hot*: nine writes of ten go to a tenth of the space.

| writes | room in use | MB/s | written for each byte | of that moved | collections | longest write, ms |
|---|---:|---:|---:|---:|---:|---:|
",
    );
    for row in rows {
        let share = row.utilisation.map_or("no end".to_owned(), |share| format!("{share}%"));
        let writes = if row.is_hot { "hot" } else { "uniform" };
        text += &format!(
            "| {writes} | {share} | {:.0} | {:.3} | {:.3} | {} | {:.1} |\n",
            row.write, row.amplification, row.moved, row.collections, row.longest_ms
        );
    }
    text + "\n"
}
