//! Reports all sound pairs of a store, damaged or not, as writes which rebuild it; changes nothing.
//!
//! 1. The superblock names the snapshot. If it cannot be read, the pairs of each snapshot file that
//!    has a sound head are reported, the newest file last. A second file is the leftover of a
//!    crash, so deleted keys may reappear.
//! 2. Blocks begin on whole units, and a block's checksum covers its place. So behind a block that
//!    cannot be read, units are skipped up to one at which a sound block begins.
//!
//! # What is lost
//! The keys between those of the sound blocks before and after the unreadable part.

use std::sync::Arc;

use codec::Corruption;
use device::{Buffer, Device, File, Mode};
use engine::{LostKeys, Op, Result, SalvageSink, Salvaged, Superblock};

use super::format::{self, BlockHeader, Head, Identity, SUPERBLOCK, SUPERBLOCK_KIND, UNIT_BYTES};
use super::reader::{Content, RawBlock};
use crate::open::{decode_committed, snapshot_numbers};

/// Calls `take` with all sound pairs of the store on `device`, in the order of keys. Reads the
/// snapshot once. Memory: a block.
///
/// # Errors
/// The storage's. Damage is part of the result.
pub fn salvage(device: &dyn Device, take: &mut SalvageSink<'_>) -> Result<Salvaged> {
    let mut salvaged = Salvaged::default();
    let superblock = Superblock::open(device, SUPERBLOCK, SUPERBLOCK_KIND);
    let committed = superblock.and_then(|superblock| decode_committed(&superblock));
    if let Some(committed) = salvaged.sound(committed, || None)? {
        salvaged.persisted = committed.persisted;
        let Some(summary) = committed.snapshot else { return Ok(salvaged) };
        return Walk::over(device, summary.identity, salvaged, take);
    }
    let mut numbers = snapshot_numbers(device)?;
    numbers.sort_unstable();
    salvaged.may_be_outdated = numbers.len() > 1;
    for number in numbers {
        let Some(head) = salvaged.sound(read_head(device, number), || None)? else { continue };
        salvaged = Walk::over(device, head.identity, salvaged, take)?;
    }
    Ok(salvaged)
}

fn read_head(device: &dyn Device, number: u64) -> Result<Head> {
    let name = format::file_name(number);
    let mut unit = Buffer::zeroed(UNIT_BYTES);
    device.open(&name, Mode::Read)?.read_at(0, &mut unit)?;
    Ok(Head::decode(&unit).map_err(|damage| damage.at(&name, 0))?)
}

/// A walk over the blocks of a file.
struct Walk {
    file: Arc<dyn File>,
    identity: Identity,
    salvaged: Salvaged,
    /// The unreadable part behind the last sound block, and the last key before it.
    lost: Option<(Corruption, Vec<u8>)>,
    last: Vec<u8>,
}

impl Walk {
    /// Tells the pairs of the file that is called so.
    fn over(
        device: &dyn Device,
        identity: Identity,
        mut salvaged: Salvaged,
        take: &mut SalvageSink<'_>,
    ) -> Result<Salvaged> {
        let name = format::file_name(identity.number);
        let opened = device.open(&name, Mode::Read).map_err(engine::Error::from);
        let Some(file) = salvaged.sound(opened, || None)? else { return Ok(salvaged) };
        let mut walk = Self { file, identity, salvaged, lost: None, last: Vec::new() };
        walk.tell(take)?;
        Ok(walk.salvaged)
    }

    fn tell(&mut self, take: &mut SalvageSink<'_>) -> Result<()> {
        let (len, mut offset) = (self.file.len()?, UNIT_BYTES as u64);
        while offset < len {
            let Some((header, bytes)) = self.read(offset, len)? else {
                self.lose("nothing sound lies here", offset);
                offset += UNIT_BYTES as u64;
                continue;
            };
            let block = RawBlock { header, offset, bytes: &bytes };
            let mut pairs = Vec::new();
            let content = block.decode(self.identity, &mut |key, value| {
                pairs.push((key.to_vec(), value.to_vec()));
            });
            match content {
                Err(damage) => {
                    self.lose(&damage.what, offset);
                    offset += UNIT_BYTES as u64;
                }
                Ok(Content::Totals(_)) => {
                    self.found(None);
                    return Ok(());
                }
                Ok(Content::Pairs(_)) => {
                    self.found(pairs.first().map(|(key, _)| key.clone()));
                    for (key, value) in &pairs {
                        if take(Op::Put { key, value }).is_break() {
                            return Ok(());
                        }
                    }
                    self.last = pairs.pop().map_or_else(Vec::new, |(key, _)| key);
                    offset += bytes.len() as u64;
                }
            }
        }
        self.lose("the file ends without its last block", len);
        self.found(None);
        Ok(())
    }

    /// Returns the bytes that may be a block at `offset`, in a file of `len` bytes.
    fn read(&self, offset: u64, len: u64) -> Result<Option<(BlockHeader, Buffer)>> {
        if len - offset < UNIT_BYTES as u64 {
            return Ok(None);
        }
        let mut unit = Buffer::zeroed(UNIT_BYTES);
        self.file.read_at(offset, &mut unit)?;
        let Ok(header) = BlockHeader::decode(&unit) else { return Ok(None) };
        if !header.may_be_one() || header.block_bytes() as u64 > len - offset {
            return Ok(None);
        }
        let mut bytes = Buffer::zeroed(header.block_bytes());
        self.file.read_at(offset, &mut bytes)?;
        Ok(Some((header, bytes)))
    }

    /// From `offset` on nothing can be read, for the time being.
    fn lose(&mut self, what: &str, offset: u64) {
        let name = format::file_name(self.identity.number);
        let damage = || Corruption::new(what, offset).at(&name, 0);
        let last = &self.last;
        self.lost.get_or_insert_with(|| (damage(), last.clone()));
    }

    /// Here is a sound block, which begins with this key.
    fn found(&mut self, first: Option<Vec<u8>>) {
        if let Some((damage, from)) = self.lost.take() {
            self.salvaged.lose(damage, Some(LostKeys { from, to: first }));
        }
    }
}
