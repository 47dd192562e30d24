//! The sparse index in a file of its own, so that the next opening need not rebuild it.
//!
//! A store that is closed writes it, with the life of the space that ends then. If an opening finds
//! the index of the life before its own, it takes the index and its knowledge of tails, and reads
//! no key. Otherwise it rebuilds the index (`recover`).
//!
//! # Invariants
//! - N1. The file is written once nothing changes the space any more in its life, and the data that
//!   the index describes are durable. So an opening that finds the index of the last life also
//!   finds its space, however that life ended.
//! - N2. Nothing in it is trusted that is not verified: checksums, the order of bounds, that
//!   intervals have all bytes of the space, and that each begins where an extent with its tag does.
//!   An index for which that does not hold is not stored, nor the index of a store that has failed.
//! - N3. The file is not necessary: a store without it, or with a damaged one, is opened by its
//!   tags.
//! - N4. Under its name the file is whole, because it gets the name only when it is durable. So an
//!   incomplete file is damage, which is reported, and not the result of a crash.

mod format;
#[cfg(all(test, not(shuttle)))]
mod tests;

use std::sync::Arc;

use codec::{Corruption, FileHeader};
use device::{Device, File, Mode, SyncKind};
use engine::Result;
use flexspace::Mapping;

use crate::index::{self, Head, Index, IndexSnapshot, Interval, START};
use crate::options::Options;
use crate::pair::StoreHeader;
pub(crate) use format::FORMAT;
use format::{BLOCK_BYTES, BLOCK_HEAD_BYTES, Stored};
use memory_budget::Account;

/// The file's name.
pub(crate) const FILE: &str = "index";
/// Its name until it is whole and durable.
const UNFINISHED: &str = "index.new";

/// The properties that an index must have to be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// The life of the space that ended before this opening.
    pub(crate) life: u64,
    pub(crate) space_bytes: u64,
}

/// Returns whether the index has so few intervals that rebuilding it is as fast as reading it.
pub(crate) fn is_small(index: &IndexSnapshot, options: &Options) -> bool {
    index.range(0..u64::MAX).take(options.stored_intervals_min).count()
        < options.stored_intervals_min
}

/// Returns whether each interval begins where one of the space's extents does, with its tag (N2).
/// That is not so if a damaged interval is too long for its length. `extents` are those behind the
/// store's header.
pub(crate) fn is_tagged(index: &IndexSnapshot, extents: impl Iterator<Item = Mapping>) -> bool {
    let begin = StoreHeader::BYTES as u64;
    let mut begins = index.range(0..u64::MAX).map(|found| begin + found.offset).peekable();
    for extent in extents.filter(|extent| extent.extent.tag() == START) {
        begins.next_if_eq(&extent.offset);
    }
    begins.next().is_none()
}

/// Stores the index of a space at the end of a life. Durable on return.
///
/// # Errors
/// The device's. There is no index of this life then.
pub(crate) fn store(device: &dyn Device, index: &IndexSnapshot, of: Wanted) -> Result<()> {
    let intervals = index.range(0..u64::MAX).count() as u64;
    let head = format::Head { life: of.life, space_bytes: of.space_bytes, intervals };
    let file = device.open(UNFINISHED, Mode::Create)?;
    file.set_len(0)?;
    file.write_at(0, &head.encode())?;
    let mut writing =
        Writing { file, offset: format::Head::BYTES as u64, checksum: head.checksum() };
    let (mut block, mut before) = (Vec::new(), Vec::new());
    for found in index.range(0..u64::MAX) {
        let Some(head) = found.entry.head() else { continue };
        let stored = stored(head, found.length);
        stored.encode(&before, &mut block);
        before = stored.bound;
        if block.len() >= BLOCK_BYTES {
            writing.put(&block)?;
            block.clear();
            before.clear();
        }
    }
    if !block.is_empty() {
        writing.put(&block)?;
    }
    writing.file.sync(SyncKind::Data)?;
    device.rename(UNFINISHED, FILE)?;
    device.sync_dir("")?;
    Ok(())
}

