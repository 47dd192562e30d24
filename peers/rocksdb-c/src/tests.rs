//! Written pairs are read, in order, also after reopening, with and without blobs.

use super::*;

const BLOBS: Blobs = Blobs { min_bytes: 4, file_bytes: 1 << 20, force_threshold: 0.3 };

fn settings(wal: Wal, blobs: Option<Blobs>) -> Settings {
    Settings {
        cache_bytes: 1 << 20,
        memtable_bytes: 1 << 20,
        table_bytes: 1 << 20,
        level_base_bytes: 4 << 20,
        background_jobs: 2,
        filter_bits: 10.0,
        filters_for_hits: false,
        direct_reads: false,
        direct_writes: false,
        readahead_bytes: 1 << 16,
        partitions: true,
        wal,
        blobs,
    }
}

#[test]
fn pairs_survive_reopening() {
    for wal in [Wal::Off, Wal::Buffered, Wal::Synced] {
        for blobs in [None, Some(BLOBS)] {
            let dir = tempfile::tempdir().unwrap();
            let settings = settings(wal, blobs);
            let db = Db::open(dir.path(), &settings).unwrap();
            db.put(b"a", b"first value").unwrap();
            db.put(b"b", b"").unwrap();
            let mut batch = Batch::default();
            batch.put(b"c", b"3");
            batch.put(b"d", b"4");
            db.write(&batch).unwrap();
            db.delete(b"c").unwrap();
            db.flush().unwrap();
            db.wait_for_compactions().unwrap();
            drop(db);
            let db = Db::open(dir.path(), &settings).unwrap();
            let mut value = Vec::new();
            assert!(db.get(b"a", &mut value).unwrap());
            assert_eq!(value, b"first value");
            assert!(db.get(b"b", &mut value).unwrap() && value.is_empty());
            assert!(!db.get(b"c", &mut value).unwrap());
            let mut cursor = db.seek(b"aa");
            let mut keys = Vec::new();
            while let Some((key, _)) = cursor.pair().unwrap() {
                keys.push(key.to_vec());
                cursor.advance();
            }
            cursor.advance();
            assert_eq!(keys, [b"b", b"d"]);
        }
    }
}

#[test]
fn errors_come_in_words() {
    let dir = tempfile::tempdir().unwrap();
    let _held = Db::open(dir.path(), &settings(Wal::Off, None)).unwrap();
    let Err(error) = Db::open(dir.path(), &settings(Wal::Off, None)) else {
        panic!("opened twice");
    };
    assert!(error.to_string().contains("lock"), "{error}");
}
