//! A cluster in one process and one directory.
//!
//! | entry | content |
//! |---|---|
//! | `CLUSTER` | the marker: this directory is a cluster |
//! | `LOCK` | held by the process that has the cluster open |
//! | `coordinator/` | the database of the coordinator |
//! | `stoc-1/` to `stoc-3/` | the StoCs |
//!
//! The process is one failure domain. Its StoCs are three: the cluster keeps all acknowledged data
//! when one of their directories is lost or damaged.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use codec::HeaderError;
use coordinator::{Coordinator, LocalStore, Owner};
use device::{Device, File};
use environment::{Environment, JoinHandle};
use logc::Closing;
use stoc::{Limits, RangeId, Stoc};
use sync::{Condvar, Mutex};
use thermocline::{Db, SharedMemory, SharedParts};

use crate::error::{Error, Result};
use crate::local_stocs::LocalStocs;
use crate::ltc::{Ltc, RangeOptions};
use crate::marker::{self, Found};
use crate::memory;

/// The lock file.
pub(crate) const LOCK: &str = "LOCK";
/// The StoCs.
pub(crate) const STOCS: u32 = 3;
/// The directory of the coordinator's database.
pub(crate) const COORDINATOR_DIR: &str = "coordinator";
/// The LTC of the cluster.
const LTC: u32 = 1;
/// Memory of the coordinator's database.
const COORDINATOR_BYTES: u64 = 16 << 20;
/// Time between two repairs.
const REPAIR_INTERVAL: Duration = Duration::from_secs(10);

/// How a cluster is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// Memory of all ranges in bytes: 4 MiB for each at least. The first range begins with three
    /// quarters of it. A later range begins with three quarters of the rest. Then memory moves to
    /// the ranges that save most with it.
    pub memory_bytes: u64,
    /// How the files of ranges are stored.
    pub ranges: RangeOptions,
    /// How the database of a range is opened, but for its memory and its shared parts.
    pub database: thermocline::Options,
    /// How files are read and written.
    pub device: device::Options,
    /// Ends the cluster without a close, also while it is opened: nothing is written any more.
    pub closing: Closing,
}

/// A cluster in one process and one directory: three StoCs, a coordinator and an LTC. Each keyspace
/// is one range.
pub struct LocalCluster {
    ltc: Arc<Ltc>,
    stocs: Arc<LocalStocs>,
    coordinator: Arc<Coordinator>,
    coordinator_db: Db,
    shared: SharedParts,
    options: Options,
    /// The keyspaces that are open, with their databases. Held while one is opened.
    keyspaces: Mutex<Vec<(String, Db)>>,
    warnings: Vec<String>,
    upkeep: Mutex<Option<JoinHandle<()>>>,
    stopping: Arc<Stopping>,
    is_repaired: Arc<AtomicBool>,
    /// Released last.
    _lock: Arc<dyn File>,
}

/// Ends the upkeep.
#[derive(Debug, Default)]
struct Stopping {
    is_stopped: Mutex<bool>,
    changed: Condvar,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            memory_bytes: 1 << 30,
            ranges: RangeOptions::default(),
            database: thermocline::Options::default(),
            device: device::Options::default(),
            closing: Closing::default(),
        }
    }
}

impl Options {
    /// Returns the options of a cluster for one keyspace. The keyspace and the database of the
    /// coordinator have `bytes` of memory together, or the least that they need.
    pub fn of_one_keyspace(bytes: u64) -> Self {
        let least = thermocline::Options::MEMORY_BYTES_MIN;
        let memory_bytes = bytes.saturating_sub(COORDINATOR_BYTES).max(least);
        Self { memory_bytes, ..Self::default() }
    }
}

