//! Verification of all that a space has, in memory and on its device.

use codec::Corruption;
use device::Device;
use engine::Superblock;

use super::recover::{self, SUPERBLOCK, SUPERBLOCK_KIND, Standing};
use super::{Error, FlexSpace};

/// What is read and verified at once.
const BYTES_AT_ONCE: u64 = 1 << 20;

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
/// nothing. The space must not be open. Says how many bytes it has.
///
/// # Errors
/// [`Error::Corruption`], [`Error::Device`].
pub fn check_offline(device: &dyn Device) -> Result<u64, Error> {
    let superblock = Superblock::open(device, SUPERBLOCK, SUPERBLOCK_KIND)?;
    let standing = Standing::decode(superblock.payload());
    let standing = standing.map_err(|damage| damage.at(SUPERBLOCK, 0))?;
    let recovered = recover::recover(device, &standing)?;
    recovered.tree.check().map_err(|what| Error::from(Corruption::new(what, 0)))?;
    Ok(recovered.tree.len())
}
