//! Reads logs back, and distinguishes a torn end from damage.
//!
//! Bytes that are no frame end the log, unless a frame is behind them. Each frame is written after
//! the sync of the one before (G1), so then the bytes were a whole frame once. The same holds for
//! the head: the first frame is synced with it, so with a later frame behind it, it was whole once.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use codec::{Corruption, Reader};
use device::{Device, File, Mode};

use super::file_name;
use super::format::{self, FRAME_HEAD_BYTES, HEAD_BYTES, LogHead, Record, UNIT_BYTES_MIN};
use super::writer::LogEnd;
use crate::data::Geometry;
use crate::space::Error;

/// The result of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Replayed {
    /// Records of the logs that belong to the state.
    pub(crate) records: u64,
}

/// Shows all records of the log `first` of the life `life`, and of the logs that follow it.
///
/// # Errors
/// [`Error::Corruption`] if a log is damaged, or missing; the errors of `see`.
pub(crate) fn replay(
    device: &dyn Device,
    (life, first): (u64, u64),
    geometry: Geometry,
    see: &mut impl FnMut(Record) -> Result<(), Corruption>,
) -> Result<Replayed, Error> {
    let mut replayed = Replayed::default();
    let mut before: Option<LogEnd> = None;
    for number in first.. {
        let name = file_name(number);
        if before.is_some() && !device.exists(&name)? {
            break;
        }
        let file = device.open(&name, Mode::Read)?;
        let len = file.len()?;
        let mut head = [0; HEAD_BYTES];
        let decoded = match file.read_at(0, &mut head) {
            Ok(()) => LogHead::decode(&head),
            Err(device::Error::UnexpectedEnd { .. }) => {
                Err(Corruption::new("a log ends in its head", 0))
            }
            Err(error) => return Err(error.into()),
        };
        let (head, checksum) = match decoded {
            Ok(found) => found,
            Err(damage) => {
                let is_first = before.is_none();
                let is_newer = damage.newer.is_some();
                if is_newer
                    || is_first
                    || has_second_frame(&*file, &name, len, (life, number), geometry)?
                {
                    return Err(damage.at(&name, 0).into());
                }
                // Its making was cut short: nothing but its first frame was written to it.
                break;
            }
        };
        let follows = LogEnd { frames: head.follows_frames, checksum: head.follows_checksum };
        match before {
            // Made by an opening that was cut short, which has changed nothing.
            Some(_) if head.life != life => break,
            Some(end) if end != follows => {
                let what = "a log ends elsewhere than the one behind it says";
                return Err(Corruption::new(what, 0).at(&file_name(number - 1), 0).into());
            }
            _ => {}
        }
        if head.number != number || head.life != life {
            return Err(Corruption::new("another log than the one named", 0).at(&name, 0).into());
        }
        let mut log = LogReader { file: &*file, name: &name, len, head, geometry };
        let (end, records) = log.frames(checksum, see)?;
        replayed.records += records;
        before = Some(end);
    }
    Ok(replayed)
}

/// Returns whether a log with a damaged head was made nevertheless: a frame behind its first one is
/// whole. Its frames are known by their salt, which needs no head.
fn has_second_frame(
    file: &dyn File,
    name: &str,
    len: u64,
    (life, number): (u64, u64),
    geometry: Geometry,
) -> Result<bool, Error> {
    let (follows_frames, follows_checksum) = (0, 0);
    // Units of any device are multiples of this one.
    let unit_bytes = UNIT_BYTES_MIN;
    let head = LogHead { number, life, follows_frames, follows_checksum, unit_bytes };
    LogReader { file, name, len, head, geometry }.has_frame_behind(0, 1)
}

struct LogReader<'a> {
    file: &'a dyn File,
    name: &'a str,
    len: u64,
    head: LogHead,
    geometry: Geometry,
}

impl LogReader<'_> {
    /// Shows the records of all frames. The chain begins with the head's checksum.
    fn frames(
        &mut self,
        checksum: u32,
        see: &mut impl FnMut(Record) -> Result<(), Corruption>,
    ) -> Result<(LogEnd, u64), Error> {
        let mut end = LogEnd { frames: 0, checksum };
        let mut count = 0;
        let mut position = u64::from(self.head.unit_bytes);
        while let Some((frame, checksum)) = self.frame(position, Some(end))? {
            let records = frame.get(FRAME_HEAD_BYTES..).unwrap_or_default();
            let mut fields = Reader::new(records);
            while !fields.is_empty() {
                let at = fields.position() as u64;
                let record = Record::take(&mut fields, self.geometry).and_then(|record| {
                    see(record).map_err(|damage| Corruption::new(damage.what, at))
                });
                record
                    .map_err(|damage| damage.at(self.name, position + FRAME_HEAD_BYTES as u64))?;
                count += 1;
            }
            end = LogEnd { frames: end.frames + 1, checksum };
            position += (frame.len() as u64).next_multiple_of(u64::from(self.head.unit_bytes));
        }
        self.check_end(position, end)?;
        Ok((end, count))
    }

    /// Returns the frame at `position`, if there is one that is whole and, if that is asked, the
    /// next one after `end`; with its checksum.
    fn frame(&self, position: u64, end: Option<LogEnd>) -> Result<Option<(Vec<u8>, u32)>, Error> {
        let mut bytes = vec![0; FRAME_HEAD_BYTES];
        if position + bytes.len() as u64 > self.len {
            return Ok(None);
        }
        self.file.read_at(position, &mut bytes)?;
        let Some(head) = format::decode_frame_head(&bytes, self.head.salt()) else {
            return Ok(None);
        };
        let is_next =
            end.is_none_or(|end| (end.frames, end.checksum) == (head.sequence, head.previous));
        let room = self.len - position - bytes.len() as u64;
        if !is_next || head.record_bytes > room {
            return Ok(None);
        }
        // No longer than the rest of the file.
        bytes.resize(FRAME_HEAD_BYTES + head.record_bytes as usize, 0);
        self.file.read_at(position, &mut bytes)?;
        Ok(head.verifies(&bytes).then_some((bytes, head.checksum)))
    }

    /// Refuses a log that has a whole frame behind `end`.
    fn check_end(&self, end: u64, log_end: LogEnd) -> Result<(), Error> {
        if self.has_frame_behind(end, log_end.frames + 1)? {
            let what = "a frame of the log is damaged, and one behind it is whole";
            return Err(Corruption::new(what, end).at(self.name, 0).into());
        }
        Ok(())
    }

    /// Returns whether behind the unit at `position` a frame of this number, or a later one, is
    /// whole.
    fn has_frame_behind(&self, position: u64, sequence: u64) -> Result<bool, Error> {
        let unit = u64::from(self.head.unit_bytes);
        let mut position = position + unit;
        while position < self.len {
            if let Some((frame, _)) = self.frame(position, None)?
                && format::decode_frame_head(&frame, self.head.salt())
                    .is_some_and(|head| head.sequence >= sequence)
            {
                return Ok(true);
            }
            position += unit;
        }
        Ok(false)
    }
}
