//! Opens the logs of a range under another epoch. (L6)
//!
//! 1. The StoCs of all segments that are not sealed promise the range to the epoch. Enough of each
//!    ensemble have to reply.
//! 2. The end of a segment is the one that the header of the next segment states, or that of the
//!    longest replica.
//! 3. The segment is copied until Qa StoCs have all of it, on their devices or in their memories.
//! 4. One compare-and-swap seals these segments, and registers two open ones, of all logs of the
//!    range. From then on the logs belong to this owner.

use std::collections::BTreeMap;

use rand::Rng;
use stoc::{Fenced, Kind, Request, Response, call_all};

use crate::error::{Error, Result};
use crate::header::Header;
use crate::log::{HEADER_BYTES, Log};
use crate::read::READ_BYTES_MAX;
use crate::record::{LogRecord, Member, Mode, Segment};
use crate::registry::{Change, RegistryError};
use crate::setup::Setup;

/// The replies of StoCs to a fence: their storage, and their logs.
type Replies = BTreeMap<u32, (Member, Fenced)>;

/// A segment that is not sealed yet, and the replicas of it that count.
struct Found<'s> {
    segment: &'s Segment,
    /// Their StoCs and lengths.
    replicas: Vec<(Member, u64)>,
}

/// Opens logs of a range, which are empty if the record has none of their kinds.
///
/// # Errors
/// [`Error::Fenced`] if another opening is ahead; [`Error::TooFewReplies`] and
/// [`Error::TooFewStocs`] if the opening has to be repeated later; [`Error::UnknownSegment`];
/// [`Error::Lost`]; [`Error::Unavailable`].
pub fn open(setup: &Setup, kinds: &[Kind]) -> Result<Vec<Log>> {
    let load = |kind: &Kind| {
        let record = setup.registry.load(*kind).map_err(|error| setup.refusal(error))?;
        Ok((*kind, record))
    };
    let records = kinds.iter().map(load).collect::<Result<Vec<_>>>()?;
    let open = records.iter().flat_map(|(_, record)| record.open_segments());
    let replies = setup.fence(open)?;
    let mut changes = Vec::new();
    for (kind, before) in records {
        check_known(kind, &before, &replies)?;
        let sealed = match setup.gives_up_log && kind == Kind::Log {
            true => setup.give_up(&before, &replies)?,
            false => setup.seal_all(kind, &before, &replies)?,
        };
        let after = setup.with_open_segments(kind, sealed, before.last_index())?;
        changes.push(Change { kind, before, after });
    }
    let changed = setup.registry.change(setup.epoch, &changes);
    changed.map_err(|error| setup.refusal(error))?;
    for Change { kind, before, after } in &changes {
        setup.seal_at_stocs(*kind, before, after);
    }
    let log = |change: Change| Log::new(setup.clone(), change.kind, change.after);
    Ok(changes.into_iter().map(log).collect())
}

/// Refuses segments with content that are newer than the record. A segment without content was
/// never registered.
fn check_known(kind: Kind, record: &LogRecord, replies: &Replies) -> Result<()> {
    let last = record.last_index();
    for (node, (_, fenced)) in replies {
        let unknown = fenced.logs.iter().find(|(name, length)| {
            name.kind == kind && name.number > last && length.is_some_and(|length| length > 0)
        });
        if let Some((name, _)) = unknown {
            return Err(Error::UnknownSegment { node: *node, found: name.number, last });
        }
    }
    Ok(())
}

impl Setup {
    fn refusal(&self, error: RegistryError) -> Error {
        match error {
            RegistryError::Fenced => self.fenced(),
            RegistryError::Unavailable(what) => Error::Unavailable(what.into()),
        }
    }

