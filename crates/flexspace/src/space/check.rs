//! Verification of all that a space has, in memory and on its device.

use std::sync::Arc;

use codec::Corruption;
use device::{Device, File};
use engine::Superblock;

use super::open::LOCK;
use super::recover::{self, Recovered, SUPERBLOCK, SUPERBLOCK_KIND, Standing};
use super::{Error, FlexSpace};
use crate::data::DataFile;

/// What is read and verified at once.
const BYTES_AT_ONCE: u64 = 1 << 20;
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
        let mut bytes = vec![0; BYTES_AT_ONCE as usize];
        for offset in (0..snapshot.len()).step_by(BYTES_AT_ONCE as usize) {
            let count = BYTES_AT_ONCE.min(snapshot.len() - offset);
            snapshot.pread(offset, &mut bytes[..count as usize])?;
        }
        Ok(())
    }
}

/// Reads the superblock, the tree and the logs of the space in `device`, and verifies them. Changes
/// nothing. Says how many bytes it has.
///
/// # Errors
/// [`Error::Corruption`], [`Error::Device`]: [`device::Error::NotFound`] if there is no space,
/// [`device::Error::Locked`] if it is open.
pub fn check_offline(device: &dyn Device) -> Result<u64, Error> {
    let (_lock, recovered) = recover_offline(device)?;
    Ok(recovered.tree.len())
}

/// What a verification found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Bytes of the space.
    pub len: u64,
    /// Extents in which they lie.
    pub extents: u64,
    /// Blocks of the data that are not what was written: the first ones, in the order of the space.
    pub damage: Vec<Corruption>,
    /// How many there are in all, each counted once for each extent that it is a part of.
    pub damage_count: u64,
}

/// Verifies all that [`check_offline`] does, and reads every byte of the data. Changes nothing. Tells
/// `progress` now and then how many bytes were read.
///
/// # Errors
/// As [`check_offline`]; damage of the data is none.
pub fn verify_offline(
    device: &dyn Device,
    progress: &mut dyn FnMut(u64),
) -> Result<Verified, Error> {
    let (_lock, recovered) = recover_offline(device)?;
    let Recovered { tree, data, geometry, generations, .. } = recovered;
    let data = DataFile::new(data, geometry, generations);
    let mut verified =
        Verified { len: tree.len(), extents: 0, damage: Vec::new(), damage_count: 0 };
    let (mut bytes, mut scratch, mut told) = (Vec::new(), None, 0);
    for piece in tree.query(0..tree.len()) {
        verified.extents += 1;
        let Some(address) = piece.extent.address() else { continue };
        bytes.resize(piece.length as usize, 0);
        match data.read(address, &mut bytes, &mut scratch) {
            Err(Error::Corruption(damage)) => {
                verified.damage_count += 1;
                if verified.damage.len() < DAMAGE_LISTED_MAX {
                    verified.damage.push(damage);
                }
            }
            read => read?,
        }
        if piece.offset >= told + BYTES_AT_ONCE {
            told = piece.offset;
            progress(told);
        }
    }
    progress(verified.len);
    Ok(verified)
}

/// Recovers a space that is not open, which the lock keeps so.
fn recover_offline(device: &dyn Device) -> Result<(Arc<dyn File>, Recovered), Error> {
    if !device.exists(SUPERBLOCK)? {
        return Err(device::Error::NotFound { name: SUPERBLOCK.to_owned() }.into());
    }
    // Beside an open space files come and go.
    let lock = device.lock(LOCK)?;
    let superblock = Superblock::open(device, SUPERBLOCK, SUPERBLOCK_KIND)?;
    let standing = Standing::decode(superblock.payload());
    let standing = standing.map_err(|damage| damage.at(SUPERBLOCK, 0))?;
    let recovered = recover::recover(device, &standing)?;
    recovered.tree.check().map_err(|what| Error::from(Corruption::new(what, 0)))?;
    Ok((lock, recovered))
}
