//! The database's handle, its state, and its waits.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use codec::SeqNo;
use journal::{Durability, Journal};
use telemetry::Registry;

use crate::background::{Background, Upkeep};
use crate::directory::Directory;
use crate::error::{Error, Result};
use crate::expiry::ValueForm;
use crate::key_locks::KeyLocks;
use crate::keyspace::Keyspace;
use crate::keyspace_entry::KeyspaceEntry;
use crate::keyspace_set::KeyspaceSet;
use crate::lifecycle::Lifecycle;
use crate::open::EngineFactory;
use crate::options::Options;
use crate::write_order::WriteOrder;

/// A database directory, opened. Cheap to clone; the last handle to go closes it. An error of that
/// close is lost: call [`Db::close`] to get it.
///
/// It belongs to the process that opened it. After a fork every call of the child gets
/// [`Error::Forked`], or an empty list or zeros where a call returns no error. A drop or a close in
/// the child changes nothing and does not wait. The child also has the parent's lock on the
/// directory in common with it, until the child drops its handle, gets [`Error::Forked`] from it,
/// ends, or executes another program. So a program that becomes a daemon opens its database
/// afterwards. A child that is forked inside a callback of the database may only end.
#[derive(Clone, Debug)]
pub struct Db {
    pub(crate) inner: Arc<OpenGuard>,
    pub(crate) durability: Durability,
}

/// Closes the database when the last handle goes. Background tasks hold [`Inner`] without it, so
/// that none of them can be the last holder and close the pool it runs on.
#[derive(Debug)]
pub(crate) struct OpenGuard(pub(crate) Arc<Inner>);

impl Deref for OpenGuard {
    type Target = Inner;
    fn deref(&self) -> &Inner {
        &self.0
    }
}

impl Drop for OpenGuard {
    fn drop(&mut self) {
        if let Err(_forked) = self.0.lifecycle.check_process() {
            // Nothing of it is dropped, ever: all of it belongs to the parent.
            std::mem::forget(Arc::clone(&self.0));
            return;
        }
        // No caller is left to get the error; `Db::close` is for callers that want it.
        let _ = self.0.close();
    }
}

/// The state that all handles share.
///
/// # Concurrency
/// Lock order: the catalog, key locks, the entries of the keyspaces. No thread waits for background
/// work, nor for a write, while it holds the entries: tasks read them. With key locks held a write
/// waits for a flush at most (I4 of [`crate::write`]). A thread that holds any of them waits for no
/// thread that wakes futures, since wakers may lock them all.
pub(crate) struct Inner {
    pub(crate) options: Options,
    pub(crate) directory: Directory,
    pub(crate) journal: Arc<Journal>,
    pub(crate) order: WriteOrder,
    pub(crate) locks: KeyLocks,
    pub(crate) keyspaces: KeyspaceSet,
    pub(crate) background: Background,
    /// Asks for the journal to be maintained as soon as it has grown.
    pub(crate) upkeep: Upkeep,
    /// The resources that engines are opened with.
    pub(crate) factory: EngineFactory,
    pub(crate) lifecycle: Lifecycle,
}

impl Db {
    /// Returns the same database by a handle whose batches, and whose keyspaces, wait for
    /// `durability`.
    #[must_use]
    pub fn durability(&self, durability: Durability) -> Self {
        Self { durability, ..self.clone() }
    }

    /// Returns the number of the newest write so far.
    pub fn last(&self) -> SeqNo {
        self.inner.order.sequence.last()
    }

    /// Returns once every journaled write up to `seqno` has reached `durability`. Threads that wait
    /// at the same time share one write to the kernel or one sync.
    ///
    /// # Errors
    /// [`Error::Journal`] with [`crate::error::Journal::NoRoom`]: nothing is lost, and the same
    /// call succeeds once there is room. After any other failure of the journal the database is
    /// read-only. [`Error::Closed`].
    pub fn wait(&self, seqno: SeqNo, durability: Durability) -> Result<()> {
        self.inner.lifecycle.check_open()?;
        self.inner.wait_as_writer(seqno, true, durability).map(drop)
    }

    /// Makes every acknowledged journaled write durable on the device.
    ///
    /// # Errors
    /// As [`Db::wait`].
    pub fn sync(&self) -> Result<()> {
        self.wait(self.last(), Durability::Synced)
    }

    /// Flushes every keyspace into its engine's own files, where it is durable when this returns,
    /// and trims the journal. During a backup or a checkpoint the journal is trimmed later, in the
    /// background.
    ///
    /// # Errors
    /// As [`Keyspace::flush`], of the first keyspace that fails: the ones after it are not flushed.
    /// Damaged keyspaces are left out.
    pub fn flush(&self) -> Result<()> {
        self.inner.lifecycle.check_open()?;
        let sound = |keyspace: &Keyspace| keyspace.entry.damage.is_none();
        for keyspace in self.keyspaces().into_iter().filter(sound) {
            keyspace.flush()?;
        }
        self.inner.trim_journal()
    }

    /// Flushes every keyspace, as [`Db::flush`] does, and removes all files that the journal has
    /// now: it continues in another one. For files in a place that may lose them. Writes continue
    /// meanwhile.
    ///
    /// # Errors
    /// As [`Db::flush`].
    pub fn renew_journal(&self) -> Result<()> {
        self.inner.lifecycle.check_open()?;
        let rotated = self.inner.journal.rotate();
        rotated.map_err(|error| self.inner.lifecycle.fail(error.into()))?;
        self.flush()
    }

    /// Returns the failure for which writes are refused, if they are.
    pub fn failure(&self) -> Option<Error> {
        if let Err(forked) = self.inner.lifecycle.check_process() {
            return Some(forked);
        }
        self.inner.lifecycle.failure().cloned()
    }

    /// Returns the wall clock by which values expire, in milliseconds since the Unix epoch.
    pub fn now_ms(&self) -> u64 {
        self.inner.options.environment.wall_ms()
    }

    /// Returns the registry that counts this database's work. It has the figures of [`Db::stats`]
    /// only after [`DatabaseMetrics::refresh`](crate::DatabaseMetrics::refresh).
    pub fn telemetry(&self) -> &Registry {
        &self.inner.factory.telemetry
    }

    /// Returns handles to all keyspaces, by name; also to damaged ones, each of whose calls gets
    /// [`Error::DamagedKeyspace`].
    pub fn keyspaces(&self) -> Vec<Keyspace> {
        if self.inner.lifecycle.check_process().is_err() {
            return Vec::new();
        }
        let entries = self.inner.keyspaces.entries.read();
        let handle = |entry: &Arc<KeyspaceEntry>| Keyspace {
            inner: Arc::clone(&self.inner),
            entry: Arc::clone(entry),
            durability: self.durability,
            form: ValueForm::Values,
        };
        entries.values().map(handle).collect()
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").field("place", &self.directory.place).finish_non_exhaustive()
    }
}
