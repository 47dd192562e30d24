//! Opening a database: recognize the directory, lock it, recover.
//!
//! 1. The catalog is read without changing anything; a directory that is something else, newer or
//!    damaged is refused here.
//! 2. The lock is taken, and the catalog read again under it. A file that a newer release wrote, a
//!    catalog that is older than the directories of keyspaces ([`crate::owner`]), and a journal
//!    whose newest segments are lost, are refused before anything is changed. Data that do not fit
//!    the memory are refused here or in 4 ([`crate::memory_limit`]).
//! 3. Every keyspace's engine is opened from its own files: first those of `flexdb`, since such an
//!    opening changes nothing, and reads a header that step 2 does not reach. A keyspace whose
//!    files are damaged is left out ([`crate::damaged`]), and is refused to a caller that asks for
//!    it.
//! 4. The journal is read; each record's steps are applied to the keyspaces whose files do not have
//!    them yet (the replay law), and the sequence follows.
//!
//!    If 3 or 4 finds no room to write, all room that it took is freed ([`crate::room_to_open`]).
//! 5. Background work starts ([`crate::background`], O1).

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use codec::{Corruption, SeqNo};
use device::{Device, File};
use engine::{Barrier, BlockingWrites, EngineSettings, Host, Op, Sequence};
use environment::Environment;
use journal::{Journal, ReplayError};
use rand::Rng;
use telemetry::Registry;
use workers::Pool;

use crate::background::{Background, Upkeep};
use crate::catalog::{self, Catalog};
use crate::damaged::{self, Damaged};
use crate::database::{Db, Inner, OpenGuard};
use crate::directory::{Directory, without_closed_mark};
use crate::discarded_journal;
use crate::error::{Error, Result};
use crate::expiry::Expiry;
use crate::journal_barrier::JournalBarrier;
use crate::key_locks::KeyLocks;
use crate::keyspace_entry::{InstanceFiles, KeyspaceEntry, KeyspaceInstance};
use crate::keyspace_set::KeyspaceSet;
use crate::lifecycle::Lifecycle;
use crate::memory_balance::SharedMemory;
use crate::memory_limit::{self, Journaled};
use crate::memory_shares::MemoryShare;
use crate::options::Options;
use crate::owner;
use crate::read_only::Access;
use crate::record;
use crate::refusals;
use crate::room_to_open::{self, JournalRoom};
use crate::shared_parts::SharedParts;
use crate::write_order::WriteOrder;

/// The lock file's name.
pub(crate) const LOCK_FILE: &str = "LOCK";
/// The journal's directory.
pub(crate) const JOURNAL_DIR: &str = "journal";
/// Segments of which a journal of [`Options::journal_bytes`] has at least this number.
const SEGMENTS_MIN: u64 = 4;
/// Bytes of the smallest segment: one costs some five syncs.
const SEGMENT_BYTES_MIN: u64 = 64 << 10;
/// Segments of the journal for which a device has room at least, unless they are no longer than
/// [`SMALL_DEVICE_SEGMENT_BYTES`].
const DEVICE_SEGMENTS: u64 = 64;
const SMALL_DEVICE_SEGMENT_BYTES: u64 = 1 << 20;
/// The directory of all keyspaces.
pub(crate) const KEYSPACES_DIR: &str = "keyspaces";

impl Db {
    /// Opens the database in the directory `path`, and makes it if there is none.
    ///
    /// Recovery applies the journal's records that each keyspace's own files lack; its time grows
    /// with the journal ([`Options::journal_bytes`]).
    ///
    /// The file `LOCK` stays in the directory. After a killed process it is harmless: the operating
    /// system's lock on it ends with the process. Do not remove it while a process may have the
    /// database open.
    ///
    /// # Errors
    /// [`Error::NotADatabase`], also if `path` does not exist and
    /// [`Options::create_if_missing`] is false (then nothing is made); [`Error::NotADirectory`],
    /// [`Error::InUse`], [`Error::NewerVersion`], [`Error::MemoryTooSmall`],
    /// [`Error::NoRoomToOpen`], [`Error::OlderCatalog`], [`Error::Thread`];
    /// [`crate::error::Engine::BadOption`] for a setting of an engine; damage to the catalog or the
    /// journal with its place, and failures of the device. None of them loses anything. If only a
    /// keyspace is damaged, the database opens, and calls that name the keyspace get
    /// [`Error::DamagedKeyspace`].
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Self> {
        memory_limit::check_setting(&options)?;
        let path = path.as_ref();
        check_place(path, options.create_if_missing)?;
        let device =
            device::open(path, device::Options { io: options.io, ..device::Options::default() })?;
        let is_new = Catalog::load(&*device)?.is_none();
        let db = Self::open_on(device, &path.display().to_string(), options)?;
        if is_new {
            // The program that made the directory may not have synced its name.
            device::sync_name(path)?;
        }
        Ok(db)
    }