fn stored(head: &Head, length: u32) -> Stored {
    let (bound, first) = (head.bound().to_vec(), head.first_key());
    let first = (*first != *bound).then(|| first.to_vec());
    Stored { length, bound, first, lie: head.lie, tail: head.tail().cloned() }
}

/// The file, and how far it was written.
struct Writing {
    file: Arc<dyn File>,
    offset: u64,
    checksum: u32,
}

impl Writing {
    fn put(&mut self, intervals: &[u8]) -> Result<()> {
        let (bytes, checksum) = format::encode_block(self.checksum, intervals);
        self.file.write_at(self.offset, &bytes)?;
        self.offset += bytes.len() as u64;
        self.checksum = checksum;
        Ok(())
    }
}

/// Removes the index, and one that a crash has left unfinished, once another life has followed its
/// own. One that stays is of no use, and does no harm.
///
/// # Errors
/// The device's.
pub(crate) fn remove(device: &dyn Device) -> Result<()> {
    for name in [FILE, UNFINISHED] {
        if device.exists(name)? {
            device.remove(name)?;
        }
    }
    Ok(())
}

/// Refuses an index that a newer release wrote, also one that is of no use.
///
/// # Errors
/// [`engine::Error::NewerVersion`]; the device's.
pub(crate) fn refuse_newer(device: &dyn Device) -> Result<()> {
    if !device.exists(FILE)? {
        return Ok(());
    }
    let file = device.open(FILE, Mode::Read)?;
    let mut header = [0; FileHeader::LEN];
    if file.len()? >= FileHeader::LEN as u64 {
        file.read_at(0, &mut header)?;
    }
    Ok(format::FORMAT.refuse_newer(&header, FILE)?)
}

/// Intervals of an index that is wanted, one by one.
pub(crate) struct Reading<E: Iterator<Item = Mapping>> {
    blocks: Blocks,
    block: std::vec::IntoIter<Stored>,
    /// The extents of the space, from the one with the last interval's end on.
    extents: std::iter::Peekable<E>,
    /// The offset in the space at which the next interval begins.
    offset: u64,
    wanted: Wanted,
}

/// The blocks of the file.
struct Blocks {
    file: Arc<dyn File>,
    offset: u64,
    checksum: u32,
    /// Intervals that are left.
    left: u64,
    /// The bound of the last one.
    last: Option<Vec<u8>>,
}

impl<E: Iterator<Item = Mapping>> Reading<E> {
    /// Begins to read; `None` if there is no index, or none that is wanted. `extents` are those
    /// behind the store's header.
    ///
    /// # Errors
    /// The damage; the device's.
    pub(crate) fn begin(device: &dyn Device, wanted: Wanted, extents: E) -> Result<Option<Self>> {
        if !device.exists(FILE)? {
            return Ok(None);
        }
        let file = device.open(FILE, Mode::Read)?;
        let bytes = read(&*file, 0, format::Head::BYTES)?;
        let head = format::Head::decode(&bytes).map_err(|damage| damage.at(FILE, 0))?;
        if (Wanted { life: head.life, space_bytes: head.space_bytes }) != wanted {
            return Ok(None);
        }
        let (offset, checksum) = (format::Head::BYTES as u64, head.checksum());
        let blocks = Blocks { file, offset, checksum, left: head.intervals, last: None };
        let offset = StoreHeader::BYTES as u64;
        let (block, extents) = (Vec::new().into_iter(), extents.peekable());
        Ok(Some(Self { blocks, block, extents, offset, wanted }))
    }

    /// How many intervals it has.
    pub(crate) fn intervals(&self) -> u64 {
        self.blocks.left + self.block.len() as u64
    }

    /// The next interval; none once they have all bytes of the space.
    fn next(&mut self) -> Result<Option<Stored>> {
        if self.block.len() == 0 {
            self.block = self.blocks.next()?.into_iter();
        }
        let damaged = |what: &str| Corruption::new(what, self.blocks.offset).at(FILE, 0);
        let Some(stored) = self.block.next() else {
            let is_whole = self.offset == self.wanted.space_bytes;
            let what = "the intervals of the index are not the bytes of the space";
            return if is_whole { Ok(None) } else { Err(damaged(what).into()) };
        };
        while self.extents.next_if(|extent| extent.offset < self.offset).is_some() {}
        let extent = self.extents.peek();
        if !extent
            .is_some_and(|extent| extent.offset == self.offset && extent.extent.tag() == START)
        {
            return Err(damaged("an interval that begins where no tag is").into());
        }
        self.offset += u64::from(stored.length);
        Ok(Some(stored))
    }

