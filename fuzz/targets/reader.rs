//! Fuzzes the fields of hostile bytes: the reader stays within them, whatever it takes.
//! Taken fields are encoded again to the bytes that they were read from.
#![no_main]

use codec::{Reader, Writer};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (Vec<u8>, &[u8])| {
    let (kinds, bytes) = input;
    let mut fields = Reader::new(bytes);
    let mut again = Vec::new();
    for kind in kinds {
        let before = fields.position();
        let mut out = Writer::new(&mut again);
        let taken = match kind % 8 {
            0 => fields.take_u8().map(|value| out.put_u8(value)),
            1 => fields.take_u16().map(|value| out.put_u16(value)),
            2 => fields.take_u32().map(|value| out.put_u32(value)),
            3 => fields.take_u64().map(|value| out.put_u64(value)),
            4 => fields.take_varint_u32().map(|value| out.put_varint(u64::from(value))),
            5 => fields.take_varint_u64().map(|value| out.put_varint(value)),
            6 => fields.take_prefixed().map(|value| out.put_prefixed(value)),
            _ => fields.take_count(2).map(|value| {
                assert!(value <= fields.remaining() / 2, "a count that could not be there");
                out.put_varint(value as u64);
            }),
        };
        if let Err(corruption) = taken {
            assert_eq!(fields.position(), before, "after an error nothing was taken");
            assert!(corruption.offset as usize <= bytes.len());
        }
    }
    assert_eq!(again, fields.taken(), "one encoding");
});
