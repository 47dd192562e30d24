//! A new database of all that is sound in one that does not open any more, or not whole.
//!
//! 1. The catalog lists the contents of the database, and must be readable. Nothing of the old
//!    database is changed. Keyspaces that only their directories name are added: then the catalog
//!    is an older one ([`owner`]).
//! 2. The new database is made in a directory of its own in the new place ([`UNFINISHED`]), so that
//!    a crash leaves no database there.
//! 3. A keyspace whose own files are whole by their checksums is copied, file by file. A damaged
//!    one is rewritten from the pairs that its engine finds sound. The parts that it cannot read
//!    are listed, with the keys that may have been there if these are known. A keyspace whose files
//!    are all missing is left out.
//! 4. Records that the journal has beyond each keyspace's own files are written, up to the first
//!    damage.
//! 5. The new database is flushed, closed, and moved to its place, the catalog last.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::path::Path;
use std::sync::Arc;

use codec::{Corruption, SeqNo};
use device::{Device, Mode, SyncKind};
use engine::{KeyRange, Lost, Op, SalvageSink, Salvaged};
use journal::{Journal, OpenError, ReplayError};

use crate::catalog::{self, Catalog, Entry};
use crate::check::{self, KeyspaceFiles, LastRecord};
use crate::copy_side::CopyTarget;
use crate::database::Db;
use crate::directory::{check_still_unlocked, lock_to_read, make_lock_file};
use crate::drivers::EngineKind;
use crate::error::{Error, Result};
use crate::keyspace::Keyspace;
use crate::merge::MergeOperators;
use crate::open::{
    JOURNAL_DIR, KEYSPACES_DIR, check_place, foreign_journal, journal_options, missing_journal,
};
use crate::options::Options;
use crate::owner::{self, Unnamed};
use crate::record;

/// The directory in which the new database grows until it is whole.
const UNFINISHED: &str = "salvaging";
/// Bytes that are copied in one step.
const COPIED_PER_TURN: usize = 1 << 20;

/// The result of a salvage.
#[derive(Clone, Debug, Default)]
pub struct Salvage {
    /// The keyspaces, in the order of their names.
    pub keyspaces: Vec<SalvagedKeyspace>,
    /// Writes that the journal had beyond the keyspaces' own files.
    pub journal_records: u64,
    /// Every piece of damage, with its place: of all of them the first [`crate::DAMAGE_MAX`].
    pub damage: Vec<Corruption>,
    /// How many more there are.
    pub further_damage: u64,
}

/// The result for one keyspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SalvagedKeyspace {
    /// Its name.
    pub name: String,
    /// The engine that stores it.
    pub engine: EngineKind,
    /// How it was brought to the new database.
    pub outcome: SalvageOutcome,
    /// The parts of it that cannot be read; if there are many, the first ones. A key whose newest
    /// value was there has the one before it, or none.
    pub lost: Vec<Lost>,
}

/// How a keyspace was brought to the new database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SalvageOutcome {
    /// Its files are whole, and were copied.
    Copied,
    /// It was rewritten from its sound pairs.
    Rewritten {
        /// Puts and deletions that were found, old ones among them.
        writes: u64,
        /// Some data that showed which records are obsolete is damaged. So some keys may have an
        /// older value, or be back although they were deleted.
        may_be_outdated: bool,
    },
    /// Its files are missing.
    LeftOut,
}

impl Salvage {
    /// Returns the number of pieces of damage that were found, listed or not. If it is 0, all of
    /// the old database is in the new one.
    pub fn damage_count(&self) -> u64 {
        self.damage.len() as u64 + self.further_damage
    }

    fn extend(&mut self, damage: impl IntoIterator<Item = Corruption>) {
        check::list(damage, &mut self.damage, &mut self.further_damage);
    }
}