    /// Opens the database on any device; `place` is its name in messages.
    ///
    /// # Errors
    /// As [`Db::open`].
    pub fn open_on(device: Arc<dyn Device>, place: &str, options: Options) -> Result<Self> {
        memory_limit::check_setting(&options)?;
        let before_lock = Catalog::load(&*device)?;
        if before_lock.is_none() {
            check_vacant(&*device, place, options.create_if_missing)?;
        }
        let directory_lock = device.lock(LOCK_FILE).map_err(|error| in_use(error, place))?;
        let open = || {
            let (device, lock) = (Arc::clone(&device), Some(Arc::clone(&directory_lock)));
            Self::open_locked(device, place, options.clone(), lock, Access::Write)
        };
        let db = room_to_open::open_with_room(&device, open)?;
        let id = db.inner.keyspaces.catalog.lock().journal_id();
        let journal = journal_options_on(&*device, &db.inner.options, id, SeqNo::ZERO);
        let group_bytes = journal.buffer_bytes as u64;
        let room = JournalRoom::hold(&device, &db.inner.keyspaces.catalog.lock(), group_bytes)?;
        let is_short = room.is_short();
        db.inner.factory.barrier.set_room(room);
        if is_short {
            db.inner.give_room_back();
        }
        Ok(db)
    }

    /// Steps 2 to 5, for a caller that holds the lock.
    pub(crate) fn open_locked(
        device: Arc<dyn Device>,
        place: &str,
        options: Options,
        directory_lock: Option<Arc<dyn File>>,
        access: Access,
    ) -> Result<Self> {
        let catalog = load_or_create(&*device, &options)?;
        refusals::refuse_first(&*device, &catalog, options.discard_journal)?;
        if options.discard_journal {
            discarded_journal::remove(&*device)?;
        }
        let (sound, damaged) = damaged::part_damaged(&*device, &catalog)?;
        let needed = memory_limit::check_snapshots(&*device, &sound, options.memory_bytes)?;
        let durability = options.durability;
        let SharedParts { telemetry, pause_expiry, memory } =
            options.shared.clone().unwrap_or_default();
        let memory = memory.unwrap_or_else(|| SharedMemory::new(options.memory_bytes));
        let background = Background::new(&options, access, &telemetry, pause_expiry)?;
        let factory = EngineFactory {
            device: Arc::clone(&device),
            environment: options.environment.clone(),
            sequence: Arc::new(Sequence::in_recovery()),
            barrier: Arc::new(JournalBarrier::default()),
            memory,
            telemetry,
            workers: background.pool().clone(),
            engines: options.engines.clone(),
        };
        let files = (&*factory.device, &sound);
        let shares = factory.memory.deal(files, needed, &options)?;
        let (entries, was_closed) = without_closed_mark(&*device, access, |is_unchanged| {
            factory.open_all(&sound, damaged, shares, &mut || {
                *is_unchanged = false;
                let mut all = sound.keyspaces.iter();
                Ok(all.try_for_each(|one| owner::finish(&*factory.device, one))?)
            })
        })?;
        if was_closed {
            entries.values().for_each(|entry| entry.last_instance().trust_found());
        }
        let recovered = recover(&factory, &entries, &catalog, &options);
        if recovered.as_ref().is_err_and(Error::is_no_space) {
            // Frees the room that the replay has taken.
            let engines = entries.values().map(|entry| entry.last_instance());
            engines.for_each(|one| drop(one.engine.close()));
        }
        let (journal, replayed_records) = recovered?;
        let inner = Arc::new(Inner {
            directory: Directory { place: place.to_owned(), device, access, replayed_records },
            journal,
            order: WriteOrder::new(Arc::clone(&factory.sequence), options.memory_bytes),
            locks: KeyLocks::new(&options.environment),
            keyspaces: KeyspaceSet::new(catalog, entries),
            background,
            upkeep: Upkeep::default(),
            factory,
            lifecycle: Lifecycle::new(access.refusal(place), directory_lock),
            options,
        });
        let inner = Arc::new(OpenGuard(inner));
        if access == Access::Write {
            inner.factory.memory.join(&inner.0);
            if inner.options.discard_journal {
                inner.begin_after_discard()?;
            }
            inner.sweep_leftovers()?;
            inner.0.start_background()?;
            if inner.keyspaces.entries.read().values().any(|entry| entry.options.expiring) {
                inner.0.start_expiry_sweep()?;
            }
        }
        inner.keyspaces.begin_engines();
        Ok(Self { inner, durability })
    }
}

