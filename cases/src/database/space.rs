//! Space on the device: a journal within its setting, and deleted values that release their space.

use std::time::Duration;

use thermocline::{Db, EngineKind, Options};

use super::of;
use crate::place::{self, Place};
use crate::verdict::{Outcome, Verdict};

/// A small `journal_bytes` with little live data must keep the journal small.
pub(super) fn journal_bytes(place: &Place) -> Outcome {
    const SETTING: u64 = 1 << 20;
    /// The journal may exceed its setting while a keyspace is flushed.
    const MOST: u64 = 8 * SETTING;
    let options = Options { memory_bytes: 128 << 20, journal_bytes: SETTING, ..Options::default() };
    let db = Db::open(place.path("data"), options)?;
    let keyspace = db.keyspace("default", of(EngineKind::Lsm))?;
    let mut most = 0;
    for index in 0_u64..60_000 {
        keyspace.put(&(index % 2_000).to_be_bytes(), &[7; 1_000])?;
        if index % 500 == 0 {
            most = most.max(place::disk_bytes(&place.path("data/journal")));
        }
    }
    let got = format!("a journal of {} KiB at most, with {} KiB set", most >> 10, SETTING >> 10);
    Ok(Verdict::of(most <= MOST, format!("at most {} KiB", MOST >> 10), got))
}

/// All values are deleted one by one. The space must come back without a request.
pub(super) fn deleted_space(place: &Place, engine: EngineKind) -> Outcome {
    const VALUES: u32 = 1_000;
    const VALUE_BYTES: usize = 100_000;
    const IDLE: Duration = Duration::from_secs(30);
    let options = || Options { memory_bytes: 64 << 20, ..Options::default() };
    let db = Db::open(place.path("data"), options())?;
    let keyspace = db.keyspace("default", of(engine))?;
    let mut noise = Noise(1);
    for index in 0..VALUES {
        keyspace.put(&index.to_be_bytes(), &noise.bytes(VALUE_BYTES))?;
    }
    db.flush()?;
    let keyspaces = place.path("data/keyspaces");
    let full = place::disk_bytes(&keyspaces);
    for index in 0..VALUES {
        keyspace.delete(&index.to_be_bytes())?;
    }
    let is_back = || place::disk_bytes(&keyspaces) < full / 4;
    let while_open = place::until(IDLE, is_back);
    let idle = place::disk_bytes(&keyspaces);
    db.close()?;
    drop((keyspace, db));
    let db = Db::open(place.path("data"), options())?;
    let is_right = while_open || place::until(IDLE, is_back);
    let now = place::disk_bytes(&keyspaces);
    db.close()?;
    let got = format!(
        "{} MiB full, {} MiB when idle after the deletes, {} MiB opened again",
        full >> 20,
        idle >> 20,
        now >> 20
    );
    Ok(Verdict::of(is_right, "less than a quarter of the space", got))
}

/// Bytes that no compression makes smaller.
struct Noise(u64);

impl Noise {
    fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(count + 8);
        while bytes.len() < count {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            bytes.extend(self.0.to_le_bytes());
        }
        bytes.truncate(count);
        bytes
    }
}
