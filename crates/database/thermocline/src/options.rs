//! How a database and its keyspaces are opened.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use environment::Environment;
use journal::Durability;

use crate::error::Error;
use crate::merge::{MergeName, MergeOperators};
use crate::tuning::Tuning;

/// How a database is opened. Every field has a default that suits a small server.
#[derive(Clone, Debug)]
pub struct Options {
    /// Memory for everything the database keeps, in bytes. Default 1 GiB, at least
    /// [`Options::MEMORY_BYTES_MIN`]. An engine that must hold all its data in memory refuses
    /// writes beyond it. Whatever was taken under one setting opens again under it; data that are
    /// more than a quarter above a lower one are not opened ([`Error::MemoryTooSmall`]).
    ///
    /// Each keyspace of [`EngineKind::F2`], [`EngineKind::Lsm`] or [`EngineKind::FlexDb`] has a share of
    /// it, all of which it may take: at opening, three quarters of what keyspaces in memory leave, in equal parts; made later,
    /// three quarters of what is left, or where there is such a keyspace already a quarter of it. From
    /// then on it moves to where it saves most ([`Options::balance_memory`]).
    pub memory_bytes: u64,
    /// Whether memory moves, while the database is open, from keyspaces that gain little by it to those
    /// that gain much, and to one that is made when too little is left. Not where a keyspace was made with
    /// [`KeyspaceOptions::memory_bytes`]. Without it shares stay as they were dealt out. Default true.
    pub balance_memory: bool,
    /// What a write waits for when nothing else is said. Default [`Durability::Flushed`]: a
    /// killed process loses nothing, a power cut at most [`Options::sync_interval`].
    pub durability: Durability,
    /// How often the journal is synced in the background; `None` never does. Default 1 s, at least
    /// 1 ms.
    pub sync_interval: Option<Duration>,
    /// Whether a directory that holds no database becomes one. Default true.
    pub create_if_missing: bool,
    /// How files are read and written. Default [`device::Io::DirectBlocks`]: what engines larger than
    /// memory keep on disk goes past the page cache, so that [`Options::memory_bytes`] is all the
    /// memory that it takes; everything else goes through it. With [`device::Io::Buffered`] memory
    /// that lies idle serves as a cache.
    pub io: device::Io,
    /// Threads for background work, most of which wait for the disk. Default 6, between 1 and [`Options::BACKGROUND_THREADS_MAX`].
    pub background_threads: usize,
    /// Bytes of the journal above which a keyspace that holds it back is flushed in the background, so that
    /// the journal can be trimmed. Default 256 MiB.
    ///
    /// A journal of this size has at least four segments: each has a quarter of this, at least 64 KiB and at
    /// most 64 MiB. A larger record makes a larger segment. A change of the setting holds for the segments that
    /// are begun from the next opening on.
    ///
    /// A flush begins when the journal has grown by a segment beyond this size, and whole segments are trimmed.
    /// So the journal takes at most this and a segment more when no flush runs. It takes more in these cases:
    /// - While the flush runs, writers go on, until the journal has twice this size and a segment more. Then
    ///   they wait for the flush. Writes of [`crate::Db::atomically`], and those of futures that need not
    ///   wait, do not wait for it. A flush that has to wait for a thread lets the journal grow until then.
    /// - An engine that writes all its data to flush ([`EngineKind::Memory`]) is flushed only once the journal
    ///   is as large as the data. Writers wait for that flush once the journal has doubled since it began.
    /// - Nothing is trimmed while a backup or a checkpoint is made, while a journaled keyspace is damaged, or
    ///   while flushes fail.
    pub journal_bytes: u64,
    /// How often values that have ended are looked for in the background, to be removed, in keyspaces
    /// whose values may end. `None` never does: then they take space until [`crate::Keyspace::remove_ended`],
    /// and are not shown either. It takes about a 20th of a core, and a quarter while it finds many. Default
    /// 100 ms, at least 1 ms.
    pub removal_interval: Option<Duration>,
    /// How keyspaces of the engine `f2` are opened, and with what new ones are made, as far as they have
    /// nothing of their own ([`KeyspaceOptions::tuning`]); so for the other engines. Default: what their share of
    /// the memory suggests.
    pub f2: f2::Options,
    /// How keyspaces of the engine `lsm` are opened. Default: what their share of the memory
    /// suggests.
    pub lsm: lsm::Options,
    /// How keyspaces of the engine `flexdb` are opened. Default: what their share of the memory
    /// suggests.
    pub flexdb: flexdb::Options,
    /// The operators that keyspaces are merged by ([`KeyspaceOptions::merge`]). Default none: keyspaces that have
    /// one are opened, read and written all the same, and merges are refused.
    pub merge_operators: MergeOperators,
    /// Clock, randomness, threads. Default: the real ones.
    pub environment: Environment,
}

