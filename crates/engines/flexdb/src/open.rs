//! Opening: the space, the index to it, begin.
//!
//! 1. The space is opened, which replays its log and changes nothing: its life begins with the
//!    first change. If there is none, it is made.
//! 2. The store's header is read; an empty space gets one. So a crash while the store is made
//!    leaves nothing, or an empty space, or a store.
//! 3. The sparse index is taken from its file, if the last life of the space was closed
//!    (`stored_index`); otherwise it is rebuilt from the extents' tags (`recover`).
//! 4. The host replays its journal above `persisted`.

use std::sync::Arc;

use codec::SeqNo;
use engine::{BackgroundErrors, Error, Health, Host, Result, as_damage};
use flexspace::space::{FlexSpace, Snapshot};
use memtable::MemtableSet;
use sync::Mutex;

use crate::background::Background;
use crate::background_errors::READ_INDEX;
use crate::cache::Cache;
use crate::check;
use crate::collect;
use crate::commit::Committer;
use crate::contract::Store;
use crate::error::{DATA, from_space};
use crate::figures::{Counts, Figures};
use crate::index::Index;
use crate::index_memory::IndexMemory;
use crate::memory_split::MemorySplit;
use crate::memtable::Memtable;
use crate::options::Options;
use crate::pair::StoreHeader;
use crate::recover;
use crate::space_reads::SpaceReads;
use crate::state::{Base, State};
use crate::state_cell::StateCell;
use crate::store::Shared;
use crate::stored_index::{self, Wanted};
use crate::writes::Writes;
use memory_budget::Account;

/// The group of its background tasks.
const GROUP: &str = "flexdb";

impl Store {
    /// Opens the store in the host's directory, and makes it if there is none. Reads the tree of
    /// the space, and one key for each interval.
    ///
    /// # Errors
    /// [`engine::Error::Corruption`] if what was read is not what was written.
    pub fn open(host: Host, options: Options) -> Result<Self> {
        stored_index::refuse_newer(&*host.device)?;
        let space = open_space(&host, &options)?;
        match Self::open_on(&space, host, options) {
            Ok(store) => Ok(store),
            Err(error) => {
                // It was not used, and may be opened again immediately.
                let _ = space.close();
                Err(error)
            }
        }
    }

    fn open_on(space: &FlexSpace, host: Host, options: Options) -> Result<Self> {
        let persisted = read_header(space)?;
        let health: Arc<Health> = Arc::default();
        let group = host.tasks(GROUP, &health);
        let (heads, nodes) =
            (Arc::new(Account::new(&host.memory)), Arc::new(Account::new(&host.memory)));
        let snapshot = space.snapshot().map_err(from_space)?;
        let split = MemorySplit::of(host.memory.limit(), &options);
        let step = split.opening_step(snapshot.len(), &options);
        let mut opening_keys = 0;
        let stored = stored_index(&host, &snapshot, space.life(), &options, &heads);
        let errors = BackgroundErrors::default();
        let stored = stored.unwrap_or_else(|error| {
            errors.fail(READ_INDEX, &error, &host.environment);
            None
        });
        let index = match stored {
            Some(index) => index,
            None => {
                let index = recover::index(&snapshot, step, &host, &group, &heads)?;
                opening_keys = index.now().range(0..u64::MAX).count() as u64;
                index
            }
        };
        let base = Arc::new(Base { space: snapshot, index: index.now().clone() });
        let doublings = split.doublings_for(step, &options);
        let memtables = MemtableSet::new(&host.memory);
        let state = State {
            active: Memtable::new(persisted, &memtables),
            sealed: Vec::new(),
            base,
            pinned: Default::default(),
            commits: 0,
        };
        let cache = Cache::new(&host.memory, options.pairs);
        cache.pairs.open(state.commits);
        let shared = Arc::new(Shared {
            state: StateCell::new(state),
            committer: Mutex::new(Committer::new(index)),
            space: space.clone(),
            index_memory: IndexMemory::new(heads, nodes, doublings),
            cache,
            reads: SpaceReads::new(&host.device, &host.memory),
            writes: Writes::new(memtables, persisted, &host.environment),
            background: Background::new(group, errors, space.len()),
            figures: Figures::new(Counts { opening_keys, ..Counts::default() }, space.stats()),
            options,
            health,
            host,
        });
        let mut committer = shared.committer.lock();
        shared.index_memory.count_nodes(committer.index(), space);
        shared.hold_index(&mut committer)?;
        drop(committer);
        collect::begin(&shared)?;
        Ok(Self { shared })
    }
}

/// Returns the index that the life before this one has stored; `None` if there is none.
///
/// # Errors
/// The damage, and the device's: then the index is rebuilt (N3).
fn stored_index(
    host: &Host,
    space: &Snapshot,
    life: u64,
    options: &Options,
    heads: &Arc<Account>,
) -> Result<Option<Index>> {
    let wanted = Wanted { life, space_bytes: space.len() };
    let extents = space.extents(StoreHeader::BYTES as u64..space.len());
    let Some(reading) = stored_index::Reading::begin(&*host.device, wanted, extents)? else {
        return Ok(None);
    };
    let split = MemorySplit::of(host.memory.limit(), options);
    let step = split.step_for(reading.intervals(), space.len(), options);
    reading.index(step, heads).map(Some)
}

fn open_space(host: &Host, options: &Options) -> Result<FlexSpace> {
    let (device, options) = (Arc::clone(&host.device), options.space(host.memory.limit()));
    let space = match check::is_vacant(&*device)? {
        // A space that is there keeps the segments that it was made with.
        true if options.check().is_err() => {
            let (engine, option) = ("flexdb", "capacity_bytes");
            let allowed = "at least 128 segments, each a power of two from 16 KiB to 1 GiB";
            return Err(Error::BadOption { engine, option, allowed });
        }
        true => FlexSpace::create(device, options),
        false => FlexSpace::open_unchanged(device, options),
    };
    space.map_err(|error| as_damage(from_space(error)))
}

/// Up to which write everything is in the space.
fn read_header(space: &FlexSpace) -> Result<SeqNo> {
    if space.is_empty() {
        let header = StoreHeader { persisted: SeqNo::ZERO }.encode();
        space.append(&header).map_err(from_space)?;
        space.sync().map_err(from_space)?;
        return Ok(SeqNo::ZERO);
    }
    let bytes = space.read(0, (StoreHeader::BYTES as u64).min(space.len())).map_err(from_space)?;
    let header = StoreHeader::decode(&bytes);
    Ok(header.map_err(|damage| Error::from(damage.at(DATA, 0)))?.persisted)
}