impl LocalCluster {
    /// Opens the cluster in a directory, and makes one if the directory is empty or absent.
    ///
    /// # Errors
    /// [`Error::NotACluster`], [`Error::InUse`], [`Error::Newer`], [`Error::Damaged`];
    /// [`Error::TooFewStocs`]; those of the coordinator and of ranges.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Self> {
        let path = path.as_ref();
        let device = device::open(path, options.device.clone())?;
        Self::open_on(device, &path.display().to_string(), options)
    }

    /// Opens the cluster on any device. `place` is its name in messages.
    ///
    /// # Errors
    /// The same.
    pub fn open_on(device: Arc<dyn Device>, place: &str, options: Options) -> Result<Self> {
        refuse_others(marker::look(&*device)?, place)?;
        let lock = device.lock(LOCK).map_err(|error| match error {
            device::Error::Locked { .. } => Error::InUse { place: place.to_owned() },
            other => other.into(),
        })?;
        // Another process may have made the cluster until now.
        if refuse_others(marker::look(&*device)?, place)? == Found::Nothing {
            marker::make(&*device)?;
        } else if !has_coordinator(&*device)? {
            // A cluster whose making a crash interrupted has no StoC yet.
            let has_stoc = (1..=STOCS).map(|node| device.exists(&stoc_dir(node)));
            if has_stoc.collect::<device::Result<Vec<_>>>()?.contains(&true) {
                return Err(Error::NoCoordinator { place: place.to_owned() });
            }
        }
        Self::open_locked(&device, lock, options)
    }

    fn open_locked(
        device: &Arc<dyn Device>,
        lock: Arc<dyn File>,
        options: Options,
    ) -> Result<Self> {
        let environment = options.database.environment.clone();
        let part = |name: &str| -> Result<Arc<dyn Device>> {
            device.create_dir(name)?;
            device.sync_dir("")?;
            Ok(device.subdevice(name)?)
        };
        let of_coordinator = thermocline::Options {
            memory_bytes: COORDINATOR_BYTES,
            background_threads: 1,
            environment: environment.clone(),
            ..thermocline::Options::default()
        };
        let coordinator_db = Db::open_on(part(COORDINATOR_DIR)?, COORDINATOR_DIR, of_coordinator)?;
        let store = Arc::new(LocalStore::open(coordinator_db.clone())?);
        let coordinator = Arc::new(Coordinator::open(store, &environment)?);
        check_stocs(device, &coordinator, options.ranges.quorum)?;
        let (mut stocs, mut warnings) = (Vec::new(), Vec::new());
        let mut cause = String::new();
        for node in 1..=STOCS {
            let opened = part(&stoc_dir(node)).map_err(|error| error.to_string());
            let opened = opened.and_then(|part| open_stoc(part, node, &coordinator, &environment));
            match opened {
                Ok((stoc, is_other)) => {
                    if is_other {
                        warnings.push(format!(
                            "StoC {node} has lost its files: the others have them, and copy them"
                        ));
                    }
                    stocs.push(stoc);
                }
                Err(error) => {
                    cause = format!("StoC {node}: {error}");
                    warnings.push(format!(
                        "StoC {node} cannot be opened: {error}. The others have its files; if its \
                         directory is removed, the next start fills it again"
                    ));
                }
            }
        }
        let (opened, all, needed) = (stocs.len(), STOCS as usize, options.ranges.quorum);
        if opened < needed {
            let _ = coordinator_db.close();
            return Err(Error::TooFewStocs { opened, all, needed, cause });
        }
        let closing = options.closing.clone();
        let stocs = LocalStocs::new(stocs, &environment, needed, closing.clone())?;
        let stocs = Arc::new(stocs);
        let owner = Owner { ltc: LTC, start: coordinator.next_client()? };
        let ranges = options.ranges.clone();
        let ltc = Ltc::new(
            Arc::clone(&coordinator),
            Arc::clone(&stocs) as _,
            owner,
            ranges,
            environment.clone(),
            closing,
        );
        let cluster = Self {
            ltc: Arc::new(ltc),
            stocs,
            coordinator,
            coordinator_db,
            shared: SharedParts {
                memory: Some(SharedMemory::new(options.memory_bytes)),
                ..SharedParts::default()
            },
            options,
            keyspaces: Mutex::default(),
            warnings,
            upkeep: Mutex::default(),
            stopping: Arc::default(),
            is_repaired: Arc::default(),
            _lock: lock,
        };
        cluster.open_keyspaces()?;
        cluster.begin_upkeep(&environment)?;
        Ok(cluster)
    }

    /// Opens the keyspaces that are there, the oldest one first.
    fn open_keyspaces(&self) -> Result<()> {
        let keyspaces = self.coordinator.keyspaces()?.into_iter();
        let mut keyspaces: Vec<(Option<RangeId>, String)> =
            keyspaces.map(|keyspace| (keyspace.ranges.first().copied(), keyspace.name)).collect();
        keyspaces.sort();
        for (range, name) in keyspaces {
            let Some(range) = range else { continue };
            let mut open = self.keyspaces.lock();
            self.check_room(open.len())?;
            let db = self.open_range(range, &name)?;
            open.push((name, db));
        }
        Ok(())
    }

    /// Refuses another range if the memory is too little for it.
    fn check_room(&self, open: usize) -> Result<()> {
        let memory_bytes = self.options.memory_bytes;
        let has_room = memory::has_room(memory_bytes, open);
        has_room.then_some(()).ok_or(Error::NoMemory { memory_bytes, open })
    }

    fn open_range(&self, range: RangeId, name: &str) -> Result<Db> {
        let telemetry = self.shared.telemetry.with_labels(&[("range", name)]);
        let options = thermocline::Options {
            memory_bytes: self.options.memory_bytes.max(thermocline::Options::MEMORY_BYTES_MIN),
            shared: Some(SharedParts { telemetry, ..self.shared.clone() }),
            ..self.options.database.clone()
        };
        self.ltc.open(range, options)
    }

    /// Returns the number of copies of tables that reads have found damaged, or missing.
    pub fn damaged_copies(&self) -> usize {
        self.ltc.damaged_copies()
    }

    /// Returns whether tables may have too few copies since the start: no repair has ended without
    /// a failure yet.
    pub fn is_repairing(&self) -> bool {
        !self.is_repaired.load(SeqCst)
    }

    fn begin_upkeep(&self, environment: &Environment) -> Result<()> {
        let (ltc, stopping) = (Arc::clone(&self.ltc), Arc::clone(&self.stopping));
        let is_repaired = Arc::clone(&self.is_repaired);
        let mut is_first = true;
        let work = move || {
            loop {
                if std::mem::take(&mut is_first) {
                    // Logs may have lost a StoC since the last flush.
                    ltc.databases().iter().for_each(|(_, db)| drop(db.flush()));
                }
                // A table without a copy is reported by the reads that need it.
                is_repaired.fetch_or(ltc.repair().is_ok(), SeqCst);
                if stopping.is_stopped_within(REPAIR_INTERVAL) {
                    return;
                }
            }
        };
        let thread = environment.spawn("cluster upkeep", work);
        let thread = thread.map_err(|error| Error::Thread(error.to_string()))?;
        *self.upkeep.lock() = Some(thread);
        Ok(())
    }

    /// Returns the database of a keyspace, which is made if there is none.
    ///
    /// # Errors
    /// [`Error::NoMemory`]; those of the coordinator and of ranges.
    pub fn keyspace(&self, name: &str) -> Result<Db> {
        let mut open = self.keyspaces.lock();
        if let Some((_, db)) = open.iter().find(|(known, _)| known == name) {
            return Ok(db.clone());
        }
        self.check_room(open.len())?;
        let made = self.coordinator.create_keyspace(name, b"", &[])?;
        let Some(range) = made.ranges.first() else {
            return Err(coordinator::Error::NoKeyspace(name.to_owned()).into());
        };
        let db = self.open_range(*range, name)?;
        open.push((name.to_owned(), db.clone()));
        Ok(db)
    }

    /// Returns the keyspaces that are open, with their databases.
    pub fn keyspaces(&self) -> Vec<(String, Db)> {
        self.keyspaces.lock().clone()
    }

    /// Returns the coordinator.
    pub fn coordinator(&self) -> &Arc<Coordinator> {
        &self.coordinator
    }

    /// Returns the parts that the databases of all ranges share.
    pub fn shared(&self) -> &SharedParts {
        &self.shared
    }

    /// Returns what the opening has found wrong, in sentences for the user. The cluster works
    /// nevertheless.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Copies tables of which too few StoCs have a copy. The cluster does so every ten seconds.
    ///
    /// # Errors
    /// Those of [`Ltc::repair`].
    pub fn repair(&self) -> Result<usize> {
        self.ltc.repair()
    }

    /// Closes all ranges and the coordinator. (R2)
    ///
    /// # Errors
    /// Those of the databases. All are closed nevertheless.
    pub fn close(&self) -> Result<()> {
        self.stopping.stop();
        // It closes the logs, which ends a repair.
        let closed = self.ltc.close();
        self.end_threads();
        self.keyspaces.lock().clear();
        self.coordinator_db.close()?;
        closed
    }

    /// Returns what has stopped StoCs, by their numbers.
    pub fn stopped_stocs(&self) -> Vec<(u32, String)> {
        self.stocs.stopped()
    }

    /// Returns the handle that ends the cluster without a close.
    pub fn closing(&self) -> &Closing {
        &self.options.closing
    }

    fn end_threads(&self) {
        self.stopping.stop();
        self.stocs.stop();
        if let Some(thread) = self.upkeep.lock().take() {
            let _ = thread.join();
        }
    }
}

