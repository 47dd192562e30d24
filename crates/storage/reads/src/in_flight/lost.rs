//! Lookups that a panic has lost while some of their reads were under way. The tags of these reads
//! name the slot of the lookup, so no other lookup can have it before they have ended.

use std::sync::Arc;

use engine::ReadSource;

/// The slots of lost lookups.
#[derive(Default)]
pub(super) struct LostLookups(Vec<Lost>);

struct Lost {
    slot: usize,
    /// Reads that have not ended.
    missing: usize,
    /// The address of their source.
    source: usize,
}

fn address(source: &Arc<dyn ReadSource>) -> usize {
    Arc::as_ptr(source).cast::<()>() as usize
}

impl LostLookups {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// From now on, a panic loses the lookup in a slot.
    pub(super) fn begin(
        &mut self,
        slot: usize,
        missing: usize,
        source: Option<&Arc<dyn ReadSource>>,
    ) {
        self.0.push(Lost { slot, missing, source: source.map_or(0, address) });
    }

    /// No panic has lost the lookup for which `begin` was called last.
    pub(super) fn undo(&mut self) {
        self.0.pop();
    }

    /// Notes that a read of the lookup in a slot has ended. Returns whether the slot is free now.
    pub(super) fn note_read(&mut self, slot: usize) -> bool {
        let Some(at) = self.0.iter().position(|lost| lost.slot == slot) else { return false };
        let Some(lost) = self.0.get_mut(at) else { return false };
        lost.missing -= 1;
        let is_free = lost.missing == 0;
        if is_free {
            self.0.swap_remove(at);
        }
        is_free
    }

    /// Notes that all reads of a source have ended. Adds the slots that are free now to `free`.
    pub(super) fn end_source(&mut self, source: &Arc<dyn ReadSource>, free: &mut Vec<usize>) {
        let ended = self.0.extract_if(.., |lost| lost.source == address(source));
        free.extend(ended.map(|lost| lost.slot));
    }
}
