//! The lookup of one key: it ends in memory, or it is pending and names the reads that it needs.
//!
//! ```text
//!  Engine::lookup --> Found, Absent
//!        |
//!        +-----> Pending --> a round of reads --> resume, once for each read --> Found, Absent
//!                   ^                                  |
//!                   +------------- NextRound ----------+
//! ```
//!
//! A pending lookup is a value: it holds no lock and no epoch, and its owner may keep it for any
//! time, move it to another thread, or drop it. The crate `reads` has the drivers that do its
//! reads.

use std::fmt;
use std::sync::Arc;

use device::{Device, File, Queue};

use codec::SeqNo;
use sequence::Pin;

use crate::error::Result;

/// The moment whose value a lookup returns.
#[derive(Clone, Copy, Debug)]
pub enum At<'a> {
    /// Some moment between the beginning and the end of the lookup.
    Newest,
    /// The same, for an update: [`PendingLookup::is_newest`] can confirm the value.
    ForUpdate,
    /// The moment of a pin. The caller keeps the pin until the lookup has ended.
    Pin(&'a Pin),
}

impl At<'_> {
    /// Returns the largest number of a version that the lookup may find.
    #[inline]
    pub fn seqno(&self) -> SeqNo {
        match self {
            At::Newest | At::ForUpdate => SeqNo::MAX,
            At::Pin(pin) => pin.seqno(),
        }
    }
}

/// The result of the part of a lookup that needs no device.
pub enum Lookup {
    /// The key has a value, which replaced the content of the caller's buffer.
    Found,
    /// The key has no value.
    Absent,
    /// The device has to be read.
    Pending(Box<dyn PendingLookup>),
}

// A lookup that ends in memory returns this by value on each get.
const _: () = assert!(size_of::<Lookup>() <= 24);

impl Lookup {
    /// [`Lookup::Found`] if the key has a value, otherwise [`Lookup::Absent`].
    pub fn ended(is_found: bool) -> Self {
        if is_found { Self::Found } else { Self::Absent }
    }

    /// Returns the result with `value`, the content of the caller's buffer, if there is one.
    pub fn with_value(self, value: &[u8]) -> LookedUp<'_> {
        match self {
            Self::Found => LookedUp::Found(value),
            Self::Absent => LookedUp::Absent,
            Self::Pending(pending) => LookedUp::Pending(pending),
        }
    }
}

impl fmt::Debug for Lookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Found => "Found",
            Self::Absent => "Absent",
            Self::Pending(_) => "Pending",
        })
    }
}

/// The progress of a pending lookup after a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The key has a value, which replaced the content of the caller's buffer. The lookup has
    /// ended.
    Found,
    /// The key has no value. The lookup has ended.
    Absent,
    /// Other reads of this round are missing.
    Waiting,
    /// All reads of this round are complete, and [`PendingLookup::reads`] returns those of the next
    /// one.
    NextRound,
}

/// One key at one index of [`crate::Engine::lookup_many`].
pub enum LookedUp<'v> {
    /// Its value.
    Found(&'v [u8]),
    /// It has no value.
    Absent,
    /// The device has to be read.
    Pending(Box<dyn PendingLookup>),
}

/// The callback of [`crate::Engine::lookup_many`], called with each key's index. An error ends the
/// call.
pub type EachLookup<'a> = dyn FnMut(usize, LookedUp<'_>) -> Result<()> + 'a;

/// A lookup that needs the device. It owns its key, and keeps the files and the state of the store
/// that it reads; it does not keep the store open.
pub trait PendingLookup: Send {
    /// Returns the key that is looked up.
    fn key(&self) -> &[u8];

    /// Returns the reads of this round: at least one, all of one source. They stay the same until
    /// [`PendingLookup::resume`] returns [`Progress::NextRound`].
    fn reads(&self) -> &[ReadRequest];

    /// Continues with the bytes of one read of this round, or with its failure. The driver calls
    /// this once for each read, in any order, unless a call has failed. `into` is the caller's
    /// buffer for the value. The call never waits for a device.
    ///
    /// # Errors
    /// The failure of the read; damage with its place; [`crate::Error::Closed`]. The lookup has
    /// ended then.
    fn resume(&mut self, read: usize, bytes: Result<&[u8]>, into: &mut Vec<u8>)
    -> Result<Progress>;

    /// Returns whether the value of a lookup that has ended is the key's newest, if the caller
    /// excludes other writes of the key (law L7). Looks into memory alone. It may return `false`
    /// without need, and the caller then begins again. Always `false` unless the lookup began with
    /// [`At::ForUpdate`].
    fn is_newest(&self) -> bool;
}

/// One read of a pending lookup.
#[derive(Clone)]
pub struct ReadRequest {
    /// The maker of the queue that does the read.
    pub source: Arc<dyn ReadSource>,
    /// The file.
    pub file: Arc<dyn File>,
    /// The offset of the first byte.
    pub offset: u64,
    /// Bytes to read, above 0. Offset and length suit the file's alignment.
    pub len: usize,
}

impl fmt::Debug for ReadRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, offset, len, .. } = self;
        f.debug_struct("ReadRequest")
            .field("file", file)
            .field("offset", offset)
            .field("len", len)
            .finish_non_exhaustive()
    }
}

/// A place that files are read from, with queues of its own: a device, or a remote component.
pub trait ReadSource: Send + Sync {
    /// Makes a queue on which up to `depth` reads are in flight.
    ///
    /// # Errors
    /// The source has no queue left.
    fn queue(&self, depth: usize) -> device::Result<Box<dyn Queue>>;
}

/// A device as a source of reads.
#[derive(Debug)]
pub struct DeviceReads(pub Arc<dyn Device>);

impl ReadSource for DeviceReads {
    fn queue(&self, depth: usize) -> device::Result<Box<dyn Queue>> {
        self.0.queue(depth)
    }
}
