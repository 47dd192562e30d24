//! SCAN cursors: numbers for the keys at which scans continue.
//!
//! The store's order, whichever it is, stays, so a scan that continues at a key misses no key that
//! was there all the time. A cursor is a hash of database and key, kept in a bounded table. Every
//! client gets the same number for the same position, so scans that are never finished do not pile
//! up entries. When the table is full the entry that was longest unused is removed; a scan that
//! comes back to it gets an error.

use std::collections::{BTreeMap, HashMap};

use thermocline::sync::locks::Mutex;

use crate::store::DbIndex;

/// Positions remembered.
const CURSORS_MAX: usize = 65_536;
/// Bytes of keys remembered.
const BYTES_MAX: usize = 16 << 20;
/// Cursors fit a double's mantissa, since some clients read them as one.
const CURSOR_MASK: u64 = (1 << 48) - 1;

/// The table of positions.
#[derive(Debug, Default)]
pub(crate) struct ScanCursors {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    positions: HashMap<u64, Position>,
    /// Cursors by the time of their last use.
    by_use: BTreeMap<u64, u64>,
    uses: u64,
    bytes: usize,
}

#[derive(Debug)]
struct Position {
    db: DbIndex,
    key: Vec<u8>,
    last_use: u64,
}

impl ScanCursors {
    /// Returns the cursor, never 0, of a scan that continues at `key`.
    pub(crate) fn cursor(&self, db: DbIndex, key: &[u8]) -> u64 {
        let mut table = self.table.lock();
        let mut cursor = hash(db, key);
        while cursor == 0 || table.positions.get(&cursor).is_some_and(|other| !other.is(db, key)) {
            cursor = (cursor + 1) & CURSOR_MASK;
        }
        table.keep(cursor, db, key);
        cursor
    }

    /// Returns the key at which the scan with this cursor continues, if that is still known.
    pub(crate) fn position(&self, db: DbIndex, cursor: u64) -> Option<Vec<u8>> {
        let mut table = self.table.lock();
        let key = table.positions.get(&cursor).filter(|at| at.db == db)?.key.clone();
        table.keep(cursor, db, &key);
        Some(key)
    }
}

impl Position {
    fn is(&self, db: DbIndex, key: &[u8]) -> bool {
        self.db == db && self.key == key
    }
}

impl Table {
    /// Notes a use of `cursor`, which may be new, and makes room.
    fn keep(&mut self, cursor: u64, db: DbIndex, key: &[u8]) {
        self.uses += 1;
        let last_use = self.uses;
        match self.positions.get_mut(&cursor) {
            Some(position) => {
                self.by_use.remove(&position.last_use);
                position.last_use = last_use;
            }
            None => {
                self.bytes += key.len();
                self.positions.insert(cursor, Position { db, key: key.to_vec(), last_use });
            }
        }
        self.by_use.insert(last_use, cursor);
        while self.positions.len() > CURSORS_MAX || self.bytes > BYTES_MAX {
            let Some((_, oldest)) = self.by_use.pop_first() else { return };
            let gone = self.positions.remove(&oldest);
            self.bytes -= gone.map_or(0, |gone| gone.key.len());
        }
    }
}

/// FNV-1a, folded to the cursor's width.
fn hash(db: DbIndex, key: &[u8]) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325_u64 ^ u64::from(db);
    let hash = key
        .iter()
        .fold(start, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    (hash ^ (hash >> 48)) & CURSOR_MASK
}

#[cfg(test)]
mod tests;
