//! A lookup in tables as a value, which continues until it needs data that only the device has.
//!
//! 1. Tables are searched in the order in which the first hit is the newest version: Level 0 from
//!    the youngest, then in each level the one table whose range contains the key.
//! 2. Of a table the metadata are needed first: the filter may deny the key, else the index leads
//!    to a block.
//! 3. Then the block is needed. A key that is behind all of the block's keys, and before the place
//!    that the index has for the block, is not in the next block either.
//!
//! The driver of the lookup reads the pieces that are needed and not there, alone or together with
//! pieces that other lookups need.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use codec::SeqNo;
use engine::Result;

use crate::cache::Cache;
use crate::lookup_index::Hint;
use crate::range_index::Partition;
use lsm_tree::cache::Cached;
use lsm_tree::entry::{Found, Target};
use lsm_tree::table::{BlockHandle, Lookups, Piece, Table, hash};
use lsm_tree::version::{LEVELS, Version};

/// Progress of a lookup.
#[derive(Debug)]
pub(crate) enum Progress {
    /// The key has this version; its value was copied.
    Found(Found),
    /// No table has a version.
    Absent,
    /// This piece of this table has to be read.
    Waits(Arc<Table>, Piece),
}

/// A lookup in the tables of a version.
pub(crate) struct Search<K> {
    key: K,
    seqno: SeqNo,
    /// Number below which a range delete hides entries.
    hidden: SeqNo,
    hash: u64,
    version: Arc<Version>,
    partition: Arc<Partition>,
    /// The lookup index's hint: the number of the newest version, if the first table that is
    /// searched has it.
    hinted: Option<SeqNo>,
    /// The level of the table that is asked next, and which of Level 0 it is.
    level: usize,
    index: usize,
    asked: Option<Asked>,
}

/// The table that is asked, and the block that is needed, once the index has named it.
struct Asked {
    table: Arc<Table>,
    block: Option<BlockHandle>,
}

impl<K: AsRef<[u8]>> Search<K> {
    /// Returns a lookup that has searched nothing yet. It looks for the newest version of `key` at
    /// or below `seqno`, in the tables of a state; its partition is the key's.
    pub(crate) fn new(
        key: K,
        seqno: SeqNo,
        version: &Arc<Version>,
        partition: &Arc<Partition>,
    ) -> Self {
        let hash = hash(key.as_ref());
        Self {
            key,
            seqno,
            hidden: SeqNo::ZERO,
            hash,
            version: Arc::clone(version),
            partition: Arc::clone(partition),
            hinted: None,
            level: 0,
            index: 0,
            asked: None,
        }
    }

    /// The same, but a range delete of this number hides older versions.
    pub(crate) fn hidden_below(self, hidden: SeqNo) -> Self {
        Self { hidden, ..self }
    }

    /// The same, but the table of Level 0 that `hint` leads to is searched first.
    pub(crate) fn led_by(mut self, hint: Option<Hint>) -> Self {
        let Some(Hint { seqno, memtable }) = hint.filter(|hint| hint.seqno <= self.seqno) else {
            return self;
        };
        let is_it = |table: &&Arc<Table>| {
            let properties = &table.summary().properties;
            (properties.first_memtable..=properties.last_memtable).contains(&memtable)
                && table.covers(self.key.as_ref())
        };
        if let Some(table) = self.partition.level0.iter().find(is_it) {
            self.asked = Some(Asked { table: Arc::clone(table), block: None });
            self.hinted = Some(seqno);
        }
        self
    }

    /// The same, with a key of its own.
    pub(crate) fn owned(self) -> Search<Vec<u8>> {
        let Self { key, seqno, hidden, hash, version, partition, hinted, level, index, asked } =
            self;
        let key = key.as_ref().to_vec();
        Search { key, seqno, hidden, hash, version, partition, hinted, level, index, asked }
    }

    /// The key that is looked up.
    pub(crate) fn key(&self) -> &[u8] {
        self.key.as_ref()
    }

    /// Continues the lookup; `given` is the piece that it waited for. `get` returns a piece if no
    /// wait is needed. The lookup keeps pairs found in the present tables in `cache`.
    pub(crate) fn advance(
        &mut self,
        mut given: Option<Cached>,
        into: &mut Vec<u8>,
        (lookups, cache): (&Lookups, &Cache),
        get: &dyn Fn(&Table, Piece) -> Result<Option<Cached>>,
    ) -> Result<Progress> {
        loop {
            let Some(mut asked) = self.asked.take() else {
                let Some(table) = self.next_table() else { return Ok(Progress::Absent) };
                self.asked = Some(Asked { table, block: None });
                continue;
            };
            let piece = asked.block.map_or(Piece::Metadata, Piece::Block);
            let there = match given.take() {
                Some(given) => Some(given),
                None => get(&asked.table, piece)?,
            };
            let Some(there) = there else {
                let table = Arc::clone(&asked.table);
                self.asked = Some(asked);
                return Ok(Progress::Waits(table, piece));
            };
            if let Some(found) = self.look_into(&mut asked, piece, there, into, lookups)? {
                let hinted = self.hinted.take();
                lookups.led_to_tables.fetch_add(u64::from(hinted == Some(found.seqno)), Relaxed);
                if hinted.is_none_or(|seqno| found.seqno == seqno) {
                    if self.seqno == SeqNo::MAX && found.is_value {
                        cache.keep_pair(
                            self.version.number(),
                            self.key.as_ref(),
                            found.seqno,
                            into,
                        );
                    }
                    return Ok(Progress::Found(found.unless_below(self.hidden)));
                }
                continue;
            }
            // Once there is nothing more to search in the table it has no block.
            self.asked = Some(asked).filter(|asked| asked.block.is_some());
            if self.asked.is_none() {
                self.hinted = None;
            }
        }
    }

    /// Looks into a piece of a table. If the table is to be asked for a block, that is named
    /// afterwards.
    fn look_into(
        &self,
        asked: &mut Asked,
        piece: Piece,
        there: Cached,
        into: &mut Vec<u8>,
        lookups: &Lookups,
    ) -> Result<Option<Found>> {
        let to = Target { key: self.key(), seqno: self.seqno };
        match (piece, there) {
            (Piece::Metadata, Cached::Metadata(metadata)) => {
                if metadata.filter.may_contain(self.hash) {
                    lookups.searched.fetch_add(1, Relaxed);
                    asked.block = asked.table.block_for(&metadata, to)?;
                } else {
                    lookups.filtered.fetch_add(1, Relaxed);
                }
                Ok(None)
            }
            (Piece::Block(handle), Cached::Block(block)) => {
                let found = asked.table.search_block(&block, handle, to, into)?;
                if found.is_none() {
                    lookups.mistake(&asked.table);
                }
                asked.block = None;
                Ok(found)
            }
            _ => unreachable!("a lookup gets the piece that it requested"),
        }
    }

    /// The table to ask next.
    fn next_table(&mut self) -> Option<Arc<Table>> {
        while self.level < LEVELS {
            let table = if self.level == 0 {
                let table = self.partition.level0.get(self.index);
                self.index += 1;
                if table.is_none() {
                    self.level = 1;
                }
                table
            } else {
                self.level += 1;
                self.version.candidate(self.level - 1, self.key.as_ref())
            };
            let may_have_it = |table: &&Arc<Table>| {
                let newest = table.summary().properties.newest;
                newest >= self.hidden && table.covers(self.key.as_ref())
            };
            if let Some(table) = table.filter(may_have_it) {
                return Some(Arc::clone(table));
            }
        }
        None
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests;
