//! The moves of the borders: each waits for all threads that may rely on the border's old place.
//!
//! ```text
//! READ_ONLY moves -> epoch -> SAFE_READ_ONLY -> flush -> HEAD -> epoch -> memory free, SAFE_HEAD
//! ```

use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Release};

use engine::Result;
use sync::atomic::Ordering;
use workers::Class;

use super::HybridLog;
use super::read_only::{Cut, when_nobody_changes};
use crate::address::LogAddress;
use crate::planted::{Planted, mutant, relaxed_if};

impl HybridLog {
    /// The address below which no thread reads in memory any more.
    pub(super) fn safe_head(&self) -> LogAddress {
        LogAddress::new(self.regions.safe_head.load(Ordering::Acquire))
    }

    pub(super) fn check_writable(&self) -> Result<()> {
        self.health.check_writable()
    }

    /// The tail has entered `page`: older pages become read-only, the oldest go.
    pub(super) fn after_turn(self: &Arc<Self>, page: u64) {
        let mutable_pages = self.geometry.mutable_pages(self.frames());
        let mutable_from = (page + 1).saturating_sub(mutable_pages);
        self.shift_read_only(self.geometry.page_begin(mutable_from));
        self.advance_head();
    }

    /// Makes everything below `to` read-only: immediately for a thread that reads the border now,
    /// and for all once they have left their epoch.
    pub(crate) fn shift_read_only(self: &Arc<Self>, to: LogAddress) {
        if self.regions.read_only.advance(to) {
            self.end_mutability(to);
        }
    }

    /// Ends the tail's block, makes everything below read-only, and returns the address of its end.
    /// Every later append is above, and a thread that knows of one changes nothing below [H8]. The
    /// caller is protected, and no other thread cuts.
    pub(crate) fn cut(self: &Arc<Self>) -> LogAddress {
        let Cut { tail, at, has_moved } =
            self.regions.read_only.cut(&self.tail, |tail| self.end_of_block(tail));
        self.fill_block(tail);
        if has_moved {
            self.end_mutability(at);
        }
        at
    }

    /// `READ_ONLY` has moved to `to`: no thread changes anything below once all have left.
    fn end_mutability(self: &Arc<Self>, to: LogAddress) {
        let log = Arc::clone(self);
        // [H2]
        when_nobody_changes(&self.epochs, move || {
            log.regions.safe_read_only.fetch_max(to.get(), Ordering::AcqRel);
            log.queue_flush();
        });
    }

    /// Queues a background flush of all pages that may be flushed. If the pool is stopping, the
    /// thread that waits flushes.
    pub(super) fn queue_flush(self: &Arc<Self>) {
        if self.flushes.is_queued.swap(true, AcqRel) {
            return;
        }
        let log = Arc::downgrade(self);
        let queued = self.flushes.workers.submit(Class::Flush, "flush log", move |_stop| {
            let Some(log) = log.upgrade() else { return };
            // A failure is remembered, and reported to the next writer.
            let is_done = loop {
                match log.flush_some() {
                    Ok(true) => {}
                    flushed => break flushed.is_ok(),
                }
            };
            // Until here other threads found this task, and queued none that would wait for it on
            // another thread of the pool. This acquires the pages that they had made read-only
            // before.
            log.flushes.is_queued.swap(false, AcqRel);
            if is_done && log.flushed() < log.safe_read_only() {
                log.queue_flush();
            }
        });
        if queued.is_err() {
            self.flushes.is_queued.store(false, Release);
        }
    }

    /// Whether there are pages that are read-only and not flushed. A flush may be under way.
    pub(crate) fn is_flush_due(&self) -> bool {
        self.flushed() < self.safe_read_only()
    }

    /// Queues a flush of pages whose flush has failed for lack of room.
    pub(crate) fn flush_again(self: &Arc<Self>) {
        if self.is_flush_due() {
            self.queue_flush();
        }
    }

    /// Releases the oldest pages in memory, so that there is memory for one ahead of the tail.
    pub(super) fn advance_head(self: &Arc<Self>) {
        let tail_page = self.geometry.page(self.tail());
        self.advance_head_to((tail_page + 2).saturating_sub(self.frames()));
    }

    /// Releases the pages in memory that are below `wanted` and flushed.
    pub(crate) fn advance_head_to(self: &Arc<Self>, wanted: u64) {
        let flushed = self.geometry.page(self.flushed());
        let to = self.geometry.page_begin(wanted.min(flushed)).get();
        let before = self.regions.head.fetch_max(to, Ordering::AcqRel);
        if before >= to {
            return;
        }
        let log = Arc::clone(self);
        // [H3]
        let give_up = move || log.give_up_below(to);
        mutant!(Planted::GivenUpEarly, self.epochs.bump_with(give_up), give_up());
    }

    /// Abandons everything below `to`. The files stay until [`super::Segments::remove_below`].
    pub(crate) fn shift_begin(&self, to: LogAddress) {
        // Release: a thread that reads it also reads all that was counted before [O3 of `ops`].
        let order = relaxed_if(Planted::RelaxedBegin, Ordering::AcqRel);
        self.regions.begin.fetch_max(to.get(), order);
    }
}