/// Returns the directory of a StoC.
pub(crate) fn stoc_dir(node: u32) -> String {
    format!("stoc-{node}")
}

/// Refuses a directory that has other things than a cluster of this release.
///
/// # Errors
/// [`Error::NotACluster`], [`Error::Newer`], [`Error::Damaged`].
pub(crate) fn refuse_others(found: Found, place: &str) -> Result<Found> {
    let place = place.to_owned();
    match found {
        Found::Nothing | Found::Cluster => Ok(found),
        Found::Other(found) => Err(Error::NotACluster { place, found }),
        Found::Refused(cause @ HeaderError::Version { .. }) => Err(Error::Newer { place, cause }),
        Found::Refused(cause) => Err(Error::Damaged { place, cause }),
    }
}

/// Returns whether the coordinator's database is there.
fn has_coordinator(device: &dyn Device) -> Result<bool> {
    let has_any = device.exists(COORDINATOR_DIR)? && !device.list(COORDINATOR_DIR)?.is_empty();
    Ok(has_any)
}

/// Refuses a cluster with too few of its StoCs, before anything is changed: their directories may
/// come back.
///
/// # Errors
/// [`Error::TooFewStocs`].
fn check_stocs(device: &Arc<dyn Device>, coordinator: &Coordinator, needed: usize) -> Result<()> {
    let known = coordinator.stocs()?;
    let known = known.iter().filter_map(|(node, record)| Some((*node, record.cookie?)));
    let (mut lost, mut cause) = (0, String::new());
    for (node, cookie) in known {
        let found = match device.exists(&stoc_dir(node))? {
            false => Ok(None),
            true => device
                .subdevice(&stoc_dir(node))
                .map_err(|error| error.to_string())
                .and_then(|dir| stoc::identity(&*dir).map_err(|error| error.to_string())),
        };
        cause = match found {
            Ok(Some(identity)) if identity.cookie == cookie => continue,
            Ok(Some(_)) => format!("stoc-{node} belongs to another StoC"),
            Ok(None) => format!("stoc-{node} is missing or empty"),
            Err(error) => format!("StoC {node}: {error}"),
        };
        lost += 1;
    }
    let all = STOCS as usize;
    match all - lost {
        opened if opened < needed => Err(Error::TooFewStocs { opened, all, needed, cause }),
        _ => Ok(()),
    }
}