/// Returns the error for a lock that another holder has.
pub(crate) fn in_use(error: device::Error, place: &str) -> Error {
    match error {
        device::Error::Locked { .. } => Error::InUse { path: place.to_owned() },
        other => other.into(),
    }
}

/// Checks that `path` is a directory, or is absent if one may be made there.
pub(crate) fn check_place(path: &Path, create: bool) -> Result<()> {
    let place = || path.display().to_string();
    match (path.is_dir(), path.exists()) {
        (false, true) => Err(Error::NotADirectory { path: place() }),
        (false, false) if !create => Err(Error::NotADatabase { path: place(), found: None }),
        _ => Ok(()),
    }
}

/// Checks a directory without a catalog. It may become a database only if its entries are all left
/// by a crash while one was being made.
fn check_vacant(device: &dyn Device, place: &str, create: bool) -> Result<()> {
    let mut foreign = None;
    for entry in device.list("")? {
        let ours = match entry.name.as_str() {
            LOCK_FILE | catalog::FILE_NEXT => true,
            dir @ (JOURNAL_DIR | KEYSPACES_DIR) => device.list(dir)?.is_empty(),
            _ => false,
        };
        if !ours {
            foreign = Some(entry.name);
        }
    }
    if foreign.is_some() || !create {
        return Err(Error::NotADatabase { path: place.to_owned(), found: foreign });
    }
    Ok(())
}

fn load_or_create(device: &dyn Device, options: &Options) -> Result<Catalog> {
    if let Some(catalog) = Catalog::load(device)? {
        return Ok(catalog);
    }
    let mut id = [0; 16];
    options.environment.random("database id").fill_bytes(&mut id);
    device.create_dir(KEYSPACES_DIR)?;
    device.create_dir(JOURNAL_DIR)?;
    device.sync_dir("")?;
    let catalog = Catalog::new(id);
    catalog.store(device)?;
    Ok(catalog)
}

/// Returns the damage if there are journaled keyspaces and no journal. It existed before any of
/// them was made, and was the only place of writes that their own files do not have.
pub(crate) fn missing_journal(
    device: &dyn Device,
    catalog: &Catalog,
) -> Result<Option<Corruption>> {
    let is_wanted = catalog.keyspaces.iter().any(|entry| entry.options.journaled);
    let is_missing = is_wanted && journal::is_missing(device, JOURNAL_DIR)?;
    Ok(is_missing.then(|| Corruption::new("the journal is missing", 0).at(JOURNAL_DIR, 0)))
}

/// Returns the damage if the journal's id is that of another database. Its records do not concern
/// these keyspaces.
pub(crate) fn foreign_journal(
    device: &dyn Device,
    catalog: &Catalog,
) -> Result<Option<Corruption>> {
    let found = journal::id(device, JOURNAL_DIR)?;
    let is_foreign = found.is_some_and(|id| id != catalog.journal_id());
    let what = "the journal belongs to another database";
    Ok(is_foreign.then(|| Corruption::new(what, 0).at(JOURNAL_DIR, 0)))
}

/// Returns the options for the journal of this id. It takes any record that its format can express:
/// a value may be half of that size.
pub(crate) fn journal_options(options: &Options, id: u64, reached: SeqNo) -> journal::Options {
    let record_bytes_max = journal::Options::RECORD_BYTES_MAX;
    let default = journal::Options::default();
    let segment_bytes = segment_bytes(options);
    let (least, most) = (Options::JOURNAL_BUFFER_BYTES_MIN, default.buffer_bytes);
    let buffer_bytes_max = options.journal_buffer_bytes.clamp(least, most);
    // A group is at most as long as a segment, or it would make a longer one.
    let buffer_bytes = usize::try_from(segment_bytes)
        .map_or(buffer_bytes_max, |bytes| bytes.min(buffer_bytes_max));
    journal::Options { record_bytes_max, reached, segment_bytes, buffer_bytes, id: Some(id) }
}

/// The same for a device of some size. On a full device only a trim of whole segments frees room,
/// so segments are small on a small device.
fn journal_options_on(
    device: &dyn Device,
    options: &Options,
    id: u64,
    reached: SeqNo,
) -> journal::Options {
    let usual = journal_options(options, id, reached);
    let total = device.space().map_or(u64::MAX, |space| space.total);
    let most = (total / DEVICE_SEGMENTS).max(SMALL_DEVICE_SEGMENT_BYTES);
    let segment_bytes = usual.segment_bytes.min(most);
    let buffer_bytes = usual.buffer_bytes.min(segment_bytes as usize);
    journal::Options { segment_bytes, buffer_bytes, ..usual }
}

