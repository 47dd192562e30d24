//! How often the device is read, and for how many bytes, for a get of a key that memory does not have and
//! for scans: of data several times the budget, after loads and overwrites in no order.

use std::sync::Arc;
use std::time::Duration;

use device::{Device, IoCounts};
use engine::{Direction, Engine, Host, KeyRange, MemoryBudget, NoJournal, Op, Sequence};
use environment::Environment;
use telemetry::Registry;
use thermocline_flexdb::{Options, Store};
use workers::Pool;

const BUDGET: u64 = 8 << 20;
/// Pairs of 27 and 127 bytes, four times the budget of them.
const KEYS: u64 = 4 * BUDGET / (27 + 127);
const GETS: u64 = 4000;
/// Passes of the same scans until none of them finds anything in pieces.
const PASSES_MAX: usize = 20;
/// Without any input or output for so long nothing is left to be done.
const SETTLED: Duration = Duration::from_secs(3);

struct Bench {
    store: Store,
    device: Arc<dyn Device>,
    sequence: Arc<Sequence>,
    workers: Pool,
}

/// The key of that number: in no order.
fn key(number: u64) -> Vec<u8> {
    format!("user{:023}", codec::hash64(7, &number.to_le_bytes())).into_bytes()
}

impl Bench {
    /// With neighbours that are written as one while nobody wants the store, or not.
    fn on(device: Arc<dyn Device>, tidies_when_idle: bool) -> Self {
        let (environment, telemetry) = (Environment::real(), Registry::default());
        let workers = Pool::start(&environment, 2, &telemetry).expect("threads start");
        let sequence = Arc::new(Sequence::new());
        let host = Host {
            device: Arc::clone(&device),
            workers: workers.clone(),
            environment,
            telemetry,
            sequence: Arc::clone(&sequence),
            barrier: Arc::new(NoJournal),
            memory: Arc::new(MemoryBudget::new(BUDGET)),
        };
        let options = Options { tidies_when_idle, ..Options::default() };
        let store = Store::open(host, options).expect("the store opens");
        sequence.recover_to(store.persisted());
        Self { store, device, sequence, workers }
    }

    /// Writes every `step`th key, and puts it to its place.
    fn write(&self, step: usize, byte: u8) {
        for number in (0..KEYS).step_by(step) {
            let key = key(number);
            let put = [Op::Put { key: &key, value: &[byte; 127] }];
            self.store.admit(&put).expect("there is room");
            let ticket = self.sequence.begin();
            self.store.apply(&put, ticket.seqno()).expect("the write is taken");
        }
        self.store.flush().expect("the device takes it");
    }

    fn detail(&self, name: &str) -> u64 {
        let stats = self.store.stats();
        stats.detail.iter().find(|(key, _)| *key == name).expect("a figure of that name").1
    }

    fn counts(&self) -> IoCounts {
        self.device.accounting().counts()
    }

    /// Waits until the collector, which reads as well, has nothing to do any more, nor a pass that writes neighbours
    /// as one, which begins after one or two seconds.
    fn settle(&self) {
        let environment = Environment::real();
        let mut before = IoCounts::default();
        while before != self.counts() {
            before = self.counts();
            environment.sleep(SETTLED);
        }
    }

    /// Reads of the device and bytes that they asked for, for each get that was not answered by memory. The keys
    /// begin with `from`, and are in no order.
    fn cold_gets(&self, name: &str, from: u64, byte: impl Fn(u64) -> u8) -> (f64, f64) {
        self.settle();
        let hits = || self.detail("cache_hits") + self.detail("pair_hits");
        let (before, hits_before) = (self.counts(), hits());
        let mut value = Vec::new();
        for at in 0..GETS {
            let number = (from + at * 7919) % KEYS;
            assert_eq!(self.store.get(&key(number), &mut value), Ok(true), "{number}");
            assert_eq!(value, [byte(number); 127], "{number}");
            let miss = key(number + KEYS);
            assert_eq!(self.store.get(&miss, &mut value), Ok(false), "not {number}");
        }
        let after = self.counts();
        let cold = 2 * GETS - (hits() - hits_before);
        assert!(cold > GETS / 2, "{cold} cold gets see nothing");
        let reads = (after.read_ops - before.read_ops) as f64 / cold as f64;
        let bytes = (after.read_bytes - before.read_bytes) as f64 / cold as f64;
        println!("{name}: {reads:.2} reads, {bytes:.0} bytes for each of {cold} cold gets");
        (reads, bytes)
    }

    /// Reads of the device for each scan of 50 pairs.
    fn scans(&self, name: &str, direction: Direction) -> f64 {
        let before = self.counts().read_ops;
        let scans = GETS / 20;
        for at in 0..scans {
            let from = key(at * 7919 % KEYS);
            let range = match direction {
                Direction::Forward => KeyRange::of(from.as_slice()..),
                Direction::Backward => KeyRange::of(..from.as_slice()),
            };
            let view = self.store.view(self.sequence.pin()).expect("it is open");
            let mut cursor = view.scan(range, direction).expect("it is open");
            for _ in 0..50 {
                cursor.next().expect("nothing is damaged");
            }
        }
        let reads = (self.counts().read_ops - before) as f64 / scans as f64;
        println!("{name}: {reads:.2} reads for each scan of 50");
        reads
    }

