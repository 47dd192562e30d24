//! FlexSpace: a persistent file into which one can insert (Flex 4).
//!
//! ```text
//!   writers ──lock──> Writer: log's records, segment being filled, live bytes ──> data, log-N
//!      │ for moments                                                               ^
//!      v                                                                           │
//!   State: FlexTree, buffer of that segment                  checkpoint: tree, superblock
//!      ^ for moments                                                               │
//!   readers ──> Snapshot: nodes, buffer, a pin ───────────────────── data <────────┘
//! ```
//!
//! # Invariants
//! - F1. The log has a record only after the record's data is durable; no recovery sees changes
//!   that no commit has made durable.
//! - F2. A segment is written again only if neither the state that recovery may find, nor a living
//!   snapshot, refers to it. Its last byte was removed by a durable commit, and no pin is of a
//!   state between its first byte and its last one (`docs/design/flexspace.md`).
//! - F3. After a failed write or sync nothing is written until the space is opened again.
//!
//! # Concurrency
//! Locks, in this order: the collector's, the checkpointer's, the log's, the puncher's, the
//! writer's, the ballast's, the state's, the pins'. A sync of the device holds only the log's, so
//! that others write meanwhile. The state's and the pins' are held over no I/O, so a reader waits
//! for the storage only for its own reads. They are held for moments; only a large removal, which
//! visits each dropped node, holds the state's for longer.

mod ballast;
mod check;
mod checkpoint;
mod checkpoints;
mod collect;
mod commit;
mod defrag;
mod directory;
mod error;
mod health;
mod life;
mod life_log;
#[cfg(all(test, shuttle))]
mod models;
mod offline;
mod open;
mod options;
mod pins;
mod puncher;
mod read;
mod reading;
mod recover;
mod room;
mod stats;
mod stream;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
mod together;
mod write;

use std::sync::Arc;

use sync::{Mutex, RwLock};

use crate::FlexTree;
use crate::data::{DataFile, SegmentBuffer, SegmentWriter, SegmentWrites, Segments};
use ballast::Ballast;
pub use check::{Verified, check_offline, verify_offline};
use checkpoints::Checkpoints;
pub use collect::Collected;
use collect::Tracking;
use directory::Directory;
pub use error::Error;
use health::Health;
use life_log::LifeLog;
pub use offline::Offline;
pub use options::Options;
use pins::Pins;
use puncher::Puncher;
pub use read::{ExtentBytes, Snapshot};
pub use reading::{Reading, Wanted};
pub use recover::SUPERBLOCK;
pub use stats::Stats;
pub use stream::Stream;
pub use together::Together;

/// The kind of file that a space has next to its superblock and that has a header: its logs.
pub const LOG_FORMAT: codec::Format = crate::log::FORMAT;

/// A persistent file: bytes can be inserted into its middle and removed from it, at a cost that
/// does not grow with the number of bytes behind.
///
/// Clones share the space. Reads wait for no writer's I/O; writes wait for each other. Written
/// bytes are durable after [`Self::sync`]; until then a crash may lose them: from the end, never in
/// between.
///
/// ```
/// use flexspace::space::{FlexSpace, Options};
///
/// let device = device::memory();
/// let space = FlexSpace::create(device.clone(), Options::default())?;
/// space.append(b"the warm water")?;
/// space.insert(4, b"cold and the ")?;
/// space.collapse(0, 4)?;
/// assert_eq!(space.read(0, space.len())?, b"cold and the warm water");
/// space.close()?;
///
/// let space = FlexSpace::open(device, Options::default())?;
/// assert_eq!(space.read(13, 4)?, b"warm");
/// # Ok::<(), flexspace::space::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct FlexSpace {
    shared: Arc<Shared>,
}

/// The part that all handles and snapshots of a space share.
#[derive(Debug)]
struct Shared {
    options: Options,
    data: DataFile,
    health: Health,
    pins: Pins,
    /// One collection at a time.
    collector: Mutex<()>,
    checkpoints: Checkpoints,
    log: LifeLog,
    writer: Mutex<Writer>,
    ballast: Ballast,
    puncher: Puncher,
    state: RwLock<State>,
    /// The last field: its lock is released after all else.
    directory: Directory,
}

/// The state that readers see: changed under its lock in one step.
#[derive(Debug)]
struct State {
    tree: FlexTree,
    /// The segment that callers fill, which is not in the file as a whole.
    open: Option<OpenBuffer>,
    /// The number of this state: one more with each change of the tree.
    number: u64,
}

/// A segment's number and its bytes.
#[derive(Clone, Debug)]
struct OpenBuffer {
    segment: u32,
    buffer: Arc<SegmentBuffer>,
}

/// The part that writers share.
#[derive(Debug)]
struct Writer {
    segments: Segments,
    /// The segment that callers fill.
    open: Option<SegmentWriter>,
    /// Records that are not in the log.
    pending: Vec<u8>,
    /// The life of this opening, or the last one until that has begun, and how many segments it has
    /// begun.
    life: u64,
    begun: u64,
    /// The collection that runs, if one does.
    tracking: Tracking,
    /// A buffer without readers, for the next segment.
    spare: Option<Arc<SegmentBuffer>>,
    writes: SegmentWrites,
}