    /// Step 1. Returns the replies that came.
    fn fence<'s>(&self, open: impl Iterator<Item = &'s Segment>) -> Result<Replies> {
        let mut nodes: Vec<u32> = open.flat_map(Segment::nodes).collect();
        nodes.sort_unstable();
        nodes.dedup();
        let links: Vec<_> = nodes.iter().filter_map(|node| self.stocs.link(*node)).collect();
        let request = Request::Fence { range: self.range, epoch: self.epoch };
        let replies = call_all(&links, &request, self.timing());
        let mut counted = Replies::new();
        for (link, reply) in links.iter().zip(replies) {
            let member = Member::of(link.identity());
            match reply {
                Ok(Response::Fenced(fenced)) => _ = counted.insert(member.node, (member, fenced)),
                Err(stoc::Error::Fenced { .. }) => return Err(self.fenced()),
                _ => {}
            }
        }
        Ok(counted)
    }

    /// Steps 2 and 3. Returns the record with all segments sealed, without the empty ones.
    fn seal_all(&self, kind: Kind, before: &LogRecord, replies: &Replies) -> Result<LogRecord> {
        let find = |segment| self.find(kind, segment, replies);
        let open = before.open_segments().map(find).collect::<Result<Vec<_>>>()?;
        let mut segments: Vec<Segment> = before.segments.clone();
        segments.retain(|segment| segment.sealed.is_some());
        for (at, found) in open.iter().enumerate() {
            let stated = match open.get(at + 1).filter(|next| next.longest() > 0) {
                Some(next) => {
                    let header = self.header(kind, next)?;
                    Some(header.previous_end).filter(|_| header.previous == found.segment.index)
                }
                None => None,
            };
            let (end, longest) = (stated.unwrap_or(found.longest()), found.longest());
            let index = found.segment.index;
            if end > longest {
                return Err(Error::Lost { segment: index, end, found: longest });
            }
            // A segment with no more than a header is as good as none.
            if end > HEADER_BYTES {
                let part = Some(self.header(kind, found)?.part);
                let ensemble = self.copy(kind, found, end)?;
                let sealed = Some(end);
                segments.push(Segment { ensemble, part, sealed, ..found.segment.clone() });
            }
        }
        Ok(LogRecord { segments })
    }

    /// Takes the place of steps 2 and 3 for a lost log that the owner abandons. Returns a record
    /// without segments. An earlier owner gets no quorum, because E − Qa + 1 StoCs of each segment
    /// have promised the range to this epoch. An empty StoC in the place of a lost one counts, so
    /// the process of the lost one must not run.
    fn give_up(&self, before: &LogRecord, replies: &Replies) -> Result<LogRecord> {
        for segment in before.open_segments() {
            let has_replied = |node: &u32| replies.contains_key(node);
            let have = segment.nodes().filter(has_replied).count();
            let need = self.replies_needed(segment);
            if have < need {
                let missing = segment.nodes().filter(|node| !has_replied(node)).collect();
                let (segment, is_lost) = (segment.index, false);
                return Err(Error::TooFewReplies { segment, have, need, missing, is_lost });
            }
        }
        Ok(LogRecord::default())
    }

    /// Returns the number of StoCs of a segment whose replies an opening needs. (L6)
    fn replies_needed(&self, segment: &Segment) -> usize {
        (segment.ensemble.len() + 1).saturating_sub(self.quorum).max(1)
    }

    /// Returns the replicas of a segment that count.
    fn find<'s>(&self, kind: Kind, segment: &'s Segment, replies: &Replies) -> Result<Found<'s>> {
        let name = segment.name(self.range, kind);
        let replica = |member: &Member| {
            let (found, fenced) = replies.get(&member.node)?;
            // The segment was registered after all its log files were there, so one that is missing
            // is lost.
            let (_, length) = fenced.logs.iter().find(|(log, _)| *log == name)?;
            segment.is_of(member, found).then_some((*found, (*length)?))
        };
        let replicas: Vec<_> = segment.ensemble.iter().filter_map(replica).collect();
        let (have, need) = (replicas.len(), self.replies_needed(segment));
        if have < need {
            let is_missing = |node: &u32| replicas.iter().all(|(member, _)| member.node != *node);
            let missing = segment.nodes().filter(is_missing).collect();
            let replied = segment.nodes().filter(|node| replies.contains_key(node)).count();
            // A StoC that has not replied may have a replica.
            let is_lost = replied == segment.ensemble.len();
            let segment = segment.index;
            return Err(Error::TooFewReplies { segment, have, need, missing, is_lost });
        }
        Ok(Found { segment, replicas })
    }

    /// Reads the header of a segment.
    fn header(&self, kind: Kind, found: &Found<'_>) -> Result<Header> {
        let ensemble = found.holders(HEADER_BYTES);
        let replica = Segment { ensemble, ..found.segment.clone() };
        let header = self.read(kind, &replica, 0, HEADER_BYTES)?;
        Ok(Header::decode(&header)?)
    }

    /// Copies a segment until Qa StoCs have its bytes up to `end`. Returns all StoCs that have
    /// them.
    fn copy(&self, kind: Kind, found: &Found<'_>, end: u64) -> Result<Vec<Member>> {
        let mut ensemble = found.holders(end);
        let source = Segment { ensemble: ensemble.clone(), ..found.segment.clone() };
        let shorter = found.replicas.iter().filter(|(_, length)| *length < end);
        for (member, length) in shorter {
            if self.copy_to(kind, &source, *member, *length, end)? {
                ensemble.push(*member);
            }
        }
        // Other StoCs replace the missing ones.
        let avoid: Vec<u32> = found.segment.nodes().collect();
        let (name, epoch) = (found.segment.name(self.range, kind), self.epoch);
        let in_memory = found.segment.mode == Mode::Memory;
        let more = self.quorum.saturating_sub(ensemble.len());
        for link in self.stocs.choose(more, &avoid) {
            let member = Member::of(link.identity());
            let created = self.call(&link, &Request::CreateLog { name, epoch, in_memory });
            let exists = matches!(created, Err(stoc::Error::Exists { .. }));
            if (created.is_ok() || exists) && self.copy_to(kind, &source, member, 0, end)? {
                ensemble.push(member);
            }
        }
        match ensemble.len() >= self.quorum {
            true => Ok(ensemble),
            false => Err(Error::TooFewStocs { have: ensemble.len(), need: self.quorum }),
        }
    }

    /// Copies bytes of a segment to one StoC, which has those before `from`. Returns whether it has
    /// all of them now.
    fn copy_to(
        &self,
        kind: Kind,
        source: &Segment,
        to: Member,
        from: u64,
        end: u64,
    ) -> Result<bool> {
        let (name, epoch) = (source.name(self.range, kind), self.epoch);
        let Some(link) = self.stocs.link(to.node) else { return Ok(false) };
        let start = source.start_of(&to);
        let mut offset = from;
        while offset < end {
            let bytes = self.read(kind, source, offset, READ_BYTES_MAX.min(end - offset))?;
            let copied = bytes.len() as u64;
            let bytes = bytes.into();
            match self.call(&link, &Request::Append { name, epoch, start, offset, bytes }) {
                Ok(_) => offset += copied,
                Err(stoc::Error::Fenced { .. }) => return Err(self.fenced()),
                Err(_) => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Adds two open segments to a record.
    fn with_open_segments(&self, kind: Kind, record: LogRecord, last: u64) -> Result<LogRecord> {
        let mut record = record;
        let purpose = format!("open {kind:?} of range {} epoch {}", self.range, self.epoch);
        let mut random = self.environment.random(&purpose);
        for index in [last + 1, last + 2] {
            let made = self.create_segment(kind, (index, random.next_u64()), &[])?;
            if !self.has_quorum(&made) {
                // The next attempt of this owner gives its files the same names, so a release might
                // remove them: the first search for orphans finds the files of this attempt. (L8)
                let have = self.stocs.choose(self.ensemble, &[]).len();
                return Err(Error::TooFewStocs { have, need: self.quorum });
            }
            record.segments.push(made);
        }
        Ok(record)
    }

    /// Has the StoCs cut the sealed segments, and releases the empty ones.
    fn seal_at_stocs(&self, kind: Kind, before: &LogRecord, after: &LogRecord) {
        let (range, epoch) = (self.range, self.epoch);
        for segment in before.open_segments() {
            let name = segment.name(range, kind);
            let sealed = after.segments.iter().find(|sealed| sealed.index == segment.index);
            match sealed.and_then(|sealed| Some((sealed, sealed.sealed?))) {
                Some((sealed, length)) => {
                    self.send_to_ensemble(sealed, &Request::Seal { name, epoch, length });
                }
                None => {
                    self.send_to_ensemble(segment, &Request::Release { name, by: range, epoch })
                }
            }
        }
    }
}

impl Found<'_> {
    /// Returns the length of the longest replica.
    fn longest(&self) -> u64 {
        self.replicas.iter().map(|(_, length)| *length).max().unwrap_or(0)
    }

    /// Returns the StoCs that have all bytes up to `end`.
    fn holders(&self, end: u64) -> Vec<Member> {
        let holders = self.replicas.iter().filter(|(_, length)| *length >= end);
        holders.map(|(member, _)| *member).collect()
    }
}
