//! Commands that read several keys which memory does not have.
//!
//! 1. The command looks, alone in the gate, whether memory has all of its keys. If so, it runs.
//! 2. Otherwise it watches them and waits. The thread that reads walks reads their values, many together, and
//!    other clients go on.
//! 3. It runs again with the values, alone. If one of the keys was written meanwhile, they are read again;
//!    after some attempts the command reads them itself, and the others wait.
//!
//! # Invariants
//! - F1. Values that a command is given are those of the moment at which it runs: it is registered as a watcher
//!   before the first key is read, and no writer is in the gate when it looks whether a key changed.

use std::sync::atomic::Ordering::Relaxed;

use super::call::Means;
use super::command::Command;
use super::{Call, Failure};
use crate::session::Session;
use crate::shared::Shared;
use crate::store::DbIndex;
use crate::store::reads::Keys;
use crate::store::seat::Purpose;
use crate::watch::Changed;

/// Keys that are read so, at most: a command of more reads them itself.
const KEYS_MAX: usize = 16_384;
/// How often the keys of one command are read.
const ATTEMPTS_MAX: u32 = 3;

/// The keys of a command that waits for their values.
#[derive(Debug)]
pub(crate) struct Fetch {
    pub(crate) keys: Keys,
    changed: Changed,
    attempts: u32,
}

impl Fetch {
    /// Bytes of memory that it takes, with the places of its keys in [`crate::watch::Watches`].
    pub(crate) fn memory_bytes(&self) -> usize {
        const OVERHEAD_BYTES: usize = 192;
        self.keys.keys.iter().map(|key| 2 * key.capacity() + OVERHEAD_BYTES).sum()
    }
}

impl Call<'_> {
    /// Checks, alone in the gate, whether the command may run now, and by what means it reads.
    ///
    /// # Errors
    /// [`Failure::Waits`] if its keys have to be read before; [`Failure::NoRoom`] if they cannot be kept
    /// until then; the store's.
    pub(crate) fn fetch(&mut self, command: &Command) -> Result<(), Failure> {
        let db = self.session.db;
        if let Some(fetch) = &mut self.session.fetch {
            if !fetch.changed.swap(false, Relaxed) {
                // Values that were read hold; and if they could not be, the command says why.
                forget(self.shared, self.session);
                return Ok(());
            }
            fetch.attempts += 1;
            if fetch.attempts < ATTEMPTS_MAX {
                return Err(Failure::Waits(Purpose::Keys));
            }
            forget(self.shared, self.session);
            self.means = Means::Blocking;
            return Ok(());
        }
        self.means = Means::Blocking;
        let count = command.keys.places(self.args.len()).count();
        if count > KEYS_MAX || !self.waits_for_device(command, db)? {
            return Ok(());
        }
        let keys = command.keys.places(self.args.len()).filter_map(|at| self.args.get(at));
        let keys: Vec<Vec<u8>> = keys.map(<[u8]>::to_vec).collect();
        let changed = Changed::default();
        keys.iter().for_each(|key| self.shared.watches.add(db, key, &changed));
        let shows_values = command.name == "mget";
        let keys = Keys { db, keys, shows_values };
        let fetch = self.session.fetch.insert(Fetch { keys, changed, attempts: 0 });
        if let Err(failure) = self.room.hold(fetch.memory_bytes()) {
            forget(self.shared, self.session);
            return Err(failure);
        }
        Err(Failure::Waits(Purpose::Keys))
    }

    /// Whether memory does not have one of the keys.
    fn waits_for_device(&mut self, command: &Command, db: DbIndex) -> Result<bool, Failure> {
        if !self.store.may_wait(db) {
            return Ok(false);
        }
        for at in command.keys.places(self.args.len()) {
            if self.store.get_at_once(db, self.args.at(at), self.scratch)?.is_none() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Ends the wait of a session for the values of keys.
pub(crate) fn forget(shared: &Shared, session: &mut Session) {
    let Some(fetch) = session.fetch.take() else { return };
    let Keys { db, keys, .. } = &fetch.keys;
    keys.iter().for_each(|key| shared.watches.remove(*db, key, &fetch.changed));
}
