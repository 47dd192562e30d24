//! The replies of one client from its first command on that waits for the device.
//!
//! ```text
//!  sent and to be sent │ GET a waits │ reply of GET b │ GET c waits │ replies of GET d, GET e
//!     Output::bytes    │  entry 7    │    entry 8     │   entry 9   │        entry 10
//! ```
//!
//! # Invariants
//! - B1. Replies leave in the order of their commands: replies after a command that waits stay here
//!   until that one is answered.
//! - B2. The first entry waits, if there is any.
//! - B3. At most one lookup of a key is under way for a client. A later command that reads the
//!   same key follows: its lookup begins when the earlier one is answered, so that it shows
//!   nothing older, and nothing that was overwritten before it came.
//! - B4. A command that waits to change something, walks over keys, or is run by a thread, is alone
//!   here.
//! - B5. The lookup of a command that waits is wanted, or under way, or follows another one.

use std::collections::{BTreeSet, VecDeque};

use crate::buffer;
use crate::commands::Parked;
use crate::commands::walk::Walk;
use crate::protocol::Args;
use crate::protocol::args::OwnedArgs;
use crate::store::session::Purpose;

/// A command that waits.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) parked: Parked,
    pub(crate) args: OwnedArgs,
    /// Its arguments are still to be given to it.
    pub(super) lacks_args: bool,
    /// Index of its key among the arguments.
    key_place: usize,
    /// The entry that is looked up: its own, or the earlier one that it follows.
    of: u64,
    /// Its reply was too large for its place: it is made once no other one waits before it.
    pub(super) is_large: bool,
    /// The walk of a command that walks over keys.
    pub(super) walk: Option<Box<Walk>>,
}

impl Waiting {
    pub(crate) fn new(
        parked: Parked,
        args: Args<'_>,
        key_place: usize,
        walk: Option<Box<Walk>>,
    ) -> Self {
        let lacks_args = args.len() == 0;
        let args = OwnedArgs::copy(args);
        Self { parked, args, lacks_args, key_place, of: 0, is_large: false, walk }
    }

    /// The key that is looked up.
    pub(crate) fn key(&self) -> &[u8] {
        self.args.args().at(self.key_place)
    }

    fn memory_bytes(&self) -> usize {
        let walk = self.walk.as_deref().map_or(0, Walk::memory_bytes);
        size_of::<Self>() + self.args.memory_bytes() + walk
    }
}

#[derive(Debug)]
enum Entry {
    Parked(Box<Waiting>),
    /// It was taken out to be answered.
    Taken,
    Replies(Vec<u8>),
}

/// Bytes that a want takes in the set of them, about.
const WANT_BYTES: usize = 32;

/// The entries.
#[derive(Debug, Default)]
pub(crate) struct ReplyQueue {
    entries: VecDeque<Entry>,
    /// The first one's number.
    first: u64,
    waiting: usize,
    /// Commands whose lookup is to begin.
    wants: BTreeSet<u64>,
    /// Bytes of replies.
    reply_bytes: usize,
    /// Bytes of memory, but for the list's own.
    memory_bytes: usize,
}

