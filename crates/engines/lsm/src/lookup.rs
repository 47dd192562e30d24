//! The lookup of a key, which is pending once it needs a piece of a table that is not cached.
//!
//! 1. Memtables and cached pairs are searched, then the tables, as far as the cache has their
//!    pieces.
//! 2. If a piece is missing, the lookup is pending, with the read of that piece. Once the piece has
//!    arrived it is verified and cached, and the search of the tables continues.

use std::sync::Arc;

use codec::SeqNo;
use engine::{At, Lookup, PendingLookup, Progress, ReadRequest, Result};
use sync::mutant;

use crate::planted::Planted;
use crate::read::MemoryLookup;
use crate::search::{self, Search};
use crate::state::State;
use crate::store::Shared;
use lsm_tree::cache::Cached;
use lsm_tree::entry::{Found, Target};
use lsm_tree::table::{Piece, Span, Table};

/// The state of the store when the lookup of an update began. A later write of the key is in a
/// memtable, or in a memtable that was flushed or merged, or it is a range delete or an ingestion.
#[derive(Clone, Copy)]
struct UpdateStart {
    /// Memtables that were flushed or merged so far.
    gone: u64,
    /// Range deletes that came so far.
    deletes: u64,
    ingested: SeqNo,
}

impl UpdateStart {
    fn of(state: &State) -> Self {
        Self {
            gone: state.gone,
            deletes: state.deletes.came,
            ingested: state.version.newest_ingested(),
        }
    }
}

/// A piece of a table that a lookup waits for.
struct Wanted {
    table: Arc<Table>,
    piece: Piece,
    /// The part of the read that is the piece.
    skipped: usize,
    len: usize,
}

/// A lookup that waits for a piece.
struct Pending {
    shared: Arc<Shared>,
    search: Search<Vec<u8>>,
    /// Only for an update.
    began: Option<UpdateStart>,
    wanted: Wanted,
    read: [ReadRequest; 1],
}

/// The progress of a search.
enum Step {
    Ended(Option<Found>),
    Waits(Wanted, ReadRequest),
}

impl Shared {
    /// Looks a key up. Never waits for the device.
    pub(crate) fn lookup(
        self: &Arc<Self>,
        key: &[u8],
        at: At<'_>,
        into: &mut Vec<u8>,
    ) -> Result<Lookup> {
        let seqno = at.seqno();
        let state = self.open_state()?;
        let mut search = match self.find_in_memory(&state, key, seqno, into)? {
            MemoryLookup::Found(found) => return Ok(Lookup::ended(found.is_value)),
            MemoryLookup::GoOn(search) => search,
        };
        let began = matches!(at, At::ForUpdate).then(|| UpdateStart::of(&state));
        // A search of tables may take long; holding the guard would keep a slot of the swap.
        drop(state);
        let step = self.search_on(&mut search, None, into)?;
        if began.is_none() {
            self.compact_for_gets();
        }
        Ok(match step {
            Step::Ended(found) => Lookup::ended(found.is_some_and(|found| found.is_value)),
            Step::Waits(wanted, read) => Lookup::Pending(Box::new(Pending {
                shared: Arc::clone(self),
                search: search.owned(),
                began,
                wanted,
                read: [read],
            })),
        })
    }

    /// Continues a search until it has ended, or needs a piece that is not cached.
    fn search_on<K: AsRef<[u8]>>(
        &self,
        search: &mut Search<K>,
        given: Option<Cached>,
        into: &mut Vec<u8>,
    ) -> Result<Step> {
        let cached = |table: &Table, piece| Ok(table.cached(piece));
        let with = (&self.lookups.counts, &*self.cache);
        let (table, piece) = match search.advance(given, into, with, &cached)? {
            search::Progress::Found(found) => return Ok(Step::Ended(Some(found))),
            search::Progress::Absent => return Ok(Step::Ended(None)),
            search::Progress::Waits(table, piece) => (table, piece),
        };
        let Span { file, offset, read_len, skipped, len } = table.span(piece)?;
        let source = Arc::clone(&self.tables.source);
        let read = ReadRequest { source, file, offset, len: read_len };
        Ok(Step::Waits(Wanted { table, piece, skipped, len }, read))
    }

    /// Returns whether `key` was not written since the lookup began. Returns `false` if any
    /// memtable was flushed or merged meanwhile: a writer that entered it before it was sealed may
    /// have written the key to it then, although another memtable was already written to. A Drange
    /// with several slots has several memtables, any of which may be flushed first.
    ///
    /// Returns `false` after any range delete: one that covered the key may have ended, and the
    /// present set does not have it. The same holds for an ingestion: the lookup may
    /// have begun between the new memtables and the new tables.
    fn is_unwritten_since(&self, key: &[u8], began: UpdateStart) -> bool {
        let UpdateStart { gone, deletes, ingested } = began;
        let state = self.state.load();
        state.gone == gone
            && mutant!(Planted::DeletesUncounted, state.deletes.came == deletes, true)
            && state.version.newest_ingested() == ingested
            && state.find_in_memory(Target::first_of(key), &mut Vec::new()).is_none()
    }
}

impl PendingLookup for Pending {
    fn key(&self) -> &[u8] {
        self.search.key()
    }

    fn reads(&self) -> &[ReadRequest] {
        &self.read
    }

    fn resume(
        &mut self,
        _read: usize,
        bytes: Result<&[u8]>,
        into: &mut Vec<u8>,
    ) -> Result<Progress> {
        let Self { shared, search, wanted, .. } = self;
        let Wanted { table, piece, skipped, len } = wanted;
        let bytes = bytes?;
        shared.health.check_open()?;
        let stored = bytes.get(*skipped..*skipped + *len).unwrap_or_default();
        let given = table.keep(*piece, stored)?;
        let step = shared.search_on(search, Some(given), into)?;
        if self.began.is_none() {
            self.shared.compact_for_gets();
        }
        Ok(match step {
            Step::Ended(found) if found.is_some_and(|found| found.is_value) => Progress::Found,
            Step::Ended(_) => Progress::Absent,
            Step::Waits(wanted, read) => {
                (self.wanted, self.read) = (wanted, [read]);
                Progress::NextRound
            }
        })
    }

    fn is_newest(&self) -> bool {
        self.began.is_some_and(|began| self.shared.is_unwritten_since(self.key(), began))
    }
}