/// Makes a new database in `into`, a new or empty directory, from all sound data of the database in
/// `from`. That one must not be open for writing anywhere. It is not changed, and may be on a file
/// system that is mounted read-only. The result lists the damage. A key whose newest value cannot
/// be read has the one before it, or none. The new database is durable when this returns.
///
/// `options` are those of the new one; keyspaces keep theirs.
///
/// # Errors
/// [`Error::NotADatabase`], [`Error::InUse`], [`Error::NotEmpty`]; a catalog that is damaged; the
/// devices' errors. Files that were made until then are no database.
pub fn salvage(
    from: impl AsRef<Path>,
    into: impl AsRef<Path>,
    options: Options,
) -> Result<Salvage> {
    let (from, into) = (from.as_ref(), into.as_ref());
    check_place(from, false)?;
    let device =
        |path| device::open(path, device::Options { io: options.io, ..device::Options::default() });
    let old = device(from)?;
    // So that nothing is made where there is nothing to salvage.
    Catalog::existing(&*old, &from.display().to_string())?;
    let new = device(into)?;
    let names = [from, into].map(|path| path.display().to_string());
    let salvaged = salvage_on((old, &names[0]), (new, &names[1]), options)?;
    device::sync_name(into)?;
    Ok(salvaged)
}

/// The same on any devices, each with its name in messages.
///
/// # Errors
/// As [`salvage`].
pub fn salvage_on(
    (old, from): (Arc<dyn Device>, &str),
    (new, into): (Arc<dyn Device>, &str),
    options: Options,
) -> Result<Salvage> {
    let catalog = Catalog::existing(&*old, from)?;
    let lock = lock_to_read(&*old, from)?;
    let source = Arc::clone(&old);
    // Files are opened as if for writing, but may be in a place that cannot be written.
    let old = device::overlay(old);
    if !new.list("")?.is_empty() {
        return Err(Error::NotEmpty { path: into.to_owned() });
    }
    let (found, newest) = (Salvage::default(), catalog.newest);
    let (persisted, newest_of, damaged) = Default::default();
    let has_journal = true;
    let mut work = Work { old, catalog, found, persisted, newest_of, damaged, newest, has_journal };
    work.adopt_newer()?;
    let target = CopyTarget::new(Arc::clone(&new), into);
    let unfinished = target.device().subdevice(UNFINISHED);
    let made = unfinished.map_err(Error::from).and_then(|place| work.make(&place, options));
    if made.is_err() {
        // Leaves the place empty for another attempt, and frees its room. The first failure is the
        // one to report.
        let _ = new.remove_dir(UNFINISHED);
    }
    let unwritten = made.and_then(|()| match &lock {
        Some(_) => Ok(()),
        None => check_still_unlocked(&*source, from),
    });
    let moved = unwritten.and_then(|()| move_up(&*target.device()));
    target.attribute(moved, from)?;
    Ok(work.found)
}

/// A salvage under way.
struct Work {
    old: Arc<dyn Device>,
    catalog: Catalog,
    found: Salvage,
    /// Up to which write the files of each keyspace have everything, by its id.
    persisted: BTreeMap<u32, SeqNo>,
    /// The newest write of which those files hold anything.
    newest_of: BTreeMap<u32, SeqNo>,
    /// The check's findings for the damaged keyspaces, by their ids.
    damaged: BTreeMap<u32, KeyspaceFiles>,
    /// The newest number that is known to have been given. No number up to it is given again, since
    /// copied files have writes by their old numbers.
    newest: SeqNo,
    /// Whether the journal is that of this database. `true` also of a database without a journal.
    has_journal: bool,
}

impl Work {
    /// Adds the keyspaces that the catalog does not know, since it is older.
    fn adopt_newer(&mut self) -> Result<()> {
        self.found.extend(owner::older_than(&*self.old, &self.catalog)?);
        for one in owner::unnamed(&*self.old, &self.catalog)? {
            let Unnamed::Newer(entry) = one else { continue };
            // One of the same name was cleared, or dropped.
            self.catalog.keyspaces.retain(|known| known.name != entry.name || known.id > entry.id);
            self.catalog.next_keyspace = self.catalog.next_keyspace.max(entry.id + 1);
            if !self.catalog.keyspaces.iter().any(|known| known.name == entry.name) {
                self.catalog.keyspaces.push(*entry);
            }
        }
        self.catalog.keyspaces.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(())
    }