/// Returns the bytes of a segment of the journal. Whole segments are trimmed, so a journal of its
/// size has several.
pub(crate) fn segment_bytes(options: &Options) -> u64 {
    let most = journal::Options::default().segment_bytes;
    (options.journal_bytes / SEGMENTS_MIN).clamp(SEGMENT_BYTES_MIN, most)
}

/// The parts that engines are opened with, at the start and whenever a keyspace is made.
pub(crate) struct EngineFactory {
    device: Arc<dyn Device>,
    environment: Environment,
    sequence: Arc<Sequence>,
    pub(crate) barrier: Arc<JournalBarrier>,
    pub(crate) memory: SharedMemory,
    pub(crate) telemetry: Registry,
    workers: Pool,
    engines: EngineSettings,
}

impl EngineFactory {
    /// Opens the engine of one catalog entry, whose directory exists, with a share of the memory
    /// or on all of it.
    pub(crate) fn open(
        &self,
        entry: &catalog::Entry,
        share: Option<Arc<MemoryShare>>,
    ) -> Result<KeyspaceInstance> {
        let dir = entry.dir();
        let (workers, gate) = self.workers.behind_gate();
        let whole = &self.memory.shares().whole;
        let memory = share.as_ref().map_or(whole, |share| &share.budget);
        let host = Host {
            device: self.device.subdevice(&dir)?,
            environment: self.environment.clone(),
            workers,
            telemetry: self.telemetry.with_labels(&[("keyspace", &entry.name)]),
            sequence: Arc::clone(&self.sequence),
            barrier: self.barrier_for(entry.options.journaled),
            memory: Arc::clone(memory),
        };
        let driver = entry.options.engine.driver();
        let database = self.engines.of(driver);
        let settings = entry.options.settings.map_or(database, |own| own.over(&database));
        let engine = (driver.open)(host, &settings, &dir)?;
        let journaled = entry.options.journaled;
        let files = InstanceFiles::new(dir, Arc::clone(&self.device));
        let expiry = entry.options.expiring.then(|| Expiry::new(self.environment.clone()));
        let instance = KeyspaceInstance::new(entry.id, journaled, engine, files, share, expiry);
        Ok(instance.behind(gate))
    }

    fn barrier_for(&self, journaled: bool) -> Arc<dyn Barrier> {
        if journaled {
            Arc::clone(&self.barrier) as Arc<dyn Barrier>
        } else {
            Arc::new(engine::NoJournal)
        }
    }

    /// Opens the keyspace of one catalog entry.
    pub(crate) fn open_entry(
        &self,
        entry: &catalog::Entry,
        share: Option<Arc<MemoryShare>>,
    ) -> Result<Arc<KeyspaceEntry>> {
        let instance = self.open(entry, share)?;
        Ok(Arc::new(KeyspaceEntry::new(&entry.name, entry.options, instance)))
    }

    /// Opens every keyspace that is `sound` at first sight, with its share of the memory. A
    /// keyspace that is damaged, by `damaged` or by its engine's findings, gets an entry that
    /// refuses its calls. Calls `begin_to_change` before the first opening that may change a file.
    fn open_all(
        &self,
        sound: &Catalog,
        damaged: Vec<(catalog::Entry, Corruption)>,
        mut shares: BTreeMap<u32, Arc<MemoryShare>>,
        begin_to_change: &mut dyn FnMut() -> Result<()>,
    ) -> Result<BTreeMap<String, Arc<KeyspaceEntry>>> {
        let mut entries = BTreeMap::new();
        let changes_nothing =
            |entry: &&catalog::Entry| entry.options.engine.driver().opens_without_changes;
        let (first, others): (Vec<_>, Vec<_>) = sound.keyspaces.iter().partition(changes_nothing);
        let first_count = first.len();
        for (number, entry) in first.into_iter().chain(others).enumerate() {
            if number == first_count {
                begin_to_change()?;
            }
            let opened = self.open_entry(entry, shares.remove(&entry.id));
            let keyspace_entry = opened.or_else(|failure| {
                let damage = damaged::damage_of(failure)?;
                Ok::<_, Error>(self.damaged_entry(entry, damage))
            })?;
            entries.insert(entry.name.clone(), keyspace_entry);
        }
        if first_count == sound.keyspaces.len() {
            begin_to_change()?;
        }
        for (entry, damage) in damaged {
            entries.insert(entry.name.clone(), self.damaged_entry(&entry, damage));
        }
        Ok(entries)
    }

