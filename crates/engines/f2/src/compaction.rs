//! Releasing space of the logs (section 5 of the F2 paper, *lookup-based*).
//!
//! | compaction | live records of the oldest part | file |
//! |---|---|---|
//! | hot to cold | are appended to the cold log and named by the cold index | `hot_cold` |
//! | cold to cold | are appended to the cold log again | `cold_cold` |
//! | chunks | are appended to the chunk log again | `crate::cold_index` |
//! | of a single log | are appended to it again | `copy`, or as a baseline `scan_based` |
//!
//! Each is a task of its own in the background, one round at a time, concurrent with the others and
//! with user operations, which never take part:
//!
//! 1. [`plan`] decides how far: only figures go in, an address comes out.
//! 2. The part is read page by page, some ahead, and its live records are copied. Memory: [`Work`],
//!    and the pages that are read.
//! 3. [`truncate`] moves the log's beginning, and has entries of the hot index that lead below it
//!    cleared.
//! 4. A checkpoint names the beginning; only then the segments go.
//!
//! # Invariants
//! - C1. A record below the new beginning is dead, or its copy can be found, before the beginning
//!   moves.
//! - C2. A tombstone is not copied. With a single log, the records that it hides are older, and are
//!   dropped with it. With two, it has removed their entries from the cold index when the beginning
//!   moves.
//! - C3. An entry of the hot index is freed only when no thread is protected any more that was
//!   protected while the beginning moved. So no thread takes an entry without an address for one
//!   that has never had one.
//! - C4. Segments go after the checkpoint that does not need them (`checkpoint`).

mod cold_cold;
mod compactions;
mod copy;
mod fan_out;
mod figures;
mod hot_cold;
mod liveness;
mod merge_tag_entries;
mod pending_liveness;
mod plan;
mod reclaim;
mod scan_based;
mod truncate;
mod work;

use std::sync::Arc;

use engine::Result;
use workers::StopToken;

use crate::address::LogAddress;
use crate::cold::Cold;
use crate::held_room::RoomToCompact;
use crate::hybrid_log::HybridLog;
use crate::store::Shared;

pub(crate) use compactions::Compactions;
pub(crate) use copy::Copied;
pub(crate) use fan_out::together;
pub(crate) use figures::CompactionFigures;
pub(crate) use plan::Figures;
pub(crate) use reclaim::{DeadBytes, usual_bytes};
pub(crate) use work::Work;

impl Shared {
    /// Compacts the oldest part of the hot log if the plan says so. `false`: there was nothing to
    /// do.
    pub(crate) fn compact_if_due(self: &Arc<Self>, stop: &StopToken) -> Result<bool> {
        let Some(_one_at_a_time) = self.compactions.hot.turn.try_lock() else { return Ok(false) };
        self.health.check_writable()?;
        match &self.cold {
            Some(cold) => self.compact_hot(cold, stop),
            None => self.compact_single(stop),
        }
    }

    fn compact_hot(self: &Arc<Self>, cold: &Cold, stop: &StopToken) -> Result<bool> {
        let compacted = &self.compactions.hot.figures;
        self.begin_reclaim_if_due()?;
        let figures = self.figures_of(&self.hot.log, compacted);
        let (disk_bytes_max, is_crowded) = (self.hot_disk_bytes_max(), self.is_index_crowded());
        let is_wanted = plan::is_wanted_of_hot(&figures, disk_bytes_max, is_crowded);
        self.forgive_unless(is_wanted || self.is_reclaiming(), compacted);
        // Entries of the last round are to be gone before another one is made for their sake.
        let is_crowded = !self.hot.is_scrubbing() && is_crowded;
        let until = self.reclaim_round(&figures).or_else(|| {
            plan::plan_hot(&figures, disk_bytes_max, is_crowded, &self.hot.log.geometry)
        });
        let Some(until) = until else { return Ok(false) };
        if until > figures.flushed {
            // The index is full before the log is: the records in memory only have to be on disk
            // first.
            self.hot.log.shift_read_only(until);
            return Ok(false);
        }
        if !self.checkpoints.gate.allows(until) {
            // A checkpoint is being cut; that is soon over.
            return Ok(false);
        }
        let _room = self.room_for_round(compacted, &self.hot.log)?;
        let copied = self.move_if_readable(cold, figures.begin, until, stop);
        cold.unnamed_from.end();
        if !self.note(compacted, &self.hot.log, copied)? {
            return Ok(false);
        }
        self.release()?;
        Ok(true)
    }

    fn move_if_readable(
        self: &Arc<Self>,
        cold: &Cold,
        from: LogAddress,
        until: LogAddress,
        stop: &StopToken,
    ) -> Result<Option<Copied>> {
        let compacted = &self.compactions.hot.figures;
        if compacted.failed_rounds().is_some() && !self.try_reading(cold, from, until, stop)? {
            return Ok(None);
        }
        compacted.begin_round(from, until);
        self.move_to_cold(cold, from, until, stop)
    }

    /// Compacts the oldest part of the cold log, if there is one and the plan says so.
    pub(crate) fn compact_cold_if_due(self: &Arc<Self>, stop: &StopToken) -> Result<bool> {
        let Some(cold) = &self.cold else { return Ok(false) };
        let compaction = &self.compactions.cold;
        let Some(_one_at_a_time) = compaction.turn.try_lock() else { return Ok(false) };
        self.health.check_writable()?;
        let mut figures = self.figures_of(&cold.log, &compaction.figures);
        figures.dead_share = Some(cold.dead_share());
        let geometry = &cold.log.geometry;
        let is_wanted = plan::is_wanted(&figures, compaction.disk_bytes_max, geometry);
        self.forgive_unless(is_wanted, &compaction.figures);
        let Some(until) = plan::plan(&figures, compaction.disk_bytes_max, geometry) else {
            return Ok(false);
        };
        self.compact_cold_until(cold, until, stop)
    }

