//! Written pairs are read, in order, also after reopening.

use super::*;

fn settings(syncs: bool) -> Settings {
    Settings {
        cache_bytes: 1 << 20,
        memtable_bytes: 64 << 10,
        table_bytes: 1 << 20,
        filter_bits: 10,
        syncs,
    }
}

#[test]
fn pairs_survive_reopening() {
    for syncs in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path(), &settings(syncs)).unwrap();
        db.put(b"a", b"first value").unwrap();
        db.put(b"b", b"").unwrap();
        let mut batch = Batch::default();
        batch.put(b"c", b"3");
        batch.put(b"d", b"4");
        db.write(&batch).unwrap();
        db.delete(b"c").unwrap();
        // More than a memtable, so that tables, their cache and their filter are used.
        for number in 0..10_000_u32 {
            db.put(&[b"z".as_slice(), &number.to_be_bytes()].concat(), &[7; 50]).unwrap();
        }
        drop(db);
        let db = Db::open(dir.path(), &settings(syncs)).unwrap();
        let mut value = Vec::new();
        assert!(db.get(b"a", &mut value).unwrap());
        assert_eq!(value, b"first value");
        assert!(db.get(b"b", &mut value).unwrap() && value.is_empty());
        assert!(!db.get(b"c", &mut value).unwrap());
        assert!(!db.get(b"zz", &mut value).unwrap());
        assert!(db.get(b"z\0\0\x20\0", &mut value).unwrap());
        assert_eq!(value, [7; 50]);
        let mut cursor = db.seek(b"aa");
        let mut keys = Vec::new();
        while let Some((key, _)) = cursor.pair().unwrap() {
            keys.push(key.to_vec());
            cursor.advance();
        }
        cursor.advance();
        assert_eq!(keys.len(), 10_002);
        assert_eq!(keys[..2], [b"b", b"d"]);
    }
}

#[test]
fn errors_come_in_words() {
    let dir = tempfile::tempdir().unwrap();
    let _held = Db::open(dir.path(), &settings(false)).unwrap();
    let Err(error) = Db::open(dir.path(), &settings(false)) else {
        panic!("opened twice");
    };
    assert!(error.to_string().contains("lock"), "{error}");
}
