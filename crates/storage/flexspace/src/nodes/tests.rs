//! Stored nodes: new ones go to free slots, and only nodes that a parent names are accepted.

use std::sync::Arc;

use device::{Device, File, Mode};

use super::format::{self, Child, Page, PageLink};
use super::{NodeFile, PAGE_BYTES, Root, TREE};
use crate::shift_tree::NodeId;
use crate::{Extent, FlexTree};

fn at(address: u64) -> Extent {
    Extent::at(address).expect("an address of a test")
}

fn file(device: &dyn Device) -> Arc<dyn File> {
    device.open(TREE, Mode::Create).expect("a device")
}

fn restore(device: &dyn Device, root: Root, len: u64) -> Result<(FlexTree, NodeFile), String> {
    let mut nodes = NodeFile::new(file(device), PAGE_BYTES as u32);
    nodes.found(root);
    let tree = FlexTree::restore(1 << 63, NodeId(root.id), len, |id| nodes.load(id));
    let tree = tree.map_err(|error| error.to_string())?;
    nodes.loaded().map_err(|error| error.to_string())?;
    Ok((tree, nodes))
}

#[test]
fn pages_come_back() {
    let leaf = Page::Leaf((1..=80).map(|n| (n, at(u64::from(n) << 20).with_tag(3))).collect());
    let link = |slot| PageLink { slot, checksum: slot * 3 };
    let child = |n: u32| Child { id: u64::from(n), shift: u64::from(n) * 10, link: link(n) };
    let inner = Page::Inner((0..41).map(child).collect());
    for (page, next) in [(leaf, None), (inner.clone(), Some(link(8))), (inner, None)] {
        let (bytes, checksum) = format::encode(&page, 77, 5, next);
        let place = PageLink { slot: 5, checksum };
        assert_eq!(format::decode(&bytes, 77, place), Ok((page, next)));
        assert_eq!(format::check_node(&bytes[4..]).map(|again| again[4..] == bytes[4..]), Ok(true));
        assert!(format::decode(&bytes, 78, place).is_err(), "another node");
        assert!(format::decode(&bytes, 77, PageLink { slot: 6, ..place }).is_err());
        let older = PageLink { checksum: checksum ^ 1, ..place };
        assert!(format::decode(&bytes, 77, older).is_err(), "not the one that was linked");
    }
}

#[test]
fn a_last_page_says_so_in_one_way() {
    let page = Page::Leaf(vec![(13, at(0))]);
    let (mut bytes, _) = format::encode(&page, 1, 0, None);
    assert!(format::check_node(&bytes[4..]).is_ok());
    // The checksum of a next page, where there is none.
    bytes[20] = 1;
    assert!(format::check_node(&bytes[4..]).is_err());
}

/// Returns the bytes of lines as the page has them.
fn hex(lines: &[&str]) -> Vec<u8> {
    let bytes = lines.iter().flat_map(|line| line.split(' '));
    bytes.map(|byte| u8::from_str_radix(byte, 16).expect("two digits")).collect()
}

#[test]
fn the_page_s_example_is_what_is_written() {
    let page = Page::Leaf(vec![(13, at(0)), (4, at(1 << 15).with_tag(1))]);
    let (bytes, _) = format::encode(&page, 1, 0, None);
    let expected = hex(&[
        "8f ac 0e 22 01 00 02 00 01 00 00 00 00 00 00 00",
        "ff ff ff ff 00 00 00 00 0d 00 00 00 00 00 00 00",
        "00 00 00 00 04 00 00 00 00 80 00 00 00 00 01 00",
    ]);
    assert_eq!(bytes[..48], expected);
    assert!(bytes[48..].iter().all(|byte| *byte == 0));
}

#[test]
fn a_stored_tree_comes_back_and_its_old_slots_are_used_again() {
    let device = device::memory();
    let mut nodes = NodeFile::new(file(&*device), PAGE_BYTES as u32);
    let mut tree = FlexTree::new();
    let mut used_max = 0;
    for round in 0..40_u64 {
        for number in 0..400 {
            let offset = (round * 400 + number) * 7919 % (tree.len() + 1);
            tree.insert_range(offset, 10, at((round * 400 + number) * 100)).expect("room");
        }
        let cut = tree.cut();
        let root = nodes.store(&cut).expect("a device");
        nodes.retire(&cut.retired);
        let (found, again) = restore(&*device, root, tree.len()).expect("what was stored");
        assert!(found.query(0..tree.len()).eq(tree.query(0..tree.len())), "round {round}");
        assert_eq!(again.slots().0, nodes.slots().0, "the same slots are in use");
        used_max = nodes.slots().0;
    }
    let (used, free) = nodes.slots();
    assert_eq!(used, used_max);
    assert!(free < 2 * used, "{used} slots are used, and {free} free");
}

#[test]
fn a_slot_of_the_last_checkpoint_is_not_written_to() {
    let device = device::memory();
    let mut nodes = NodeFile::new(file(&*device), PAGE_BYTES as u32);
    let mut tree = FlexTree::new();
    for number in 0..3000 {
        tree.append(10, at(number * 100)).expect("room");
    }
    let first = tree.cut();
    let root = nodes.store(&first).expect("a device");
    nodes.retire(&first.retired);
    let len = tree.len();
    tree.collapse_range(0, 20_000).expect("a range");
    tree.insert_range(5, 7, at(1 << 40)).expect("room");
    let second = tree.cut();
    nodes.store(&second).expect("a device");
    // Its header was not written: the first one is valid.
    let (found, _) = restore(&*device, root, len).expect("what stands");
    assert!(found.query(0..len).eq(first.snapshot.range(0..len).map(|entry| crate::Mapping {
        offset: entry.offset,
        length: entry.length,
        extent: *entry.entry,
    })));
}

#[test]
fn a_page_that_is_not_what_its_parent_knows_is_refused() {
    let device = device::memory();
    let mut nodes = NodeFile::new(file(&*device), PAGE_BYTES as u32);
    let mut tree = FlexTree::new();
    for number in 0..20_000 {
        tree.append(10, at(number * 100)).expect("room");
    }
    let cut = tree.cut();
    let root = nodes.store(&cut).expect("a device");
    let (used, _) = nodes.slots();
    let raw = file(&*device);
    for slot in 0..used {
        let offset = slot * PAGE_BYTES as u64 + slot * 37 % 1000;
        let mut byte = [0];
        raw.read_at(offset, &mut byte).expect("a device");
        raw.write_at(offset, &[byte[0] ^ 0x10]).expect("a device");
        assert!(restore(&*device, root, tree.len()).is_err(), "slot {slot}");
        raw.write_at(offset, &byte).expect("a device");
    }
    raw.set_len((used - 1) * PAGE_BYTES as u64).expect("a device");
    assert!(restore(&*device, root, tree.len()).is_err(), "the file was cut");
}
