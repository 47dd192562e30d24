//! Reads of a log, and the removal of its files.

use std::collections::BTreeMap;
use std::time::Duration;

use stoc::{Request, Response};

use crate::error::{Error, Result};
use crate::log::{HEADER_BYTES, Log, Writer};
use crate::record::{LogRecord, Member, Part, Segment};
use crate::setup::Setup;

/// Bytes that are read with one request.
pub(crate) const READ_BYTES_MAX: u64 = 1 << 20;
/// The rounds of a read: the pause before a round, in which lost connections are made again, and
/// how many times the usual limit of a call each StoC gets.
const ROUNDS: [(Duration, u32); 3] =
    [(Duration::ZERO, 1), (Duration::from_millis(50), 8), (Duration::from_millis(200), 8)];

/// The bytes of a file that one segment has.
#[derive(Clone, Debug)]
struct Stored {
    segment: Segment,
    part: Part,
    /// The number of bytes, without the header.
    bytes: u64,
}

impl Stored {
    fn end(&self) -> u64 {
        self.part.offset + self.bytes
    }
}

impl Log {
    /// Returns the files with their lengths, the oldest first.
    pub fn files(&self) -> Vec<(u64, u64)> {
        let mut files = BTreeMap::new();
        for stored in self.lock().stored() {
            let length: &mut u64 = files.entry(stored.part.file).or_default();
            *length = stored.end().max(*length);
        }
        files.into_iter().collect()
    }

    /// Reads bytes of a file. Each StoC verifies the bytes that it returns.
    ///
    /// # Errors
    /// [`Error::NoFile`], [`Error::NotAtEnd`]; [`Error::Lost`] if no StoC can return the bytes, or
    /// the damage that one has found.
    pub fn read(&self, file: u64, offset: u64, bytes: u64) -> Result<Vec<u8>> {
        let all: Vec<Stored> = self.lock().stored().collect();
        let of_file: Vec<&Stored> = all.iter().filter(|stored| stored.part.file == file).collect();
        let length = of_file.iter().map(|stored| stored.end()).max();
        let length = length.ok_or(Error::NoFile { file })?;
        let end = offset.saturating_add(bytes);
        if end > length {
            return Err(Error::NotAtEnd { file, length });
        }
        let mut read = Vec::with_capacity(bytes as usize);
        for stored in of_file {
            let from = offset.max(stored.part.offset);
            let to = end.min(stored.end());
            if from < to {
                let at = HEADER_BYTES + from - stored.part.offset;
                read.extend(self.setup.read(self.kind, &stored.segment, at, to - from)?);
            }
        }
        Ok(read)
    }

    /// Removes all files with numbers below `file`, but not the newest. Their segments leave the
    /// record first. (L7)
    ///
    /// # Errors
    /// [`Error::Unavailable`] if the coordinator cannot be reached: the call may be repeated;
    /// [`Error::Fenced`].
    pub fn remove_before(&self, file: u64) -> Result<()> {
        let mut writer = self.lock();
        let (newest, _) = writer.end();
        let is_kept = |segment: &Segment| {
            let part = segment.part.filter(|_| segment.sealed.is_some());
            part.is_none_or(|part| part.file >= file.min(newest))
        };
        let all = writer.record.segments.iter().cloned();
        let (kept, removed): (Vec<_>, Vec<_>) = all.partition(is_kept);
        if removed.is_empty() {
            return Ok(());
        }
        if !self.change(&mut writer, LogRecord { segments: kept })? {
            return Err(Error::Unavailable("a log could not be trimmed".into()));
        }
        drop(writer);
        removed.iter().for_each(|segment| self.release(segment));
        Ok(())
    }
}

impl Writer {
    /// Returns the bytes that count, in the order of the log.
    fn stored(&self) -> impl Iterator<Item = Stored> {
        self.record.segments.iter().filter_map(|segment| {
            let sealed = segment.part.zip(segment.sealed);
            let left = self.left.as_ref().filter(|left| left.index == segment.index);
            let active = self.active.as_ref();
            let active = active.filter(|active| active.segment.index == segment.index);
            let (part, end) = sealed
                .or_else(|| left.map(|left| (left.part, left.end)))
                .or_else(|| active.map(|active| (active.part, active.end)))?;
            let bytes = end.saturating_sub(HEADER_BYTES);
            Some(Stored { segment: segment.clone(), part, bytes })
        })
    }
}

impl Setup {
    /// Reads bytes of a segment from any of its StoCs, with a request for each
    /// [`READ_BYTES_MAX`].
    ///
    /// # Errors
    /// [`Error::Lost`], or the damage that a StoC has found.
    pub(crate) fn read(
        &self,
        kind: stoc::Kind,
        segment: &Segment,
        offset: u64,
        bytes: u64,
    ) -> Result<Vec<u8>> {
        let mut read = Vec::with_capacity(bytes as usize);
        while (read.len() as u64) < bytes {
            let done = read.len() as u64;
            let part = READ_BYTES_MAX.min(bytes - done);
            read.extend(self.read_part(kind, segment, offset + done, part)?);
        }
        Ok(read)
    }

    /// Reads bytes of a segment from any of its StoCs, with one request to each. If no StoC has
    /// served it and one did not reply, there are more rounds.
    fn read_part(
        &self,
        kind: stoc::Kind,
        segment: &Segment,
        offset: u64,
        bytes: u64,
    ) -> Result<Vec<u8>> {
        let name = segment.name(self.range, kind);
        let end = offset + bytes;
        let mut failure = Error::Lost { segment: segment.index, end, found: 0 };
        for (pause, times) in ROUNDS {
            self.environment.sleep(pause);
            let mut is_late = false;
            for member in &segment.ensemble {
                let Some(link) = self.stocs.link(member.node) else { continue };
                if !segment.is_of(member, &Member::of(link.identity())) {
                    continue;
                }
                let request = Request::Read { name, offset, bytes };
                match stoc::call(&link, &request, (self.slow * times, &self.environment)) {
                    Ok(Response::Bytes(read)) if read.len() as u64 == bytes => return Ok(read),
                    Err(stoc::Error::Damaged(damage)) => failure = Error::Damaged(damage),
                    Err(stoc::Error::PastEnd { length, .. }) => {
                        if let Error::Lost { found, .. } = &mut failure {
                            *found = length.max(*found);
                        }
                    }
                    Err(stoc::Error::Unreachable { .. }) => is_late = true,
                    _ => {}
                }
            }
            if !is_late {
                break;
            }
        }
        Err(failure)
    }
}
