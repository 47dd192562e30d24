//! The state of a command that walks over keys, from slice to slice.

use super::call::ReadMode;
use super::{Call, Failure, Outcome};
use crate::protocol::Reply;
use crate::store::session::Purpose;
use crate::store::walks::{From, Request, Slice, read_slice};

/// Bytes of keys from which on a thread makes the reply, so that no loop copies them.
const LARGE_BYTES: usize = 1 << 20;

/// A walk that a command has begun.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    /// The next slice.
    pub(crate) request: Request,
    /// Whether the command has chosen its beginning.
    pub(crate) has_begun: bool,
    /// Keys that the command has counted.
    pub(crate) count: u64,
    /// Keys of expired values that it has passed over.
    pub(crate) expired: usize,
    /// Whether there are no more keys. Only the reply is still to be made.
    pub(crate) is_over: bool,
    /// How many keys the reply has, and their part of it.
    pub(crate) shown: usize,
    pub(crate) keys: Vec<u8>,
}

impl Walk {
    /// Bytes of memory that it takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let from = if let From::Key(key) = &self.request.from { key.capacity() } else { 0 };
        size_of::<Self>() + self.keys.capacity() + from
    }

    /// Adds a key to the reply.
    pub(crate) fn show(&mut self, key: &[u8]) {
        Reply::new(&mut self.keys, false).bulk(key);
        self.shown += 1;
    }
}

/// Whether a walk has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// The reply is written.
    Done,
    /// The next slice is wanted.
    More,
}

impl Call<'_> {
    /// The walk that the command has begun, or begins.
    pub(crate) fn walking(&mut self) -> &mut Walk {
        self.walk.get_or_insert_default()
    }

    /// Calls `step` with one slice after another until it is done, beginning at the place that
    /// `begin` returns. A command that may not wait for the device ends with [`Failure::Parked`]
    /// before each slice.
    ///
    /// # Errors
    /// The store's; the errors of `step`.
    pub(crate) fn walk(
        &mut self,
        begin: impl FnOnce(&mut Self) -> Result<From, Failure>,
        mut step: impl FnMut(&mut Self, &Slice) -> Result<Flow, Failure>,
    ) -> Outcome {
        if !self.walking().has_begun {
            let from = begin(self)?;
            let db = self.session.db;
            self.walking().request.db = db;
            self.walking().request.from = from;
            self.walking().has_begun = true;
        }
        match self.read_mode {
            ReadMode::Walked(slice) => match step(self, slice)? {
                Flow::Done => Ok(()),
                Flow::More => Err(Failure::Parked(Purpose::Walk)),
            },
            ReadMode::Blocking => loop {
                let request = self.walking().request.clone();
                let slice = read_slice(self.store, &request)?;
                if step(self, &slice)? == Flow::Done {
                    return Ok(());
                }
            },
            ReadMode::AtOnce | ReadMode::Follows | ReadMode::Alone(_) | ReadMode::StoreRead(_) => {
                Err(Failure::Parked(Purpose::Walk))
            }
        }
    }

    /// Whether the reply has room for the keys that it is to show.
    ///
    /// # Errors
    /// [`Failure::NoRoom`], [`Failure::OutputLimit`].
    pub(crate) fn check_walk_room(&mut self) -> Outcome {
        let bytes = self.walking().keys.len();
        self.room.check(self.reply.extent().with_bulk(bytes))
    }

    /// Ends a walk with the array of the keys that are shown. The command runs again on a thread if
    /// they are many bytes, and calls this one first then.
    ///
    /// # Errors
    /// [`Failure::Parked`] for the thread.
    pub(crate) fn end_walk(&mut self) -> Outcome {
        if self.walking().keys.len() > LARGE_BYTES && !matches!(self.read_mode, ReadMode::Blocking)
        {
            self.walking().is_over = true;
            return Err(Failure::Parked(Purpose::Thread));
        }
        self.reply_keys();
        Ok(())
    }

    /// Writes the array of the keys that are shown.
    pub(crate) fn reply_keys(&mut self) {
        let keys = std::mem::take(&mut self.walking().keys);
        let shown = self.walking().shown;
        self.reply.array(shown);
        self.reply.encoded(&keys);
    }
}
