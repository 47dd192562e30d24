//! Verification of all that a space has, in memory and on its device.

use codec::Corruption;
use device::Device;

use super::{Error, FlexSpace, Offline, recover};

/// Bytes that are read and verified in one step.
const BYTES_PER_TURN: u64 = 1 << 20;
/// Pieces of damage that are listed; the others are counted.
const DAMAGE_LISTED_MAX: usize = 100;

impl FlexSpace {
    /// Checks the tree's invariants, that the live bytes are those it refers to, and reads every
    /// byte. Writers wait for the first two.
    ///
    /// # Errors
    /// [`Error::Corruption`] for the first thing that is wrong; those of [`Self::pread`].
    pub fn check(&self) -> Result<(), Error> {
        let shared = &self.shared;
        let wrong = |what: String| Error::from(Corruption::new(what, 0));
        let snapshot = {
            let writer = shared.writer.lock();
            let state = shared.state.read();
            state.tree.check().map_err(wrong)?;
            let counted = writer.segments.live_of_each();
            let generations: Vec<u64> =
                (0..counted.len()).map(|segment| shared.data.generation(segment as u32)).collect();
            let tree = state.tree.snapshot();
            let live = recover::live_bytes(&tree, shared.data.geometry, &generations)?;
            if live != counted {
                return Err(wrong(format!("live bytes {counted:?} were counted, {live:?} live")));
            }
            drop(state);
            shared.snapshot()
        };
        let mut bytes = vec![0; BYTES_PER_TURN as usize];
        for piece in snapshot.extents(0..snapshot.len()).filter(|piece| !piece.extent.is_hole()) {
            let end = piece.offset + u64::from(piece.length);
            for offset in (piece.offset..end).step_by(BYTES_PER_TURN as usize) {
                let count = BYTES_PER_TURN.min(end - offset);
                snapshot.pread(offset, &mut bytes[..count as usize])?;
            }
        }
        Ok(())
    }
}

/// Reads the superblock, the tree and the logs of the space in `device`, and verifies them. Changes
/// nothing. Says how many bytes it has.
///
/// # Errors
/// As [`Offline::open`].
pub fn check_offline(device: &dyn Device) -> Result<u64, Error> {
    Ok(Offline::open(device)?.len())
}

/// The result of a verification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Bytes of the space.
    pub len: u64,
    /// Number of extents that have them.
    pub extents: u64,
    /// Blocks of the data that differ from the written ones: the first ones, in the order of the
    /// space.
    pub damage: Vec<Corruption>,
    /// How many there are in all, each counted once for each extent that it is a part of.
    pub damage_count: u64,
}

/// Verifies all that [`check_offline`] does, and reads every byte of the data. Changes nothing.
/// Calls `progress` from time to time with the number of bytes that were read.
///
/// # Errors
/// As [`Offline::open`]; damage of the data is none.
pub fn verify_offline(
    device: &dyn Device,
    progress: &mut dyn FnMut(u64),
) -> Result<Verified, Error> {
    let space = Offline::open(device)?;
    let len = space.len();
    let mut verified = Verified { len, extents: 0, damage: Vec::new(), damage_count: 0 };
    let (mut bytes, mut scratch, mut told) = (Vec::new(), None, 0);
    for piece in space.extents(0..len) {
        verified.extents += 1;
        if piece.extent.is_hole() {
            continue;
        }
        bytes.resize(piece.length as usize, 0);
        match space.read_piece(&piece, &mut bytes, &mut scratch) {
            Err(Error::Corruption(damage)) => {
                verified.damage_count += 1;
                if verified.damage.len() < DAMAGE_LISTED_MAX {
                    verified.damage.push(damage);
                }
            }
            read => read?,
        }
        if piece.offset >= told + BYTES_PER_TURN {
            told = piece.offset;
            progress(told);
        }
    }
    progress(len);
    Ok(verified)
}
