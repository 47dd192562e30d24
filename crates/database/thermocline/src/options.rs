//! How a database and its keyspaces are opened.

use std::time::Duration;

use engine::{EngineSettings, Settings};
use environment::Environment;
use journal::Durability;

use crate::drivers::EngineKind;
use crate::error::{Error, Result};
use crate::merge::{MergeName, MergeOperators};
use crate::shared_parts::SharedParts;

/// How a database is opened. Every field has a default that suits a small server. No option of an
/// open database changes: close it, and open it with other options.
///
/// A number outside of the range that its field names is replaced by the nearest one in the range,
/// except [`Options::memory_bytes`], which is refused.
#[derive(Clone, Debug)]
pub struct Options {
    /// Memory for everything the database keeps, in bytes. Default 1 GiB, at least
    /// [`Options::MEMORY_BYTES_MIN`]. An engine that must hold all its data in memory refuses
    /// writes beyond it. Data that was accepted under one setting opens again under it. Under a
    /// lower one, data more than a quarter above it is not opened ([`Error::MemoryTooSmall`]).
    ///
    /// Each keyspace of an engine over data larger than memory has a share of it, and may use all
    /// of the share. At opening, three quarters of the memory that keyspaces in memory leave are
    /// shared out in equal parts. A keyspace that is made later gets three quarters of the free
    /// memory, or a quarter if there is such a keyspace already. From then on memory moves to the
    /// keyspace that saves most with it ([`Options::balance_memory`]).
    pub memory_bytes: u64,
    /// Whether memory moves, while the database is open, from keyspaces that gain little by it to
    /// keyspaces that gain much, and to a new one if too little is left for it. A keyspace that was
    /// made with [`KeyspaceOptions::memory_bytes`] loses none of that number, and gets no more. If
    /// this is false, shares keep the sizes that they had at the start. Default true.
    pub balance_memory: bool,
    /// The durability that a write waits for by default. Default [`Durability::Flushed`]: a killed
    /// process loses nothing, a power cut at most [`Options::sync_interval`].
    pub durability: Durability,
    /// How often the journal is synced in the background; `None` never does. Default 1 s, at least
    /// 1 ms.
    pub sync_interval: Option<Duration>,
    /// Whether a directory that holds no database becomes one. Default true.
    pub create_if_missing: bool,
    /// How files are read and written. Default [`device::Io::DirectBlocks`]: files of engines over
    /// data larger than memory bypass the page cache, so that [`Options::memory_bytes`] is all the
    /// memory that they take; all other files use it. With [`device::Io::Buffered`] idle memory
    /// serves as a cache.
    pub io: device::Io,
    /// Threads for background work, most of which wait for the disk. Default 6, between 1 and
    /// [`Options::BACKGROUND_THREADS_MAX`].
    pub background_threads: usize,
    /// Bytes of the journal above which a keyspace that holds it back is flushed in the background,
    /// so that the journal can be trimmed. Default 256 MiB.
    ///
    /// A journal of this size has at least four segments: each has a quarter of this, at least 64
    /// KiB and at most 64 MiB. A larger record makes a larger segment. A change of the setting
    /// holds for the segments that are begun from the next opening on.
    ///
    /// A flush begins when the journal has grown by a segment beyond this size, and whole segments
    /// are trimmed. So the journal takes at most this and a segment more when no flush runs. It
    /// takes more in these cases:
    /// - While the flush runs, writers continue until the journal has twice this size and a segment
    ///   more. Then they wait for the flush. Writes of [`crate::Db::atomically`] do not wait for
    ///   it, and neither do writes of futures that need not wait. A flush without a thread lets the
    ///   journal grow until then.
    /// - An engine that writes all its data to flush ([`EngineKind::Memory`]) is flushed only once
    ///   the journal is as large as the data. Writers wait for that flush once the journal has
    ///   doubled since it began.
    /// - Nothing is trimmed while a backup or a checkpoint is made, while a journaled keyspace is
    ///   damaged, or while flushes fail.
    pub journal_bytes: u64,
    /// Bytes of each of the journal's two buffers: one is filled while the other is written. A
    /// smaller one takes less memory, and writes smaller groups. At least 64 KiB, and at most the
    /// bytes of a segment of the journal. Default 4 MiB.
    pub journal_buffer_bytes: usize,
    /// Opens a database whose journal is lost: removes the rest of the journal, and begins another
    /// one. It also removes a sound journal. Writes that were in the journal alone are lost, and
    /// their numbers are given again. Keyspaces may lose writes of different ages. A keyspace that
    /// is damaged now and is repaired later may need another such opening. Without this option a
    /// database whose journal is lost is refused. Set it for one opening. Default false.
    pub discard_journal: bool,
    /// Interval at which a background thread searches for expired values and removes them, in
    /// keyspaces whose values may expire. With `None` there is no such thread: expired values take
    /// space until [`crate::ExpiringKeyspace::remove_expired`], and are not shown either. The
    /// thread takes about a 20th of a core, and a quarter while it finds many. Default 100 ms, at
    /// least 1 ms.
    pub expiry_sweep_interval: Option<Duration>,
    /// Settings of engines, which hold for all keyspaces of the engine, unless a keyspace has its
    /// own ([`KeyspaceOptions::settings`]). An engine's own options become such settings; a field
    /// that has its default counts as not set. `docs/settings.md` lists all settings.
    ///
    /// ```
    /// use thermocline::{EngineKind, EngineSettings, Options, f2, lsm};
    ///
    /// let lsm = lsm::Options { block_bytes: 16 << 10, ..lsm::Options::default() };
    /// let options = Options { engines: lsm.into(), ..Options::default() };
    /// // The same by name, and settings of another engine.
    /// let lsm = EngineKind::Lsm.settings().with("block_bytes", "16384")?;
    /// let f2 = f2::Options { compaction_threads: 4, ..f2::Options::default() };
    /// assert_eq!(EngineSettings::from(lsm), options.engines);
    /// let both = options.engines.with(f2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Default: the engine's defaults, which suit a keyspace's share of the memory.
    pub engines: EngineSettings,
    /// The operators that keyspaces are merged by ([`KeyspaceOptions::merge`]). Default none:
    /// keyspaces that have one can still be opened, read and written, and merges are refused.
    pub merge_operators: MergeOperators,
    /// Clock, randomness, threads. Default: the real ones.
    pub environment: Environment,
    /// The parts that the database shares with others of this process. Default: none.
    pub shared: Option<SharedParts>,
}

