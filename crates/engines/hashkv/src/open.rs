//! Opening: prove what is on the device, examine the last segments, begin.
//!
//! 1. The segment table is read, and the headers of the volumes that it names. If the store is new,
//!    its geometry is committed.
//! 2. The index is opened, with the value store as its barrier.
//! 3. Segments that may have records which the index does not have are examined (`examine.rs`).
//! 4. The host replays its journal above `persisted`. New records go to new segments. Before the
//!    first of them is written, places that no segment has are returned to the device
//!    ([`Values::reserve_number`]). So an opening that finds no void record writes nothing.

use std::collections::BTreeSet;
use std::sync::Arc;

use device::Device;
use edits::Chain;
use engine::{Barrier, DeviceReads, Error, Health, Host, Result};
use rand::RngExt as _;
use reads::ReadPool;

use crate::INDEX_DIR;
use crate::admission::Admission;
use crate::contract::Store;
use crate::driver::CAPABILITIES;
use crate::idle::Idle;
use crate::key_hash::Secret;
use crate::key_index::KeyIndex;
use crate::memory_parts::Shares;
use crate::memory_split::{group_bits, segment_bytes};
use crate::options::Options;
use crate::segment_table::{All, Edit, Geometry, Range};
use crate::store::Shared;
use crate::value_cache::ValueCache;
use crate::values::Values;
use crate::values::bound::SEGMENTS;
use crate::values::table::Table;
use crate::volumes::{self, Volumes};

/// The group of its background tasks.
const GROUP: &str = "hashkv";

impl Store {
    /// Opens the store in the host's directory, and makes it if there is none. Reads the segments
    /// that were not sealed, and the index as [`lsm::Store::open`] does.
    ///
    /// # Errors
    /// [`Error::BadOption`]. [`Error::Corruption`] if anything that was read is not what was
    /// written; no file is changed then, unless the damage is in the index.
    pub fn open(host: Host, options: Options) -> Result<Self> {
        Self::open_with(host, options, lsm::Options::default())
    }

    /// Opens the store with an index that has these options. Its routing is always
    /// [`lsm::Routing::One`]: each flush of the index empties all write buffers, so there are few
    /// of them.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open_with(host: Host, options: Options, index: lsm::Options) -> Result<Self> {
        options.check()?;
        let health: Arc<Health> = Arc::default();
        let values = Arc::new(open_values(&host, &options, &health)?);
        let memory = Shares::of(&host.memory, &options, values.segment_count());
        let index = open_index(&host, index, &values, &memory)?;
        values.set_index(&index);
        let shared = Arc::new(Shared {
            index,
            values,
            cached: ValueCache::new(&host.memory),
            options,
            admission: Admission::new(&host.environment),
            source: Arc::new(DeviceReads(Arc::clone(&host.device))),
            reads: ReadPool::new(&host.memory),
            memory,
            idle: Idle::default(),
            group: host.tasks(GROUP, &health),
            health,
            host,
        });
        if let Err(error) = shared.examine() {
            // The store may be opened again immediately.
            shared.abandon();
            return Err(error);
        }
        shared.fit_cache();
        shared.set_pace();
        shared.begin_looks()?;
        Ok(Self { shared })
    }
}

/// Opens the value store.
fn open_values(host: &Host, options: &Options, health: &Arc<Health>) -> Result<Values> {
    let device = &host.device;
    let found = edits::read::<Edit>(&**device)?;
    let mut all = All::default();
    if let Some((_, contents)) = &found {
        edits::Edit::apply(contents.edit.clone(), &mut all).map_err(of_table)?;
        let numbers: BTreeSet<u32> = all.segments.values().map(|it| it.place.volume).collect();
        volumes::check_headers(&**device, numbers.into_iter())?;
        check_index(&**device, &all)?;
    }
    // A crash may have left a chain without a geometry, and nothing else.
    let is_new = all.geometry.is_none();
    let geometry = all.geometry.unwrap_or_else(|| new_geometry(host, options));
    check_bound(options, &geometry)?;
    let volumes = Volumes::new(Arc::clone(device), geometry.segment_bytes);
    all.segments.values().try_for_each(|segment| volumes.claim(segment.place))?;
    let (chain, _) = Chain::begin(device, found, options.table_bytes)?;
    let mut table = Table::new(chain, all);
    if is_new {
        table.begin(geometry, Range::all(group_bits(host.memory.limit(), options)))?;
    }
    Ok(Values::new(table, geometry, volumes, host, health))
}

/// Checks that the bound has room for segments of this geometry.
///
/// # Errors
/// [`Error::BadOption`].
fn check_bound(options: &Options, geometry: &Geometry) -> Result<()> {
    let least = SEGMENTS * u64::from(geometry.segment_bytes);
    match options.disk_bytes_max {
        Some(most) if most < least => Err(Error::BadOption {
            engine: CAPABILITIES.name,
            option: "disk_bytes_max",
            allowed: "at least 16 segments of the store",
        }),
        _ => Ok(()),
    }
}

fn of_table(damage: codec::Corruption) -> Error {
    damage.at(edits::SUPERBLOCK, 0).into()
}

/// Returns the name of the index's superblock, in the directory of the store.
fn superblock_of_index() -> String {
    format!("{INDEX_DIR}/{}", edits::SUPERBLOCK)
}

/// Returns whether the index has its superblock.
///
/// # Errors
/// The device's.
pub(crate) fn has_index(device: &dyn Device) -> Result<bool> {
    Ok(device.exists(&superblock_of_index())?)
}

/// Checks that there is an index if the segment table has a segment, or has had one that a job has
/// removed. A new store has its segment table before its index.
///
/// # Errors
/// [`Error::Corruption`] if there is none; the device's.
pub(crate) fn check_index(device: &dyn Device, all: &All) -> Result<()> {
    let may_be_new = all.segments.is_empty() && !all.has_index;
    if may_be_new || has_index(device)? {
        return Ok(());
    }
    let what = "the index of the store is missing";
    Err(codec::Corruption::new(what, 0).at(&superblock_of_index(), 0).into())
}

fn new_geometry(host: &Host, options: &Options) -> Geometry {
    let mut random = host.environment.random("hashkv");
    let secret = Secret([random.random(), random.random()]);
    let segment_bytes = segment_bytes(host.memory.limit(), options);
    Geometry { store: random.random(), secret, segment_bytes }
}

/// Opens the index, in its directory.
fn open_index(
    host: &Host,
    options: lsm::Options,
    values: &Arc<Values>,
    memory: &Shares,
) -> Result<Arc<dyn KeyIndex>> {
    let inner = Host {
        device: host.device.subdevice(INDEX_DIR)?,
        barrier: Arc::clone(values) as Arc<dyn Barrier>,
        memory: Arc::clone(&memory.index),
        ..host.clone()
    };
    let options = lsm::Options { routing: lsm::Routing::One, ..options };
    let is_new = !has_index(&*host.device)?;
    let index = lsm::Store::open(inner, options).map_err(|error| error.in_dir(INDEX_DIR))?;
    if is_new {
        // A store is durable once its opening has returned.
        host.device.sync_dir("")?;
    }
    Ok(Arc::new(index))
}
