//! The tree file: nodes of a FlexTree in slots, written by checkpoints (Flex 4.2, copy-on-write).
//!
//! # Invariants
//! - K1. A slot of a node that the last checkpoint stored is not written to until a checkpoint
//!   without that node is durable.
//! - K2. The parent of a node, or the superblock, has the checksum of the node's page: a page that
//!   is older or newer than its parent is not accepted.

mod format;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use codec::Corruption;
use device::{Buffer, File, SyncKind};

use crate::extent::Extent;
use crate::shift_tree::{Cut, NodeId, NodeImage, NodeRef};
use crate::space::Error;
pub use format::check_node;
use format::{CHILDREN_PER_PAGE, Child, PAGE_BYTES, Page, PageLink};

/// The file's name.
pub(crate) const TREE: &str = "tree";

/// Most pages of one write.
const WRITE_PAGES_MAX: usize = 256;

/// Bytes of one read of a file whose nodes are needed next.
const READ_AHEAD_BYTES: usize = 1 << 20;

/// Factor of the memory that a number in a set takes, to its own bytes: nodes of sets are half full
/// or more, and have pointers to each other.
const SET_FACTOR: usize = 3;

/// The place of a node: its first page, and the slots of the pages that follow.
#[derive(Clone, Debug)]
struct Place {
    first: PageLink,
    more: Vec<u32>,
}

/// The reference to a stored tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Root {
    pub(crate) id: u64,
    pub(crate) slot: u32,
    pub(crate) checksum: u32,
}

/// The file, and the places of the nodes of the last checkpoint in it.
#[derive(Debug)]
pub(crate) struct NodeFile {
    file: Arc<dyn File>,
    slot_bytes: u32,
    places: HashMap<NodeId, Place>,
    /// Free slots below the end, and the end.
    free: BTreeSet<u32>,
    end: u32,
    /// Pages of nodes behind their first ones.
    more_pages: usize,
    /// Memory of all of that, for a caller that has no time to ask.
    memory_bytes: Arc<AtomicU64>,
}

impl NodeFile {
    /// Returns the length of slots in a new file: a page, or the device's unit of writing.
    pub(crate) fn slot_bytes_for(file: &dyn File) -> u32 {
        file.alignment().max(PAGE_BYTES) as u32
    }

    /// Returns a file in which nothing is stored.
    pub(crate) fn new(file: Arc<dyn File>, slot_bytes: u32) -> Self {
        let (places, free, memory_bytes) = (HashMap::new(), BTreeSet::new(), Arc::default());
        Self { file, slot_bytes, places, free, end: 0, more_pages: 0, memory_bytes }
    }

    /// Makes nothing durable that matters, but takes the silence that may follow upon a sync that
    /// failed in an earlier life.
    pub(crate) fn sync(&self) -> Result<(), device::Error> {
        self.file.sync(SyncKind::Data)
    }