impl Options {
    /// The least memory that a database is opened with, if the journal's buffers have their default
    /// size: the two buffers.
    pub const MEMORY_BYTES_MIN: u64 = 8 << 20;
    /// The least bytes of a buffer of the journal.
    pub(crate) const JOURNAL_BUFFER_BYTES_MIN: usize = 64 << 10;
    /// The most threads for background work. More than cores and devices can use only cost their
    /// stacks, and a system that has no room for one of them ends the process.
    pub const BACKGROUND_THREADS_MAX: usize = 256;
}

impl Options {
    /// Returns the least memory that a database is opened with: two buffers of the journal, and at
    /// least 1 MiB.
    pub(crate) fn memory_bytes_min(&self) -> u64 {
        (self.journal_buffer_bytes as u64 * 2).clamp(1 << 20, Self::MEMORY_BYTES_MIN)
    }
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
            journal_buffer_bytes: 4 << 20,
            discard_journal: false,
            expiry_sweep_interval: Some(Duration::from_millis(100)),
            engines: EngineSettings::default(),
            merge_operators: MergeOperators::default(),
            environment: Environment::real(),
            shared: None,
        }
    }
}

/// The options with which a keyspace is made.
///
/// For a keyspace that exists, an option with its default value counts as not given and changes
/// nothing. Another value of `engine`, `journaled` or `expiring` must be the one that the
/// keyspace was made with. [`crate::Keyspace::options`] returns the options that hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyspaceOptions {
    /// The engine that stores it. Default [`EngineKind::Memory`]. The default opens an existing
    /// keyspace of any engine: to be sure of `memory`, compare [`crate::Keyspace::options`].
    pub engine: EngineKind,
    /// Whether its writes go through the database's journal. Default true.
    ///
    /// Without it a crash may lose any write since the last [`crate::Keyspace::flush`] or close,
    /// and some steps of a batch. The rest depends on the engine. `memory` returns to its last
    /// flush. `flexdb` returns to some commit since, or to a part of one if room was short. `f2`
    /// returns to a checkpoint since, which is a prefix of each thread's writes. `lsm` leaves no
    /// prefix, not even of the writes of one thread: each key has a value that it had at some
    /// moment since the last flush, and different keys may be of different moments. `hashkv`
    /// leaves the same.
    pub journaled: bool,
    /// Bytes of the database's memory for an engine over data larger than memory. It gets at most
    /// the memory that is left, and never less than it needs to open. No other keyspace gets any of
    /// it while it is open. Kept with the keyspace: for one that exists this changes nothing.
    /// Default `None`, and 0 means the same: a share of the free memory, three quarters of it for
    /// the first keyspace, so that others can be made. It has no effect on a keyspace of `memory`,
    /// whose data may take all memory that is free.
    pub memory_bytes: Option<u64>,
    /// Whether its values may expire ([`crate::ExpiringKeyspace::put`]). Then each takes one
    /// byte more, or nine with an expiry, and its maximum length is less by these bytes. A read of
    /// it costs a look at the clock. Kept with the keyspace. Default false.
    pub expiring: bool,
    /// The name of the operator that its values are merged by ([`crate::Keyspace::merge`]). It must
    /// be one of [`Options::merge_operators`]. Kept with the keyspace, and never changed once it
    /// has one. For a keyspace that exists, `None` changes nothing; one without an operator gets
    /// this one, durable immediately. Default `None`. Each merge reads the old value and writes the
    /// whole new one; make values that many merges extend short.
    pub merge: Option<MergeName>,
    /// Settings of its engine that differ from the database's settings. A setting that has a value
    /// here takes precedence, and all others are the database's. They must be of the keyspace's own
    /// engine ([`Error::OtherEngine`]), and settings that a keyspace can have
    /// ([`crate::Scope::Keyspace`]). Kept with the keyspace. For a keyspace that exists, `None`
    /// changes nothing, and any other value replaces its settings as a whole, so that settings
    /// without any value remove them. The change is durable immediately, and holds from the next
    /// opening of the database or clearing of the keyspace on. Data on disk keeps its form and
    /// stays readable. Default `None`.
    ///
    /// An engine's own options become settings; a field that has its default counts as not set. A
    /// keyspace that is to have the default where the database has another value sets it by name.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// use thermocline::lsm::{self, Compression};
    /// use thermocline::{Db, EngineKind, KeyspaceOptions, Options};
    ///
    /// let db = Db::open(dir.path(), Options::default())?;
    /// let archive = lsm::Options {
    ///     compression: vec![Compression::Zstd],
    ///     block_bytes: 16 << 10,
    ///     ..lsm::Options::default()
    /// };
    /// let packed = KeyspaceOptions {
    ///     engine: EngineKind::Lsm,
    ///     settings: Some(archive.into()),
    ///     ..Default::default()
    /// };
    /// let archive = db.keyspace("archive", packed)?;
    /// let settings = archive.options().settings.map(|settings| settings.to_string());
    /// assert_eq!(settings.as_deref(), Some("compression=zstd block_bytes=16384"));
    /// // The default of the engine, whatever the database's settings are.
    /// let settings = EngineKind::Lsm.settings().with("block_bytes", "4096")?;
    /// let usual = KeyspaceOptions { settings: Some(settings), ..packed };
    /// assert_eq!(db.keyspace("usual", usual)?.options().settings, Some(settings));
    /// // Another one of the same engine, as the database's settings say.
    /// let plain = KeyspaceOptions { engine: EngineKind::Lsm, ..Default::default() };
    /// assert_eq!(db.keyspace("recent", plain)?.options().settings, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub settings: Option<Settings>,
}

