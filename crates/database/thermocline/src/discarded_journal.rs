//! An opening without the journal ([`crate::Options::discard_journal`]).
//!
//! 1. The files of the journal are removed. A crash here leaves a journal that is still refused.
//!    The next opening discards it.
//! 2. The journal begins again, at the least number up to which an engine has its writes.
//! 3. A record without steps takes a number above those of all engines: later openings demand that
//!    the journal reaches as far as each engine.

use device::{Device, join};

use crate::Durability;
use crate::database::Inner;
use crate::error::Result;
use crate::open::JOURNAL_DIR;

/// Step 1.
pub(crate) fn remove(device: &dyn Device) -> Result<()> {
    if !device.exists(JOURNAL_DIR)? {
        return Ok(());
    }
    for entry in device.list(JOURNAL_DIR)? {
        device.remove(&join(JOURNAL_DIR, &entry.name))?;
    }
    Ok(device.sync_dir(JOURNAL_DIR)?)
}

impl Inner {
    /// Step 3.
    pub(crate) fn begin_after_discard(&self) -> Result<()> {
        let seqno = self.number(true, |_| ())?.seqno();
        self.wait_durable(seqno, true, Durability::Synced).map(drop)
    }
}
