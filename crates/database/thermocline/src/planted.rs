//! Bugs that tests plant to show that they would be found; no other code plants any.
//!
//! They are listed in `docs/reliability/planted-db.md`.
//!
//! A bug is planted on a thread. A database that the thread opens meanwhile has it too, on every
//! thread that uses this database.

#[cfg(feature = "planted")]
pub(crate) use in_tests::{InDatabase, is_planted};
#[cfg(feature = "planted")]
pub use in_tests::{again_and_again, must_be_found};
#[cfg(not(feature = "planted"))]
pub(crate) use outside::InDatabase;
#[cfg(not(feature = "planted"))]
pub(crate) use sync::planted::is_planted;

/// A way to break a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// The record of a batch has the steps in its first keyspace alone.
    PartsUnrecorded,
    /// Each keyspace's part of a batch is a record of its own.
    RecordOfEachPart,
    /// Of a record the steps in its first keyspace alone are applied again.
    ReplayedInPart,
    /// A write is acknowledged before the journal has it in the requested durability.
    AcknowledgedEarly,
    /// Engines' files go ahead of the journal.
    BarrierUnasked,
    /// The journal is trimmed to the writes that one keyspace has in its files, whatever the others
    /// have.
    TrimmedToNewest,
    /// A number is visible before all of its steps are.
    VisibleEarly,
    /// A read-modify-write does not lock its key.
    UpdatedUnlocked,
    /// A batch does not lock the keys that it merges into.
    MergedUnlocked,
    /// The catalog is renamed before it is synced.
    CatalogUnsynced,
    /// The name of a new catalog is not made durable.
    CatalogUnnamed,
    /// The catalog names a keyspace whose directory is not durable.
    KeyspaceUnnamed,
    /// The files of a dropped keyspace are removed before the catalog says so.
    FilesRemovedEarly,
    /// A keyspace is dropped or cleared for good before older writes are durable.
    OlderUnsettled,
    /// A new engine asks for the journal of the time before it.
    BegunAtNothing,
    /// A close does not flush data that no journal holds.
    ClosedUnflushed,
    /// A copy has the journal from the newest moment of its engines on, not from the oldest.
    CopiedFromNewest,
    /// The journal is trimmed while it is copied.
    TrimmedMeanwhile,
    /// The directories of a checkpoint are not made durable.
    CheckpointUnnamed,
    /// The files of a backup are not synced.
    BackupUnsynced,
    /// The manifest of a backup is not synced.
    ManifestUnsynced,
    /// The name of the manifest is not made durable before the backup has its own.
    ManifestUnnamed,
    /// A file is taken from the backup before for its name and its length.
    SharedByName,
    /// A file is taken from the backup before for its checksum.
    SharedBySum,
    /// The restored files are not synced.
    RestoredUnsynced,
    /// The directories of a restored database are not made durable.
    RestoredUnnamed,
    /// A restored directory is a database before it is verified.
    RestoredUnverified,
    /// A transaction checks its reads before it has its locks.
    CheckedUnlocked,
    /// Keys that a transaction has found absent do not count as read.
    AbsentUnread,
    /// Ranges that a transaction has scanned do not count as read.
    RangesUnread,
    /// The part of a range behind its last pair does not count as read.
    EndUnread,
    /// Deleted ranges are not noted for transactions.
    RangesUnnoted,
    /// A write is noted for transactions after it is visible.
    NotedLate,
    /// A transaction does not see that a keyspace which it has read was cleared.
    ClearedUnseen,
    /// Ingested pairs are not noted for transactions.
    IngestedUnnoted,
    /// An expired value is removed although another one was put in its place since.
    RemovedUnseen,
}

/// The bug of the thread that plants it, and of the databases that this thread opens.
#[cfg(feature = "planted")]
mod in_tests {
    use std::cell::Cell;

    use super::Planted;

    thread_local! {
        static PLANTED: Cell<Option<Planted>> = const { Cell::new(None) };
    }

    /// Runs of a test in which threads must meet for a bug to show. On a busy machine they may not
    /// meet.
    const TRIES: usize = 20;

    /// Returns a test that runs `test` until it fails, a limited number of times.
    pub fn again_and_again(test: impl Fn()) -> impl FnOnce() {
        move || (0..TRIES).for_each(|_| test())
    }

    /// Checks that `test` fails with the bug planted, with `how` in its message.
    pub fn must_be_found(bug: Planted, how: &str, test: impl FnOnce()) {
        sync::planted::must_be_found(&PLANTED, bug, how, test);
    }

    /// Returns whether this bug is planted.
    pub(crate) fn is_planted(bug: Planted) -> bool {
        PLANTED.get() == Some(bug)
    }

    /// The bug that was planted on the thread that opened a database.
    pub(crate) struct InDatabase(Option<Planted>);

    impl InDatabase {
        pub(crate) fn here() -> Self {
            Self(PLANTED.get())
        }

        /// Returns whether it is this bug.
        pub(crate) fn has(&self, bug: Planted) -> bool {
            self.0 == Some(bug)
        }
    }
}

#[cfg(not(feature = "planted"))]
mod outside {
    use super::Planted;

    /// Nothing: only tests plant any.
    pub(crate) struct InDatabase;

    impl InDatabase {
        pub(crate) const fn here() -> Self {
            Self
        }

        /// Returns whether it is this bug.
        #[inline]
        pub(crate) const fn has(&self, _bug: Planted) -> bool {
            false
        }
    }
}