    /// The same as often as scans find something in pieces, and a bit more: once each of them has been written
    /// as one.
    fn scans_again(&self, name: &str) -> f64 {
        let written = || self.detail("intervals_rewritten_for_scans");
        let mut quiet = 0;
        for _ in 0..PASSES_MAX {
            let before = written();
            self.scans(name, Direction::Forward);
            self.settle();
            quiet = if written() == before { quiet + 1 } else { 0 };
            // Once may be for want of allowance, or of a thread that has the time.
            if quiet == 2 {
                break;
            }
        }
        assert!(written() > 100, "{} intervals: this test sees nothing", written());
        self.scans(name, Direction::Forward)
    }

    /// Closes and opens again, with the index that was stored or without, as after a kill.
    fn reopen(self, with_index: bool) -> Self {
        self.store.close().expect("closes");
        if !with_index {
            self.device.remove("index").expect("it was stored");
        }
        assert!(self.workers.stop().is_empty(), "no task panics");
        Self::on(self.device, false)
    }
}

#[test]
fn a_cold_get_reads_the_device_once() {
    let bench = Bench::on(device::memory(), false);
    bench.write(1, 1);
    // The index takes more than its share, so intervals are twice as large as with more memory.
    let (reads, bytes) = bench.cold_gets("loaded", 1, |_| 1);
    assert!(reads <= 1.3, "{reads} after a load");
    assert!(bytes <= 14_000.0, "{bytes} after a load");
    let reads = bench.scans("loaded, forward", Direction::Forward);
    assert!(reads <= 9.2, "{reads} a scan forward, loaded");
    let reads = bench.scans("loaded, backward", Direction::Backward);
    assert!(reads <= 9.2, "{reads} a scan backward, loaded");
    let reads = bench.scans_again("loaded, scanned before");
    assert!(reads <= 2.0, "{reads} a scan of what scans have read before");
    bench.write(3, 2);
    let (reads, bytes) = bench.cold_gets("overwritten", 2, |number| 1 + (number % 3 == 0) as u8);
    assert!(reads <= 1.3, "{reads} after overwrites");
    assert!(bytes <= 14_000.0, "{bytes} after overwrites");
    let reads = bench.scans("overwritten, forward", Direction::Forward);
    assert!(reads <= 9.8, "{reads} a scan forward, overwritten");
    let reads = bench.scans("overwritten, backward", Direction::Backward);
    assert!(reads <= 9.8, "{reads} a scan backward, overwritten");
    let value = |number: u64| 1 + number.is_multiple_of(3) as u8;
    let bench = bench.reopen(true);
    assert_eq!(bench.detail("opening_keys"), 0);
    let (reads, bytes) = bench.cold_gets("closed and opened", 5, value);
    assert!(reads <= 1.3, "{reads} after a close");
    assert!(bytes <= 14_000.0, "{bytes} after a close");
    let reads = bench.scans("closed and opened, forward", Direction::Forward);
    assert!(reads <= 9.8, "{reads} a scan forward, after a close");
    let reads = bench.scans("closed and opened, backward", Direction::Backward);
    assert!(reads <= 9.8, "{reads} a scan backward, after a close");
    // Nobody knows yet where updates lie, but by whoever reads an interval.
    let bench = bench.reopen(false);
    assert!(bench.detail("opening_keys") > 1000);
    let (reads, _) = bench.cold_gets("opened", 3, value);
    assert!(reads <= 4.0, "{reads} after opening");
    let (reads, bytes) = bench.cold_gets("opened, and read before", 4, value);
    assert!(reads <= 1.8, "{reads} some time after opening");
    assert!(bytes <= 14_500.0, "{bytes} some time after opening");
    bench.scans("opened, forward", Direction::Forward);
    bench.scans("opened, backward", Direction::Backward);
    let reads = bench.scans_again("opened, scanned before");
    assert!(reads <= 2.0, "{reads} a scan after opening of what scans have read before");
    bench.store.close().expect("closes");
}

#[test]
fn a_scan_reads_the_device_twice_at_most_once_the_store_was_idle() {
    let bench = Bench::on(device::memory(), true);
    bench.write(1, 1);
    bench.settle();
    let space = bench.detail("space_bytes");
    let tidied = bench.detail("bytes_tidied");
    println!("{tidied} bytes of {space} written while it was idle");
    assert!(tidied > space / 2 && tidied <= space, "{tidied} bytes of {space}");
    let (reads, bytes) = bench.cold_gets("loaded and tidied", 1, |_| 1);
    assert!(reads <= 1.1, "{reads} after a load");
    assert!(bytes <= 14_000.0, "{bytes} after a load");
    for direction in [Direction::Forward, Direction::Backward] {
        let reads = bench.scans("loaded and tidied", direction);
        assert!(reads <= 2.0, "{reads} a scan, {direction:?}");
    }
    bench.write(3, 2);
    let reads = bench.scans("overwritten", Direction::Forward);
    assert!(reads > 2.0, "{reads} a scan: what is written as one has nothing to do");
    bench.settle();
    // A third was put, so no more than a third is written as one; and what scans have read.
    let again = bench.detail("bytes_tidied") - tidied;
    assert!(again > space / 6 && again <= space * 2 / 5, "{again} bytes of {space}");
    let less = bench.scans("overwritten and tidied", Direction::Forward);
    assert!(less < reads * 3.0 / 4.0, "{reads} reads a scan before, {less} now");
    bench.store.close().expect("closes");
    assert!(bench.workers.stop().is_empty(), "no task panics");
}
