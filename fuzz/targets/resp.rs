//! Fuzzes the parser of Redis requests: however the bytes are cut on their way, the commands are
//! the same, and so is whether the rest is refused.
#![no_main]

use libfuzzer_sys::fuzz_target;
use server::parse_in_pieces;

fuzz_target!(|input: (Vec<u8>, &[u8])| {
    let (gaps, data) = input;
    let whole = parse_in_pieces(data, &[]);
    let mut end = 0;
    let cut = |gap: &u8| {
        end += usize::from(*gap);
        end
    };
    let cuts: Vec<usize> = gaps.iter().map(cut).collect();
    assert_eq!(parse_in_pieces(data, &cuts), whole, "cut at {cuts:?}");
    // Byte by byte is the hardest cut; long inputs would only be slow.
    if data.len() <= 256 {
        let every: Vec<usize> = (0..data.len()).collect();
        assert_eq!(parse_in_pieces(data, &every), whole, "cut everywhere");
    }
});
