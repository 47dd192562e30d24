//! Opening: prove what is on the device, begin.
//!
//! 1. The superblock is read, the manifest that it names, and the header and footer of each table
//!    that the manifest names. Nothing was changed so far, and nothing is if any of it is damaged.
//! 2. Files that a crash left of other manifests, flushes and compactions are removed, once the
//!    superblock is made durable. If there are none nothing is written.
//! 3. Compactions that are due begin, and the store checks for work from time to time. The host
//!    replays its journal above `persisted`.

use std::sync::Arc;

use arc_swap::ArcSwap;
use codec::SeqNo;
use engine::{Health, Host, Result};
use memtable::MemtableSet;

use crate::admission::Admission;
use crate::background::Background;
use crate::cache::Cache;
use crate::contract::Store;
use crate::dranges::Dranges;
use crate::indexed_lookups::IndexedLookups;
use crate::memory_split::MemorySplit;
use crate::memtable::{Memtable, Place};
use crate::open_manifest::OpenManifest;
use crate::options::{Options, Routing};
use crate::state::State;
use crate::state::present::PresentState;
use crate::store::Shared;
use crate::table_files::TableFiles;
use edits::Chain;
use lsm_tree::cache::PieceCache;
use lsm_tree::edit::Edit;
use lsm_tree::range_deletes::Deletes;
use lsm_tree::table::{LocalTables, Summary, Table, TableStore};
use lsm_tree::version::{Change, Version};

/// The group that its background tasks belong to.
const GROUP: &str = "lsm";

impl Store {
    /// Opens the store in the host's directory, and makes it if there is none. Reads two blocks of
    /// each table.
    ///
    /// # Errors
    /// [`engine::Error::Corruption`] if anything that was read is not what was written; then no
    /// file is changed.
    pub fn open(host: Host, options: Options) -> Result<Self> {
        let tables = LocalTables::on(Arc::clone(&host.device));
        Self::open_with(host, options, tables)
    }

    /// Opens the store with its tables elsewhere; the manifest is in the host's directory. A store
    /// is to be opened with the tables that it was made with; a copy
    /// ([`engine::Engine::checkpoint`]) has them in local files.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open_with(host: Host, options: Options, tables: Arc<dyn TableStore>) -> Result<Self> {
        let memtables = MemtableSet::new(&host.memory);
        let cache = Arc::new(Cache::new(&host.memory, &options, memtables.memory()));
        let pieces = Arc::clone(&cache) as Arc<dyn PieceCache>;
        let found = edits::read::<Edit>(&*host.device)?;
        let mut change = Change::default();
        for (level, summary) in found.iter().flat_map(|(_, contents)| &contents.edit.added) {
            change.added.push((*level, Table::open(summary.clone(), &tables, &pieces)?));
        }
        let version = Version::default().after(&change);
        // A range delete that hides nothing is not written again.
        let found = found.map(|(superblock, mut contents)| {
            contents.edit.range_deletes.retain(|delete| version.may_hide(delete));
            (superblock, contents)
        });
        let (mut manifest, contents) = Chain::begin(&host.device, found, options.manifest_bytes)?;
        let summaries = || contents.edit.added.iter().map(|(_, summary)| summary);
        let mut newest_table = 0;
        for number in tables.list()? {
            newest_table = newest_table.max(number);
            if !summaries().any(|summary| summary.id.number == number) {
                manifest.make_durable()?;
                tables.remove(number)?;
            }
        }
        let persisted = manifest.persisted();
        let deletes = Deletes::found(&contents.edit.range_deletes, &host.memory);
        recover_numbers(&host, persisted, summaries(), deletes.all.last());
        let last_memtable = summaries().map(|summary| summary.properties.last_memtable).max();
        memtables.number_behind(last_memtable.unwrap_or(0));
        let dranges = first_dranges(&host, &options);
        // Everything up to `persisted` is in tables, and all later writes are yet to be applied
        // again.
        let actives = dranges.all().iter().flat_map(|drange| {
            let (bounds, slots) = (Arc::clone(&drange.bounds), drange.slots.len());
            let place = Place { drange: drange.id, bounds, slots };
            (0..slots).map(move |_| place.clone())
        });
        let actives = actives.map(|place| Memtable::new(place, persisted, &memtables)).collect();
        let (limit, level0_bytes) = (host.memory.limit(), version.level_bytes(0));
        let health: Arc<Health> = Arc::default();
        let state = State::new(dranges, actives, version, deletes, options.range_index);
        let shared = Arc::new(Shared {
            state: PresentState::new(state),
            memtables,
            manifest: OpenManifest::new(manifest),
            tables: TableFiles::new(&host, tables, pieces, newest_table),
            cache,
            split: ArcSwap::from_pointee((limit, MemorySplit::of(limit, &options))),
            options,
            lookups: IndexedLookups::new(&host.memory),
            admission: Admission::new(&host.environment),
            background: Background::new(level0_bytes, host.tasks(GROUP, &health)),
            health,
            host,
        });
        shared.cache.freed().begin(&shared);
        shared.tables.obsolete.begin(&shared);
        shared.fit_lookup_index();
        shared.cache.pairs().open(shared.state.load().version.number());
        let (metadata_bytes, metadata_bytes_max) = shared.state.load().version.metadata_bytes();
        shared.cache.note_metadata(metadata_bytes, metadata_bytes_max);
        shared.cache.fit_clocks();
        shared.begin_looking_around()?;
        Ok(Self { shared })
    }
}

/// Returns one Drange of all keys; the first writes will show which Dranges there should be.
fn first_dranges(host: &Host, options: &Options) -> Dranges {
    let slots = match options.routing {
        Routing::Random => MemorySplit::of(host.memory.limit(), options).slots,
        Routing::Dranges | Routing::One => 1,
    };
    Dranges::one(slots)
}

/// Without a journal nothing is applied again, so numbers above `persisted` that are in tables are
/// never assigned a second time: a flush next to writers leaves some there. With a journal they
/// must be in it.
fn recover_numbers<'a>(
    host: &Host,
    persisted: SeqNo,
    summaries: impl Iterator<Item = &'a Summary>,
    last_delete: SeqNo,
) {
    let newest = |summary: &Summary| summary.properties.newest.max(summary.properties.swept);
    let newest = summaries.map(newest).max().unwrap_or(SeqNo::ZERO).max(last_delete);
    if newest <= persisted {
        return;
    }
    match host.barrier.is_journaled() {
        true => host.barrier.holds(newest),
        false => host.sequence.found(newest),
    }
}
