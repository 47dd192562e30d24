//! Fuzzes the decoder of frames, and those of the first frames of a connection.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::{Decoder, Hello, Refused, Welcome};

fuzz_target!(|input: &[u8]| {
    let mut decoder = Decoder::default();
    // The first byte says where the bytes are cut.
    let piece = input.first().map_or(1, |byte| usize::from(*byte) + 1);
    for bytes in input.chunks(piece) {
        decoder.push(bytes);
        while let Ok(Some(frame)) = decoder.take() {
            let mut again = Decoder::default();
            again.push(&frame.encode());
            assert_eq!(again.take(), Ok(Some(frame)));
        }
    }
    if let Ok(hello) = Hello::decode(input) {
        assert_eq!(Hello::decode(&hello.encode()), Ok(hello));
    }
    if let Ok(welcome) = Welcome::decode(input) {
        assert_eq!(Welcome::decode(&welcome.encode()), Ok(welcome));
    }
    if let Ok(refused) = Refused::decode(input) {
        assert_eq!(Refused::decode(&refused.encode()), Ok(refused));
    }
});
