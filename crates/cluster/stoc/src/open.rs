//! Opening: the catalogue says who the StoC is, and the files say what it has.
//!
//! 1. The catalogue is read, and must be of this StoC and of its last start. (S5)
//! 2. The incarnation of this start is made durable.
//! 3. All files are opened. Logs are read up to their ends, and tables' footers are verified. Files
//!    that were being made are removed.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use codec::Corruption;
use device::{Device, Mode};
use rand::RngExt as _;
use sync::{Mutex, RwLock};

use crate::catalogue::{Catalogue, Edit, Identity};
use crate::error::{Error, Result};
use crate::format::{HEAD_BYTES, Head};
use crate::log_file::LogFile;
use crate::name::{FILES_DIR, FileName, PART_SUFFIX};
use crate::range::StoredFile;
use crate::store::{Options, Stoc};
use crate::table_file::TableFile;

impl Stoc {
    /// Opens the StoC of a directory, or makes one. Reads all logs, and the footers of tables.
    /// Files that were not finished are removed. The caller keeps other processes from the
    /// directory.
    ///
    /// # Errors
    /// [`Error::OtherOwner`], [`Error::OldCopy`]; damage of the catalogue; the device's. A damaged
    /// file is no error: it is listed, and never served.
    pub fn open(device: Arc<dyn Device>, options: &Options) -> Result<Self> {
        let mut catalogue = Catalogue::open(&device)?;
        let identity = identity_of(&catalogue, options)?;
        device.create_dir(FILES_DIR)?;
        device.sync_dir("")?;
        // A process that was killed may have made the directory of a range, and not synced its
        // name.
        device.sync_dir(FILES_DIR)?;
        catalogue.commit(Edit { identity: Some(identity), ..Edit::default() })?;
        let stoc = Self {
            device,
            identity,
            limits: options.limits,
            ranges: RwLock::new(BTreeMap::new()),
            catalogue: Mutex::new(catalogue),
            bytes: AtomicU64::new(0),
            files: AtomicU64::new(0),
            memory_bytes: AtomicU64::new(0),
            stopped: OnceLock::new(),
        };
        stoc.find_files()?;
        Ok(stoc)
    }

    /// Opens the files that are there.
    fn find_files(&self) -> Result<()> {
        for dir in self.device.list(FILES_DIR)? {
            let Some(range) = FileName::range_of_dir(&dir.name).filter(|_| dir.is_dir) else {
                continue;
            };
            for entry in self.device.list(&FileName::dir_of(range))? {
                if entry.name.ends_with(PART_SUFFIX) {
                    self.device.remove(&format!("{}/{}", FileName::dir_of(range), entry.name))?;
                }
                let Some(name) = FileName::parse(range, &entry.name) else { continue };
                let file = self.open_file(&name)?;
                self.bytes.fetch_add(file.bytes(), Relaxed);
                self.files.fetch_add(1, Relaxed);
                let state = self.range(range);
                state.lock().files.insert(name, file);
            }
        }
        let promises = self.catalogue.lock().all.promises.clone();
        for (range, promise) in promises {
            self.range(range).lock().promise = promise;
        }
        Ok(())
    }

    /// Opens a file.
    fn open_file(&self, name: &FileName) -> Result<StoredFile> {
        let head = read_head(&*self.device, self.identity, name);
        let opened = head.and_then(|head| match name.kind.is_log() {
            true => {
                let mut log = LogFile::open(&*self.device, head)?;
                if let Some(length) = self.catalogue.lock().all.seals.get(name) {
                    log.seal(*length);
                }
                Ok(StoredFile::Log(log))
            }
            false => Ok(StoredFile::Table(Arc::new(TableFile::open(&self.device, head)?))),
        });
        match opened {
            Err(Error::Damaged(damage)) => {
                let damage = damage.judge().map_err(Error::Newer)?;
                let bytes = self.device.open(&name.path(), Mode::Read)?.len()?;
                Ok(StoredFile::Damaged(damage, bytes))
            }
            opened => opened,
        }
    }
}

/// Reads the first block of a file, which must name the file and the StoC.
///
/// # Errors
/// Damage; the device's.
pub(crate) fn read_head(device: &dyn Device, identity: Identity, name: &FileName) -> Result<Head> {
    let path = name.path();
    let file = device.open(&path, Mode::Read)?;
    let damaged = |what: &str| Corruption::new(what, 0).at(&path, 0);
    if file.len()? < HEAD_BYTES as u64 {
        return Err(damaged("a file is shorter than its first block").into());
    }
    let mut bytes = vec![0; HEAD_BYTES];
    file.read_at(0, &mut bytes)?;
    let head = Head::decode(&bytes).map_err(|damage| damage.at(&path, 0))?;
    let Identity { cluster, node, cookie, .. } = identity;
    if head.name != *name || (head.cluster, head.node, head.cookie) != (cluster, node, cookie) {
        return Err(damaged("a file belongs to another name or another StoC").into());
    }
    Ok(head)
}

/// Returns the identity of this start, if the directory is of this StoC and of its last start.
fn identity_of(catalogue: &Catalogue, options: &Options) -> Result<Identity> {
    let Options { cluster, node, incarnation, last_incarnation, environment, .. } = options;
    let found = catalogue.all.identity;
    let is_new = found == Identity::default();
    if !is_new && (found.cluster, found.node) != (*cluster, *node) {
        let (found_cluster, found_node) = (found.cluster, found.node);
        return Err(Error::OtherOwner { found_cluster, found_node });
    }
    let last = last_incarnation.unwrap_or(0);
    // An empty directory is another StoC, by its new cookie.
    if !is_new && found.incarnation < last {
        return Err(Error::OldCopy { stored: found.incarnation, last });
    }
    if found.incarnation >= *incarnation {
        return Err(Error::OldStart { given: *incarnation, stored: found.incarnation });
    }
    let cookie = match is_new {
        true => environment.random("stoc").random(),
        false => found.cookie,
    };
    Ok(Identity { cluster: *cluster, node: *node, cookie, incarnation: *incarnation })
}
