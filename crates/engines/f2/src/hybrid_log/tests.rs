//! The log alone.

use std::sync::Arc;

use engine::{DeviceReads, Error, Health, Reservation};
use environment::Environment;
use memory_budget::MemoryBudget;
use sync::epoch::Epochs;
use telemetry::Registry;
use workers::Pool;

use super::{Geometry, HybridLog, RecordReads, Segments, StoreParts};
use crate::address::LogAddress;
use crate::record::Shape;

const PAGE_BYTES: u64 = 4096;

/// An empty log that continues at `tail`.
fn log_from(tail: LogAddress) -> (Arc<HybridLog>, Pool) {
    let environment = Environment::seeded(7);
    let pool = Pool::start(&environment, 1, &Registry::default()).expect("threads start");
    let geometry = Geometry::new(PAGE_BYTES, PAGE_BYTES, Geometry::FRAMES_MIN, 0.5);
    let salts = environment.random("segments");
    let device: Arc<dyn device::Device> = device::memory();
    let segments =
        Segments::open(device, "log", geometry, tail, tail, salts).expect("an empty device");
    let parts = StoreParts {
        record_reads: Arc::new(RecordReads::new(Arc::new(DeviceReads(device::memory())), 1 << 20)),
        epochs: Epochs::new(),
        health: Arc::new(Health::default()),
        memory: Arc::new(MemoryBudget::new(u64::MAX)),
        workers: Arc::new(pool.group("f2")),
        ballast: Arc::new(device::Ballast::found(device::memory(), "ballast").expect("it is made")),
    };
    (HybridLog::new(geometry, segments, tail, tail, &parts), pool)
}

#[test]
fn a_log_that_comes_to_the_end_of_its_addresses_takes_nothing_more() {
    // More pages than memory has.
    const PAGES: u64 = 9;
    let tail = LogAddress::new(LogAddress::END.get() - (PAGES + 2) * PAGE_BYTES);
    let (log, _pool) = log_from(tail);
    let shape = Shape { key_bytes: 8, value_bytes: 900 };
    let append = |number: u64| {
        log.with_room(&Reservation::uncounted(), || {
            let at = log.try_allocate(shape.bytes() as u64)?;
            log.live(at).write(LogAddress::NONE, &number.to_le_bytes(), Some(&[7; 900]));
            Ok(at)
        })
    };
    let mut last = tail;
    for number in 0..PAGES * (PAGE_BYTES / shape.bytes() as u64) {
        let at = append(number).expect("there is room");
        assert!(at > last || number == 0, "{at:?} after {last:?}");
        last = at;
    }
    assert!(last.get() > LogAddress::END.get() - 3 * PAGE_BYTES && !last.is_cached());
    for _ in 0..2 {
        let refused = append(0).expect_err("no address is left");
        assert!(matches!(&refused, Error::ReadOnly { cause } if **cause == Error::LogEnded));
    }
    assert!(log.tail() < LogAddress::END);
    // A log that is opened again continues at the next segment, and takes nothing either.
    let (log, _pool) = log_from(LogAddress::new(LogAddress::END.get() - 2 * PAGE_BYTES));
    assert!(log.check_writable().is_err());
    assert!(log.tail() < LogAddress::END);
}