    fn make(&mut self, new: &Arc<dyn Device>, options: Options) -> Result<()> {
        new.create_dir(KEYSPACES_DIR)?;
        new.create_dir(JOURNAL_DIR)?;
        for entry in self.catalog.keyspaces.clone() {
            let outcome = self.take_files(&entry, new)?;
            let (name, engine, lost) = (entry.name, entry.options.engine, Vec::new());
            self.found.keyspaces.push(SalvagedKeyspace { name, engine, outcome, lost });
        }
        new.sync_dir(KEYSPACES_DIR)?;
        self.check_journal()?;
        let keyspaces = self.entries(|outcome| outcome == SalvageOutcome::Copied);
        begin_journal(new, &options, self.catalog.journal_id(), self.newest)?;
        Catalog { keyspaces, newest: self.newest, ..self.catalog.clone() }.store(&**new)?;
        // Keyspaces keep the names of their operators, and nothing is merged here.
        let options = Options { merge_operators: MergeOperators::elsewhere(), ..options };
        let db = Db::open_on(Arc::clone(new), UNFINISHED, options)?;
        let filled = self.fill(&db).and_then(|()| db.flush());
        filled.and(db.close())
    }

    /// Returns the keyspaces of the old database whose outcome `is_wanted` accepts.
    fn entries(&self, is_wanted: impl Fn(SalvageOutcome) -> bool) -> Vec<Entry> {
        let pairs = self.catalog.keyspaces.iter().zip(&self.found.keyspaces);
        pairs.filter(|(_, one)| is_wanted(one.outcome)).map(|(entry, _)| entry.clone()).collect()
    }

    /// Copies a keyspace's files if they are whole.
    fn take_files(&mut self, entry: &Entry, new: &Arc<dyn Device>) -> Result<SalvageOutcome> {
        if let Err(error) = catalog::check_present(&*self.old, self.catalog.id, entry) {
            let damage = error.corruption().cloned();
            self.found.extend([damage.ok_or(error)?]);
            return Ok(match catalog::has_files(&*self.old, entry)? {
                true => SalvageOutcome::Rewritten { writes: 0, may_be_outdated: false },
                false => SalvageOutcome::LeftOut,
            });
        }
        let files = check::check_files(&self.old, entry)?;
        self.newest = self.newest.max(files.newest);
        if !files.damage.is_empty() {
            self.damaged.insert(entry.id, files);
            return Ok(SalvageOutcome::Rewritten { writes: 0, may_be_outdated: false });
        }
        self.persisted.insert(entry.id, files.persisted);
        self.newest_of.insert(entry.id, files.newest);
        let dir = entry.dir();
        new.create_dir(&dir)?;
        let copied = copy_dir(&*self.old.subdevice(&dir)?, &*new.subdevice(&dir)?, "");
        copied.map_err(|error| error.in_dir(&dir))?;
        new.sync_dir(&catalog::keyspace_dir(&entry.name))?;
        Ok(SalvageOutcome::Copied)
    }

    /// Writes the keyspaces that were not copied, and the journal's records.
    fn fill(&mut self, db: &Db) -> Result<()> {
        let mut keyspaces = BTreeMap::new();
        for entry in self.entries(|outcome| outcome == SalvageOutcome::Copied) {
            keyspaces.insert(entry.id, db.existing_keyspace(&entry.name)?);
        }
        for entry in self.entries(|outcome| matches!(outcome, SalvageOutcome::Rewritten { .. })) {
            let keyspace = db.keyspace(&entry.name, entry.options)?;
            let (outcome, lost) = self.rewrite(&entry, &keyspace)?;
            let mut found = self.found.keyspaces.iter_mut();
            let found = found.find(|one| one.name == entry.name).expect("it is one of them");
            (found.outcome, found.lost) = (outcome, lost);
            keyspaces.insert(entry.id, keyspace);
        }
        self.replay(&keyspaces)
    }

