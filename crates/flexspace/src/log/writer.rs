//! The end of a log, to which frames are added.

use std::sync::Arc;

use device::{Buffer, Device, File, Mode, SyncKind};

use super::file_name;
use super::format::{self, LogHead, UNIT_BYTES_MIN};

/// Where a log ends: what the one that follows it says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogEnd {
    pub(crate) frames: u64,
    pub(crate) checksum: u32,
}

/// A log that is written.
#[derive(Debug)]
pub(crate) struct LogWriter {
    file: Arc<dyn File>,
    head: LogHead,
    end: LogEnd,
    /// Where the next frame goes.
    position: u64,
    /// Up to where the device has room for frames.
    allocated: u64,
    /// By how much the file grows at once, so that not every sync has a new length to make durable.
    growth_bytes: u64,
}

impl LogWriter {
    /// Makes the log `number`, with its first frame. Durable on return, but for its name.
    pub(crate) fn create(
        device: &dyn Device,
        (life, number): (u64, u64),
        follows: LogEnd,
        growth_bytes: u64,
        records: &[u8],
    ) -> Result<Self, device::Error> {
        let file = device.open(&file_name(number), Mode::CreateNew)?;
        // A unit that the device can write, in which nothing is written twice.
        let unit_bytes = (file.alignment() as u32).max(UNIT_BYTES_MIN);
        let LogEnd { frames, checksum } = follows;
        let head = LogHead {
            number,
            life,
            follows_frames: frames,
            follows_checksum: checksum,
            unit_bytes,
        };
        let (bytes, checksum) = head.encode();
        let end = LogEnd { frames: 0, checksum };
        let growth_bytes = growth_bytes.next_multiple_of(u64::from(unit_bytes));
        let mut log = Self { file, head, end, position: 0, allocated: 0, growth_bytes };
        log.write(&bytes)?;
        log.append(records)?;
        Ok(log)
    }

    /// The number of the log.
    pub(crate) fn number(&self) -> u64 {
        self.head.number
    }

    /// Where it ends.
    pub(crate) fn end(&self) -> LogEnd {
        self.end
    }

    /// How many bytes it has.
    pub(crate) fn bytes(&self) -> u64 {
        self.position
    }

    /// Makes sure that the device has room for a frame of `record_bytes`; nothing else is changed.
    pub(crate) fn reserve(&mut self, record_bytes: usize) -> Result<(), device::Error> {
        let unit = u64::from(self.head.unit_bytes);
        let bytes = (format::FRAME_HEAD_BYTES + record_bytes) as u64;
        let end = self.position + bytes.next_multiple_of(unit);
        if end > self.allocated {
            let to = end.next_multiple_of(self.growth_bytes);
            self.file.allocate(self.allocated, to - self.allocated)?;
            self.allocated = to;
        }
        Ok(())
    }

    /// Adds a frame; durable on return. What its records refer to is durable before the call.
    pub(crate) fn append(&mut self, records: &[u8]) -> Result<(), device::Error> {
        let LogEnd { frames, checksum } = self.end;
        let (frame, checksum) = format::encode_frame(self.head.salt(), frames, checksum, records);
        self.write(&frame)?;
        self.file.sync(SyncKind::Data)?;
        self.end = LogEnd { frames: frames + 1, checksum };
        Ok(())
    }

    /// Writes a piece, with zeros to the end of its unit.
    fn write(&mut self, bytes: &[u8]) -> Result<(), device::Error> {
        let unit = self.head.unit_bytes as usize;
        let mut buffer = Buffer::zeroed(bytes.len().next_multiple_of(unit));
        buffer[..bytes.len()].copy_from_slice(bytes);
        self.file.write_at(self.position, &buffer)?;
        self.position += buffer.len() as u64;
        Ok(())
    }
}
