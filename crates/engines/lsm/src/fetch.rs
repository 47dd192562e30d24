//! Reading pieces of several tables at once, before a walk looks into each.

use std::sync::Arc;

use device::{Buffer, Queue, Request, Work};
use engine::Result;
use memory_budget::Account;

use crate::store::Shared;
use crate::table::Missing;

/// Pieces that are read at once.
const DEPTH: usize = 32;
/// Bytes that are read at once, or one piece that is longer.
const BYTES_MAX: usize = 1 << 20;

impl Shared {
    /// Reads pieces beside each other, so that the cache has them. What cannot be read, or is damaged,
    /// is left to whoever needs it, and so is what is too much.
    pub(crate) fn fetch(&self, missing: &[Missing]) {
        let Ok(mut queue) = self.host.device.queue(DEPTH) else { return };
        // The pieces that it could not read are read one by one.
        let _ = self.fetch_on(&mut *queue, missing);
    }

    fn fetch_on(&self, queue: &mut dyn Queue, missing: &[Missing]) -> Result<()> {
        let mut bytes = 0;
        let charge = Account::new(&self.host.memory);
        let mut spans = Vec::with_capacity(missing.len());
        for Missing { table, piece } in missing.iter().take(DEPTH) {
            let Some(span) = table.span(*piece)? else { continue };
            if bytes > 0 && bytes + span.read_len > BYTES_MAX {
                break;
            }
            bytes += span.read_len;
            charge.set(bytes as u64);
            let work = Work::Read { offset: span.offset, buffer: Buffer::zeroed(span.read_len) };
            let tag = spans.len() as u64;
            let request = Request { tag, file: Arc::clone(&span.file), work };
            spans.push((table, *piece, span));
            let submitted = queue.submit(request);
            assert!(submitted.is_ok(), "fewer are in flight than the queue has room for");
        }
        let mut completions = Vec::with_capacity(spans.len());
        queue.wait(spans.len(), &mut completions)?;
        for completion in completions {
            let Some((table, piece, span)) = spans.get(completion.tag as usize) else { continue };
            let read = completion.buffer.filter(|_| completion.result.is_ok());
            let wanted =
                read.as_deref().and_then(|it| it.get(span.skipped..span.skipped + span.len));
            // Damage is told to whoever needs the piece.
            let _ = wanted.map(|wanted| table.keep(*piece, wanted));
            self.cache.note_walked(1);
        }
        Ok(())
    }
}
