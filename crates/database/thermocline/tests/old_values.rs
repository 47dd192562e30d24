//! A thread that reads the old value of a key from the device holds no lock of it. Another write of
//! the key returns meanwhile, and counts.

use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use device::{Device, FaultDevice, OperationKind};
use thermocline::{
    Batch, Change, Db, Environment, Keyspace, KeyspaceOptions, MergeName, MergeOperators, Result,
};

use crate::cold_keys::{self, KEYS};
use crate::numbered::key;

/// A wait ends with an error after this time, if its condition is never met.
const WAIT_MAX: Duration = Duration::from_secs(60);

fn appended(value: Option<&[u8]>) -> Vec<u8> {
    [value.unwrap_or_default(), b"+"].concat()
}

/// The ways to write a value that depends on the old ones of keys that are locked together.
#[derive(Clone, Copy, Debug)]
enum Way {
    Section,
    Batch,
    Transaction,
}

impl Way {
    fn append(self, db: &Db, space: &Keyspace, key: &[u8]) -> Result<()> {
        match self {
            Self::Section => db.atomically(&[(space, key)], |section| {
                let old = section.get(0)?;
                section.put(0, appended(old.as_deref()))
            }),
            Self::Batch => db.write(Batch::new().merge(space, key, b"+")).map(drop),
            Self::Transaction => db.transaction(|tx| tx.merge(space, key, b"+")),
        }
    }
}

#[test]
fn a_key_whose_old_value_is_read_can_be_written() {
    let append: MergeName = "append".parse().unwrap();
    let operators =
        MergeOperators::new().with(append, |_, value, _| Ok(Change::Put(appended(value))));
    for (engine, journaled) in cold_keys::engines() {
        for way in [Way::Section, Way::Batch, Way::Transaction] {
            let faults = FaultDevice::new(device::memory());
            let device: Arc<dyn Device> = Arc::<FaultDevice>::clone(&faults);
            let options = KeyspaceOptions {
                engine,
                journaled,
                merge: Some(append),
                ..KeyspaceOptions::default()
            };
            let (db, space) = cold_keys::filled(&device, &operators, options);
            if matches!(way, Way::Transaction) && !space.is_ordered() {
                continue;
            }
            let is_cold = |at: &u64| space.try_get(&key(*at), &mut Vec::new()) == Ok(None);
            let key = key((0..KEYS).find(is_cold).expect("most keys are on the device alone"));
            let (begun, has_begun) = mpsc::channel();
            let (go_on, goes_on) = mpsc::channel::<()>();
            faults.interpose_anywhere(OperationKind::Read, move || {
                begun.send(()).unwrap();
                // The sender may be gone, if the test fails.
                let _ = goes_on.recv();
            });
            thread::scope(|scope| {
                let reader = scope.spawn(|| way.append(&db, &space, &key));
                has_begun.recv_timeout(WAIT_MAX).expect("the old value is read");
                let writer = scope.spawn(|| space.put(&key, b"new"));
                let real = Environment::real();
                let until = real.now() + WAIT_MAX;
                while !writer.is_finished() && real.now() < until {
                    real.sleep(Duration::from_millis(1));
                }
                let was_free = writer.is_finished();
                drop(go_on);
                assert!(was_free, "{engine}, {way:?}: the key is locked while the device is read");
                writer.join().unwrap().unwrap();
                reader.join().unwrap().unwrap();
            });
            let value = space.get(&key).unwrap();
            assert_eq!(value.as_deref(), Some(&b"new+"[..]), "{engine}, {journaled}, {way:?}");
            db.close().unwrap();
        }
    }
}
