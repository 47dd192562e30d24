//! A store that is a locked map, and the ways to make it return wrong results or take memory.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sync::locks::RwLock;
use thermocline_bench::stores::{
    Background, Catalog, DeviceCounts, OpenOptions, Pairs, Session, Store, StoreError,
};

/// The fault of a lying store, once in a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lie {
    /// Nothing.
    None,
    /// Serves the value before the last.
    Stale,
    /// Serves another key's value.
    WrongKey,
    /// Serves half of one version and half of another.
    Torn,
    /// Acknowledges a write and forgets it.
    LostWrite,
    /// Forgets a key.
    LostKey,
    /// Leaves a pair out of a scan.
    ScanHole,
    /// Turns a scan around.
    ScanOrder,
}

/// Bytes that [`HUNGRY`] holds with the smallest cache.
const HUNGER_BYTES: u64 = 200 << 20;
/// Holds its cache resident, and little else.
pub(crate) const CACHED: &str = "cached";
/// Holds more than any budget of the tests, with any cache.
pub(crate) const HUNGRY: &str = "hungry";

/// The names by which [`Maps`] opens them.
const NAMES: [(&str, Lie); 12] = [
    ("map", Lie::None),
    ("memory", Lie::None),
    (FAILING, Lie::None),
    ("stale", Lie::Stale),
    ("wrong-key", Lie::WrongKey),
    ("torn", Lie::Torn),
    ("lost-write", Lie::LostWrite),
    ("lost-key", Lie::LostKey),
    ("scan-hole", Lie::ScanHole),
    ("scan-order", Lie::ScanOrder),
    (CACHED, Lie::None),
    (HUNGRY, Lie::None),
];

/// A map that opens only if [`MAY_RUN`] is `yes`.
pub(crate) const FAILING: &str = "failing";
/// The variable of the environment that lets [`FAILING`] open.
pub(crate) const MAY_RUN: &str = "THERMOCLINE_TEST_MAY_RUN";

/// Known, and refused when it is opened.
pub(crate) const UNOPENED: &str = "unopened";

/// The file that a map leaves when it is closed.
const PAIRS: &str = "pairs.json";
/// Operations for each one with a wrong result.
const LIE_EVERY: u64 = 97;

type Versions = (Vec<u8>, Option<Vec<u8>>);

struct Map {
    dir: PathBuf,
    lie: Lie,
    pairs: RwLock<BTreeMap<Vec<u8>, Versions>>,
    asked: AtomicU64,
    written: AtomicU64,
    read: AtomicU64,
    cache_bytes: Option<u64>,
    /// Resident memory in place of a cache.
    held: Vec<u8>,
}

/// Opens maps.
pub(crate) struct Maps;

impl Catalog for Maps {
    fn names(&self) -> &'static [&'static str] {
        &[
            "map",
            "memory",
            FAILING,
            "stale",
            "wrong-key",
            "torn",
            "lost-write",
            "lost-key",
            "scan-hole",
            "scan-order",
            CACHED,
            HUNGRY,
            UNOPENED,
        ]
    }

    fn open(&self, name: &str, options: &OpenOptions) -> Result<Arc<dyn Store>, StoreError> {
        assert!(options.dir.is_dir());
        let found = NAMES.into_iter().find(|(known, _)| *known == name);
        let (_, lie) = found.ok_or_else(|| format!("{name} does not open"))?;
        if name == FAILING && std::env::var(MAY_RUN).is_ok_and(|may| may != "yes") {
            return Err(format!("{name} may not run").into());
        }
        let (asked, written, read) = Default::default();
        let dir = options.dir.clone();
        let pairs = RwLock::new(read_pairs(&dir)?);
        let cache = options.cache_bytes.unwrap_or(options.memory_bytes);
        let (cache_bytes, held_bytes) = match name {
            CACHED => (Some(cache), cache),
            HUNGRY => (Some(cache), cache + HUNGER_BYTES),
            _ => (None, 0),
        };
        let held = vec![1; held_bytes as usize];
        Ok(Arc::new(Map { dir, lie, pairs, asked, written, read, cache_bytes, held }))
    }

    fn sizes_cache(&self, name: &str) -> bool {
        matches!(name, CACHED | HUNGRY)
    }

    fn reopens(&self, name: &str) -> bool {
        name != "lost-key"
    }
}

