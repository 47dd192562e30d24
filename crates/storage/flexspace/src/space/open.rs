//! Opening a space: the content of a device, brought into a life of its own.
//!
//! 1. Read the tree and replay the logs: nothing is changed (`recover.rs`).
//! 2. Begin a life (`life.rs`), immediately or with the first change.
//!
//! A space is created by the same steps, from nothing. An opening without room leaves nothing
//! behind.

use std::sync::Arc;

use device::{Device, File, Mode};
use engine::Superblock;
use sync::{Mutex, RwLock};

use super::ballast::{Ballast, Measures};
use super::checkpoint::Checkpointer;
use super::checkpoints::Checkpoints;
use super::collect::Tracking;
use super::directory::Directory;
use super::health::Health;
use super::life_log::LifeLog;
use super::pins::Pins;
use super::puncher::Puncher;
use super::recover::{self, Committed, Recovered, SUPERBLOCK, SUPERBLOCK_KIND};
use super::{Error, FlexSpace, Options, Shared, State, Writer};
use crate::data::{DATA, DataFile, Geometry, SegmentWrites, Segments};
use crate::log::{self, Record};
use crate::nodes::{NodeFile, TREE};

/// The lock's name.
pub(super) const LOCK: &str = "lock";

const LOG_GROWTH_BYTES_MAX: u64 = 1 << 20;

impl FlexSpace {
    /// Makes a space in the root of `device`, where none is. Durable on return. Takes room for two
    /// segments and some more, which it holds for the moment when the device is full.
    ///
    /// # Errors
    /// [`device::Error::AlreadyExists`] if there is one, [`Error::Options`], [`Error::Device`].
    pub fn create(device: Arc<dyn Device>, options: Options) -> Result<Self, Error> {
        let (geometry, _) = options.geometry()?;
        let lock = device.lock(LOCK)?;
        if device.exists(SUPERBLOCK)? {
            return Err(device::Error::AlreadyExists { name: SUPERBLOCK.to_owned() }.into());
        }
        let recovered = of_nothing(&*device, geometry)?;
        let ballast = Ballast::found(device.clone(), measures(&options, &recovered))?;
        ballast.hold(ballast.wanted_bytes(0, 0))?;
        let (segment_bytes, slot_bytes) = (options.segment_bytes, recovered.slot_bytes);
        let (life, log, len, root) = Default::default();
        let nothing = Committed { segment_bytes, slot_bytes, life, log, len, root };
        let space = Self::of(device, lock, options, recovered, (None, nothing), ballast)?;
        let shared = &space.shared;
        shared.begin_life(&mut shared.checkpoints.lock(), &mut shared.log.lock())?;
        Ok(space)
    }

    /// Opens the space in the root of `device`, in its state after the last sync, or a later one.
    /// Reads all nodes of the tree, and the log; takes time by the number of extents, not of bytes.
    ///
    /// # Errors
    /// [`device::Error::NotFound`] if there is none, [`Error::Corruption`] if the stored bytes are
    /// not the written ones; then nothing was changed. [`Error::Options`] and [`Error::Device`].
    /// [`device::Error::NoSpace`] means that others have left no room on the device, and the
    /// ballast is used up.
    pub fn open(device: Arc<dyn Device>, options: Options) -> Result<Self, Error> {
        let space = Self::open_unchanged(device, options)?;
        let shared = &space.shared;
        shared.begin_life(&mut shared.checkpoints.lock(), &mut shared.log.lock())?;
        shared.fit_ballast()?;
        Ok(space)
    }

    /// Opens the space and changes no file of it. Its life begins with the first change, sync or
    /// checkpoint, or by [`Self::begin`]. Until then the found state may be only in the page cache,
    /// if the process before this one was killed.
    ///
    /// # Errors
    /// As [`Self::open`], except [`device::Error::NoSpace`].
    pub fn open_unchanged(device: Arc<dyn Device>, options: Options) -> Result<Self, Error> {
        if !device.exists(SUPERBLOCK)? {
            return Err(device::Error::NotFound { name: SUPERBLOCK.to_owned() }.into());
        }
        let lock = device.lock(LOCK)?;
        let superblock = Superblock::open(&*device, SUPERBLOCK, SUPERBLOCK_KIND)?;
        let committed = Committed::decode(superblock.payload());
        let committed = committed.map_err(|damage| damage.at(SUPERBLOCK, 0))?;
        let recovered = recover::recover(&*device, &committed)?;
        let options = Options { segment_bytes: committed.segment_bytes, ..options };
        let ballast = Ballast::found(device.clone(), measures(&options, &recovered))?;
        Self::of(device, lock, options, recovered, (Some(superblock), committed), ballast)
    }

    /// Stores all changes, and accepts no more calls, of whatever handle or snapshot; another
    /// opening may follow. The next opening of a space without a close finds its state after the
    /// last sync, or a later one.
    ///
    /// # Errors
    /// As [`Self::sync`]; the space is closed even then. [`Error::Closed`] if it is closed, or
    /// another thread closes it.
    pub fn close(&self) -> Result<(), Error> {
        let stored = self.begin_close()?;
        self.end_close();
        stored
    }

