//! The time that a simulated disk takes.

use std::time::Duration;

use environment::Environment;
use sync::locks::Mutex;

use crate::error::Operation;

use super::dice::Dice;
use super::disk::Disk;

/// The time that the operations of a simulated disk take, in the time of an environment. Each draws
/// its time between nothing and a longest one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    /// The longest time of a read.
    pub read_max: Duration,
    /// The longest time of a write, and of a change of names.
    pub write_max: Duration,
    /// The longest time of a sync.
    pub sync_max: Duration,
    /// The chance that an operation stalls, in parts of a million.
    pub stall_ppm: u32,
    /// The time that a stalled operation takes.
    pub stall: Duration,
}

/// The source of the times of one disk.
#[derive(Debug)]
pub(super) struct Delays {
    environment: Environment,
    latency: Latency,
    dice: Dice,
}

impl Delays {
    /// The draws are apart from those of the faults, so that both stay the same without the other.
    pub(super) fn new(environment: Environment, latency: Latency, seed: u64) -> Self {
        Self { environment, latency, dice: Dice::new(seed, "latency") }
    }

    fn draw(&mut self, operation: Operation) -> Duration {
        if self.dice.happens(self.latency.stall_ppm) {
            return self.latency.stall;
        }
        let longest = match operation {
            Operation::Read => self.latency.read_max,
            Operation::Sync => self.latency.sync_max,
            _ => self.latency.write_max,
        };
        let nanos = u64::try_from(longest.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(if nanos == 0 { 0 } else { self.dice.below(nanos) })
    }
}

/// Waits as long as the operation takes, without the lock of the disk.
pub(super) fn take_time(disk: &Mutex<Disk>, operation: Operation) {
    let mut disk = disk.lock();
    let Some(delays) = &mut disk.delays else { return };
    let (environment, time) = (delays.environment.clone(), delays.draw(operation));
    drop(disk);
    if !time.is_zero() {
        environment.sleep(time);
    }
}
