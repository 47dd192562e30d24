//! Laws of the encodings: written fields are read, and anything else is refused without a panic.
//!
//! A failing case prints its input and is kept in `codec.proptest-regressions`, which replays first
//! by `cargo test -p thermocline-codec --test codec`.

use proptest::prelude::*;
use thermocline_codec::{
    FileHeader, Format, HeaderError, Place, Reader, SeqNo, Writer, chain, crc32c, hash64,
    varint_len,
};

const FORMAT: Format = Format::new(*b"TCTESTED", 3, 0b11);

fn varint(value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    Writer::new(&mut bytes).put_varint(value);
    bytes
}

/// Returns a byte that is often one at which varints end, continue, or overflow.
fn varint_byte() -> impl Strategy<Value = u8> {
    prop_oneof![Just(0), Just(1), Just(0x7f), Just(0x80), Just(0xff), any::<u8>()]
}

/// One field, to write and to read back.
#[derive(Clone, Debug, PartialEq)]
enum Field {
    U8(u8),
    U16(u16),
    U32(u32),
    U64(u64),
    Varint(u64),
    Bytes(Vec<u8>),
    Prefixed(Vec<u8>),
}

fn field() -> impl Strategy<Value = Field> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..300);
    prop_oneof![
        any::<u8>().prop_map(Field::U8),
        any::<u16>().prop_map(Field::U16),
        any::<u32>().prop_map(Field::U32),
        any::<u64>().prop_map(Field::U64),
        (any::<u64>(), 0_u32..64).prop_map(|(value, shift)| Field::Varint(value >> shift)),
        bytes().prop_map(Field::Bytes),
        bytes().prop_map(Field::Prefixed),
    ]
}

fn write(fields: &[Field]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut out = Writer::new(&mut bytes);
    for field in fields {
        match field {
            Field::U8(value) => out.put_u8(*value),
            Field::U16(value) => out.put_u16(*value),
            Field::U32(value) => out.put_u32(*value),
            Field::U64(value) => out.put_u64(*value),
            Field::Varint(value) => out.put_varint(*value),
            Field::Bytes(value) => out.put_bytes(value),
            Field::Prefixed(value) => out.put_prefixed(value),
        }
    }
    bytes
}

/// Reads the next field, which is of the kind of `like`.
fn read(from: &mut Reader<'_>, like: &Field) -> Result<Field, thermocline_codec::Corruption> {
    Ok(match like {
        Field::U8(_) => Field::U8(from.take_u8()?),
        Field::U16(_) => Field::U16(from.take_u16()?),
        Field::U32(_) => Field::U32(from.take_u32()?),
        Field::U64(_) => Field::U64(from.take_u64()?),
        Field::Varint(_) => Field::Varint(from.take_varint_u64()?),
        Field::Bytes(value) => Field::Bytes(from.take_bytes(value.len())?.to_vec()),
        Field::Prefixed(_) => Field::Prefixed(from.take_prefixed()?.to_vec()),
    })
}

