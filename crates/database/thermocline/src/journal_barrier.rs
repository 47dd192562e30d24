//! The barrier between engines' files and the journal.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};

use codec::SeqNo;
use engine::Barrier;
use journal::{Durability, Journal};

use crate::error::{Error, Result};
use crate::room_to_open::JournalRoom;

/// Holds engines' files back until the journal has the same writes. The journal is opened after the
/// engines that its records go to, so it is set later.
#[derive(Debug, Default)]
pub(crate) struct JournalBarrier {
    journal: OnceLock<Arc<Journal>>,
    /// Held by a database that is open for writing.
    room: OnceLock<JournalRoom>,
    /// The newest write of which an engine's files are known to hold an effect, while there is no
    /// journal: engines found it in their files, or it was replayed.
    held: AtomicU64,
}

impl JournalBarrier {
    pub(crate) fn set(&self, journal: Arc<Journal>) {
        let _ = self.journal.set(journal);
    }

    pub(crate) fn set_room(&self, room: JournalRoom) {
        let _ = self.room.set(room);
    }

    /// Returns the room that is held for the journal; `None` before the opening has succeeded.
    pub(crate) fn room(&self) -> Option<&JournalRoom> {
        self.room.get()
    }

    /// Waits until the journal has synced everything up to `seqno`, if need be with the room that
    /// is held for it.
    fn wait(&self, journal: &Journal, seqno: SeqNo) -> Result<()> {
        let wait = || Ok(journal.wait(seqno, Durability::Synced)?);
        self.room().map_or_else(wait, |room| room.spend(journal, wait))
    }

    pub(crate) fn held(&self) -> SeqNo {
        SeqNo::new(self.held.load(Relaxed))
    }
}

impl Barrier for JournalBarrier {
    fn reach(&self, seqno: SeqNo) -> engine::Result<SeqNo> {
        // During replay there is no journal yet, and no need: opening it syncs the records that it
        // hands out. Numbers above them are in no journal, whatever the sequence has reached.
        let Some(journal) = self.journal.get() else { return Ok(seqno.min(self.held())) };
        let upto = seqno.min(journal.last_record());
        let reached = self.wait(journal, seqno);
        reached.map(|()| upto).map_err(|error| match error {
            Error::Journal(journal::Error::NoRoom { cause }) => {
                engine::Error::NoRoomForJournal { cause }
            }
            Error::Journal(journal::Error::Stopped { cause }) => engine::Error::of_journal(cause),
            Error::Engine(of_ballast) => of_ballast,
            // A wait has no other failure.
            _ => engine::Error::of_journal(engine::Error::Closed),
        })
    }

    fn is_journaled(&self) -> bool {
        true
    }

    fn holds(&self, newest: SeqNo) {
        self.held.fetch_max(newest.get(), Relaxed);
    }
}
