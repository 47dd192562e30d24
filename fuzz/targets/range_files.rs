//! Fuzzes the decoder of the files of a range.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Ok(frames) = scatter::decode_file(input) else { return };
    let Some((first, later)) = frames.split_first() else { return };
    let mut bytes = scatter::encode_first(first);
    later.iter().for_each(|frame| bytes.extend(scatter::encode_frame(frame)));
    let again = scatter::decode_file(&bytes);
    assert_eq!(again.as_ref(), Ok(&frames), "what was encoded decodes");
});
