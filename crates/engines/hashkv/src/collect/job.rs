//! A job: the judgement of one group, and the segments that can be collected.

use std::collections::BTreeSet;

use codec::SeqNo;

use super::exchange::Victim;
use super::judge::Judgement;
use super::plan::Candidate;
use crate::segment_table::{Described, State};
use crate::values::bound::ROUNDING_BYTES;
use crate::values::group::Group;

/// The judgement of a group, and its segments.
pub(crate) struct Job {
    /// The sealed segments: the first sources of the judgement, in its order.
    pub(super) sealed: Vec<Described>,
    pub(super) judgement: Judgement,
    pub(super) durable: SeqNo,
    pub(super) segment_bytes: u64,
}

impl Job {
    /// Notes what is known of the group's bytes. `holding` are snapshots that hold records, and
    /// `unknown` bytes were so before.
    pub(super) fn note(&mut self, group: &Group, holding: BTreeSet<SeqNo>, unknown: u64) {
        let mut records = 0;
        let (mut live, mut rounding, mut dead, mut pending, mut held) = (0, 0, 0, 0, 0);
        let mut until = self.judgement.pending_until;
        for (at, judged) in self.judgement.segments.iter().enumerate() {
            let Some(described) = self.sealed.get(at) else { continue };
            let known = judged.live_bytes + judged.held_bytes + judged.pending_bytes;
            let rest = (described.end() as u64).saturating_sub(known + judged.dead_bytes);
            rounding += rest.min(self.rounding(described));
            live += judged.live_bytes;
            records += judged.live_records;
            held += judged.held_bytes;
            pending += judged.pending_bytes;
            // A segment above the durable number is no victim yet.
            match newest(described) > self.durable {
                true => {
                    pending += self.dead(at);
                    until = until.max(newest(described));
                }
                false => dead += self.dead(at),
            }
        }
        let mut state = group.state.lock();
        let ledger = &mut state.ledger;
        (ledger.live, ledger.rounding, ledger.dead) = (live, rounding, dead);
        (ledger.pending, ledger.held) = ((pending, until), held);
        (ledger.live_records, ledger.pins) = (records, holding.into_iter().collect());
        ledger.unknown = ledger.unknown.saturating_sub(unknown);
        ledger.found = 0;
    }

    /// Returns the segments that the job may collect.
    pub(super) fn candidates(&self) -> Vec<Candidate> {
        let candidate = |(at, described): (usize, &Described)| Candidate {
            number: described.number,
            bytes: described.end() as u64,
            copied: self.copied(at),
            dead: self.dead(at),
            age: self.durable.get().saturating_sub(newest(described).get()),
        };
        let sealed = self.sealed.iter().enumerate();
        // A record with several places of its own is never copied.
        let may_go = |(at, described): &(usize, &Described)| {
            newest(described) <= self.durable
                && (described.place.count == 1 || self.copied(*at) == 0)
        };
        sealed.filter(may_go).map(candidate).collect()
    }

    pub(super) fn source(&self, number: u64) -> Option<usize> {
        self.sealed.iter().position(|described| described.number == number)
    }

    /// Returns the bytes that collecting a segment copies.
    pub(super) fn copied(&self, source: usize) -> u64 {
        let judged = self.judgement.segments.get(source);
        judged.map_or(0, |it| it.live_bytes + it.pending_bytes + it.held_bytes)
    }

    /// Returns the bytes that collecting a segment frees: records, and paddings.
    pub(super) fn dead(&self, source: usize) -> u64 {
        let (Some(judged), Some(described)) =
            (self.judgement.segments.get(source), self.sealed.get(source))
        else {
            return 0;
        };
        let known = judged.dead_bytes + self.copied(source);
        let rest = (described.end() as u64).saturating_sub(known);
        judged.dead_bytes + rest.saturating_sub(self.rounding(described))
    }

    /// Returns the bytes of a segment beyond records and entries that collecting does not free. A
    /// segment that is half empty can be put together with others.
    pub(super) fn rounding(&self, described: &Described) -> u64 {
        let end = described.end() as u64;
        match end > self.segment_bytes / 2 {
            true => ROUNDING_BYTES,
            false => ROUNDING_BYTES.min(end / 8),
        }
    }

    /// Returns a victim. `gone` are all segments that the job removes.
    pub(super) fn victim(&self, source: usize, gone: &[bool]) -> Option<Victim<'_>> {
        let described = self.sealed.get(source)?;
        let judged = self.judgement.segments.get(source)?;
        let is_gone = |other: usize| gone.get(other).copied().unwrap_or(false);
        let markers = self.judgement.markers_without(source, is_gone);
        Some(Victim { described, judged, markers })
    }
}

/// Returns the largest number of a record.
fn newest(described: &Described) -> SeqNo {
    match described.state {
        State::Sealed { newest, .. } => newest,
        State::Open { .. } => SeqNo::MAX,
    }
}