    fn damaged_entry(&self, entry: &catalog::Entry, damage: Corruption) -> Arc<KeyspaceEntry> {
        let options = entry.options;
        let since_ms = self.environment.wall_ms();
        let engine = Box::new(Damaged::new(damage.clone().into(), options.engine, since_ms));
        let files = InstanceFiles::new(entry.dir(), Arc::clone(&self.device));
        let instance =
            KeyspaceInstance::new(entry.id, options.journaled, engine, files, None, None);
        Arc::new(KeyspaceEntry::new(&entry.name, options, instance).damaged(damage))
    }
}

/// Step 4. Also returns the number of journal records that were applied.
fn recover(
    factory: &EngineFactory,
    entries: &BTreeMap<String, Arc<KeyspaceEntry>>,
    catalog: &Catalog,
    options: &Options,
) -> Result<(Arc<Journal>, u64)> {
    // The journal's records for a damaged keyspace stay there.
    let sound = entries.values().filter(|entry| entry.damage.is_none());
    let instances: Vec<Arc<KeyspaceInstance>> = sound.map(|entry| entry.last_instance()).collect();
    let journaled: Journaled<'_> = instances
        .iter()
        .filter(|instance| instance.journaled)
        .map(|instance| (instance.id, &**instance))
        .collect();
    let persisted = instances.iter().map(|instance| instance.engine.persisted());
    let newest = persisted.max().unwrap_or(SeqNo::ZERO).max(catalog.newest);
    let barrier = &factory.barrier;
    for instance in journaled.values() {
        barrier.holds(instance.engine.persisted());
    }
    let oldest = journaled.values().map(|instance| instance.engine.persisted()).min();
    let oldest = match oldest {
        Some(oldest) => oldest,
        // No sound keyspace reads it, and only the damaged ones know the number to which it was
        // trimmed.
        None if entries.values().any(|entry| entry.damage.is_some()) => {
            journal::begins_behind(&*factory.device, JOURNAL_DIR)?
        }
        None => catalog.newest,
    };
    let sequence = &factory.sequence;
    let (device, shares) = (&*factory.device, factory.memory.shares());
    let mut replay = |seqno: SeqNo, payload: &[u8]| -> std::result::Result<(), ReplayError> {
        barrier.holds(seqno);
        replay_record(&journaled, catalog, seqno, payload)?;
        memory_limit::check_used(device, shares, (seqno, &journaled))?;
        sequence.recover_to(seqno);
        Ok(())
    };
    let reached = if options.discard_journal { SeqNo::ZERO } else { barrier.held() };
    let (journal, recovery) = Journal::open(
        Arc::clone(&factory.device),
        JOURNAL_DIR,
        journal_options_on(device, options, catalog.journal_id(), reached),
        &options.environment,
        oldest,
        &mut replay,
    )?;
    let journal = Arc::new(journal);
    // Before the sequence passes the end of the journal, to numbers of writes that are not
    // journaled.
    barrier.set(Arc::clone(&journal));
    sequence.end_recovery(newest.max(journal.last()));
    Ok((journal, recovery.replayed))
}

fn replay_record(
    journaled: &Journaled<'_>,
    catalog: &Catalog,
    seqno: SeqNo,
    payload: &[u8],
) -> Result<()> {
    let steps = record::decode(payload)?;
    if let Some(damage) = unknown_keyspace(catalog, seqno, &steps) {
        return Err(Error::OlderCatalog { damage });
    }
    for run in steps.chunk_by(|(one, _), (other, _)| one == other) {
        // A keyspace that is not there was dropped or cleared after the record was written.
        let Some(instance) = journaled.get(&run[0].0) else { continue };
        let ops: Vec<_> = run.iter().map(|(_, op)| *op).collect();
        instance.begin_background();
        instance.engine.replay(&ops, seqno)?;
        instance.note_applied(seqno);
    }
    Ok(())
}

/// Returns the evidence that `catalog` is older than the journal: a record names a keyspace whose
/// id the catalog has not given out yet.
pub(crate) fn unknown_keyspace(
    catalog: &Catalog,
    seqno: SeqNo,
    steps: &[(u32, Op<'_>)],
) -> Option<Corruption> {
    let (id, _) = steps.iter().find(|(id, _)| *id >= catalog.next_keyspace)?;
    Some(owner::is_older(&format!("record {seqno} of the journal is of the keyspace with id {id}")))
}
