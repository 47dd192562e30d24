//! Reads a segment from hostile bytes: header, frames, and the proofs that a bad place is damage.
//!
//! Memory is bounded by the window and the largest record that the file can hold; a declared length
//! allocates nothing before the file is known to be that long.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use codec::{Corruption, SeqNo};
use device::File;

use super::format::{
    CHECKSUM_BYTES, FRAME_BYTES_MIN, FRAME_HEADER_BYTES, FrameHeader, HEADER_BYTES, HeaderFault,
    Kind, SECTOR_BYTES, SegmentHeader, frame_checksum,
};

/// Bytes of one read.
const WINDOW_BYTES: usize = 1 << 20;
/// No mark's padding is this long: it only reaches a block's end.
const PADDING_BYTES_MAX: usize = device::Buffer::ALIGNMENT;

/// A segment's bytes, a window at a time.
#[derive(Debug)]
pub(crate) struct SegmentReader<'a> {
    file: Option<&'a dyn File>,
    len: u64,
    window: Vec<u8>,
    window_start: u64,
}

impl<'a> SegmentReader<'a> {
    /// Reads from a file.
    pub(crate) fn new(file: &'a dyn File) -> device::Result<Self> {
        Ok(Self { file: Some(file), len: file.len()?, window: Vec::new(), window_start: 0 })
    }

    /// Reads from memory.
    pub(crate) fn of_bytes(bytes: &[u8]) -> Self {
        Self { file: None, len: bytes.len() as u64, window: bytes.to_vec(), window_start: 0 }
    }

    /// Returns the header of segment `index`.
    pub(crate) fn header(
        &mut self,
        index: u64,
    ) -> device::Result<Result<SegmentHeader, HeaderFault>> {
        let len = self.len.min(HEADER_BYTES as u64) as usize;
        Ok(SegmentHeader::decode(index, self.view(0, len)?.unwrap_or_default()))
    }

    /// `len` bytes from `start`; `None` if the file ends before that.
    pub(crate) fn view(&mut self, start: u64, len: usize) -> device::Result<Option<&[u8]>> {
        let Some(end) = start.checked_add(len as u64).filter(|end| *end <= self.len) else {
            return Ok(None);
        };
        let window_end = self.window_start + self.window.len() as u64;
        if start < self.window_start || end > window_end {
            let Some(file) = self.file else { return Ok(None) };
            let want = (len.max(WINDOW_BYTES) as u64).min(self.len - start);
            self.window.clear();
            self.window.resize(want as usize, 0);
            self.window_start = start;
            file.read_at(start, &mut self.window)?;
        }
        let from = (start - self.window_start) as usize;
        Ok(self.window.get(from..from + len))
    }

    /// Returns the frame at `offset` of a segment with this seed, if one is there and whole.
    fn frame(&mut self, seed: u64, offset: u64) -> device::Result<Result<Frame<'_>, &'static str>> {
        let before = offset - CHECKSUM_BYTES as u64;
        let Some(start) = self.view(before, CHECKSUM_BYTES + FRAME_HEADER_BYTES)? else {
            return Ok(Err("the file ends"));
        };
        let header = start.get(CHECKSUM_BYTES..).and_then(FrameHeader::decode);
        let Some(FrameHeader { kind, length, number }) = header else {
            return Ok(Err("the file ends"));
        };
        let Some(bytes) = self.view(before, CHECKSUM_BYTES + FRAME_BYTES_MIN + length)? else {
            return Ok(Err("a frame reaches beyond the file"));
        };
        let Some((covered, checksum)) = bytes.split_last_chunk::<CHECKSUM_BYTES>() else {
            return Ok(Err("the file ends"));
        };
        let checksum = u64::from_le_bytes(*checksum);
        if frame_checksum(seed, offset, covered) != checksum {
            return Ok(Err("a frame does not match its checksum, place and predecessor"));
        }
        let payload = covered.get(CHECKSUM_BYTES + FRAME_HEADER_BYTES..).unwrap_or_default();
        let end = offset + (FRAME_BYTES_MIN + length) as u64;
        Ok(Ok(Frame { kind, number, payload, offset, end, checksum }))
    }

