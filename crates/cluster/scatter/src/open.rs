//! Opens the device of a range.

use std::sync::Arc;

use codec::Corruption;
use logc::Setup;
use stoc::Kind;

use crate::device::RangeDevice;
use crate::place::{Failure, Live, Place};
use crate::reading::Latencies;

/// The logs of a range, and how its tables are stored.
#[derive(Clone, Debug)]
pub struct Options {
    /// The logs, the owner and the StoCs.
    pub logs: Setup,
    /// The StoCs that have a fragment of a table.
    pub copies: usize,
    /// The most fragments of a table: the paper's rho. A table has one for each 2 MiB.
    pub rho: u32,
}

/// A failure of an opening.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// The logs could not be opened.
    #[error(transparent)]
    Log(#[from] logc::Error),
    /// The files of the range are damaged.
    #[error(transparent)]
    Damaged(#[from] Corruption),
}

/// Opens the logs of a range under an epoch, and the device above them.
///
/// # Errors
/// Those of [`logc::open`]; damage.
pub fn open(options: &Options) -> Result<RangeDevice, Error> {
    let Options { logs, copies, rho } = options;
    let Setup { range, epoch, slow, .. } = *logs;
    let mut opened = logc::open(logs, &[Kind::Log, Kind::Manifest])?.into_iter();
    let (Some(journal), Some(manifest)) = (opened.next(), opened.next()) else {
        return Err(logc::Error::Closed.into());
    };
    let purpose = format!("copies of range {range} epoch {epoch}");
    let place = Arc::new(Place {
        range,
        epoch,
        stocs: Arc::clone(&logs.stocs),
        copies: *copies,
        rho: *rho,
        slow,
        environment: logs.environment.clone(),
        closing: logs.closing.clone(),
        latencies: Latencies::new(slow),
        live: Live::new(logs.environment.random(&purpose)),
    });
    RangeDevice::new(place, journal, manifest).map_err(|failure| match failure {
        Failure::Damaged(damage) => Error::Damaged(damage),
        Failure::Closed | Failure::Full => Error::Log(logc::Error::Closed),
        Failure::Fenced => Error::Log(logc::Error::Fenced { range, epoch }),
        Failure::Unavailable => {
            let what = "the files of the range cannot be read";
            Error::Log(logc::Error::Unavailable(what.into()))
        }
    })
}
