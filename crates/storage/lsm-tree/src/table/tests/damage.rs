//! Every byte of a table's file is damaged in turn: right data, or an error with the file and the
//! offset.

use device::Mode;
use engine::{Corruption, Error};

use super::*;
use crate::testing::{forward, versioned};

/// Returns the content of a table up to the first damage.
fn read(table: &Arc<Table>) -> (Vec<Versioned>, Option<Error>) {
    let mut found = Vec::new();
    let mut cursor = TableCursor::new(Arc::clone(table), Reading::Cached { level: 1 });
    let mut moved = cursor.seek(Target::START);
    while let (Ok(()), Some(entry)) = (&moved, cursor.entry()) {
        found.push(versioned(entry));
        moved = cursor.next();
    }
    (found, moved.err())
}

#[test]
fn a_damaged_byte_is_found_with_its_place() {
    Compression::ALL.into_iter().for_each(damage_each_byte);
}

fn damage_each_byte(compression: Compression) {
    let device = device::memory();
    let yard = || {
        let mut yard = Yard::of(LocalTables::on(Arc::clone(&device)));
        yard.options.compression = compression;
        yard
    };
    let entries: Vec<Versioned> = (0..60_u64)
        .map(|at| (format!("key-{at:03}").into_bytes(), 1 + at % 3, Some(vec![at as u8; 20])))
        .collect();
    let summary = yard().build(1, &entries).summary().clone();
    let file = device.open("table-1", Mode::Write).expect("it is there");
    let mut found = [0; 2];
    for offset in 0..summary.stored_bytes {
        let mut byte = [0];
        file.read_at(offset, &mut byte).expect("memory reads");
        file.write_at(offset, &[byte[0] ^ 0x20]).expect("memory writes");
        // A yard of its own, so that no cache helps.
        let yard = yard();
        let opened = Table::open(summary.clone(), &yard.store, &yard.cache);
        let error = match opened {
            Err(error) => Some(error),
            Ok(table) => {
                let (seen, error) = read(&table);
                assert_eq!(seen, entries[..seen.len()], "byte {offset}");
                assert!(error.is_some() || seen.len() == entries.len(), "byte {offset}");
                error.or_else(|| table.source().check().err())
            }
        };
        match error {
            Some(Error::Corruption(Corruption { file, offset: at, .. })) => {
                assert_eq!(file, "table-1");
                assert!(at <= offset, "byte {offset} is damaged, {at} was reported");
                found[0] += 1;
            }
            Some(other) => panic!("byte {offset}: {other:?}"),
            None => panic!("byte {offset} is damaged and nobody noticed"),
        }
        file.write_at(offset, &byte).expect("memory writes");
        found[1] += 1;
    }
    assert_eq!(found, [summary.stored_bytes; 2]);
}

/// A frame of zstd that is wrong though the checksum is right, as a mistake of our encoder would
/// leave it.
#[test]
fn a_frame_that_is_wrong_behind_its_checksum_is_damage() {
    let device = device::memory();
    let mut yard = Yard::of(LocalTables::on(Arc::clone(&device)));
    yard.options.compression = Compression::Zstd;
    let entries: Vec<Versioned> =
        (0..6_u64).map(|at| (vec![at as u8], 1, Some(vec![at as u8; 50]))).collect();
    let table = yard.build(1, &entries);
    let file = device.open("table-1", Mode::Write).expect("it is there");
    let index = table.index_at(&table.metadata().expect("whole"), Target::START);
    let handle = table.handle(&index.expect("whole").expect("a block")).expect("whole");
    let place = table.summary().id.place(handle.fragment, handle.offset);
    let mut stored = vec![0; handle.len as usize];
    table.source().read(0, handle.offset, &mut stored).expect("memory reads");
    let (mut refused, end) = (0, stored.len() - 4);
    assert_eq!(stored[end - 1], Compression::Zstd.byte());
    for at in 0..end - 1 {
        let mut changed = stored.clone();
        changed[at] ^= 0x20;
        let checksum = place.crc32c(&changed[..end]);
        changed[end..].copy_from_slice(&checksum.to_le_bytes());
        file.write_at(16 + handle.offset, &changed).expect("memory writes");
        let yard = Yard::of(LocalTables::on(Arc::clone(&device)));
        let again = Table::open(table.summary().clone(), &yard.store, &yard.cache).expect("whole");
        match read(&again).1 {
            Some(Error::Corruption(Corruption { file, offset, .. })) => {
                assert_eq!((file.as_str(), offset), ("table-1", 16 + handle.offset));
                refused += 1;
            }
            // Literals have no other checksum.
            None => {}
            Some(other) => panic!("byte {at}: {other:?}"),
        }
    }
    assert!(refused > 13, "{refused} of {} changes were refused", end - 1);
}

#[test]
fn a_block_of_another_table_is_not_taken() {
    let device = device::memory();
    let yard = Yard::of(LocalTables::on(Arc::clone(&device)));
    let first = yard.of_keys(1, &["a", "b"]);
    let second = yard.of_keys(2, &["a", "b"]);
    let mut bytes = vec![0; first.summary().properties.fragments[0] as usize];
    let from = device.open("table-1", Mode::Read).expect("it is there");
    from.read_at(16, &mut bytes).expect("memory reads");
    let into = device.open("table-2", Mode::Write).expect("it is there");
    into.write_at(16, &bytes).expect("memory writes");
    let (_, error) = read(&second);
    assert!(matches!(error, Some(Error::Corruption(_))), "{error:?}");
    assert_eq!(
        forward(&mut TableCursor::new(first, Reading::Cached { level: 1 }), Target::START).len(),
        2
    );
}

#[test]
fn a_file_that_is_cut_short_or_missing_does_not_open() {
    let device = device::memory();
    let yard = Yard::of(LocalTables::on(Arc::clone(&device)));
    let summary = yard.of_keys(1, &["a", "b"]).summary().clone();
    let open = || Table::open(summary.clone(), &yard.store, &yard.cache).map(drop);
    let file = device.open("table-1", Mode::Write).expect("it is there");
    file.set_len(summary.stored_bytes - 1).expect("memory cuts");
    assert!(matches!(open(), Err(Error::Corruption(_))));
    device.remove("table-1").expect("memory removes");
    assert!(matches!(open(), Err(Error::Corruption(_))));
}
