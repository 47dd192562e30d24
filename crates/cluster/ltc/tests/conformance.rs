//! The conformance suite of engines, on a range: the engine `lsm` on the device of a range, whose
//! logs and tables are on three StoCs of the device of a check.

use std::sync::Arc;
use std::time::Duration;

use conformance::{Check, Fixture, TrialFixture};
use device::{Device, Mode, SyncKind};
use engine::{Engine, Error, Host, Result};
use environment::Environment;
use logc::{Change, Closing, LogRecord, Registry, RegistryError, Setup, Stocs};
use scatter::RangeDevice;
use stoc::{DirectLink, Epoch, Kind, Limits, Link, RangeId, Stoc};
use sync::Mutex;

const STOCS: u32 = 3;

/// The StoCs of one start, without threads.
#[derive(Debug)]
struct Direct(Vec<Arc<dyn Link>>);

impl Stocs for Direct {
    fn link(&self, node: u32) -> Option<Arc<dyn Link>> {
        self.0.iter().find(|link| link.identity().node == node).cloned()
    }

    fn choose(&self, count: usize, avoid: &[u32]) -> Vec<Arc<dyn Link>> {
        let free = self.0.iter().filter(|link| !avoid.contains(&link.identity().node));
        free.take(count).cloned().collect()
    }
}

/// Returns an error of the components as one of an engine.
fn failed(error: impl std::fmt::Display) -> Error {
    let name = error.to_string();
    device::Error::Io { operation: device::FailedOperation::Open, name, code: 5 }.into()
}

/// The record of a range in a file: its epoch, and its two logs.
#[derive(Debug)]
struct Record {
    device: Arc<dyn Device>,
    turn: Mutex<()>,
}

const RECORD: &str = "record";

impl Record {
    fn read(&self) -> device::Result<(u64, [LogRecord; 2])> {
        if !self.device.exists(RECORD)? {
            return Ok((0, Default::default()));
        }
        let file = self.device.open(RECORD, Mode::Read)?;
        let mut bytes = vec![0; file.len()? as usize];
        file.read_at(0, &mut bytes)?;
        let (epoch, rest) = bytes.split_first_chunk().expect("it was written whole");
        let (length, rest) = rest.split_first_chunk().expect("it was written whole");
        let (log, manifest) = rest.split_at(u64::from_le_bytes(*length) as usize);
        let decode = |bytes| LogRecord::decode(bytes).expect("it was written whole");
        Ok((u64::from_le_bytes(*epoch), [decode(log), decode(manifest)]))
    }

    fn write(&self, epoch: u64, [log, manifest]: &[LogRecord; 2]) -> device::Result<()> {
        let log = log.encode();
        let length = (log.len() as u64).to_le_bytes();
        let bytes = [&epoch.to_le_bytes()[..], &length, &log, &manifest.encode()].concat();
        let file = self.device.open("record.new", Mode::Create)?;
        file.set_len(0)?;
        file.write_at(0, &bytes)?;
        file.sync(SyncKind::All)?;
        drop(file);
        self.device.rename_synced("record.new", RECORD)
    }

    /// Gives the range to its next owner.
    fn take(&self) -> device::Result<u64> {
        let (epoch, logs) = self.read()?;
        self.write(epoch + 1, &logs)?;
        Ok(epoch + 1)
    }
}

fn away(error: device::Error) -> RegistryError {
    RegistryError::Unavailable(error.to_string())
}

impl Registry for Record {
    fn load(&self, kind: Kind) -> std::result::Result<LogRecord, RegistryError> {
        let _turn = self.turn.lock();
        let (_, [log, manifest]) = self.read().map_err(away)?;
        Ok(if kind == Kind::Log { log } else { manifest })
    }

    fn change(&self, epoch: Epoch, changes: &[Change]) -> std::result::Result<(), RegistryError> {
        let _turn = self.turn.lock();
        let (present, mut logs) = self.read().map_err(away)?;
        for change in changes {
            let log = logs.get_mut(usize::from(change.kind != Kind::Log)).expect("there are two");
            if *log != change.before {
                return Err(RegistryError::Fenced);
            }
            *log = change.after.clone();
        }
        if present != epoch.0 {
            return Err(RegistryError::Fenced);
        }
        self.write(present, &logs).map_err(away)
    }
}

