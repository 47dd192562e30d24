//! Fuzzes the readers of tables of the engine `lsm`: metadata, blocks and footers.
//! Metadata is read with the index, which is a block, walked both ways. Blocks are read in their
//! stored form, decompressed and walked. The input is also compressed in each way, decompresses to
//! the same bytes, and is read with some bytes of it changed. Footers are decoded.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let _ = lsm::decode_metadata(input);
    let _ = lsm::decode_block(input);
    if let Some((numbers, _)) = input.split_first_chunk::<40>() {
        let number =
            |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| numbers[8 * at + byte]));
        let bytes = number(4);
        if let Ok(data) = lsm::decode_footer([0, 1, 2, 3].map(number), bytes) {
            assert!(data <= bytes, "the data are in the file");
        }
    }
    let Some(([count, edits @ ..], block)) = input.split_first_chunk::<9>() else { return };
    for compression in lsm::Compression::ALL {
        let mut sealed = lsm::recode_block(block, compression);
        for edit in edits.chunks_exact(2).take(usize::from(count % 5)) {
            let [at, byte] = [edit[0], edit[1]].map(usize::from);
            // Most fields that can be wrong are at the beginning.
            let at = at % sealed.len();
            sealed[at] = byte as u8;
        }
        let _ = lsm::decode_block(&sealed);
    }
});
