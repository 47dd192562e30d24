//! The state of a connection between commands.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use rand::Rng as _;
use thermocline::environment::Random;

use crate::clients::Client;
use crate::connection::LARGE_COMMAND_BYTES;
use crate::protocol::Args;
use crate::protocol::args::OwnedArgs;
use crate::store::DbIndex;
use crate::watch::{Changed, Watches};

/// Whether replies go out (CLIENT REPLY).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplyMode {
    On,
    Off,
    /// The command at hand asked that the next one's reply be skipped.
    SkipNext,
    /// The command at hand is that next one.
    Skip,
}

/// A connection's state.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) client: Arc<Client>,
    pub(crate) db: DbIndex,
    pub(crate) resp3: bool,
    pub(crate) authenticated: bool,
    pub(crate) reply_mode: ReplyMode,
    /// The commands since MULTI.
    pub(crate) queue: Option<Queue>,
    pub(crate) watched: Watched,
    pub(crate) changed: Changed,
    /// Whether reads of keys do not count as uses of them (CLIENT NO-TOUCH).
    pub(crate) no_touch: bool,
    /// Whether a command of EXEC runs, and whether one of them asked for a BGSAVE after it.
    pub(crate) in_exec: bool,
    pub(crate) saves_after_exec: bool,
    /// Close once the replies so far are out.
    pub(crate) closing: bool,
    /// Index of the last command in the table.
    pub(crate) last_command: u16,
    /// Bytes of memory of a thread that has the state, and runs a command with it.
    lent_bytes: usize,
    random: Random,
}

impl Session {
    /// The state of a connection that has just been opened.
    pub(crate) fn new(client: Arc<Client>, authenticated: bool, random: Random) -> Self {
        Self {
            client,
            db: 0,
            resp3: false,
            authenticated,
            reply_mode: ReplyMode::On,
            queue: None,
            watched: Watched::default(),
            changed: Changed::default(),
            no_touch: false,
            in_exec: false,
            saves_after_exec: false,
            closing: false,
            last_command: u16::MAX,
            lent_bytes: 0,
            random,
        }
    }

    /// Lends the state to a thread that runs a command with arguments of `args_bytes`. Without it
    /// the connection can be closed, and that is all.
    pub(crate) fn lend(&mut self, args_bytes: usize) -> Self {
        let rest = Self {
            db: self.db,
            resp3: self.resp3,
            reply_mode: self.reply_mode,
            closing: self.closing,
            last_command: self.last_command,
            lent_bytes: self.memory_bytes() + args_bytes,
            ..Self::new(Arc::clone(&self.client), self.authenticated, self.random.clone())
        };
        std::mem::replace(self, rest)
    }

    /// Bytes of memory of a thread that has the state.
    pub(crate) fn lent_bytes(&self) -> usize {
        self.lent_bytes
    }

    /// Takes back the state that was lent.
    pub(crate) fn take_back(&mut self, lent: Self) {
        let is_closing = self.closing || lent.closing;
        *self = Self { closing: is_closing, ..lent };
    }

    /// Returns a random number below `count`; 0 if that is 0.
    pub(crate) fn pick(&mut self, count: usize) -> usize {
        (self.random.next_u64() % count.max(1) as u64) as usize
    }

    /// Shows others the changes (CLIENT LIST).
    pub(crate) fn publish(&self) {
        let shown = &self.client.shown;
        shown.db.store(self.db, Relaxed);
        shown.resp3.store(self.resp3, Relaxed);
        shown.last_command.store(self.last_command, Relaxed);
        shown.in_multi.store(self.queue.is_some(), Relaxed);
        shown.queued.store(self.queue.as_ref().map_or(0, |queue| queue.commands.len()), Relaxed);
    }

    /// Bytes of memory that queued commands and watched keys take.
    pub(crate) fn memory_bytes(&self) -> usize {
        let queue = self.queue.as_ref().map_or(0, |queue| queue.memory_bytes);
        self.watched.memory_bytes + queue + self.lent_bytes
    }
}

/// The keys that a connection watches.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    places: HashMap<(DbIndex, Vec<u8>), Place>,
    memory_bytes: usize,
}