    /// Reads the file once, from its beginning to its end, before the nodes are loaded one by one.
    /// The order of loads has nothing to do with the order in the file; so they come from the
    /// kernel's memory. [`Self::load`] reports a file that ends too early.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn read_ahead(&self) -> Result<(), device::Error> {
        let end = self.file.len()?;
        let mut piece = vec![0; READ_AHEAD_BYTES.min(end as usize)];
        let mut offset = 0;
        while offset < end {
            let length = (end - offset).min(READ_AHEAD_BYTES as u64);
            self.file.read_at(offset, &mut piece[..length as usize])?;
            offset += length;
        }
        Ok(())
    }

    /// Sets the place of the root, before the first [`Self::load`].
    pub(crate) fn found(&mut self, root: Root) {
        let first = PageLink { slot: root.slot, checksum: root.checksum };
        self.places.insert(NodeId(root.id), Place { first, more: Vec::new() });
    }

    /// Returns a stored node, whose parent was loaded before it.
    ///
    /// # Errors
    /// [`Error::Corruption`] if it is not the node that its parent refers to.
    pub(crate) fn load(&mut self, id: NodeId) -> Result<NodeImage<Extent>, Error> {
        let damaged = |what: &str| Error::from(Corruption::new(what, 0).at(TREE, 0));
        let Some(place) = self.places.get(&id) else {
            return Err(damaged("a node that nothing leads to"));
        };
        let first = place.first;
        let mut children: Vec<Child> = Vec::new();
        let mut more = Vec::new();
        let mut link = Some(first);
        let mut image = None;
        while let Some(next) = link {
            if more.len() > crate::shift_tree::INNER / CHILDREN_PER_PAGE {
                return Err(damaged("a node of too many pages"));
            }
            let (page, following) = self.read(next, id)?;
            if next != first {
                more.push(next.slot);
            }
            match page {
                Page::Leaf(entries) if image.is_none() && next == first => {
                    image = Some(NodeImage::Leaf(entries));
                }
                Page::Inner(some) if image.is_none() => children.extend(some),
                _ => return Err(damaged("pages of different nodes")),
            }
            link = following;
        }
        if let Some(place) = self.places.get_mut(&id) {
            place.more = more;
        }
        if let Some(leaf) = image {
            return Ok(leaf);
        }
        for child in &children {
            let place = Place { first: child.link, more: Vec::new() };
            if self.places.insert(NodeId(child.id), place).is_some() {
                return Err(damaged("a node is a child of two"));
            }
        }
        let image = children.iter().map(|child| (NodeId(child.id), child.shift, ()));
        Ok(NodeImage::Inner(image.collect()))
    }

    fn read(&self, link: PageLink, id: NodeId) -> Result<(Page, Option<PageLink>), Error> {
        let offset = u64::from(link.slot) * u64::from(self.slot_bytes);
        let mut bytes = [0; PAGE_BYTES];
        match self.file.read_at(offset, &mut bytes) {
            Err(device::Error::UnexpectedEnd { .. }) => {
                let what = "the file ends before a node that is in use";
                return Err(Corruption::new(what, offset).at(TREE, 0).into());
            }
            read => read?,
        }
        let decoded = format::decode(&bytes, id.0, link);
        decoded.map_err(|damage| damage.at(TREE, offset).into())
    }

    /// Says that all nodes were loaded, so that all other slots are free.
    ///
    /// # Errors
    /// [`Error::Corruption`] if two nodes are in one slot.
    pub(crate) fn loaded(&mut self) -> Result<(), Error> {
        let mut used = BTreeSet::new();
        for place in self.places.values() {
            for slot in place.slots() {
                if !used.insert(slot) {
                    let offset = u64::from(slot) * u64::from(self.slot_bytes);
                    let what = "two nodes lie in one slot";
                    return Err(Corruption::new(what, offset).at(TREE, 0).into());
                }
            }
        }
        self.end = used.last().map_or(0, |last| last + 1);
        self.free = (0..self.end).filter(|slot| !used.contains(slot)).collect();
        self.more_pages = self.places.values().map(|place| place.more.len()).sum();
        self.count_memory();
        Ok(())
    }

    /// Returns the slots that the new nodes of a cut take.
    pub(crate) fn slots_of<const C: usize, const F: usize>(cut: &Cut<Extent, C, F>) -> u32 {
        let mut count = 0;
        let Ok(()) = cut.new_nodes::<std::convert::Infallible>(|node| {
            count += match node {
                NodeRef::Leaf(..) => 1,
                NodeRef::Inner(_, children) => children.len().div_ceil(CHILDREN_PER_PAGE) as u32,
            };
            Ok(())
        });
        count
    }

    /// Returns the bytes of `slots` slots.
    pub(crate) fn bytes_of(&self, slots: u32) -> u64 {
        u64::from(slots) * u64::from(self.slot_bytes)
    }

    /// Makes sure that the device has room for `slots` slots more than those in use; nothing is
    /// stored.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn reserve(&self, slots: u32) -> Result<(), device::Error> {
        let more = u64::from(slots).saturating_sub(self.free.len() as u64);
        let slot_bytes = u64::from(self.slot_bytes);
        if more == 0 {
            return Ok(());
        }
        self.file.allocate(u64::from(self.end) * slot_bytes, more * slot_bytes)
    }

    /// Releases the room beyond the slots in use: the room that [`Self::reserve`] has secured, or a
    /// part of it.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn release(&self) -> Result<(), device::Error> {
        self.file.set_len(self.bytes_of(self.end))
    }

    /// Writes the new nodes of a cut to free slots; durable on return, with the pages that lead to
    /// them.
    ///
    /// # Errors
    /// The device's. Nothing that was stored before is touched; nothing more must be stored.
    pub(crate) fn store<const C: usize, const F: usize>(
        &mut self,
        cut: &Cut<Extent, C, F>,
    ) -> Result<Root, Error> {
        let mut pages = Vec::new();
        cut.new_nodes(|node| {
            match node {
                NodeRef::Leaf(id, leaf) => {
                    let entries = (0..leaf.count()).map(|i| (leaf.length(i), *leaf.entry(i)));
                    self.put(id, &[Page::Leaf(entries.collect())], &mut pages);
                }
                NodeRef::Inner(id, children) => {
                    let child = |(child, shift, ()): &(NodeId, u64, &())| {
                        let place = self.places.get(child).expect("children are stored first");
                        Child { id: child.0, shift: *shift, link: place.first }
                    };
                    let children: Vec<Child> = children.iter().map(child).collect();
                    let parts = children.chunks(CHILDREN_PER_PAGE);
                    let parts: Vec<Page> = parts.map(|part| Page::Inner(part.to_vec())).collect();
                    self.put(id, &parts, &mut pages);
                }
            }
            if pages.len() >= WRITE_PAGES_MAX { self.write(&mut pages) } else { Ok(()) }
        })?;
        self.write(&mut pages)?;
        self.file.sync(SyncKind::Data)?;
        let root = cut.snapshot.root();
        self.count_memory();
        let place = self.places.get(&root).expect("the root is new, or was stored before");
        Ok(Root { id: root.0, slot: place.first.slot, checksum: place.first.checksum })
    }

    /// Encodes the pages of a node, the last one first, as each leads to the next.
    fn put(&mut self, id: NodeId, parts: &[Page], pages: &mut Vec<(u32, Vec<u8>)>) {
        let slots: Vec<u32> = parts.iter().map(|_| self.take_slot()).collect();
        let mut link = None;
        for (part, &slot) in parts.iter().zip(&slots).rev() {
            let (bytes, checksum) = format::encode(part, id.0, slot, link);
            pages.push((slot, bytes));
            link = Some(PageLink { slot, checksum });
        }
        let first = link.expect("a node has a page");
        self.more_pages += slots.len() - 1;
        self.places.insert(id, Place { first, more: slots[1..].to_vec() });
    }

    fn take_slot(&mut self) -> u32 {
        self.free.pop_first().unwrap_or_else(|| {
            self.end += 1;
            self.end - 1
        })
    }

    /// Writes pages, neighbours in one write.
    fn write(&self, pages: &mut Vec<(u32, Vec<u8>)>) -> Result<(), Error> {
        pages.sort_unstable_by_key(|(slot, _)| *slot);
        let slot_bytes = self.slot_bytes as usize;
        for run in pages.chunk_by(|(left, _), (right, _)| left + 1 == *right) {
            let mut buffer = Buffer::zeroed(run.len() * slot_bytes);
            for ((_, page), slot) in run.iter().zip(buffer.chunks_exact_mut(slot_bytes)) {
                slot[..page.len()].copy_from_slice(page);
            }
            self.file.write_at(u64::from(run[0].0) * slot_bytes as u64, &buffer)?;
        }
        pages.clear();
        Ok(())
    }

    /// Frees the slots of nodes that the durable checkpoint does not have.
    pub(crate) fn retire(&mut self, retired: &[NodeId]) {
        for id in retired {
            if let Some(place) = self.places.remove(id) {
                self.more_pages -= place.more.len();
                self.free.extend(place.slots());
            }
        }
        self.count_memory();
    }

    /// Returns the memory that the places and the free slots take, as of the last change.
    pub(crate) fn memory_bytes(&self) -> &Arc<AtomicU64> {
        &self.memory_bytes
    }

    fn count_memory(&self) {
        // A table is at most seven eighths full, and has a byte for each of its slots.
        let slots = (self.places.capacity() * 8 / 7).next_power_of_two();
        let table = slots * (size_of::<(NodeId, Place)>() + 1);
        let numbers = SET_FACTOR * self.free.len() + self.more_pages;
        let bytes = table + numbers * size_of::<u32>();
        self.memory_bytes.store(bytes as u64, Relaxed);
    }

    /// Returns the numbers of used and of free slots.
    pub(crate) fn slots(&self) -> (u64, u64) {
        let free = self.free.len() as u64;
        (u64::from(self.end) - free, free)
    }
}

impl Place {
    fn slots(&self) -> impl Iterator<Item = u32> {
        std::iter::once(self.first.slot).chain(self.more.iter().copied())
    }
}
