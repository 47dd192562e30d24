//! The options of a store.

use engine::{Error, Result};

use crate::driver::CAPABILITIES;

/// Options of the engine `hashkv`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Pairs whose key and value have fewer bytes are kept in the index. Each opening may use
    /// another number: pairs that are stored stay where they are. At most 64 KiB. Default: 192.
    pub separation_bytes: u32,
    /// Bytes of a segment, at most; fixed when the store is made. A power of two. With less than
    /// 64 times this memory it is less, down to 64 KiB. Default: 1 MiB.
    pub segment_bytes_max: u32,
    /// Groups, at most; fixed when the store is made. A power of two. There are fewer if segments
    /// of all of them would be larger than a quarter of the memory. Default: 64.
    pub groups_max: u32,
    /// Bytes of the write buffers, at most. With less than four times this memory it is a quarter
    /// of the memory. Default: 256 MiB.
    pub buffer_bytes_max: u64,
    /// Bytes of the device that values take at most. A write that would pass it waits for the
    /// collection of garbage, and is refused if there is none. The index is not counted. At least
    /// 16 segments.
    ///
    /// To be of use, it has at least four segments and two for each group, in addition to the live
    /// bytes: with less, puts to an almost empty store may be refused. A store that is made with a
    /// bound gets segments and groups for which these segments take half of it at most. One segment
    /// for each group is kept for deletes.
    ///
    /// With `None` no write is refused. Writes wait while values take more than this sum: the live
    /// bytes, [`Options::reserve_percent`] of them, 20 segments, and two segments for each group.
    /// Default: `None`.
    pub disk_bytes_max: Option<u64>,
    /// Space for garbage, in percent of the live bytes, without [`Options::disk_bytes_max`]. More
    /// of it means fewer bytes copied by the collector. At most 400. Default: 30.
    pub reserve_percent: u32,
    /// The choice of segments that are collected. Default: [`Policy::CostBenefit`].
    pub policy: Policy,
    /// Bytes of the segment table's file after which it is rewritten, if that makes it shorter by
    /// half. Default: 1 MiB.
    pub table_bytes: u64,
}

/// The choice of the segments of a group that are collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Those with the most free bytes times age for the bytes that are read and written.
    CostBenefit,
    /// Those with the fewest live bytes.
    Greedy,
    /// The one with the fewest live bytes of a few that are drawn, again and again.
    GreedyRandom,
    /// All of the group, as in the paper (HashKV 3.2).
    Group,
}

impl Policy {
    /// All of them, in the order of their names.
    pub const ALL: [Self; 4] = [Self::CostBenefit, Self::Greedy, Self::GreedyRandom, Self::Group];

    /// Returns its name in settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::CostBenefit => "cost-benefit",
            Self::Greedy => "greedy",
            Self::GreedyRandom => "greedy-random",
            Self::Group => "group",
        }
    }
}

engine::setting_words!(
    Policy: Self::CostBenefit, Self::Greedy, Self::GreedyRandom, Self::Group
);

impl Default for Options {
    fn default() -> Self {
        Self {
            separation_bytes: 192,
            segment_bytes_max: 1 << 20,
            groups_max: 64,
            buffer_bytes_max: 256 << 20,
            disk_bytes_max: None,
            reserve_percent: 30,
            policy: Policy::CostBenefit,
            table_bytes: 1 << 20,
        }
    }
}

impl Options {
    /// Memory that a store should have at least.
    pub const MEMORY_BYTES_MIN: u64 = 4 << 20;
    /// The largest [`Options::separation_bytes`].
    pub const SEPARATION_BYTES_MAX: u32 = 64 << 10;

    /// Checks that each option has an allowed value.
    ///
    /// # Errors
    /// [`Error::BadOption`].
    pub(crate) fn check(&self) -> Result<()> {
        let segment_bytes = self.segment_bytes_max;
        let rules = [
            (
                self.separation_bytes <= Self::SEPARATION_BYTES_MAX,
                "separation_bytes",
                "at most 64 KiB",
            ),
            (
                segment_bytes.is_power_of_two() && (8 << 10..=64 << 20).contains(&segment_bytes),
                "segment_bytes_max",
                "a power of two, from 8 KiB to 64 MiB",
            ),
            (
                self.groups_max.is_power_of_two() && self.groups_max <= 4096,
                "groups_max",
                "a power of two, at most 4096",
            ),
            (self.reserve_percent <= 400, "reserve_percent", "at most 400"),
        ];
        rules.into_iter().try_for_each(|(is_met, option, allowed)| match is_met {
            true => Ok(()),
            false => Err(Error::BadOption { engine: CAPABILITIES.name, option, allowed }),
        })
    }
}
