//! Workload names, to and from text.

use std::fmt;
use std::str::FromStr;

use super::Workload;

/// A workload that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown workload {0:?}: ycsb-a to ycsb-f, ycsb-w, mixgraph-all, mixgraph-prefix (both also with \
     -points), hashkv-p0 to hashkv-p3, r100, rw50, sw50, w100, s100, flexdb-put, flexdb-get, flexdb-scan, \
     load, trace:FILE"
)]
pub struct WorkloadError(String);

impl FromStr for Workload {
    type Err = WorkloadError;

    fn from_str(text: &str) -> Result<Self, WorkloadError> {
        let fixed = match text {
            "mixgraph-all" => Some(Self::MixGraphAll { seeks: true }),
            "mixgraph-all-points" => Some(Self::MixGraphAll { seeks: false }),
            "mixgraph-prefix" => Some(Self::MixGraphPrefix { seeks: true }),
            "mixgraph-prefix-points" => Some(Self::MixGraphPrefix { seeks: false }),
            "r100" => Some(Self::R100),
            "rw50" => Some(Self::Rw50),
            "sw50" => Some(Self::Sw50),
            "w100" => Some(Self::W100),
            "s100" => Some(Self::S100),
            "flexdb-put" => Some(Self::FlexPut),
            "flexdb-get" => Some(Self::FlexGet),
            "flexdb-scan" => Some(Self::FlexScan),
            "load" => Some(Self::Load),
            "hashkv-p0" => Some(Self::HashKv(0)),
            "hashkv-p1" => Some(Self::HashKv(1)),
            "hashkv-p2" => Some(Self::HashKv(2)),
            "hashkv-p3" => Some(Self::HashKv(3)),
            _ => None,
        };
        let ycsb = || {
            let letter = text.strip_prefix("ycsb-")?;
            let mut letters = letter.chars();
            let first = letters.next().filter(|letter| "abcdefw".contains(*letter))?;
            letters.next().is_none().then_some(Self::Ycsb(first))
        };
        let trace = || {
            let file = text.strip_prefix("trace:")?;
            (!file.is_empty()).then(|| Self::Trace(file.to_owned()))
        };
        fixed.or_else(ycsb).or_else(trace).ok_or_else(|| WorkloadError(text.to_owned()))
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ycsb(letter) => write!(f, "ycsb-{letter}"),
            Self::MixGraphAll { seeks: true } => f.write_str("mixgraph-all"),
            Self::MixGraphAll { seeks: false } => f.write_str("mixgraph-all-points"),
            Self::MixGraphPrefix { seeks: true } => f.write_str("mixgraph-prefix"),
            Self::MixGraphPrefix { seeks: false } => f.write_str("mixgraph-prefix-points"),
            Self::HashKv(phase) => write!(f, "hashkv-p{phase}"),
            Self::R100 => f.write_str("r100"),
            Self::Rw50 => f.write_str("rw50"),
            Self::Sw50 => f.write_str("sw50"),
            Self::W100 => f.write_str("w100"),
            Self::S100 => f.write_str("s100"),
            Self::FlexPut => f.write_str("flexdb-put"),
            Self::FlexGet => f.write_str("flexdb-get"),
            Self::FlexScan => f.write_str("flexdb-scan"),
            Self::Load => f.write_str("load"),
            Self::Trace(file) => write!(f, "trace:{file}"),
        }
    }
}
