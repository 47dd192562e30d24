//! Lookups and writes while no operation of the device ends: none of them waits (laws L8 and L9).

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use device::{Device, FaultDevice};
use engine::{
    At, BlockingWrites, Change, Demand, Direction, KeyRange, NoJournal, Op, Operator, Reservation,
    TryNext, Updated, Wait,
};
use environment::Environment;

use crate::Fixture;
use crate::concurrent::{join, spawn};
use crate::host::{self, Opened};

const KEYS: u64 = 150;
const VALUE_BYTES_MAX: usize = 700;
/// Writes for which room is reserved before the operations stop.
const RESERVED: u64 = 12;
/// A call that takes longer never ends.
const LONG: Duration = Duration::from_secs(30);
/// How long the check waits for work that may not need the device.
const SOON: Duration = Duration::from_millis(20);

fn key(number: u64) -> Vec<u8> {
    format!("key{number:04}").into_bytes()
}

fn failed(what: &str) -> impl Fn(engine::Error) -> String + '_ {
    move |error| format!("{what} failed: {error}")
}

/// The steps of one write: a put, a delete, a batch, or a range that is deleted. The writes change
/// no value, and remove no pair.
struct Steps {
    keys: Vec<Vec<u8>>,
    deletes_range: bool,
}

impl Steps {
    /// Returns the steps of the write of this number.
    fn of(number: u64, deletes_ranges: bool) -> Self {
        // Keys behind those of the store.
        let absent = |number: u64| key(KEYS + number);
        let (keys, deletes_range) = match number % 4 {
            0 => (vec![key(number)], false),
            1 => (vec![absent(number)], false),
            2 => (vec![key(number), absent(number), key((number + 1) % KEYS)], false),
            _ => (vec![absent(number), absent(number + 1)], deletes_ranges),
        };
        Self { keys, deletes_range }
    }

    fn ops<'a>(&'a self, value: &'a [u8]) -> Vec<Op<'a>> {
        if let (true, [start, end]) = (self.deletes_range, self.keys.as_slice()) {
            return vec![Op::DeleteRange { start, end: Some(end) }];
        }
        let last = key(KEYS - 1);
        let step = |key: &'a Vec<u8>| match *key <= last {
            true => Op::Put { key, value },
            false => Op::Delete { key },
        };
        self.keys.iter().map(step).collect()
    }
}

/// Replaces any value by another one of the same length.
struct Same(Vec<u8>);

impl Operator for Same {
    fn update(&mut self, _value: Option<&[u8]>) -> Change {
        Change::Put(self.0.clone())
    }
}

/// The calls that must return.
struct Caller {
    opened: Arc<Opened>,
    device: Arc<FaultDevice>,
    value: Vec<u8>,
    /// Gets the name of each call before it begins.
    calls: Sender<String>,
}

impl Caller {
    fn calls(&self, call: impl Into<String>) {
        let _if_the_check_has_failed = self.calls.send(call.into());
    }

    /// Fills the store, so that there is work for the background and most keys are on the device.
    fn fill(&self) -> Result<(), String> {
        for number in 0..KEYS {
            let put = Op::Put { key: &key(number), value: &self.value };
            let written = self.opened.engine.write_next(&[put], &self.opened.sequence);
            written.map_err(failed("a write"))?;
            if number == KEYS / 2 {
                self.opened.engine.flush().map_err(failed("a flush"))?;
            }
        }
        Ok(())
    }

    fn steps(&self, number: u64) -> Steps {
        Steps::of(number, self.opened.engine.capabilities().deletes_ranges)
    }

