//! Walks over the keys of a database, a slice at a time.
//!
//! A slice has few keys, so that the event loop is not long with it. Reading one may wait for the
//! device, many reads together; [`crate::event_loop`] leaves that to a thread of its own.

use std::ops::ControlFlow::{self, Break, Continue};

use thermocline::Expiring;

use super::{DbIndex, Store, StoreError};

/// Keys of a slice, at most, and bytes of them after which it ends.
pub(crate) const SLICE_KEYS: usize = 1000;
const SLICE_BYTES: usize = 1 << 20;

/// A request for the next slice of a walk.
#[derive(Clone, Debug, Default)]
pub(crate) struct Request {
    pub(crate) db: DbIndex,
    pub(crate) from: From,
    /// Keys that the next slice has at most; never more than [`SLICE_KEYS`].
    pub(crate) keys_max: usize,
}

/// The begin of a slice.
#[derive(Clone, Debug, Default)]
pub(crate) enum From {
    #[default]
    Begin,
    /// At this key, or at its place if it is absent.
    Key(Vec<u8>),
    /// Anywhere; the same place for the same number.
    Random(u64),
}

/// A part of a walk.
#[derive(Debug, Default)]
pub(crate) struct Slice {
    /// Keys, and the expiry of their values.
    pub(crate) keys: Vec<(Vec<u8>, Option<u64>)>,
    /// The key at which the next slice begins, if there is one.
    pub(crate) next: Option<Vec<u8>>,
}

/// Reads the slice that `request` asks for. Waits for the device.
///
/// # Errors
/// The store's.
pub(crate) fn read_slice(store: &dyn Store, request: &Request) -> Result<Slice, StoreError> {
    let from = match &request.from {
        From::Begin => None,
        From::Key(key) => Some(key.clone()),
        From::Random(seed) => Some(random_place(store, request.db, &mut Picks(*seed))?),
    };
    let keys_max = request.keys_max.clamp(1, SLICE_KEYS);
    let (mut slice, mut bytes) = (Slice::default(), 0);
    store.walk(request.db, from.as_deref(), &mut |key, value| {
        if slice.keys.len() == keys_max || bytes > SLICE_BYTES {
            slice.next = Some(key.to_vec());
            return Break(());
        }
        bytes += key.len();
        // A damaged value counts as one without an expiry: its readers get the error.
        let expiry_ms = Expiring::decode(value).map_or(None, |stored| stored.expiry_ms);
        slice.keys.push((key.to_vec(), expiry_ms));
        Continue(())
    })?;
    Ok(slice)
}

/// Numbers that follow from a seed.
struct Picks(u64);

impl Picks {
    /// Returns a number below `count`; 0 if that is 0.
    fn pick(&mut self, count: usize) -> usize {
        self.0 = self.0.wrapping_add(1);
        (thermocline::hash64(0, &self.0.to_le_bytes()) % count.max(1) as u64) as usize
    }
}

fn random_place(store: &dyn Store, db: DbIndex, picks: &mut Picks) -> Result<Vec<u8>, StoreError> {
    if store.is_ordered(db) {
        return random_prefix(store, db, picks);
    }
    // Without an order, a key of random bytes may be at any position.
    Ok((0..16).filter_map(|_| u8::try_from(picks.pick(256)).ok()).collect())
}

/// Returns a random place among the keys of an ordered store. It walks down the alphabet that the
/// keys really use, one byte at a time, so that common prefixes do not make it always the first or
/// the last.
fn random_prefix(store: &dyn Store, db: DbIndex, picks: &mut Picks) -> Result<Vec<u8>, StoreError> {
    const DEPTH_MAX: usize = 32;
    const CHILDREN_MAX: usize = 256;
    let mut prefix = Vec::new();
    while prefix.len() < DEPTH_MAX {
        let children = children(store, db, &prefix, CHILDREN_MAX)?;
        let Some(&child) = children.get(picks.pick(children.len())) else { break };
        prefix.push(child);
    }
    Ok(prefix)
}

/// The bytes that follow `prefix` in some key.
fn children(
    store: &dyn Store,
    db: DbIndex,
    prefix: &[u8],
    max: usize,
) -> Result<Vec<u8>, StoreError> {
    let mut bytes = Vec::new();
    let mut from = prefix.to_vec();
    while bytes.len() < max {
        let mut next = None;
        store.walk(db, Some(&from), &mut |key, _| -> ControlFlow<()> {
            if key == prefix {
                // The prefix itself is a key; its children follow it.
                return Continue(());
            }
            next = key.strip_prefix(prefix).and_then(|rest| rest.first()).copied();
            Break(())
        })?;
        let Some(byte) = next else { break };
        bytes.push(byte);
        let Some(after) = byte.checked_add(1) else { break };
        from = [prefix, &[after]].concat();
    }
    Ok(bytes)
}
