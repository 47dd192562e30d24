//! Fuzzes the reader of superblocks: slots of any bytes, and files with changed bytes.
//! The slots are behind checksums that are right, as the code behind the checksums meets them. A
//! file of which some bytes were changed is damage.
#![no_main]

use device::Mode;
use engine::Superblock;
use libfuzzer_sys::fuzz_target;

const KIND: [u8; 8] = *b"FUZZED\0\0";
const BLOCK: usize = 4096;

/// Returns the file of a superblock of this payload, after one more commit of it.
fn whole(payload: &[u8]) -> Vec<u8> {
    let device = device::memory();
    let mut made = Superblock::create(&*device, "fuzzed", KIND, b"the first").expect("a new file");
    made.commit(&*device, payload).expect("a memory device does not fail");
    let file = device.open("fuzzed", Mode::Read).expect("it was made");
    let mut bytes = vec![0; Superblock::FILE_BYTES as usize];
    file.read_at(0, &mut bytes).expect("within the file");
    bytes
}

/// Puts `content` into the slot at `index`, from its length on, behind a checksum that is right.
fn put_slot(file: &mut [u8], index: usize, content: &[u8]) {
    let block = &mut file[(1 + index) * BLOCK..][..BLOCK];
    block[4..4 + content.len()].copy_from_slice(content);
    let generation = block[8..16].try_into().expect("eight bytes");
    let generation = u64::from_le_bytes(generation);
    let offset = (1 + generation % 2) * BLOCK as u64;
    let checksum = codec::Place { file: 0, offset, generation }.crc32c(&block[4..]);
    block[..4].copy_from_slice(&checksum.to_le_bytes());
}

fuzz_target!(|input: (&[u8], &[u8], Vec<(u16, u8)>)| {
    let (even, odd, changes) = input;
    let payload = &even[..even.len().min(Superblock::PAYLOAD_BYTES_MAX)];
    let sound = whole(payload);
    let (found, _) = Superblock::decode(&sound, KIND).expect("nothing was changed");
    assert_eq!(found, payload, "what was committed");

    let mut slots = sound.clone();
    put_slot(&mut slots, 0, &even[..even.len().min(BLOCK - 4)]);
    put_slot(&mut slots, 1, &odd[..odd.len().min(BLOCK - 4)]);
    if let Ok((payload, generation)) = Superblock::decode(&slots, KIND) {
        let block = &slots[(1 + generation as usize % 2) * BLOCK..][..BLOCK];
        let len = u32::from_le_bytes(block[4..8].try_into().expect("four bytes"));
        assert_eq!(payload.len(), len as usize, "as long as its slot says");
        assert!(payload.len() <= Superblock::PAYLOAD_BYTES_MAX, "within its sector");
        assert_eq!(payload, block[24..24 + payload.len()], "its slot's bytes");
    }

    // Two changed bytes at most: with five, a change and a checksum that is right for it would be
    // among them.
    let mut damaged = sound.clone();
    for (at, by) in changes.iter().take(2) {
        damaged[*at as usize % sound.len()] ^= by;
    }
    let decoded = Superblock::decode(&damaged, KIND);
    assert_eq!(decoded.is_ok(), damaged == sound, "changed bytes are damage: {decoded:?}");
});