    fn reserve(&self, number: u64, wait: Wait) -> Result<Option<Reservation<'_>>, String> {
        let steps = self.steps(number);
        let granted = self.opened.engine.reserve(&Demand::Ops(&steps.ops(&self.value)), wait);
        granted.map_err(failed("a reservation"))
    }

    fn apply(&self, number: u64, mut room: Reservation<'_>) -> Result<(), String> {
        let steps = self.steps(number);
        let ops = steps.ops(&self.value);
        let ticket = self.opened.sequence.begin();
        let applied = self.opened.engine.apply(&ops, ticket.seqno(), &mut room);
        applied.map_err(failed("a write with a reservation"))
    }

    fn lookup(&self) -> Result<(), String> {
        let engine = &*self.opened.engine;
        let pin = engine.capabilities().ordered.then(|| self.opened.sequence.pin());
        let mut value = Vec::new();
        for number in 0..KEYS {
            let key = key(number);
            for at in [Some(At::Newest), Some(At::ForUpdate), pin.as_deref().map(At::Pin)] {
                let Some(at) = at else { continue };
                self.calls(format!("lookup of key {number} at {at:?}"));
                engine.lookup(&key, at, &mut value).map_err(failed("a lookup"))?;
            }
        }
        self.calls("lookup_many");
        let keys: Vec<Vec<u8>> = (0..KEYS).map(key).collect();
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        engine.lookup_many(&keys, At::Newest, &mut |_, _| Ok(())).map_err(failed("lookup_many"))
    }

    /// Scans both ways, as far as that comes without the device.
    fn scan(&self) -> Result<(), String> {
        let engine = &*self.opened.engine;
        if !engine.capabilities().ordered {
            return Ok(());
        }
        for direction in [Direction::Forward, Direction::Backward] {
            self.calls(format!("scan {direction:?}"));
            let scan = engine.scan(KeyRange::all(), direction, self.opened.sequence.pin());
            let mut cursor = scan.map_err(failed("a scan"))?;
            let mut passed = 0;
            loop {
                self.calls(format!("try_next {direction:?} behind {passed} pairs"));
                match cursor.try_next().map_err(failed("try_next"))? {
                    TryNext::Pair(..) => passed += 1,
                    TryNext::End if passed == KEYS => break,
                    TryNext::End => return Err(format!("a scan ends behind {passed} pairs")),
                    TryNext::WouldBlock => break,
                }
            }
        }
        Ok(())
    }

    /// Updates keys in the engine, if it orders the writes of a key.
    fn update(&self) -> Result<(), String> {
        let Some(updates) = self.opened.engine.updates() else { return Ok(()) };
        for number in 0..KEYS {
            self.calls(format!("reserve of an update of key {number} without a wait"));
            let put = Op::Put { key: &key(number), value: &self.value };
            let granted = self.opened.engine.reserve(&Demand::Ops(&[put]), Wait::No);
            let Some(mut room) = granted.map_err(failed("a reservation"))? else { continue };
            let ticket = self.opened.sequence.begin();
            let mut operator = Same(self.value.clone());
            self.calls(format!("try_update of key {number}"));
            let updated =
                updates.try_update(&key(number), &mut operator, ticket.seqno(), &mut room);
            if let Updated::NeedsRoom { bytes } = updated.map_err(failed("try_update"))? {
                return Err(format!("try_update wants {bytes} bytes more than the same value has"));
            }
        }
        Ok(())
    }

    /// Does all of it. The operations of the device end only afterwards.
    fn run(&self) -> Result<(), String> {
        self.calls("the writes that fill the store");
        self.fill()?;
        let mut held = Vec::new();
        for number in 0..RESERVED {
            let wait = if held.is_empty() { Wait::Yes } else { Wait::No };
            held.extend(self.reserve(number, wait)?.map(|room| (number, room)));
        }
        self.device.park();
        let engine = Arc::clone(&self.opened);
        let flush = spawn("flush", move || engine.engine.flush().map_err(failed("a flush")))?;
        self.calls("the start of the flush");
        let real = Environment::real();
        let until = real.now() + SOON;
        while self.device.parked() == 0 && real.now() < until {
            std::thread::yield_now();
        }
        // An open would not end either: no lookup may need one.
        device::close_spare_files();
        let calls = || {
            self.lookup()?;
            self.scan()?;
            for (number, room) in held {
                self.calls(format!("apply of write {number}"));
                self.apply(number, room)?;
            }
            for number in 0..KEYS {
                self.calls(format!("reserve of write {number} without a wait"));
                if let Some(room) = self.reserve(number, Wait::No)? {
                    self.calls(format!("apply of write {number}, reserved without a wait"));
                    self.apply(number, room)?;
                }
            }
            self.update()?;
            self.scan()?;
            self.lookup()
        };
        let done = calls();
        self.device.go_on();
        self.calls("the flush");
        done.and(join(flush))
    }
}

/// Runs one case.
pub(crate) fn waits(fixture: &dyn Fixture, seed: u64) -> Result<(), String> {
    let device = FaultDevice::new(device::memory());
    let on = Arc::clone(&device) as Arc<dyn Device>;
    let opened = host::open_threaded(fixture, &on, Arc::new(NoJournal), seed);
    let opened = Arc::new(opened.map_err(failed("opening"))?);
    let bytes = fixture.value_bytes_max().min(VALUE_BYTES_MAX) as u64;
    let value = vec![seed as u8; (bytes - seed % (bytes / 2)) as usize];
    let (calls, called) = channel();
    let caller = Caller { opened: Arc::clone(&opened), device: Arc::clone(&device), value, calls };
    let calling = spawn("caller", move || caller.run())?;
    let mut call = String::new();
    let has_ended = loop {
        match called.recv_timeout(LONG) {
            Ok(next) => call = next,
            Err(error) => break error == std::sync::mpsc::RecvTimeoutError::Disconnected,
        }
    };
    device.go_on();
    let done = join(calling);
    if !has_ended {
        return Err(format!("no operation of the device ended, and it waits: {call}"));
    }
    done?;
    opened.engine.close().map_err(failed("closing"))
}