/// Opens a StoC. Returns whether it has other storage than at its last start.
fn open_stoc(
    device: Arc<dyn Device>,
    node: u32,
    coordinator: &Coordinator,
    environment: &Environment,
) -> std::result::Result<(Arc<Stoc>, bool), String> {
    let start = coordinator.begin_stoc(node).map_err(|error| error.to_string())?;
    let options = stoc::Options {
        cluster: coordinator.cluster(),
        node,
        incarnation: start.incarnation,
        last_incarnation: start.last_incarnation,
        limits: Limits::default(),
        environment: environment.clone(),
    };
    let stoc = Stoc::open(device, &options).map_err(|error| error.to_string())?;
    let is_other = coordinator.complete_stoc(stoc.identity(), None, None);
    Ok((Arc::new(stoc), is_other.map_err(|error| error.to_string())?))
}

impl Stopping {
    fn stop(&self) {
        *self.is_stopped.lock() = true;
        self.changed.notify_all();
    }

    /// Returns whether it was stopped before `interval` was over.
    fn is_stopped_within(&self, interval: Duration) -> bool {
        let mut is_stopped = self.is_stopped.lock();
        if !*is_stopped {
            self.changed.wait_for(&mut is_stopped, interval);
        }
        *is_stopped
    }
}

/// The threads of the upkeep and of ranges end. Nothing is written any more.
impl Drop for LocalCluster {
    fn drop(&mut self) {
        self.options.closing.close();
        self.end_threads();
    }
}

impl fmt::Debug for LocalCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalCluster").field("ltc", &self.ltc).finish_non_exhaustive()
    }
}
