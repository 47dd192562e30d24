//! How bytes are laid out: headers, varints, checksums, sequence numbers.

mod corruption;
mod seqno;

pub use corruption::Corruption;
pub use seqno::SeqNo;
