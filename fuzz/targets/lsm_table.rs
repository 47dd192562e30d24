//! Fuzzes what reads tables of the engine `lsm`: metadata, with the index, which is a block, walked
//! both ways; and blocks as they are stored, decompressed and walked. The input is also compressed
//! in each way, comes back the same, and is read with some bytes of it changed.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let _ = lsm::decode_metadata(input);
    let _ = lsm::decode_block(input);
    let Some(([count, edits @ ..], block)) = input.split_first_chunk::<9>() else { return };
    for compression in lsm::Compression::ALL {
        let mut sealed = lsm::recode_block(block, compression);
        for edit in edits.chunks_exact(2).take(usize::from(count % 5)) {
            let [at, byte] = [edit[0], edit[1]].map(usize::from);
            // Most of what can be wrong is said at the beginning.
            let at = at % sealed.len();
            sealed[at] = byte as u8;
        }
        let _ = lsm::decode_block(&sealed);
    }
});