/// Opens the range that is on a device, as its next owner.
fn range_on(device: &Arc<dyn Device>) -> Result<RangeDevice> {
    let record = Record { device: Arc::clone(device), turn: Mutex::default() };
    let epoch = record.take()?;
    let mut links = Vec::new();
    for node in 1..=STOCS {
        let dir = format!("stoc-{node}");
        device.create_dir(&dir)?;
        device.sync_dir("")?;
        let options = stoc::Options {
            cluster: 1,
            node,
            incarnation: epoch,
            last_incarnation: None,
            limits: Limits::default(),
            environment: Environment::seeded(u64::from(node)),
        };
        let stoc = Stoc::open(device.subdevice(&dir)?, &options).map_err(failed)?;
        links.push(Arc::new(DirectLink(Arc::new(stoc))) as Arc<dyn Link>);
    }
    let logs = Setup {
        range: RangeId(1),
        epoch: Epoch(epoch),
        registry: Arc::new(record),
        stocs: Arc::new(Direct(links)),
        ensemble: 3,
        quorum: 2,
        mode: logc::Mode::Durable,
        slow: Duration::from_millis(100),
        backlog_bytes: 16 << 20,
        gives_up_log: false,
        environment: Environment::seeded(epoch),
        closing: Closing::default(),
    };
    let options = scatter::Options { logs, copies: 2, rho: 3 };
    scatter::open(&options).map_err(failed)
}

/// Returns whether a directory has a checkpoint: the files of the engine alone.
fn is_copy(device: &dyn Device) -> Result<bool> {
    Ok(!device.exists("stoc-1")? && !device.list("")?.is_empty() && !device.exists(RECORD)?)
}

struct RangeFixture(TrialFixture);

impl Fixture for RangeFixture {
    fn name(&self) -> &'static str {
        "lsm-range"
    }

    fn flushes_keys_apart(&self) -> bool {
        self.0.flushes_keys_apart()
    }

    fn variants(&self) -> u64 {
        4
    }

    fn open(&self, host: Host) -> Result<Arc<dyn Engine>> {
        if is_copy(&*host.device)? {
            return self.0.open(host);
        }
        let device: Arc<dyn Device> = Arc::new(range_on(&host.device)?);
        self.0.open(Host { device, ..host })
    }

    fn check(&self, device: &Arc<dyn Device>) -> Result<()> {
        if is_copy(&**device)? {
            return self.0.check(device);
        }
        // An opening changes the range, so the check looks at a copy.
        let copy = device::memory();
        copy_below(&**device, &*copy, "")?;
        let device: Arc<dyn Device> = Arc::new(range_on(&copy)?);
        self.0.check(&device)
    }
}

/// Copies all files below a directory.
fn copy_below(from: &dyn Device, to: &dyn Device, dir: &str) -> Result<()> {
    for entry in from.list(dir)? {
        let path = device::join(dir, &entry.name);
        if entry.is_dir {
            to.create_dir(&path)?;
            copy_below(from, to, &path)?;
            continue;
        }
        let file = from.open(&path, device::Mode::Read)?;
        let mut bytes = vec![0; file.len()? as usize];
        file.read_at(0, &mut bytes)?;
        to.open(&path, device::Mode::CreateNew)?.write_at(0, &bytes)?;
    }
    Ok(())
}

/// The checks of what an engine does with its data. Those of single failures of a device are not
/// for a range: two StoCs are enough for it.
macro_rules! checks {
    ($($name:ident $check:ident),* $(,)?) => {$(
        #[test]
        fn $name() {
            let fixture = RangeFixture(TrialFixture::of(&lsm::DRIVER));
            conformance::assert_conforms(&fixture, env!("CARGO_PKG_NAME"), Check::$check);
        }
    )*};
}

checks! {
    conforms_model Model, conforms_budget Budget, conforms_reservations Reservations,
    conforms_waits Waits, conforms_registers Registers, conforms_counters Counters,
    conforms_snapshots Snapshots, conforms_crashes Crashes, conforms_crowd Crowd,
    conforms_determinism Determinism,
}