impl ReplyQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Commands that wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// All that is here: commands that wait, and replies between them.
    pub(super) fn entries(&self) -> usize {
        self.entries.len()
    }

    /// Has the lookup of the command at `number` begin when it can.
    pub(super) fn want(&mut self, number: u64) {
        self.wants.insert(number);
    }

    /// Returns the first command whose lookup is to begin.
    pub(super) fn first_wanted(&self) -> Option<u64> {
        self.wants.first().copied()
    }

    /// Notes that the lookup of the command at `number` begins.
    pub(super) fn forget_want(&mut self, number: u64) {
        self.wants.remove(&number);
    }

    /// Returns the wait of the first command.
    pub(super) fn first_parked(&self) -> Option<&Parked> {
        self.waiting_at(self.first).map(|waiting| &waiting.parked)
    }

    pub(super) fn reply_bytes(&self) -> usize {
        self.reply_bytes
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.memory_bytes
            + self.entries.capacity() * size_of::<Entry>()
            + self.wants.len() * WANT_BYTES
    }

    /// Adds a command that waits. Returns its number if its lookup may begin.
    pub(super) fn push(&mut self, mut waiting: Waiting) -> Option<u64> {
        let number = self.first + self.entries.len() as u64;
        let earlier = self.lookup_of(waiting.key());
        waiting.of = earlier.unwrap_or(number);
        self.waiting += 1;
        self.memory_bytes += waiting.memory_bytes();
        self.entries.push_back(Entry::Parked(Box::new(waiting)));
        earlier.is_none().then_some(number)
    }

    /// Returns the entry that is looked up, of all entries that wait for `key`.
    pub(super) fn lookup_of(&self, key: &[u8]) -> Option<u64> {
        self.entries.iter().find_map(|entry| match entry {
            Entry::Parked(waiting) if waiting.key() == key => Some(waiting.of),
            _ => None,
        })
    }

    /// The command at `number`, if it waits there.
    pub(super) fn waiting_at(&self, number: u64) -> Option<&Waiting> {
        match self.entries.get(self.index(number)?)? {
            Entry::Parked(waiting) => Some(waiting),
            Entry::Taken | Entry::Replies(_) => None,
        }
    }

    /// Returns the first entry that followed entry `number`, which is answered: the other followers
    /// follow it now.
    pub(super) fn next_of(&mut self, number: u64) -> Option<u64> {
        let mut next = None;
        for (at, entry) in (self.first..).zip(&mut self.entries) {
            if let Entry::Parked(waiting) = entry
                && waiting.of == number
            {
                waiting.of = *next.get_or_insert(at);
            }
        }
        next
    }

    fn index(&self, number: u64) -> Option<usize> {
        usize::try_from(number.checked_sub(self.first)?).ok()
    }

    /// Whether the only command that waits has no arguments yet.
    pub(super) fn wants_args(&self) -> bool {
        self.waiting_at(self.first).is_some_and(|waiting| waiting.lacks_args)
    }

    /// Gives that command its arguments.
    pub(super) fn give_args(&mut self, args: OwnedArgs) {
        if let Some(mut waiting) = self.take(self.first) {
            waiting.args = args;
            waiting.lacks_args = false;
            self.put_back(self.first, waiting);
        }
    }

    /// Takes the arguments and the walk of the command at `number`, which a thread runs.
    pub(super) fn take_parts(&mut self, number: u64) -> Option<(OwnedArgs, Option<Box<Walk>>)> {
        let mut waiting = self.take(number)?;
        let parts = (std::mem::take(&mut waiting.args), waiting.walk.take());
        self.put_back(number, waiting);
        Some(parts)
    }

    /// Has a thread run the command at `number`, which waits.
    pub(super) fn leave_to_thread(&mut self, number: u64) {
        let entry = self.index(number).and_then(|index| self.entries.get_mut(index));
        if let Some(Entry::Parked(waiting)) = entry {
            waiting.parked.purpose = Purpose::ThreadAlone;
            self.want(number);
        }
    }

    /// Takes the command at `number` out, to be answered by [`ReplyQueue::answer`] or to come back
    /// by [`ReplyQueue::put_back`].
    pub(super) fn take(&mut self, number: u64) -> Option<Box<Waiting>> {
        let index = self.index(number)?;
        let entry = self.entries.get_mut(index)?;
        if !matches!(entry, Entry::Parked(_)) {
            return None;
        }
        match std::mem::replace(entry, Entry::Taken) {
            Entry::Parked(waiting) => {
                self.memory_bytes -= waiting.memory_bytes();
                Some(waiting)
            }
            Entry::Taken | Entry::Replies(_) => None,
        }
    }

    pub(super) fn put_back(&mut self, number: u64, waiting: Box<Waiting>) {
        if let Some(entry) = self.index(number).and_then(|index| self.entries.get_mut(index)) {
            self.memory_bytes += waiting.memory_bytes();
            *entry = Entry::Parked(waiting);
        }
    }

    /// Whether entry `number` is the first, whose reply can go out.
    pub(super) fn is_first(&self, number: u64) -> bool {
        self.first == number
    }

    /// Puts the reply of the command that was taken from `number` into its place. The first one's
    /// reply is in `out` already, and the replies after it are moved there.
    pub(super) fn answer(&mut self, number: u64, reply: Vec<u8>, out: &mut Vec<u8>) {
        self.waiting -= 1;
        if !self.is_first(number) {
            self.reply_bytes += reply.len();
            self.memory_bytes += reply.capacity();
            if let Some(entry) = self.index(number).and_then(|index| self.entries.get_mut(index)) {
                *entry = Entry::Replies(reply);
            }
            return;
        }
        self.entries.pop_front();
        self.first += 1;
        // [B2]
        while let Some(Entry::Replies(reply)) = self.entries.front() {
            self.reply_bytes -= reply.len();
            self.memory_bytes -= reply.capacity();
            buffer::reserve(out, reply.len());
            out.extend_from_slice(reply);
            self.entries.pop_front();
            self.first += 1;
        }
        if self.entries.is_empty() {
            self.entries.shrink_to(64);
        }
    }

    /// Takes out the buffer to which the next reply is appended.
    pub(super) fn take_tail(&mut self) -> Vec<u8> {
        if let Some(Entry::Replies(reply)) = self.entries.back_mut() {
            let reply = std::mem::take(reply);
            self.reply_bytes -= reply.len();
            self.memory_bytes -= reply.capacity();
            return reply;
        }
        self.entries.push_back(Entry::Replies(Vec::new()));
        Vec::new()
    }

    /// Puts it back.
    pub(super) fn put_tail(&mut self, reply: Vec<u8>) {
        if reply.is_empty() {
            self.entries.pop_back();
            return;
        }
        self.reply_bytes += reply.len();
        self.memory_bytes += reply.capacity();
        if let Some(entry) = self.entries.back_mut() {
            *entry = Entry::Replies(reply);
        }
    }
}

#[cfg(test)]
mod tests;
