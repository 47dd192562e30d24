//! The bytes of a node's pages; see `docs/formats/flexspace.md`.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use codec::{Corruption, Place, Reader, Writer};

use crate::extent::Extent;
use crate::shift_tree::{INNER, LEAF};

/// A page.
pub(crate) const PAGE_BYTES: usize = 1024;
const HEAD_BYTES: usize = 24;
const ENTRY_BYTES: usize = 12;
const CHILD_BYTES: usize = 24;
/// Children of an inner node that have room in a page; the node's other pages follow.
pub(crate) const CHILDREN_PER_PAGE: usize = (PAGE_BYTES - HEAD_BYTES) / CHILD_BYTES;

const _: () = assert!(HEAD_BYTES + LEAF * ENTRY_BYTES <= PAGE_BYTES, "a leaf is one page");
const _: () = assert!(INNER.div_ceil(CHILDREN_PER_PAGE) <= 4, "an inner node has few pages");

const LEAF_PAGE: u8 = 1;
const INNER_PAGE: u8 = 2;
/// A page whose next one has this slot is a node's last.
const NO_SLOT: u32 = u32::MAX;

/// The place of a page, and its content by its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageLink {
    pub(crate) slot: u32,
    pub(crate) checksum: u32,
}

/// A child of an inner node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Child {
    pub(crate) id: u64,
    pub(crate) shift: u64,
    pub(crate) link: PageLink,
}

/// The content of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Page {
    Leaf(Vec<(u32, Extent)>),
    Inner(Vec<Child>),
}

fn checksum(slot: u32, id: u64, rest: &[u8]) -> u32 {
    Place { file: 0, offset: u64::from(slot), generation: id }.crc32c(rest)
}

/// Returns a page of the node `id` that goes to `slot`, with its checksum.
pub(crate) fn encode(page: &Page, id: u64, slot: u32, next: Option<PageLink>) -> (Vec<u8>, u32) {
    let mut rest = Vec::with_capacity(PAGE_BYTES);
    let mut out = Writer::new(&mut rest);
    let (kind, count) = match page {
        Page::Leaf(entries) => (LEAF_PAGE, entries.len()),
        Page::Inner(children) => (INNER_PAGE, children.len()),
    };
    out.put_u8(kind);
    out.put_u8(0);
    out.put_u16(count as u16);
    out.put_u64(id);
    let next = next.unwrap_or(PageLink { slot: NO_SLOT, checksum: 0 });
    out.put_u32(next.slot);
    out.put_u32(next.checksum);
    match page {
        Page::Leaf(entries) => {
            for (length, extent) in entries {
                out.put_u32(*length);
                out.put_u64(extent.bits());
            }
        }
        Page::Inner(children) => {
            for child in children {
                out.put_u64(child.id);
                out.put_u64(child.shift);
                out.put_u32(child.link.slot);
                out.put_u32(child.link.checksum);
            }
        }
    }
    rest.resize(PAGE_BYTES - 4, 0);
    let sum = checksum(slot, id, &rest);
    let mut bytes = sum.to_le_bytes().to_vec();
    bytes.append(&mut rest);
    (bytes, sum)
}

/// Returns the page of the node `id` that `link` leads to, and the links in it.
pub(crate) fn decode(
    bytes: &[u8],
    id: u64,
    link: PageLink,
) -> Result<(Page, Option<PageLink>), Corruption> {
    let mut fields = Reader::new(bytes);
    let found = fields.take_u32()?;
    if found != link.checksum || checksum(link.slot, id, fields.rest()) != found {
        return Err(Corruption::new("a node is not what leads to it says", 0));
    }
    let (kind, zero, count) = (fields.take_u8()?, fields.take_u8()?, fields.take_u16()?);
    if fields.take_u64()? != id || zero != 0 {
        return Err(fields.corruption("a page of another node"));
    }
    let next = PageLink { slot: fields.take_u32()?, checksum: fields.take_u32()? };
    if next.slot == NO_SLOT && next.checksum != 0 {
        return Err(fields.corruption("a checksum of no page"));
    }
    let next = (next.slot != NO_SLOT).then_some(next);
    let count = usize::from(count);
    let page = match kind {
        LEAF_PAGE if count <= LEAF && next.is_none() => {
            let entry = |fields: &mut Reader<'_>| {
                Ok((fields.take_u32()?, Extent::from_bits(fields.take_u64()?)))
            };
            let entries = (0..count).map(|_| entry(&mut fields));
            Page::Leaf(entries.collect::<Result<_, Corruption>>()?)
        }
        INNER_PAGE if count <= CHILDREN_PER_PAGE && count > 0 => {
            let child = |fields: &mut Reader<'_>| {
                let (id, shift) = (fields.take_u64()?, fields.take_u64()?);
                let link = PageLink { slot: fields.take_u32()?, checksum: fields.take_u32()? };
                Ok(Child { id, shift, link })
            };
            let children = (0..count).map(|_| child(&mut fields));
            Page::Inner(children.collect::<Result<_, Corruption>>()?)
        }
        _ => return Err(fields.corruption("no node has such a page")),
    };
    if fields.rest().iter().any(|byte| *byte != 0) {
        return Err(fields.corruption("a page is not zero after its content"));
    }
    Ok((page, next))
}

/// Checks bytes as the part of a page behind its checksum; for fuzzing. Returns the one encoding of
/// an accepted page.
///
/// # Errors
/// The damage, with its offset.
pub fn check_node(bytes: &[u8]) -> Result<Vec<u8>, Corruption> {
    let slot = 3;
    let mut rest = bytes.to_vec();
    rest.resize(PAGE_BYTES - 4, 0);
    let id = Reader::new(rest.get(4..).unwrap_or_default()).take_u64()?;
    let sum = checksum(slot, id, &rest);
    let page = [&sum.to_le_bytes()[..], &rest].concat();
    let (decoded, next) = decode(&page, id, PageLink { slot, checksum: sum })?;
    let (again, again_sum) = encode(&decoded, id, slot, next);
    debug_assert!(again_sum != sum || again == page, "one encoding");
    Ok(again)
}