/// Returns the pairs that a map has left in `dir`, with their last values.
#[expect(clippy::disallowed_methods, reason = "the file of a map of a test")]
fn read_pairs(dir: &Path) -> Result<BTreeMap<Vec<u8>, Versions>, StoreError> {
    let Ok(text) = std::fs::read(dir.join(PAIRS)) else {
        return Ok(BTreeMap::new());
    };
    let pairs: Vec<(Vec<u8>, Vec<u8>)> = serde_json::from_slice(&text)?;
    Ok(pairs.into_iter().map(|(key, value)| (key, (value, None))).collect())
}

impl Store for Map {
    fn session(&self) -> Result<Box<dyn Session + '_>, StoreError> {
        Ok(Box::new(self))
    }

    fn flush(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn device(&self) -> Option<DeviceCounts> {
        Some(DeviceCounts {
            read_bytes: self.read.load(Ordering::Relaxed),
            write_bytes: self.written.load(Ordering::Relaxed),
            ..DeviceCounts::default()
        })
    }

    fn cache_bytes(&self) -> Option<u64> {
        // The bytes are read, so that no compiler leaves them out.
        self.cache_bytes.filter(|_| self.held.iter().step_by(4096).all(|&byte| byte == 1))
    }

    fn background(&self) -> Background {
        Background::AtRest
    }

    #[expect(clippy::disallowed_methods, reason = "the file of a map of a test")]
    fn close(&self) -> Result<(), StoreError> {
        let pairs = self.pairs.read();
        let pairs: Vec<_> = pairs.iter().map(|(key, (value, _))| (key, value)).collect();
        Ok(std::fs::write(self.dir.join(PAIRS), serde_json::to_vec(&pairs)?)?)
    }
}

impl Map {
    /// Returns whether this operation is to have a wrong result of the kind `lie`.
    fn lies(&self, lie: Lie) -> bool {
        self.lie == lie && self.asked.fetch_add(1, Ordering::Relaxed) % LIE_EVERY == LIE_EVERY - 1
    }

    fn answer(&self, key: &[u8]) -> Option<Vec<u8>> {
        let pairs = self.pairs.read();
        let (now, before) = pairs.get(key)?;
        if self.lies(Lie::LostKey) {
            return None;
        }
        let before = before.as_ref().unwrap_or(now);
        if self.lies(Lie::Stale) {
            return Some(before.clone());
        }
        if self.lies(Lie::Torn) {
            let half = now.len() / 2;
            return Some([&now[..half], &before[half..]].concat());
        }
        if self.lies(Lie::WrongKey) {
            return pairs.values().next().map(|(value, _)| value.clone());
        }
        Some(now.clone())
    }
}

impl Session for &Map {
    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, StoreError> {
        let answer = self.answer(key);
        value.clear();
        value.extend_from_slice(answer.as_deref().unwrap_or_default());
        self.read.fetch_add((key.len() + value.len()) as u64, Ordering::Relaxed);
        Ok(answer.is_some())
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        // Twice the bytes of the write, so that a test knows the amplification.
        self.written.fetch_add(2 * (key.len() + value.len()) as u64, Ordering::Relaxed);
        if self.lies(Lie::LostWrite) {
            return Ok(());
        }
        let mut pairs = self.pairs.write();
        let before = pairs.remove(key).map(|(now, _)| now);
        pairs.insert(key.to_vec(), (value.to_vec(), before));
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), StoreError> {
        self.pairs.write().remove(key);
        Ok(())
    }

    fn rmw(&mut self, key: &[u8], new: &[u8], old: &mut Vec<u8>) -> Result<bool, StoreError> {
        let mut pairs = self.pairs.write();
        let before = pairs.remove(key).map(|(now, _)| now);
        old.clear();
        old.extend_from_slice(before.as_deref().unwrap_or_default());
        let found = before.is_some();
        pairs.insert(key.to_vec(), (new.to_vec(), before));
        Ok(found)
    }

    fn scan(&mut self, from: &[u8], limit: usize, out: &mut Pairs) -> Result<(), StoreError> {
        let pairs = self.pairs.read();
        let range = pairs.range::<[u8], _>((Bound::Included(from), Bound::Unbounded));
        let mut found: Vec<_> = range.take(limit).collect();
        if self.lies(Lie::ScanHole) {
            found.remove(found.len() / 2);
        }
        if self.lies(Lie::ScanOrder) {
            found.reverse();
        }
        found.iter().for_each(|(key, (value, _))| out.push(key, value));
        Ok(())
    }
}
