//! The planted bugs by name, and the checks that must find each.

use crate::Check;

macro_rules! flaws {
    ($($flaw:ident, $name:literal, $what:literal, [$($check:ident),+];)*) => {
        /// One planted bug.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Flaw {
            $(#[doc = $what] $flaw,)*
        }

        impl Flaw {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$flaw),*];

            /// Returns its name.
            pub fn name(self) -> &'static str {
                match self { $(Self::$flaw => $name,)* }
            }

            /// Returns the defect in words.
            pub fn what(self) -> &'static str {
                match self { $(Self::$flaw => $what,)* }
            }

            /// Returns the checks that must each find it.
            pub fn caught_by(self) -> &'static [Check] {
                match self { $(Self::$flaw => &[$(Check::$check),+],)* }
            }
        }
    };
}

flaws! {
    LosesAWrite, "loses-a-write", "Every 40th write is acknowledged and dropped.",
        [Model, Crashes];
    WalkGoesOnTooFar, "walk-goes-on-too-far", "A walk that is begun again leaves one pair out.",
        [Model];
    ServesStaleReads, "stale-reads", "A cache of reads is not always told of writes.",
        [Model, Registers];
    LosesUpdates, "lost-update",
        "A read-modify-write copies its key's neighbour, and puts the copy back over newer values.",
        [Registers, Counters];
    ShowsOperatorsOldValues, "stale-rmw",
        "A read-modify-write is now and then shown the value before the last.",
        [Model, Counters];
    ConfirmsAnything, "confirms-anything",
        "A lookup confirms old values that others have changed since.", [Registers, Counters];
    AbsentDuringFlush, "false-absence", "While a flush runs, some keys look absent.",
        [Registers];
    ScanMissesAKey, "scan-misses-a-key", "A scan leaves out a pair now and then.",
        [Model, Snapshots];
    ViewIsNoSnapshot, "view-is-no-snapshot", "A read at a pin shows the present.",
        [Model, Snapshots];
    ViewMissesTheLastWrite, "view-too-old", "A scan now and then shows the pin of the scan before it.",
        [Model, Snapshots];
    ForgetsThePin, "forgets-the-pin",
        "A lookup at a pin that has waited for the device shows the present.", [Model, Snapshots];
    ScanEndsAreOff, "range-end-off-by-one", "Backward scans include an excluded upper end.",
        [Model];
    SparesTheFirstOfARange, "spares-the-first",
        "A range delete leaves the first key of its range where it is.", [Model];
    ClaimsOrder, "claims-order", "Scans give pairs in the order of a hash.",
        [Model];
    PanicsOnEmptyKey, "panics-on-empty-key", "The empty key panics.",
        [Model];
    CutsLongKeys, "cuts-long-keys", "Keys are cut at 255 bytes.",
        [Model];
    EmptyValueIsAbsence, "empty-value-is-absence", "An empty value reads as none.",
        [Model];
    AppendsToTheBuffer, "appends-to-buffer", "A get appends to the caller's buffer.",
        [Model];
    MixesUpMultiGet, "multi-get-mixed-up", "multi_get answers a key asked twice once.",
        [Model];
    NumbersByArrival, "numbers-by-arrival", "A write that was applied before is applied again.",
        [Model];
    AppliesStepByStep, "step-by-step",
        "What a batch deletes and puts is away in between.", [Registers];
    ReplaysHalfABatch, "half-a-batch", "Replay applies the first step of some batches only.",
        [Model, Crashes];
    ResurrectsDeletes, "resurrects-deletes", "Opening brings a deleted key back.",
        [Model, Crashes];
    PersistedTooHigh, "persisted-too-high", "persisted() names what is applied, not what is durable.",
        [Model, Crashes];
    PersistedIsTheNewest, "persisted-is-the-newest",
        "A flush claims what was applied when it ended, not what it wrote.", [Crowd];
    IgnoresTheBarrier, "ignores-the-barrier", "Files are written ahead of the journal.",
        [Model, Crashes];
    HalfCheckpoint, "empty-checkpoint", "Every other checkpoint writes nothing.",
        [Model];
    RefusesHalf, "refuses-half", "A batch with a bad key is refused, its other steps are applied.",
        [Model];
    AnswersAfterClose, "answers-after-close", "Calls after close go on working.",
        [Model];
    AdmitsAnything, "admits-anything", "Room is granted, and apply refuses for want of memory.",
        [Budget];
    AdmitsAnythingWithoutWait, "admits-anything-without-wait",
        "Room is granted to a caller that does not wait, whether there is some or not.", [Budget];
    ForgetsToRelease, "forgets-to-release", "The rest of a reservation does not return.",
        [Reservations];
    SpendsMoreThanReserved, "spends-more-than-reserved",
        "A write takes more memory than was reserved for it.", [Reservations];
    WaitsInApply, "waits-in-apply", "A write now and then waits for the device.", [Waits];
    ReadsInLookup, "reads-in-lookup", "A lookup waits for its read.", [Waits];
    StartsAnewOnDamage, "starts-anew-on-damage", "A damaged store is replaced by an empty one.",
        [Damage];
    SwallowsFailedSync, "carries-on-after-failed-sync", "A failed sync counts as one that succeeded.",
        [Errors];
    RetriesFailedSync, "retries-failed-sync", "A failed sync is tried again, and then believed.",
        [Errors];
    GoesOnAfterFailure, "goes-on-after-failure", "After a failed flush, writes are taken as before.",
        [Errors];
    SkipsSuperblockSync, "skips-superblock-sync", "The superblock is not synced.",
        [Crashes];
    SkipsSnapshotSync, "skips-snapshot-sync", "The snapshot is not synced before it is committed.",
        [Crashes];
    SkipsDirectorySync, "skips-directory-sync", "Directories are never synced.",
        [Crashes];
    DeletesOldFirst, "deletes-old-first", "The old snapshot goes before the new one is committed.",
        [Crashes];
    RewritesTheSuperblockOnOpening, "unsafe-recovery",
        "Recovery replaces the superblock, and is not safe to be cut off.",
        [Crashes];
    WritesSalt, "salt", "Files hold bytes that no seed decides.",
        [Determinism];
}

impl Flaw {
    /// Returns whether it is between the engine and its disk.
    pub(super) fn is_of_the_disk(self) -> bool {
        matches!(
            self,
            Self::SwallowsFailedSync
                | Self::RetriesFailedSync
                | Self::SkipsSuperblockSync
                | Self::SkipsSnapshotSync
                | Self::SkipsDirectorySync
                | Self::DeletesOldFirst
        )
    }
}
