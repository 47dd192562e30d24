//! Long waits of writers are counted with their causes.

use std::sync::Arc;
use std::time::Duration;

use device::{Device, FaultDevice, OperationKind};
use thermocline::{DatabaseMetrics, Db, Durability, Environment, Options, WaitCounts};

/// The device takes 30 ms of the simulated clock for a write, and then 4 ms.
#[test]
fn a_long_wait_for_the_journal_is_counted_with_its_cause() {
    let (environment, clock) = Environment::simulated(1);
    let device = FaultDevice::new(device::memory());
    let options = Options { environment, sync_interval: None, ..Options::default() };
    let db = Db::open_on(Arc::clone(&device) as Arc<dyn Device>, "waits", options).unwrap();
    let space = db.keyspace("space", Default::default()).unwrap();
    let space = space.durability(Durability::Flushed);
    space.put(b"key", b"0").unwrap();
    assert_eq!(db.stats().writer_waits, []);
    for ms in [30, 4] {
        let clock = Arc::clone(&clock);
        let slow = move || clock.advance(Duration::from_millis(ms));
        device.interpose(OperationKind::Write, slow);
        space.put(b"key", b"1").unwrap();
    }
    let stats = db.stats();
    let [waits] = &stats.writer_waits[..] else { panic!("{:?}", stats.writer_waits) };
    assert_eq!((waits.cause, waits.keyspace.as_deref()), (JOURNAL, None));
    let time = Duration::from_millis(30);
    assert_eq!(waits.counts, WaitCounts { count: 1, total: time, longest: time });

    let metrics = DatabaseMetrics::new(db.telemetry());
    metrics.refresh(&stats);
    let page = db.telemetry().snapshot().render_prometheus();
    let labels = format!("{{cause=\"{JOURNAL}\",keyspace=\"\"}}");
    let line = format!("writer_wait_longest_microseconds{labels} 30000\n");
    assert!(page.contains(&line), "{page}");
    db.close().unwrap();
}

const JOURNAL: &str = "the write or the sync of the journal";