    /// Reads all that is left, and says how many intervals there were.
    ///
    /// # Errors
    /// The damage; the device's.
    pub(crate) fn check(mut self) -> Result<u64> {
        let mut count = 0;
        while self.next()?.is_some() {
            count += 1;
        }
        Ok(count)
    }

    /// The index; intervals that are closer than `step` bytes are one.
    ///
    /// # Errors
    /// The damage; the device's.
    pub(crate) fn index(mut self, step: u64, heads: &Arc<Account>) -> Result<Index> {
        let mut index = Index::default();
        let mut last: Option<Stored> = None;
        while let Some(stored) = self.next()? {
            match &mut last {
                Some(last) if u64::from(last.length) + u64::from(stored.length) <= step => {
                    last.length += stored.length;
                    last.lie = last.lie.with(&stored.lie);
                    last.tail = None;
                }
                _ => push(&mut index, last.replace(stored), heads),
            }
        }
        push(&mut index, last, heads);
        Ok(index)
    }
}

fn push(index: &mut Index, stored: Option<Stored>, heads: &Arc<Account>) {
    let Some(Stored { length, bound, first, lie, tail }) = stored else { return };
    let first = first.as_deref().unwrap_or(&bound);
    let head = match tail {
        None => Head::new(&bound, first, lie, heads),
        tail => Head::with_tail(&bound, first, (lie, tail), heads),
    };
    index::append(index, length, Interval::new(head));
}

impl Blocks {
    /// The intervals of the next block; none behind the last.
    fn next(&mut self) -> Result<Vec<Stored>> {
        let at = |damage: Corruption| damage.at(FILE, self.offset);
        if self.left == 0 {
            let is_end = self.file.len()? == self.offset;
            let what = "the index has more bytes than it says";
            return if is_end { Ok(Vec::new()) } else { Err(at(Corruption::new(what, 0)).into()) };
        }
        let head = read(&*self.file, self.offset, BLOCK_HEAD_BYTES)?;
        let (length, checksum) = format::decode_block_head(&head).map_err(at)?;
        let bytes = read(&*self.file, self.offset + BLOCK_HEAD_BYTES as u64, length)?;
        let found = format::decode_block(self.checksum, checksum, &bytes).map_err(at)?;
        let first = found.first().map(|stored| &stored.bound);
        let in_order =
            first.is_some_and(|first| self.last.as_ref().is_none_or(|last| last < first));
        if !in_order || found.len() as u64 > self.left {
            return Err(at(Corruption::new("a block that cannot be there", 0)).into());
        }
        self.offset += (BLOCK_HEAD_BYTES + length) as u64;
        self.checksum = checksum;
        self.left -= found.len() as u64;
        self.last = found.last().map(|stored| stored.bound.clone());
        Ok(found)
    }
}

fn read(file: &dyn File, offset: u64, length: usize) -> Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    match file.read_at(offset, &mut bytes) {
        Err(device::Error::UnexpectedEnd { .. }) => {
            Err(Corruption::new("the index ends too early", offset).at(FILE, 0).into())
        }
        read => read.map(|()| bytes).map_err(Into::into),
    }
}

/// Decodes the intervals of a block, and returns how many there are: the entry for code that checks
/// the decoder.
///
/// # Errors
/// The damage, with its offset.
///
/// # Panics
/// If the intervals, encoded and decoded again, are different.
pub fn decode_stored_intervals(bytes: &[u8]) -> std::result::Result<usize, Corruption> {
    let found = format::take_intervals(bytes)?;
    let (mut again, mut before) = (Vec::new(), Vec::new());
    for stored in &found {
        stored.encode(&before, &mut again);
        before.clone_from(&stored.bound);
    }
    assert_eq!(format::take_intervals(&again).as_ref(), Ok(&found), "an index comes back");
    Ok(found.len())
}
