//! Reads of the device, and their bytes, for cold gets and for scans.
//!
//! A cold get is of a key that memory does not have.
//!
//! The data are several times the budget, after loads and overwrites in no order.

use std::sync::Arc;

use conformance::Bench;
use device::Device;
use engine::{Direction, Engine, KeyRange, NoJournal};
use reads::BlockingReads;
use thermocline_flexdb::{Options, Store};

use super::{PAIR_BYTES, VALUE_BYTES, key};

const BUDGET: u64 = 8 << 20;
/// Four times the budget.
const KEYS: u64 = 4 * BUDGET / PAIR_BYTES;
const GETS: u64 = 4000;
/// Passes of the same scans until none of them finds anything in pieces.
const PASSES_MAX: usize = 20;

/// A store of which reads are counted.
struct Counted(Bench<Store>);

impl Counted {
    /// A store that does, or does not, write neighbours as one while it is idle.
    fn on(device: Arc<dyn Device>, defragments_when_idle: bool) -> Self {
        let options = Options { defragments_when_idle, ..Options::default() };
        let open = |host| Store::open(host, options);
        Self(Bench::threaded(device, Arc::new(NoJournal), BUDGET, 2, open))
    }

    /// Writes every `step`th key, and puts it to its place.
    fn write(&self, step: usize, byte: u8) {
        for number in (0..KEYS).step_by(step) {
            self.0.put(&key(number), &[byte; VALUE_BYTES]);
        }
        self.0.store.flush().expect("the device takes it");
    }

    /// Returns the reads of the device, and the bytes that they asked for, for each get that memory
    /// could not serve. The keys begin with `from`, and are in no order.
    fn cold_gets(&self, name: &str, from: u64, byte: impl Fn(u64) -> u8) -> (f64, f64) {
        // The collector reads as well, and so does a pass that writes neighbours as one.
        let before = self.0.wait_idle();
        let hits = || self.0.detail("cache_hits") + self.0.detail("pair_hits");
        let hits_before = hits();
        let mut value = Vec::new();
        for at in 0..GETS {
            let number = (from + at * 7919) % KEYS;
            assert_eq!(self.0.store.get(&key(number), &mut value), Ok(true), "{number}");
            assert_eq!(value, [byte(number); VALUE_BYTES], "{number}");
            let miss = key(number + KEYS);
            assert_eq!(self.0.store.get(&miss, &mut value), Ok(false), "not {number}");
        }
        let after = self.0.counts();
        let cold = 2 * GETS - (hits() - hits_before);
        assert!(cold > GETS / 2, "{cold} cold gets see nothing");
        let reads = (after.read_ops - before.read_ops) as f64 / cold as f64;
        let bytes = (after.read_bytes - before.read_bytes) as f64 / cold as f64;
        println!("{name}: {reads:.2} reads, {bytes:.0} bytes for each of {cold} cold gets");
        (reads, bytes)
    }

    /// Reads of the device for each scan of 50 pairs.
    fn scans(&self, name: &str, direction: Direction) -> f64 {
        let before = self.0.counts().read_ops;
        let scans = GETS / 20;
        for at in 0..scans {
            let from = key(at * 7919 % KEYS);
            let range = match direction {
                Direction::Forward => KeyRange::of(from.as_slice()..),
                Direction::Backward => KeyRange::of(..from.as_slice()),
            };
            let view = self.0.store.view(self.0.host.sequence.pin());
            let mut cursor = view.scan(range, direction).expect("it is open");
            for _ in 0..50 {
                cursor.next().expect("nothing is damaged");
            }
        }
        let reads = (self.0.counts().read_ops - before) as f64 / scans as f64;
        println!("{name}: {reads:.2} reads for each scan of 50");
        reads
    }