impl Options {
    /// The least memory that a database is opened with: the journal's two buffers of 4 MiB, one
    /// that is filled while the other is written.
    pub const MEMORY_BYTES_MIN: u64 = 8 << 20;
    /// The most threads for background work. More than cores and devices can use only cost their
    /// stacks, and a system that has no room for one of them ends the process.
    pub const BACKGROUND_THREADS_MAX: usize = 256;
}

impl Default for Options {
    fn default() -> Self {
        Self {
            memory_bytes: 1 << 30,
            balance_memory: true,
            durability: Durability::Flushed,
            sync_interval: Some(Duration::from_secs(1)),
            create_if_missing: true,
            io: device::Io::DirectBlocks,
            background_threads: 6,
            journal_bytes: 256 << 20,
            removal_interval: Some(Duration::from_millis(100)),
            f2: f2::Options::default(),
            lsm: lsm::Options::default(),
            flexdb: flexdb::Options::default(),
            merge_operators: MergeOperators::default(),
            environment: Environment::real(),
        }
    }
}

/// The options with which a keyspace is made.
///
/// For a keyspace that exists, an option with its default value counts as not given and leaves the
/// keyspace as it is. Another value of `engine`, `journaled` or `values_end` must be the one that the
/// keyspace was made with. [`crate::Keyspace::options`] returns the options that hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyspaceOptions {
    /// What stores it. Default [`EngineKind::Memory`].
    pub engine: EngineKind,
    /// Whether its writes go through the database's journal. Default true.
    ///
    /// Without it a crash may lose any write since the last [`crate::Keyspace::flush`] or close,
    /// and of a batch some steps. The rest depends on the engine: `memory` goes back to its last
    /// flush; `flexdb` to some commit since, or to a part of one if room was short; `f2` to a
    /// checkpoint since, which is a prefix of what each thread wrote. `lsm` leaves no prefix, not
    /// even of the writes of one thread: each key has a value that it had at some moment since the
    /// last flush, and different keys may be of different moments.
    pub journaled: bool,
    /// Bytes of the database's memory that an engine over data larger than memory is to have: as much
    /// of that as is left, and never less than it can be opened with. Nobody gets any of it while it is
    /// open. Kept with the keyspace: of one that
    /// exists this changes nothing. Default none, as 0 is: a share of what is left, three quarters of
    /// it for the first keyspace, so that others can be made.
    pub memory_bytes: Option<u64>,
    /// Whether its values may end ([`crate::Keyspace::put_until`]). Then each takes a byte more, or nine
    /// with an end, and so much less it may be long; a read of it costs a look at the clock. Kept with the
    /// keyspace. Default false.
    pub values_end: bool,
    /// The name of the operator that its values are merged by ([`crate::Keyspace::merge`]), which has to be one of
    /// [`Options::merge_operators`]. Kept with the keyspace, and of one that exists never changed: none leaves it
    /// as it is, and one that has none yet gets it, durable at once. Default none.
    /// Each merge reads the old value and writes the whole new one; make values that many merges extend short.
    pub merge: Option<MergeName>,
    /// What its engine does otherwise than the database's options say: what it says goes before those, and all
    /// else is theirs. Of the keyspace's own engine ([`Error::OtherEngine`]), and none of `memory`. Kept with the
    /// keyspace. For one that exists none leaves it as it is, and any other replaces it as a whole, so that one
    /// which says nothing takes it away; the change is durable at once, and holds from the next opening of the
    /// database or clearing of the keyspace on. What is on disk stays as it was written, and is read all the same.
    /// Default none.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// use thermocline::lsm::{self, Compression};
    /// use thermocline::{Db, EngineKind, KeyspaceOptions, Options, Tuning};
    ///
    /// let db = Db::open(dir.path(), Options::default())?;
    /// let tuning = lsm::Tuning {
    ///     compression: Some([Compression::Zstd; lsm::Options::LEVELS]),
    ///     block_bytes: Some(16 << 10),
    ///     ..Default::default()
    /// };
    /// let packed = KeyspaceOptions {
    ///     engine: EngineKind::Lsm,
    ///     tuning: Some(Tuning::Lsm(tuning)),
    ///     ..Default::default()
    /// };
    /// let archive = db.keyspace("archive", packed)?;
    /// assert_eq!(archive.options().tuning, Some(Tuning::Lsm(tuning)));
    /// // Another one of the same engine, as the database's options say.
    /// let plain = KeyspaceOptions { engine: EngineKind::Lsm, ..Default::default() };
    /// assert_eq!(db.keyspace("recent", plain)?.options().tuning, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub tuning: Option<Tuning>,
}

