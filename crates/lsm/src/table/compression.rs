//! How blocks are compressed.

use codec::Corruption;

/// How blocks are compressed. A table says of each block how it was done, so that tables of several
/// kinds lie beside each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    None,
    /// LZ4, where it saves at least an eighth of the block.
    #[default]
    Lz4,
}

/// What a compressed block begins with: its length when decompressed.
const LENGTH_BYTES: usize = 4;
/// LZ4 never makes more of a byte, so a declared length above is damage.
const RATIO_MAX: usize = 256;
/// A compressed block saves at least this part of its bytes.
const SAVING: usize = 8;

impl Compression {
    pub(crate) fn byte(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Lz4 => 1,
        }
    }

    pub(crate) fn of_byte(byte: u8) -> Result<Self, Corruption> {
        match byte {
            0 => Ok(Self::None),
            1 => Ok(Self::Lz4),
            other => {
                let what = format!("a block is compressed in a way ({other}) that is not known");
                Err(Corruption::new(what, 0))
            }
        }
    }

    /// The bytes to store, and how they are compressed: not at all where that would save little.
    pub(crate) fn compress(self, block: &[u8]) -> (Vec<u8>, Self) {
        if self == Self::Lz4
            && let Ok(len) = u32::try_from(block.len())
        {
            let mut bytes =
                vec![0; LENGTH_BYTES + lz4_flex::block::get_maximum_output_size(block.len())];
            let (head, body) = bytes.split_at_mut(LENGTH_BYTES);
            head.copy_from_slice(&len.to_le_bytes());
            if let Ok(compressed) = lz4_flex::block::compress_into(block, body)
                && LENGTH_BYTES + compressed <= block.len() - block.len() / SAVING
            {
                bytes.truncate(LENGTH_BYTES + compressed);
                return (bytes, Self::Lz4);
            }
        }
        (block.to_vec(), Self::None)
    }

    /// What `stored` was before it was compressed.
    pub(crate) fn decompress(self, stored: &[u8]) -> Result<Vec<u8>, Corruption> {
        if self == Self::None {
            return Ok(stored.to_vec());
        }
        let Some((len, compressed)) = stored.split_first_chunk::<LENGTH_BYTES>() else {
            return Err(Corruption::new("a compressed block is cut short", 0));
        };
        let len = u32::from_le_bytes(*len) as usize;
        if len / RATIO_MAX > compressed.len() {
            return Err(Corruption::new("a compressed block declares more than it can hold", 0));
        }
        let mut bytes = vec![0; len];
        match lz4_flex::block::decompress_into(compressed, &mut bytes) {
            Ok(found) if found == len => Ok(bytes),
            Ok(found) => {
                let what = format!("a compressed block has {found} bytes, it declares {len}");
                Err(Corruption::new(what, 0))
            }
            Err(error) => Err(Corruption::new(format!("a compressed block: {error}"), 0)),
        }
    }
}