/// A watched key, when it was added.
#[derive(Debug, Default)]
struct Place {
    /// The expiry of its value.
    expiry_ms: Option<u64>,
    /// Its stored value, if the store is of other processes.
    stored: Option<Option<Vec<u8>>>,
}

impl Watched {
    /// Bytes that a watched key takes besides its own, here and in [`crate::watch::Watches`],
    /// about.
    const OVERHEAD_BYTES: usize = 192;

    /// Adds a key without an expiry; returns whether it was not there.
    pub(crate) fn insert(&mut self, db: DbIndex, key: &[u8]) -> bool {
        let is_new = !self.places.contains_key(&(db, key.to_vec()));
        if is_new {
            self.places.insert((db, key.to_vec()), Place::default());
            // The key is kept twice.
            self.memory_bytes += 2 * key.len() + Self::OVERHEAD_BYTES;
        }
        is_new
    }

    /// Remembers the expiry of the value of a key that is there.
    pub(crate) fn note_expiry(&mut self, db: DbIndex, key: &[u8], expiry_ms: Option<u64>) {
        let place = self.places.entry((db, key.to_vec())).or_default();
        place.expiry_ms = expiry_ms;
    }

    /// Remembers the stored value of a key that is there, if none is remembered.
    pub(crate) fn note_stored(&mut self, db: DbIndex, key: &[u8], stored: Option<&[u8]>) {
        let Some(place) = self.places.get_mut(&(db, key.to_vec())) else { return };
        if place.stored.is_none() {
            self.memory_bytes += stored.map_or(0, <[u8]>::len);
            place.stored = Some(stored.map(<[u8]>::to_vec));
        }
    }

    /// Returns the keys, and the stored values that are remembered.
    pub(crate) fn stored(&self) -> impl Iterator<Item = (DbIndex, &[u8], Option<Option<&[u8]>>)> {
        self.places.iter().map(|((db, key), place)| {
            (*db, key.as_slice(), place.stored.as_ref().map(Option::as_deref))
        })
    }

    /// Returns whether a key that had not expired when it was added has expired since, unless it
    /// was written.
    pub(crate) fn is_expired(&self, now_ms: u64) -> bool {
        let mut ends = self.places.values().filter_map(|place| place.expiry_ms);
        ends.any(|expiry_ms| expiry_ms <= now_ms)
    }

    /// Bytes of memory that they take, wherever they are kept.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// Forgets all of them, whose changes `watches` notes in `changed`.
    pub(crate) fn forget(&mut self, watches: &Watches, changed: &Changed) {
        self.memory_bytes = 0;
        let places = std::mem::take(&mut self.places).into_keys();
        places.for_each(|(db, key)| watches.remove(db, &key, changed));
    }
}

/// The commands between MULTI and EXEC.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// Index in the table, and arguments.
    pub(crate) commands: Vec<(usize, OwnedArgs)>,
    /// Whether a command was refused, so that EXEC must be.
    pub(crate) is_broken: bool,
    lacks_args: bool,
    memory_bytes: usize,
}

impl Queue {
    /// Bytes that a queued command takes besides its arguments, at most: a place in a list that may
    /// have doubled, and the heads of two allocations.
    const OVERHEAD_BYTES: usize = 2 * size_of::<(usize, OwnedArgs)>() + 32;

    /// Bytes of memory held.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }

    /// Queues a command. Many bytes of arguments are not copied: [`Queue::give_args`] brings them.
    pub(crate) fn push(&mut self, index: usize, args: Args<'_>) {
        self.lacks_args = args.total_bytes() >= LARGE_COMMAND_BYTES;
        let args = if self.lacks_args { OwnedArgs::default() } else { OwnedArgs::copy(args) };
        self.memory_bytes += args.memory_bytes() + Self::OVERHEAD_BYTES;
        self.commands.push((index, args));
    }

    /// Whether the last command has no arguments yet.
    pub(crate) fn lacks_args(&self) -> bool {
        self.lacks_args
    }

    /// Gives that command its arguments.
    pub(crate) fn give_args(&mut self, given: OwnedArgs) {
        if let Some((_, args)) = self.commands.last_mut() {
            self.memory_bytes += given.memory_bytes();
            *args = given;
        }
        self.lacks_args = false;
    }
}
