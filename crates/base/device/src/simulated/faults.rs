//! The knobs of the simulated disk.

use super::dice::Dice;

/// The faults of a simulated disk, and their frequencies. Chances are per million operations.
///
/// A power cut is not among them: a caller requests it by [`super::SimulatedDisk::crash`] or
/// [`super::SimulatedDisk::power_cut_at`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// A read fails with `EIO`.
    pub read_error_ppm: u32,
    /// A write fails with `EIO` after a part of it, in whole sectors, was done.
    pub write_error_ppm: u32,
    /// A write fails with [`crate::Error::NoSpace`] after a part of it, in whole sectors, was done;
    /// making a name fails without effect.
    pub no_space_ppm: u32,
    /// A sync of a file fails with `EIO`, in one of the ways of [`SyncFailure`].
    pub sync_error_ppm: u32,
    /// A read finds that a bit of its range has flipped, for good.
    pub bit_rot_ppm: u32,
    /// A read finds that a sector of its range has become zeros, for good.
    pub zeroed_sector_ppm: u32,
    /// A write is acknowledged and lands in another place of the same file.
    pub misdirected_write_ppm: u32,
    /// A write is acknowledged and never done.
    pub lost_write_ppm: u32,
    /// The most polls of its queue for which a request may be under way, so that requests complete
    /// out of order. Zero: immediately and in order.
    pub latency_polls_max: u32,
    /// Every sync, of files and of directories, is acknowledged and makes nothing durable: a disk
    /// that lies about its flush.
    pub lying_flush: bool,
    /// The same for syncs of the files of one name alone: a store that forgets one of its syncs.
    pub unsynced_name: Option<&'static str>,
}

/// The fate of the bytes that a failed sync was to make durable. All three have been seen on real
/// file systems; all three are why a failed sync must not be retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncFailure {
    /// The cache calls them clean: reads still see them, later syncs succeed without them, and a
    /// crash loses them.
    MarkedClean,
    /// The cache drops them: reads see the old bytes from now on.
    Reverted,
    /// They stay unchanged, but the next sync of the file succeeds without doing anything.
    ReportedOnce,
}

impl SyncFailure {
    pub(super) const ALL: [Self; 3] = [Self::MarkedClean, Self::Reverted, Self::ReportedOnce];
}

impl Faults {
    /// Returns the faults of a disk on which nothing goes wrong without a request for it.
    pub fn none() -> Self {
        Self::default()
    }

    /// Every knob drawn from `seed`, each of them off for most seeds.
    ///
    /// The promises of the store assume an honest flush, so `lying_flush` is never drawn. Silent
    /// damage may make data unreadable for good: a harness that expects all of it back takes
    /// [`Faults::loud`].
    pub fn drawn(seed: u64) -> Self {
        let mut dice = Dice::new(seed, "silent faults");
        let mut chance = || dice.rarely();
        Self {
            bit_rot_ppm: chance(),
            zeroed_sector_ppm: chance(),
            misdirected_write_ppm: chance(),
            lost_write_ppm: chance(),
            ..Self::loud(seed)
        }
    }

    /// Like [`Faults::drawn`], but only faults that the disk reports: errors and latency.
    pub fn loud(seed: u64) -> Self {
        let mut dice = Dice::new(seed, "loud faults");
        let latency_polls_max = [0, 0, 3, 20][dice.below(4) as usize];
        let mut chance = || dice.rarely();
        Self {
            read_error_ppm: chance(),
            write_error_ppm: chance(),
            no_space_ppm: chance(),
            sync_error_ppm: chance(),
            latency_polls_max,
            ..Self::none()
        }
    }
}

impl Dice {
    /// A chance that is zero three times in four, and else small or, seldom, great.
    fn rarely(&mut self) -> u32 {
        self.pick(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 100, 3_000, 50_000])
    }
}