    fn rewrite(
        &mut self,
        entry: &Entry,
        keyspace: &Keyspace,
    ) -> Result<(SalvageOutcome, Vec<Lost>)> {
        let (dir, mut writes, mut failure) = (entry.dir(), 0, None);
        let salvaged = salvage_engine(&self.old.subdevice(&dir)?, entry, &mut |op| {
            match write(keyspace, &op) {
                Ok(()) => writes += 1,
                Err(error) => {
                    failure = Some(error);
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        });
        let salvaged = salvaged.map_err(|error| error.in_dir(&dir))?;
        if let Some(error) = failure {
            return Err(error);
        }
        self.persisted.insert(entry.id, salvaged.persisted);
        if salvaged.lost.is_empty()
            && let Some(files) = self.damaged.remove(&entry.id)
        {
            // Only data about the pairs is damaged, and no pair.
            self.found.extend(files.damage);
            self.found.further_damage += files.further_damage;
        }
        let in_keyspace = |one: Lost| Lost { damage: one.damage.in_dir(&dir), ..one };
        let lost: Vec<Lost> = salvaged.lost.into_iter().map(in_keyspace).collect();
        for (place, one) in lost.iter().enumerate() {
            // One damaged block may appear in several ranges of lost keys.
            if !lost[..place].iter().any(|before| before.damage == one.damage) {
                self.found.extend([one.damage.clone()]);
            }
        }
        self.found.further_damage += salvaged.further_lost;
        Ok((SalvageOutcome::Rewritten { writes, may_be_outdated: salvaged.may_be_outdated }, lost))
    }

    /// Notes the damage of the journal, and the newest write that it has.
    fn check_journal(&mut self) -> Result<()> {
        self.found.extend(missing_journal(&*self.old, &self.catalog)?);
        if let Some(foreign) = foreign_journal(&*self.old, &self.catalog)? {
            self.found.extend([foreign]);
            self.has_journal = false;
        }
        if !self.has_journal || !self.old.exists(JOURNAL_DIR)? {
            return Ok(());
        }
        let found = journal::check(&*self.old, JOURNAL_DIR)?;
        let last = found.segments.iter().map(|segment| segment.last).max();
        self.newest = self.newest.max(last.unwrap_or(SeqNo::ZERO));
        if let Some(last) = LastRecord::of(&found) {
            let journaled = self.catalog.keyspaces.iter().filter(|entry| entry.options.journaled);
            let behind = journaled
                .filter_map(|entry| last.is_behind(entry, *self.newest_of.get(&entry.id)?));
            self.found.extend(behind.collect::<Vec<_>>());
        }
        self.found.extend(found.damage);
        let oldest = self.persisted.values().min().copied();
        self.found.extend(check::unknown_keyspaces(&*self.old, &self.catalog, oldest)?);
        Ok(())
    }

    /// Step 4.
    fn replay(&mut self, keyspaces: &BTreeMap<u32, Keyspace>) -> Result<()> {
        if !self.has_journal {
            return Ok(());
        }
        let journaled: BTreeMap<u32, (&Keyspace, SeqNo)> = keyspaces
            .iter()
            .filter(|(_, keyspace)| keyspace.options().journaled)
            .map(|(id, keyspace)| (*id, (keyspace, self.persisted[id])))
            .collect();
        let Some(oldest) = journaled.values().map(|(_, persisted)| *persisted).min() else {
            return Ok(());
        };
        let copied = self.entries(|outcome| outcome == SalvageOutcome::Copied);
        let copied = copied.iter().filter_map(|entry| journaled.get(&entry.id));
        let begun = copied.map(|(_, persisted)| *persisted).min();
        self.found.extend(check::missing_behind(&*self.old, begun)?);
        let mut records = 0;
        let mut apply = |seqno: SeqNo, payload: &[u8]| -> std::result::Result<(), ReplayError> {
            let mut is_new = false;
            for (id, op) in record::decode(payload).map_err(Error::from)? {
                let Some((keyspace, persisted)) = journaled.get(&id) else { continue };
                if seqno > *persisted {
                    write(keyspace, &op)?;
                    is_new = true;
                }
            }
            records += u64::from(is_new);
            Ok(())
        };
        if !self.old.exists(JOURNAL_DIR)? {
            return Ok(());
        }
        // How far a damaged keyspace was written may be unknown. It loses the records that were
        // trimmed.
        let begin = journal::begins_behind(&*self.old, JOURNAL_DIR);
        let after = oldest.max(begin.unwrap_or(SeqNo::ZERO));
        let read = journal::read(&*self.old, JOURNAL_DIR, after.next(), &mut apply);
        self.found.journal_records = records;
        match read {
            Ok(()) => Ok(()),
            // The check has reported it.
            Err(OpenError::Damaged(_)) => Ok(()),
            // It knows only of gaps between segments.
            Err(OpenError::Missing { file, what }) => {
                let damage = Corruption::new(what, 0).at(&file, 0);
                if !self.found.damage.contains(&damage) {
                    self.found.extend([damage]);
                }
                Ok(())
            }
            Err(other) => Err(other.into()),
        }
    }
}

/// Makes the journal, without which no journaled keyspace is opened. An empty record extends it to
/// `newest`, because the copied files have writes up to there.
fn begin_journal(new: &Arc<dyn Device>, options: &Options, id: u64, newest: SeqNo) -> Result<()> {
    let mut nothing = |_: SeqNo, _: &[u8]| Ok(());
    let (device, environment) = (Arc::clone(new), &options.environment);
    let opened = Journal::open(
        device,
        JOURNAL_DIR,
        journal_options(options, id, SeqNo::ZERO),
        environment,
        SeqNo::ZERO,
        &mut nothing,
    );
    let (journal, _) = opened?;
    if newest > SeqNo::ZERO {
        journal.append(|| newest, |_, _| ())?;
    }
    Ok(journal.close()?)
}

/// Reads the sound pairs of a keyspace's files by its engine.
fn salvage_engine(
    files: &Arc<dyn Device>,
    entry: &Entry,
    take: &mut SalvageSink<'_>,
) -> Result<Salvaged> {
    let salvaged = (entry.options.engine.driver().salvage)(files, take);
    // A file may be missing that is never looked for but when all is there.
    let mut nothing = Salvaged { may_be_outdated: true, ..Salvaged::default() };
    Ok(nothing.sound(salvaged, || None)?.unwrap_or(nothing))
}

/// Step 5.
fn move_up(new: &dyn Device) -> Result<()> {
    make_lock_file(new)?;
    for name in [KEYSPACES_DIR, JOURNAL_DIR, catalog::FILE] {
        // Everything that the catalog names is in place before the catalog.
        new.sync_dir("")?;
        new.rename(&format!("{UNFINISHED}/{name}"), name)?;
    }
    new.sync_dir(UNFINISHED)?;
    new.sync_dir("")?;
    Ok(new.remove_dir(UNFINISHED)?)
}

/// Copies all files and directories of `from` below `dir`, and syncs them.
fn copy_dir(from: &dyn Device, to: &dyn Device, dir: &str) -> Result<()> {
    for entry in from.list(dir)? {
        let name = if dir.is_empty() { entry.name } else { format!("{dir}/{}", entry.name) };
        if entry.is_dir {
            to.create_dir(&name)?;
            copy_dir(from, to, &name)?;
        } else {
            copy_file(from, to, &name)?;
        }
    }
    Ok(to.sync_dir(dir)?)
}

fn copy_file(from: &dyn Device, to: &dyn Device, name: &str) -> Result<()> {
    let (from, to) = (from.open(name, Mode::Read)?, to.open(name, Mode::CreateNew)?);
    let (len, mut at) = (from.len()?, 0);
    let mut bytes = vec![0; COPIED_PER_TURN];
    while at < len {
        let piece = &mut bytes[..(len - at).min(COPIED_PER_TURN as u64) as usize];
        from.read_at(at, piece)?;
        to.write_at(at, piece)?;
        at += piece.len() as u64;
    }
    Ok(to.sync(SyncKind::All)?)
}

/// Writes a step whose value is in its stored form.
fn write(keyspace: &Keyspace, op: &Op<'_>) -> Result<()> {
    let keyspace = keyspace.expiring().raw();
    match op {
        Op::Put { key, value } => keyspace.put(key, value),
        Op::Delete { key } => keyspace.delete(key),
        Op::DeleteRange { start, end } => keyspace.delete_range(&KeyRange {
            start: Bound::Included(start.to_vec()),
            end: end.map_or(Bound::Unbounded, |end| Bound::Excluded(end.to_vec())),
        }),
    }
    .map(drop)
}
