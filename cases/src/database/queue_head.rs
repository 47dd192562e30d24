//! A queue: entries are put at the end, and the first one is looked up and deleted.

use std::time::{Duration, Instant};

use thermocline::{Db, Durability, EngineKind, KeyRange, Keyspace, Options};

use super::of;
use crate::place::Place;
use crate::verdict::{Outcome, Verdict};

/// Entries that pass through the queue.
const ENTRIES: u64 = 100_000;
/// Entries that are in the queue at a time.
const LENGTH: u64 = 100;
/// The lookup of the first entry may take this much longer, as a factor and as a time. A lookup
/// over all tombstones takes some milliseconds. A scan of `lsm` from the first key passes 64
/// Dranges, some 2 µs each, however many entries they had.
const FACTOR: u32 = 20;
const SPARE: Duration = Duration::from_micros(250);
/// Time in which the engine may collect deleted entries.
const IDLE: Duration = Duration::from_secs(3);

/// The first entry must be found as fast after many deletes as after none.
pub(super) fn run(place: &Place, engine: EngineKind) -> Outcome {
    let db = Db::open(place.path("data"), Options::default())?;
    let queue = db.keyspace("queue", of(engine))?.durability(Durability::Buffered);
    let value = [1; 100];
    for index in 0..LENGTH {
        queue.put(&index.to_be_bytes(), &value)?;
    }
    let fresh = first(&queue)?;
    for index in 0..ENTRIES {
        queue.put(&(index + LENGTH).to_be_bytes(), &value)?;
        queue.delete(&index.to_be_bytes())?;
    }
    let busy = first(&queue)?;
    std::thread::sleep(IDLE);
    let idle = first(&queue)?;
    db.close()?;
    let most = fresh * FACTOR + SPARE;
    let got = format!("fresh {fresh:?}; after {ENTRIES} entries {busy:?}; when idle {idle:?}");
    Ok(Verdict::of(busy <= most && idle <= most, format!("at most {most:?}"), got))
}

/// Returns the shortest of some lookups of the first entry, so that a busy machine matters little.
fn first(queue: &Keyspace) -> Result<Duration, Box<dyn std::error::Error>> {
    let mut shortest = Duration::MAX;
    for _ in 0..20 {
        let began = Instant::now();
        queue.scan(KeyRange::all())?.next().ok_or("the queue is empty")??;
        shortest = shortest.min(began.elapsed());
    }
    Ok(shortest)
}
