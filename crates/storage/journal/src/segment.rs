//! One file of the journal: its bytes, how they are written and how they are read.

mod format;
mod names;
mod reader;
mod writer;

pub(crate) use format::{HeaderFault, Kind, SECTOR_BYTES, SegmentHeader};
pub(crate) use names::{file_name, index_of, is_unfinished};
pub use reader::decode_segment;
pub(crate) use reader::{Each, Fault, Scanned, SegmentReader, scan};
pub(crate) use writer::{Group, NewSegment, Unfinished};
