//! How a journal is laid out and how far an acknowledgement reaches.

use codec::SeqNo;

/// How safe a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Durability {
    /// In the process: lost if it is killed. The background sync of a database also writes these
    /// records. So a killed process loses at most the writes since the last such sync, if the
    /// database has them.
    Buffered,
    /// In the kernel: survives a killed process, is lost if the machine crashes or loses power.
    Flushed,
    /// On the device: survives all of these, if the device honours a flush.
    Synced,
}

/// How a journal is laid out.
#[derive(Clone, Debug)]
pub struct Options {
    /// Size in bytes at which a segment is ended and the next one begun; default 64 MiB. Trimming
    /// frees whole segments, so smaller ones free room sooner, at a few syncs for each. A record
    /// larger than this makes a segment that is larger.
    pub segment_bytes: u64,
    /// Bytes that may wait in memory to be written; default 4 MiB. An append that finds more than
    /// that writes them first. If the process is killed and no thread waited, at most these bytes
    /// and the last record are lost.
    pub buffer_bytes: usize,
    /// The largest record in bytes; default 256 MiB, never more than [`Options::RECORD_BYTES_MAX`].
    /// Appending a larger one is refused with [`crate::Error::TooLarge`].
    pub record_bytes_max: usize,
    /// A record that the caller knows the journal to have had, since it has made an effect of it
    /// durable; default zero. Opening refuses a journal that ends before it
    /// ([`crate::OpenError::Missing`]).
    pub reached: SeqNo,
    /// The journal's id; default `None`. Opening refuses a journal that has another one, and a new
    /// journal gets this id. With `None` opening takes any journal, and a new one gets a random id.
    /// See [`crate::id`].
    pub id: Option<u64>,
}

impl Options {
    /// Limit of the format: a length takes 30 bits.
    pub const RECORD_BYTES_MAX: usize = (1 << 30) - 1;

    /// Returns these options, limited to the values that the format and a device of this alignment
    /// allow.
    pub(crate) fn checked(mut self, alignment: usize) -> Self {
        self.segment_bytes = self.segment_bytes.max(4 * alignment as u64).max(1 << 10);
        self.buffer_bytes = self.buffer_bytes.max(1);
        self.record_bytes_max = self.record_bytes_max.min(Self::RECORD_BYTES_MAX);
        self
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            segment_bytes: 64 << 20,
            buffer_bytes: 4 << 20,
            record_bytes_max: 256 << 20,
            reached: SeqNo::ZERO,
            id: None,
        }
    }
}
