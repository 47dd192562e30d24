//! The end of a log, to which frames are added.

use std::sync::Arc;

use device::{Buffer, Device, File, Mode, SyncKind};

use super::file_name;
use super::format::{self, LogHead, UNIT_BYTES_MIN};

/// Most bytes of one write, a multiple of every unit: records may be much of the memory, and are
/// not copied as a whole.
const WRITE_BYTES_MAX: usize = 256 << 10;

/// The end of a log, which the head of the next one records.
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
    /// The positions of the next frame and of the second one.
    position: u64,
    begun: u64,
    /// Up to where the device has room for frames.
    allocated: u64,
    /// Bytes by which the file grows in one step, so that not every sync has a new length to make
    /// durable.
    growth_bytes: u64,
}

/// A log that has room for its head and its first frame, and nothing else yet.
#[derive(Debug)]
pub(crate) struct EmptyLog {
    file: Arc<dyn File>,
    number: u64,
    unit_bytes: u32,
    bytes: u64,
}

impl EmptyLog {
    /// Makes the file of the log `number`.
    ///
    /// # Errors
    /// [`device::Error::NoSpace`] if there is no room; then there is no such file.
    pub(crate) fn create(
        device: &dyn Device,
        number: u64,
        records: &[u8],
    ) -> Result<Self, device::Error> {
        let name = file_name(number);
        let file = match device.open(&name, Mode::CreateNew) {
            // An attempt that could not be finished has left it.
            Err(device::Error::AlreadyExists { .. }) => {
                device.remove(&name)?;
                device.open(&name, Mode::CreateNew)?
            }
            made => made?,
        };
        // A unit that the device can write, in which nothing is written twice.
        let unit_bytes = (file.alignment() as u32).max(UNIT_BYTES_MIN);
        let frame_bytes = (format::FRAME_HEAD_BYTES + records.len()) as u64;
        let unit = u64::from(unit_bytes);
        let bytes = unit + frame_bytes.next_multiple_of(unit);
        if let Err(error) = file.allocate(0, bytes) {
            drop(file);
            device.remove(&name)?;
            return Err(error);
        }
        Ok(Self { file, number, unit_bytes, bytes })
    }
}

impl LogWriter {
    /// Makes the log `number`, with its first frame. Durable on return, except its name.
    #[cfg(all(test, not(any(loom, shuttle))))]
    pub(crate) fn create(
        device: &dyn Device,
        (life, number): (u64, u64),
        follows: LogEnd,
        growth_bytes: u64,
        records: &[u8],
    ) -> Result<Self, device::Error> {
        let empty = EmptyLog::create(device, number, records)?;
        Self::begin(empty, life, follows, growth_bytes, records)
    }

    /// Writes the head and the first frame, of the records that the file has room for. Durable on
    /// return, except its name.
    ///
    /// # Errors
    /// The device's errors. The file may then be a whole log, so the log before it must not
    /// continue.
    pub(crate) fn begin(
        empty: EmptyLog,
        life: u64,
        follows: LogEnd,
        growth_bytes: u64,
        records: &[u8],
    ) -> Result<Self, device::Error> {
        let EmptyLog { file, number, unit_bytes, bytes: allocated } = empty;
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
        let (position, begun) = (0, 0);
        let mut log = Self { file, head, end, position, begun, allocated, growth_bytes };
        log.write(&bytes, &[])?;
        log.append(records)?;
        log.begun = log.position;
        Ok(log)
    }

    /// Returns the number of the log.
    pub(crate) fn number(&self) -> u64 {
        self.head.number
    }

    /// Returns its end.
    pub(crate) fn end(&self) -> LogEnd {
        self.end
    }

    /// Returns how many bytes it has.
    pub(crate) fn bytes(&self) -> u64 {
        self.position
    }

    /// Returns how many it had with its first frame.
    pub(crate) fn begun_bytes(&self) -> u64 {
        self.begun
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

    /// Adds a frame; durable on return. All data that its records refer to is durable before the
    /// call.
    pub(crate) fn append(&mut self, records: &[u8]) -> Result<(), device::Error> {
        let LogEnd { frames, checksum } = self.end;
        let salt = self.head.salt();
        let (head, checksum) = format::encode_frame_head(salt, frames, checksum, records);
        self.write(&head, records)?;
        self.file.sync(SyncKind::Data)?;
        self.end = LogEnd { frames: frames + 1, checksum };
        Ok(())
    }

    /// Writes a head of less than a unit and the bytes that follow it, with zeros to the end of the
    /// last unit.
    fn write(&mut self, head: &[u8], rest: &[u8]) -> Result<(), device::Error> {
        let unit = self.head.unit_bytes as usize;
        let all = (head.len() + rest.len()).next_multiple_of(unit);
        let mut buffer = Buffer::zeroed(all.min(WRITE_BYTES_MAX));
        let (mut head, mut rest) = (head, rest);
        while !(head.is_empty() && rest.is_empty()) {
            let len = (head.len() + rest.len()).min(buffer.len());
            let (now, later) = rest.split_at(len - head.len());
            let end = len.next_multiple_of(unit);
            buffer[..head.len()].copy_from_slice(head);
            buffer[head.len()..len].copy_from_slice(now);
            buffer[len..end].fill(0);
            self.file.write_at(self.position, &buffer[..end])?;
            self.position += end as u64;
            (head, rest) = (&[], later);
        }
        Ok(())
    }
}