    /// As [`Self::close`], but a space without room to store its changes stays open, with all of
    /// them. Changes meanwhile are refused as if it were closed.
    ///
    /// # Errors
    /// As [`Self::close`]; after [`Error::NoSpace`] the space is open, and after any other error
    /// closed.
    pub fn try_close(&self) -> Result<(), Error> {
        let stored = self.begin_close()?;
        match &stored {
            Err(error) if error.is_refused() => self.shared.health.stay_open(),
            _ => self.end_close(),
        }
        stored
    }

    /// Refuses changes, then stores all earlier ones: a change is stored, or its caller got an
    /// error. Returns whether they were stored.
    fn begin_close(&self) -> Result<Result<(), Error>, Error> {
        let shared = &self.shared;
        {
            // A thread that changes the space holds this lock to the end.
            let _change = shared.writer.lock();
            shared.health.begin_close()?;
        }
        if !shared.log.has_begun() {
            // Nothing was changed.
            return Ok(Ok(()));
        }
        Ok(match self.checkpoint() {
            // The log, which is as good, may have room.
            Err(error) if error.leaves_log() => shared.commit().map(drop),
            Ok(()) => shared.release_at_close(),
            Err(error) => Err(error),
        })
    }

    fn end_close(&self) {
        let shared = &self.shared;
        shared.health.close();
        // A thread that holds one of these may be writing; a thread that takes one from now on is
        // refused.
        let _collection = shared.collector.lock();
        let _checkpoint = shared.checkpoints.lock();
        let _commit = shared.log.lock();
        let _punching = shared.puncher.lock();
        let mut writer = shared.writer.lock();
        // After a failure some may be in flight, and the next life may begin these segments.
        drop(writer.writes.end());
        shared.directory.unlock();
    }

    /// Returns a space whose life has not begun.
    fn of(
        device: Arc<dyn Device>,
        lock: Arc<dyn File>,
        options: Options,
        recovered: Recovered,
        (superblock, committed): (Option<Superblock>, Committed),
        ballast: Ballast,
    ) -> Result<Self, Error> {
        let (_, count_max) = options.geometry()?;
        let geometry = recovered.geometry;
        let mut segments = Segments::new(geometry, count_max, options.reserved_segments);
        let file_segments = recovered.data.len()? / u64::from(geometry.segment_bytes());
        segments.found(&recovered.live, file_segments.min(u64::from(count_max)) as usize);
        let data = DataFile::new(recovered.data, geometry, recovered.generations);
        let writer = Writer {
            segments,
            open: None,
            pending: Vec::new(),
            life: recovered.life,
            begun: 0,
            tracking: Tracking::default(),
            spare: None,
            writes: SegmentWrites::new(Arc::clone(&device)),
        };
        let checkpointer = Checkpointer::new(recovered.nodes, superblock, committed);
        let shared = Shared {
            options,
            data,
            health: Health::default(),
            pins: Pins::default(),
            collector: Mutex::new(()),
            checkpoints: Checkpoints::new(checkpointer),
            log: LifeLog::new(recovered.replayed),
            writer: Mutex::new(writer),
            ballast,
            puncher: Puncher::new(),
            state: RwLock::new(State { tree: recovered.tree, open: None, number: 0 }),
            directory: Directory::new(device, lock),
        };
        Ok(Self { shared: Arc::new(shared) })
    }
}

/// Returns the bytes by which a log grows in one step: few compared with a segment, and with the
/// cost of replaying it.
pub(super) fn log_growth_bytes(geometry: Geometry) -> u64 {
    (u64::from(geometry.segment_bytes()) / 4).min(LOG_GROWTH_BYTES_MAX)
}

fn measures(options: &Options, recovered: &Recovered) -> Measures {
    Measures {
        geometry: recovered.geometry,
        reserved_segments: options.reserved_segments,
        slot_bytes: recovered.slot_bytes,
        log_growth_bytes: log_growth_bytes(recovered.geometry),
    }
}

/// Returns the records with which a log begins: the generations of all segments in use.
pub(super) fn segment_records(segments: &Segments, data: &DataFile) -> Vec<u8> {
    let mut records = Vec::new();
    for segment in segments.in_use() {
        Record::encode_segment(segment, data.generation(segment), &mut records);
    }
    records
}

/// Returns an empty space, in files of which a creation that was cut short may have left others.
fn of_nothing(device: &dyn Device, geometry: Geometry) -> Result<Recovered, Error> {
    let data = device.open_blocks(DATA, Mode::Create)?;
    data.set_len(0)?;
    let file = device.open(TREE, Mode::Create)?;
    file.set_len(0)?;
    let slot_bytes = NodeFile::slot_bytes_for(&*file);
    Ok(Recovered {
        geometry,
        slot_bytes,
        life: 0,
        tree: recover::empty_tree(geometry),
        nodes: NodeFile::new(file, slot_bytes),
        data,
        generations: Vec::new(),
        live: Vec::new(),
        replayed: log::Replayed::default(),
    })
}
