//! The journal, the write buffers and the index: nothing is durable too early.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use codec::SeqNo;
use device::{Device, Failure, Fault, FaultDevice, Lasting, OperationKind};
use engine::{Barrier, Engine, Error, Result};

use super::stores::{Bench, key, small};

/// A journal that notes the largest number that it had to reach, and that may fail.
#[derive(Debug, Default)]
struct Asked {
    upto: AtomicU64,
    fails: AtomicBool,
}

impl Barrier for Asked {
    fn reach(&self, seqno: SeqNo) -> Result<SeqNo> {
        if self.fails.load(SeqCst) {
            return Err(Error::of_journal(Error::Closed));
        }
        self.upto.fetch_max(seqno.get(), SeqCst);
        Ok(seqno)
    }

    fn is_journaled(&self) -> bool {
        true
    }
}

/// Law H10: a record is written once the journal is durable up to its write.
#[test]
fn h10_no_record_on_the_device_is_ahead_of_the_journal() {
    let (device, journal) = (device::memory(), Arc::new(Asked::default()));
    let barrier = Arc::clone(&journal) as Arc<dyn Barrier>;
    let bench = Bench::with(Arc::clone(&device), barrier, small()).expect("an empty device opens");
    let last = (0..10).fold(SeqNo::ZERO, |_, number| bench.put(&key(number), &[7; 500]));
    journal.fails.store(true, SeqCst);
    assert!(bench.write_buffers().is_err());
    let volumes = |device: &Arc<dyn Device>| {
        let files = device.list("").expect("memory lists");
        files.into_iter().filter(|file| file.name.starts_with("volume-")).count()
    };
    assert_eq!(volumes(&device), 0, "the journal has not reached the records");
    assert!(bench.store.flush().is_err());
    assert_eq!((volumes(&device), bench.store.persisted()), (0, SeqNo::ZERO));
    // A failure of the journal says nothing about these files.
    journal.fails.store(false, SeqCst);
    bench.write_buffers().expect("memory takes it");
    assert_eq!((volumes(&device), journal.upto.load(SeqCst)), (1, last.get()));
    assert_eq!(bench.get(&key(3)), Some(vec![7; 500]));
}

/// Parts whose write failed are written by the next flush, with the records that came meanwhile.
#[test]
fn a_part_that_found_no_room_is_written_again() {
    let faults = FaultDevice::new(device::memory());
    let device = Arc::clone(&faults) as Arc<dyn Device>;
    let bench = Bench::on(device).expect("an empty device opens");
    bench.put(b"a", &[1; 500]);
    bench.write_buffers().expect("memory takes it");
    for round in 1..=3_u8 {
        bench.put(b"b", &[round; 600]);
        let kind = Some(OperationKind::Write);
        let nth = faults.count(kind) + 1;
        faults.fail(Fault { kind, nth, failure: Failure::NoSpace, lasting: Lasting::Once });
        let refused = bench.write_buffers();
        assert!(refused.as_ref().is_err_and(Error::is_retryable), "{refused:?}");
        assert_eq!(bench.get(b"b"), Some(vec![round; 600]));
        assert_eq!(bench.get(b"a"), Some(vec![1; 500]));
    }
    bench.put(b"c", &[9; 700]);
    bench.store.flush().expect("memory takes it");
    assert_eq!(bench.detail("buffered_bytes"), 0);
    let bench = Bench::on(bench.end_sound()).expect("opens again");
    assert_eq!(bench.get(b"b"), Some(vec![3; 600]));
    assert_eq!(bench.get(b"c"), Some(vec![9; 700]));
}
