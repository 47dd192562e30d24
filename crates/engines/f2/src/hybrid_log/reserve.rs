//! Room reserved for a batch, so that its steps hardly ever fail half way for lack of a page.
//!
//! A page can be turned to without waiting if there is memory for it. A reservation counts pages
//! for which there is memory already; threads without a reservation leave that number to threads
//! that have one. They may still fill a page that a holder turned to. So a flush that fails just
//! while a batch is applied, concurrently with a storm of other writes, can leave a part of the
//! batch visible. That lasts until the store is opened again and the journal makes it whole.

use std::sync::Arc;

use engine::Result;
use sync::atomic::Ordering;
use sync::thread::yield_now;

use super::HybridLog;
use super::allocate::LEFT_TO_OTHERS;

/// Reserved pages; released on drop.
pub(crate) struct Reservation<'a> {
    log: &'a HybridLog,
    pages: u64,
}

impl HybridLog {
    /// Reserves room for records of `bytes` in all, twice their size, since a record that loses the
    /// race to be linked is written again. Returns `None` if that never fits in memory: then a
    /// failure of the storage may leave a part of the batch visible until the store is opened
    /// again. Blocks while there is not enough; the caller is not protected [H4].
    ///
    /// # Errors
    /// The store is closed, or a flush failed.
    pub(crate) fn reserve(self: &Arc<Self>, bytes: u64) -> Result<Option<Reservation<'_>>> {
        let pages = self.pages_to_reserve(bytes);
        loop {
            self.check_writable()?;
            if pages + 3 > self.frames() {
                return Ok(None);
            }
            let reserved = self.reserved_pages.load(Ordering::Acquire);
            let tail_page = self.geometry.page(self.tail());
            let order = (Ordering::AcqRel, Ordering::Relaxed);
            if self.has_room_after(tail_page + reserved + pages)
                && self
                    .reserved_pages
                    .compare_exchange(reserved, reserved + pages, order.0, order.1)
                    .is_ok()
            {
                return Ok(Some(Reservation { log: self, pages }));
            }
            self.make_room(reserved + pages)?;
        }
    }

    fn pages_to_reserve(&self, bytes: u64) -> u64 {
        (2 * bytes).div_ceil(self.geometry.page_bytes()) + 1
    }

    /// Returns whether room for `bytes` could be reserved now without waiting, one page more
    /// included if other writers would turn to it. They have the part of a page that is left to
    /// them ([`HybridLog::has_room_for`]).
    pub(crate) fn has_room_to_reserve(&self, bytes: u64) -> bool {
        let pages = self.pages_to_reserve(bytes);
        let reserved = self.reserved_pages.load(Ordering::Acquire);
        let tail = self.tail();
        let tail_page = self.geometry.page(tail);
        let left = self.geometry.page_begin(tail_page + 1).get().saturating_sub(tail.get());
        let turned = u64::from(left < self.geometry.page_bytes() / LEFT_TO_OTHERS);
        pages + turned + 3 <= self.frames()
            && self.has_room_after(tail_page + turned + reserved + pages)
    }

    /// Returns whether a write of `steps` steps and `bytes` bytes finds room now without waiting: a
    /// write of several steps reserves its pages when it is applied, if that number ever fits in
    /// memory.
    pub(crate) fn has_room_for_steps(&self, steps: usize, bytes: u64) -> bool {
        match steps > 1 && self.may_ever_reserve(bytes) {
            true => self.has_room_to_reserve(bytes),
            false => self.has_room_for(bytes),
        }
    }

    /// Blocks until [`HybridLog::has_room_for_steps`] holds, and helps to make room. The caller is
    /// not protected [H4].
    ///
    /// # Errors
    /// The store is closed, or a flush failed. That the log's addresses are used up is no error
    /// here.
    pub(crate) fn wait_for_room_for_steps(
        self: &Arc<Self>,
        steps: usize,
        bytes: u64,
    ) -> Result<()> {
        if steps <= 1 || !self.may_ever_reserve(bytes) {
            return self.wait_for_room_for(bytes);
        }
        while !self.has_room_to_reserve(bytes) {
            self.check_writable()?;
            // One more, for a page that others turn to.
            let pages = self.pages_to_reserve(bytes) + 1;
            self.make_room(self.reserved_pages.load(Ordering::Acquire) + pages)?;
        }
        Ok(())
    }

    /// Whether its pages, and one that others turn to, ever fit in memory.
    fn may_ever_reserve(&self, bytes: u64) -> bool {
        self.pages_to_reserve(bytes) + 4 <= self.frames()
    }

    /// Does something so that there is memory for `pages` behind the tail.
    fn make_room(self: &Arc<Self>, pages: u64) -> Result<()> {
        // Pages count as evictable only once they are read-only.
        let tail_page = self.geometry.page(self.tail());
        let evicted = (tail_page + pages + 2).saturating_sub(self.frames());
        self.shift_read_only(self.geometry.page_begin(evicted.min(tail_page)));
        if !self.flush_some()? {
            self.advance_head_to(evicted);
            yield_now();
        }
        Ok(())
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.log.reserved_pages.fetch_sub(self.pages, Ordering::AcqRel);
    }
}