    /// Returns whether the first and the last sector from `start` to the file's end are there and
    /// have a byte that is not zero. A sector that was never written is missing, or zeros.
    fn is_written(&mut self, start: u64) -> device::Result<bool> {
        let last = self.len.saturating_sub(SECTOR_BYTES as u64).max(start);
        for sector in [start, last] {
            let bytes = self.view(sector, SECTOR_BYTES)?;
            if bytes.is_none_or(|bytes| bytes.iter().all(|byte| *byte == 0)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Looks beyond `bad` for a mark of this segment that says `bad` had been synced.
    fn watermark_above(&mut self, seed: u64, bad: u64) -> device::Result<Option<Proof>> {
        let mut at = bad;
        while let Some(found) = self.next_candidate(at, bad)? {
            if let Ok(frame) = self.frame(seed, found)? {
                return Ok(Some(Proof { mark: found, watermark: frame.number }));
            }
            at = found + 1;
        }
        Ok(None)
    }

    /// Returns the first offset from `at` that seems to have a mark with a watermark above `bad`.
    fn next_candidate(&mut self, mut at: u64, bad: u64) -> device::Result<Option<u64>> {
        loop {
            let bytes = self.view_some(at)?;
            let found = bytes.windows(FRAME_HEADER_BYTES).zip(at..).find(|(bytes, offset)| {
                FrameHeader::decode(bytes).is_some_and(|header| {
                    header.kind != Kind::Record
                        && header.length < PADDING_BYTES_MAX
                        && header.number > bad
                        && header.number <= *offset
                })
            });
            let searched = (bytes.len() + 1).saturating_sub(FRAME_HEADER_BYTES);
            if found.is_some() || searched == 0 {
                return Ok(found.map(|(_, offset)| offset));
            }
            at += searched as u64;
        }
    }

    /// Returns the bytes from `start`: the window's rest, if that is enough for a frame's header,
    /// so that no byte is read once for each frame that might begin near it.
    fn view_some(&mut self, start: u64) -> device::Result<&[u8]> {
        let window_end = self.window_start + self.window.len() as u64;
        let held = window_end.saturating_sub(start.max(self.window_start));
        let left = self.len.saturating_sub(start);
        let enough = start >= self.window_start && held >= FRAME_HEADER_BYTES as u64;
        let len = if enough { held } else { left.min(WINDOW_BYTES as u64) };
        Ok(self.view(start, len as usize)?.unwrap_or_default())
    }
}

/// A whole frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame<'a> {
    pub(crate) kind: Kind,
    pub(crate) number: u64,
    pub(crate) payload: &'a [u8],
    pub(crate) offset: u64,
    end: u64,
    checksum: u64,
}

/// A mark that says that the bad place had been synced.
struct Proof {
    mark: u64,
    watermark: u64,
}

/// Is handed each record: its number, offset and payload.
pub(crate) type Each<'a, E> = dyn FnMut(SeqNo, u64, &[u8]) -> Result<(), E> + 'a;

/// The reason why a scan ended early.
#[derive(Debug)]
pub(crate) enum Fault<E> {
    /// The device failed.
    Device(device::Error),
    /// Bytes that had been synced are not the bytes that were written.
    Damaged(Corruption),
    /// The visitor refused a record at this offset.
    Refused(SeqNo, u64, E),
}

impl<E> From<device::Error> for Fault<E> {
    fn from(error: device::Error) -> Self {
        Self::Device(error)
    }
}

/// The content of a scanned segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scanned {
    /// The end of the whole frames.
    pub(crate) end: u64,
    /// The last checksum.
    pub(crate) chain: u64,
    /// The last record's number, in this segment or before.
    pub(crate) last: SeqNo,
    /// Records in this segment.
    pub(crate) records: u64,
    /// The highest watermark read: below it everything had been synced.
    pub(crate) synced_end: u64,
    /// The offset from which on there can be only the frames that close the journal, if the last
    /// group is sealed.
    closing: Option<u64>,
    /// Whether the last frame says that the journal was closed in order.
    pub(crate) closed: bool,
}

impl Scanned {
    /// Before the first frame.
    pub(crate) fn nothing(header: &SegmentHeader) -> Self {
        Self {
            end: HEADER_BYTES as u64,
            chain: header.seed(),
            last: header.previous_last,
            records: 0,
            synced_end: HEADER_BYTES as u64,
            closing: None,
            closed: false,
        }
    }
}

/// Reads the frames of a segment that follow those `scanned`, in order, and hands their records to
/// `visit`.
///
/// With `until`, the segment is one that another follows, and must hold whole frames right up to
/// that offset. Without, it is the newest: it ends at the first place without a whole frame. It is
/// damage if a mark further on proves that this place had been synced, or if only a close can be
/// there and its sectors were written.
pub(crate) fn scan<E>(
    reader: &mut SegmentReader<'_>,
    header: &SegmentHeader,
    mut scanned: Scanned,
    until: Option<u64>,
    visit: &mut Each<'_, E>,
) -> Result<Scanned, Fault<E>> {
    let seed = header.seed();
    while until.is_none_or(|until| scanned.end < until) {
        let at = scanned.end;
        let frame = match reader.frame(seed, at)? {
            Ok(frame) => frame,
            Err(why) => match until {
                Some(until) => {
                    let what = format!("{why}, but the next segment follows byte {until}");
                    return Err(Fault::Damaged(Corruption::new(what, at)));
                }
                None => break,
            },
        };
        let sense = match frame.kind {
            Kind::Record => scanned.closing.is_none() && frame.number > scanned.last.get(),
            Kind::Seal => scanned.closing.is_none() && frame.number <= at,
            Kind::LastSeal | Kind::Close => frame.number <= at,
        };
        if !sense || scanned.closed {
            let what = "a frame with a right checksum that cannot follow the one before";
            return Err(Fault::Damaged(Corruption::new(what, at)));
        }
        match frame.kind {
            Kind::Record => {
                let seqno = SeqNo::new(frame.number);
                visit(seqno, frame.offset, frame.payload)
                    .map_err(|refusal| Fault::Refused(seqno, at, refusal))?;
                scanned.last = seqno;
                scanned.records += 1;
            }
            Kind::Seal | Kind::LastSeal | Kind::Close => {
                scanned.synced_end = scanned.synced_end.max(frame.number);
                scanned.closed = frame.kind == Kind::Close;
                if frame.kind == Kind::LastSeal {
                    scanned.closing.get_or_insert(frame.end);
                }
            }
        }
        (scanned.end, scanned.chain) = (frame.end, frame.checksum);
    }
    if until.is_none()
        && let Some(Proof { mark, watermark }) = reader.watermark_above(seed, scanned.end)?
    {
        let what = format!(
            "no whole frame, though the mark at byte {mark} says that all was synced up to \
             byte {watermark}"
        );
        return Err(Fault::Damaged(Corruption::new(what, scanned.end)));
    }
    // A sector is written as a whole or not at all, and only the close writes these.
    if let (None, false, Some(closing)) = (until, scanned.closed, scanned.closing)
        && reader.is_written(closing)?
    {
        let what = "the mark that closed the journal is not what was written";
        return Err(Fault::Damaged(Corruption::new(what, scanned.end)));
    }
    Ok(scanned)
}

/// Decodes the bytes of segment `index`, handing its records to `visit`, and returns where its
/// whole frames end. Never panics, whatever the bytes; memory is bounded by their length.
///
/// # Errors
/// - The header is no header of that segment, or of a version that this release does not read.
/// - A frame cannot follow the frame before it.
/// - A later mark proves that bytes which are not whole had been synced.
/// - A mark of a close is damaged.
pub fn decode_segment(
    index: u64,
    bytes: &[u8],
    visit: &mut dyn FnMut(SeqNo, &[u8]),
) -> Result<u64, Corruption> {
    let mut reader = SegmentReader::of_bytes(bytes);
    let header = SegmentHeader::decode(index, bytes).map_err(|fault| match fault {
        HeaderFault::Unsupported(error) => Corruption::new(error.to_string(), 0),
        HeaderFault::Damaged(corruption) => corruption,
    })?;
    let mut each = |seqno, _, payload: &[u8]| -> Result<(), std::convert::Infallible> {
        visit(seqno, payload);
        Ok(())
    };
    match scan(&mut reader, &header, Scanned::nothing(&header), None, &mut each) {
        Ok(scanned) => Ok(scanned.end),
        Err(Fault::Damaged(corruption)) => Err(corruption),
        Err(Fault::Device(error)) => Err(Corruption::new(error.to_string(), 0)),
        Err(Fault::Refused(_, _, never)) => match never {},
    }
}