proptest! {
    #[test]
    fn fields_come_back_as_written(fields in prop::collection::vec(field(), 0..20)) {
        let bytes = write(&fields);
        let mut from = Reader::new(&bytes);
        for field in &fields {
            prop_assert_eq!(&read(&mut from, field).unwrap(), field);
        }
        prop_assert!(from.finish().is_ok());
    }

    #[test]
    fn a_cut_anywhere_is_an_error_and_takes_nothing(
        fields in prop::collection::vec(field(), 1..10), cut in any::<prop::sample::Index>(),
    ) {
        let bytes = write(&fields);
        prop_assume!(!bytes.is_empty());
        let bytes = &bytes[..cut.index(bytes.len())];
        let mut from = Reader::new(bytes);
        let failed = fields.iter().any(|field| {
            let before = from.position();
            let error = read(&mut from, field).err();
            if let Some(error) = &error {
                assert_eq!(from.position(), before);
                assert!(error.offset >= before as u64 && error.offset <= bytes.len() as u64);
            }
            error.is_some()
        });
        prop_assert!(failed);
    }

    #[test]
    fn hostile_bytes_never_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..64),
        fields in prop::collection::vec(field(), 0..20),
    ) {
        let mut from = Reader::new(&bytes);
        for field in &fields {
            let before = from.position();
            match read(&mut from, field) {
                Ok(_) => prop_assert!(from.position() >= before),
                Err(_) => prop_assert_eq!(from.position(), before),
            }
            prop_assert_eq!(from.remaining() + from.position(), bytes.len());
        }
        let _ = FORMAT.decode(&bytes);
        let _ = from.take_count(3).map(|count| assert!(count * 3 <= from.remaining()));
    }

    #[test]
    fn a_varint_has_one_encoding(bytes in prop::collection::vec(varint_byte(), 1..12)) {
        let mut from = Reader::new(&bytes);
        if let Ok(value) = from.take_varint_u64() {
            prop_assert_eq!(varint(value), from.taken());
            prop_assert_eq!(varint_len(value), from.position());
        }
        let mut narrow = Reader::new(&bytes);
        let mut wide = Reader::new(&bytes);
        match (narrow.take_varint_u32(), wide.take_varint_u64()) {
            (Ok(narrow), Ok(wide)) => prop_assert_eq!(u64::from(narrow), wide),
            (Err(_), Ok(wide)) => prop_assert!(wide > u64::from(u32::MAX)),
            (Err(_), Err(_)) => {}
            (Ok(_), Err(error)) => prop_assert!(false, "only 32 bits read: {error}"),
        }
    }

    #[test]
    fn any_flipped_bit_of_a_header_is_seen(flags in 0_u16..4, bit in 0_usize..128) {
        let mut bytes = FORMAT.header(flags).encode();
        prop_assert_eq!(FORMAT.decode(&bytes), Ok(FORMAT.header(flags)));
        bytes[bit / 8] ^= 1 << (bit % 8);
        let error = FORMAT.decode(&bytes).unwrap_err();
        let seen = match error {
            HeaderError::Magic { .. } => bit < 64,
            HeaderError::Checksum { .. } => bit >= 64,
            _ => false,
        };
        prop_assert!(seen, "{error}");
    }

    #[test]
    fn a_checksum_knows_its_place(
        bytes in prop::collection::vec(any::<u8>(), 0..100),
        here in (any::<u64>(), any::<u64>(), any::<u64>()),
        field in 0_u32..3, bit in 0_u32..64,
    ) {
        let here = Place { file: here.0, offset: here.1, generation: here.2 };
        let mut there = here;
        match field {
            0 => there.file ^= 1 << bit,
            1 => there.offset ^= 1 << bit,
            _ => there.generation ^= 1 << bit,
        }
        prop_assert_ne!(here.crc32c(&bytes), there.crc32c(&bytes));
    }

    #[test]
    fn a_chain_knows_its_predecessor(
        bytes in prop::collection::vec(any::<u8>(), 0..100), one in any::<u32>(), other in any::<u32>(),
    ) {
        prop_assert_eq!(chain(one, &bytes) == chain(other, &bytes), one == other);
    }
}

#[test]
fn a_chain_over_stored_checksums_still_chains() {
    // The CRC of a message followed by its own CRC is the same for every message; the chain must
    // not run into that when the stored checksum is in front of the next record.
    let next = |record: &[u8]| {
        let sum = chain(0, record);
        chain(sum, &[&sum.to_le_bytes()[..], b"next"].concat())
    };
    assert_ne!(next(b"one"), next(b"two"));
}

#[test]
fn varints_at_their_limits() {
    for (value, len) in [(0, 1), (127, 1), (128, 2), (u64::from(u32::MAX), 5), (u64::MAX, 10)] {
        assert_eq!(varint(value).len(), len);
        assert_eq!(varint_len(value), len);
        assert_eq!(Reader::new(&varint(value)).take_varint_u64(), Ok(value));
    }
    let refused: [&[u8]; 5] = [
        &[0x80, 0x00],
        &[0xff, 0x80, 0x00],
        &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02],
        &[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01],
        &[0x80],
    ];
    for bytes in refused {
        assert!(Reader::new(bytes).take_varint_u64().is_err(), "{bytes:x?}");
    }
    assert!(Reader::new(&varint(1 << 32)).take_varint_u32().is_err());
}