impl KeyspaceOptions {
    /// Returns whether a keyspace that was made with `made` agrees with these options. An option
    /// with its default value asks for nothing.
    pub(crate) fn allow(&self, made: &Self) -> bool {
        let default = Self::default();
        (self.engine == default.engine || self.engine == made.engine)
            && (self.journaled == default.journaled || self.journaled == made.journaled)
            && (self.expiring == default.expiring || self.expiring == made.expiring)
    }

    /// Returns the same options in the form that is kept: settings without any value become none,
    /// and so do zero bytes of memory.
    pub(crate) fn normal(self) -> Self {
        let memory_bytes = self.memory_bytes.filter(|bytes| *bytes > 0);
        Self { memory_bytes, settings: self.settings.and_then(Settings::if_any), ..self }
    }

    /// Refuses settings that no keyspace with these options could have.
    ///
    /// # Errors
    /// [`Error::OtherEngine`]; [`crate::error::Engine::BadOption`].
    pub(crate) fn check_settings(&self) -> Result<()> {
        let Some(settings) = &self.settings else { return Ok(()) };
        let (engine, of) = (self.engine, settings.engine());
        if engine.name() != of {
            let given =
                if settings.is_empty() { "no value".to_owned() } else { settings.to_string() };
            return Err(Error::OtherEngine { engine, of, given });
        }
        Ok(settings.check_of_keyspace()?)
    }
}

impl Default for KeyspaceOptions {
    fn default() -> Self {
        Self {
            engine: EngineKind::Memory,
            journaled: true,
            memory_bytes: None,
            expiring: false,
            merge: None,
            settings: None,
        }
    }
}