    /// Runs a round of the cold log up to `until`, on the thread that compacts it. `false`: it was
    /// stopped, or the liveness of the records there is not known yet.
    fn compact_cold_until(
        self: &Arc<Self>,
        cold: &Cold,
        until: LogAddress,
        stop: &StopToken,
    ) -> Result<bool> {
        let compacted = &self.compactions.cold.figures;
        let geometry = &cold.log.geometry;
        let figures = self.figures_of(&cold.log, compacted);
        let until = cold.unnamed_from.clip(until);
        let until = geometry.segment_begin(geometry.segment(until));
        if until <= figures.begin {
            return Ok(false);
        }
        let _room = self.room_for_round(compacted, &cold.log)?;
        compacted.begin_round(figures.begin, until);
        let copied = self.copy_cold(cold, figures.begin, until, stop);
        if !self.note(compacted, &cold.log, copied)? {
            return Ok(false);
        }
        cold.shift_begin(until);
        self.release()?;
        Ok(true)
    }

    /// Compacts the oldest part of the chunk log, if there is one and that is worth it.
    pub(crate) fn compact_chunks_if_due(self: &Arc<Self>, stop: &StopToken) -> Result<bool> {
        let compacted = &self.compactions.chunks.figures;
        let Some(cold) = &self.cold else { return Ok(false) };
        let Some(_one_at_a_time) = self.compactions.chunks.turn.try_lock() else {
            return Ok(false);
        };
        self.health.check_writable()?;
        self.forgive_unless(cold.index.is_compaction_wanted(), compacted);
        let Some(until) = cold.index.compaction_due() else { return Ok(false) };
        let figures = self.figures_of(&cold.chunk_log, compacted);
        if figures.waits_after_failure() {
            return Ok(false);
        }
        self.compact_chunks_until(cold, until, stop)
    }

    /// A round of the chunk log up to `until`, by the one that compacts it. `false`: it was
    /// stopped.
    fn compact_chunks_until(
        self: &Arc<Self>,
        cold: &Cold,
        until: LogAddress,
        stop: &StopToken,
    ) -> Result<bool> {
        let compacted = &self.compactions.chunks.figures;
        let figures = self.figures_of(&cold.chunk_log, compacted);
        let _room = self.room_for_round(compacted, &cold.chunk_log)?;
        compacted.begin_round(figures.begin, until);
        let note_progress = |at| compacted.note_progress(at);
        let is_whole = cold.index.compact(until, stop, &note_progress);
        let copied = is_whole.map(|is_whole| is_whole.then(Copied::default));
        if !self.note(compacted, &cold.chunk_log, copied)? {
            return Ok(false);
        }
        self.release()?;
        Ok(true)
    }

    fn compact_single(self: &Arc<Self>, stop: &StopToken) -> Result<bool> {
        let compacted = &self.compactions.hot.figures;
        let figures = self.figures_of(&self.hot.log, compacted);
        let geometry = &self.hot.log.geometry;
        let is_wanted = plan::is_wanted(&figures, self.hot_disk_bytes_max(), geometry);
        self.forgive_unless(is_wanted, compacted);
        let Some(until) = plan::plan(&figures, self.hot_disk_bytes_max(), geometry) else {
            return Ok(false);
        };
        let _room = self.room_for_round(compacted, &self.hot.log)?;
        compacted.begin_round(figures.begin, until);
        let copied = match self.compactions.by_scan {
            false => self.copy_live(figures.begin, until, stop),
            true => self.copy_by_scan(figures.begin, until, stop),
        };
        if !self.note(compacted, &self.hot.log, copied)? {
            return Ok(false);
        }
        self.truncate(until);
        self.update_level();
        self.release()?;
        Ok(true)
    }

    /// Room on the device for the copies of a round. If there is none, the round has failed.
    fn room_for_round(
        &self,
        figures: &CompactionFigures,
        log: &HybridLog,
    ) -> Result<RoomToCompact<'_>> {
        self.hold_room_to_compact().inspect_err(|error| {
            self.note_failed_round(figures, log, error);
        })
    }

    /// A log that is not to be compacted has no background error, however its last round ended.
    fn forgive_unless(&self, is_wanted: bool, figures: &CompactionFigures) {
        if !is_wanted && figures.forgive() {
            self.background.errors.succeed(figures.work());
            self.update_level();
        }
    }

    /// Notes how a round ended; `false` if it was stopped.
    fn note(
        &self,
        figures: &CompactionFigures,
        log: &HybridLog,
        copied: Result<Option<Copied>>,
    ) -> Result<bool> {
        figures.end_round();
        match copied {
            Ok(Some(copied)) => {
                figures.note(&copied, log.tail());
                self.background.errors.succeed(figures.work());
                self.update_level();
                Ok(true)
            }
            Ok(None) => Ok(false),
            Err(error) => {
                self.note_failed_round(figures, log, &error);
                Err(error)
            }
        }
    }

    fn figures_of(&self, log: &HybridLog, compacted: &CompactionFigures) -> Figures {
        let (flushed, tail) = (log.flushed(), log.tail());
        Figures {
            begin: log.begin(),
            flushed,
            tail,
            bytes: log.bytes(),
            appended: compacted.appended_since(tail),
            live_share: compacted.live_share(),
            dead_share: None,
            failed: compacted.failed(tail, self.host.environment.now()),
        }
    }
}