#[test]
fn a_declared_length_is_not_believed() {
    let mut bytes = varint(u64::MAX);
    bytes.extend_from_slice(b"short");
    let error = Reader::new(&bytes).take_prefixed().unwrap_err();
    assert!(error.what.contains("5 are left"), "{error}");
    let error = Reader::new(&bytes).take_count(1).unwrap_err();
    assert_eq!(error.offset, 0);
    assert_eq!(Reader::new(&[2, 1, 1]).take_count(1), Ok(2));
    assert!(Reader::new(&[3, 1, 1]).take_count(1).is_err());
}

#[test]
fn trailing_bytes_are_reported_with_their_offset() {
    let mut from = Reader::new(&[1, 2, 3]);
    from.take_u8().unwrap();
    let error = from.finish().unwrap_err().at("journal/7", 4096);
    assert_eq!(error.to_string(), "2 bytes follow the last field in journal/7 at byte 4097");
}

#[test]
fn headers_say_what_is_wrong_with_them() {
    let good = FORMAT.header(1).encode();
    assert!(matches!(FORMAT.decode(&good[..15]), Err(HeaderError::Short { found: 15 })));
    let newer = FileHeader { version: 4, ..FORMAT.header(0) }.encode();
    assert_eq!(FORMAT.decode(&newer), Err(HeaderError::Version { found: 4, newest: 3 }));
    let zero = FileHeader { version: 0, ..FORMAT.header(0) }.encode();
    assert_eq!(FORMAT.decode(&zero), Err(HeaderError::Version { found: 0, newest: 3 }));
    let flagged = FORMAT.header(0b110).encode();
    assert_eq!(FORMAT.decode(&flagged), Err(HeaderError::Flags { unknown: 0b100 }));
    let older = FileHeader { version: 1, ..FORMAT.header(0) };
    assert_eq!(FORMAT.decode(&older.encode()), Ok(older));
    let other = FORMAT.decode(b"\x7fELF\x02\x01\x01\0 and more").unwrap_err();
    assert!(other.to_string().contains(r"\x7fELF"), "{other}");
    assert!(matches!(FORMAT.decode(&[0; 16]), Err(HeaderError::Magic { .. })));
}

#[test]
fn the_bytes_on_disk_stay_what_they_are() {
    // Formats store these; a change here orphans every file that was ever written.
    assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    assert_eq!(hash64(0, b""), 0x2d06_8005_38d3_94c2);
    assert_eq!(varint(300), [0xac, 0x02]);
    let header = FORMAT.header(1).encode();
    assert_eq!(header[..12], *b"TCTESTED\x03\x00\x01\x00");
    assert_eq!(header[12..], crc32c(&header[..12]).to_le_bytes());
}

#[test]
fn sequence_numbers_end_in_an_answer() {
    assert_eq!(SeqNo::ZERO.checked_next(), Some(SeqNo::new(1)));
    assert_eq!(SeqNo::MAX.checked_next(), None);
}

/// After an error nothing was taken.
#[test]
fn flags_and_texts() {
    let mut fields = Reader::new(&[0, 1, 2]);
    assert_eq!((fields.take_flag(), fields.take_flag()), (Ok(false), Ok(true)));
    assert!(fields.take_flag().is_err());
    assert_eq!(fields.position(), 2);
    assert!(Reader::new(&[]).take_flag().is_err());
    let mut fields = Reader::new(&[2, 0xc3, 0xa9, 1, 0xff]);
    assert_eq!(fields.take_text(), Ok("\u{e9}".to_owned()));
    assert!(fields.take_text().is_err());
    assert_eq!(fields.position(), 3);
}
