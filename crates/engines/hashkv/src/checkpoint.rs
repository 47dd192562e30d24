//! A whole copy of the store in another directory, while it runs.
//!
//! No job exchanges segments meanwhile: it could drop a record that the copy of the index names.
//!
//! 1. The index is copied. Its barrier flushes the write buffers, so each record that the copy
//!    names is on the device then.
//! 2. The bytes of the segments that the segment table names are copied. Records that are newer
//!    than the copy of the index are void in the copy.
//! 3. The copy gets a segment table. From this moment it is a store.

use std::collections::BTreeSet;
use std::sync::Arc;

use codec::SeqNo;
use device::Device;
use edits::Chain;
use engine::{GoOn, Result};

use crate::INDEX_DIR;
use crate::segment_table::{Described, Edit};
use crate::store::Shared;
use crate::volumes::Volumes;

/// Bytes that are copied at a time.
const COPY_BYTES: u64 = 1 << 20;

impl Shared {
    /// Writes an openable copy of all writes that were applied before the call to `into`, which has
    /// no store yet.
    pub(crate) fn checkpoint(
        self: &Arc<Self>,
        into: &Arc<dyn Device>,
        go_on: &GoOn<'_>,
    ) -> Result<()> {
        self.health.check_writable()?;
        Chain::<Edit>::check_absent(&**into)?;
        let held = self.values.gates.hold_exchanges();
        // The copy would count void records that the store knows.
        let examined = self.values.finish_examination();
        let copied = examined.and_then(|()| self.copy_all(into, go_on));
        drop(held);
        // Writers may wait for a job.
        self.group.note_progress();
        self.collect_if_due();
        copied
    }

    /// Copies the index, the segments that the table names then, and the table.
    fn copy_all(&self, into: &Arc<dyn Device>, go_on: &GoOn<'_>) -> Result<()> {
        let copied = self.index.checkpoint(into.subdevice(INDEX_DIR)?, go_on);
        copied.map_err(|error| self.values.failures.placed(error))?;
        let contents = self.values.with_table(|table| Ok(table.all.as_edit()))?;
        let segment_bytes = self.values.geometry.segment_bytes;
        let volumes = Volumes::new(Arc::clone(into), segment_bytes);
        for described in &contents.put {
            volumes.claim(described.place)?;
        }
        let numbers: BTreeSet<u32> = contents.put.iter().map(|it| it.place.volume).collect();
        numbers.into_iter().try_for_each(|number| volumes.write_header(number).map(|_| ()))?;
        for described in &contents.put {
            self.copy(described, &volumes, go_on)?;
        }
        volumes.sync()?;
        Chain::write_copy(&**into, SeqNo::ZERO, &contents)
    }

    /// Copies a segment to the same place of other volumes.
    fn copy(&self, described: &Described, into: &Volumes, go_on: &GoOn<'_>) -> Result<()> {
        let place = described.place;
        let bytes = described.end() as u64;
        let mut offset = 0;
        while offset < bytes {
            go_on()?;
            self.health.check_open()?;
            let len = (bytes - offset).min(COPY_BYTES);
            let piece = self.values.volumes.read(place, offset, len as usize)?;
            into.write(place, offset, &piece)?;
            offset += len;
        }
        Ok(())
    }
}