impl KeyspaceOptions {
    /// Returns whether a keyspace that was made with `made` is what these options ask for. An option
    /// with its default value asks for nothing.
    pub(crate) fn allow(&self, made: &Self) -> bool {
        let default = Self::default();
        (self.engine == default.engine || self.engine == made.engine)
            && (self.journaled == default.journaled || self.journaled == made.journaled)
            && (self.values_end == default.values_end || self.values_end == made.values_end)
    }
}

impl Default for KeyspaceOptions {
    fn default() -> Self {
        Self {
            engine: EngineKind::Memory,
            journaled: true,
            memory_bytes: None,
            values_end: false,
            merge: None,
            tuning: None,
        }
    }
}

/// The engines that a keyspace can be stored by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EngineKind {
    /// An ordered map in memory, journaled and snapshotted. For data that fits.
    Memory,
    /// A hash store over two hybrid logs: reads, writes and read-modify-writes of single keys, over
    /// data larger than memory. It keeps no order: no scans, no snapshots, no count of keys; pairs
    /// are walked over in an order of its own.
    F2,
    /// A log-structured merge-tree: ordered, journaled, over data larger than memory.
    Lsm,
    /// Values in hash-grouped segments. Not built yet.
    HashKv,
    /// All pairs sorted in one file, in place: ordered, journaled, over data larger than memory, for
    /// reads and scans of small pairs.
    FlexDb,
    /// The cluster. Not built yet.
    Nova,
}

impl EngineKind {
    /// Every engine, built or not.
    pub const ALL: [Self; 6] =
        [Self::Memory, Self::F2, Self::Lsm, Self::HashKv, Self::FlexDb, Self::Nova];

    /// Its name as users write it and as it is stored.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::F2 => "f2",
            Self::Lsm => "lsm",
            Self::HashKv => "hashkv",
            Self::FlexDb => "flexdb",
            Self::Nova => "nova",
        }
    }

    /// Whether it keeps keys in order. Only then can a keyspace be scanned
    /// ([`crate::Keyspace::scan`]) and is part of snapshots ([`crate::Db::snapshot`]); any can be
    /// walked over ([`crate::Keyspace::walk`]).
    pub const fn is_ordered(self) -> bool {
        !matches!(self, Self::F2)
    }

    /// Whether this version can open a keyspace stored by it.
    pub const fn is_built(self) -> bool {
        matches!(self, Self::Memory | Self::F2 | Self::Lsm | Self::FlexDb)
    }
}

impl fmt::Display for EngineKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for EngineKind {
    type Err = Error;

    /// # Errors
    /// [`Error::UnknownEngine`].
    fn from_str(name: &str) -> Result<Self, Error> {
        let known = Self::ALL.into_iter().find(|kind| kind.name() == name);
        known.ok_or_else(|| Error::UnknownEngine { name: name.to_owned() })
    }
}
