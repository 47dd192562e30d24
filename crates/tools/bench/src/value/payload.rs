//! Filling a value, and verifying one that was read.

/// The shortest value that can carry its key's and version's mark.
pub const VALUE_BYTES_MIN: usize = 8;

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The fault of a value that a store returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Shorter than any value that was written.
    #[error("a value of {bytes} bytes, where none is shorter than {VALUE_BYTES_MIN}")]
    Short {
        /// Bytes of the value.
        bytes: usize,
    },
    /// The head is not one that this key could have at this length.
    #[error("a value of another key, or with a damaged head or length")]
    WrongKey,
    /// The head is right, the rest does not belong to it.
    #[error("version {version} is torn or damaged at byte {offset}")]
    Torn {
        /// The version by its head.
        version: u32,
        /// The first eight-byte step that differs.
        offset: usize,
    },
    /// Overwritten before the read began.
    #[error("version {version} is stale: version {floor} was acknowledged before the read began")]
    Stale {
        /// The version that was read.
        version: u32,
        /// The oldest version that may be read.
        floor: u32,
    },
    /// No write of this version had begun.
    #[error("version {version} was never written: the newest that had begun is {newest}")]
    Unwritten {
        /// The version that was read.
        version: u32,
        /// The newest version whose write had begun.
        newest: u32,
    },
    /// The key is live, and the store says it is not there.
    #[error("absent, although version {floor} was acknowledged and never deleted")]
    Lost {
        /// The oldest version that may be read.
        floor: u32,
    },
    /// A scan returned a key that is not of this run.
    #[error("a scan returned a key that was never written")]
    StrangeKey,
    /// A scan left its order or its bounds.
    #[error("a scan returned a key out of order or before its start")]
    Disorder,
    /// A scan left out a live key.
    #[error("a scan skipped a live key")]
    Skipped,
}

/// Fills `value` with version `version` of the key whose hash is given.
///
/// # Panics
/// `value` is shorter than [`VALUE_BYTES_MIN`].
pub fn fill(key_hash: u64, version: u32, value: &mut [u8]) {
    let bytes = value.len();
    let Some((head, rest)) = value.split_first_chunk_mut::<VALUE_BYTES_MIN>() else {
        panic!("a value of {bytes} bytes cannot be verified");
    };
    let mut state = seed(key_hash, version, bytes);
    *head = head_of(key_hash, version, state);
    let mut steps = rest.chunks_exact_mut(8);
    for step in &mut steps {
        state = state.wrapping_add(STEP);
        step.copy_from_slice(&scramble(state).to_le_bytes());
    }
    let tail = steps.into_remainder();
    let last = scramble(state.wrapping_add(STEP)).to_le_bytes();
    tail.copy_from_slice(&last[..tail.len()]);
}

/// The version of `value`, if it is a whole value of the key whose hash is given.
///
/// # Errors
/// [`Fault::Short`], [`Fault::WrongKey`] or [`Fault::Torn`].
pub fn verify(key_hash: u64, value: &[u8]) -> Result<u32, Fault> {
    let Some((head, rest)) = value.split_first_chunk::<VALUE_BYTES_MIN>() else {
        return Err(Fault::Short { bytes: value.len() });
    };
    let version = (u64::from_le_bytes(*head) as u32) ^ key_hash as u32;
    let mut state = seed(key_hash, version, value.len());
    if *head != head_of(key_hash, version, state) {
        return Err(Fault::WrongKey);
    }
    let steps = rest.chunks_exact(8);
    let tail = steps.remainder();
    for (index, step) in steps.enumerate() {
        state = state.wrapping_add(STEP);
        if *step != scramble(state).to_le_bytes() {
            return Err(Fault::Torn { version, offset: VALUE_BYTES_MIN + index * 8 });
        }
    }
    let last = scramble(state.wrapping_add(STEP)).to_le_bytes();
    if *tail != last[..tail.len()] {
        return Err(Fault::Torn { version, offset: value.len() - tail.len() });
    }
    Ok(version)
}

fn head_of(key_hash: u64, version: u32, seed: u64) -> [u8; VALUE_BYTES_MIN] {
    let marked = version ^ key_hash as u32;
    (u64::from(marked) | (scramble(seed) & 0xffff_ffff_0000_0000)).to_le_bytes()
}

fn seed(key_hash: u64, version: u32, bytes: usize) -> u64 {
    scramble(key_hash ^ scramble((bytes as u64) << 32 | u64::from(version)))
}

/// SplitMix64's output function.
fn scramble(state: u64) -> u64 {
    let mut x = state;
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