    /// The same, repeated as long as scans find something in pieces, and a bit longer: until each
    /// interval was written as one.
    fn scans_again(&self, name: &str) -> f64 {
        let written = || self.0.detail("intervals_rewritten_for_scans");
        let mut quiet = 0;
        for _ in 0..PASSES_MAX {
            let before = written();
            self.scans(name, Direction::Forward);
            self.0.wait_idle();
            quiet = if written() == before { quiet + 1 } else { 0 };
            // This may fail once for lack of allowance, or of a thread that has the time.
            if quiet == 2 {
                break;
            }
        }
        assert!(written() > 100, "{} intervals: this test sees nothing", written());
        self.scans(name, Direction::Forward)
    }

    /// Closes and opens again, with the index that was stored or without, as after a kill.
    fn reopen(self, with_index: bool) -> Self {
        let device = self.0.end().device;
        if !with_index {
            device.remove("index").expect("it was stored");
        }
        Self::on(device, false)
    }
}

#[test]
fn a_cold_get_reads_the_device_once() {
    let bench = Counted::on(device::memory(), false);
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
    assert_eq!(bench.0.detail("opening_keys"), 0);
    let (reads, bytes) = bench.cold_gets("closed and opened", 5, value);
    assert!(reads <= 1.3, "{reads} after a close");
    assert!(bytes <= 14_000.0, "{bytes} after a close");
    let reads = bench.scans("closed and opened, forward", Direction::Forward);
    assert!(reads <= 9.8, "{reads} a scan forward, after a close");
    let reads = bench.scans("closed and opened, backward", Direction::Backward);
    assert!(reads <= 9.8, "{reads} a scan backward, after a close");
    // After an opening, the places of updates become known only when a read loads their interval.
    let bench = bench.reopen(false);
    assert!(bench.0.detail("opening_keys") > 1000);
    let (reads, _) = bench.cold_gets("opened", 3, value);
    assert!(reads <= 4.0, "{reads} after opening");
    let (reads, bytes) = bench.cold_gets("opened, and read before", 4, value);
    assert!(reads <= 1.8, "{reads} some time after opening");
    assert!(bytes <= 14_500.0, "{bytes} some time after opening");
    bench.scans("opened, forward", Direction::Forward);
    bench.scans("opened, backward", Direction::Backward);
    let reads = bench.scans_again("opened, scanned before");
    assert!(reads <= 2.0, "{reads} a scan after opening of what scans have read before");
    bench.0.end();
}

#[test]
fn a_scan_reads_the_device_twice_at_most_once_the_store_was_idle() {
    let bench = Counted::on(device::memory(), true);
    bench.write(1, 1);
    bench.0.wait_idle();
    let space = bench.0.detail("space_bytes");
    let defragmented = bench.0.detail("bytes_defragmented");
    println!("{defragmented} bytes of {space} written while it was idle");
    assert!(defragmented > space / 2 && defragmented <= space, "{defragmented} bytes of {space}");
    let (reads, bytes) = bench.cold_gets("loaded and defragmented", 1, |_| 1);
    assert!(reads <= 1.1, "{reads} after a load");
    assert!(bytes <= 14_000.0, "{bytes} after a load");
    for direction in [Direction::Forward, Direction::Backward] {
        let reads = bench.scans("loaded and defragmented", direction);
        assert!(reads <= 2.0, "{reads} a scan, {direction:?}");
    }
    bench.write(3, 2);
    let reads = bench.scans("overwritten", Direction::Forward);
    assert!(reads > 2.0, "{reads} a scan: what is written as one has nothing to do");
    bench.0.wait_idle();
    // A third was put, so no more than a third is written as one; and what scans have read.
    let again = bench.0.detail("bytes_defragmented") - defragmented;
    assert!(again > space / 6 && again <= space * 2 / 5, "{again} bytes of {space}");
    let less = bench.scans("overwritten and defragmented", Direction::Forward);
    assert!(less < reads * 3.0 / 4.0, "{reads} reads a scan before, {less} now");
    bench.0.end();
}
